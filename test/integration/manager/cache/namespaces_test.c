/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/namespaces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    return store_setup(state, sizeof(struct user));
}

static int teardown(void **state)
{
    struct user *u = *state;
    namespaces_free(u->namespaces);
    return store_teardown(state);
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
    u->namespaces = namespaces_new(u->store.api.loop, &o);
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
    u->namespaces = namespaces_new(u->store.api.loop, &o);
    assert_false(namespaces_has(u->namespaces, "one"));
    store_settle(&u->store);
    assert_true(namespaces_has(u->namespaces, "one"));
    assert_false(namespaces_has(u->namespaces, "two"));
    assert_int_equal(count(u), 1);
    put(u, "one"); /* without the label */
    store_settle(&u->store);
    assert_false(namespaces_has(u->namespaces, "one"));
}

/* ---- with labels ---- */

/* Writes down what it is told. */
struct told {
    struct namespaces_listener listener;
    const struct selector *red;
    char log[512];
};

static void on_label(void *data, const struct namespace_entry *before,
                     const struct namespace_entry *after)
{
    struct told *t = data;
    const struct namespace_entry *e = after != NULL ? after : before;
    size_t len = strlen(t->log);
    if (e == NULL) {
        (void)snprintf(t->log + len, sizeof t->log - len, "all ");
        return;
    }
    (void)snprintf(t->log + len, sizeof t->log - len, "%s:%s>%s ", namespace_entry_name(e),
                   before == NULL                            ? "none"
                   : namespace_entry_matches(before, t->red) ? "red"
                                                             : "other",
                   after == NULL                            ? "none"
                   : namespace_entry_matches(after, t->red) ? "red"
                                                            : "other");
}

static void expect_told(struct user *u, struct told *t, const char *want)
{
    store_settle(&u->store);
    for (int i = 0; i < 5000 && strlen(t->log) < strlen(want); i++) {
        run_for(u->store.api.loop, 1);
    }
    assert_string_equal(t->log, want);
    t->log[0] = '\0';
}

static void put_labelled(struct user *u, const char *name, const char *team)
{
    store_put_text(&u->store, "namespaces", "",
                   "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"team\":\"%s\"}}}", name, team);
}

static void labels_are_told(void **state)
{
    struct user *u = *state;
    struct selector *red = selector_parse(SLICE("team=red"), NULL);
    struct told t = {.listener = {.on_change = on_label, .data = &t}, .red = red};
    struct namespaces_options o = {.client = u->store.api.client, .labels = true};
    put_labelled(u, "a", "red");
    u->namespaces = namespaces_new(u->store.api.loop, &o);
    namespaces_listen(u->namespaces, &t.listener);
    assert_string_equal(namespaces_set(u->namespaces)->missing, "the namespaces are not known yet");
    expect_told(u, &t, "all ");
    assert_null(namespaces_set(u->namespaces)->missing);
    put_labelled(u, "b", "red");
    expect_told(u, &t, "b:none>red ");
    put_labelled(u, "a", "blue");
    expect_told(u, &t, "a:red>other ");
    put_labelled(u, "a", "blue");
    expect_told(u, &t, "");
    store_delete(&u->store, "namespaces", "", "b");
    expect_told(u, &t, "b:red>none ");
    u->store.silent = true;
    put_labelled(u, "a", "red");
    put_labelled(u, "c", "red");
    store_expire_watches(&u->store, "namespaces");
    expect_told(u, &t, "a:other>red c:none>red ");
    store_delete(&u->store, "namespaces", "", "c");
    store_expire_watches(&u->store, "namespaces");
    expect_told(u, &t, "c:red>none ");
    namespaces_unlisten(&t.listener);
    put_labelled(u, "a", "blue");
    u->store.silent = false;
    store_go_on(&u->store);
    expect_told(u, &t, "");
    selector_free(red);
}

static void what_keeps_them(void **state)
{
    struct user *u = *state;
    struct namespaces_options o = {.client = u->store.api.client, .effect = "x", .labels = true};
    u->store.refused.part = "namespaces";
    u->store.refused.status = 403;
    u->namespaces = namespaces_new(u->store.api.loop, &o);
    assert_null(namespaces_error(u->namespaces));
    for (int i = 0; i < 5000 && namespaces_error(u->namespaces) == NULL; i++) {
        run_for(u->store.api.loop, 1);
    }
    assert_non_null(namespaces_error(u->namespaces));
    assert_non_null(strstr(namespaces_set(u->namespaces)->missing, "not known yet: "));
    u->store.refused.part = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_change_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(none_is_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(those_of_a_selector, setup, teardown),
        cmocka_unit_test_setup_teardown(labels_are_told, setup, teardown),
        cmocka_unit_test_setup_teardown(what_keeps_them, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
