/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ownership.h - decides who owns what: from facts about the shards of a namespace to a plan for one
 * of them. No clock, no cluster, no memory of its own: a new leader that knows the same facts makes
 * the same plan.
 *
 * An object has one owner when the pods of at most one shard may act on it. A pod may act on what
 * the rules show that it still enforces, or on which a write of it is under way (handover.h). So a
 * shard gets what its spec adds only after all other shards of the operator (operator.h) have given
 * it up: no ConfigMap of theirs shows it, and no pod of theirs may enforce rules that do. What a
 * shard loses it loses at once.
 *
 * A pod without a sidecar may act on everything. While a shard of the operator selects one, no
 * shard shows anything: a pod that is still to be replaced when shards are introduced, or that
 * comes when they are left. Only pods of a shard that is elected by the operator's own lock, which
 * those without a sidecar take too, keep what they have.
 *
 * Nor may two pods of one shard act on an object because they are elected by different locks. So
 * when the lock of a shard changes, it shows nothing until all its pods have confirmed the new one,
 * and whoever led by the old one has given up, or leads by the new one too.
 *
 * What is not promised: see docs/one-owner.md.
 */
#ifndef MANAGER_OWNERSHIP_OWNERSHIP_H
#define MANAGER_OWNERSHIP_OWNERSHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/pod.h"
#include "cache/rules_map.h"
#include "enforcement/prober.h"
#include "kube/selector.h"
#include "ownership/handover.h"
#include "rules/rules.h"

/* ---- facts ---- */

struct ownership_pod {
    const struct pod *pod;
    const struct probe_result *probe; /* NULL: it was never asked */
};

/* A shard with a ShardingConfig; or one that has none any more, or has become a root, of which
 * there are pods or a ConfigMap. All that is pointed to belongs to the caller. */
struct ownership_shard {
    const char *key;                  /* "namespace/name" */
    bool exists;                      /* there is a ShardingConfig of that name which is no root */
    uint64_t spec;                    /* another number for each edit of its spec */
    const char *lock;                 /* its leaderElectionName; NULL or "": it has none */
    const char *root;                 /* name of the root that made it, or that it has become; NULL
                                         or "": none */
    const char *shares_with;          /* annotation SHARDING_SHARES_WITH; NULL: none */
    const struct selector *selector;  /* which pods it selects now; NULL: none, or not known */
    const struct rules *wanted;       /* what its spec comes to; NULL: that is not known */
    const struct rules_map *map;      /* its ConfigMap; NULL: there is none, or it is not ours */
    const struct handover_past *past; /* what stood in that earlier; NULL: nothing is known of */
    const struct ownership_pod *pods; /* that have its sidecars */
    size_t pod_count;
};

/* A pod that has no sidecar, or those of nobody knows which shard: it may act on everything. */
struct ownership_bare_pod {
    const struct pod *pod;
    const struct ownership_shard *selected_by[8]; /* the first ones */
    size_t selected_count;
};

/* rules_gain (compile/rules_gain.h), or what remembers its answers. */
typedef bool ownership_gain_fn(void *data, const struct rules *from, const struct rules *to,
                               const struct rules *others);

struct ownership_facts {
    const struct ownership_shard *shards; /* of the namespace, in any order that stays */
    size_t shard_count;
    const struct ownership_bare_pod *bare;
    size_t bare_count;
    enum handover_mode mode;
    ownership_gain_fn *gain;
    void *gain_data;
};

/* ---- what is waited for ---- */

enum ownership_reason {
    /* A pod: */
    OWNERSHIP_NOT_HEARD_OF, /* it was not asked yet */
    OWNERSHIP_BYPASSED,     /* its operator does not use its proxy */
    OWNERSHIP_SILENT,       /* it does not answer */
    OWNERSHIP_UNSETTLED,    /* it has given it up, but writes from before may still be executed */
    OWNERSHIP_UNCONFIRMED,  /* it has not confirmed that it gave it up */
    OWNERSHIP_KEEPS,        /* its shard is gone: it keeps its rules for as long as it runs */
    OWNERSHIP_NO_SIDECAR,   /* it sees everything */
    OWNERSHIP_NOT_STARTED,  /* it will, at once, when it has started: which may never be */
    OWNERSHIP_UNKNOWN_SIDECAR, /* nobody knows whose rules it has */
    OWNERSHIP_OTHER_LOCK,      /* it may still be elected by another lock of the same shard */
    /* A lock: */
    OWNERSHIP_STILL_LED, /* who led by it may not have given up yet */
    /* A ConfigMap: */
    OWNERSHIP_PUBLISHED,     /* it still shows it */
    OWNERSHIP_WANTED,        /* the spec selects it: this does not end by itself */
    OWNERSHIP_UNREAD,        /* it was not read yet */
    OWNERSHIP_OVER_BUDGET,   /* there is no memory for its rules */
    OWNERSHIP_OTHER_RELEASE, /* what it says is not known to this release */
};

struct ownership_wait {
    enum ownership_reason reason;
    const struct ownership_shard *shard; /* NULL: of a bare pod */
    const struct ownership_pod *pod;     /* NULL: for the ConfigMap, a lock, or a bare pod: */
    const struct pod *bare;              /* NULL: it is none */
    bool doubtful;                       /* that it is of the same operator; and its spec selects
                                            it too, so that the wait would never end */
    bool intended;                       /* it shares on purpose */
    bool may_expire; /* the lease on the rules of `pod` may run out (enforcement/takeover.h) */
};

/* ---- the plan ---- */

/* For so long what is doubtful is waited for: ms. Several ShardingConfigs that are applied at once,
 * in any order, have all arrived by then. */
#define OWNERSHIP_DOUBT_MS 30000

struct ownership_question {
    const struct ownership_shard *shard; /* one of facts->shards */
    const struct rules *from; /* what its own pods may enforce; NULL: nothing is known of */
    const struct rules *to;   /* what it is to have, but for what it shares on purpose */
    bool elected; /* whoever acts by `to` holds the lock of the operator's pods without sidecars */
    bool relocks; /* the lock of `from` is new, or may be: that of `to` may be known to few pods */
    bool led;     /* and whoever led by the one before may do so still */
    /* For ownership_plan alone: */
    uint64_t limit_ms;  /* for so long a handover should take at most */
    uint64_t waited_ms; /* and so long it has waited for these rules by now; 0: it begins */
    uint64_t doubt;     /* the last ownership_plan.doubt, which is */
    uint64_t doubt_ms;  /* so old */
};

enum ownership_step {
    OWNERSHIP_GIVE,     /* nobody may act on what it gains: publish `to` */
    OWNERSHIP_RELEASE,  /* publish what both `from` and `to` show; nothing if there is no `from` */
    OWNERSHIP_WITHDRAW, /* publish nothing: a pod without a sidecar may act on all of it */
    OWNERSHIP_RELOCK,   /* publish nothing, by the lock of `to` */
    OWNERSHIP_OVERRIDE, /* publish `to`, although others were not heard to have given it up */
};

struct ownership_plan {
    enum ownership_step step;
    struct ownership_wait *waits; /* the caller's, with room for ownership_room() of them */
    size_t count;
    size_t intended; /* ownership_overlaps only */
    bool unsettled;  /* a pod says that writes to what it lost may still be executed */
    bool unasked;    /* of a pod it is not known yet; ownership_overlaps only */
    bool late;       /* it has waited for as long as it should take */
    bool doubtful;   /* all that are waited for are */
    uint64_t doubt;  /* a hash of its spec and of those of the shards that are doubtful: as long as
                        it is the same, nobody has edited one. 0: nothing is gained */
    uint64_t patience; /* for so long it waits, in ms, in all, */
    uint64_t again_ms; /* and so long from now it is to be asked again; UINT64_MAX: when something
                          has changed */
};

/* How many waits there may be. */
size_t ownership_room(const struct ownership_facts *f);

/* Whether pods that enforce them are elected by different locks. */
bool ownership_relocks(const struct rules *from, const struct rules *to);

/* What to publish now for the shard. `out->waits` is set by the caller, the rest is filled in. */
void ownership_plan(const struct ownership_facts *f, const struct ownership_question *q,
                    struct ownership_plan *out);

/* Who else may show what `q->to` shows, which the shard has: also those with which it shares on
 * purpose, but not pods that merely start, nor shards that may be of another operator. Sets count,
 * intended, unasked and waits. */
void ownership_overlaps(const struct ownership_facts *f, const struct ownership_question *q,
                        struct ownership_plan *out);

#endif
