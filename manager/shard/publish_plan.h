/* SPDX-License-Identifier: Apache-2.0 */
/*
 * publish_plan.h - decides what the controller does next about the ConfigMap of a shard: from facts
 * to one action, and the reason why its rules are not in force there. No clock, no cluster.
 *
 *   - While something is not known that comes by itself, nothing is done.
 *   - A ConfigMap of somebody else is left alone.
 *   - The first rules wait for the policies and the control labels that they select by.
 *   - What a shard gains waits for a handover (ownership/ownership.h); what it loses does not. One
 *     that is new shows nothing until then, so that its pods can start.
 *   - Where nothing newer can be published, what a manager wrote last stays, and is put back when
 *     somebody else has overwritten or deleted it.
 *   - Without a ShardingConfig the ConfigMap stays until the last pod that mounts it is gone.
 *
 * Some facts are expensive. They begin as not known; the plan asks for those that it needs, and is
 * made again.
 */
#ifndef MANAGER_SHARD_PUBLISH_PLAN_H
#define MANAGER_SHARD_PUBLISH_PLAN_H

#include <stdbool.h>

/* ---- facts ---- */

enum publish_spec {
    PUBLISH_SPEC_VALID,
    PUBLISH_SPEC_NAMESPACES, /* it selects namespaces, which are not known yet */
    PUBLISH_SPEC_REFUSED,    /* it is invalid, or there is no memory for it */
    PUBLISH_SPEC_ENDING,     /* its ShardingConfig is being deleted */
    PUBLISH_SPEC_GONE,       /* there is none, or it has become a root */
};

enum publish_map {
    PUBLISH_MAP_NONE,
    PUBLISH_MAP_FOREIGN, /* somebody else's */
    PUBLISH_MAP_OURS,
};

/* Whether others have given up what the shard gains. */
enum publish_handover {
    PUBLISH_HANDOVER_UNKNOWN,
    PUBLISH_HANDOVER_DONE,
    PUBLISH_HANDOVER_WAITS,
};

/* A ConfigMap that is to be written. */
enum publish_document {
    PUBLISH_UNMADE,
    PUBLISH_FITS,
    PUBLISH_TOO_LARGE,
    PUBLISH_UNREADABLE, /* by pods that read earlier versions only */
};

struct publish_facts {
    enum publish_spec spec;
    enum publish_map map;
    bool unread;           /* the cache has not read it */
    bool overwritten;      /* other rules than a manager wrote last, which are known, or none */
    bool mounted;          /* pods have the shard's sidecars; */
    bool unasked;          /* of one of them nobody knows yet which rules it enforces */
    bool policies_unknown; /* but will be soon */
    bool labels_missing;   /* the first rules select by control labels that are being set */
    bool right;            /* it holds what the spec comes to */
    bool beside_bare;      /* there are pods without sidecars, for which it may have to withdraw */
    enum publish_handover handover;
    /* While that waits: */
    bool meanwhile;               /* there is something to publish meanwhile, */
    bool right_meanwhile;         /* which it holds */
    enum publish_document wanted; /* of what the spec comes to, or of what is published meanwhile */
    enum publish_document own;    /* of what a manager wrote last */
};

/* ---- the plan ---- */

enum publish_action {
    /* Facts to find out: */
    PUBLISH_ASK_OTHERS, /* handover, and then what follows from it */
    PUBLISH_MAKE,       /* wanted */
    PUBLISH_MAKE_OWN,   /* own */
    /* The end: */
    PUBLISH_NOTHING, /* until something changes */
    PUBLISH_READ,    /* the ConfigMap; then all is looked at again */
    PUBLISH_REPORT,  /* the status, and nothing else */
    PUBLISH_KEEP,    /* the same: what stands in the ConfigMap stays, whoever changed it */
    PUBLISH_CONFIRM, /* it is right: tell pods its generation */
    PUBLISH_WRITE,   /* what was made last */
    PUBLISH_FOLLOW,  /* only traffic policies, for pods that keep the rules of a deleted shard */
    PUBLISH_DELETE,  /* the ConfigMap */
};

/* Why the rules of a spec are not in its ConfigMap, as the condition Published has it. */
enum publish_reason {
    PUBLISH_OK, /* they are, or the spec is not valid */
    PUBLISH_PENDING,
    PUBLISH_WAITS_FOR_NAMESPACES,
    PUBLISH_WAITS_FOR_PODS,
    PUBLISH_WAITS_FOR_POLICIES,
    PUBLISH_WAITS_FOR_LABELS,
    PUBLISH_WAITS_FOR_HANDOVER,
    PUBLISH_HELD_BACK, /* there are pods that could not read them */
    PUBLISH_OVERSIZED,
    PUBLISH_NAME_TAKEN,
    PUBLISH_REFUSED, /* by the API server: set after PUBLISH_WRITE */
    PUBLISH_REASONS,
};

struct publish_plan {
    enum publish_action action;
    enum publish_reason reason;
};

struct publish_plan publish_plan(const struct publish_facts *f);

/* Whether it ends by itself, so that no Event tells of it. */
bool publish_reason_passes(enum publish_reason reason);
/* Whether trying again may help although nothing that is known has changed. */
bool publish_reason_retried(enum publish_reason reason);

#endif
