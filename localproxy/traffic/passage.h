/* SPDX-License-Identifier: Apache-2.0 */
/*
 * passage.h - what traffic policies, and who counts, have done with a request so far. It goes with
 * the request when that is taken again, from the start: nothing is drawn, charged or counted twice.
 */
#ifndef LOCALPROXY_TRAFFIC_PASSAGE_H
#define LOCALPROXY_TRAFFIC_PASSAGE_H

#include "traffic/breakers.h"

/* All zero: nothing yet. */
struct passage {
    bool faulted; /* its faults were drawn, and suffered */
    bool charged; /* breakers have let it through */
    bool counted; /* it is among the load and the resources (localproxy/metrics) */
    struct breaker_ticket ticket;
};

/* `to`, which owes nothing, has it, and `from` is all zero. */
static inline void passage_move(struct passage *to, struct passage *from)
{
    *to = *from;
    *from = (struct passage){.faulted = false};
}

/* The request is over. */
static inline void passage_end(struct passage *p)
{
    breaker_ticket_return(&p->ticket);
}

#endif
