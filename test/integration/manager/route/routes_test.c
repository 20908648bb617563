/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller of routes against an API server that keeps objects, by a clock that the test
 * moves.
 */
#include "base/log.h"
#include "object/route_names.h"
#include "routes_fixture.h"
#include "json/field.h"

#define CONSTANT                                                                                   \
    "{\"matchExpressions\":[{\"key\":\"" RIG_PREFIX "/control\",\"operator\":\"DoesNotExist\"}]}"

static void begin_routed(struct rig *g)
{
    rig_operator(g);
    rig_label(g, true);
    rig_lead(g);
    RIG_AWAIT(g, rig_narrowed(g), 15000);
    rig_pass(g, 500);
}

static void the_whole_way(void **state)
{
    struct rig *g = *state;
    rig_operator(g);
    rig_lead(g);
    rig_pass(g, 8000);
    assert_int_equal(g->store.writes, 0); /* without the label nothing happens */
    assert_int_equal(rig_report(g, "a")->state, ROUTE_NOT_ASKED);
    rig_label(g, true);
    RIG_AWAIT(g, rig_port(g, "a") != 0, 1000);
    assert_int_equal(rig_port(g, "a"), 20443);
    assert_int_equal(rig_port(g, "b"), 20444);
    rig_pass(g, 4000);
    assert_int_equal(rig_entries(g), 0);
    rig_expect_reason(g, "a", ROUTE_SETTLING);
    RIG_AWAIT(g, rig_entries(g) > 0, 2000);
    assert_false(rig_narrowed(g));
    rig_pass(g, 4500);
    assert_false(rig_narrowed(g));
    rig_expect_reason(g, "a", ROUTE_SETTLING);
    RIG_AWAIT(g, rig_narrowed(g), 1000);
    rig_pass(g, 200);
    rig_expect_reason(g, "a", ROUTE_ROUTED);
    rig_expect_reason(g, "b", ROUTE_ROUTED);
    rig_expect_owner(g, "x", "a");
    rig_expect_owner(g, "y", "a");
    rig_expect_owner(g, "z", "b");
    rig_expect_owner(g, "other", "rest");
    unsigned writes = g->store.writes;
    rig_stride(g, 120000);
    assert_int_equal(g->store.writes, writes); /* all is right, and nothing is written */
}

static void put_slice(struct rig *g, const char *name, const char *family, const char *shard,
                      bool ready)
{
    char port[ROUTE_PORT_SIZE];
    (void)route_port_name(shard, port);
    store_put_text(&g->store, "endpointslices", "ops",
                   "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"kubernetes.io/service-name\":"
                   "\"hook\"}},\"addressType\":\"%s\",\"ports\":[{\"name\":\"webhook\",\"port\":"
                   "9443},{\"name\":\"%s\",\"port\":9443}],\"endpoints\":[{\"addresses\":[\"%s\"],"
                   "\"conditions\":{\"ready\":%s}}]}",
                   name, family, port,
                   strcmp(family, "IPv4") == 0   ? "10.0.0.1"
                   : strcmp(family, "IPv6") == 0 ? "fd00::1"
                                                 : "pod.example.com",
                   ready ? "true" : "false");
}

/* A Service of two families has a slice for each; names of hosts lead API servers nowhere. */
static void pods_of_two_families(void **state)
{
    struct rig *g = *state;
    rig_operator(g);
    rig_slices(g, false, false);
    put_slice(g, "four", "IPv4", "ops/a", false);
    put_slice(g, "six", "IPv6", "ops/a", true);
    put_slice(g, "names", "FQDN", "ops/b", true);
    rig_label(g, true);
    rig_lead(g);
    RIG_AWAIT(g, rig_entries(g) > 0, 8000);
    rig_pass(g, 8000);
    rig_expect_owner(g, "x", "a");
    rig_expect_owner(g, "z", "rest");
    rig_expect_reason(g, "b", ROUTE_SETTLING);
}

static void the_way_back(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    rig_label(g, false);
    RIG_AWAIT(g, !rig_narrowed(g), 1000);
    rig_pass(g, 4500);
    rig_expect_owner(g, "x", "a");
    RIG_AWAIT(g, rig_entries(g) == 0, 1000);
    rig_pass(g, 4000);
    assert_int_equal(rig_port(g, "a"), 20443);
    RIG_AWAIT(g, rig_port(g, "a") == 0, 2000);
    rig_pass(g, 200);
    const cJSON *metadata = field_get(store_get(&g->store, RIG_VALIDATING, "", "op"), "metadata");
    assert_null(field_get(field_get(metadata, "annotations"), RIG_PREFIX "/route-narrowed"));
    assert_int_equal(rig_report(g, "a")->state, ROUTE_NOT_ASKED);
    unsigned writes = g->store.writes;
    rig_stride(g, 60000);
    assert_int_equal(g->store.writes, writes);
}

/* No API server knows the new port yet. */
static void who_asks_again_at_once_waits_as_well(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    rig_label(g, false);
    RIG_AWAIT(g, rig_port(g, "a") == 0 && rig_port(g, "b") == 0, 15000);
    rig_label(g, true);
    RIG_AWAIT(g, rig_port(g, "a") != 0, 500);
    rig_pass(g, 4000);
    assert_int_equal(rig_entries(g), 0);
    RIG_AWAIT(g, rig_entries(g) > 0, 2000);
}

static void its_owner_narrows_it_first(void **state)
{
    struct rig *g = *state;
    rig_operator(g);
    rig_slices(g, false, false);
    rig_lead(g);
    rig_pass(g, 1000);
    rig_select(g, CONSTANT);
    RIG_AWAIT(g, rig_entries(g) > 0, 500);
    rig_expect_owner(g, "x", "rest");
    rig_expect_reason(g, "a", ROUTE_UNLABELLED);
    assert_int_equal(rig_port(g, "a"), 0);
    rig_label(g, true);
    rig_pass(g, 8000);
    rig_expect_owner(g, "x", "rest");
    rig_slices(g, true, true);
    rig_pass(g, 6000);
    rig_expect_owner(g, "x", "a");
    rig_expect_owner(g, "z", "b");
    rig_expect_reason(g, "a", ROUTE_ROUTED);
    /* It stays the owner's. */
    rig_label(g, false);
    rig_stride(g, 20000);
    assert_true(rig_narrowed(g));
    rig_expect_owner(g, "x", "a");
    rig_expect_reason(g, "a", ROUTE_UNLABELLED);
    rig_select(g, NULL);
    rig_pass(g, 4500);
    rig_expect_owner(g, "x", "a");
    rig_pass(g, 1000);
    assert_int_equal(rig_entries(g), 0);
}

/* By a manifest that still has what narrows it. */
static void its_owner_narrows_it_after_the_end(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    rig_label(g, false);
    rig_pass(g, 20000);
    assert_int_equal(rig_entries(g), 0);
    rig_select(g, CONSTANT);
    RIG_AWAIT(g, rig_entries(g) > 0, 500);
    rig_expect_owner(g, "x", "rest");
    rig_expect_reason(g, "a", ROUTE_UNLABELLED);
    rig_retire(g);
    rig_lead(g);
    rig_pass(g, 20000);
    rig_expect_owner(g, "x", "rest");
    rig_select(g, NULL);
    rig_pass(g, 6000);
    assert_int_equal(rig_entries(g), 0);
    assert_int_equal(rig_report(g, "a")->state, ROUTE_NOT_ASKED);
}

static void narrow_ones_of_other_operators_are_left_alone(void **state)
{
    struct rig *g = *state;
    rig_operator(g);
    store_put_text(&g->store, "services", "ops",
                   "{\"metadata\":{\"name\":\"hook\"},\"spec\":{\"selector\":{\"app\":\"x\"},"
                   "\"ports\":[{\"name\":\"webhook\",\"port\":443,\"targetPort\":9443}]}}");
    rig_select(g, CONSTANT);
    rig_lead(g);
    rig_pass(g, 8000);
    assert_int_equal(rig_entries(g), 0);
    assert_int_equal(rig_report(g, "a")->state, ROUTE_NOT_ASKED);
}

static void what_the_owner_changes_is_followed(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    cJSON *o = cJSON_Duplicate(store_get(&g->store, RIG_VALIDATING, "", "op"), true);
    cJSON *webhook = cJSON_GetArrayItem(cJSON_GetObjectItem(o, "webhooks"), 0);
    cJSON_ReplaceItemInObject(cJSON_GetObjectItem(webhook, "clientConfig"), "caBundle",
                              cJSON_CreateString("dHdv"));
    cJSON_AddStringToObject(webhook, "failurePolicy", "Ignore");
    store_put(&g->store, RIG_VALIDATING, "", o);
    rig_pass(g, 500);
    const cJSON *routes = store_get(&g->store, RIG_VALIDATING, "", "cmesh-routes");
    const cJSON *entry;
    cJSON_ArrayForEach(entry, field_get(routes, "webhooks"))
    {
        assert_string_equal(field_text(field_get(entry, "clientConfig"), "caBundle"), "dHdv");
        assert_string_equal(field_text(entry, "failurePolicy"), "Ignore");
    }
}

static void a_namespace_moves_when_its_new_shard_has_confirmed(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    g->shards[0].published = NULL;
    g->shards[1].unconfirmed = true;
    rig_shard(g, "a", "\"x\"", "");
    rig_shard(g, "b", "\"z\",\"y\"", "");
    rig_pass(g, 2000);
    rig_expect_owner(g, "y", "a");
    assert_int_equal(g->counts.moves, 0);
    g->shards[1].unconfirmed = false;
    routes_look(g->routes, "ops/b");
    rig_pass(g, 300);
    rig_expect_owner(g, "y", "b");
    rig_expect_owner(g, "x", "a");
    assert_int_equal(g->counts.moves, 1);
}

static void who_has_never_confirmed_is_not_said_to_be_asked(void **state)
{
    struct rig *g = *state;
    g->shards[0].unconfirmed = true;
    begin_routed(g);
    rig_expect_owner(g, "x", "rest");
    rig_expect_reason(g, "a", ROUTE_SETTLING);
    rig_expect_reason(g, "b", ROUTE_ROUTED);
    g->shards[0].unconfirmed = false;
    routes_look(g->routes, "ops/a");
    rig_pass(g, 500);
    rig_expect_owner(g, "x", "a");
    rig_expect_reason(g, "a", ROUTE_ROUTED);
    g->shards[0].unconfirmed = true; /* as after any change */
    routes_look(g->routes, "ops/a");
    rig_pass(g, 500);
    rig_expect_reason(g, "a", ROUTE_ROUTED);
}

static void what_is_deleted_goes_at_once(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    store_delete(&g->store, "shardingconfigs", "ops", "b");
    rig_pass(g, 1000);
    rig_expect_owner(g, "z", "rest");
    store_delete(&g->store, RIG_VALIDATING, "", "op");
    rig_pass(g, 1000);
    assert_int_equal(rig_entries(g), 0);
}

static void a_service_that_is_deleted_takes_all_with_it(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    store_delete(&g->store, "services", "ops", "hook");
    rig_pass(g, 2000);
    assert_int_equal(rig_entries(g), 0);
    assert_false(rig_narrowed(g));
    rig_expect_reason(g, "a", ROUTE_NO_SERVICE);
}

static void a_service_that_is_made_anew_keeps_its_numbers(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    rig_shard(g, "a0", "\"v\"", ""); /* which would come first */
    store_delete(&g->store, "services", "ops", "hook");
    rig_pass(g, 300);
    rig_service(g, "{\"name\":\"webhook\",\"port\":443,\"targetPort\":9443}");
    rig_pass(g, 300);
    assert_int_equal(rig_port(g, "a"), 20443);
    assert_int_equal(rig_port(g, "b"), 20444);
    assert_true(rig_narrowed(g));
    rig_expect_owner(g, "x", "a");
}

static void put_other_service(struct rig *g)
{
    store_put_text(&g->store, "services", "ops",
                   "{\"metadata\":{\"name\":\"other\"},\"spec\":{\"selector\":{\"app\":\"op\"},"
                   "\"ports\":[{\"name\":\"w\",\"port\":443,\"targetPort\":9443}]}}");
}

static void put_other_slice(struct rig *g, const char *shard)
{
    char name[ROUTE_PORT_SIZE];
    store_put_text(&g->store, "endpointslices", "ops",
                   "{\"metadata\":{\"name\":\"other-%s\",\"labels\":{"
                   "\"kubernetes.io/service-name\":\"other\"}},\"ports\":[{\"name\":\"%s\","
                   "\"port\":9443}],\"endpoints\":[{\"addresses\":[\"10.0.0.1\"]}]}",
                   shard, route_port_name(shard, name));
}

/* Its ports lead nowhere at first. */
static void another_service_is_asked_when_pods_stand_behind_it(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    put_other_service(g);
    cJSON *o = cJSON_Duplicate(store_get(&g->store, RIG_VALIDATING, "", "op"), true);
    cJSON *metadata = cJSON_GetObjectItem(o, "metadata");
    cJSON_AddStringToObject(cJSON_GetObjectItem(metadata, "annotations"),
                            RIG_PREFIX "/route-service", "other");
    store_put(&g->store, RIG_VALIDATING, "", o);
    for (unsigned i = 0; i < 400; i++) {
        rig_turn(g);
        const char *owner = rig_owner(g, "x");
        assert_true(strcmp(owner, "a") == 0 || strcmp(owner, "rest") == 0);
        assert_true(i < 100 || strcmp(owner, "rest") == 0);
    }
    assert_true(rig_narrowed(g));
    assert_int_equal(rig_port(g, "a"), 0);
    rig_expect_reason(g, "a", ROUTE_SETTLING);
    put_other_slice(g, "ops/a");
    rig_pass(g, 6000);
    assert_string_not_equal(rig_owner(g, "x"), "rest");
    rig_expect_owner(g, "z", "rest");
    rig_expect_reason(g, "a", ROUTE_ROUTED);
}

static void a_name_that_leads_to_another_port_is_reported(void **state)
{
    struct rig *g = *state;
    rig_operator(g);
    rig_service(g, "{\"name\":\"webhook\",\"port\":443,\"targetPort\":\"hooks\"}");
    g->other_port = 8443;
    rig_slices(g, true, true);
    rig_label(g, true);
    rig_lead(g);
    rig_pass(g, 12000);
    assert_int_equal(rig_entries(g), 0);
    rig_expect_reason(g, "a", ROUTE_OTHER_PORT);
    g->other_port = 9443;
    rig_slices(g, true, true);
    rig_pass(g, 12000);
    rig_expect_owner(g, "x", "a");
    rig_expect_reason(g, "a", ROUTE_ROUTED);
}

static void ports_go_when_the_original_went_unseen(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    rig_retire(g);
    store_delete(&g->store, RIG_VALIDATING, "", "op");
    rig_lead(g);
    rig_pass(g, 1000);
    assert_int_equal(rig_entries(g), 0);
    rig_pass(g, 6000);
    assert_int_equal(rig_port(g, "a"), 0);
    assert_int_equal(rig_port(g, "b"), 0);
}

/* Which has labels of its own, and adds a port before an entry leads there. */
static void ports_of_another_installation_stay(void **state)
{
    struct rig *g = *state;
    store_put_text(&g->store, RIG_VALIDATING, "",
                   "{\"metadata\":{\"name\":\"cmesh-routes\"},\"webhooks\":[{"
                   "\"name\":\"12345678.w.example.com\",\"clientConfig\":{\"service\":{"
                   "\"namespace\":\"ops\",\"name\":\"hook\",\"port\":20443}},"
                   "\"namespaceSelector\":{\"matchExpressions\":[{\"key\":\"other/control\","
                   "\"operator\":\"Exists\"}]}}]}");
    rig_service(g, "{\"name\":\"webhook\",\"port\":443,\"targetPort\":9443},"
                   "{\"name\":\"wh-00000001\",\"port\":20443,\"targetPort\":\"wh-00000001\"},"
                   "{\"name\":\"wh-00000002\",\"port\":20444,\"targetPort\":\"wh-00000002\"}");
    rig_lead(g);
    rig_pass(g, 12000);
    assert_int_equal(g->store.requests, 0); /* above all none that takes ports off */
    assert_int_equal(rig_entries(g), 1);
}

/* ---- what goes wrong ---- */

static void who_may_not_narrow_says_so(void **state)
{
    struct rig *g = *state;
    rig_operator(g);
    rig_label(g, true);
    rig_lead(g);
    store_fail(&g->store, RIG_VALIDATING "/op", 403, STORE_NONE, 2);
    RIG_AWAIT(g, g->store.failing.count == 1, 15000);
    rig_pass(g, 300);
    rig_expect_reason(g, "a", ROUTE_NOT_NARROWED);
    rig_expect_owner(g, "x", "a");
    rig_stride(g, 50000);
    assert_int_equal(g->store.failing.count, 1);
    rig_stride(g, 60000);
    RIG_AWAIT(g, g->store.failing.count == 0 && rig_narrowed(g), 40000);
    rig_pass(g, 500);
    rig_expect_reason(g, "a", ROUTE_ROUTED);
}

static void who_may_not_write_ports_says_so(void **state)
{
    struct rig *g = *state;
    rig_operator(g);
    rig_label(g, true);
    rig_lead(g);
    store_fail(&g->store, "services/hook", 403, STORE_NONE, 1);
    rig_pass(g, 2000);
    assert_int_equal(rig_entries(g), 0);
    rig_expect_reason(g, "a", ROUTE_NOT_ALLOWED);
    rig_stride(g, 58000);
    RIG_AWAIT(g, rig_narrowed(g), 40000);
    rig_pass(g, 500);
    rig_expect_reason(g, "a", ROUTE_ROUTED);
}

static void each_write_is_tried_again(void **state)
{
    static const char *const paths[] = {"services/hook", RIG_VALIDATING "/cmesh-routes",
                                        RIG_VALIDATING "/op"};
    static const struct {
        unsigned status;
        enum store_fault fault;
    } faults[] = {{500, STORE_NONE}, {409, STORE_NONE}, {0, STORE_CUT}, {0, STORE_CUT_DONE}};
    for (size_t i = 0; i < 12; i++) {
        if (i > 0) {
            assert_int_equal(rig_teardown(state), 0);
            assert_int_equal(rig_setup(state), 0);
        }
        struct rig *g = *state;
        rig_operator(g);
        rig_label(g, true);
        rig_lead(g);
        store_fail(&g->store, paths[i / 4], faults[i % 4].status, faults[i % 4].fault,
                   faults[i % 4].fault == STORE_CUT_DONE ? 1 : 2);
        RIG_AWAIT(g, g->store.failing.count == 0 && rig_narrowed(g), 40000);
        rig_pass(g, 500);
        rig_expect_owner(g, "x", "a");
        rig_expect_reason(g, "b", ROUTE_ROUTED);
    }
}

/* ---- others who write ---- */

static void what_is_reset_is_narrowed_again(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    unsigned reports = g->reports;
    rig_select(g, NULL);
    RIG_AWAIT(g, rig_narrowed(g), 1500);
    rig_pass(g, 300);
    rig_expect_owner(g, "x", "a");
    rig_expect_reason(g, "a", ROUTE_ROUTED);
    assert_int_equal(g->reports, reports); /* and nobody is alarmed */
}

static void who_resets_it_again_and_again_wins(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    rig_contest(g);
    assert_false(rig_narrowed(g));
    rig_pass(g, 3000);
    assert_int_equal(rig_entries(g), 0);
    rig_stride(g, 700000);
    assert_false(rig_narrowed(g));
    assert_int_equal(rig_port(g, "a"), 0);
    /* The same again is no change; another one is. */
    rig_select(g, NULL);
    rig_stride(g, 20000);
    assert_int_equal(rig_entries(g), 0);
    rig_select(g, "{\"matchLabels\":{\"team\":\"t\"}}");
    RIG_AWAIT(g, rig_narrowed(g), 40000);
    rig_pass(g, 500);
    rig_expect_reason(g, "a", ROUTE_ROUTED);
}

static void ports_that_are_taken_off_come_back(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    rig_service(g, "{\"name\":\"webhook\",\"port\":443,\"targetPort\":9443}");
    rig_pass(g, 300);
    assert_int_equal(rig_port(g, "a"), 20443);
    assert_int_equal(rig_port(g, "b"), 20444);
}

/* ---- pods ---- */

static void pods_that_are_not_fit_are_named(void **state)
{
    struct rig *g = *state;
    rig_operator(g);
    rig_pod(g, "a", false, true);
    rig_pod(g, "b", true, false);
    rig_label(g, true);
    rig_lead(g);
    rig_pass(g, 8000);
    assert_int_equal(rig_entries(g), 0);
    rig_expect_reason(g, "a", ROUTE_NO_PODS);
    rig_pod(g, "a", true, true);
    rig_pass(g, 6000);
    rig_expect_owner(g, "x", "a");
    rig_expect_owner(g, "z", "rest");
    rig_pass(g, 6000);
    rig_expect_reason(g, "a", ROUTE_ROUTED);
    rig_expect_reason(g, "b", ROUTE_OLD_PODS);
    assert_non_null(strstr(rig_report(g, "b")->verdict.text, "its pods (b-0) were made"));
    rig_pod(g, "b", true, true);
    rig_pass(g, 6000);
    rig_expect_owner(g, "z", "b");
    rig_expect_reason(g, "b", ROUTE_ROUTED);
    /* It keeps them while it has none. */
    store_delete(&g->store, "pods", "ops", "b-0");
    rig_slices(g, true, false);
    rig_pass(g, 8000);
    rig_expect_owner(g, "z", "b");
}

static void put_shard_without_port(struct rig *g, const char *name)
{
    store_put_text(&g->store, "shardingconfigs", "ops",
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"%s\"}},\"limits\":[{\"relateResources\":[{\"apiGroups\":[\"\"],"
                   "\"resources\":[\"configmaps\"]}],\"selector\":{\"matchLabels\":{\"" RIG_PREFIX
                   "/namespace\":\"w\"}}}]}}",
                   name, name);
}

/* Which is easily forgotten in one of them. */
static void a_shard_without_port_is_told(void **state)
{
    struct rig *g = *state;
    rig_operator(g);
    put_shard_without_port(g, "c");
    store_put_text(&g->store, "pods", "ops",
                   "{\"metadata\":{\"name\":\"c-0\",\"labels\":{\"shard\":\"c\"}}}");
    rig_lead(g);
    rig_label(g, true);
    rig_pass(g, 12000);
    rig_expect_reason(g, "a", ROUTE_ROUTED);
    assert_int_equal(rig_report(g, "c")->state, ROUTE_NOT_ASKED); /* the Service is not its own */
    rig_pod(g, "c", true, false);
    rig_pass(g, 500);
    rig_expect_reason(g, "c", ROUTE_NO_PORT);
    assert_non_null(strstr(rig_report(g, "c")->verdict.text, "spec.webhook.port"));
    rig_label(g, false);
    rig_pass(g, 500);
    assert_int_equal(rig_report(g, "c")->state, ROUTE_NOT_ASKED);
}

static void a_port_without_name_is_reported(void **state)
{
    struct rig *g = *state;
    rig_operator(g);
    rig_service(g, "{\"port\":443,\"targetPort\":9443}");
    rig_label(g, true);
    rig_lead(g);
    rig_pass(g, 1000);
    rig_expect_reason(g, "a", ROUTE_PORT_UNNAMED);
    assert_non_null(strstr(rig_report(g, "a")->verdict.text, "kubectl -n ops patch service hook"));
    rig_service(g, "{\"name\":\"webhook\",\"port\":443,\"targetPort\":8443}");
    rig_pass(g, 1000);
    rig_expect_reason(g, "a", ROUTE_OTHER_PORT);
}

static void what_cannot_be_routed_gets_no_ports(void **state)
{
    struct rig *g = *state;
    rig_operator(g);
    store_put_text(&g->store, "shardingconfigs", "ops",
                   "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"b\"}},\"webhook\":{\"port\":9443},\"limits\":[]}}");
    rig_label(g, true);
    rig_lead(g);
    rig_pass(g, 8000);
    rig_expect_reason(g, "a", ROUTE_SEEN_BY_ALL);
    assert_int_equal(rig_port(g, "a"), 0);
    assert_int_equal(rig_entries(g), 0);
    rig_shard(g, "b", "\"z\"", "");
    RIG_AWAIT(g, rig_narrowed(g), 15000);
    rig_expect_owner(g, "z", "b");
}

/* ---- holding ---- */

static struct rules *rules_of(struct rig *g, const char *key)
{
    const struct compile_options o = {.namespace = "ops",
                                      .generation = 1,
                                      .labels = {.prefix = RIG_PREFIX,
                                                 .namespace = "namespace",
                                                 .shard_hash = "sharding-hash",
                                                 .control = "control"}};
    struct rules *rules =
        shard_cache_rules(g->cache, shard_cache_find_config(g->cache, key), &o, NULL);
    assert_non_null(rules);
    return rules_ref(rules);
}

static void reviews_are_held_while_a_namespace_moves(void **state)
{
    struct rig *g = *state;
    rig_operator(g);
    rig_shard(g, "a", "\"x\",\"y\"", ",\"duringHandover\":\"Hold\"");
    rig_label(g, true);
    rig_lead(g);
    RIG_AWAIT(g, rig_narrowed(g), 15000);
    assert_int_not_equal(rig_port(g, "hold"), 0);
    struct rules *before = rules_of(g, "ops/a");
    g->shards[0].published = rules_ref(before);
    g->shards[1].published = rules_of(g, "ops/b");
    assert_true(routes_release(g->routes, "ops/a", before));
    rig_shard(g, "a", "\"x\"", ",\"duringHandover\":\"Hold\"");
    rig_shard(g, "b", "\"z\",\"y\"", "");
    rig_pass(g, 1000);
    struct rules *after = rules_of(g, "ops/a");
    rig_expect_owner(g, "x", "a");
    bool released = routes_release(g->routes, "ops/a", after);
    if (!released) {
        RIG_AWAIT(g, routes_release(g->routes, "ops/a", after), 500);
    }
    rig_expect_owner(g, "y", "held");
    rig_expect_owner(g, "x", "a");
    g->shards[0].published = after;
    rig_pass(g, 1000);
    rig_expect_owner(g, "y", "held");
    rules_unref(g->shards[1].published);
    g->shards[1].published = NULL;
    routes_look(g->routes, "ops/b");
    rig_pass(g, 500);
    rig_expect_owner(g, "y", "b");
    rules_unref(before);
    rules_unref(before);
}

/* With nobody who wants it for a moment: the edits come one by one, and who loses it is the first.
 */
static void what_nobody_wants_for_a_moment_is_held(void **state)
{
    struct rig *g = *state;
    rig_operator(g);
    rig_shard(g, "a", "\"x\",\"y\"", ",\"duringHandover\":\"Hold\"");
    rig_label(g, true);
    rig_lead(g);
    RIG_AWAIT(g, rig_narrowed(g), 15000);
    rig_pass(g, 5000);
    rig_shard(g, "a", "\"x\"", ",\"duringHandover\":\"Hold\"");
    rig_pass(g, 1000);
    rig_expect_owner(g, "y", "held");
    rig_shard(g, "b", "\"z\",\"y\"", "");
    rig_pass(g, 500);
    rig_expect_owner(g, "y", "b");
    rig_shard(g, "b", "\"z\"", "");
    rig_pass(g, 1000);
    rig_shard(g, "a", "\"x\",\"y\"", ",\"duringHandover\":\"Hold\"");
    rig_pass(g, 500);
    rig_expect_owner(g, "y", "a");
    rig_shard(g, "a", "\"x\"", ",\"duringHandover\":\"Hold\"");
    rig_pass(g, 4000);
    rig_expect_owner(g, "y", "held");
    RIG_AWAIT(g, strcmp(rig_owner(g, "y"), "rest") == 0, 2000);
}

/* ---- where the shards are ---- */

static void any_pod_is_asked_about_their_own_namespace(void **state)
{
    struct rig *g = *state;
    rig_operator(g);
    rig_shard(g, "a", "\"x\",\"ops\",\"y\"", "");
    rig_label(g, true);
    rig_lead(g);
    RIG_AWAIT(g, rig_narrowed(g), 15000);
    rig_expect_owner(g, "ops", "rest");
    rig_expect_owner(g, "x", "a");
}

/* ---- others ---- */

/* A second original, whose Service is another one. */
static void put_second(struct rig *g, const char *service, const char *more)
{
    store_put_text(&g->store, RIG_VALIDATING, "",
                   "{\"metadata\":{\"name\":\"second\",\"labels\":{\"" RIG_PREFIX
                   "/route\":\"true\"}},\"webhooks\":[{\"name\":\"s.example.com\","
                   "\"clientConfig\":{\"service\":{\"namespace\":\"ops\",\"name\":\"%s\"}},"
                   "\"rules\":[{\"apiGroups\":[\"\"],\"apiVersions\":[\"v1\"],\"operations\":["
                   "\"CREATE\"],\"resources\":[\"configmaps\"],\"scope\":\"Namespaced\"}],"
                   "\"namespaceSelector\":" CONSTANT "%s}]}",
                   service, more);
}

static void what_is_not_known_of_one_does_not_stop_others(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    unsigned entries = rig_entries(g);
    put_second(g, "hook", "");
    RIG_AWAIT(g, rig_entries(g) > entries, 500);
    rig_pass(g, 500);
    /* It leads to a Service that cannot be read yet. */
    g->store.paused = "silent";
    put_second(g, "silent", "");
    rig_shard(g, "a", "\"x\"", "");
    rig_shard(g, "b", "\"z\",\"y\"", "");
    rig_pass(g, 1000);
    assert_string_equal(rig_owner(g, "y"), "b,a"); /* its entries stay as they are */
    g->store.paused = NULL;
    store_go_on(&g->store);
}

/* The API server does not take what a webhook says. */
static int find_unknown(const cJSON *patch)
{
    const cJSON *entry;
    int index = 0;
    cJSON_ArrayForEach(entry, field_get(patch, "webhooks"))
    {
        if (strcmp(field_text(entry, "sideEffects"), "Unknown") == 0) {
            return index;
        }
        index++;
    }
    return -1;
}

static void what_is_refused_of_one_does_not_stop_others(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    g->store.find_invalid = find_unknown;
    put_second(g, "hook", ",\"sideEffects\":\"Unknown\"");
    rig_pass(g, 3000);
    rig_shard(g, "a", "\"x\"", "");
    rig_shard(g, "b", "\"z\",\"y\"", "");
    rig_pass(g, 3000);
    rig_expect_owner(g, "y", "b");
    rig_expect_reason(g, "a", ROUTE_REFUSED);
    /* Another edit is tried. */
    put_second(g, "hook", ",\"sideEffects\":\"None\"");
    rig_pass(g, 6000);
    rig_expect_owner(g, "y", "b,b");
    rig_expect_reason(g, "a", ROUTE_ROUTED);
    /* What it has stays. */
    put_second(g, "hook", ",\"sideEffects\":\"Unknown\"");
    rig_pass(g, 3000);
    rig_expect_owner(g, "y", "b,b");
    rig_expect_reason(g, "a", ROUTE_REFUSED);
}

/* ---- other leaders ---- */

static void expect_asked(struct rig *g)
{
    static const char *const names[] = {"x", "y", "z", "other"};
    for (size_t i = 0; i < 4; i++) {
        const char *owner = rig_owner(g, names[i]);
        bool one = owner[0] != '\0' && strchr(owner, ',') == NULL;
        if (rig_narrowed(g) ? !one : owner[0] != '\0' && !one) {
            fail_msg("%s: \"%s\"", names[i], owner);
        }
    }
}

/* Each of them goes on where the last one was, whenever that ended. */
static void leaders_come_and_go(void **state)
{
    struct rig *g = *state;
    rig_operator(g);
    rig_label(g, true);
    g->on_turn = expect_asked;
    for (unsigned i = 0; i < 16; i++) {
        rig_lead(g);
        rig_pass(g, 300 + 790 * i % 9000);
        rig_retire(g);
    }
    rig_lead(g);
    rig_pass(g, 12000);
    assert_true(rig_narrowed(g));
    rig_expect_owner(g, "x", "a");
    rig_label(g, false);
    for (unsigned i = 0; i < 16; i++) {
        rig_retire(g);
        rig_lead(g);
        rig_pass(g, 300 + 790 * i % 9000);
    }
    assert_false(rig_narrowed(g));
    assert_int_equal(rig_entries(g), 0);
}

static void replace_process(struct rig *g)
{
    rig_retire(g);
    originals_free(g->originals);
    g->originals = rig_originals(g);
    rig_lead(g);
}

/* Another API server may not have seen yet that it was widened. */
static void a_new_process_takes_nothing_out_at_once(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    rig_label(g, false);
    RIG_AWAIT(g, !rig_narrowed(g), 500);
    replace_process(g);
    rig_pass(g, 4500);
    assert_true(rig_entries(g) > 0);
    RIG_AWAIT(g, rig_entries(g) == 0, 1500);
}

/* Whatever the last one was about to do, at the end nothing is left. */
static void ports_go_whoever_leads(void **state)
{
    for (unsigned ms = 0; ms < 12000; ms += 1500) {
        struct rig *g = *state;
        begin_routed(g);
        rig_label(g, false);
        rig_pass(g, ms);
        replace_process(g);
        RIG_AWAIT(g, rig_port(g, "a") == 0 && rig_entries(g) == 0, 15000);
        rig_pass(g, 500);
        const cJSON *routes = store_get(&g->store, RIG_VALIDATING, "", "cmesh-routes");
        const cJSON *annotations = field_get(field_get(routes, "metadata"), "annotations");
        assert_null(field_get(annotations, RIG_PREFIX "/route-services"));
        assert_int_equal(rig_teardown(state), 0);
        assert_int_equal(rig_setup(state), 0);
    }
}

/* ---- by chance ---- */

static void something_happens(struct rig *g)
{
    static const char *const as[] = {"\"x\"", "\"x\",\"y\"", "\"y\",\"z\"", "\"x\",\"y\",\"z\""};
    static const char *const bs[] = {"\"z\"", "\"z\",\"y\"", "\"x\"", "\"w\""};
    bool hold = store_chance(&g->store, 2) == 0;
    switch (store_chance(&g->store, 12)) {
    case 0:
        rig_label(g, store_chance(&g->store, 3) > 0);
        break;
    case 1:
        rig_select(g, NULL);
        break;
    case 2:
    case 3:
        rig_shard(g, "a", as[store_chance(&g->store, 4)],
                  hold ? ",\"duringHandover\":\"Hold\"" : "");
        break;
    case 4:
    case 5:
        rig_shard(g, "b", bs[store_chance(&g->store, 4)], "");
        break;
    case 6:
        rig_pod(g, "b", store_chance(&g->store, 3) > 0, true);
        break;
    case 7:
        rig_slices(g, store_chance(&g->store, 3) > 0, store_chance(&g->store, 3) > 0);
        break;
    case 8:
        g->shards[store_chance(&g->store, 2)].unconfirmed ^= true;
        routes_look(g->routes, "ops/a");
        break;
    case 9:
        rig_retire(g);
        rig_lead(g);
        break;
    case 10:
        store_fail(&g->store, "", hold ? 500 : 409, STORE_NONE, store_chance(&g->store, 4));
        break;
    default:
        rig_service(g, "{\"name\":\"webhook\",\"port\":443,\"targetPort\":9443}");
        break;
    }
}

/* A narrowed original always has one who is asked about each namespace; one that is not, one beside
 * it at most. */
static void whatever_happens_one_is_asked(void **state)
{
    struct rig *g = *state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        g->store.random = seed * 7919;
        rig_operator(g);
        rig_label(g, true);
        rig_lead(g);
        g->on_turn = expect_asked;
        for (unsigned i = 0; i < 60; i++) {
            something_happens(g);
            rig_pass(g, 20 * (1 + store_chance(&g->store, 60)));
        }
        g->store.failing.count = 0;
        g->shards[0].unconfirmed = g->shards[1].unconfirmed = false;
        g->on_turn = NULL;
        rig_operator(g); /* without the label: it may be contested */
        rig_stride(g, 400);
        rig_label(g, true);
        RIG_AWAIT(g, rig_narrowed(g), 40000);
        rig_pass(g, 8000);
        rig_expect_owner(g, "y", "a");
        rig_expect_owner(g, "z", "b");
        rig_expect_reason(g, "a", ROUTE_ROUTED);
        assert_int_equal(rig_teardown(state), 0);
        assert_int_equal(rig_setup(state), 0);
        g = *state;
    }
}

/* Also with a request under way. */
static void it_ends_at_any_time(void **state)
{
    struct rig *g = *state;
    rig_operator(g);
    rig_label(g, true);
    g->on_turn = expect_asked;
    for (unsigned turns = 1; turns < 60; turns++) {
        rig_lead(g);
        for (unsigned i = 0; i < turns; i++) {
            rig_turn(g);
        }
        rig_retire(g);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_whole_way),
        TEST(pods_of_two_families),
        TEST(the_way_back),
        TEST(who_asks_again_at_once_waits_as_well),
        TEST(its_owner_narrows_it_first),
        TEST(its_owner_narrows_it_after_the_end),
        TEST(narrow_ones_of_other_operators_are_left_alone),
        TEST(what_the_owner_changes_is_followed),
        TEST(a_namespace_moves_when_its_new_shard_has_confirmed),
        TEST(who_has_never_confirmed_is_not_said_to_be_asked),
        TEST(what_is_deleted_goes_at_once),
        TEST(a_service_that_is_deleted_takes_all_with_it),
        TEST(a_service_that_is_made_anew_keeps_its_numbers),
        TEST(another_service_is_asked_when_pods_stand_behind_it),
        TEST(a_name_that_leads_to_another_port_is_reported),
        TEST(ports_go_when_the_original_went_unseen),
        TEST(ports_of_another_installation_stay),
        TEST(who_may_not_narrow_says_so),
        TEST(who_may_not_write_ports_says_so),
        TEST(each_write_is_tried_again),
        TEST(what_is_reset_is_narrowed_again),
        TEST(who_resets_it_again_and_again_wins),
        TEST(ports_that_are_taken_off_come_back),
        TEST(pods_that_are_not_fit_are_named),
        TEST(a_shard_without_port_is_told),
        TEST(a_port_without_name_is_reported),
        TEST(what_cannot_be_routed_gets_no_ports),
        TEST(reviews_are_held_while_a_namespace_moves),
        TEST(what_nobody_wants_for_a_moment_is_held),
        TEST(any_pod_is_asked_about_their_own_namespace),
        TEST(what_is_not_known_of_one_does_not_stop_others),
        TEST(what_is_refused_of_one_does_not_stop_others),
        TEST(leaders_come_and_go),
        TEST(a_new_process_takes_nothing_out_at_once),
        TEST(ports_go_whoever_leads),
        TEST(whatever_happens_one_is_asked),
        TEST(it_ends_at_any_time),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
