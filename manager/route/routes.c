/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller itself: what it follows, when it looks, and what it writes.
 *
 *     something changes -> dirty -> after a moment: a new world -> the writes that it asks for,
 *                                                                  and what is said of shards
 *
 * Each write is one request over the version that was seen, so a world that is out of date by then
 * does no harm: the API server refuses it, and all is looked at anew.
 */
#include "route/routes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "object/preconditions.h"
#include "route/narrowing.h"
#include "route/routes_internal.h"
#include "json/edit.h"
#include "json/field.h"

enum {
    GATHER_MS = 10,       /* changes are gathered for so long, */
    APART_MS = 50,        /* and looks are so far apart at least, */
    APART_COSTS = 5,      /* and by so often what the last one has cost, */
    APART_MAX_MS = 500,   /* but by no more */
    RELEASING_MS = 15000, /* rules that are to be published count for so long */
    FAILED_MS = 1000,     /* what failed is not tried again before for another reason */
    WRITES_PARALLEL = 4,  /* of each purpose: one does not wait for another */
};

uint64_t routes_now(const struct routes *r)
{
    return net_clock_now(r->clock);
}

/* ---- when it looks ---- */

static void look_after(struct routes *r, uint64_t ms)
{
    net_clock_set_timer(r->clock, r->timer, ms);
}

/* Where there is much to look at, and much that changes, this is not all that the process does. */
static uint64_t apart_ms(const struct routes *r)
{
    uint64_t ms = APART_MS + APART_COSTS * r->cost_ms;
    return ms < APART_MAX_MS ? ms : APART_MAX_MS;
}

void routes_dirty(struct routes *r)
{
    uint64_t passed = routes_now(r) - r->looked_at;
    if (!r->dirty && !r->looking) {
        look_after(r, passed + GATHER_MS >= apart_ms(r) ? GATHER_MS : apart_ms(r) - passed);
    }
    r->dirty = true;
}

/* Unless that would fail again. */
static void queue_write(struct routes *r, const char *key, const char *version)
{
    const struct route_writing *s = reconciler_find(r->writes, key);
    bool idle = s != NULL && routes_now(r) < s->idle_until && s->version != NULL &&
                strcmp(s->version, version) == 0;
    if (!idle) {
        reconciler_look(r->writes, key, 0);
    }
}

static void queue_entries(struct routes *r, enum originals_kind kind)
{
    char key[32];
    (void)snprintf(key, sizeof key, "entries/%d", (int)kind);
    if (r->world->differs[kind]) {
        queue_write(r, key, field_meta(r->objects[kind].object, "resourceVersion"));
    }
}

static void queue_writes(struct routes *r)
{
    const struct route_world *w = r->world;
    for (enum originals_kind kind = 0; kind < ORIGINALS_KINDS; kind++) {
        queue_entries(r, kind);
    }
    for (size_t i = 0; i < w->target_count; i++) {
        const struct route_target *t = &w->targets[i];
        if (t->plan.apply != NULL) {
            char *key = xasprintf("service/%s", t->service->key);
            queue_write(r, key, field_meta(t->service->object, "resourceVersion"));
            free(key);
        }
    }
    for (size_t i = 0; i < w->config_count; i++) {
        const struct route_config *c = &w->configs[i];
        if (c->narrow || c->widen) {
            char *key = xasprintf("original/%d/%s", (int)c->original->kind, c->name);
            queue_write(r, key, field_meta(c->original->object, "resourceVersion"));
            free(key);
        }
    }
}

void routes_refresh(struct routes *r)
{
    if (!r->dirty || r->looking) {
        return;
    }
    r->looking = true;
    r->dirty = false;
    r->looked_at = routes_now(r);
    route_world_free(r->world);
    r->world = route_world_new(r);
    if (r->world->known) {
        queue_writes(r);
    }
    routes_tell(r);
    r->cost_ms = routes_now(r) - r->looked_at;
    r->looking = false;
    if (r->world->again_ms != UINT64_MAX) {
        look_after(r, r->world->again_ms > 0 ? r->world->again_ms : 1);
    }
    if (r->dirty) {
        r->dirty = false;
        routes_dirty(r);
    }
}

static void on_timer(void *data)
{
    struct routes *r = data;
    r->dirty = true;
    routes_refresh(r);
}

/* ---- what is written ---- */

static bool may_write(void *data)
{
    const struct routes *r = data;
    return r->o.may_write(r->o.data);
}

static void begin(void *state)
{
    struct route_writing *s = state;
    s->routes = s->run.data;
}

static void drop(void *state)
{
    struct route_writing *s = state;
    free(s->refusal);
    free(s->version);
}

static void forget_refusal(struct route_writing *s)
{
    free(s->refusal);
    s->refusal = NULL;
    s->code = 0;
    s->idle_until = 0;
}

/* Kept for as long as its refusal is of interest. */
static bool ended(void *state, enum work_result result)
{
    const struct route_writing *s = state;
    return result != WORK_DONE || s->refusal != NULL || s->run.written;
}

static void note_version(struct route_writing *s, const cJSON *object)
{
    free(s->version);
    s->version = xstrdup(field_meta(object, "resourceVersion"));
}

static void succeed(struct route_writing *s)
{
    forget_refusal(s);
    routes_dirty(s->routes);
    reconcile_done(&s->run, WORK_DONE, 0);
}

/* What nobody may do is tried again in a minute, or when the object is another one. */
static void fail(struct route_writing *s, const struct api_error *error, const char *what)
{
    struct routes *r = s->routes;
    bool for_long = error->code == 403 || error->code == 422 || error->code == 400;
    bool news = s->refusal == NULL || strcmp(s->refusal, error->msg) != 0;
    free(s->refusal);
    s->refusal = xstrdup(error->msg);
    s->code = error->code;
    s->idle_until = routes_now(r) + (for_long ? ROUTES_AGAIN_MS : FAILED_MS);
    routes_dirty(r);
    if (!for_long) {
        reconcile_failed(&s->run, error, what);
        return;
    }
    if (news) {
        log_at(error->level, what, log_str("write", s->run.key), log_str("error", error->msg));
    }
    reconcile_after(&s->run, ROUTES_AGAIN_MS);
    reconcile_done(&s->run, WORK_DONE, 0);
}

/* There is nothing to do any more. */
static void leave(struct route_writing *s)
{
    forget_refusal(s);
    reconcile_done(&s->run, WORK_DONE, 0);
}

/* ---- entries ---- */

static enum originals_kind kind_of(const char *key)
{
    return strchr(key, '/')[1] == '0' ? ORIGINALS_VALIDATING : ORIGINALS_MUTATING;
}

/* The original of the entry that the API server names; NULL: it names none. */
static struct route_config *find_refused(struct routes *r, enum originals_kind kind,
                                         const char *message)
{
    const char *at = strstr(message, "webhooks[");
    unsigned long index = at == NULL ? ULONG_MAX : strtoul(at + strlen("webhooks["), NULL, 10);
    const cJSON *entry =
        index > ENTRIES_MAX ? NULL : cJSON_GetArrayItem(r->world->webhooks[kind], (int)index);
    for (size_t i = 0; entry != NULL && i < r->world->config_count; i++) {
        struct route_config *c = &r->world->configs[i];
        if (c->original->kind == kind &&
            edit_find(c->entries, "name", field_text(entry, "name")) != NULL) {
            return c;
        }
    }
    return NULL;
}

/* What its original has stays as it is, and all others are written. Which one it is can be told
 * only as long as nothing else was decided: else all is tried again. */
static bool leave_out(struct route_writing *s, const struct api_error *error)
{
    struct routes *r = s->routes;
    bool same = error->code == 422 && s->looked_at == r->looked_at && r->world->known;
    struct route_config *c = same ? find_refused(r, kind_of(s->run.key), error->msg) : NULL;
    if (c == NULL) {
        return false;
    }
    c->memory->refused_again =
        c->memory->refused != NULL &&
        strcmp(c->memory->refused_version, field_meta(c->original->object, "resourceVersion")) == 0;
    free(c->memory->refused);
    free(c->memory->refused_version);
    c->memory->refused = xstrdup(error->msg);
    c->memory->refused_version = xstrdup(field_meta(c->original->object, "resourceVersion"));
    log_warn("the API server does not take the entries of a webhook configuration",
             log_str("configuration", c->name), log_str("error", error->msg));
    return true;
}

static void on_entries(void *data, const cJSON *object, const struct api_error *error)
{
    struct route_writing *s = data;
    struct routes *r = s->routes;
    if (object != NULL) {
        r->o.counts->moves += s->moves;
        succeed(s);
    } else if (leave_out(s, error)) {
        routes_dirty(r);
        reconcile_done(&s->run, WORK_RETRY, 0);
    } else {
        fail(s, error, "cannot write the entries of webhooks");
    }
}

static uint64_t hash_own(const struct routes *r, const cJSON *webhooks)
{
    return entries_list_hash(webhooks, r->o.keys->key[LABELS_CONTROL]);
}

/* An annotation for the next leader. */
static void note(struct edit *ed, cJSON *annotations, const char *key, const char *text)
{
    edit_set(ed, annotations, key, text[0] == '\0' ? cJSON_CreateNull() : cJSON_CreateString(text));
}

static void write_entries(struct route_writing *s)
{
    struct routes *r = s->routes;
    enum originals_kind kind = kind_of(s->run.key);
    const cJSON *object = r->objects[kind].object;
    const char *uid = field_meta(object, "uid");
    const char *version = field_meta(object, "resourceVersion");
    struct edit ed = {.rc = 0};
    if (!r->world->differs[kind]) {
        leave(s);
        return;
    }
    if (reconcile_unseen(&s->run, uid, version)) {
        reconcile_done(&s->run, WORK_DONE, 0);
        return;
    }
    cJSON *body = cJSON_CreateObject();
    cJSON *metadata = preconditions_set(&ed, body, uid, version);
    cJSON *annotations = edit_object(&ed, metadata, "annotations");
    note(&ed, annotations, r->contests_key, r->world->contests[kind]);
    if (kind == ORIGINALS_VALIDATING) {
        note(&ed, annotations, r->services_key, r->world->services);
    }
    cJSON *webhooks = xptr(cJSON_Duplicate(r->world->webhooks[kind], true));
    entries_list_add_foreign(webhooks, field_get(object, "webhooks"),
                             r->o.keys->key[LABELS_CONTROL]);
    edit_set(&ed, body, "webhooks", webhooks);
    xok(ed.rc);
    const struct object_request_options q = {
        .verb = OBJECT_REQUEST_MERGE_PATCH,
        .path = originals_path(kind),
        .name = ROUTE_OBJECT,
        .body = body,
        .field_manager = ROUTE_FIELD_MANAGER,
        .metadata_only = true,
    };
    note_version(s, object);
    s->moves = r->world->moves[kind];
    s->looked_at = r->looked_at;
    r->objects[kind].sent = hash_own(r, webhooks);
    reconcile_over(&s->run, uid, version);
    reconcile_write(&s->run, &q, r->o.counts->writes[ROUTES_ENTRIES], on_entries);
    cJSON_Delete(body);
}

/* ---- ports ---- */

static void on_ports(void *data, const cJSON *object, const struct api_error *error)
{
    struct route_writing *s = data;
    if (object != NULL) {
        succeed(s);
    } else {
        fail(s, error, "cannot write the ports of a Service");
    }
}

static void write_ports(struct route_writing *s)
{
    struct routes *r = s->routes;
    const struct route_target *t = route_world_target(r->world, strchr(s->run.key, '/') + 1);
    if (t == NULL || t->plan.apply == NULL) {
        leave(s);
        return;
    }
    const cJSON *object = t->service->object;
    const char *uid = field_meta(object, "uid");
    const char *version = field_meta(object, "resourceVersion");
    if (reconcile_unseen(&s->run, uid, version)) {
        reconcile_done(&s->run, WORK_DONE, 0);
        return;
    }
    char *path = xasprintf("/api/v1/namespaces/%s/services", t->service->ns);
    const struct object_request_options q = {
        .verb = OBJECT_REQUEST_APPLY,
        .path = path,
        .name = t->service->name,
        .body = t->plan.apply,
        .field_manager = ROUTE_FIELD_MANAGER,
        .metadata_only = true,
    };
    note_version(s, object);
    reconcile_over(&s->run, uid, version);
    reconcile_write(&s->run, &q, r->o.counts->writes[ROUTES_PORTS], on_ports);
    free(path);
}

/* ---- originals ---- */

struct picking {
    const struct route_config *config;
    enum route_plan_selector selector;
};

static bool pick(void *data, const cJSON *webhook)
{
    const struct picking *p = data;
    const char *name = field_text(webhook, "name");
    for (size_t i = 0; i < p->config->count; i++) {
        const struct route_webhook *h = &p->config->webhooks[i];
        if (strcmp(h->name, name) == 0) {
            return h->plan.selector == p->selector;
        }
    }
    return false;
}

/* What is to be asked again comes first. The caller frees. NULL: there is nothing to do. */
static cJSON *make_patch(const struct routes *r, const struct route_config *c)
{
    struct picking p = {.config = c, .selector = ROUTE_PLAN_WIDEN};
    const char *annotation = originals_annotation(r->o.originals);
    cJSON *patch = NULL;
    if (c->widen) {
        patch = narrowing_undo_patch(r->o.keys, c->original->object, annotation, pick, &p);
    }
    if (patch == NULL && c->narrow) {
        p.selector = ROUTE_PLAN_NARROW;
        patch = narrowing_patch(r->o.keys, c->original->object, annotation, pick, &p);
    }
    return patch;
}

static void on_original(void *data, const cJSON *object, const struct api_error *error)
{
    struct route_writing *s = data;
    if (object != NULL) {
        succeed(s);
    } else {
        fail(s, error, "cannot write the namespaceSelectors of a webhook configuration");
    }
}

static void send_original(struct route_writing *s, const struct route_config *c, cJSON *patch)
{
    struct routes *r = s->routes;
    const cJSON *object = c->original->object;
    const struct object_request_options q = {
        .verb = OBJECT_REQUEST_MERGE_PATCH,
        .path = originals_path(c->original->kind),
        .name = c->name,
        .body = patch,
        .field_manager = ROUTE_FIELD_MANAGER,
        .metadata_only = true,
    };
    note_version(s, object);
    c->memory->narrowed_at = routes_now(r);
    reconcile_over(&s->run, field_meta(object, "uid"), field_meta(object, "resourceVersion"));
    reconcile_write(&s->run, &q, r->o.counts->writes[ROUTES_ORIGINAL], on_original);
}

static void write_original(struct route_writing *s)
{
    struct routes *r = s->routes;
    const char *name = strchr(strchr(s->run.key, '/') + 1, '/') + 1;
    const struct route_config *c = route_world_find(r->world, kind_of(s->run.key), name);
    cJSON *patch = c == NULL ? NULL : make_patch(r, c);
    if (patch == NULL) {
        leave(s);
        return;
    }
    const cJSON *object = c->original->object;
    uint64_t passed = routes_now(r) - c->memory->narrowed_at;
    bool unseen =
        reconcile_unseen(&s->run, field_meta(object, "uid"), field_meta(object, "resourceVersion"));
    if (unseen || (!c->widen && passed < ROUTES_NARROW_MS)) {
        if (!unseen) {
            reconcile_after(&s->run, ROUTES_NARROW_MS - passed);
        }
        reconcile_done(&s->run, WORK_DONE, 0);
    } else {
        send_original(s, c, patch);
    }
    cJSON_Delete(patch);
}

static void reconcile(void *state)
{
    struct route_writing *s = state;
    struct routes *r = s->routes;
    routes_refresh(r);
    if (r->world == NULL || !r->world->known) {
        reconcile_done(&s->run, WORK_DONE, 0);
    } else if (s->run.key[0] == 'e') {
        write_entries(s);
    } else if (s->run.key[0] == 's') {
        write_ports(s);
    } else {
        write_original(s);
    }
}

static const struct reconciler_handlers writes = {
    .begin = begin, .reconcile = reconcile, .done = ended, .drop = drop};

/* ---- what it follows ---- */

static bool keep(void *data, const char *key, const cJSON *object, struct informer_item **item)
{
    struct route_object *o = data;
    if (*item == NULL) {
        *item = informer_item_new(sizeof **item, key);
    }
    cJSON_Delete(o->object);
    o->object = cJSON_Duplicate(object, true);
    return true;
}

/* Whether it was us who changed our entries. */
static void look_at_edit(struct route_object *o)
{
    uint64_t now = hash_own(o->routes, field_get(o->object, "webhooks"));
    o->edited = o->edited || (o->known && now != o->seen && now != o->sent);
    o->known = true;
    o->seen = now;
}

static void on_object(void *data, struct informer_item *before, struct informer_item *after)
{
    struct route_object *o = data;
    (void)before;
    if (after == NULL) {
        cJSON_Delete(o->object);
        o->object = NULL;
    }
    look_at_edit(o);
    routes_dirty(o->routes);
}

static void on_object_synced(void *data, bool first)
{
    const struct route_object *o = data;
    if (first) {
        routes_dirty(o->routes);
    }
}

#define OBJECT(collection)                                                                         \
    {                                                                                              \
        .path = "/apis/admissionregistration.k8s.io/v1/" collection, .keep = keep,                 \
        .on_change = on_object, .on_synced = on_object_synced                                      \
    }

static const struct informer_kind kinds[ORIGINALS_KINDS] = {
    [ORIGINALS_VALIDATING] = OBJECT("validatingwebhookconfigurations"),
    [ORIGINALS_MUTATING] = OBJECT("mutatingwebhookconfigurations"),
};

static void follow(struct routes *r, enum originals_kind kind)
{
    const struct informer_options o = {
        .client = r->o.client,
        .name = ROUTE_OBJECT,
        .effect = "reviews for operators' webhooks are routed as before",
        .ops = r->o.ops,
    };
    r->objects[kind].routes = r;
    r->objects[kind].informer = informer_new(r->loop, &kinds[kind], &o, &r->objects[kind]);
}

/* Whether there is a Service of interest in the namespace of this key. */
static bool concerns(const struct routes *r, const char *key)
{
    size_t len = strcspn(key, "/");
    for (struct table_node *n = NULL; (n = table_next(&r->services, n)) != NULL;) {
        const struct route_service *s = LIST_ITEM(n, struct route_service, node);
        if (strncmp(s->ns, key, len) == 0 && s->ns[len] == '\0') {
            return true;
        }
    }
    return false;
}

void routes_look(struct routes *r, const char *key)
{
    if (concerns(r, key)) {
        routes_dirty(r);
    }
}

static void on_shard(void *data, const char *key, enum shard_cache_part part)
{
    (void)part;
    routes_look(data, key);
}

static void on_pod(void *data, const struct pod *pod, bool gone)
{
    (void)gone;
    routes_look(data, pod->key);
}

static void on_ready(void *data)
{
    routes_dirty(data);
}

static void on_shared(void *data, const struct sharing_set *shared)
{
    (void)shared;
    routes_dirty(data);
}

static const struct shard_cache_handlers handlers = {
    .on_shard = on_shard, .on_pod = on_pod, .on_ready = on_ready, .on_shared = on_shared};

static void on_originals(void *data)
{
    routes_dirty(data);
}

/* ---- for the controller of shards ---- */

/* The places of a shard in a target; -1: it takes no part, or holds nothing. */
static int place_of(const struct route_target *t, const char *key)
{
    for (size_t i = 0; i < t->count && t->hold_port != 0; i++) {
        if (strcmp(t->shards[i].key, key) == 0) {
            return t->shards[i].hold ? (int)i : -1;
        }
    }
    return -1;
}

static bool is_shown(const struct route_webhook *h, const char *key, const struct rules *to)
{
    int place = h->target == NULL || !h->decided ? -1 : place_of(h->target, key);
    return place < 0 || partition_is_shown(&h->present, place, to, &h->rules.resource);
}

static void note_releasing(struct routes *r, const char *key, struct rules *to)
{
    struct route_releasing *x =
        xptr(TABLE_PROVIDE(&r->releasing, slice_str(key), struct route_releasing, key));
    if (x->to != to) {
        rules_unref(x->to);
        x->to = rules_ref(to);
        routes_dirty(r);
    }
    x->until = routes_now(r) + RELEASING_MS;
}

bool routes_release(struct routes *r, const char *key, struct rules *to)
{
    bool shown = true;
    if (!concerns(r, key)) {
        return true;
    }
    routes_refresh(r);
    for (size_t i = 0; r->world != NULL && i < r->world->config_count; i++) {
        const struct route_config *c = &r->world->configs[i];
        for (size_t k = 0; k < c->count && shown; k++) {
            shown = !c->webhooks[k].has_entries || is_shown(&c->webhooks[k], key, to);
        }
    }
    if (!shown) {
        note_releasing(r, key, to);
    }
    return shown;
}

/* ---- life ---- */

const struct work_queue *routes_queue(const struct routes *r)
{
    return reconciler_queue(r->writes);
}

static void start_writes(struct routes *r)
{
    const struct reconciler_options o = {
        .name = "routes",
        .kind = "write",
        .parallel = WRITES_PARALLEL * ROUTES_WRITES,
        .namespace_parallel = WRITES_PARALLEL,
        .state_size = sizeof(struct route_writing),
        .data = r,
        .client = r->o.client,
        .may_write = may_write,
        .gate = r,
        .clock = r->o.clock,
    };
    r->writes = reconciler_new(r->loop, &o, &writes);
}

struct routes *routes_new(struct net_loop *l, const struct routes_options *o)
{
    struct routes *r = xcalloc(1, sizeof *r);
    r->loop = l;
    r->o = *o;
    r->clock = o->clock != NULL ? o->clock : &net_clock_system;
    r->began_at = routes_now(r);
    (void)names_key(o->labels.prefix, ROUTE_SERVICE, r->service_key);
    (void)names_key(o->labels.prefix, ROUTE_SERVICES, r->services_key);
    (void)names_key(o->labels.prefix, ROUTE_CONTESTS, r->contests_key);
    (void)names_key(o->labels.prefix, SHARDING_SHARES_WITH, r->shares_with);
    r->timer = xptr(net_timer_new(l, on_timer, r));
    start_writes(r);
    for (enum originals_kind kind = 0; kind < ORIGINALS_KINDS; kind++) {
        follow(r, kind);
    }
    r->listener = (struct shard_cache_listener){.handlers = &handlers, .data = r};
    shard_cache_listen(o->cache, &r->listener);
    originals_listen(o->originals, on_originals, r);
    routes_dirty(r);
    return r;
}

void routes_free(struct routes *r)
{
    if (r == NULL) {
        return;
    }
    originals_listen(r->o.originals, NULL, NULL);
    shard_cache_unlisten(r->o.cache, &r->listener);
    reconciler_free(r->writes);
    net_timer_free(r->timer);
    route_world_free(r->world);
    routes_forget(r);
    for (size_t kind = 0; kind < ORIGINALS_KINDS; kind++) {
        informer_free(r->objects[kind].informer);
        cJSON_Delete(r->objects[kind].object);
    }
    free(r);
}
