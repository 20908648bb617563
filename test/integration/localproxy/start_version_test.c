/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a resource was at the start: what waits until that is known, what does not, and what
 * happens when it cannot be known.
 */
#include "watch/start_version.h"

#include <string.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "reload_fixture.h"
#include "temp_dir.h"

#define PODS "/api/v1/namespaces/n/pods"
#define ASKED PODS "?limit=1"

/* `body`: of 4 bytes; NULL: none. */
static void ask(struct fixture *f, struct client *c, const char *method, const char *target,
                const char *body)
{
    char text[1024];
    client_open(f, c);
    (void)snprintf(
        text, sizeof text,
        "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s\r\n%s", method,
        target, body != NULL ? "Content-Length: 4\r\n" : "", body != NULL ? body : "");
    client_send(c, text);
}

static struct api_request *expect_target(struct fixture *f, const char *target)
{
    struct api_request *q = api_expect_part(f->api, target);
    assert_string_equal(q->target, target);
    return q;
}

static void answer_where(struct api_request *q, unsigned version)
{
    static const char *const one[] = {"p", NULL};
    api_answer(q, 200, NULL, pod_list(version, "more", one));
}

static void expect_watch_from(struct fixture *f, unsigned version, bool passes)
{
    struct client c;
    char target[64];
    (void)snprintf(target, sizeof target, "/api/v1/pods?watch=1&resourceVersion=%u", version);
    ask(f, &c, "GET", target, NULL);
    if (passes) {
        (void)api_expect_part(f->api, "watch=1");
    } else {
        fixture_expect(f, &c, "list again");
        api_expect_quiet(f->api);
    }
    client_close(&c);
}

static void writes_wait_and_their_versions_are_known(void **state)
{
    struct fixture *f = *state;
    struct client c[3];
    fixture_limit(f, "a");
    expect_watch_from(f, 60, false);
    ask(f, &c[0], "PUT", PODS "/p", "{\"a\"");
    ask(f, &c[1], "PATCH", PODS "/q/status", "{\"b\"");
    ask(f, &c[2], "POST", PODS, NULL);
    struct api_request *q = expect_target(f, ASKED);
    assert_non_null(strstr(q->accept, "as=PartialObjectMetadataList"));
    api_expect_quiet(f->api);
    assert_int_equal(f->api->count, 1);
    answer_where(q, 50);
    q = expect_target(f, PODS "/p");
    assert_string_equal(q->method, "PUT");
    assert_string_equal(q->body, "{\"a\"");
    api_answer(q, 200, NULL, "{\"n\":1}");
    fixture_expect(f, &c[0], "{\"n\":1}");
    q = expect_target(f, PODS "/q/status");
    assert_string_equal(q->body, "{\"b\"");
    api_answer(q, 200, NULL, "{\"n\":2}");
    fixture_expect(f, &c[1], "{\"n\":2}");
    api_answer(expect_target(f, PODS), 201, NULL, "{\"n\":3}");
    fixture_expect(f, &c[2], "{\"n\":3}");
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        client_close(&c[i]);
    }
    expect_watch_from(f, 49, false);
    expect_watch_from(f, 51, true);
}

static void a_watch_from_the_beginning_waits(void **state)
{
    static const char *const targets[] = {"/api/v1/pods?watch=1", "/api/v1/watch/pods",
                                          "/api/v1/pods?watch=1&resourceVersion=0"};
    struct fixture *f = *state;
    struct client c;
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        fixture_restart(f);
        fixture_limit(f, "a");
        ask(f, &c, "GET", targets[i], NULL);
        struct api_request *q = expect_target(f, "/api/v1/pods?limit=1");
        api_answer(q, 200, NULL, pod_list(50, NULL, NULL));
        q = api_expect_part(f->api, "labelSelector=a");
        api_begin(q, NULL);
        api_send(q, pod_event("ADDED", "p", 51));
        fixture_expect(f, &c, "\"51\"");
        expect_watch_from(f, 51, true); /* while the first goes on */
        client_close(&c);
    }
}

struct request_case {
    const char *method;
    const char *target;
    const char *passed; /* what the API server is asked */
};

static void other_requests_do_not_wait(void **state)
{
    static const struct request_case cases[] = {
        {"GET", PODS "?resourceVersion=0", PODS "?resourceVersion=0&labelSelector=a"},
        {"GET", PODS "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
         PODS "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&labelSelector=a"},
        {"GET", PODS "/p", PODS "/p"},
        {"DELETE", PODS "/p", PODS "/p"},
        {"DELETE", PODS, PODS "?labelSelector=a"},
        {"POST", PODS "/p/eviction", PODS "/p/eviction"},
        {"POST", "/api/v1/namespaces/n/secrets", "/api/v1/namespaces/n/secrets"},
        {"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews",
         "/apis/authorization.k8s.io/v1/subjectaccessreviews"},
    };
    struct fixture *f = *state;
    fixture_limit(f, "a");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct client c;
        unsigned before = f->api->count;
        ask(f, &c, cases[i].method, cases[i].target, NULL);
        api_answer(expect_target(f, cases[i].passed), 200, NULL, "{\"passed\":1}");
        fixture_expect(f, &c, "{\"passed\":1}");
        assert_int_equal(f->api->count, before + 1);
        client_close(&c);
    }
}

/* The time limits of what waited are those of any request. */
static void what_waited_is_not_awaited_for_ever(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "a");
    ask(f, &c, "POST", PODS, NULL);
    answer_where(expect_target(f, ASKED), 50);
    struct api_request *q = expect_target(f, PODS);
    run_for(f->api->loop, 10);
    loop_skip(f->api->loop, 65000);
    fixture_expect(f, &c, "may have been executed");
    assert_true(q->gone);
    client_close(&c);
}

static void nothing_waits_where_all_is_known(void **state)
{
    struct fixture *f = *state;
    struct client c;
    struct temp_dir dir;
    char path[256];
    temp_dir_init(&dir);
    f->flags.state = temp_dir_path(&dir, "state", path);
    fixture_restart(f);
    fixture_limit(f, "a");
    ask(f, &c, "POST", PODS, NULL);
    api_answer(expect_target(f, PODS), 201, NULL, "{\"passed\":1}");
    fixture_expect(f, &c, "{\"passed\":1}");
    client_close(&c);
    f->flags.state = NULL;
    fixture_restart(f);
    temp_dir_deinit(&dir);
}

/* How it can fail: the request goes on all the same, and when it is asked for again. */

enum failure { FORBIDDEN, OPAQUE, UNREADABLE, UNAUTHORIZED, BUSY, FAILING, BROKEN, FROZEN };

static void fail_to_tell(struct fixture *f, enum failure how)
{
    struct api_request *q = expect_target(f, ASKED);
    switch (how) {
    case FORBIDDEN:
        api_answer(q, 403, NULL, "{\"kind\":\"Status\"}");
        break;
    case OPAQUE:
        api_answer(q, 200, NULL, "{\"metadata\":{\"resourceVersion\":\"x1\"},\"items\":[]}");
        break;
    case UNREADABLE:
        api_begin(q, "text/plain");
        api_end(q);
        break;
    case UNAUTHORIZED:
        api_answer(q, 401, NULL, "{\"kind\":\"Status\"}");
        break;
    case FAILING:
        api_answer(q, 500, NULL, "{\"kind\":\"Status\"}");
        break;
    case BUSY:
        api_answer(q, 429, "1", "{\"kind\":\"Status\"}");
        break;
    case BROKEN:
        api_begin(q, NULL);
        api_send(q, "{\"metadata\":{\"resourceVersion\":\"50\"},");
        run_for(f->api->loop, 10);
        api_cut(q);
        break;
    case FROZEN:
        run_for(f->api->loop, 10);
        loop_skip(f->api->loop, 5000);
        api_expect_given_up(q);
        break;
    }
}

static void write_passes(struct fixture *f)
{
    struct client c;
    ask(f, &c, "PUT", PODS "/p", "{\"a\"");
    api_answer(expect_target(f, PODS "/p"), 200, NULL, "{\"passed\":1}");
    fixture_expect(f, &c, "{\"passed\":1}");
    client_close(&c);
}

static void it_may_not_be_told(void **state)
{
    struct fixture *f = *state;
    for (int how = FORBIDDEN; how <= FROZEN; how++) {
        struct client c;
        fixture_restart(f);
        fixture_limit(f, "a");
        ask(f, &c, "PUT", PODS "/p", "{\"a\"");
        fail_to_tell(f, (enum failure)how);
        api_answer(expect_target(f, PODS "/p"), 200, NULL, "{\"passed\":1}");
        fixture_expect(f, &c, "{\"passed\":1}");
        client_close(&c);
        expect_watch_from(f, 60, false);
        loop_skip(f->api->loop, 9000);
        run_for(f->api->loop, 1);
        write_passes(f);
        loop_skip(f->api->loop, 1000);
        run_for(f->api->loop, 1);
        if (how < UNAUTHORIZED) {
            write_passes(f); /* it would be the same again */
            continue;
        }
        ask(f, &c, "PUT", PODS "/p", "{\"a\"");
        answer_where(expect_target(f, ASKED), 70);
        (void)expect_target(f, PODS "/p");
        client_close(&c);
        expect_watch_from(f, 71, true);
    }
}

static void clients_may_leave_and_the_proxy_end_meanwhile(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "a");
    ask(f, &c, "GET", PODS "?watch=1", NULL);
    struct api_request *q = expect_target(f, ASKED);
    client_close(&c);
    run_for(f->api->loop, 10);
    api_answer(q, 200, NULL, pod_list(50, NULL, NULL));
    api_expect_quiet(f->api);
    expect_watch_from(f, 51, true);
    fixture_restart(f);
    fixture_limit(f, "a");
    ask(f, &c, "PUT", PODS "/p", "{\"a\"");
    q = expect_target(f, ASKED);
    fixture_restart(f);
    api_expect_given_up(q);
    client_close(&c);
}

/* What was asked under the old rules goes on under the new ones. */
static void the_rules_may_change_meanwhile(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "a");
    ask(f, &c, "GET", PODS "?watch=1", NULL);
    struct api_request *q = expect_target(f, ASKED);
    fixture_limit(f, "b");
    api_answer(q, 200, NULL, pod_list(50, NULL, NULL));
    (void)expect_target(f, PODS "?watch=1&labelSelector=b");
    client_close(&c);
}

static void names_are_escaped(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "a");
    ask(f, &c, "POST", "/api/v1/namespaces/a%3Fb/pods", NULL);
    (void)expect_target(f, "/api/v1/namespaces/a%3Fb/pods?limit=1");
    client_close(&c);
}

static void answer_all(struct scripted_api *a, struct api_request *q)
{
    (void)a;
    api_answer(q, 200, NULL, pod_list(50, NULL, NULL));
}

static bool write_once(void *data)
{
    struct fixture *f = data;
    struct client c;
    long paused = alloc_sweep_pause();
    unsigned before = f->api->count;
    fixture_restart(f);
    fixture_limit(f, "a");
    ask(f, &c, "PUT", PODS "/p", "{\"a\"");
    alloc_sweep_resume(paused);
    run_for(f->api->loop, 10);
    paused = alloc_sweep_pause();
    for (int turn = 0; turn < 1000 && !client_has(&c, "HTTP/1.1") && !c.ended; turn++) {
        run_for(f->api->loop, 1);
        client_read(&c);
    }
    assert_true(client_has(&c, "HTTP/1.1") || c.ended);
    bool done = client_has(&c, "200 OK") && f->api->count == before + 2;
    client_close(&c);
    alloc_sweep_resume(paused);
    return done;
}

static void memory_runs_out(void **state)
{
    struct fixture *f = *state;
    f->api->serve = answer_all;
    assert_true(sweep_allocations(write_once, f) > 5);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(writes_wait_and_their_versions_are_known),
        TEST(a_watch_from_the_beginning_waits),
        TEST(other_requests_do_not_wait),
        TEST(what_waited_is_not_awaited_for_ever),
        TEST(nothing_waits_where_all_is_known),
        TEST(it_may_not_be_told),
        TEST(clients_may_leave_and_the_proxy_end_meanwhile),
        TEST(the_rules_may_change_meanwhile),
        TEST(names_are_escaped),
        TEST(memory_runs_out),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
