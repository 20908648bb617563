/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.h - what localproxy counts, and its Prometheus text.
 */
#ifndef LOCALPROXY_METRICS_H
#define LOCALPROXY_METRICS_H

#include <stdint.h>

#include "base/buf.h"
#include "http/client.h"
#include "http/server.h"
#include "kube/request_info.h"
#include "kube/rules.h"

enum { METRICS_CODES = 64, METRICS_BUCKETS = 12 };

struct metrics {
    struct metrics_code {
        enum request_verb verb;
        unsigned code;
        uint64_t count;
    } codes[METRICS_CODES]; /* the last one gathers what does not fit */
    unsigned code_count;
    uint64_t limited;         /* requests that got a selector */
    uint64_t rejected;        /* answered by localproxy itself */
    uint64_t upstream_errors; /* the API server could not be asked, or broke off */
    uint64_t response_bytes;
    uint64_t open_watches;
    uint64_t tunnels;
    uint64_t duration[METRICS_BUCKETS + 1]; /* to the end of the response; watches not counted */
    uint64_t duration_sum_us;
};

/* A response's head was sent to the operator. */
void metrics_count_code(struct metrics *m, enum request_verb verb, unsigned code);
void metrics_count_duration(struct metrics *m, uint64_t us);

/* What the text is made of beside the counters. */
struct metrics_sources {
    const struct http_server_stats *server;
    const struct http_client_stats *client;
    const struct rules *rules; /* NULL: none in force */
    bool ready;
};

/* Appends the Prometheus text format, version 0.0.4. 0, -ENOBUFS or -ENOMEM. */
MUST_CHECK int metrics_write(const struct metrics *m, const struct metrics_sources *s,
                             struct buf *out);

#endif
