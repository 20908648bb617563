/* SPDX-License-Identifier: Apache-2.0 */
#include "ownership/ownership.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "compile/rules_gain.h"
#include "ownership/operator.h"

enum { SHARDS = 3, LIMIT_MS = 120000 };

/* Green asks; blue has or had what it is to get. Each with a pod, both of one operator. */
struct world {
    struct pod pods[SHARDS];
    struct probe_result probes[SHARDS];
    struct ownership_pod own[SHARDS];
    struct rules *rules[SHARDS];
    struct rules_map maps[SHARDS];
    struct ownership_shard shards[SHARDS];
    struct ownership_bare_pod bare;
    struct ownership_facts facts;
    struct ownership_wait waits[2 * SHARDS + 2];
    struct ownership_plan plan;
};

enum { GREEN, BLUE, RED };
static const char *const keys[SHARDS] = {"n/green", "n/blue", "n/red"};

static struct rules *make(const char *shard, const char *selector, const char *lock)
{
    char text[1024];
    char election[64] = "";
    struct err e = ERR_INIT;
    if (lock != NULL) {
        (void)snprintf(election, sizeof election, ",\"leaderElection\":{\"name\":\"%s\"}", lock);
    }
    (void)snprintf(text, sizeof text,
                   "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":"
                   "\"n\",\"name\":\"%s\"},\"generation\":2,\"spec\":{\"limits\":[{\"apiGroups\":"
                   "[\"\"],\"resources\":[\"pods\"],\"selector\":\"%s\"}]%s}}",
                   shard, selector, election);
    struct rules *r = rules_parse_plain(text, strlen(text), &e);
    if (r == NULL) {
        fail_msg("%s", e.msg);
    }
    return r;
}

/* What is published, wanted and enforced of the shard, all the same. */
static void has(struct world *w, size_t i, const char *selector, const char *lock)
{
    struct ownership_shard *s = &w->shards[i];
    struct probe_result *r = &w->probes[i];
    rules_unref(w->rules[i]);
    w->rules[i] = make(keys[i] + 2, selector, lock);
    w->maps[i] = (struct rules_map){.key = keys[i],
                                    .config_uid = "u",
                                    .rules = w->rules[i],
                                    .checksum = rules_checksum(w->rules[i]),
                                    .lock = lock == NULL ? "" : lock,
                                    .generation = 2};
    s->map = &w->maps[i];
    s->wanted = w->rules[i];
    s->lock = lock;
    *r = (struct probe_result){
        .state = PROBE_ANSWERED, .asked = true, .enforcing = true, .generation = 2};
    (void)snprintf(r->checksum, sizeof r->checksum, "%s", rules_checksum(w->rules[i]));
    (void)snprintf(r->shard, sizeof r->shard, "%s", keys[i]);
}

static bool gain(void *data, const struct rules *from, const struct rules *to,
                 const struct rules *others)
{
    (void)data;
    return rules_gain(from, to, others);
}

static int set_up(void **state)
{
    static struct world w;
    memset(&w, 0, sizeof w);
    for (size_t i = 0; i < SHARDS; i++) {
        w.pods[i] = (struct pod){.key = keys[i],
                                 .name = keys[i] + 2,
                                 .ip = "10.0.0.1",
                                 .account = "op",
                                 .owner = "",
                                 .proxy_port = 1,
                                 .told = true};
        w.own[i] = (struct ownership_pod){&w.pods[i], &w.probes[i]};
        w.shards[i] = (struct ownership_shard){
            .key = keys[i], .exists = true, .pods = &w.own[i], .pod_count = 1};
    }
    has(&w, GREEN, "ns=g", "lead");
    has(&w, BLUE, "ns=b", "lead");
    has(&w, RED, "ns=r", "lead");
    w.facts = (struct ownership_facts){
        .shards = w.shards, .shard_count = SHARDS, .mode = HANDOVER_STRICT, .gain = gain};
    *state = &w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < SHARDS; i++) {
        rules_unref(w->rules[i]);
    }
    return 0;
}

/* What becomes of it if green wants this too. */
static enum ownership_step ask_after(struct world *w, const char *selector, uint64_t waited_ms,
                                     uint64_t doubt)
{
    struct rules *to = make("green", selector, w->shards[GREEN].lock);
    const struct ownership_question q = {.shard = &w->shards[GREEN],
                                         .from = w->rules[GREEN],
                                         .to = to,
                                         .limit_ms = LIMIT_MS,
                                         .waited_ms = waited_ms,
                                         .doubt = doubt,
                                         .doubt_ms = waited_ms};
    w->plan.waits = w->waits;
    assert_int_equal(ownership_room(&w->facts), /* each shard with its one pod, or none */
                     1 + SHARDS + w->shards[GREEN].pod_count + w->shards[BLUE].pod_count +
                         w->shards[RED].pod_count + w->facts.bare_count);
    ownership_plan(&w->facts, &q, &w->plan);
    rules_unref(to);
    return w->plan.step;
}

static enum ownership_step ask(struct world *w)
{
    return ask_after(w, "ns in (b,g)", 0, 0);
}

/* Blue's spec does not select it any more, and neither does its ConfigMap, of a new generation. */
static struct rules *release(struct world *w)
{
    static struct rules *left;
    left = make("blue", "ns=other", w->shards[BLUE].lock);
    w->shards[BLUE].wanted = left;
    w->maps[BLUE].rules = left;
    w->maps[BLUE].checksum = rules_checksum(left);
    w->maps[BLUE].generation = 3;
    return left;
}

static void one_wait(const struct world *w, enum ownership_reason reason)
{
    assert_int_equal(w->plan.step, OWNERSHIP_RELEASE);
    assert_int_equal(w->plan.count, 1);
    assert_int_equal(w->plan.waits[0].reason, reason);
    assert_ptr_equal(w->plan.waits[0].shard, &w->shards[BLUE]);
}

/* ---- what waits ---- */

static void nothing_gained_waits_for_nobody(void **state)
{
    struct world *w = *state;
    assert_int_equal(ask_after(w, "ns=g", 0, 0), OWNERSHIP_GIVE);
    assert_int_equal(ask_after(w, "ns=g,ns=nobody", 0, 0), OWNERSHIP_GIVE);
    assert_int_equal(ask_after(w, "ns in (free,g)", 0, 0), OWNERSHIP_GIVE);
    assert_int_equal(w->plan.count, 0);
}

static void spec_and_pod_are_waited_for(void **state)
{
    struct world *w = *state;
    struct handover_past past = {.rules = {w->rules[BLUE]}, .count = 1};
    (void)ask(w);
    one_wait(w, OWNERSHIP_WANTED);
    assert_false(w->plan.waits[0].doubtful);

    struct rules *left = release(w);
    past.rules[past.count++] = left;
    w->shards[BLUE].past = &past;
    (void)ask(w);
    one_wait(w, OWNERSHIP_UNCONFIRMED);
    assert_ptr_equal(w->plan.waits[0].pod, &w->own[BLUE]);
    assert_true(w->plan.waits[0].may_expire);
    w->probes[BLUE].state = PROBE_SILENT;
    (void)ask(w);
    one_wait(w, OWNERSHIP_SILENT);
    w->probes[BLUE].asked = false;
    (void)ask(w);
    one_wait(w, OWNERSHIP_NOT_HEARD_OF);

    w->probes[BLUE] = (struct probe_result){
        .state = PROBE_ANSWERED, .asked = true, .enforcing = false, .generation = 3};
    (void)snprintf(w->probes[BLUE].checksum, sizeof w->probes[BLUE].checksum, "%s",
                   rules_checksum(left));
    (void)snprintf(w->probes[BLUE].shard, sizeof w->probes[BLUE].shard, "n/blue");
    (void)ask(w);
    one_wait(w, OWNERSHIP_UNSETTLED);
    assert_true(w->plan.unsettled);
    w->probes[BLUE].bypassed = true;
    (void)ask(w);
    one_wait(w, OWNERSHIP_BYPASSED);
    assert_false(w->plan.waits[0].may_expire);
    w->probes[BLUE].bypassed = false;
    w->probes[BLUE].enforcing = true;
    assert_int_equal(ask(w), OWNERSHIP_GIVE);
    rules_unref(left);
}

static void maps_are_waited_for(void **state)
{
    struct world *w = *state;
    struct rules_map *m = &w->maps[BLUE];
    w->shards[BLUE].exists = false;
    w->shards[BLUE].wanted = NULL;
    w->shards[BLUE].pod_count = 0;
    (void)ask(w);
    one_wait(w, OWNERSHIP_PUBLISHED);
    m->rules = NULL;
    m->unread = true;
    (void)ask(w);
    one_wait(w, OWNERSHIP_UNREAD);
    m->config_uid = ""; /* anybody may make one that nobody has read and that is nobody's */
    assert_int_equal(ask(w), OWNERSHIP_GIVE);
    m->unread = false;
    m->rules = w->rules[BLUE]; /* nor does anybody delete it, who has */
    assert_int_equal(ask(w), OWNERSHIP_GIVE);
    w->shards[BLUE].pod_count = 1;
    (void)ask(w);
    one_wait(w, OWNERSHIP_KEEPS);
    w->shards[BLUE].pod_count = 0;
    m->rules = NULL;
    m->later = true;
    (void)ask(w);
    one_wait(w, OWNERSHIP_OTHER_RELEASE);
    m->given_up = 1;
    (void)ask(w);
    one_wait(w, OWNERSHIP_OVER_BUDGET);
    w->shards[BLUE].map = NULL;
    assert_int_equal(ask(w), OWNERSHIP_GIVE);
}

static void bare_pods_are_waited_for(void **state)
{
    struct world *w = *state;
    struct pod bare = {
        .key = "n/bare", .name = "bare", .ip = "10.0.0.1", .account = "op", .owner = ""};
    w->bare.pod = &bare;
    w->facts.bare = &w->bare;
    w->facts.bare_count = 1;
    assert_int_equal(ask_after(w, "ns in (free,g)", 0, 0), OWNERSHIP_RELEASE);
    assert_int_equal(w->plan.waits[0].reason, OWNERSHIP_NO_SIDECAR);
    assert_ptr_equal(w->plan.waits[0].bare, &bare);
    bare.proxy_port = 1;
    (void)ask_after(w, "ns in (free,g)", 0, 0);
    assert_int_equal(w->plan.waits[0].reason, OWNERSHIP_UNKNOWN_SIDECAR);
    bare.account = "somebody";
    assert_int_equal(ask_after(w, "ns in (free,g)", 0, 0), OWNERSHIP_GIVE);
    w->bare.selected_by[w->bare.selected_count++] = &w->shards[BLUE];
    assert_int_equal(ask_after(w, "ns in (free,g)", 0, 0), OWNERSHIP_RELEASE);
    assert_int_equal(ask_after(w, "ns=g", 0, 0), OWNERSHIP_GIVE);
}

/* Of one without sidecars that a shard selects. */
static void all_withdraw_from_bare_pods(void **state)
{
    struct world *w = *state;
    struct pod bare = {
        .key = "n/bare", .name = "bare", .ip = "10.0.0.1", .account = "op", .owner = ""};
    w->bare.pod = &bare;
    w->facts.bare = &w->bare;
    w->facts.bare_count = 1;
    w->bare.selected_by[w->bare.selected_count++] = &w->shards[BLUE];
    assert_int_equal(ask_after(w, "ns in (free,g)", 0, 0), OWNERSHIP_WITHDRAW);
    assert_int_equal(ask_after(w, "ns=g", 0, 0), OWNERSHIP_WITHDRAW);
    assert_int_equal(w->plan.count, 1);
    assert_ptr_equal(w->plan.waits[0].bare, &bare);
    w->facts.mode = HANDOVER_BOUNDED; /* it is known what it sees, however long that takes */
    assert_int_equal(ask_after(w, "ns=g", 1000000, 0), OWNERSHIP_WITHDRAW);
    assert_true(w->plan.late);
    bare.proxy_port = 1;
    assert_int_equal(ask_after(w, "ns=g", 0, 0), OWNERSHIP_GIVE);
}

static void a_pod_that_has_not_started_is_told_apart(void **state)
{
    struct world *w = *state;
    struct pod bare = {.key = "n/bare", .name = "bare", .ip = "", .account = "op", .owner = ""};
    w->bare.pod = &bare;
    w->facts.bare = &w->bare;
    w->facts.bare_count = 1;
    w->bare.selected_by[w->bare.selected_count++] = &w->shards[BLUE];
    assert_int_equal(ask_after(w, "ns=g", 0, 0), OWNERSHIP_WITHDRAW);
    assert_int_equal(w->plan.waits[0].reason, OWNERSHIP_NOT_STARTED);
}

/* Its service account says nothing then: operators may have one in common. */
static void a_pod_is_of_the_operator_whose_shards_select_it(void **state)
{
    struct world *w = *state;
    struct pod bare = {.key = "n/bare",
                       .name = "bare",
                       .ip = "10.0.0.1",
                       .account = "op",
                       .owner = "uid of a StatefulSet"};
    has(w, BLUE, "ns=b", "lead2"); /* of another one */
    w->bare.pod = &bare;
    w->facts.bare = &w->bare;
    w->facts.bare_count = 1;
    assert_true(operator_has_bare_pod(&w->shards[GREEN], &w->bare));
    w->bare.selected_by[w->bare.selected_count++] = &w->shards[BLUE];
    assert_true(operator_has_bare_pod(&w->shards[BLUE], &w->bare));
    assert_false(operator_has_bare_pod(&w->shards[GREEN], &w->bare));
    assert_int_equal(ask_after(w, "ns=g", 0, 0), OWNERSHIP_GIVE);
    w->pods[GREEN].owner = bare.owner;
    assert_true(operator_has_bare_pod(&w->shards[GREEN], &w->bare));
    w->pods[GREEN].owner = "";
    w->maps[BLUE].lock = "lead"; /* its spec is another one already */
    assert_true(operator_has_bare_pod(&w->shards[GREEN], &w->bare));
    w->maps[BLUE].lock = "lead2";
    has(w, GREEN, "ns=g", NULL);
    assert_true(operator_has_bare_pod(&w->shards[GREEN], &w->bare));
    has(w, GREEN, "ns=g", "lead");
    bare.proxy_port = 1; /* whose rules it has nobody knows */
    assert_true(operator_has_bare_pod(&w->shards[GREEN], &w->bare));
}

/* When all leave, the shard that has everything is elected by the lock of pods without sidecars,
 * and keeps what it has beside them; but only once its pods have no lock of their own any more. */
static void who_is_elected_with_bare_pods_keeps_what_it_has(void **state)
{
    static const struct {
        const char *lock; /* of what is published, which is all that it is to have */
        bool elected;
        enum ownership_step step;
    } cases[] = {
        {NULL, true, OWNERSHIP_GIVE},
        {NULL, false, OWNERSHIP_WITHDRAW},
        {"lead", true, OWNERSHIP_WITHDRAW},
        {"lead", false, OWNERSHIP_WITHDRAW},
    };
    struct world *w = *state;
    struct pod bare = {
        .key = "n/bare", .name = "bare", .ip = "10.0.0.1", .account = "op", .owner = ""};
    w->bare.pod = &bare;
    w->facts.bare = &w->bare;
    w->facts.bare_count = 1;
    w->bare.selected_by[w->bare.selected_count++] = &w->shards[GREEN];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        has(w, GREEN, "ns=g", cases[i].lock);
        const struct ownership_question q = {.shard = &w->shards[GREEN],
                                             .from = w->rules[GREEN],
                                             .to = w->rules[GREEN],
                                             .elected = cases[i].elected,
                                             .limit_ms = LIMIT_MS};
        w->plan.waits = w->waits;
        ownership_plan(&w->facts, &q, &w->plan);
        assert_int_equal(w->plan.step, cases[i].step);
    }
}

/* ---- another lock ---- */

/* What becomes of green, that has rules `from`, and is to have what it has by this lock. */
static enum ownership_step relock(struct world *w, struct rules *from, const char *selector,
                                  const char *lock, bool relocks, bool led)
{
    struct rules *to = make("green", selector, lock);
    const struct ownership_question q = {.shard = &w->shards[GREEN],
                                         .from = from,
                                         .to = to,
                                         .elected = lock == NULL,
                                         .relocks = relocks,
                                         .led = led,
                                         .limit_ms = LIMIT_MS};
    w->plan.waits = w->waits;
    ownership_plan(&w->facts, &q, &w->plan);
    rules_unref(to);
    return w->plan.step;
}

/* Although it gains nothing: one of its pods might work by each. */
static void a_shard_shows_nothing_while_its_lock_changes(void **state)
{
    struct world *w = *state;
    struct rules *before = make("green", "ns=g", "lead");
    struct handover_past past = {.rules = {before, NULL}, .count = 1};
    assert_int_equal(relock(w, w->rules[GREEN], "ns=g", "lead2", false, false), OWNERSHIP_RELOCK);
    assert_int_equal(w->plan.count, 1);
    assert_int_equal(w->plan.waits[0].reason, OWNERSHIP_OTHER_LOCK);
    assert_ptr_equal(w->plan.waits[0].pod, &w->own[GREEN]);
    assert_true(w->plan.waits[0].may_expire);
    assert_int_equal(relock(w, w->rules[GREEN], "ns=g", NULL, false, false), OWNERSHIP_RELOCK);
    assert_int_equal(relock(w, w->rules[GREEN], "ns=g", "lead", false, true), OWNERSHIP_GIVE);

    has(w, GREEN, "ns=nothing", NULL); /* by the new one; its pod has confirmed that */
    w->maps[GREEN].generation = 3;
    past.rules[past.count++] = w->rules[GREEN];
    w->shards[GREEN].past = &past;
    assert_int_equal(relock(w, w->rules[GREEN], "ns=g", NULL, true, true), OWNERSHIP_RELOCK);
    assert_int_equal(w->plan.waits[0].reason, OWNERSHIP_OTHER_LOCK); /* of generation 2 */
    assert_int_equal(w->plan.waits[1].reason, OWNERSHIP_STILL_LED);
    w->probes[GREEN].generation = 3;
    assert_int_equal(relock(w, w->rules[GREEN], "ns=g", NULL, true, true), OWNERSHIP_RELOCK);
    assert_int_equal(w->plan.count, 1);
    assert_int_equal(w->plan.waits[0].reason, OWNERSHIP_STILL_LED);
    assert_int_equal(relock(w, w->rules[GREEN], "ns=g", NULL, true, false), OWNERSHIP_GIVE);
    w->shards[GREEN].pod_count = 0;
    assert_int_equal(relock(w, w->rules[GREEN], "ns=g", NULL, true, true), OWNERSHIP_GIVE);
    rules_unref(before);
}

/* Another leader does not know which lock it had. */
static void a_pod_of_unknown_rules_may_have_another_lock(void **state)
{
    struct world *w = *state;
    has(w, GREEN, "ns=nothing", "lead");
    w->probes[GREEN].generation = 1;
    assert_int_equal(relock(w, w->rules[GREEN], "ns=g", "lead", false, false), OWNERSHIP_GIVE);
    assert_int_equal(relock(w, w->rules[GREEN], "ns=g", "lead", true, false), OWNERSHIP_RELOCK);
    assert_int_equal(w->plan.waits[0].reason, OWNERSHIP_OTHER_LOCK);
    w->pods[GREEN].let_go = true;
    assert_int_equal(relock(w, w->rules[GREEN], "ns=g", "lead", true, false), OWNERSHIP_GIVE);
}

/* Which are elected by the new lock as well, once the old one is of no account; but nothing is
 * known of others with its service account. */
static void pods_without_a_sidecar_do_not_hold_up_who_has_their_lock(void **state)
{
    struct world *w = *state;
    struct pod bare = {
        .key = "n/bare", .name = "bare", .ip = "10.0.0.1", .account = "op", .owner = ""};
    w->bare.pod = &bare;
    w->facts.bare = &w->bare;
    w->facts.bare_count = 1;
    w->bare.selected_by[w->bare.selected_count++] = &w->shards[GREEN];
    assert_int_equal(relock(w, w->rules[GREEN], "ns=g", NULL, false, false), OWNERSHIP_WITHDRAW);
    has(w, GREEN, "ns=nothing", NULL);
    assert_int_equal(relock(w, w->rules[GREEN], "ns=g", NULL, true, true), OWNERSHIP_WITHDRAW);
    assert_int_equal(relock(w, w->rules[GREEN], "ns=g", NULL, true, false), OWNERSHIP_GIVE);
    w->bare.selected_count = 0;
    assert_int_equal(relock(w, w->rules[GREEN], "ns=g", NULL, true, false), OWNERSHIP_RELEASE);
}

static void who_shares_on_purpose_is_not_waited_for(void **state)
{
    struct world *w = *state;
    static const char *const lists[] = {"blue", "red, blue", "*"};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        w->shards[GREEN].shares_with = lists[i];
        assert_int_equal(ask(w), OWNERSHIP_GIVE);
    }
    w->shards[GREEN].shares_with = "red";
    assert_int_equal(ask(w), OWNERSHIP_RELEASE);
    w->shards[BLUE].shares_with = "green";
    assert_int_equal(ask(w), OWNERSHIP_GIVE);
}

/* ---- for how long ---- */

static void strict_waits_for_ever_and_bounded_does_not(void **state)
{
    struct world *w = *state;
    assert_int_equal(ask_after(w, "ns in (b,g)", 0, 0), OWNERSHIP_RELEASE);
    assert_false(w->plan.late);
    assert_int_equal(w->plan.patience, LIMIT_MS);
    assert_int_equal(w->plan.again_ms, LIMIT_MS);
    assert_int_equal(ask_after(w, "ns in (b,g)", LIMIT_MS - 1, 0), OWNERSHIP_RELEASE);
    assert_false(w->plan.late);
    assert_int_equal(w->plan.again_ms, 1);
    assert_int_equal(ask_after(w, "ns in (b,g)", LIMIT_MS, 0), OWNERSHIP_RELEASE);
    assert_true(w->plan.late);
    assert_int_equal(w->plan.again_ms, UINT64_MAX);
    w->facts.mode = HANDOVER_BOUNDED;
    assert_int_equal(ask_after(w, "ns in (b,g)", LIMIT_MS - 1, 0), OWNERSHIP_RELEASE);
    assert_int_equal(ask_after(w, "ns in (b,g)", LIMIT_MS, 0), OWNERSHIP_OVERRIDE);
}

/* Writes that may still be executed are waited for as long as that can be. */
static void what_is_unsettled_has_its_time(void **state)
{
    struct world *w = *state;
    struct rules *to = make("green", "ns in (b,g)", "lead");
    struct ownership_question q = {
        .shard = &w->shards[GREEN], .from = w->rules[GREEN], .to = to, .limit_ms = 1000};
    w->plan.waits = w->waits;
    ownership_plan(&w->facts, &q, &w->plan);
    assert_int_equal(w->plan.patience, 1000);
    w->probes[BLUE].enforcing = false;
    ownership_plan(&w->facts, &q, &w->plan);
    assert_int_equal(w->plan.patience, HANDOVER_UNSETTLED_MS);
    q.limit_ms = HANDOVER_UNSETTLED_MS + 1;
    ownership_plan(&w->facts, &q, &w->plan);
    assert_int_equal(w->plan.patience, HANDOVER_UNSETTLED_MS + 1);
    rules_unref(to);
}

/* Two of which nothing can be read go by each other's specs; others take it for the worst. */
static void rules_that_cannot_be_read(void **state)
{
    struct world *w = *state;
    struct rules *to = make("green", "ns in (b,g)", "lead");
    struct ownership_question q = {.shard = &w->shards[GREEN], .to = to, .limit_ms = 1000};
    w->maps[BLUE].later = true;
    w->maps[BLUE].rules = NULL;
    w->shards[BLUE].pod_count = 0;
    w->shards[BLUE].wanted = NULL;
    w->maps[GREEN].later = true;
    w->maps[GREEN].rules = NULL;
    w->plan.waits = w->waits;
    ownership_plan(&w->facts, &q, &w->plan);
    one_wait(w, OWNERSHIP_OTHER_RELEASE);
    w->shards[BLUE].wanted = w->rules[RED];
    ownership_plan(&w->facts, &q, &w->plan);
    assert_int_equal(w->plan.count, 0);
    q.from = w->rules[GREEN];
    ownership_plan(&w->facts, &q, &w->plan);
    one_wait(w, OWNERSHIP_OTHER_RELEASE);
    w->shards[BLUE].wanted = w->rules[BLUE];
    q.from = NULL;
    ownership_plan(&w->facts, &q, &w->plan);
    one_wait(w, OWNERSHIP_WANTED);
    rules_unref(to);
}

/* A shard that nobody waits for can wait for one of which nothing can be read. */
static void a_new_shard_does_not_go_by_specs(void **state)
{
    struct world *w = *state;
    struct rules *to = make("green", "ns in (b,g)", "lead");
    struct ownership_question q = {.shard = &w->shards[GREEN], .to = to, .limit_ms = 1000};
    w->maps[BLUE].later = true;
    w->maps[BLUE].rules = NULL;
    w->shards[BLUE].wanted = w->rules[RED]; /* from now on; its pod still shows what green gains */
    w->shards[GREEN].map = NULL;
    w->shards[GREEN].pod_count = 0;
    w->plan.waits = w->waits;
    ownership_plan(&w->facts, &q, &w->plan);
    one_wait(w, OWNERSHIP_OTHER_RELEASE);
    w->maps[BLUE].checksum = rules_checksum(w->rules[RED]); /* it was published: */
    ownership_plan(&w->facts, &q, &w->plan);
    one_wait(w, OWNERSHIP_UNCONFIRMED);
    w->shards[BLUE].pod_count = 0;
    ownership_plan(&w->facts, &q, &w->plan);
    assert_int_equal(w->plan.count, 0);
    w->maps[BLUE].checksum = rules_checksum(w->rules[BLUE]);
    w->shards[GREEN].pod_count = 1; /* with rules that nobody knows: blue may wait for it */
    ownership_plan(&w->facts, &q, &w->plan);
    assert_int_equal(w->plan.count, 0);
    rules_unref(to);
}

/* What its spec selects no longer ends by itself. */
static void doubt_does_not_end_what_is_given_up(void **state)
{
    struct world *w = *state;
    has(w, BLUE, "ns in (b,c)", "lead2");
    struct rules *left = make("blue", "ns=b", "lead2");
    struct handover_past past = {.rules = {w->rules[BLUE], left}, .count = 2};
    w->shards[BLUE].past = &past;
    w->shards[BLUE].wanted = left;
    w->maps[BLUE].rules = left;
    w->maps[BLUE].checksum = rules_checksum(left);
    w->maps[BLUE].generation = 3;
    (void)ask_after(w, "ns in (b,c,g)", 0, 0);
    assert_int_equal(w->plan.count, 2);
    assert_int_equal(ask_after(w, "ns in (b,c,g)", OWNERSHIP_DOUBT_MS, w->plan.doubt),
                     OWNERSHIP_RELEASE);
    rules_unref(left);
}

/* Of another lock and the same account: after a while it is another operator. */
static void doubt_ends(void **state)
{
    struct world *w = *state;
    has(w, BLUE, "ns=b", "lead2");
    assert_int_equal(ask(w), OWNERSHIP_RELEASE);
    uint64_t doubt = w->plan.doubt;
    assert_int_not_equal(doubt, 0);
    assert_true(w->plan.doubtful);
    assert_true(w->plan.waits[0].doubtful);
    assert_int_equal(w->plan.patience, OWNERSHIP_DOUBT_MS);
    assert_int_equal(ask_after(w, "ns in (b,g)", OWNERSHIP_DOUBT_MS, 0), OWNERSHIP_RELEASE);
    assert_int_equal(w->plan.again_ms, OWNERSHIP_DOUBT_MS);
    assert_int_equal(ask_after(w, "ns in (b,g)", OWNERSHIP_DOUBT_MS - 1, doubt), OWNERSHIP_RELEASE);
    assert_int_equal(ask_after(w, "ns in (b,g)", OWNERSHIP_DOUBT_MS, doubt), OWNERSHIP_OVERRIDE);

    has(w, BLUE, "ns in (b,c)", "lead2"); /* by labels of namespaces: nobody has edited it */
    assert_int_equal(ask_after(w, "ns in (b,g)", OWNERSHIP_DOUBT_MS, doubt), OWNERSHIP_OVERRIDE);
    w->shards[BLUE].spec++;
    assert_int_equal(ask_after(w, "ns in (b,g)", OWNERSHIP_DOUBT_MS, doubt), OWNERSHIP_RELEASE);
    assert_int_not_equal(w->plan.doubt, doubt);
    doubt = w->plan.doubt;
    w->shards[GREEN].spec++;
    assert_int_equal(ask_after(w, "ns in (b,g)", OWNERSHIP_DOUBT_MS, doubt), OWNERSHIP_RELEASE);
    doubt = w->plan.doubt;
    w->shards[RED].spec++; /* that one is not doubtful */
    assert_int_equal(ask_after(w, "ns in (b,g)", OWNERSHIP_DOUBT_MS, doubt), OWNERSHIP_OVERRIDE);
    has(w, RED, "ns=b", "lead"); /* nor is somebody else's word for it */
    assert_int_equal(ask_after(w, "ns in (b,g)", 10 * LIMIT_MS, w->plan.doubt), OWNERSHIP_RELEASE);
    assert_false(w->plan.doubtful);
}

/* What its spec does not select it gives up before long, so that it can be waited for. */
static void doubt_is_no_reason_not_to_wait_for_a_release(void **state)
{
    struct world *w = *state;
    has(w, BLUE, "ns=b", "lead2");
    struct rules *left = make("blue", "ns=other", "lead2");
    w->shards[BLUE].wanted = left;
    (void)ask(w);
    one_wait(w, OWNERSHIP_PUBLISHED);
    assert_false(w->plan.doubtful);
    assert_int_equal(ask_after(w, "ns in (b,g)", 10 * LIMIT_MS, 0), OWNERSHIP_RELEASE);
    rules_unref(left);
}

/* ---- exclusive ---- */

static void overlap(struct world *w)
{
    const struct ownership_question q = {.shard = &w->shards[GREEN], .to = w->rules[GREEN]};
    w->plan.waits = w->waits;
    ownership_overlaps(&w->facts, &q, &w->plan);
}

static void overlaps_are_told(void **state)
{
    struct world *w = *state;
    overlap(w);
    assert_int_equal(w->plan.count, 0);
    has(w, BLUE, "ns in (b,g)", "lead");
    overlap(w);
    assert_int_equal(w->plan.count, 1);
    assert_int_equal(w->plan.intended, 0);
    w->shards[GREEN].shares_with = "blue";
    overlap(w);
    assert_int_equal(w->plan.count, 1);
    assert_int_equal(w->plan.intended, 1);
    has(w, BLUE, "ns in (b,g)", "lead2"); /* of another operator, perhaps */
    overlap(w);
    assert_int_equal(w->plan.count, 0);
    has(w, BLUE, "ns in (b,g)", "lead");
    w->probes[BLUE].asked = false;
    overlap(w);
    assert_true(w->plan.unasked);
}

/* A pod of which nothing matters need not be asked; one that is between two rules must. */
static void overlaps_depend_on_pods_that_matter(void **state)
{
    struct world *w = *state;
    w->probes[BLUE].asked = false;
    overlap(w);
    assert_false(w->plan.unasked);
    assert_int_equal(w->plan.count, 0);
    w->probes[BLUE].asked = true;
    w->probes[BLUE].generation = 1; /* of which nobody knows what they were */
    overlap(w);
    assert_true(w->plan.unasked);
    assert_int_equal(w->plan.count, 0);
    w->probes[BLUE].bypassed = true;
    overlap(w);
    assert_false(w->plan.unasked);
    assert_int_equal(w->plan.count, 1);
    w->probes[BLUE].bypassed = false;
    w->maps[BLUE].unread = true;
    overlap(w);
    assert_true(w->plan.unasked);
    assert_int_equal(w->plan.count, 0);
}

/* ---- of one operator ---- */

struct kinship_case {
    const char *what;
    const char *locks[2];    /* NULL: none */
    const char *accounts[2]; /* NULL: no pods */
    bool gone;               /* the second */
    enum operator_kinship is;
};

static void kinship_by_locks_and_accounts(void **state)
{
    static const struct kinship_case cases[] = {
        {"one lock", {"l", "l"}, {"a", "b"}, false, OPERATOR_SAME},
        {"one lock, no pods", {"l", "l"}, {NULL, NULL}, false, OPERATOR_SAME},
        {"two locks, two accounts", {"l", "m"}, {"a", "b"}, false, OPERATOR_OTHER},
        {"two locks, one account", {"l", "m"}, {"a", "a"}, false, OPERATOR_DOUBTFUL},
        {"two locks, default account",
         {"l", "m"},
         {"default", "default"},
         false,
         OPERATOR_DOUBTFUL},
        {"two locks, nobody knows", {"l", "m"}, {NULL, "a"}, false, OPERATOR_DOUBTFUL},
        {"two locks, gone, one account", {"l", "m"}, {"a", "a"}, true, OPERATOR_SAME},
        {"two locks, gone, two accounts", {"l", "m"}, {"a", "b"}, true, OPERATOR_OTHER},
        {"no locks, one account", {NULL, NULL}, {"a", "a"}, false, OPERATOR_SAME},
        {"no locks, nobody knows", {NULL, NULL}, {"a", NULL}, false, OPERATOR_SAME},
        {"no locks, two accounts", {NULL, NULL}, {"a", "b"}, false, OPERATOR_OTHER},
        {"one has a lock, one account", {"l", NULL}, {"a", "a"}, false, OPERATOR_SAME},
        {"one has a lock, default", {"l", NULL}, {"default", "default"}, false, OPERATOR_DOUBTFUL},
        {"one has a lock, nobody knows", {"l", NULL}, {"a", NULL}, false, OPERATOR_DOUBTFUL},
        {"one has a lock, two accounts", {NULL, "l"}, {"a", "b"}, false, OPERATOR_OTHER},
    };
    struct world *w = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (size_t j = 0; j < 2; j++) {
            has(w, j, "ns=x", cases[i].locks[j]);
            w->shards[j].pod_count = cases[i].accounts[j] != NULL;
            w->pods[j].account = cases[i].accounts[j];
        }
        w->shards[1].exists = !cases[i].gone;
        if (operator_kinship(&w->shards[0], &w->shards[1]) != cases[i].is ||
            operator_kinship(&w->shards[1], &w->shards[0]) != cases[i].is) {
            fail_msg("%s", cases[i].what);
        }
    }
}

/* A name that was is as good as one that is. */
static void kinship_by_what_was(void **state)
{
    struct world *w = *state;
    struct rules *before = make("blue", "ns=b", "lead");
    struct handover_past past = {.rules = {before}, .count = 1};
    has(w, BLUE, "ns=b", "lead2");
    w->pods[BLUE].account = "other";
    assert_int_equal(operator_kinship(&w->shards[GREEN], &w->shards[BLUE]), OPERATOR_OTHER);
    w->shards[BLUE].past = &past;
    assert_int_equal(operator_kinship(&w->shards[GREEN], &w->shards[BLUE]), OPERATOR_SAME);
    w->shards[BLUE].past = NULL;
    w->maps[BLUE].lock = "lead"; /* the spec is another one already */
    assert_int_equal(operator_kinship(&w->shards[GREEN], &w->shards[BLUE]), OPERATOR_SAME);
    w->maps[BLUE].lock = "lead2";
    w->maps[BLUE].unread = true;
    assert_int_equal(operator_kinship(&w->shards[GREEN], &w->shards[BLUE]), OPERATOR_SAME);
    assert_false(operator_is_same(&w->shards[GREEN], &w->shards[BLUE]));
    w->maps[BLUE].unread = false;
    w->maps[BLUE].later = true;
    assert_int_equal(operator_kinship(&w->shards[GREEN], &w->shards[BLUE]), OPERATOR_SAME);
    w->maps[BLUE].given_up = 1; /* its lock is known all the same */
    assert_int_equal(operator_kinship(&w->shards[GREEN], &w->shards[BLUE]), OPERATOR_OTHER);
    w->maps[BLUE].lock = "lead";
    assert_int_equal(operator_kinship(&w->shards[GREEN], &w->shards[BLUE]), OPERATOR_SAME);
    rules_unref(before);
}

static void kinship_by_pods(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    struct selector *selector = selector_parse(slice_str("app=x"), &e);
    const struct pod_label label = {"app", "x"};
    has(w, BLUE, "ns=b", "lead2");
    w->pods[BLUE].account = "other";
    w->pods[BLUE].labels = &label;
    w->pods[BLUE].label_count = 1;
    assert_int_equal(operator_kinship(&w->shards[GREEN], &w->shards[BLUE]), OPERATOR_OTHER);
    w->shards[GREEN].selector = selector;
    assert_int_equal(operator_kinship(&w->shards[GREEN], &w->shards[BLUE]), OPERATOR_SAME);
    assert_int_equal(operator_kinship(&w->shards[BLUE], &w->shards[GREEN]), OPERATOR_SAME);
    w->shards[GREEN].selector = NULL;
    w->pods[GREEN].owner = w->pods[BLUE].owner = "uid of a StatefulSet";
    assert_int_equal(operator_kinship(&w->shards[GREEN], &w->shards[BLUE]), OPERATOR_SAME);
    w->pods[GREEN].owner = "uid of another one";
    assert_int_equal(operator_kinship(&w->shards[GREEN], &w->shards[BLUE]), OPERATOR_OTHER);
    w->shards[GREEN].root = w->shards[BLUE].root = "r";
    assert_int_equal(operator_kinship(&w->shards[GREEN], &w->shards[BLUE]), OPERATOR_SAME);
    selector_free(selector);
}

/* Pods without a controller, or with the account "default", have nothing in common by that. */
static void kinship_by_nothing_that_pods_have(void **state)
{
    struct world *w = *state;
    struct pod with = w->pods[GREEN];
    struct ownership_pod own[] = {{&with, &w->probes[GREEN]}, w->own[GREEN]};
    has(w, BLUE, "ns=b", "lead2");
    w->pods[BLUE].account = "other";
    with.owner = "uid of a StatefulSet";
    w->shards[GREEN].pods = own;
    w->shards[GREEN].pod_count = ARRAY_LEN(own);
    assert_int_equal(operator_kinship(&w->shards[GREEN], &w->shards[BLUE]), OPERATOR_OTHER);
    has(w, BLUE, "ns=b", NULL);
    w->pods[GREEN].account = w->pods[BLUE].account = "default";
    assert_int_equal(operator_kinship(&w->shards[GREEN], &w->shards[BLUE]), OPERATOR_DOUBTFUL);
}

/* Whatever lock rules name that nobody knows. */
static void kinship_by_unknown_rules(void **state)
{
    struct world *w = *state;
    has(w, BLUE, "ns=b", "lead2");
    w->probes[BLUE].generation = 1;
    assert_int_equal(operator_kinship(&w->shards[GREEN], &w->shards[BLUE]), OPERATOR_SAME);
    w->pods[BLUE].account = "other";
    assert_int_equal(operator_kinship(&w->shards[GREEN], &w->shards[BLUE]), OPERATOR_OTHER);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(nothing_gained_waits_for_nobody),
        TEST(spec_and_pod_are_waited_for),
        TEST(maps_are_waited_for),
        TEST(bare_pods_are_waited_for),
        TEST(all_withdraw_from_bare_pods),
        TEST(a_pod_that_has_not_started_is_told_apart),
        TEST(a_pod_is_of_the_operator_whose_shards_select_it),
        TEST(who_is_elected_with_bare_pods_keeps_what_it_has),
        TEST(a_shard_shows_nothing_while_its_lock_changes),
        TEST(a_pod_of_unknown_rules_may_have_another_lock),
        TEST(pods_without_a_sidecar_do_not_hold_up_who_has_their_lock),
        TEST(who_shares_on_purpose_is_not_waited_for),
        TEST(strict_waits_for_ever_and_bounded_does_not),
        TEST(what_is_unsettled_has_its_time),
        TEST(rules_that_cannot_be_read),
        TEST(a_new_shard_does_not_go_by_specs),
        TEST(doubt_ends),
        TEST(doubt_does_not_end_what_is_given_up),
        TEST(doubt_is_no_reason_not_to_wait_for_a_release),
        TEST(overlaps_are_told),
        TEST(overlaps_depend_on_pods_that_matter),
        TEST(kinship_by_locks_and_accounts),
        TEST(kinship_by_what_was),
        TEST(kinship_by_pods),
        TEST(kinship_by_nothing_that_pods_have),
        TEST(kinship_by_unknown_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
