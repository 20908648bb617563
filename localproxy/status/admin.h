/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin.h - /healthz, /readyz, /metrics and /status.
 *
 * Nothing here tells a credential or an object; it is meant to be reachable by the kubelet and by
 * Prometheus.
 */
#ifndef LOCALPROXY_STATUS_ADMIN_H
#define LOCALPROXY_STATUS_ADMIN_H

#include "bypass/bypass_watch.h"
#include "egress/egress.h"
#include "request/proxy.h"
#include "status/status_lease.h"

struct admin;

struct admin_options {
    const struct localproxy_flags *flags;
    struct proxy *proxy;
    struct metrics *metrics;
    struct bypass_watch *bypass; /* NULL: that is not watched */
    struct policies *policies;   /* NULL: there are none */
    const struct egress *egress; /* NULL: there is no way to other places */
    const struct reload *reload; /* NULL: there is no control socket */
    struct status_lease *lease;  /* NULL: none is written */
    struct control_pod pod;      /* its own; NULL or "": not known */
};

/* Listens. NULL with `e` set. */
MUST_CHECK struct admin *admin_new(struct net_loop *l, const struct admin_options *o,
                                   struct err *e);
const char *admin_address(const struct admin *a);
/* NULL is ignored. */
void admin_free(struct admin *a);

#endif
