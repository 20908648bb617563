/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With a random number of 0 a pause is half of the longest: 100, 200, 400, ... ms.
 */
#include "net/work_queue.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/log.h"
#include "fake_clock.h"

struct user {
    struct net_loop *loop;
    struct fake_clock clock;
    struct work_queue *queue;
    char log[65536]; /* "a " for each key that was handed out */
    bool done_at_once;
    enum work_result result; /* of done_at_once */
    const char *add_in_handler;
    bool free_in_handler;
    uint64_t takes_ms; /* to handle a key */
    uint64_t wait_ms;  /* what on_wait says */
    unsigned waits;    /* how often it was asked */
    unsigned share;    /* of a namespace */
};

static void note(struct user *u, const char *text)
{
    assert_true(strlen(u->log) + strlen(text) + 2 < sizeof u->log);
    strcat(strcat(u->log, text), " ");
}

static void on_key(void *data, const char *key)
{
    struct user *u = data;
    note(u, key);
    fake_clock_jump(&u->clock, u->takes_ms);
    if (u->add_in_handler != NULL) {
        work_queue_add(u->queue, u->add_in_handler);
        u->add_in_handler = NULL;
    }
    if (u->done_at_once) {
        work_queue_done(u->queue, key, u->result, 0);
    }
    if (u->free_in_handler) {
        work_queue_free(u->queue);
        u->queue = NULL;
    }
}

static uint64_t on_wait(void *data)
{
    struct user *u = data;
    u->waits++;
    return u->wait_ms;
}

static void open_queue(struct user *u, unsigned parallel)
{
    struct work_queue_options o = {.name = "things",
                                   .parallel = parallel,
                                   .namespace_parallel = u->share,
                                   .wait = on_wait,
                                   .clock = &u->clock.clock};
    u->queue = work_queue_new(u->loop, &o, on_key, u);
    assert_non_null(u->queue);
}

static int setup(void **state)
{
    struct user *u = calloc(1, sizeof *u);
    struct err e = ERR_INIT;
    u->loop = net_loop_new(&e);
    assert_non_null(u->loop);
    fake_clock_init(&u->clock, u->loop);
    open_queue(u, 1);
    *state = u;
    return 0;
}

static int teardown(void **state)
{
    struct user *u = *state;
    work_queue_free(u->queue);
    int rc = net_loop_free(u->loop);
    free(u);
    return rc;
}

static void reopen(struct user *u, unsigned parallel)
{
    work_queue_free(u->queue);
    fake_clock_forget(&u->clock);
    open_queue(u, parallel);
}

static void add(struct user *u, const char *key)
{
    work_queue_add(u->queue, key);
}

static void add_after(struct user *u, const char *key, uint64_t ms)
{
    work_queue_add_after(u->queue, key, ms);
}

static void done(struct user *u, const char *key)
{
    work_queue_done(u->queue, key, WORK_DONE, 0);
}

static void retry(struct user *u, const char *key)
{
    work_queue_done(u->queue, key, WORK_RETRY, 0);
}

/* What has been handed out since the last look, when so much time has passed. */
static void expect_after(struct user *u, uint64_t ms, const char *log)
{
    fake_clock_pass(&u->clock, ms);
    assert_string_equal(u->log, log);
    u->log[0] = '\0';
}

static void expect(struct user *u, const char *log)
{
    expect_after(u, 0, log);
}

static void expect_counts(struct user *u, size_t depth, size_t active, size_t waiting)
{
    struct work_queue_stats s = work_queue_stats(u->queue);
    assert_int_equal(s.depth, depth);
    assert_int_equal(s.active, active);
    assert_int_equal(s.waiting, waiting);
}

/* ---- keys ---- */

static void test_hands_out_in_order(void **state)
{
    struct user *u = *state;
    add(u, "a");
    add(u, "b");
    add(u, "c");
    assert_string_equal(u->log, "");
    expect_counts(u, 3, 0, 0);
    expect(u, "a ");
    expect_counts(u, 2, 1, 0);
    done(u, "a");
    expect(u, "b ");
    done(u, "b");
    expect(u, "c ");
    done(u, "c");
    expect(u, "");
    expect_counts(u, 0, 0, 0);
}

static void test_a_key_is_queued_once(void **state)
{
    struct user *u = *state;
    add(u, "a");
    add(u, "a");
    add(u, "b");
    add(u, "a");
    expect(u, "a ");
    done(u, "a");
    expect(u, "b ");
    done(u, "b");
    expect(u, "");
    assert_int_equal(work_queue_stats(u->queue).adds, 2);
}

static void test_a_key_is_handled_by_one_at_a_time(void **state)
{
    struct user *u = *state;
    reopen(u, 3);
    add(u, "a");
    expect(u, "a ");
    add(u, "a");
    add(u, "a");
    add(u, "b");
    expect(u, "b ");
    done(u, "a");
    expect(u, "a ");
    done(u, "a");
    done(u, "b");
    expect(u, "");
    add(u, "a");
    expect(u, "a ");
}

static void test_so_many_at_a_time(void **state)
{
    struct user *u = *state;
    reopen(u, 2);
    add(u, "a");
    add(u, "b");
    add(u, "c");
    expect(u, "a b ");
    expect_counts(u, 1, 2, 0);
    done(u, "b");
    expect(u, "c ");
}

/* However many keys one has, and however often it adds them. */
static void test_namespaces_take_turns(void **state)
{
    struct user *u = *state;
    add(u, "a/1");
    add(u, "a/2");
    add(u, "a/3");
    add(u, "a/4");
    expect(u, "a/1 ");
    add(u, "b/1");
    add(u, "b/2");
    add(u, "lone");
    add(u, "a/1"); /* again, once it is done */
    done(u, "a/1");
    expect(u, "a/2 ");
    done(u, "a/2");
    expect(u, "b/1 ");
    add(u, "a/2");
    done(u, "b/1");
    expect(u, "lone ");
    done(u, "lone");
    expect(u, "a/3 ");
    add(u, "c/1"); /* new: behind those that have waited */
    done(u, "a/3");
    expect(u, "b/2 ");
    done(u, "b/2");
    expect(u, "a/4 ");
    done(u, "a/4");
    expect(u, "c/1 ");
    done(u, "c/1");
    expect(u, "a/1 ");
    done(u, "a/1");
    expect(u, "a/2 ");
    done(u, "a/2");
    expect(u, "");
    expect_counts(u, 0, 0, 0);
}

/* However many keys it has, and however much room there is. */
static void test_no_namespace_has_more_than_its_share(void **state)
{
    struct user *u = *state;
    u->share = 2;
    reopen(u, 8);
    add(u, "a/1");
    add(u, "a/2");
    add(u, "a/3");
    add(u, "a/4");
    expect(u, "a/1 a/2 ");
    add(u, "b/1");
    add_after(u, "a/5", 10);
    expect_after(u, 10, "b/1 ");
    assert_int_equal(work_queue_companions(u->queue, "a/1"), 5);
    assert_int_equal(work_queue_companions(u->queue, "a/none"), 5);
    assert_int_equal(work_queue_companions(u->queue, "c/1"), 0);
    done(u, "a/2");
    expect(u, "a/3 ");
    retry(u, "a/1");
    expect(u, "a/4 ");
    add(u, "a/3");
    done(u, "a/3");
    expect(u, "a/5 ");
    expect_after(u, 100, "");
    work_queue_done(u->queue, "a/4", WORK_FIRST, 0);
    expect(u, "a/4 ");
    done(u, "a/5");
    expect(u, "a/3 ");
    done(u, "a/3");
    expect(u, "a/1 ");
    done(u, "a/1");
    done(u, "a/4");
    done(u, "b/1");
    expect_counts(u, 0, 0, 0);
}

static void test_done_in_the_handler(void **state)
{
    struct user *u = *state;
    u->done_at_once = true;
    add(u, "a");
    add(u, "b");
    expect(u, "a b ");
    u->add_in_handler = "c";
    add(u, "c");
    expect(u, "c c ");
    expect_counts(u, 0, 0, 0);
}

/* Others have their turn between a thousand keys. */
static void test_keys_come_in_batches(void **state)
{
    struct user *u = *state;
    u->done_at_once = true;
    for (int i = 0; i < 1000; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%d", i);
        add(u, key);
    }
    net_loop_settle(u->loop);
    size_t left = work_queue_stats(u->queue).depth;
    assert_in_range(left, 1, 999);
    fake_clock_pass(&u->clock, 0);
    expect_counts(u, 0, 0, 0);
    assert_int_equal(work_queue_stats(u->queue).adds, 1000);
}

/* Whatever comes meanwhile: each socket that says something may add a key. */
static void test_a_key_more_is_no_reason_for_another_batch(void **state)
{
    struct user *u = *state;
    u->done_at_once = true;
    u->takes_ms = 10;
    add(u, "a");
    add(u, "b");
    net_loop_settle(u->loop);
    add(u, "c");
    net_loop_settle(u->loop);
    assert_string_equal(u->log, "a ");
    u->takes_ms = 0;
    fake_clock_pass(&u->clock, 0);
    add(u, "d"); /* it begins with one again */
    expect(u, "a b c d ");
}

/* And as soon as some have taken long. */
static void test_slow_keys_come_in_small_batches(void **state)
{
    static const struct {
        uint64_t takes_ms;
        const char *first;
    } rows[] = {{0, "a b c d "}, {4, "a b c "}, {10, "a "}, {1000, "a "}};
    struct user *u = *state;
    u->done_at_once = true;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        add(u, "a");
        add(u, "b");
        add(u, "c");
        add(u, "d");
        u->takes_ms = rows[i].takes_ms;
        net_loop_settle(u->loop);
        assert_string_equal(u->log, rows[i].first);
        u->takes_ms = 0;
        expect(u, "a b c d ");
    }
}

static void test_what_was_not_handed_out_cannot_be_done(void **state)
{
    struct user *u = *state;
    add(u, "a");
    done(u, "a");
    done(u, "b");
    expect_counts(u, 1, 0, 0);
    expect(u, "a ");
}

/* ---- later ---- */

static void test_adds_later(void **state)
{
    struct user *u = *state;
    u->done_at_once = true;
    add_after(u, "b", 200);
    add_after(u, "a", 100);
    add_after(u, "now", 0);
    expect(u, "now ");
    expect_counts(u, 0, 0, 2);
    expect_after(u, 99, "");
    expect_after(u, 1, "a ");
    expect_after(u, 100, "b ");
    expect_counts(u, 0, 0, 0);
}

static void test_the_earliest_time_counts(void **state)
{
    struct user *u = *state;
    u->done_at_once = true;
    add_after(u, "a", 500);
    add_after(u, "a", 100);
    add_after(u, "a", 300);
    expect_counts(u, 0, 0, 1);
    expect_after(u, 100, "a ");
    expect_after(u, 1000, "");
}

static void test_later_does_not_mean_not_now(void **state)
{
    struct user *u = *state;
    u->done_at_once = true;
    add_after(u, "a", 500);
    add(u, "a");
    expect(u, "a ");
    expect_after(u, 500, "a ");
    u->done_at_once = false;
    add(u, "a");
    expect(u, "a ");
    add_after(u, "a", 50);
    expect_after(u, 100, ""); /* it is being handled */
    done(u, "a");
    expect(u, "a ");
}

/* ---- failures ---- */

static void test_pauses_become_longer(void **state)
{
    static const uint64_t pauses[] = {100,  200,   400,   800,   1600,  3200,
                                      6400, 12800, 25600, 30000, 30000, 30000};
    struct user *u = *state;
    add(u, "a");
    expect(u, "a ");
    for (size_t i = 0; i < ARRAY_LEN(pauses); i++) {
        retry(u, "a");
        assert_int_equal(work_queue_failures(u->queue, "a"), i + 1);
        expect_after(u, pauses[i] - 1, "");
        expect_after(u, 1, "a ");
    }
    assert_int_equal(work_queue_stats(u->queue).retries, 12);
    done(u, "a");
    assert_int_equal(work_queue_failures(u->queue, "a"), 0);
    add(u, "a");
    expect(u, "a ");
    retry(u, "a");
    expect_after(u, 100, "a ");
}

static void test_pauses_are_up_to_chance(void **state)
{
    struct user *u = *state;
    u->clock.random = 17;
    add(u, "a");
    expect(u, "a ");
    retry(u, "a");
    expect_after(u, 116, "");
    expect_after(u, 1, "a ");
}

static void test_each_key_has_its_own_pauses(void **state)
{
    struct user *u = *state;
    reopen(u, 2);
    add(u, "a");
    expect(u, "a ");
    for (int i = 0; i < 3; i++) {
        retry(u, "a");
        fake_clock_pass(&u->clock, 1000);
    }
    u->log[0] = '\0';
    add(u, "b");
    expect(u, "b ");
    retry(u, "b");
    expect_after(u, 100, "b ");
    assert_int_equal(work_queue_failures(u->queue, "a"), 3);
}

static void test_obeys_the_server(void **state)
{
    struct user *u = *state;
    add(u, "a");
    expect(u, "a ");
    work_queue_done(u->queue, "a", WORK_RETRY, 5);
    expect_after(u, 5049, "");
    expect_after(u, 1, "a ");
}

static void test_news_need_not_wait_for_a_pause(void **state)
{
    struct user *u = *state;
    add(u, "a");
    expect(u, "a ");
    retry(u, "a");
    add(u, "a");
    expect(u, "a ");
    done(u, "a");
    expect_counts(u, 0, 0, 0);
    expect_after(u, 1000, ""); /* the failure is history */
}

static void test_a_failure_and_news(void **state)
{
    struct user *u = *state;
    add(u, "a");
    expect(u, "a ");
    add(u, "a");
    retry(u, "a");
    expect(u, "a ");
    retry(u, "a");
    assert_int_equal(work_queue_failures(u->queue, "a"), 2);
    expect_after(u, 99, "");
    expect_after(u, 1, "a ");
    done(u, "a");
    expect_after(u, 10000, "");
}

static void test_success_keeps_what_was_asked_for(void **state)
{
    struct user *u = *state;
    add(u, "a");
    expect(u, "a ");
    add_after(u, "a", 5000);
    retry(u, "a");
    expect_after(u, 100, "a ");
    add_after(u, "a", 4900);
    done(u, "a");
    expect_after(u, 4899, "");
    expect_after(u, 1, "a ");
}

static void test_again_keeps_failures(void **state)
{
    struct user *u = *state;
    add(u, "a");
    expect(u, "a ");
    retry(u, "a");
    expect_after(u, 100, "a ");
    add(u, "b");
    work_queue_done(u->queue, "a", WORK_AGAIN, 0);
    assert_int_equal(work_queue_failures(u->queue, "a"), 1);
    expect_counts(u, 2, 0, 0);
    expect(u, "b ");
    done(u, "b");
    expect(u, "a ");
    retry(u, "a");
    expect_after(u, 199, "");
    expect_after(u, 1, "a ");
    add(u, "a");
    work_queue_done(u->queue, "a", WORK_AGAIN, 0);
    expect(u, "a "); /* once */
    done(u, "a");
    assert_int_equal(work_queue_failures(u->queue, "a"), 0);
    expect(u, "");
}

static void test_first_is_before_all_others(void **state)
{
    struct user *u = *state;
    add(u, "x/a");
    add(u, "y/b");
    add(u, "x/c");
    expect(u, "x/a ");
    work_queue_done(u->queue, "x/a", WORK_FIRST, 0);
    expect(u, "x/a ");
    done(u, "x/a");
    expect(u, "y/b ");
    done(u, "y/b");
    expect(u, "x/c ");
    done(u, "x/c");
    expect_counts(u, 0, 0, 0);
}

/* ---- waiting ---- */

static void test_waits_with_all_keys(void **state)
{
    struct user *u = *state;
    u->done_at_once = true;
    u->wait_ms = 100;
    add(u, "a");
    add(u, "b");
    add_after(u, "c", 50);
    expect(u, "");
    assert_int_equal(u->waits, 1);
    add(u, "d");
    expect_after(u, 60, "");
    add_after(u, "e", 1); /* no reason to wait for longer */
    expect_counts(u, 3, 0, 2);
    expect_after(u, 39, "");
    assert_int_equal(u->waits, 1);
    u->wait_ms = 0;
    expect_after(u, 1, "a b d c e ");
    assert_int_equal(u->waits, 6); /* once more for each */
    expect_after(u, 1000, "");
    assert_int_equal(u->waits, 6); /* without a key there is nothing to ask */
}

/* ---- figures ---- */

static void test_counts_durations(void **state)
{
    struct user *u = *state;
    add(u, "a");
    fake_clock_jump(&u->clock, 10);
    expect(u, "a ");
    fake_clock_jump(&u->clock, 30);
    add(u, "a");
    fake_clock_jump(&u->clock, 2970);
    assert_int_equal(work_queue_stats(u->queue).longest_ms, 3000);
    done(u, "a");
    struct work_queue_stats s = work_queue_stats(u->queue);
    assert_int_equal(s.longest_ms, 0);
    assert_int_equal(s.queued.counts[1], 1);
    assert_int_equal(s.queued.sum, 10);
    assert_int_equal(s.processed.counts[4], 1);
    assert_int_equal(s.processed.sum, 3000);
    expect(u, "a "); /* since it was added: 2970 ms */
    s = work_queue_stats(u->queue);
    assert_int_equal(s.queued.counts[4], 1);
    assert_int_equal(s.queued.sum, 2980);
    fake_clock_jump(&u->clock, 3600000);
    done(u, "a");
    assert_int_equal(work_queue_stats(u->queue).processed.counts[5], 1);
}

/* ---- the end ---- */

static void test_free_in_each_phase(void **state)
{
    struct user *u = *state;
    add(u, "a");
    reopen(u, 1); /* queued */
    add(u, "a");
    expect(u, "a ");
    reopen(u, 1); /* being handled */
    add(u, "a");
    expect(u, "a ");
    add(u, "a");
    reopen(u, 1); /* and once more */
    add_after(u, "a", 100);
    reopen(u, 1); /* later */
    add(u, "a");
    expect(u, "a ");
    retry(u, "a");
    reopen(u, 1); /* failed */
    expect_after(u, 100000, "");
}

static void test_free_in_the_handler(void **state)
{
    struct user *u = *state;
    u->free_in_handler = true;
    add(u, "a");
    add(u, "b");
    expect(u, "a ");
    assert_null(u->queue);
    work_queue_free(NULL);
}

/* ---- at random ---- */

enum { KEYS = 40, STEPS = 30000, WORKERS = 5, NAMESPACES = 3, SHARE = 2 };

/* Key I is of namespace I % NAMESPACES. */
struct model {
    struct work_queue *queue;
    struct fake_clock clock;
    bool active[KEYS];
    bool owed[KEYS]; /* it was added after it was handed out last */
    unsigned of_namespace[NAMESPACES];
    unsigned count;
};

static void count_active(struct model *m, size_t i, int more)
{
    m->active[i] = more > 0;
    m->count += (unsigned)more;
    m->of_namespace[i % NAMESPACES] += (unsigned)more;
}

static void on_random_key(void *data, const char *key)
{
    struct model *m = data;
    size_t i = strtoul(strchr(key, '/') + 1, NULL, 10);
    assert_false(m->active[i]);
    count_active(m, i, 1);
    m->owed[i] = false;
    assert_true(m->count <= WORKERS);
    assert_true(m->of_namespace[i % NAMESPACES] <= SHARE);
}

/* Whatever could be handed out was. */
static void check_idle(const struct model *m)
{
    for (size_t i = 0; m->count < WORKERS && i < KEYS; i++) {
        bool has_room = !m->active[i] && m->of_namespace[i % NAMESPACES] < SHARE;
        assert_false(m->owed[i] && has_room);
    }
}

static void take_step(struct model *m, unsigned what, size_t i)
{
    static const enum work_result results[] = {WORK_RETRY, WORK_AGAIN, WORK_FIRST};
    char key[16];
    (void)snprintf(key, sizeof key, "%zu/%zu", i % NAMESPACES, i);
    if (what < 3) {
        work_queue_add(m->queue, key);
        m->owed[i] = true;
    } else if (what == 3) {
        work_queue_add_after(m->queue, key, i * 10 + 1);
    } else if (what < 10 && m->active[i]) {
        count_active(m, i, -1);
        m->owed[i] = m->owed[i] || what == 5 || what == 6;
        work_queue_done(m->queue, key, what < 7 ? results[what - 4] : WORK_DONE, 0);
    } else if (what == 10) {
        fake_clock_pass(&m->clock, i);
        check_idle(m);
    }
}

static void finish(struct model *m)
{
    for (int round = 0; round < 200; round++) {
        fake_clock_pass(&m->clock, 60000);
        for (size_t i = 0; i < KEYS; i++) {
            take_step(m, 9, i);
        }
    }
    for (size_t i = 0; i < KEYS; i++) {
        assert_false(m->owed[i]);
        assert_false(m->active[i]);
    }
}

static void test_no_key_is_lost_or_doubled(void **state)
{
    struct user *u = *state;
    struct model *m = calloc(1, sizeof *m);
    unsigned seed = 7;
    fake_clock_init(&m->clock, u->loop);
    struct work_queue_options o = {
        .name = "r", .parallel = WORKERS, .namespace_parallel = SHARE, .clock = &m->clock.clock};
    m->queue = work_queue_new(u->loop, &o, on_random_key, m);
    assert_non_null(m->queue);
    for (int step = 0; step < STEPS; step++) {
        seed = seed * 1664525u + 1013904223u;
        m->clock.random = seed;
        take_step(m, (seed >> 8) % 11, (seed >> 16) % KEYS);
    }
    finish(m);
    struct work_queue_stats s = work_queue_stats(m->queue);
    assert_int_equal(s.depth + s.active + s.waiting, 0);
    work_queue_free(m->queue);
    free(m);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_hands_out_in_order),
        TEST(test_a_key_is_queued_once),
        TEST(test_a_key_is_handled_by_one_at_a_time),
        TEST(test_so_many_at_a_time),
        TEST(test_namespaces_take_turns),
        TEST(test_no_namespace_has_more_than_its_share),
        TEST(test_done_in_the_handler),
        TEST(test_keys_come_in_batches),
        TEST(test_a_key_more_is_no_reason_for_another_batch),
        TEST(test_slow_keys_come_in_small_batches),
        TEST(test_what_was_not_handed_out_cannot_be_done),
        TEST(test_adds_later),
        TEST(test_the_earliest_time_counts),
        TEST(test_later_does_not_mean_not_now),
        TEST(test_pauses_become_longer),
        TEST(test_pauses_are_up_to_chance),
        TEST(test_each_key_has_its_own_pauses),
        TEST(test_obeys_the_server),
        TEST(test_news_need_not_wait_for_a_pause),
        TEST(test_a_failure_and_news),
        TEST(test_success_keeps_what_was_asked_for),
        TEST(test_again_keeps_failures),
        TEST(test_first_is_before_all_others),
        TEST(test_waits_with_all_keys),
        TEST(test_counts_durations),
        TEST(test_free_in_each_phase),
        TEST(test_free_in_the_handler),
        TEST(test_no_key_is_lost_or_doubled),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
