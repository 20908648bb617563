/* SPDX-License-Identifier: Apache-2.0 */
#include "routes_fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "object/route_names.h"
#include "route/narrowing.h"
#include "rules/sharding.h"
#include "json/field.h"

enum { TURN_MS = 20, STRIDE_MS = 200 };

static const struct compile_labels labels = {.prefix = RIG_PREFIX,
                                             .namespace = "namespace",
                                             .shard_hash = "sharding-hash",
                                             .control = "control"};

/* ---- the shards ---- */

static bool may_write(void *data)
{
    return ((const struct rig *)data)->holds;
}

static bool in_force(void *data, const struct shard_cache_config *config, struct rules **published)
{
    struct rig *g = data;
    const struct rig_shard *s = &g->shards[config->name[0] == 'a' ? 0 : 1];
    const struct compile_options o = {.namespace = config->ns, .generation = 1, .labels = labels};
    *published =
        s->published != NULL ? s->published : shard_cache_rules(g->cache, config, &o, NULL);
    return !s->unconfirmed;
}

static void on_report(void *data, const char *key)
{
    struct rig *g = data;
    (void)key;
    g->reports++;
}

/* ---- life ---- */

struct originals *rig_originals(struct rig *g)
{
    const struct originals_options o = {
        .client = g->store.api.client, .prefix = RIG_PREFIX, .ops = &g->store.ops};
    return originals_new(g->store.api.loop, &o);
}

int rig_setup(void **state)
{
    if (store_setup(state, sizeof(struct rig)) != 0) {
        return -1;
    }
    struct rig *g = *state;
    struct net_loop *l = g->store.api.loop;
    fake_clock_init(&g->clock, l);
    const struct shard_cache_options o = {
        .client = g->store.api.client, .prefix = RIG_PREFIX, .ops = &g->store.ops};
    g->cache = shard_cache_new(l, &o);
    assert_int_equal(labels_keys_init(&g->keys, &labels, NULL), 0);
    g->originals = rig_originals(g);
    store_put_text(&g->store, RIG_VALIDATING, "", "{\"metadata\":{\"name\":\"cmesh-routes\"}}");
    store_put_text(&g->store, RIG_MUTATING, "", "{\"metadata\":{\"name\":\"cmesh-routes\"}}");
    return 0;
}

int rig_teardown(void **state)
{
    struct rig *g = *state;
    rig_retire(g);
    routes_free(NULL);
    originals_free(g->originals);
    shard_cache_free(g->cache);
    for (size_t i = 0; i < 2; i++) {
        rules_unref(g->shards[i].published);
    }
    return store_teardown(state);
}

static struct routes *make_routes(struct rig *g, struct originals *originals)
{
    const struct routes_options o = {
        .client = g->store.api.client,
        .cache = g->cache,
        .originals = originals,
        .counts = &g->counts,
        .keys = &g->keys,
        .labels = labels,
        .may_write = may_write,
        .in_force = in_force,
        .on_report = on_report,
        .data = g,
        .ops = &g->store.ops,
        .clock = &g->clock.clock,
    };
    return routes_new(g->store.api.loop, &o);
}

void rig_lead(struct rig *g)
{
    g->holds = true;
    g->routes = make_routes(g, g->originals);
}

void rig_retire(struct rig *g)
{
    routes_free(g->rival);
    originals_free(g->rival_originals);
    routes_free(g->routes);
    g->rival = NULL;
    g->rival_originals = NULL;
    g->routes = NULL;
    g->holds = false;
    fake_clock_forget(&g->clock);
}

void rig_rival(struct rig *g)
{
    g->rival_originals = rig_originals(g);
    g->rival = make_routes(g, g->rival_originals);
}

/* ---- objects ---- */

void rig_shard(struct rig *g, const char *name, const char *names, const char *webhook)
{
    store_put_text(&g->store, "shardingconfigs", "ops",
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"%s\"}},\"webhook\":{\"port\":9443%s},\"limits\":[{"
                   "\"relateResources\":[{\"apiGroups\":[\"\"],\"resources\":[\"configmaps\"]}],"
                   "\"selector\":{\"matchExpressions\":[{\"key\":\"" RIG_PREFIX
                   "/namespace\",\"operator\":\"In\",\"values\":[%s]}]}}]}}",
                   name, name, webhook, names);
}

void rig_pod(struct rig *g, const char *shard, bool ready, bool port)
{
    char key[64];
    char name[ROUTE_PORT_SIZE];
    char text[64];
    (void)snprintf(key, sizeof key, "ops/%s", shard);
    (void)snprintf(text, sizeof text, "{\"name\":\"%s\",\"containerPort\":9443}",
                   route_port_name(key, name));
    store_put_text(&g->store, "pods", "ops",
                   "{\"metadata\":{\"name\":\"%s-0\",\"labels\":{\"app\":\"op\",\"shard\":\"%s\"},"
                   "\"annotations\":{\"" RIG_PREFIX
                   "/sharding-config-injected\":\"%s\"}},\"spec\":{"
                   "\"containers\":[{\"name\":\"operator\",\"ports\":[%s]},"
                   "{\"name\":\"cmesh-localproxy\"}]},\"status\":{\"podIP\":\"10.0.0.1\","
                   "\"conditions\":[{\"type\":\"Ready\",\"status\":\"%s\"}]}}",
                   shard, shard, shard, port ? text : "", ready ? "True" : "False");
}

void rig_service(struct rig *g, const char *ports)
{
    store_put_text(&g->store, "services", "ops",
                   "{\"metadata\":{\"name\":\"hook\"},\"spec\":{\"selector\":{\"app\":\"op\"},"
                   "\"ports\":[%s]}}",
                   ports);
}

void rig_slices(struct rig *g, bool a, bool b)
{
    char name[2][ROUTE_PORT_SIZE];
    (void)route_port_name("ops/a", name[0]);
    (void)route_port_name("ops/b", name[1]);
    for (size_t i = 0; i < 2; i++) {
        store_put_text(&g->store, "endpointslices", "ops",
                       "{\"metadata\":{\"name\":\"hook-%c\",\"labels\":{"
                       "\"kubernetes.io/service-name\":\"hook\"}},\"ports\":[{\"name\":\"webhook\","
                       "\"port\":%d},{\"name\":\"%s\",\"port\":9443}],\"endpoints\":[{"
                       "\"addresses\":[\"10.0.0.1\"],\"conditions\":{\"ready\":%s}}]}",
                       i == 0 ? 'a' : 'b', g->other_port != 0 ? g->other_port : 9443, name[i],
                       (i == 0 ? a : b) ? "true" : "false");
    }
}

void rig_original(struct rig *g, const char *metadata, const char *webhook)
{
    store_put_text(
        &g->store, RIG_VALIDATING, "",
        "{\"metadata\":{\"name\":\"op\",\"creationTimestamp\":\"2026-01-01T00:00:00Z\"%s},"
        "\"webhooks\":[{\"name\":\"w.example.com\",\"clientConfig\":{\"caBundle\":\"b25l\","
        "\"service\":{\"namespace\":\"ops\",\"name\":\"hook\",\"port\":443}},\"rules\":[{"
        "\"apiGroups\":[\"\"],\"apiVersions\":[\"v1\"],\"operations\":[\"CREATE\"],"
        "\"resources\":[\"configmaps\"],\"scope\":\"*\"}],\"namespaceSelector\":{}%s}]}",
        metadata, webhook);
}

/* A copy of it as it is; NULL: it is not there. */
static cJSON *copy_original(struct rig *g)
{
    return cJSON_Duplicate(store_get(&g->store, RIG_VALIDATING, "", "op"), true);
}

void rig_label(struct rig *g, bool on)
{
    cJSON *o = copy_original(g);
    cJSON *metadata = cJSON_GetObjectItem(o, "metadata");
    cJSON_DeleteItemFromObject(metadata, "labels");
    if (on) {
        cJSON_AddStringToObject(cJSON_AddObjectToObject(metadata, "labels"), RIG_PREFIX "/route",
                                "true");
    }
    store_put(&g->store, RIG_VALIDATING, "", o);
}

void rig_select(struct rig *g, const char *selector)
{
    cJSON *o = copy_original(g);
    cJSON *webhook = cJSON_GetArrayItem(cJSON_GetObjectItem(o, "webhooks"), 0);
    cJSON_DeleteItemFromObject(webhook, "namespaceSelector");
    cJSON_AddItemToObject(webhook, "namespaceSelector",
                          cJSON_Parse(selector == NULL ? "{}" : selector));
    store_put(&g->store, RIG_VALIDATING, "", o);
}

void rig_operator(struct rig *g)
{
    rig_service(g, "{\"name\":\"webhook\",\"port\":443,\"targetPort\":9443}");
    rig_shard(g, "a", "\"x\",\"y\"", "");
    rig_shard(g, "b", "\"z\"", "");
    rig_pod(g, "a", true, true);
    rig_pod(g, "b", true, true);
    rig_slices(g, true, true);
    rig_original(g, "", "");
}

/* ---- time ---- */

static void turn(struct rig *g, uint64_t ms)
{
    if (g->on_turn != NULL) {
        g->on_turn(g);
    }
    fake_clock_pass(&g->clock, ms);
    store_end_pauses(&g->store);
    run_for(g->store.api.loop, 1);
}

void rig_turn(struct rig *g)
{
    turn(g, TURN_MS);
}

void rig_pass(struct rig *g, uint64_t ms)
{
    for (uint64_t passed = 0; passed < ms; passed += TURN_MS) {
        turn(g, TURN_MS);
    }
}

void rig_stride(struct rig *g, uint64_t ms)
{
    for (uint64_t passed = 0; passed < ms; passed += STRIDE_MS) {
        turn(g, STRIDE_MS);
    }
}

/* ---- what there is ---- */

bool rig_narrowed(struct rig *g)
{
    const cJSON *o = store_get(&g->store, RIG_VALIDATING, "", "op");
    return narrowing_is(&g->keys, cJSON_GetArrayItem(field_get(o, "webhooks"), 0));
}

static const cJSON *entries(struct rig *g)
{
    return field_get(store_get(&g->store, RIG_VALIDATING, "", "cmesh-routes"), "webhooks");
}

unsigned rig_entries(struct rig *g)
{
    return (unsigned)cJSON_GetArraySize(entries(g));
}

int rig_port(struct rig *g, const char *shard)
{
    char key[64];
    char name[ROUTE_PORT_SIZE];
    const cJSON *port;
    bool hold = strcmp(shard, "hold") == 0;
    (void)snprintf(key, sizeof key, "ops/%s", shard);
    const char *wanted = hold ? ROUTE_HOLD_PORT : route_port_name(key, name);
    cJSON_ArrayForEach(
        port,
        field_get(field_get(store_get(&g->store, "services", "ops", "hook"), "spec"), "ports"))
    {
        if (strcmp(field_text(port, "name"), wanted) == 0) {
            return (int)field_get(port, "port")->valuedouble;
        }
    }
    return 0;
}

static bool is_about_config_maps(const cJSON *entry)
{
    const cJSON *rule;
    cJSON_ArrayForEach(rule, field_get(entry, "rules"))
    {
        if (field_has(field_get(rule, "resources"), "configmaps")) {
            return true;
        }
    }
    return false;
}

static bool selects(const struct rig *g, const cJSON *entry, const char *ns)
{
    char hash[8];
    struct err e = ERR_INIT;
    (void)snprintf(hash, sizeof hash, "%u", sharding_hash(ns));
    const struct selector_label has[] = {
        {slice_str(g->keys.key[LABELS_NAMESPACE]), slice_str(ns)},
        {slice_str(g->keys.key[LABELS_SHARD_HASH]), slice_str(hash)},
        {slice_str(g->keys.key[LABELS_CONTROL]), SLICE("true")},
    };
    struct selector *s =
        selector_from_label_selector(field_get(entry, "namespaceSelector"), "s", &e);
    assert_int_equal(e.code, 0);
    bool is = is_about_config_maps(entry) && selector_matches(s, has, 3);
    selector_free(s);
    return is;
}

static const char *name_of(struct rig *g, const cJSON *entry)
{
    const cJSON *port = field_get(field_get(field_get(entry, "clientConfig"), "service"), "port");
    int number = (int)port->valuedouble;
    return number == 443                   ? "rest"
           : number == rig_port(g, "a")    ? "a"
           : number == rig_port(g, "b")    ? "b"
           : number == rig_port(g, "hold") ? "held"
                                           : "nowhere";
}

const char *rig_owner(struct rig *g, const char *ns)
{
    static char text[256];
    const cJSON *entry;
    text[0] = '\0';
    cJSON_ArrayForEach(entry, entries(g))
    {
        if (selects(g, entry, ns)) {
            size_t len = strlen(text);
            (void)snprintf(text + len, sizeof text - len, "%s%s", len > 0 ? "," : "",
                           name_of(g, entry));
        }
    }
    return text;
}

void rig_expect_owner(struct rig *g, const char *ns, const char *owner)
{
    assert_string_equal(rig_owner(g, ns), owner);
}

const struct route_report *rig_report(struct rig *g, const char *shard)
{
    char key[64];
    (void)snprintf(key, sizeof key, "ops/%s", shard);
    return routes_report(g->routes, key);
}

void rig_expect_reason(struct rig *g, const char *shard, enum route_reason reason)
{
    const struct route_report *r = rig_report(g, shard);
    if (r->state != ROUTE_KNOWN || r->verdict.reason != reason) {
        fail_msg("state %d, %s: %s; not %s", r->state, route_reason_text(r->verdict.reason),
                 r->verdict.text, route_reason_text(reason));
    }
}

void rig_contest(struct rig *g)
{
    for (unsigned i = 0; i < 9; i++) {
        rig_select(g, NULL);
        RIG_AWAIT(g, rig_narrowed(g), 3000);
        rig_pass(g, 200);
    }
    rig_select(g, NULL);
    rig_pass(g, 3000);
    rig_expect_reason(g, "a", ROUTE_CONTESTED);
}
