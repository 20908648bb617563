/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/review_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { SMALL, LARGE, KIB = 1024, MIB = 1024 * 1024, PLACES = REVIEW_WAITING_MAX + 1 };

#define SECOND UINT64_C(1000000000)

struct scene {
    struct review_queue queue;
    struct net_peer a;
    struct net_peer b;
    struct review_place places[PLACES];
    size_t count;
};

/* Peers of the test's own: the places take references, and never the last one away. */
static void open_scene(struct scene *t)
{
    *t = (struct scene){.a = {.refs = 1, .due = 1}, .b = {.refs = 1, .due = 2}};
    list_init(&t->a.link);
    list_init(&t->b.link);
    review_queue_init(&t->queue);
}

static struct review_place *wait(struct scene *t, struct net_peer *peer, unsigned lane, size_t size)
{
    struct review_place *p = &t->places[t->count++];
    review_place_open(p, peer, lane, size);
    review_place_wait(p, &t->queue);
    return p;
}

static void close_scene(struct scene *t)
{
    for (size_t i = 0; i < t->count; i++) {
        review_place_close(&t->places[i]);
    }
    assert_true(list_empty(&t->queue.waiting));
    assert_int_equal(t->queue.count, 0);
    assert_int_equal(t->queue.bytes, 0);
    assert_int_equal(t->a.waiting + t->b.waiting, 0);
    assert_int_equal(t->a.waiting_bytes + t->b.waiting_bytes, 0);
    assert_int_equal(t->a.refs, 1);
    assert_int_equal(t->b.refs, 1);
}

/* The next of the lane is decided, in so long. */
static struct review_place *decide(struct scene *t, unsigned lane, uint64_t now, uint64_t took)
{
    struct review_place *p = review_queue_next(&t->queue, lane);
    assert_non_null(p);
    review_place_leave(p);
    review_place_charge(p, now, took);
    return p;
}

static void test_of_one_peer_the_smallest_is_next(void **state)
{
    (void)state;
    struct scene t;
    open_scene(&t);
    assert_null(review_queue_next(&t.queue, SMALL));
    struct review_place *large = wait(&t, &t.a, LARGE, MIB);
    struct review_place *second = wait(&t, &t.a, SMALL, 200);
    struct review_place *first = wait(&t, &t.a, SMALL, 100);
    struct review_place *third = wait(&t, &t.a, SMALL, 200); /* came later */
    assert_ptr_equal(decide(&t, LARGE, SECOND, 1), large);
    assert_ptr_equal(decide(&t, SMALL, SECOND, 1), first);
    assert_ptr_equal(decide(&t, SMALL, SECOND, 1), second);
    assert_ptr_equal(decide(&t, SMALL, SECOND, 1), third);
    assert_null(review_queue_next(&t.queue, SMALL));
    close_scene(&t);
}

static void test_peers_take_turns(void **state)
{
    (void)state;
    struct scene t;
    open_scene(&t);
    for (size_t i = 0; i < 10; i++) {
        (void)wait(&t, &t.a, SMALL, 100); /* smaller, and there first */
    }
    struct review_place *one = wait(&t, &t.b, SMALL, 5000);
    struct review_place *two = wait(&t, &t.b, SMALL, 5000);
    assert_ptr_equal(decide(&t, SMALL, SECOND, SECOND / 10)->peer, &t.a);
    assert_ptr_equal(decide(&t, SMALL, SECOND, SECOND / 100), one);
    assert_ptr_equal(decide(&t, SMALL, SECOND, SECOND / 100), two); /* a's took more */
    assert_ptr_equal(decide(&t, SMALL, SECOND, SECOND / 10)->peer, &t.a);
    close_scene(&t);
}

/* Whoever asked for much before waits for a newcomer's no longer than that. */
static void test_what_is_owed_has_a_bound(void **state)
{
    (void)state;
    struct scene t;
    open_scene(&t);
    for (uint64_t i = 1; i <= 20; i++) {
        (void)wait(&t, &t.a, LARGE, MIB);
        (void)decide(&t, LARGE, i * SECOND, SECOND / 2);
    }
    assert_int_equal(t.a.due, 20 * SECOND + REVIEW_DEBT_NS);
    t.b.due = 20 * SECOND + REVIEW_DEBT_NS + 1;
    (void)wait(&t, &t.b, LARGE, MIB);
    (void)wait(&t, &t.a, LARGE, 2 * MIB);
    assert_ptr_equal(review_queue_next(&t.queue, LARGE)->peer, &t.a);
    close_scene(&t);
}

static void test_too_many(void **state)
{
    (void)state;
    struct scene t;
    open_scene(&t);
    struct review_place *few = wait(&t, &t.b, LARGE, 4 * MIB);
    for (size_t i = 1; i < REVIEW_WAITING_MAX; i++) {
        (void)wait(&t, &t.a, SMALL, 64 * KIB - i);
    }
    assert_null(review_queue_excess(&t.queue));
    struct review_place *largest = wait(&t, &t.a, LARGE, 64 * KIB);
    assert_ptr_equal(review_queue_excess(&t.queue), largest);
    review_place_leave(largest);
    assert_null(review_queue_excess(&t.queue));
    assert_ptr_equal(review_queue_next(&t.queue, LARGE), few);
    close_scene(&t);
}

static void test_too_many_bytes(void **state)
{
    (void)state;
    struct scene t;
    open_scene(&t);
    struct review_place *one = wait(&t, &t.b, LARGE, MIB);
    (void)wait(&t, &t.a, LARGE, 7 * MIB);
    struct review_place *largest = wait(&t, &t.a, LARGE, 8 * MIB);
    assert_null(review_queue_excess(&t.queue));
    struct review_place *two = wait(&t, &t.b, LARGE, MIB);
    assert_ptr_equal(review_queue_excess(&t.queue), largest);
    review_place_leave(largest);
    assert_null(review_queue_excess(&t.queue));
    assert_ptr_equal(one->queue, &t.queue);
    assert_ptr_equal(two->queue, &t.queue);
    close_scene(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_one_peer_the_smallest_is_next),
        cmocka_unit_test(test_peers_take_turns),
        cmocka_unit_test(test_what_is_owed_has_a_bound),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_too_many_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
