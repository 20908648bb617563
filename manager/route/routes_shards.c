/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shards behind the Services of a world: what ports they are to have, which of them may be
 * asked, and what their rules are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed_hash.h"
#include "base/xalloc.h"
#include "route/routes_making.h"

/* A new leader waits for ConfigMaps to be read, but not for longer: ms. */
enum { READ_MS = 10000 };

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
        struct route_shard *s = c->shard;
        bool first = s->unported == NULL || strcmp(p->name, s->unported->name) < 0;
        s->ready++;
        s->ported += p->webhook_port;
        s->unported = !p->webhook_port && first ? p : s->unported;
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
        t->entries[i] = (struct entries_shard){
            .key = t->shards[i].key, .port = p == NULL || t->shards[i].misled ? 0 : p->number};
    }
}

const char *making_own_port(const struct route_webhook *h)
{
    const cJSON *service = h->own == NULL || h->own != h->target ? NULL : h->own->service->object;
    return service == NULL ? NULL : service_ports_name(service, h->service.port);
}

struct entries_webhook making_describe(const struct making *m, const struct route_webhook *h)
{
    const struct route_target *t = h->target;
    return (struct entries_webhook){
        .keys = m->r->o.keys,
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
    const cJSON *entries = making_entries(m, h->config->original->kind);
    partition_deinit(&h->present);
    h->make = making_describe(m, h);
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

/* A pod of it is selected, or was. Without a selector others say where the Service leads to. */
static void leave_out_shards(struct making *m, struct route_target *t)
{
    size_t kept = 0;
    bool selects = t->service->object == NULL || t->service->selector != NULL;
    for (size_t i = 0; i < t->count; i++) {
        struct route_shard *s = &t->shards[i];
        count_pods(t, s);
        char *key = xasprintf("%s %s", t->service->key, s->key);
        bool was = s->entry_port != 0 || table_find(&m->r->admissions, key) != NULL;
        free(key);
        if (selects && (s->pods > 0 || was)) {
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
    const cJSON *port;
    cJSON_ArrayForEach(port, field_get(field_get(t->service->object, "spec"), "ports"))
    {
        const char *name = field_text(port, "name");
        const cJSON *number = field_get(port, "port");
        if (!route_port_is(name) || is_listed(t, name) || !cJSON_IsNumber(number)) {
            continue;
        }
        int n = number->valueint;
        bool used = leads_to(making_entries(m, ORIGINALS_VALIDATING), t->service, n) ||
                    leads_to(making_entries(m, ORIGINALS_MUTATING), t->service, n);
        struct route_port *p = routes_port(m->r, t->service->key, name);
        uint64_t passed = making_since(m, &p->unwanted_since, !used);
        if (used || passed < ROUTES_LINGER_MS) {
            want_port(t, name, n);
            making_again(m, used ? UINT64_MAX : ROUTES_LINGER_MS - passed);
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
                          t->writing->refusal, t->writing->code == 403 ? MAKING_BIND : "");
    } else {
        route_verdict_set(&s->admission, ROUTE_SETTLING, "Service %.128s gets a port for it",
                          service->key);
    }
}

/* By it reviews would come to the pods of both. */
static bool shares_port(const struct route_target *t, struct route_shard *s)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct route_shard *other = &t->shards[i];
        if (other != s && other->service_port == s->service_port) {
            route_verdict_set(&s->admission, ROUTE_SAME_PORT,
                              "its port has the name %s, as that of shard %.253s has: both names "
                              "have the same hash; give one of the shards another name",
                              s->service_port->name, other->config->name);
            return true;
        }
    }
    return false;
}

/* By which pods are asked now. */
static void list_own_ports(const struct making *m, struct route_target *t)
{
    EACH_WEBHOOK(m->w, h)
    {
        const char *name = making_own_port(h);
        bool here = h->target == t && (h->config->asked || h->has_entries);
        size_t count = t->own_port_count;
        if (here && name != NULL && (count == 0 || t->own_ports[count - 1] != name)) {
            t->own_ports = xrealloc(t->own_ports, (count + 1) * sizeof *t->own_ports);
            t->own_ports[t->own_port_count++] = name;
        }
    }
}

/* Some of its pods have another port by the shard's name than by those of the Service's own: the
 * operator does not serve there. */
static bool leads_elsewhere(const struct route_target *t, struct route_shard *s)
{
    int to;
    int own;
    bool elsewhere = route_service_differs(t->service, s->service_port->name, t->own_ports,
                                           t->own_port_count, &to, &own);
    if (elsewhere) {
        route_verdict_set(&s->admission, ROUTE_OTHER_PORT,
                          "Service %.128s leads to port %d of its pods, and spec.webhook.port made "
                          "%d of it: correct that, and restart them",
                          t->service->key, own, to);
    }
    return elsewhere;
}

static void refuse_pods(const struct making *m, const struct route_target *t, struct route_shard *s)
{
    const char *error = route_service_pods_error(t->service);
    if (s->ready == 0) {
        route_verdict_set(&s->admission, ROUTE_NO_PODS,
                          "no pod of it that Service %.128s selects is Ready", t->service->key);
    } else if (s->ported == 0) {
        route_verdict_set(&s->admission, ROUTE_OLD_PODS,
                          "its pods (%.253s%s) were made before spec.webhook.port was set, or by "
                          "an earlier release: restart them",
                          s->unported->name, s->ready > 1 ? " and others" : "");
    } else if (!s->on_service) {
        refuse_port(m, t, s);
    } else if (error != NULL) {
        route_verdict_set(&s->admission, ROUTE_NOT_ALLOWED,
                          "EndpointSlices of Service %.128s cannot be read: %.256s" MAKING_BIND,
                          t->service->key, error);
    } else {
        route_verdict_set(&s->admission, ROUTE_SETTLING,
                          "its pods have not been behind Service %.128s for five seconds yet",
                          t->service->key);
    }
}

/* Reviews by its port would not reach it, or not it alone; also those that do now. */
static bool is_misled(const struct route_target *t, struct route_shard *s)
{
    return s->service_port != NULL && (shares_port(t, s) || leads_elsewhere(t, s));
}

/* Whether somebody has to watch its pods. Who was admitted stays so for as long as its port is
 * there: API servers know nothing of a port that came again. */
static bool admit(struct making *m, const struct route_target *t, struct route_shard *s)
{
    struct route_admission *a = routes_admission(m->r, t->service->key, s->key);
    bool ready = s->ported > 0 && s->on_service;
    s->misled = is_misled(t, s);
    a->admitted = !s->misled && ((a->admitted && s->on_service) || s->entry_port != 0);
    if (!a->admitted) {
        bool stands =
            ready && !s->misled && route_service_has_pods(t->service, s->service_port->name);
        uint64_t passed = making_since(m, &a->stands_since, stands);
        a->admitted = stands && passed >= ROUTES_SETTLED_MS;
        making_again(m, stands && !a->admitted ? ROUTES_SETTLED_MS - passed : UINT64_MAX);
    }
    s->can_gain = a->admitted && s->on_service;
    if (!a->admitted && !s->misled) {
        refuse_pods(m, t, s);
    } else if (!s->on_service && !s->misled) {
        refuse_port(m, t, s);
    }
    return ready && (t->asked || s->entry_port != 0);
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
    making_again(m, x->until - m->now);
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
    making_again(m, READ_MS / 10);
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
    making_again(m, passed < ROUTES_RESTLESS_MS ? ROUTES_RESTLESS_MS - passed : UINT64_MAX);
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
    list_own_ports(m, t);
    for (size_t i = 0; i < t->count; i++) {
        watch = admit(m, t, &t->shards[i]) || watch;
        t->unread = !look_at_rules(m, &t->shards[i]) || t->unread;
    }
    list_sides(m, t);
    list_for_entries(t);
    route_service_watch_pods(t->service, watch);
}

void making_shards(struct making *m)
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
