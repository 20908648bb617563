/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/review_queue.h"

/* What waits, of too many or too many bytes, is thought to take so long each. */
#define THOUGHT_NS UINT64_C(50000000)
enum { THOUGHT_BYTES = REVIEW_WAITING_BYTES_MAX / REVIEW_WAITING_MAX };

static struct review_place *place_of(struct list *node)
{
    return LIST_ITEM(node, struct review_place, link);
}

void review_queue_init(struct review_queue *q)
{
    *q = (struct review_queue){.count = 0};
    list_init(&q->waiting);
}

void review_place_open(struct review_place *p, struct net_peer *peer, unsigned lane, size_t size)
{
    *p = (struct review_place){.peer = net_peer_ref(peer), .lane = lane, .size = size};
    list_init(&p->link);
}

void review_place_wait(struct review_place *p, struct review_queue *q)
{
    struct list *at = q->waiting.prev;
    while (at != &q->waiting && place_of(at)->size > p->size) {
        at = at->prev;
    }
    list_append(at->next, &p->link); /* behind `at` */
    p->queue = q;
    q->count++;
    q->bytes += p->size;
    p->peer->waiting++;
    p->peer->waiting_bytes += p->size;
}

void review_place_leave(struct review_place *p)
{
    if (p->queue == NULL) {
        return;
    }
    list_remove(&p->link);
    p->queue->count--;
    p->queue->bytes -= p->size;
    p->peer->waiting--;
    p->peer->waiting_bytes -= p->size;
    p->queue = NULL;
}

void review_place_charge(struct review_place *p, uint64_t now_ns, uint64_t took_ns)
{
    struct net_peer *peer = p->peer;
    uint64_t from = peer->due > now_ns ? peer->due : now_ns;
    uint64_t due = from + REVIEW_DEBT_FACTOR * took_ns;
    peer->due = due < now_ns + REVIEW_DEBT_NS ? due : now_ns + REVIEW_DEBT_NS;
}

void review_place_close(struct review_place *p)
{
    review_place_leave(p);
    net_peer_unref(p->peer);
    p->peer = NULL;
}

struct review_place *review_queue_next(const struct review_queue *q, unsigned lane)
{
    struct review_place *found = NULL;
    LIST_FOR_EACH(node, &q->waiting)
    {
        struct review_place *p = place_of(node);
        if (p->lane == lane && (found == NULL || p->peer->due < found->peer->due)) {
            found = p;
        }
    }
    return found;
}

static uint64_t end_of(const struct net_peer *peer, bool too_many)
{
    return peer->due +
           THOUGHT_NS * (too_many ? peer->waiting : peer->waiting_bytes / THOUGHT_BYTES);
}

struct review_place *review_queue_excess(const struct review_queue *q)
{
    struct review_place *found = NULL;
    bool too_many = q->count > REVIEW_WAITING_MAX;
    if (!too_many && q->bytes <= REVIEW_WAITING_BYTES_MAX) {
        return NULL;
    }
    LIST_FOR_EACH(node, &q->waiting)
    {
        struct review_place *p = place_of(node);
        if (found == NULL || end_of(p->peer, too_many) >= end_of(found->peer, too_many)) {
            found = p;
        }
    }
    return found;
}
