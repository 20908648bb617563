/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/body_budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MAX = 1000 };

struct scene {
    struct body_budget budget;
    struct net_peer a;
    struct net_peer b;
    struct body_share shares[6];
};

/* Peers of the test's own: the budget takes references, and never the last one away. */
static void open_scene(struct scene *t)
{
    *t = (struct scene){.a = {.refs = 1}, .b = {.refs = 1}};
    list_init(&t->a.link);
    list_init(&t->b.link);
    body_budget_init(&t->budget, MAX);
}

static struct body_share *begin(struct scene *t, size_t i, struct net_peer *peer, uint64_t bytes)
{
    body_share_open(&t->shares[i], &t->budget, peer);
    body_share_grow(&t->shares[i], bytes);
    return &t->shares[i];
}

static void close_scene(struct scene *t)
{
    assert_int_equal(t->budget.held, 0);
    assert_int_equal(t->a.bytes + t->b.bytes, 0);
    assert_int_equal(t->a.refs, 1);
    assert_int_equal(t->b.refs, 1);
    assert_true(list_empty(&t->budget.coming));
}

static void test_who_holds_most_gives_way(void **state)
{
    (void)state;
    struct scene t;
    open_scene(&t);
    struct body_share *few = begin(&t, 0, &t.b, 200); /* the oldest of all */
    struct body_share *first = begin(&t, 1, &t.a, 300);
    struct body_share *second = begin(&t, 2, &t.a, 500);
    assert_null(body_budget_excess(&t.budget));
    body_share_grow(few, 201);
    assert_ptr_equal(body_budget_excess(&t.budget), first);
    body_share_close(first);
    assert_null(body_budget_excess(&t.budget));
    body_share_grow(second, 900);
    assert_ptr_equal(body_budget_excess(&t.budget), second); /* the one that grows */
    body_share_close(second);
    body_share_close(few);
    close_scene(&t);
}

static void test_what_was_announced_is_no_share(void **state)
{
    (void)state;
    struct scene t;
    open_scene(&t);
    struct body_share *empty = begin(&t, 0, &t.a, 0);
    struct body_share *full = begin(&t, 1, &t.a, MAX);
    assert_null(body_budget_excess(&t.budget));
    body_share_grow(full, MAX + 1);
    assert_ptr_equal(body_budget_excess(&t.budget), full); /* the empty one would give no room */
    body_share_close(full);
    body_share_close(empty);
    close_scene(&t);
}

static void test_what_is_complete_stays(void **state)
{
    (void)state;
    struct scene t;
    open_scene(&t);
    struct body_share *whole = begin(&t, 0, &t.a, 900);
    body_share_complete(whole);
    struct body_share *coming = begin(&t, 1, &t.b, 101);
    assert_ptr_equal(body_budget_excess(&t.budget), coming);
    body_share_complete(coming);
    assert_null(body_budget_excess(&t.budget));
    body_share_close(coming);
    body_share_close(whole);
    close_scene(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_holds_most_gives_way),
        cmocka_unit_test(test_what_was_announced_is_no_share),
        cmocka_unit_test(test_what_is_complete_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
