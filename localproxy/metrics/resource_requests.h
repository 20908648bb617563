/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resource_requests.h - how often the operator asked for what: by verb, resource, and whether in
 * one namespace. It tells what an operator works on (`manager check-operator`), and costs a look
 * into a table.
 */
#ifndef LOCALPROXY_METRICS_RESOURCE_REQUESTS_H
#define LOCALPROXY_METRICS_RESOURCE_REQUESTS_H

#include <stdint.h>

#include "base/buf.h"
#include "base/table.h"
#include "kube/request_info.h"

/* Rows that are kept; all further ones are one. */
#define RESOURCE_REQUESTS_MAX 256

/* All zero: none. */
struct resource_requests {
    struct table rows;
    uint64_t others;
};

/* A resource request. What cannot stand in a row, or has no memory, is among the others. */
void resource_requests_count(struct resource_requests *r, const struct request_info *ri);

/* Appends the metric. 0, -ENOBUFS or -ENOMEM. */
MUST_CHECK int resource_requests_write_metrics(const struct resource_requests *r, struct buf *out);

void resource_requests_deinit(struct resource_requests *r);

#endif
