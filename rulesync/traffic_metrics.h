/* SPDX-License-Identifier: Apache-2.0 */
/*
 * traffic_metrics.h - what /metrics says of traffic policies, beside what it says of rules.
 */
#ifndef RULESYNC_TRAFFIC_METRICS_H
#define RULESYNC_TRAFFIC_METRICS_H

#include "base/buf.h"
#include "pipeline.h"

/* Appends the metrics; what goes wrong stays in the buffer. */
void traffic_metrics_write(const struct pipeline_status *s, struct buf *out);

#endif
