/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shards.h - which pods a shard has, and which shard a pod belongs to.
 *
 * A config with spec.root has no pods of its own.
 */
#ifndef MANAGER_COMPILE_SHARDS_H
#define MANAGER_COMPILE_SHARDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "kube/selector.h"

/* The pod selector of a config, which the caller frees. NULL: -EINVAL with the field in the message
 * (there is none, or it is empty, or wrong). */
MUST_CHECK struct selector *shards_pod_selector(const cJSON *config, struct err *e);

/* "" when they are absent. */
const char *shards_name(const cJSON *object);
const char *shards_namespace(const cJSON *object);

/* A config, and what is asked of it again and again. */
struct shards_item {
    const cJSON *config;
    const char *ns;
    const char *name;
    bool root;
    const struct selector *pods; /* that it selects; NULL: to be read from the config */
    uint64_t sized_ms;           /* cache/shard_cache.h; 0: long ago */
};

/* Those of any namespace, or of one. */
struct shards_list {
    const struct shards_item *items;
    size_t count;
    /* Who asks may be anybody, and is told no names of what there is: those of a refusal go here,
     * ERR_MSG_MAX bytes, for the log. NULL: they may stand in the message. */
    char *withheld;
};

/* printf arguments: the namespace. What to ask who may know. */
#define SHARDS_SHOW                                                                                \
    "kubectl -n %.63s get shardingconfigs -o "                                                     \
    "custom-columns=NAME:.metadata.name,SELECTOR:.spec.selector"

/* What stands in the config; `pods` is NULL. */
struct shards_item shards_item_of(const cJSON *config);

/* Notes names that are withheld, where they are. */
void shards_withhold(const struct shards_list *list, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The one config of that namespace that selects the pod; those that are invalid are passed over.
 * NULL: none does, or several do (-ENOENT and -EEXIST, with a message). */
MUST_CHECK const cJSON *shards_of_pod(const struct shards_list *list, const char *ns,
                                      const cJSON *pod, struct err *e);

#endif
