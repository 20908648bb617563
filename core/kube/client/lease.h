/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.h - elects one leader among processes that share a coordination.k8s.io/v1 Lease.
 *
 * Works beside client-go's leaderelection on the same Lease. The holder renews it; the others look
 * at it, and take it when it has not changed for as long as it says it lasts, measured by their own
 * clock from when they saw the change, so that no two clocks need to agree. Each write names the
 * version that it replaces, so of two that try one wins.
 *
 * What a leader must not do is to go on for longer than the others wait. So its time runs from when
 * it *sent* its last successful renewal, and it stops after renew_deadline_ms, which is shorter
 * than duration_ms: at that moment nobody else can have it.
 *
 * Source: k8s.io/client-go/tools/leaderelection. Different from there: a leader that sees another's
 * name in the Lease stops at once; on_stopped comes before the Lease is given back; afterwards it
 * stands for election again.
 */
#ifndef CORE_KUBE_CLIENT_LEASE_H
#define CORE_KUBE_CLIENT_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kube/client/client.h"
#include "net/clock.h"
#include "net/loop.h"

struct lease;

/* Times duration_ms without a leader, until that is told. */
enum { LEASE_PATIENCE = 4 };

/* None is ever called inside a function of this header but on_stopped, which lease_release calls;
 * lease_free is allowed in all of them. All but on_started and on_stopped may be NULL. */
struct lease_handlers {
    void (*on_started)(void *data); /* this process leads */
    /* It has lost leadership, and nothing may be written from now on. After each on_started, unless
     * lease_free was called. */
    void (*on_stopped)(void *data);
    /* Another one leads, or this one; "": nobody. When it changes. */
    void (*on_leader)(void *data, const char *identity);
    /* Why the Lease can be neither read nor written, for people; NULL: it can again. When it
     * changes. `level`: at which to log it, or that it is over, as kube_client_failure_level. */
    void (*on_state)(void *data, const char *error, enum log_level level);
    /* Nobody is known to have led for so long: after LEASE_PATIENCE for the first time, and
     * again each time that as much has passed. */
    void (*on_leaderless)(void *data, uint64_t ms);
};

/* Texts are copied. */
struct lease_options {
    struct kube_client *client; /* must outlive the lease */
    const char *namespace;
    const char *name;
    const char *identity;          /* of this process; no two may have the same */
    uint64_t duration_ms;          /* whole seconds; 0: 15,000 */
    uint64_t renew_deadline_ms;    /* less than duration_ms; 0: 10,000 */
    uint64_t retry_period_ms;      /* 1.2 times of it less than renew_deadline_ms; 0: 2,000 */
    const struct net_clock *clock; /* kept, not copied; NULL: the system's */
};

/* Begins with the loop's next turn. NULL with `e` set: -EINVAL (options). */
MUST_CHECK struct lease *lease_new(struct net_loop *l, const struct lease_options *o,
                                   const struct lease_handlers *handlers, void *data,
                                   struct err *e);

/* Whether this process leads at this very moment. To be asked before each write: a process that was
 * stopped for a while may come to a write before on_stopped comes to it. */
bool lease_held(const struct lease *l);
/* Who leads, as far as is known; "": nobody, or nothing is known. Valid until the loop runs on. */
const char *lease_leader(const struct lease *l);
/* What on_state said last; NULL: nothing. Valid until the loop runs on. */
const char *lease_error(const struct lease *l);
/* Whether the API server answered with that error. false: none, or nobody answered. */
bool lease_refused(const struct lease *l);
/* How long nobody is known to have led, since this was made or since the last Lease that was seen
 * ran out; 0: somebody leads. */
uint64_t lease_leaderless_ms(const struct lease *l);

/* Stands for election no more. A leader calls on_stopped before this returns, and then gives the
 * Lease back, so that the next one need not wait for its end. `cb` is called from the loop when
 * that is done, or has failed, within renew_deadline_ms; lease_free is then still due, and allowed
 * inside. Only the first call counts. */
typedef void (*lease_release_cb)(void *data);
void lease_release(struct lease *l, lease_release_cb cb, void *data);

/* At once: no handler is called any more, and the Lease is not given back. NULL is ignored. */
void lease_free(struct lease *l);

#endif
