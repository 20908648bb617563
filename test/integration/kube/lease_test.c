/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leader election against a scripted API server, and of several candidates on one that keeps a
 * Lease. With a random number of 0 candidates look every 2 s.
 */
#include "kube/client/lease.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "scripted_api.h"
#include "json/json.h"

#define LEASES "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
#define LEASE LEASES "/x"
#define NOT_FOUND "{\"kind\":\"Status\",\"reason\":\"NotFound\",\"code\":404}"
#define NO_NAMESPACE                                                                               \
    "{\"kind\":\"Status\",\"reason\":\"NotFound\",\"message\":\"namespaces \\\"ns\\\" not "        \
    "found\","                                                                                     \
    "\"code\":404}"
#define CONFLICT "{\"kind\":\"Status\",\"reason\":\"Conflict\",\"code\":409}"

enum whim {
    NONE,
    FREES_ON_STARTED,
    FREES_ON_STOPPED,
    FREES_ON_LEADER,
    FREES_ON_STATE,
    FREES_ON_LEADERLESS,
    RELEASES,
};

struct elector {
    struct scripted_api api;
    struct lease *lease;
    struct buf log;
    enum whim whim;
};

static void note(struct elector *c, const char *what, const char *text)
{
    assert_int_equal(buf_printf(&c->log, "%s%s ", what, text), 0);
}

static void follow_whim(struct elector *c, enum whim whim)
{
    if (c->whim == whim) {
        lease_free(c->lease);
        lease_free(NULL);
        c->lease = NULL;
    }
}

static void on_released(void *data)
{
    note(data, "released", "");
}

static void on_started(void *data)
{
    struct elector *c = data;
    note(c, "started", "");
    assert_true(lease_held(c->lease));
    if (c->whim == RELEASES) {
        lease_release(c->lease, on_released, c);
    }
    follow_whim(c, FREES_ON_STARTED);
}

static void on_stopped(void *data)
{
    struct elector *c = data;
    note(c, "stopped", "");
    assert_false(lease_held(c->lease));
    follow_whim(c, FREES_ON_STOPPED);
}

static void on_leader(void *data, const char *identity)
{
    struct elector *c = data;
    note(c, "leader:", identity);
    assert_string_equal(identity, lease_leader(c->lease));
    follow_whim(c, FREES_ON_LEADER);
}

static void on_state(void *data, const char *error, enum log_level level)
{
    (void)level;
    struct elector *c = data;
    note(c, error == NULL ? "fine" : "error", "");
    assert_true(error == lease_error(c->lease));
    follow_whim(c, FREES_ON_STATE);
}

static void on_leaderless(void *data, uint64_t ms)
{
    struct elector *c = data;
    assert_int_equal(buf_printf(&c->log, "nobody:%u ", (unsigned)ms), 0);
    assert_true(ms == lease_leaderless_ms(c->lease));
    follow_whim(c, FREES_ON_LEADERLESS);
}

static const struct lease_handlers handlers = {
    .on_started = on_started,
    .on_stopped = on_stopped,
    .on_leader = on_leader,
    .on_state = on_state,
    .on_leaderless = on_leaderless,
};

static struct lease_options options_of(struct elector *c)
{
    return (struct lease_options){.client = c->api.client,
                                  .namespace = "ns",
                                  .name = "x",
                                  .identity = "me",
                                  .clock = &c->api.clock.clock};
}

static int setup(void **state)
{
    struct net_loop *l = NULL;
    struct elector *c = calloc(1, sizeof *c);
    if (c == NULL || loop_setup((void **)&l) != 0 || !api_open(&c->api, l)) {
        return -1;
    }
    buf_init(&c->log, SIZE_MAX);
    struct lease_options o = options_of(c);
    c->lease = lease_new(l, &o, &handlers, c, NULL);
    *state = c;
    return c->lease == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    struct elector *c = *state;
    struct net_loop *l = c->api.loop;
    lease_free(c->lease);
    api_close(&c->api);
    buf_reset(&c->log);
    free(c);
    return loop_free(l);
}

/* ---- what is expected ---- */

static void expect_log(struct elector *c, const char *log)
{
    for (int turn = 0; turn < 2000; turn++) {
        const char *text = buf_cstr(&c->log);
        if (strcmp(text, log) == 0) {
            break;
        }
        fake_clock_pass(&c->api.clock, 0);
        run_for(c->api.loop, 1);
    }
    assert_string_equal(buf_cstr(&c->log), log);
    buf_clear(&c->log);
}

static struct api_request *expect_request(struct elector *c, const char *method, const char *target)
{
    fake_clock_pass(&c->api.clock, 0);
    return api_expect(&c->api, method, target);
}

/* It rests, and acts `ms` from now, not earlier. */
static void pass(struct elector *c, uint64_t ms)
{
    run_for(c->api.loop, 10);
    assert_true(list_empty(&c->api.requests));
    fake_clock_pass(&c->api.clock, ms - 1);
    api_expect_quiet(&c->api);
    fake_clock_pass(&c->api.clock, 1);
}

static const char *object(const char *holder, int seconds, const char *renewed, int transitions,
                          const char *version)
{
    static char text[1024];
    (void)snprintf(text, sizeof text,
                   "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{"
                   "\"name\":\"x\",\"namespace\":\"ns\",\"resourceVersion\":\"%s\"},\"spec\":{"
                   "\"acquireTime\":\"A\",\"holderIdentity\":\"%s\",\"leaseDurationSeconds\":%d,"
                   "\"leaseTransitions\":%d,\"renewTime\":\"%s\"}}",
                   version, holder, seconds, transitions, renewed);
    return text;
}

static void answer_read(struct elector *c, const char *body)
{
    api_answer(expect_request(c, "GET", LEASE), 200, NULL, body);
}

/* The request's body is the answer, as version `version`. */
static void accept_write(struct api_request *q, const char *version)
{
    cJSON *body = json_parse(q->body, strlen(q->body), NULL);
    assert_non_null(body);
    cJSON *metadata = cJSON_GetObjectItem(body, "metadata");
    cJSON_DeleteItemFromObject(metadata, "resourceVersion");
    cJSON_AddStringToObject(metadata, "resourceVersion", version);
    char *text = cJSON_PrintUnformatted(body);
    api_answer(q, 200, NULL, text);
    free(text);
    cJSON_Delete(body);
}

static const char *spec_text(const struct api_request *q, const char *key)
{
    static char text[128];
    cJSON *body = json_parse(q->body, strlen(q->body), NULL);
    const cJSON *spec = cJSON_GetObjectItem(body, "spec");
    (void)snprintf(text, sizeof text, "%s", cJSON_GetStringValue(cJSON_GetObjectItem(spec, key)));
    cJSON_Delete(body);
    return text;
}

static int spec_number(const struct api_request *q, const char *key)
{
    cJSON *body = json_parse(q->body, strlen(q->body), NULL);
    int n = cJSON_GetObjectItem(cJSON_GetObjectItem(body, "spec"), key)->valueint;
    cJSON_Delete(body);
    return n;
}

/* A Lease that nobody made before. */
static void lead(struct elector *c)
{
    api_answer(expect_request(c, "GET", LEASE), 404, NULL, NOT_FOUND);
    accept_write(expect_request(c, "POST", LEASES), "1");
    expect_log(c, "started leader:me ");
}

/* ---- who leads ---- */

static void test_makes_the_lease(void **state)
{
    struct elector *c = *state;
    assert_false(lease_held(c->lease));
    assert_string_equal(lease_leader(c->lease), "");
    api_answer(expect_request(c, "GET", LEASE), 404, NULL, NOT_FOUND);
    struct api_request *q = expect_request(c, "POST", LEASES);
    assert_string_equal(
        q->body,
        "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{\"name\":"
        "\"x\",\"namespace\":\"ns\"},\"spec\":{\"acquireTime\":\"2026-01-01T00:00:00.000123Z\","
        "\"holderIdentity\":\"me\",\"leaseDurationSeconds\":15,\"leaseTransitions\":0,"
        "\"renewTime\":\"2026-01-01T00:00:00.000123Z\"}}");
    accept_write(q, "1");
    expect_log(c, "started leader:me ");
    assert_true(lease_held(c->lease));
    assert_string_equal(lease_leader(c->lease), "me");
}

static void test_renews(void **state)
{
    struct elector *c = *state;
    lead(c);
    pass(c, 2000);
    struct api_request *q = expect_request(c, "PUT", LEASE);
    assert_string_equal(
        q->body,
        "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{\"name\":"
        "\"x\",\"namespace\":\"ns\",\"resourceVersion\":\"1\"},\"spec\":{\"acquireTime\":"
        "\"2026-01-01T00:00:00.000123Z\",\"holderIdentity\":\"me\",\"leaseDurationSeconds\":15,"
        "\"leaseTransitions\":0,\"renewTime\":\"2026-01-01T00:00:02.000123Z\"}}");
    accept_write(q, "2");
    pass(c, 2000);
    q = expect_request(c, "PUT", LEASE);
    assert_non_null(strstr(q->body, "\"resourceVersion\":\"2\""));
    accept_write(q, "3");
    expect_log(c, "");
    assert_true(lease_held(c->lease));
}

static void test_waits_while_another_leads(void **state)
{
    struct elector *c = *state;
    answer_read(c, object("other", 15, "R1", 3, "1"));
    expect_log(c, "leader:other ");
    for (int i = 0; i < 6; i++) {
        pass(c, 2000);
        answer_read(c, object("other", 15, i < 3 ? "R1" : "R2", 3, "1"));
    }
    assert_string_equal(lease_leader(c->lease), "other");
    /* It was renewed when it was looked at for the fifth time, at 8 s: it is over at 23 s. */
    for (int i = 0; i < 5; i++) {
        pass(c, 2000);
        answer_read(c, object("other", 15, "R2", 3, "1"));
    }
    pass(c, 1000);
    answer_read(c, object("other", 15, "R2", 3, "9"));
    struct api_request *q = expect_request(c, "PUT", LEASE);
    assert_string_equal(spec_text(q, "holderIdentity"), "me");
    assert_string_equal(spec_text(q, "acquireTime"), "2026-01-01T00:00:23.000123Z");
    assert_int_equal(spec_number(q, "leaseTransitions"), 4);
    accept_write(q, "10");
    expect_log(c, "started leader:me ");
}

static void test_candidates_do_not_move_in_step(void **state)
{
    struct elector *c = *state;
    c->api.clock.random = UINT32_MAX;
    answer_read(c, object("other", 15, "R1", 3, "1"));
    expect_log(c, "leader:other ");
    pass(c, 4399);
    answer_read(c, object("other", 15, "R2", 3, "2"));
}

/* Somebody with another configuration holds it. */
static void test_a_lease_lasts_as_long_as_it_says(void **state)
{
    struct elector *c = *state;
    c->api.clock.random = UINT32_MAX;
    answer_read(c, object("other", 60, "R1", 3, "1"));
    for (int i = 0; i < 13; i++) {
        pass(c, 4399);
        answer_read(c, object("other", 60, "R1", 3, "1"));
    }
    pass(c, 60000 - 13 * 4399);
    answer_read(c, object("other", 60, "R1", 3, "1"));
    accept_write(expect_request(c, "PUT", LEASE), "2");
    expect_log(c, "leader:other started leader:me ");
}

/* Nor less long than our own would: who holds it may go by another clock. */
static void test_a_lease_lasts_as_long_as_ours(void **state)
{
    struct elector *c = *state;
    answer_read(c, object("other", 1, "R1", 3, "1"));
    for (int i = 0; i < 7; i++) {
        pass(c, 2000);
        answer_read(c, object("other", 1, "R1", 3, "1"));
    }
    pass(c, 1000);
    answer_read(c, object("other", 1, "R1", 3, "1"));
    accept_write(expect_request(c, "PUT", LEASE), "2");
    expect_log(c, "leader:other started leader:me ");
}

static void test_takes_what_was_given_back(void **state)
{
    struct elector *c = *state;
    answer_read(c, object("", 1, "R1", 3, "1"));
    struct api_request *q = expect_request(c, "PUT", LEASE);
    assert_int_equal(spec_number(q, "leaseTransitions"), 4);
    accept_write(q, "2");
    expect_log(c, "started leader:me ");
}

/* As after a restart within the same pod. */
static void test_its_own_name_is_its_own(void **state)
{
    struct elector *c = *state;
    answer_read(c, object("me", 15, "R1", 3, "1"));
    struct api_request *q = expect_request(c, "PUT", LEASE);
    assert_string_equal(spec_text(q, "acquireTime"), "A");
    assert_int_equal(spec_number(q, "leaseTransitions"), 3);
    accept_write(q, "2");
    expect_log(c, "leader:me started ");
}

static void test_of_two_one_wins(void **state)
{
    struct elector *c = *state;
    answer_read(c, object("", 1, "R1", 3, "1"));
    api_answer(expect_request(c, "PUT", LEASE), 409, NULL, CONFLICT);
    pass(c, 2000);
    answer_read(c, object("other", 15, "R2", 4, "2"));
    expect_log(c, "leader:other ");
    assert_false(lease_held(c->lease));
}

static void test_of_two_that_make_it_one_wins(void **state)
{
    struct elector *c = *state;
    api_answer(expect_request(c, "GET", LEASE), 404, NULL, NOT_FOUND);
    api_answer(expect_request(c, "POST", LEASES), 409, NULL,
               "{\"kind\":\"Status\",\"reason\":\"AlreadyExists\",\"code\":409}");
    pass(c, 2000);
    answer_read(c, object("other", 15, "R2", 0, "2"));
    expect_log(c, "leader:other ");
}

/* ---- a leader in trouble ---- */

static void test_stops_before_others_may_start(void **state)
{
    struct elector *c = *state;
    lead(c);
    pass(c, 2000);
    (void)expect_request(c, "PUT", LEASE); /* never answered */
    fake_clock_pass(&c->api.clock, 7999);
    assert_true(lease_held(c->lease));
    expect_log(c, "");
    fake_clock_pass(&c->api.clock, 1);
    expect_log(c, "stopped ");
    assert_false(lease_held(c->lease));
    api_expect_gone(&c->api, 1);
    /* It stands for election again: nobody took it. */
    pass(c, 2000);
    answer_read(c, object("me", 15, "R2", 0, "2"));
    accept_write(expect_request(c, "PUT", LEASE), "3");
    expect_log(c, "started ");
}

static void test_failures_in_between_do_not_matter(void **state)
{
    struct elector *c = *state;
    lead(c);
    pass(c, 2000);
    api_answer(expect_request(c, "PUT", LEASE), 500, NULL, "");
    expect_log(c, "error ");
    pass(c, 2000);
    api_answer(expect_request(c, "GET", LEASE), 503, "30", "");
    pass(c, 2000);
    answer_read(c, object("me", 15, "R2", 0, "7"));
    struct api_request *q = expect_request(c, "PUT", LEASE);
    assert_non_null(strstr(q->body, "\"resourceVersion\":\"7\""));
    accept_write(q, "8");
    /* The second failure had other words. */
    expect_log(c, "error fine ");
    /* From now on it has 10 s again. */
    fake_clock_pass(&c->api.clock, 9999);
    expect_log(c, "");
    fake_clock_pass(&c->api.clock, 1);
    expect_log(c, "stopped ");
}

/* The others may have seen it as soon as it was sent. */
static void test_time_runs_from_when_it_was_sent(void **state)
{
    struct elector *c = *state;
    lead(c);
    pass(c, 2000);
    struct api_request *q = expect_request(c, "PUT", LEASE);
    fake_clock_pass(&c->api.clock, 4000);
    accept_write(q, "2");
    run_for(c->api.loop, 20);
    pass(c, 2000);
    (void)expect_request(c, "PUT", LEASE);
    fake_clock_pass(&c->api.clock, 3999);
    assert_true(lease_held(c->lease));
    expect_log(c, "");
    fake_clock_pass(&c->api.clock, 1);
    assert_false(lease_held(c->lease));
    expect_log(c, "stopped ");
}

static void test_a_lost_answer_is_looked_for(void **state)
{
    struct elector *c = *state;
    lead(c);
    pass(c, 2000);
    api_cut(expect_request(c, "PUT", LEASE));
    answer_read(c, object("me", 15, "R2", 0, "2"));
    struct api_request *q = expect_request(c, "PUT", LEASE);
    assert_non_null(strstr(q->body, "\"resourceVersion\":\"2\""));
    accept_write(q, "3");
    expect_log(c, "");
    assert_true(lease_held(c->lease));
}

static void test_another_name_ends_it_at_once(void **state)
{
    struct elector *c = *state;
    lead(c);
    pass(c, 2000);
    api_answer(expect_request(c, "PUT", LEASE), 409, NULL, CONFLICT);
    answer_read(c, object("other", 15, "R2", 1, "2"));
    expect_log(c, "stopped leader:other ");
    pass(c, 2000);
    answer_read(c, object("other", 15, "R3", 1, "3"));
}

static void test_a_label_does_not_end_it(void **state)
{
    struct elector *c = *state;
    lead(c);
    pass(c, 2000);
    for (int i = 0; i < 3; i++) {
        api_answer(expect_request(c, "PUT", LEASE), 409, NULL, CONFLICT);
        answer_read(c, object("me", 15, "R", 0, "5"));
    }
    api_answer(expect_request(c, "PUT", LEASE), 409, NULL, CONFLICT);
    expect_log(c, "error ");
    assert_true(lease_held(c->lease));
    pass(c, 2000);
    answer_read(c, object("me", 15, "R", 0, "6"));
    accept_write(expect_request(c, "PUT", LEASE), "7");
    expect_log(c, "fine ");
}

static void test_a_removed_lease_is_made_again(void **state)
{
    struct elector *c = *state;
    lead(c);
    pass(c, 2000);
    api_answer(expect_request(c, "PUT", LEASE), 404, NULL, NOT_FOUND);
    api_answer(expect_request(c, "GET", LEASE), 404, NULL, NOT_FOUND);
    accept_write(expect_request(c, "POST", LEASES), "1");
    expect_log(c, "");
    assert_true(lease_held(c->lease));
    /* Unless somebody was faster. */
    pass(c, 2000);
    api_answer(expect_request(c, "PUT", LEASE), 404, NULL, NOT_FOUND);
    api_answer(expect_request(c, "GET", LEASE), 404, NULL, NOT_FOUND);
    api_answer(expect_request(c, "POST", LEASES), 409, NULL, CONFLICT);
    answer_read(c, object("other", 15, "R2", 0, "9"));
    expect_log(c, "stopped leader:other ");
}

/* ---- a process that stood still ---- */

static void test_knows_that_time_has_passed(void **state)
{
    struct elector *c = *state;
    lead(c);
    fake_clock_jump(&c->api.clock, 9999);
    assert_true(lease_held(c->lease));
    fake_clock_jump(&c->api.clock, 1);
    assert_false(lease_held(c->lease));
    expect_log(c, "stopped ");
}

static void test_an_answer_that_comes_too_late_is_none(void **state)
{
    struct elector *c = *state;
    lead(c);
    pass(c, 2000);
    struct api_request *q = expect_request(c, "PUT", LEASE);
    accept_write(q, "2");
    fake_clock_jump(&c->api.clock, 60000);
    /* The answer is there before the timer is looked at. */
    run_for(c->api.loop, 20);
    expect_log(c, "stopped ");
}

static void test_does_not_start_on_an_old_answer(void **state)
{
    struct elector *c = *state;
    api_answer(expect_request(c, "GET", LEASE), 404, NULL, NOT_FOUND);
    struct api_request *q = expect_request(c, "POST", LEASES);
    fake_clock_jump(&c->api.clock, 10000);
    accept_write(q, "1");
    expect_log(c, "leader:me ");
    assert_false(lease_held(c->lease));
    answer_read(c, object("me", 15, "R", 0, "1"));
    accept_write(expect_request(c, "PUT", LEASE), "2");
    expect_log(c, "started ");
}

/* ---- trouble of candidates ---- */

static void test_says_what_is_wrong(void **state)
{
    struct elector *c = *state;
    api_answer(expect_request(c, "GET", LEASE), 403, NULL,
               "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":\"not you\","
               "\"code\":403}");
    expect_log(c, "error ");
    assert_string_equal(lease_error(c->lease),
                        "cannot read the lease ns/x: 403 Forbidden: not you");
    pass(c, 2000);
    api_answer(expect_request(c, "GET", LEASE), 404, NULL, NOT_FOUND);
    api_answer(expect_request(c, "POST", LEASES), 403, NULL, "");
    expect_log(c, "error ");
    assert_string_equal(lease_error(c->lease), "cannot create the lease ns/x: 403 Forbidden");
    pass(c, 2000);
    api_answer(expect_request(c, "GET", LEASE), 404, NULL, NOT_FOUND);
    accept_write(expect_request(c, "POST", LEASES), "1");
    expect_log(c, "started fine leader:me ");
    assert_null(lease_error(c->lease));
}

/* To create it where there is no namespace is answered 404, too. */
static void test_says_that_the_namespace_is_missing(void **state)
{
    struct elector *c = *state;
    api_answer(expect_request(c, "GET", LEASE), 404, NULL, NOT_FOUND);
    api_answer(expect_request(c, "POST", LEASES), 404, NULL, NO_NAMESPACE);
    expect_log(c, "error ");
    assert_string_equal(lease_error(c->lease),
                        "cannot create the lease ns/x: 404 NotFound: namespaces \"ns\" not found");
    assert_true(lease_refused(c->lease));
    pass(c, 2000);
    api_answer(expect_request(c, "GET", LEASE), 404, NULL, NOT_FOUND);
    accept_write(expect_request(c, "POST", LEASES), "1");
    expect_log(c, "started fine leader:me ");
    assert_false(lease_refused(c->lease));
}

/* What a leader that is alone finds when its namespace is deleted. */
static void test_a_leader_says_that_the_namespace_is_missing(void **state)
{
    struct elector *c = *state;
    lead(c);
    pass(c, 2000);
    api_answer(expect_request(c, "PUT", LEASE), 404, NULL, NOT_FOUND);
    api_answer(expect_request(c, "GET", LEASE), 404, NULL, NOT_FOUND);
    api_answer(expect_request(c, "POST", LEASES), 404, NULL, NO_NAMESPACE);
    expect_log(c, "error ");
    assert_true(lease_held(c->lease));
    pass(c, 2000);
}

/* ---- nobody leads ---- */

static void refuse_for(struct elector *c, unsigned ms)
{
    for (unsigned t = 0; t < ms; t += 2000) {
        api_answer(expect_request(c, "GET", LEASE), 403, NULL, "");
        pass(c, 2000);
    }
}

static void test_says_again_and_again_that_nobody_leads(void **state)
{
    struct elector *c = *state;
    refuse_for(c, 58000);
    expect_log(c, "error ");
    assert_int_equal(lease_leaderless_ms(c->lease), 58000);
    refuse_for(c, 2000);
    expect_log(c, "nobody:60000 ");
    refuse_for(c, 58000);
    expect_log(c, "");
    refuse_for(c, 2000);
    expect_log(c, "nobody:120000 ");
    /* Another one leads, for as long as its Lease says: the time begins anew with its end. */
    answer_read(c, object("other", 20, "R1", 3, "1"));
    expect_log(c, "fine leader:other ");
    assert_int_equal(lease_leaderless_ms(c->lease), 0);
    pass(c, 2000);
    refuse_for(c, 20000);
    expect_log(c, "error ");
    assert_int_equal(lease_leaderless_ms(c->lease), 2000);
    refuse_for(c, 58000);
    expect_log(c, "nobody:60000 ");
}

static void test_a_leader_that_was_counts_until_its_end(void **state)
{
    struct elector *c = *state;
    lead(c);
    assert_int_equal(lease_leaderless_ms(c->lease), 0);
    pass(c, 2000);
    (void)expect_request(c, "PUT", LEASE); /* never answered */
    fake_clock_pass(&c->api.clock, 8000);
    expect_log(c, "stopped ");
    assert_int_equal(lease_leaderless_ms(c->lease), 0);
    api_expect_gone(&c->api, 1);
    pass(c, 2000);
    api_cut(expect_request(c, "GET", LEASE));
    expect_log(c, "error ");
    assert_int_equal(lease_leaderless_ms(c->lease), 2000);
    assert_false(lease_refused(c->lease)); /* nobody answered */
}

/* Given back, and not taken by anybody: it is to be had. */
static void test_a_lease_of_nobody_is_no_leader(void **state)
{
    struct elector *c = *state;
    answer_read(c, object("", 1, "R1", 3, "1"));
    fake_clock_pass(&c->api.clock, 1000);
    api_answer(expect_request(c, "PUT", LEASE), 409, NULL, CONFLICT);
    run_for(c->api.loop, 20);
    assert_int_equal(lease_leaderless_ms(c->lease), 1000);
}

static void test_free_when_nobody_leads(void **state)
{
    struct elector *c = *state;
    c->whim = FREES_ON_LEADERLESS;
    (void)expect_request(c, "GET", LEASE); /* never answered */
    fake_clock_pass(&c->api.clock, 60000);
    run_for(c->api.loop, 20);
    assert_null(c->lease);
    assert_non_null(strstr(buf_cstr(&c->log), "nobody:60000"));
}

static void test_refuses_options(void **state)
{
    struct elector *c = *state;
    struct lease_options good = options_of(c);
    struct lease_options bad[7];
    for (size_t i = 0; i < 7; i++) {
        bad[i] = good;
    }
    bad[0].namespace = "a/b";
    bad[1].name = "";
    bad[2].identity = "";
    bad[3].duration_ms = 1500;
    bad[4].renew_deadline_ms = 15000;
    bad[5].retry_period_ms = 8334; /* 1.2 of them are the 10 s of the deadline */
    bad[6].identity = NULL;
    for (size_t i = 0; i < 7; i++) {
        struct err e = ERR_INIT;
        assert_null(lease_new(c->api.loop, &bad[i], &handlers, c, &e));
        assert_int_equal(e.code, -EINVAL);
        assert_true(e.msg[0] != '\0');
    }
}

/* ---- the end ---- */

static void release(struct elector *c)
{
    lease_release(c->lease, on_released, c);
    lease_release(c->lease, NULL, NULL);
}

static void test_gives_it_back(void **state)
{
    struct elector *c = *state;
    lead(c);
    fake_clock_pass(&c->api.clock, 500);
    release(c);
    assert_string_equal(buf_cstr(&c->log), "stopped ");
    struct api_request *q = expect_request(c, "PUT", LEASE);
    assert_string_equal(
        q->body,
        "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{\"name\":"
        "\"x\",\"namespace\":\"ns\",\"resourceVersion\":\"1\"},\"spec\":{\"acquireTime\":"
        "\"2026-01-01T00:00:00.500123Z\",\"holderIdentity\":\"\",\"leaseDurationSeconds\":1,"
        "\"leaseTransitions\":0,\"renewTime\":\"2026-01-01T00:00:00.500123Z\"}}");
    accept_write(q, "2");
    expect_log(c, "stopped leader: released ");
    fake_clock_pass(&c->api.clock, 60000);
    api_expect_quiet(&c->api);
}

static void test_gives_back_what_is_being_renewed(void **state)
{
    struct elector *c = *state;
    lead(c);
    pass(c, 2000);
    struct api_request *q = expect_request(c, "PUT", LEASE);
    release(c);
    expect_log(c, "stopped ");
    accept_write(q, "2");
    q = expect_request(c, "PUT", LEASE);
    assert_string_equal(spec_text(q, "holderIdentity"), "");
    api_answer(q, 409, NULL, CONFLICT);
    answer_read(c, object("me", 15, "R", 0, "4"));
    q = expect_request(c, "PUT", LEASE);
    assert_string_equal(spec_text(q, "holderIdentity"), "");
    accept_write(q, "5");
    expect_log(c, "leader: released ");
}

static void test_gives_back_what_is_being_acquired(void **state)
{
    struct elector *c = *state;
    api_answer(expect_request(c, "GET", LEASE), 404, NULL, NOT_FOUND);
    struct api_request *q = expect_request(c, "POST", LEASES);
    release(c);
    accept_write(q, "1");
    accept_write(expect_request(c, "PUT", LEASE), "2");
    expect_log(c, "leader:me leader: released ");
}

static void test_gives_back_what_was_perhaps_acquired(void **state)
{
    struct elector *c = *state;
    api_answer(expect_request(c, "GET", LEASE), 404, NULL, NOT_FOUND);
    api_answer(expect_request(c, "POST", LEASES), 504, NULL, "");
    expect_log(c, "error ");
    release(c);
    answer_read(c, object("me", 15, "R", 0, "4"));
    struct api_request *q = expect_request(c, "PUT", LEASE);
    assert_string_equal(spec_text(q, "holderIdentity"), "");
    accept_write(q, "5");
    expect_log(c, "leader:me fine leader: released ");
}

static void test_does_not_give_back_what_another_holds(void **state)
{
    struct elector *c = *state;
    lead(c);
    release(c);
    api_answer(expect_request(c, "PUT", LEASE), 409, NULL, CONFLICT);
    answer_read(c, object("other", 15, "R", 1, "4"));
    expect_log(c, "stopped leader:other released ");
}

static void test_gives_up_giving_back(void **state)
{
    struct elector *c = *state;
    lead(c);
    release(c);
    (void)expect_request(c, "PUT", LEASE);
    expect_log(c, "stopped ");
    fake_clock_pass(&c->api.clock, 9999);
    expect_log(c, "");
    fake_clock_pass(&c->api.clock, 1);
    expect_log(c, "released ");
    api_expect_gone(&c->api, 1);
}

static void test_a_candidate_has_nothing_to_give_back(void **state)
{
    struct elector *c = *state;
    answer_read(c, object("other", 15, "R", 1, "4"));
    expect_log(c, "leader:other ");
    release(c);
    assert_string_equal(buf_cstr(&c->log), "");
    expect_log(c, "released ");
    assert_int_equal(c->api.count, 1);
}

static void test_nor_while_it_looks(void **state)
{
    struct elector *c = *state;
    (void)expect_request(c, "GET", LEASE);
    release(c);
    expect_log(c, "released ");
    api_expect_gone(&c->api, 1);
}

static void test_released_when_it_starts(void **state)
{
    struct elector *c = *state;
    c->whim = RELEASES;
    api_answer(expect_request(c, "GET", LEASE), 404, NULL, NOT_FOUND);
    accept_write(expect_request(c, "POST", LEASES), "1");
    accept_write(expect_request(c, "PUT", LEASE), "2");
    expect_log(c, "started stopped leader:me leader: released ");
}

static void expect_end(struct elector *c)
{
    assert_null(c->lease);
    buf_clear(&c->log);
    fake_clock_forget(&c->api.clock);
    api_expect_quiet(&c->api);
    assert_int_equal(c->log.len, 0);
}

static void test_free_when_started(void **state)
{
    struct elector *c = *state;
    c->whim = FREES_ON_STARTED;
    api_answer(expect_request(c, "GET", LEASE), 404, NULL, NOT_FOUND);
    accept_write(expect_request(c, "POST", LEASES), "1");
    run_for(c->api.loop, 20);
    expect_end(c);
}

static void test_free_when_stopped(void **state)
{
    struct elector *c = *state;
    c->whim = FREES_ON_STOPPED;
    lead(c);
    pass(c, 2000);
    api_answer(expect_request(c, "PUT", LEASE), 409, NULL, CONFLICT);
    answer_read(c, object("other", 15, "R2", 1, "2"));
    run_for(c->api.loop, 20);
    expect_end(c);
}

static void test_free_when_stopped_by_time(void **state)
{
    struct elector *c = *state;
    c->whim = FREES_ON_STOPPED;
    lead(c);
    pass(c, 2000);
    (void)expect_request(c, "PUT", LEASE);
    fake_clock_pass(&c->api.clock, 8000);
    expect_end(c);
}

static void test_free_when_released(void **state)
{
    struct elector *c = *state;
    c->whim = FREES_ON_STOPPED;
    lead(c);
    lease_release(c->lease, on_released, c);
    expect_end(c);
}

static void test_free_when_told_who_leads(void **state)
{
    struct elector *c = *state;
    c->whim = FREES_ON_LEADER;
    answer_read(c, object("other", 15, "R2", 1, "2"));
    run_for(c->api.loop, 20);
    expect_end(c);
}

static void test_free_when_told_what_is_wrong(void **state)
{
    struct elector *c = *state;
    c->whim = FREES_ON_STATE;
    api_answer(expect_request(c, "GET", LEASE), 500, NULL, "");
    run_for(c->api.loop, 20);
    expect_end(c);
}

static void test_free_while_asking(void **state)
{
    struct elector *c = *state;
    lead(c);
    pass(c, 2000);
    (void)expect_request(c, "PUT", LEASE);
    lease_free(c->lease);
    c->lease = NULL;
    api_expect_gone(&c->api, 1);
}

/* ---- several, and a server that keeps what they write ---- */

enum { ELECTORS = 3, ROUNDS = 400 };

struct parliament {
    struct scripted_api api;
    struct lease *leases[ELECTORS];
    int leaders; /* by what they were told */
    unsigned elections;
    unsigned version;
    cJSON *kept;
    uint32_t random;
    unsigned trouble; /* of 256 requests so many go wrong */
};

static uint32_t chance(struct parliament *p)
{
    p->random = p->random * 1664525u + 1013904223u;
    return p->random >> 8;
}

static void on_member_started(void *data)
{
    struct parliament *p = data;
    p->elections++;
    assert_int_equal(++p->leaders, 1);
}

static void on_member_stopped(void *data)
{
    struct parliament *p = data;
    p->leaders--;
}

static const struct lease_handlers members = {
    .on_started = on_member_started,
    .on_stopped = on_member_stopped,
};

static void answer_kept(struct parliament *p, struct api_request *q)
{
    char *text = cJSON_PrintUnformatted(p->kept);
    api_answer(q, 200, NULL, text);
    free(text);
}

static const char *version_of(const cJSON *object)
{
    const cJSON *metadata = cJSON_GetObjectItem(object, "metadata");
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(metadata, "resourceVersion"));
    return text == NULL ? "" : text;
}

static bool keep(struct parliament *p, const struct api_request *q)
{
    bool create = strcmp(q->method, "POST") == 0;
    cJSON *object = json_parse(q->body, strlen(q->body), NULL);
    if (create ? p->kept != NULL
               : p->kept == NULL || strcmp(version_of(p->kept), version_of(object)) != 0) {
        cJSON_Delete(object);
        return false;
    }
    char version[16];
    (void)snprintf(version, sizeof version, "%u", ++p->version);
    cJSON *metadata = cJSON_GetObjectItem(object, "metadata");
    cJSON_DeleteItemFromObject(metadata, "resourceVersion");
    cJSON_AddStringToObject(metadata, "resourceVersion", version);
    cJSON_Delete(p->kept);
    p->kept = object;
    return true;
}

/* As the API server, but for what goes wrong: before it is done, or before it is told. */
static void serve(struct scripted_api *a, struct api_request *q)
{
    struct parliament *p = a->data;
    bool wrong = chance(p) % 256 < p->trouble;
    if (wrong && chance(p) % 2 == 0) {
        api_answer(q, 503, NULL, "");
        return;
    }
    bool read = strcmp(q->method, "GET") == 0;
    bool kept = read ? p->kept != NULL : keep(p, q);
    if (wrong && chance(p) % 2 == 0) {
        api_cut(q);
    } else if (!kept) {
        api_answer(q, read ? 404 : 409, NULL, read ? NOT_FOUND : CONFLICT);
    } else {
        answer_kept(p, q);
    }
}

static void start_member(struct parliament *p, size_t i)
{
    static const char *const names[ELECTORS] = {"a", "b", "c"};
    struct lease_options o = {.client = p->api.client,
                              .namespace = "ns",
                              .name = "x",
                              .identity = names[i],
                              .clock = &p->api.clock.clock};
    p->leases[i] = lease_new(p->api.loop, &o, &members, p, NULL);
    assert_non_null(p->leases[i]);
}

static int held(const struct parliament *p)
{
    int n = 0;
    for (size_t i = 0; i < ELECTORS; i++) {
        n += lease_held(p->leases[i]) ? 1 : 0;
    }
    return n;
}

/* Time passes by itself, or the process stands still. */
static void take_turn(struct parliament *p)
{
    run_for(p->api.loop, 1);
    p->api.clock.random = chance(p) << 8;
    if (chance(p) % 16 == 0) {
        fake_clock_jump(&p->api.clock, chance(p) % 20000);
        assert_true(held(p) <= 1);
    }
    fake_clock_pass(&p->api.clock, chance(p) % 1500);
    assert_true(held(p) <= 1);
    assert_true(p->leaders <= 1);
}

static void test_there_is_never_more_than_one(void **state)
{
    struct net_loop *l = net_loop_new(NULL);
    struct parliament *p = calloc(1, sizeof *p);
    (void)state;
    p->random = 42;
    p->api.serve = serve;
    p->api.data = p;
    assert_true(api_open(&p->api, l));
    for (size_t i = 0; i < ELECTORS; i++) {
        start_member(p, i);
    }
    for (int round = 0; round < ROUNDS; round++) {
        p->trouble = round / 100 % 2 == 0 ? 32 : 220;
        take_turn(p);
    }
    p->trouble = 0;
    for (int i = 0; i < 200 && held(p) != 1; i++) {
        run_for(l, 1);
        fake_clock_pass(&p->api.clock, 1000);
    }
    assert_int_equal(held(p), 1);
    assert_true(p->elections > 5);
    print_message("%u elections, %u requests\n", p->elections, p->api.count);
    for (size_t i = 0; i < ELECTORS; i++) {
        lease_free(p->leases[i]);
    }
    api_close(&p->api);
    cJSON_Delete(p->kept);
    free(p);
    assert_int_equal(loop_free(l), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_makes_the_lease),
        TEST(test_renews),
        TEST(test_waits_while_another_leads),
        TEST(test_candidates_do_not_move_in_step),
        TEST(test_a_lease_lasts_as_long_as_it_says),
        TEST(test_a_lease_lasts_as_long_as_ours),
        TEST(test_takes_what_was_given_back),
        TEST(test_its_own_name_is_its_own),
        TEST(test_of_two_one_wins),
        TEST(test_of_two_that_make_it_one_wins),
        TEST(test_stops_before_others_may_start),
        TEST(test_failures_in_between_do_not_matter),
        TEST(test_time_runs_from_when_it_was_sent),
        TEST(test_a_lost_answer_is_looked_for),
        TEST(test_another_name_ends_it_at_once),
        TEST(test_a_label_does_not_end_it),
        TEST(test_a_removed_lease_is_made_again),
        TEST(test_knows_that_time_has_passed),
        TEST(test_an_answer_that_comes_too_late_is_none),
        TEST(test_does_not_start_on_an_old_answer),
        TEST(test_says_what_is_wrong),
        TEST(test_says_that_the_namespace_is_missing),
        TEST(test_a_leader_says_that_the_namespace_is_missing),
        TEST(test_says_again_and_again_that_nobody_leads),
        TEST(test_a_leader_that_was_counts_until_its_end),
        TEST(test_a_lease_of_nobody_is_no_leader),
        TEST(test_free_when_nobody_leads),
        TEST(test_refuses_options),
        TEST(test_gives_it_back),
        TEST(test_gives_back_what_is_being_renewed),
        TEST(test_gives_back_what_is_being_acquired),
        TEST(test_gives_back_what_was_perhaps_acquired),
        TEST(test_does_not_give_back_what_another_holds),
        TEST(test_gives_up_giving_back),
        TEST(test_a_candidate_has_nothing_to_give_back),
        TEST(test_nor_while_it_looks),
        TEST(test_released_when_it_starts),
        TEST(test_free_when_started),
        TEST(test_free_when_stopped),
        TEST(test_free_when_stopped_by_time),
        TEST(test_free_when_released),
        TEST(test_free_when_told_who_leads),
        TEST(test_free_when_told_what_is_wrong),
        TEST(test_free_while_asking),
        cmocka_unit_test(test_there_is_never_more_than_one),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
