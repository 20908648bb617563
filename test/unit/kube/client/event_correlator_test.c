/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/event_correlator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "alloc_sweep.h"

enum { MAX = 12, TEN_MINUTES = 600 };

/* What a user keeps with each. */
struct mine {
    struct correlated_event is;
    int number;
};

static const struct event_object thing = {
    .api_version = "a/v1", .kind = "Thing", .namespace = "ns", .name = "x", .uid = "u"};

static struct event_correlator correlator;
static char forgotten[64];

static void on_forget(void *data, struct correlated_event *v)
{
    assert_ptr_equal(data, &correlator);
    (void)snprintf(forgotten, sizeof forgotten, "%s", v->reason);
}

static int setup(void **state)
{
    (void)state;
    forgotten[0] = '\0';
    event_correlator_init(&correlator, MAX, sizeof(struct mine), on_forget, &correlator);
    return 0;
}

static int teardown(void **state)
{
    struct correlated_event *v;
    (void)state;
    while ((v = event_correlator_any(&correlator)) != NULL) {
        event_correlator_forget(&correlator, v);
    }
    assert_int_equal(correlator.count, 0);
    return 0;
}

static struct correlated_event *count(const char *reason, const char *message, int64_t now)
{
    return event_correlator_count(&correlator, &thing, EVENT_NORMAL, reason, message, now);
}

static void repeats_are_counted(void **state)
{
    (void)state;
    struct correlated_event *v = count("R", "m", 100);
    assert_int_equal(v->count, 1);
    assert_int_equal(v->first, 100);
    assert_string_equal(v->about->name, "x");
    assert_string_equal(v->about->version, "");
    assert_string_equal(v->reason, "R");
    assert_string_equal(v->message, "m");
    assert_false(v->combined);
    ((struct mine *)v)->number = 7;
    assert_ptr_equal(count("R", "m", 160), v);
    assert_int_equal(((struct mine *)v)->number, 7);
    assert_int_equal(v->count, 2);
    assert_int_equal(v->first, 100);
    assert_int_equal(v->last, 160);
    assert_int_equal(correlator.count, 1);
}

static void what_differs_is_another(void **state)
{
    (void)state;
    struct event_object other = thing;
    struct correlated_event *seen[] = {
        count("R", "m", 0),
        event_correlator_count(&correlator, &thing, EVENT_WARNING, "R", "m", 0),
        count("S", "m", 0),
        count("R", "n", 0),
        NULL,
        NULL,
        NULL,
        NULL,
    };
    other.name = "y";
    seen[4] = event_correlator_count(&correlator, &other, EVENT_NORMAL, "R", "m", 0);
    other.kind = "Other";
    seen[5] = event_correlator_count(&correlator, &other, EVENT_NORMAL, "R", "m", 0);
    other.uid = "v";
    seen[6] = event_correlator_count(&correlator, &other, EVENT_NORMAL, "R", "m", 0);
    other.namespace = NULL;
    seen[7] = event_correlator_count(&correlator, &other, EVENT_NORMAL, "R", "m", 0);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(seen[i]->count, 1);
    }
    other.version = "8"; /* the same object, changed */
    assert_ptr_equal(event_correlator_count(&correlator, &other, EVENT_NORMAL, "R", "m", 0),
                     seen[7]);
}

static void similar_ones_are_combined(void **state)
{
    char message[16];
    (void)state;
    for (int i = 0; i < 10; i++) {
        (void)snprintf(message, sizeof message, "try %d", i);
        assert_false(count("R", message, i)->combined);
    }
    struct correlated_event *v = count("R", "try 10", 10);
    assert_true(v->combined);
    assert_string_equal(v->message, "(combined from similar events): try 10");
    assert_ptr_equal(count("R", "try 11", 11), v);
    assert_string_equal(v->message, "(combined from similar events): try 11");
    assert_int_equal(v->count, 2);
    assert_int_equal(v->first, 10);
    /* Those that are known are counted by themselves, and other reasons. */
    assert_int_equal(count("R", "try 3", 12)->count, 2);
    assert_false(count("S", "try 12", 12)->combined);
    /* While ten are younger than ten minutes: the first one is not any more. */
    assert_true(count("R", "try 13", TEN_MINUTES - 1)->combined);
    assert_false(count("R", "try 13", TEN_MINUTES)->combined);
}

static void the_oldest_are_forgotten(void **state)
{
    char reason[16];
    (void)state;
    for (int i = 0; i < MAX; i++) {
        struct event_object about = thing;
        (void)snprintf(reason, sizeof reason, "R%d", i);
        about.name = i % 2 == 0 ? "even" : "odd";
        assert_non_null(event_correlator_count(&correlator, &about, EVENT_NORMAL, reason, "m", 0));
        assert_string_equal(forgotten, "");
    }
    /* Of the object of which nothing was recorded for longest. */
    assert_non_null(count("R", "m", 0));
    assert_string_equal(forgotten, "R0");
    assert_int_equal(correlator.count, MAX);
    for (int i = 0; i < MAX - 1; i++) {
        (void)snprintf(reason, sizeof reason, "S%d", i);
        assert_non_null(count(reason, "m", 0));
    }
    assert_string_equal(forgotten, "R11");
    /* Of one object the first. */
    assert_non_null(count("T", "m", 0));
    assert_string_equal(forgotten, "R");
    assert_int_equal(correlator.count, MAX);
}

static void an_object_has_its_share(void **state)
{
    bool all = true;
    struct event_object other = thing;
    (void)state;
    struct correlated_event *v = count("R", "m", 0);
    for (int i = 0; i < 25; i++) {
        assert_int_equal(event_correlator_admit(&correlator, v, false, 1000, &all), 0);
    }
    assert_int_equal(event_correlator_admit(&correlator, v, false, 1000, &all), 300000);
    assert_false(all);
    assert_int_equal(event_correlator_admit(&correlator, count("S", "m", 0), false, 1000, &all),
                     300000);
    /* A retry is not paid for, and others have a share of their own. */
    assert_int_equal(event_correlator_admit(&correlator, v, true, 1000, &all), 0);
    other.name = "y";
    v = event_correlator_count(&correlator, &other, EVENT_NORMAL, "R", "m", 0);
    assert_int_equal(event_correlator_admit(&correlator, v, false, 1000, &all), 0);
}

static void all_have_a_share(void **state)
{
    bool all = true;
    (void)state;
    struct correlated_event *v = count("R", "m", 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(event_correlator_admit(&correlator, v, true, 1000, &all), 0);
    }
    assert_int_equal(event_correlator_admit(&correlator, v, true, 1000, &all), 50);
    assert_true(all);
    /* The object's share is left to it: it has 25 later on. */
    for (int i = 0; i < 50; i++) {
        assert_int_equal(event_correlator_admit(&correlator, v, false, 1000, &all), 50);
    }
    for (int i = 0; i < 25; i++) {
        assert_int_equal(event_correlator_admit(&correlator, v, false, 10000, &all), 0);
    }
    assert_int_not_equal(event_correlator_admit(&correlator, v, false, 10000, &all), 0);
    assert_false(all);
}

static bool play(void *data)
{
    char message[16];
    bool well = true;
    setup(data);
    for (int i = 0; i < 14; i++) {
        (void)snprintf(message, sizeof message, "m%d", i);
        struct correlated_event *v = count("R", message, 0);
        well = well && v != NULL;
        assert_true(v == NULL || v->count > 0);
    }
    teardown(data);
    return well;
}

static void without_memory(void **state)
{
    (void)state;
    assert_true(sweep_allocations(play, NULL) > 20);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(repeats_are_counted),        TEST(what_differs_is_another),
        TEST(similar_ones_are_combined),  TEST(the_oldest_are_forgotten),
        TEST(an_object_has_its_share),    TEST(all_have_a_share),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
