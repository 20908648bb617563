/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What circuit breakers do to requests on their way, and what these owe them however they end.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "localproxy/reload_fixture.h"
#include "temp_dir.h"
#include "traffic_document.h"

#define OWN "app"

#define DELETE_POD "DELETE /api/v1/namespaces/a/pods/x HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define LEASE "/apis/coordination.k8s.io/v1/namespaces/ns/leases/lock"

#define PODS(verb) TRAFFIC_RESOURCES("pods", verb)
#define ONE(resources, rest)                                                                       \
    TRAFFIC_SPEC(TRAFFIC_BREAKER("guard", TRAFFIC_LIMITING("a", resources, rest)), "")

static void ask(struct fixture *f, struct client *c, const char *request)
{
    client_open(f, c);
    client_send(c, request);
}

static void expect_allowed(struct fixture *f, const char *request)
{
    struct client c;
    ask(f, &c, request);
    struct api_request *q = api_expect_part(f->api, "/");
    api_answer(q, 200, NULL, "{}");
    fixture_expect(f, &c, "200 OK");
    client_close(&c);
}

static void expect_refused(struct fixture *f, const char *request, const char *text)
{
    struct client c;
    unsigned before = f->api->count;
    ask(f, &c, request);
    fixture_expect(f, &c, text);
    assert_true(client_has(&c, "HTTP/1.1 429 Too Many Requests\r\n"));
    assert_true(client_has(&c, "Content-Type: application/json\r\n"));
    assert_true(client_has(&c, "\"reason\":\"TooManyRequests\""));
    assert_int_equal(f->api->count, before);
    client_close(&c);
}

static void test_over_the_limit(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN);
    fixture_traffic(f, ONE(PODS("delete"), TRAFFIC_LIMITER(1, 1, 4000)));
    expect_allowed(f, DELETE_POD);
    ask(f, &c, DELETE_POD);
    fixture_expect(f, &c, "\"code\":429}");
    assert_true(client_has(&c, "Retry-After: 4\r\n"));
    assert_true(client_has(
        &c, "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
            "\"message\":\"cmesh: circuitbreaker \\\"ns/guard\\\" rule \\\"a\\\": over the limit "
            "of 1 in 4s\",\"reason\":\"TooManyRequests\",\"details\":{\"retryAfterSeconds\":4},"
            "\"code\":429}"));
    client_close(&c);
    fake_clock_pass(&f->clock, 4000);
    expect_allowed(f, DELETE_POD);
    expect_allowed(f, "GET /api/v1/namespaces/a/pods/x HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

static void test_no_retry_after_that_is_long(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN);
    fixture_traffic(f, ONE(PODS("delete"), TRAFFIC_LIMITER(1, 1, 5001)));
    expect_allowed(f, DELETE_POD);
    ask(f, &c, DELETE_POD);
    fixture_expect(f, &c, "\"code\":429}");
    assert_false(client_has(&c, "Retry-After"));
    assert_false(client_has(&c, "retryAfterSeconds"));
    client_close(&c);
}

static void test_an_open_one(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN);
    fixture_traffic(f, ONE(PODS("delete"), TRAFFIC_NORMALLY(1, 1, 1000, TRAFFIC_WINDOW(2000))));
    expect_allowed(f, DELETE_POD);
    expect_refused(f, DELETE_POD, "over the limit of 1 in 1s");
    fake_clock_pass(&f->clock, 1999);
    ask(f, &c, DELETE_POD);
    fixture_expect(f, &c, "is open since 2026-01-01T00:00:0");
    assert_false(client_has(&c, "Retry-After"));
    client_close(&c);
    fake_clock_pass(&f->clock, 1);
    expect_allowed(f, DELETE_POD);
    fixture_traffic(f, ONE(PODS("delete"), "\"triggerPolicy\":\"ForceOpened\""));
    expect_refused(f, DELETE_POD, "ForceOpened");
    fixture_traffic(f, ONE(PODS("delete"), "\"triggerPolicy\":\"ForceClosed\""));
    expect_allowed(f, DELETE_POD);
    fixture_traffic(f, NULL);
    expect_allowed(f, DELETE_POD);
}

static void test_only_names_are_for_locks(void **state)
{
    struct fixture *f = *state;
    static const char asks_lock[] = "GET " LEASE " HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static const char makes_lock[] =
        "POST /api/v1/namespaces/ns/configmaps HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        "application/json\r\nContent-Length: 52\r\n\r\n"
        "{\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"lock\"    }}   ";
    static const char asks_who[] =
        "POST /apis/authentication.k8s.io/v1/tokenreviews HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    static const char *const exempt[] = {
        asks_lock,
        "GET /api/v1/namespaces/ns/configmaps/lock HTTP/1.1\r\nHost: localhost\r\n\r\n",
        makes_lock,
        asks_who,
        "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n",
    };
    fixture_limit(f, NULL);
    fixture_traffic(f, ONE(TRAFFIC_EVERYTHING, "\"triggerPolicy\":\"ForceOpened\""));
    for (size_t i = 0; i < sizeof exempt / sizeof exempt[0]; i++) {
        expect_allowed(f, exempt[i]);
    }
    expect_refused(f,
                   "GET /api/v1/namespaces/ns/configmaps/other HTTP/1.1\r\nHost: localhost\r\n\r\n",
                   "ForceOpened");
    fixture_traffic(f, ONE("\"resourceRules\":[{\"apiGroups\":[\"*\"],\"resources\":[\"leases\"],"
                           "\"verbs\":[\"*\"],\"namespaces\":[\"*\"]}]",
                           "\"triggerPolicy\":\"ForceOpened\""));
    expect_refused(f, exempt[0], "ForceOpened");
}

/* Asked again since the rules changed, it has its token already. */
static void test_charged_once(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN " in (a)");
    fixture_traffic(f, ONE(PODS("list"), "\"triggerPolicy\":\"LimiterOnly\",\"maxInFlight\":1," //
                           TRAFFIC_BUCKET(1, 0, 1)));
    fixture_get(f, &c, "/api/v1/pods");
    struct api_request *q = api_expect_part(f->api, "/pods");
    fixture_limit(f, OWN " in (b)");
    api_expect_given_up(q);
    q = api_expect_part(f->api, "/pods");
    assert_non_null(strstr(q->target, "b"));
    api_answer(q, 200, NULL, pod_list(7, NULL, NULL));
    fixture_expect(f, &c, "200 OK");
    client_close(&c);
    expect_refused(f, "GET /api/v1/pods HTTP/1.1\r\nHost: localhost\r\n\r\n", "over the limit");
}

/* ---- how many at a time ---- */

#define ONE_AT_A_TIME ONE(TRAFFIC_EVERYTHING, "\"triggerPolicy\":\"LimiterOnly\",\"maxInFlight\":1")

static void expect_busy(struct fixture *f)
{
    expect_refused(f, DELETE_POD, "too many at a time: 1 are under way");
}

static void test_a_place_until_it_is_answered(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, NULL);
    fixture_traffic(f, ONE_AT_A_TIME);
    ask(f, &c, DELETE_POD);
    struct api_request *q = api_expect_part(f->api, "/pods");
    expect_busy(f);
    api_begin(q, NULL);
    fixture_expect(f, &c, "200 OK");
    expect_busy(f); /* the rest of the answer is to come */
    api_send(q, "{}");
    api_end(q);
    fixture_expect(f, &c, "{}");
    client_close(&c);
    expect_allowed(f, DELETE_POD);
    expect_allowed(f, DELETE_POD);
}

static void test_a_place_is_given_back_at_each_end(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, NULL);
    fixture_traffic(f, ONE_AT_A_TIME);
    ask(f, &c, DELETE_POD); /* the client goes away */
    struct api_request *q = api_expect_part(f->api, "/pods");
    client_close(&c);
    api_expect_given_up(q);
    ask(f, &c, DELETE_POD); /* the API server breaks off */
    api_cut(api_expect_part(f->api, "/pods"));
    fixture_expect(f, &c, "HTTP/1.1 5");
    client_close(&c);
    ask(f, &c, DELETE_POD); /* in the midst of the answer */
    q = api_expect_part(f->api, "/pods");
    api_begin(q, NULL);
    api_send(q, "{");
    fixture_expect(f, &c, "{");
    api_cut(q);
    fixture_expect(f, &c, NULL);
    client_close(&c);
    ask(f, &c, DELETE_POD); /* the client, there */
    q = api_expect_part(f->api, "/pods");
    api_begin(q, NULL);
    api_send(q, "{");
    fixture_expect(f, &c, "{");
    client_close(&c);
    api_expect_given_up(q);
    expect_allowed(f, DELETE_POD);
}

static void test_lists_that_a_reload_breaks_off(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN " in (a)");
    fixture_traffic(f, ONE_AT_A_TIME);
    fixture_get(f, &c, "/api/v1/pods");
    struct api_request *q = api_expect_part(f->api, "/pods");
    api_begin(q, NULL);
    api_send(q, "{");
    fixture_expect(f, &c, "{");
    expect_busy(f);
    fixture_limit(f, OWN " in (b)");
    fixture_expect(f, &c, NULL);
    client_close(&c);
    expect_allowed(f, "GET /api/v1/pods HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

static void test_watches_count_until_they_are_answered(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN);
    fixture_traffic(f, ONE_AT_A_TIME);
    fixture_get(f, &c, "/api/v1/pods?watch=1");
    struct api_request *q = api_expect_part(f->api, "watch=1");
    expect_busy(f);
    api_begin(q, NULL);
    fixture_expect(f, &c, "200 OK");
    expect_allowed(f, "GET /api/v1/namespaces/a/pods/x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    /* What opens now does not end it. */
    fixture_traffic(f, ONE(TRAFFIC_EVERYTHING, "\"triggerPolicy\":\"ForceOpened\""));
    expect_refused(f, DELETE_POD, "ForceOpened");
    api_send(q, pod_event("ADDED", "late", 9));
    fixture_expect(f, &c, "late");
    client_close(&c);
}

static void test_upgrades_count_until_they_are_answered(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN);
    fixture_traffic(f, ONE_AT_A_TIME);
    ask(f, &c,
        "POST /api/v1/namespaces/a/pods/x/exec HTTP/1.1\r\nHost: localhost\r\n"
        "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Type: x/y\r\n"
        "Content-Length: 0\r\n\r\n");
    struct api_request *q = api_expect_part(f->api, "/exec");
    expect_busy(f);
    const struct http_header headers[] = {{SLICE("Upgrade"), SLICE("SPDY/3.1")},
                                          {SLICE("Connection"), SLICE("Upgrade")}};
    api_begin_head(
        q, &(struct http_head){
               .status = 101, .minor = 1, .headers = headers, .header_count = 2, .upgrade = true});
    fixture_expect(f, &c, "101 Switching Protocols");
    expect_allowed(f, "GET /api/v1/namespaces/a/pods/x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client_close(&c);
}

/* The place is held while a watch waits for the API server, and once. */
static void test_a_place_in_an_outage(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN);
    fixture_traffic(f, ONE_AT_A_TIME);
    api_stop(f->api);
    fixture_get(f, &c, "/api/v1/pods?watch=1");
    for (int i = 0; i < 500 && f->upstream->errors == 0; i++) {
        run_for(f->api->loop, 1);
    }
    assert_true(f->upstream->errors > 0);
    expect_busy(f);
    assert_true(api_listen(f->api));
    struct api_request *q = api_expect_part(f->api, "watch=1");
    expect_busy(f);
    api_begin(q, NULL);
    fixture_expect(f, &c, "200 OK");
    expect_allowed(f, "GET /api/v1/namespaces/a/pods/x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client_close(&c);
}

/* A client that leaves while its watch waits for that gives the place back, too. */
static void test_a_client_leaves_in_an_outage(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN);
    fixture_traffic(f, ONE_AT_A_TIME);
    api_stop(f->api);
    fixture_get(f, &c, "/api/v1/pods?watch=1");
    for (int i = 0; i < 500 && f->upstream->errors == 0; i++) {
        run_for(f->api->loop, 1);
    }
    expect_busy(f);
    client_close(&c);
    run_for(f->api->loop, 20);
    assert_true(api_listen(f->api));
    expect_allowed(f, DELETE_POD);
}

/* ---- Health ---- */

#define HEALTH                                                                                     \
    ONE(TRAFFIC_EVERYTHING,                                                                        \
        "\"triggerPolicy\":\"Health\",\"healthPolicy\":{\"window\":\"10000ms\","                   \
        "\"minimumRequests\":2,"                                                                   \
        "\"errorPercent\":50,\"slowCallDuration\":\"1000ms\",\"slowCallPercent\":50,"              \
        "\"halfOpenRequests\":1}," TRAFFIC_WINDOW(5000))

static void expect_answered(struct fixture *f, unsigned status)
{
    struct client c;
    ask(f, &c, DELETE_POD);
    api_answer(api_expect_part(f->api, "/pods"), status, NULL, "{}");
    fixture_expect(f, &c, "{}");
    client_close(&c);
}

static void test_an_api_server_that_fails(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN);
    fixture_traffic(f, HEALTH);
    for (int i = 0; i < 10; i++) {
        expect_answered(f, i % 2 == 0 ? 429 : 404);
    }
    for (int i = 0; i < 10; i++) { /* who goes away says nothing */
        ask(f, &c, DELETE_POD);
        struct api_request *q = api_expect_part(f->api, "/pods");
        client_close(&c);
        api_expect_given_up(q);
    }
    fake_clock_pass(&f->clock, 20000);
    expect_answered(f, 503);
    ask(f, &c, DELETE_POD);
    api_cut(api_expect_part(f->api, "/pods"));
    fixture_expect(f, &c, "HTTP/1.1 5");
    client_close(&c);
    expect_refused(f, DELETE_POD, "tries again at ");
    fake_clock_pass(&f->clock, 5000);
    /* The probe's client leaves, and its place is free. */
    ask(f, &c, DELETE_POD);
    struct api_request *q = api_expect_part(f->api, "/pods");
    expect_refused(f, DELETE_POD, "is half open");
    client_close(&c);
    api_expect_given_up(q);
    expect_answered(f, 500);
    expect_refused(f, DELETE_POD, "tries again at ");
    fake_clock_pass(&f->clock, 5000);
    expect_answered(f, 200);
    expect_answered(f, 200);
    expect_answered(f, 200);
}

static void test_an_api_server_that_drags(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN);
    fixture_traffic(f, HEALTH);
    for (int i = 0; i < 2; i++) {
        fixture_get(f, &c, "/api/v1/pods?watch=1");
        struct api_request *q = api_expect_part(f->api, "watch=1");
        fake_clock_jump(&f->clock, 1000);
        api_begin(q, NULL);
        fixture_expect(f, &c, "200 OK");
        client_close(&c);
        api_expect_given_up(q);
    }
    expect_refused(f, DELETE_POD, "is open since");
}

/* It says nothing at all, and clients do not wait for long. */
static void test_an_api_server_that_is_silent(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN);
    fixture_traffic(f, HEALTH);
    ask(f, &c,
        "POST /api/v1/namespaces/a/pods HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        "application/json\r\nContent-Length: 4\r\n\r\n{ ");
    struct api_request *q = api_expect_part(f->api, "/pods");
    fake_clock_jump(&f->clock, 1000);
    client_close(&c); /* who did not say all of it waits for nothing */
    api_expect_given_up(q);
    for (int i = 0; i < 2; i++) {
        fixture_get(f, &c, "/api/v1/pods");
        q = api_expect_part(f->api, "/pods");
        fake_clock_jump(&f->clock, i == 0 ? 1000 : 999);
        client_close(&c);
        api_expect_given_up(q);
    }
    fixture_get(f, &c, "/api/v1/pods");
    q = api_expect_part(f->api, "/pods");
    fake_clock_jump(&f->clock, 1000);
    client_close(&c);
    api_expect_given_up(q);
    expect_refused(f, DELETE_POD, "is open since");
}

/* ---- a restart ---- */

static void test_open_after_a_restart(void **state)
{
    struct fixture *f = *state;
    struct temp_dir dir;
    char path[256];
    temp_dir_init(&dir);
    f->flags.breaker_state = temp_dir_path(&dir, "breakers.json", path);
    fixture_restart(f);
    fixture_limit(f, OWN);
    const char *spec = ONE(PODS("delete"), TRAFFIC_NORMALLY(1, 0, 1, TRAFFIC_WINDOW(60000)));
    fixture_traffic(f, spec);
    expect_allowed(f, DELETE_POD);
    expect_refused(f, DELETE_POD, "over the limit");
    fixture_restart(f);
    fixture_limit(f, OWN);
    fixture_traffic(f, NULL); /* the document may come late */
    fixture_traffic(f, spec);
    expect_refused(f, DELETE_POD, "is open since 2026-01-01T00:00:0");
    fixture_stop(f, false);
    f->flags.breaker_state = NULL;
    fixture_start(f);
    fixture_limit(f, OWN);
    fixture_traffic(f, spec);
    expect_allowed(f, DELETE_POD);
    temp_dir_deinit(&dir);
}

#define DELETE_NODE "DELETE /api/v1/nodes/x HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define NODES(verb) TRAFFIC_RESOURCES("nodes", verb)

/* Starts it again with what the file has at this moment, as after a SIGKILL. */
static void kill_and_start(struct fixture *f, const struct temp_dir *dir, const char *path,
                           const char *spec)
{
    struct err e = ERR_INIT;
    struct buf text = BUF_INIT(64 * 1024);
    assert_int_equal(file_read(path, &text, &e), 0);
    fixture_stop(f, true);
    temp_dir_write(dir, "breakers.json", buf_cstr(&text), 0600);
    buf_reset(&text);
    fixture_start(f);
    fixture_limit(f, OWN);
    fixture_traffic(f, spec);
}

/* Of each rule the file has it before the client has its answer, however many open at a time. */
static void test_open_after_a_kill(void **state)
{
    struct fixture *f = *state;
    struct temp_dir dir;
    char path[256];
    static const char spec[] = TRAFFIC_SPEC(
        TRAFFIC_BREAKER(
            "guard",
            TRAFFIC_LIMITING(
                "a", PODS("delete"),
                TRAFFIC_NORMALLY(
                    1, 0, 1, TRAFFIC_WINDOW(60000))) "," TRAFFIC_LIMITING("b", NODES("delete"),
                                                                          TRAFFIC_NORMALLY(
                                                                              1, 0, 1,
                                                                              TRAFFIC_MANUALLY))),
        "");
    temp_dir_init(&dir);
    f->flags.breaker_state = temp_dir_path(&dir, "breakers.json", path);
    fixture_restart(f);
    fixture_limit(f, OWN);
    fixture_traffic(f, spec);
    expect_allowed(f, DELETE_POD);
    expect_allowed(f, DELETE_NODE);
    expect_refused(f, DELETE_POD, "over the limit");
    expect_refused(f, DELETE_NODE, "over the limit");
    kill_and_start(f, &dir, path, spec);
    expect_refused(f, DELETE_POD, "is open since");
    expect_refused(f, DELETE_NODE, "is open since");
    temp_dir_deinit(&dir);
}

/* Closed by a new token, and open again at once: the file must not have the earlier token. */
static void test_open_again_after_a_kill(void **state)
{
    struct fixture *f = *state;
    struct temp_dir dir;
    char path[256];
    static const char spec[] =
        "{\"breakers\":[{\"name\":\"guard\",\"uid\":\"u\",\"reset\":{\"a\":\"%s\"},"
        "\"spec\":{\"selector\":{},\"rateLimitings\":[" TRAFFIC_LIMITING(
            "a", PODS("delete"), TRAFFIC_NORMALLY(1, 0, 1, TRAFFIC_MANUALLY)) "]}}]}";
    char *first = NULL;
    char *second = NULL;
    assert_true(asprintf(&first, spec, "first") > 0 && asprintf(&second, spec, "second") > 0);
    temp_dir_init(&dir);
    f->flags.breaker_state = temp_dir_path(&dir, "breakers.json", path);
    fixture_restart(f);
    fixture_limit(f, OWN);
    fixture_traffic(f, first);
    expect_allowed(f, DELETE_POD);
    expect_refused(f, DELETE_POD, "over the limit");
    fixture_traffic(f, second);
    expect_refused(f, DELETE_POD, "over the limit");
    kill_and_start(f, &dir, path, second);
    expect_refused(f, DELETE_POD, "is open since");
    free(first);
    free(second);
    temp_dir_deinit(&dir);
}

/* The disk was full for a moment. */
static void test_what_cannot_be_written_is_written_later(void **state)
{
    struct fixture *f = *state;
    struct temp_dir dir;
    char path[256];
    static const char spec[] = ONE(PODS("delete"), TRAFFIC_NORMALLY(1, 0, 1, TRAFFIC_MANUALLY));
    temp_dir_init(&dir);
    f->flags.breaker_state = temp_dir_path(&dir, "breakers.json", path);
    fixture_restart(f);
    fixture_limit(f, OWN);
    fixture_traffic(f, spec);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0); /* no file can be put there */
    expect_allowed(f, DELETE_POD);
    expect_refused(f, DELETE_POD, "over the limit");
    fake_clock_pass(&f->clock, 5000);
    assert_int_equal(rmdir(path), 0);
    fake_clock_pass(&f->clock, 5000);
    kill_and_start(f, &dir, path, spec);
    expect_refused(f, DELETE_POD, "is open since");
    temp_dir_deinit(&dir);
}

#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, fixture_setup_with_policies, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_over_the_limit),
        TEST(test_no_retry_after_that_is_long),
        TEST(test_an_open_one),
        TEST(test_only_names_are_for_locks),
        TEST(test_charged_once),
        TEST(test_a_place_until_it_is_answered),
        TEST(test_a_place_is_given_back_at_each_end),
        TEST(test_lists_that_a_reload_breaks_off),
        TEST(test_watches_count_until_they_are_answered),
        TEST(test_upgrades_count_until_they_are_answered),
        TEST(test_a_place_in_an_outage),
        TEST(test_a_client_leaves_in_an_outage),
        TEST(test_an_api_server_that_fails),
        TEST(test_an_api_server_that_drags),
        TEST(test_an_api_server_that_is_silent),
        TEST(test_open_after_a_restart),
        TEST(test_open_after_a_kill),
        TEST(test_open_again_after_a_kill),
        TEST(test_what_cannot_be_written_is_written_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
