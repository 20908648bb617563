/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces that a selector does not select, of an API server that keeps them.
 */
#include "cache/excluded_namespaces.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/log.h"
#include "kube/selector.h"
#include "storing_api.h"

#define BASE                                                                                       \
    "{\"matchExpressions\":[{\"key\":\"name\",\"operator\":\"NotIn\",\"values\":[\"kube-system\"," \
    "\"own\"]},{\"key\":\"webhooks\",\"operator\":\"NotIn\",\"values\":[\"disabled\"]}]}"

struct user {
    struct storing_api store;
    struct excluded_namespaces *left_out;
    unsigned changes;
};

static void on_change(void *data)
{
    struct user *u = data;
    u->changes++;
}

static void put(struct user *u, const char *name, const char *labels)
{
    store_put_text(&u->store, "namespaces", "", "{\"metadata\":{\"name\":\"%s\",\"labels\":{%s}}}",
                   name, labels);
}

/* `a` has nothing of interest, `off` is switched off, `kube-system` and `own` are by their names.
 */
static void put_all(struct user *u)
{
    put(u, "a", "\"name\":\"a\"");
    put(u, "off", "\"name\":\"off\",\"webhooks\":\"disabled\"");
    put(u, "kube-system", "\"name\":\"kube-system\"");
    put(u, "own", "\"name\":\"own\",\"webhooks\":\"disabled\",\"team\":\"x\"");
}

static bool begin(struct user *u, struct net_loop *l)
{
    if (!store_open(&u->store, l)) {
        return false;
    }
    const struct excluded_namespaces_options o = {
        .client = u->store.api.client, .on_change = on_change, .data = u, .ops = &u->store.ops};
    put_all(u);
    u->left_out = excluded_namespaces_new(l, &o);
    return u->left_out != NULL;
}

static int setup(void **state)
{
    struct net_loop *l = NULL;
    struct user *u = calloc(1, sizeof *u);
    *state = u;
    return u != NULL && loop_setup((void **)&l) == 0 && begin(u, l) ? 0 : -1;
}

static int teardown(void **state)
{
    struct user *u = *state;
    struct net_loop *l = u->store.api.loop;
    excluded_namespaces_free(u->left_out);
    excluded_namespaces_free(NULL);
    store_close(&u->store);
    free(u);
    return loop_free(l);
}

static int set(struct user *u, const char *text)
{
    cJSON *selector = cJSON_Parse(text);
    assert_non_null(selector);
    int rc = excluded_namespaces_set(u->left_out, selector);
    cJSON_Delete(selector);
    store_settle(&u->store);
    return rc;
}

/* Those of put_all that are left out, in their order. */
static void expect(struct user *u, bool a, bool off, bool system, bool own)
{
    assert_int_equal(excluded_namespaces_has(u->left_out, "a"), a);
    assert_int_equal(excluded_namespaces_has(u->left_out, "off"), off);
    assert_int_equal(excluded_namespaces_has(u->left_out, "kube-system"), system);
    assert_int_equal(excluded_namespaces_has(u->left_out, "own"), own);
}

static void test_of_the_manifest(void **state)
{
    struct user *u = *state;
    expect(u, false, false, false, false); /* nothing is known yet */
    assert_int_equal(set(u, BASE), 1);
    expect(u, false, true, true, true);
    assert_int_equal(u->changes, 2);
    assert_int_equal(set(u, BASE), 0);
    assert_int_equal(u->changes, 2);
    excluded_namespaces_forget(u->left_out);
    expect(u, false, false, false, false);
    assert_int_equal(set(u, BASE), 1);
    expect(u, false, true, true, true);
}

static void test_only_few_are_read(void **state)
{
    struct user *u = *state;
    for (int i = 0; i < 50; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "n%d", i);
        put(u, name, "\"x\":\"y\"");
    }
    assert_int_equal(set(u, BASE), 1);
    assert_int_equal(u->store.lists, 2);
    assert_false(excluded_namespaces_has(u->left_out, "n7"));
}

static void test_namespaces_change(void **state)
{
    struct user *u = *state;
    assert_int_equal(set(u, BASE), 1);
    put(u, "a", "\"webhooks\":\"disabled\"");
    put(u, "off", "\"webhooks\":\"enabled\"");
    put(u, "new", "\"webhooks\":\"disabled\"");
    store_settle(&u->store);
    expect(u, true, false, true, true);
    assert_true(excluded_namespaces_has(u->left_out, "new"));
    assert_int_equal(u->changes, 5);
    store_delete(&u->store, "namespaces", "", "new");
    store_settle(&u->store);
    assert_false(excluded_namespaces_has(u->left_out, "new"));
}

static void test_any_selector(void **state)
{
    static const struct {
        const char *selector;
        bool left_out[4];
    } rows[] = {
        {"{}", {false, false, false, false}},
        {"null", {true, true, true, true}}, /* it matches nothing */
        {"{\"matchLabels\":{\"team\":\"x\"}}", {true, true, true, false}},
        {"{\"matchLabels\":{\"team\":\"y\"}}", {true, true, true, true}},
        {"{\"matchExpressions\":[{\"key\":\"webhooks\",\"operator\":\"Exists\"}]}",
         {true, false, true, false}},
        {"{\"matchExpressions\":[{\"key\":\"webhooks\",\"operator\":\"DoesNotExist\"}]}",
         {false, true, false, true}},
        {"{\"matchExpressions\":[{\"key\":\"name\",\"operator\":\"In\",\"values\":[\"a\",\"own\"]}]"
         "}",
         {false, true, true, false}},
        {"{\"matchLabels\":{\"webhooks\":\"disabled\"},\"matchExpressions\":[{\"key\":\"team\","
         "\"operator\":\"NotIn\",\"values\":[\"x\"]}]}",
         {true, false, true, true}},
        {"{\"matchExpressions\":[{\"key\":\"name\",\"operator\":\"In\",\"values\":[]}]}",
         {true, true, true, true}},
    };
    struct user *u = *state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const bool *want = rows[i].left_out;
        assert_int_equal(set(u, rows[i].selector), 1);
        expect(u, want[0], want[1], want[2], want[3]);
    }
    assert_int_equal(excluded_namespaces_set(u->left_out, NULL),
                     1); /* there is none: all are looked at */
    store_settle(&u->store);
    expect(u, false, false, false, false);
}

static void test_what_cannot_be_followed(void **state)
{
    struct user *u = *state;
    char many[2048] = "{\"matchLabels\":{";
    for (int i = 0; i <= LEFT_OUT_REQUIREMENTS_MAX; i++) {
        size_t len = strlen(many);
        (void)snprintf(many + len, sizeof many - len, "%s\"k%d\":\"v\"", i > 0 ? "," : "", i);
    }
    strcat(many, "}}");
    assert_int_equal(set(u, BASE), 1);
    assert_int_equal(set(u, many), -E2BIG);
    expect(u, false, false, false, false);
    assert_int_equal(set(u, BASE), 1);
    assert_int_equal(set(u, "{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Gt\","
                            "\"values\":[\"5\"]}]}"),
                     -EINVAL);
    expect(u, false, false, false, false);
    assert_int_equal(set(u, "5"), -EINVAL);
}

static void test_freed_at_any_moment(void **state)
{
    struct user *u = *state;
    cJSON *selector = cJSON_Parse(BASE);
    for (uint64_t ms = 0; ms < 10; ms++) {
        assert_int_equal(excluded_namespaces_set(u->left_out, selector), 1);
        store_turn(&u->store, ms);
        excluded_namespaces_forget(u->left_out);
    }
    assert_int_equal(excluded_namespaces_set(u->left_out, selector), 1);
    cJSON_Delete(selector);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_of_the_manifest),         TEST(test_only_few_are_read),
        TEST(test_namespaces_change),       TEST(test_any_selector),
        TEST(test_what_cannot_be_followed), TEST(test_freed_at_any_moment),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
