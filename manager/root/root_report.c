/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last step of a pass: the root's status.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/keyed_hash.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "object/conditions.h"
#include "root/roots_internal.h"
#include "json/field.h"

enum {
    STATUS_MS = 1000,  /* a status is not written again before */
    NAMES_MAX = 5,     /* pods, or shards, that a message names */
    NAMES_SIZE = 2048, /* so many always fit */
    MICROSECONDS = 1000,
};

/* "a, b and 3 more". */
struct names {
    struct buf text;
    size_t count;
};

/* What the status is made of, and what that points into. */
struct report {
    struct root_status_facts facts;
    struct root_status_shard shards[ROOT_CHILDREN_MAX];
    char names[ROOT_CHILDREN_MAX][CHILD_NAME_SIZE];
    struct names foreign;
    struct names earlier;
    struct names foreign_pods;
    struct load_moves moves;
};

/* ---- facts ---- */

static void append_name(struct names *out, const char *name)
{
    if (out->count++ < NAMES_MAX) {
        xok(buf_printf(&out->text, "%s%s", out->text.len == 0 ? "" : ", ", name));
    }
}

/* Pods that a shard selects, and whose sidecars are of another one. */
static void find_foreign_pods(struct report *r, const struct shard_cache_config *config)
{
    const struct pod **pods = shard_cache_pods_of(config);
    for (size_t i = 0; i < config->pod_count; i++) {
        const struct pod *p = pods[i];
        if (!p->over && p->shard[0] != '\0' && strcmp(p->shard, config->key) != 0) {
            append_name(&r->foreign_pods, p->name);
        }
    }
    free(pods);
}

static void look_at_name(const struct root *t, struct report *r,
                         const struct shard_cache_config *config)
{
    if (root_owned_before(t, config)) {
        append_name(&r->earlier, config->name);
        return;
    }
    const char *owner = root_other_owner(config);
    char name[NAMES_SIZE / NAMES_MAX];
    (void)snprintf(name, sizeof name, owner[0] == '\0' ? "%.253s%.63s" : "%.253s (of root %.63s)",
                   config->name, owner);
    append_name(&r->foreign, name);
}

static void add_shard(const struct root *t, struct report *r, const struct layout_shard *s)
{
    const struct root_child *c = &t->children[s->number];
    const struct shard_cache_config *config = root_find_child(t, s->number);
    const struct root_pods pods = root_count_pods(t, s->number);
    char *name = r->names[r->facts.count];
    if (child_name(&t->pass.spec, s->number, name) != 0) {
        return; /* of no spec that is valid */
    }
    if (config != NULL && !root_owns(t, config)) {
        if (c->base == 0) {
            look_at_name(t, r, config);
        }
        config = NULL;
    }
    r->shards[r->facts.count++] = (struct root_status_shard){
        .name = name,
        .exists = config != NULL,
        .status = config == NULL ? NULL : field_get(config->object, "status"),
        .observed = config != NULL && c->base == 0 && conditions_observed(config->object),
        .normal = s->number != 0,
        .number = s->number,
        .first = s->first,
        .wanted = s->pods,
        .pods = pods.all,
        .ready = pods.ready,
        .buckets = c->known ? c->buckets : 0,
        .taken_over = c->known && c->taken_over,
        .leaving = s->leaving,
    };
    if (config != NULL) {
        find_foreign_pods(r, config);
    }
}

/* NULL: there are none. */
static const char *end_names(struct names *n)
{
    if (n->count > NAMES_MAX) {
        xok(buf_printf(&n->text, " and %zu more", n->count - (size_t)NAMES_MAX));
    }
    return n->count == 0 ? NULL : xptr(buf_cstr(&n->text));
}

static const char *invalid_reason(const struct root *t)
{
    int code = t->pass.invalid.code;
    if (code == -E2BIG && t->needs_namespaces) {
        return "TooManyNamespaces";
    }
    return code == -EDQUOT ? "OverBudget" : "Invalid";
}

/* Something is left to do, be it later. */
static bool is_under_way(const struct root *t)
{
    const struct root_pass *p = &t->pass;
    bool under_way = (p->held || p->keeps) && !p->spec.disable;
    for (size_t i = 0; !p->spec.disable && i < p->layout.count; i++) {
        const struct layout_shard *s = &p->layout.shards[i];
        const struct root_child *c = &t->children[s->number];
        under_way = under_way || !c->known || c->buckets != s->buckets ||
                    (s->number == 0 && c->taken_over != s->taken_over);
    }
    return under_way;
}

static void collect(struct root *t, const struct shard_cache_config *config, struct report *r)
{
    const struct root_pass *p = &t->pass;
    r->moves = root_load_moves(t);
    r->facts = (struct root_status_facts){
        .root = config->object,
        .invalid = p->invalid.code == 0 ? NULL : p->invalid.msg,
        .invalid_reason = invalid_reason(t),
        .drops_pod_names = p->whole != NULL && child_drops_pod_names(p->whole),
        .disabled = p->spec.disable,
        .under_way = is_under_way(t),
        .refused = p->refused ? p->why.msg : NULL,
        .canary_barred = p->barred,
        .deployment = p->spec.deployment,
        .target_name = p->spec.target,
        .target = p->target,
        .elastic = !p->spec.automatic.there || p->spec.automatic.size == 0,
        .size = p->layout.size,
        .needed = p->layout.needed,
        .room = p->layout.room,
        .shards = r->shards,
        .load = t->load.report.known ? &t->load.report : NULL,
        .moves = &r->moves,
        .balance = p->spec.deployment ? &t->balance.report : NULL,
        .now_ms = net_clock_wall(t->roots->clock) / MICROSECONDS,
    };
    for (size_t i = 0; i < p->layout.count; i++) {
        const struct layout_shard *s = &p->layout.shards[i];
        if (!p->spec.disable || root_find_child(t, s->number) != NULL) {
            add_shard(t, r, s);
        }
    }
    r->facts.foreign = end_names(&r->foreign);
    r->facts.earlier = end_names(&r->earlier);
    r->facts.foreign_pods = end_names(&r->foreign_pods);
}

/* ---- Events ---- */

static void tell_conflict(struct root *t, const struct shard_cache_config *config,
                          const struct report *r)
{
    const char *foreign = r->facts.foreign;
    uint64_t digest = foreign == NULL ? 0 : keyed_hash(0, slice_str(foreign));
    if (digest != 0 && digest != t->conflicts) {
        const struct event_object about = event_object_of(config->object);
        event_record(t->roots->options.events, &about, EVENT_WARNING, "ChildConflict",
                     "Other ShardingConfigs have the names of shards: %s.", foreign);
    }
    t->conflicts = digest;
}

/* Records an Event for a new reason of Ready or Sized that a person has to act on. A child that
 * belongs to somebody else has an Event of its own, ChildConflict. */
static void tell_state(const struct root *t, const struct shard_cache_config *config)
{
    static const struct {
        const char *type;
        const char *reason;
        const char *event;
    } told[] = {
        {"Ready", "Invalid", "CompileFailed"},
        {"Ready", "TooManyNamespaces", "CompileFailed"},
        {"Ready", "OverBudget", "CompileFailed"},
        {"Ready", "Refused", "ChildRefused"},
        {"Ready", "TooManyStatefulSets", "TooManyStatefulSets"},
        {"Ready", "TooManyDeployments", "TooManyDeployments"},
        {"Sized", "TooFewReplicas", "NotSized"},
        {"Sized", "TooManyReplicas", "NotSized"},
        {"Sized", "NotFound", "NotSized"},
        {"Sized", "Unreadable", "NotSized"},
        {"Balanced", "PodsWithoutShard", "PodsWithoutShard"},
        {"Balanced", "AnotherRoot", "AnotherRoot"},
        {"Balanced", "EvictionBlocked", "EvictionBlocked"},
    };
    const struct event_object about = event_object_of(config->object);
    const cJSON *old = field_get(config->object, "status");
    for (size_t i = 0; i < ARRAY_LEN(told); i++) {
        const cJSON *now = conditions_find(t->status, told[i].type);
        const char *before = field_text(conditions_find(old, told[i].type), "reason");
        if (strcmp(field_text(now, "reason"), told[i].reason) == 0 &&
            strcmp(before, told[i].reason) != 0) {
            event_record(t->roots->options.events, &about, EVENT_WARNING, told[i].event, "%s",
                         field_text(now, "message"));
        }
    }
}

/* ---- writing ---- */

static void finish(struct root *t)
{
    cJSON_Delete(t->status);
    t->status = NULL;
    if (t->pass.refused) {
        reconcile_done(&t->run, WORK_RETRY, 0);
    } else if (!root_balance_evict(t)) {
        reconcile_done(&t->run, WORK_DONE, 0);
    }
}

static void on_written(void *data, const cJSON *object, const struct api_error *error)
{
    struct root *t = data;
    if (object != NULL) {
        finish(t);
        return;
    }
    cJSON_Delete(t->status);
    t->status = NULL;
    reconcile_failed(&t->run, error, "cannot write the status of a root");
}

static void send_status(struct root *t, const struct shard_cache_config *config)
{
    const struct reconcile_status w = {
        .path = root_path(t),
        .name = config->name,
        .uid = config->uid,
        .version = config->version,
        .old = field_get(config->object, "status"),
        .status = t->status,
        .field_manager = ROOT_FIELD_MANAGER,
        .next = on_written,
    };
    tell_state(t, config);
    reconcile_status(&t->run, &w);
}

/* Whether its spec makes sense or not. */
static size_t count_children(const struct root *t, const struct shard_cache_config *config)
{
    const struct shard_cache *w = t->roots->options.cache;
    size_t count = 0;
    for (const struct shard_cache_config *c = NULL;
         (c = shard_cache_next_config_in(w, config->ns, c)) != NULL;) {
        count += root_owns(t, c) ? 1 : 0;
    }
    return count;
}

void root_report(struct root *t)
{
    const struct shard_cache_config *config = root_config(t);
    struct report *r = xcalloc(1, sizeof *r);
    buf_init(&r->foreign.text, NAMES_SIZE);
    buf_init(&r->earlier.text, NAMES_SIZE);
    buf_init(&r->foreign_pods.text, NAMES_SIZE);
    cJSON_Delete(t->status);
    collect(t, config, r);
    tell_conflict(t, config, r);
    t->status = root_status_make(&r->facts, &t->reported);
    t->child_count = count_children(t, config);
    buf_reset(&r->foreign.text);
    buf_reset(&r->earlier.text);
    buf_reset(&r->foreign_pods.text);
    free(r);
    if (!t->reported.changed ||
        reconcile_too_early(&t->run, config->uid, config->version, STATUS_MS)) {
        finish(t);
    } else {
        send_status(t, config);
    }
}
