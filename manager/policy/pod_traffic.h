/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pod_traffic.h - what a pod's localproxy says of traffic policies: which document is in force
 * there, the state of each breaker, and what rules that allow and forbid have refused.
 *
 * Whoever has the pod's address answers: everything is checked, texts are bounded and hold no
 * control characters.
 */
#ifndef MANAGER_POLICY_POD_TRAFFIC_H
#define MANAGER_POLICY_POD_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "control/status.h"
#include "policy/policy.h"
#include "traffic/traffic.h"

#define POD_TRAFFIC_ERROR_SIZE 256
#define POD_TRAFFIC_WHY_SIZE 64

/* Which rule it is. */
struct pod_rule {
    uint64_t policy; /* pod_traffic_policy of its uid */
    char name[POLICY_NAME_MAX + 1];
};

/* A rule of a breaker. */
struct pod_breaker {
    struct pod_rule rule;
    enum control_breaker_state state;
    int64_t since; /* of the last transition, seconds since 1970; 0: there was none */
    int64_t until; /* when it ends to be open; 0: not by itself */
    char why[POD_TRAFFIC_WHY_SIZE];
};

/* A rule that allows and forbids requests to other places than the API server. */
struct pod_intercept {
    struct pod_rule rule;
    uint64_t refused; /* requests, since localproxy's start */
    bool rough;       /* there are more, maybe */
};

/* Immutable and reference-counted. */
struct pod_traffic {
    bool in_force;
    uint64_t generation; /* of the document that is; 0: none is */
    char checksum[TRAFFIC_CHECKSUM_LEN + 1];
    char error[POD_TRAFFIC_ERROR_SIZE]; /* why a document was refused; "" */
    unsigned left_out;                  /* rules of which nothing is said */
    bool has_faults;                    /* a rule of a fault injection selects the pod */
    bool has_egress;                    /* it listens for requests to other places */
    uint64_t shard;                     /* hash of "namespace/name" of the document's */
    struct pod_intercept *intercepts;   /* sorted as the breakers are */
    size_t intercept_count;
    size_t count;
    struct pod_breaker breakers[]; /* sorted by policy, and then by the rules' names */
};

/* From localproxy's GET /status. NULL: it is too old for traffic policies. */
struct pod_traffic *pod_traffic_read(const cJSON *root);
/* NULL is fine. */
void pod_traffic_free(struct pod_traffic *t);

/* It comes from a Lease, which says of numbers only whether they are 0. */
void pod_traffic_set_rough(struct pod_traffic *t);
/* A Lease has no room for all rules, and leaves out such as are closed. Takes `now`, and returns it
 * with those that `before` (NULL: nothing) has of the same document, if they were closed; numbers
 * that are rough it takes from there. */
struct pod_traffic *pod_traffic_complete(struct pod_traffic *now, const struct pod_traffic *before);

/* Whether both say the same; NULL: nothing is said. */
bool pod_traffic_same(const struct pod_traffic *a, const struct pod_traffic *b);

uint64_t pod_traffic_policy(const char *uid);
/* Those of the policy with this uid: *count of them. */
const struct pod_breaker *pod_traffic_find(const struct pod_traffic *t, const char *uid,
                                           size_t *count);

/* The same of rules that allow and forbid. */
const struct pod_intercept *pod_traffic_find_intercepts(const struct pod_traffic *t,
                                                        const char *uid, size_t *count);

/* Whether it is the document of that shard, "namespace/name". */
bool pod_traffic_is_of(const struct pod_traffic *t, const char *shard);
/* Whether the document with this checksum is in force there; "": none is. */
bool pod_traffic_enforces(const struct pod_traffic *t, const char *checksum);

#endif
