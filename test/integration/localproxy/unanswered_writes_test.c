/* SPDX-License-Identifier: Apache-2.0 */
/* Writes that nobody answered, and for how long they count. */
#include <stdlib.h>
#include <string.h>

#include "alloc_sweep.h"
#include "fake_clock.h"
#include "guard/unanswered_writes.h"
#include "loop_fixture.h"

struct fixture {
    struct fake_clock clock;
    struct unanswered_writes writes;
    unsigned settled;
};

static void on_settled(void *data)
{
    struct fixture *f = data;
    f->settled++;
}

static void begin(struct fixture *f, struct net_loop *l)
{
    memset(f, 0, sizeof *f);
    fake_clock_init(&f->clock, l);
    assert_int_equal(unanswered_writes_init(&f->writes, l, &f->clock.clock, on_settled, f), 0);
}

static void end(struct fixture *f)
{
    unanswered_writes_deinit(&f->writes);
}

static void add_sent(struct fixture *f, const char *ns, uint64_t sent_ms, bool lost)
{
    struct request_attributes a;
    struct request_attributes seen = {.verb = VERB_CREATE, .namespace = slice_str(ns)};
    long paused = alloc_sweep_pause();
    assert_int_equal(request_attributes_keep(&a, &seen), 0);
    alloc_sweep_resume(paused);
    unanswered_writes_add(&f->writes, &a, sent_ms, lost);
}

static void add(struct fixture *f, const char *ns, bool lost)
{
    add_sent(f, ns, f->clock.now, lost);
}

static void add_as_many_as_are_told_apart(struct fixture *f)
{
    for (unsigned i = 0; i < UNANSWERED_WRITES_MAX; i++) {
        add(f, "a", false);
    }
}

static bool is_in(void *data, const struct request_attributes *a)
{
    return slice_eq(a->namespace, slice_str(data));
}

static void judge(struct fixture *f, const char *ns)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%s", ns);
    unanswered_writes_judge(&f->writes, is_in, text);
}

static void each_has_its_time(void **state)
{
    struct fixture f;
    begin(&f, *state);
    add(&f, "a", true);
    fake_clock_pass(&f.clock, 1000);
    add(&f, "a", true);
    add(&f, "b", false);
    assert_int_equal(unanswered_writes_lost(&f.writes), 2);
    fake_clock_pass(&f.clock, UNANSWERED_WRITE_MS - 1000);
    assert_int_equal(unanswered_writes_lost(&f.writes), 1);
    assert_int_equal(f.settled, 0);
    fake_clock_pass(&f.clock, 999);
    assert_int_equal(unanswered_writes_lost(&f.writes), 1);
    fake_clock_pass(&f.clock, 1);
    assert_int_equal(unanswered_writes_lost(&f.writes), 0);
    assert_int_equal(f.settled, 1);
    assert_int_equal(f.writes.count, 0);
    end(&f);
}

static void only_those_that_are_lost_count(void **state)
{
    struct fixture f;
    begin(&f, *state);
    add(&f, "a", false);
    add(&f, "b", false);
    judge(&f, "c");
    assert_int_equal(unanswered_writes_lost(&f.writes), 0);
    judge(&f, "b");
    judge(&f, "b");
    assert_int_equal(unanswered_writes_lost(&f.writes), 1);
    judge(&f, "c"); /* once lost it stays so */
    assert_int_equal(unanswered_writes_lost(&f.writes), 1);
    fake_clock_pass(&f.clock, UNANSWERED_WRITE_MS);
    assert_int_equal(f.settled, 1);
    end(&f);
}

/* Of what is not told apart each may be lost. */
static void more_than_are_told_apart(void **state)
{
    struct fixture f;
    begin(&f, *state);
    add_as_many_as_are_told_apart(&f);
    judge(&f, "b");
    assert_int_equal(unanswered_writes_lost(&f.writes), 0);
    fake_clock_pass(&f.clock, 10);
    add(&f, "a", false);
    assert_int_equal(f.writes.count, UNANSWERED_WRITES_MAX);
    assert_int_equal(unanswered_writes_lost(&f.writes), 0);
    judge(&f, "b");
    assert_int_equal(unanswered_writes_lost(&f.writes), 1);
    fake_clock_pass(&f.clock, UNANSWERED_WRITE_MS - 1);
    assert_int_equal(f.writes.count, 0);
    assert_int_equal(f.settled, 0);
    fake_clock_pass(&f.clock, 1);
    assert_int_equal(f.settled, 1);
    judge(&f, "b");
    assert_int_equal(unanswered_writes_lost(&f.writes), 0);
    end(&f);
}

/* One of them that is neither lost nor the last changes nothing. */
static void those_not_told_apart_are_lost_until_the_last_is_over(void **state)
{
    struct fixture f;
    begin(&f, *state);
    add_as_many_as_are_told_apart(&f);
    fake_clock_pass(&f.clock, 10);
    add(&f, "a", true);
    add_sent(&f, "a", f.clock.now - 10, false);
    fake_clock_pass(&f.clock, UNANSWERED_WRITE_MS - 1);
    assert_int_equal(unanswered_writes_lost(&f.writes), 1);
    assert_int_equal(f.settled, 0);
    fake_clock_pass(&f.clock, 1);
    assert_int_equal(unanswered_writes_lost(&f.writes), 0);
    assert_int_equal(f.settled, 1);
    end(&f);
}

static bool add_without_memory(void *data)
{
    struct fixture *f = data;
    add(f, "a", true);
    return f->writes.count > 0;
}

static void memory_is_short(void **state)
{
    struct fixture f;
    begin(&f, *state);
    assert_true(sweep_allocations(add_without_memory, &f) > 0);
    assert_int_equal(unanswered_writes_lost(&f.writes), 2);
    fake_clock_pass(&f.clock, UNANSWERED_WRITE_MS);
    assert_int_equal(f.settled, 1);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_has_its_time, loop_setup, loop_teardown),
        cmocka_unit_test_setup_teardown(only_those_that_are_lost_count, loop_setup, loop_teardown),
        cmocka_unit_test_setup_teardown(more_than_are_told_apart, loop_setup, loop_teardown),
        cmocka_unit_test_setup_teardown(those_not_told_apart_are_lost_until_the_last_is_over,
                                        loop_setup, loop_teardown),
        cmocka_unit_test_setup_teardown(memory_is_short, loop_setup, loop_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
