/* SPDX-License-Identifier: Apache-2.0 */
#include "upstream/delivered_versions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "rounds.h"
#include "upstream/delivered_versions_internal.h"

enum { PODS = 100, SECRETS, VIEW = 200, OTHER_VIEW, A = 300, B, C };

static const struct delivered_key pods_a = {PODS, VIEW, A};
static const struct delivered_key pods_b = {PODS, VIEW, B};

static void give(struct delivered_versions *r, struct delivered_key key, uint64_t from, uint64_t to)
{
    delivered_give(r, &key, (struct delivered_range){.from = from, .to = to});
}

static void give_list(struct delivered_versions *r, struct delivered_key key, uint64_t version)
{
    give(r, key, version, version);
    delivered_newest(r, &key, version);
}

static int setup(void **state)
{
    *state = delivered_new(0);
    return *state == NULL ? -1 : 0;
}

/* Nobody has seen anything yet. */
static int setup_known(void **state)
{
    int rc = setup(state);
    if (rc == 0) {
        ((struct delivered_versions *)*state)->all_known = true;
    }
    return rc;
}

static int setup_doubting(void **state)
{
    int rc = setup_known(state);
    if (rc == 0) {
        ((struct delivered_versions *)*state)->doubt_ms = 60000;
    }
    return rc;
}

static int teardown(void **state)
{
    delivered_free(*state);
    return 0;
}

static void a_list_is_good_for_one_watch(void **state)
{
    struct delivered_versions *r = *state;
    give_list(r, pods_a, 10);
    give_list(r, pods_b, 20); /* 10 is below the ceiling from here on */
    assert_true(delivered_watch(r, &pods_a, 10));
    assert_false(delivered_watch(r, &pods_a, 10));
}

static void two_clients_may_list_at_one_version(void **state)
{
    struct delivered_versions *r = *state;
    give_list(r, pods_a, 10);
    give_list(r, pods_a, 10);
    give_list(r, pods_b, 20);
    assert_true(delivered_watch(r, &pods_a, 10));
    assert_true(delivered_watch(r, &pods_a, 10));
    assert_false(delivered_watch(r, &pods_a, 10));
}

static void another_selector_must_list_again(void **state)
{
    struct delivered_versions *r = *state;
    give_list(r, pods_a, 10);
    give_list(r, pods_a, 12);
    assert_false(delivered_watch(r, &pods_b, 10));
    give_list(r, pods_b, 13);
    assert_true(delivered_watch(r, &pods_b, 13));
    assert_false(delivered_watch(r, &pods_b, 12));
}

static void any_version_of_an_ended_watch(void **state)
{
    struct delivered_versions *r = *state;
    give_list(r, pods_a, 10);
    assert_true(delivered_watch(r, &pods_a, 10));
    give(r, pods_a, 10, 30);
    assert_false(delivered_watch(r, &pods_b, 20));
    assert_false(delivered_watch(r, &pods_b, 20)); /* the client may not have heard it */
    give_list(r, pods_b, 40);
    assert_true(delivered_watch(r, &pods_a, 30)); /* once for the client, wherever it got to */
    assert_false(delivered_watch(r, &pods_a, 10));
}

static void the_old_selector_comes_back(void **state)
{
    struct delivered_versions *r = *state;
    give_list(r, pods_a, 10);
    give_list(r, pods_b, 20);
    assert_true(delivered_watch(r, &pods_a, 10));
    assert_false(delivered_watch(r, &pods_a, 20));
}

static void fresh_and_stale_alike(void **state)
{
    struct delivered_versions *r = *state;
    give_list(r, pods_a, 10);
    give_list(r, pods_b, 10);
    give_list(r, pods_b, 10);
    /* However often fresh ones come, the stale one may still be to come. */
    for (int i = 0; i < 4; i++) {
        assert_false(delivered_watch(r, &pods_b, 10));
    }
    give_list(r, pods_b, 11);
    assert_true(delivered_watch(r, &pods_b, 11));
    assert_false(delivered_watch(r, &pods_a, 10)); /* and the other way round */
}

static void the_narrowest_goes_first(void **state)
{
    struct delivered_versions *r = *state;
    delivered_started(r, PODS, 9);
    give(r, pods_a, 10, 20);
    give_list(r, pods_a, 15);
    delivered_give(r, &pods_a, DELIVERED_ANY);
    give_list(r, pods_b, 90);
    assert_true(delivered_watch(r, &pods_a, 15)); /* 15 alone */
    assert_true(delivered_watch(r, &pods_a, 11)); /* 10..20 */
    assert_true(delivered_watch(r, &pods_a, 15)); /* any */
    assert_false(delivered_watch(r, &pods_a, 15));
}

/* Of two that overlap: the other client is still to come, with any version of either. */
static void whose_point_it_was_is_not_known(void **state)
{
    static const uint64_t left[] = {11, 24};
    for (size_t i = 0; i < ARRAY_LEN(left); i++) {
        struct delivered_versions *r = *state;
        const struct delivered_key a = {PODS, VIEW + i, A};
        const struct delivered_key b = {PODS, VIEW + i, B};
        give(r, a, 10, 20);
        give(r, a, 15, 25);
        assert_true(delivered_watch(r, &a, 18));
        give_list(r, b, left[i]);
        assert_false(delivered_watch(r, &b, left[i]));
    }
}

static void above_the_ceiling(void **state)
{
    struct delivered_versions *r = *state;
    give_list(r, pods_a, 10);
    delivered_saw(r, &pods_a, 20);
    assert_false(delivered_watch(r, &pods_b, 20));
    assert_true(delivered_watch(r, &pods_b, 21));
    assert_true(delivered_watch(r, &pods_b, 21));
    assert_true(delivered_watch(r, &pods_a, 11)); /* nothing came under B */
    delivered_saw(r, &pods_b, 30);
    assert_false(delivered_watch(r, &pods_a, 30));
    assert_true(delivered_watch(r, &pods_a, 31));
    delivered_saw(r, &pods_b, 25); /* watches do not go side by side */
    assert_false(delivered_watch(r, &pods_a, 29));
}

static void resources_have_their_own(void **state)
{
    struct delivered_versions *r = *state;
    const struct delivered_key secrets_b = {SECRETS, VIEW, B};
    give_list(r, pods_a, 50);
    give_list(r, secrets_b, 10);
    assert_true(delivered_watch(r, &secrets_b, 20));
    assert_false(delivered_watch(r, &pods_b, 20));
}

/* Wherever they come to lie. */
static void many_resources_with_one_view(void **state)
{
    struct delivered_versions *r = *state;
    for (uint64_t i = 0; i < DELIVERED_RESOURCES_MAX; i++) {
        give_list(r, (struct delivered_key){i * i * i, VIEW, i % 2 == 0 ? A : B}, 10);
    }
    for (uint64_t i = 1; i < DELIVERED_RESOURCES_MAX; i += 2) {
        assert_true(delivered_watch(r, &(struct delivered_key){i * i * i, VIEW, B}, 10));
    }
}

static void views_have_their_own(void **state)
{
    struct delivered_versions *r = *state;
    const struct delivered_key other = {PODS, OTHER_VIEW, A};
    give_list(r, pods_a, 10);
    give_list(r, pods_b, 20);
    assert_false(delivered_watch(r, &other, 10));
    assert_true(delivered_watch(r, &pods_a, 10));
}

static void nothing_is_known_after_a_start(void **state)
{
    struct delivered_versions *r = *state;
    assert_false(delivered_watch(r, &pods_a, 1000000));
    assert_true(delivered_watch(r, &pods_a, 1000000));
    /* Events may tell of old objects, and a watch may end after them. */
    delivered_saw(r, &pods_a, 10);
    give(r, pods_a, 5, 10);
    assert_false(delivered_watch(r, &pods_a, 1000));
    give_list(r, pods_a, 0); /* no version at all */
    assert_false(delivered_watch(r, &pods_a, 1001));
    give_list(r, pods_a, 2000);
    assert_false(delivered_watch(r, &pods_a, 1999));
    assert_true(delivered_watch(r, &pods_a, 2001));
}

static void refused_once_for_each_view_version_and_selector(void **state)
{
    struct delivered_versions *r = *state;
    const struct delivered_key other = {PODS, OTHER_VIEW, A};
    give_list(r, pods_a, 50);
    assert_false(delivered_watch(r, &pods_a, 10));
    assert_false(delivered_watch(r, &pods_a, 11));
    assert_false(delivered_watch(r, &pods_b, 10));
    assert_false(delivered_watch(r, &other, 10));
    assert_true(delivered_watch(r, &pods_a, 10));
    assert_true(delivered_watch(r, &pods_a, 11));
    assert_true(delivered_watch(r, &pods_b, 10));
    assert_true(delivered_watch(r, &other, 10));
    assert_true(delivered_watch(r, &pods_a, 10));
}

static void refused_for_as_long_as_it_is_doubted(void **state)
{
    (void)state;
    struct delivered_versions *r = delivered_new(60000);
    assert_non_null(r);
    delivered_clock(r, 5000);
    give_list(r, pods_a, 50);
    assert_false(delivered_watch(r, &pods_a, 10));
    delivered_clock(r, 64999);
    assert_false(delivered_watch(r, &pods_a, 10));
    assert_false(delivered_watch(r, &pods_a, 11));
    delivered_clock(r, 65000);
    assert_true(delivered_watch(r, &pods_a, 10));
    assert_true(delivered_watch(r, &pods_a, 10));
    assert_false(delivered_watch(r, &pods_a, 11));
    delivered_free(r);
}

static void versions_that_are_not_known(void **state)
{
    struct delivered_versions *r = *state;
    delivered_give(r, &pods_a, DELIVERED_ANY);
    assert_true(delivered_watch(r, &pods_a, 10));
    give_list(r, pods_a, 50);
    delivered_give(r, &pods_a, DELIVERED_ANY);
    /* Until a list under the selector in force tells where the resource is, nothing is above. */
    assert_false(delivered_watch(r, &pods_b, 51));
    assert_false(delivered_watch(r, &pods_b, UINT64_MAX));
    delivered_newest(r, &pods_a, 60);
    assert_false(delivered_watch(r, &pods_b, 61));
    delivered_newest(r, &pods_b, 60);
    assert_true(delivered_watch(r, &pods_b, 61));
    assert_false(delivered_watch(r, &pods_b, 60));
    give_list(r, pods_b, 60);
    assert_false(delivered_watch(r, &pods_b, 60)); /* it stays */
}

static void several_selectors_with_versions_that_are_not_known(void **state)
{
    struct delivered_versions *r = *state;
    delivered_give(r, &pods_a, DELIVERED_ANY);
    delivered_give(r, &pods_b, DELIVERED_ANY);
    delivered_newest(r, &pods_b, 20);
    assert_true(delivered_watch(r, &pods_b, 21));
    assert_false(delivered_watch(r, &pods_a, 21)); /* what came under B may be any */
    delivered_newest(r, &pods_a, 30);
    assert_true(delivered_watch(r, &pods_a, 31));
    assert_true(delivered_watch(r, &pods_b, 31));
}

/* They cannot be compared: doubted for a time, anew after each change. */
static void versions_that_are_no_numbers(void **state)
{
    (void)state;
    struct delivered_versions *r = delivered_new(60000);
    assert_non_null(r);
    r->all_known = true;
    delivered_clock(r, 1000);
    delivered_give(r, &pods_a, DELIVERED_ANY);
    assert_true(delivered_watch(r, &pods_a, DELIVERED_OPAQUE));
    delivered_give(r, &pods_a, DELIVERED_ANY);
    for (uint64_t now = 1000; now < 61000; now += 20000) {
        delivered_clock(r, now);
        assert_false(delivered_watch(r, &pods_b, DELIVERED_OPAQUE));
        delivered_give(r, &pods_b, DELIVERED_ANY);
    }
    delivered_clock(r, 61000);
    assert_true(delivered_watch(r, &pods_b, DELIVERED_OPAQUE));
    assert_true(delivered_list_newest(r, &pods_b));
    assert_false(delivered_watch(r, &pods_a, DELIVERED_OPAQUE)); /* and the other way round */
    delivered_give(r, &pods_a, DELIVERED_ANY);
    assert_false(delivered_watch(r, &pods_b, DELIVERED_OPAQUE));
    delivered_free(r);
}

/* The lists that follow a refusal ask for the newest version, and refusals are not had at once. */
static void refusals_come_to_an_end(void **state)
{
    static const uint64_t pauses[] = {500, 1000, 2000, 4000, 5000, 5000};
    struct delivered_versions *r = *state;
    delivered_clock(r, 10000);
    give_list(r, pods_a, 10);
    give_list(r, pods_b, 10);
    delivered_saw(r, &pods_b, 12); /* lists from memory would be of that */
    assert_false(delivered_list_newest(r, &pods_b));
    for (size_t i = 0; i < ARRAY_LEN(pauses); i++) {
        assert_false(delivered_watch(r, &pods_b, 10));
        assert_int_equal(delivered_pause(r, &pods_b, 10), pauses[i]);
        assert_true(delivered_list_newest(r, &pods_b));
        assert_false(delivered_list_newest(r, &pods_a));
    }
    assert_false(delivered_watch(r, &pods_b, 9)); /* not known */
    assert_int_equal(delivered_pause(r, &pods_b, 9), 0);
    delivered_clock(r, 10000 + 120000);
    assert_true(delivered_list_newest(r, &pods_b));
    delivered_clock(r, 10000 + 120001);
    assert_false(delivered_list_newest(r, &pods_b));
    give_list(r, pods_a, 20);
    assert_false(delivered_watch(r, &pods_b, 20));
    assert_int_equal(delivered_pause(r, &pods_b, 20), 0); /* it has not listed in vain */
}

static void what_is_younger_than_the_process(void **state)
{
    struct delivered_versions *r = *state;
    assert_false(delivered_past_is_known(r));
    assert_true(delivered_is_doubted(r, &pods_a, 100));
    delivered_started(r, PODS, 99);
    assert_false(delivered_is_doubted(r, &pods_a, 100));
    assert_false(delivered_watch(r, &pods_a, 99));
    assert_true(delivered_watch(r, &pods_a, 100));
    assert_true(delivered_watch(r, &pods_a, 101));
    delivered_started(r, PODS, 120); /* answers may overtake one another */
    assert_true(delivered_watch(r, &pods_a, 100));
    assert_false(delivered_watch(r, &pods_a, 98));
    delivered_started(r, PODS, 50);
    assert_true(delivered_watch(r, &pods_a, 97));
}

/* From the version of an object, though somebody has listed meanwhile. */
static void a_list_makes_nothing_older(void **state)
{
    struct delivered_versions *r = *state;
    give_list(r, pods_a, 120);
    assert_true(delivered_is_doubted(r, &pods_a, 110));
    assert_false(delivered_is_doubted(r, &pods_a, 120));
    delivered_started(r, PODS, 100);
    assert_true(delivered_watch(r, &pods_a, 110));
    assert_false(delivered_watch(r, &pods_a, 99));
}

static void a_list_says_nothing_where_all_is_known(void **state)
{
    struct delivered_versions *r = *state;
    give_list(r, pods_a, 120);
    assert_true(delivered_watch(r, &pods_a, 110));
    assert_true(delivered_watch(r, &pods_a, 1));
    assert_false(delivered_watch(r, &pods_b, 110)); /* the rules have changed */
    assert_true(delivered_watch(r, &pods_b, 121));
}

/* A list from the API server's memory may tell a version that somebody has from before, and so may
 * a watch, or what could not be read. */
static void only_the_newest_is_younger(void **state)
{
    (void)state;
    static const struct delivered_range ranges[] = {{100, 100}, {90, 110}, {0, UINT64_MAX}};
    for (size_t i = 0; i < ARRAY_LEN(ranges); i++) {
        struct delivered_versions *r = delivered_new(60000);
        assert_non_null(r);
        assert_true(delivered_list_newest(r, &pods_a));
        delivered_give(r, &pods_a, ranges[i]);
        assert_false(delivered_watch(r, &pods_a, 100));
        delivered_started(r, PODS, 105);
        assert_false(delivered_watch(r, &pods_a, 100));
        assert_true(delivered_pause(r, &pods_a, 100) > 0);
        assert_true(delivered_list_newest(r, &pods_a));
        give_list(r, pods_a, 105);
        assert_true(delivered_watch(r, &pods_a, 105));
        assert_false(delivered_watch(r, &pods_a, 104));
        delivered_free(r);
    }
}

/* The connection may be lost before. */
static void a_410_may_not_have_been_read(void **state)
{
    struct delivered_versions *r = *state;
    delivered_clock(r, 1000);
    give(r, pods_a, 10, 10);
    assert_true(delivered_watch(r, &pods_a, 10));
    struct delivered_account *a = delivered_account_open(r, &pods_a, 10);
    assert_non_null(a);
    delivered_account_close(r, a, 1000);
    give(r, pods_b, 10, 10);
    assert_false(delivered_watch(r, &pods_b, 10));
    give(r, pods_b, 11, 11);
    assert_true(delivered_watch(r, &pods_b, 11));
    /* Who had not read it has come by then. */
    delivered_clock(r, 60999);
    assert_false(delivered_watch(r, &pods_b, 10));
    delivered_clock(r, 61000);
    assert_true(delivered_watch(r, &pods_b, 10));
}

/* When nothing has changed since the last version that somebody has under other rules. */
static void a_list_that_would_be_refused_is_of_the_newest(void **state)
{
    struct delivered_versions *r = *state;
    for (int told = 0; told < 2; told++) {
        const struct delivered_key a = {PODS + (uint64_t)told, VIEW, A};
        const struct delivered_key b = {PODS + (uint64_t)told, VIEW, B};
        struct delivered_account *watch = delivered_account_open(r, &a, 10);
        assert_non_null(watch);
        delivered_saw(r, &a, 10);
        delivered_account_close(r, watch, (uint64_t)told);
        assert_false(delivered_list_newest(r, &a));
        assert_true(delivered_list_newest(r, &b));
        assert_false(delivered_list_newest(r, &(struct delivered_key){b.resource, OTHER_VIEW, B}));
        delivered_saw(r, &b, 11);
        assert_false(delivered_list_newest(r, &b));
    }
}

/* At first all clients list; later lists may come from the API server's memory. */
static void lists_from_memory_after_a_start(void **state)
{
    (void)state;
    struct delivered_versions *r = delivered_new(60000);
    const struct delivered_key secrets_a = {SECRETS, VIEW, A};
    assert_non_null(r);
    delivered_clock(r, 5000);
    assert_true(delivered_list_newest(r, &pods_a));
    give_list(r, pods_a, 100);
    delivered_clock(r, 64999);
    assert_true(delivered_list_newest(r, &pods_a));
    delivered_clock(r, 65000);
    assert_false(delivered_list_newest(r, &pods_a));
    assert_true(delivered_list_newest(r, &secrets_a)); /* nothing is known of it yet */
    delivered_started(r, SECRETS, 80);
    assert_false(delivered_list_newest(r, &secrets_a));
    delivered_give_list(r, &pods_a, 101, false);
    assert_true(delivered_watch(r, &pods_a, 101));
    delivered_free(r);
}

/* Its version may be that of a client from before, for as long as the resource does not change. */
static void a_list_from_memory_may_be_in_vain_once(void **state)
{
    (void)state;
    for (uint64_t version = 90; version <= 100; version += 10) {
        struct delivered_versions *r = delivered_new(60000);
        assert_non_null(r);
        delivered_clock(r, 5000);
        give_list(r, pods_a, 100);
        assert_true(delivered_watch(r, &pods_a, 100));
        delivered_clock(r, 65000);
        delivered_give_list(r, &pods_a, version, false);
        assert_false(delivered_watch(r, &pods_a, version));
        assert_true(delivered_list_newest(r, &pods_a));
        give_list(r, pods_a, 120);
        assert_true(delivered_watch(r, &pods_a, 120));
        delivered_clock(r, 185001);
        assert_false(delivered_list_newest(r, &pods_a));
        delivered_give_list(r, &pods_a, version, false);
        assert_true(delivered_watch(r, &pods_a, version));
        delivered_free(r);
    }
}

/* The events that a watch begins with are of versions from before the process. */
static void somebody_from_before_may_have_a_version_of_a_range(void **state)
{
    struct delivered_versions *r = *state;
    for (uint64_t known = 0; known < 2; known++) {
        give(r, pods_a, 10, 50);
        assert_false(delivered_watch(r, &pods_a, 10 + known));
        assert_false(delivered_watch(r, &pods_a, 20 + known));
        assert_false(delivered_watch(r, &pods_a, 50 - known));
        delivered_started(r, PODS, 60);
    }
    give(r, pods_a, 61, 70);
    give_list(r, pods_b, 80);
    assert_true(delivered_watch(r, &pods_a, 65));
}

static void what_is_known_is_not_doubted(void **state)
{
    struct delivered_versions *r = *state;
    delivered_give(r, &pods_a, (struct delivered_range){10, 10});
    assert_true(delivered_is_doubted(r, &pods_a, 10));
    assert_false(delivered_is_doubted(r, &pods_b, 10)); /* stale */
    assert_true(delivered_is_doubted(r, &pods_b, 11));
    delivered_newest(r, &pods_a, 10);
    assert_false(delivered_is_doubted(r, &pods_a, 10));
    assert_false(delivered_is_doubted(r, &pods_b, 11));
    for (uint64_t i = 0; i <= DELIVERED_POINTS_MAX; i++) {
        struct delivered_key other = {SECRETS, 1000 + i, B};
        delivered_give(r, &other, (struct delivered_range){20, 20});
    }
    const struct delivered_key secrets_a = {SECRETS, VIEW, A};
    assert_false(delivered_is_doubted(r, &secrets_a, 20)); /* forgotten: as good as stale */
    assert_true(delivered_is_doubted(r, &secrets_a, 21));
}

static void many_selectors(void **state)
{
    struct delivered_versions *r = *state;
    struct delivered_key key = pods_a;
    for (uint64_t i = 0; i < 50; i++) {
        key.selector = 1000 + i;
        give_list(r, key, i == 7 ? 500 : 100 + i);
    }
    assert_false(delivered_watch(r, &pods_a, 500));
    assert_true(delivered_watch(r, &pods_a, 501));
    key.selector = 1007; /* the others' highest is 149 */
    assert_true(delivered_watch(r, &key, 501));
    assert_false(delivered_watch(r, &key, 149));
}

static void pages(void **state)
{
    struct delivered_versions *r = *state;
    delivered_give_page(r, &pods_a, 77);
    assert_true(delivered_page(r, &pods_a, 77));
    assert_true(delivered_page(r, &pods_a, 77));
    delivered_give_page(r, &pods_b, 77);
    delivered_give_page(r, &pods_b, 78);
    /* Whose it is cannot be told, however often it is asked for. */
    for (int i = 0; i < 4; i++) {
        assert_false(delivered_page(r, &pods_b, 77));
        assert_false(delivered_page(r, &pods_a, 77));
    }
    assert_true(delivered_page(r, &pods_b, 78));
    assert_false(delivered_page(r, &pods_b, 79)); /* not known: refused once */
    assert_true(delivered_page(r, &pods_b, 79));
}

static void list_pages_that_are_not_known(void **state)
{
    struct delivered_versions *r = *state;
    delivered_give_page(r, &pods_b, 0);
    assert_true(delivered_page(r, &pods_b, 77));
    assert_true(delivered_page(r, &pods_b, 78));
    delivered_give_page(r, &pods_a, 77);
    assert_false(delivered_page(r, &pods_b, 77));
    delivered_give_page(r, &pods_a, 0); /* may be any: doubted for a time */
    assert_false(delivered_page(r, &pods_b, 78));
    assert_true(delivered_page(r, &pods_b, 78));
    delivered_give_page(r, &pods_a, 0);
    assert_false(delivered_page(r, &pods_b, 78)); /* anew */
    delivered_give_page(r, &pods_b, 79);
    assert_true(delivered_page(r, &pods_b, 79));
}

static void list_pages_are_no_versions(void **state)
{
    struct delivered_versions *r = *state;
    delivered_give_page(r, &pods_a, 10);
    assert_false(delivered_watch(r, &pods_a, 10));
    assert_false(delivered_page(r, &pods_a, 11));
    assert_false(delivered_watch(r, &pods_a, 11));
    assert_true(delivered_page(r, &pods_a, 11));
}

static void forgotten_points_are_refused(void **state)
{
    struct delivered_versions *r = *state;
    give_list(r, pods_a, 4);
    give_list(r, pods_a, 5);
    delivered_saw(r, &pods_b, 1000000);
    for (uint64_t i = 0; i < DELIVERED_POINTS_MAX - 1; i++) {
        give_list(r, (struct delivered_key){PODS, 1000 + i, A}, 6 + i);
    }
    assert_false(delivered_watch(r, &pods_a, 4)); /* the oldest; its mark takes the next place */
    assert_false(delivered_watch(r, &pods_a, 5));
    assert_true(delivered_watch(r, &(struct delivered_key){PODS, 1500, A}, 506));
}

/* Whoever has one is still there, so another's list at that version is no pass for it. */
static void pushed_out_points_stay_stale(void **state)
{
    struct delivered_versions *r = *state;
    give_list(r, pods_a, 10);
    for (uint64_t i = 0; i < DELIVERED_POINTS_MAX; i++) {
        give_list(r, (struct delivered_key){PODS, 1000 + i, A}, 10);
    }
    give_list(r, pods_b, 10);
    assert_false(delivered_watch(r, &pods_b, 10));
    give_list(r, pods_b, 11);
    assert_true(delivered_watch(r, &pods_b, 11));
}

static void what_is_used_is_kept(void **state)
{
    struct delivered_versions *r = *state;
    delivered_give_page(r, &pods_a, 7);
    delivered_saw(r, &pods_b, 1000000);
    for (uint64_t i = 0; i < (uint64_t)3 * DELIVERED_POINTS_MAX; i++) {
        give_list(r, pods_a, 6);
        assert_true(delivered_page(r, &pods_a, 7));
        give_list(r, (struct delivered_key){PODS, 1000 + i, A}, 5);
    }
    for (uint64_t i = 0; i < (uint64_t)3 * DELIVERED_POINTS_MAX; i++) {
        assert_true(delivered_watch(r, &pods_a, 6));
    }
    assert_false(delivered_watch(r, &pods_a, 6));
}

static void what_was_dropped_is_used_again(void **state)
{
    struct delivered_versions *r = *state;
    const struct delivered_key first = {PODS, OTHER_VIEW, A};
    give_list(r, first, 9);
    give_list(r, pods_b, 1000000);
    for (uint64_t i = 0; i < (uint64_t)3 * DELIVERED_POINTS_MAX; i += 10) {
        for (uint64_t j = i; j < i + 10; j++) {
            give_list(r, pods_a, 2 + j);
        }
        for (uint64_t j = i; j < i + 10; j++) {
            assert_true(delivered_watch(r, &pods_a, 2 + j));
        }
    }
    assert_true(delivered_watch(r, &first, 9)); /* nothing else is left, so it was not pushed out */
}

static void forgotten_resources_are_as_after_a_start(void **state)
{
    struct delivered_versions *r = *state;
    give_list(r, pods_a, 10);
    for (uint64_t i = 0; i < DELIVERED_RESOURCES_MAX; i++) {
        assert_true(delivered_watch(r, &pods_a, 11)); /* used, so it stays */
        delivered_saw(r, &(struct delivered_key){1000 + i, VIEW, A}, 5);
    }
    assert_true(delivered_watch(r, &pods_a, 11));
    for (uint64_t i = 0; i < DELIVERED_RESOURCES_MAX; i++) {
        delivered_saw(r, &(struct delivered_key){9000 + i, VIEW, A}, 5);
    }
    assert_false(delivered_watch(r, &pods_a, 12));
}

/* What clients have of one is not from before the process. */
static void forgotten_resources_are_as_high_as_they_were(void **state)
{
    struct delivered_versions *r = *state;
    for (int known = 0; known < 2; known++) {
        give_list(r, pods_a, 5000);
        for (uint64_t i = 0; i < DELIVERED_RESOURCES_MAX; i++) {
            delivered_saw(r, &(struct delivered_key){1000 + i, VIEW, A}, 5);
        }
        if (known) {
            r->all_known = true;
        }
        assert_false(delivered_watch(r, &pods_b, 3000 + (uint64_t)known));
        delivered_started(r, PODS, 100);
        assert_false(delivered_watch(r, &pods_b, 4000 + (uint64_t)known));
        assert_true(delivered_watch(r, &pods_b, 5001));
    }
}

static void forget_all_resources(struct delivered_versions *r)
{
    for (uint64_t i = 0; i < DELIVERED_RESOURCES_MAX; i++) {
        delivered_saw(r, &(struct delivered_key){1000 + i, VIEW, A}, 5);
    }
}

static void push_out_all_points(struct delivered_versions *r)
{
    for (uint64_t i = 0; i < DELIVERED_POINTS_MAX; i++) {
        give(r, (struct delivered_key){1000, 1000 + i, A}, 5, 5);
    }
}

/* Whichever goes first, the point or its resource. */
static void pushed_out_points_of_forgotten_resources_stay_stale(void **state)
{
    struct delivered_versions *r = *state;
    for (uint64_t i = 0; i < 2; i++) {
        const struct delivered_key a = {PODS + i, VIEW, A};
        const struct delivered_key b = {PODS + i, VIEW, B};
        give(r, a, 10, 20);
        if (i == 0) {
            push_out_all_points(r);
            forget_all_resources(r);
        } else {
            forget_all_resources(r);
            push_out_all_points(r);
        }
        give(r, b, 20, 20);
        assert_false(delivered_watch(r, &b, 20));
        assert_false(delivered_watch(r, &b, 20)); /* not for a time */
        give_list(r, b, 21);
        assert_true(delivered_watch(r, &b, 21));
    }
}

/* Each API server counts its own versions. */
static void what_was_forgotten_bounds_no_list_that_is_lower(void **state)
{
    struct delivered_versions *r = *state;
    give(r, pods_a, 1000, 1000);
    push_out_all_points(r);
    forget_all_resources(r);
    const struct delivered_key elsewhere = {SECRETS, VIEW, B};
    give_list(r, elsewhere, 7);
    give_list(r, elsewhere, 8);
    assert_true(delivered_watch(r, &elsewhere, 8));
}

/*
 * Random calls, against a model that searches all there ever was.
 */

enum { MODEL_ITEMS = 512, MODEL_IDS = 6, MODEL_VERSIONS = 64 };

struct item {
    unsigned count; /* 0: used up */
    char kind;      /* version, page, or their refusals in capitals */
    struct delivered_key key;
    struct delivered_range range;
};

struct model {
    struct item items[MODEL_ITEMS];
    size_t count;
    uint64_t before[MODEL_IDS];             /* of a resource */
    uint64_t highest[MODEL_IDS][MODEL_IDS]; /* of resource and selector */
    bool unread[MODEL_IDS][MODEL_IDS];      /* something that could not be read was given */
};

static void model_add(struct model *m, char kind, struct delivered_key key,
                      struct delivered_range range)
{
    for (size_t i = 0; i < m->count; i++) {
        struct item *x = &m->items[i];
        if (x->count > 0 && x->kind == kind && memcmp(&x->key, &key, sizeof key) == 0 &&
            memcmp(&x->range, &range, sizeof range) == 0) {
            x->count++;
            return;
        }
    }
    assert_true(m->count < MODEL_ITEMS);
    m->items[m->count++] = (struct item){1, kind, key, range};
}

/* The narrowest item that holds `number`, given under the selector or not; then the youngest. */
static struct item *model_find(struct model *m, char kind, struct delivered_key key,
                               uint64_t number, bool fresh)
{
    struct item *best = NULL;
    for (size_t i = 0; i < m->count; i++) {
        struct item *x = &m->items[i];
        if (x->count > 0 && x->kind == kind && x->key.resource == key.resource &&
            x->key.view == key.view && (x->key.selector == key.selector) == fresh &&
            number >= x->range.from && number <= x->range.to &&
            (best == NULL || x->range.to - x->range.from <= best->range.to - best->range.from)) {
            best = x;
        }
    }
    return best;
}

static bool model_unknown(struct model *m, char kind, struct delivered_key key, uint64_t number)
{
    struct item *mark = model_find(m, kind, key, number, true);
    if (mark != NULL) {
        return true;
    }
    model_add(m, kind, key, (struct delivered_range){number, number});
    return false;
}

static void model_saw(struct model *m, struct delivered_key key, uint64_t version)
{
    uint64_t *highest = &m->highest[key.resource][key.selector];
    *highest = version > *highest ? version : *highest;
}

/* Those of the selector itself stay, and so they may where several were. */
static void model_newest(struct model *m, struct delivered_key key, uint64_t version)
{
    bool *unread = m->unread[key.resource];
    uint64_t by = 0;
    uint64_t count = 0;
    uint64_t *before = &m->before[key.resource];
    *before = version < *before ? version : *before;
    for (uint64_t s = 0; s < MODEL_IDS; s++) {
        count += unread[s];
        by = unread[s] ? s : by;
    }
    if (count == 0 || (count == 1 && by == key.selector)) {
        return;
    }
    by = count > 1 ? DELIVERED_MIXED : by;
    model_saw(m, (struct delivered_key){key.resource, key.view, by}, version);
    memset(unread, 0, sizeof m->unread[0]);
    unread[key.selector] = by == DELIVERED_MIXED;
}

static void model_give(struct model *m, struct delivered_key key, struct delivered_range range,
                       bool list)
{
    if (list) {
        model_newest(m, key, range.to);
    }
    model_add(m, 'v', key, range);
    if (range.to != UINT64_MAX) {
        model_saw(m, key, range.to);
        return;
    }
    m->unread[key.resource][key.selector] = true;
    for (size_t i = 0; i < m->count; i++) {
        struct item *x = &m->items[i];
        if (x->kind == 'V' && x->key.resource == key.resource && x->key.view == key.view &&
            x->key.selector != key.selector) {
            x->count = 0;
        }
    }
}

static bool model_above(const struct model *m, struct delivered_key key, uint64_t version)
{
    bool above = version > m->before[key.resource];
    for (uint64_t s = 0; s < MODEL_IDS; s++) {
        above = above && (s == key.selector ||
                          (version > m->highest[key.resource][s] && !m->unread[key.resource][s]));
    }
    return above;
}

static bool model_watch(struct model *m, struct delivered_key key, uint64_t version)
{
    struct item *fresh = model_find(m, 'v', key, version, true);
    bool stale = model_find(m, 'v', key, version, false) != NULL;
    bool above = model_above(m, key, version);
    if (stale && !above) {
        return false;
    }
    uint64_t before = m->before[key.resource];
    if (fresh != NULL &&
        (version < before || (version == before && fresh->range.from != fresh->range.to))) {
        fresh = NULL; /* somebody from before may have it */
    }
    if (fresh != NULL && !(above && fresh->range.to == UINT64_MAX)) {
        fresh->count--;
    }
    return above || fresh != NULL || model_unknown(m, 'V', key, version);
}

static bool model_page(struct model *m, struct delivered_key key, uint64_t token)
{
    if (model_find(m, 'p', key, token, false) != NULL) {
        return false;
    }
    return model_find(m, 'p', key, token, true) != NULL || model_unknown(m, 'P', key, token);
}

static uint64_t random_below(uint64_t *seed, uint64_t n)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return (*seed >> 11) % n;
}

/* Aligned, so that of each width one range only holds a version, and which goes first is clear. */
static struct delivered_range random_range(uint64_t *seed, uint64_t version)
{
    uint64_t dice = random_below(seed, 16);
    if (dice == 15) {
        return DELIVERED_ANY;
    }
    uint64_t size = dice < 8 ? 1 : (uint64_t)1 << random_below(seed, 5);
    uint64_t from = version - version % size;
    return (struct delivered_range){from, from + size - 1};
}

static void random_call(struct delivered_versions *r, struct model *m, uint64_t *seed,
                        uint64_t base)
{
    const struct delivered_key key = {random_below(seed, 2), random_below(seed, 2),
                                      2 + random_below(seed, MODEL_IDS - 2)};
    uint64_t version = base + 1 + random_below(seed, MODEL_VERSIONS);
    switch (random_below(seed, 8)) {
    case 0:
    case 1: {
        struct delivered_range range = random_range(seed, version);
        bool list = range.from == range.to && random_below(seed, 2) == 0;
        if (list) {
            delivered_newest(r, &key, range.to);
        }
        delivered_give(r, &key, range);
        model_give(m, key, range, list);
        return;
    }
    case 2:
        delivered_saw(r, &key, version);
        model_saw(m, key, version);
        return;
    case 3:
        delivered_give_page(r, &key, version);
        model_add(m, 'p', key, (struct delivered_range){version, version});
        return;
    case 4:
        assert_int_equal(delivered_page(r, &key, version), model_page(m, key, version));
        return;
    default:
        assert_int_equal(delivered_watch(r, &key, version), model_watch(m, key, version));
    }
}

static void random_calls(void **state)
{
    (void)state;
    uint64_t seed = 20240607;
    for (int round = 0; round < 300; round++) {
        struct delivered_versions *r = delivered_new(0);
        assert_non_null(r);
        struct model m = {.count = 0};
        r->all_known = round % 2 == 0;
        for (size_t i = 0; i < MODEL_IDS; i++) {
            m.before[i] = r->all_known ? 0 : UINT64_MAX;
        }
        for (uint64_t i = 0; i < MODEL_ITEMS; i++) {
            random_call(r, &m, &seed, 1 + i / 4);
        }
        delivered_free(r);
    }
}

/*
 * Clients that list, watch and go on, while selectors change and localproxy starts anew: none goes
 * on from what it learnt under another selector, and none lists more often than it has to.
 */

enum { CLIENTS = 12 };

struct client {
    struct delivered_key key; /* its selector is the one it learnt all under */
    uint64_t version;         /* 0: it has nothing */
    uint64_t from;            /* of the open watch */
    bool watching;
    bool given; /* by this run of localproxy */
};

struct world {
    struct delivered_versions *resume;
    struct client clients[CLIENTS];
    uint64_t revision;
    uint64_t selector;
    uint64_t began[3]; /* the version of the first list of a resource */
    uint64_t seed;
    long went_on;
    long refused;
};

static void end_watch(struct world *w, struct client *c)
{
    if (c->watching) {
        give(w->resume, c->key, c->from, c->version);
        c->watching = false;
        c->version -=
            random_below(&w->seed, c->version - c->from + 1); /* it may not have read all */
    }
}

static void list(struct world *w, struct client *c)
{
    end_watch(w, c);
    c->key.selector = w->selector;
    c->version = ++w->revision;
    c->given = true;
    uint64_t *began = &w->began[c->key.resource];
    *began = *began == 0 ? c->version : *began;
    give_list(w->resume, c->key, c->version);
}

static void go_on(struct world *w, struct client *c)
{
    struct delivered_key asked = c->key;
    asked.selector = w->selector;
    bool same = c->key.selector == w->selector;
    if (delivered_watch(w->resume, &asked, c->version)) {
        assert_true(same);
        c->watching = true;
        c->from = c->version;
        w->went_on++;
        return;
    }
    assert_false(same && c->given && c->version > w->began[c->key.resource]);
    w->refused++;
    list(w, c);
}

static void change_an_object(struct world *w, uint64_t resource)
{
    w->revision++;
    for (size_t i = 0; i < CLIENTS; i++) {
        struct client *c = &w->clients[i];
        if (c->watching && c->key.resource == resource && random_below(&w->seed, 4) != 0) {
            c->version = w->revision;
            delivered_saw(w->resume, &c->key, c->version);
        }
    }
}

static void change_selector(struct world *w)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        end_watch(w, &w->clients[i]);
    }
    w->selector = 1 + random_below(&w->seed, 8);
}

/* The selector may change while it is down. */
static void start_anew(struct world *w)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        w->clients[i].watching = false;
        w->clients[i].given = false;
    }
    w->selector = 1 + random_below(&w->seed, 8);
    memset(w->began, 0, sizeof w->began);
    delivered_free(w->resume);
    w->resume = delivered_new(0);
    assert_non_null(w->resume);
}

static void act(struct world *w, struct client *c)
{
    if (c->version == 0 || random_below(&w->seed, 16) == 0) {
        list(w, c);
    } else if (c->watching) {
        end_watch(w, c);
    } else {
        go_on(w, c);
    }
}

static void clients_never_miss_a_change(void **state)
{
    (void)state;
    struct world w = {.seed = 4711, .selector = 1, .resume = delivered_new(0)};
    assert_non_null(w.resume);
    for (size_t i = 0; i < CLIENTS; i++) {
        w.clients[i].key = (struct delivered_key){.resource = i % 3, .view = i};
    }
    for (int i = 0; i < 200000; i++) {
        uint64_t dice = random_below(&w.seed, 400);
        if (dice == 0) {
            start_anew(&w);
        } else if (dice < 10) {
            change_selector(&w);
        } else if (dice < 200) {
            change_an_object(&w, random_below(&w.seed, 3));
        } else {
            act(&w, &w.clients[random_below(&w.seed, CLIENTS)]);
        }
    }
    delivered_free(w.resume);
    assert_true(w.went_on > 10000);
    assert_true(w.refused > 1000);
}

/*
 * The same of clients that look alike, while little happens: many list at one version.
 */

static void list_quietly(struct world *w, struct client *c)
{
    end_watch(w, c);
    w->revision += random_below(&w->seed, 4) == 0 ? 1 : 0;
    c->key.selector = w->selector;
    c->version = w->revision;
    give_list(w->resume, c->key, c->version);
}

static void go_on_quietly(struct world *w, struct client *c)
{
    struct delivered_key asked = c->key;
    asked.selector = w->selector;
    if (c->version != 0 && delivered_watch(w->resume, &asked, c->version)) {
        assert_int_equal(c->key.selector, w->selector);
        c->watching = true;
        c->from = c->version;
        w->went_on++;
    } else {
        w->refused++;
        list_quietly(w, c);
    }
}

static void clients_that_look_alike(void **state)
{
    const unsigned steps = rounds(40000, 200000);
    (void)state;
    struct world w = {.seed = 475552, .selector = 1, .revision = 100, .resume = delivered_new(0)};
    assert_non_null(w.resume);
    delivered_newest(w.resume, &(struct delivered_key){0, 0, 1}, 1);
    for (unsigned i = 0; i < steps; i++) {
        struct client *c = &w.clients[random_below(&w.seed, CLIENTS)];
        uint64_t dice = random_below(&w.seed, 100);
        if (dice < 3) {
            change_selector(&w);
        } else if (dice < 6) {
            change_an_object(&w, 0);
        } else if (c->watching) {
            end_watch(&w, c);
        } else {
            go_on_quietly(&w, c);
        }
    }
    delivered_free(w.resume);
    assert_true(w.went_on > steps / 20);
    assert_true(w.refused > steps / 200);
}

static bool use(void *data)
{
    (void)data;
    struct delivered_versions *r = delivered_new(0);
    if (r == NULL) {
        return false;
    }
    give_list(r, pods_a, 10);
    delivered_saw(r, &pods_a, 20);
    delivered_give_page(r, &pods_a, 7);
    bool well = delivered_watch(r, &pods_a, 10) && delivered_page(r, &pods_a, 7) &&
                !delivered_watch(r, &pods_b, 20) && delivered_watch(r, &pods_b, 20);
    delivered_free(r);
    return well;
}

static void only_the_start_can_fail(void **state)
{
    (void)state;
    assert_int_equal(sweep_allocations(use, NULL), 1);
    delivered_free(NULL);
}

#define WITH_RESUME(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define WITH_ALL_KNOWN(test) cmocka_unit_test_setup_teardown(test, setup_known, teardown)
#define WITH_DOUBT(test) cmocka_unit_test_setup_teardown(test, setup_doubting, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ALL_KNOWN(a_list_is_good_for_one_watch),
        WITH_ALL_KNOWN(two_clients_may_list_at_one_version),
        WITH_RESUME(another_selector_must_list_again),
        WITH_ALL_KNOWN(any_version_of_an_ended_watch),
        WITH_RESUME(the_old_selector_comes_back),
        WITH_RESUME(fresh_and_stale_alike),
        WITH_RESUME(the_narrowest_goes_first),
        WITH_ALL_KNOWN(whose_point_it_was_is_not_known),
        WITH_RESUME(above_the_ceiling),
        WITH_RESUME(resources_have_their_own),
        WITH_RESUME(many_resources_with_one_view),
        WITH_RESUME(views_have_their_own),
        WITH_RESUME(nothing_is_known_after_a_start),
        WITH_RESUME(refused_once_for_each_view_version_and_selector),
        cmocka_unit_test(refused_for_as_long_as_it_is_doubted),
        WITH_ALL_KNOWN(versions_that_are_not_known),
        WITH_RESUME(several_selectors_with_versions_that_are_not_known),
        cmocka_unit_test(versions_that_are_no_numbers),
        WITH_RESUME(refusals_come_to_an_end),
        WITH_RESUME(what_is_younger_than_the_process),
        WITH_RESUME(a_list_makes_nothing_older),
        WITH_ALL_KNOWN(a_list_says_nothing_where_all_is_known),
        cmocka_unit_test(only_the_newest_is_younger),
        WITH_DOUBT(a_410_may_not_have_been_read),
        WITH_DOUBT(a_list_that_would_be_refused_is_of_the_newest),
        cmocka_unit_test(lists_from_memory_after_a_start),
        cmocka_unit_test(a_list_from_memory_may_be_in_vain_once),
        WITH_RESUME(what_is_known_is_not_doubted),
        WITH_RESUME(somebody_from_before_may_have_a_version_of_a_range),
        WITH_RESUME(pushed_out_points_stay_stale),
        WITH_RESUME(many_selectors),
        WITH_RESUME(pages),
        WITH_RESUME(list_pages_that_are_not_known),
        WITH_RESUME(list_pages_are_no_versions),
        WITH_RESUME(forgotten_points_are_refused),
        WITH_RESUME(what_is_used_is_kept),
        WITH_RESUME(what_was_dropped_is_used_again),
        WITH_RESUME(forgotten_resources_are_as_after_a_start),
        WITH_RESUME(forgotten_resources_are_as_high_as_they_were),
        WITH_ALL_KNOWN(pushed_out_points_of_forgotten_resources_stay_stale),
        WITH_ALL_KNOWN(what_was_forgotten_bounds_no_list_that_is_lower),
        cmocka_unit_test(random_calls),
        cmocka_unit_test(clients_never_miss_a_change),
        cmocka_unit_test(clients_that_look_alike),
        cmocka_unit_test(only_the_start_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
