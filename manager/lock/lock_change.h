/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock_change.h - whether a shard may still be led by a lock that it had before. All these Leases
 * are followed at the API server, as by candidates.
 *
 * Whoever led by an old lock cannot renew it once all pods of the shard have confirmed the new one,
 * and gives up when it has expired, at the latest; or goes on by the new one, if it gets that.
 */
#ifndef MANAGER_LOCK_LOCK_CHANGE_H
#define MANAGER_LOCK_LOCK_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "kube/client/client.h"
#include "kube/client/reflector.h"
#include "lock/shard_lock.h"
#include "net/clock.h"
#include "net/loop.h"
#include "rules/rules.h"

struct lock_change;

/* Old locks that are followed at most. */
#define LOCK_CHANGE_MAX 16

/* By which pods of these rules are elected. `own`: the operator's name for it, which is the lock of
 * rules that name none; `ns`: of the pods. */
void lock_place_of(const struct rules *rules, const char *own, const char *ns,
                   struct lock_place *out);
/* The one that they may have been elected by before, if nothing is known of that: by the shard's
 * own, or by the operator's. */
void lock_place_other(const struct rules *rules, const char *own, const char *ns,
                      struct lock_place *out);

struct lock_change_options {
    struct kube_client *client; /* must outlive it */
    struct lock_place from;
    struct lock_place to;
    const struct net_clock *clock;   /* kept, not copied */
    const struct reflector_ops *ops; /* for tests; NULL: the usual */
};

MUST_CHECK struct lock_change *lock_change_new(struct net_loop *l,
                                               const struct lock_change_options *o);
/* The same or another change of the same shard, before this one is over: `from` is one more lock by
 * which it may still be led, unless it comes back. Of more than LOCK_CHANGE_MAX the oldest are not
 * followed: they may be held for as long as any Lease may. */
void lock_change_again(struct lock_change *c, const struct lock_place *from,
                       const struct lock_place *to);

/* Whether all pods have confirmed the new lock, from now on. */
void lock_change_confirm(struct lock_change *c, bool confirmed);
/* Whether they have, and nobody leads by an old lock alone. */
bool lock_change_is_over(const struct lock_change *c);
/* Why an old one is not read; NULL: all are. Valid until the loop runs on. */
const char *lock_change_error(const struct lock_change *c);

/* NULL is ignored. */
void lock_change_free(struct lock_change *c);

#endif
