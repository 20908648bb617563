/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fair_queue.h - items that are due at some time, each of a group, handed out fairly.
 *
 * Of the groups that have something due one after the other has its turn, each with its item that
 * is due first; and no group has more than its share in hand at a time, however many it has. Each
 * call costs the logarithm of the number of items and groups.
 *
 *             set             take             done
 *   idle ----------> due ----------> in hand ---------> idle
 */
#ifndef MANAGER_ENFORCEMENT_FAIR_QUEUE_H
#define MANAGER_ENFORCEMENT_FAIR_QUEUE_H

#include <stdint.h>

#include "base/due_heap.h"
#include "base/err.h"
#include "base/list.h"
#include "base/slice.h"
#include "base/table.h"

struct fair_group;

/* Embedded in what it belongs to (LIST_ITEM finds it). All zero: it is in no queue. */
struct fair_item {
    struct due due;
    struct fair_group *group;
};

struct fair_queue {
    unsigned limit;       /* items in hand at a time */
    unsigned group_limit; /* of them, of one group */
    unsigned in_hand;
    struct table groups;
    struct due_heap later; /* groups with something due, by when it is */
    struct list turns;     /* groups with something due now */
};

/* The limits are at least 1. */
void fair_queue_init(struct fair_queue *q, unsigned limit, unsigned group_limit);
/* Items must have left. */
void fair_queue_deinit(struct fair_queue *q);

/* The item belongs to the group of that name from now on, idle. 0 or -ENOMEM. */
MUST_CHECK int fair_queue_join(struct fair_queue *q, struct fair_item *i, struct slice group);
/* An idle or due item; of one that never joined nothing happens. */
void fair_queue_leave(struct fair_queue *q, struct fair_item *i);

/* How many items have joined its group, itself included. */
size_t fair_queue_companions(const struct fair_item *i);

/* An idle or due item is due then. */
void fair_queue_set(struct fair_queue *q, struct fair_item *i, uint64_t at);
/* It is idle. */
void fair_queue_unset(struct fair_queue *q, struct fair_item *i);

/* Hands out the next item; NULL: nothing is due, or no more may be in hand. */
struct fair_item *fair_queue_take(struct fair_queue *q, uint64_t now);
/* What was handed out is idle again. */
void fair_queue_done(struct fair_queue *q, struct fair_item *i);

/* After fair_queue_take gave NULL: when it will give something by itself; UINT64_MAX: never. */
uint64_t fair_queue_next(const struct fair_queue *q);

#endif
