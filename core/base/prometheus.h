/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prometheus.h - writes metrics as Prometheus reads them: the text format, version 0.0.4.
 *
 * A metric is a head and then its samples. All functions append; 0, -ENOBUFS or -ENOMEM, which
 * stays in the buffer (base/buf.h): the text is not whole then and must not be sent.
 */
#ifndef CORE_BASE_PROMETHEUS_H
#define CORE_BASE_PROMETHEUS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define PROMETHEUS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* One metric with one sample and no labels. */
struct prometheus_metric {
    const char *name;
    const char *type; /* "counter" or "gauge" */
    const char *help; /* one line, without a backslash */
    uint64_t value;
};

/* The two comment lines; the samples follow, written with buf_printf. */
int prometheus_head(struct buf *out, const char *name, const char *type, const char *help);

int prometheus_write(struct buf *out, const struct prometheus_metric *metrics, size_t count);

/* One metric that is not a whole number: seconds. */
int prometheus_seconds(struct buf *out, const char *name, const char *type, const char *help,
                       double value);

/* A histogram of durations: how many fell into each bucket, and what they are together. The upper
 * bounds of buckets are apart, a constant of its kind. All zero at first. */
#define PROMETHEUS_BOUNDS_MAX 12

struct prometheus_bounds {
    uint64_t per_second; /* of the unit that is observed: 1,000 or 1,000,000 */
    size_t count;
    uint64_t upper[PROMETHEUS_BOUNDS_MAX]; /* rising */
};

struct prometheus_histogram {
    uint64_t counts[PROMETHEUS_BOUNDS_MAX + 1]; /* each for itself, not summed up; in the one behind
                                                   the last bound is what took longer */
    uint64_t sum;
};

void prometheus_observe(struct prometheus_histogram *h, const struct prometheus_bounds *b,
                        uint64_t value);

/* The samples, in seconds, behind a head of type "histogram". `label`, as name="x": what they have
 * in common; NULL: nothing. */
int prometheus_histogram(struct buf *out, const char *name, const char *label,
                         const struct prometheus_histogram *h, const struct prometheus_bounds *b);

/* What this process uses: process_resident_memory_bytes and process_cpu_seconds_total. */
int prometheus_process(struct buf *out);

#endif
