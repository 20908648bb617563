/* SPDX-License-Identifier: Apache-2.0 */
/*
 * breakers.h - the breakers of a traffic document, and what a request that they let through owes
 * them.
 *
 * Their states are apart from the document: they go on where another one has the same rule. A
 * *ticket* goes with a request from the moment when breakers let it through. It is told how the
 * request was answered, and given back when it is over, however that came about; both mean
 * something to rules that count what is under way or look at the API server's health, and cost
 * nothing where there are none. It may be moved, and holds the rules that were in force.
 */
#ifndef LOCALPROXY_TRAFFIC_BREAKERS_H
#define LOCALPROXY_TRAFFIC_BREAKERS_H

#include "base/table.h"
#include "net/clock.h"
#include "traffic/breaker.h"
#include "traffic/match.h"

/* The breakers of one document: one for each limiting, at its index. */
struct breaker_set {
    unsigned refs;
    size_t count;
    struct breaker *at[];
};

struct breakers {
    const struct net_clock *clock;
    void (*on_changed)(void *data); /* after a turn that changed one; the caller's to set */
    void *data;
    uint64_t turns;
    struct table by_key;     /* those in force */
    struct breaker_set *now; /* NULL: there is no document */
};

/* All zero: it owes nothing. */
struct breaker_ticket {
    struct breakers *all; /* NULL: nothing is owed */
    struct breaker_set *set;
    uint64_t turn;
    uint64_t begun_ms;
    bool told; /* how it was answered */
    uint64_t owed[TRAFFIC_SET_WORDS];
};

void breakers_init(struct breakers *all, const struct net_clock *clock);
/* No ticket may be out any more. */
void breakers_deinit(struct breakers *all);

/* Something happens to them now. */
struct breaker_turn breakers_turn(struct breakers *all);
/* It is over: calls on_changed, if one was changed. */
void breakers_end_turn(struct breakers *all, const struct breaker_turn *turn);

/* The breakers of that document, which is to be in force; nothing has changed yet. *out is to be
 * put in force in the same turn, or given back. 0 or -ENOMEM. */
MUST_CHECK int breakers_prepare(struct breakers *all, struct traffic *document,
                                struct breaker_turn *turn, struct breaker_set **out);
/* NULL, both of them: no document is in force. */
void breakers_put_in_force(struct breakers *all, struct breaker_set *s, struct traffic *document,
                           struct breaker_turn *turn);
/* After another document, and when the pod's labels change. */
void breakers_activate(struct breakers *all, const struct selector_label *labels, size_t count);
/* NULL is ignored. */
void breaker_set_unref(struct breaker_set *s);

/* Whether a request that meets these limitings goes on: then the ticket is its. If not, *by is the
 * breaker that refused it, and *wait_ms as breaker_look says. */
MUST_CHECK enum breaker_refusal
breakers_admit(struct breakers *all, const struct traffic_found *found, struct breaker_turn *turn,
               struct breaker_ticket *ticket, struct breaker **by, uint64_t *wait_ms);

/* The head of the answer has come, or none will. The first time counts. */
void breaker_ticket_answered(struct breaker_ticket *t, bool failed);
/* The client has gone before that, though all of its request had come. */
void breaker_ticket_given_up(struct breaker_ticket *t);
/* It is over: the ticket is all zero. One that is so already owes nothing. */
void breaker_ticket_return(struct breaker_ticket *t);
/* `to` has it, and `from` is all zero. */
void breaker_ticket_move(struct breaker_ticket *to, struct breaker_ticket *from);

#endif
