/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fault injections do to requests on their way.
 */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "localproxy/reload_fixture.h"
#include "traffic_document.h"

#define OWN "app"

#define DELETE_POD "DELETE /api/v1/namespaces/a/pods/x HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define EVERYTHING "\"resources\":[{}]"
#define ONE(resources, rest)                                                                       \
    TRAFFIC_SPEC("", TRAFFIC_FAULTS("slow", TRAFFIC_FAULT("a", resources, rest)))
#define THREE_SECONDS ONE(EVERYTHING, TRAFFIC_DELAY(3000, 100))

static void ask(struct fixture *f, struct client *c, const char *request)
{
    client_open(f, c);
    client_send(c, request);
}

/* Runs the loop until so many are delayed. */
static void expect_delayed(struct fixture *f, size_t count)
{
    for (int i = 0; i < 500 && delays_count(proxy_facts(f->proxy).delays) != count; i++) {
        run_for(f->api->loop, 1);
    }
    assert_int_equal(delays_count(proxy_facts(f->proxy).delays), count);
}

static void expect_allowed(struct fixture *f, struct client *c)
{
    api_answer(api_expect_part(f->api, "/"), 200, NULL, "{}");
    fixture_expect(f, c, "200 OK");
    client_close(c);
}

static void test_a_delay(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN);
    fixture_traffic(f, THREE_SECONDS);
    ask(f, &c, DELETE_POD);
    expect_delayed(f, 1);
    fake_clock_pass(&f->clock, 2999);
    assert_int_equal(f->api->count, 0);
    fake_clock_pass(&f->clock, 1);
    expect_allowed(f, &c);
    expect_delayed(f, 0);
}

static void test_an_abort(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN);
    fixture_traffic(f, ONE(EVERYTHING, TRAFFIC_ABORT(409, 100)));
    ask(f, &c, DELETE_POD);
    fixture_expect(f, &c, "\"code\":409}");
    assert_true(client_has(&c, "HTTP/1.1 409 Conflict\r\n"));
    assert_true(client_has(&c, "{\"kind\":\"Status\",\"apiVersion\":\"v1\""));
    assert_true(client_has(&c,
                           "cmesh: faultinjection \\\"ns/slow\\\" rule \\\"a\\\": answered with "
                           "409"));
    assert_true(client_has(&c, "\"reason\":\"Conflict\""));
    assert_int_equal(f->api->count, 0);
    client_close(&c);
}

static void test_an_abort_after_the_delay(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN);
    fixture_traffic(f, ONE(EVERYTHING, TRAFFIC_DELAY(100, 100) "," TRAFFIC_ABORT(503, 100)));
    ask(f, &c, DELETE_POD);
    expect_delayed(f, 1);
    assert_false(client_has(&c, "HTTP"));
    fake_clock_pass(&f->clock, 100);
    fixture_expect(f, &c, "\"reason\":\"ServiceUnavailable\"");
    assert_int_equal(f->api->count, 0);
    client_close(&c);
}

/* Those that are in force then. */
static void test_what_was_delayed_is_judged_by_the_rules_that_are_there(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN " in (a)");
    fixture_traffic(f, THREE_SECONDS);
    fixture_get(f, &c, "/api/v1/pods");
    expect_delayed(f, 1);
    fixture_limit(f, OWN " in (b)");
    fake_clock_pass(&f->clock, 3000);
    struct api_request *q = api_expect_part(f->api, "/pods");
    assert_non_null(strstr(q->target, "%28b%29"));
    assert_null(strstr(q->target, "%28a%29"));
    /* They change once more: it is asked again, and not delayed again. */
    fixture_limit(f, OWN " in (c)");
    api_expect_given_up(q);
    q = api_expect_part(f->api, "%28c%29");
    api_answer(q, 200, NULL, pod_list(7, NULL, NULL));
    fixture_expect(f, &c, "200 OK");
    client_close(&c);
}

static void test_a_client_leaves_in_the_delay(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN);
    fixture_traffic(f, THREE_SECONDS);
    ask(f, &c, DELETE_POD);
    expect_delayed(f, 1);
    client_close(&c);
    expect_delayed(f, 0);
    fake_clock_pass(&f->clock, 3000);
    api_expect_quiet(f->api);
    assert_int_equal(f->api->count, 0);
}

static void test_a_drain_in_the_delay(void **state)
{
    struct fixture *f = *state;
    struct client c;
    struct client d;
    fixture_limit(f, OWN);
    fixture_traffic(f, THREE_SECONDS);
    ask(f, &c, DELETE_POD);
    expect_delayed(f, 1);
    client_open(f, &d);
    client_send(&d, "DELETE /api/v1/namespaces/a/pods/y HTTP/1.1\r\nHost: ");
    run_for(f->api->loop, 20);
    proxy_drain(f->proxy);
    expect_delayed(f, 0);
    expect_allowed(f, &c);
    client_close(&d);
}

static void test_a_policy_that_is_removed_ends_the_delay(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN);
    fixture_traffic(f, ONE(EVERYTHING, TRAFFIC_DELAY(3000, 100) "," TRAFFIC_ABORT(503, 100)));
    ask(f, &c, DELETE_POD);
    expect_delayed(f, 1);
    fixture_traffic(f, NULL);
    fake_clock_pass(&f->clock, 0);
    expect_allowed(f, &c);
}

static void test_the_end_in_the_delay(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN);
    fixture_traffic(f, THREE_SECONDS);
    ask(f, &c, DELETE_POD);
    expect_delayed(f, 1);
    fixture_restart(f);
    fixture_expect(f, &c, NULL);
    client_close(&c);
}

#define MAPS                                                                                       \
    "/api/v1/namespaces/ns/configmaps HTTP/1.1\r\nHost: localhost\r\nContent-Type: "               \
    "application/json\r\n"

/* Its name is in the body. */
static void test_only_names_are_for_locks(void **state)
{
    struct fixture *f = *state;
    struct client c;
    struct client d;
    fixture_limit(f, NULL);
    fixture_traffic(f, THREE_SECONDS);
    ask(f, &c, "POST " MAPS "Content-Length: 28\r\n\r\n{\"metadata\":{\"name\":\"lock\"}}");
    struct api_request *q = api_expect(f->api, "POST", NULL);
    assert_non_null(strstr(q->body, "lock---shard"));
    api_answer(q, 201, NULL, "{}");
    fixture_expect(f, &c, "201 Created");
    client_close(&c);
    ask(f, &c,
        "GET /apis/coordination.k8s.io/v1/namespaces/ns/leases/any HTTP/1.1\r\nHost: "
        "localhost\r\n\r\n");
    expect_allowed(f, &c);
    /* Another one waits with its body, which was collected. */
    ask(f, &c, "POST " MAPS "Content-Length: 29\r\n\r\n{\"metadata\":{\"name\":\"other\"}}");
    ask(f, &d, "POST " MAPS "Content-Length: 29\r\n\r\n{\"metadata\":{\"name\":\"never\"}}");
    expect_delayed(f, 2);
    client_close(&d);
    expect_delayed(f, 1);
    fake_clock_pass(&f->clock, 3000);
    q = api_expect(f->api, "POST", NULL);
    assert_string_equal(q->body, "{\"metadata\":{\"name\":\"other\"}}");
    api_answer(q, 201, NULL, "{}");
    fixture_expect(f, &c, "201 Created");
    client_close(&c);
    assert_int_equal(proxy_memory(f->proxy).request_bytes, 0);
}

static void test_a_body_comes_after_the_delay(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN);
    fixture_traffic(f, THREE_SECONDS);
    ask(f, &c,
        "POST /api/v1/namespaces/a/pods HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        "application/json\r\nContent-Length: 4\r\n\r\n{ ");
    expect_delayed(f, 1);
    client_send(&c, " }");
    fake_clock_pass(&f->clock, 3000);
    struct api_request *q = api_expect(f->api, "POST", NULL);
    assert_string_equal(q->body, "{  }");
    api_answer(q, 201, NULL, "{}");
    fixture_expect(f, &c, "201 Created");
    client_close(&c);
}

/* The API server must not do what nobody waits for any more. Of a body that is not read yet the
 * client's end stands behind. */
static void test_a_client_leaves_before_its_body_is_read(void **state)
{
    struct fixture *f = *state;
    static const char *const requests[] = {
        "POST /api/v1/namespaces/a/pods HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        "application/json\r\nContent-Length: 4\r\n\r\n{  }",
        "POST /api/v1/namespaces/a/pods HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        "application/json\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{  }\r\n0\r\n\r\n",
        DELETE_POD DELETE_POD, /* likewise of what was sent ahead */
    };
    fixture_limit(f, OWN);
    fixture_traffic(f, THREE_SECONDS);
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        struct client c;
        ask(f, &c, requests[i]);
        expect_delayed(f, 1);
        client_close(&c);
        fake_clock_pass(&f->clock, 3000);
        expect_delayed(f, 0);
        api_expect_quiet(f->api);
        assert_int_equal(f->api->count, 0);
    }
}

/* One that is delayed takes no token before it goes on, and is charged like any other. */
static void test_breakers_come_after_the_delay(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN);
    fixture_traffic(
        f, TRAFFIC_SPEC(
               TRAFFIC_BREAKER("guard", TRAFFIC_LIMITING("a", TRAFFIC_RESOURCES("pods", "delete"),
                                                         TRAFFIC_LIMITER(0, 1, 1000))),
               TRAFFIC_FAULTS("slow", TRAFFIC_FAULT("a", EVERYTHING, TRAFFIC_DELAY(3000, 100)))));
    ask(f, &c, DELETE_POD);
    expect_delayed(f, 1);
    assert_false(client_has(&c, "HTTP"));
    fake_clock_pass(&f->clock, 3000);
    fixture_expect(f, &c, "HTTP/1.1 429");
    client_close(&c);
}

/* More of them than may wait go on at once. */
static void send_large(struct fixture *f, struct client *c)
{
    static char text[900000 + 100];
    int len = snprintf(text, sizeof text,
                       "GET /api/v1/pods?fill=%0900000d HTTP/1.1\r\nHost: localhost\r\n\r\n", 0);
    client_open(f, c);
    for (size_t sent = 0; sent < (size_t)len;) {
        ssize_t n = send(c->fd, text + sent, (size_t)len - sent, MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        run_for(f->api->loop, 1);
    }
}

static void test_a_bound_of_bytes(void **state)
{
    struct fixture *f = *state;
    struct client c[19];
    fixture_limit(f, OWN);
    fixture_traffic(f, THREE_SECONDS);
    for (size_t i = 0; i < 18; i++) {
        send_large(f, &c[i]);
        expect_delayed(f, i + 1);
    }
    send_large(f, &c[18]); /* 17 MB */
    fixture_expect_number(f, &proxy_facts(f->proxy).delays->skipped, 1);
    for (size_t i = 0; i < 19; i++) {
        client_close(&c[i]);
    }
    expect_delayed(f, 0);
    assert_int_equal(proxy_facts(f->proxy).delays->bytes, 0);
}

/* 2,000 descriptors, of both sides. */
static void allow_descriptors(void)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void test_a_bound_of_requests(void **state)
{
    struct fixture *f = *state;
    static struct client crowd[DELAYS_MAX];
    struct client c;
    allow_descriptors();
    fixture_limit(f, OWN);
    fixture_traffic(f, THREE_SECONDS);
    for (size_t i = 0; i < DELAYS_MAX; i++) {
        ask(f, &crowd[i], DELETE_POD);
        run_for(f->api->loop, 1);
    }
    expect_delayed(f, DELAYS_MAX);
    ask(f, &c, DELETE_POD);
    expect_allowed(f, &c);
    assert_int_equal(proxy_facts(f->proxy).delays->skipped, 1);
    for (size_t i = 0; i < DELAYS_MAX; i++) {
        client_close(&crowd[i]);
    }
    expect_delayed(f, 0);
}

/* What was under way when it began, its body not read yet, is not held up any more. */
static void test_nothing_is_delayed_in_a_drain(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, NULL);
    fixture_traffic(f, THREE_SECONDS);
    ask(f, &c, "POST " MAPS "Content-Length: 29\r\n\r\n{\"metadata\":");
    run_for(f->api->loop, 20);
    proxy_drain(f->proxy);
    client_send(&c, "{\"name\":\"other\"}}");
    expect_allowed(f, &c);
}

#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, fixture_setup_with_policies, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_delay),
        TEST(test_an_abort),
        TEST(test_an_abort_after_the_delay),
        TEST(test_what_was_delayed_is_judged_by_the_rules_that_are_there),
        TEST(test_a_client_leaves_in_the_delay),
        TEST(test_a_drain_in_the_delay),
        TEST(test_a_policy_that_is_removed_ends_the_delay),
        TEST(test_the_end_in_the_delay),
        TEST(test_only_names_are_for_locks),
        TEST(test_a_body_comes_after_the_delay),
        TEST(test_a_client_leaves_before_its_body_is_read),
        TEST(test_breakers_come_after_the_delay),
        TEST(test_a_bound_of_bytes),
        TEST(test_a_bound_of_requests),
        TEST(test_nothing_is_delayed_in_a_drain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
