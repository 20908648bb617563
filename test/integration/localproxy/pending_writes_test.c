/* SPDX-License-Identifier: Apache-2.0 */
/* Writes that may still be executed, and for how long they count; also for the next process. */
#include "upstream/pending_writes.h"

#include <stdlib.h>
#include <string.h>

#include "alloc_sweep.h"
#include "fake_clock.h"
#include "loop_fixture.h"

enum { RULES = 7, OTHER_RULES };

struct fixture {
    struct fake_clock clock;
    struct pending_record record;
    struct pending_writes writes;
    unsigned settled;
};

static unsigned told;

static void on_settled(void *data)
{
    struct fixture *f = data;
    f->settled++;
}

static void on_lost(struct pending_write *w)
{
    assert_true(w->lost);
    told++;
}

/* A process that finds that record. */
static void start(struct fixture *f, struct net_loop *l, struct pending_record left)
{
    f->record = left;
    f->settled = 0;
    assert_int_equal(pending_writes_init(&f->writes, l, &f->clock.clock, &f->record), 0);
    f->writes.on_settled = on_settled;
    f->writes.on_lost = on_lost;
    f->writes.data = f;
}

static void begin(struct fixture *f, struct net_loop *l)
{
    memset(f, 0, sizeof *f);
    told = 0;
    fake_clock_init(&f->clock, l);
    start(f, l, (struct pending_record){.rules = RULES});
}

/* The clock forgets the timer, and goes on. */
static void end(struct fixture *f)
{
    uint64_t now = f->clock.now;
    struct net_loop *l = f->clock.loop;
    pending_writes_deinit(&f->writes);
    fake_clock_init(&f->clock, l);
    f->clock.now = now;
}

/* As a process that is killed leaves it. */
static struct pending_record kill_it(struct fixture *f)
{
    struct pending_record left = f->record;
    end(f);
    return left;
}

static struct request_attributes attributes_of(const char *ns)
{
    struct request_attributes a;
    struct request_attributes seen = {.verb = VERB_CREATE, .namespace = slice_str(ns)};
    long paused = alloc_sweep_pause();
    assert_int_equal(request_attributes_keep(&a, &seen), 0);
    alloc_sweep_resume(paused);
    return a;
}

static void add_sent(struct fixture *f, const char *ns, uint64_t sent_ms, bool lost)
{
    struct pending_write w;
    struct request_attributes a = attributes_of(ns);
    pending_writes_begin(&f->writes, &w, &a);
    w.sent_ms = sent_ms;
    w.lost = lost;
    f->writes.lost += lost ? 1 : 0;
    f->settled = 0;
    pending_writes_give_up(&f->writes, &w, &a, false);
    assert_false(pending_write_is_under_way(&w));
    assert_int_equal(f->settled, lost ? 1 : 0); /* none is under way */
    f->settled = 0;
}

static void add(struct fixture *f, const char *ns, bool lost)
{
    add_sent(f, ns, f->clock.now, lost);
}

static void add_as_many_as_are_told_apart(struct fixture *f)
{
    for (unsigned i = 0; i < PENDING_WRITES_MAX; i++) {
        add(f, "a", false);
    }
}

static bool is_in(void *data, const struct request_attributes *a)
{
    return slice_eq(a->namespace, slice_str(data));
}

static void judge(struct fixture *f, const char *ns)
{
    static uint64_t rules = OTHER_RULES;
    char text[16];
    (void)snprintf(text, sizeof text, "%s", ns);
    pending_writes_judge(&f->writes, ++rules, is_in, text);
}

static void each_has_its_time(void **state)
{
    struct fixture f;
    begin(&f, *state);
    add(&f, "a", true);
    fake_clock_pass(&f.clock, 1000);
    add(&f, "a", true);
    add(&f, "b", false);
    assert_int_equal(pending_writes_lost(&f.writes), 2);
    fake_clock_pass(&f.clock, PENDING_WRITE_MS - 1000);
    assert_int_equal(pending_writes_lost(&f.writes), 1);
    assert_int_equal(f.settled, 0);
    fake_clock_pass(&f.clock, 999);
    assert_int_equal(pending_writes_lost(&f.writes), 1);
    fake_clock_pass(&f.clock, 1);
    assert_int_equal(pending_writes_lost(&f.writes), 0);
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
    assert_int_equal(pending_writes_lost(&f.writes), 0);
    judge(&f, "b");
    judge(&f, "b");
    assert_int_equal(pending_writes_lost(&f.writes), 1);
    judge(&f, "c"); /* once lost it stays so */
    assert_int_equal(pending_writes_lost(&f.writes), 1);
    fake_clock_pass(&f.clock, PENDING_WRITE_MS);
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
    assert_int_equal(pending_writes_lost(&f.writes), 0);
    fake_clock_pass(&f.clock, 10);
    add(&f, "a", false);
    assert_int_equal(f.writes.count, PENDING_WRITES_MAX);
    assert_int_equal(pending_writes_lost(&f.writes), 0);
    judge(&f, "b");
    assert_int_equal(pending_writes_lost(&f.writes), 1);
    fake_clock_pass(&f.clock, PENDING_WRITE_MS - 1);
    assert_int_equal(f.writes.count, 0);
    assert_int_equal(f.settled, 0);
    fake_clock_pass(&f.clock, 1);
    assert_int_equal(f.settled, 1);
    judge(&f, "b");
    assert_int_equal(pending_writes_lost(&f.writes), 0);
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
    fake_clock_pass(&f.clock, PENDING_WRITE_MS - 1);
    assert_int_equal(pending_writes_lost(&f.writes), 1);
    assert_int_equal(f.settled, 0);
    fake_clock_pass(&f.clock, 1);
    assert_int_equal(pending_writes_lost(&f.writes), 0);
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
    assert_int_equal(pending_writes_lost(&f.writes), 2);
    fake_clock_pass(&f.clock, PENDING_WRITE_MS);
    assert_int_equal(f.settled, 1);
    end(&f);
}

static void those_under_way_count_until_they_are_answered(void **state)
{
    struct fixture f;
    struct pending_write w[3];
    struct request_attributes a = attributes_of("a");
    struct request_attributes b = attributes_of("b");
    begin(&f, *state);
    pending_writes_begin(&f.writes, &w[0], &a);
    pending_writes_begin(&f.writes, &w[1], &a);
    pending_writes_begin(&f.writes, &w[2], &b);
    judge(&f, "a");
    judge(&f, "a");
    assert_int_equal(told, 2);
    assert_int_equal(pending_writes_lost(&f.writes), 2);
    fake_clock_pass(&f.clock, 2 * PENDING_WRITE_MS);
    assert_int_equal(pending_writes_lost(&f.writes), 2);
    assert_true(pending_writes_may_settle(&f.writes, 1));
    pending_writes_end(&f.writes, &w[0]);
    pending_writes_end(&f.writes, &w[0]);
    assert_int_equal(f.settled, 0);
    pending_writes_end(&f.writes, &w[1]);
    assert_int_equal(f.settled, 1);
    pending_writes_end(&f.writes, &w[2]);
    assert_int_equal(f.settled, 1);
    assert_int_equal(f.record.under_way, 0);
    request_attributes_deinit(&a);
    request_attributes_deinit(&b);
    end(&f);
}

/* Since it was sent last; and what has perhaps not arrived comes even later. */
static void it_counts_from_the_last_time_that_it_was_sent(void **state)
{
    for (int on_its_way = 0; on_its_way < 2; on_its_way++) {
        struct fixture f;
        struct pending_write w;
        struct request_attributes a = attributes_of("a");
        begin(&f, *state);
        pending_writes_begin(&f.writes, &w, &a);
        pending_writes_sent(&f.writes, &w);
        fake_clock_pass(&f.clock, 20000);
        pending_writes_sent(&f.writes, &w);
        assert_int_equal(pending_write_over_ms(&w), f.clock.now + PENDING_WRITE_MS);
        judge(&f, "a");
        fake_clock_pass(&f.clock, 5000);
        pending_writes_give_up(&f.writes, &w, &a, on_its_way);
        f.settled = 0;
        uint64_t left = PENDING_WRITE_MS + (on_its_way ? PENDING_ARRIVAL_MS : -UINT64_C(5000));
        assert_false(pending_writes_may_settle(&f.writes, left - 1));
        assert_true(pending_writes_may_settle(&f.writes, left));
        fake_clock_pass(&f.clock, left - 1);
        assert_int_equal(f.settled, 0);
        fake_clock_pass(&f.clock, 1);
        assert_int_equal(f.settled, 1);
        end(&f);
    }
}

static void expect_lost_for(struct fixture *f, uint64_t ms)
{
    assert_int_equal(pending_writes_lost(&f->writes), 1);
    assert_false(pending_writes_may_settle(&f->writes, ms - 1));
    fake_clock_pass(&f->clock, ms - 1);
    assert_int_equal(pending_writes_lost(&f->writes), 1);
    assert_int_equal(f->settled, 0);
    fake_clock_pass(&f->clock, 1);
    assert_int_equal(pending_writes_lost(&f->writes), 0);
    assert_int_equal(f->settled, 1);
}

/* Killed, or ended: the API server may have it, or get it from the kernel. */
static void one_under_way_outlives_the_process(void **state)
{
    struct fixture f;
    struct pending_write w;
    struct request_attributes a = attributes_of("a");
    begin(&f, *state);
    pending_writes_begin(&f.writes, &w, &a);
    struct pending_record left = kill_it(&f);
    request_attributes_deinit(&a);
    for (int other = 0; other < 2; other++) {
        start(&f, *state, left);
        assert_int_equal(pending_writes_lost(&f.writes), 0);
        pending_writes_judge(&f.writes, other ? OTHER_RULES : RULES, is_in, "b");
        if (other) {
            expect_lost_for(&f, PENDING_ARRIVAL_MS + PENDING_WRITE_MS);
        } else {
            assert_int_equal(pending_writes_lost(&f.writes), 0); /* nothing has changed */
        }
        end(&f);
    }
}

static void one_that_was_given_up_outlives_several(void **state)
{
    struct fixture f;
    begin(&f, *state);
    add(&f, "a", false);
    for (int i = 0; i < 3; i++) {
        fake_clock_pass(&f.clock, 10000);
        start(&f, *state, kill_it(&f));
        pending_writes_judge(&f.writes, RULES, is_in, "b");
        assert_int_equal(pending_writes_lost(&f.writes), 0);
    }
    pending_writes_judge(&f.writes, OTHER_RULES, is_in, "b");
    start(&f, *state, kill_it(&f));
    assert_int_equal(pending_writes_lost(&f.writes), 1); /* whatever the rules are now */
    expect_lost_for(&f, PENDING_WRITE_MS - 30000);
    start(&f, *state, kill_it(&f));
    pending_writes_judge(&f.writes, RULES, is_in, "b");
    assert_int_equal(pending_writes_lost(&f.writes), 0);
    end(&f);
}

static void what_was_answered_does_not_outlive_it(void **state)
{
    struct fixture f;
    struct pending_write w;
    struct request_attributes a = attributes_of("a");
    begin(&f, *state);
    pending_writes_begin(&f.writes, &w, &a);
    judge(&f, "a");
    pending_writes_end(&f.writes, &w);
    request_attributes_deinit(&a);
    start(&f, *state, kill_it(&f));
    pending_writes_judge(&f.writes, RULES, is_in, "b");
    assert_int_equal(pending_writes_lost(&f.writes), 0);
    end(&f);
}

static void of_a_process_that_is_not_known_all_is_possible(void **state)
{
    struct fixture f;
    begin(&f, *state);
    end(&f);
    start(&f, *state, PENDING_UNKNOWN);
    pending_writes_judge(&f.writes, RULES, is_in, "b");
    expect_lost_for(&f, PENDING_ARRIVAL_MS + PENDING_WRITE_MS);
    end(&f);
}

/* Nothing that any process could have left. */
static void a_time_that_cannot_be_is_cut(void **state)
{
    struct fixture f;
    begin(&f, *state);
    end(&f);
    start(&f, *state, (struct pending_record){.until_ms = UINT64_MAX, .lost = 1, .rules = RULES});
    expect_lost_for(&f, PENDING_ARRIVAL_MS + PENDING_WRITE_MS);
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
        cmocka_unit_test_setup_teardown(those_under_way_count_until_they_are_answered, loop_setup,
                                        loop_teardown),
        cmocka_unit_test_setup_teardown(it_counts_from_the_last_time_that_it_was_sent, loop_setup,
                                        loop_teardown),
        cmocka_unit_test_setup_teardown(one_under_way_outlives_the_process, loop_setup,
                                        loop_teardown),
        cmocka_unit_test_setup_teardown(one_that_was_given_up_outlives_several, loop_setup,
                                        loop_teardown),
        cmocka_unit_test_setup_teardown(what_was_answered_does_not_outlive_it, loop_setup,
                                        loop_teardown),
        cmocka_unit_test_setup_teardown(of_a_process_that_is_not_known_all_is_possible, loop_setup,
                                        loop_teardown),
        cmocka_unit_test_setup_teardown(a_time_that_cannot_be_is_cut, loop_setup, loop_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
