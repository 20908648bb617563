/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks that a shard had, of an API server that keeps their Leases.
 */
#include "lock/lock_change.h"

#include <stdio.h>

#include "base/log.h"
#include "storing_api.h"

enum { SECOND = 1000, HOUR = 3600 * SECOND };

struct user {
    struct storing_api store;
    struct lock_change *change;
};

static int setup(void **state)
{
    return store_setup(state, sizeof(struct user));
}

static int teardown(void **state)
{
    struct user *u = *state;
    lock_change_free(u->change);
    lock_change_free(NULL);
    return store_teardown(state);
}

static struct lock_place place_of(unsigned number)
{
    struct lock_place place = {.ns = "n"};
    (void)snprintf(place.name, sizeof place.name, "lock-%u", number);
    return place;
}

/* From lock-0 to lock-1, to lock-2, and so on, to that of this number. */
static void change(struct user *u, unsigned number)
{
    struct lock_place from = place_of(0);
    struct lock_place to = place_of(1);
    u->change = lock_change_new(u->store.api.loop,
                                &(struct lock_change_options){.client = u->store.api.client,
                                                              .from = from,
                                                              .to = to,
                                                              .clock = &u->store.api.clock.clock,
                                                              .ops = &u->store.ops});
    for (unsigned i = 2; i <= number; i++) {
        from = to;
        to = place_of(i);
        lock_change_again(u->change, &from, &to);
    }
    store_settle(&u->store);
}

static void confirm(struct user *u)
{
    lock_change_confirm(u->change, true);
    store_settle(&u->store);
    lock_change_confirm(u->change, true);
    fake_clock_jump(&u->store.api.clock, 1);
}

static void test_nobody_ever_led(void **state)
{
    struct user *u = *state;
    change(u, 3);
    fake_clock_jump(&u->store.api.clock, HOUR);
    assert_false(lock_change_is_over(u->change));
    confirm(u);
    assert_true(lock_change_is_over(u->change));
    assert_null(lock_change_error(u->change));
}

static void test_somebody_led_by_the_first(void **state)
{
    struct user *u = *state;
    store_put_text(&u->store, "leases", "n",
                   "{\"metadata\":{\"name\":\"lock-0\"},\"spec\":{\"holderIdentity\":\"op-0\","
                   "\"leaseDurationSeconds\":30,\"renewTime\":\"t\"}}");
    change(u, 3);
    confirm(u);
    fake_clock_jump(&u->store.api.clock, 29 * SECOND);
    assert_false(lock_change_is_over(u->change));
    fake_clock_jump(&u->store.api.clock, 1 * SECOND);
    assert_true(lock_change_is_over(u->change));
}

/* However often somebody edits it, no more watches are open; who led by one that is not followed
 * has given up when the longest Lease has expired. */
static void test_more_than_are_followed(void **state)
{
    struct user *u = *state;
    change(u, LOCK_CHANGE_MAX);
    assert_null(lock_change_error(u->change));
    lock_change_free(u->change);
    unsigned lists = u->store.lists;
    change(u, 1000);
    assert_non_null(lock_change_error(u->change));
    assert_int_equal(u->store.lists - lists, LOCK_CHANGE_MAX + 1);
    confirm(u);
    fake_clock_jump(&u->store.api.clock, HOUR - SECOND);
    assert_false(lock_change_is_over(u->change));
    fake_clock_jump(&u->store.api.clock, SECOND);
    assert_true(lock_change_is_over(u->change));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nobody_ever_led),
        TEST(test_somebody_led_by_the_first),
        TEST(test_more_than_are_followed),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
