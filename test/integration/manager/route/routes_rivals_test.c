/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller of routes against somebody who undoes what it writes: when it lets go, and that
 * the next leader knows.
 */
#include <stdio.h>

#include "base/log.h"
#include "routes_fixture.h"
#include "json/edit.h"
#include "json/field.h"

#define CONSTANT                                                                                   \
    "{\"matchExpressions\":[{\"key\":\"" RIG_PREFIX "/control\",\"operator\":\"DoesNotExist\"}]}"
#define CONTESTED RIG_PREFIX "/route-contested"

static void begin_routed(struct rig *g)
{
    rig_operator(g);
    rig_label(g, true);
    rig_lead(g);
    rig_stride(g, 13000);
    assert_true(rig_narrowed(g));
}

static void lead_anew(struct rig *g)
{
    rig_retire(g);
    originals_free(g->originals); /* another process */
    g->originals = rig_originals(g);
    rig_lead(g);
}

static const char *noted(struct rig *g)
{
    const cJSON *routes = store_get(&g->store, RIG_VALIDATING, "", "cmesh-routes");
    return field_text(field_get(field_get(routes, "metadata"), "annotations"), CONTESTED);
}

/* ---- the selectors of the original ---- */

static void the_next_leader_knows_what_is_contested(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    rig_contest(g);
    lead_anew(g); /* before the entries are gone */
    rig_stride(g, 8000);
    assert_int_equal(rig_entries(g), 0);
    rig_expect_reason(g, "a", ROUTE_CONTESTED);
    lead_anew(g); /* and after */
    rig_select(g, NULL);
    rig_stride(g, 40000);
    assert_false(rig_narrowed(g));
    assert_int_equal(rig_port(g, "a"), 0);
    rig_expect_reason(g, "a", ROUTE_CONTESTED);
    /* A change of the configuration that nobody saw ends it. */
    rig_retire(g);
    rig_select(g, "{\"matchLabels\":{\"team\":\"t\"}}");
    lead_anew(g);
    rig_stride(g, 20000);
    assert_true(rig_narrowed(g));
    rig_expect_reason(g, "a", ROUTE_ROUTED);
    assert_string_equal(noted(g), "");
}

static void the_label_ends_it_whoever_leads(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    rig_contest(g);
    rig_stride(g, 8000);
    lead_anew(g);
    rig_pass(g, 500);
    rig_label(g, false);
    rig_pass(g, 500);
    assert_string_equal(noted(g), "");
    rig_label(g, true);
    rig_stride(g, 20000);
    assert_true(rig_narrowed(g));
    rig_expect_reason(g, "a", ROUTE_ROUTED);
}

/* Also while nobody leads. */
static void one_that_is_deleted_is_not_contested(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    rig_contest(g);
    rig_stride(g, 8000);
    rig_retire(g);
    store_delete(&g->store, RIG_VALIDATING, "", "op");
    lead_anew(g);
    rig_pass(g, 500);
    assert_string_equal(noted(g), "");
}

static void what_is_noted_may_be_anything(void **state)
{
    static const char *const texts[] = {"[", "[]", "{\"op\":{}}", "{\"op\":-1e300}", "op"};
    struct rig *g = *state;
    begin_routed(g);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        cJSON *o = cJSON_Duplicate(store_get(&g->store, RIG_VALIDATING, "", "cmesh-routes"), true);
        struct edit ed = {.rc = 0};
        cJSON *metadata = cJSON_GetObjectItem(o, "metadata");
        edit_string(&ed, edit_object(&ed, metadata, "annotations"), CONTESTED, texts[i]);
        assert_int_equal(ed.rc, 0);
        rig_retire(g);
        store_put(&g->store, RIG_VALIDATING, "", o);
        lead_anew(g);
        rig_pass(g, 1000);
        assert_string_equal(noted(g), "");
        rig_expect_owner(g, "x", "a");
        rig_expect_reason(g, "a", ROUTE_ROUTED);
    }
}

/* Once a minute is ten times in ten minutes. */
static void once_a_minute_is_too_often(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    for (unsigned i = 0; i < 10; i++) {
        assert_true(rig_narrowed(g));
        rig_select(g, NULL);
        rig_pass(g, 1500);
        fake_clock_pass(&g->clock, 58500);
    }
    rig_expect_reason(g, "a", ROUTE_CONTESTED);
}

static void less_than_once_a_minute_is_borne(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    for (unsigned i = 0; i < 12; i++) {
        assert_true(rig_narrowed(g));
        rig_select(g, NULL);
        rig_pass(g, 1500);
        fake_clock_pass(&g->clock, 66500);
    }
    rig_expect_reason(g, "a", ROUTE_ROUTED);
}

/* ---- our own configuration ---- */

/* As a tool does that applies the manifest of the mesh. */
static void empty(struct rig *g)
{
    store_put_text(&g->store, RIG_VALIDATING, "", "{\"metadata\":{\"name\":\"cmesh-routes\"}}");
}

/* Of an entry. */
static void edit_bundle(struct rig *g)
{
    cJSON *o = cJSON_Duplicate(store_get(&g->store, RIG_VALIDATING, "", "cmesh-routes"), true);
    cJSON *entry = cJSON_GetArrayItem(cJSON_GetObjectItem(o, "webhooks"), 0);
    cJSON_ReplaceItemInObject(cJSON_GetObjectItem(entry, "clientConfig"), "caBundle",
                              cJSON_CreateString("c29tZWJvZHk="));
    store_put(&g->store, RIG_VALIDATING, "", o);
}

static void undo_until_contested(struct rig *g, void (*undo)(struct rig *g))
{
    for (unsigned i = 0; i < 10; i++) {
        rig_expect_reason(g, "a", ROUTE_ROUTED);
        undo(g);
        RIG_AWAIT(g, rig_entries(g) > 0, 500);
        rig_pass(g, 300);
        assert_string_not_equal(rig_owner(g, "x"), "");
    }
    rig_expect_reason(g, "a", ROUTE_CONTESTED);
}

static void who_undoes_our_entries_is_reported(void **state)
{
    void (*const undo[])(struct rig * g) = {empty, edit_bundle};
    for (size_t i = 0; i < sizeof undo / sizeof *undo; i++) {
        struct rig *g = *state;
        begin_routed(g);
        undo_until_contested(g, undo[i]);
        assert_false(rig_narrowed(g)); /* so that nobody needs them */
        rig_pass(g, 3000);
        rig_expect_owner(g, "x", "a");
        rig_pass(g, 3000);
        assert_int_equal(rig_entries(g), 0);
        for (unsigned k = 0; k < 4; k++) {
            empty(g);
            rig_pass(g, 1000);
        }
        assert_int_equal(rig_entries(g), 0);
        assert_false(rig_narrowed(g));
        rig_expect_reason(g, "a", ROUTE_CONTESTED);
        rig_label(g, false);
        rig_pass(g, 500);
        rig_label(g, true);
        rig_stride(g, 20000);
        assert_true(rig_narrowed(g));
        rig_expect_owner(g, "x", "a");
        rig_expect_reason(g, "a", ROUTE_ROUTED);
        assert_int_equal(rig_teardown(state), 0);
        assert_int_equal(rig_setup(state), 0);
    }
}

/* Nobody else is asked, so they come back for as long as it is narrow. */
static void entries_of_what_its_owner_narrowed_always_come_back(void **state)
{
    struct rig *g = *state;
    rig_operator(g);
    rig_label(g, true);
    rig_select(g, CONSTANT);
    rig_lead(g);
    rig_stride(g, 8000);
    undo_until_contested(g, empty);
    for (unsigned i = 0; i < 10; i++) {
        empty(g);
        RIG_AWAIT(g, rig_entries(g) > 0, 500);
        rig_pass(g, 300);
        assert_string_not_equal(rig_owner(g, "x"), "");
        rig_expect_reason(g, "a", ROUTE_CONTESTED);
    }
}

/* What we change ourselves is no undoing, whatever becomes of the answers. */
static void our_own_changes_are_not_counted(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    for (unsigned i = 0; i < 12; i++) {
        static const enum store_fault faults[] = {STORE_NONE, STORE_CUT, STORE_CUT_DONE};
        store_fail(&g->store, RIG_VALIDATING "/cmesh-routes", 409, faults[i % 3], i % 2);
        rig_shard(g, "a", i % 2 == 0 ? "\"x\"" : "\"x\",\"y\"", "");
        rig_shard(g, "b", i % 2 == 0 ? "\"z\",\"y\"" : "\"z\"", "");
        rig_stride(g, 6000);
        rig_expect_owner(g, "y", i % 2 == 0 ? "b" : "a");
        rig_expect_reason(g, "a", ROUTE_ROUTED);
    }
}

/* ---- two installations ---- */

static void label_by_another(struct rig *g, bool on)
{
    cJSON *o = cJSON_Duplicate(store_get(&g->store, RIG_VALIDATING, "", "op"), true);
    cJSON *labels = cJSON_GetObjectItem(cJSON_GetObjectItem(o, "metadata"), "labels");
    cJSON_DeleteItemFromObject(labels, "mesh.example.com/route");
    if (on) {
        cJSON_AddStringToObject(labels, "mesh.example.com/route", "true");
    }
    store_put(&g->store, RIG_VALIDATING, "", o);
}

static void what_two_installations_ask_for_is_left_alone(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    label_by_another(g, true);
    RIG_AWAIT(g, !rig_narrowed(g), 2000);
    rig_pass(g, 200);
    rig_expect_reason(g, "a", ROUTE_CONTESTED);
    assert_non_null(strstr(rig_report(g, "a")->verdict.text, "mesh.example.com/route"));
    rig_stride(g, 6000);
    assert_int_equal(rig_entries(g), 0);
    label_by_another(g, false);
    rig_stride(g, 20000);
    assert_true(rig_narrowed(g));
    rig_expect_reason(g, "a", ROUTE_ROUTED);
}

/* Those of another installation, which has the same names for them; the caller frees. */
static cJSON *make_foreign(const cJSON *routes)
{
    static const char own[] = RIG_PREFIX "/control";
    static const char other[] = "mesh.example.com/control";
    char *text = cJSON_PrintUnformatted(field_get(routes, "webhooks"));
    for (char *at = text; (at = strstr(at, own)) != NULL;) {
        (void)memcpy(at, other, sizeof other - 1);
        (void)memmove(at + sizeof other - 1, at + sizeof own - 1, strlen(at + sizeof own - 1) + 1);
    }
    cJSON *o = cJSON_Parse("{\"metadata\":{\"name\":\"cmesh-routes\"}}");
    cJSON_AddItemToObject(o, "webhooks", cJSON_Parse(text));
    cJSON_free(text);
    return o;
}

static void entries_of_another_installation_are_not_ours(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    cJSON *routes = make_foreign(store_get(&g->store, RIG_VALIDATING, "", "cmesh-routes"));
    rig_retire(g);
    store_put(&g->store, RIG_VALIDATING, "", routes);
    store_delete(&g->store, RIG_VALIDATING, "", "op");
    rig_operator(g);
    unsigned writes = g->store.writes;
    lead_anew(g);
    rig_stride(g, 10000);
    assert_int_equal(g->store.writes, writes);
}

/* ---- what the API server does not take ---- */

static int find_unknown(const cJSON *patch)
{
    const cJSON *entry = cJSON_GetArrayItem(field_get(patch, "webhooks"), 0);
    return strcmp(field_text(entry, "sideEffects"), "Unknown") == 0 ? 0 : -1;
}

/* With or without the label. */
static void who_is_narrow_and_refused_learns_that_nobody_is_asked(void **state)
{
    struct rig *g = *state;
    rig_operator(g);
    g->store.find_invalid = find_unknown;
    rig_original(g, "", ",\"sideEffects\":\"Unknown\"");
    rig_select(g, CONSTANT);
    rig_lead(g);
    for (unsigned i = 0; i < 2; i++) {
        rig_stride(g, 8000);
        assert_int_equal(rig_entries(g), 0);
        rig_expect_reason(g, "a", ROUTE_REFUSED);
        assert_non_null(strstr(rig_report(g, "a")->verdict.text, "nobody is asked"));
        rig_label(g, true);
    }
    rig_select(g, NULL);
    rig_stride(g, 2000);
    rig_expect_reason(g, "a", ROUTE_REFUSED);
    assert_null(strstr(rig_report(g, "a")->verdict.text, "nobody is asked"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_next_leader_knows_what_is_contested),
        TEST(the_label_ends_it_whoever_leads),
        TEST(one_that_is_deleted_is_not_contested),
        TEST(what_is_noted_may_be_anything),
        TEST(once_a_minute_is_too_often),
        TEST(less_than_once_a_minute_is_borne),
        TEST(who_undoes_our_entries_is_reported),
        TEST(entries_of_what_its_owner_narrowed_always_come_back),
        TEST(our_own_changes_are_not_counted),
        TEST(what_two_installations_ask_for_is_left_alone),
        TEST(entries_of_another_installation_are_not_ours),
        TEST(who_is_narrow_and_refused_learns_that_nobody_is_asked),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
