/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deliver.h - hands rules over to localproxy, and sees to it that they stay enforced.
 *
 * Confirmed means that the proxy itself named the shard, generation and checksum that it was given.
 * Until then, and whenever it cannot be reached, it is tried again: with pauses from 0.1 s to 5 s,
 * without end. After that the proxy is asked every 5 s, so that one that was restarted with an
 * older copy gets them again; if its socket is seen to come anew, at once. Newer rules are handed
 * over at once, whatever is under way. A proxy that enforces a newer generation is left alone, and
 * what it refused is not offered again for a minute, unless it enforces something else by then.
 *
 *                    .-- rules --> PUTTING -- refused, answered otherwise --.
 *     IDLE -- rules -+                | confirmed                           v
 *                    '-> ASKING ------+--------------------------------> WAITING
 *                          ^  ^----- rules, when it is known what it enforces -' |
 *                          '---------- the pause is over -----------------------'
 */
#ifndef RULESYNC_DELIVER_H
#define RULESYNC_DELIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "complaint.h"
#include "control/state.h"
#include "net/loop.h"
#include "rules/rules.h"

struct deliver;

enum deliver_verdict {
    DELIVER_PENDING,   /* nothing to hand over yet, or not confirmed yet */
    DELIVER_CONFIRMED, /* the proxy enforces the rules that were given last */
    DELIVER_REFUSED,   /* it refused them: see the complaint */
    DELIVER_AHEAD,     /* it enforces a newer generation */
};

struct deliver_status {
    enum deliver_verdict verdict;
    bool answered;              /* ever; then: */
    struct control_state proxy; /* what it said last */
    int64_t answered_at;        /* seconds since 1970 */
    int64_t confirmed_at;       /* the same, of the last confirmation; 0: never */
    uint64_t offers;            /* hand-overs begun */
    uint64_t confirmations;     /* of them confirmed */
    uint64_t retries;           /* attempts after one that failed */
    uint64_t refusals;
    struct complaint trouble; /* why the verdict is not CONFIRMED */
};

/* Zero: the default. */
struct deliver_options {
    const char *socket;
    uint64_t call_ms;      /* for one call; 10,000 */
    uint64_t check_ms;     /* between two questions when all is well; 5,000 */
    uint64_t retry_min_ms; /* the first pause is up to so long; 100 */
    uint64_t retry_max_ms; /* 5,000 */
    uint64_t refused_ms;   /* until what was refused is offered again; 60,000 */
    /* The verdict changed to another one than PENDING. Never inside a function of this header; may
     * not free. May be NULL. */
    void (*on_verdict)(void *data);
    void *data;
};

/* NULL with `e` set. */
MUST_CHECK struct deliver *deliver_new(struct net_loop *l, const struct deliver_options *o,
                                       struct err *e);
/* From now on these are handed over, and no others. */
void deliver_set(struct deliver *d, struct rules *rules);
/* Ends a pause: tries or asks now. */
void deliver_check(struct deliver *d);

const struct deliver_status *deliver_status(const struct deliver *d);
const char *deliver_socket(const struct deliver *d);
/* NULL is ignored. */
void deliver_free(struct deliver *d);

#endif
