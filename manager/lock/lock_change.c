/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/lock_change.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "lock/shard_lock.h"

/* By then it is seen who took a lock before it was confirmed that nobody does. */
enum { SEEN_MS = 500 };

struct lock_change {
    const struct net_clock *clock;
    struct lock_place places[2];
    struct shard_lock *from; /* NULL: no Lease can have the name */
    struct shard_lock *to;
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

bool lock_place_same(const struct lock_place *a, const struct lock_place *b)
{
    return strcmp(a->ns, b->ns) == 0 && strcmp(a->name, b->name) == 0;
}

static struct shard_lock *follow(struct net_loop *l, const struct lock_change_options *o,
                                 const struct lock_place *place)
{
    const struct shard_lock_options so = {.client = o->client,
                                          .ns = place->ns,
                                          .name = place->name,
                                          .clock = o->clock,
                                          .ops = o->ops};
    return name_check_subdomain(slice_str(place->name)) == NULL ? shard_lock_new(l, &so) : NULL;
}

struct lock_change *lock_change_new(struct net_loop *l, const struct lock_change_options *o)
{
    struct lock_change *c = xcalloc(1, sizeof *c);
    c->clock = o->clock;
    c->places[0] = o->from;
    c->places[1] = o->to;
    c->from = follow(l, o, &c->places[0]);
    c->to = follow(l, o, &c->places[1]);
    return c;
}

const struct lock_place *lock_change_from(const struct lock_change *c)
{
    return &c->places[0];
}

const struct lock_place *lock_change_to(const struct lock_change *c)
{
    return &c->places[1];
}

void lock_change_confirm(struct lock_change *c, bool confirmed)
{
    bool known = confirmed && c->confirmed_at != 0;
    c->confirmed_at = known ? c->confirmed_at : confirmed ? net_clock_now(c->clock) : 0;
}

/* It has renewed the new one since nobody renews the old one. */
static bool is_led_by_the_same(const struct lock_change *c)
{
    return c->from != NULL && c->to != NULL && shard_lock_state(c->to) == LOCK_STATE_HELD &&
           shard_lock_seen_at(c->to) >= c->confirmed_at &&
           strcmp(shard_lock_holder(c->to), shard_lock_holder(c->from)) == 0;
}

/* A lock that is held on for longer is another one's. */
bool lock_change_is_over(const struct lock_change *c)
{
    enum lock_state state = c->from == NULL ? LOCK_STATE_NONE : shard_lock_state(c->from);
    uint64_t since = net_clock_now(c->clock) - c->confirmed_at;
    if (c->confirmed_at == 0) {
        return false;
    }
    if (state == LOCK_STATE_HELD || state == LOCK_STATE_UNKNOWN) {
        bool expired = state == LOCK_STATE_HELD && since > shard_lock_duration(c->from);
        return expired || is_led_by_the_same(c);
    }
    return since >= SEEN_MS;
}

void lock_change_free(struct lock_change *c)
{
    if (c != NULL) {
        shard_lock_free(c->from);
        shard_lock_free(c->to);
        free(c);
    }
}
