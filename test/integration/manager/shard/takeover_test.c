/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods that nobody reaches, and that stop by themselves: what they had goes to others when that is
 * certain, and no sooner. Proxies are played by the test; the clock is the system's, but for what
 * passes at once.
 */
#include <stdlib.h>

#include "control/status.h"
#include "controller_fixture.h"
#include "enforcement/takeover.h"

enum {
    LONG_MS = 3600000,
    PAUSE_MS = 200,
    LEASE_S = 40,
    CERTAIN_MS = LEASE_S * 1000 + LEASE_S * 250 + TAKEOVER_MARGIN_MS,
    SOON_MS = 30000, /* what the test itself takes, at most */
};

#define REQUIRED "metadata/annotations/cmesh.kusionstack.io~required-generation"
#define LEASE "cmesh-blue-0"
#define PATCHES "/leases/"

static uint64_t ahead_ms;
static bool settled; /* in what blue-0 tells: nothing of earlier rules is under way */

static uint64_t now_ahead(void *data)
{
    (void)data;
    return net_clock_now(&net_clock_system) + ahead_ms;
}

static int64_t wall(void *data)
{
    (void)data;
    return net_clock_wall(&net_clock_system);
}

static void set_timer(void *data, struct net_timer *t, uint64_t ms)
{
    (void)data;
    net_timer_set(t, ms);
}

static uint32_t any(void *data)
{
    (void)data;
    return 0;
}

static const struct net_clock ahead = {
    .now = now_ahead, .wall = wall, .set_timer = set_timer, .random = any};

static int setup(void **state)
{
    struct fixture *s = calloc(1, sizeof *s);
    *state = s;
    ahead_ms = 0;
    settled = true;
    if (s == NULL || !fixture_open(s)) {
        return -1;
    }
    s->clock = &ahead;
    fixture_begin(s);
    return 0;
}

/* ---- shards ---- */

static void sees(struct fixture *s, const char *name, const char *values)
{
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"%s\"}},\"limits\":[{\"relateResources\":[{\"apiGroups\":[\"\"],"
                   "\"resources\":[\"pods\"]}],\"selector\":{\"matchExpressions\":[{\"key\":\"ns\","
                   "\"operator\":\"In\",\"values\":[%s]}]}}]}}",
                   name, name, values);
}

static void pod_of(struct fixture *s, const char *name, const char *shard)
{
    store_put_text(&s->store, "pods", "n",
                   "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"shard\":\"%s\"},\"annotations\":{"
                   "\"ctrlmesh.kusionstack.io/sharding-config-injected\":\"%s\"}},\"spec\":{"
                   "\"serviceAccountName\":\"operator\",\"containers\":[{\"name\":"
                   "\"cmesh-localproxy\"},{\"name\":\"operator\"}]},\"status\":{\"podIP\":"
                   "\"10.0.0.1\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}",
                   name, shard, shard);
}

/* Writes blue-0's Lease: of the pod with that uid, with `lease` in its document and `required` in
 * the annotation; "": without. */
static void write_lease(struct fixture *s, const char *uid, const char *lease, const char *required)
{
    static unsigned uptime;
    const struct probe_result *r = &s->entries[0].result;
    char annotation[128] = "";
    assert_string_equal(s->entries[0].key, "n/blue-0");
    if (required[0] != '\0') {
        (void)snprintf(annotation, sizeof annotation, "\"%s\":\"%s\",", CONTROL_LEASE_REQUIRED,
                       required);
    }
    store_put_text(&s->store, "leases", "n",
                   "{\"metadata\":{\"name\":\"" LEASE "\",\"labels\":{"
                   "\"app.kubernetes.io/part-of\":\"cmesh\","
                   "\"app.kubernetes.io/component\":\"localproxy\"},\"annotations\":{%s"
                   "\"cmesh.kusionstack.io/status\":\"{\\\"program\\\":\\\"localproxy\\\","
                   "\\\"pod\\\":{\\\"name\\\":\\\"blue-0\\\",\\\"uid\\\":\\\"%s\\\"},"
                   "\\\"rules\\\":{\\\"inForce\\\":true,\\\"shard\\\":{"
                   "\\\"namespace\\\":\\\"n\\\",\\\"name\\\":\\\"blue\\\"},"
                   "\\\"generation\\\":%u,\\\"checksum\\\":\\\"%s\\\",\\\"since\\\":1,"
                   "\\\"settled\\\":%s},\\\"uptimeSeconds\\\":%u%s}\"}}}",
                   annotation, uid, (unsigned)r->generation, r->checksum,
                   settled ? "true" : "false", uptime++, lease);
}

#define PROMISE ",\\\"lease\\\":{\\\"seconds\\\":40,\\\"expired\\\":false}"

static const char *uid_of(struct fixture *s)
{
    return store_text(store_get(&s->store, "pods", "n", "blue-0"), "metadata/uid");
}

static void renew(struct fixture *s)
{
    write_lease(s, uid_of(s), PROMISE, "");
}

static void is_silent(struct fixture *s)
{
    s->entries[0].result.state = PROBE_SILENT;
    s->probes.on_change(s->probes.data, s->entries[0].key);
}

/* Blue sees 1 to 3 and green 4 and 5, on one pod each. 3 is to move, and blue-0 is gone silent. */
static void begin(struct fixture *s, void (*write)(struct fixture *s))
{
    s->handover_ms = LONG_MS;
    s->strict = true;
    pod_of(s, "blue-0", "blue");
    pod_of(s, "green-0", "green");
    sees(s, "blue", "\"1\",\"2\",\"3\"");
    sees(s, "green", "\"4\",\"5\"");
    fixture_lead(s);
    fixture_expect_generation(s, "blue", 1);
    fixture_expect_generation(s, "green", 1);
    fixture_enforces(s, "blue-0", "blue");
    fixture_enforces(s, "green-0", "green");
    fixture_expect_condition(s, "blue", "Enforced", "True");
    fixture_settle(s);
    write(s);
    fixture_settle(s);
    is_silent(s);
    sees(s, "blue", "\"1\",\"2\"");
    sees(s, "green", "\"3\",\"4\",\"5\"");
    fixture_expect_generation(s, "blue", 2);
    fixture_expect_condition(s, "green", "Published", "False");
    fixture_settle(s);
}

static const char *message(struct fixture *s)
{
    return fixture_condition(s, "green", "Published", "message");
}

static void expect_message(struct fixture *s, const char *part)
{
    for (int i = 0; i < 1000 && strstr(message(s), part) == NULL; i++) {
        run_for(s->store.api.loop, 5);
    }
    if (strstr(message(s), part) == NULL) {
        fail_msg("expected \"%s\", got \"%s\"", part, message(s));
    }
}

/* Something happens in the namespace: who waits there looks again. */
static void look(struct fixture *s)
{
    s->probes.on_change(s->probes.data, s->entries[0].key);
}

static void pass(struct fixture *s, uint64_t ms)
{
    ahead_ms += ms;
    look(s);
}

static void stays(struct fixture *s)
{
    run_for(s->store.api.loop, PAUSE_MS);
    fixture_settle(s);
    assert_int_equal(fixture_generation(s, "green"), 1);
}

static void expect_required(struct fixture *s, const char *generation)
{
    assert_string_equal(fixture_text(s, "leases", LEASE, REQUIRED), generation);
}

/* ---- what is certain ---- */

static void given_up_when_it_is_certain_and_no_sooner(void **state)
{
    struct fixture *s = *state;
    begin(s, renew);
    expect_message(s, "pod blue-0 of shard n/blue (does not respond; its rules will have expired "
                      "for certain at ");
    pass(s, CERTAIN_MS - SOON_MS);
    stays(s);
    expect_required(s, "");
    pass(s, SOON_MS);
    fixture_expect_generation(s, "green", 2);
    expect_required(s, "2");
    assert_int_equal(s->entries[0].result.required, 2);
    fixture_expect_condition(s, "green", "Published", "True");
    fixture_settle(s);
    assert_int_equal(s->entries[0].result.state, PROBE_SILENT); /* that was no word of its own */
    /* Nor is it waited for when something else moves that it does not have any more. */
    sees(s, "green", "\"3\",\"4\",\"5\",\"6\"");
    fixture_expect_generation(s, "green", 3);
}

/* Nothing else happens by then. */
static void it_comes_again_when_it_is_certain(void **state)
{
    struct fixture *s = *state;
    begin(s, renew);
    pass(s, CERTAIN_MS - SOON_MS);
    fixture_expect_generation(s, "green", 2);
}

/* The watch shows it: the time begins anew. */
static void one_that_renews_is_waited_for(void **state)
{
    struct fixture *s = *state;
    begin(s, renew);
    for (int i = 0; i < 3; i++) {
        pass(s, CERTAIN_MS - SOON_MS);
        stays(s);
        renew(s);
        fixture_settle(s);
    }
    pass(s, CERTAIN_MS - SOON_MS);
    stays(s);
    expect_required(s, "");
}

static void renew_first(struct storing_api *store)
{
    struct fixture *s = LIST_ITEM(store, struct fixture, store);
    store->before_write = NULL;
    renew(s);
}

/* In the very moment in which it is given up. */
static void renewed_at_the_last_moment(void **state)
{
    struct fixture *s = *state;
    begin(s, renew);
    s->store.before_write = renew_first;
    unsigned before = s->store.conflicts;
    pass(s, CERTAIN_MS);
    for (int i = 0; i < 1000 && s->store.conflicts == before; i++) {
        run_for(s->store.api.loop, 5);
    }
    assert_int_equal(s->store.conflicts, before + 1);
    stays(s);
    expect_required(s, "");
    assert_int_equal(s->entries[0].result.required, 0);
    pass(s, CERTAIN_MS - SOON_MS);
    stays(s);
    pass(s, SOON_MS);
    fixture_expect_generation(s, "green", 2);
}

/* A manager that sees nothing concludes nothing: the version that it knows is not there any more.
 */
static void while_nothing_is_seen(void **state)
{
    struct fixture *s = *state;
    begin(s, renew);
    s->store.silent = true;
    renew(s);
    unsigned before = s->store.conflicts;
    pass(s, CERTAIN_MS);
    for (int i = 0; i < 1000 && s->store.conflicts == before; i++) {
        run_for(s->store.api.loop, 5);
    }
    stays(s);
    expect_required(s, "");
    s->store.silent = false;
    store_go_on(&s->store);
    fixture_settle(s);
    stays(s);
}

/* What was done without an answer is not counted on. */
static void an_answer_that_does_not_come(void **state)
{
    struct fixture *s = *state;
    begin(s, renew);
    store_fail(&s->store, PATCHES, 0, STORE_CUT_DONE, 1);
    pass(s, CERTAIN_MS);
    fixture_await_fault(s);
    stays(s);
    expect_required(s, "2");
    assert_int_equal(s->entries[0].result.required, 0);
    pass(s, CERTAIN_MS);
    fixture_expect_generation(s, "green", 2);
}

static void failures_are_repeated(void **state)
{
    struct fixture *s = *state;
    begin(s, renew);
    store_fail(&s->store, PATCHES, 500, STORE_NONE, 1);
    pass(s, CERTAIN_MS);
    fixture_await_fault(s);
    stays(s);
    expect_message(s, "its rules have expired, and it is being given up");
    pass(s, 5000);
    fixture_expect_generation(s, "green", 2);
}

static void who_may_not_patch_waits(void **state)
{
    struct fixture *s = *state;
    begin(s, renew);
    store_fail(&s->store, PATCHES, 403, STORE_NONE, 1);
    pass(s, CERTAIN_MS);
    fixture_await_fault(s);
    expect_message(s, "this manager may not patch Leases: bind the ClusterRole "
                      "cmesh-manager-takeover to it");
    pass(s, 60000 - SOON_MS);
    stays(s);
    pass(s, SOON_MS);
    fixture_expect_generation(s, "green", 2);
}

static void who_does_not_lead_writes_nothing(void **state)
{
    struct fixture *s = *state;
    begin(s, renew);
    s->holds = false;
    pass(s, CERTAIN_MS);
    stays(s);
    expect_required(s, "");
}

static void freed_while_it_is_asked(void **state)
{
    struct fixture *s = *state;
    begin(s, renew);
    s->store.held = true;
    pass(s, CERTAIN_MS);
    for (int i = 0; i < 1000 && !store_holds(&s->store); i++) {
        run_for(s->store.api.loop, 5);
    }
    fixture_retire(s);
    s->store.held = false;
    store_go_on(&s->store);
}

/* It has told that it has the rules that take it away, and `generation` of them. */
static void has_new_rules(struct fixture *s, unsigned generation)
{
    fixture_enforces(s, "blue-0", "blue");
    s->entries[0].result.generation = generation;
    s->entries[0].result.enforcing = false;
    settled = false;
    renew(s);
    fixture_settle(s);
    assert_int_equal(s->entries[0].result.generation, generation);
    assert_false(s->entries[0].result.enforcing);
    is_silent(s);
    stays(s);
}

/* Something was under way of the rules before, of which it never told that it was over. */
static void one_that_was_not_settled(void **state)
{
    struct fixture *s = *state;
    begin(s, renew);
    has_new_rules(s, 2);
    pass(s, CERTAIN_MS - SOON_MS);
    stays(s);
    unsigned before = s->store.requests;
    pass(s, SOON_MS);
    fixture_expect_generation(s, "green", 2);
    expect_required(s, "2");
    fixture_expect_condition(s, "green", "Published", "True");
    fixture_settle(s);
    assert_in_range(s->store.requests - before, 2, 20);
}

/* Nothing that is published could be required of it: it would go on with what it has. */
static void one_that_has_later_rules_than_are_published(void **state)
{
    struct fixture *s = *state;
    begin(s, renew);
    has_new_rules(s, 7);
    unsigned before = s->store.requests;
    pass(s, CERTAIN_MS);
    run_for(s->store.api.loop, PAUSE_MS);
    assert_string_not_equal(fixture_text(s, "leases", LEASE, REQUIRED), "2");
    assert_in_range(s->store.requests - before, 0, 20);
}

/* ---- who is not given up ---- */

static void keep_to_nothing(struct fixture *s)
{
    write_lease(s, uid_of(s), "", "");
}

static void one_that_does_not_stop_by_itself(void **state)
{
    struct fixture *s = *state;
    begin(s, keep_to_nothing);
    pass(s, CERTAIN_MS);
    stays(s);
    pass(s, LONG_MS);
    stays(s);
    assert_null(strstr(message(s), "expired"));
    expect_required(s, "");
}

/* Its sidecar was replaced by one that does not: the last word counts. */
static void one_that_does_not_any_more(void **state)
{
    struct fixture *s = *state;
    begin(s, renew);
    keep_to_nothing(s);
    fixture_settle(s);
    pass(s, LONG_MS);
    stays(s);
    expect_required(s, "");
}

static void of_another_pod(struct fixture *s)
{
    write_lease(s, "somebody", PROMISE, "");
}

static void a_lease_of_an_earlier_pod(void **state)
{
    struct fixture *s = *state;
    begin(s, of_another_pod);
    pass(s, LONG_MS);
    stays(s);
    expect_required(s, "");
}

static void one_that_goes_around_its_proxy(void **state)
{
    struct fixture *s = *state;
    begin(s, renew);
    s->entries[0].result.bypassed = true;
    pass(s, LONG_MS);
    stays(s);
    expect_required(s, "");
}

/* The generations of one shard say nothing of another's. */
static void one_with_the_rules_of_another_shard(void **state)
{
    struct fixture *s = *state;
    begin(s, renew);
    (void)snprintf(s->entries[0].result.shard, sizeof s->entries[0].result.shard, "n/red");
    pass(s, LONG_MS);
    stays(s);
    expect_required(s, "");
}

/* ---- what is asked ---- */

static void ask(struct fixture *s)
{
    write_lease(s, uid_of(s), PROMISE, CONTROL_LEASE_REQUIRED_UNKNOWN);
}

/* Its Lease was deleted meanwhile: it is told what is published, which proves nothing by itself. */
static void one_that_asks_what_is_required_is_told(void **state)
{
    struct fixture *s = *state;
    begin(s, renew);
    ask(s);
    fixture_expect_text(s, "leases", LEASE, REQUIRED, "2");
    assert_int_equal(s->entries[0].result.required, 0);
    stays(s);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(given_up_when_it_is_certain_and_no_sooner),
        TEST(it_comes_again_when_it_is_certain),
        TEST(one_that_renews_is_waited_for),
        TEST(renewed_at_the_last_moment),
        TEST(while_nothing_is_seen),
        TEST(an_answer_that_does_not_come),
        TEST(failures_are_repeated),
        TEST(who_may_not_patch_waits),
        TEST(who_does_not_lead_writes_nothing),
        TEST(freed_while_it_is_asked),
        TEST(one_that_was_not_settled),
        TEST(one_that_has_later_rules_than_are_published),
        TEST(one_that_does_not_stop_by_itself),
        TEST(one_that_does_not_any_more),
        TEST(a_lease_of_an_earlier_pod),
        TEST(one_that_goes_around_its_proxy),
        TEST(one_with_the_rules_of_another_shard),
        TEST(one_that_asks_what_is_required_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
