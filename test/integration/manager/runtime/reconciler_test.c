/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A controller of things, whose status says how often it was made, against a scripted API server.
 * With a random number of 0 the pauses after failures are 100, 200, 400, ... ms.
 */
#include "runtime/reconciler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scripted_api.h"

#define PATH "/apis/x/v1/namespaces/ns/things"
#define MANAGER "?fieldManager=me"
#define STATUS PATH "/a/status" MANAGER
#define ANSWER "{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"9\"}}"

struct user {
    struct scripted_api api;
    struct reconciler *reconciler;
    bool lost;           /* does not lead */
    bool gone;           /* there is no thing */
    const char *reads;   /* the one of that name is read, none is written */
    unsigned refused;    /* the code of the last failure */
    bool quiet;          /* there is nothing to be written */
    const char *version; /* that the cache shows */
    unsigned begun;
    unsigned handled;
    unsigned early;
    unsigned dropped;
    uint64_t counts[RECONCILE_RESULTS];
};

struct thing {
    struct reconcile run;
    char *mine;
};

static void begin(void *state)
{
    struct thing *t = state;
    struct user *u = t->run.data;
    u->begun++;
    assert_null(t->mine);
}

static void drop(void *state)
{
    struct thing *t = state;
    struct user *u = t->run.data;
    u->dropped++;
    free(t->mine);
}

static bool done(void *state, enum work_result result)
{
    const struct thing *t = state;
    const struct user *u = t->run.data;
    (void)result;
    return !u->gone;
}

static void on_written(void *data, const cJSON *object, const struct api_error *error)
{
    struct thing *t = data;
    struct user *u = t->run.data;
    assert_null(t->run.request);
    if (object == NULL) {
        u->refused = error->code;
        reconcile_failed(&t->run, error, "cannot write a thing");
    } else {
        reconcile_done(&t->run, WORK_DONE, 0);
    }
}

static void read_thing(struct thing *t)
{
    struct user *u = t->run.data;
    const struct object_request_options q = {
        .verb = OBJECT_REQUEST_GET, .path = PATH, .name = u->reads};
    reconcile_write(&t->run, &q, u->counts, on_written);
}

static void write_status(struct thing *t)
{
    struct user *u = t->run.data;
    cJSON *old = cJSON_Parse("{\"was\":1}");
    cJSON *new = cJSON_Parse("{\"is\":2}");
    const struct reconcile_status w = {.path = strdup(PATH),
                                       .name = "a",
                                       .uid = "u",
                                       .version = u->version,
                                       .old = old,
                                       .status = new,
                                       .field_manager = "me",
                                       .counts = u->counts,
                                       .next = on_written};
    reconcile_status(&t->run, &w);
    cJSON_Delete(old);
    cJSON_Delete(new);
}

static void reconcile(void *state)
{
    enum { APART_MS = 1000 };
    struct thing *t = state;
    struct user *u = t->run.data;
    u->handled++;
    t->mine = t->mine != NULL ? t->mine : strdup("mine");
    if (t->mine == NULL) {
        reconcile_done(&t->run, WORK_RETRY, 0);
    } else if (u->gone || u->quiet) {
        reconcile_done(&t->run, WORK_DONE, 0);
    } else if (u->reads != NULL) {
        read_thing(t);
    } else if (reconcile_too_early(&t->run, "u", u->version, APART_MS)) {
        u->early++;
        reconcile_done(&t->run, WORK_DONE, 0);
    } else {
        write_status(t);
    }
}

static const struct reconciler_handlers handlers = {
    .begin = begin, .reconcile = reconcile, .done = done, .drop = drop};

static const struct reconciler_handlers without_memory = {
    .begin = begin, .reconcile = reconcile, .drop = drop};

static bool may_write(void *gate)
{
    const struct user *u = gate;
    return !u->lost;
}

static struct reconciler *make(struct user *u, const struct reconciler_handlers *h)
{
    const struct reconciler_options o = {
        .name = "things",
        .kind = "thing",
        .parallel = 2,
        .state_size = sizeof(struct thing),
        .data = u,
        .client = u->api.client,
        .may_write = may_write,
        .gate = u,
        .clock = &u->api.clock.clock,
    };
    return reconciler_new(u->api.loop, &o, h);
}

static int setup(void **state)
{
    struct net_loop *l = NULL;
    struct user *u = calloc(1, sizeof *u);
    if (u == NULL || loop_setup((void **)&l) != 0 || !api_open(&u->api, l)) {
        return -1;
    }
    u->version = "1";
    u->reconciler = make(u, &handlers);
    *state = u;
    return u->reconciler == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    struct user *u = *state;
    struct net_loop *l = u->api.loop;
    reconciler_free(u->reconciler);
    bool freed = u->dropped == u->begun;
    api_close(&u->api);
    free(u);
    return loop_free(l) == 0 && freed ? 0 : -1;
}

static struct work_queue_stats stats(const struct user *u)
{
    return work_queue_stats(reconciler_queue(u->reconciler));
}

static void look(struct user *u)
{
    reconciler_look(u->reconciler, "ns/a", 0);
    fake_clock_pass(&u->api.clock, 0);
}

static void a_key_has_a_state_for_as_long_as_there_is_something(void **state)
{
    struct user *u = *state;
    u->quiet = true;
    look(u);
    look(u);
    assert_int_equal(u->handled, 2);
    assert_int_equal(u->begun, 1);
    struct thing *t = reconciler_find(u->reconciler, "ns/a");
    assert_non_null(t);
    assert_string_equal(t->run.key, "ns/a");
    assert_ptr_equal(reconciler_provide(u->reconciler, "ns/a"), t);
    assert_ptr_equal(reconciler_next(u->reconciler, NULL), t);
    assert_null(reconciler_next(u->reconciler, t));
    u->gone = true;
    look(u);
    assert_int_equal(u->dropped, 1);
    assert_int_equal(reconciler_count(u->reconciler), 0);
}

static void a_state_is_forgotten_unless_it_is_used(void **state)
{
    struct user *u = *state;
    assert_non_null(reconciler_provide(u->reconciler, "ns/a"));
    look(u);
    reconciler_forget(u->reconciler, "ns/a");
    assert_int_equal(u->dropped, 0);
    api_answer(api_expect(&u->api, "PATCH", STATUS), 200, NULL, ANSWER);
    api_expect_quiet(&u->api);
    reconciler_forget(u->reconciler, "ns/a");
    reconciler_forget(u->reconciler, "ns/a");
    assert_int_equal(u->dropped, 1);
}

static void only_the_leader_writes(void **state)
{
    struct user *u = *state;
    u->lost = true;
    look(u);
    api_expect_quiet(&u->api);
    assert_int_equal(stats(u).retries, 1);
    u->reads = "a";
    fake_clock_pass(&u->api.clock, 100);
    api_answer(api_expect(&u->api, "GET", PATH "/a"), 200, NULL, ANSWER);
    u->reads = NULL;
    u->lost = false;
    look(u);
    api_answer(api_expect(&u->api, "PATCH", STATUS), 200, NULL, ANSWER);
    api_expect_quiet(&u->api);
    assert_int_equal(stats(u).retries, 1);
    assert_int_equal(u->counts[RECONCILE_WRITTEN], 2);
}

static void a_status_is_written_over_its_version(void **state)
{
    struct user *u = *state;
    look(u);
    struct api_request *q = api_expect(&u->api, "PATCH", STATUS);
    assert_string_equal(q->body, "{\"metadata\":{\"resourceVersion\":\"1\",\"uid\":\"u\"},"
                                 "\"status\":{\"is\":2,\"was\":null}}");
    api_answer(q, 200, NULL, ANSWER);
    api_expect_quiet(&u->api);
}

/* An answer is believed until the cache shows another version; what it shows then may be written
 * over a second after the last time. */
static void a_write_is_believed_until_it_is_seen(void **state)
{
    struct user *u = *state;
    look(u);
    api_answer(api_expect(&u->api, "PATCH", STATUS), 200, NULL, ANSWER);
    api_expect_quiet(&u->api);
    fake_clock_pass(&u->api.clock, 500);
    look(u);
    assert_int_equal(u->early, 1);
    const struct thing *t = reconciler_find(u->reconciler, "ns/a");
    assert_true(reconcile_unseen(&t->run, "u", "1"));
    assert_false(reconcile_unseen(&t->run, "u", "2"));
    assert_false(reconcile_unseen(&t->run, "other", "1"));
    u->version = "2";
    look(u);
    assert_int_equal(u->early, 2);
    fake_clock_pass(&u->api.clock, 499);
    assert_int_equal(u->handled, 3);
    fake_clock_pass(&u->api.clock, 1);
    api_answer(api_expect(&u->api, "PATCH", STATUS), 200, NULL, ANSWER);
    api_expect_quiet(&u->api);
}

static void what_the_cache_never_shows_is_written_again(void **state)
{
    struct user *u = *state;
    look(u);
    api_answer(api_expect(&u->api, "PATCH", STATUS), 200, NULL, ANSWER);
    api_expect_quiet(&u->api);
    fake_clock_pass(&u->api.clock, RECONCILE_BELIEF_MS);
    api_expect_quiet(&u->api);
    fake_clock_pass(&u->api.clock, 1);
    api_answer(api_expect(&u->api, "PATCH", STATUS), 200, NULL, ANSWER);
    api_expect_quiet(&u->api);
}

static void failures_are_counted_and_tried_again(void **state)
{
    struct user *u = *state;
    look(u);
    api_answer(api_expect(&u->api, "PATCH", STATUS), 409, NULL, "{}");
    api_expect_quiet(&u->api);
    fake_clock_pass(&u->api.clock, 99);
    api_expect_quiet(&u->api);
    fake_clock_pass(&u->api.clock, 1);
    api_answer(api_expect(&u->api, "PATCH", STATUS), 403, NULL, "{}");
    api_expect_quiet(&u->api);
    fake_clock_pass(&u->api.clock, 200);
    api_answer(api_expect(&u->api, "PATCH", STATUS), 500, "7", "{}");
    api_expect_quiet(&u->api);
    fake_clock_pass(&u->api.clock, 6999);
    api_expect_quiet(&u->api);
    fake_clock_pass(&u->api.clock, 1000);
    api_answer(api_expect(&u->api, "PATCH", STATUS), 200, NULL, ANSWER);
    api_expect_quiet(&u->api);
    assert_int_equal(u->counts[RECONCILE_CONFLICT], 1);
    assert_int_equal(u->counts[RECONCILE_FAILED], 2);
    assert_int_equal(u->counts[RECONCILE_WRITTEN], 1);
}

static void what_can_never_be_sent_is_a_bad_request(void **state)
{
    struct user *u = *state;
    u->reads = "..";
    look(u);
    api_expect_quiet(&u->api);
    assert_int_equal(u->refused, 400);
    assert_int_equal(stats(u).retries, 1);
}

static void a_thing_that_is_gone_is_not_tried_again(void **state)
{
    struct user *u = *state;
    look(u);
    struct api_request *q = api_expect(&u->api, "PATCH", STATUS);
    u->gone = true;
    api_answer(q, 404, NULL, "{}");
    api_expect_quiet(&u->api);
    assert_int_equal(u->dropped, 1);
    assert_int_equal(stats(u).waiting, 0);
}

static void a_key_without_a_memory_is_tried_again(void **state)
{
    struct user *u = *state;
    reconciler_free(u->reconciler);
    fake_clock_forget(&u->api.clock);
    u->reconciler = make(u, &without_memory);
    look(u);
    api_answer(api_expect(&u->api, "PATCH", STATUS), 409, NULL, "{}");
    api_expect_quiet(&u->api);
    assert_int_equal(u->dropped, 1);
    fake_clock_pass(&u->api.clock, 100);
    api_answer(api_expect(&u->api, "PATCH", STATUS), 200, NULL, ANSWER);
    api_expect_quiet(&u->api);
    assert_int_equal(u->dropped, 2);
}

static void what_is_under_way_is_broken_off(void **state)
{
    struct user *u = *state;
    look(u);
    (void)api_expect(&u->api, "PATCH", STATUS);
    reconciler_free(u->reconciler);
    u->reconciler = NULL;
    api_expect_gone(&u->api, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_key_has_a_state_for_as_long_as_there_is_something),
        TEST(a_state_is_forgotten_unless_it_is_used),
        TEST(only_the_leader_writes),
        TEST(a_status_is_written_over_its_version),
        TEST(a_write_is_believed_until_it_is_seen),
        TEST(what_the_cache_never_shows_is_written_again),
        TEST(failures_are_counted_and_tried_again),
        TEST(what_can_never_be_sent_is_a_bad_request),
        TEST(a_thing_that_is_gone_is_not_tried_again),
        TEST(a_key_without_a_memory_is_tried_again),
        TEST(what_is_under_way_is_broken_off),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
