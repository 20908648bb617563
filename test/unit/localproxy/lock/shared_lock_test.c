/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/shared_lock.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "fake_clock.h"

struct world {
    struct fake_clock clock;
    struct health health;
    struct shared_lock peering;
};

static int setup(void **state)
{
    static struct world w;
    w = (struct world){0};
    fake_clock_init(&w.clock, NULL);
    health_init(&w.health, &w.clock.clock);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    health_deinit(&w->health);
    return 0;
}

#define CLUSTER "/apis/kopf.dev/v1/clusterkopfpeerings"
#define IN_NS "/apis/kopf.dev/v1/namespaces/ns/kopfpeerings"

/* What the shard "ops-1.blue" is answered; *message holds it until the next call. */
static int ask(struct world *w, const char *method, const char *target, const char **message)
{
    static struct err e;
    struct request_info ri;
    e = (struct err)ERR_INIT;
    assert_int_equal(request_info_parse(&ri, slice_str(method), slice_str(target), NULL), 0);
    int rc = shared_lock_peering(&w->peering, &w->health, "ops-1.blue", &ri, w->clock.now, &e);
    request_info_deinit(&ri);
    *message = e.msg;
    return rc;
}

static void names_that_shards_share(void **state)
{
    struct world *w = *state;
    static const char *const shared[] = {
        CLUSTER "/default",
        CLUSTER "/default/status",
        CLUSTER "/default-blue",
        CLUSTER "/defaultops-1.blue",
        CLUSTER "/-ops-1.blue2",
        CLUSTER "/ops-1.blu",
        IN_NS "/default",
        "/apis/zalando.org/v1/clusterkopfpeerings/default",
        "/apis/zalando.org/v1/namespaces/ns/kopfpeerings/default",
    };
    static const char *const methods[] = {"PATCH", "PUT"};
    for (size_t i = 0; i < ARRAY_LEN(shared) * ARRAY_LEN(methods); i++) {
        const char *target = shared[i / ARRAY_LEN(methods)];
        const char *message;
        if (ask(w, methods[i % ARRAY_LEN(methods)], target, &message) != -EACCES ||
            strstr(message, "--standalone") == NULL) {
            fail_msg("%s: %s", target, message);
        }
    }
    assert_int_equal(health_count(&w->health, HEALTH_LOCK), 1);
}

static void what_is_let_through(void **state)
{
    struct world *w = *state;
    static const char *const requests[][2] = {
        {"PATCH", CLUSTER "/default-ops-1.blue"},
        {"PATCH", CLUSTER "/default.ops-1.blue/status"},
        {"PUT", CLUSTER "/ops-1.blue"},
        {"PATCH", IN_NS "/default-ops-1.blue"},
        {"GET", CLUSTER "/default"},
        {"GET", CLUSTER},
        {"GET", CLUSTER "?watch=true"},
        {"POST", CLUSTER},
        {"DELETE", CLUSTER "/default"},
        {"PATCH", "/apis/example.com/v1/clusterkopfpeerings/default"},
        {"PATCH", "/apis/kopf.dev/v1/others/default"},
        {"PATCH", "/api/v1/namespaces/ns/configmaps/default"},
    };
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        const char *message;
        if (ask(w, requests[i][0], requests[i][1], &message) != 0) {
            fail_msg("%s %s: %s", requests[i][0], requests[i][1], message);
        }
    }
    assert_int_equal(health_count(&w->health, HEALTH_LOCK), 0);
}

static void the_remedy_names_what_to_write(void **state)
{
    struct world *w = *state;
    const char *message;
    assert_int_equal(ask(w, "PATCH", IN_NS "/default", &message), -EACCES);
    assert_non_null(strstr(message, "KopfPeering \"default\" in namespace \"ns\""));
    assert_non_null(strstr(message, "--peering=default-ops-1.blue"));
}

/* An operator may have one in each of many namespaces. */
static void one_of_many_is_reported(void **state)
{
    struct world *w = *state;
    char target[128];
    const char *message;
    for (unsigned i = 0; i < 100; i++) {
        (void)snprintf(target, sizeof target, "/apis/kopf.dev/v1/namespaces/n%u/kopfpeerings/x", i);
        assert_int_equal(ask(w, "PATCH", target, &message), -EACCES);
    }
    assert_int_equal(health_count(&w->health, HEALTH_LOCK), 1);
    fake_clock_jump(&w->clock, HEALTH_ASKED_MS);
    assert_int_equal(ask(w, "PATCH", target, &message), -EACCES);
    assert_int_equal(health_count(&w->health, HEALTH_LOCK), 1);
    assert_int_equal(w->health.raised[HEALTH_LOCK], 2);
    shared_lock_forget(&w->peering, &w->health);
    assert_int_equal(health_count(&w->health, HEALTH_LOCK), 0);
    assert_int_equal(ask(w, "PATCH", CLUSTER "/x", &message), -EACCES);
    assert_int_equal(health_count(&w->health, HEALTH_LOCK), 1);
}

/* Names are as long as a path lets them be. */
static void long_names(void **state)
{
    struct world *w = *state;
    char target[1200] = CLUSTER "/";
    const char *message;
    memset(target + strlen(target), 'a', 1000);
    assert_int_equal(ask(w, "PATCH", target, &message), -EACCES);
    assert_non_null(strstr(message, "--standalone"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(names_that_shards_share),
        TEST(what_is_let_through),
        TEST(the_remedy_names_what_to_write),
        TEST(one_of_many_is_reported),
        TEST(long_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
