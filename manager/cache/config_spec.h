/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_spec.h - the spec of a ShardingConfig and what it compiles to, in little memory: it is
 * kept as text, for as a tree it takes ten times as much, and only until it is compiled; for as
 * long as it is there if it is a root's, which is never compiled, or compiled anew whenever labels
 * of namespaces change or other namespaces are shared. What is asked for again and again stays as a
 * tree: which pods it selects, the lock and where it is, the shard that all is left to, what the
 * operator is called at the API server, the port of its webhooks and who answers during a handover,
 * of a root its prefix and its workload, and of a root's canary what it has of all namespaces
 * (root_child_share).
 */
#ifndef MANAGER_CACHE_CONFIG_SPEC_H
#define MANAGER_CACHE_CONFIG_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/byte_budget.h"
#include "base/err.h"
#include "compile/compile.h"
#include "compile/namespace_selectors.h"
#include "rules/rules.h"

/* All zero: nothing is known. */
struct config_spec {
    bool lacks_limits; /* compile_lacks_limits */
    bool unlimited;    /* it has a list of limits, without any */
    bool root;         /* it has spec.root */
    bool by_hash;      /* its limits ask for the hash, so depend on what is shared; if compiled */
    uint64_t digest;   /* json_digest of it; 0: nothing is known */
    char *text;        /* JSON; NULL: there is none, or nobody asks for it any more */
    struct namespace_selectors *asks; /* which its limits have; NULL: none, or it was given up */
    size_t namespaces;                /* that these select, if it is compiled */
    bool compiled;
    struct rules *rules; /* NULL: not compiled, or refused */
    int refused;         /* -EINVAL, -E2BIG, -EDQUOT; 0: it is not */
    char *refusal;       /* why; NULL: it is not */
};

/* What is known is that of this object; the old is forgotten. */
void config_spec_set(struct config_spec *s, const cJSON *object);

/* What stays of an object: no spec but for the parts above, of metadata what the manager looks at,
 * with labels and annotations below the prefix and the owner that controls it, and the status. The
 * caller frees. */
MUST_CHECK cJSON *config_spec_rest(const cJSON *object, const char *prefix);

/* There is no memory for the share of a canary. */
void config_spec_drop_share(cJSON *rest);

/* The whole object of a root: `rest` with its spec. The caller frees. NULL: it was given
 * up. */
MUST_CHECK cJSON *config_spec_whole(const struct config_spec *s, const cJSON *rest);

/* Compiled at the first call; `rest` is left as it was. The rules count in `budget`. The spec holds
 * the reference. NULL: as compile_config. */
struct rules *config_spec_compile(struct config_spec *s, cJSON *rest,
                                  const struct compile_options *o, struct byte_budget *budget,
                                  struct err *e);

/* What it comes to is other than before, for it has selectors of namespaces: it is compiled at the
 * next call. */
void config_spec_renew(struct config_spec *s);

/* It is refused from now on with that message and -EDQUOT, and takes no memory any more. */
void config_spec_give_up(struct config_spec *s, const char *why);

/* Bytes of memory, about, without those of the rules. */
size_t config_spec_weight(const struct config_spec *s);

void config_spec_forget(struct config_spec *s);

#endif
