/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/client_trust.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "certs.h"
#include "loop_fixture.h"
#include "temp_dir.h"

enum { CHECK_MS = 20 };

struct scene {
    struct net_loop *loop;
    struct temp_dir folder;
    char path[256];
    struct certs_pair first;
    struct certs_pair second;
    struct client_trust *trust;
    bool changed;
};

static void put(struct scene *t, const char *text)
{
    assert_int_equal(file_write_atomic(t->path, text, strlen(text), 0600, NULL), 0);
}

static int setup(void **state)
{
    static struct scene t;
    memset(&t, 0, sizeof t);
    certs_make_ca("first", &t.first);
    certs_make_ca("second", &t.second);
    temp_dir_init(&t.folder);
    temp_dir_path(&t.folder, "ca.crt", t.path);
    *state = &t;
    return loop_setup((void **)&t.loop);
}

static int teardown(void **state)
{
    struct scene *t = *state;
    client_trust_free(t->trust);
    temp_dir_deinit(&t->folder);
    certs_free(&t->first);
    certs_free(&t->second);
    return loop_teardown((void **)&t->loop);
}

static void on_change(void *data)
{
    struct scene *t = data;
    t->changed = true;
}

static struct client_trust *open_trust(struct scene *t, struct err *e)
{
    const struct client_trust_options o = {
        .path = t->path, .name = "api", .check_ms = CHECK_MS, .on_change = on_change, .data = t};
    return client_trust_new(t->loop, &o, e);
}

static void expect_trusted(const struct scene *t, const char *text)
{
    assert_true(slice_eq(client_trust_ca(t->trust), slice_str(text)));
}

static void test_another_file_is_taken(void **state)
{
    struct scene *t = *state;
    put(t, t->first.cert);
    t->trust = open_trust(t, NULL);
    assert_non_null(t->trust);
    expect_trusted(t, t->first.cert);
    assert_string_equal(client_trust_name(t->trust), "api");
    put(t, t->second.cert);
    run_until(t->loop, &t->changed);
    expect_trusted(t, t->second.cert);
}

static void test_a_file_of_no_use_changes_nothing(void **state)
{
    struct scene *t = *state;
    put(t, t->first.cert);
    t->trust = open_trust(t, NULL);
    assert_non_null(t->trust);
    put(t, "nothing of use");
    run_for(t->loop, 5L * CHECK_MS);
    put(t, "");
    run_for(t->loop, 5L * CHECK_MS);
    (void)unlink(t->path);
    run_for(t->loop, 5L * CHECK_MS);
    assert_false(t->changed);
    expect_trusted(t, t->first.cert);
    put(t, t->second.cert);
    run_until(t->loop, &t->changed);
    expect_trusted(t, t->second.cert);
}

static void test_what_is_wrong_at_the_start(void **state)
{
    struct scene *t = *state;
    struct err e = ERR_INIT;
    assert_null(open_trust(t, &e));
    assert_int_equal(e.code, -ENOENT);
    put(t, "");
    assert_null(open_trust(t, &e));
    assert_int_equal(e.code, -EINVAL);
    put(t, t->first.key);
    assert_null(open_trust(t, &e));
    assert_non_null(strstr(e.msg, "--webhook-client-ca"));
}

static void test_nobody_is_asked(void **state)
{
    (void)state;
    assert_int_equal(client_trust_ca(NULL).len, 0);
    assert_null(client_trust_name(NULL));
    client_trust_free(NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_another_file_is_taken),
        TEST(test_a_file_of_no_use_changes_nothing),
        TEST(test_what_is_wrong_at_the_start),
        cmocka_unit_test(test_nobody_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
