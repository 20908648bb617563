/* SPDX-License-Identifier: Apache-2.0 */
#include "net/blocking.h"

#include <pthread.h>
#include <sys/resource.h>

#include "loop_fixture.h"

struct job {
    pthread_t worked_by;
    int niceness;
    bool worked;
    bool done;
    bool dropped;
};

static void work(void *data)
{
    struct job *j = data;
    j->worked_by = pthread_self();
    j->niceness = getpriority(PRIO_PROCESS, 0);
    j->worked = true;
}

static void on_done(void *data)
{
    struct job *j = data;
    j->done = true;
}

static void on_drop(void *data)
{
    struct job *j = data;
    j->dropped = true;
}

static const struct net_blocking_ops ops = {work, on_done, on_drop};

static void works_elsewhere_and_ends_here(void **state)
{
    struct job j = {.done = false};
    assert_non_null(net_blocking_start(*state, &ops, &j));
    assert_false(j.done);
    run_until(*state, &j.done);
    assert_true(j.worked && !j.dropped);
    assert_false(pthread_equal(j.worked_by, pthread_self()));
}

/* Wherever the loop is: neither before it, nor further behind each time. */
static void comes_after_the_loop(void **state)
{
    enum { LOWEST = 19 };
    int ours = getpriority(PRIO_PROCESS, 0);
    int lower = ours + 5 < LOWEST ? ours + 5 : LOWEST;
    for (int i = 0; i < 10; i++) {
        struct job j = {.done = false};
        assert_non_null(net_blocking_start(*state, &ops, &j));
        run_until(*state, &j.done);
        assert_int_equal(j.niceness, lower);
    }
    assert_int_equal(getpriority(PRIO_PROCESS, 0), ours);
}

static void what_is_dropped_ends_all_the_same(void **state)
{
    struct job j = {.done = false};
    struct net_blocking *b = net_blocking_start(*state, &ops, &j);
    assert_non_null(b);
    net_blocking_drop(b);
    net_blocking_drop(NULL);
    assert_false(j.dropped);
    run_until(*state, &j.dropped);
    assert_true(j.worked && !j.done);
}

static void the_loop_waits_for_it_at_the_end(void **state)
{
    struct job j = {.done = false};
    struct net_blocking *b = net_blocking_start(*state, &ops, &j);
    assert_non_null(b);
    net_blocking_drop(b);
    run_to_end(*state);
    assert_true(j.dropped);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, loop_setup, loop_teardown)
    const struct CMUnitTest tests[] = {
        TEST(works_elsewhere_and_ends_here),
        TEST(comes_after_the_loop),
        TEST(what_is_dropped_ends_all_the_same),
        TEST(the_loop_waits_for_it_at_the_end),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
