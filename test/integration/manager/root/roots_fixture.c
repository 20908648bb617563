/* SPDX-License-Identifier: Apache-2.0 */
#include "roots_fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "root/buckets.h"
#include "root/child.h"
#include "json/edit.h"
#include "json/field.h"

enum {
    PATIENCE_TURNS = 4000,
    TURN_MS = 10,
    STRIDE_MS = 250,
    QUIET_TURNS = 60,
    MANY_TURNS = 1000,
    PODS_MAX = 64
};

#define CHILDREN_LABEL WORLD_PREFIX "/" ROOT_LABEL

static const char *annotation(const cJSON *child, const char *name)
{
    char key[128];
    (void)snprintf(key, sizeof key, WORLD_PREFIX "/%s", name);
    return field_text(field_get(field_get(child, "metadata"), "annotations"), key);
}

/* ---- the webhook ---- */

static unsigned pods_of(const cJSON *child, unsigned *first)
{
    const cJSON *item = NULL;
    unsigned count = 0;
    cJSON_ArrayForEach(
        item, field_get(field_get(field_get(child, "spec"), "selector"), "matchExpressions"))
    {
        const cJSON *values = field_get(item, "values");
        if (strcmp(field_text(item, "key"), POD_NAME_LABEL) == 0 && values->child != NULL) {
            *first = (unsigned)strtoul(values->child->valuestring + strlen("op-"), NULL, 10);
            count = (unsigned)cJSON_GetArraySize(values);
        }
    }
    return count;
}

static bool overlaps(struct world *w, const cJSON *child)
{
    unsigned first = 0;
    unsigned count = pods_of(child, &first);
    for (const cJSON *o = NULL; (o = store_next(&w->store, "shardingconfigs", o)) != NULL;) {
        unsigned other = 0;
        unsigned others = pods_of(o, &other);
        bool same = strcmp(field_meta(o, "name"), field_meta(child, "name")) == 0;
        if (!same && other < first + count && first < other + others) {
            return true;
        }
    }
    return false;
}

static bool admit(struct storing_api *s, const cJSON *body)
{
    struct world *w = LIST_ITEM(s, struct world, store);
    bool refused = w->refuses && field_get(body, "spec") != NULL && overlaps(w, body);
    w->refusals += refused;
    return !refused;
}

/* ---- the controller of shards ---- */

static void set_condition(struct edit *ed, cJSON *status, const char *type, bool holds,
                          const char *reason)
{
    cJSON *c = edit_append_object(ed, edit_array(ed, status, "conditions"));
    edit_string(ed, c, "type", type);
    edit_string(ed, c, "status", holds ? "True" : "False");
    edit_string(ed, c, "reason", reason);
    edit_string(ed, c, "message", reason);
}

static void set_status(struct world *w, const cJSON *child, bool waits)
{
    struct edit ed = {.rc = 0};
    cJSON *copy = cJSON_Duplicate(child, true);
    cJSON *status = cJSON_CreateObject();
    const cJSON *generation = field_get(field_get(child, "metadata"), "generation");
    edit_number(&ed, status, "observedGeneration", generation->valuedouble);
    edit_string(&ed, status, "enforced", "1/1");
    set_condition(&ed, status, "Published", !waits, waits ? "WaitingForHandover" : "Published");
    set_condition(&ed, status, "Ready", !waits, waits ? "WaitingForHandover" : "Enforced");
    edit_set(&ed, copy, "status", status);
    assert_int_equal(ed.rc, 0);
    store_put(&w->store, "shardingconfigs", "n", copy);
}

static bool is_in_order(const cJSON *child, bool waits)
{
    const cJSON *status = field_get(child, "status");
    bool waited = strcmp(store_text(status, "conditions/0/status"), "False") == 0;
    return waited == waits && cJSON_Compare(field_get(field_get(child, "metadata"), "generation"),
                                            field_get(status, "observedGeneration"), true);
}

static void play(struct world *w)
{
    char waiting[32];
    (void)snprintf(waiting, sizeof waiting, "x-%u-normal", w->waiting);
    for (const cJSON *o = NULL; (o = store_next(&w->store, "shardingconfigs", o)) != NULL;) {
        const char *name = field_meta(o, "name");
        bool waits = w->waiting != 0 && strcmp(name, waiting) == 0;
        bool child = field_get(field_get(o, "spec"), "root") == NULL;
        if (child && strcmp(field_meta(o, "namespace"), "n") == 0 && !is_in_order(o, waits)) {
            set_status(w, o, waits);
            return; /* the list is another one now */
        }
    }
}

/* ---- life ---- */

static bool may_write(void *data)
{
    return ((const struct world *)data)->holds;
}

int world_setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct net_loop *l = NULL;
    *state = w;
    if (w == NULL || loop_setup((void **)&l) != 0 || !store_open(&w->store, l)) {
        return -1;
    }
    w->store.admit = admit;
    fake_clock_init(&w->clock, l);
    const struct event_recorder_options eo = {.client = w->store.api.client, .component = "test"};
    w->events = event_recorder_new(l, &eo);
    return 0;
}

int world_teardown(void **state)
{
    struct world *w = *state;
    world_retire(w);
    shard_cache_free(w->cache);
    event_recorder_free(w->events);
    store_close(&w->store);
    int rc = loop_free(w->store.api.loop);
    free(w);
    return rc;
}

static void begin_cache(struct world *w)
{
    const struct shard_cache_options o = {.client = w->store.api.client,
                                          .prefix = WORLD_PREFIX,
                                          .memory = w->memory,
                                          .ops = w->hurried ? &w->store.ops : NULL};
    w->cache = w->cache != NULL ? w->cache : shard_cache_new(w->store.api.loop, &o);
}

void world_lead(struct world *w)
{
    begin_cache(w);
    const struct roots_options o = {
        .client = w->store.api.client,
        .cache = w->cache,
        .events = w->events,
        .counts = &w->counts,
        .labels = {.prefix = WORLD_PREFIX,
                   .namespace = "namespace",
                   .shard_hash = "sharding-hash",
                   .control = "control"},
        .may_write = may_write,
        .data = w,
        .targets = w->targets,
        .load_of = w->load_of,
        .minute_ms = w->minute_ms,
        .ops = w->hurried ? &w->store.ops : NULL,
        .clock = &w->clock.clock,
    };
    w->holds = true;
    w->roots = roots_new(w->store.api.loop, &o);
}

void world_retire(struct world *w)
{
    roots_free(w->roots);
    w->roots = NULL;
    w->holds = false;
    fake_clock_forget(&w->clock);
}

/* ---- objects ---- */

void world_root_with(struct world *w, const char *root, const char *more)
{
    store_put_text(&w->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"r\"},\"spec\":{\"root\":{\"prefix\":\"x\","
                   "\"targetStatefulSet\":\"op\",\"resourceSelector\":[{\"relateResources\":["
                   "{\"apiGroups\":[\"\"],\"resources\":[\"pods\"]}]}],%s}%s}}",
                   root, more);
}

void world_root(struct world *w, const char *root)
{
    world_root_with(w, root, "");
}

void world_size(struct world *w, unsigned size, unsigned every)
{
    char text[128];
    (void)snprintf(text, sizeof text, "\"auto\":{\"shardingSize\":%u,\"everyShardReplicas\":%u}",
                   size, every);
    world_root(w, text);
}

static void put_pod(struct world *w, unsigned ordinal, const char *child, bool ready, bool ending)
{
    store_put_text(
        &w->store, "pods", "n",
        "{\"metadata\":{\"name\":\"op-%u\",\"labels\":{\"" POD_NAME_LABEL "\":\"op-%u\"},"
        "\"annotations\":{\"" WORLD_PREFIX "/sharding-config-injected\":\"%s\"}%s},\"spec\":{"
        "\"containers\":[{\"name\":\"cmesh-localproxy\"}]},\"status\":{\"podIP\":\"10.0.0.1\","
        "\"conditions\":[{\"type\":\"Ready\",\"status\":\"%s\"}]}}",
        ordinal, ordinal, child, ending ? ",\"deletionTimestamp\":\"2026-07-14T09:30:00Z\"" : "",
        ready ? "True" : "False");
}

void world_pod(struct world *w, unsigned ordinal, const char *child, bool ready)
{
    put_pod(w, ordinal, child, ready, false);
}

void world_end_pod(struct world *w, unsigned ordinal, const char *child)
{
    put_pod(w, ordinal, child, true, true);
}

void world_pods(struct world *w, unsigned first, unsigned last, const char *child, bool ready)
{
    for (unsigned i = first; i <= last; i++) {
        world_pod(w, i, child, ready);
    }
}

void world_delete_pod(struct world *w, unsigned ordinal)
{
    char name[32];
    (void)snprintf(name, sizeof name, "op-%u", ordinal);
    store_delete(&w->store, "pods", "n", name);
}

void world_stateful_set_from(struct world *w, int first, int replicas)
{
    store_put_text(&w->store, "statefulsets", "n",
                   "{\"metadata\":{\"name\":\"op\"},\"spec\":{\"replicas\":%d,"
                   "\"ordinals\":{\"start\":%d}}}",
                   replicas, first);
}

void world_stateful_set(struct world *w, int replicas)
{
    store_put_text(&w->store, "statefulsets", "n",
                   "{\"metadata\":{\"name\":\"op\"},\"spec\":{\"replicas\":%d}}", replicas);
}

void world_namespace(struct world *w, const char *name)
{
    store_put_text(&w->store, "namespaces", "", "{\"metadata\":{\"name\":\"%s\"}}", name);
}

/* ---- looking ---- */

const cJSON *world_child(struct world *w, unsigned number)
{
    char name[32];
    (void)snprintf(name, sizeof name, number == 0 ? "x-%u-canary" : "x-%u-normal", number);
    return store_get(&w->store, "shardingconfigs", "n", name);
}

const char *world_buckets(struct world *w, unsigned number)
{
    const cJSON *child = world_child(w, number);
    return child == NULL ? "absent" : annotation(child, ROOT_BUCKETS);
}

const char *world_condition(struct world *w, const char *type, const char *key)
{
    const cJSON *root = store_get(&w->store, "shardingconfigs", "n", "r");
    return field_text(edit_find(field_get(field_get(root, "status"), "conditions"), "type", type),
                      key);
}

static const cJSON *find_event(struct world *w, const char *reason, const char *part)
{
    for (const cJSON *e = NULL; (e = store_next(&w->store, "events", e)) != NULL;) {
        if (strcmp(store_text(e, "reason"), reason) == 0 &&
            strstr(store_text(e, "message"), part) != NULL) {
            return e;
        }
    }
    return NULL;
}

unsigned world_events(struct world *w, const char *reason)
{
    unsigned count = 0;
    for (const cJSON *e = NULL; (e = store_next(&w->store, "events", e)) != NULL;) {
        count += strcmp(store_text(e, "reason"), reason) == 0
                     ? (unsigned)strtoul(store_text(e, "count"), NULL, 10)
                     : 0;
    }
    return count;
}

static uint32_t buckets_at(const struct stored_object *o, unsigned version)
{
    uint32_t buckets = 0;
    const struct stored_version *v = stored_at(o, version);
    if (v == NULL || strcmp(o->resource, "shardingconfigs") != 0 ||
        buckets_parse(annotation(v->json, ROOT_BUCKETS), &buckets) != 0) {
        return 0;
    }
    return buckets;
}

void world_expect_attended(struct world *w)
{
    bool all = false;
    for (unsigned version = STORE_FIRST; version <= w->store.version; version++) {
        uint32_t somebodys = 0;
        LIST_FOR_EACH(n, &w->store.objects)
        {
            somebodys |= buckets_at(LIST_ITEM(n, struct stored_object, link), version);
        }
        all = all || somebodys == UINT32_MAX;
        if (all && somebodys != UINT32_MAX) {
            fail_msg("at version %u buckets %x are nobody's", version, ~somebodys);
        }
    }
    assert_true(all);
}

unsigned world_gained(struct world *w, unsigned since)
{
    unsigned gained = 0;
    LIST_FOR_EACH(n, &w->store.objects)
    {
        const struct stored_object *o = LIST_ITEM(n, struct stored_object, link);
        for (unsigned v = since; v < w->store.version; v++) {
            gained += (unsigned)__builtin_popcount(buckets_at(o, v + 1) & ~buckets_at(o, v));
        }
    }
    return gained;
}

/* ---- waiting ---- */

static void turn(struct world *w, uint64_t ms)
{
    if (!w->idle) {
        play(w);
    }
    if (w->on_turn != NULL) {
        w->on_turn(w);
    }
    fake_clock_pass(&w->clock, ms);
    if (w->hurried) {
        store_end_pauses(&w->store);
    }
    run_for(w->store.api.loop, 1);
}

void world_turn(struct world *w)
{
    turn(w, TURN_MS);
}

void world_pass(struct world *w, uint64_t ms)
{
    uint64_t step = ms > MANY_TURNS * TURN_MS ? ms / MANY_TURNS : TURN_MS;
    for (uint64_t passed = 0; passed < ms; passed += step) {
        turn(w, step);
    }
}

void world_stride(struct world *w, uint64_t ms)
{
    for (uint64_t passed = 0; passed < ms; passed += STRIDE_MS) {
        turn(w, STRIDE_MS);
    }
}

#define AWAIT(condition, ...)                                                                      \
    do {                                                                                           \
        for (unsigned turns = 0; !(condition) && turns < PATIENCE_TURNS; turns++) {                \
            world_turn(w);                                                                         \
        }                                                                                          \
        if (!(condition)) {                                                                        \
            fail_msg(__VA_ARGS__);                                                                 \
        }                                                                                          \
    } while (0)

void world_expect_buckets(struct world *w, unsigned number, const char *buckets)
{
    AWAIT(strcmp(world_buckets(w, number), buckets) == 0, "shard %u has \"%s\", not \"%s\"", number,
          world_buckets(w, number), buckets);
}

void world_expect_gone(struct world *w, const char *child)
{
    AWAIT(store_get(&w->store, "shardingconfigs", "n", child) == NULL, "%s is still there", child);
}

void world_expect_text_in(struct world *w, const char *ns, const char *name, const char *path,
                          const char *text)
{
    AWAIT(strcmp(store_text(store_get(&w->store, "shardingconfigs", ns, name), path), text) == 0,
          "%s: %s is \"%s\", not \"%s\"", name, path,
          store_text(store_get(&w->store, "shardingconfigs", ns, name), path), text);
}

void world_expect_text(struct world *w, const char *name, const char *path, const char *text)
{
    world_expect_text_in(w, "n", name, path, text);
}

void world_expect_condition(struct world *w, const char *type, const char *status,
                            const char *reason)
{
    AWAIT(strcmp(world_condition(w, type, "status"), status) == 0 &&
              strcmp(world_condition(w, type, "reason"), reason) == 0,
          "%s is \"%s\" (%s: %s), not \"%s\" (%s)", type, world_condition(w, type, "status"),
          world_condition(w, type, "reason"), world_condition(w, type, "message"), status, reason);
}

void world_expect_event(struct world *w, const char *reason, const char *part)
{
    AWAIT(find_event(w, reason, part) != NULL, "no Event %s tells of \"%s\"", reason, part);
}

void world_settle(struct world *w)
{
    unsigned quiet = 0;
    for (unsigned turns = 0; turns < PATIENCE_TURNS && quiet < QUIET_TURNS; turns++) {
        unsigned before = w->store.requests;
        world_turn(w);
        quiet = w->store.requests == before ? quiet + 1 : 0;
    }
    assert_int_equal(quiet, QUIET_TURNS);
}

void world_expect_metric(struct world *w, const char *line)
{
    struct buf out = BUF_INIT(65536);
    roots_metrics(w->roots, &w->counts, &out);
    if (strstr(buf_cstr(&out), line) == NULL) {
        fail_msg("\"%s\" is not in\n%s", line, buf_cstr(&out));
    }
    buf_reset(&out);
}
