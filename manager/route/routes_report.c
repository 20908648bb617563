/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the routes controller says: of each shard for its condition, on the admin page, and as
 * metrics.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/prometheus.h"
#include "base/xalloc.h"
#include "route/routes_internal.h"
#include "json/field.h"

enum { NAMES_MAX = 100 };

/* ---- of one webhook ---- */

static const struct route_writing *find_writing(const struct routes *r, const char *fmt,
                                                enum originals_kind kind, const char *name)
{
    char *key =
        xasprintf("%s/%d%s%s", fmt, (int)kind, name == NULL ? "" : "/", name == NULL ? "" : name);
    const struct route_writing *s = reconciler_find(r->writes, key);
    free(key);
    return s;
}

static bool is_contested(const struct route_config *c)
{
    return c->original->labelled && (c->memory->contested || c->original->rival != NULL);
}

static void say_contested(const struct routes *r, const struct route_config *c,
                          struct route_verdict *v)
{
    if (c->original->rival != NULL) {
        route_verdict_set(v, ROUTE_CONTESTED,
                          "another installation of the mesh is to route it, too, so neither does: "
                          "take the label %.317s off, or %.253s/" ROUTE_LABEL,
                          c->original->rival, r->o.labels.prefix);
    } else {
        route_verdict_set(
            v, ROUTE_CONTESTED,
            "somebody undoes what the manager writes to it, to its Service or to " ROUTE_OBJECT
            " (managedFields say who), so any pod is asked: end that, or "
            "let their manifest add to its namespaceSelector: matchExpressions: "
            "[{key: %.256s, operator: DoesNotExist}]; then take the label off, and "
            "set it again",
            r->o.keys->key[LABELS_CONTROL]);
    }
}

/* The first shard that may not be asked says why none may. */
static void say_unready(const struct route_webhook *h, struct route_verdict *v)
{
    const struct route_target *t = h->target;
    *v = t->count == 0 ? (struct route_verdict){.reason = ROUTE_ROUTED} : t->shards[0].admission;
    for (size_t i = 0; i < t->count; i++) {
        if (t->shards[i].can_gain || t->shards[i].entry_port != 0) {
            *v = (struct route_verdict){.reason = ROUTE_ROUTED};
        }
    }
}

static void say_unwritten(const struct routes *r, const struct route_webhook *h,
                          struct route_verdict *v)
{
    const struct route_config *c = h->config;
    const struct route_writing *s = find_writing(r, "entries", c->original->kind, NULL);
    if (!c->claim->fits) {
        route_verdict_set(v, ROUTE_TOO_MANY,
                          "there is no room for its entries: " ROUTE_OBJECT " has %d at most, for "
                          "all operators together",
                          ENTRIES_MAX);
    } else if (s != NULL && s->refusal != NULL) {
        route_verdict_set(v, ROUTE_NOT_ALLOWED, "its entries cannot be written: %.512s",
                          s->refusal);
    } else {
        route_verdict_set(v, ROUTE_SETTLING, "its entries are being written");
    }
}

static void say_wide(const struct routes *r, const struct route_webhook *h, struct route_verdict *v)
{
    const struct route_config *c = h->config;
    const struct route_writing *s = find_writing(r, "original", c->original->kind, c->name);
    if (s != NULL && s->code == 403) {
        route_verdict_set(v, ROUTE_NOT_NARROWED,
                          "reviews are asked for twice, by its entries and by itself: allow the "
                          "manager's service account to patch it, or add to its namespaceSelector: "
                          "matchExpressions: [{key: %.256s, operator: DoesNotExist}]",
                          r->o.keys->key[LABELS_CONTROL]);
    } else if (s != NULL && s->refusal != NULL) {
        route_verdict_set(v, ROUTE_NOT_NARROWED, "it cannot be narrowed: %.512s", s->refusal);
    } else {
        route_verdict_set(v, ROUTE_SETTLING,
                          "its entries are there, and it is narrowed in some seconds");
    }
}

/* All in all. */
static struct route_verdict conclude(const struct routes *r, const struct route_webhook *h)
{
    struct route_verdict v = h->verdict;
    if (is_contested(h->config)) {
        say_contested(r, h->config, &v);
    } else if (v.reason == ROUTE_ROUTED) {
        say_unready(h, &v);
    }
    if (v.reason != ROUTE_ROUTED) {
        return v;
    }
    if (!h->has_entries || !h->config->claim->fits) {
        say_unwritten(r, h, &v);
    } else if (!h->narrowed && !(h->ours && h->plan.selector == ROUTE_PLAN_NARROW)) {
        say_wide(r, h, &v); /* else it is narrowed again at once */
    } else if (h->rules.left.reason != ROUTE_ROUTED) {
        v = h->rules.left;
    }
    return v;
}

/* ---- of one shard ---- */

struct telling {
    const struct routes *r;
    const struct shard_cache_config *shard;
    struct route_report report;
    size_t routed;
    bool unselected; /* only of Services that select no shard at all */
};

static const struct route_shard *find_shard(const struct route_target *t, const char *key)
{
    for (size_t i = 0; i < t->count; i++) {
        if (strcmp(t->shards[i].key, key) == 0) {
            return &t->shards[i];
        }
    }
    return NULL;
}

static void say_no_pods(const struct route_target *t, struct route_verdict *v)
{
    route_verdict_set(v, ROUTE_NO_PODS, "it has no pod that Service %.128s selects",
                      t->service->key);
}

/* What it owns stays with others until it has confirmed once. */
static void say_admission(const struct route_webhook *h, const struct route_shard *s,
                          struct route_verdict *v)
{
    *v = s->admission;
    if (v->reason == ROUTE_ROUTED && !s->confirmed &&
        !partition_has(&h->present, (int)(s - h->target->shards))) {
        route_verdict_set(v, ROUTE_SETTLING,
                          "its pods have not confirmed its rules yet, and others are asked");
    }
}

static void add(struct telling *t, const struct route_webhook *h, const struct route_verdict *v)
{
    bool known = t->report.state == ROUTE_KNOWN && t->report.verdict.reason != ROUTE_ROUTED;
    t->report.state = ROUTE_KNOWN;
    if (v->reason == ROUTE_ROUTED) {
        t->routed++;
    } else if (!known) {
        route_verdict_set(&t->report.verdict, v->reason, "%s %.253s, webhook %.253s: %s",
                          originals_kind_name(h->config->original->kind), h->config->name, h->name,
                          v->text);
    }
}

/* By its owner. */
static bool is_left_narrow(const struct route_webhook *h)
{
    return h->narrowed && !h->ours && h->plan.entries;
}

static void say_unlabelled(const struct routes *r, struct route_verdict *v)
{
    route_verdict_set(v, ROUTE_UNLABELLED,
                      "it has no label %.253s/" ROUTE_LABEL
                      "=true, but is narrowed, so its entries stay: set the label, or take {key: "
                      "%.256s, operator: DoesNotExist} out of its namespaceSelector",
                      r->o.labels.prefix, r->o.keys->key[LABELS_CONTROL]);
}

struct looking {
    const struct selector *selector;
    bool found;
};

static void look_at_pod(void *data, const struct pod *p)
{
    struct looking *l = data;
    l->found = l->found || (l->selector != NULL && !p->over && pod_selected(p, l->selector));
}

static bool has_selected(const struct shard_cache_config *c, const struct route_service *s)
{
    struct looking l = {.selector = s->selector};
    shard_cache_each_pod_of(c, look_at_pod, &l);
    return l.found;
}

/* It takes no part. */
static void look_without_port(struct telling *t, const struct route_webhook *h)
{
    struct route_verdict v;
    if (h->config->original->labelled && h->rules.verdict.reason != ROUTE_NOTHING &&
        has_selected(t->shard, h->target->service)) {
        route_verdict_set(&v, ROUTE_NO_PORT,
                          "any pod is asked about what it owns, for it has no spec.webhook.port");
        add(t, h, &v);
    }
}

static void look_at_webhook(struct telling *t, const struct route_webhook *h)
{
    const struct route_target *target = h->target;
    bool labelled = h->config->original->labelled;
    if (!(labelled || is_left_narrow(h)) || target == NULL ||
        strcmp(target->service->ns, t->shard->ns) != 0) {
        return;
    }
    if (compile_webhook_port(t->shard->object) == 0) {
        look_without_port(t, h);
        return;
    }
    const struct route_shard *s = find_shard(target, t->shard->key);
    struct route_verdict v = conclude(t->r, h);
    bool elsewhere = s == NULL && t->shard->pod_count > 0;
    if (v.reason == ROUTE_NOTHING || elsewhere != t->unselected ||
        (elsewhere && (!labelled || target->count > 0))) {
        return;
    }
    if (!labelled && v.reason != ROUTE_REFUSED) {
        say_unlabelled(t->r, &v);
    } else if (s == NULL && !elsewhere) {
        say_no_pods(target, &v);
    } else if (v.reason == ROUTE_ROUTED) {
        say_admission(h, s, &v);
    }
    add(t, h, &v);
}

static void look_at_webhooks(struct telling *t, const struct route_world *w)
{
    for (size_t i = 0; i < w->config_count; i++) {
        for (size_t k = 0; k < w->configs[i].count; k++) {
            look_at_webhook(t, &w->configs[i].webhooks[k]);
        }
    }
}

/* What leads to none of the shards may be meant for each that nothing else leads to. */
static struct route_report report_of(const struct routes *r, const struct shard_cache_config *c)
{
    struct telling t = {.r = r, .shard = c, .report = {.state = ROUTE_NOT_ASKED}};
    look_at_webhooks(&t, r->world);
    if (t.report.state == ROUTE_NOT_ASKED) {
        t.unselected = true;
        look_at_webhooks(&t, r->world);
    }
    if (t.report.state == ROUTE_KNOWN && t.report.verdict.reason == ROUTE_ROUTED) {
        route_verdict_set(&t.report.verdict, ROUTE_ROUTED,
                          "Reviews of what it owns reach it, by %zu webhook%s", t.routed,
                          t.routed == 1 ? "" : "s");
    }
    return t.report;
}

static bool is_same(const struct route_report *a, const struct route_report *b)
{
    return a->state == b->state && a->verdict.reason == b->verdict.reason &&
           strcmp(a->verdict.text, b->verdict.text) == 0;
}

static void changed(const struct routes *r, const char *key)
{
    if (r->o.on_report != NULL) {
        r->o.on_report(r->o.data, key);
    }
}

static void tell_shard(struct routes *r, const struct shard_cache_config *c)
{
    const struct route_report report = report_of(r, c);
    if (report.state == ROUTE_NOT_ASKED) {
        return;
    }
    struct route_told *told =
        xptr(TABLE_PROVIDE(&r->told, slice_str(c->key), struct route_told, key));
    bool same = is_same(&told->report, &report);
    told->used = true;
    told->report = report;
    if (!same) {
        changed(r, c->key);
    }
}

/* Nobody asks any more. */
static void forget_others(struct routes *r)
{
    struct table_node *next = table_next(&r->told, NULL);
    while (next != NULL) {
        struct route_told *t = LIST_ITEM(next, struct route_told, node);
        next = table_next(&r->told, next);
        if (!t->used) {
            table_remove(&r->told, &t->node);
            changed(r, t->key);
            free(t);
        } else {
            t->used = false;
        }
    }
}

/* The first target of a namespace stands for all. */
static bool is_first_of(const struct route_world *w, size_t place)
{
    size_t i = 0;
    while (strcmp(w->targets[i].service->ns, w->targets[place].service->ns) != 0) {
        i++;
    }
    return i == place;
}

void routes_tell(struct routes *r)
{
    const struct route_world *w = r->world;
    if (!w->known) {
        return;
    }
    for (size_t i = 0; i < w->target_count; i++) {
        const char *ns = w->targets[i].service->ns;
        const struct shard_cache_config *c = NULL;
        while (is_first_of(w, i) && (c = shard_cache_next_config_in(r->o.cache, ns, c)) != NULL) {
            if (!c->root) {
                tell_shard(r, c);
            }
        }
    }
    forget_others(r);
    if (!r->told_once) {
        r->told_once = true;
        changed(r, NULL);
    }
}

const struct route_report *routes_report(struct routes *r, const char *key)
{
    static const struct route_report unknown = {.state = ROUTE_UNKNOWN};
    static const struct route_report not_asked = {.state = ROUTE_NOT_ASKED};
    const struct route_told *t = TABLE_FIND(&r->told, slice_str(key), struct route_told);
    if (t != NULL) {
        return &t->report;
    }
    return r->told_once ? &not_asked : &unknown;
}

/* ---- the admin page ---- */

static void add_owner(const struct route_webhook *h, cJSON *rows, int owner, const char *name,
                      int port)
{
    const struct partition *p = &h->present;
    if (owner != PARTITION_REST && !partition_has(p, owner)) {
        return;
    }
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, owner < 0 ? "to" : "shard", name);
    cJSON_AddNumberToObject(row, "port", port);
    cJSON *hashes = cJSON_AddArrayToObject(row, "hashes");
    for (size_t i = 0; i < SHARDING_HASH_SIZE; i++) {
        if (p->hashes[i] == owner) {
            cJSON_AddItemToArray(hashes, cJSON_CreateNumber((double)i));
        }
    }
    cJSON *names = cJSON_AddArrayToObject(row, "namespaces");
    size_t count = 0;
    for (size_t i = 0; i < p->count; i++) {
        if (p->names[i].owner == owner && count++ < NAMES_MAX) {
            cJSON_AddItemToArray(names, cJSON_CreateString(p->names[i].name));
        }
    }
    if (count > NAMES_MAX) {
        cJSON_AddNumberToObject(row, "moreNamespaces", (double)(count - NAMES_MAX));
    }
    cJSON_AddItemToArray(rows, row);
}

static void add_webhook(const struct routes *r, const struct route_webhook *h, cJSON *rows)
{
    const struct route_verdict v = conclude(r, h);
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", h->name);
    cJSON_AddStringToObject(row, "state", route_reason_text(v.reason));
    if (v.text[0] != '\0') {
        cJSON_AddStringToObject(row, "message", v.text);
    }
    cJSON_AddStringToObject(row, "narrowedBy",
                            !h->narrowed ? "nobody"
                            : h->ours    ? "manager"
                                         : "owner");
    if (h->has_entries && h->target != NULL) {
        const struct route_target *t = h->target;
        cJSON *entries = cJSON_AddArrayToObject(row, "entries");
        cJSON_AddStringToObject(row, "service", t->service->key);
        add_owner(h, entries, PARTITION_REST, "rest", h->service.port);
        add_owner(h, entries, PARTITION_HELD, "held", t->hold_port);
        for (size_t i = 0; i < t->count; i++) {
            add_owner(h, entries, (int)i, t->shards[i].config->name, t->entries[i].port);
        }
    }
    cJSON_AddItemToArray(rows, row);
}

void routes_status(struct routes *r, cJSON *root)
{
    if (r == NULL) {
        return;
    }
    routes_refresh(r);
    const struct route_world *w = r->world;
    cJSON *rows = cJSON_AddArrayToObject(root, "routes");
    for (size_t i = 0; w != NULL && w->known && i < w->config_count; i++) {
        const struct route_config *c = &w->configs[i];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "kind", originals_kind_name(c->original->kind));
        cJSON_AddStringToObject(row, "name", c->name);
        cJSON_AddBoolToObject(row, "labelled", c->original->labelled);
        cJSON_AddBoolToObject(row, "contested", c->memory->contested);
        cJSON *webhooks = cJSON_AddArrayToObject(row, "webhooks");
        for (size_t k = 0; k < c->count; k++) {
            add_webhook(r, &c->webhooks[k], webhooks);
        }
        cJSON_AddItemToArray(rows, row);
    }
}

/* ---- metrics ---- */

static void write_counts(const struct routes_counts *n, struct buf *out)
{
    static const char *const what[ROUTES_WRITES] = {
        [ROUTES_ENTRIES] = "entries",
        [ROUTES_PORTS] = "ports",
        [ROUTES_ORIGINAL] = "original",
    };
    static const char *const results[RECONCILE_RESULTS] = {
        [RECONCILE_WRITTEN] = "written",
        [RECONCILE_CONFLICT] = "conflict",
        [RECONCILE_FAILED] = "failed",
    };
    const struct prometheus_metric moves = {
        "cmesh_manager_route_moves_total", "counter",
        "Namespaces, or all namespaces of one hash, whose reviews went to another shard.",
        n->moves};
    prometheus_write(out, &moves, 1);
    prometheus_head(out, "cmesh_manager_route_writes_total", "counter",
                    "Writes to the API server for routing reviews, by purpose.");
    for (size_t w = 0; w < ROUTES_WRITES; w++) {
        for (size_t i = 0; i < RECONCILE_RESULTS; i++) {
            buf_printf(out,
                       "cmesh_manager_route_writes_total{what=\"%s\",result=\"%s\"} %" PRIu64 "\n",
                       what[w], results[i], n->writes[w][i]);
        }
    }
}

static void write_gauges(const struct routes *r, struct buf *out)
{
    static const char *const kinds[ORIGINALS_KINDS] = {
        [ORIGINALS_VALIDATING] = "validating",
        [ORIGINALS_MUTATING] = "mutating",
    };
    uint64_t contested = 0;
    prometheus_head(out, "cmesh_manager_route_entries", "gauge",
                    "Webhooks in " ROUTE_OBJECT " that route reviews to shards.");
    for (enum originals_kind kind = 0; kind < ORIGINALS_KINDS; kind++) {
        int count = cJSON_GetArraySize(field_get(r->objects[kind].object, "webhooks"));
        buf_printf(out, "cmesh_manager_route_entries{kind=\"%s\"} %d\n", kinds[kind], count);
    }
    for (struct table_node *n = NULL; (n = table_next(&r->memories, n)) != NULL;) {
        contested += LIST_ITEM(n, struct route_memory, node)->contested;
    }
    const struct prometheus_metric gauge = {
        "cmesh_manager_route_contested", "gauge",
        "Webhook configurations that are not routed because somebody undoes what is written.",
        contested};
    prometheus_write(out, &gauge, 1);
}

void routes_metrics(const struct routes *r, const struct routes_counts *n, struct buf *out)
{
    write_counts(n, out);
    if (r != NULL) {
        write_gauges(r, out);
    }
}
