/* SPDX-License-Identifier: Apache-2.0 */
#include "controller_fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "enforcement/probe_answer.h"
#include "policy/pod_traffic.h"
#include "json/json.h"

#define PREFIX "ctrlmesh.kusionstack.io"

enum { PATIENCE_MS = 60000, TURN_MS = 2, SETTLED_MS = 250 };

/* ---- the proxies: in place of manager/enforcement/prober.c ---- */

struct prober {
    struct fixture *fixture;
    struct prober_stats stats;
};

static struct fixture *the_fixture; /* prober_new is told nothing of it */

static struct fixture_probe_entry *probe_entry(struct fixture *s, const char *key)
{
    for (size_t i = 0; i < FIXTURE_PROBES; i++) {
        struct fixture_probe_entry *e = &s->entries[i];
        if (e->key[0] == '\0') {
            (void)snprintf(e->key, sizeof e->key, "%s", key);
            e->result.asked = !s->slow_pods;
        }
        if (strcmp(e->key, key) == 0) {
            return e;
        }
    }
    fail_msg("too many pods");
    abort();
}

struct prober *prober_new(struct net_loop *l, const struct prober_options *o)
{
    struct prober *p = calloc(1, sizeof *p);
    (void)l;
    p->fixture = the_fixture;
    the_fixture->probes = *o;
    return p;
}

int prober_watch(struct prober *p, const struct prober_target *t)
{
    assert_string_equal(t->proxy, "10.0.0.1:5441");
    struct fixture_probe_entry *e = probe_entry(p->fixture, t->key);
    e->watched = true;
    (void)snprintf(e->uid, sizeof e->uid, "%s", t->uid);
    return 0;
}

void prober_forget(struct prober *p, const char *key)
{
    probe_entry(p->fixture, key)->watched = false;
}

void prober_expect(struct prober *p, const char *key, uint64_t generation)
{
    assert_true(generation > 0);
    probe_entry(p->fixture, key)->expected++;
}

void prober_attend(struct prober *p, const char *key, bool attended)
{
    struct fixture_probe_entry *e = probe_entry(p->fixture, key);
    e->attended = e->watched && attended;
    e->attends++;
}

bool prober_attends(const struct prober *p, const char *key)
{
    return probe_entry(p->fixture, key)->attended;
}

void prober_expect_traffic(struct prober *p, const char *key, const char *checksum)
{
    struct fixture_probe_entry *e = probe_entry(p->fixture, key);
    (void)snprintf(e->traffic, sizeof e->traffic, "%s", checksum);
}

void prober_told(struct prober *p, const char *key, struct slice document)
{
    struct fixture_probe_entry *e = probe_entry(p->fixture, key);
    struct pod_traffic *before = e->result.traffic;
    e->told++;
    if (e->watched && probe_answer_told(document, key, e->uid, &e->result, NULL) == 0) {
        pod_traffic_free(before);
        e->result.state = PROBE_ANSWERED;
        e->result.asked = true;
        p->fixture->probes.on_change(p->fixture->probes.data, e->key);
    }
}

void prober_require(struct prober *p, const char *key, const char *uid, uint64_t generation,
                    const char *checksum)
{
    struct fixture_probe_entry *e = probe_entry(p->fixture, key);
    assert_string_equal(uid, e->uid);
    assert_true(generation >= e->result.generation); /* else it is of no use */
    e->result.required = generation;
    (void)snprintf(e->result.required_checksum, sizeof e->result.required_checksum, "%s", checksum);
    p->fixture->probes.on_change(p->fixture->probes.data, e->key);
}

const struct probe_result *prober_result(const struct prober *p, const char *key)
{
    const struct fixture_probe_entry *e = probe_entry(p->fixture, key);
    return e->watched ? &e->result : NULL;
}

const struct prober_stats *prober_stats(const struct prober *p)
{
    return &p->stats;
}

void prober_free(struct prober *p)
{
    if (p != NULL) {
        p->fixture->probes.on_change = NULL;
        p->fixture->probes.on_traffic = NULL;
        free(p);
    }
}

void fixture_probe(struct fixture *s, const char *pod, const char *shard, uint64_t generation,
                   const char *checksum)
{
    char key[128];
    (void)snprintf(key, sizeof key, "n/%s", pod);
    struct probe_result *r = &probe_entry(s, key)->result;
    *r = (struct probe_result){.state = PROBE_ANSWERED,
                               .asked = true,
                               .enforcing = true,
                               .generation = generation,
                               .since_ms = 1000,
                               .traffic = r->traffic};
    (void)snprintf(r->checksum, sizeof r->checksum, "%s", checksum);
    (void)snprintf(r->shard, sizeof r->shard, "n/%s", shard);
    if (s->probes.on_change != NULL) {
        s->probes.on_change(s->probes.data, key);
    }
}

static struct rules *parse_rules(struct fixture *s, const char *shard)
{
    const char *text = fixture_rules(s, shard);
    return rules_parse(text, strlen(text), NULL);
}

void fixture_enforces(struct fixture *s, const char *pod, const char *shard)
{
    struct rules *rules = parse_rules(s, shard);
    assert_non_null(rules);
    fixture_probe(s, pod, shard, rules_generation(rules), rules_checksum(rules));
    rules_unref(rules);
}

void fixture_tells(struct fixture *s, const char *pod, const char *shard)
{
    const char *uid = store_text(store_get(&s->store, "pods", "n", pod), "metadata/uid");
    struct rules *rules = parse_rules(s, shard);
    assert_non_null(rules);
    store_put_text(&s->store, "leases", "n",
                   "{\"metadata\":{\"name\":\"cmesh-%s\",\"labels\":{"
                   "\"app.kubernetes.io/part-of\":\"cmesh\","
                   "\"app.kubernetes.io/component\":\"localproxy\"},\"annotations\":{"
                   "\"cmesh.kusionstack.io/status\":\"{\\\"program\\\":\\\"localproxy\\\","
                   "\\\"pod\\\":{\\\"name\\\":\\\"%s\\\",\\\"uid\\\":\\\"%s\\\"},"
                   "\\\"rules\\\":{\\\"inForce\\\":true,\\\"shard\\\":{"
                   "\\\"namespace\\\":\\\"n\\\",\\\"name\\\":\\\"%s\\\"},"
                   "\\\"generation\\\":%llu,\\\"checksum\\\":\\\"%s\\\","
                   "\\\"since\\\":1,\\\"settled\\\":true}}\"}}}",
                   pod, pod, uid, shard, (unsigned long long)rules_generation(rules),
                   rules_checksum(rules));
    rules_unref(rules);
}

void fixture_forget_probes(struct fixture *s)
{
    for (size_t i = 0; i < FIXTURE_PROBES; i++) {
        pod_traffic_free(s->entries[i].result.traffic);
        s->entries[i].result = (struct probe_result){.state = PROBE_WAITING, .asked = true};
    }
}

/* ---- life ---- */

static bool may_write(void *data)
{
    return ((const struct fixture *)data)->holds;
}

bool fixture_open(struct fixture *s)
{
    struct net_loop *l = NULL;
    if (loop_setup((void **)&l) != 0 || !store_open(&s->store, l)) {
        return false;
    }
    s->holds = true;
    the_fixture = s;
    return true;
}

void fixture_begin(struct fixture *s)
{
    struct namespaces_options no = {
        .client = s->store.api.client, .own = "cmesh-system", .labels = true};
    s->namespaces = namespaces_new(s->store.api.loop, &no);
    struct shard_cache_options wo = {.client = s->store.api.client,
                                     .prefix = PREFIX,
                                     .memory = s->memory,
                                     .namespaces = s->namespaces};
    struct event_recorder_options eo = {
        .client = s->store.api.client, .component = "test", .clock = s->clock};
    s->cache = shard_cache_new(s->store.api.loop, &wo);
    s->events = event_recorder_new(s->store.api.loop, &eo);
}

bool fixture_close(struct fixture *s)
{
    controller_free(s->controller);
    shard_cache_free(s->cache);
    namespaces_free(s->namespaces);
    event_recorder_free(s->events);
    fixture_forget_probes(s);
    free(s->parsed.text);
    store_close(&s->store);
    return loop_free(s->store.api.loop) == 0;
}

int fixture_setup(void **state)
{
    struct fixture *s = calloc(1, sizeof *s);
    *state = s;
    if (s == NULL || !fixture_open(s)) {
        return -1;
    }
    fixture_begin(s);
    return 0;
}

int fixture_teardown(void **state)
{
    struct fixture *s = *state;
    bool well = fixture_close(s);
    free(s);
    return well ? 0 : -1;
}

struct controller *fixture_controller(struct fixture *s, struct shard_cache *cache)
{
    struct controller_options o = {
        .client = s->store.api.client,
        .cache = cache,
        .events = s->events,
        .counts = &s->counts,
        .labels = {.prefix = PREFIX,
                   .namespace = "namespace",
                   .shard_hash = "sharding-hash",
                   .control = "control"},
        .prefix = PREFIX,
        .may_write = may_write,
        .data = s,
        .on_in_force = s->on_in_force,
        .release = s->release,
        .routed = s->routed,
        .orphan_ms = s->orphan_ms,
        .handover = s->handover_ms == 0 ? HANDOVER_OFF
                    : s->strict         ? HANDOVER_STRICT
                                        : HANDOVER_BOUNDED,
        .handover_ms = s->handover_ms,
        .labelled = s->labelled,
        .wait_for_labels = s->wait_for_labels,
        .namespaces = s->namespaces,
        .coverage = s->coverage,
        .cover_steps = s->cover_steps,
        .policies = s->policies,
        .policy_memory = s->policy_memory,
        .clock = s->clock,
    };
    return controller_new(s->store.api.loop, &o);
}

void fixture_lead_without(struct fixture *s)
{
    s->controller = fixture_controller(s, s->cache);
}

void fixture_lead(struct fixture *s)
{
    s->holds = true;
    fixture_lead_without(s);
}

void fixture_retire(struct fixture *s)
{
    controller_free(s->controller);
    s->controller = NULL;
}

/* ---- objects ---- */

void fixture_pod(struct fixture *s, const char *name, const char *label, const char *shard)
{
    store_put_text(&s->store, "pods", "n",
                   "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"shard\":\"%s\"},\"annotations\":{"
                   "\"" PREFIX "/sharding-config-injected\":\"%s\"}},\"spec\":{\"containers\":["
                   "{\"name\":\"cmesh-localproxy\"},{\"name\":\"operator\"}]},\"status\":{"
                   "\"podIP\":\"10.0.0.1\",\"conditions\":[{\"type\":\"Ready\",\"status\":"
                   "\"True\"}]}}",
                   name, label, shard);
}

void fixture_plain_pod(struct fixture *s, const char *name, const char *label)
{
    store_put_text(&s->store, "pods", "n",
                   "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"shard\":\"%s\"}},\"spec\":{"
                   "\"containers\":[{\"name\":\"operator\"}]},\"status\":{\"podIP\":\"10.0.0.1\"}}",
                   name, label);
}

void fixture_serve(struct fixture *s, enum policy_served served)
{
    controller_serve(s->controller, TRAFFIC_BREAKER, served);
    controller_serve(s->controller, TRAFFIC_FAULT_INJECTION, served);
}

void fixture_says(struct fixture *s, const char *pod, const char *traffic)
{
    char key[128];
    struct err e = ERR_INIT;
    (void)snprintf(key, sizeof key, "n/%s", pod);
    struct probe_result *r = &probe_entry(s, key)->result;
    cJSON *root = traffic == NULL ? NULL : json_parse(traffic, strlen(traffic), &e);
    assert_int_equal(e.code, 0);
    pod_traffic_free(r->traffic);
    r->traffic = root == NULL ? NULL : pod_traffic_read(root);
    r->state = PROBE_ANSWERED;
    r->asked = true;
    cJSON_Delete(root);
    if (s->probes.on_traffic != NULL) {
        s->probes.on_traffic(s->probes.data, key);
    }
}

void fixture_version(struct fixture *s, const char *pod, const char *version)
{
    char key[128];
    (void)snprintf(key, sizeof key, "n/%s", pod);
    struct probe_result *r = &probe_entry(s, key)->result;
    (void)snprintf(r->version, sizeof r->version, "%s", version);
}

void fixture_let_go(struct fixture *s, const char *pod, const char *shard)
{
    store_put_text(&s->store, "pods", "n",
                   "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"shard\":\"%s\"},\"annotations\":{"
                   "\"ctrlmesh.kusionstack.io/let-go\":\"true\","
                   "\"ctrlmesh.kusionstack.io/sharding-config-injected\":\"%s\"}},\"spec\":{"
                   "\"serviceAccountName\":\"operator\",\"containers\":[{\"name\":"
                   "\"cmesh-localproxy\"}]},\"status\":{\"podIP\":\"10.0.0.1\"}}",
                   pod, shard, shard);
}

void fixture_config_for(struct fixture *s, const char *name, const char *resource,
                        const char *selector, const char *label)
{
    const char *equals = strchr(selector, '=');
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"%s\"}},\"limits\":[{\"relateResources\":[{\"apiGroups\":[\"\"],"
                   "\"resources\":[\"%s\"]}],\"selector\":{\"matchLabels\":{\"%.*s\":\"%s\"}}}]}}",
                   name, label, resource, (int)(equals - selector), selector, equals + 1);
}

void fixture_config(struct fixture *s, const char *name, const char *resource, const char *selector)
{
    fixture_config_for(s, name, resource, selector, name);
}

static const char *const many[] = {"pods", "services", "secrets"};

void fixture_config_in(struct fixture *s, const char *name, unsigned values, bool same)
{
    struct buf text = BUF_INIT((size_t)4 * 1024 * 1024);
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < 3; i++) {
        rc = buf_printf(&text,
                        "%s{\"relateResources\":[{\"apiGroups\":[\"\"],\"resources\":[\"%s\"]}],"
                        "\"selector\":{\"matchExpressions\":[{\"key\":\"app\",\"operator\":\"In\","
                        "\"values\":[\"x\"",
                        i == 0 ? "" : ",", many[i]);
        for (unsigned v = 0; rc == 0 && v < values / 3; v++) {
            rc = buf_printf(&text, ",\"value-number-%06u\"", same ? v : 3 * v + i);
        }
        rc = rc != 0 ? rc : buf_append_str(&text, "]}]}}");
    }
    assert_int_equal(rc, 0);
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"%s\"}},\"limits\":[%s]}}",
                   name, name, buf_cstr(&text));
    buf_reset(&text);
}

/* ---- what goes wrong ---- */

void fixture_await_fault(struct fixture *s)
{
    for (unsigned ms = 0; ms < PATIENCE_MS && s->store.failing.count > 0; ms += TURN_MS) {
        run_for(s->store.api.loop, TURN_MS);
    }
    assert_int_equal(s->store.failing.count, 0);
}

/* ---- looking ---- */

const char *fixture_text(struct fixture *s, const char *resource, const char *name,
                         const char *path)
{
    return store_text(store_get(&s->store, resource, "n", name), path);
}

const char *fixture_rules(struct fixture *s, const char *shard)
{
    char name[64];
    (void)snprintf(name, sizeof name, "cmesh-rules-%s", shard);
    return fixture_text(s, "configmaps", name, "data/rules.json");
}

/* Large rules are not parsed again each time that they are looked at. */
uint64_t fixture_generation(struct fixture *s, const char *shard)
{
    const char *text = fixture_rules(s, shard);
    if (s->parsed.text == NULL || strcmp(s->parsed.text, text) != 0) {
        struct rules *rules = rules_parse(text, strlen(text), NULL);
        free(s->parsed.text);
        s->parsed.text = strdup(text);
        s->parsed.generation = rules == NULL ? 0 : rules_generation(rules);
        rules_unref(rules);
    }
    return s->parsed.generation;
}

const char *fixture_condition(struct fixture *s, const char *shard, const char *type,
                              const char *key)
{
    const cJSON *config = store_get(&s->store, "shardingconfigs", "n", shard);
    const cJSON *c = NULL;
    cJSON_ArrayForEach(c, cJSON_GetObjectItem(cJSON_GetObjectItem(config, "status"), "conditions"))
    {
        if (strcmp(store_text(c, "type"), type) == 0) {
            return store_text(c, key);
        }
    }
    return "";
}

static unsigned events(struct fixture *s, const char *name, const char *reason)
{
    unsigned count = 0;
    for (const cJSON *e = NULL; (e = store_next(&s->store, "events", e)) != NULL;) {
        if (strcmp(store_text(e, "involvedObject/name"), name) == 0 &&
            strcmp(store_text(e, "reason"), reason) == 0) {
            count += (unsigned)strtoul(store_text(e, "count"), NULL, 10);
        }
    }
    return count;
}

void fixture_set_rules(struct fixture *s, const char *shard, const char *text)
{
    char name[64];
    (void)snprintf(name, sizeof name, "cmesh-rules-%s", shard);
    cJSON *map = cJSON_Duplicate(store_get(&s->store, "configmaps", "n", name), true);
    cJSON *data = cJSON_GetObjectItem(map, "data");
    cJSON_DeleteItemFromObject(data, "rules.json");
    assert_non_null(cJSON_AddStringToObject(data, "rules.json", text));
    store_put(&s->store, "configmaps", "n", map);
}

/* ---- waiting ---- */

#define AWAIT(condition, ...)                                                                      \
    do {                                                                                           \
        unsigned waited = 0;                                                                       \
        while (!(condition) && waited < PATIENCE_MS) {                                             \
            run_for(s->store.api.loop, TURN_MS);                                                   \
            waited += TURN_MS;                                                                     \
        }                                                                                          \
        if (!(condition)) {                                                                        \
            fail_msg(__VA_ARGS__);                                                                 \
        }                                                                                          \
    } while (0)

void fixture_expect_text(struct fixture *s, const char *resource, const char *name,
                         const char *path, const char *text)
{
    AWAIT(strcmp(fixture_text(s, resource, name, path), text) == 0,
          "%s %s: %s is \"%s\", not \"%s\"", resource, name, path,
          fixture_text(s, resource, name, path), text);
}

void fixture_expect_generation(struct fixture *s, const char *shard, uint64_t generation)
{
    AWAIT(fixture_generation(s, shard) == generation, "%s has generation %llu, not %llu", shard,
          (unsigned long long)fixture_generation(s, shard), (unsigned long long)generation);
}

void fixture_expect_rules(struct fixture *s, const char *shard, const char *part)
{
    AWAIT(strstr(fixture_rules(s, shard), part) != NULL, "%s is not in the rules of %s: %s", part,
          shard, fixture_rules(s, shard));
}

void fixture_expect_told(struct fixture *s, const char *pod, uint64_t generation)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)generation);
    fixture_expect_text(s, "pods", pod,
                        "metadata/annotations/ctrlmesh.kusionstack.io~rules-generation", text);
}

void fixture_expect_condition(struct fixture *s, const char *shard, const char *type,
                              const char *status)
{
    AWAIT(strcmp(fixture_condition(s, shard, type, "status"), status) == 0,
          "%s of %s is \"%s\", not \"%s\": %s", type, shard,
          fixture_condition(s, shard, type, "status"), status,
          fixture_condition(s, shard, type, "message"));
}

void fixture_expect_event(struct fixture *s, const char *name, const char *reason, unsigned count)
{
    AWAIT(events(s, name, reason) >= count, "%s of %s was told %u times, not %u", reason, name,
          events(s, name, reason), count);
    assert_int_equal(events(s, name, reason), count);
}

void fixture_await_gone(struct fixture *s, const char *resource, const char *name)
{
    AWAIT(store_get(&s->store, resource, "n", name) == NULL, "%s is still there", name);
}

void fixture_settle(struct fixture *s)
{
    fixture_await_quiet(s, SETTLED_MS);
}

unsigned long fixture_adds(struct fixture *s, const char *queue)
{
    char name[64];
    struct buf out = BUF_INIT(1024 * 1024);
    (void)snprintf(name, sizeof name, "workqueue_adds_total{name=\"%s\"} ", queue);
    const struct work_queue *queues[CONTROLLER_QUEUES_MAX];
    size_t count = controller_queues(s->controller, queues);
    work_queue_metrics(&out, queues, count);
    const char *found = strstr(buf_cstr(&out), name);
    assert_non_null(found);
    unsigned long adds = strtoul(found + strlen(name), NULL, 10);
    buf_reset(&out);
    return adds;
}

void fixture_await_quiet(struct fixture *s, unsigned length_ms)
{
    unsigned quiet = 0;
    unsigned before = s->store.requests;
    for (unsigned ms = 0; ms < PATIENCE_MS && quiet < length_ms; ms += TURN_MS) {
        run_for(s->store.api.loop, TURN_MS);
        quiet = s->store.requests == before ? quiet + TURN_MS : 0;
        before = s->store.requests;
    }
    assert_true(quiet >= length_ms);
}

void fixture_begin_enforced(struct fixture *s)
{
    fixture_pod(s, "a-0", "a", "a");
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_generation(s, "a", 1);
    fixture_enforces(s, "a-0", "a");
    fixture_expect_condition(s, "a", "Enforced", "True");
    fixture_settle(s);
}
