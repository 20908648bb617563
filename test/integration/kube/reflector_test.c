/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reflector against a scripted API server. With a random number of 0 the pauses are 100, 200,
 * 400, ... ms, and watches last 300 s.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kube/access/credentials.h"
#include "reflector_fixture.h"
#include "temp_dir.h"

#define LIST "/p?limit=500"
#define WATCH(version)                                                                             \
    "/p?watch=true&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=" version
#define SILENCE_MS 330000
#define EXPIRED                                                                                    \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","           \
    "\"message\":\"too old\",\"reason\":\"Expired\",\"code\":410}"

static int setup(void **state)
{
    struct net_loop *l = NULL;
    struct fixture *f = calloc(1, sizeof *f);
    if (f == NULL || loop_setup((void **)&l) != 0 || !fixture_open(f, l)) {
        return -1;
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    struct net_loop *l = f->api.loop;
    fixture_close(f);
    free(f);
    return loop_free(l);
}

static const char *one(const char *name, const char *version)
{
    return fixture_list("10", NULL, (const char *[]){fixture_object(name, version), NULL});
}

/* Lists a@1, watches from 10, and the watch is open. */
static void follow(struct fixture *f)
{
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL, one("a", "1"));
    fixture_expect_log(f, "list +a@1 synced ");
    fixture_expect_request(f, WATCH("10"));
    api_begin(f->asked, NULL);
    fixture_expect_deadline(f, 1000, 1000);
}

/* And it has proved to work. */
static void follow_well(struct fixture *f)
{
    follow(f);
    fixture_pass(f, 1000, 1000);
    fixture_expect_deadline(f, SILENCE_MS, SILENCE_MS);
}

/* Lists again, from the beginning. */
static void relist(struct fixture *f)
{
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL, one("b", "2"));
    fixture_expect_log(f, "list +b@2 synced ");
    fixture_expect_request(f, WATCH("10"));
}

static uint64_t lists(const struct fixture *f, enum reflector_reason reason)
{
    return reflector_stats(f->reflector)->lists[reason];
}

/* ---- ordinary life ---- */

static void test_lists_pages_and_watches(void **state)
{
    struct fixture *f = *state;
    const struct reflector_stats *s;
    fixture_start_plain(f);
    s = reflector_stats(f->reflector);
    fixture_expect_request(f, LIST);
    assert_string_equal(f->asked->accept, "application/json");
    const char *first[] = {fixture_object("a", "1"), fixture_object("b", "2"), NULL};
    api_answer(f->asked, 200, NULL, fixture_list("10", "t/1", first));
    fixture_expect_log(f, "list +a@1 +b@2 ");
    assert_false(s->synced);
    fixture_expect_request(f, LIST "&continue=t%2F1");
    api_answer(f->asked, 200, NULL, fixture_list("10", "t2", NULL));
    fixture_expect_request(f, LIST "&continue=t2");
    api_answer(f->asked, 200, NULL, one("c", "3"));
    fixture_expect_log(f, "+c@3 synced ");
    fixture_expect_request(f, WATCH("10"));
    assert_false(s->following);
    api_begin(f->asked, NULL);
    api_send(f->asked, fixture_event("ADDED", "d", "11"));
    api_send(f->asked, fixture_event("MODIFIED", "a", "12"));
    api_send(f->asked, fixture_event("DELETED", "b", "13"));
    fixture_expect_log(f, "A:d@11 M:a@12 D:b@13 ");
    assert_true(s->synced && s->following);
    assert_int_equal(s->lists[REFLECTOR_START], 1);
    assert_int_equal(s->pages, 3);
    assert_int_equal(s->objects, 3);
    assert_int_equal(s->watches, 1);
    assert_int_equal(s->events, 3);
    assert_int_equal(s->failures, 0);
}

static void test_asks_for_pages_when_they_are_wanted(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    reflector_hold(f->reflector);
    api_expect_quiet(&f->api);
    reflector_release(f->reflector);
    reflector_release(f->reflector);
    fixture_expect_request(f, LIST);
    reflector_hold(f->reflector);
    api_answer(f->asked, 200, NULL,
               fixture_list("10", "t", (const char *[]){fixture_object("a", "1"), NULL}));
    fixture_expect_log(f, "list +a@1 "); /* what was on its way */
    api_expect_quiet(&f->api);
    reflector_release(f->reflector);
    fixture_expect_request(f, LIST "&continue=t");
    api_answer(f->asked, 410, NULL, EXPIRED); /* the server does not keep a list for ever */
    reflector_hold(f->reflector);
    fixture_pass(f, 100, 200);
    api_expect_quiet(&f->api);
    reflector_release(f->reflector);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL, one("a", "1"));
    reflector_hold(f->reflector);
    fixture_expect_log(f, "list +a@1 synced ");
    fixture_expect_request(f, WATCH("10")); /* is no page */
    api_begin(f->asked, NULL);
    api_send(f->asked, fixture_event("ADDED", "d", "11"));
    fixture_expect_log(f, "A:d@11 ");
}

static void test_freed_while_held(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    reflector_hold(f->reflector);
    api_expect_quiet(&f->api);
    reflector_free(f->reflector);
    f->reflector = NULL;
    api_expect_quiet(&f->api);
}

static void give_up(struct fixture *f)
{
    bool open = f->asked->x != NULL;
    reflector_list_again(f->reflector);
    reflector_list_again(f->reflector); /* as good as once */
    assert_string_equal(reflector_version(f->reflector), "");
    if (open) {
        api_expect_given_up(f->asked);
    }
}

/* What was under way is given up, and all is listed at once. */
static void test_lists_again_when_asked_to(void **state)
{
    struct fixture *f = *state;
    follow_well(f);
    api_send(f->asked, "{\"type\":");
    run_for(f->api.loop, 10);
    give_up(f); /* inside of an event */
    relist(f);
    give_up(f); /* before the watch is open */
    relist(f);
    api_answer(f->asked, 500, NULL, "");
    fixture_expect_error(f, "500");
    give_up(f); /* in a pause */
    relist(f);
    give_up(f);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL, fixture_list("10", "t", NULL));
    fixture_expect_request(f, LIST "&continue=t");
    fixture_expect_log(f, "list ");
    reflector_hold(f->reflector);
    give_up(f); /* between pages */
    api_expect_quiet(&f->api);
    reflector_release(f->reflector);
    relist(f);
    assert_int_equal(lists(f, REFLECTOR_ASKED), 5);
}

static void test_asks_for_a_part(void **state)
{
    struct fixture *f = *state;
    struct reflector_options o = {.path = "/api/v1/namespaces/n/pods",
                                  .name = "x",
                                  .label_selector = "a in (b)",
                                  .field_selector = "f=g",
                                  .page_size = 7};
    assert_true(fixture_start(f, &o));
    fixture_expect_request(f, "/api/v1/namespaces/n/pods?labelSelector=a%20in%20%28b%29"
                              "&fieldSelector=metadata.name%3Dx%2Cf%3Dg&limit=7");
    api_answer(f->asked, 200, NULL, fixture_list("9", NULL, NULL));
    fixture_expect_log(f, "list synced ");
    f->random = 0;
    fixture_expect_request(f, "/api/v1/namespaces/n/pods?labelSelector=a%20in%20%28b%29"
                              "&fieldSelector=metadata.name%3Dx%2Cf%3Dg&watch=true"
                              "&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=9");
}

static void test_watches_last_differently(void **state)
{
    struct fixture *f = *state;
    f->random = 300;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL, one("a", "1"));
    fixture_expect_request(f, "/p?watch=true&allowWatchBookmarks=true&timeoutSeconds=600"
                              "&resourceVersion=10");
}

static void test_events_in_pieces(void **state)
{
    struct fixture *f = *state;
    follow(f);
    const char *text = fixture_event("ADDED", "b", "11");
    for (const char *p = text; *p != '\0'; p++) {
        api_send_bytes(f->asked, slice_of(p, 1));
        run_for(f->api.loop, 1);
    }
    api_send(f->asked, fixture_event("MODIFIED", "b", "12"));
    fixture_expect_log(f, "A:b@11 M:b@12 ");
}

static void test_an_ordinary_end_is_followed_by_the_next_watch_at_once(void **state)
{
    struct fixture *f = *state;
    follow(f);
    api_send(f->asked, fixture_event("ADDED", "b", "11"));
    api_send(f->asked,
             "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"20\"}}}\n");
    fixture_expect_log(f, "A:b@11 ");
    fixture_pass(f, 1000, 1000);
    api_end(f->asked);
    fixture_expect_request(f, WATCH("20"));
    api_begin(f->asked, NULL);
    fixture_pass(f, 1000, 1000);
    api_end(f->asked);
    fixture_expect_request(f, WATCH("20"));
    const struct reflector_stats *s = reflector_stats(f->reflector);
    assert_int_equal(s->bookmarks, 1);
    assert_int_equal(s->watches, 2);
    assert_int_equal(s->failures, 0);
    fixture_expect_log(f, "");
}

static void test_metadata_only(void **state)
{
    struct fixture *f = *state;
    struct reflector_options o = {.path = "/p", .metadata_only = true};
    assert_true(fixture_start(f, &o));
    fixture_expect_request(f, LIST);
    assert_string_equal(f->asked->accept,
                        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;"
                        "v=v1,application/json");
    api_answer(f->asked, 200, NULL, one("a", "1"));
    fixture_expect_request(f, WATCH("10"));
    assert_string_equal(f->asked->accept,
                        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
                        "application/json");
    /* A server that does not know it. */
    api_answer(f->asked, 406, NULL, "");
    fixture_expect_request(f, WATCH("10"));
    assert_string_equal(f->asked->accept, "application/json");
    api_begin(f->asked, NULL);
    api_send(f->asked, fixture_event("ADDED", "b", "11"));
    fixture_expect_log(f, "list +a@1 synced A:b@11 ");
    assert_int_equal(reflector_stats(f->reflector)->failures, 0);
}

static void test_metadata_only_refused_for_the_list(void **state)
{
    struct fixture *f = *state;
    struct reflector_options o = {.path = "/p", .metadata_only = true};
    assert_true(fixture_start(f, &o));
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 406, NULL, "");
    fixture_expect_request(f, LIST);
    assert_string_equal(f->asked->accept, "application/json");
    /* And one that does not even know that. */
    api_answer(f->asked, 406, NULL, "");
    fixture_expect_error(f, "406");
    fixture_pass(f, 100, 100);
    fixture_expect_request(f, LIST);
}

/* ---- expired versions ---- */

static void test_410_in_place_of_a_watch(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL, one("a", "1"));
    fixture_expect_request(f, WATCH("10"));
    api_answer(f->asked, 410, NULL, EXPIRED);
    fixture_expect_log(f, "list +a@1 synced ");
    fixture_pass(f, 100, 100);
    relist(f);
    assert_int_equal(lists(f, REFLECTOR_EXPIRED), 1);
    assert_null(reflector_error(f->reflector));
}

static void test_410_as_an_event(void **state)
{
    struct fixture *f = *state;
    follow_well(f);
    api_send(f->asked, "{\"type\":\"ERROR\",\"object\":" EXPIRED "}\n");
    api_expect_given_up(f->asked);
    fixture_pass(f, 100, 100);
    relist(f);
    assert_int_equal(lists(f, REFLECTOR_EXPIRED), 1);
    assert_null(reflector_error(f->reflector));
}

/* A version that expires again and again is no ordinary life; and must not cost the server a list
 * each time at once. */
static void test_410_again_and_again(void **state)
{
    struct fixture *f = *state;
    follow(f);
    uint64_t pause = 100;
    for (int i = 0; i < 12; i++) {
        api_send(f->asked, "{\"type\":\"ERROR\",\"object\":" EXPIRED "}\n");
        api_expect_given_up(f->asked);
        fixture_pass(f, pause, pause);
        pause = pause * 2 < 15000 ? pause * 2 : 15000;
        fixture_expect_request(f, LIST);
        api_answer(f->asked, 200, NULL, fixture_list("10", NULL, NULL));
        fixture_expect_request(f, WATCH("10"));
        api_begin(f->asked, NULL);
    }
    assert_non_null(strstr(reflector_error(f->reflector), "410 Expired: too old"));
    buf_clear(&f->log);
    fixture_pass(f, 1000, 1000);
    fixture_expect_log(f, "fine ");
    assert_null(reflector_error(f->reflector));
    api_send(f->asked, "{\"type\":\"ERROR\",\"object\":" EXPIRED "}\n");
    fixture_pass(f, 100, 100); /* pauses are short again */
    fixture_expect_request(f, LIST);
}

static void test_410_on_a_page(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL,
               fixture_list("10", "t", (const char *[]){fixture_object("a", "1"), NULL}));
    fixture_expect_request(f, LIST "&continue=t");
    api_answer(f->asked, 410, NULL, EXPIRED);
    fixture_expect_log(f, "list +a@1 ");
    fixture_pass(f, 100, 100);
    relist(f);
    assert_int_equal(lists(f, REFLECTOR_START), 1);
    assert_int_equal(lists(f, REFLECTOR_EXPIRED), 1);
}

/* ---- other errors ---- */

static void test_a_list_that_is_refused(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 403, NULL,
               "{\"kind\":\"Status\",\"code\":403,\"reason\":\"Forbidden\",\"message\":\"no\"}");
    fixture_expect_error(f, ": 403 Forbidden: no)");
    assert_non_null(strstr(reflector_error(f->reflector), "cannot list http://127.0.0.1:"));
    assert_non_null(strstr(reflector_error(f->reflector), "/p: 403"));
    assert_true(reflector_forbidden(f->reflector));
    fixture_pass(f, 100, 100);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 500, NULL, "oh");
    fixture_expect_error(f, "500 Internal Server Error: oh)");
    assert_false(reflector_not_found(f->reflector));
    assert_false(reflector_forbidden(f->reflector));
    fixture_pass(f, 200, 200);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 404, NULL, "");
    fixture_expect_error(f, "404");
    assert_true(reflector_not_found(f->reflector));
    fixture_pass(f, 400, 400);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL, one("a", "1"));
    fixture_expect_request(f, WATCH("10"));
    api_begin(f->asked, NULL);
    fixture_expect_log(f, "list +a@1 synced ");
    api_send(f->asked, fixture_event("ADDED", "b", "11"));
    fixture_expect_log(f, "A:b@11 ");
    fixture_pass(f, 1000, 1000);
    fixture_expect_log(f, "fine ");
    assert_int_equal(reflector_stats(f->reflector)->failures, 3);
}

/* A request over a kept connection is repeated by the HTTP client: the new connection is cut too.
 */
static void cut_twice(struct fixture *f, const char *target)
{
    api_cut(f->asked);
    fixture_expect_request(f, target);
    api_cut(f->asked);
}

/* What was read of a list is not read again because the server had a bad moment. */
static void test_a_page_that_fails_is_asked_for_again(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL,
               fixture_list("10", "t", (const char *[]){fixture_object("a", "1"), NULL}));
    fixture_expect_request(f, LIST "&continue=t");
    api_answer(f->asked, 500, NULL, "");
    fixture_pass(f, 100, 100);
    fixture_expect_request(f, LIST "&continue=t");
    cut_twice(f, LIST "&continue=t");
    fixture_pass(f, 200, 200);
    fixture_expect_request(f, LIST "&continue=t");
    buf_clear(&f->log);
    api_answer(f->asked, 200, NULL, one("b", "2"));
    fixture_expect_log(f, "+b@2 synced ");
    fixture_expect_request(f, WATCH("10"));
}

static void test_a_token_that_is_refused(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL, fixture_list("10", "t", NULL));
    fixture_expect_request(f, LIST "&continue=t");
    api_answer(f->asked, 400, NULL, "");
    fixture_expect_error(f, "400");
    fixture_pass(f, 100, 100);
    relist(f);
    assert_int_equal(lists(f, REFLECTOR_REFUSED), 1);
}

static void test_a_watch_that_is_refused(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL, one("a", "1"));
    fixture_expect_log(f, "list +a@1 synced ");
    fixture_expect_request(f, WATCH("10"));
    api_answer(f->asked, 400, NULL, "bad version");
    fixture_expect_error(f, "cannot watch http://127.0.0.1");
    fixture_pass(f, 100, 100);
    relist(f);
    /* The server's state may change: the version is given up only after some attempts. */
    uint64_t pause = 200;
    for (int i = 0; i < 5; i++) {
        api_answer(f->asked, 500, NULL, "");
        fixture_pass(f, pause, pause);
        pause *= 2;
        fixture_expect_request(f, i < 4 ? WATCH("10") : LIST);
    }
    assert_int_equal(lists(f, REFLECTOR_REFUSED), 1); /* the second one is counted when it comes */
    /* The version of the new list has as many. */
    api_answer(f->asked, 200, NULL, one("b", "2"));
    fixture_expect_request(f, WATCH("10"));
    api_answer(f->asked, 500, NULL, "");
    fixture_pass(f, pause, pause);
    fixture_expect_request(f, WATCH("10"));
}

/* A watch that worked shows that the version is good. */
static void test_refusals_before_a_watch_that_worked(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL, one("a", "1"));
    for (uint64_t pause = 100; pause < 1600; pause *= 2) {
        fixture_expect_request(f, WATCH("10"));
        api_answer(f->asked, 500, NULL, "");
        fixture_pass(f, pause, pause);
    }
    fixture_expect_request(f, WATCH("10"));
    api_begin(f->asked, NULL);
    fixture_pass(f, 1000, 1000);
    api_end(f->asked);
    fixture_expect_request(f, WATCH("10"));
    api_answer(f->asked, 500, NULL, "");
    fixture_pass(f, 100, 100);
    fixture_expect_request(f, WATCH("10"));
}

static void test_an_error_event(void **state)
{
    struct fixture *f = *state;
    follow_well(f);
    api_send(f->asked, "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500,"
                       "\"message\":\"etcd\",\"details\":{\"retryAfterSeconds\":2}}}\n");
    api_send(f->asked, fixture_event("ADDED", "b", "11")); /* counts no more */
    fixture_expect_error(f, "500 Internal Server Error: etcd)");
    fixture_pass(f, 2000, 2100);
    relist(f);
    assert_int_equal(lists(f, REFLECTOR_REFUSED), 1);
}

static void test_retry_after(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 429, "7", "");
    fixture_expect_error(f, "429");
    fixture_pass(f, 7000, 7200);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 503, "1", "");
    fixture_expect_error(f, "503");
    fixture_pass(f, 1000, 1200);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL, one("a", "1"));
    fixture_expect_request(f, WATCH("10"));
    api_answer(f->asked, 429, "1000000", "");
    fixture_pass(f, 300000, 300400);
    fixture_expect_request(f, WATCH("10"));
    api_answer(f->asked, 503, "soon", "");
    fixture_pass(f, 800, 800);
    fixture_expect_request(f, WATCH("10"));
}

/* Not even a crowd of these leads to a new list. */
static void test_429_is_no_reason_to_list(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL, one("a", "1"));
    for (int i = 0; i < 10; i++) {
        fixture_expect_request(f, WATCH("10"));
        api_answer(f->asked, 429, NULL, "");
        fixture_pass(f, 100, 15000);
    }
    fixture_expect_request(f, WATCH("10"));
}

static void test_a_connection_that_breaks(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_cut(f->asked);
    fixture_expect_error(f, "cannot list");
    fixture_pass(f, 100, 100);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL, one("a", "1"));
    fixture_expect_request(f, WATCH("10"));
    cut_twice(f, WATCH("10"));
    for (int i = 0; i < 10; i++) {
        fixture_pass(f, 200, 15000);
        fixture_expect_request(f, WATCH("10"));
        api_cut(f->asked);
    }
    fixture_pass(f, 15000, 15000);
    fixture_expect_request(f, WATCH("10"));
    buf_clear(&f->log);
    api_begin(f->asked, NULL);
    api_send(f->asked, fixture_event("ADDED", "b", "11"));
    fixture_expect_log(f, "A:b@11 ");
    fixture_pass(f, 1000, 1000);
    fixture_expect_log(f, "fine ");
    api_cut(f->asked);
    fixture_pass(f, 100, 100);
    fixture_expect_request(f, WATCH("11"));
    fixture_expect_log(f, ""); /* one cut is no news */
    api_cut(f->asked);
    fixture_expect_error(f, "cannot watch");
    fixture_pass(f, 200, 200);
    fixture_expect_request(f, WATCH("11"));
    api_begin(f->asked, NULL);
    fixture_pass(f, 1000, 1000);
    fixture_expect_log(f, "fine ");
}

static void test_nobody_listens(void **state)
{
    struct fixture *f = *state;
    api_stop(&f->api);
    fixture_start_plain(f);
    fixture_expect_error(f, "refused");
    fixture_pass(f, 100, 100);
    fixture_pass(f, 200, 200);
    fixture_expect_deadline(f, 400, 400);
    fixture_expect_log(f, ""); /* the same error is no news */
    assert_int_equal(reflector_stats(f->reflector)->failures, 3);
}

/* ---- bad answers ---- */

static void test_malformed_events(void **state)
{
    static const char *const lines[] = {
        "x\n",
        "{\"type\":\"ADDED\"}\n",
        "{\"type\":\"NEW\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"}}}\n",
        "<html>\n",
    };
    struct fixture *f = *state;
    follow(f);
    for (unsigned i = 0; i < 4; i++) {
        fixture_pass(f, 1000, 1000);
        api_send(f->asked, fixture_event("ADDED", "b", "11"));
        api_send(f->asked, lines[i]);
        api_send(f->asked, fixture_event("ADDED", "c", "12"));
        fixture_expect_error(f, "cannot watch");
        fixture_pass(f, 100, 100);
        relist(f);
        api_begin(f->asked, NULL);
        fixture_expect_deadline(f, 1000, 1000);
        assert_int_equal(lists(f, REFLECTOR_MALFORMED), i + 1);
    }
}

static void await_drain(struct fixture *f)
{
    do {
        (void)uv_run(&f->api.loop->uv, UV_RUN_NOWAIT);
    } while (f->asked->x != NULL && http_exchange_blocked(f->asked->x));
}

static void test_an_event_over_the_bound(void **state)
{
    static char piece[256 * 1024];
    struct fixture *f = *state;
    follow_well(f);
    memset(piece, 'x', sizeof piece);
    while (!f->asked->gone) {
        api_send_bytes(f->asked, slice_of(piece, sizeof piece));
        await_drain(f);
    }
    fixture_expect_error(f, "more than 16777216 bytes");
    fixture_pass(f, 100, 100);
    relist(f);
    assert_int_equal(lists(f, REFLECTOR_MALFORMED), 1);
}

static void test_an_end_inside_of_an_event(void **state)
{
    struct fixture *f = *state;
    follow_well(f);
    api_send(f->asked, "{\"type\":\"ADD");
    api_end(f->asked);
    fixture_expect_error(f, "in the middle of an event");
    fixture_pass(f, 100, 100);
    relist(f);
    assert_int_equal(lists(f, REFLECTOR_MALFORMED), 1);
}

static void test_malformed_pages(void **state)
{
    static const char *const pages[] = {
        "",
        "x",
        "{}",
        "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[{}]}",
        "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[",
    };
    struct fixture *f = *state;
    uint64_t pause = 100;
    fixture_start_plain(f);
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        fixture_expect_request(f, LIST);
        api_answer(f->asked, 200, NULL, pages[i]);
        fixture_expect_error(f, "cannot list");
        fixture_pass(f, pause, pause);
        pause *= 2;
    }
    relist(f);
    assert_int_equal(lists(f, REFLECTOR_MALFORMED), 2); /* and the one in which an item was wrong */
}

/* The second page is wrong: nothing of the list counts. */
static void test_a_malformed_second_page(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL,
               fixture_list("10", "t", (const char *[]){fixture_object("a", "1"), NULL}));
    fixture_expect_request(f, LIST "&continue=t");
    api_answer(f->asked, 200, NULL,
               fixture_list("10", NULL, (const char *[]){fixture_object("b", "2"), "{}", NULL}));
    fixture_expect_error(f, "item 2");
    fixture_pass(f, 100, 100);
    relist(f);
}

static void test_pages_that_are_too_large(void **state)
{
    struct fixture *f = *state;
    struct reflector_options o = {.path = "/p", .page_size = 5};
    static const char *const targets[] = {"/p?limit=5", "/p?limit=2", "/p?limit=1"};
    assert_true(fixture_start(f, &o));
    for (int i = 0; i < 3; i++) {
        fixture_expect_request(f, targets[i]);
        static char piece[512 * 1024];
        api_begin(f->asked, NULL);
        while (!f->asked->gone) {
            api_send_bytes(f->asked, slice_of(piece, sizeof piece));
            await_drain(f);
        }
    }
    fixture_expect_error(f, "more than 67108864 bytes");
    fixture_pass(f, 100, 100);
    fixture_expect_request(f, "/p?limit=1");
    api_answer(f->asked, 200, NULL,
               fixture_list("10", "t", (const char *[]){fixture_object("a", "1"), NULL}));
    /* What made them so large need not be on the next ones. */
    static const char *const next[] = {"/p?limit=2&continue=t", "/p?limit=4&continue=t",
                                       "/p?limit=5&continue=t", "/p?limit=5&continue=t"};
    for (int i = 0; i < 4; i++) {
        fixture_expect_request(f, next[i]);
        api_answer(f->asked, 200, NULL, fixture_list("10", i < 3 ? "t" : NULL, NULL));
    }
    fixture_expect_log(f, "list +a@1 synced ");
}

static void test_a_watch_that_ends_at_once(void **state)
{
    struct fixture *f = *state;
    uint64_t pause = 100;
    follow(f);
    for (int i = 0; i < 5; i++) {
        api_end(f->asked);
        fixture_pass(f, pause, pause);
        pause *= 2;
        if (i < 4) {
            fixture_expect_request(f, WATCH("10"));
            api_begin(f->asked, NULL);
            fixture_expect_deadline(f, 1000, 1000);
        }
    }
    fixture_expect_error(f, "ended immediately");
    relist(f);
    assert_int_equal(lists(f, REFLECTOR_REFUSED), 1);
}

/* Events make a watch no better that ends at once; but nothing failed. */
static void test_watches_that_end_soon(void **state)
{
    struct fixture *f = *state;
    uint64_t pause = 100;
    follow(f);
    for (int i = 0; i < 7; i++) {
        api_send(f->asked, "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{"
                           "\"resourceVersion\":\"20\"}}}\n");
        api_end(f->asked);
        fixture_pass(f, pause, pause);
        pause *= 2;
        fixture_expect_request(f, WATCH("20"));
        api_begin(f->asked, NULL);
        fixture_expect_deadline(f, 1000, 1000);
    }
    assert_int_equal(reflector_stats(f->reflector)->failures, 0);
    api_cut(f->asked);
    fixture_expect_error(f, "cannot watch");
}

/* ---- what does not come ---- */

static void test_a_silent_watch(void **state)
{
    struct fixture *f = *state;
    follow_well(f);
    f->deadline_ms = 0; /* from the event on, not from the beginning */
    api_send(f->asked, fixture_event("ADDED", "b", "11"));
    fixture_expect_log(f, "A:b@11 ");
    fixture_pass(f, SILENCE_MS, SILENCE_MS);
    api_expect_given_up(f->asked);
    fixture_expect_error(f, "nothing received for 330 s");
    fixture_pass(f, 100, 100);
    fixture_expect_request(f, WATCH("11"));
}

static void test_late_answers(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    fixture_pass(f, 60000, 70000);
    api_expect_given_up(f->asked);
    fixture_expect_error(f, "no response for 65 s");
    fixture_pass(f, 100, 100);
    fixture_expect_request(f, LIST);
    api_begin(f->asked, NULL);
    api_send(f->asked, "{");
    fixture_pass(f, 60000, 70000);
    api_expect_given_up(f->asked);
    fixture_pass(f, 200, 200);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL, one("a", "1"));
    fixture_expect_request(f, WATCH("10"));
    fixture_pass(f, 60000, 70000);
    api_expect_given_up(f->asked);
    fixture_pass(f, 400, 400);
    fixture_expect_request(f, WATCH("10"));
    /* Refused, and then not told why. */
    struct http_head head = {.status = 503, .framing = HTTP_BODY_CHUNKED};
    assert_int_equal(http_exchange_send_head(f->asked->x, &head), 0);
    api_send(f->asked, "beca");
    run_for(f->api.loop, 20);
    fixture_pass(f, 60000, 70000);
    api_expect_given_up(f->asked);
    fixture_pass(f, 800, 800);
    fixture_expect_request(f, WATCH("10"));
}

static void test_a_refusal_that_is_cut_off(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL, one("a", "1"));
    fixture_expect_request(f, WATCH("10"));
    struct http_head head = {.status = 410, .framing = HTTP_BODY_CHUNKED};
    assert_int_equal(http_exchange_send_head(f->asked->x, &head), 0);
    api_send(f->asked, "beca");
    run_for(f->api.loop, 20);
    api_cut(f->asked);
    buf_clear(&f->log);
    fixture_pass(f, 100, 100);
    relist(f);
    assert_int_equal(lists(f, REFLECTOR_EXPIRED), 1);
}

/* ---- credentials ---- */

struct secret {
    struct fixture f;
    struct temp_dir dir;
    struct kube_exec exec;
    char path[256];
};

static int secret_setup(void **state)
{
    struct secret *s = calloc(1, sizeof *s);
    struct net_loop *l = NULL;
    if (s == NULL || loop_setup((void **)&l) != 0) {
        return -1;
    }
    s->f.api.loop = l;
    temp_dir_init(&s->dir);
    *state = s;
    return 0;
}

static int secret_teardown(void **state)
{
    struct secret *s = *state;
    struct net_loop *l = s->f.api.loop;
    fixture_close(&s->f);
    int rc = loop_free(l);
    temp_dir_deinit(&s->dir);
    free(s);
    return rc;
}

static void test_a_token_that_is_rotated(void **state)
{
    struct secret *s = *state;
    struct fixture *f = &s->f;
    temp_dir_write(&s->dir, "token", "old", 0600);
    f->api.access.token_file = (char *)(size_t)temp_dir_path(&s->dir, "token", s->path);
    assert_true(fixture_open(f, f->api.loop));
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    assert_string_equal(f->asked->authorization, "Bearer old");
    temp_dir_write(&s->dir, "token", "newer", 0600);
    run_for(f->api.loop, 1100); /* files are not looked at more often */
    api_answer(f->asked, 401, NULL, "");
    fixture_expect_error(f, "401");
    fixture_expect_request(f, "/version"); /* whether the credential is accepted */
    api_answer(f->asked, 200, NULL, "{}");
    fixture_pass(f, 100, 100);
    fixture_expect_request(f, LIST);
    assert_string_equal(f->asked->authorization, "Bearer newer");
    api_answer(f->asked, 200, NULL, one("a", "1"));
    fixture_expect_request(f, WATCH("10"));
    /* And in place of a watch. */
    temp_dir_write(&s->dir, "token", "newest", 0600);
    run_for(f->api.loop, 1100);
    api_answer(f->asked, 401, NULL, "");
    fixture_pass(f, 200, 200);
    fixture_expect_request(f, WATCH("10"));
    assert_string_equal(f->asked->authorization, "Bearer newest");
}

static void test_waits_for_credentials(void **state)
{
    struct secret *s = *state;
    struct fixture *f = &s->f;
    static char shell[] = "/bin/sh", dash_c[] = "-c", version[] = "client.authentication.k8s.io/v1";
    char script[1024];
    (void)snprintf(script, sizeof script,
                   "until [ -e %s/go ]; do sleep 0.02; done; echo '{\"apiVersion\":\"%s\","
                   "\"kind\":\"ExecCredential\",\"status\":{\"token\":\"made\"}}'",
                   s->dir.path, version);
    char *args[] = {dash_c, script, NULL};
    s->exec = (struct kube_exec){.command = shell, .args = args, .api_version = version};
    f->api.access.exec = &s->exec;
    assert_true(fixture_open(f, f->api.loop));
    fixture_start_plain(f);
    fixture_expect_error(f, "waiting for credentials");
    fixture_pass(f, 500, 500);
    api_expect_quiet(&f->api);
    fixture_expect_log(f, "");
    temp_dir_write(&s->dir, "go", "", 0600);
    for (int i = 0; i < 1000 && !kube_client_ready(f->api.client); i++) {
        run_for(f->api.loop, 5);
    }
    fixture_pass(f, 500, 500);
    fixture_expect_request(f, LIST);
    assert_string_equal(f->asked->authorization, "Bearer made");
    assert_int_equal(reflector_stats(f->reflector)->failures, 0);
}

/* ---- the end ---- */

static void end(struct fixture *f)
{
    reflector_free(f->reflector);
    f->reflector = NULL;
    buf_clear(&f->log);
    run_for(f->api.loop, 10);
    fixture_expect_log(f, "");
}

static void test_free_before_anything(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    end(f);
    assert_int_equal(f->api.count, 0);
}

static void test_free_while_listing(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    end(f);
    api_expect_given_up(f->asked);
}

static void test_free_inside_of_a_page(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_begin(f->asked, NULL);
    api_send(f->asked, "{\"items\":[{");
    run_for(f->api.loop, 10);
    end(f);
    api_expect_given_up(f->asked);
}

static void test_free_between_pages(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL, fixture_list("10", "t", NULL));
    fixture_expect_request(f, LIST "&continue=t");
    end(f);
    api_expect_given_up(f->asked);
}

static void test_free_while_waiting(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 500, NULL, "");
    fixture_expect_deadline(f, 100, 100);
    end(f);
    assert_true(list_empty(&f->deadlines));
}

static void test_free_while_opening(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL, one("a", "1"));
    fixture_expect_request(f, WATCH("10"));
    end(f);
    api_expect_given_up(f->asked);
}

static void test_free_while_refused(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL, one("a", "1"));
    fixture_expect_request(f, WATCH("10"));
    struct http_head head = {.status = 503, .framing = HTTP_BODY_CHUNKED};
    assert_int_equal(http_exchange_send_head(f->asked->x, &head), 0);
    api_send(f->asked, "beca");
    run_for(f->api.loop, 10);
    end(f);
    api_expect_given_up(f->asked);
}

static void test_free_while_proving(void **state)
{
    struct fixture *f = *state;
    follow(f);
    end(f);
    api_expect_given_up(f->asked);
}

static void test_free_inside_of_an_event(void **state)
{
    struct fixture *f = *state;
    follow_well(f);
    api_send(f->asked, "{\"type\":");
    run_for(f->api.loop, 10);
    end(f);
    api_expect_given_up(f->asked);
}

/* The handler that frees is the last one that is called. */
static void free_in(struct fixture *f, enum user_whim whim, const char *expected)
{
    f->whim = whim;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_answer(
        f->asked, 200, NULL,
        fixture_list("10", "t",
                     (const char *[]){fixture_object("a", "1"), fixture_object("b", "1"), NULL}));
    if (whim == USER_FREES_ON_SYNCED) {
        fixture_expect_request(f, LIST "&continue=t");
        api_answer(f->asked, 200, NULL, one("c", "1"));
    }
    fixture_expect_log(f, expected);
    api_expect_quiet(&f->api);
    assert_null(f->reflector);
}

static void test_free_in_on_list(void **state)
{
    free_in(*state, USER_FREES_ON_LIST, "list ");
}

static void test_free_in_on_object(void **state)
{
    free_in(*state, USER_FREES_ON_OBJECT, "list +a@1 ");
}

static void test_free_in_on_synced(void **state)
{
    free_in(*state, USER_FREES_ON_SYNCED, "list +a@1 +b@1 +c@1 synced ");
}

static void test_free_in_an_event(void **state)
{
    struct fixture *f = *state;
    follow(f);
    f->whim = USER_FREES_ON_OBJECT;
    api_send(f->asked, fixture_event("ADDED", "b", "11"));
    api_send(f->asked, fixture_event("ADDED", "c", "12"));
    fixture_expect_log(f, "A:b@11 ");
    api_expect_given_up(f->asked);
}

static void test_free_when_an_error_is_told(void **state)
{
    struct fixture *f = *state;
    f->whim = USER_FREES_ON_STATE;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 401, NULL, "");
    fixture_expect_error(f, "401");
    api_expect_quiet(&f->api);
    assert_null(f->reflector);
    assert_true(list_empty(&f->deadlines));
}

static void test_free_when_all_is_well(void **state)
{
    struct fixture *f = *state;
    fixture_start_plain(f);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 500, NULL, "");
    fixture_pass(f, 100, 100);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL, one("a", "1"));
    fixture_expect_request(f, WATCH("10"));
    buf_clear(&f->log);
    f->whim = USER_FREES_ON_STATE;
    api_begin(f->asked, NULL);
    fixture_pass(f, 1000, 1000);
    fixture_expect_log(f, "fine ");
    api_expect_given_up(f->asked);
}

static void test_handlers_that_are_not_there(void **state)
{
    struct fixture *f = *state;
    static const struct reflector_handlers none = {.on_object = NULL};
    struct reflector_options o = {.path = "/p", .client = f->api.client, .ops = &f->ops};
    f->reflector = reflector_new(f->api.loop, &o, &none, f, NULL);
    assert_non_null(f->reflector);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 500, NULL, "");
    fixture_pass(f, 100, 100);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 200, NULL, fixture_list("10", NULL, NULL));
    fixture_expect_request(f, WATCH("10"));
    api_begin(f->asked, NULL);
    fixture_pass(f, 1000, 1000);
    assert_null(reflector_error(f->reflector));
}

static void test_wrong_options(void **state)
{
    struct fixture *f = *state;
    struct err e = ERR_INIT;
    struct reflector_options o = {.path = "p", .client = f->api.client};
    assert_null(reflector_new(f->api.loop, &o, NULL, f, &e));
    assert_int_equal(e.code, -EINVAL);
    assert_non_null(strstr(e.msg, "\"p\""));
}

/* With the loop's own clock and the system's random numbers. */
static void test_real_time(void **state)
{
    struct fixture *f = *state;
    struct reflector_options o = {.path = "/p"};
    assert_true(fixture_start(f, &o));
    end(f);
    o.ops = NULL;
    static const struct reflector_handlers none = {.on_object = NULL};
    f->reflector = reflector_new(f->api.loop, &o, &none, f, NULL);
    fixture_expect_request(f, LIST);
    api_answer(f->asked, 500, NULL, "");
    uint64_t before = net_loop_now(f->api.loop);
    fixture_expect_request(f, LIST);
    assert_in_range(net_loop_now(f->api.loop) - before, 90, 5000);
    api_answer(f->asked, 200, NULL, fixture_list("10", NULL, NULL));
    for (int i = 0; i < 3000 && !reflector_stats(f->reflector)->watches; i++) {
        if (f->asked->x != NULL && !f->asked->begun) {
            api_begin(f->asked, NULL);
        }
        run_for(f->api.loop, 1);
    }
    assert_true(reflector_stats(f->reflector)->following);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define WITH_SECRET(test) cmocka_unit_test_setup_teardown(test, secret_setup, secret_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_asks_for_pages_when_they_are_wanted),
        WITH_FIXTURE(test_freed_while_held),
        WITH_FIXTURE(test_lists_again_when_asked_to),
        WITH_FIXTURE(test_lists_pages_and_watches),
        WITH_FIXTURE(test_asks_for_a_part),
        WITH_FIXTURE(test_watches_last_differently),
        WITH_FIXTURE(test_events_in_pieces),
        WITH_FIXTURE(test_an_ordinary_end_is_followed_by_the_next_watch_at_once),
        WITH_FIXTURE(test_metadata_only),
        WITH_FIXTURE(test_metadata_only_refused_for_the_list),
        WITH_FIXTURE(test_410_in_place_of_a_watch),
        WITH_FIXTURE(test_410_as_an_event),
        WITH_FIXTURE(test_410_again_and_again),
        WITH_FIXTURE(test_410_on_a_page),
        WITH_FIXTURE(test_a_list_that_is_refused),
        WITH_FIXTURE(test_a_page_that_fails_is_asked_for_again),
        WITH_FIXTURE(test_a_token_that_is_refused),
        WITH_FIXTURE(test_a_watch_that_is_refused),
        WITH_FIXTURE(test_refusals_before_a_watch_that_worked),
        WITH_FIXTURE(test_an_error_event),
        WITH_FIXTURE(test_retry_after),
        WITH_FIXTURE(test_429_is_no_reason_to_list),
        WITH_FIXTURE(test_a_connection_that_breaks),
        WITH_FIXTURE(test_nobody_listens),
        WITH_FIXTURE(test_malformed_events),
        WITH_FIXTURE(test_an_event_over_the_bound),
        WITH_FIXTURE(test_an_end_inside_of_an_event),
        WITH_FIXTURE(test_malformed_pages),
        WITH_FIXTURE(test_a_malformed_second_page),
        WITH_FIXTURE(test_pages_that_are_too_large),
        WITH_FIXTURE(test_a_watch_that_ends_at_once),
        WITH_FIXTURE(test_watches_that_end_soon),
        WITH_FIXTURE(test_a_silent_watch),
        WITH_FIXTURE(test_late_answers),
        WITH_FIXTURE(test_a_refusal_that_is_cut_off),
        WITH_SECRET(test_a_token_that_is_rotated),
        WITH_SECRET(test_waits_for_credentials),
        WITH_FIXTURE(test_free_before_anything),
        WITH_FIXTURE(test_free_while_listing),
        WITH_FIXTURE(test_free_inside_of_a_page),
        WITH_FIXTURE(test_free_between_pages),
        WITH_FIXTURE(test_free_while_waiting),
        WITH_FIXTURE(test_free_while_opening),
        WITH_FIXTURE(test_free_while_refused),
        WITH_FIXTURE(test_free_while_proving),
        WITH_FIXTURE(test_free_inside_of_an_event),
        WITH_FIXTURE(test_free_in_on_list),
        WITH_FIXTURE(test_free_in_on_object),
        WITH_FIXTURE(test_free_in_on_synced),
        WITH_FIXTURE(test_free_in_an_event),
        WITH_FIXTURE(test_free_when_an_error_is_told),
        WITH_FIXTURE(test_free_when_all_is_well),
        WITH_FIXTURE(test_handlers_that_are_not_there),
        WITH_FIXTURE(test_wrong_options),
        WITH_FIXTURE(test_real_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
