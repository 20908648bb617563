/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last step of a shard: its status, and Events on what has changed in it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"
#include "object/conditions.h"
#include "shard/controller_internal.h"
#include "shard/pod_verdict.h"
#include "json/field.h"

enum {
    MICROSECONDS = 1000,
    LABELLING_MS = 20000, /* how far labels are is reported this often */
};

/* ---- facts ---- */

struct status_pod shard_pod_facts(struct shard *s, const struct shard_cache_config *config,
                                  const struct pod *p)
{
    struct controller *c = s->controller;
    const struct shard_cache_config *other =
        shard_cache_shard_count(p) > 1 ? shard_cache_shard_of(p, config) : NULL;
    if (p->proxy_port != 0 && prober_result(c->prober, p->key) == NULL) {
        controller_watch_pod(c, p);
    }
    return (struct status_pod){
        .name = p->name,
        .sidecar = p->proxy_port != 0,
        .ready = p->ready,
        .ready_since = p->ready_since,
        .allow_bypass = p->allow_bypass,
        .ending = p->ending,
        .over = p->over,
        .other_shard = other == NULL ? NULL : other->name,
        .probe = prober_result(c->prober, p->key),
    };
}

/* The caller frees. */
static struct status_pod *collect_pods(struct shard *s, const struct shard_cache_config *config)
{
    const struct pod **pods = shard_cache_pods_of(config);
    struct status_pod *facts = xcalloc(config->pod_count + 1, sizeof *facts);
    for (size_t i = 0; i < config->pod_count; i++) {
        facts[i] = shard_pod_facts(s, config, pods[i]);
    }
    free(pods);
    return facts;
}

/* A new leader knows nothing of the pods. What the last one wrote stands until each was asked once,
 * so that a status does not become worse, and better again, each time that the leader changes. */
static bool is_too_early(const struct shard *s, const struct shard_cache_config *config,
                         const struct status_pod *pods)
{
    bool unknown = false;
    for (size_t i = 0; i < config->pod_count && !unknown; i++) {
        unknown = pods[i].probe != NULL && !pods[i].probe->asked;
    }
    return unknown && !s->reported && field_get(config->object, "status") != NULL;
}

/* That no client comes shows only by the time that passes. */
static void look_again_for_bypass(struct shard *s, const struct status_facts *f)
{
    enum { AT_LEAST_MS = 1000 }; /* the pods must have been asked again */
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < f->pod_count; i++) {
        uint64_t ms = pod_verdict_patience_ms(f, &f->pods[i]);
        first = ms != 0 && ms < first ? ms : first;
    }
    if (first != UINT64_MAX) {
        controller_look_after(s, first > AT_LEAST_MS ? first : AT_LEAST_MS);
    }
}

/* A labeller that begins anew, with another leader, lists all again, but does not find it bare. */
static bool was_labelled(const struct shard_cache_config *config)
{
    const cJSON *labelled = conditions_find(field_get(config->object, "status"), "Labelled");
    const cJSON *generation = field_get(field_get(config->object, "metadata"), "generation");
    return strcmp(field_text(labelled, "status"), "True") == 0 &&
           cJSON_Compare(field_get(labelled, "observedGeneration"), generation, true);
}

void shard_look_labelling(struct shard *s, const struct shard_cache_config *config,
                          struct labelling *out)
{
    const struct rules *rules = shard_refusal(s) == NULL ? s->compiled : NULL;
    labelling_look(rules, s->controller->options.labelled, out);
    if (out->state == LABELLING_UNDER_WAY && was_labelled(config)) {
        labelling_done(out);
    }
    s->labelling = out->state;
    if (out->state == LABELLING_UNDER_WAY) {
        controller_look_after(s, LABELLING_MS);
    }
}

bool shard_is_left_out(const struct shard *s, const char *ns)
{
    const struct excluded_namespaces *f = s->controller->options.left_out;
    return f != NULL && excluded_namespaces_has(f, ns);
}

static const struct route_report *routed_of(const struct shard *s)
{
    const struct controller_options *o = &s->controller->options;
    return o->routed == NULL ? NULL : o->routed(o->data, s->key);
}

/* NULL: it is too early. */
static cJSON *make_status(struct shard *s, const struct shard_cache_config *config, bool *changed)
{
    const struct rules_map *map = shard_map(s);
    bool ours = map != NULL && shard_owns_map(s, config, map);
    char *name = rules_map_name(config->name);
    struct status_pod *pods = collect_pods(s, config);
    struct labelling labelling;
    struct exclusive exclusive;
    shard_look_labelling(s, config, &labelling);
    shard_look_exclusive(s, config, ours ? map : NULL, &exclusive);
    const struct covered *covered =
        operator_coverage_find(s->controller->operator_coverage, s->compiled);
    s->not_covered_yet = covered == NULL;
    struct status_facts facts = {
        .config = config->object,
        .prefix = s->controller->options.prefix,
        .compile_error = shard_refusal(s),
        .namespaces_unknown = s->refusal.code == -EAGAIN,
        .given_up = shard_is_given_up(s),
        .lacks_limits = config->lacks_limits,
        .unlimited = config->unlimited,
        .by_namespaces = config->by_namespaces && s->refusal.code != -EAGAIN,
        .namespaces = config->namespaces,
        .publish_reason = s->reason,
        .publish_message = s->message,
        .shows_nothing = ours && map->rules != NULL && !shard_shows_anything(s, map->rules),
        .generation = ours ? map->generation : 0,
        .checksum = ours ? map->checksum : "",
        .configmap_uid = ours ? map->uid : NULL,
        .labelling = &labelling,
        .covered = covered,
        .exclusive = &exclusive,
        .routed = routed_of(s),
        .configmap = name,
        .pods = pods,
        .pod_count = config->pod_count,
        .left_out = shard_is_left_out(s, config->ns),
        .bypass_wait_ms = s->controller->options.bypass_wait_ms,
        .now_ms = net_clock_wall(s->controller->clock) / MICROSECONDS,
    };
    cJSON *status = NULL;
    struct status_result result = {.changed = false};
    if (!is_too_early(s, config, pods)) {
        status = status_make(&facts, &result);
        look_again_for_bypass(s, &facts);
        s->enforced = result.enforced;
        s->ready = result.ready;
        s->reported = true;
    }
    *changed = result.changed;
    free(pods);
    free(name);
    return status;
}

/* ---- Events ---- */

static bool differs(const cJSON *old, const cJSON *new, const char *type, const char *key)
{
    return strcmp(field_text(conditions_find(old, type), key),
                  field_text(conditions_find(new, type), key)) != 0;
}

static bool other_generation(const cJSON *old, const cJSON *new)
{
    const cJSON *a = field_get(old, "generation");
    const cJSON *b = field_get(new, "generation");
    return !cJSON_Compare(a, b, true);
}

static bool is_alarm(enum status_enforced e)
{
    return e == STATUS_NO_SIDECAR || e == STATUS_BYPASSED || e == STATUS_OVERLAPPING ||
           e == STATUS_OTHER_RULES || e == STATUS_REFUSED || e == STATUS_SILENT;
}

static struct shard_news compare_status(const struct shard *s, const cJSON *old, const cJSON *new)
{
    bool moved = differs(old, new, "Enforced", "status") || other_generation(old, new);
    return (struct shard_news){
        .refused = s->refusal.code != 0 && (differs(old, new, "Compiled", "status") ||
                                            differs(old, new, "Compiled", "message")),
        .trouble = !publish_reason_passes(s->reason) && (differs(old, new, "Published", "status") ||
                                                         differs(old, new, "Published", "message")),
        .enforced = s->enforced == STATUS_ENFORCED && moved,
        .shared = s->exclusive == EXCLUSIVE_NO && differs(old, new, "Exclusive", "reason"),
        .routed = route_report_event(conditions_find(old, ROUTE_CONDITION),
                                     conditions_find(new, ROUTE_CONDITION)),
        .lost = is_alarm(s->enforced) && differs(old, new, "Enforced", "reason"),
    };
}

/* With the message of a condition. */
static void tell(struct shard *s, const struct shard_cache_config *config, enum event_type type,
                 const char *of, const char *reason)
{
    struct event_object about = event_object_of(config->object);
    event_record(s->controller->options.events, &about, type, reason, "%s",
                 field_text(conditions_find(s->status, of), "message"));
}

static void record_events(struct shard *s, const struct shard_cache_config *config)
{
    if (s->news.refused) {
        tell(s, config, EVENT_WARNING, "Compiled", "CompileFailed");
    }
    if (s->news.trouble) {
        tell(s, config, EVENT_WARNING, "Published", "PublishFailed");
    }
    if (s->news.enforced) {
        tell(s, config, EVENT_NORMAL, "Enforced", "Enforced");
    }
    if (s->news.shared) {
        tell(s, config, EVENT_WARNING, "Exclusive", "Shared");
    }
    if (s->news.routed != NULL) {
        const cJSON *now = conditions_find(s->status, ROUTE_CONDITION);
        bool well = strcmp(field_text(now, "status"), "True") == 0;
        tell(s, config, well ? EVENT_NORMAL : EVENT_WARNING, ROUTE_CONDITION, s->news.routed);
    }
    if (s->news.lost) {
        tell(s, config, EVENT_WARNING, "Enforced",
             field_text(conditions_find(s->status, "Enforced"), "reason"));
    }
}

/* ---- writing ---- */

static void finish_report(struct shard *s)
{
    bool retry = publish_reason_retried(s->reason);
    bool refused =
        s->traffic.trouble_reason != NULL && strcmp(s->traffic.trouble_reason, "Refused") == 0;
    unsigned after = retry ? s->retry_after : refused ? s->traffic.retry_after : 0;
    cJSON_Delete(s->status);
    s->status = NULL;
    shard_done(s, retry || refused ? WORK_RETRY : WORK_DONE, after);
}

static void on_written(void *data, const cJSON *object, const struct api_error *error)
{
    struct shard *s = data;
    const struct shard_cache_config *config = shard_config(s);
    if (object != NULL) {
        if (config != NULL) {
            record_events(s, config);
        }
        finish_report(s);
        return;
    }
    cJSON_Delete(s->status);
    s->status = NULL;
    reconcile_failed(&s->run, error, "cannot write the status");
}

static void send_status(struct shard *s, const struct shard_cache_config *config)
{
    const struct reconcile_status w = {
        .path = controller_path(SHARD_CACHE_GROUP_PATH, config->ns, SHARD_CACHE_RESOURCE),
        .name = config->name,
        .uid = config->uid,
        .version = config->version,
        .old = field_get(config->object, "status"),
        .status = s->status,
        .field_manager = RULES_MAP_MANAGER,
        .counts = s->controller->options.counts->writes[CONTROLLER_STATUS],
        .next = on_written,
    };
    reconcile_status(&s->run, &w);
}

/* The rules that the config asks for now are in force on all pods. */
static void note_enforced(struct shard *s)
{
    if (s->changed_at != 0 && s->placed && s->enforced == STATUS_ENFORCED) {
        controller_observe(&s->controller->options.counts->enforced,
                           controller_now(s->controller) - s->changed_at);
        s->changed_at = 0;
    } else if (s->placed && s->enforced == STATUS_NO_PODS) {
        s->changed_at = 0; /* nobody is waited for */
    }
}

void shard_report(struct shard *s)
{
    const struct shard_cache_config *config = shard_config(s);
    if (config == NULL) {
        finish_report(s);
    } else if (!shard_unbind(s, config)) {
        shard_publish_traffic(s);
    }
}

void shard_report_status(struct shard *s)
{
    const struct shard_cache_config *config = shard_config(s);
    bool changed = false;
    /* Of a spec that was edited since there is nothing to say yet; the edit brings it again. */
    if (config == NULL || !shard_has_looked(s, config)) {
        finish_report(s);
        return;
    }
    cJSON_Delete(s->status);
    s->status = make_status(s, config, &changed);
    if (s->status == NULL) {
        finish_report(s); /* the first answers bring it again */
        return;
    }
    note_enforced(s);
    if (!changed || reconcile_too_early(&s->run, config->uid, config->version, 0)) {
        finish_report(s);
        return;
    }
    s->news = compare_status(s, field_get(config->object, "status"), s->status);
    send_status(s, config);
}
