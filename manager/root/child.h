/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child.h - the ShardingConfig of one shard of a root, as it is applied.
 *
 *   canary  PREFIX-0-canary  namespaces of its lists. With both lists these are the namespaces that
 *                            either of them selects, by name: a label selector cannot say "or".
 *   normal  PREFIX-1-normal  hash In [its buckets], namespace NotIn [those of the canary]
 *
 * While the canary is taken over it has hash In [], and normal ones have no namespace NotIn.
 *
 * Each entry of resourceSelector becomes a limit with these requirements beside its own. The pods
 * are those of the StatefulSet by their ordinals, or those of the Deployment by the label
 * POD_SHARD, and of spec.selector. What spec.selector says of the label of pod names is left out:
 * which pods a shard has follows from the ordinals, or from the label. All other fields of the
 * root's spec are those of its children too.
 *
 * Where buckets may move for the sake of load, normal ones have the annotation SIDECAR_COUNT_LOAD.
 */
#ifndef MANAGER_ROOT_CHILD_H
#define MANAGER_ROOT_CHILD_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "compile/compile.h"
#include "object/root_child.h"
#include "root/layout.h"
#include "root/root_spec.h"

#define CHILD_NAME_SIZE 254
/* Namespaces that a canary with both lists may come to. */
#define CHILD_NAMES_MAX 1000

/* Whether all that is in `part` is in `share`; NULL: nothing is. */
bool child_share_covers(const cJSON *share, const cJSON *part);

/* Names of all namespaces, sorted. `names` NULL: not known. */
struct child_namespaces {
    const char *const *names;
    size_t count;
};

struct child_options {
    const cJSON *root; /* the object; apiVersion, kind, metadata and spec are read. Its uid may be
                          missing, offline: then children have no owner */
    const struct root_spec *spec;
    const struct compile_labels *labels; /* prefix is not NULL */
    const char *ns;                      /* of the root */
    /* Needed for a canary with both lists alone. Where they are not known, its canary has the
     * namespaces of its first list only, and its other hashes are in no shard: offline. */
    struct child_namespaces namespaces;
    /* The canary is not to have, or cannot get, its new share yet: it keeps `had`, and from normal
     * shards nothing is taken that is not in it. */
    bool keeps;
    const cJSON *had; /* root_child_share of the canary that there is; NULL: nothing */
};

/* "PREFIX-0-canary", "PREFIX-3-normal". 0, or -ENAMETOOLONG. */
MUST_CHECK int child_name(const struct root_spec *spec, unsigned number, char out[CHILD_NAME_SIZE]);
/* The number of the child of that name. -ENOENT: it is not one that this root would have. */
MUST_CHECK int child_number(const struct root_spec *spec, const char *name);

/* Whether both lists of the canary are set, so that namespaces must be known. */
bool child_needs_namespaces(const struct root_spec *spec);
/* Whether spec.selector asks for names of pods, which is left out. */
bool child_drops_pod_names(const cJSON *root);

/* Whole, with apiVersion, kind, owner, labels and annotations: what is applied with force. The
 * caller frees. NULL with `e` set, where the message begins with the path of a field of the root:
 * -E2BIG (too many namespaces) or -ENAMETOOLONG (of the root, of a child, of a pod). */
MUST_CHECK cJSON *child_make(const struct child_options *o, const struct layout_shard *shard,
                             struct err *e);

/* What a child says of itself: number, buckets, taken_over, and how many pods its selector names,
 * or of a Deployment its annotation. The rest of `out` is as nothing were known. 0, or -ENOENT: no
 * child of that root has such a name; whose it is, is to be seen by its owner. Annotations that
 * make no sense are as none. */
MUST_CHECK int child_read(const struct root_spec *spec, const cJSON *child, const char *prefix,
                          struct layout_child *out);

#endif
