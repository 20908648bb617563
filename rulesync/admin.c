/* SPDX-License-Identifier: Apache-2.0 */
#include "admin.h"

#include <inttypes.h>

#include "base/array.h"
#include "base/prometheus.h"
#include "control/status.h"
#include "traffic_metrics.h"

static const char *const trouble_texts[SOURCE_TROUBLES] = {
    [SOURCE_FINE] = "none",
    [SOURCE_MISSING] = "missing",
    [SOURCE_UNREADABLE] = "unreadable",
    [SOURCE_UNREACHABLE] = "unreachable",
};

static const char *const verdict_texts[] = {
    [DELIVERY_PENDING] = "pending",         [DELIVERY_CONFIRMED] = "confirmed",
    [DELIVERY_REFUSED] = "refused",         [DELIVERY_AHEAD] = "ahead",
    [DELIVERY_UNSUPPORTED] = "unsupported",
};

/* Rules that are in use stay so while the API server is away or refuses rulesync. */
static void check(void *data, struct admin_checks *checks)
{
    const struct rulesync_admin *p = data;
    char why[ADMIN_WHY_MAX];
    admin_check(checks, "rules", pipeline_ready(p->pipeline, why, sizeof why) ? NULL : why);
    if (p->client != NULL) {
        admin_check_client(checks, p->client, false);
    }
}

/* ---- metrics ---- */

static void write_rules(const struct shard_document *d, struct buf *out)
{
    const struct rules *r = d->rules;
    if (r == NULL) {
        return;
    }
    prometheus_head(out, "cmesh_rulesync_rules_info", "gauge",
                    "The shard and checksum of the rules in use.");
    buf_printf(out, "cmesh_rulesync_rules_info{namespace=\"%s\",shard=\"%s\",checksum=\"%s\"} 1\n",
               rules_shard_namespace(r), rules_shard_name(r), rules_checksum(r));
}

static void write_source(const struct pipeline_status *s, struct buf *out)
{
    const struct prometheus_metric numbers[] = {
        {"cmesh_rulesync_source_ok", "gauge",
         "1 while the source has a readable document that is not refused, 0 otherwise.",
         s->seen.at != 0 && !s->source.open && !s->refused.open},
        {"cmesh_rulesync_source_watched", "gauge",
         "1 while the kernel or the API server tells of changes at the source, 0 while it is "
         "looked "
         "at each second instead.",
         !s->blind},
        {"cmesh_rulesync_seen_generation", "gauge",
         "Generation of the last document seen at the source, accepted or not; 0 if there is none "
         "or it cannot be read.",
         s->seen.generation},
        {"cmesh_rulesync_seen_timestamp_seconds", "gauge",
         "Unix time at which the last document was seen at the source; 0 if never.",
         (uint64_t)s->seen.at},
        {"cmesh_rulesync_used_generation", "gauge",
         "Generation of the rules in use; 0 if there are none.",
         shard_document_is_none(s->used) ? 0 : shard_document_generation(s->used)},
        {"cmesh_rulesync_used_timestamp_seconds", "gauge",
         "Unix time at which the rules in use were accepted from the source; 0 if they were read "
         "from the last known good copy.",
         (uint64_t)s->used_at},
        {"cmesh_rulesync_documents_total", "counter", "Documents seen at the source, new or not.",
         s->offers},
        {"cmesh_rulesync_taken_total", "counter", "Documents accepted from the source.", s->taken},
    };
    prometheus_write(out, numbers, ARRAY_LEN(numbers));
}

/* Every reason is there from the start, so that a first refusal shows as an increase. */
static void write_reasons(const struct pipeline_status *s, struct buf *out)
{
    prometheus_head(out, "cmesh_rulesync_refused_total", "counter",
                    "Documents of the source that were refused, by reason.");
    for (unsigned i = REFUSAL_NONE + 1; i < REFUSALS; i++) {
        buf_printf(out, "cmesh_rulesync_refused_total{reason=\"%s\"} %" PRIu64 "\n",
                   refusal_text(i), s->refusals[i]);
    }
    prometheus_head(out, "cmesh_rulesync_source_errors_total", "counter",
                    "Checks of the source that found no document, by reason.");
    for (unsigned i = SOURCE_FINE + 1; i < SOURCE_TROUBLES; i++) {
        buf_printf(out, "cmesh_rulesync_source_errors_total{reason=\"%s\"} %" PRIu64 "\n",
                   trouble_texts[i], s->troubles[i]);
    }
}

static void write_last_good(const struct last_good_status *c, struct buf *out)
{
    if (c == NULL) {
        return;
    }
    const struct prometheus_metric numbers[] = {
        {"cmesh_rulesync_stored_generation", "gauge",
         "Generation of the last known good copy; 0 if there is none.", c->generation},
        {"cmesh_rulesync_stored_timestamp_seconds", "gauge",
         "Unix time at which this process wrote the last known good copy; 0 if it did not.",
         (uint64_t)c->at},
        {"cmesh_rulesync_store_pending", "gauge",
         "1 while newer rules could not be stored as last known good copy, 0 otherwise.",
         c->trouble.open},
        {"cmesh_rulesync_stores_total", "counter",
         "Times that the last known good copy was written.", c->stores},
        {"cmesh_rulesync_store_failures_total", "counter",
         "Times that the last known good copy could not be written.", c->failures},
    };
    prometheus_write(out, numbers, ARRAY_LEN(numbers));
}

static void write_delivery(const struct delivery_status *d, struct buf *out)
{
    if (d == NULL) {
        return;
    }
    const struct prometheus_metric numbers[] = {
        {"cmesh_rulesync_confirmed", "gauge",
         "1 while localproxy confirms the rules in use, 0 otherwise.",
         d->verdict == DELIVERY_CONFIRMED},
        {"cmesh_rulesync_enforced_generation", "gauge",
         "Generation that localproxy last reported to enforce; 0 if none.",
         d->answered && d->proxy.enforcing ? d->proxy.generation : 0},
        {"cmesh_rulesync_answered_timestamp_seconds", "gauge",
         "Unix time of the last response of localproxy; 0 if it never responded.",
         (uint64_t)d->answered_at},
        {"cmesh_rulesync_confirmed_timestamp_seconds", "gauge",
         "Unix time at which localproxy last confirmed rules; 0 if never.",
         (uint64_t)d->confirmed_at},
        {"cmesh_rulesync_offers_total", "counter", "Times that rules were sent to localproxy.",
         d->offers},
        {"cmesh_rulesync_confirmations_total", "counter",
         "Times that localproxy confirmed rules that were sent to it.", d->confirmations},
        {"cmesh_rulesync_retries_total", "counter",
         "Calls to localproxy that retried a failed one.", d->retries},
        {"cmesh_rulesync_proxy_refusals_total", "counter",
         "Times that localproxy refused the rules.", d->refusals},
    };
    prometheus_write(out, numbers, ARRAY_LEN(numbers));
}

static int write_metrics(void *data, struct buf *out)
{
    const struct rulesync_admin *p = data;
    const struct pipeline_status *s = pipeline_status(p->pipeline);
    char why[ADMIN_WHY_MAX];
    const struct prometheus_metric ready_metric = {
        "cmesh_rulesync_ready", "gauge",
        "1 while rules are in use and, with --control, confirmed by localproxy; 0 otherwise.",
        pipeline_ready(p->pipeline, why, sizeof why)};
    prometheus_write(out, &ready_metric, 1);
    write_source(s, out);
    write_reasons(s, out);
    write_rules(s->used, out);
    write_last_good(s->copy, out);
    write_delivery(s->delivery, out);
    traffic_metrics_write(pipeline_status(p->traffic), out);
    return health_write_metrics(p->health, "cmesh_rulesync", out);
}

/* ---- status ---- */

/* Of a document: its shard is that of the rules in use, or it is refused. */
static void add_document(cJSON *object, uint64_t generation, const char *checksum)
{
    if (generation != 0) {
        cJSON_AddNumberToObject(object, "generation", (double)generation);
        cJSON_AddStringToObject(object, "checksum", checksum);
    }
}

static void add_error(cJSON *object, const struct condition *c)
{
    if (c->open) {
        control_rulesync_error_add(object, c->text, c->since);
    }
}

static void add_source(const struct rulesync_admin *p, const struct pipeline_status *s, cJSON *root)
{
    bool dir = p->flags->from != NULL && p->flags->from[0] != '\0';
    cJSON *source = control_rulesync_part_add(root, CONTROL_SOURCE);
    cJSON_AddStringToObject(source, dir ? "path" : "configMap",
                            dir ? p->flags->from : p->flags->from_configmap);
    cJSON_AddBoolToObject(source, "found", s->seen.at != 0 && !s->source.open);
    cJSON_AddBoolToObject(source, "watched", !pipeline_status(p->pipeline)->blind);
    add_error(source, &s->source);
    if (s->warning[0] != '\0') {
        control_rulesync_warning_add(source, s->warning);
    }
}

static void add_seen(const struct pipeline_status *s, cJSON *root)
{
    if (s->seen.at == 0) {
        return;
    }
    cJSON *seen = control_rulesync_part_add(root, CONTROL_SEEN);
    add_document(seen, s->seen.generation, s->seen.checksum);
    control_time_add(seen, "at", s->seen.at);
    cJSON_AddBoolToObject(seen, "taken", s->seen.refusal == REFUSAL_NONE);
    if (s->seen.refusal != REFUSAL_NONE) {
        cJSON_AddStringToObject(seen, "reason", refusal_text(s->seen.refusal));
    }
    add_error(seen, &s->refused);
}

static void add_used(const struct pipeline_status *s, const char *name, const char *size,
                     cJSON *root)
{
    const struct shard_document *d = s->used;
    if (shard_document_is_none(d)) {
        return;
    }
    cJSON *used = cJSON_AddObjectToObject(root, name);
    struct control_state state;
    if (d->rules != NULL) {
        control_state_set(&state, d->rules, 0, NULL);
    } else {
        control_state_set_traffic(&state, d->traffic, 0, NULL);
    }
    (void)control_rules_add(used, &state);
    cJSON_AddNumberToObject(used, size, (double)shard_document_size(d));
    cJSON_AddStringToObject(used, "from", s->used_at != 0 ? "source" : "stored copy");
    control_time_add(used, "takenAt", s->used_at);
}

static void add_stored(const char *to, const struct last_good_status *c, cJSON *root)
{
    if (c == NULL) {
        return;
    }
    cJSON *stored = cJSON_AddObjectToObject(root, "stored");
    cJSON_AddStringToObject(stored, "path", to);
    add_document(stored, c->generation, c->checksum);
    control_time_add(stored, "at", c->at);
    add_error(stored, &c->trouble);
}

static void add_enforced(const struct rulesync_admin *p, const struct delivery_status *d,
                         cJSON *root)
{
    if (d == NULL) {
        return;
    }
    cJSON *enforced = control_rulesync_part_add(root, CONTROL_ENFORCED);
    cJSON_AddStringToObject(enforced, "socket", p->flags->control);
    cJSON_AddStringToObject(enforced, "verdict", verdict_texts[d->verdict]);
    if (d->answered && d->proxy.enforcing) {
        (void)control_rules_add(enforced, &d->proxy);
        control_time_add(enforced, "since", d->proxy.since);
    } else if (d->answered) {
        cJSON_AddStringToObject(enforced, "nothing", d->proxy.reason);
    }
    control_time_add(enforced, "answeredAt", d->answered_at);
    control_time_add(enforced, "confirmedAt", d->confirmed_at);
    add_error(enforced, &d->trouble);
    if (d->outdated) {
        control_rulesync_warning_add(
            enforced,
            "localproxy is too old for traffic policies: restart the pod to enforce them");
    }
}

static const struct condition *latest_condition(const struct condition *a,
                                                const struct condition *b)
{
    return b != NULL && b->last > a->last ? b : a;
}

/* The error that came last, over or not. */
static void add_last_error(const struct pipeline_status *s, cJSON *root)
{
    const struct condition *c = latest_condition(&s->refused, &s->source);
    c = latest_condition(c, s->copy != NULL ? &s->copy->trouble : NULL);
    c = latest_condition(c, s->delivery != NULL ? &s->delivery->trouble : NULL);
    if (c->last != 0) {
        cJSON *error = cJSON_AddObjectToObject(root, "lastError");
        cJSON_AddStringToObject(error, "message", c->text);
        control_time_add(error, "at", c->last);
        cJSON_AddBoolToObject(error, "over", !c->open);
    }
}

/* The same parts as of rules, in an object of its own. Of a single file there is nothing to say. */
static void add_traffic(const struct rulesync_admin *p, cJSON *root)
{
    const struct pipeline_status *s = pipeline_status(p->traffic);
    if (s->silent) {
        return;
    }
    cJSON *traffic = cJSON_AddObjectToObject(root, "traffic");
    add_source(p, s, traffic);
    add_seen(s, traffic);
    add_used(s, "inUse", "policies", traffic);
    add_stored(p->traffic_to, s->copy, traffic);
    add_enforced(p, s->delivery, traffic);
    add_last_error(s, traffic);
}

static void add_status(void *data, cJSON *root)
{
    const struct rulesync_admin *p = data;
    const struct pipeline_status *s = pipeline_status(p->pipeline);
    add_source(p, s, root);
    add_seen(s, root);
    add_used(s, "rules", "limits", root);
    add_stored(p->flags->to, s->copy, root);
    add_enforced(p, s->delivery, root);
    add_last_error(s, root);
    add_traffic(p, root);
    health_describe(p->health, root);
}

const struct admin_server_ops rulesync_admin_ops = {
    .check = check,
    .metrics = write_metrics,
    .status = add_status,
};
