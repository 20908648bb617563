/* SPDX-License-Identifier: Apache-2.0 */
/*
 * breaker.h - the state of one rule of a CircuitBreaker: whether a request goes on, or is refused.
 *
 * A *turn* is something that happens to breakers: a request comes, is answered or ends, or another
 * document is in force. Turns are numbered, and a breaker knows that of its last transition: how a
 * request ends that was let through before says nothing of its state since.
 *
 *     breaker_look     for all rules that the request meets, until one refuses
 *     breaker_take     for all of them, when none did
 *     breaker_answered, breaker_leave    when it is answered, or breaker_given_up when nobody waits
 *                                        for that any more; and when it is over
 *
 * Times are of a clock that never goes back, and besides as people have it, which is what outlives
 * a restart (breaker_file.h).
 */
#ifndef LOCALPROXY_TRAFFIC_BREAKER_H
#define LOCALPROXY_TRAFFIC_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/table.h"
#include "base/token_bucket.h"
#include "control/status.h"
#include "traffic/traffic.h"

struct breaker_turn {
    uint64_t number;
    uint64_t ms;     /* of a clock that never goes back */
    int64_t wall_ms; /* since 1970 */
    bool changed;    /* a breaker went to another state, or has taken a token of its policy's */
};

/* Why a request does not go on. */
enum breaker_refusal {
    BREAKER_ALLOWS,
    BREAKER_OVER_LIMIT, /* no token is left */
    BREAKER_TOO_MANY,   /* are under way */
    BREAKER_IS_OPEN,    /* or half open, and has its probes */
    BREAKER_REFUSALS
};

/* "over_limit" and so on, for metrics. */
const char *breaker_refusal_name(enum breaker_refusal r);

#define BREAKER_SLOTS 10

/* What was answered in a tenth of the window. */
struct breaker_slot {
    uint64_t number; /* of the tenth, counted from the beginning of time */
    uint32_t answers;
    uint32_t failed;
    uint32_t slow;
};

/* The fields are read where it is described and kept; only this file changes them. */
struct breaker {
    struct table_node node; /* among those in force, by its key (breakers.h) */
    unsigned refs;
    struct traffic *document; /* which has the limiting */
    const struct traffic_limiting *limiting;
    bool selects; /* its policy selects the pod */
    enum control_breaker_state state;
    const char *why;       /* it is not closed */
    int64_t since_wall_ms; /* of the last transition; 0: there was none */
    int64_t until_wall_ms; /* open until then; 0: not by itself, or not open */
    uint64_t until_ms;     /* the same */
    uint64_t changed;      /* the turn of the last transition */
    uint64_t kept;         /* the same, as the file has it open (breaker_file.h); 0: it has not */
    struct token_bucket bucket;
    uint32_t in_flight;
    uint32_t probing; /* while it is half open: those under way, and those that were well */
    uint32_t well;
    struct breaker_slot slots[BREAKER_SLOTS];
    uint64_t refused[BREAKER_REFUSALS];
    char reset[TRAFFIC_TOKEN_MAX + 1]; /* the last token of the policy's; "": there was none */
    struct token_bucket logs;          /* transitions that are logged */
    uint64_t unlogged;
    char key[];
};

/* The key of a limiting: its policy's name and uid, and its own name. No other one of a document
 * has it: names are unique there, but uids may not be. The caller frees; NULL without memory. */
MUST_CHECK char *breaker_key(const struct traffic_limiting *l);

/* Of a limiting that is new: closed, or open if its policy says so. One reference is the caller's.
 * NULL without memory. */
MUST_CHECK struct breaker *breaker_new(struct traffic *document, const struct traffic_limiting *l,
                                       const char *key, struct breaker_turn *turn);
struct breaker *breaker_ref(struct breaker *b);
void breaker_unref(struct breaker *b);

/* Another document has it, too (traffic_limiting_same): takes its reset token. */
void breaker_follow(struct breaker *b, struct traffic *document, const struct traffic_limiting *l,
                    struct breaker_turn *turn);
/* It was open when the process ended, until then (0: not by itself), and `token` was its policy's
 * last; before breaker_follow or any request. `since_wall_ms` 0: it was not open. */
void breaker_restore(struct breaker *b, int64_t since_wall_ms, int64_t until_wall_ms,
                     const char *token, struct breaker_turn *turn);

/* Whether its policy selects the pod from now on. A new one selects none: what became of it before
 * is logged now. */
void breaker_select(struct breaker *b, bool selects, uint64_t now_ms);

/* Whether a request may go on; nothing is taken. A breaker whose time has come goes to its next
 * state, and one of TRAFFIC_NORMAL opens when no token is left. *wait_ms: when another may, 0: it
 * cannot be said. */
MUST_CHECK enum breaker_refusal breaker_look(struct breaker *b, struct breaker_turn *turn,
                                             uint64_t *wait_ms);
/* It goes on: takes a token, and a place. In the same turn as the look. */
void breaker_take(struct breaker *b, const struct breaker_turn *turn);
/* It does not, by this one. */
void breaker_count_refused(struct breaker *b, enum breaker_refusal r);

/* Whether it must hear of the end of a request that it let through. */
bool breaker_awaits(const struct breaker *b);
/* A request of the turn `begun` was answered after so long, or failed; once at most, before
 * breaker_leave. */
void breaker_answered(struct breaker *b, uint64_t begun, bool failed, uint64_t duration_ms,
                      struct breaker_turn *turn);
/* Whoever asked did not wait longer than so long for an answer: that it would have been slow is
 * known by then, or it is not. Before breaker_leave. */
void breaker_given_up(struct breaker *b, uint64_t begun, uint64_t duration_ms,
                      struct breaker_turn *turn);
/* It is over, or does not count as under way any more. `unanswered`: there was no
 * breaker_answered. */
void breaker_leave(struct breaker *b, uint64_t begun, bool unanswered);

/* To its next state, if its time has come. */
void breaker_settle(struct breaker *b, struct breaker_turn *turn);

/* Appends what whoever was refused is told. */
void breaker_message(const struct breaker *b, enum breaker_refusal r, struct buf *out);
/* Views into it. */
void breaker_describe(const struct breaker *b, struct control_breaker *out);

#endif
