/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules_map.h - the ConfigMap in which a shard's rules stand: what is read from one, and how it
 * should be. Beside the rules stands the traffic document, in a key of its own that comes and goes
 * without them; rules have the first claim to the room.
 *
 * Glossary: it is *ours* when it carries our label or says whose it is, and nothing else controls
 * it; what is not ours is left alone. It is *intact* when its text is exactly what would be written
 * for these rules and this generation.
 *
 * It has no owner, but an annotation with the uid of its ShardingConfig: when that is deleted, pods
 * go on mounting the rules until they are gone, and the API server's garbage collector would delete
 * them before. Earlier releases made the ShardingConfig its owner.
 */
#ifndef MANAGER_CACHE_RULES_MAP_H
#define MANAGER_CACHE_RULES_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "rules/rules.h"
#include "traffic/traffic.h"

/* Label, below the prefix: "true" on each ConfigMap of ours. */
#define RULES_MAP_LABEL "rules"
/* Annotation, below the prefix, for people: the generation. */
#define RULES_MAP_GENERATION "rules-generation"
/* Annotation, below the prefix: the uid of the ShardingConfig. */
#define RULES_MAP_CONFIG "sharding-config-uid"
#define RULES_MAP_KEY "rules.json"
/* The shard's traffic document; no such key: there are no policies for its pods. */
#define RULES_MAP_TRAFFIC "traffic.json"
/* Who writes it, as managedFields tell. */
#define RULES_MAP_MANAGER "cmesh-manager"

/* What the API server takes in one ConfigMap: bytes of all values. */
#define RULES_MAP_MAX ((size_t)1024 * 1024)

/* What stands in it as the shard's traffic document. Of the text only this is kept: it can be asked
 * for. */
struct rules_map_traffic {
    bool present;        /* the key is there, whatever its text */
    bool intact;         /* it is a document of the shard, exactly as it would be written */
    uint64_t generation; /* 0: it cannot be read, or was not */
    size_t size;         /* bytes of the text */
    char checksum[TRAFFIC_CHECKSUM_LEN + 1]; /* "": it cannot be read, or was not */
    uint64_t text_hash;                      /* keyed_hash of the text; 0: there is none */
};

/* Never changed. A few hundred bytes, without the rules. */
struct rules_map {
    const char *key; /* "namespace/shard": of the config that it belongs to by its name */
    const char *ns;
    const char *name;
    const char *shard;
    const char *uid;
    const char *version;
    const char *config_uid; /* of the ShardingConfig whose it is; "": nobody says */
    const char *checksum;   /* of the rules in it; "" */
    const char *lock;       /* rules_leader_election of them; "" */
    const char *changed_by; /* the field manager that changed it last, of those that are not this
                               manager, and when; "": none, or it was not read */
    const char *text_hash;  /* of its text; "": it was not read */
    struct rules *rules;    /* that are in it; NULL: they cannot be read, or were not */
    uint64_t generation;    /* of the rules in it; 0: they cannot be read, or were not */
    uint64_t voids;         /* rules_voids of them */
    size_t rules_size;      /* bytes of the text of the rules */
    size_t foreign_size;    /* bytes of keys that are not ours */
    struct rules_map_traffic traffic;
    bool labelled;      /* has our label */
    bool described;     /* the other labels and annotations are as we write them */
    bool owned;         /* it has owners */
    bool foreign_owner; /* something else controls it */
    bool unread;        /* nobody has looked at its text */
    bool later;         /* they cannot be read, for they are of a version not known here, or over
                           the bounds: what another release wrote */
    size_t given_up;    /* bytes of its rules, which there is no room for; 0: they are kept */
    bool intact;
};

/* NULL: its name is not that of such a ConfigMap. */
MUST_CHECK struct rules_map *rules_map_new(const cJSON *object, const char *prefix);
/* The same, but what `known` has read (NULL: there is none) is not read again when the text is the
 * same; and a text that nobody knows is read only if it is wanted. */
MUST_CHECK struct rules_map *rules_map_look(const cJSON *object, const char *prefix,
                                            const struct rules_map *known, bool wanted);
/* NULL is ignored. */
void rules_map_free(struct rules_map *m);

/* Its rules are not kept any more: as if they were of a later version. Checksum,
 * generation and lock are known on. */
void rules_map_give_up(struct rules_map *m);
/* Nobody has looked at its text, as far as is remembered. */
void rules_map_forget(struct rules_map *m);

/* If `like` say what is in it, they are in memory once from now on; also if they were given up. */
void rules_map_share(struct rules_map *m, struct rules *like);

bool rules_map_ours(const struct rules_map *m);
/* Whether it says of which ShardingConfig it is. */
bool rules_map_claims(const struct rules_map *m);

/* The name of the shard's ConfigMap. The caller frees. */
MUST_CHECK char *rules_map_name(const char *shard);

/* Whether nothing is to be written: intact, of this generation and these rules, of the config with
 * this uid, and labelled. */
bool rules_map_right(const struct rules_map *m, const char *config_uid, uint64_t generation,
                     const char *checksum);

/* What is to be written. `old` NULL: an object to create; else a merge patch that the API server
 * refuses when it was changed since. The rules are in the oldest version in which they fit, so that
 * also older pods read them: *version. NULL, -E2BIG: larger than the API server takes, the message
 * has the sizes. */
MUST_CHECK cJSON *rules_map_make(const struct rules_map *old, const struct rules *rules,
                                 const char *prefix, const char *config_uid,
                                 enum rules_version *version, struct err *e);

/* Bytes that a traffic document may have beside these rules: in what rules_map_make has made for
 * `old`, and in what stands there now. */
size_t rules_map_room_in(const struct rules_map *old, const cJSON *made);
size_t rules_map_room(const struct rules_map *m);

/* The traffic document is written too; `text` NULL: there is none from now on. `old` as it was in
 * rules_map_make, whose object that is. */
void rules_map_add_traffic(cJSON *made, const struct rules_map *old, const char *text);
/* What is to be written of the traffic document alone: a merge patch, as above. */
MUST_CHECK cJSON *rules_map_make_traffic(const struct rules_map *old, const char *text);

#endif
