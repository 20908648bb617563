/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/metrics.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/array.h"
#include "base/prometheus.h"

static const char *const result_names[WEBHOOK_RESULTS] = {
    [WEBHOOK_ALLOWED] = "allowed",         [WEBHOOK_PATCHED] = "patched",
    [WEBHOOK_REFUSED] = "refused",         [WEBHOOK_ERROR] = "error",
    [WEBHOOK_BAD_REQUEST] = "bad_request",
};

/* Upper bounds in us; the last bucket has none. */
static const uint64_t bounds[WEBHOOK_BUCKETS - 1] = {1000, 5000, 25000, 100000, 1000000};

void webhook_stats_observe(struct webhook_stats *s, enum webhook_result result, uint64_t us)
{
    size_t bucket = 0;
    while (bucket < WEBHOOK_BUCKETS - 1 && us > bounds[bucket]) {
        bucket++;
    }
    s->results[result]++;
    s->buckets[bucket]++;
    s->sum_us += us;
}

static void write_requests(const char *webhook, const struct webhook_stats *s, struct buf *out)
{
    for (size_t r = 0; r < WEBHOOK_RESULTS; r++) {
        buf_printf(out, "cmesh_webhook_requests_total{webhook=\"%s\",result=\"%s\"} %" PRIu64 "\n",
                   webhook, result_names[r], s->results[r]);
    }
}

static void write_duration(const char *webhook, const struct webhook_stats *s, struct buf *out)
{
    uint64_t sum = 0;
    for (size_t b = 0; b < WEBHOOK_BUCKETS; b++) {
        char le[16] = "+Inf";
        if (b < WEBHOOK_BUCKETS - 1) {
            (void)snprintf(le, sizeof le, "%g", (double)bounds[b] / 1e6);
        }
        sum += s->buckets[b];
        buf_printf(out,
                   "cmesh_webhook_duration_seconds_bucket{webhook=\"%s\",le=\"%s\"} %" PRIu64 "\n",
                   webhook, le, sum);
    }
    buf_printf(out,
               "cmesh_webhook_duration_seconds_sum{webhook=\"%s\"} %.6f\n"
               "cmesh_webhook_duration_seconds_count{webhook=\"%s\"} %" PRIu64 "\n",
               webhook, (double)s->sum_us / 1e6, webhook, sum);
}

int webhook_metrics_write(const struct webhook_metrics *m, struct buf *out)
{
    prometheus_head(out, "cmesh_webhook_requests_total", "counter",
                    "Reviews by webhook and by what became of them.");
    for (size_t i = 0; i < m->count; i++) {
        write_requests(m->routes[i].name, &m->stats[i], out);
    }
    prometheus_head(out, "cmesh_webhook_duration_seconds", "histogram",
                    "Time from a review's last byte to its answer.");
    for (size_t i = 0; i < m->count; i++) {
        write_duration(m->routes[i].name, &m->stats[i], out);
    }
    const struct prometheus_metric metrics[] = {
        {"cmesh_webhook_unknown_path_total", "counter", "Requests for no webhook.", m->unknown},
        {"cmesh_webhook_connections", "gauge", "Connections that are open.", m->http->open},
        {"cmesh_webhook_connections_total", "counter", "Connections that were accepted.",
         m->http->accepted},
        {"cmesh_webhook_refused_total", "counter",
         "Connections over the limit, and requests that are no HTTP.", m->http->refused},
    };
    return prometheus_write(out, metrics, ARRAY_LEN(metrics));
}
