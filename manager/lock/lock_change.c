/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/lock_change.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/xalloc.h"

/* One of the Leases. */
struct followed {
    struct list node; /* in lock_change.old */
    struct lock_place place;
    struct shard_lock *lock;
};

struct lock_change {
    struct net_loop *loop;
    struct lock_change_options options;
    struct list old; /* the oldest first */
    size_t old_count;
    bool more; /* there were, which are not followed any more */
    struct followed *to;
    uint64_t confirmed_at; /* 0: they have not */
};

static void set_place(struct lock_place *out, const char *ns, const char *name)
{
    (void)snprintf(out->ns, sizeof out->ns, "%s", ns);
    (void)snprintf(out->name, sizeof out->name, "%s", name);
}

static void set_place_of_shard(struct lock_place *out, const char *ns, const char *name,
                               const struct rules *rules)
{
    char renamed[LOCK_NAME_SIZE];
    (void)lock_name_of_shard(name, rules_shard_name(rules), renamed); /* else there is none */
    set_place(out, ns, renamed);
}

void lock_place_of(const struct rules *rules, const char *own, const char *ns,
                   struct lock_place *out)
{
    const char *name = rules_leader_election(rules);
    const char *elsewhere = rules_leader_election_namespace(rules);
    if (name == NULL) {
        set_place(out, ns, own);
    } else {
        set_place_of_shard(out, elsewhere == NULL ? ns : elsewhere, name, rules);
    }
}

void lock_place_other(const struct rules *rules, const char *own, const char *ns,
                      struct lock_place *out)
{
    const char *elsewhere = rules_leader_election_namespace(rules);
    if (rules_leader_election(rules) == NULL) {
        set_place_of_shard(out, ns, own, rules);
    } else {
        set_place(out, elsewhere == NULL ? ns : elsewhere, own);
    }
}

static struct followed *follow(const struct lock_change *c, const struct lock_place *place)
{
    const struct shard_lock_options so = {.client = c->options.client,
                                          .place = *place,
                                          .clock = c->options.clock,
                                          .ops = c->options.ops};
    struct followed *f = xcalloc(1, sizeof *f);
    list_init(&f->node);
    f->place = *place;
    f->lock = shard_lock_new(c->loop, &so);
    return f;
}

static void unfollow(struct followed *f)
{
    list_remove(&f->node);
    shard_lock_free(f->lock);
    free(f);
}

static void add_old(struct lock_change *c, struct followed *f)
{
    list_append(&c->old, &f->node);
    c->old_count++;
    if (c->old_count > LOCK_CHANGE_MAX) {
        unfollow(LIST_ITEM(c->old.next, struct followed, node));
        c->old_count--;
        c->more = true;
    }
}

struct lock_change *lock_change_new(struct net_loop *l, const struct lock_change_options *o)
{
    struct lock_change *c = xcalloc(1, sizeof *c);
    c->loop = l;
    c->options = *o;
    list_init(&c->old);
    c->to = follow(c, &o->to);
    add_old(c, follow(c, &o->from));
    return c;
}

static struct followed *find_old(const struct lock_change *c, const struct lock_place *place)
{
    LIST_FOR_EACH(n, &c->old)
    {
        struct followed *f = LIST_ITEM(n, struct followed, node);
        if (lock_place_same(&f->place, place)) {
            return f;
        }
    }
    return NULL;
}

void lock_change_again(struct lock_change *c, const struct lock_place *from,
                       const struct lock_place *to)
{
    if (!lock_place_same(&c->to->place, to)) {
        struct followed *back = find_old(c, to);
        if (back != NULL) {
            list_remove(&back->node);
            c->old_count--;
        }
        add_old(c, c->to);
        c->to = back != NULL ? back : follow(c, to);
        c->confirmed_at = 0;
    }
    if (!lock_place_same(from, to) && find_old(c, from) == NULL) {
        add_old(c, follow(c, from));
        c->confirmed_at = 0;
    }
}

/* What stands there from now on is what is left of who led. */
static void read_old(struct lock_change *c)
{
    LIST_FOR_EACH(n, &c->old)
    {
        struct followed *f = LIST_ITEM(n, struct followed, node);
        shard_lock_read(f->lock);
    }
}

void lock_change_confirm(struct lock_change *c, bool confirmed)
{
    if (!confirmed) {
        c->confirmed_at = 0;
    } else if (c->confirmed_at == 0) {
        c->confirmed_at = net_clock_now(c->options.clock);
        read_old(c);
    }
}

/* It has renewed the new one since nobody renews the old one. */
static bool is_led_by_the_same(const struct lock_change *c, const struct shard_lock *old)
{
    const struct shard_lock *to = c->to->lock;
    return shard_lock_state(to) == LOCK_STATE_HELD && shard_lock_seen_at(to) >= c->confirmed_at &&
           strcmp(shard_lock_holder(to), shard_lock_holder(old)) == 0;
}

/* A lock that is held on for longer is another one's. */
static bool is_given_up(const struct lock_change *c, const struct shard_lock *old)
{
    return shard_lock_is_read(old) &&
           (net_clock_now(c->options.clock) > shard_lock_ends_at(old, c->confirmed_at) ||
            is_led_by_the_same(c, old));
}

bool lock_change_is_over(const struct lock_change *c)
{
    bool over = c->confirmed_at != 0 &&
                (!c->more || net_clock_now(c->options.clock) > c->confirmed_at + SHARD_LOCK_MAX_MS);
    LIST_FOR_EACH(n, &c->old)
    {
        const struct shard_lock *old = LIST_ITEM(n, struct followed, node)->lock;
        over = over && is_given_up(c, old);
    }
    return over;
}

const char *lock_change_error(const struct lock_change *c)
{
    const char *error =
        c->more ? "does not follow the oldest of so many locks, and waits for an hour" : NULL;
    LIST_FOR_EACH(n, &c->old)
    {
        const struct shard_lock *old = LIST_ITEM(n, struct followed, node)->lock;
        error = error != NULL ? error : shard_lock_error(old);
    }
    return error;
}

void lock_change_free(struct lock_change *c)
{
    if (c != NULL) {
        unfollow(c->to);
        LIST_FOR_EACH_SAFE(n, after, &c->old)
        {
            unfollow(LIST_ITEM(n, struct followed, node));
        }
        free(c);
    }
}
