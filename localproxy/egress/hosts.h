/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hosts.h - what was asked of which host, for metrics and /status: of so many hosts, and of all
 * others together.
 */
#ifndef LOCALPROXY_EGRESS_HOSTS_H
#define LOCALPROXY_EGRESS_HOSTS_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "base/table.h"

enum { HOSTS_MAX = 100 };

enum host_result {
    HOST_ANSWERED, /* by the origin, or a tunnel was opened */
    HOST_REFUSED,  /* by a rule, or since it may not be reached */
    HOST_LIMITED,  /* by a breaker */
    HOST_ABORTED,  /* by a fault */
    HOST_FAILED,   /* it could not be reached, or broke off */
    HOST_RESULTS
};

struct hosts {
    struct table by_name;
    uint64_t others[HOST_RESULTS];
};

void hosts_init(struct hosts *all);
void hosts_deinit(struct hosts *all);
/* Of hosts that were refused only, none is kept by name: who asks for many does not fill the list.
 */
void hosts_count(struct hosts *all, struct slice host, enum host_result result);
/* Appends `cmesh_proxy_egress_requests_total` by host and result (base/prometheus.h). 0, -ENOBUFS
 * or -ENOMEM. */
MUST_CHECK int hosts_write_metrics(const struct hosts *all, struct buf *out);

#endif
