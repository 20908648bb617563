/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_cache.h - all CircuitBreakers and FaultInjections, followed at the API server as long as
 * it has these kinds.
 *
 * A namespace is *known* when all of its policies are: only then something may be concluded from
 * what is missing. Before the first lists are complete none is; nor is one whose policies are not
 * kept because all together take too much memory, where the namespace that takes the most gives
 * way.
 *
 * What it gives out is valid until the loop runs on, and inside handlers until they return.
 */
#ifndef MANAGER_POLICY_POLICY_CACHE_H
#define MANAGER_POLICY_POLICY_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kube/client/client.h"
#include "kube/client/reflector.h"
#include "net/clock.h"
#include "net/loop.h"
#include "policy/policy.h"

#define POLICY_CACHE_GROUP_PATH "/apis/" POLICY_API_VERSION

enum { POLICY_KINDS = 2 };

struct policy_cache;

/* A CircuitBreaker or FaultInjection. */
struct policy_object {
    const char *key; /* "namespace/plural/name" */
    const char *ns;
    const char *name;
    const char *uid;
    const char *version; /* resourceVersion */
    struct policy *policy;
    const char *errors;   /* why it is not valid; "": it is */
    const char *warnings; /* what is odd about it; "" */
    const char *rest;     /* JSON: an object with its status and metadata.finalizers */
};

/* None is called inside a function of this header but policy_cache_serve and policy_cache_free,
 * which are allowed in none. */
struct policy_cache_handlers {
    /* It is new or changed; `gone`: or deleted, and nothing is known of it any more. `same`: of
     * what the policy says, nothing is other than before. */
    void (*on_policy)(void *data, const struct policy_object *o, bool gone, bool same);
    /* Which namespaces are known, or whether it may be waited for them, is other than before. */
    void (*on_known)(void *data);
};

struct policy_cache_options {
    struct kube_client *client; /* must outlive the cache */
    const char *namespace;      /* nothing else is looked at; NULL: all; copied */
    size_t memory;              /* bytes that policies may take; 0: any */
    const char *zones;          /* of policy_options; kept, not copied */
    const struct net_clock *clock;
    const struct reflector_ops *ops; /* for tests; NULL: the usual */
};

/* Follows nothing before policy_cache_serve. */
MUST_CHECK struct policy_cache *policy_cache_new(struct net_loop *l,
                                                 const struct policy_cache_options *o,
                                                 const struct policy_cache_handlers *h, void *data);

enum policy_served {
    POLICY_NOT_ASKED,
    POLICY_UNKNOWN, /* the API server cannot be asked: what is known stays, */
    POLICY_SERVED,  /* it is followed, */
    POLICY_ABSENT,  /* and there are no policies of it */
};

/* Whether the API server has the kind. */
void policy_cache_serve(struct policy_cache *c, enum traffic_kind kind, enum policy_served served);

/* Whether all policies of the namespace are known. */
bool policy_cache_knows(const struct policy_cache *c, const char *ns);
/* For how long, in ms, it may be waited for what is not known yet; 0: it is, or takes too long. */
uint64_t policy_cache_waits_ms(const struct policy_cache *c);
/* Changes with each policy of the namespace that does; never 0. */
uint64_t policy_cache_revision(const struct policy_cache *c, const char *ns);

/* NULL: there is none. */
const struct policy_object *policy_cache_find(const struct policy_cache *c, const char *key);
/* One after the other; NULL begins, and ends. All, and those of one namespace. */
const struct policy_object *policy_cache_next(const struct policy_cache *c,
                                              const struct policy_object *o);
const struct policy_object *policy_cache_next_in(const struct policy_cache *c, const char *ns,
                                                 const struct policy_object *o);
size_t policy_cache_count(const struct policy_cache *c, enum traffic_kind kind);
/* What keeps it from following, for people; NULL: nothing. */
const char *policy_cache_error(const struct policy_cache *c);

/* At once; nobody is told. NULL is ignored. */
void policy_cache_free(struct policy_cache *c);

#endif
