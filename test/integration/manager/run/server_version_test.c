/* SPDX-License-Identifier: Apache-2.0 */
#include "run/server_version.h"

#include <stdlib.h>

#include "base/log.h"
#include "scripted_api.h"

struct user {
    struct scripted_api api;
    struct server_version *version;
    unsigned changes;
};

static void on_version(void *data, const char *major, const char *minor)
{
    struct user *u = data;
    u->changes++;
    assert_string_equal(server_version_major(u->version), major);
    assert_string_equal(server_version_minor(u->version), minor);
}

static int setup(void **state)
{
    struct net_loop *l = NULL;
    struct user *u = calloc(1, sizeof *u);
    *state = u;
    if (u == NULL || loop_setup((void **)&l) != 0 || !api_open(&u->api, l)) {
        return -1;
    }
    u->version = server_version_new(l, u->api.client, &u->api.clock.clock, on_version, u);
    return u->version == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    struct user *u = *state;
    struct net_loop *l = u->api.loop;
    server_version_free(u->version);
    server_version_free(NULL);
    api_close(&u->api);
    free(u);
    return loop_free(l);
}

/* The next request comes after exactly so long. */
static void answer(struct user *u, uint64_t ms, unsigned status, const char *body)
{
    if (ms > 0) {
        fake_clock_pass(&u->api.clock, ms - 1);
        run_for(u->api.loop, 10);
        assert_true(list_empty(&u->api.requests));
        fake_clock_pass(&u->api.clock, 1);
    } else {
        fake_clock_pass(&u->api.clock, 0);
    }
    api_answer(api_expect(&u->api, "GET", "/version"), status, NULL, body);
    run_for(u->api.loop, 10);
}

static void test_it_is_asked_for_until_it_answers(void **state)
{
    struct user *u = *state;
    assert_false(server_version_known(u->version));
    answer(u, 0, 403, "");
    assert_non_null(strstr(server_version_error(u->version), "403"));
    answer(u, 2000, 200, "{\"major\":\"1\"}");
    assert_non_null(strstr(server_version_error(u->version), "has none"));
    answer(u, 2000, 200, "{\"major\":\"1\",\"minor\":\"\"}");
    assert_false(server_version_known(u->version));
    assert_int_equal(u->changes, 0);
    answer(u, 2000, 200, "{\"major\":\"1\",\"minor\":\"28+\"}");
    assert_true(server_version_known(u->version));
    assert_null(server_version_error(u->version));
    assert_int_equal(u->changes, 1);
}

static void test_an_upgrade_is_noticed(void **state)
{
    struct user *u = *state;
    answer(u, 0, 200, "{\"major\":\"1\",\"minor\":\"28\"}");
    answer(u, 600000, 200, "{\"major\":\"1\",\"minor\":\"28\"}");
    assert_int_equal(u->changes, 1);
    answer(u, 600000, 503, "");
    assert_string_equal(server_version_minor(u->version), "28"); /* until it says another thing */
    assert_non_null(server_version_error(u->version));
    answer(u, 600000, 200, "{\"major\":\"1\",\"minor\":\"29\"}");
    assert_int_equal(u->changes, 2);
    assert_string_equal(server_version_minor(u->version), "29");
    assert_null(server_version_error(u->version));
}

static void test_freed_while_it_asks(void **state)
{
    struct user *u = *state;
    fake_clock_pass(&u->api.clock, 0);
    (void)api_expect(&u->api, "GET", "/version");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_it_is_asked_for_until_it_answers),
        TEST(test_an_upgrade_is_noticed),
        TEST(test_freed_while_it_asks),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
