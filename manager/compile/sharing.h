/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sharing.h - shared namespaces: what all shards of an operator see and may write, such as the
 * namespace in which the operator itself runs and keeps its Secrets.
 *
 * A label selector cannot say "hash 3, or namespace ops". So objects in a namespace that is shared
 * have the namespace's name in place of the hash (rules/sharding.h), and each limit lists
 * the names beside its hashes: those that its config shares, and of the others those whose hash is
 * its own, so that they stay where they were. Rules that do not list a name do not see it: what is
 * late shows too little, never too much. For that `NotIn` of the hash is compiled to `In`.
 *
 * Requirements on other labels stay: of a shared namespace, too, a shard sees only what has them.
 */
#ifndef MANAGER_COMPILE_SHARING_H
#define MANAGER_COMPILE_SHARING_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/flags.h"
#include "kube/selector.h"
#include "rules/rules.h"

#define SHARING_FIELD "sharedNamespaces" /* of a config's spec */

/* The namespaces that are shared. All zero: none. */
struct sharing_set {
    char **names; /* sorted, each once */
    size_t count;
    bool unknown; /* there may be others: not all configs are known yet */
};

/* By whom a namespace may be shared, as that relabels what is in it: by a config of its own; by
 * any, where `any` says so; and a config that lists one that is shared already sees it. */
struct sharing_consent {
    const char *ns;                  /* of the config; NULL: none */
    const struct flag_list *any;     /* namespaces; NULL: none */
    const struct sharing_set *known; /* NULL: none */
};

/* What --shareable-namespaces says. 0 or -EINVAL. */
MUST_CHECK int sharing_check_flag(const struct flag_list *names, struct err *e);
bool sharing_allowed(const struct sharing_consent *c, const char *ns);
/* As a copy of spec.sharedNamespaces of a config; what is no good name, or not allowed, is passed
 * over. */
void sharing_set_add(struct sharing_set *s, const cJSON *config, const struct sharing_consent *c);
bool sharing_set_has(const struct sharing_set *s, const char *ns);
bool sharing_set_equal(const struct sharing_set *a, const struct sharing_set *b);
void sharing_set_deinit(struct sharing_set *s);

/* What a config shares: an array of strings; NULL: nothing, or something is wrong with it. */
const cJSON *sharing_of(const cJSON *config);

struct sharing {
    const cJSON *own;              /* of the config */
    const struct sharing_set *all; /* of all configs; NULL: none is known */
    const char *namespace_key;
    const char *hash_key;
};

/* Lets the shared namespaces through a metav1.LabelSelector, which may be wrong. */
void sharing_widen(const struct sharing *s, cJSON *label_selector);
/* The same of a selector that is `namespace_key in (...)`, or matches nothing. */
struct selector *sharing_widen_names(const struct sharing *s, const struct selector *names);

/* What is the shard's alone: the rules without the namespaces that its config shares, to compare
 * with those of other shards. The caller holds one reference, perhaps to `rules` itself if it
 * shares none. NULL: they would be too large. */
MUST_CHECK struct rules *sharing_leave_out(struct rules *rules, const cJSON *own,
                                           const struct sharing_set *all);

/* The reverse: limits of rules come to show nothing but the namespaces that the config shares;
 * nothing at all if there are none. */
void sharing_hide(cJSON *limits, const struct rules_labels *keys, const cJSON *own);
/* Rules with such limits. The caller holds one reference. NULL: they would be too large. */
MUST_CHECK struct rules *sharing_only_shared(const struct rules *rules, const cJSON *own);

#endif
