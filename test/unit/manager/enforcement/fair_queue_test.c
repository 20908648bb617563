/* SPDX-License-Identifier: Apache-2.0 */
#include "enforcement/fair_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "alloc_sweep.h"

enum { GROUPS = 50, ITEMS = 2000, STEPS = 50000 };

struct thing {
    struct fair_item item;
    unsigned group;
    bool in_hand;
};

static void join(struct fair_queue *q, struct thing *t, unsigned group)
{
    char name[16];
    int len = snprintf(name, sizeof name, "ns-%u", group);
    t->group = group;
    assert_int_equal(fair_queue_join(q, &t->item, slice_of(name, (size_t)len)), 0);
}

static struct thing *take(struct fair_queue *q, uint64_t now)
{
    struct fair_item *i = fair_queue_take(q, now);
    return i == NULL ? NULL : LIST_ITEM(i, struct thing, item);
}

/* However many others have due, and for how long: one turn each, and the earliest of its own. */
static void test_groups_take_turns(void **state)
{
    (void)state;
    static struct thing many[ITEMS];
    static struct thing few[2];
    struct fair_queue q;
    fair_queue_init(&q, 4, 2);
    for (unsigned i = 0; i < ITEMS; i++) {
        join(&q, &many[i], i % 2);
        fair_queue_set(&q, &many[i].item, i);
    }
    for (unsigned i = 0; i < 2; i++) {
        join(&q, &few[i], 7);
        fair_queue_set(&q, &few[i].item, 5000 - i);
    }
    assert_ptr_equal(take(&q, 5000), &many[0]);
    assert_ptr_equal(take(&q, 5000), &many[1]);
    assert_ptr_equal(take(&q, 5000), &few[1]);
    assert_ptr_equal(take(&q, 5000), &many[2]);
    assert_null(take(&q, 5000)); /* 4 */
    assert_true(fair_queue_next(&q) == UINT64_MAX);
    fair_queue_done(&q, &many[1].item);
    assert_ptr_equal(take(&q, 5000), &many[3]);
    fair_queue_done(&q, &many[3].item);
    assert_ptr_equal(take(&q, 5000), &few[0]);
    fair_queue_done(&q, &few[0].item);
    fair_queue_done(&q, &few[1].item);
    assert_ptr_equal(take(&q, 5000), &many[5]);
    assert_ptr_equal(take(&q, 5000), &many[7]);
    fair_queue_done(&q, &many[7].item);
    fair_queue_done(&q, &many[5].item);
    fair_queue_done(&q, &many[2].item);
    fair_queue_done(&q, &many[0].item);
    for (unsigned i = 0; i < ITEMS; i++) {
        fair_queue_leave(&q, &many[i].item);
        fair_queue_leave(&q, &many[i].item);
    }
    fair_queue_leave(&q, &few[0].item);
    fair_queue_leave(&q, &few[1].item);
    assert_int_equal(q.groups.count, 0);
    fair_queue_deinit(&q);
}

static void test_no_more_than_its_share(void **state)
{
    (void)state;
    struct thing own[3] = {0};
    struct thing other = {0};
    struct fair_queue q;
    fair_queue_init(&q, 8, 2);
    for (unsigned i = 0; i < 3; i++) {
        join(&q, &own[i], 1);
        fair_queue_set(&q, &own[i].item, 10 + i);
    }
    join(&q, &other, 2);
    fair_queue_set(&q, &other.item, 30);
    assert_null(take(&q, 9));
    assert_int_equal(fair_queue_next(&q), 10);
    assert_ptr_equal(take(&q, 20), &own[0]);
    assert_ptr_equal(take(&q, 20), &own[1]);
    assert_null(take(&q, 20)); /* though there is room for 6 more */
    assert_int_equal(fair_queue_next(&q), 30);
    assert_ptr_equal(take(&q, 30), &other);
    fair_queue_done(&q, &own[0].item);
    assert_int_equal(fair_queue_next(&q), 12);
    fair_queue_unset(&q, &own[2].item);
    assert_true(fair_queue_next(&q) == UINT64_MAX);
    assert_null(take(&q, 30));
    fair_queue_done(&q, &own[1].item);
    fair_queue_done(&q, &other.item);
    for (unsigned i = 0; i < 3; i++) {
        fair_queue_leave(&q, &own[i].item);
    }
    fair_queue_leave(&q, &other.item);
    fair_queue_deinit(&q);
}

/* A group that came up and is put off, or emptied, before its turn. */
static void test_what_is_put_off(void **state)
{
    (void)state;
    struct thing a = {0};
    struct thing b = {0};
    struct fair_queue q;
    fair_queue_init(&q, 1, 1);
    join(&q, &a, 1);
    join(&q, &b, 2);
    fair_queue_set(&q, &a.item, 1);
    fair_queue_set(&q, &b.item, 2);
    assert_ptr_equal(take(&q, 5), &a); /* b's turn is next */
    fair_queue_set(&q, &b.item, 9);
    fair_queue_done(&q, &a.item);
    assert_null(take(&q, 5));
    assert_int_equal(fair_queue_next(&q), 9);
    fair_queue_set(&q, &a.item, 6);
    assert_ptr_equal(take(&q, 9), &a);
    fair_queue_leave(&q, &b.item);
    fair_queue_done(&q, &a.item);
    assert_null(take(&q, 9));
    fair_queue_leave(&q, &a.item);
    fair_queue_deinit(&q);
}

struct model {
    struct fair_queue q;
    struct thing things[ITEMS];
    unsigned in_hand[GROUPS];
    unsigned all;
    uint64_t now;
};

static bool is_takeable(const struct model *m, const struct thing *t)
{
    return due_is_set(&t->item.due) && t->item.due.at <= m->now && m->in_hand[t->group] < 3;
}

static void check_take(struct model *m)
{
    struct thing *t = take(&m->q, m->now);
    if (t != NULL) {
        assert_false(t->in_hand);
        assert_true(t->item.due.at <= m->now);
        t->in_hand = true;
        m->all++;
        m->in_hand[t->group]++;
        assert_in_range(m->in_hand[t->group], 1, 3);
        assert_in_range(m->all, 1, 10);
        return;
    }
    for (unsigned i = 0; m->all < 10 && i < ITEMS; i++) {
        assert_false(is_takeable(m, &m->things[i])); /* nothing is forgotten */
    }
}

static void step(struct model *m, struct thing *t, uint32_t random)
{
    if (t->in_hand) {
        fair_queue_done(&m->q, &t->item);
        t->in_hand = false;
        m->all--;
        m->in_hand[t->group]--;
    } else if (t->item.group == NULL) {
        join(&m->q, t, random % GROUPS);
    } else if (random % 5 == 0) {
        fair_queue_unset(&m->q, &t->item);
    } else if (random % 5 == 1) {
        fair_queue_leave(&m->q, &t->item);
    } else {
        fair_queue_set(&m->q, &t->item, m->now + random % 300);
    }
}

static void test_by_chance(void **state)
{
    (void)state;
    static struct model m;
    uint32_t random = 1;
    fair_queue_init(&m.q, 10, 3);
    for (int i = 0; i < STEPS; i++) {
        random = random * 1664525u + 1013904223u;
        step(&m, &m.things[(random >> 8) % ITEMS], random >> 16);
        m.now += i % 3 == 0 ? 1 : 0;
        if (i % 4 == 0) {
            check_take(&m);
        }
    }
    for (unsigned i = 0; i < ITEMS; i++) {
        if (m.things[i].in_hand) {
            fair_queue_done(&m.q, &m.things[i].item);
        }
        fair_queue_leave(&m.q, &m.things[i].item);
    }
    assert_int_equal(m.q.in_hand, 0);
    assert_int_equal(m.q.groups.count, 0);
    fair_queue_deinit(&m.q);
}

static bool play(void *data)
{
    struct fair_queue q;
    struct fair_item items[40] = {0};
    bool well = true;
    (void)data;
    fair_queue_init(&q, 2, 1);
    for (unsigned i = 0; i < 40; i++) {
        struct slice name = i % 20 == 0 ? SLICE("a") : SLICE("b");
        bool joined = fair_queue_join(&q, &items[i], name) == 0;
        well = well && joined;
        if (joined) {
            fair_queue_set(&q, &items[i], i);
        }
    }
    for (unsigned i = 0; i < 40; i++) {
        fair_queue_leave(&q, &items[i]);
    }
    assert_int_equal(q.groups.count, 0);
    fair_queue_deinit(&q);
    return well;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    assert_true(sweep_allocations(play, NULL) > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_take_turns), cmocka_unit_test(test_no_more_than_its_share),
        cmocka_unit_test(test_what_is_put_off),   cmocka_unit_test(test_by_chance),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
