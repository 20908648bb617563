/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what there is to what is to be: originals -> the Services that they lead to
 * (routes_services.c) -> the shards behind these (routes_shards.c) -> who is asked about which
 * namespace -> entries, ports and selectors.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "route/narrowing.h"
#include "route/routes_making.h"

/* ---- originals ---- */

static int compare_configs(const void *left, const void *right)
{
    const struct route_config *a = left;
    const struct route_config *b = right;
    return a->original->kind != b->original->kind ? (a->original->kind < b->original->kind ? -1 : 1)
                                                  : strcmp(a->name, b->name);
}

/* It is to be routed, or something of that is left. */
static bool concerns(const struct making *m, const struct original *o)
{
    const struct routes *r = m->r;
    const char *annotation = originals_annotation(r->o.originals);
    const cJSON *webhook;
    if (o->labelled ||
        field_get(field_get(field_get(o->object, "metadata"), "annotations"), annotation) != NULL) {
        return true;
    }
    cJSON_ArrayForEach(webhook, field_get(o->object, "webhooks"))
    {
        if (narrowing_is(r->o.keys, webhook) ||
            entries_may_have(r->o.keys, making_entries(m, o->kind), webhook)) {
            return true;
        }
    }
    return false;
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
            if (concerns(m, i)) {
                w->configs[w->config_count++] =
                    (struct route_config){.original = i, .name = field_meta(i->object, "name")};
            }
        }
    }
    qsort(w->configs, w->config_count, sizeof *w->configs, compare_configs);
    for (size_t i = 0; i < w->config_count; i++) {
        begin_config(m, &w->configs[i]);
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
                          "Service %.128s cannot be read: %.256s" MAKING_BIND, t->service->key,
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

/* By what EndpointSlices say of pods whose port is that of some other webhook. */
static bool refuse_other_port(struct route_webhook *h, const struct route_shard *s)
{
    const char *name = h->target->own_port_count > 1 ? making_own_port(h) : NULL;
    int to;
    int own;
    if (name == NULL || s->service_port == NULL || s->misled ||
        !route_service_differs(h->target->service, s->service_port->name, &name, 1, &to, &own)) {
        return false;
    }
    route_verdict_set(&h->verdict, ROUTE_OTHER_PORT,
                      "port %d of Service %.128s leads to port %d of the pods of shard %.253s, and "
                      "spec.webhook.port made %d of it: that port only can be routed",
                      h->service.port, h->target->service->key, own, s->config->name, to);
    return true;
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
        if (refuse_other_port(h, s)) {
            return true;
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
static bool refuse_again(const struct making *m, struct route_webhook *h)
{
    const struct route_memory *mem = h->config->memory;
    if (!h->refused) {
        return false;
    }
    if (h->narrowed && !h->has_entries) {
        route_verdict_set(
            &h->verdict, ROUTE_REFUSED,
            "nobody is asked about namespaces with control labels, for it is narrowed, "
            "and the API server does not take its entries: take {key: %.256s, "
            "operator: DoesNotExist} out of its namespaceSelector, or mend this: "
            "%.512s",
            m->r->o.keys->key[LABELS_CONTROL], mem->refused);
    } else {
        route_verdict_set(&h->verdict, ROUTE_REFUSED,
                          "the API server does not take its entries: %.512s", mem->refused);
    }
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
        making_again(m, 1); /* its Service was looked at as if it were as before */
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
    if (elsewhere || !(refuse_place(m, h) || refuse_shards(h) || refuse_again(m, h))) {
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
    entries_keep(&w, making_entries(m, h->config->original->kind), h->config->entries);
    entries_keep(&w, making_entries(m, h->config->original->kind), h->config->least);
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
        .of_shards = h->target != NULL && h->target->count > 0,
        .has_entries = h->has_entries,
        .gone = h->own != NULL && h->own->state == ROUTE_SERVICE_GONE,
        .entries_ms = making_since(m, &t->entries_since, h->has_entries),
        .widened_ms = making_since(m, &t->widened_since, !h->narrowed),
    };
    h->plan = h->stays ? (struct route_plan){.entries = h->has_entries,
                                             .selector = ROUTE_PLAN_LEAVE,
                                             .again_ms = UINT64_MAX}
                       : route_plan(&f);
    making_again(m, h->plan.again_ms);
    t->narrowed = h->narrowed && h->ours && h->plan.selector == ROUTE_PLAN_LEAVE;
    h->config->narrow = h->config->narrow || h->plan.selector == ROUTE_PLAN_NARROW;
    h->config->widen = h->config->widen || h->plan.selector == ROUTE_PLAN_WIDEN;
    h->make = making_describe(m, h);
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
        making_again(m, 1); /* its Service was looked at as if it were not asked for */
    }
    if (mem->contested && mem->rested_at == 0 && is_at_rest(c)) {
        mem->rested_at = generation;
    }
}

static void set_asked(struct route_config *c)
{
    c->asked = c->original->labelled && c->original->rival == NULL && !c->memory->contested;
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

/* Somebody else has written our entries, and not what they are to be: all that have some suffer.
 * They come back first, and what is contested by now is widened after that. */
static void look_at_edit(struct making *m, enum originals_kind kind, bool same, size_t first,
                         size_t count)
{
    struct route_object *o = &m->r->objects[kind];
    for (size_t i = first; o->edited && !same && i < first + count; i++) {
        const struct route_config *c = &m->w->configs[i];
        if (c->asked && c->entries->child != NULL) {
            routes_undone(m->r, c->memory);
            making_again(m, c->memory->contested ? 1 : UINT64_MAX);
        }
    }
    o->edited = false;
}

static void join(struct making *m, enum originals_kind kind, size_t first, size_t count)
{
    struct route_world *w = m->w;
    const cJSON *now = making_entries(m, kind);
    struct entries_claim *claims = &w->claims[first];
    for (size_t i = 0; i < count; i++) {
        claim(w, &w->configs[first + i], &claims[i]);
    }
    entries_list_fit(claims, count, now);
    for (size_t i = 0; i < count; i++) {
        let_go(&w->configs[first + i]);
    }
    w->webhooks[kind] = entries_list_join(claims, count);
    bool same = entries_list_is(now, w->webhooks[kind], m->r->o.keys->key[LABELS_CONTROL]);
    look_at_edit(m, kind, same, first, count);
    w->contests[kind] = routes_contests(w, kind);
    same = same && strcmp(w->contests[kind], routes_noted_contests(m->r, kind)) == 0;
    w->differs[kind] = m->r->objects[kind].object != NULL && !same;
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
    making_targets(&m);
    making_shards(&m);
    look_at_webhooks(&m);
    join_all(&m);
    making_note_services(&m);
    routes_sweep(r);
    r->recalled = true;
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
    free(t->own_ports);
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
        free(w->contests[kind]);
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
