/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.h - counts what became of reviews and how long they took, and writes it for Prometheus.
 */
#ifndef MANAGER_WEBHOOK_METRICS_H
#define MANAGER_WEBHOOK_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/prometheus.h"
#include "http/server.h"
#include "webhook/route.h"

enum webhook_result {
    WEBHOOK_ALLOWED,
    WEBHOOK_PATCHED,
    WEBHOOK_REFUSED,
    WEBHOOK_ERROR,
    WEBHOOK_BAD_REQUEST,
    WEBHOOK_RESULTS
};

/* Of one route. All zero before the first review. */
struct webhook_stats {
    uint64_t results[WEBHOOK_RESULTS];
    struct prometheus_histogram duration;
    struct prometheus_histogram in_thread; /* of those that were in one */
    struct prometheus_histogram in_loop;   /* how long others were held up */
};

/* Of all routes: what is decided about in threads. */
struct webhook_thread_counts {
    size_t waiting;       /* reviews now, */
    size_t waiting_bytes; /* and their bytes */
    uint64_t reviews;     /* that were in one */
    uint64_t turned_away; /* since too many waited */
};

/* A review that was answered in `us` microseconds. */
void webhook_stats_observe(struct webhook_stats *s, enum webhook_result result, uint64_t us);
/* What of it was spent in threads, 0 if it was in none, and in the loop. */
void webhook_stats_observe_parts(struct webhook_stats *s, uint64_t thread_us, uint64_t loop_us);

/* What is written. */
struct webhook_metrics {
    const struct webhook_route *routes;
    const struct webhook_stats *stats; /* of each route */
    size_t count;
    uint64_t unknown;     /* requests for no route */
    uint64_t slow_bodies; /* that were given up */
    uint64_t crowded_out; /* bodies that went for others */
    struct webhook_thread_counts threads;
    const struct http_server_stats *http;
};

/* Appends cmesh_webhook_*; errors stay in `out`. */
void webhook_metrics_write(const struct webhook_metrics *m, struct buf *out);

#endif
