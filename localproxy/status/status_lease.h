/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status_lease.h - tells the manager by a Lease what GET /status would say: at once when rules are
 * in force, and where no manager can ask.
 *
 * The Lease belongs to the pod, so it goes with it. It is written when something in it changes, and
 * renewed each minute while no manager asks. What cannot be written is tried again, with growing
 * pauses: nothing depends on it but how soon the manager knows, and with --rules-lease whether the
 * rules are valid (guard/rules_lease.h): it is renewed three times as often as that lasts.
 *
 * Each write names the version that it replaces. So it cannot be renewed without having read what
 * a manager wrote there: the generation that is required (CONTROL_LEASE_REQUIRED). While the rules
 * in force are older the Lease is written with that annotation, and the rules are not valid.
 *
 * Source: https://kubernetes.io/docs/concepts/architecture/leases/.
 */
#ifndef LOCALPROXY_STATUS_STATUS_LEASE_H
#define LOCALPROXY_STATUS_STATUS_LEASE_H

#include <stdint.h>

#include "base/err.h"
#include "bypass/bypass_watch.h"
#include "control/reload.h"
#include "egress/egress.h"
#include "kube/client/client.h"
#include "metrics/metrics.h"
#include "net/clock.h"
#include "net/loop.h"
#include "request/proxy.h"

struct status_lease;

/* Texts are kept, not copied. */
struct status_lease_options {
    struct kube_client *client; /* of the pod's cluster; these eight must outlive it */
    const struct proxy *proxy;
    const struct reload *reload; /* NULL: nothing is heard of rulesync */
    struct metrics *metrics;
    struct bypass_watch *bypass; /* NULL: that is not watched */
    struct policies *policies;   /* NULL: there are none */
    const struct egress *egress; /* NULL: there is no way to other places */
    struct rules_lease *lease;   /* of the rules, with the same clock; NULL: they have none */
    const char *namespace;       /* of the pod */
    const char *pod;             /* its name */
    const char *uid;
    const struct net_clock *clock; /* NULL: the system's */
};

/* Writes soon. NULL with `e` set: -ENOMEM. */
MUST_CHECK struct status_lease *
status_lease_new(struct net_loop *l, const struct status_lease_options *o, struct err *e);

/* What it tells may be other than before: looks after `ms` at the latest. */
void status_lease_look(struct status_lease *s, uint64_t ms);
/* A manager has asked by itself. */
void status_lease_asked(struct status_lease *s);

/* Why it could not be written the last time; NULL: it could. Valid until the loop runs on. */
const char *status_lease_error(const struct status_lease *s);

/* At once: a request that is under way may be executed all the same. NULL is ignored. */
void status_lease_free(struct status_lease *s);

#endif
