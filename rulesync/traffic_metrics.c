/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic_metrics.h"

#include <inttypes.h>

#include "base/array.h"
#include "base/prometheus.h"

static void write_source(const struct pipeline_status *s, struct buf *out)
{
    const struct prometheus_metric numbers[] = {
        {"cmesh_rulesync_traffic_source_ok", "gauge",
         "1 while the source has readable traffic policies that are not refused, or none, 0 "
         "otherwise.",
         s->heard && !s->source.open && !s->refused.open},
        {"cmesh_rulesync_traffic_seen_generation", "gauge",
         "Generation of the traffic policies seen last at the source, accepted or not; 0 if there "
         "are none or they cannot be read.",
         s->seen.generation},
        {"cmesh_rulesync_traffic_used_generation", "gauge",
         "Generation of the traffic policies in use; 0 if there are none.",
         shard_document_is_none(s->used) ? 0 : shard_document_generation(s->used)},
        {"cmesh_rulesync_traffic_policies", "gauge", "Number of traffic policies in use.",
         shard_document_is_none(s->used) ? 0 : shard_document_size(s->used)},
        {"cmesh_rulesync_traffic_taken_total", "counter",
         "Documents with traffic policies accepted from the source.", s->taken},
    };
    prometheus_write(out, numbers, ARRAY_LEN(numbers));
}

/* These have no order. */
static void write_refusals(const struct pipeline_status *s, struct buf *out)
{
    static const enum refusal reasons[] = {REFUSAL_INVALID, REFUSAL_SHARD, REFUSAL_MEMORY};
    prometheus_head(out, "cmesh_rulesync_traffic_refused_total", "counter",
                    "Documents with traffic policies that were refused, by reason.");
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
        buf_printf(out, "cmesh_rulesync_traffic_refused_total{reason=\"%s\"} %" PRIu64 "\n",
                   refusal_text(reasons[i]), s->refusals[reasons[i]]);
    }
}

static void write_last_good(const struct last_good_status *c, struct buf *out)
{
    if (c == NULL) {
        return;
    }
    const struct prometheus_metric numbers[] = {
        {"cmesh_rulesync_traffic_stored_generation", "gauge",
         "Generation of the last known good copy of traffic policies; 0 if there is none.",
         c->generation},
        {"cmesh_rulesync_traffic_store_pending", "gauge",
         "1 while the last known good copy of traffic policies could not be replaced or removed, 0 "
         "otherwise.",
         c->trouble.open},
        {"cmesh_rulesync_traffic_store_failures_total", "counter",
         "Times that the last known good copy of traffic policies could not be replaced or "
         "removed.",
         c->failures},
    };
    prometheus_write(out, numbers, ARRAY_LEN(numbers));
}

static void write_delivery(const struct delivery_status *d, struct buf *out)
{
    if (d == NULL) {
        return;
    }
    const struct prometheus_metric numbers[] = {
        {"cmesh_rulesync_traffic_confirmed", "gauge",
         "1 while localproxy confirms the traffic policies in use, or that there are none, 0 "
         "otherwise.",
         d->verdict == DELIVERY_CONFIRMED},
        {"cmesh_rulesync_traffic_unsupported", "gauge",
         "1 while there are traffic policies that localproxy is too old for, 0 otherwise.",
         d->outdated},
        {"cmesh_rulesync_traffic_enforced_generation", "gauge",
         "Generation of the traffic policies that localproxy last reported to enforce; 0 if none.",
         d->answered && d->proxy.enforcing ? d->proxy.generation : 0},
        {"cmesh_rulesync_traffic_offers_total", "counter",
         "Times that traffic policies, or that there are none, were sent to localproxy.",
         d->offers},
        {"cmesh_rulesync_traffic_proxy_refusals_total", "counter",
         "Times that localproxy refused the traffic policies.", d->refusals},
    };
    prometheus_write(out, numbers, ARRAY_LEN(numbers));
}

void traffic_metrics_write(const struct pipeline_status *s, struct buf *out)
{
    write_source(s, out);
    write_refusals(s, out);
    write_last_good(s->copy, out);
    write_delivery(s->delivery, out);
}
