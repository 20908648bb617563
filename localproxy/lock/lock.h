/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock.h - gives each shard a lock object of its own for leader election.
 *
 * With leader election name L in shard S, the object L among leases (coordination.k8s.io),
 * configmaps and endpoints becomes `L---S`, in the namespace that the rules name or else in the
 * pod's own: in paths, in field selectors and in bodies. LeaseCandidates there (coordinated leader
 * election) keep their names, which are the candidates' own, and name `L---S` in `spec.leaseName`.
 * Answers are not changed, so a client that goes on with the name which the server returned is let
 * through as it is. Everything else stays byte for byte.
 *
 *     lock_examine      for each resource request; may give another target
 *     lock_rewrite_body once the body is collected, if lock_examine asked for it
 */
#ifndef LOCALPROXY_LOCK_LOCK_H
#define LOCALPROXY_LOCK_LOCK_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "kube/request_info.h"
#include "rules/lock_name.h"
#include "rules/rules.h"

/* Made once per snapshot of rules; holds nothing to free. */
struct lock_rule {
    char name[NAME_SUBDOMAIN_MAX + 1]; /* L; "": no leader election, nothing is the lock */
    char renamed[LOCK_NAME_SIZE];
    char namespace[NAME_SUBDOMAIN_MAX + 1];
};

enum lock_found {
    LOCK_OTHER,   /* not the lock */
    LOCK_OWN,     /* the lock, named as the server names it: nothing to change */
    LOCK_RENAMED, /* the lock: send what is in `out` instead */
};

/* Where a body names the lock. */
enum lock_field {
    LOCK_METADATA_NAME,   /* the lock itself */
    LOCK_SPEC_LEASE_NAME, /* a LeaseCandidate */
};

struct lock_request {
    /* If this is the lock, the request concerns that object alone: no selector is injected, and
     * the write fence does not apply. LeaseCandidates are LOCK_OWN, but for a deletecollection. */
    enum lock_found found;
    /* Collect the body and pass it to lock_rewrite_body, with `field`. With `found` LOCK_OTHER (a
     * create) the body decides whether this is the lock: apply the write fence after it. */
    bool needs_body;
    enum lock_field field;
    /* It asks for a lock of that name in another namespace, and goes on as it is. Leases count by
     * name; ConfigMaps and Endpoints, which may well be something else, when they are updated as a
     * holder does. */
    bool elsewhere;
};

/* The pod's namespace: `flag` (--pod-namespace), else `env` ($POD_NAMESPACE), else that of the
 * service account in `dir` (NULL: where Kubernetes mounts it). Reads a file. NULL and empty strings
 * are not given. 0 and *out, which the caller frees; *out NULL: this is no pod, take the shard's.
 * -EINVAL: not a name; -ENOMEM, or what reading the file gave. */
MUST_CHECK int lock_pod_namespace(const char *flag, const char *env, const char *dir, char **out,
                                  struct err *e);

/* `pod_namespace` NULL: the shard's namespace; the rules may name another one for the lock. `rules`
 * NULL: no leader election. -ENAMETOOLONG when a name is longer than Kubernetes takes; nothing is
 * the lock then. */
MUST_CHECK int lock_rule_init(struct lock_rule *rule, const struct rules *rules,
                              const char *pod_namespace, struct err *e);

/* Looks at a request that is not `ambiguous`; `target` is what `ri` was parsed from. With
 * LOCK_RENAMED the new target is appended to `out`, else `out` is as it was. Errors for the client:
 * -EINVAL (400: a query that servers read in several ways), -ENOBUFS (414), -ENOMEM (503). */
MUST_CHECK int lock_examine(const struct lock_rule *rule, const struct request_info *ri,
                            struct slice target, struct buf *out, struct lock_request *result,
                            struct err *e);

/* Looks for the lock's name in a whole body, in `field`: of an object or patch in JSON, YAML or
 * protobuf (k8s.io/apimachinery/pkg/runtime/serializer/protobuf), its pointer in a JSON patch.
 * Header values are empty when absent. With LOCK_RENAMED the new body is appended to `out`; the
 * Content-Type stays right. JSON changes in the name only, protobuf in the name and the lengths
 * around it; YAML is written anew.
 *
 * -ENOTSUP (415): the encoding is not understood; -EINVAL (400): the body is not what its
 * Content-Type says, or has the name twice; -ENOBUFS (413), -ENOMEM (503). */
MUST_CHECK int lock_rewrite_body(const struct lock_rule *rule, enum lock_field field,
                                 struct slice content_type, struct slice content_encoding,
                                 struct slice body, struct buf *out, enum lock_found *found,
                                 struct err *e);

#endif
