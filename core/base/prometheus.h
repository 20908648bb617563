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

/* What this process uses: process_resident_memory_bytes and process_cpu_seconds_total. */
int prometheus_process(struct buf *out);

#endif
