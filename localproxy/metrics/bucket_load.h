/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bucket_load.h - what localproxy has done for clients, by the sharding hash of the namespace
 * (--count-load).
 *
 * Requests count by the namespace in their path, events and objects by their own. What localproxy
 * asks for or writes by itself does not count, nor does the lock of leader election, which is no
 * share's: its requests are among those without a namespace.
 */
#ifndef LOCALPROXY_METRICS_BUCKET_LOAD_H
#define LOCALPROXY_METRICS_BUCKET_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "control/status.h"
#include "net/clock.h"

/* Lists in gzip that are inflated for it at a time: each takes 40 KiB. More are not read. */
#define BUCKET_LOAD_INFLATED_MAX 64

struct bucket_load {
    const struct net_clock *clock;
    uint64_t started_at;
    struct control_load counts;
    unsigned inflated; /* lists, now */
};

/* `clock` must outlive it. Needs no deinit. */
void bucket_load_init(struct bucket_load *l, const struct net_clock *clock);

/* The place of a namespace in counts.of. */
unsigned bucket_load_place(struct slice ns);

/* The counts as they are told, with the time. */
struct control_load bucket_load_counts(const struct bucket_load *l);

/* Appends the Prometheus text. 0, -ENOBUFS or -ENOMEM. */
MUST_CHECK int bucket_load_write_metrics(const struct bucket_load *l, struct buf *out);

#endif
