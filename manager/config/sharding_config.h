/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sharding_config.h - the fields of a ShardingConfig: rows, and the structs that they fill.
 *
 * Of these rows are made the schema in the CustomResourceDefinition and docs/reference.md
 * (CONTRIBUTING.md, "A new field of a custom resource"). What takes more than one object to see, or
 * the rules that are made of it, is checked where it is compiled (compile/compile.h).
 */
#ifndef MANAGER_CONFIG_SHARDING_CONFIG_H
#define MANAGER_CONFIG_SHARDING_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "schema/schema.h"

#define SHARDING_SHARED_MAX 32 /* entries of sharedNamespaces */

/* Of spec.root. */
#define ROOT_SHARDS_MAX 32     /* normal shards */
#define ROOT_REPLICAS_MAX 1000 /* pods of one shard */
#define ROOT_TAKEOVER_MIN 5    /* seconds */
#define ROOT_TAKEOVER_MAX 86400
#define ROOT_MOVES_MAX 32 /* buckets in an hour */

struct sharding_resources {
    struct schema_texts groups;
    struct schema_texts resources;
};

struct sharding_limit {
    struct schema_list related;           /* struct sharding_resources */
    const cJSON *selector;                /* NULL: there is none */
    const cJSON *namespaces;              /* namespaceSelector; likewise */
    const struct sharding_limit *wrapped; /* objectSelector, in place of all above; NULL */
};

struct sharding_controller {
    const char *lock;
    const char *lock_namespace; /* "" without a lock */
    const char *user_agent;
};

/* Who reviews objects of a namespace that moves between shards, until its new one has it. */
enum sharding_handover {
    SHARDING_OLD_OWNER, /* the shard that had it */
    SHARDING_HOLD,      /* nobody: the failurePolicy decides */
};

struct sharding_webhook {
    const char *cert_dir;
    uint32_t port;     /* 0: not said */
    unsigned handover; /* enum sharding_handover */
};

struct sharding_canary {
    uint32_t replicas; /* UINT32_MAX: not said */
    struct schema_texts namespaces;
    struct schema_texts hashes; /* "0" to "31" */
};

struct sharding_seconds {
    uint32_t seconds;
};

struct sharding_moves {
    uint32_t an_hour;
};

struct sharding_auto {
    uint32_t size;                    /* of normal shards; 0: as many as the target has pods for */
    uint32_t every;                   /* pods of each */
    struct sharding_seconds takeover; /* 0: none */
    struct sharding_moves rebalance;  /* likewise */
};

struct sharding_root {
    bool disable;
    const char *prefix;
    const char *stateful_set; /* its name, */
    const char *deployment;   /* or that of a Deployment; the other one is "" */
    struct sharding_canary canary;
    const struct sharding_auto *automatic; /* NULL: there is none */
    struct schema_list resources;          /* struct sharding_limit */
};

struct sharding_spec {
    const cJSON *selector; /* of pods; NULL: there is none */
    struct sharding_controller controller;
    const struct sharding_webhook *webhook; /* NULL: there is none */
    struct schema_texts shared;
    const char *leaving;              /* the shard that has everything; "": they are not left */
    struct schema_list limits;        /* struct sharding_limit */
    const struct sharding_root *root; /* NULL: it is none */
};

extern const struct schema_object sharding_spec;

struct sharding_metadata {
    const char *namespace; /* "": not said */
    const char *name;
};

struct sharding_head {
    unsigned version; /* the index of apiVersion among sharding_versions */
    struct sharding_metadata metadata;
    const cJSON *spec;
};

extern const char *const sharding_versions[];

/* These stop at the first error: 0, or -EINVAL or -E2BIG with the path of the field in the message.
 * Texts and trees belong to the config, all else to `memory`. */
MUST_CHECK int sharding_read_head(const cJSON *config, struct sharding_head *out, struct err *e);
MUST_CHECK int sharding_read_spec(const cJSON *spec, struct schema_memory *memory,
                                  struct sharding_spec *out, struct err *e);
MUST_CHECK int sharding_read_root(const cJSON *root, struct schema_memory *memory,
                                  struct sharding_root *out, struct err *e);

/* What is wrong with the name of a namespace that is to be shared, or NULL. */
const char *sharding_check_shared(struct slice name);

#endif
