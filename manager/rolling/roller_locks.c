/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Leases by which the shards of rolls are led. All rolls of a namespace share one watch of a
 * Lease. A namespace has a part of all watches; when they run short, it loses them that has most.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "rolling/roller_internal.h"

enum { KEY_SIZE = 512 };

struct lock_watch {
    struct table_node node;    /* of roller.locks */
    struct roll_namespace *ns; /* of the rolls that use it */
    struct shard_lock *lock;
    size_t users;
    char key[];
};

struct place {
    struct lock_place lease;
    char key[KEY_SIZE]; /* "NAMESPACE OF THE ROLL/NAMESPACE/NAME" */
};

/* False: the shard has none. */
static bool find_place(const struct roll *r, const struct shard_cache_config *config,
                       struct place *p)
{
    if (!shard_lock_find(config, &p->lease)) {
        return false;
    }
    int k = snprintf(p->key, sizeof p->key, "%s/%s/%s", r->set->ns, p->lease.ns, p->lease.name);
    return k > 0 && k < KEY_SIZE;
}

static struct lock_watch *find_lock(const struct roller *o, const struct place *p)
{
    return TABLE_FIND(&o->locks, slice_str(p->key), struct lock_watch);
}

static struct lock_watch *add_lock(struct roll *r, const struct place *p)
{
    struct roller *o = r->roller;
    const struct shard_lock_options so = {
        .client = o->options.client, .place = p->lease, .clock = o->clock, .ops = o->options.ops};
    struct lock_watch *l =
        xptr(TABLE_PROVIDE(&o->locks, slice_str(p->key), struct lock_watch, key));
    l->lock = shard_lock_new(o->loop, &so);
    l->ns = r->ns;
    l->ns->locks++;
    return l;
}

static void release(struct roller *o, struct lock_watch **locks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct lock_watch *l = locks[i];
        if (l != NULL && --l->users == 0) {
            l->ns->locks--;
            table_remove(&o->locks, &l->node);
            shard_lock_free(l->lock);
            free(l);
        }
    }
    free(locks);
}

void roll_forget_locks(struct roll *r)
{
    release(r->roller, r->locks, r->lock_count);
    r->locks = NULL;
    r->lock_count = 0;
}

/* One with locks, of the namespace that has most. NULL: there are none. */
static struct roll *greediest(const struct roller *o)
{
    struct roll *found = NULL;
    for (struct roll *r = NULL; (r = reconciler_next(o->reconciler, r)) != NULL;) {
        if (r->lock_count > 0 && (found == NULL || r->ns->locks > found->ns->locks)) {
            found = r;
        }
    }
    return found;
}

/* The others are no worse off than this namespace afterwards: so nobody takes anything back. */
static bool make_room(struct roll *r, size_t wanted)
{
    struct roller *o = r->roller;
    size_t own = r->ns->locks + wanted;
    while (own <= ROLLER_NAMESPACE_LOCKS_MAX && o->locks.count + wanted > ROLLER_LOCKS_MAX) {
        struct roll *other = greediest(o);
        if (other == NULL || other->ns->locks <= own) {
            return false;
        }
        roll_forget_locks(other);
    }
    return own <= ROLLER_NAMESPACE_LOCKS_MAX;
}

static size_t count_missing(const struct roll *r, const struct roll_view *v)
{
    struct place p;
    size_t count = 0;
    for (size_t i = 0; i < v->facts.shard_count; i++) {
        count += find_place(r, v->configs[i], &p) && find_lock(r->roller, &p) == NULL;
    }
    return count;
}

/* NULL: the shard has none. */
static struct lock_watch *take_lock(struct roll *r, const struct shard_cache_config *config)
{
    struct place p;
    if (!find_place(r, config, &p)) {
        return NULL;
    }
    struct lock_watch *l = find_lock(r->roller, &p);
    l = l != NULL ? l : add_lock(r, &p);
    l->users++;
    return l;
}

bool roll_take_locks(struct roll *r, const struct roll_view *v)
{
    size_t count = v->facts.shard_count;
    if (!make_room(r, count_missing(r, v))) {
        return false;
    }
    struct lock_watch **locks = xcalloc(count + 1, sizeof *locks);
    for (size_t i = 0; i < count; i++) {
        locks[i] = take_lock(r, v->configs[i]);
    }
    roll_forget_locks(r); /* after they were taken: those of both stay */
    r->locks = locks;
    r->lock_count = count;
    return true;
}

const struct shard_lock *roll_lock_of(const struct roll *r, size_t shard)
{
    return r->locks[shard] == NULL ? NULL : r->locks[shard]->lock;
}
