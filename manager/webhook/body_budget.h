/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body_budget.h - bytes of all bodies together, shared by address (net/peers.h). No I/O, no clock.
 *
 * Bytes count when they came. When there are too many, one body has to go: of the peer that holds
 * most, the one that was begun first and is not complete. So one that was announced takes nothing
 * from anybody, and whoever holds much gives way to those who hold little, also to itself: what
 * an API server sends comes at once, and is seldom the oldest.
 */
#ifndef MANAGER_WEBHOOK_BODY_BUDGET_H
#define MANAGER_WEBHOOK_BODY_BUDGET_H

#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "net/peers.h"

struct body_budget {
    struct list coming; /* bodies that are not complete, in the order in which they were begun */
    uint64_t max;       /* bytes */
    uint64_t held;
};

/* What one body has of it. */
struct body_share {
    struct list link;
    struct body_budget *budget;
    struct net_peer *peer;
    uint64_t bytes;
};

void body_budget_init(struct body_budget *b, uint64_t max);

/* Another body begins; the peer is referenced until body_share_close. */
void body_share_open(struct body_share *s, struct body_budget *b, struct net_peer *peer);
/* It has so many bytes by now, not fewer than before. */
void body_share_grow(struct body_share *s, uint64_t bytes);
/* It is complete, and stays until it is closed. */
void body_share_complete(struct body_share *s);
void body_share_close(struct body_share *s);

/* The body that must be closed before more come; NULL: there is room. Asked again and again. */
MUST_CHECK struct body_share *body_budget_excess(const struct body_budget *b);

#endif
