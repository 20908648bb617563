/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases by which proxies tell: which are taken for that, what is kept of them, and when it goes.
 */
#include "enforcement/status_leases.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "control/status.h"
#include "storing_api.h"

struct user {
    struct storing_api store;
    struct status_leases *leases;
    unsigned told;
    char pod[128];
    char document[CONTROL_LEASE_DOCUMENT_MAX + 1];
};

static void on_told(void *data, const char *pod, struct slice document)
{
    struct user *u = data;
    u->told++;
    (void)snprintf(u->pod, sizeof u->pod, "%s", pod);
    (void)snprintf(u->document, sizeof u->document, "%.*s", (int)document.len, document.ptr);
}

static int setup(void **state)
{
    return store_setup(state, sizeof(struct user));
}

static int teardown(void **state)
{
    struct user *u = *state;
    status_leases_free(u->leases);
    return store_teardown(state);
}

static void begin(struct user *u, const char *ns)
{
    struct status_leases_options o = {.client = u->store.api.client,
                                      .namespace = ns,
                                      .ops = &u->store.ops,
                                      .on_told = on_told,
                                      .data = u};
    u->leases = status_leases_new(u->store.api.loop, &o);
    assert_non_null(u->leases);
    store_settle(&u->store);
}

static void put_as(struct user *u, const char *ns, const char *name, const char *component,
                   const char *document)
{
    store_put_text(&u->store, "leases", ns,
                   "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"app.kubernetes.io/part-of\":"
                   "\"cmesh\",\"app.kubernetes.io/component\":\"%s\"},\"annotations\":{"
                   "\"cmesh.kusionstack.io/status\":\"%s\"}}}",
                   name, component, document);
    store_settle(&u->store);
}

static void put(struct user *u, const char *pod, const char *document)
{
    char name[128];
    (void)snprintf(name, sizeof name, "cmesh-%s", pod);
    put_as(u, "n", name, "localproxy", document);
}

static void expect_told(struct user *u, unsigned told, const char *pod, const char *document)
{
    assert_int_equal(u->told, told);
    assert_string_equal(u->pod, pod);
    assert_string_equal(u->document, document);
}

/* What stands there of the pod. NULL: nothing. */
static void expect_known(struct user *u, const char *pod, const char *document)
{
    unsigned before = u->told;
    status_leases_tell(u->leases, pod);
    if (document == NULL) {
        assert_int_equal(u->told, before);
    } else {
        expect_told(u, before + 1, pod, document);
    }
    u->told = before;
}

static void told_when_written_and_kept(void **state)
{
    struct user *u = *state;
    put(u, "a-0", "one");
    begin(u, NULL);
    expect_told(u, 1, "n/a-0", "one");
    put(u, "a-1", "two");
    expect_told(u, 2, "n/a-1", "two");
    put(u, "a-0", "three");
    expect_told(u, 3, "n/a-0", "three");
    put(u, "a-0", "three"); /* renewed */
    expect_told(u, 4, "n/a-0", "three");
    assert_int_equal(status_leases_count(u->leases), 2);
    expect_known(u, "n/a-0", "three");
    expect_known(u, "n/a-1", "two");
    expect_known(u, "m/a-0", NULL);
    store_delete(&u->store, "leases", "n", "cmesh-a-0");
    store_settle(&u->store);
    expect_known(u, "n/a-0", NULL);
    assert_int_equal(status_leases_count(u->leases), 1);
    assert_int_equal(u->told, 4);
}

static void gone_while_nobody_watched(void **state)
{
    struct user *u = *state;
    put(u, "a-0", "one");
    put(u, "a-1", "two");
    begin(u, NULL);
    u->store.silent = true;
    store_delete(&u->store, "leases", "n", "cmesh-a-0");
    put(u, "a-2", "three");
    store_compact(&u->store, 0);
    u->store.silent = false;
    store_end_watches(&u->store);
    store_settle(&u->store);
    expect_known(u, "n/a-0", NULL);
    expect_known(u, "n/a-1", "two");
    expect_known(u, "n/a-2", "three");
}

/* Who tells nothing new counts as silent after a while, and may have answered otherwise since. */
static void listed_again_is_not_told_again(void **state)
{
    struct user *u = *state;
    put(u, "a-0", "one");
    put(u, "a-1", "two");
    begin(u, NULL);
    assert_int_equal(u->told, 2);
    u->store.silent = true;
    put(u, "a-1", "three");
    store_compact(&u->store, 0);
    u->store.silent = false;
    store_end_watches(&u->store);
    store_settle(&u->store);
    expect_told(u, 3, "n/a-1", "three");
    expect_known(u, "n/a-0", "one");
}

/* Locks of the operator, of other components, and those that say too much. */
static void other_leases_are_nothing(void **state)
{
    struct user *u = *state;
    char large[CONTROL_LEASE_DOCUMENT_MAX + 2];
    begin(u, NULL);
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    put_as(u, "n", "operator-leader---blue", "localproxy", "one");
    put_as(u, "n", "cmesh-manager", "manager", "one");
    put(u, "a-0", large);
    put(u, "a-1", "");
    assert_int_equal(u->told, 0);
    large[CONTROL_LEASE_DOCUMENT_MAX] = '\0';
    put(u, "a-0", large);
    assert_int_equal(u->told, 1);
    /* What it said is not true any more, and cannot be read. */
    put(u, "a-0", "");
    expect_known(u, "n/a-0", NULL);
    assert_int_equal(status_leases_count(u->leases), 0);
}

static void of_one_namespace(void **state)
{
    struct user *u = *state;
    put(u, "a-0", "one");
    put_as(u, "m", "cmesh-a-0", "localproxy", "two");
    begin(u, "m");
    expect_told(u, 1, "m/a-0", "two");
    expect_known(u, "n/a-0", NULL);
}

static void put_many(struct user *u, const char *ns, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        store_put_text(&u->store, "leases", ns,
                       "{\"metadata\":{\"name\":\"cmesh-%u\",\"labels\":{"
                       "\"app.kubernetes.io/part-of\":\"cmesh\",\"app.kubernetes.io/component\":"
                       "\"localproxy\"},\"annotations\":{\"cmesh.kusionstack.io/status\":\"x\"}}}",
                       i);
    }
}

static void await_told(struct user *u, unsigned count)
{
    for (int i = 0; i < 1000 && u->told < count; i++) {
        store_turn(&u->store, 10);
    }
    assert_int_equal(u->told, count);
}

/* More are told, but not kept. */
static void not_more_than_so_many_are_kept(void **state)
{
    enum { SPACES = STATUS_LEASES_MAX / STATUS_LEASES_OF_NAMESPACE_MAX + 1 };
    enum { EACH = STATUS_LEASES_MAX / SPACES + 10 };
    struct user *u = *state;
    for (unsigned i = 0; i < SPACES; i++) {
        char ns[16];
        (void)snprintf(ns, sizeof ns, "n%u", i);
        put_many(u, ns, EACH);
    }
    begin(u, NULL);
    await_told(u, SPACES * EACH);
    assert_int_equal(status_leases_count(u->leases), STATUS_LEASES_MAX);
}

/* Those of one namespace leave room for the others, and room comes back. */
static void one_namespace_does_not_take_all(void **state)
{
    struct user *u = *state;
    put_many(u, "m", STATUS_LEASES_OF_NAMESPACE_MAX + 10);
    put(u, "a-0", "one");
    begin(u, NULL);
    await_told(u, STATUS_LEASES_OF_NAMESPACE_MAX + 11);
    assert_int_equal(status_leases_count(u->leases), STATUS_LEASES_OF_NAMESPACE_MAX + 1);
    expect_known(u, "n/a-0", "one");
    for (unsigned i = 0; i < STATUS_LEASES_OF_NAMESPACE_MAX + 10; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "cmesh-%u", i);
        store_delete(&u->store, "leases", "m", name);
    }
    store_settle(&u->store);
    assert_int_equal(status_leases_count(u->leases), 1);
    put_many(u, "m", 1);
    store_settle(&u->store);
    assert_int_equal(status_leases_count(u->leases), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(told_when_written_and_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(gone_while_nobody_watched, setup, teardown),
        cmocka_unit_test_setup_teardown(listed_again_is_not_told_again, setup, teardown),
        cmocka_unit_test_setup_teardown(other_leases_are_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(of_one_namespace, setup, teardown),
        cmocka_unit_test_setup_teardown(not_more_than_so_many_are_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(one_namespace_does_not_take_all, setup, teardown),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
