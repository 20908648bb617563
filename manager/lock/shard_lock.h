/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_lock.h - who leads a shard: the Lease of its leader election, followed at the API server.
 *
 * Clocks of machines differ, so what counts is when a renewal was seen, as for candidates
 * themselves.
 */
#ifndef MANAGER_LOCK_SHARD_LOCK_H
#define MANAGER_LOCK_SHARD_LOCK_H

#include "base/err.h"
#include "cache/shard_cache.h"
#include "kube/client/client.h"
#include "kube/client/reflector.h"
#include "lock/lock_state.h"
#include "net/clock.h"
#include "net/loop.h"
#include "rules/lock_name.h"

struct shard_lock;

/* A Lease that is valid for longer counts as one of so long: ms. */
#define SHARD_LOCK_MAX_MS ((uint64_t)3600 * 1000)

/* Where a Lease is, if it can have that name. */
struct lock_place {
    char ns[NAME_LABEL_MAX + 1];
    char name[LOCK_NAME_SIZE];
};
bool lock_place_same(const struct lock_place *a, const struct lock_place *b);

/* That of the shard. False: it has none. */
bool shard_lock_find(const struct shard_cache_config *config, struct lock_place *out);

struct shard_lock_options {
    struct kube_client *client; /* must outlive it */
    struct lock_place place;
    const struct net_clock *clock;   /* kept, not copied */
    const struct reflector_ops *ops; /* for tests; NULL: the usual */
};

/* Begins to follow with the loop's next turn. A name that no Lease can have is followed by nobody:
 * nothing is ever known of it. */
MUST_CHECK struct shard_lock *shard_lock_new(struct net_loop *l,
                                             const struct shard_lock_options *o);

enum lock_state shard_lock_state(const struct shard_lock *s);
/* When it was seen last that somebody took or renewed it. */
uint64_t shard_lock_seen_at(const struct shard_lock *s);
/* Who holds it, or did last; "": nobody. Valid until the loop runs on. */
const char *shard_lock_holder(const struct shard_lock *s);

/* Reads it anew, for a watch may be behind. */
void shard_lock_read(struct shard_lock *s);
/* It has been read since, or ever, or cannot be there. */
bool shard_lock_is_read(const struct shard_lock *s);
/* Until when who led by it last may believe that they do, if nobody has taken or renewed it after
 * `since`, whoever has deleted or emptied it. Who gives it back leaves it for a second. 0: it never
 * was there. */
uint64_t shard_lock_ends_at(const struct shard_lock *s, uint64_t since);
/* Why it cannot be followed now; NULL: it can. Valid until the loop runs on. */
const char *shard_lock_error(const struct shard_lock *s);

/* At once. NULL is ignored. */
void shard_lock_free(struct shard_lock *s);

#endif
