/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group that may hand out something is either in `later`, by when it is due, or has come up and
 * is in `turns`; else in neither. That what is in `turns` is still due shows when its turn comes.
 */
#include "enforcement/fair_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct fair_group {
    struct table_node node;
    size_t members;
    unsigned in_hand;
    struct due_heap items; /* with room for all members */
    struct due due;        /* in `later` */
    struct list turn;      /* in `turns` */
    char name[];
};

void fair_queue_init(struct fair_queue *q, unsigned limit, unsigned group_limit)
{
    *q = (struct fair_queue){.limit = limit, .group_limit = group_limit};
    list_init(&q->turns);
}

void fair_queue_deinit(struct fair_queue *q)
{
    due_heap_deinit(&q->later);
    table_deinit(&q->groups);
}

/* ---- groups ---- */

static struct fair_group *obtain_group(struct fair_queue *q, struct slice name)
{
    struct fair_group *g = TABLE_FIND(&q->groups, name, struct fair_group);
    if (g != NULL || due_heap_reserve(&q->later, q->groups.count + 1) != 0) {
        return g;
    }
    g = TABLE_PROVIDE(&q->groups, name, struct fair_group, name);
    if (g != NULL) {
        list_init(&g->turn);
    }
    return g;
}

static void drop_if_empty(struct fair_queue *q, struct fair_group *g)
{
    if (g->members > 0) {
        return;
    }
    table_remove(&q->groups, &g->node);
    due_heap_remove(&q->later, &g->due);
    list_remove(&g->turn);
    due_heap_deinit(&g->items);
    free(g);
}

static void place_group(struct fair_queue *q, struct fair_group *g)
{
    const struct due *first = due_heap_first(&g->items);
    if (first == NULL || g->in_hand >= q->group_limit) {
        list_remove(&g->turn);
        due_heap_remove(&q->later, &g->due);
    } else if (!list_linked(&g->turn)) {
        due_heap_set(&q->later, &g->due, first->at);
    }
}

/* ---- items ---- */

int fair_queue_join(struct fair_queue *q, struct fair_item *i, struct slice group)
{
    struct fair_group *g = obtain_group(q, group);
    if (g == NULL) {
        return -ENOMEM;
    }
    if (due_heap_reserve(&g->items, g->members + 1) != 0) {
        drop_if_empty(q, g);
        return -ENOMEM;
    }
    g->members++;
    i->group = g;
    return 0;
}

void fair_queue_leave(struct fair_queue *q, struct fair_item *i)
{
    if (i->group == NULL) {
        return;
    }
    fair_queue_unset(q, i);
    i->group->members--;
    drop_if_empty(q, i->group);
    i->group = NULL;
}

size_t fair_queue_companions(const struct fair_item *i)
{
    return i->group->members;
}

void fair_queue_set(struct fair_queue *q, struct fair_item *i, uint64_t at)
{
    due_heap_set(&i->group->items, &i->due, at);
    place_group(q, i->group);
}

void fair_queue_unset(struct fair_queue *q, struct fair_item *i)
{
    due_heap_remove(&i->group->items, &i->due);
    place_group(q, i->group);
}

/* ---- turns ---- */

static void begin_turns(struct fair_queue *q, uint64_t now)
{
    struct due *first;
    while ((first = due_heap_first(&q->later)) != NULL && first->at <= now) {
        struct fair_group *g = LIST_ITEM(first, struct fair_group, due);
        due_heap_remove(&q->later, first);
        list_append(&q->turns, &g->turn);
    }
}

static struct fair_item *take_of(struct fair_queue *q, struct fair_group *g, uint64_t now)
{
    struct due *first = due_heap_first(&g->items);
    bool due = first->at <= now;
    list_remove(&g->turn);
    if (due) {
        due_heap_remove(&g->items, first);
        g->in_hand++;
        q->in_hand++;
    }
    place_group(q, g);
    return due ? LIST_ITEM(first, struct fair_item, due) : NULL;
}

struct fair_item *fair_queue_take(struct fair_queue *q, uint64_t now)
{
    struct fair_item *i = NULL;
    if (q->in_hand >= q->limit) {
        return NULL;
    }
    begin_turns(q, now);
    while (i == NULL && !list_empty(&q->turns)) {
        i = take_of(q, LIST_ITEM(q->turns.next, struct fair_group, turn), now);
    }
    return i;
}

void fair_queue_done(struct fair_queue *q, struct fair_item *i)
{
    i->group->in_hand--;
    q->in_hand--;
    place_group(q, i->group);
}

uint64_t fair_queue_next(const struct fair_queue *q)
{
    const struct due *first = q->in_hand >= q->limit ? NULL : due_heap_first(&q->later);
    return first == NULL ? UINT64_MAX : first->at;
}
