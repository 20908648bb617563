/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods that tell by themselves what they enforce: asked less, believed although they cannot be
 * asked, and never taken back to what they told before they answered.
 */
#include <stdio.h>

#include "control/status.h"
#include "prober_fixture.h"

#define POD "demo/pod-0"

/* Minutes that pass until what was told is old. */
enum { FRESH_MS = 200000, MISSED_MS = 15000 };

static const char *more = ""; /* in what is told */

static void tell_as(struct fixture *f, const char *pod, const char *uid, unsigned generation,
                    bool settled)
{
    char text[1024];
    int len = snprintf(
        text, sizeof text,
        "{\"program\":\"localproxy\",\"version\":\"" CMESH_VERSION
        "\",\"pod\":{\"name\":\"%s\",\"uid\":\"%s\"},\"rules\":{\"inForce\":%s,\"shard\":{"
        "\"namespace\":\"demo\",\"name\":\"a\"},\"generation\":%u,\"checksum\":\"" SUM
        "\",\"since\":\"2025-12-31T23:00:00Z\",\"settled\":%s},\"clients\":{\"requests\":1},"
        "\"uptimeSeconds\":60%s}",
        pod, uid, generation != 0 ? "true" : "false", generation != 0 ? generation : 1,
        settled ? "true" : "false", more);
    prober_told(f->prober, POD, slice_of(text, (size_t)len));
    run_for(f->loop, 2);
}

static void tell(struct fixture *f, unsigned generation)
{
    tell_as(f, "pod-0", "u", generation, true);
}

static void expect_result(struct fixture *f, unsigned generation, bool enforcing)
{
    const struct probe_result *r = result(f);
    assert_int_equal(r->state, PROBE_ANSWERED);
    assert_true(r->asked);
    assert_int_equal(r->generation, generation);
    assert_int_equal(r->enforcing, enforcing);
}

/* Where nobody listens. */
static struct sidecar *begin_unreachable(struct fixture *f)
{
    struct sidecar *s = add_proxy(f, 0);
    char address[64];
    (void)snprintf(address, sizeof address, "%s", address_of(s));
    stop(s);
    assert_int_equal(watch(f, 0, "u", address, NULL), 0);
    run_for(f->loop, 20);
    return s;
}

static void what_is_told_is_known_at_once(void **state)
{
    struct fixture *f = *state;
    (void)begin_unreachable(f);
    assert_int_equal(result(f)->state, PROBE_WAITING);
    tell_as(f, "pod-0", "u", 3, false);
    expect_result(f, 3, false);
    assert_int_equal(f->changes, 1 + 1); /* it could not be asked, and then this */
    assert_string_equal(result(f)->checksum, SUM);
    assert_string_equal(result(f)->shard, "demo/a");
    assert_string_equal(result(f)->version, CMESH_VERSION);
    assert_false(result(f)->unused);
    assert_true(result(f)->up_ms == 60000);
    tell(f, 3);
    expect_result(f, 3, true);
    assert_int_equal(f->changes, 3);
    tell(f, 3);
    assert_int_equal(f->changes, 3); /* a renewal is no news */
    assert_int_equal(prober_stats(f->prober)->telling, 1);
}

/* ---- what is nobody's word ---- */

static void of_another_pod_or_garbage(void **state)
{
    static const char no_state[] =
        "{\"program\":\"localproxy\",\"pod\":{\"name\":\"pod-0\",\"uid\":\"u\"}}";
    static const char *const garbage[] = {"", "{", "[]", "{\"program\":\"rulesync\"}", no_state};
    struct fixture *f = *state;
    (void)begin_unreachable(f);
    unsigned changes = f->changes;
    tell_as(f, "pod-1", "u", 3, true);
    tell_as(f, "pod-0", "v", 3, true);
    tell_as(f, "", "", 3, true);
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        prober_told(f->prober, POD, slice_str(garbage[i]));
    }
    prober_told(f->prober, "demo/nobody", slice_str(no_state));
    assert_int_equal(f->changes, changes);
    assert_int_equal(result(f)->state, PROBE_WAITING);
    assert_int_equal(prober_stats(f->prober)->telling, 0);
}

/* A pod of the same name that is made anew has told nothing. */
static void made_anew(void **state)
{
    struct fixture *f = *state;
    (void)begin_unreachable(f);
    tell(f, 3);
    expect_result(f, 3, true);
    assert_int_equal(watch(f, 0, "v", "127.0.0.1:1", NULL), 0);
    assert_int_equal(result(f)->generation, 0);
    assert_int_equal(prober_stats(f->prober)->telling, 0);
    tell(f, 3);
    assert_int_equal(result(f)->generation, 0);
    prober_forget(f->prober, POD);
    tell(f, 3);
    assert_int_equal(prober_stats(f->prober)->telling, 0);
}

/* ---- what is newer ---- */

static void older_than_what_it_answered(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = begin(f, NULL);
    enforce(s, "a", 5, 1700000000);
    pass_and_await(f, 15000, s);
    tell(f, 4); /* it was on its way for long */
    expect_result(f, 5, true);
    tell(f, 6);
    expect_result(f, 6, true);
    tell_as(f, "pod-0", "u", 0, false); /* it was started anew and has none yet */
    expect_result(f, 0, false);
}

/* It tells generation 2 while its answer, of generation 1, is on its way. */
static void told_during_a_question(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = begin(f, NULL);
    s->behaviour = IS_SILENT;
    pass_and_await(f, 15000, s);
    assert_non_null(s->last);
    tell(f, 2);
    answer(s);
    s->behaviour = ANSWERS;
    run_for(f->loop, 20);
    assert_null(s->last);
    expect_result(f, 2, true);
    pass_and_await(f, 15000, s); /* but what it says when it is asked afterwards counts */
    expect_result(f, 1, true);
}

/* ---- how often it is asked ---- */

static void expected_of_one_that_tells(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = begin(f, NULL);
    tell(f, 1);
    pass(f, 5000);
    unsigned asked = s->asked;
    prober_expect(f->prober, POD, 2);
    pass(f, 900);
    assert_int_equal(s->asked, asked);
    tell(f, 2);
    expect_result(f, 2, true);
    pass(f, 10000);
    assert_int_equal(s->asked, asked); /* not at all */
    /* One that does not tell this time is asked, if more rarely. */
    prober_expect(f->prober, POD, 3);
    enforce(s, "a", 2, 1700000000);
    pass_and_await(f, 1000, s);
    pass_and_await(f, 1000, s);
    enforce(s, "a", 3, 1700000000);
    pass_and_await(f, 1000, s);
    expect_result(f, 3, true);
}

/* ---- what cannot be asked ---- */

static void silent_only_when_it_tells_no_more(void **state)
{
    struct fixture *f = *state;
    (void)begin_unreachable(f);
    tell(f, 1);
    for (int i = 0; i < 10; i++) {
        pass(f, 60000);
        tell(f, 1);
        expect_result(f, 1, true);
    }
    pass(f, FRESH_MS - MISSED_MS);
    expect_result(f, 1, true);
    pass(f, 3 * MISSED_MS);
    assert_int_equal(result(f)->state, PROBE_SILENT);
    assert_int_equal(result(f)->generation, 1); /* as it told last */
    tell(f, 1);
    expect_result(f, 1, true);
}

static void tell_of(struct fixture *f, unsigned i)
{
    char key[32];
    char text[512];
    (void)snprintf(key, sizeof key, "demo/pod-%u", i);
    (void)snprintf(text, sizeof text,
                   "{\"program\":\"localproxy\",\"pod\":{\"name\":\"pod-%u\",\"uid\":\"u\"},"
                   "\"rules\":{\"inForce\":false}}",
                   i);
    prober_told(f->prober, key, slice_str(text));
}

/* Many that cannot be asked, and tell, have a part of the questions at a time. */
static void do_not_hold_up_others(void **state)
{
    enum { UNREACHABLE = 12, PARALLEL = 8, SILENT_PART = 4 };
    struct fixture *f = *state;
    unsigned open = 0;
    prober_free(f->prober);
    fake_clock_forget(&f->clock);
    f->prober = open_prober(f, SHORT_MS);
    for (unsigned i = 1; i <= UNREACHABLE; i++) {
        struct sidecar *s = add_proxy(f, i);
        s->behaviour = IS_SILENT;
        assert_int_equal(watch(f, i, "u", address_of(s), NULL), 0);
    }
    while (prober_stats(f->prober)->failed < 3 * UNREACHABLE) { /* by real time limits */
        for (unsigned i = 1; i <= UNREACHABLE; i++) {
            tell_of(f, i);
        }
        fake_clock_pass(&f->clock, 2000);
        run_for(f->loop, 10);
    }
    assert_int_equal(prober_stats(f->prober)->telling, UNREACHABLE);
    fake_clock_pass(&f->clock, 60000); /* all are due */
    run_for(f->loop, 10);
    for (unsigned i = 1; i <= UNREACHABLE; i++) {
        open += f->proxies[i].open;
    }
    assert_in_range(open, 1, PARALLEL / SILENT_PART);
}

/* ---- the load ---- */

static void tell_load(struct fixture *f, const char *uid, unsigned since_s, unsigned events)
{
    char text[1024];
    int len = snprintf(text, sizeof text,
                       "{\"program\":\"localproxy\",\"pod\":{\"name\":\"pod-0\",\"uid\":\"%s\"},"
                       "\"rules\":{\"inForce\":false},\"load\":{\"sinceSeconds\":%u,\"buckets\":{"
                       "\"7\":[1,%u,3]}}}",
                       uid, since_s, events);
    prober_told(f->prober, POD, slice_of(text, (size_t)len));
    run_for(f->loop, 2);
}

static void expect_load(struct fixture *f, unsigned since_s, unsigned events)
{
    const struct control_load *l = result(f)->load;
    assert_non_null(l);
    assert_int_equal(l->since_s, since_s);
    assert_int_equal(l->of[7].events, events);
}

static void what_it_counts_is_known(void **state)
{
    struct fixture *f = *state;
    (void)begin_unreachable(f);
    tell_load(f, "u", 100, 5);
    expect_load(f, 100, 5);
    unsigned changes = f->changes;
    tell_load(f, "u", 160, 50);
    expect_load(f, 160, 50);
    assert_int_equal(f->changes, changes); /* that it grows is no news */
    /* The Lease of a minute ago comes again: what is known stands. */
    fake_clock_pass(&f->clock, 10000);
    tell_load(f, "u", 100, 5);
    expect_load(f, 160, 50);
    /* Started again meanwhile. */
    tell_load(f, "u", 9, 1);
    expect_load(f, 9, 1);
    tell(f, 1); /* started again without counting */
    assert_null(result(f)->load);
    tell_load(f, "u", 5, 2);
    expect_load(f, 5, 2);
    /* Another pod of that name. */
    assert_int_equal(watch(f, 0, "v", "127.0.0.1:1", NULL), 0);
    assert_null(result(f)->load);
    tell_load(f, "u", 6, 3);
    assert_null(result(f)->load);
    tell_load(f, "v", 1, 1);
    expect_load(f, 1, 1);
}

/* ---- who stops by itself ---- */

#define PROMISE ",\"lease\":{\"seconds\":30,\"expired\":false}"

/* Until it enforces what was required of it, or does not stop by itself any more. */
static void what_is_required_of_it(void **state)
{
    static const struct {
        unsigned generation;
        const char *more;
        unsigned required;
    } words[] = {{3, PROMISE, 5}, {0, PROMISE, 5}, {5, PROMISE, 0}, {3, "", 0}};
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        more = PROMISE;
        assert_int_equal(watch(f, 0, "u", "127.0.0.1:1", NULL), 0);
        tell(f, 3);
        assert_int_equal(result(f)->lease_s, 30);
        unsigned changes = f->changes;
        prober_require(f->prober, POD, "v", 5, SUM); /* another pod */
        prober_require(f->prober, POD, "u", 3, SUM); /* what it enforces */
        prober_require(f->prober, "demo/nobody", "u", 5, SUM);
        assert_int_equal(result(f)->required, 0);
        prober_require(f->prober, POD, "u", 5, SUM);
        run_for(f->loop, 2);
        assert_int_equal(result(f)->required, 5);
        assert_string_equal(result(f)->required_checksum, SUM);
        assert_int_equal(f->changes, changes + 1);
        more = words[i].more;
        tell(f, words[i].generation);
        assert_int_equal(result(f)->required, words[i].required);
        assert_int_equal(result(f)->generation, words[i].generation);
        more = "";
        prober_forget(f->prober, POD);
    }
}

/* It has what is required of it, but not said that nothing of earlier rules is under way. */
static void what_is_required_of_one_that_is_not_settled(void **state)
{
    struct fixture *f = *state;
    more = PROMISE;
    assert_int_equal(watch(f, 0, "u", "127.0.0.1:1", NULL), 0);
    tell_as(f, "pod-0", "u", 3, false);
    prober_require(f->prober, POD, "u", 2, SUM);
    assert_int_equal(result(f)->required, 0);
    prober_require(f->prober, POD, "u", 3, SUM);
    assert_int_equal(result(f)->required, 3);
    assert_false(result(f)->enforcing);
    tell_as(f, "pod-0", "u", 3, false); /* it is back, and so is what it says */
    assert_int_equal(result(f)->required, 0);
    more = "";
}

/* It would have renewed its Lease. */
static void silent_as_soon_as_it_would_have_told(void **state)
{
    struct fixture *f = *state;
    (void)begin_unreachable(f);
    more = PROMISE;
    tell(f, 3);
    more = "";
    pass(f, 29000);
    assert_int_equal(result(f)->state, PROBE_ANSWERED);
    pass(f, 1000 + MISSED_MS);
    await_state(f, PROBE_SILENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_told_is_known_at_once, prober_setup,
                                        prober_teardown),
        cmocka_unit_test_setup_teardown(of_another_pod_or_garbage, prober_setup, prober_teardown),
        cmocka_unit_test_setup_teardown(made_anew, prober_setup, prober_teardown),
        cmocka_unit_test_setup_teardown(older_than_what_it_answered, prober_setup, prober_teardown),
        cmocka_unit_test_setup_teardown(told_during_a_question, prober_setup, prober_teardown),
        cmocka_unit_test_setup_teardown(expected_of_one_that_tells, prober_setup, prober_teardown),
        cmocka_unit_test_setup_teardown(silent_only_when_it_tells_no_more, prober_setup,
                                        prober_teardown),
        cmocka_unit_test_setup_teardown(what_is_required_of_it, prober_setup, prober_teardown),
        cmocka_unit_test_setup_teardown(what_is_required_of_one_that_is_not_settled, prober_setup,
                                        prober_teardown),
        cmocka_unit_test_setup_teardown(silent_as_soon_as_it_would_have_told, prober_setup,
                                        prober_teardown),
        cmocka_unit_test_setup_teardown(do_not_hold_up_others, prober_setup, prober_teardown),
        cmocka_unit_test_setup_teardown(what_it_counts_is_known, prober_setup, prober_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
