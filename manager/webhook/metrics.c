/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/metrics.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "base/array.h"

static const char *const result_names[WEBHOOK_RESULTS] = {
    [WEBHOOK_ALLOWED] = "allowed",         [WEBHOOK_PATCHED] = "patched",
    [WEBHOOK_REFUSED] = "refused",         [WEBHOOK_ERROR] = "error",
    [WEBHOOK_BAD_REQUEST] = "bad_request",
};

/* In microseconds. */
static const struct prometheus_bounds bounds = {
    .per_second = 1000000,
    .count = 5,
    .upper = {1000, 5000, 25000, 100000, 1000000},
};

void webhook_stats_observe(struct webhook_stats *s, enum webhook_result result, uint64_t us)
{
    s->results[result]++;
    prometheus_observe(&s->duration, &bounds, us);
}

void webhook_stats_observe_parts(struct webhook_stats *s, uint64_t thread_us, uint64_t loop_us)
{
    if (thread_us > 0) {
        prometheus_observe(&s->in_thread, &bounds, thread_us);
    }
    prometheus_observe(&s->in_loop, &bounds, loop_us);
}

static void write_requests(const char *webhook, const struct webhook_stats *s, struct buf *out)
{
    for (size_t r = 0; r < WEBHOOK_RESULTS; r++) {
        buf_printf(out, "cmesh_webhook_requests_total{webhook=\"%s\",result=\"%s\"} %" PRIu64 "\n",
                   webhook, result_names[r], s->results[r]);
    }
}

/* The histogram at that place of the stats of each route. */
static void write_histograms(const struct webhook_metrics *m, const char *name, const char *help,
                             size_t offset, struct buf *out)
{
    prometheus_head(out, name, "histogram", help);
    for (size_t i = 0; i < m->count; i++) {
        const char *stats = (const char *)&m->stats[i];
        const void *histogram = stats + offset;
        char label[128];
        (void)snprintf(label, sizeof label, "webhook=\"%s\"", m->routes[i].name);
        prometheus_histogram(out, name, label, histogram, &bounds);
    }
}

static void write_times(const struct webhook_metrics *m, struct buf *out)
{
    write_histograms(m, "cmesh_webhook_duration_seconds",
                     "Time from the last byte of an admission review to its response.",
                     offsetof(struct webhook_stats, duration), out);
    write_histograms(m, "cmesh_webhook_thread_seconds",
                     "Time that admission reviews spent in a thread, of those that were in one.",
                     offsetof(struct webhook_stats, in_thread), out);
    write_histograms(m, "cmesh_webhook_loop_seconds",
                     "Time that an admission review held up all else that the manager does.",
                     offsetof(struct webhook_stats, in_loop), out);
}

/* What the server ended by itself. */
static void write_dropped(const struct webhook_metrics *m, struct buf *out)
{
    const struct http_server_stats *h = m->http;
    const struct {
        const char *reason;
        uint64_t count;
    } reasons[] = {
        {"no_room", h->no_room},       {"replaced", h->replaced},
        {"silent", h->silent},         {"slow_head", h->slow_heads},
        {"slow_body", m->slow_bodies}, {"too_many_bytes", m->crowded_out},
        {"unverified", h->unverified},
    };
    prometheus_head(out, "cmesh_webhook_dropped_total", "counter",
                    "Connections that the webhook server ended by itself, by reason.");
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
        buf_printf(out, "cmesh_webhook_dropped_total{reason=\"%s\"} %" PRIu64 "\n",
                   reasons[i].reason, reasons[i].count);
    }
}

void webhook_metrics_write(const struct webhook_metrics *m, struct buf *out)
{
    prometheus_head(out, "cmesh_webhook_requests_total", "counter",
                    "Admission reviews by webhook and result.");
    for (size_t i = 0; i < m->count; i++) {
        write_requests(m->routes[i].name, &m->stats[i], out);
    }
    write_times(m, out);
    const struct prometheus_metric metrics[] = {
        {"cmesh_webhook_unknown_path_total", "counter",
         "Requests to webhook paths that do not exist.", m->unknown},
        {"cmesh_webhook_waiting", "gauge", "Admission reviews that wait for a thread.",
         m->threads.waiting},
        {"cmesh_webhook_threads_total", "counter",
         "Admission reviews that were decided about in a thread: those that are large.",
         m->threads.reviews},
        {"cmesh_webhook_turned_away_total", "counter",
         "Admission reviews refused because too many waited for a thread.", m->threads.turned_away},
        {"cmesh_webhook_connections", "gauge", "Open connections to the webhook server.",
         m->http->open},
        {"cmesh_webhook_connections_total", "counter",
         "Connections accepted by the webhook server.", m->http->accepted},
        {"cmesh_webhook_refused_total", "counter",
         "Connections over the limit and malformed requests refused by the webhook server.",
         m->http->refused},
    };
    prometheus_write(out, metrics, ARRAY_LEN(metrics));
    write_dropped(m, out);
}
