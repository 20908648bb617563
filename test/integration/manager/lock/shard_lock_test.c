/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Lease of a shard, of an API server that keeps it.
 */
#include "lock/shard_lock.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "storing_api.h"

struct user {
    struct storing_api store;
    struct shard_lock *lock;
    unsigned renewals;
    const char *name; /* of the Lease; NULL: "lead---a" */
};

static struct shard_lock *make(struct user *u)
{
    struct shard_lock_options o = {.client = u->store.api.client,
                                   .place = {.ns = "n"},
                                   .clock = &u->store.api.clock.clock,
                                   .ops = &u->store.ops};
    (void)snprintf(o.place.name, sizeof o.place.name, "%s", u->name == NULL ? "lead---a" : u->name);
    return shard_lock_new(u->store.api.loop, &o);
}

static int setup(void **state)
{
    return store_setup(state, sizeof(struct user));
}

static int teardown(void **state)
{
    struct user *u = *state;
    shard_lock_free(u->lock);
    shard_lock_free(NULL);
    return store_teardown(state);
}

static void renew(struct user *u, const char *name, const char *holder)
{
    store_put_text(&u->store, "leases", "n",
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"holderIdentity\":\"%s\","
                   "\"leaseDurationSeconds\":15,\"renewTime\":\"t%u\"}}",
                   name, holder, u->renewals++);
    store_settle(&u->store);
}

static void begin(struct user *u)
{
    u->lock = make(u);
    assert_non_null(u->lock);
    assert_int_equal(shard_lock_state(u->lock), LOCK_STATE_UNKNOWN);
    store_settle(&u->store);
}

static void expect_place(const char *object, const char *ns, const char *name)
{
    cJSON *parsed = cJSON_Parse(object);
    const struct shard_cache_config config = {.ns = "n", .name = "blue", .object = parsed};
    struct lock_place place;
    assert_non_null(parsed);
    assert_int_equal(shard_lock_find(&config, &place), name != NULL);
    if (name != NULL) {
        assert_string_equal(place.ns, ns);
        assert_string_equal(place.name, name);
    }
    cJSON_Delete(parsed);
}

/* The shard that is left to has the operator's own. */
static void test_where_it_is(void **state)
{
    (void)state;
    expect_place("{\"spec\":{}}", "", NULL);
    expect_place("{\"spec\":{\"controller\":{\"leaderElectionName\":\"lead\"}}}", "n",
                 "lead---blue");
    expect_place("{\"spec\":{\"leaving\":\"green\",\"controller\":{\"leaderElectionName\":"
                 "\"lead\",\"leaderElectionNamespace\":\"m\"}}}",
                 "m", "lead---blue");
    expect_place("{\"spec\":{\"leaving\":\"blue\",\"controller\":{\"leaderElectionName\":"
                 "\"lead\"}}}",
                 "n", "lead");
}

static void test_nobody_ever_led(void **state)
{
    struct user *u = *state;
    renew(u, "lead---b", "op-1_x");
    begin(u);
    assert_int_equal(shard_lock_state(u->lock), LOCK_STATE_NONE);
    assert_string_equal(shard_lock_holder(u->lock), "");
    renew(u, "lead---a", "op-0_x"); /* it may be an old one that somebody has put back */
    assert_int_equal(shard_lock_state(u->lock), LOCK_STATE_UNKNOWN);
    renew(u, "lead---a", "op-0_x");
    assert_int_equal(shard_lock_state(u->lock), LOCK_STATE_HELD);
    assert_string_equal(shard_lock_holder(u->lock), "op-0_x");
    store_delete(&u->store, "leases", "n", "lead---a");
    store_settle(&u->store);
    assert_int_equal(shard_lock_state(u->lock), LOCK_STATE_NONE);
}

static void test_who_does_not_renew(void **state)
{
    struct user *u = *state;
    renew(u, "lead---a", "op-0_x");
    begin(u);
    assert_int_equal(shard_lock_state(u->lock), LOCK_STATE_UNKNOWN);
    fake_clock_jump(&u->store.api.clock, 15001);
    assert_int_equal(shard_lock_state(u->lock), LOCK_STATE_FREE);
    renew(u, "lead---a", "op-0_x");
    assert_int_equal(shard_lock_state(u->lock), LOCK_STATE_HELD);
    uint64_t seen = shard_lock_seen_at(u->lock);
    fake_clock_jump(&u->store.api.clock, 15000);
    assert_int_equal(shard_lock_state(u->lock), LOCK_STATE_HELD);
    fake_clock_jump(&u->store.api.clock, 1);
    assert_int_equal(shard_lock_state(u->lock), LOCK_STATE_FREE);
    assert_int_equal(shard_lock_seen_at(u->lock), seen);
    renew(u, "lead---a", "op-1_x");
    assert_int_equal(shard_lock_state(u->lock), LOCK_STATE_HELD);
    renew(u, "lead---a", ""); /* given back */
    assert_int_equal(shard_lock_state(u->lock), LOCK_STATE_FREE);
}

static void lasts(struct user *u, double seconds)
{
    store_put_text(&u->store, "leases", "n",
                   "{\"metadata\":{\"name\":\"lead---a\"},\"spec\":{\"holderIdentity\":\"op-0_x\","
                   "\"leaseDurationSeconds\":%.0f,\"renewTime\":\"t%u\"}}",
                   seconds, u->renewals++);
    store_settle(&u->store);
}

/* Counted from when it was seen, or from when nobody can renew it any more. */
static void test_when_it_ends(void **state)
{
    struct user *u = *state;
    begin(u);
    assert_int_equal(shard_lock_ends_at(u->lock, 1), 0);
    lasts(u, 20);
    uint64_t seen = shard_lock_seen_at(u->lock);
    assert_int_equal(shard_lock_ends_at(u->lock, seen + 5), seen + 20000);
    assert_int_equal(shard_lock_ends_at(u->lock, seen - 1), seen - 1 + 20000);
    store_delete(&u->store, "leases", "n", "lead---a"); /* which nobody tells the holder */
    store_settle(&u->store);
    assert_int_equal(shard_lock_ends_at(u->lock, seen + 5), seen + 20000);
    lasts(u, 0); /* not said */
    seen = shard_lock_seen_at(u->lock);
    assert_int_equal(shard_lock_ends_at(u->lock, seen), seen + 15000);
    lasts(u, 4294967296);
    seen = shard_lock_seen_at(u->lock);
    assert_int_equal(shard_lock_ends_at(u->lock, seen), seen + 3600000);
}

static void test_read_anew(void **state)
{
    struct user *u = *state;
    u->lock = make(u);
    assert_non_null(u->lock);
    assert_false(shard_lock_is_read(u->lock));
    store_settle(&u->store);
    assert_true(shard_lock_is_read(u->lock));
    u->store.silent = true;
    renew(u, "lead---a", "op-0_x");
    assert_string_equal(shard_lock_holder(u->lock), "");
    shard_lock_read(u->lock);
    assert_false(shard_lock_is_read(u->lock));
    store_settle(&u->store);
    assert_true(shard_lock_is_read(u->lock));
    assert_string_equal(shard_lock_holder(u->lock), "op-0_x");
    assert_null(shard_lock_error(u->lock));
}

/* Another list of the same is no renewal; one without it is its end. */
static void test_listed_anew(void **state)
{
    struct user *u = *state;
    renew(u, "lead---a", "op-0_x");
    begin(u);
    store_expire_watches(&u->store, "leases");
    store_settle(&u->store);
    assert_int_equal(shard_lock_state(u->lock), LOCK_STATE_UNKNOWN);
    u->store.silent = true;
    store_delete(&u->store, "leases", "n", "lead---a");
    store_expire_watches(&u->store, "leases");
    u->store.silent = false;
    store_settle(&u->store);
    assert_int_equal(shard_lock_state(u->lock), LOCK_STATE_NONE);
}

static void test_what_cannot_be_read(void **state)
{
    struct user *u = *state;
    u->store.refused.part = "leases";
    u->store.refused.status = 403;
    u->lock = make(u);
    assert_non_null(u->lock);
    for (int i = 0; i < 20; i++) { /* it is tried again and again */
        store_turn(&u->store, 1);
    }
    assert_int_equal(shard_lock_state(u->lock), LOCK_STATE_UNKNOWN);
    assert_false(shard_lock_is_read(u->lock));
    assert_non_null(strstr(shard_lock_error(u->lock), "/leases: 403"));
    u->store.refused.part = NULL;
    store_settle(&u->store);
    assert_int_equal(shard_lock_state(u->lock), LOCK_STATE_NONE);
}

static void test_freed_at_any_moment(void **state)
{
    struct user *u = *state;
    renew(u, "lead---a", "op-0_x");
    for (uint64_t ms = 0; ms < 10; ms++) {
        u->lock = make(u);
        assert_non_null(u->lock);
        store_turn(&u->store, ms);
        shard_lock_free(u->lock);
    }
    begin(u);
}

/* It stands in a ShardingConfig, where anybody may write anything. */
static void test_a_name_that_no_lease_can_have(void **state)
{
    struct user *u = *state;
    u->name = "a/b,c---a";
    begin(u);
    assert_int_equal(shard_lock_state(u->lock), LOCK_STATE_UNKNOWN);
    assert_string_equal(shard_lock_holder(u->lock), "");
    assert_int_equal(shard_lock_seen_at(u->lock), 0);
    shard_lock_read(u->lock);
    assert_true(shard_lock_is_read(u->lock));
    assert_int_equal(shard_lock_ends_at(u->lock, 1), 0);
    assert_null(shard_lock_error(u->lock));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_where_it_is),
        TEST(test_nobody_ever_led),
        TEST(test_who_does_not_renew),
        TEST(test_when_it_ends),
        TEST(test_read_anew),
        TEST(test_listed_anew),
        TEST(test_what_cannot_be_read),
        TEST(test_freed_at_any_moment),
        TEST(test_a_name_that_no_lease_can_have),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
