/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/breakers.h"

#include <errno.h>
#include <stdlib.h>

#include "base/ensure.h"
#include "base/list.h"

enum { WORD = 64, MS_US = 1000 };

/* ---- sets ---- */

void breaker_set_unref(struct breaker_set *s)
{
    if (s == NULL || --s->refs > 0) {
        return;
    }
    for (size_t i = 0; i < s->count; i++) {
        breaker_unref(s->at[i]);
    }
    free(s);
}

void breakers_init(struct breakers *all, const struct net_clock *clock)
{
    *all = (struct breakers){.clock = clock};
}

static struct breaker *breaker_of(struct table_node *n)
{
    return LIST_ITEM(n, struct breaker, node);
}

void breakers_deinit(struct breakers *all)
{
    table_deinit(&all->by_key);
    breaker_set_unref(all->now);
    all->now = NULL;
}

struct breaker_turn breakers_turn(struct breakers *all)
{
    return (struct breaker_turn){
        .number = ++all->turns,
        .ms = net_clock_now(all->clock),
        .wall_ms = net_clock_wall(all->clock) / MS_US,
    };
}

void breakers_end_turn(struct breakers *all, const struct breaker_turn *turn)
{
    if (turn->changed && all->on_changed != NULL) {
        all->on_changed(all->data);
    }
}

/* ---- another document ---- */

/* The one whose state goes on; NULL: it begins anew. */
static struct breaker *find_same(const struct breakers *all, const struct traffic_limiting *l,
                                 const char *key)
{
    struct table_node *n = table_find(&all->by_key, key);
    struct breaker *b = n == NULL ? NULL : breaker_of(n);
    return b != NULL && traffic_limiting_same(b->limiting, l) ? b : NULL;
}

static struct breaker *find_or_make(const struct breakers *all, struct traffic *document,
                                    const struct traffic_limiting *l, struct breaker_turn *turn)
{
    char *key = breaker_key(l);
    if (key == NULL) {
        return NULL;
    }
    struct breaker *b = find_same(all, l, key);
    b = b != NULL ? breaker_ref(b) : breaker_new(document, l, key, turn);
    free(key);
    return b;
}

/* What is there already is not changed. NULL without memory. */
static struct breaker_set *set_new(const struct breakers *all, struct traffic *document,
                                   struct breaker_turn *turn)
{
    size_t count = traffic_limiting_count(document);
    struct breaker_set *s = calloc(1, sizeof *s + count * sizeof s->at[0]);
    if (s == NULL) {
        return NULL;
    }
    s->refs = 1;
    for (; s->count < count; s->count++) {
        const struct traffic_limiting *l = traffic_limiting_at(document, s->count);
        s->at[s->count] = find_or_make(all, document, l, turn);
        if (s->at[s->count] == NULL) {
            breaker_set_unref(s);
            return NULL;
        }
    }
    return s;
}

void breakers_put_in_force(struct breakers *all, struct breaker_set *s, struct traffic *document,
                           struct breaker_turn *turn)
{
    struct breaker_set *before = all->now;
    for (size_t i = 0; before != NULL && i < before->count; i++) {
        table_remove(&all->by_key, &before->at[i]->node);
    }
    for (size_t i = 0; s != NULL && i < s->count; i++) {
        struct breaker *b = s->at[i];
        ensure(table_insert(&all->by_key, &b->node, b->key) == 0);
        if (b->document != document) {
            breaker_follow(b, document, traffic_limiting_at(document, i), turn);
        }
    }
    all->now = s;
    breaker_set_unref(before);
}

int breakers_prepare(struct breakers *all, struct traffic *document, struct breaker_turn *turn,
                     struct breaker_set **out)
{
    struct breaker_set *s = set_new(all, document, turn);
    if (s == NULL || table_reserve(&all->by_key) != 0) {
        breaker_set_unref(s);
        return -ENOMEM;
    }
    *out = s;
    return 0;
}

void breakers_activate(struct breakers *all, const struct selector_label *labels, size_t count)
{
    uint64_t now = net_clock_now(all->clock);
    for (size_t i = 0; all->now != NULL && i < all->now->count; i++) {
        struct breaker *b = all->now->at[i];
        breaker_select(b, traffic_policy_selects(b->limiting->policy, labels, count), now);
    }
}

/* ---- requests ---- */

static void give_ticket(struct breakers *all, const struct traffic_found *found,
                        const struct breaker_turn *turn, struct breaker_ticket *t)
{
    struct breaker_set *s = all->now;
    for (size_t i = 0; i < found->count; i++) {
        size_t k = found->index[i];
        breaker_take(s->at[k], turn);
        if (breaker_awaits(s->at[k])) {
            t->owed[k / WORD] |= UINT64_C(1) << (k % WORD);
            t->all = all;
        }
    }
    if (t->all != NULL) {
        t->set = s;
        s->refs++;
        t->turn = turn->number;
        t->begun_ms = turn->ms;
    }
}

enum breaker_refusal breakers_admit(struct breakers *all, const struct traffic_found *found,
                                    struct breaker_turn *turn, struct breaker_ticket *ticket,
                                    struct breaker **by, uint64_t *wait_ms)
{
    for (size_t i = 0; i < found->count; i++) {
        struct breaker *b = all->now->at[found->index[i]];
        enum breaker_refusal r = breaker_look(b, turn, wait_ms);
        if (r != BREAKER_ALLOWS) {
            breaker_count_refused(b, r);
            *by = b;
            return r;
        }
    }
    give_ticket(all, found, turn, ticket);
    return BREAKER_ALLOWS;
}

/* The next one that is owed something, from `i` on; set->count: there is none. */
static size_t next_owed(const struct breaker_ticket *t, size_t i)
{
    for (; i < t->set->count; i++) {
        uint64_t rest = t->owed[i / WORD] >> (i % WORD);
        if (rest != 0) {
            return i + (size_t)__builtin_ctzll(rest);
        }
        i |= WORD - 1;
    }
    return t->set->count;
}

void breaker_ticket_answered(struct breaker_ticket *t, bool failed)
{
    if (t->all == NULL || t->told) {
        return;
    }
    struct breaker_turn turn = breakers_turn(t->all);
    t->told = true;
    for (size_t i = next_owed(t, 0); i < t->set->count; i = next_owed(t, i + 1)) {
        breaker_answered(t->set->at[i], t->turn, failed, turn.ms - t->begun_ms, &turn);
    }
    breakers_end_turn(t->all, &turn);
}

void breaker_ticket_given_up(struct breaker_ticket *t)
{
    if (t->all == NULL || t->told) {
        return;
    }
    struct breaker_turn turn = breakers_turn(t->all);
    for (size_t i = next_owed(t, 0); i < t->set->count; i = next_owed(t, i + 1)) {
        breaker_given_up(t->set->at[i], t->turn, turn.ms - t->begun_ms, &turn);
    }
    breakers_end_turn(t->all, &turn);
}

void breaker_ticket_return(struct breaker_ticket *t)
{
    if (t->all == NULL) {
        return;
    }
    for (size_t i = next_owed(t, 0); i < t->set->count; i = next_owed(t, i + 1)) {
        breaker_leave(t->set->at[i], t->turn, !t->told);
    }
    breaker_set_unref(t->set);
    *t = (struct breaker_ticket){0};
}

void breaker_ticket_move(struct breaker_ticket *to, struct breaker_ticket *from)
{
    *to = *from;
    *from = (struct breaker_ticket){0};
}
