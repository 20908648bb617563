/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared_lock.h - reports a lock that all shards of an operator share: one of them works, the
 * others wait for it; and refuses peering of kopf among them, whose operators would all pause.
 */
#ifndef LOCALPROXY_LOCK_SHARED_LOCK_H
#define LOCALPROXY_LOCK_SHARED_LOCK_H

#include <stdint.h>

#include "kube/client/health.h"
#include "lock/lock.h"

#define SHARED_LOCK_SUBJECT_MAX 384

/* Of many the first one is reported: an operator may have such an object in each namespace. All
 * zero: there is none. */
struct shared_lock {
    char subject[SHARED_LOCK_SUBJECT_MAX];
    uint64_t met_ms; /* last */
};

/* The request asks for the lock in another namespace (lock_request.elsewhere). `now_ms` is of a
 * clock that never goes back. */
void shared_lock_elsewhere(struct shared_lock *s, struct health *h, const struct lock_rule *rule,
                           const struct request_info *ri, uint64_t now_ms);
/* An operator on kopf writes into a peering object, (Cluster)KopfPeering of kopf.dev or
 * zalando.org, that it is alive, and pauses while it sees another one there. It is the shard's own
 * if its name is the shard's or ends in "-SHARD" or ".SHARD". What it reads is the whole
 * collection, in which it looks for that name: so a name cannot be changed on the way.
 *
 * -EACCES with words for the client: the request writes to one that is not the shard's own, and is
 * reported. 0: it does not. */
MUST_CHECK int shared_lock_peering(struct shared_lock *s, struct health *h, const char *shard,
                                   const struct request_info *ri, uint64_t now_ms, struct err *e);
/* The rules changed. */
void shared_lock_forget(struct shared_lock *s, struct health *h);

#endif
