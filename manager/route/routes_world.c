/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what there is to what is to be: originals -> the Services that they lead to -> the shards
 * behind these -> who is asked about which namespace -> entries, ports and selectors.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/keyed_hash.h"
#include "base/xalloc.h"
#include "kube/name.h"
#include "route/narrowing.h"
#include "route/routes_internal.h"
#include "json/edit.h"
#include "json/field.h"

/* A new leader waits for ConfigMaps to be read, but not for longer: ms. */
enum { READ_MS = 10000, NOTED_MAX = 64 * 1024 };

/* What is being made. */
struct making {
    struct routes *r;
    struct route_world *w;
    uint64_t now;
    bool labelled; /* any original is */
};

static void again(struct making *m, uint64_t ms)
{
    m->w->again_ms = ms < m->w->again_ms ? ms : m->w->again_ms;
}

static uint64_t since(struct making *m, uint64_t *at, bool is_so)
{
    *at = !is_so ? 0 : *at != 0 ? *at : m->now;
    return is_so ? m->now - *at : 0;
}

static const cJSON *entries_of(const struct routes *r, enum originals_kind kind)
{
    return field_get(r->objects[kind].object, "webhooks");
}

/* ---- originals ---- */

static int compare_configs(const void *left, const void *right)
{
    const struct route_config *a = left;
    const struct route_config *b = right;
    return a->original->kind != b->original->kind ? (a->original->kind < b->original->kind ? -1 : 1)
                                                  : strcmp(a->name, b->name);
}

static size_t count_originals(const struct originals *o)
{
    size_t count = 0;
    for (enum originals_kind kind = 0; kind < ORIGINALS_KINDS; kind++) {
        for (const struct original *i = NULL; (i = originals_next(o, kind, i)) != NULL;) {
            count++;
        }
    }
    return count;
}

/* Somebody else has widened what was to stay narrow. */
static void look_at_undoing(struct making *m, const struct route_webhook *h,
                            struct route_memory *memory)
{
    if (h->track->narrowed && !h->narrowed && h->config->original->labelled) {
        routes_undone(m->r, memory);
    }
    h->track->narrowed = false; /* until it is decided */
}

static void begin_webhook(struct making *m, struct route_config *c, const cJSON *webhook,
                          struct route_webhook *h)
{
    const struct routes *r = m->r;
    h->config = c;
    h->webhook = webhook;
    h->name = field_text(webhook, "name");
    h->track = routes_track(m->r, c->original->kind, c->name, h->name);
    h->narrowed = narrowing_is(r->o.keys, webhook);
    h->ours = narrowing_is_ours(c->original->object, originals_annotation(r->o.originals), h->name);
    partition_init(&h->present);
    look_at_undoing(m, h, c->memory);
}

static void begin_config(struct making *m, struct route_config *c)
{
    const cJSON *list = field_get(c->original->object, "webhooks");
    const cJSON *webhook;
    c->name = field_meta(c->original->object, "name");
    c->memory = routes_memory(m->r, c->original->kind, c->name);
    c->entries = cJSON_CreateArray();
    c->least = cJSON_CreateArray();
    c->webhooks = xcalloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *c->webhooks);
    cJSON_ArrayForEach(webhook, list)
    {
        begin_webhook(m, c, webhook, &c->webhooks[c->count++]);
    }
}

static void collect_configs(struct making *m)
{
    const struct originals *o = m->r->o.originals;
    struct route_world *w = m->w;
    w->configs = xcalloc(count_originals(o) + 1, sizeof *w->configs);
    for (enum originals_kind kind = 0; kind < ORIGINALS_KINDS; kind++) {
        for (const struct original *i = NULL; (i = originals_next(o, kind, i)) != NULL;) {
            w->configs[w->config_count++] =
                (struct route_config){.original = i, .name = field_meta(i->object, "name")};
        }
    }
    qsort(w->configs, w->config_count, sizeof *w->configs, compare_configs);
    for (size_t i = 0; i < w->config_count; i++) {
        begin_config(m, &w->configs[i]);
    }
}

/* ---- Services ---- */

static void on_service(void *data)
{
    routes_dirty(data);
}

/* NULL: it cannot be the name of one. */
static struct route_service *provide_service(struct making *m, const char *ns, const char *name)
{
    struct routes *r = m->r;
    if (name_check_label(slice_str(ns)) != NULL || name_check_label(slice_str(name)) != NULL) {
        return NULL;
    }
    char *key = xasprintf("%s/%s", ns, name);
    struct table_node *n = table_find(&r->services, key);
    free(key);
    if (n == NULL) {
        const struct route_service_options o = {
            .client = r->o.client,
            .ops = r->o.ops,
            .clock = r->clock,
            .on_change = on_service,
            .data = r,
        };
        struct route_service *s = route_service_new(r->loop, ns, name, &o);
        xok(table_insert(&r->services, &s->node, s->key));
        n = &s->node;
    }
    struct route_service *s = LIST_ITEM(n, struct route_service, node);
    s->used = true;
    return s;
}

static struct route_target *find_target(const struct route_world *w, const struct route_service *s)
{
    for (size_t i = 0; i < w->target_count; i++) {
        if (w->targets[i].service == s) {
            return &w->targets[i];
        }
    }
    return NULL;
}

static struct route_target *provide_target(struct making *m, struct route_service *s)
{
    struct route_world *w = m->w;
    struct route_target *t = s == NULL ? NULL : find_target(w, s);
    if (t == NULL && s != NULL) {
        uint64_t ms = UINT64_MAX;
        t = &w->targets[w->target_count++];
        t->service = s;
        t->state = route_service_look(s, &ms);
        again(m, ms);
    }
    return t;
}

/* Services that webhooks lead to, and those beside them that get our ports. */
static void find_services(struct making *m, struct route_webhook *h)
{
    const cJSON *metadata = field_get(h->config->original->object, "metadata");
    const char *other = field_text(field_get(metadata, "annotations"), m->r->service_key);
    if (!entries_service_of(h->webhook, &h->service)) {
        return;
    }
    const struct entries_service *s = &h->service;
    h->own = provide_target(m, provide_service(m, s->namespace, s->name));
    h->target =
        other[0] == '\0' ? h->own : provide_target(m, provide_service(m, s->namespace, other));
    h->target = h->own == NULL ? NULL : h->target;
    if (h->target != NULL) {
        h->target->asked = h->target->asked || (h->config->asked && h->track->routable);
    }
}

static size_t count_webhooks(const struct route_world *w)
{
    size_t count = 0;
    for (size_t i = 0; i < w->config_count; i++) {
        count += w->configs[i].count;
    }
    return count;
}

#define EACH_WEBHOOK(w, h)                                                                         \
    for (struct route_config *c_ = (w)->configs; c_ < (w)->configs + (w)->config_count; c_++)      \
        for (struct route_webhook *h = c_->webhooks; h < c_->webhooks + c_->count; h++)

/* A Service that nothing leads to any more stays for as long as it has ports of ours. */
static void keep_services(struct making *m)
{
    struct routes *r = m->r;
    for (struct table_node *n = NULL; (n = table_next(&r->services, n)) != NULL;) {
        struct route_service *s = LIST_ITEM(n, struct route_service, node);
        const cJSON *port;
        bool has = !informer_synced(s->informer) && route_service_error(s) == NULL;
        cJSON_ArrayForEach(port, field_get(field_get(s->object, "spec"), "ports"))
        {
            has = has || route_port_is(field_text(port, "name"));
        }
        if (!s->used && has) {
            s->used = true;
            (void)provide_target(m, s);
        }
    }
}

/* What the last leader has noted. */
static const char *noted_services(const struct routes *r)
{
    const cJSON *metadata = field_get(r->objects[ORIGINALS_VALIDATING].object, "metadata");
    return field_text(field_get(metadata, "annotations"), r->services_key);
}

static size_t count_noted(const char *text)
{
    size_t count = text[0] != '\0';
    for (; *text != '\0'; text++) {
        count += *text == ',';
    }
    return count;
}

static void provide_noted(struct making *m, struct slice name)
{
    const char *slash = memchr(name.ptr, '/', name.len);
    if (slash != NULL) {
        char *ns = xstrndup(name.ptr, (size_t)(slash - name.ptr));
        char *rest = xstrndup(slash + 1, name.len - (size_t)(slash + 1 - name.ptr));
        (void)provide_target(m, provide_service(m, ns, rest));
        free(ns);
        free(rest);
    }
}

/* Ports that were left there are to go, though nothing else names the Service any more. */
static void find_noted_services(struct making *m)
{
    for (const char *at = noted_services(m->r); *at != '\0';) {
        size_t len = strcspn(at, ",");
        provide_noted(m, slice_of(at, len));
        at += len + (at[len] == ',');
    }
}

static void collect_targets(struct making *m)
{
    struct route_world *w = m->w;
    size_t room =
        2 * count_webhooks(w) + m->r->services.count + count_noted(noted_services(m->r)) + 1;
    w->targets = xcalloc(room, sizeof *w->targets);
    EACH_WEBHOOK(w, h)
    {
        find_services(m, h);
    }
    find_noted_services(m);
    keep_services(m);
}

/* ---- shards ---- */

static int compare_shards(const void *left, const void *right)
{
    return strcmp(((const struct route_shard *)left)->key,
                  ((const struct route_shard *)right)->key);
}

/* Those of the Service's namespace that say by which port they answer. */
static void find_shards(struct making *m, struct route_target *t)
{
    const struct shard_cache *cache = m->r->o.cache;
    size_t room = 1;
    for (const struct shard_cache_config *c = NULL;
         (c = shard_cache_next_config_in(cache, t->service->ns, c)) != NULL;) {
        room++;
    }
    t->shards = xcalloc(room, sizeof *t->shards);
    for (const struct shard_cache_config *c = NULL;
         (c = shard_cache_next_config_in(cache, t->service->ns, c)) != NULL;) {
        unsigned port = c->root ? 0 : compile_webhook_port(c->object);
        if (port != 0) {
            t->shards[t->count++] = (struct route_shard){
                .config = c, .key = c->key, .port = port, .hold = compile_webhook_holds(c->object)};
        }
    }
    qsort(t->shards, t->count, sizeof *t->shards, compare_shards);
}

struct counting {
    const struct selector *selector;
    struct route_shard *shard;
};

static void count_pod(void *data, const struct pod *p)
{
    const struct counting *c = data;
    if (p->over || c->selector == NULL || !pod_selected(p, c->selector)) {
        return;
    }
    c->shard->pods++;
    if (p->ready && !p->ending) {
        c->shard->ready++;
        c->shard->ported += p->webhook_port;
    }
}

static void count_pods(const struct route_target *t, struct route_shard *s)
{
    struct counting c = {.selector = t->service->selector, .shard = s};
    shard_cache_each_pod_of(s->config, count_pod, &c);
}

/* ---- what the entries say ---- */

static void list_for_entries(struct route_target *t)
{
    free(t->entries);
    t->entries = xcalloc(t->count + 1, sizeof *t->entries);
    for (size_t i = 0; i < t->count; i++) {
        const struct service_port *p = t->shards[i].service_port;
        t->entries[i] =
            (struct entries_shard){.key = t->shards[i].key, .port = p == NULL ? 0 : p->number};
    }
}

static struct entries_webhook describe(const struct routes *r, const struct route_webhook *h)
{
    const struct route_target *t = h->target;
    return (struct entries_webhook){
        .keys = r->o.keys,
        .configuration = h->config->name,
        .webhook = h->webhook,
        .shards = t == NULL ? NULL : t->entries,
        .shard_count = t == NULL ? 0 : t->count,
        .service = t == NULL || t == h->own ? NULL : t->service->name,
        .hold_port = t == NULL ? 0 : t->hold_port,
    };
}

/* `ports`: room for those of its shards, or NULL. */
static void read_entries(struct making *m, struct route_webhook *h, int *ports)
{
    const cJSON *entries = entries_of(m->r, h->config->original->kind);
    partition_deinit(&h->present);
    h->make = describe(m->r, h);
    h->has_entries = entries_read(&h->make, entries, &h->present, ports);
}

static void learn_ports(struct making *m, struct route_webhook *h)
{
    struct route_target *t = h->target;
    if (t == NULL) {
        return;
    }
    int *ports = xcalloc(t->count + 1, sizeof *ports);
    read_entries(m, h, ports);
    for (size_t i = 0; i < t->count; i++) {
        t->shards[i].entry_port = ports[i] != 0 ? ports[i] : t->shards[i].entry_port;
    }
    free(ports);
}

/* A pod of it is selected, or was. */
static void leave_out_shards(struct making *m, struct route_target *t)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->count; i++) {
        struct route_shard *s = &t->shards[i];
        count_pods(t, s);
        char *key = xasprintf("%s %s", t->service->key, s->key);
        bool was = s->entry_port != 0 || table_find(&m->r->admissions, key) != NULL;
        free(key);
        if (s->pods > 0 || was) {
            t->shards[kept++] = *s;
        }
    }
    t->count = kept;
}

/* ---- ports ---- */

static bool is_listed(const struct route_target *t, const char *name)
{
    size_t i = 0;
    while (i < t->port_count && strcmp(t->ports[i].name, name) != 0) {
        i++;
    }
    return i < t->port_count;
}

static void want_port(struct route_target *t, const char *name, int number)
{
    if (t->port_count < SERVICE_PORTS_MAX && !is_listed(t, name)) {
        struct service_port *p = &t->ports[t->port_count++];
        (void)snprintf(p->name, sizeof p->name, "%s", name);
        p->number = (uint16_t)number;
    }
}

static bool leads_to(const cJSON *entries, const struct route_service *s, int number)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, entries)
    {
        struct entries_service to;
        if (entries_service_of(entry, &to) && to.port == number &&
            strcmp(to.namespace, s->ns) == 0 && strcmp(to.name, s->name) == 0) {
            return true;
        }
    }
    return false;
}

/* Ports of ours that nobody wants any more stay while entries lead there, and for a moment more,
 * for API servers that have not heard yet. */
static void want_old_ports(struct making *m, struct route_target *t)
{
    const struct routes *r = m->r;
    const cJSON *port;
    cJSON_ArrayForEach(port, field_get(field_get(t->service->object, "spec"), "ports"))
    {
        const char *name = field_text(port, "name");
        const cJSON *number = field_get(port, "port");
        if (!route_port_is(name) || is_listed(t, name) || !cJSON_IsNumber(number)) {
            continue;
        }
        int n = (int)number->valuedouble;
        bool used = leads_to(entries_of(r, ORIGINALS_VALIDATING), t->service, n) ||
                    leads_to(entries_of(r, ORIGINALS_MUTATING), t->service, n);
        struct route_port *p = routes_port(m->r, t->service->key, name);
        uint64_t passed = since(m, &p->unwanted_since, !used);
        if (used || passed < ROUTES_LINGER_MS) {
            want_port(t, name, n);
            again(m, used ? UINT64_MAX : ROUTES_LINGER_MS - passed);
        }
    }
}

/* The one that leads nowhere. */
static void want_hold_port(struct route_target *t)
{
    for (size_t i = 0; i < t->count; i++) {
        t->holds = t->holds || t->shards[i].hold;
    }
    if (t->holds && t->asked) {
        want_port(t, ROUTE_HOLD_PORT, 0);
    }
}

static void want_ports(struct making *m, struct route_target *t)
{
    t->ports = xcalloc(SERVICE_PORTS_MAX, sizeof *t->ports);
    for (size_t i = 0; i < t->count; i++) {
        char name[ROUTE_PORT_SIZE];
        const struct route_shard *s = &t->shards[i];
        if (t->asked || s->entry_port != 0) {
            want_port(t, route_port_name(s->key, name), s->entry_port);
        }
    }
    want_hold_port(t);
    want_old_ports(m, t);
}

/* A port that was there, and is to be, is not any more: on the same Service. */
static bool was_taken_off(struct making *m, const struct route_target *t,
                          const struct service_port *port)
{
    const char *uid = field_meta(t->service->object, "uid");
    bool has = service_ports_has(t->service->object, port);
    struct route_port *p = routes_port(m->r, t->service->key, port->name);
    bool taken = p->seen && !has && p->uid != NULL && strcmp(p->uid, uid) == 0;
    p->seen = has;
    if (has && (p->uid == NULL || strcmp(p->uid, uid) != 0)) {
        free(p->uid);
        p->uid = xstrdup(uid);
    }
    return taken;
}

/* All originals that lead there suffer. */
static void note_undoing(struct making *m, const struct route_target *t)
{
    for (size_t i = 0; i < m->w->config_count; i++) {
        const struct route_config *c = &m->w->configs[i];
        bool leads = false;
        for (size_t k = 0; k < c->count; k++) {
            leads = leads || c->webhooks[k].target == t;
        }
        if (leads && c->asked) {
            routes_undone(m->r, c->memory);
        }
    }
}

static void plan_ports(struct making *m, struct route_target *t)
{
    bool undone = false;
    want_ports(m, t);
    if (t->service->object != NULL) {
        service_ports_plan(t->service->object, t->ports, t->port_count, &t->plan);
        for (size_t i = 0; i < t->port_count; i++) {
            undone = was_taken_off(m, t, &t->ports[i]) || undone;
        }
    }
    if (undone) {
        note_undoing(m, t);
    }
    for (size_t i = 0; i < t->port_count; i++) {
        bool hold = strcmp(t->ports[i].name, ROUTE_HOLD_PORT) == 0;
        bool there =
            t->service->object != NULL && service_ports_has(t->service->object, &t->ports[i]);
        t->hold_port = hold && there ? t->ports[i].number : t->hold_port;
    }
}

static void assign_ports(struct route_target *t)
{
    for (size_t i = 0; i < t->count; i++) {
        char name[ROUTE_PORT_SIZE];
        struct route_shard *s = &t->shards[i];
        (void)route_port_name(s->key, name);
        for (size_t k = 0; k < t->port_count; k++) {
            if (strcmp(t->ports[k].name, name) == 0) {
                s->service_port = &t->ports[k];
                s->on_service = t->service->object != NULL &&
                                service_ports_has(t->service->object, s->service_port);
            }
        }
    }
}

/* ---- which shards may be asked ---- */

/* What helps where no other role of the manager allows it. */
#define BIND                                                                                       \
    "; bind the ClusterRole cmesh-manager-webhooks to the manager's service account in that "      \
    "namespace"

static void refuse_port(const struct making *m, const struct route_target *t, struct route_shard *s)
{
    const struct route_service *service = t->service;
    if (t->plan.fault == SERVICE_PORTS_UNNAMED) {
        route_verdict_set(
            &s->admission, ROUTE_PORT_UNNAMED,
            "the port of Service %.128s has no name, so the Service cannot have another one; name "
            "it: kubectl -n %.63s patch service %.63s --type=json -p "
            "'[{\"op\":\"add\",\"path\":\"/spec/ports/0/name\",\"value\":\"webhook\"}]'",
            service->key, service->ns, service->name);
    } else if (t->plan.fault == SERVICE_PORTS_TOO_MANY || s->service_port == NULL) {
        route_verdict_set(&s->admission, ROUTE_TOO_MANY,
                          "Service %.128s would have more than %d ports: use another one for the "
                          "shards, with the annotation %.128s/" ROUTE_SERVICE,
                          service->key, SERVICE_PORTS_MAX, m->r->o.labels.prefix);
    } else if (t->writing != NULL && t->writing->refusal != NULL) {
        route_verdict_set(&s->admission, ROUTE_NOT_ALLOWED,
                          "the ports of Service %.128s cannot be written: %.384s%s", service->key,
                          t->writing->refusal, t->writing->code == 403 ? BIND : "");
    } else {
        route_verdict_set(&s->admission, ROUTE_SETTLING, "Service %.128s gets a port for it",
                          service->key);
    }
}

/* A Service that leads to a port by name leads to another one than the shard's does. */
static bool leads_elsewhere(const struct making *m, const struct route_target *t,
                            struct route_shard *s)
{
    EACH_WEBHOOK(m->w, h)
    {
        bool here = h->own == t && h->target == t;
        const char *name = here ? service_ports_name(t->service->object, h->service.port) : NULL;
        int to;
        int own;
        if (name != NULL &&
            route_service_numbers(t->service, s->service_port->name, name, &to, &own) &&
            to != own) {
            route_verdict_set(&s->admission, ROUTE_OTHER_PORT,
                              "port %d of Service %.128s leads to port %d of its pods, and "
                              "spec.webhook.port made %d of it: correct that, and restart them",
                              h->service.port, t->service->key, own, to);
            return true;
        }
    }
    return false;
}

static void refuse_pods(const struct making *m, const struct route_target *t, struct route_shard *s)
{
    const char *error = route_service_pods_error(t->service);
    if (s->ready == 0) {
        route_verdict_set(&s->admission, ROUTE_NO_PODS,
                          "no pod of it that Service %.128s selects is Ready", t->service->key);
    } else if (s->ported == 0) {
        route_verdict_set(&s->admission, ROUTE_OLD_PODS,
                          "its pods were made before spec.webhook.port was set, or by an earlier "
                          "release: restart them");
    } else if (!s->on_service) {
        refuse_port(m, t, s);
    } else if (error != NULL) {
        route_verdict_set(&s->admission, ROUTE_NOT_ALLOWED,
                          "EndpointSlices of Service %.128s cannot be read: %.256s" BIND,
                          t->service->key, error);
    } else if (!leads_elsewhere(m, t, s)) {
        route_verdict_set(&s->admission, ROUTE_SETTLING,
                          "its pods have not been behind Service %.128s for five seconds yet",
                          t->service->key);
    }
}

/* Whether somebody has to watch its pods. */
static bool admit(struct making *m, const struct route_target *t, struct route_shard *s)
{
    struct route_admission *a = routes_admission(m->r, t->service->key, s->key);
    bool ready = s->ported > 0 && s->on_service;
    a->admitted = a->admitted || s->entry_port != 0;
    if (!a->admitted) {
        bool stands = ready && route_service_has_pods(t->service, s->service_port->name) &&
                      !leads_elsewhere(m, t, s);
        uint64_t passed = since(m, &a->stands_since, stands);
        a->admitted = stands && passed >= ROUTES_SETTLED_MS;
        again(m, stands && !a->admitted ? ROUTES_SETTLED_MS - passed : UINT64_MAX);
    }
    s->can_gain = a->admitted && s->on_service;
    if (!a->admitted) {
        refuse_pods(m, t, s);
    } else if (!s->on_service) {
        refuse_port(m, t, s);
    }
    return !a->admitted && ready && t->asked;
}

/* Rules that it is about to publish count already. */
static void look_at_releasing(struct making *m, struct route_shard *s)
{
    struct table_node *n = table_find(&m->r->releasing, s->key);
    if (n == NULL) {
        return;
    }
    struct route_releasing *x = LIST_ITEM(n, struct route_releasing, node);
    bool done =
        s->published != NULL && strcmp(rules_checksum(s->published), rules_checksum(x->to)) == 0;
    if (done || m->now >= x->until) {
        table_remove(&m->r->releasing, n);
        rules_unref(x->to);
        free(x);
        return;
    }
    rules_unref(s->published);
    s->published = rules_ref(x->to);
    s->confirmed = false;
    again(m, x->until - m->now);
}

/* Whether its ConfigMap is read, if there is any. */
static bool look_at_rules(struct making *m, struct route_shard *s)
{
    const struct routes *r = m->r;
    struct err e = ERR_INIT;
    struct rules *published = NULL;
    const struct compile_options o = {
        .namespace = s->config->ns,
        .generation = 1,
        .labels = r->o.labels,
        .namespaces = r->o.namespaces == NULL ? NULL : namespaces_set(r->o.namespaces)};
    struct rules *wanted = shard_cache_rules(r->o.cache, s->config, &o, &e);
    const struct rules_map *map = shard_cache_find_map(r->o.cache, s->key);
    s->confirmed = r->o.in_force(r->o.data, s->config, &published);
    s->wanted = wanted == NULL ? NULL : rules_ref(wanted);
    s->published = published == NULL ? NULL : rules_ref(published);
    look_at_releasing(m, s);
    if (map == NULL || !map->unread || m->now - r->began_at >= READ_MS) {
        return true;
    }
    again(m, READ_MS / 10);
    return false;
}

/* One edit is seldom alone: what nobody wants may be wanted by the next. */
static bool is_restless(struct making *m, const struct route_target *t)
{
    struct route_service *service = t->service;
    uint64_t specs = 0;
    for (size_t i = 0; i < t->count; i++) {
        const struct rules *wanted = t->shards[i].wanted;
        specs = keyed_hash(specs, slice_str(t->shards[i].key));
        specs = keyed_hash(specs, slice_str(wanted == NULL ? "" : rules_checksum(wanted)));
    }
    if (service->specs != specs || service->restless_at == 0) {
        service->specs = specs;
        service->restless_at = m->now;
    }
    uint64_t passed = m->now - service->restless_at;
    again(m, passed < ROUTES_RESTLESS_MS ? ROUTES_RESTLESS_MS - passed : UINT64_MAX);
    return passed < ROUTES_RESTLESS_MS;
}

static void list_sides(struct making *m, struct route_target *t)
{
    t->sides = xcalloc(t->count + 1, sizeof *t->sides);
    for (size_t i = 0; i < t->count; i++) {
        struct route_shard *s = &t->shards[i];
        const cJSON *metadata = field_get(s->config->object, "metadata");
        const char *shares = field_text(field_get(metadata, "annotations"), m->r->shares_with);
        s->shares_with = shares[0] == '\0' ? NULL : xstrdup(shares);
        t->sides[i] = (struct partition_shard){
            .key = s->key,
            .wanted = s->wanted,
            .published = s->published,
            .confirmed = s->confirmed,
            .can_gain = s->can_gain,
            .hold = s->hold && t->hold_port != 0,
            .shares_with = s->shares_with,
        };
    }
    t->own[0] = t->service->ns;
    t->own[1] = m->r->o.namespace;
    t->facts = (struct partition_facts){
        .shards = t->sides,
        .count = t->count,
        .shared = shard_cache_shared(m->r->o.cache),
        .own = t->own,
        .own_count = t->own[1] == NULL ? 1 : 2,
        .restless = is_restless(m, t),
    };
    t->partitioner = partitioner_new(&t->facts);
}

static void look_at_target(struct making *m, struct route_target *t)
{
    bool watch = false;
    char *key = xasprintf("service/%s", t->service->key);
    t->writing = reconciler_find(m->r->writes, key);
    free(key);
    plan_ports(m, t);
    assign_ports(t);
    for (size_t i = 0; i < t->count; i++) {
        watch = admit(m, t, &t->shards[i]) || watch;
        t->unread = !look_at_rules(m, &t->shards[i]) || t->unread;
    }
    list_sides(m, t);
    list_for_entries(t);
    route_service_watch_pods(t->service, watch);
}

static void look_at_targets(struct making *m)
{
    struct route_world *w = m->w;
    for (size_t i = 0; i < w->target_count; i++) {
        find_shards(m, &w->targets[i]);
        list_for_entries(&w->targets[i]);
    }
    EACH_WEBHOOK(w, h)
    {
        learn_ports(m, h);
    }
    for (size_t i = 0; i < w->target_count; i++) {
        leave_out_shards(m, &w->targets[i]);
        look_at_target(m, &w->targets[i]);
    }
    EACH_WEBHOOK(w, h)
    {
        read_entries(m, h, NULL);
    }
}

/* ---- what can be routed ---- */

static bool refuse_service(struct route_webhook *h, struct route_target *t, bool annotated)
{
    switch (t->state) {
    case ROUTE_SERVICE_GONE:
        route_verdict_set(&h->verdict, ROUTE_NO_SERVICE, "there is no Service %.128s%s",
                          t->service->key, annotated ? ", which an annotation names" : "");
        return true;
    case ROUTE_SERVICE_DENIED:
        route_verdict_set(&h->verdict, ROUTE_NOT_ALLOWED,
                          "Service %.128s cannot be read: %.256s" BIND, t->service->key,
                          route_service_error(t->service));
        return true;
    case ROUTE_SERVICE_UNKNOWN:
        route_verdict_set(&h->verdict, ROUTE_SETTLING, "Service %.128s is being read",
                          t->service->key);
        return true;
    default:
        return false;
    }
}

static bool refuse_ports(struct route_webhook *h)
{
    for (size_t i = 0; i < h->target->count; i++) {
        const struct route_shard *s = &h->target->shards[i];
        switch (service_ports_target(h->own->service->object, h->service.port, s->port)) {
        case SERVICE_PORTS_ABSENT:
            route_verdict_set(&h->verdict, ROUTE_NO_SERVICE, "Service %.128s has no port %d",
                              h->own->service->key, h->service.port);
            return true;
        case SERVICE_PORTS_OTHER:
            route_verdict_set(&h->verdict, ROUTE_OTHER_PORT,
                              "port %d of Service %.128s does not lead to port %u, which "
                              "spec.webhook.port of shard %.253s names: change one of them",
                              h->service.port, h->own->service->key, s->port, s->config->name);
            return true;
        default:
            break;
        }
    }
    return false;
}

static bool refuse_place(const struct making *m, struct route_webhook *h)
{
    const struct original *o = h->config->original;
    if (m->r->objects[o->kind].object == NULL) {
        route_verdict_set(&h->verdict, ROUTE_NOT_INSTALLED,
                          "there is no %s " ROUTE_OBJECT
                          ": apply the manifests of this release, which have it",
                          originals_kind_name(o->kind));
        return true;
    }
    if (h->target == NULL) {
        route_verdict_set(&h->verdict, ROUTE_NO_SERVICE,
                          "clientConfig, or the annotation for another Service, names none that "
                          "there could be");
        return true;
    }
    return refuse_service(h, h->own, false) || refuse_service(h, h->target, h->target != h->own);
}

static bool refuse_shards(struct route_webhook *h)
{
    if (h->target->count == 0) {
        route_verdict_set(&h->verdict, ROUTE_NO_PODS,
                          "Service %.128s selects no pods of a shard with spec.webhook.port",
                          h->target->service->key);
        return true;
    }
    return refuse_ports(h);
}

/* What the API server did not take is tried again when the original is another one. */
static bool refuse_again(struct route_webhook *h)
{
    const struct route_memory *mem = h->config->memory;
    if (!h->refused) {
        return false;
    }
    route_verdict_set(&h->verdict, ROUTE_REFUSED,
                      "the API server does not take its entries: %.512s", mem->refused);
    return true;
}

/* Who is asked, whether or not it is to be routed: a narrowed one needs entries in any case. */
static void decide(struct route_webhook *h)
{
    struct route_verdict why;
    if (h->target == NULL) {
        struct route_verdict none;
        route_verdict_set(&none, ROUTE_BY_URL, "clientConfig leads to no Service");
        route_rules_give_up(&h->rules, h->webhook, &none);
        return;
    }
    route_rules_init(&h->rules, h->target->partitioner, h->webhook);
    if (h->rules.verdict.reason != ROUTE_ROUTED) {
        return;
    }
    if (partitioner_next(h->target->partitioner, &h->rules.resource, &h->present, &h->next, &why) ==
        ROUTE_ROUTED) {
        h->decided = true;
    } else {
        route_rules_give_up(&h->rules, h->webhook, &why);
    }
}

/* Of its Services, and of what the shards there have published. */
static bool is_known(const struct route_webhook *h)
{
    return (h->own == NULL || h->own->state != ROUTE_SERVICE_UNKNOWN) &&
           (h->target == NULL || (h->target->state != ROUTE_SERVICE_UNKNOWN && !h->target->unread));
}

/* What is not routable needs no ports. */
static void note_routable(struct making *m, const struct route_webhook *h)
{
    bool routable = h->rules.verdict.reason == ROUTE_ROUTED;
    if (h->track->routable != routable) {
        h->track->routable = routable;
        again(m, 1); /* its Service was looked at as if it were as before */
    }
}

static void judge(struct making *m, struct route_webhook *h)
{
    const struct route_memory *mem = h->config->memory;
    const char *version = field_meta(h->config->original->object, "resourceVersion");
    bool url = h->service.name == NULL || h->service.name[0] == '\0';
    h->refused = mem->refused != NULL && strcmp(mem->refused_version, version) == 0;
    h->stays = !is_known(h);
    decide(h);
    note_routable(m, h);
    bool elsewhere = url || h->rules.verdict.reason == ROUTE_NOTHING;
    if (elsewhere || !(refuse_place(m, h) || refuse_shards(h) || refuse_again(h))) {
        h->verdict = h->rules.verdict;
    }
}

static bool is_ready(const struct route_webhook *h)
{
    for (size_t i = 0; h->target != NULL && i < h->target->count; i++) {
        if (h->target->shards[i].can_gain || h->target->shards[i].entry_port != 0) {
            return true;
        }
    }
    return false;
}

/* As they are: they may be of any shard of the namespace, at any Service. */
static void keep_entries(struct making *m, struct route_webhook *h)
{
    const struct shard_cache *cache = m->r->o.cache;
    const char *ns = h->service.namespace;
    const struct shard_cache_config *c = NULL;
    struct entries_webhook w = h->make;
    struct entries_shard *shards = NULL;
    w.shard_count = 0;
    while ((c = shard_cache_next_config_in(cache, ns, c)) != NULL) {
        shards = xrealloc(shards, (w.shard_count + 1) * sizeof *shards);
        shards[w.shard_count++] = (struct entries_shard){.key = c->key};
    }
    w.shards = shards;
    entries_keep(&w, entries_of(m->r, h->config->original->kind), h->config->entries);
    entries_keep(&w, entries_of(m->r, h->config->original->kind), h->config->least);
    free(shards);
}

/* All reviews of namespaces with control labels go to any pod, with as few entries as can be. */
static void make_least(struct route_webhook *h)
{
    struct route_rules rules = {.routed = NULL};
    struct route_verdict why;
    route_verdict_set(&why, ROUTE_TOO_MANY, "%s", "");
    route_rules_give_up(&rules, h->webhook, &why);
    entries_make(&h->make, &rules, NULL, h->config->least);
    route_rules_deinit(&rules);
}

static void plan(struct making *m, struct route_webhook *h)
{
    struct route_track *t = h->track;
    const struct route_plan_facts f = {
        .asked = h->config->asked,
        .routable = h->verdict.reason == ROUTE_ROUTED,
        .ready = is_ready(h),
        .narrowed = h->narrowed,
        .ours = h->ours,
        .has_entries = h->has_entries,
        .gone = h->own != NULL && h->own->state == ROUTE_SERVICE_GONE,
        .entries_ms = since(m, &t->entries_since, h->has_entries),
        .widened_ms = since(m, &t->widened_since, !h->narrowed),
    };
    h->plan = h->stays ? (struct route_plan){.entries = h->has_entries,
                                             .selector = ROUTE_PLAN_LEAVE,
                                             .again_ms = UINT64_MAX}
                       : route_plan(&f);
    again(m, h->plan.again_ms);
    t->narrowed = h->narrowed && h->ours && h->plan.selector == ROUTE_PLAN_LEAVE;
    h->config->narrow = h->config->narrow || h->plan.selector == ROUTE_PLAN_NARROW;
    h->config->widen = h->config->widen || h->plan.selector == ROUTE_PLAN_WIDEN;
    h->make = describe(m->r, h);
    if (h->plan.entries && h->refused && h->config->memory->refused_again) {
        return; /* nothing of it is taken any more */
    }
    if (h->plan.entries && (h->stays || h->refused)) {
        keep_entries(m, h);
    } else if (h->plan.entries) {
        entries_make(&h->make, &h->rules, h->decided ? &h->next : NULL, h->config->entries);
        if (h->narrowed || (f.has_entries && f.widened_ms < ROUTE_PLAN_PAUSE_MS)) {
            make_least(h);
        }
    }
}

/* ---- contested ---- */

static bool is_at_rest(const struct route_config *c)
{
    bool rest = true;
    for (size_t i = 0; i < c->count; i++) {
        rest = rest && !c->webhooks[i].has_entries && !c->webhooks[i].ours;
    }
    return rest;
}

/* It ends with the label, or with a change after all of ours is gone. */
static void look_at_contest(struct making *m, struct route_config *c)
{
    struct route_memory *mem = c->memory;
    double generation = field_generation(c->original->object);
    bool over = mem->contested &&
                (!c->original->labelled || (mem->rested_at != 0 && mem->rested_at != generation));
    if (over) {
        mem->contested = false;
        memset(mem->undone, 0, sizeof mem->undone);
        again(m, 1); /* its Service was looked at as if it were not asked for */
    }
    if (mem->contested && mem->rested_at == 0 && is_at_rest(c)) {
        mem->rested_at = generation;
    }
}

static void set_asked(struct route_config *c)
{
    c->asked = c->original->labelled && !c->memory->contested;
}

/* ---- all entries of a kind ---- */

static uint64_t count_moves(const struct partition *a, const struct partition *b)
{
    uint64_t moves = 0;
    for (size_t i = 0; i < SHARDING_HASH_SIZE; i++) {
        moves += a->hashes[i] != b->hashes[i];
    }
    for (size_t i = 0; i < b->count; i++) {
        moves += partition_owner(a, b->names[i].name) != b->names[i].owner;
    }
    return moves;
}

static void claim(struct route_world *w, struct route_config *c, struct entries_claim *to)
{
    const cJSON *metadata = field_get(c->original->object, "metadata");
    for (size_t i = 0; i < c->count; i++) {
        const struct route_webhook *h = &c->webhooks[i];
        c->has_entries = c->has_entries || h->has_entries;
        if (h->has_entries && h->decided && h->plan.entries && !h->stays && !h->refused) {
            w->moves[c->original->kind] += count_moves(&h->present, &h->next);
        }
    }
    c->claim = to;
    *to = (struct entries_claim){.configuration = c->name,
                                 .created = field_text(metadata, "creationTimestamp"),
                                 .has_entries = c->has_entries,
                                 .entries = c->entries,
                                 .least = c->least};
}

/* What does not fit is not narrowed for long. */
static void let_go(struct route_config *c)
{
    for (size_t i = 0; i < c->count; i++) {
        struct route_webhook *h = &c->webhooks[i];
        if (!c->claim->fits && h->narrowed && h->ours) {
            h->plan.selector = ROUTE_PLAN_WIDEN;
            h->track->narrowed = false;
            c->widen = true;
        }
    }
    c->narrow = c->narrow && c->claim->fits;
}

static void join(struct making *m, enum originals_kind kind, size_t first, size_t count)
{
    struct route_world *w = m->w;
    const cJSON *now = entries_of(m->r, kind);
    struct entries_claim *claims = &w->claims[first];
    for (size_t i = 0; i < count; i++) {
        claim(w, &w->configs[first + i], &claims[i]);
    }
    entries_list_fit(claims, count, now);
    for (size_t i = 0; i < count; i++) {
        let_go(&w->configs[first + i]);
    }
    w->webhooks[kind] = entries_list_join(claims, count);
    w->differs[kind] = m->r->objects[kind].object != NULL &&
                       !entries_list_is(now, w->webhooks[kind], m->r->o.keys->key[LABELS_CONTROL]);
}

static void join_all(struct making *m)
{
    struct route_world *w = m->w;
    size_t first = 0;
    w->claims = xcalloc(w->config_count + 1, sizeof *w->claims);
    for (enum originals_kind kind = 0; kind < ORIGINALS_KINDS; kind++) {
        size_t count = 0;
        while (first + count < w->config_count &&
               w->configs[first + count].original->kind == kind) {
            count++;
        }
        join(m, kind, first, count);
        first += count;
    }
}

/* ---- what the next leader is to know ---- */

static bool has_ports(const struct route_target *t)
{
    const cJSON *port;
    bool has = t->port_count > 0;
    cJSON_ArrayForEach(port, field_get(field_get(t->service->object, "spec"), "ports"))
    {
        has = has || route_port_is(field_text(port, "name"));
    }
    return has;
}

static bool is_noted(const char *noted, const char *service)
{
    size_t len = strlen(service);
    const char *at = strstr(noted, service);
    while (at != NULL && ((at != noted && at[-1] != ',') || (at[len] != ',' && at[len] != '\0'))) {
        at = strstr(at + 1, service);
    }
    return at != NULL;
}

static int compare_services(const void *left, const void *right)
{
    const struct route_target *const *a = left;
    const struct route_target *const *b = right;
    return strcmp((*a)->service->key, (*b)->service->key);
}

/* What is not known of a Service may be that it has ports. */
static void note_services(struct making *m)
{
    struct route_world *w = m->w;
    const char *noted = noted_services(m->r);
    struct buf text = BUF_INIT(NOTED_MAX);
    const struct route_target **sorted = xcalloc(w->target_count + 1, sizeof *sorted);
    for (size_t i = 0; i < w->target_count; i++) {
        sorted[i] = &w->targets[i];
    }
    qsort(sorted, w->target_count, sizeof *sorted, compare_services);
    for (size_t i = 0; i < w->target_count; i++) {
        const char *key = sorted[i]->service->key;
        bool known =
            sorted[i]->state == ROUTE_SERVICE_THERE || sorted[i]->state == ROUTE_SERVICE_GONE;
        bool listed = known ? has_ports(sorted[i]) : is_noted(noted, key);
        if (listed && text.len + strlen(key) + 1 < NOTED_MAX) {
            xok(buf_printf(&text, "%s%s", text.len > 0 ? "," : "", key));
        }
    }
    free(sorted);
    w->services = xstrndup(text.len == 0 ? "" : (const char *)buf_data(&text), text.len);
    buf_reset(&text);
    w->differs[ORIGINALS_VALIDATING] =
        w->differs[ORIGINALS_VALIDATING] ||
        (m->r->objects[ORIGINALS_VALIDATING].object != NULL && strcmp(w->services, noted) != 0);
}

/* ---- what is known ---- */

static void look_at_knowledge(struct making *m)
{
    struct routes *r = m->r;
    const struct sharing_set *shared = shard_cache_shared(r->o.cache);
    bool known = originals_synced(r->o.originals) && shard_cache_synced(r->o.cache) &&
                 (shared == NULL || !shared->unknown) &&
                 (r->o.namespaces == NULL || namespaces_synced(r->o.namespaces) ||
                  namespaces_error(r->o.namespaces) != NULL);
    for (size_t kind = 0; kind < ORIGINALS_KINDS; kind++) {
        known = known && informer_synced(r->objects[kind].informer);
    }
    m->w->known = known;
}

static void look_at_webhooks(struct making *m)
{
    EACH_WEBHOOK(m->w, h)
    {
        judge(m, h);
    }
    for (size_t i = 0; i < m->w->config_count; i++) {
        look_at_contest(m, &m->w->configs[i]);
    }
    EACH_WEBHOOK(m->w, h)
    {
        set_asked(h->config);
        plan(m, h);
    }
}

struct route_world *route_world_new(struct routes *r)
{
    struct route_world *w = xcalloc(1, sizeof *w);
    struct making m = {.r = r, .w = w, .now = routes_now(r)};
    w->again_ms = UINT64_MAX;
    look_at_knowledge(&m);
    if (!w->known) {
        return w; /* whatever is missing tells when it comes */
    }
    collect_configs(&m);
    for (size_t i = 0; i < w->config_count; i++) {
        set_asked(&w->configs[i]);
    }
    collect_targets(&m);
    look_at_targets(&m);
    look_at_webhooks(&m);
    join_all(&m);
    note_services(&m);
    routes_sweep(r);
    return w;
}

/* ---- the end ---- */

static void free_target(struct route_target *t)
{
    partitioner_free(t->partitioner);
    for (size_t i = 0; i < t->count; i++) {
        rules_unref(t->shards[i].wanted);
        rules_unref(t->shards[i].published);
        free(t->shards[i].shares_with);
    }
    cJSON_Delete(t->plan.apply);
    free(t->shards);
    free(t->sides);
    free(t->ports);
    free(t->entries);
}

static void free_config(struct route_config *c)
{
    for (size_t i = 0; i < c->count; i++) {
        partition_deinit(&c->webhooks[i].present);
        if (c->webhooks[i].decided) {
            partition_deinit(&c->webhooks[i].next);
        }
        route_rules_deinit(&c->webhooks[i].rules);
    }
    cJSON_Delete(c->entries);
    cJSON_Delete(c->least);
    free(c->webhooks);
}

void route_world_free(struct route_world *w)
{
    if (w == NULL) {
        return;
    }
    for (size_t i = 0; i < w->config_count; i++) {
        free_config(&w->configs[i]);
    }
    for (size_t i = 0; i < w->target_count; i++) {
        free_target(&w->targets[i]);
    }
    for (size_t kind = 0; kind < ORIGINALS_KINDS; kind++) {
        cJSON_Delete(w->webhooks[kind]);
    }
    free(w->services);
    free(w->configs);
    free(w->targets);
    free(w->claims);
    free(w);
}

struct route_config *route_world_find(const struct route_world *w, enum originals_kind kind,
                                      const char *name)
{
    for (size_t i = 0; i < w->config_count; i++) {
        if (w->configs[i].original->kind == kind && strcmp(w->configs[i].name, name) == 0) {
            return &w->configs[i];
        }
    }
    return NULL;
}

struct route_target *route_world_target(const struct route_world *w, const char *service)
{
    for (size_t i = 0; i < w->target_count; i++) {
        if (strcmp(w->targets[i].service->key, service) == 0) {
            return &w->targets[i];
        }
    }
    return NULL;
}
