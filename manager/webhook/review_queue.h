/* SPDX-License-Identifier: Apache-2.0 */
/*
 * review_queue.h - reviews that wait for a thread: whose turn it is, and which has to go when there
 * are too many.
 *
 * Peers take turns. Each has a time at which it is due: when it was first known, and after each
 * review the moment when that was decided and a multiple of what it took, up to REVIEW_DEBT_NS. The
 * peer that is due first is next, with the smallest of its reviews; so one that asks for much waits
 * for those that ask for little, and none waits for one that came more than REVIEW_DEBT_NS later.
 *
 * Over the bounds the peer that would come to its end last has to go, with the largest of its
 * reviews: the one that has much waiting, or is due late.
 */
#ifndef MANAGER_WEBHOOK_REVIEW_QUEUE_H
#define MANAGER_WEBHOOK_REVIEW_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "net/peers.h"

#define REVIEW_WAITING_MAX 64
#define REVIEW_WAITING_BYTES_MAX (16 * 1024 * 1024)
#define REVIEW_DEBT_FACTOR 8
#define REVIEW_DEBT_NS UINT64_C(2000000000)

struct review_queue {
    struct list waiting; /* the smallest first */
    size_t count;
    uint64_t bytes;
};

/* A review's; embedded by it. */
struct review_place {
    struct list link;
    struct review_queue *queue; /* NULL: it does not wait */
    struct net_peer *peer;
    unsigned lane;
    size_t size;
};

void review_queue_init(struct review_queue *q);

/* Holds a reference to the peer until it is closed. */
void review_place_open(struct review_place *p, struct net_peer *peer, unsigned lane, size_t size);
void review_place_wait(struct review_place *p, struct review_queue *q);
/* It waits no more. Nothing happens when it does not. */
void review_place_leave(struct review_place *p);
/* It was decided, in so many nanoseconds, which end now. */
void review_place_charge(struct review_place *p, uint64_t now_ns, uint64_t took_ns);
void review_place_close(struct review_place *p);

/* Whose turn it is in a lane; NULL: none waits there. */
struct review_place *review_queue_next(const struct review_queue *q, unsigned lane);
/* What has to go; NULL: nothing. */
struct review_place *review_queue_excess(const struct review_queue *q);

#endif
