/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/breakers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "traffic_document.h"

enum { DAY_MS = 24 * 3600 * 1000 };

/* 2026-07-14T09:30:00Z */
#define WALL_MS INT64_C(1784021400000)

static uint64_t now_ms;
static struct breakers all;
static unsigned changes;

static uint64_t clock_now(void *data)
{
    (void)data;
    return now_ms;
}

static int64_t clock_wall(void *data)
{
    (void)data;
    return (WALL_MS + (int64_t)now_ms - 1000) * 1000;
}

static const struct net_clock test_clock = {.now = clock_now, .wall = clock_wall};

static void on_changed(void *data)
{
    (void)data;
    changes++;
}

static int set_up(void **state)
{
    (void)state;
    now_ms = 1000;
    changes = 0;
    breakers_init(&all, &test_clock);
    all.on_changed = on_changed;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    breakers_deinit(&all);
    return 0;
}

/* NULL: none. */
static void put_in_force(const char *spec)
{
    struct traffic *t = spec != NULL ? traffic_document(1, spec) : NULL;
    struct breaker_turn turn = breakers_turn(&all);
    struct breaker_set *set = NULL;
    if (t != NULL) {
        assert_int_equal(breakers_prepare(&all, t, &turn, &set), 0);
    }
    breakers_put_in_force(&all, set, t, &turn);
    breakers_activate(&all, NULL, 0);
    traffic_unref(t);
}

/* A request that meets all limitings. */
static enum breaker_refusal ask(struct breaker_ticket *ticket, uint64_t *wait_ms)
{
    static struct breaker_ticket unused;
    struct traffic_found found = {.count = all.now->count};
    struct breaker *by = NULL;
    uint64_t wait = 0;
    for (size_t i = 0; i < found.count; i++) {
        found.index[i] = (uint16_t)i;
    }
    struct breaker_turn turn = breakers_turn(&all);
    struct breaker_ticket *t = ticket != NULL ? ticket : &unused;
    enum breaker_refusal r = breakers_admit(&all, &found, &turn, t, &by, &wait);
    breakers_end_turn(&all, &turn);
    assert_true((by != NULL) == (r != BREAKER_ALLOWS));
    if (wait_ms != NULL) {
        *wait_ms = wait;
    }
    breaker_ticket_return(&unused);
    return r;
}

static enum control_breaker_state state_of(size_t i)
{
    struct breaker_turn turn = breakers_turn(&all);
    breaker_settle(all.now->at[i], &turn);
    return all.now->at[i]->state;
}

static void expect_message(size_t i, enum breaker_refusal r, const char *expected)
{
    struct buf text = BUF_INIT(1024);
    breaker_message(all.now->at[i], r, &text);
    assert_string_equal(buf_cstr(&text), expected);
    buf_reset(&text);
}

#define PODS TRAFFIC_RESOURCES("pods", "delete")
#define ONE(rest) TRAFFIC_SPEC(TRAFFIC_BREAKER("guard", TRAFFIC_LIMITING("a", PODS, rest)), "")

/* ---- limits ---- */

static void test_a_limiter_never_opens(void **state)
{
    uint64_t wait;
    (void)state;
    put_in_force(ONE(TRAFFIC_LIMITER(2, 1, 10000)));
    assert_int_equal(ask(NULL, NULL), BREAKER_ALLOWS);
    assert_int_equal(ask(NULL, NULL), BREAKER_ALLOWS);
    assert_int_equal(ask(NULL, &wait), BREAKER_OVER_LIMIT);
    assert_int_equal(wait, 10000);
    assert_int_equal(state_of(0), CONTROL_BREAKER_CLOSED);
    expect_message(0, BREAKER_OVER_LIMIT,
                   "circuitbreaker \"ns/guard\" rule \"a\": over the limit of 1 in 10s");
    now_ms += 9999;
    assert_int_equal(ask(NULL, &wait), BREAKER_OVER_LIMIT);
    assert_int_equal(wait, 1);
    now_ms += 1;
    assert_int_equal(ask(NULL, NULL), BREAKER_ALLOWS);
    assert_int_equal(all.now->at[0]->refused[BREAKER_OVER_LIMIT], 2);
    assert_int_equal(changes, 0);
}

static void test_what_never_refills_has_no_time(void **state)
{
    uint64_t wait;
    (void)state;
    put_in_force(ONE(TRAFFIC_LIMITER(1, 0, 1)));
    assert_int_equal(ask(NULL, NULL), BREAKER_ALLOWS);
    assert_int_equal(ask(NULL, &wait), BREAKER_OVER_LIMIT);
    assert_int_equal(wait, 0);
}

static void test_what_one_refuses_costs_the_others_nothing(void **state)
{
    (void)state;
    put_in_force(TRAFFIC_SPEC(
        TRAFFIC_BREAKER("guard", TRAFFIC_LIMITING("a", PODS, TRAFFIC_LIMITER(5, 0, 1)) "," //
                        TRAFFIC_LIMITING("b", PODS, TRAFFIC_LIMITER(1, 1, 1000))),
        ""));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ask(NULL, NULL), BREAKER_ALLOWS);
        assert_int_equal(ask(NULL, NULL), BREAKER_OVER_LIMIT); /* by b; at last by a */
        now_ms += 1000;
    }
    assert_int_equal(ask(NULL, NULL), BREAKER_OVER_LIMIT);
    assert_int_equal(all.now->at[0]->refused[BREAKER_OVER_LIMIT], 2);
    assert_int_equal(all.now->at[1]->refused[BREAKER_OVER_LIMIT], 4);
}

static void test_force_closed_allows_for_itself_alone(void **state)
{
    (void)state;
    put_in_force(TRAFFIC_SPEC(
        TRAFFIC_BREAKER("guard",
                        TRAFFIC_LIMITING("a", PODS, TRAFFIC_LIMITER(1, 0, 1)) "," TRAFFIC_LIMITING(
                            "b", PODS,
                            "\"triggerPolicy\":\"ForceClosed\"," //
                            TRAFFIC_BUCKET(0, 0, 1))),
        ""));
    assert_int_equal(ask(NULL, NULL), BREAKER_ALLOWS);
    assert_int_equal(ask(NULL, NULL), BREAKER_OVER_LIMIT);
}

static void test_force_opened(void **state)
{
    uint64_t wait;
    (void)state;
    put_in_force(ONE("\"triggerPolicy\":\"ForceOpened\""));
    assert_int_equal(ask(NULL, &wait), BREAKER_IS_OPEN);
    assert_int_equal(wait, 0);
    now_ms += DAY_MS;
    assert_int_equal(ask(NULL, NULL), BREAKER_IS_OPEN);
    expect_message(0, BREAKER_IS_OPEN,
                   "circuitbreaker \"ns/guard\" rule \"a\": is open since 2026-07-14T09:30:00Z, as "
                   "its policy says (ForceOpened)");
    put_in_force("{\"breakers\":[{\"name\":\"guard\",\"uid\":\"u\",\"reset\":{"
                 "\"a\":\"new\"},\"spec\":{\"selector\":{},\"rateLimitings\":[" TRAFFIC_LIMITING(
                     "a", PODS, "\"triggerPolicy\":\"ForceOpened\"") "]}}]}");
    assert_int_equal(ask(NULL, NULL), BREAKER_IS_OPEN); /* whatever token there is */
}

/* ---- Normal ---- */

/* A log that tells of a breaker that is open is believed. */
static void test_what_is_for_other_pods_is_not_logged(void **state)
{
    const struct selector_label label = {SLICE("app"), SLICE("other")};
    (void)state;
    put_in_force("{\"breakers\":[{\"name\":\"guard\",\"spec\":{\"selector\":{\"matchLabels\":{"
                 "\"app\":\"other\"}},\"rateLimitings\":"
                 "[" TRAFFIC_LIMITING("a", PODS, "\"triggerPolicy\":\"ForceOpened\"") "]}}]}");
    const struct breaker *b = all.now->at[0];
    assert_int_equal(b->state, CONTROL_BREAKER_OPENED);
    assert_int_equal(b->logs.level, b->logs.size);
    breakers_activate(&all, &label, 1);
    assert_int_equal(b->logs.level, b->logs.size - b->logs.token);
    breakers_activate(&all, &label, 1);
    assert_int_equal(b->logs.level, b->logs.size - b->logs.token);
    put_in_force(ONE("\"triggerPolicy\":\"ForceOpened\""));
    b = all.now->at[0];
    assert_int_equal(b->logs.level, b->logs.size - b->logs.token);
}

static void test_normal_opens_for_its_window(void **state)
{
    uint64_t wait;
    (void)state;
    put_in_force(ONE(TRAFFIC_NORMALLY(1, 1, 500, TRAFFIC_WINDOW(2000))));
    assert_int_equal(ask(NULL, NULL), BREAKER_ALLOWS);
    assert_int_equal(ask(NULL, &wait), BREAKER_OVER_LIMIT);
    assert_int_equal(wait, 0); /* it is open now */
    assert_int_equal(state_of(0), CONTROL_BREAKER_OPENED);
    assert_int_equal(changes, 1);
    now_ms += 1999; /* tokens are there again */
    assert_int_equal(ask(NULL, NULL), BREAKER_IS_OPEN);
    expect_message(0, BREAKER_IS_OPEN,
                   "circuitbreaker \"ns/guard\" rule \"a\": is open since 2026-07-14T09:30:00Z, "
                   "closes at 2026-07-14T09:30:02Z");
    now_ms += 1;
    assert_int_equal(ask(NULL, NULL), BREAKER_ALLOWS);
    assert_int_equal(state_of(0), CONTROL_BREAKER_CLOSED);
    assert_int_equal(changes, 2);
    assert_int_equal(ask(NULL, NULL), BREAKER_OVER_LIMIT);
    assert_int_equal(state_of(0), CONTROL_BREAKER_OPENED);
}

#define MANUAL(token)                                                                              \
    "{\"breakers\":[{\"name\":\"guard\",\"uid\":\"u\",\"reset\":{" token                           \
    "},\"spec\":{\"selector\":{},\"rateLimitings\":[" TRAFFIC_LIMITING(                            \
        "a", PODS, TRAFFIC_NORMALLY(1, 0, 1, TRAFFIC_MANUALLY)) "]}}]}"

static void test_a_new_token_closes_once(void **state)
{
    (void)state;
    put_in_force(MANUAL("\"a\":\"first\""));
    assert_int_equal(ask(NULL, NULL), BREAKER_ALLOWS);
    assert_int_equal(ask(NULL, NULL), BREAKER_OVER_LIMIT);
    now_ms += DAY_MS;
    put_in_force(MANUAL("\"a\":\"first\"")); /* was there before */
    assert_int_equal(state_of(0), CONTROL_BREAKER_OPENED);
    expect_message(
        0, BREAKER_IS_OPEN,
        "circuitbreaker \"ns/guard\" rule \"a\": is open since 2026-07-14T09:30:00Z, and "
        "closes when it is reset");
    put_in_force(MANUAL("\"a\":\"second\""));
    assert_int_equal(state_of(0), CONTROL_BREAKER_CLOSED);
    assert_int_equal(ask(NULL, NULL), BREAKER_OVER_LIMIT); /* the bucket is as it was */
    put_in_force(MANUAL("\"a\":\"second\""));
    assert_int_equal(state_of(0), CONTROL_BREAKER_OPENED);
    put_in_force(MANUAL("")); /* taken away */
    put_in_force(MANUAL("\"a\":\"second\""));
    assert_int_equal(state_of(0), CONTROL_BREAKER_OPENED);
}

/* ---- another document ---- */

static void test_states_go_on_with_another_document(void **state)
{
    (void)state;
    put_in_force(ONE(TRAFFIC_NORMALLY(1, 0, 1, TRAFFIC_MANUALLY)));
    assert_int_equal(ask(NULL, NULL), BREAKER_ALLOWS);
    assert_int_equal(ask(NULL, NULL), BREAKER_OVER_LIMIT);
    /* Other resources, another rule before it, another policy. */
    put_in_force(TRAFFIC_SPEC(
        TRAFFIC_BREAKER(
            "earlier",
            TRAFFIC_LIMITING(
                "a", PODS,
                TRAFFIC_LIMITER(
                    1, 1,
                    1))) "," TRAFFIC_BREAKER("guard",
                                             TRAFFIC_LIMITING(
                                                 "0", PODS,
                                                 TRAFFIC_LIMITER(
                                                     1, 1,
                                                     1)) "," TRAFFIC_LIMITING("a",
                                                                              TRAFFIC_EVERYTHING,
                                                                              TRAFFIC_NORMALLY(
                                                                                  1, 0, 1,
                                                                                  TRAFFIC_MANUALLY))),
        ""));
    assert_int_equal(state_of(2), CONTROL_BREAKER_OPENED);
    /* Another bucket. */
    put_in_force(ONE(TRAFFIC_NORMALLY(2, 0, 1, TRAFFIC_MANUALLY)));
    assert_int_equal(state_of(0), CONTROL_BREAKER_CLOSED);
    assert_int_equal(ask(NULL, NULL), BREAKER_ALLOWS);
    assert_int_equal(ask(NULL, NULL), BREAKER_ALLOWS);
    assert_int_equal(ask(NULL, NULL), BREAKER_OVER_LIMIT);
    /* It is gone, and comes again. */
    put_in_force(NULL);
    put_in_force(ONE(TRAFFIC_NORMALLY(2, 0, 1, TRAFFIC_MANUALLY)));
    assert_int_equal(state_of(0), CONTROL_BREAKER_CLOSED);
}

/* As in objects that were copied by hand. */
static void test_two_policies_of_one_uid(void **state)
{
    static const char two[] =
        "{\"breakers\":[{\"name\":\"one\",\"uid\":\"same\",\"spec\":{\"selector\":{},"
        "\"rateLimitings\":[" TRAFFIC_LIMITING("a", PODS,
                                               TRAFFIC_NORMALLY(1, 0, 1, TRAFFIC_MANUALLY)) //
        "]}},{\"name\":\"two\",\"uid\":\"same\",\"spec\":{\"selector\":{},"
        "\"rateLimitings\":[" TRAFFIC_LIMITING("a", PODS,
                                               TRAFFIC_NORMALLY(2, 0, 1, TRAFFIC_MANUALLY)) //
        "]}}]}";
    static const char same[] =
        "{\"breakers\":[{\"name\":\"one\",\"uid\":\"same\",\"spec\":{\"selector\":{},"
        "\"rateLimitings\":[" TRAFFIC_LIMITING("a", PODS, TRAFFIC_LIMITER(1, 1, 1)) //
        "]}},{\"name\":\"two\",\"uid\":\"same\",\"spec\":{\"selector\":{},"
        "\"rateLimitings\":[" TRAFFIC_LIMITING("a", PODS, TRAFFIC_LIMITER(1, 1, 1)) //
        "]}}]}";
    (void)state;
    for (int i = 0; i < 3; i++) {
        put_in_force(same);
        assert_ptr_not_equal(all.now->at[0], all.now->at[1]);
    }
    put_in_force(two);
    assert_int_equal(ask(NULL, NULL), BREAKER_ALLOWS);
    assert_int_equal(ask(NULL, NULL), BREAKER_OVER_LIMIT);
    put_in_force(two);
    assert_int_equal(state_of(0), CONTROL_BREAKER_OPENED);
    assert_int_equal(state_of(1), CONTROL_BREAKER_CLOSED);
    put_in_force(NULL);
    put_in_force(same);
}

/* ---- how many at a time ---- */

#define AT_A_TIME ONE("\"triggerPolicy\":\"LimiterOnly\",\"maxInFlight\":2")

static void test_so_many_at_a_time(void **state)
{
    struct breaker_ticket tickets[3] = {{0}};
    uint64_t wait;
    (void)state;
    put_in_force(AT_A_TIME);
    assert_int_equal(ask(&tickets[0], NULL), BREAKER_ALLOWS);
    assert_int_equal(ask(&tickets[1], NULL), BREAKER_ALLOWS);
    assert_int_equal(ask(&tickets[2], &wait), BREAKER_TOO_MANY);
    assert_int_equal(wait, 1000);
    assert_null(tickets[2].set);
    expect_message(0, BREAKER_TOO_MANY,
                   "circuitbreaker \"ns/guard\" rule \"a\": too many at a time: 2 are under way");
    breaker_ticket_answered(&tickets[0], true); /* means nothing to it */
    assert_int_equal(ask(&tickets[2], NULL), BREAKER_TOO_MANY);
    breaker_ticket_return(&tickets[0]);
    breaker_ticket_return(&tickets[0]);
    assert_int_equal(ask(&tickets[2], NULL), BREAKER_ALLOWS);
    struct breaker_ticket moved;
    breaker_ticket_move(&moved, &tickets[1]);
    breaker_ticket_return(&tickets[1]);
    assert_int_equal(all.now->at[0]->in_flight, 2);
    put_in_force(AT_A_TIME); /* they are still under way */
    assert_int_equal(ask(&tickets[0], NULL), BREAKER_TOO_MANY);
    put_in_force(NULL);
    breaker_ticket_return(&moved);
    breaker_ticket_return(&tickets[2]);
}

static void test_tickets_of_many_rules(void **state)
{
    struct buf spec = BUF_INIT(TRAFFIC_TEXT_MAX);
    struct breaker_ticket tickets[2] = {{0}};
    (void)state;
    buf_append_str(
        &spec, "{\"breakers\":[{\"name\":\"guard\",\"spec\":{\"selector\":{},\"rateLimitings\":[");
    for (int i = 0; i < TRAFFIC_ROWS_MAX; i++) {
        buf_printf(&spec, "%s{\"name\":\"r%d\"," PODS ",\"triggerPolicy\":\"LimiterOnly\",%s}",
                   i > 0 ? "," : "", i,
                   i % 63 == 0 ? "\"maxInFlight\":2" : TRAFFIC_BUCKET(9, 9, 9));
    }
    buf_append_str(&spec, "]}}]}");
    put_in_force(buf_cstr(&spec));
    buf_reset(&spec);
    assert_int_equal(ask(&tickets[0], NULL), BREAKER_ALLOWS);
    assert_int_equal(ask(&tickets[1], NULL), BREAKER_ALLOWS);
    for (size_t i = 0; i < TRAFFIC_ROWS_MAX; i++) {
        assert_int_equal(all.now->at[i]->in_flight, i % 63 == 0 ? 2 : 0);
    }
    assert_int_equal(ask(NULL, NULL), BREAKER_TOO_MANY);
    breaker_ticket_return(&tickets[0]);
    breaker_ticket_return(&tickets[1]);
    for (size_t i = 0; i < TRAFFIC_ROWS_MAX; i++) {
        assert_int_equal(all.now->at[i]->in_flight, 0);
    }
}

/* ---- Health ---- */

#define HEALTH(what)                                                                               \
    ONE("\"triggerPolicy\":\"Health\",\"healthPolicy\":{\"window\":\"10000ms\","                   \
        "\"minimumRequests\":4," what ",\"halfOpenRequests\":2}," TRAFFIC_WINDOW(5000))
#define ERRORS HEALTH("\"errorPercent\":50")
#define SLOW HEALTH("\"slowCallDuration\":\"100ms\",\"slowCallPercent\":50")

/* One that is answered after so long. */
static enum breaker_refusal answer(bool failed, uint64_t ms)
{
    struct breaker_ticket t = {0};
    enum breaker_refusal r = ask(&t, NULL);
    now_ms += r == BREAKER_ALLOWS ? ms : 0;
    breaker_ticket_answered(&t, failed);
    breaker_ticket_answered(&t, !failed); /* the first time counts */
    breaker_ticket_return(&t);
    return r;
}

static void open_by_errors(void)
{
    for (int i = 0; i < 4; i++) {
        assert_int_equal(answer(true, 0), BREAKER_ALLOWS);
    }
    assert_int_equal(state_of(0), CONTROL_BREAKER_OPENED);
    assert_int_equal(ask(NULL, NULL), BREAKER_IS_OPEN);
}

static void test_errors_open_it(void **state)
{
    (void)state;
    put_in_force(ERRORS);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(answer(i % 3 == 0 && i > 5, 0), BREAKER_ALLOWS); /* less than half */
    }
    now_ms += 10001; /* all that is forgotten */
    assert_int_equal(answer(true, 0), BREAKER_ALLOWS);
    assert_int_equal(answer(true, 0), BREAKER_ALLOWS);
    assert_int_equal(answer(false, 0), BREAKER_ALLOWS);
    assert_int_equal(state_of(0), CONTROL_BREAKER_CLOSED); /* too few */
    assert_int_equal(answer(false, 0), BREAKER_ALLOWS);
    assert_int_equal(state_of(0), CONTROL_BREAKER_OPENED);
    assert_string_equal(all.now->at[0]->why, "errors");
    expect_message(0, BREAKER_IS_OPEN,
                   "circuitbreaker \"ns/guard\" rule \"a\": is open since 2026-07-14T09:30:10Z, "
                   "tries again at 2026-07-14T09:30:16Z");
}

static void test_slow_answers_open_it(void **state)
{
    (void)state;
    put_in_force(SLOW);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(answer(true, 99), BREAKER_ALLOWS); /* errors are not looked at */
    }
    for (int i = 0; i < 9; i++) {
        assert_int_equal(answer(false, 100), BREAKER_ALLOWS);
    }
    assert_int_equal(state_of(0), CONTROL_BREAKER_CLOSED);
    assert_int_equal(answer(false, 100), BREAKER_ALLOWS);
    assert_int_equal(state_of(0), CONTROL_BREAKER_OPENED);
    assert_string_equal(all.now->at[0]->why, "slow answers");
}

/* Of an API server that says nothing, clients that do not wait for long are all that is heard. */
static void test_who_gives_up_says_that_it_is_slow(void **state)
{
    (void)state;
    put_in_force(SLOW);
    for (int i = 0; i < 8; i++) {
        struct breaker_ticket t = {0};
        assert_int_equal(ask(&t, NULL), BREAKER_ALLOWS);
        now_ms += i < 4 ? 99 : 100; /* of which only the latter is known */
        breaker_ticket_given_up(&t);
        breaker_ticket_return(&t);
    }
    assert_int_equal(state_of(0), CONTROL_BREAKER_OPENED);
    assert_string_equal(all.now->at[0]->why, "slow answers");
    now_ms += 5000;
    for (int i = 0; i < 5; i++) {
        struct breaker_ticket t = {0};
        assert_int_equal(ask(&t, NULL), BREAKER_ALLOWS);
        now_ms += i < 4 ? 99 : 100;
        breaker_ticket_given_up(&t);
        breaker_ticket_return(&t);
    }
    assert_int_equal(state_of(0), CONTROL_BREAKER_OPENED);
    assert_string_equal(all.now->at[0]->why, "a probe was slow");
}

static void test_the_window_slides(void **state)
{
    (void)state;
    put_in_force(ERRORS);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(answer(true, 0), BREAKER_ALLOWS);
        now_ms += 4000; /* of the four that are to come together, three always are too old */
    }
    for (int i = 0; i < 20; i++) {
        assert_int_equal(answer(true, 0), BREAKER_ALLOWS);
        now_ms += 4000;
    }
    assert_int_equal(state_of(0), CONTROL_BREAKER_CLOSED);
}

static void test_errors_of_probes_are_not_looked_at_either(void **state)
{
    (void)state;
    put_in_force(SLOW);
    for (int i = 0; i < 20; i++) {
        (void)answer(false, 100);
    }
    assert_int_equal(state_of(0), CONTROL_BREAKER_OPENED);
    now_ms += DAY_MS;
    assert_int_equal(answer(true, 0), BREAKER_ALLOWS);
    assert_int_equal(answer(true, 0), BREAKER_ALLOWS);
    assert_int_equal(state_of(0), CONTROL_BREAKER_CLOSED);
}

static void test_probes_close_it(void **state)
{
    struct breaker_ticket probes[3] = {{0}};
    (void)state;
    put_in_force(ERRORS);
    open_by_errors();
    now_ms += 4999;
    assert_int_equal(ask(NULL, NULL), BREAKER_IS_OPEN);
    now_ms += 1;
    assert_int_equal(ask(&probes[0], NULL), BREAKER_ALLOWS);
    assert_int_equal(state_of(0), CONTROL_BREAKER_HALF_OPENED);
    assert_int_equal(ask(&probes[1], NULL), BREAKER_ALLOWS);
    assert_int_equal(ask(&probes[2], NULL), BREAKER_IS_OPEN);
    expect_message(
        0, BREAKER_IS_OPEN,
        "circuitbreaker \"ns/guard\" rule \"a\": is half open, and waits for the answers "
        "to 2 requests");
    breaker_ticket_answered(&probes[0], false);
    assert_int_equal(ask(&probes[2], NULL), BREAKER_IS_OPEN); /* one was well, one is under way */
    breaker_ticket_return(&probes[1]);                        /* its client has gone */
    assert_int_equal(ask(&probes[2], NULL), BREAKER_ALLOWS);
    breaker_ticket_answered(&probes[2], false);
    assert_int_equal(state_of(0), CONTROL_BREAKER_CLOSED);
    breaker_ticket_return(&probes[0]);
    breaker_ticket_return(&probes[2]);
    for (int i = 0; i < 3; i++) { /* what was before it opened is forgotten */
        assert_int_equal(answer(true, 0), BREAKER_ALLOWS);
    }
    assert_int_equal(state_of(0), CONTROL_BREAKER_CLOSED);
}

static void test_a_probe_that_fails_opens_it_anew(void **state)
{
    struct breaker_ticket probes[2] = {{0}};
    (void)state;
    put_in_force(ERRORS);
    open_by_errors();
    now_ms += 5000;
    assert_int_equal(ask(&probes[0], NULL), BREAKER_ALLOWS);
    assert_int_equal(ask(&probes[1], NULL), BREAKER_ALLOWS);
    breaker_ticket_answered(&probes[0], true);
    assert_int_equal(state_of(0), CONTROL_BREAKER_OPENED);
    now_ms += 5000;
    assert_int_equal(answer(false, 0), BREAKER_ALLOWS);
    /* Of the last time: neither does it close it, nor does it take or give a place. */
    breaker_ticket_answered(&probes[1], false);
    breaker_ticket_return(&probes[1]);
    breaker_ticket_return(&probes[0]);
    assert_int_equal(state_of(0), CONTROL_BREAKER_HALF_OPENED);
    assert_int_equal(all.now->at[0]->probing, 0);
    assert_int_equal(all.now->at[0]->well, 1);
    assert_int_equal(answer(false, 0), BREAKER_ALLOWS);
    assert_int_equal(state_of(0), CONTROL_BREAKER_CLOSED);
}

static void test_who_was_asked_before_says_nothing_later(void **state)
{
    struct breaker_ticket early[8] = {{0}};
    (void)state;
    put_in_force(ERRORS);
    for (size_t i = 0; i < ARRAY_LEN(early); i++) {
        assert_int_equal(ask(&early[i], NULL), BREAKER_ALLOWS);
    }
    for (size_t i = 0; i < 4; i++) {
        breaker_ticket_answered(&early[i], true);
    }
    assert_int_equal(state_of(0), CONTROL_BREAKER_OPENED);
    now_ms += 5000;
    assert_int_equal(answer(false, 0), BREAKER_ALLOWS);
    assert_int_equal(answer(false, 0), BREAKER_ALLOWS);
    assert_int_equal(state_of(0), CONTROL_BREAKER_CLOSED);
    for (size_t i = 4; i < ARRAY_LEN(early); i++) {
        breaker_ticket_answered(&early[i], true);
    }
    assert_int_equal(state_of(0), CONTROL_BREAKER_CLOSED);
    for (size_t i = 0; i < ARRAY_LEN(early); i++) {
        breaker_ticket_return(&early[i]);
    }
    assert_int_equal(all.now->at[0]->in_flight, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_limiter_never_opens, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_never_refills_has_no_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_one_refuses_costs_the_others_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_force_closed_allows_for_itself_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_force_opened, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_for_other_pods_is_not_logged, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_normal_opens_for_its_window, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_new_token_closes_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_states_go_on_with_another_document, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_two_policies_of_one_uid, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_so_many_at_a_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tickets_of_many_rules, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_errors_open_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_slow_answers_open_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_who_gives_up_says_that_it_is_slow, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_window_slides, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_errors_of_probes_are_not_looked_at_either, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_probes_close_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_probe_that_fails_opens_it_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_who_was_asked_before_says_nothing_later, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
