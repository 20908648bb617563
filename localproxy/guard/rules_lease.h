/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules_lease.h - until when the rules may be enforced without a word from the API server
 * (--rules-lease).
 *
 *                 rules_lease_renewed
 *     EXPIRED --------------------------> VALID --- renewed again, or not ---+
 *        ^                                  |  ^                             |
 *        +--- nothing renewed it in time ---+  +-----------------------------+
 *
 * A pod whose node nobody reaches cannot be told that others took over its share. So it stops by
 * itself: its rules hold from the moment at which the last successful write of its Lease was *sent*
 * for as long as the lease says, by a clock that goes on while the machine sleeps. It begins
 * EXPIRED: what ran here before may have expired, too.
 */
#ifndef LOCALPROXY_GUARD_RULES_LEASE_H
#define LOCALPROXY_GUARD_RULES_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "net/clock.h"
#include "net/loop.h"

struct rules_lease;

/* The rules hold no longer. Inside rules_lease_valid, or from the loop; may not free it, nor renew.
 */
typedef void (*rules_lease_cb)(void *data);

/* Who wants to know, called in the order in which they stand here. */
enum rules_lease_listener {
    RULES_LEASE_PROXY,  /* ends what is open */
    RULES_LEASE_STATUS, /* reads the Lease anew before it writes it */
    RULES_LEASE_LISTENERS,
};

/* Of so many seconds. `clock`: NULL: the system's; must outlive it. NULL with `e` set: -ENOMEM. */
MUST_CHECK struct rules_lease *rules_lease_new(struct net_loop *l, uint64_t seconds,
                                               const struct net_clock *clock, struct err *e);
/* `cb` NULL: not any more. */
void rules_lease_listen(struct rules_lease *r, enum rules_lease_listener who, rules_lease_cb cb,
                        void *data);

/* Whether the rules may be enforced at this very moment; when they may not any more, the listeners
 * have heard of it on return. NULL: there is no lease, and they may. */
bool rules_lease_valid(struct rules_lease *r);
/* A write that was sent at `sent_ms`, by the clock, has succeeded. */
void rules_lease_renewed(struct rules_lease *r, uint64_t sent_ms);
/* Why it could not be renewed the last time, for people; copied. */
void rules_lease_explain(struct rules_lease *r, const char *why);

/* What was said of it last; "" if nothing was. */
const char *rules_lease_why(const struct rules_lease *r);
uint64_t rules_lease_seconds(const struct rules_lease *r);
/* 0: expired. */
uint64_t rules_lease_remaining_ms(const struct rules_lease *r);
/* Times that it has expired, the beginning not counted. */
uint64_t rules_lease_expirations(const struct rules_lease *r);

/* NULL is ignored. */
void rules_lease_free(struct rules_lease *r);

#endif
