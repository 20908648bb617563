/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "traffic_document.h"

enum { DRAWS = 100000 };

/* Tuesday, 2026-07-14T09:30:00Z */
#define TUESDAY INT64_C(1784021400)

static void put_in_force(struct faults *all, const char *spec)
{
    struct traffic *t = spec != NULL ? traffic_document(1, spec) : NULL;
    struct fault_set *set = NULL;
    if (t != NULL) {
        assert_int_equal(faults_prepare(all, t, &set), 0);
    }
    faults_put_in_force(all, set, t);
    faults_activate(all, NULL, 0);
    traffic_unref(t);
}

/* For a request that meets all rules. */
static void draw(struct faults *all, int64_t now, struct fault_drawn *out)
{
    struct traffic_found found = {.count = all->now->count};
    for (size_t i = 0; i < found.count; i++) {
        found.index[i] = (uint16_t)i;
    }
    faults_draw(all, &found, now, out);
}

#define PODS TRAFFIC_MATCH("pods", "list")
#define RULE(name, rest) TRAFFIC_FAULT(name, PODS, rest)
#define ONE(rest) TRAFFIC_SPEC("", TRAFFIC_FAULTS("slow", RULE("a", rest)))

struct counts {
    unsigned delayed;
    unsigned aborted;
};

static struct counts draw_often(uint64_t seed, const char *spec)
{
    struct faults all;
    struct counts c = {0};
    faults_init(&all, seed);
    put_in_force(&all, spec);
    for (int i = 0; i < DRAWS; i++) {
        struct fault_drawn d;
        draw(&all, TUESDAY, &d);
        c.delayed += d.delay_ms > 0 ? 1 : 0;
        c.aborted += d.abort != NULL ? 1 : 0;
        fault_drawn_release(&d);
    }
    faults_deinit(&all);
    return c;
}

static void test_so_many_in_a_hundred(void **state)
{
    (void)state;
    struct counts c = draw_often(1, ONE(TRAFFIC_DELAY(10, 10) "," TRAFFIC_ABORT(503, 1)));
    assert_in_range(c.delayed, 9500, 10500);
    assert_in_range(c.aborted, 850, 1150);
    struct counts again = draw_often(1, ONE(TRAFFIC_DELAY(10, 10) "," TRAFFIC_ABORT(503, 1)));
    assert_int_equal(again.delayed, c.delayed); /* by the seed */
    c = draw_often(2, ONE(TRAFFIC_DELAY(10, 0) "," TRAFFIC_ABORT(503, 100)));
    assert_int_equal(c.delayed, 0);
    assert_int_equal(c.aborted, DRAWS);
    c = draw_often(3, ONE(TRAFFIC_DELAY(10, 100) "," TRAFFIC_ABORT(503, 0)));
    assert_int_equal(c.delayed, DRAWS);
    assert_int_equal(c.aborted, 0);
}

static void test_delays_add_up_and_the_first_abort_wins(void **state)
{
    struct faults all;
    struct fault_drawn d;
    struct buf text = BUF_INIT(1024);
    (void)state;
    faults_init(&all, 7);
    put_in_force(&all, TRAFFIC_SPEC("", TRAFFIC_FAULTS("b", RULE("b", TRAFFIC_ABORT(500, 100) //
                                                                 "," TRAFFIC_DELAY(5, 100)))  //
                                    "," TRAFFIC_FAULTS("a", RULE("x", TRAFFIC_DELAY(30, 100)) //
                                                       "," RULE("y", TRAFFIC_ABORT(503, 100)))));
    draw(&all, TUESDAY, &d);
    assert_int_equal(d.delay_ms, 35);
    assert_int_equal(fault_drawn_delay(&d), 35);
    assert_ptr_equal(fault_drawn_abort(&d), all.now->at[1]);
    fault_message(d.abort, &text);
    assert_string_equal(buf_cstr(&text), "faultinjection \"ns/a\" rule \"y\": answered with 503");
    buf_reset(&text);
    fault_drawn_count_delay(&d);
    struct control_fault row;
    fault_describe(all.now->at[0], &row);
    assert_string_equal(row.policy, "a");
    assert_string_equal(row.uid, "uid-a");
    assert_string_equal(row.rule, "x");
    assert_int_equal(row.delayed, 1);
    fault_describe(all.now->at[1], &row);
    assert_int_equal(row.delayed, 0);
    fault_drawn_release(&d);
    fault_drawn_release(&d);
    faults_deinit(&all);
}

static void test_a_bound_on_all_delays(void **state)
{
    struct faults all;
    struct fault_drawn d;
    (void)state;
    faults_init(&all, 7);
    put_in_force(
        &all, TRAFFIC_SPEC("", TRAFFIC_FAULTS("a", RULE("x", TRAFFIC_DELAY(400000, 100)) "," RULE(
                                                       "y", TRAFFIC_DELAY(400000, 100)))));
    draw(&all, TUESDAY, &d);
    assert_int_equal(d.delay_ms, 600000);
    assert_int_equal(fault_drawn_delay(&d), 600000);
    fault_drawn_release(&d);
    faults_deinit(&all);
}

static void test_only_at_its_time(void **state)
{
    struct faults all;
    struct fault_drawn d;
    (void)state;
    faults_init(&all, 7);
    put_in_force(&all, ONE(TRAFFIC_ABORT(500, 100) ",\"effectiveTime\":{\"daysOfWeek\":[2]}"));
    draw(&all, TUESDAY, &d);
    assert_non_null(d.abort);
    fault_drawn_release(&d);
    draw(&all, TUESDAY + 24 * 3600, &d);
    assert_null(d.abort);
    assert_null(d.set);
    fault_drawn_release(&d);
    faults_deinit(&all);
}

static void test_what_is_removed_ends(void **state)
{
    struct faults all;
    struct fault_drawn d;
    (void)state;
    faults_init(&all, 7);
    put_in_force(
        &all,
        TRAFFIC_SPEC("", TRAFFIC_FAULTS("a", RULE("x", TRAFFIC_DELAY(30, 100))) "," TRAFFIC_FAULTS(
                             "b", RULE("x", TRAFFIC_DELAY(5, 100) "," TRAFFIC_ABORT(500, 100)))));
    draw(&all, TUESDAY, &d);
    fault_drawn_count_delay(&d);
    assert_int_equal(fault_drawn_delay(&d), 35);
    put_in_force(
        &all,
        TRAFFIC_SPEC(
            "", TRAFFIC_FAULTS("b", RULE("x", TRAFFIC_DELAY(5, 100) "," TRAFFIC_ABORT(500, 100)))));
    assert_int_equal(fault_drawn_delay(&d), 5);
    assert_non_null(fault_drawn_abort(&d));
    assert_int_equal(all.now->at[0]->delayed, 1); /* its count goes on */
    faults_activate(&all, NULL, 0);
    put_in_force(&all, "{\"faults\":[{\"name\":\"b\",\"uid\":\"uid-b\",\"spec\":{\"selector\":{"
                       "\"matchLabels\":{\"app\":\"other\"}},"
                       "\"httpFault\":[" RULE("x", TRAFFIC_ABORT(500, 100)) "]}}]}");
    assert_int_equal(fault_drawn_delay(&d), 0); /* the pod is not selected any more */
    assert_null(fault_drawn_abort(&d));
    put_in_force(&all, NULL);
    assert_int_equal(fault_drawn_delay(&d), 0);
    fault_drawn_release(&d);
    faults_deinit(&all);
}

/* As in objects that were copied by hand. */
static void test_two_policies_of_one_uid(void **state)
{
    static const char two[] =
        "{\"faults\":[{\"name\":\"one\",\"uid\":\"same\",\"spec\":{\"selector\":{},"
        "\"httpFault\":[" RULE(
            "x", TRAFFIC_DELAY(30, 100)) "]}},{\"name\":\"two\",\"uid\":"
                                         "\"same\",\"spec\":{\"selector\":{},\"httpFault\":[" RULE(
                                             "x", TRAFFIC_DELAY(5, 100)) "]}}]}";
    struct faults all;
    struct fault_drawn d;
    (void)state;
    faults_init(&all, 7);
    for (int i = 0; i < 3; i++) {
        put_in_force(&all, two);
        assert_ptr_not_equal(all.now->at[0], all.now->at[1]);
        draw(&all, TUESDAY, &d);
        assert_int_equal(fault_drawn_delay(&d), 35);
        fault_drawn_release(&d);
    }
    put_in_force(&all, NULL);
    put_in_force(&all, ONE(TRAFFIC_DELAY(10, 100)));
    faults_deinit(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_so_many_in_a_hundred),
        cmocka_unit_test(test_delays_add_up_and_the_first_abort_wins),
        cmocka_unit_test(test_a_bound_on_all_delays),
        cmocka_unit_test(test_only_at_its_time),
        cmocka_unit_test(test_what_is_removed_ends),
        cmocka_unit_test(test_two_policies_of_one_uid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
