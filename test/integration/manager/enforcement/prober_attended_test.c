/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods with traffic policies: asked often enough to hear of what opens, not more often than all of
 * them together may be, and not when they do not answer.
 */
#include <stdio.h>

#include "policy/pod_traffic.h"
#include "prober_fixture.h"

#define POD "demo/pod-0"

static void say_traffic(struct sidecar *s, const char *checksum, const char *state,
                        unsigned refused)
{
    char text[2048];
    char document[512] = "\"inForce\":false";
    if (checksum[0] != '\0') {
        (void)snprintf(document, sizeof document,
                       "\"inForce\":true,\"shard\":{\"namespace\":\"demo\",\"name\":\"a\"},"
                       "\"generation\":1,\"checksum\":\"%s\",\"since\":1700000000",
                       checksum);
    }
    (void)snprintf(text, sizeof text,
                   "{\"program\":\"localproxy\",\"rules\":{\"inForce\":true,\"shard\":{"
                   "\"namespace\":\"demo\",\"name\":\"a\"},\"generation\":1,\"checksum\":\"" SUM
                   "\",\"since\":1700000000,\"settled\":true},\"traffic\":{\"reads\":\"cmesh/v1\","
                   "%s,\"breakers\":[{\"policy\":\"guard\",\"uid\":\"u\",\"rule\":\"r\","
                   "\"state\":\"%s\",\"refused\":%u}]}}",
                   document, state, refused);
    say(s, 200, text);
}

static unsigned asked_in(struct fixture *f, const struct sidecar *s, uint64_t ms)
{
    unsigned before = s->asked;
    pass(f, ms);
    return s->asked - before;
}

static void asked_more_often(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = begin(f, NULL);
    assert_in_range(asked_in(f, s, 15000), 1, 1);
    prober_attend(f->prober, POD, true);
    prober_attend(f->prober, POD, true);
    assert_int_equal(prober_stats(f->prober)->attended, 1);
    assert_in_range(asked_in(f, s, 15000), 9, 11);
    prober_attend(f->prober, POD, false);
    assert_int_equal(prober_stats(f->prober)->attended, 0);
    (void)asked_in(f, s, 1500); /* it was due already */
    assert_in_range(asked_in(f, s, 15000), 0, 1);
    prober_attend(f->prober, POD, true);
    prober_forget(f->prober, POD);
    assert_int_equal(prober_stats(f->prober)->attended, 0);
    prober_attend(f->prober, POD, true);
    assert_int_equal(prober_stats(f->prober)->attended, 0);
}

/* It gets no more questions than any other. */
static void not_while_it_is_silent(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = begin(f, NULL);
    prober_attend(f->prober, POD, true);
    s->behaviour = CUTS;
    pass(f, 10000); /* it is asked every second at first */
    assert_int_equal(result(f)->state, PROBE_SILENT);
    pass(f, 150000);
    unsigned before = s->asked;
    pass(f, 60000);
    assert_in_range(s->asked - before, 3, 5);
    s->behaviour = ANSWERS;
    pass(f, 16000);
    assert_int_equal(result(f)->state, PROBE_ANSWERED);
    assert_in_range(asked_in(f, s, 15000), 9, 11);
}

static void news_of_breakers_only(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = begin(f, NULL);
    run_for(f->loop, 5);
    unsigned changes = f->changes;
    unsigned before = f->traffic_changes;
    assert_null(result(f)->traffic);
    prober_attend(f->prober, POD, true);
    say_traffic(s, "", "Closed", 0);
    pass(f, 1600);
    assert_int_equal(f->traffic_changes, before + 1);
    assert_non_null(result(f)->traffic);
    say_traffic(s, "", "Closed", 7); /* counts are no news */
    pass(f, 1600);
    assert_int_equal(f->traffic_changes, before + 1);
    say_traffic(s, "", "Opened", 8);
    pass(f, 1600);
    assert_int_equal(f->traffic_changes, before + 2);
    assert_int_equal(result(f)->traffic->breakers[0].state, CONTROL_BREAKER_OPENED);
    assert_int_equal(f->changes, changes); /* none of it is about rules */
    enforce(s, "a", 1, 1700000000);
    pass(f, 1600);
    assert_null(result(f)->traffic); /* an older localproxy is there now */
    assert_int_equal(f->traffic_changes, before + 3);
}

/* Asked often at first, ever more rarely, until it says so. */
static void what_is_expected(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = begin(f, NULL);
    prober_attend(f->prober, POD, true);
    say_traffic(s, "", "Closed", 0);
    pass(f, 1600);
    prober_expect_traffic(f->prober, POD, SUM);
    prober_expect_traffic(f->prober, POD, SUM);
    prober_expect_traffic(f->prober, "demo/nobody", SUM);
    assert_in_range(asked_in(f, s, 1000), 8, 11);
    assert_in_range(asked_in(f, s, 9000), 12, 35);
    say_traffic(s, SUM, "Closed", 0);
    pass(f, 1600);
    assert_true(pod_traffic_enforces(result(f)->traffic, SUM));
    assert_in_range(asked_in(f, s, 15000), 9, 11);
    prober_expect_traffic(f->prober, POD, ""); /* no document any more */
    assert_in_range(asked_in(f, s, 1000), 8, 11);
    say_traffic(s, "", "Closed", 0);
    pass(f, 1600);
    assert_in_range(asked_in(f, s, 15000), 9, 11);
}

/* One that will never say it is asked as any other. */
static void nothing_is_expected_of_an_old_one(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = begin(f, NULL);
    prober_attend(f->prober, POD, true);
    prober_expect_traffic(f->prober, POD, SUM);
    assert_in_range(asked_in(f, s, 15000), 9, 11);
}

/* Pods that nobody answers for: 450 of them, so one of them every three seconds. */
static void many(void **state)
{
    enum { MANY = 449 };
    struct fixture *f = *state;
    struct sidecar *s = begin(f, NULL);
    for (unsigned i = 0; i < MANY; i++) {
        char key[32];
        assert_int_equal(watch_in(f, "other", i, "127.0.0.1:1"), 0);
        (void)snprintf(key, sizeof key, "other/pod-%u", i);
        prober_attend(f->prober, key, true);
    }
    prober_attend(f->prober, POD, true);
    pass(f, 3000);
    assert_in_range(asked_in(f, s, 15000), 4, 6);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, prober_setup, prober_teardown)
    const struct CMUnitTest tests[] = {
        TEST(asked_more_often),
        TEST(not_while_it_is_silent),
        TEST(news_of_breakers_only),
        TEST(what_is_expected),
        TEST(many),
        TEST(nothing_is_expected_of_an_old_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
