/* SPDX-License-Identifier: Apache-2.0 */
#include "rolling/roll.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"

/* A StatefulSet of a canary with one pod and two shards of two; pod 2 and 3 hold the locks. */
enum { PODS = 5, SHARDS = 3 };

struct world {
    struct roll_shard shards[SHARDS];
    struct roll_pod pods[PODS];
    struct roll_facts facts;
};

static void make_world(struct world *w)
{
    static const char *const shards[SHARDS] = {"x-0-canary", "x-1-normal", "x-2-normal"};
    static const char *const names[PODS] = {"op-0", "op-1", "op-2", "op-3", "op-4"};
    for (size_t i = 0; i < SHARDS; i++) {
        w->shards[i] = (struct roll_shard){shards[i], LOCK_STATE_HELD};
    }
    for (unsigned i = 0; i < PODS; i++) {
        w->pods[i] = (struct roll_pod){.name = names[i],
                                       .ordinal = i,
                                       .shard = (i + 1) / 2,
                                       .there = true,
                                       .old = true,
                                       .ready = true,
                                       .available = true,
                                       .enforces = true,
                                       .holder = i == 0 || i == 2 || i == 3};
    }
    w->facts = (struct roll_facts){.shards = w->shards,
                                   .shard_count = SHARDS,
                                   .pods = w->pods,
                                   .pod_count = PODS,
                                   .first = ""};
}

static void renew(struct world *w, size_t pod)
{
    w->pods[pod].old = false;
}

static void lose(struct world *w, size_t pod)
{
    w->pods[pod] = (struct roll_pod){
        .name = w->pods[pod].name, .ordinal = w->pods[pod].ordinal, .shard = w->pods[pod].shard};
}

static void expect_evict(const struct world *w, size_t pod)
{
    struct roll_step s = roll_decide(&w->facts);
    assert_int_equal(s.what, ROLL_EVICT);
    assert_int_equal(s.gate, ROLL_OPEN);
    assert_int_equal(s.pod, pod);
    assert_int_equal(s.shard, w->pods[pod].shard);
}

static void expect_wait(const struct world *w, enum roll_gate gate, size_t pod, size_t cause)
{
    struct roll_step s = roll_decide(&w->facts);
    assert_int_equal(s.what, ROLL_WAIT);
    assert_int_equal(s.gate, gate);
    assert_int_equal(s.pod, pod);
    assert_int_equal(s.cause, cause);
}

/* ---- the order ---- */

static void test_order_of_shards(void **state)
{
    static const char *const sorted[] = {"a-0-canary",   "b-0-canary",  "a-1-normal", "b-1-normal",
                                         "a-2-normal",   "a-10-normal", "-1-normal",  "1-normal",
                                         "a-0-canaries", "a-1-canary",  "a-normal",   "zoo"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(sorted); i++) {
        for (size_t j = 0; j < ARRAY_LEN(sorted); j++) {
            int order = roll_compare_shards(sorted[i], sorted[j]);
            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
        }
    }
}

static void test_order_of_pods(void **state)
{
    static const size_t order[PODS] = {0, 1, 2, 4, 3};
    struct world w;
    (void)state;
    make_world(&w);
    for (size_t i = 0; i < PODS; i++) {
        assert_int_equal(roll_decide(&w.facts).done, i);
        assert_int_equal(roll_decide(&w.facts).total, PODS);
        expect_evict(&w, order[i]);
        renew(&w, order[i]);
    }
    assert_int_equal(roll_decide(&w.facts).what, ROLL_DONE);
    assert_int_equal(roll_decide(&w.facts).done, PODS);
}

static void test_without_a_known_holder_by_ordinal(void **state)
{
    struct world w;
    (void)state;
    make_world(&w);
    renew(&w, 0);
    w.pods[2].holder = false;
    expect_evict(&w, 1);
    w.pods[1].holder = true;
    expect_evict(&w, 2);
}

static void test_pods_of_no_shard_come_last(void **state)
{
    struct world w;
    (void)state;
    make_world(&w);
    w.pods[0].shard = ROLL_NONE;
    w.pods[0].enforces = false;
    expect_evict(&w, 1);
    for (size_t i = 1; i < PODS; i++) {
        renew(&w, i);
    }
    expect_evict(&w, 0);
    renew(&w, 0); /* and enforces nothing */
    assert_int_equal(roll_decide(&w.facts).what, ROLL_DONE);
}

static void test_one_shard_alone(void **state)
{
    struct world w;
    (void)state;
    make_world(&w);
    w.facts.scope = "x-2-normal";
    assert_int_equal(roll_decide(&w.facts).total, 2);
    expect_evict(&w, 4);
    renew(&w, 4);
    expect_evict(&w, 3);
    renew(&w, 3);
    struct roll_step s = roll_decide(&w.facts);
    assert_int_equal(s.what, ROLL_DONE);
    assert_int_equal(s.done, 2);
    w.facts.scope = "x-3-normal";
    expect_wait(&w, ROLL_NO_PODS, ROLL_NONE, ROLL_NONE);
}

static void test_nothing_to_do(void **state)
{
    struct roll_facts f = {.first = ""};
    (void)state;
    assert_int_equal(roll_decide(&f).what, ROLL_DONE);
    assert_int_equal(roll_decide(&f).total, 0);
}

/* ---- what is in the way ---- */

static void test_a_new_pod_must_be_well(void **state)
{
    struct world w;
    (void)state;
    make_world(&w);
    renew(&w, 0);
    w.pods[0].available = false;
    expect_wait(&w, ROLL_NOT_YET, 0, ROLL_NONE);
    w.pods[0].ready = false;
    expect_wait(&w, ROLL_NOT_READY, 0, ROLL_NONE);
    w.pods[0].failing = "CrashLoopBackOff";
    expect_wait(&w, ROLL_FAILING, 0, ROLL_NONE);
    make_world(&w);
    renew(&w, 0);
    w.pods[0].enforces = false;
    expect_wait(&w, ROLL_NOT_ENFORCED, 0, ROLL_NONE);
    w.pods[0].enforces = true;
    w.pods[0].open_breaker = true;
    expect_wait(&w, ROLL_BREAKER, 0, ROLL_NONE);
    w.pods[0].open_breaker = false;
    expect_evict(&w, 1);
}

static void test_all_pods_must_be_there(void **state)
{
    struct world w;
    (void)state;
    make_world(&w);
    lose(&w, 4);
    expect_wait(&w, ROLL_MISSING, 4, ROLL_NONE);
    w.pods[4].ending = true;
    expect_wait(&w, ROLL_ENDING, 4, ROLL_NONE);
}

static void test_shards_that_are_down(void **state)
{
    struct world w;
    (void)state;
    make_world(&w);
    w.pods[3].ready = false;
    expect_evict(&w, 0); /* pod 4 is ready */
    w.pods[4].ready = false;
    expect_wait(&w, ROLL_SHARD_DOWN, 0, 3);
    w.pods[0].ready = false; /* nothing is lost by evicting it */
    expect_evict(&w, 0);
}

static void test_in_a_shard_what_is_unwell_goes_first(void **state)
{
    struct world w;
    (void)state;
    make_world(&w);
    renew(&w, 0);
    w.pods[2].enforces = false;
    expect_evict(&w, 2);
    w.pods[1].ready = false;
    expect_evict(&w, 1);
}

static void test_breakers_of_the_shard(void **state)
{
    struct world w;
    (void)state;
    make_world(&w);
    w.pods[4].open_breaker = true;
    expect_evict(&w, 0);
    for (size_t i = 0; i < 3; i++) {
        renew(&w, i);
    }
    expect_wait(&w, ROLL_BREAKER, 4, 4);
    w.pods[4].ready = false;
    expect_evict(&w, 4);
}

static void test_shards_must_be_led(void **state)
{
    struct world w;
    (void)state;
    make_world(&w);
    w.shards[0].lock = LOCK_STATE_UNKNOWN;
    expect_wait(&w, ROLL_LOCK, 0, ROLL_NONE);
    w.shards[0].lock = LOCK_STATE_FREE;
    expect_wait(&w, ROLL_LEADERLESS, 0, ROLL_NONE);
    w.shards[0].lock = LOCK_STATE_NONE;
    w.shards[1].lock = LOCK_STATE_FREE; /* nothing has been done to that one yet */
    expect_evict(&w, 0);
    renew(&w, 0);
    w.shards[0].lock = LOCK_STATE_FREE;
    w.shards[1].lock = LOCK_STATE_HELD;
    expect_wait(&w, ROLL_LEADERLESS, 1, ROLL_NONE);
    assert_int_equal(roll_decide(&w.facts).shard, 0);
    w.pods[1].ready = false;
    expect_evict(&w, 1);
}

static void test_the_last_shard_must_be_led(void **state)
{
    struct world w;
    (void)state;
    make_world(&w);
    for (size_t i = 0; i < PODS; i++) {
        renew(&w, i);
    }
    w.shards[2].lock = LOCK_STATE_FREE;
    expect_wait(&w, ROLL_LEADERLESS, ROLL_NONE, ROLL_NONE);
    w.facts.finished = true;
    assert_int_equal(roll_decide(&w.facts).what, ROLL_DONE);
}

static void test_pods_that_are_made_in_order(void **state)
{
    struct world w;
    (void)state;
    make_world(&w);
    w.facts.ordered = true;
    for (size_t i = 0; i < 3; i++) {
        renew(&w, i);
    }
    w.pods[0].old = true;
    w.facts.scope = "x-2-normal";
    expect_evict(&w, 4);
    w.pods[0].ready = false;
    w.pods[0].shard = 1; /* so that no shard is down */
    expect_wait(&w, ROLL_OUT_OF_ORDER, 4, 0);
    /* None after a pod that is not ready is made: it must be mended first. */
    make_world(&w);
    w.facts.ordered = true;
    w.pods[0].ready = false;
    for (size_t i = 1; i < PODS; i++) {
        lose(&w, i);
    }
    expect_evict(&w, 0);
    w.facts.ordered = false;
    expect_wait(&w, ROLL_MISSING, 1, ROLL_NONE);
}

/* ---- after a failure, and after another leader ---- */

static void test_a_pod_that_was_begun_with(void **state)
{
    struct world w;
    (void)state;
    make_world(&w);
    w.facts.first = "op-3";
    expect_evict(&w, 0);
    w.facts.committed = true;
    expect_evict(&w, 3);
    renew(&w, 3);
    expect_evict(&w, 0);
}

static void test_what_was_rolled_back_goes_first(void **state)
{
    struct world w;
    (void)state;
    make_world(&w);
    w.facts.first = "op-1";
    w.pods[1].ready = false;
    w.pods[1].failing = "ImagePullBackOff";
    expect_evict(&w, 1);
    lose(&w, 1);
    expect_wait(&w, ROLL_MISSING, 1, ROLL_NONE);
}

static void test_what_was_finished_stays_so(void **state)
{
    struct world w;
    (void)state;
    make_world(&w);
    for (size_t i = 0; i < PODS; i++) {
        renew(&w, i);
    }
    w.facts.finished = true;
    w.pods[3].ready = false;
    lose(&w, 4);
    struct roll_step s = roll_decide(&w.facts);
    assert_int_equal(s.what, ROLL_DONE);
    assert_int_equal(s.done, PODS);
    w.pods[1].old = true;
    expect_wait(&w, ROLL_NOT_READY, 3, ROLL_NONE);
}

static void test_stuck(void **state)
{
    struct roll_step s = {.what = ROLL_WAIT, .gate = ROLL_NOT_READY};
    struct roll_patience p = {.deadline_ms = 600000};
    (void)state;
    assert_false(roll_is_stuck(&s, &p));
    p.waited_ms = 600000;
    assert_true(roll_is_stuck(&s, &p));
    p = (struct roll_patience){.deadline_ms = 600000, .failing_ms = ROLL_FAILING_MS};
    assert_false(roll_is_stuck(&s, &p));
    s.gate = ROLL_FAILING;
    assert_true(roll_is_stuck(&s, &p));
    p.failing_ms--;
    assert_false(roll_is_stuck(&s, &p));
    p.stuck = true;
    assert_true(roll_is_stuck(&s, &p));
    s.gate = ROLL_NOT_YET; /* it is Ready now */
    assert_false(roll_is_stuck(&s, &p));
    s.gate = ROLL_SHARD_DOWN;
    p.waited_ms = 600000;
    assert_false(roll_is_stuck(&s, &p));
    s = (struct roll_step){.what = ROLL_EVICT};
    assert_false(roll_is_stuck(&s, &p));
    p = (struct roll_patience){.deadline_ms = 600000, .waited_ms = 599999, .blocked = true};
    assert_false(roll_is_stuck(&s, &p));
    p.waited_ms++;
    assert_true(roll_is_stuck(&s, &p));
    s = (struct roll_step){.what = ROLL_WAIT, .gate = ROLL_NO_PODS};
    assert_true(roll_is_stuck(&s, &p));
}

/* Nobody knows which revision is the new one, so nothing is evicted, and somebody is told. */
static void test_a_change_that_was_not_taken_note_of(void **state)
{
    struct world w;
    struct roll_patience p = {.deadline_ms = 10, .waited_ms = 10};
    (void)state;
    make_world(&w);
    w.facts.unseen = true;
    expect_wait(&w, ROLL_UNSEEN, ROLL_NONE, ROLL_NONE);
    w.pods[2].there = false;
    expect_wait(&w, ROLL_UNSEEN, 2, ROLL_NONE);
    const struct roll_step s = roll_decide(&w.facts);
    assert_int_equal(s.done, 0);
    assert_int_equal(s.total, PODS);
    assert_true(roll_is_stuck(&s, &p));
    w.pods[2].ending = true;
    w.facts.finished = true;
    expect_wait(&w, ROLL_UNSEEN, ROLL_NONE, ROLL_NONE);
}

static void test_holders(void **state)
{
    (void)state;
    assert_true(roll_holds("op-1", "op-1"));
    assert_true(roll_holds("op-1_5f0c", "op-1"));
    assert_true(roll_holds("op-1-5f0c", "op-1"));
    assert_false(roll_holds("op-10_5f0c", "op-1"));
    assert_false(roll_holds("op-", "op-1"));
    assert_false(roll_holds("", "op-1"));
}

/* ---- whatever happens ---- */

static uint64_t seed = 1;

static unsigned chance(unsigned n)
{
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(seed >> 33) % n;
}

static void make_any(struct world *w)
{
    make_world(w);
    for (size_t i = 0; i < SHARDS; i++) {
        w->shards[i].lock = chance(4) == 0 ? (enum lock_state)chance(4) : LOCK_STATE_HELD;
    }
    for (size_t i = 0; i < PODS; i++) {
        struct roll_pod *p = &w->pods[i];
        p->shard = chance(8) == 0 ? ROLL_NONE : chance(8) == 0 ? chance(SHARDS) : p->shard;
        p->there = chance(8) != 0;
        p->ending = !p->there && chance(2) == 0;
        p->old = chance(2) == 0;
        p->ready = p->there && chance(5) != 0;
        p->available = p->ready && chance(6) != 0;
        p->enforces = chance(6) != 0;
        p->open_breaker = chance(8) == 0;
        p->holder = chance(2) == 0;
        p->failing = !p->ready && chance(2) == 0 ? "CrashLoopBackOff" : NULL;
    }
    w->facts.ordered = chance(2) == 0;
    w->facts.scope = chance(3) == 0 ? w->shards[chance(SHARDS)].name : NULL;
    w->facts.first = chance(3) == 0 ? w->pods[chance(PODS)].name : "";
    w->facts.committed = chance(2) == 0;
    w->facts.finished = chance(4) == 0;
}

static bool is_well(const struct roll_pod *p)
{
    return p->ready && p->available && !p->open_breaker && (p->shard == ROLL_NONE || p->enforces);
}

/* That a pod which is Ready may go. */
static void check_all_is_well(const struct world *w, const struct roll_pod *gone)
{
    unsigned ready[SHARDS] = {0};
    unsigned pods[SHARDS] = {0};
    for (size_t i = 0; i < PODS; i++) {
        const struct roll_pod *p = &w->pods[i];
        assert_true(p->there);
        if (p->shard != ROLL_NONE) {
            pods[p->shard]++;
            ready[p->shard] += p->ready;
        }
        if (p->shard != ROLL_NONE && (p == gone || !p->old)) {
            enum lock_state lock = w->shards[p->shard].lock;
            assert_true(lock == LOCK_STATE_NONE || lock == LOCK_STATE_HELD);
        }
        assert_false(p->shard == gone->shard && p->shard != ROLL_NONE && p->open_breaker);
        assert_false(w->facts.ordered && p->ordinal < gone->ordinal && !p->ready);
    }
    for (size_t i = 0; i < SHARDS; i++) {
        assert_true(i == gone->shard || pods[i] == 0 || ready[i] > 0);
    }
}

static void check_eviction(const struct world *w, const struct roll_step *s)
{
    const struct roll_pod *gone = &w->pods[s->pod];
    assert_true(gone->there && gone->old);
    assert_true(w->facts.scope == NULL || strcmp(w->shards[gone->shard].name, w->facts.scope) == 0);
    for (size_t i = 0; i < PODS; i++) {
        const struct roll_pod *p = &w->pods[i];
        assert_false(p->ending && !p->there);
        assert_true(!p->there || p->old || is_well(p));
        bool before = p->there && p->old && p->shard < gone->shard;
        bool chosen = strcmp(w->facts.first, gone->name) == 0;
        assert_false(before && !chosen && w->facts.scope == NULL);
    }
    if (gone->ready) {
        check_all_is_well(w, gone);
    }
}

static void test_no_gate_is_passed(void **state)
{
    enum { ROUNDS = 300000 };
    unsigned evicted = 0;
    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct world w;
        make_any(&w);
        struct roll_step s = roll_decide(&w.facts);
        if (s.what == ROLL_EVICT) {
            evicted++;
            check_eviction(&w, &s);
        }
        assert_true((s.what == ROLL_WAIT) == (s.gate != ROLL_OPEN));
        assert_true(s.done <= s.total);
    }
    assert_true(evicted > ROUNDS / 100);
}

/* ---- a roll from beginning to end, where anything may go wrong for a while ---- */

static unsigned out(const struct world *w)
{
    unsigned n = 0;
    for (size_t i = 0; i < PODS; i++) {
        n += !w->pods[i].there || !w->pods[i].ready;
    }
    return n;
}

/* What a StatefulSet and its pods do by themselves. */
static void live(struct world *w)
{
    struct roll_pod *p = &w->pods[chance(PODS)];
    if (p->ending) {
        p->ending = false;
    } else if (!p->there) {
        p->there = true;
        p->old = false;
    } else if (!p->ready) {
        p->ready = true;
    } else if (!p->available) {
        p->available = true;
    } else if (!p->enforces) {
        p->enforces = true;
    } else {
        p->open_breaker = false;
    }
    w->shards[chance(SHARDS)].lock = LOCK_STATE_HELD;
}

static void roll_once(struct world *w, unsigned *steps)
{
    struct roll_step s = roll_decide(&w->facts);
    while (s.what != ROLL_DONE && (*steps)++ < 10000) {
        if (s.what == ROLL_EVICT) {
            struct roll_pod *p = &w->pods[s.pod];
            assert_int_equal(out(w), 0);
            if (p->holder && p->shard != ROLL_NONE) {
                w->shards[p->shard].lock = LOCK_STATE_FREE;
            }
            lose(w, s.pod);
            p->ending = true;
            p->open_breaker = chance(3) == 0;
        }
        live(w);
        s = roll_decide(&w->facts);
    }
    assert_int_equal(s.what, ROLL_DONE);
}

static void test_one_pod_at_a_time_and_to_the_end(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2000; i++) {
        struct world w;
        unsigned steps = 0;
        make_world(&w);
        w.facts.ordered = chance(2) == 0;
        roll_once(&w, &steps);
        for (size_t p = 0; p < PODS; p++) {
            assert_false(w.pods[p].old);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_of_shards),
        cmocka_unit_test(test_order_of_pods),
        cmocka_unit_test(test_without_a_known_holder_by_ordinal),
        cmocka_unit_test(test_pods_of_no_shard_come_last),
        cmocka_unit_test(test_one_shard_alone),
        cmocka_unit_test(test_nothing_to_do),
        cmocka_unit_test(test_a_new_pod_must_be_well),
        cmocka_unit_test(test_all_pods_must_be_there),
        cmocka_unit_test(test_shards_that_are_down),
        cmocka_unit_test(test_in_a_shard_what_is_unwell_goes_first),
        cmocka_unit_test(test_breakers_of_the_shard),
        cmocka_unit_test(test_shards_must_be_led),
        cmocka_unit_test(test_the_last_shard_must_be_led),
        cmocka_unit_test(test_pods_that_are_made_in_order),
        cmocka_unit_test(test_a_pod_that_was_begun_with),
        cmocka_unit_test(test_what_was_rolled_back_goes_first),
        cmocka_unit_test(test_what_was_finished_stays_so),
        cmocka_unit_test(test_stuck),
        cmocka_unit_test(test_a_change_that_was_not_taken_note_of),
        cmocka_unit_test(test_holders),
        cmocka_unit_test(test_no_gate_is_passed),
        cmocka_unit_test(test_one_pod_at_a_time_and_to_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
