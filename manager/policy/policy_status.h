/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_status.h - the status of a CircuitBreaker or FaultInjection: conditions, and a row for
 * each pod, from what is known.
 *
 * No clock, no cluster: the same facts and the same old status give the same bytes, so that nothing
 * is written when nothing changed.
 *
 *   Compiled   the spec makes sense
 *   Published  it stands in the traffic document of each shard that it may be for
 *   Enforced   it does, and every pod that it selects has said that it follows that document, and,
 *              if it has rules for other places than the API server, listens for such requests
 *
 * The fields are those that KusionStack's controller mesh writes, and beside them pods, enforced
 * and conditions, and of a CircuitBreaker open: how many of the pods have an open breaker; and in
 * rows interceptSnapshots: what rules that allow and forbid have refused there.
 *
 * Of more than POLICY_STATUS_PODS pods only those have a row that have a breaker which is not
 * closed, or refused requests by such rules.
 */
#ifndef MANAGER_POLICY_POLICY_STATUS_H
#define MANAGER_POLICY_POLICY_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "policy/pod_traffic.h"
#include "policy/policy.h"
#include "policy/traffic_compile.h"

#define POLICY_STATUS_PODS 100
/* Rows and, in all of them, rules that are written at most. */
#define POLICY_STATUS_ROWS_MAX 400
#define POLICY_STATUS_RULES_MAX 4096

/* From what hinders most to what does not. */
enum policy_pod_state {
    POLICY_POD_NO_SHARD,  /* it is in no shard */
    POLICY_POD_OLD,       /* its proxy knows no traffic policies, or not the pod's labels */
    POLICY_POD_REFUSING,  /* it says why it does not take the document */
    POLICY_POD_SILENT,    /* it does not answer */
    POLICY_POD_WAITING,   /* it has not confirmed yet */
    POLICY_POD_WITHOUT,   /* it follows what is published, where this policy does not stand */
    POLICY_POD_NO_EGRESS, /* it follows it, but a part of it has no effect without a listener */
    POLICY_POD_ENFORCES,  /* it follows what is published */
    POLICY_POD_STATES,
};

/* A pod that the policy selects, with a proxy, and that counts. */
struct policy_pod {
    const char *name;
    const char *ip;
    enum policy_pod_state state;
    bool answers;                      /* what it says is as of now */
    const char *text;                  /* for people; "": nothing is to be said */
    char *own;                         /* the same, where it was made for it; NULL */
    const struct pod_traffic *traffic; /* NULL: it says nothing of policies */
};

/* A shard that it may be for. */
struct policy_shard {
    const char *name;
    bool placed; /* what the policies come to stands in its ConfigMap, this one as `outcome` says */
    enum traffic_outcome outcome;
    const char *reason; /* why it does not; one word */
    const char *why;    /* and for people; "" */
};

struct policy_facts {
    const struct policy *policy;
    const cJSON *old;                  /* its status; NULL: none */
    const cJSON *told;                 /* one with the refusals that were told last; NULL: none */
    bool tells;                        /* those of now are, else what was told last stands */
    const char *errors;                /* why it is not valid; "" */
    const char *warnings;              /* "" */
    const struct policy_shard *shards; /* in the order of their names */
    size_t shard_count;
    const struct policy_pod *pods; /* in the order of their names */
    size_t pod_count;
    int64_t now; /* seconds since 1970 */
};

/* Why it is enforced or not, for metrics and tests. */
enum policy_enforced {
    POLICY_ENFORCED,
    POLICY_DISABLED,
    POLICY_INVALID,       /* also while an earlier one stays in force */
    POLICY_NOT_PUBLISHED, /* for another reason */
    POLICY_NO_SHARD,
    POLICY_NO_PODS,
    POLICY_PODS_OLD,
    POLICY_PODS_REFUSING,
    POLICY_PODS_SILENT,
    POLICY_PODS_WAITING,
    POLICY_NO_EGRESS,
    POLICY_ENFORCED_STATES,
};

/* "enforced", "pods_old" and so on, for metrics. */
const char *policy_enforced_text(enum policy_enforced e);

struct policy_status_result {
    enum policy_enforced enforced;
    size_t open;  /* breakers, each in each pod */
    bool changed; /* it says anything else than the old one */
    bool refused; /* there are refusals that it does not tell yet */
    bool rough;   /* of those that it tells there were more, maybe */
};

/* The new status. The caller deletes it. */
MUST_CHECK cJSON *policy_status_make(const struct policy_facts *f,
                                     struct policy_status_result *out);

/* Whether both say the same, but for when it was written. NULL says nothing. */
bool policy_status_same(const cJSON *a, const cJSON *b);

enum policy_news_kind {
    POLICY_NEWS_OPENED,    /* a breaker */
    POLICY_NEWS_RECOVERED, /* likewise */
    POLICY_NEWS_REFUSED,   /* requests, by a rule that allows and forbids */
};

/* What is new, of what a status tells. Texts belong to the statuses. */
struct policy_news {
    enum policy_news_kind kind;
    const char *pod;
    const char *rule;
    const char *since;   /* of breakers */
    const char *message; /* of the row of one that opened: why; "" */
    uint64_t refused;    /* so many more, or since localproxy started anew */
};

typedef void (*policy_news_cb)(void *data, const struct policy_news *n);

/* Calls for each breaker that is open in `now` and was closed in `before`, or has been opened again
 * since; for each that was open, and is closed; and for each rule that has refused more. */
void policy_status_compare(const cJSON *before, const cJSON *now, policy_news_cb cb, void *data);

#endif
