/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/namespaces.h"

#include <stdlib.h>

#include "storing_api.h"

struct user {
    struct storing_api store;
    struct namespaces *namespaces;
    unsigned changes;
};

static void on_change(void *data)
{
    struct user *u = data;
    u->changes++;
}

static void put(struct user *u, const char *name)
{
    store_put_text(&u->store, "namespaces", "", "{\"metadata\":{\"name\":\"%s\"}}", name);
}

static int setup(void **state)
{
    struct net_loop *l = NULL;
    struct user *u = calloc(1, sizeof *u);
    *state = u;
    return u != NULL && loop_setup((void **)&l) == 0 && store_open(&u->store, l) ? 0 : -1;
}

static int teardown(void **state)
{
    struct user *u = *state;
    struct net_loop *l = u->store.api.loop;
    namespaces_free(u->namespaces);
    store_close(&u->store);
    free(u);
    return loop_free(l);
}

static void begin(struct user *u, bool system)
{
    static const char *const names[] = {"a", "b", "kube-system", "kube-public", "own"};
    struct namespaces_options o = {.client = u->store.api.client,
                                   .own = "own",
                                   .system = system,
                                   .on_change = on_change,
                                   .data = u};
    for (size_t i = 0; i < 5; i++) {
        put(u, names[i]);
    }
    u->namespaces = namespaces_new(u->store.api.loop, &o, NULL);
    assert_non_null(u->namespaces);
    assert_false(namespaces_synced(u->namespaces));
    store_settle(&u->store);
    assert_true(namespaces_synced(u->namespaces));
    assert_int_equal(u->changes, 1); /* one for the whole list */
}

static size_t count(const struct user *u)
{
    size_t n = 0;
    for (const char *ns = NULL; (ns = namespaces_next(u->namespaces, ns)) != NULL;) {
        n++;
    }
    return n;
}

static void each_change_is_told(void **state)
{
    struct user *u = *state;
    begin(u, false);
    assert_int_equal(count(u), 2);
    put(u, "c");
    store_settle(&u->store);
    assert_int_equal(count(u), 3);
    assert_int_equal(u->changes, 2);
    put(u, "c"); /* it is known */
    put(u, "kube-node-lease");
    store_settle(&u->store);
    assert_int_equal(u->changes, 2);
    store_delete(&u->store, "namespaces", "", "a");
    store_settle(&u->store);
    assert_int_equal(count(u), 2);
    assert_int_equal(u->changes, 3);
}

static void none_is_left_out(void **state)
{
    struct user *u = *state;
    begin(u, true);
    assert_int_equal(count(u), 5);
}

static void those_of_a_selector(void **state)
{
    struct user *u = *state;
    struct namespaces_options o = {.client = u->store.api.client,
                                   .system = true,
                                   .label_selector = "a in (x)",
                                   .on_change = on_change,
                                   .data = u};
    store_put_text(&u->store, "namespaces", "",
                   "{\"metadata\":{\"name\":\"one\",\"labels\":{\"a\":\"x\"}}}");
    put(u, "two");
    u->namespaces = namespaces_new(u->store.api.loop, &o, NULL);
    assert_false(namespaces_has(u->namespaces, "one"));
    store_settle(&u->store);
    assert_true(namespaces_has(u->namespaces, "one"));
    assert_false(namespaces_has(u->namespaces, "two"));
    assert_int_equal(count(u), 1);
    put(u, "one"); /* without the label */
    store_settle(&u->store);
    assert_false(namespaces_has(u->namespaces, "one"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_change_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(none_is_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(those_of_a_selector, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
