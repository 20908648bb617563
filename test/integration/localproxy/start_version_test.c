/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches from versions that may be younger than the process: when they wait, for what, and what
 * happens when it cannot be known.
 */
#include "upstream/start_version.h"

#include <string.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "reload_fixture.h"
#include "temp_dir.h"

#define NAMESPACES "/api/v1/namespaces?limit=1"
#define PODS "/api/v1/namespaces/n/pods"
#define PODS_ASKED PODS "?limit=1"

enum { START = 40 }; /* where the API server is then */

static struct api_request *expect_target(struct fixture *f, const char *target)
{
    struct api_request *q = api_expect_part(f->api, target);
    assert_string_equal(q->target, target);
    return q;
}

static void tell(struct fixture *f, const char *target, unsigned version)
{
    static const char *const one[] = {"x", NULL};
    api_answer(expect_target(f, target), 200, NULL, pod_list(version, "more", one));
}

/* A process that has just begun. */
static void start(struct fixture *f)
{
    fixture_restart(f);
    fixture_limit(f, "a");
    proxy_ask_start_version(f->proxy);
}

static void watch_from(struct fixture *f, struct client *c, unsigned version)
{
    char target[128];
    (void)snprintf(target, sizeof target, PODS "?watch=1&resourceVersion=%u", version);
    fixture_get(f, c, target);
}

static void expect_passed(struct fixture *f, struct client *c)
{
    api_begin(api_expect_part(f->api, "labelSelector=a"), NULL);
    fixture_expect(f, c, "200 OK");
    client_close(c);
}

static void expect_refused(struct fixture *f, struct client *c)
{
    fixture_expect(f, c, "list again");
    api_expect_quiet(f->api);
    client_close(c);
}

static void younger_versions_are_served(void **state)
{
    struct fixture *f = *state;
    struct client c[2];
    start(f);
    proxy_ask_start_version(f->proxy); /* told twice: asked once */
    tell(f, NAMESPACES, START);
    run_for(f->api->loop, 10);
    watch_from(f, &c[0], START);
    expect_refused(f, &c[0]); /* somebody may have had it before */
    watch_from(f, &c[0], START + 1);
    watch_from(f, &c[1], START + 2);
    struct api_request *q = expect_target(f, NAMESPACES);
    assert_non_null(strstr(q->accept, "as=PartialObjectMetadataList"));
    api_expect_quiet(f->api);
    api_answer(q, 200, NULL, pod_list(50, NULL, NULL));
    tell(f, PODS_ASKED, 51);
    tell(f, NAMESPACES, 51);
    expect_passed(f, &c[0]);
    expect_passed(f, &c[1]);
    watch_from(f, &c[0], START + 1); /* now it is known */
    expect_passed(f, &c[0]);
    watch_from(f, &c[0], START);
    expect_refused(f, &c[0]);
    assert_int_equal(f->metrics.resumes_refused, 2);
}

static void what_was_listed_is_not_asked_for(void **state)
{
    struct fixture *f = *state;
    struct client c;
    start(f);
    tell(f, NAMESPACES, START);
    fixture_get(f, &c, PODS "?resourceVersion=0");
    api_answer(expect_target(f, PODS "?labelSelector=a"), 200, NULL, pod_list(45, NULL, NULL));
    fixture_expect(f, &c, "\"45\"");
    client_close(&c);
    watch_from(f, &c, 45);
    expect_passed(f, &c);
}

/* The list is of a version above that of the object from which a client watches. */
static void what_was_listed_later_makes_nothing_older(void **state)
{
    struct fixture *f = *state;
    struct client c;
    start(f);
    tell(f, NAMESPACES, START);
    fixture_get(f, &c, PODS);
    api_answer(expect_target(f, PODS "?labelSelector=a"), 200, NULL, pod_list(45, NULL, NULL));
    fixture_expect(f, &c, "\"45\"");
    client_close(&c);
    watch_from(f, &c, 42);
    tell(f, NAMESPACES, 50);
    tell(f, PODS_ASKED, 50);
    tell(f, NAMESPACES, 50);
    expect_passed(f, &c);
    watch_from(f, &c, START + 1);
    expect_passed(f, &c);
    watch_from(f, &c, START);
    expect_refused(f, &c);
}

/* Events may be kept elsewhere, and aggregated API servers count for themselves. */
static void other_stores_count_otherwise(void **state)
{
    static const unsigned versions[] = {49, 53};
    struct fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        struct client c;
        start(f);
        tell(f, NAMESPACES, START);
        run_for(f->api->loop, 10);
        watch_from(f, &c, 45);
        tell(f, NAMESPACES, 50);
        tell(f, PODS_ASKED, versions[i]);
        tell(f, NAMESPACES, 52);
        expect_refused(f, &c);
        watch_from(f, &c, 45);
        expect_refused(f, &c); /* it is not asked again */
    }
}

/* Before it is known where the API server is. */
static void the_start_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct client c;
    start(f);
    struct api_request *first = expect_target(f, NAMESPACES);
    watch_from(f, &c, START + 1);
    struct api_request *before = expect_target(f, NAMESPACES);
    api_answer(first, 200, NULL, pod_list(START, NULL, NULL));
    api_answer(before, 200, NULL, pod_list(50, NULL, NULL));
    tell(f, PODS_ASKED, 50);
    tell(f, NAMESPACES, 50);
    expect_passed(f, &c);
}

/* After all that was asked of the resource: another connection may be slower. */
static void the_start_may_be_told_last(void **state)
{
    struct fixture *f = *state;
    for (int told = 0; told < 2; told++) {
        struct client c[3];
        start(f);
        struct api_request *first = expect_target(f, NAMESPACES);
        watch_from(f, &c[0], START + 1);
        watch_from(f, &c[1], START);
        tell(f, NAMESPACES, 50);
        tell(f, PODS_ASKED, 50);
        tell(f, NAMESPACES, 50);
        run_for(f->api->loop, 10);
        watch_from(f, &c[2], START + 2);
        api_expect_quiet(f->api); /* they wait */
        if (told) {
            api_answer(first, 200, NULL, pod_list(START, NULL, NULL));
            expect_passed(f, &c[0]);
            expect_passed(f, &c[2]);
        } else {
            api_answer(first, 403, NULL, "{\"kind\":\"Status\"}");
            expect_refused(f, &c[0]);
            expect_refused(f, &c[2]);
        }
        expect_refused(f, &c[1]);
    }
}

static void nothing_is_asked_where_all_is_known(void **state)
{
    struct fixture *f = *state;
    struct temp_dir dir;
    char path[256];
    temp_dir_init(&dir);
    f->flags.state = temp_dir_path(&dir, "state", path);
    start(f);
    api_expect_quiet(f->api);
    f->flags.state = NULL;
    f->flags.resume_doubt_s = 0;
    start(f);
    api_expect_quiet(f->api);
    temp_dir_deinit(&dir);
}

/* Another API server counts for itself. */
static void nothing_is_asked_for_a_watch_behind_a_gateway(void **state)
{
    struct fixture *f = *state;
    struct client c;
    f->flags.api_prefixes = (struct flag_list){.items = {"/clusters/*"}, .count = 1};
    start(f);
    tell(f, NAMESPACES, START);
    run_for(f->api->loop, 10);
    unsigned asked = f->api->count;
    fixture_get(f, &c, "/clusters/east" PODS "?watch=1&resourceVersion=41");
    expect_refused(f, &c);
    assert_int_equal(f->api->count, asked);
    f->flags.api_prefixes.count = 0;
}

/* ---- it cannot be known ---- */

enum failure {
    FORBIDDEN,
    OPAQUE,
    UNREADABLE,
    UNAUTHORIZED,
    OVERLOADED,
    FROZEN,
    GIVEN_UP, /* above; what follows is asked for again */
    BUSY = GIVEN_UP,
    FAILING,
    BROKEN,
    CUT,
    FAILURES
};

static void fail_to_tell(struct fixture *f, const char *target, enum failure how)
{
    struct api_request *q = expect_target(f, target);
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
        f->api->knows_client = true;
        api_answer(q, 401, NULL, "{\"kind\":\"Status\"}");
        break;
    case FAILING:
        api_answer(q, 500, NULL, "{\"kind\":\"Status\"}");
        break;
    case OVERLOADED:
        api_answer(q, 429, "15", "{\"kind\":\"Status\"}");
        break;
    case BUSY:
        api_answer(q, 429, "1", "{\"kind\":\"Status\"}");
        break;
    case CUT:
        api_cut(q);
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
    case FAILURES:
        break;
    }
    run_for(f->api->loop, 10);
}

static void the_start_may_not_be_told(void **state)
{
    struct fixture *f = *state;
    for (int how = FORBIDDEN; how < GIVEN_UP; how++) {
        struct client c;
        start(f);
        fail_to_tell(f, NAMESPACES, (enum failure)how);
        watch_from(f, &c, START + 1);
        expect_refused(f, &c);
        loop_skip(f->api->loop, 5000);
        if (how < UNAUTHORIZED) { /* it would be the same again */
            proxy_ask_start_version(f->proxy);
            api_expect_quiet(f->api);
            continue;
        }
        tell(f, NAMESPACES, START + 1);
    }
}

static void a_resource_may_not_be_told(void **state)
{
    static const char *const asked[] = {NAMESPACES, PODS_ASKED, NAMESPACES};
    struct fixture *f = *state;
    for (int i = 0; i < GIVEN_UP * 3; i++) {
        struct client c;
        start(f);
        tell(f, NAMESPACES, START);
        run_for(f->api->loop, 10);
        watch_from(f, &c, START + 1);
        for (int step = 0; step < i % 3; step++) {
            tell(f, asked[step], 50);
        }
        fail_to_tell(f, asked[i % 3], (enum failure)(i / 3));
        expect_refused(f, &c);
        watch_from(f, &c, START + 1);
        expect_refused(f, &c);
        loop_skip(f->api->loop, 5000);
        run_for(f->api->loop, 300);
        watch_from(f, &c, START + 1);
        if (i / 3 < UNAUTHORIZED) {
            expect_refused(f, &c);
            continue;
        }
        tell(f, NAMESPACES, 50);
        tell(f, PODS_ASKED, 50);
        tell(f, NAMESPACES, 50);
        expect_passed(f, &c);
    }
}

static void a_start_that_fails_for_now_is_asked_for_again(void **state)
{
    struct fixture *f = *state;
    for (int how = GIVEN_UP; how < FAILURES; how++) {
        struct client c;
        start(f);
        fail_to_tell(f, NAMESPACES, (enum failure)how);
        watch_from(f, &c, START + 1);
        tell(f, NAMESPACES, 50);
        tell(f, PODS_ASKED, 50);
        tell(f, NAMESPACES, 50);
        api_expect_quiet(f->api); /* it waits */
        loop_skip(f->api->loop, 2000);
        tell(f, NAMESPACES, START);
        expect_passed(f, &c);
    }
}

static void a_resource_that_fails_for_now_is_asked_for_again(void **state)
{
    static const char *const asked[] = {NAMESPACES, PODS_ASKED, NAMESPACES};
    struct fixture *f = *state;
    for (int i = 0; i < (FAILURES - GIVEN_UP) * 3; i++) {
        struct client c;
        start(f);
        tell(f, NAMESPACES, START);
        run_for(f->api->loop, 10);
        watch_from(f, &c, START + 1);
        for (int step = 0; step < 3; step++) {
            if (step == i % 3) {
                fail_to_tell(f, asked[step], (enum failure)(GIVEN_UP + i / 3));
                api_expect_quiet(f->api);
                loop_skip(f->api->loop, 2000);
            }
            tell(f, asked[step], 50);
        }
        expect_passed(f, &c);
    }
}

static void the_api_server_may_be_away_for_a_moment(void **state)
{
    struct fixture *f = *state;
    struct client c;
    start(f);
    tell(f, NAMESPACES, START);
    run_for(f->api->loop, 10);
    api_stop(f->api);
    watch_from(f, &c, START + 1);
    const struct http_client_stats *stats = kube_client_stats(f->upstream->client);
    uint64_t failed = stats->failed;
    for (int i = 0; i < 20; i++) { /* each second, not less and less often until it is given up */
        fixture_expect_number(f, &stats->failed, ++failed);
        loop_skip(f->api->loop, 1000);
    }
    client_read(&c);
    assert_int_equal(c.text.len, 0);
    assert_true(api_listen(f->api));
    loop_skip(f->api->loop, 1000);
    tell(f, NAMESPACES, 50);
    tell(f, PODS_ASKED, 50);
    tell(f, NAMESPACES, 50);
    expect_passed(f, &c);
}

static void clients_may_leave_and_the_proxy_end_meanwhile(void **state)
{
    struct fixture *f = *state;
    struct client c;
    start(f);
    struct api_request *q = expect_target(f, NAMESPACES);
    start(f);
    api_expect_given_up(q);
    tell(f, NAMESPACES, START);
    run_for(f->api->loop, 10);
    watch_from(f, &c, START + 1);
    q = expect_target(f, NAMESPACES);
    client_close(&c);
    run_for(f->api->loop, 10);
    api_answer(q, 200, NULL, pod_list(50, NULL, NULL));
    q = expect_target(f, PODS_ASKED);
    watch_from(f, &c, START + 1);
    run_for(f->api->loop, 10);
    start(f);
    api_expect_given_up(q);
    client_close(&c);
    fail_to_tell(f, NAMESPACES, OVERLOADED);
    start(f); /* while it waits to ask again */
    tell(f, NAMESPACES, START);
    run_for(f->api->loop, 10);
    watch_from(f, &c, START + 1);
    fail_to_tell(f, NAMESPACES, OVERLOADED);
    expect_refused(f, &c);
    fixture_restart(f);
}

/* What was asked under the old rules goes on under the new ones. */
static void the_rules_may_change_meanwhile(void **state)
{
    struct fixture *f = *state;
    struct client c;
    start(f);
    tell(f, NAMESPACES, START);
    run_for(f->api->loop, 10);
    watch_from(f, &c, START + 1);
    tell(f, NAMESPACES, 50);
    struct api_request *q = expect_target(f, PODS_ASKED);
    fixture_limit(f, "b");
    api_answer(q, 200, NULL, pod_list(50, NULL, NULL));
    tell(f, NAMESPACES, 50);
    (void)api_expect_part(f->api, "labelSelector=b");
    client_close(&c);
}

static void names_are_escaped(void **state)
{
    struct fixture *f = *state;
    struct client c;
    start(f);
    tell(f, NAMESPACES, START);
    run_for(f->api->loop, 10);
    fixture_get(f, &c, "/api/v1/watch/namespaces/a%3Fb/pods?resourceVersion=50");
    tell(f, NAMESPACES, 50);
    (void)expect_target(f, "/api/v1/namespaces/a%3Fb/pods?limit=1");
    client_close(&c);
}

static void answer_all(struct scripted_api *a, struct api_request *q)
{
    (void)a;
    api_answer(q, 200, NULL, pod_list(strstr(q->target, "watch=1") != NULL ? 60 : 50, NULL, NULL));
}

static bool watch_once(void *data)
{
    struct fixture *f = data;
    struct client c;
    long paused = alloc_sweep_pause();
    fixture_restart(f);
    fixture_limit(f, "a");
    unsigned before = f->api->count;
    alloc_sweep_resume(paused);
    proxy_ask_start_version(f->proxy);
    paused = alloc_sweep_pause();
    run_for(f->api->loop, 10);
    watch_from(f, &c, 51);
    alloc_sweep_resume(paused);
    run_for(f->api->loop, 10);
    paused = alloc_sweep_pause();
    for (int turn = 0; turn < 1000 && !client_has(&c, "\r\n\r\n") && !c.ended; turn++) {
        run_for(f->api->loop, 1);
        client_read(&c);
    }
    assert_true(client_has(&c, "HTTP/1.1") || c.ended);
    bool served = client_has(&c, "\"60\"");
    bool done = served && f->api->count == before + 5;
    client_close(&c);
    alloc_sweep_resume(paused);
    return done;
}

static void memory_runs_out(void **state)
{
    struct fixture *f = *state;
    f->api->serve = answer_all;
    assert_true(sweep_allocations(watch_once, f) > 5);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(younger_versions_are_served),
        TEST(what_was_listed_is_not_asked_for),
        TEST(what_was_listed_later_makes_nothing_older),
        TEST(other_stores_count_otherwise),
        TEST(the_start_is_waited_for),
        TEST(the_start_may_be_told_last),
        TEST(nothing_is_asked_where_all_is_known),
        TEST(nothing_is_asked_for_a_watch_behind_a_gateway),
        TEST(the_start_may_not_be_told),
        TEST(a_resource_may_not_be_told),
        TEST(a_start_that_fails_for_now_is_asked_for_again),
        TEST(a_resource_that_fails_for_now_is_asked_for_again),
        TEST(the_api_server_may_be_away_for_a_moment),
        TEST(clients_may_leave_and_the_proxy_end_meanwhile),
        TEST(the_rules_may_change_meanwhile),
        TEST(names_are_escaped),
        TEST(memory_runs_out),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
