/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics/bucket_load.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "base/array.h"
#include "base/prometheus.h"
#include "rules/sharding.h"

_Static_assert(SHARDING_HASH_SIZE == CONTROL_LOAD_BUCKETS, "one place for each hash");

enum { MS = 1000 };

void bucket_load_init(struct bucket_load *l, const struct net_clock *clock)
{
    *l = (struct bucket_load){.clock = clock, .started_at = net_clock_now(clock)};
}

unsigned bucket_load_place(struct slice ns)
{
    return ns.len == 0 ? CONTROL_LOAD_OTHERS : sharding_hash_of(ns);
}

struct control_load bucket_load_counts(const struct bucket_load *l)
{
    struct control_load counts = l->counts;
    counts.since_s = (net_clock_now(l->clock) - l->started_at) / MS;
    return counts;
}

static const struct {
    const char *name;
    const char *help;
    size_t offset; /* in struct control_load_counts */
} families[] = {
    {"cmesh_proxy_bucket_requests_total",
     "Requests of the operator by the sharding hash of the namespace in their path (--count-load).",
     offsetof(struct control_load_counts, requests)},
    {"cmesh_proxy_bucket_events_total",
     "Events of watches passed on to the operator by the sharding hash of their object's namespace "
     "(--count-load).",
     offsetof(struct control_load_counts, events)},
    {"cmesh_proxy_bucket_objects_total",
     "Objects in lists passed on to the operator by the sharding hash of their namespace "
     "(--count-load).",
     offsetof(struct control_load_counts, objects)},
};

static uint64_t count_at(const struct control_load_counts *c, size_t offset)
{
    return *(const uint64_t *)(const void *)((const char *)c + offset);
}

static void write_family(const struct bucket_load *l, size_t i, struct buf *out)
{
    prometheus_head(out, families[i].name, "counter", families[i].help);
    for (unsigned at = 0; at <= CONTROL_LOAD_OTHERS; at++) {
        char bucket[12] = "none";
        if (at != CONTROL_LOAD_OTHERS) {
            (void)snprintf(bucket, sizeof bucket, "%u", at);
        }
        buf_printf(out, "%s{bucket=\"%s\"} %" PRIu64 "\n", families[i].name, bucket,
                   count_at(&l->counts.of[at], families[i].offset));
    }
}

int bucket_load_write_metrics(const struct bucket_load *l, struct buf *out)
{
    const struct prometheus_metric unread[] = {
        {"cmesh_proxy_bucket_unread_total", "counter",
         "Lists and watches passed on whose objects and events could not be counted by namespace "
         "(--count-load).",
         l->counts.unread},
    };
    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        write_family(l, i, out);
    }
    prometheus_write(out, unread, ARRAY_LEN(unread));
    return buf_error(out);
}
