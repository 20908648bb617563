/* SPDX-License-Identifier: Apache-2.0 */
#include "net/work_queue.h"

#include <stdio.h>

#include "base/array.h"

struct sample {
    const char *metric;
    const char *queue;
    struct work_queue_stats stats;
};

static void write_number(struct buf *out, const struct sample *s, uint64_t value)
{
    buf_printf(out, "%s{name=\"%s\"} %llu\n", s->metric, s->queue, (unsigned long long)value);
}

static void write_durations(struct buf *out, const struct sample *s,
                            const struct prometheus_histogram *h)
{
    char label[128];
    (void)snprintf(label, sizeof label, "name=\"%s\"", s->queue);
    prometheus_histogram(out, s->metric, label, h, &work_queue_bounds);
}

static void write_depth(struct buf *out, const struct sample *s)
{
    write_number(out, s, s->stats.depth);
}

static void write_adds(struct buf *out, const struct sample *s)
{
    write_number(out, s, s->stats.adds);
}

static void write_retries(struct buf *out, const struct sample *s)
{
    write_number(out, s, s->stats.retries);
}

static void write_queued(struct buf *out, const struct sample *s)
{
    write_durations(out, s, &s->stats.queued);
}

static void write_processed(struct buf *out, const struct sample *s)
{
    write_durations(out, s, &s->stats.processed);
}

static void write_longest(struct buf *out, const struct sample *s)
{
    buf_printf(out, "%s{name=\"%s\"} %.3f\n", s->metric, s->queue,
               (double)s->stats.longest_ms / 1000);
}

static const struct {
    const char *name;
    const char *type;
    const char *help;
    void (*write)(struct buf *out, const struct sample *s);
} metrics[] = {
    {"workqueue_depth", "gauge", "Current number of keys waiting in the work queue.", write_depth},
    {"workqueue_adds_total", "counter", "Total number of keys added to the work queue.",
     write_adds},
    {"workqueue_retries_total", "counter", "Total number of retries of keys in the work queue.",
     write_retries},
    {"workqueue_queue_duration_seconds", "histogram",
     "Time in seconds that keys waited in the work queue before being processed.", write_queued},
    {"workqueue_work_duration_seconds", "histogram",
     "Time in seconds that processing a key from the work queue took.", write_processed},
    {"workqueue_longest_running_processor_seconds", "gauge",
     "Seconds that the longest running processor of the work queue has been running.",
     write_longest},
};

void work_queue_metrics(struct buf *out, const struct work_queue *const *queues, size_t count)
{
    for (size_t m = 0; m < ARRAY_LEN(metrics); m++) {
        prometheus_head(out, metrics[m].name, metrics[m].type, metrics[m].help);
        for (size_t i = 0; i < count; i++) {
            const struct sample s = {metrics[m].name, work_queue_name(queues[i]),
                                     work_queue_stats(queues[i])};
            metrics[m].write(out, &s);
        }
    }
}
