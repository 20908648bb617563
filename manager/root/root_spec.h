/* SPDX-License-Identifier: Apache-2.0 */
/*
 * root_spec.h - spec.root of a ShardingConfig, read: what automatic shards are to be.
 *
 * Glossary: a *root* is a ShardingConfig with spec.root; its *children* are the ShardingConfigs
 * that are made of it, one for each shard: number 0 is the *canary*, 1 to 32 are *normal* shards. A
 * *bucket* is one value of the sharding hash, 0 to 31: all namespaces of that hash.
 */
#ifndef MANAGER_ROOT_ROOT_SPEC_H
#define MANAGER_ROOT_ROOT_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "config/sharding_config.h"

struct root_canary {
    unsigned replicas;       /* 0: there is no canary, and what follows is empty */
    const cJSON *namespaces; /* an array of names; NULL: none */
    uint32_t buckets;        /* bit i: of hash i */
};

struct root_auto {
    bool there;
    unsigned size;           /* of normal shards; 0: as many as the target has pods for */
    unsigned every;          /* pods of each */
    unsigned takeover_s;     /* a shard without a living pod for so long gives its buckets to the
                                others; 0: it keeps them */
    unsigned moves_per_hour; /* buckets that may move for the sake of load; 0: none */
};

/* Texts and trees belong to the config. */
struct root_spec {
    bool disable; /* the children stay as they are */
    const char *prefix;
    bool deployment;    /* the target is one; else a StatefulSet */
    const char *target; /* its name, in the config's namespace */
    struct root_canary canary;
    struct root_auto automatic;
    const cJSON *resources; /* resourceSelector: an array of at least one object; each may be
                               wrapped in an objectSelector */
};

/* 0; -EINVAL or -E2BIG with the path of the field in the message. What is selected by the limits of
 * resourceSelector, and what else stands beside root, is checked where children are compiled. */
MUST_CHECK int root_spec_read(const cJSON *config, struct root_spec *out, struct err *e);

/* "Deployment" or "StatefulSet". */
const char *root_target_kind(const struct root_spec *spec);

/* The ordinal of a StatefulSet's first pod, spec.ordinals.start. */
unsigned root_first_ordinal(const cJSON *stateful_set);

#endif
