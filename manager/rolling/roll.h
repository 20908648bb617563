/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roll.h - what a rolling upgrade of a StatefulSet does next: from what is known of its pods and
 * shards to one step. No clock, no cluster.
 *
 * Glossary: a pod is *old* when it is to be replaced, else *new*; a new pod is *well* when it is
 * Ready for long enough, enforces the rules of its shard, and has no open breaker.
 *
 *   - Shards go one after the other, the canary first. In a shard first the pods that are not
 *     Ready, then those that do not enforce, then the others, and who holds the shard's lock last.
 *   - One pod at a time: while a pod is being deleted or a new one is not well, none is evicted.
 *   - To evict a pod that is Ready, all pods must be there, another pod of each other shard must be
 *     Ready, no breaker of its shard may be open, and its shard and those that have new pods must
 *     be led, if they ever were.
 *   - To evict one that is not Ready takes nothing away from anybody, so it does not wait for that:
 *     else nothing could be rolled out that mends what is broken everywhere.
 */
#ifndef MANAGER_ROLLING_ROLL_H
#define MANAGER_ROLLING_ROLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lock/lock_state.h"

/* No pod, or no shard. */
#define ROLL_NONE SIZE_MAX

/* For so long a container may fail to start before that counts as a failure of the roll: ms. */
#define ROLL_FAILING_MS 10000

/* In the order of roll_compare_shards. */
struct roll_shard {
    const char *name;
    enum lock_state lock;
};

/* One for each ordinal that the StatefulSet is to have. */
struct roll_pod {
    const char *name;
    unsigned ordinal;
    size_t shard; /* index; ROLL_NONE: of none */
    bool there;   /* and neither being deleted nor ended; false: of the rest `ending` alone
                     counts */
    bool ending;  /* it is being deleted */
    bool old;
    bool ready;
    bool available; /* ready for minReadySeconds */
    bool enforces;  /* the rules of its shard, as published */
    bool open_breaker;
    bool holder;         /* of its shard's lock */
    const char *failing; /* why a container of it does not start: one word; NULL: all do */
};

struct roll_facts {
    bool unseen; /* which revision is the new one is not known: the StatefulSet's controller has not
                    taken note of its last change */
    const struct roll_shard *shards;
    size_t shard_count;
    const struct roll_pod *pods;
    size_t pod_count;
    const char *scope; /* the only shard that is to be rolled; NULL: all */
    bool ordered;      /* the StatefulSet makes a pod only while all before it are Ready */
    const char *first; /* the pod that was dealt with last, "": none. If it is old and not Ready it
                          comes first, whatever its shard; */
    bool committed;    /* and in any case: an eviction of it may be under way */
    bool finished;     /* this revision was rolled to the end before: pods that restart later are
                          not waited for */
};

/* What a roll waits for. */
enum roll_gate {
    ROLL_OPEN,
    ROLL_UNSEEN,       /* roll_facts.unseen; `pod`: one that is not there */
    ROLL_NO_PODS,      /* none of the shard that is to be rolled */
    ROLL_ENDING,       /* a pod is being deleted */
    ROLL_FAILING,      /* a new pod's container does not start */
    ROLL_NOT_READY,    /* a new pod is not Ready, */
    ROLL_NOT_YET,      /* or not for long enough, */
    ROLL_NOT_ENFORCED, /* or does not enforce the rules of its shard */
    ROLL_BREAKER,      /* a breaker is open */
    ROLL_MISSING,      /* a pod has not been made yet */
    ROLL_OUT_OF_ORDER, /* an earlier pod is not Ready, so the next one would not be made anew */
    ROLL_SHARD_DOWN,   /* another shard has no pod that is Ready */
    ROLL_LOCK,         /* whether a shard is led is not known yet */
    ROLL_LEADERLESS,   /* nobody leads a shard */
};

enum roll_what { ROLL_WAIT, ROLL_EVICT, ROLL_DONE };

struct roll_step {
    enum roll_what what;
    enum roll_gate gate; /* ROLL_WAIT: why */
    size_t pod;          /* that is evicted, or that it is about; ROLL_NONE */
    size_t shard;        /* of that pod, or that is not led; ROLL_NONE */
    size_t cause;        /* ROLL_OUT_OF_ORDER, ROLL_SHARD_DOWN, ROLL_BREAKER: the pod that is in the
                            way; else ROLL_NONE */
    size_t done;         /* pods that are new and Ready, of */
    size_t total;        /* so many */
};

/* By the order in which shards are rolled: "x-0-canary", then "x-2-normal" by the numbers, then any
 * other name. As strcmp. */
int roll_compare_shards(const char *a, const char *b);

struct roll_step roll_decide(const struct roll_facts *f);

/* How long it has waited. */
struct roll_patience {
    uint64_t waited_ms;  /* for that pod or shard */
    uint64_t failing_ms; /* since the pod's container does not start; 0: it does */
    uint64_t deadline_ms;
    bool stuck;   /* an Event has reported that the roll is stuck at that pod */
    bool blocked; /* ROLL_EVICT: the API server does not evict it */
};

/* Whether a step that waits, or is blocked, is a failure of the roll, which somebody should look
 * at. */
bool roll_is_stuck(const struct roll_step *s, const struct roll_patience *p);

/* Whether the identity by which a lock is held is that of the pod: its name alone, or followed by
 * anything but a digit, as in "op-1_5f0c...". */
bool roll_holds(const char *identity, const char *pod);

#endif
