/* SPDX-License-Identifier: Apache-2.0 */
#include "ownership/handover.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/buf.h"
#include "entry_text.h"

#define SHARD "n/a"

static struct rules *make(unsigned generation, const char *limits)
{
    static char text[1 << 20];
    struct err e = ERR_INIT;
    (void)snprintf(text, sizeof text,
                   "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":"
                   "\"n\",\"name\":\"a\"},\"generation\":%u,\"spec\":{\"limits\":[%s],"
                   "\"leaderElection\":{\"name\":\"lock-%zu\"}}}",
                   generation, limits, strlen(limits));
    struct rules *r = rules_parse(text, strlen(text), &e);
    if (r == NULL) {
        fail_msg("%s", e.msg);
    }
    return r;
}

#define LIMIT(resource, selector)                                                                  \
    "{\"apiGroups\":[\"\"],\"resources\":[\"" resource "\"],\"selector\":\"" selector "\"}"

static char *text_of(const struct rules *r)
{
    struct buf text = BUF_INIT(1 << 20);
    assert_int_equal(rules_to_json(r, &text), 0);
    return buf_take_str(&text);
}

/* ---- what was published ---- */

static void only_the_last_is_remembered(void **state)
{
    struct handover_past past = {.count = 0};
    struct rules *rules[] = {make(1, LIMIT("pods", "a=1")), make(2, LIMIT("pods", "a=2"))};
    (void)state;
    handover_lose(&past);
    assert_false(past.lost);
    handover_note(&past, rules[0]);
    handover_lose(&past);
    assert_false(past.lost);
    handover_note(&past, rules[1]);
    handover_lose(&past);
    assert_true(past.lost);
    assert_int_equal(past.count, 1);
    assert_ptr_equal(past.rules[0], rules[1]);
    handover_settled(&past, rules[1]);
    assert_false(past.lost);
    handover_deinit(&past);
    rules_unref(rules[0]);
    rules_unref(rules[1]);
}

/* ---- the rules between ---- */

static void both_limits_hold(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct rules *from = make(7, LIMIT("pods", "ns in (1,3)") "," LIMIT("secrets", "ns=1"));
    struct rules *to = make(8, LIMIT("pods", "ns in (2,3)") "," LIMIT("services", "ns=2"));
    struct rules *between = handover_between(from, to, 9, &e);
    assert_non_null(between);
    assert_int_equal(rules_generation(between), 9);
    assert_string_equal(rules_shard_name(between), "a");
    assert_string_equal(rules_leader_election(between), rules_leader_election(to));
    const struct rules_entry *pods = rules_match(between, SLICE(""), SLICE("pods"));
    assert_string_equal(entry_text(pods), "ns in (1,3),ns in (2,3)");
    assert_non_null(rules_match(between, SLICE(""), SLICE("secrets")));
    assert_non_null(rules_match(between, SLICE(""), SLICE("services")));
    assert_null(rules_match(between, SLICE(""), SLICE("nodes")));

    /* Once more changes nothing, and equal input gives equal bytes. */
    struct rules *again = handover_between(between, to, 9, &e);
    struct rules *same = handover_between(from, to, 9, &e);
    assert_string_equal(rules_checksum(again), rules_checksum(same));
    char *a = text_of(again);
    char *b = text_of(between);
    assert_string_equal(a, b);
    free(a);
    free(b);
    rules_unref(from);
    rules_unref(to);
    rules_unref(between);
    rules_unref(again);
    rules_unref(same);
}

/* Half of what rules may have, on each side: they are many, and none is on both. */
static struct rules *make_many(unsigned generation, const char *resource)
{
    enum { MANY = RULES_LIMITS_MAX / 2, LIMIT_MAX = 128 };
    static char limits[MANY * LIMIT_MAX];
    size_t len = 0;
    for (unsigned i = 0; i < MANY; i++) {
        len += (size_t)snprintf(limits + len, sizeof limits - len,
                                "%s{\"apiGroups\":[\"*\"],\"resources\":[\"%s%u\"],"
                                "\"selector\":\"ns=1\"}",
                                i > 0 ? "," : "", resource, i);
    }
    return make(generation, limits);
}

/* Some times as long as it takes to parse them: meanwhile the manager does nothing for anybody. To
 * compare each with each took 30 times as long. */
static void as_many_limits_as_there_may_be(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    clock_t begun = clock();
    struct rules *from = make_many(1, "a");
    struct rules *to = make_many(2, "b");
    clock_t parsed = clock();
    struct rules *between = handover_between(from, to, 3, &e);
    assert_non_null(between);
    assert_int_equal(rules_limit_count(between), RULES_LIMITS_MAX);
    assert_in_range(clock() - parsed, 0, 16 * (parsed - begun));
    struct rules *again = handover_between(between, between, 4, &e);
    assert_non_null(again);
    assert_int_equal(rules_limit_count(again), RULES_LIMITS_MAX);
    rules_unref(from);
    rules_unref(to);
    rules_unref(between);
    rules_unref(again);
}

/* ---- pods ---- */

struct fixture {
    struct rules *rules[12];
    struct handover_past past;
    struct rules_map map; /* has rules[1] */
    struct pod pod;
    struct probe_result probe;
};

static int set_up(void **state)
{
    struct fixture *s = calloc(1, sizeof *s);
    for (unsigned i = 0; i < 12; i++) {
        char limit[200];
        (void)snprintf(limit, sizeof limit, LIMIT("pods", "ns=%u"), i);
        s->rules[i] = make(i + 1, limit);
    }
    s->map = (struct rules_map){
        .rules = s->rules[1], .checksum = rules_checksum(s->rules[1]), .generation = 2};
    s->pod = (struct pod){.ready = true, .ip = "10.0.0.1", .proxy_port = 5441};
    handover_note(&s->past, s->rules[0]);
    handover_note(&s->past, s->rules[1]);
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *s = *state;
    handover_deinit(&s->past);
    for (unsigned i = 0; i < 12; i++) {
        rules_unref(s->rules[i]);
    }
    free(s);
    return 0;
}

static void answers(struct fixture *s, unsigned number)
{
    s->probe = (struct probe_result){
        .state = PROBE_ANSWERED, .asked = true, .enforcing = true, .generation = number + 1};
    (void)snprintf(s->probe.checksum, sizeof s->probe.checksum, "%s",
                   rules_checksum(s->rules[number]));
    (void)snprintf(s->probe.shard, sizeof s->probe.shard, "%s", SHARD);
}

static enum handover_hold hold(const struct fixture *s)
{
    return handover_hold_of(&s->pod, &s->probe, SHARD, &s->map, &s->past, HANDOVER_BOUNDED);
}

static enum handover_hold strict(const struct fixture *s)
{
    return handover_hold_of(&s->pod, &s->probe, SHARD, &s->map, &s->past, HANDOVER_STRICT);
}

static void what_pods_that_answer_hold(void **state)
{
    struct fixture *s = *state;
    answers(s, 1);
    assert_int_equal(hold(s), HANDOVER_PUBLISHED);
    s->probe.enforcing = false; /* earlier requests are under way */
    assert_int_equal(hold(s), HANDOVER_PAST);
    answers(s, 0);
    assert_int_equal(hold(s), HANDOVER_PAST);
    answers(s, 5); /* that nobody has heard of */
    assert_int_equal(hold(s), HANDOVER_ANYTHING);
    answers(s, 1);
    (void)snprintf(s->probe.shard, sizeof s->probe.shard, "%s", "n/b");
    assert_int_equal(hold(s), HANDOVER_ANYTHING);
    /* It has no rules, and may still be given those that its kubelet has. */
    s->probe = (struct probe_result){.state = PROBE_ANSWERED, .asked = true};
    assert_int_equal(hold(s), HANDOVER_PAST);
    assert_int_equal(strict(s), HANDOVER_PAST);
    handover_settled(&s->past, s->rules[1]); /* and what it has may be forgotten here */
    assert_int_equal(hold(s), HANDOVER_PAST);
    assert_int_equal(strict(s), HANDOVER_ANYTHING);
}

/* The same rules, as they were before others: it may not have seen those yet. */
static void what_came_back_is_confirmed_by_generation(void **state)
{
    struct fixture *s = *state;
    answers(s, 1);
    s->map.generation = 4; /* 3 had others */
    assert_int_equal(hold(s), HANDOVER_PAST);
    assert_int_equal(strict(s), HANDOVER_PAST);
    s->probe.generation = 4;
    assert_int_equal(strict(s), HANDOVER_PUBLISHED);
}

/* Nothing is taken for granted: not that it starts, and not that it is gone. */
static void what_is_to_be_proven(void **state)
{
    struct fixture *s = *state;
    handover_settled(&s->past, s->rules[1]);
    s->probe = (struct probe_result){.state = PROBE_SILENT, .asked = true};
    assert_int_equal(hold(s), HANDOVER_PAST);
    assert_int_equal(strict(s), HANDOVER_ANYTHING);
    s->pod.ready = false;
    assert_int_equal(strict(s), HANDOVER_ANYTHING);
    s->pod.ip = ""; /* nothing runs in it yet */
    assert_int_equal(strict(s), HANDOVER_PAST);
    s->pod.ip = "10.0.0.1";
    s->pod.ending = true;
    assert_int_equal(hold(s), HANDOVER_NOTHING);
    assert_int_equal(strict(s), HANDOVER_ANYTHING);
    s->pod.let_go = true;
    assert_int_equal(strict(s), HANDOVER_NOTHING);
    s->pod.let_go = false;
    s->pod.over = true;
    assert_int_equal(strict(s), HANDOVER_NOTHING);
}

static void what_silent_pods_hold(void **state)
{
    struct fixture *s = *state;
    answers(s, 1);
    s->probe.state = PROBE_SILENT;
    assert_int_equal(hold(s), HANDOVER_PUBLISHED);
    answers(s, 0);
    s->probe.state = PROBE_SILENT;
    assert_int_equal(hold(s), HANDOVER_PAST);
    assert_int_equal(handover_hold_of(&s->pod, NULL, SHARD, &s->map, &s->past, HANDOVER_BOUNDED),
                     HANDOVER_PAST);
}

/* It had stopped for certain, and cannot go on with what is older than what was required of it. */
static void what_pods_hold_that_were_given_up(void **state)
{
    struct fixture *s = *state;
    answers(s, 0);
    s->probe.state = PROBE_SILENT;
    s->probe.required = 2;
    (void)snprintf(s->probe.required_checksum, sizeof s->probe.required_checksum, "%s",
                   rules_checksum(s->rules[1]));
    assert_int_equal(strict(s), HANDOVER_PUBLISHED);
    s->probe.enforcing = false; /* what was under way is over */
    assert_int_equal(strict(s), HANDOVER_PUBLISHED);
    s->probe.state = PROBE_ANSWERED; /* it is back, and shows nothing yet */
    assert_int_equal(strict(s), HANDOVER_PUBLISHED);
    answers(s, 1); /* it had these, and something was under way of earlier ones */
    s->probe.enforcing = false;
    assert_int_not_equal(strict(s), HANDOVER_PUBLISHED);
    s->probe.required = 2;
    assert_int_not_equal(strict(s), HANDOVER_PUBLISHED); /* others of that generation */
    (void)snprintf(s->probe.required_checksum, sizeof s->probe.required_checksum, "%s",
                   rules_checksum(s->rules[1]));
    assert_int_equal(strict(s), HANDOVER_PUBLISHED);
    s->probe.bypassed = true;
    assert_int_equal(strict(s), HANDOVER_ANYTHING);
    s->probe.bypassed = false;
    s->map = (struct rules_map){/* newer ones are published */
                                .rules = s->rules[2],
                                .checksum = rules_checksum(s->rules[2]),
                                .generation = 3};
    handover_note(&s->past, s->rules[2]);
    assert_int_equal(strict(s), HANDOVER_PAST);
    (void)snprintf(s->probe.shard, sizeof s->probe.shard, "%s", "n/b");
    assert_int_equal(strict(s), HANDOVER_ANYTHING);
    answers(s, 0); /* another localproxy, that keeps to no lease: nothing is required of it */
    s->probe.required = 0;
    handover_settled(&s->past, s->rules[2]);
    assert_int_equal(strict(s), HANDOVER_ANYTHING);
}

static void what_pods_hold_that_never_answered(void **state)
{
    struct fixture *s = *state;
    struct handover_past none = {.count = 0};
    s->probe = (struct probe_result){.state = PROBE_WAITING};
    assert_int_equal(hold(s), HANDOVER_PAST); /* all that there ever was is known */
    handover_settled(&s->past, s->rules[1]);
    assert_int_equal(hold(s), HANDOVER_ANYTHING);
    s->probe.asked = true;
    assert_int_equal(hold(s), HANDOVER_ANYTHING);
    s->pod.ready = false; /* about to start */
    assert_int_equal(hold(s), HANDOVER_PAST);
    s->pod.ready = true;
    s->probe.state = PROBE_SILENT; /* it had its time */
    assert_int_equal(hold(s), HANDOVER_PAST);
    s->probe.state = PROBE_WAITING;
    assert_int_equal(handover_hold_of(&s->pod, &s->probe, SHARD, NULL, &none, HANDOVER_BOUNDED),
                     HANDOVER_PAST);
    s->pod.told = true; /* of some, which are gone */
    assert_int_equal(handover_hold_of(&s->pod, &s->probe, SHARD, NULL, NULL, HANDOVER_BOUNDED),
                     HANDOVER_ANYTHING);

    /* So many attempts to publish the first generation that the first of them is forgotten. */
    for (unsigned i = 0; i <= HANDOVER_RULES_MAX; i++) {
        char limit[200];
        (void)snprintf(limit, sizeof limit, LIMIT("pods", "ns=%u"), i);
        struct rules *rules = make(1, limit);
        handover_note(&none, rules);
        rules_unref(rules);
    }
    assert_int_equal(handover_hold_of(&s->pod, &s->probe, SHARD, NULL, &none, HANDOVER_BOUNDED),
                     HANDOVER_ANYTHING);
    handover_deinit(&none);
}

static void pods_that_hold_nothing(void **state)
{
    struct fixture *s = *state;
    answers(s, 0);
    s->pod.over = true;
    assert_int_equal(hold(s), HANDOVER_NOTHING);
    s->pod.over = false;
    s->pod.ending = true;
    assert_int_equal(hold(s), HANDOVER_PAST); /* as long as it answers */
    s->probe.state = PROBE_SILENT;
    assert_int_equal(hold(s), HANDOVER_NOTHING);
    s->pod = (struct pod){.ready = true};
    assert_int_equal(hold(s), HANDOVER_NOTHING);
}

/* It knows what stands in the ConfigMap, and not what stood there before. */
static void what_a_new_leader_knows(void **state)
{
    struct fixture *s = *state;
    struct handover_past none = {.count = 0};
    answers(s, 1);
    assert_int_equal(handover_hold_of(&s->pod, &s->probe, SHARD, &s->map, &none, HANDOVER_BOUNDED),
                     HANDOVER_PUBLISHED);
    assert_int_equal(handover_hold_of(&s->pod, &s->probe, SHARD, &s->map, NULL, HANDOVER_BOUNDED),
                     HANDOVER_PUBLISHED);
    s->probe.enforcing = false;
    handover_note(&none, s->rules[1]);
    assert_int_equal(handover_hold_of(&s->pod, &s->probe, SHARD, &s->map, &none, HANDOVER_BOUNDED),
                     HANDOVER_ANYTHING);
    answers(s, 0);
    assert_int_equal(handover_hold_of(&s->pod, &s->probe, SHARD, &s->map, &none, HANDOVER_BOUNDED),
                     HANDOVER_ANYTHING);
    assert_int_equal(handover_hold_of(&s->pod, &s->probe, SHARD, NULL, NULL, HANDOVER_BOUNDED),
                     HANDOVER_ANYTHING);
    handover_deinit(&none);
}

static void whose_writes_may_be_executed(void **state)
{
    struct fixture *s = *state;
    assert_false(handover_unsettled(NULL));
    answers(s, 2);
    assert_false(handover_unsettled(&s->probe));
    s->probe.enforcing = false;
    assert_true(handover_unsettled(&s->probe));
    s->probe.state = PROBE_SILENT;
    assert_false(handover_unsettled(&s->probe)); /* what it said then may be long ago */
    s->probe = (struct probe_result){.state = PROBE_ANSWERED};
    assert_false(handover_unsettled(&s->probe)); /* it has no rules yet */
}

static void what_is_remembered(void **state)
{
    struct fixture *s = *state;
    assert_int_equal(s->past.count, 2);
    handover_note(&s->past, s->rules[1]);
    assert_int_equal(s->past.count, 2);
    handover_note(&s->past, s->rules[2]);    /* is being sent */
    handover_settled(&s->past, s->rules[1]); /* and not seen yet */
    assert_int_equal(s->past.count, 2);
    assert_ptr_equal(s->past.rules[0], s->rules[1]);
    handover_settled(&s->past, s->rules[7]); /* somebody else's */
    assert_int_equal(s->past.count, 2);
    handover_settled(&s->past, s->rules[2]);
    assert_int_equal(s->past.count, 1);
    for (unsigned i = 3; i < 12; i++) {
        handover_note(&s->past, s->rules[i]);
    }
    assert_int_equal(s->past.count, HANDOVER_RULES_MAX);
    answers(s, 11);
    s->probe.enforcing = false;
    assert_int_equal(hold(s), HANDOVER_ANYTHING); /* more than are remembered */
    handover_settled(&s->past, s->rules[11]);
    handover_note(&s->past, s->rules[1]);
    assert_int_equal(hold(s), HANDOVER_PAST);
}

#define POD_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_last_is_remembered),
        cmocka_unit_test(both_limits_hold),
        cmocka_unit_test(as_many_limits_as_there_may_be),
        POD_TEST(what_pods_that_answer_hold),
        POD_TEST(what_silent_pods_hold),
        POD_TEST(what_pods_hold_that_were_given_up),
        POD_TEST(what_pods_hold_that_never_answered),
        POD_TEST(pods_that_hold_nothing),
        POD_TEST(what_a_new_leader_knows),
        POD_TEST(whose_writes_may_be_executed),
        POD_TEST(what_is_remembered),
        POD_TEST(what_came_back_is_confirmed_by_generation),
        POD_TEST(what_is_to_be_proven),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
