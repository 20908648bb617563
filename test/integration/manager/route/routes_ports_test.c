/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller of routes and the ports by which reviews reach the pods of a shard, and what is
 * not answered when they are written. CMESH_SEED and CMESH_ROUNDS as in routes_hostile_test.c.
 */
#include "base/log.h"
#include "object/route_names.h"
#include "rounds.h"
#include "routes_fixture.h"
#include "json/field.h"

#include <stdio.h>
#include <stdlib.h>

static void begin_routed(struct rig *g)
{
    rig_operator(g);
    rig_service(g, "{\"name\":\"webhook\",\"port\":443,\"targetPort\":\"hooks\"}");
    rig_label(g, true);
    rig_lead(g);
    rig_stride(g, 15000);
    assert_true(rig_narrowed(g));
    rig_expect_owner(g, "x", "a");
    rig_expect_owner(g, "z", "b");
}

/* ---- pods that serve another port ---- */

/* Pods of shard a, more than those that there are, whose spec.webhook.port is `number`. */
static void put_more_pods(struct rig *g, int number, bool ready)
{
    char name[ROUTE_PORT_SIZE];
    store_put_text(&g->store, "endpointslices", "ops",
                   "{\"metadata\":{\"name\":\"hook-more\",\"labels\":{"
                   "\"kubernetes.io/service-name\":\"hook\"}},\"ports\":[{\"name\":\"webhook\","
                   "\"port\":9443},{\"name\":\"%s\",\"port\":%d}],\"endpoints\":[{"
                   "\"addresses\":[\"10.0.0.2\"],\"conditions\":{\"ready\":%s}}]}",
                   route_port_name("ops/a", name), number, ready ? "true" : "false");
}

/* Half of them: reviews would fail now and then. */
static void a_shard_whose_pods_come_to_serve_another_port_is_not_asked(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    put_more_pods(g, 9999, false);
    rig_pass(g, 2000);
    rig_expect_owner(g, "x", "a");
    put_more_pods(g, 9999, true);
    rig_pass(g, 500);
    rig_expect_owner(g, "x", "rest");
    rig_expect_owner(g, "y", "rest");
    rig_expect_owner(g, "z", "b");
    rig_expect_reason(g, "a", ROUTE_OTHER_PORT);
    rig_expect_reason(g, "b", ROUTE_ROUTED);
    assert_non_null(strstr(rig_report(g, "a")->verdict.text, "9999"));
    assert_true(rig_narrowed(g));
    unsigned writes = g->store.writes;
    rig_stride(g, 60000);
    assert_int_equal(g->store.writes, writes);
    put_more_pods(g, 9443, true);
    rig_stride(g, 4400);
    rig_expect_owner(g, "x", "rest");
    rig_stride(g, 1200);
    rig_expect_owner(g, "x", "a");
    rig_expect_reason(g, "a", ROUTE_ROUTED);
}

static void the_next_leader_finds_pods_that_serve_another_port(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    rig_retire(g);
    put_more_pods(g, 9999, true);
    rig_lead(g);
    rig_pass(g, 1000);
    rig_expect_owner(g, "x", "rest");
    rig_expect_reason(g, "a", ROUTE_OTHER_PORT);
    rig_retire(g);
    rig_lead(g);
    rig_stride(g, 12000);
    rig_expect_owner(g, "x", "rest");
    rig_expect_reason(g, "a", ROUTE_OTHER_PORT);
}

/* Nobody may be asked in its place. */
static void a_strict_shard_that_serves_another_port_is_held(void **state)
{
    struct rig *g = *state;
    rig_operator(g);
    rig_shard(g, "a", "\"x\",\"y\"", ",\"duringHandover\":\"Hold\"");
    rig_label(g, true);
    rig_lead(g);
    rig_stride(g, 15000);
    put_more_pods(g, 9999, true);
    rig_pass(g, 500);
    rig_expect_owner(g, "x", "held");
    rig_expect_reason(g, "a", ROUTE_OTHER_PORT);
}

static void put_endpoints(struct rig *g, int number)
{
    char a[ROUTE_PORT_SIZE];
    char b[ROUTE_PORT_SIZE];
    (void)route_port_name("ops/a", a);
    (void)route_port_name("ops/b", b);
    store_put_text(
        &g->store, "endpoints", "ops",
        "{\"metadata\":{\"name\":\"hook\"},\"subsets\":["
        "{\"addresses\":[{\"ip\":\"10.0.0.1\"}],\"ports\":[{\"name\":\"webhook\",\"port\":9443},"
        "{\"name\":\"%s\",\"port\":9443}]},"
        "{\"addresses\":[{\"ip\":\"10.0.0.2\"}],\"ports\":[{\"name\":\"webhook\",\"port\":9443},"
        "{\"name\":\"%s\",\"port\":%d}]},"
        "{\"addresses\":[{\"ip\":\"10.0.0.3\"}],\"ports\":[{\"name\":\"webhook\",\"port\":9444},"
        "{\"name\":\"%s\",\"port\":9444}]}]}",
        a, a, number, b);
}

/* Each subset has pods of its own. */
static void endpoints_tell_the_same(void **state)
{
    struct rig *g = *state;
    g->store.refused.part = "endpointslices";
    g->store.refused.status = 404;
    put_endpoints(g, 9443);
    begin_routed(g);
    rig_stride(g, 8000);
    rig_expect_reason(g, "b", ROUTE_ROUTED);
    put_endpoints(g, 9999);
    rig_pass(g, 500);
    rig_expect_owner(g, "x", "rest");
    rig_expect_owner(g, "z", "b");
    rig_expect_reason(g, "a", ROUTE_OTHER_PORT);
}

/* What everybody may serve elsewhere by now. */
static void all_may_go_to_another_port_together(void **state)
{
    struct rig *g = *state;
    char name[ROUTE_PORT_SIZE];
    begin_routed(g);
    store_put_text(&g->store, "endpointslices", "ops",
                   "{\"metadata\":{\"name\":\"hook-more\",\"labels\":{"
                   "\"kubernetes.io/service-name\":\"hook\"}},\"ports\":[{\"name\":\"webhook\","
                   "\"port\":9444},{\"name\":\"%s\",\"port\":9444}],\"endpoints\":[{"
                   "\"addresses\":[\"10.0.0.2\"]}]}",
                   route_port_name("ops/a", name));
    rig_pass(g, 2000);
    rig_expect_owner(g, "x", "a");
    rig_expect_reason(g, "a", ROUTE_ROUTED);
}

/* Slices of both shards, whose pods serve two ports; that of the shard is `number`. */
static void put_two_ports(struct rig *g, int number)
{
    static const char *const keys[] = {"ops/a", "ops/b"};
    for (size_t i = 0; i < 2; i++) {
        char name[ROUTE_PORT_SIZE];
        store_put_text(&g->store, "endpointslices", "ops",
                       "{\"metadata\":{\"name\":\"hook-%c\",\"labels\":{"
                       "\"kubernetes.io/service-name\":\"hook\"}},\"ports\":[{\"name\":\"webhook\","
                       "\"port\":9443},{\"name\":\"second\",\"port\":9444},{\"name\":\"%s\","
                       "\"port\":%d}],\"endpoints\":[{\"addresses\":[\"10.0.0.1\"]}]}",
                       keys[i][4], route_port_name(keys[i], name), number);
    }
}

/* Of two webhooks the one is routed whose port is that of the shards. */
static void webhooks_at_two_ports_are_told_apart(void **state)
{
    struct rig *g = *state;
    static const char ports[] = "{\"name\":\"webhook\",\"port\":443,\"targetPort\":\"hooks\"},"
                                "{\"name\":\"second\",\"port\":444,\"targetPort\":\"others\"}";
    rig_operator(g);
    rig_service(g, ports);
    put_two_ports(g, 9443);
    rig_label(g, true);
    store_put_text(&g->store, RIG_VALIDATING, "",
                   "{\"metadata\":{\"name\":\"second\",\"labels\":{\"" RIG_PREFIX
                   "/route\":\"true\"}},\"webhooks\":[{\"name\":\"s.example.com\","
                   "\"clientConfig\":{\"service\":{\"namespace\":\"ops\",\"name\":\"hook\","
                   "\"port\":444}},\"rules\":[{\"apiGroups\":[\"\"],\"apiVersions\":[\"v1\"],"
                   "\"operations\":[\"CREATE\"],\"resources\":[\"configmaps\"]}],"
                   "\"namespaceSelector\":{}}]}");
    rig_lead(g);
    rig_stride(g, 15000);
    rig_expect_owner(g, "x", "a"); /* by the entries of the first one alone */
    rig_expect_owner(g, "z", "b");
    assert_true(rig_narrowed(g));
    rig_expect_reason(g, "a", ROUTE_OTHER_PORT);
    assert_non_null(strstr(rig_report(g, "a")->verdict.text, "s.example.com"));
    put_two_ports(g, 9444);
    rig_stride(g, 15000);
    assert_false(rig_narrowed(g));
    rig_expect_owner(g, "x", "a"); /* by those of the second one */
    assert_non_null(strstr(rig_report(g, "a")->verdict.text, "w.example.com"));
    put_two_ports(g, 9445);
    rig_stride(g, 1000);
    rig_expect_owner(g, "x", "nowhere"); /* any pod, by port 444 */
}

/* ---- Services that select none of them ---- */

/* One more Service, which an original of its own, narrowed by its owner, leads to. */
static void put_other(struct rig *g, unsigned number)
{
    store_put_text(&g->store, "services", "ops",
                   "{\"metadata\":{\"name\":\"hang-%u\"},\"spec\":{\"selector\":{\"app\":\"op\"},"
                   "\"ports\":[{\"name\":\"webhook\",\"port\":443,\"targetPort\":9443}]}}",
                   number);
    store_put_text(&g->store, RIG_VALIDATING, "",
                   "{\"metadata\":{\"name\":\"hang-%u\",\"labels\":{\"" RIG_PREFIX
                   "/route\":\"true\"}},\"webhooks\":[{\"name\":\"h%u.example.com\","
                   "\"clientConfig\":{\"service\":{\"namespace\":\"ops\",\"name\":\"hang-%u\"}},"
                   "\"rules\":[{\"apiGroups\":[\"\"],\"apiVersions\":[\"v1\"],\"operations\":["
                   "\"CREATE\"],\"resources\":[\"configmaps\"]}]}]}",
                   number, number, number);
}

static void put_selecting(struct rig *g, const char *more)
{
    store_put_text(&g->store, "services", "ops",
                   "{\"metadata\":{\"name\":\"hook\"},\"spec\":{\"ports\":[{\"name\":\"webhook\","
                   "\"port\":443,\"targetPort\":9443}]%s}}",
                   more);
}

static void a_service_that_selects_no_shard_is_reported(void **state)
{
    struct rig *g = *state;
    rig_operator(g);
    put_selecting(g, ",\"selector\":{\"app\":\"misspelt\"}");
    rig_label(g, true);
    rig_lead(g);
    rig_pass(g, 1000);
    rig_expect_reason(g, "a", ROUTE_NO_PODS);
    rig_expect_reason(g, "b", ROUTE_NO_PODS);
    store_delete(&g->store, "services", "ops", "hook");
    rig_pass(g, 2000);
    rig_expect_reason(g, "a", ROUTE_NO_SERVICE);
    rig_service(g, "{\"name\":\"webhook\",\"port\":443,\"targetPort\":9443}");
    rig_stride(g, 15000);
    rig_expect_reason(g, "a", ROUTE_ROUTED);
    put_other(g, 0); /* and what is wrong with another one concerns it no more */
    store_delete(&g->store, "services", "ops", "hang-0");
    rig_pass(g, 2000);
    rig_expect_reason(g, "a", ROUTE_ROUTED);
}

/* Others say where it leads to, and know nothing of our ports. */
static void who_selects_no_pods_any_more_is_not_asked_for_a_shard(void **state)
{
    static const char *const kinds[] = {
        "", ",\"type\":\"ExternalName\",\"externalName\":\"x.test\",\"selector\":{\"app\":\"op\"}"};
    for (size_t i = 0; i < 2; i++) {
        struct rig *g = *state;
        begin_routed(g);
        put_selecting(g, kinds[i]);
        rig_pass(g, 500);
        rig_expect_owner(g, "x", "rest");
        rig_expect_owner(g, "z", "rest");
        rig_expect_reason(g, "a", ROUTE_NO_PODS);
        rig_stride(g, 15000);
        assert_false(rig_narrowed(g));
        assert_int_equal(rig_entries(g), 0);
        assert_int_equal(rig_port(g, "a"), 0);
        rig_service(g, "{\"name\":\"webhook\",\"port\":443,\"targetPort\":9443}");
        rig_stride(g, 15000);
        rig_expect_owner(g, "x", "a");
        assert_int_equal(rig_teardown(state), 0);
        assert_int_equal(rig_setup(state), 0);
    }
}

/* ---- ports of the same name ---- */

/* SHA-256 of "ops/a-13982" and of "ops/a-44705" begin with the same eight digits. */
#define TWIN_A "a-13982"
#define TWIN_B "a-44705"

static void put_slice_of(struct rig *g, const char *shard)
{
    char key[64];
    char name[ROUTE_PORT_SIZE];
    (void)snprintf(key, sizeof key, "ops/%s", shard);
    store_put_text(&g->store, "endpointslices", "ops",
                   "{\"metadata\":{\"name\":\"hook-%s\",\"labels\":{"
                   "\"kubernetes.io/service-name\":\"hook\"}},\"ports\":[{\"name\":\"webhook\","
                   "\"port\":9443},{\"name\":\"%s\",\"port\":9443}],\"endpoints\":[{"
                   "\"addresses\":[\"10.0.0.3\"]}]}",
                   shard, route_port_name(key, name));
}

static void two_shards_with_one_port_stay_with_the_original(void **state)
{
    struct rig *g = *state;
    char names[2][ROUTE_PORT_SIZE];
    assert_string_equal(route_port_name("ops/" TWIN_A, names[0]),
                        route_port_name("ops/" TWIN_B, names[1]));
    begin_routed(g);
    rig_shard(g, TWIN_A, "\"v\"", "");
    rig_pod(g, TWIN_A, true, true);
    put_slice_of(g, TWIN_A);
    rig_stride(g, 6000);
    rig_expect_reason(g, TWIN_A, ROUTE_ROUTED);
    assert_string_equal(rig_owner(g, "v"), "nowhere"); /* than a and b */
    rig_shard(g, TWIN_B, "\"w\"", "");
    rig_pass(g, 2000);
    assert_string_equal(rig_owner(g, "v"), "nowhere"); /* the twin has no pods */
    rig_pod(g, TWIN_B, false, true);
    rig_pass(g, 500);
    rig_expect_owner(g, "v", "rest");
    rig_expect_owner(g, "w", "rest");
    rig_expect_owner(g, "x", "a");
    rig_expect_reason(g, TWIN_A, ROUTE_SAME_PORT);
    rig_expect_reason(g, TWIN_B, ROUTE_SAME_PORT);
    rig_expect_reason(g, "a", ROUTE_ROUTED);
    rig_pod(g, TWIN_B, true, true);
    rig_stride(g, 8000);
    rig_expect_owner(g, "v", "rest");
    store_delete(&g->store, "pods", "ops", TWIN_B "-0");
    store_delete(&g->store, "shardingconfigs", "ops", TWIN_B);
    rig_stride(g, 6000);
    assert_string_equal(rig_owner(g, "v"), "nowhere");
    rig_expect_reason(g, TWIN_A, ROUTE_ROUTED);
}

/* ---- writes that are not answered ---- */

static unsigned hanging(const struct rig *g, unsigned count)
{
    return count - g->store.failing.count;
}

/* What else is to be written is. */
static void expect_progress(struct rig *g)
{
    rig_shard(g, "a", "\"x\"", "");
    rig_shard(g, "b", "\"z\",\"y\"", "");
    rig_pass(g, 1000);
    assert_string_equal(rig_owner(g, "y"), "b");
    rig_select(g, NULL);
    RIG_AWAIT(g, rig_narrowed(g), 6000);
    rig_shard(g, "a", "\"x\",\"y\"", "");
    rig_shard(g, "b", "\"z\"", "");
    rig_pass(g, 1000);
    assert_string_equal(rig_owner(g, "y"), "a");
}

static void services_that_hang_stop_nobody_else(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    store_fail(&g->store, "services/hang", 0, STORE_HANG, 100);
    for (unsigned i = 0; i < 6; i++) {
        put_other(g, i);
    }
    RIG_AWAIT(g, hanging(g, 100) >= 4, 1000);
    expect_progress(g);
    rig_retire(g); /* with requests under way */
    rig_lead(g);
    RIG_AWAIT(g, hanging(g, 100) >= 8, 1000);
    expect_progress(g);
    rig_label(g, false);
    RIG_AWAIT(g, rig_entries(g) == 0, 8000);
    assert_int_equal(hanging(g, 100), 8);
}

static void originals_that_hang_stop_nobody_else(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    store_fail(&g->store, RIG_VALIDATING "/hang", 0, STORE_HANG, 100);
    for (unsigned i = 0; i < 6; i++) {
        char name[2][ROUTE_PORT_SIZE];
        put_other(g, i);
        store_put_text(&g->store, "endpointslices", "ops",
                       "{\"metadata\":{\"name\":\"hang-%u\",\"labels\":{"
                       "\"kubernetes.io/service-name\":\"hang-%u\"}},\"ports\":[{\"name\":\"%s\","
                       "\"port\":9443},{\"name\":\"%s\",\"port\":9443}],\"endpoints\":[{"
                       "\"addresses\":[\"10.0.0.1\"]}]}",
                       i, i, route_port_name("ops/a", name[0]), route_port_name("ops/b", name[1]));
    }
    RIG_AWAIT(g, hanging(g, 100) >= 4, 15000);
    rig_shard(g, "a", "\"x\"", "");
    rig_shard(g, "b", "\"z\",\"y\"", "");
    rig_pass(g, 1000);
    assert_null(strstr(rig_owner(g, "y"), "a")); /* by any of their entries */
    rig_service(g, "{\"name\":\"webhook\",\"port\":443,\"targetPort\":9443}");
    RIG_AWAIT(g, rig_port(g, "a") != 0, 500);
}

/* Those of the other kind are written. */
static void entries_that_hang_stop_nobody_else(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    cJSON *o = cJSON_Duplicate(store_get(&g->store, RIG_VALIDATING, "", "op"), true);
    store_fail(&g->store, RIG_VALIDATING "/cmesh-routes", 0, STORE_HANG, 100);
    rig_shard(g, "a", "\"x\"", "");
    rig_shard(g, "b", "\"z\",\"y\"", "");
    RIG_AWAIT(g, hanging(g, 100) > 0, 1000);
    rig_expect_owner(g, "y", "a");
    store_put(&g->store, RIG_MUTATING, "", o);
    rig_pass(g, 500);
    const cJSON *routes = store_get(&g->store, RIG_MUTATING, "", "cmesh-routes");
    assert_int_not_equal(cJSON_GetArraySize(field_get(routes, "webhooks")), 0);
    rig_service(g, "{\"name\":\"webhook\",\"port\":443,\"targetPort\":9443}");
    RIG_AWAIT(g, rig_port(g, "a") != 0, 500);
    rig_label(g, false);
    RIG_AWAIT(g, !rig_narrowed(g), 2000);
    rig_retire(g);
    g->store.failing.count = 0;
    rig_label(g, true);
    rig_lead(g);
    rig_pass(g, 1000);
    rig_expect_owner(g, "y", "b");
    assert_int_equal(hanging(g, 0), 0);
}

/* ---- by chance ---- */

/* A narrowed original has one who is asked about each namespace, and one only. */
static void expect_asked(struct rig *g)
{
    static const char *const names[] = {"x", "y", "z", "v", "w", "other"};
    for (size_t i = 0; i < 6; i++) {
        const char *owner = rig_owner(g, names[i]);
        bool one = owner[0] != '\0' && strchr(owner, ',') == NULL;
        if (rig_narrowed(g) ? !one : owner[0] != '\0' && !one) {
            fail_msg("%s: \"%s\"", names[i], owner);
        }
    }
}

static void delete_twin(struct rig *g, const char *name)
{
    if (store_get(&g->store, "shardingconfigs", "ops", name) != NULL) {
        store_delete(&g->store, "shardingconfigs", "ops", name);
    }
}

static void put_twin(struct rig *g, const char *name, const char *space)
{
    if (store_chance(&g->store, 3) == 0) {
        delete_twin(g, name);
        return;
    }
    rig_shard(g, name, space,
              store_chance(&g->store, 2) == 0 ? ",\"duringHandover\":\"Hold\"" : "");
    rig_pod(g, name, store_chance(&g->store, 2) == 0, store_chance(&g->store, 4) > 0);
    put_slice_of(g, name);
}

static void put_service_by_chance(struct rig *g)
{
    static const char *const ports[] = {
        "{\"name\":\"webhook\",\"port\":443,\"targetPort\":\"hooks\"}",
        "{\"name\":\"webhook\",\"port\":443,\"targetPort\":9443},"
        "{\"name\":\"own\",\"port\":20443,\"targetPort\":80}",
        "{\"name\":\"webhook\",\"port\":443,\"targetPort\":\"hooks\"},"
        "{\"name\":\"wh-deadbeef\",\"port\":20444,\"targetPort\":\"hooks\"}",
    };
    unsigned kind = store_chance(&g->store, 5);
    if (kind < 3) {
        rig_service(g, ports[kind]);
    } else {
        put_selecting(g, kind == 3 ? "" : ",\"selector\":{\"app\":\"misspelt\"}");
    }
}

static void something_happens(struct rig *g)
{
    static const int numbers[] = {9443, 9999, 0};
    switch (store_chance(&g->store, 8)) {
    case 0:
    case 1:
        put_more_pods(g, numbers[store_chance(&g->store, 3)], store_chance(&g->store, 3) > 0);
        break;
    case 2:
        put_twin(g, TWIN_A, "\"v\"");
        break;
    case 3:
        put_twin(g, TWIN_B, "\"w\"");
        break;
    case 4:
        put_service_by_chance(g);
        break;
    case 5:
        rig_slices(g, store_chance(&g->store, 3) > 0, store_chance(&g->store, 3) > 0);
        break;
    case 6:
        rig_retire(g);
        rig_lead(g);
        break;
    default:
        store_fail(&g->store, store_chance(&g->store, 2) == 0 ? "services/" : "", 500, STORE_NONE,
                   store_chance(&g->store, 4));
        break;
    }
}

static void whatever_happens_to_ports_one_is_asked(void **state)
{
    uint64_t first = rounds_number("CMESH_SEED", 1);
    uint64_t count = rounds_number("CMESH_ROUNDS", rounds(1, 4));
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct rig *g = *state;
        print_message("seed %llu\n", (unsigned long long)seed);
        g->store.random = seed * 7919;
        begin_routed(g);
        g->on_turn = expect_asked;
        for (unsigned i = 0; i < 60; i++) {
            something_happens(g);
            rig_stride(g, 200 * (1 + store_chance(&g->store, 40)));
        }
        g->on_turn = NULL;
        g->store.failing.count = 0;
        delete_twin(g, TWIN_A);
        delete_twin(g, TWIN_B);
        put_more_pods(g, 9443, true);
        rig_retire(g);
        rig_operator(g);
        rig_label(g, true);
        rig_lead(g);
        rig_stride(g, 30000);
        assert_true(rig_narrowed(g));
        rig_expect_owner(g, "y", "a");
        rig_expect_owner(g, "z", "b");
        rig_expect_reason(g, "a", ROUTE_ROUTED);
        assert_int_equal(rig_teardown(state), 0);
        assert_int_equal(rig_setup(state), 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_shard_whose_pods_come_to_serve_another_port_is_not_asked),
        TEST(the_next_leader_finds_pods_that_serve_another_port),
        TEST(a_strict_shard_that_serves_another_port_is_held),
        TEST(endpoints_tell_the_same),
        TEST(all_may_go_to_another_port_together),
        TEST(webhooks_at_two_ports_are_told_apart),
        TEST(a_service_that_selects_no_shard_is_reported),
        TEST(who_selects_no_pods_any_more_is_not_asked_for_a_shard),
        TEST(two_shards_with_one_port_stay_with_the_original),
        TEST(services_that_hang_stop_nobody_else),
        TEST(originals_that_hang_stop_nobody_else),
        TEST(entries_that_hang_stop_nobody_else),
        TEST(whatever_happens_to_ports_one_is_asked),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
