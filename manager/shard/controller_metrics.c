/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/prometheus.h"
#include "base/xalloc.h"
#include "shard/controller_internal.h"

/* In milliseconds. */
static const struct prometheus_bounds bounds = {
    .per_second = 1000,
    .count = 8,
    .upper = {50, 100, 250, 500, 1000, 2500, 10000, 60000},
};

void controller_observe(struct prometheus_histogram *h, uint64_t ms)
{
    prometheus_observe(h, &bounds, ms);
}

static void write_latency(struct buf *out, const char *name, const char *help,
                          const struct prometheus_histogram *h)
{
    prometheus_head(out, name, "histogram", help);
    prometheus_histogram(out, name, NULL, h, &bounds);
}

static void write_writes(struct buf *out, const struct controller_counts *n)
{
    static const char *const what[CONTROLLER_WRITES] = {
        [CONTROLLER_CONFIGMAP] = "configmap", [CONTROLLER_NUDGE] = "nudge",
        [CONTROLLER_STATUS] = "status",       [CONTROLLER_CLEANUP] = "cleanup",
        [CONTROLLER_TRAFFIC] = "traffic",     [CONTROLLER_POLICY_STATUS] = "policy_status",
    };
    static const char *const results[RECONCILE_RESULTS] = {
        [RECONCILE_WRITTEN] = "written",
        [RECONCILE_CONFLICT] = "conflict",
        [RECONCILE_FAILED] = "failed",
    };
    prometheus_head(out, "cmesh_manager_writes_total", "counter",
                    "Writes to the API server by the leading manager, by purpose.");
    for (size_t i = 0; i < CONTROLLER_WRITES * RECONCILE_RESULTS; i++) {
        size_t w = i / RECONCILE_RESULTS;
        size_t r = i % RECONCILE_RESULTS;
        buf_printf(out, "cmesh_manager_writes_total{what=\"%s\",result=\"%s\"} %" PRIu64 "\n",
                   what[w], results[r], n->writes[w][r]);
    }
}

/* Why shards are not enforced. */
enum { REASONS = STATUS_WAITING + 1 };
static const char *const reasons[REASONS] = {
    [STATUS_ENFORCED] = "enforced",       [STATUS_NO_PODS] = "no_pods",
    [STATUS_NO_RULES] = "no_rules",       [STATUS_HANDOVER] = "handover",
    [STATUS_NO_SIDECAR] = "no_sidecar",   [STATUS_BYPASSED] = "bypassed",
    [STATUS_OVERLAPPING] = "overlapping", [STATUS_OTHER_RULES] = "other_rules",
    [STATUS_REFUSED] = "refused",         [STATUS_SILENT] = "silent",
    [STATUS_WAITING] = "waiting",
};

static void write_unlabelled(struct buf *out, const uint64_t counts[LABELLING_STATES])
{
    static const char name[] = "cmesh_manager_shards_unlabelled";
    prometheus_head(out, name, "gauge",
                    "ShardingConfigs with limits by control labels on resources whose objects do "
                    "not have them yet, or never will.");
    buf_printf(out, "%s{state=\"labelling\"} %" PRIu64 "\n%s{state=\"never\"} %" PRIu64 "\n", name,
               counts[LABELLING_UNDER_WAY], name, counts[LABELLING_NEVER]);
}

static void write_states(struct buf *out, const struct controller *c)
{
    uint64_t compiled = 0;
    uint64_t published = 0;
    uint64_t not_ready = 0;
    uint64_t shared = 0;
    uint64_t enforced[REASONS] = {0};
    uint64_t labelling[LABELLING_STATES] = {0};
    for (const struct shard *s = NULL; (s = reconciler_next(c->reconciler, s)) != NULL;) {
        const struct shard_cache_config *config = s->reported ? shard_config(s) : NULL;
        if (config != NULL && !config->root) {
            compiled += s->refusal.code == 0;
            published += s->refusal.code == 0 && s->reason == PUBLISH_OK;
            not_ready += !s->ready;
            shared += s->exclusive == EXCLUSIVE_NO;
            enforced[s->enforced]++;
            labelling[s->labelling]++;
        }
    }
    const struct prometheus_metric gauges[] = {
        {"cmesh_manager_shards_compiled", "gauge",
         "ShardingConfigs whose spec is valid, roots aside.", compiled},
        {"cmesh_manager_shards_published", "gauge",
         "ShardingConfigs whose rules are published in their ConfigMap.", published},
        {"cmesh_manager_shards_shared", "gauge",
         "ShardingConfigs of which others may see some of what they see, not on purpose.", shared},
        {"cmesh_manager_shards_not_ready", "gauge",
         "ShardingConfigs whose condition Ready is False, roots aside.", not_ready},
    };
    prometheus_write(out, gauges, ARRAY_LEN(gauges));
    write_unlabelled(out, labelling);
    prometheus_head(out, "cmesh_manager_shards", "gauge", "ShardingConfigs by enforcement state.");
    for (size_t i = 0; i < REASONS; i++) {
        buf_printf(out, "cmesh_manager_shards{state=\"%s\"} %" PRIu64 "\n", reasons[i],
                   enforced[i]);
    }
}

/* ---- each shard by its name ---- */

enum family { READY, COMPILED, LABELLED, SHARED, HANDOVER_LATE, FAMILIES };

static const struct {
    const char *name;
    const char *help;
    bool well; /* what it is when all is well */
} families[FAMILIES] = {
    [READY] = {"cmesh_manager_shard_ready",
               "1 while the condition Ready of the shard's ShardingConfig is True, 0 otherwise.",
               true},
    [COMPILED] = {"cmesh_manager_shard_compiled",
                  "1 while the spec of the shard's ShardingConfig is valid, 0 while it is refused.",
                  true},
    [LABELLED] = {"cmesh_manager_shard_labelled",
                  "0 while the shard selects by control labels that objects do not have yet, or "
                  "never will, 1 "
                  "otherwise.",
                  true},
    [SHARED] = {"cmesh_manager_shard_shared",
                "1 while others may see some of what the shard sees, not on purpose, 0 otherwise.",
                false},
    [HANDOVER_LATE] =
        {"cmesh_manager_shard_handover_late",
         "1 while the shard has waited longer than --handover-wait for others to release what it "
         "gains, 0 otherwise.",
         false},
};

static bool holds(const struct shard *s, enum family f)
{
    switch (f) {
    case READY:
        return s->ready;
    case COMPILED:
        return s->refusal.code == 0;
    case LABELLED:
        return s->labelling != LABELLING_UNDER_WAY && s->labelling != LABELLING_NEVER;
    case SHARED:
        return s->exclusive == EXCLUSIVE_NO;
    default: /* a bounded handover continues */
        return s->holders != NULL && s->late && s->controller->options.handover == HANDOVER_STRICT;
    }
}

/* Bytes that all series of shards may take, and those of one series beside the shard's key. */
enum { SERIES_BYTES_MAX = 1024 * 1024, SERIES_BYTES = 96 };

static bool is_well(const struct shard *s)
{
    bool well = s->enforced == STATUS_ENFORCED || s->enforced == STATUS_NO_PODS;
    for (enum family f = 0; f < FAMILIES; f++) {
        well = well && holds(s, f) == families[f].well;
    }
    return well;
}

/* Those that can be named, the ones with trouble first: *count of them, in an array that the caller
 * frees; *left are not among them. */
static const struct shard **choose_shards(const struct controller *c, size_t *count, uint64_t *left)
{
    const struct shard **list = xcalloc(reconciler_count(c->reconciler) + 1, sizeof *list);
    size_t bytes = 0;
    *count = 0;
    *left = 0;
    for (int well = 0; well < 2; well++) {
        for (const struct shard *s = NULL; (s = reconciler_next(c->reconciler, s)) != NULL;) {
            const struct shard_cache_config *config = s->reported ? shard_config(s) : NULL;
            if (config == NULL || config->root || is_well(s) != (well == 1)) {
                continue;
            }
            bytes += (FAMILIES + 1) * (strlen(s->key) + SERIES_BYTES);
            if (bytes <= SERIES_BYTES_MAX) {
                list[(*count)++] = s;
            } else {
                (*left)++;
            }
        }
    }
    return list;
}

/* The name of a metric, and the labels that name the shard; others, and the value, follow. */
static void begin_series(struct buf *out, const char *name, const struct shard *s)
{
    const char *slash = strchr(s->key, '/');
    buf_printf(out, "%s{shard_namespace=\"%.*s\",shard=\"%s\"", name, (int)(slash - s->key), s->key,
               slash + 1);
}

static void write_shards(struct buf *out, const struct controller *c)
{
    static const char state[] = "cmesh_manager_shard_state";
    size_t count = 0;
    uint64_t left = 0;
    const struct shard **list = choose_shards(c, &count, &left);
    prometheus_head(out, state, "gauge", "The enforcement state of a shard; always 1.");
    for (size_t i = 0; i < count; i++) {
        begin_series(out, state, list[i]);
        buf_printf(out, ",state=\"%s\"} 1\n", reasons[list[i]->enforced]);
    }
    for (enum family f = 0; f < FAMILIES; f++) {
        prometheus_head(out, families[f].name, "gauge", families[f].help);
        for (size_t i = 0; i < count; i++) {
            begin_series(out, families[f].name, list[i]);
            buf_printf(out, "} %d\n", holds(list[i], f));
        }
    }
    free(list);
    const struct prometheus_metric unnamed = {
        "cmesh_manager_shards_unnamed", "gauge",
        "Shards without series of their own, for want of room; those with trouble come first.",
        left};
    prometheus_write(out, &unnamed, 1);
}

/* ---- all ---- */

static void write_probes(struct buf *out, const struct controller *c)
{
    const struct prober_stats *p = prober_stats(c->prober);
    const struct prometheus_metric metrics[] = {
        {"cmesh_manager_probes_total", "counter", "Probes of proxies by the leading manager.",
         p->asked},
        {"cmesh_manager_probe_failures_total", "counter",
         "Probes of proxies by the leading manager that failed.", p->failed},
        {"cmesh_manager_probed_pods", "gauge", "Pods whose proxies the leading manager probes.",
         p->targets},
        {"cmesh_manager_pods_telling", "gauge",
         "Pods whose proxies tell the leading manager by a Lease what they enforce.", p->telling},
        {"cmesh_manager_pods_given_up_total", "counter",
         "Pods that the leading manager gave up because their rules had expired (--rules-lease).",
         takeover_count(c->takeover)},
        {"cmesh_manager_pods_of_other_version", "gauge",
         "Pods whose proxies are of another version of cmesh than the leading manager.",
         p->other_versions},
    };
    prometheus_write(out, metrics, ARRAY_LEN(metrics));
}

void controller_metrics(const struct controller *c, const struct controller_counts *n,
                        struct buf *out)
{
    const struct prometheus_metric metrics[] = {
        {"cmesh_manager_compiled_total", "counter",
         "Specs of ShardingConfigs that were compiled into rules.", n->compiled},
        {"cmesh_manager_refused_total", "counter",
         "Specs of ShardingConfigs that were refused as invalid.", n->refused},
        {"cmesh_manager_handover_waits_total", "counter",
         "Times that publishing rules waited for a handover from another shard.", n->waits},
        {"cmesh_manager_handovers_blocked_total", "counter",
         "Times that a handover took longer than --handover-wait, and went on waiting.",
         n->blocked},
        {"cmesh_manager_handover_timeouts_total", "counter",
         "Times that a handover from another shard was not confirmed within --handover-wait.",
         n->late},
    };
    prometheus_write(out, metrics, ARRAY_LEN(metrics));
    write_writes(out, n);
    write_latency(out, "cmesh_manager_publish_seconds",
                  "Time from the change of a ShardingConfig to its rules being published.",
                  &n->published);
    write_latency(out, "cmesh_manager_enforce_seconds",
                  "Time from the change of a ShardingConfig to its rules being enforced by every "
                  "pod.",
                  &n->enforced);
    if (c != NULL) {
        write_states(out, c);
        write_shards(out, c);
        write_probes(out, c);
        operator_coverage_metrics(c->operator_coverage, out);
    }
    if (c != NULL && c->reporter != NULL) {
        policy_reporter_metrics(c, out);
    }
}

size_t controller_queues(const struct controller *c,
                         const struct work_queue *out[CONTROLLER_QUEUES_MAX])
{
    size_t count = 0;
    out[count++] = reconciler_queue(c->reconciler);
    out[count++] = reconciler_queue(c->pod_notifier);
    if (c->reporter != NULL) {
        out[count++] = reconciler_queue(c->reporter);
    }
    return count;
}
