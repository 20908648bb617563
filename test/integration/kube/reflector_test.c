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
#include "reflector_world.h"
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
    struct world *w = calloc(1, sizeof *w);
    if (w == NULL || loop_setup((void **)&l) != 0 || !world_open(w, l)) {
        return -1;
    }
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    struct net_loop *l = w->loop;
    world_close(w);
    free(w);
    return loop_free(l);
}

static const char *one(const char *name, const char *version)
{
    return world_list("10", NULL, (const char *[]){world_object(name, version), NULL});
}

/* Lists a@1, watches from 10, and the watch is open. */
static void follow(struct world *w)
{
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_answer(w, 200, NULL, one("a", "1"));
    world_expect_log(w, "list +a@1 synced ");
    world_expect_request(w, WATCH("10"));
    world_begin(w);
    world_expect_deadline(w, 1000, 1000);
}

/* And it has proved to work. */
static void follow_well(struct world *w)
{
    follow(w);
    world_pass(w, 1000, 1000);
    world_expect_deadline(w, SILENCE_MS, SILENCE_MS);
}

/* Lists again, from the beginning. */
static void relist(struct world *w)
{
    world_expect_request(w, LIST);
    world_answer(w, 200, NULL, one("b", "2"));
    world_expect_log(w, "list +b@2 synced ");
    world_expect_request(w, WATCH("10"));
}

static uint64_t lists(const struct world *w, enum reflector_reason reason)
{
    return reflector_stats(w->reflector)->lists[reason];
}

/* ---- ordinary life ---- */

static void test_lists_pages_and_watches(void **state)
{
    struct world *w = *state;
    const struct reflector_stats *s;
    world_start_plain(w);
    s = reflector_stats(w->reflector);
    world_expect_request(w, LIST);
    assert_string_equal(w->accept, "application/json");
    const char *first[] = {world_object("a", "1"), world_object("b", "2"), NULL};
    world_answer(w, 200, NULL, world_list("10", "t/1", first));
    world_expect_log(w, "list +a@1 +b@2 ");
    assert_false(s->synced);
    world_expect_request(w, LIST "&continue=t%2F1");
    world_answer(w, 200, NULL, world_list("10", "t2", NULL));
    world_expect_request(w, LIST "&continue=t2");
    world_answer(w, 200, NULL, one("c", "3"));
    world_expect_log(w, "+c@3 synced ");
    world_expect_request(w, WATCH("10"));
    assert_false(s->following);
    world_begin(w);
    world_send(w, world_event("ADDED", "d", "11"));
    world_send(w, world_event("MODIFIED", "a", "12"));
    world_send(w, world_event("DELETED", "b", "13"));
    world_expect_log(w, "A:d@11 M:a@12 D:b@13 ");
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
    struct world *w = *state;
    world_start_plain(w);
    reflector_hold(w->reflector);
    world_expect_quiet(w);
    reflector_release(w->reflector);
    reflector_release(w->reflector);
    world_expect_request(w, LIST);
    reflector_hold(w->reflector);
    world_answer(w, 200, NULL,
                 world_list("10", "t", (const char *[]){world_object("a", "1"), NULL}));
    world_expect_log(w, "list +a@1 "); /* what was on its way */
    world_expect_quiet(w);
    reflector_release(w->reflector);
    world_expect_request(w, LIST "&continue=t");
    world_answer(w, 410, NULL, EXPIRED); /* the server does not keep a list for ever */
    reflector_hold(w->reflector);
    world_pass(w, 100, 200);
    world_expect_quiet(w);
    reflector_release(w->reflector);
    world_expect_request(w, LIST);
    world_answer(w, 200, NULL, one("a", "1"));
    reflector_hold(w->reflector);
    world_expect_log(w, "list +a@1 synced ");
    world_expect_request(w, WATCH("10")); /* is no page */
    world_begin(w);
    world_send(w, world_event("ADDED", "d", "11"));
    world_expect_log(w, "A:d@11 ");
}

static void test_freed_while_held(void **state)
{
    struct world *w = *state;
    world_start_plain(w);
    reflector_hold(w->reflector);
    world_expect_quiet(w);
    reflector_free(w->reflector);
    w->reflector = NULL;
    world_expect_quiet(w);
}

static void test_asks_for_a_part(void **state)
{
    struct world *w = *state;
    struct reflector_options o = {.path = "/api/v1/namespaces/n/pods",
                                  .name = "x",
                                  .label_selector = "a in (b)",
                                  .field_selector = "f=g",
                                  .page_size = 7};
    assert_true(world_start(w, &o));
    world_expect_request(w, "/api/v1/namespaces/n/pods?labelSelector=a%20in%20%28b%29"
                            "&fieldSelector=metadata.name%3Dx%2Cf%3Dg&limit=7");
    world_answer(w, 200, NULL, world_list("9", NULL, NULL));
    world_expect_log(w, "list synced ");
    w->random = 0;
    world_expect_request(w, "/api/v1/namespaces/n/pods?labelSelector=a%20in%20%28b%29"
                            "&fieldSelector=metadata.name%3Dx%2Cf%3Dg&watch=true"
                            "&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=9");
}

static void test_watches_last_differently(void **state)
{
    struct world *w = *state;
    w->random = 300;
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_answer(w, 200, NULL, one("a", "1"));
    world_expect_request(w, "/p?watch=true&allowWatchBookmarks=true&timeoutSeconds=600"
                            "&resourceVersion=10");
}

static void test_events_in_pieces(void **state)
{
    struct world *w = *state;
    follow(w);
    const char *text = world_event("ADDED", "b", "11");
    for (const char *p = text; *p != '\0'; p++) {
        world_send_bytes(w, slice_of(p, 1));
        run_for(w->loop, 1);
    }
    world_send(w, world_event("MODIFIED", "b", "12"));
    world_expect_log(w, "A:b@11 M:b@12 ");
}

static void test_an_ordinary_end_is_followed_by_the_next_watch_at_once(void **state)
{
    struct world *w = *state;
    follow(w);
    world_send(w, world_event("ADDED", "b", "11"));
    world_send(w,
               "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"20\"}}}\n");
    world_expect_log(w, "A:b@11 ");
    world_pass(w, 1000, 1000);
    world_end(w);
    world_expect_request(w, WATCH("20"));
    world_begin(w);
    world_pass(w, 1000, 1000);
    world_end(w);
    world_expect_request(w, WATCH("20"));
    const struct reflector_stats *s = reflector_stats(w->reflector);
    assert_int_equal(s->bookmarks, 1);
    assert_int_equal(s->watches, 2);
    assert_int_equal(s->failures, 0);
    world_expect_log(w, "");
}

static void test_metadata_only(void **state)
{
    struct world *w = *state;
    struct reflector_options o = {.path = "/p", .metadata_only = true};
    assert_true(world_start(w, &o));
    world_expect_request(w, LIST);
    assert_string_equal(w->accept, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;"
                                   "v=v1,application/json");
    world_answer(w, 200, NULL, one("a", "1"));
    world_expect_request(w, WATCH("10"));
    assert_string_equal(w->accept, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
                                   "application/json");
    /* A server that does not know it. */
    world_answer(w, 406, NULL, "");
    world_expect_request(w, WATCH("10"));
    assert_string_equal(w->accept, "application/json");
    world_begin(w);
    world_send(w, world_event("ADDED", "b", "11"));
    world_expect_log(w, "list +a@1 synced A:b@11 ");
    assert_int_equal(reflector_stats(w->reflector)->failures, 0);
}

static void test_metadata_only_refused_for_the_list(void **state)
{
    struct world *w = *state;
    struct reflector_options o = {.path = "/p", .metadata_only = true};
    assert_true(world_start(w, &o));
    world_expect_request(w, LIST);
    world_answer(w, 406, NULL, "");
    world_expect_request(w, LIST);
    assert_string_equal(w->accept, "application/json");
    /* And one that does not even know that. */
    world_answer(w, 406, NULL, "");
    world_expect_error(w, "406");
    world_pass(w, 100, 100);
    world_expect_request(w, LIST);
}

/* ---- expired versions ---- */

static void test_410_in_place_of_a_watch(void **state)
{
    struct world *w = *state;
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_answer(w, 200, NULL, one("a", "1"));
    world_expect_request(w, WATCH("10"));
    world_answer(w, 410, NULL, EXPIRED);
    world_expect_log(w, "list +a@1 synced ");
    world_pass(w, 100, 100);
    relist(w);
    assert_int_equal(lists(w, REFLECTOR_EXPIRED), 1);
    assert_null(reflector_error(w->reflector));
}

static void test_410_as_an_event(void **state)
{
    struct world *w = *state;
    follow_well(w);
    world_send(w, "{\"type\":\"ERROR\",\"object\":" EXPIRED "}\n");
    world_expect_gone(w);
    world_pass(w, 100, 100);
    relist(w);
    assert_int_equal(lists(w, REFLECTOR_EXPIRED), 1);
    assert_null(reflector_error(w->reflector));
}

/* A version that expires again and again is no ordinary life; and must not cost the server a list
 * each time at once. */
static void test_410_again_and_again(void **state)
{
    struct world *w = *state;
    follow(w);
    uint64_t pause = 100;
    for (int i = 0; i < 12; i++) {
        world_send(w, "{\"type\":\"ERROR\",\"object\":" EXPIRED "}\n");
        world_expect_gone(w);
        world_pass(w, pause, pause);
        pause = pause * 2 < 15000 ? pause * 2 : 15000;
        world_expect_request(w, LIST);
        world_answer(w, 200, NULL, world_list("10", NULL, NULL));
        world_expect_request(w, WATCH("10"));
        world_begin(w);
    }
    assert_non_null(strstr(reflector_error(w->reflector), "410 Expired: too old"));
    buf_clear(&w->log);
    world_pass(w, 1000, 1000);
    world_expect_log(w, "fine ");
    assert_null(reflector_error(w->reflector));
    world_send(w, "{\"type\":\"ERROR\",\"object\":" EXPIRED "}\n");
    world_pass(w, 100, 100); /* pauses are short again */
    world_expect_request(w, LIST);
}

static void test_410_on_a_page(void **state)
{
    struct world *w = *state;
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_answer(w, 200, NULL,
                 world_list("10", "t", (const char *[]){world_object("a", "1"), NULL}));
    world_expect_request(w, LIST "&continue=t");
    world_answer(w, 410, NULL, EXPIRED);
    world_expect_log(w, "list +a@1 ");
    world_pass(w, 100, 100);
    relist(w);
    assert_int_equal(lists(w, REFLECTOR_START), 1);
    assert_int_equal(lists(w, REFLECTOR_EXPIRED), 1);
}

/* ---- other errors ---- */

static void test_a_list_that_is_refused(void **state)
{
    struct world *w = *state;
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_answer(w, 403, NULL,
                 "{\"kind\":\"Status\",\"code\":403,\"reason\":\"Forbidden\",\"message\":\"no\"}");
    world_expect_error(w, ": 403 Forbidden: no)");
    assert_non_null(strstr(reflector_error(w->reflector), "cannot list http://127.0.0.1:"));
    assert_non_null(strstr(reflector_error(w->reflector), "/p: 403"));
    world_pass(w, 100, 100);
    world_expect_request(w, LIST);
    world_answer(w, 500, NULL, "oh");
    world_expect_error(w, "500 Internal Server Error: oh)");
    world_pass(w, 200, 200);
    world_expect_request(w, LIST);
    world_answer(w, 404, NULL, "");
    world_expect_error(w, "404");
    world_pass(w, 400, 400);
    world_expect_request(w, LIST);
    world_answer(w, 200, NULL, one("a", "1"));
    world_expect_request(w, WATCH("10"));
    world_begin(w);
    world_expect_log(w, "list +a@1 synced ");
    world_send(w, world_event("ADDED", "b", "11"));
    world_expect_log(w, "A:b@11 ");
    world_pass(w, 1000, 1000);
    world_expect_log(w, "fine ");
    assert_int_equal(reflector_stats(w->reflector)->failures, 3);
}

/* A request over a kept connection is repeated by the HTTP client: the new connection is cut too.
 */
static void cut_twice(struct world *w, const char *target)
{
    world_cut(w);
    world_expect_request(w, target);
    world_cut(w);
}

/* What was read of a list is not read again because the server had a bad moment. */
static void test_a_page_that_fails_is_asked_for_again(void **state)
{
    struct world *w = *state;
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_answer(w, 200, NULL,
                 world_list("10", "t", (const char *[]){world_object("a", "1"), NULL}));
    world_expect_request(w, LIST "&continue=t");
    world_answer(w, 500, NULL, "");
    world_pass(w, 100, 100);
    world_expect_request(w, LIST "&continue=t");
    cut_twice(w, LIST "&continue=t");
    world_pass(w, 200, 200);
    world_expect_request(w, LIST "&continue=t");
    buf_clear(&w->log);
    world_answer(w, 200, NULL, one("b", "2"));
    world_expect_log(w, "+b@2 synced ");
    world_expect_request(w, WATCH("10"));
}

static void test_a_token_that_is_refused(void **state)
{
    struct world *w = *state;
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_answer(w, 200, NULL, world_list("10", "t", NULL));
    world_expect_request(w, LIST "&continue=t");
    world_answer(w, 400, NULL, "");
    world_expect_error(w, "400");
    world_pass(w, 100, 100);
    relist(w);
    assert_int_equal(lists(w, REFLECTOR_REFUSED), 1);
}

static void test_a_watch_that_is_refused(void **state)
{
    struct world *w = *state;
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_answer(w, 200, NULL, one("a", "1"));
    world_expect_log(w, "list +a@1 synced ");
    world_expect_request(w, WATCH("10"));
    world_answer(w, 400, NULL, "bad version");
    world_expect_error(w, "cannot watch http://127.0.0.1");
    world_pass(w, 100, 100);
    relist(w);
    /* The server's state may change: the version is given up only after some attempts. */
    uint64_t pause = 200;
    for (int i = 0; i < 5; i++) {
        world_answer(w, 500, NULL, "");
        world_pass(w, pause, pause);
        pause *= 2;
        world_expect_request(w, i < 4 ? WATCH("10") : LIST);
    }
    assert_int_equal(lists(w, REFLECTOR_REFUSED), 1); /* the second one is counted when it comes */
}

static void test_an_error_event(void **state)
{
    struct world *w = *state;
    follow_well(w);
    world_send(w, "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500,"
                  "\"message\":\"etcd\",\"details\":{\"retryAfterSeconds\":2}}}\n");
    world_send(w, world_event("ADDED", "b", "11")); /* counts no more */
    world_expect_error(w, "500 Internal Server Error: etcd)");
    world_pass(w, 2000, 2100);
    relist(w);
    assert_int_equal(lists(w, REFLECTOR_REFUSED), 1);
}

static void test_retry_after(void **state)
{
    struct world *w = *state;
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_answer(w, 429, "7", "");
    world_expect_error(w, "429");
    world_pass(w, 7000, 7200);
    world_expect_request(w, LIST);
    world_answer(w, 503, "1", "");
    world_expect_error(w, "503");
    world_pass(w, 1000, 1200);
    world_expect_request(w, LIST);
    world_answer(w, 200, NULL, one("a", "1"));
    world_expect_request(w, WATCH("10"));
    world_answer(w, 429, "1000000", "");
    world_pass(w, 300000, 300400);
    world_expect_request(w, WATCH("10"));
    world_answer(w, 503, "soon", "");
    world_pass(w, 800, 800);
    world_expect_request(w, WATCH("10"));
}

/* Not even a crowd of these leads to a new list. */
static void test_429_is_no_reason_to_list(void **state)
{
    struct world *w = *state;
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_answer(w, 200, NULL, one("a", "1"));
    for (int i = 0; i < 10; i++) {
        world_expect_request(w, WATCH("10"));
        world_answer(w, 429, NULL, "");
        world_pass(w, 100, 15000);
    }
    world_expect_request(w, WATCH("10"));
}

static void test_a_connection_that_breaks(void **state)
{
    struct world *w = *state;
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_cut(w);
    world_expect_error(w, "cannot list");
    world_pass(w, 100, 100);
    world_expect_request(w, LIST);
    world_answer(w, 200, NULL, one("a", "1"));
    world_expect_request(w, WATCH("10"));
    cut_twice(w, WATCH("10"));
    for (int i = 0; i < 10; i++) {
        world_pass(w, 200, 15000);
        world_expect_request(w, WATCH("10"));
        world_cut(w);
    }
    world_pass(w, 15000, 15000);
    world_expect_request(w, WATCH("10"));
    buf_clear(&w->log);
    world_begin(w);
    world_send(w, world_event("ADDED", "b", "11"));
    world_expect_log(w, "A:b@11 ");
    world_pass(w, 1000, 1000);
    world_expect_log(w, "fine ");
    world_cut(w);
    world_pass(w, 100, 100);
    world_expect_request(w, WATCH("11"));
    world_expect_log(w, ""); /* one cut is no news */
    world_cut(w);
    world_expect_error(w, "cannot watch");
    world_pass(w, 200, 200);
    world_expect_request(w, WATCH("11"));
    world_begin(w);
    world_pass(w, 1000, 1000);
    world_expect_log(w, "fine ");
}

static void test_nobody_listens(void **state)
{
    struct world *w = *state;
    http_server_free(w->server);
    w->server = NULL;
    world_start_plain(w);
    world_expect_error(w, "refused");
    world_pass(w, 100, 100);
    world_pass(w, 200, 200);
    world_expect_deadline(w, 400, 400);
    world_expect_log(w, ""); /* the same error is no news */
    assert_int_equal(reflector_stats(w->reflector)->failures, 3);
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
    struct world *w = *state;
    follow(w);
    for (unsigned i = 0; i < 4; i++) {
        world_pass(w, 1000, 1000);
        world_send(w, world_event("ADDED", "b", "11"));
        world_send(w, lines[i]);
        world_send(w, world_event("ADDED", "c", "12"));
        world_expect_error(w, "cannot watch");
        world_pass(w, 100, 100);
        relist(w);
        world_begin(w);
        world_expect_deadline(w, 1000, 1000);
        assert_int_equal(lists(w, REFLECTOR_MALFORMED), i + 1);
    }
}

static void await_drain(struct world *w)
{
    do {
        (void)uv_run(&w->loop->uv, UV_RUN_NOWAIT);
    } while (w->asked != NULL && http_exchange_blocked(w->asked));
}

static void test_an_event_over_the_bound(void **state)
{
    static char piece[256 * 1024];
    struct world *w = *state;
    follow_well(w);
    memset(piece, 'x', sizeof piece);
    while (!w->gone) {
        world_send_bytes(w, slice_of(piece, sizeof piece));
        await_drain(w);
    }
    world_expect_error(w, "more than 16777216 bytes");
    world_pass(w, 100, 100);
    relist(w);
    assert_int_equal(lists(w, REFLECTOR_MALFORMED), 1);
}

static void test_an_end_inside_of_an_event(void **state)
{
    struct world *w = *state;
    follow_well(w);
    world_send(w, "{\"type\":\"ADD");
    world_end(w);
    world_expect_error(w, "in the middle of an event");
    world_pass(w, 100, 100);
    relist(w);
    assert_int_equal(lists(w, REFLECTOR_MALFORMED), 1);
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
    struct world *w = *state;
    uint64_t pause = 100;
    world_start_plain(w);
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        world_expect_request(w, LIST);
        world_answer(w, 200, NULL, pages[i]);
        world_expect_error(w, "cannot list");
        world_pass(w, pause, pause);
        pause *= 2;
    }
    relist(w);
    assert_int_equal(lists(w, REFLECTOR_MALFORMED), 2); /* and the one in which an item was wrong */
}

/* The second page is wrong: nothing of the list counts. */
static void test_a_malformed_second_page(void **state)
{
    struct world *w = *state;
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_answer(w, 200, NULL,
                 world_list("10", "t", (const char *[]){world_object("a", "1"), NULL}));
    world_expect_request(w, LIST "&continue=t");
    world_answer(w, 200, NULL,
                 world_list("10", NULL, (const char *[]){world_object("b", "2"), "{}", NULL}));
    world_expect_error(w, "item 2");
    world_pass(w, 100, 100);
    relist(w);
}

static void test_pages_that_are_too_large(void **state)
{
    struct world *w = *state;
    struct reflector_options o = {.path = "/p", .page_size = 5};
    static const char *const targets[] = {"/p?limit=5", "/p?limit=2", "/p?limit=1"};
    assert_true(world_start(w, &o));
    for (int i = 0; i < 3; i++) {
        world_expect_request(w, targets[i]);
        static char piece[512 * 1024];
        world_begin(w);
        while (!w->gone) {
            world_send_bytes(w, slice_of(piece, sizeof piece));
            await_drain(w);
        }
    }
    world_expect_error(w, "more than 67108864 bytes");
    world_pass(w, 100, 100);
    world_expect_request(w, "/p?limit=1");
    world_answer(w, 200, NULL, one("a", "1"));
    world_expect_log(w, "list +a@1 synced ");
}

static void test_a_watch_that_ends_at_once(void **state)
{
    struct world *w = *state;
    uint64_t pause = 100;
    follow(w);
    for (int i = 0; i < 5; i++) {
        world_end(w);
        world_pass(w, pause, pause);
        pause *= 2;
        if (i < 4) {
            world_expect_request(w, WATCH("10"));
            world_begin(w);
            world_expect_deadline(w, 1000, 1000);
        }
    }
    world_expect_error(w, "ended immediately");
    relist(w);
    assert_int_equal(lists(w, REFLECTOR_REFUSED), 1);
}

/* Events make a watch no better that ends at once; but nothing failed. */
static void test_watches_that_end_soon(void **state)
{
    struct world *w = *state;
    uint64_t pause = 100;
    follow(w);
    for (int i = 0; i < 7; i++) {
        world_send(w, "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{"
                      "\"resourceVersion\":\"20\"}}}\n");
        world_end(w);
        world_pass(w, pause, pause);
        pause *= 2;
        world_expect_request(w, WATCH("20"));
        world_begin(w);
        world_expect_deadline(w, 1000, 1000);
    }
    assert_int_equal(reflector_stats(w->reflector)->failures, 0);
    world_cut(w);
    world_expect_error(w, "cannot watch");
}

/* ---- what does not come ---- */

static void test_a_silent_watch(void **state)
{
    struct world *w = *state;
    follow_well(w);
    world_send(w, world_event("ADDED", "b", "11"));
    world_expect_log(w, "A:b@11 ");
    world_pass(w, SILENCE_MS, SILENCE_MS);
    world_expect_gone(w);
    world_expect_error(w, "nothing received for 330 s");
    world_pass(w, 100, 100);
    world_expect_request(w, WATCH("11"));
}

static void test_late_answers(void **state)
{
    struct world *w = *state;
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_pass(w, 60000, 70000);
    world_expect_gone(w);
    world_expect_error(w, "no response for 65 s");
    world_pass(w, 100, 100);
    world_expect_request(w, LIST);
    world_begin(w);
    world_send(w, "{");
    world_pass(w, 60000, 70000);
    world_expect_gone(w);
    world_pass(w, 200, 200);
    world_expect_request(w, LIST);
    world_answer(w, 200, NULL, one("a", "1"));
    world_expect_request(w, WATCH("10"));
    world_pass(w, 60000, 70000);
    world_expect_gone(w);
    world_pass(w, 400, 400);
    world_expect_request(w, WATCH("10"));
    /* Refused, and then not told why. */
    struct http_head head = {.status = 503, .framing = HTTP_BODY_CHUNKED};
    assert_int_equal(http_exchange_send_head(w->asked, &head), 0);
    world_send(w, "beca");
    run_for(w->loop, 20);
    world_pass(w, 60000, 70000);
    world_expect_gone(w);
    world_pass(w, 800, 800);
    world_expect_request(w, WATCH("10"));
}

static void test_a_refusal_that_is_cut_off(void **state)
{
    struct world *w = *state;
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_answer(w, 200, NULL, one("a", "1"));
    world_expect_request(w, WATCH("10"));
    struct http_head head = {.status = 410, .framing = HTTP_BODY_CHUNKED};
    assert_int_equal(http_exchange_send_head(w->asked, &head), 0);
    world_send(w, "beca");
    run_for(w->loop, 20);
    world_cut(w);
    buf_clear(&w->log);
    world_pass(w, 100, 100);
    relist(w);
    assert_int_equal(lists(w, REFLECTOR_EXPIRED), 1);
}

/* ---- credentials ---- */

struct secret {
    struct world w;
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
    s->w.loop = l;
    temp_dir_init(&s->dir);
    *state = s;
    return 0;
}

static int secret_teardown(void **state)
{
    struct secret *s = *state;
    struct net_loop *l = s->w.loop;
    world_close(&s->w);
    int rc = loop_free(l);
    temp_dir_deinit(&s->dir);
    free(s);
    return rc;
}

static void test_a_token_that_is_rotated(void **state)
{
    struct secret *s = *state;
    struct world *w = &s->w;
    temp_dir_write(&s->dir, "token", "old", 0600);
    w->access.token_file = (char *)(size_t)temp_dir_path(&s->dir, "token", s->path);
    assert_true(world_open(w, w->loop));
    world_start_plain(w);
    world_expect_request(w, LIST);
    assert_string_equal(w->authorization, "Bearer old");
    temp_dir_write(&s->dir, "token", "newer", 0600);
    run_for(w->loop, 1100); /* files are not looked at more often */
    world_answer(w, 401, NULL, "");
    world_expect_error(w, "401");
    world_pass(w, 100, 100);
    world_expect_request(w, LIST);
    assert_string_equal(w->authorization, "Bearer newer");
    world_answer(w, 200, NULL, one("a", "1"));
    world_expect_request(w, WATCH("10"));
    /* And in place of a watch. */
    temp_dir_write(&s->dir, "token", "newest", 0600);
    run_for(w->loop, 1100);
    world_answer(w, 401, NULL, "");
    world_pass(w, 200, 200);
    world_expect_request(w, WATCH("10"));
    assert_string_equal(w->authorization, "Bearer newest");
}

static void test_waits_for_credentials(void **state)
{
    struct secret *s = *state;
    struct world *w = &s->w;
    static char shell[] = "/bin/sh", dash_c[] = "-c", version[] = "client.authentication.k8s.io/v1";
    char script[1024];
    (void)snprintf(script, sizeof script,
                   "until [ -e %s/go ]; do sleep 0.02; done; echo '{\"apiVersion\":\"%s\","
                   "\"kind\":\"ExecCredential\",\"status\":{\"token\":\"made\"}}'",
                   s->dir.path, version);
    char *args[] = {dash_c, script, NULL};
    s->exec = (struct kube_exec){.command = shell, .args = args, .api_version = version};
    w->access.exec = &s->exec;
    assert_true(world_open(w, w->loop));
    world_start_plain(w);
    world_expect_error(w, "waiting for credentials");
    world_pass(w, 500, 500);
    world_expect_quiet(w);
    world_expect_log(w, "");
    temp_dir_write(&s->dir, "go", "", 0600);
    for (int i = 0; i < 1000 && !kube_client_ready(w->client); i++) {
        run_for(w->loop, 5);
    }
    world_pass(w, 500, 500);
    world_expect_request(w, LIST);
    assert_string_equal(w->authorization, "Bearer made");
    assert_int_equal(reflector_stats(w->reflector)->failures, 0);
}

/* ---- the end ---- */

static void end(struct world *w)
{
    reflector_free(w->reflector);
    w->reflector = NULL;
    buf_clear(&w->log);
    run_for(w->loop, 10);
    world_expect_log(w, "");
}

static void test_free_before_anything(void **state)
{
    struct world *w = *state;
    world_start_plain(w);
    end(w);
    assert_int_equal(w->requests, 0);
}

static void test_free_while_listing(void **state)
{
    struct world *w = *state;
    world_start_plain(w);
    world_expect_request(w, LIST);
    end(w);
    world_expect_gone(w);
}

static void test_free_inside_of_a_page(void **state)
{
    struct world *w = *state;
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_begin(w);
    world_send(w, "{\"items\":[{");
    run_for(w->loop, 10);
    end(w);
    world_expect_gone(w);
}

static void test_free_between_pages(void **state)
{
    struct world *w = *state;
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_answer(w, 200, NULL, world_list("10", "t", NULL));
    world_expect_request(w, LIST "&continue=t");
    end(w);
    world_expect_gone(w);
}

static void test_free_while_waiting(void **state)
{
    struct world *w = *state;
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_answer(w, 500, NULL, "");
    world_expect_deadline(w, 100, 100);
    end(w);
    assert_true(list_empty(&w->deadlines));
}

static void test_free_while_opening(void **state)
{
    struct world *w = *state;
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_answer(w, 200, NULL, one("a", "1"));
    world_expect_request(w, WATCH("10"));
    end(w);
    world_expect_gone(w);
}

static void test_free_while_refused(void **state)
{
    struct world *w = *state;
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_answer(w, 200, NULL, one("a", "1"));
    world_expect_request(w, WATCH("10"));
    struct http_head head = {.status = 503, .framing = HTTP_BODY_CHUNKED};
    assert_int_equal(http_exchange_send_head(w->asked, &head), 0);
    world_send(w, "beca");
    run_for(w->loop, 10);
    end(w);
    world_expect_gone(w);
}

static void test_free_while_proving(void **state)
{
    struct world *w = *state;
    follow(w);
    end(w);
    world_expect_gone(w);
}

static void test_free_inside_of_an_event(void **state)
{
    struct world *w = *state;
    follow_well(w);
    world_send(w, "{\"type\":");
    run_for(w->loop, 10);
    end(w);
    world_expect_gone(w);
}

/* The handler that frees is the last one that is called. */
static void free_in(struct world *w, enum world_whim whim, const char *expected)
{
    w->whim = whim;
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_answer(
        w, 200, NULL,
        world_list("10", "t",
                   (const char *[]){world_object("a", "1"), world_object("b", "1"), NULL}));
    if (whim == WORLD_FREES_ON_SYNCED) {
        world_expect_request(w, LIST "&continue=t");
        world_answer(w, 200, NULL, one("c", "1"));
    }
    world_expect_log(w, expected);
    world_expect_quiet(w);
    assert_null(w->reflector);
}

static void test_free_in_on_list(void **state)
{
    free_in(*state, WORLD_FREES_ON_LIST, "list ");
}

static void test_free_in_on_object(void **state)
{
    free_in(*state, WORLD_FREES_ON_OBJECT, "list +a@1 ");
}

static void test_free_in_on_synced(void **state)
{
    free_in(*state, WORLD_FREES_ON_SYNCED, "list +a@1 +b@1 +c@1 synced ");
}

static void test_free_in_an_event(void **state)
{
    struct world *w = *state;
    follow(w);
    w->whim = WORLD_FREES_ON_OBJECT;
    world_send(w, world_event("ADDED", "b", "11"));
    world_send(w, world_event("ADDED", "c", "12"));
    world_expect_log(w, "A:b@11 ");
    world_expect_gone(w);
}

static void test_free_when_an_error_is_told(void **state)
{
    struct world *w = *state;
    w->whim = WORLD_FREES_ON_STATE;
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_answer(w, 401, NULL, "");
    world_expect_error(w, "401");
    world_expect_quiet(w);
    assert_null(w->reflector);
    assert_true(list_empty(&w->deadlines));
}

static void test_free_when_all_is_well(void **state)
{
    struct world *w = *state;
    world_start_plain(w);
    world_expect_request(w, LIST);
    world_answer(w, 500, NULL, "");
    world_pass(w, 100, 100);
    world_expect_request(w, LIST);
    world_answer(w, 200, NULL, one("a", "1"));
    world_expect_request(w, WATCH("10"));
    buf_clear(&w->log);
    w->whim = WORLD_FREES_ON_STATE;
    world_begin(w);
    world_pass(w, 1000, 1000);
    world_expect_log(w, "fine ");
    world_expect_gone(w);
}

static void test_handlers_that_are_not_there(void **state)
{
    struct world *w = *state;
    static const struct reflector_handlers none = {.on_object = NULL};
    struct reflector_options o = {.path = "/p", .client = w->client, .ops = &w->ops};
    w->reflector = reflector_new(w->loop, &o, &none, w, NULL);
    assert_non_null(w->reflector);
    world_expect_request(w, LIST);
    world_answer(w, 500, NULL, "");
    world_pass(w, 100, 100);
    world_expect_request(w, LIST);
    world_answer(w, 200, NULL, world_list("10", NULL, NULL));
    world_expect_request(w, WATCH("10"));
    world_begin(w);
    world_pass(w, 1000, 1000);
    assert_null(reflector_error(w->reflector));
}

static void test_wrong_options(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    struct reflector_options o = {.path = "p", .client = w->client};
    assert_null(reflector_new(w->loop, &o, NULL, w, &e));
    assert_int_equal(e.code, -EINVAL);
    assert_non_null(strstr(e.msg, "\"p\""));
}

/* With the loop's own clock and the system's random numbers. */
static void test_real_time(void **state)
{
    struct world *w = *state;
    struct reflector_options o = {.path = "/p"};
    assert_true(world_start(w, &o));
    end(w);
    o.ops = NULL;
    static const struct reflector_handlers none = {.on_object = NULL};
    w->reflector = reflector_new(w->loop, &o, &none, w, NULL);
    world_expect_request(w, LIST);
    world_answer(w, 500, NULL, "");
    uint64_t before = net_loop_now(w->loop);
    world_expect_request(w, LIST);
    assert_in_range(net_loop_now(w->loop) - before, 90, 5000);
    world_answer(w, 200, NULL, world_list("10", NULL, NULL));
    for (int i = 0; i < 3000 && !reflector_stats(w->reflector)->watches; i++) {
        if (w->asked != NULL) {
            world_begin(w);
            w->asked = NULL;
        }
        run_for(w->loop, 1);
    }
    assert_true(reflector_stats(w->reflector)->following);
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define WITH_SECRET(test) cmocka_unit_test_setup_teardown(test, secret_setup, secret_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(test_asks_for_pages_when_they_are_wanted),
        WITH_WORLD(test_freed_while_held),
        WITH_WORLD(test_lists_pages_and_watches),
        WITH_WORLD(test_asks_for_a_part),
        WITH_WORLD(test_watches_last_differently),
        WITH_WORLD(test_events_in_pieces),
        WITH_WORLD(test_an_ordinary_end_is_followed_by_the_next_watch_at_once),
        WITH_WORLD(test_metadata_only),
        WITH_WORLD(test_metadata_only_refused_for_the_list),
        WITH_WORLD(test_410_in_place_of_a_watch),
        WITH_WORLD(test_410_as_an_event),
        WITH_WORLD(test_410_again_and_again),
        WITH_WORLD(test_410_on_a_page),
        WITH_WORLD(test_a_list_that_is_refused),
        WITH_WORLD(test_a_page_that_fails_is_asked_for_again),
        WITH_WORLD(test_a_token_that_is_refused),
        WITH_WORLD(test_a_watch_that_is_refused),
        WITH_WORLD(test_an_error_event),
        WITH_WORLD(test_retry_after),
        WITH_WORLD(test_429_is_no_reason_to_list),
        WITH_WORLD(test_a_connection_that_breaks),
        WITH_WORLD(test_nobody_listens),
        WITH_WORLD(test_malformed_events),
        WITH_WORLD(test_an_event_over_the_bound),
        WITH_WORLD(test_an_end_inside_of_an_event),
        WITH_WORLD(test_malformed_pages),
        WITH_WORLD(test_a_malformed_second_page),
        WITH_WORLD(test_pages_that_are_too_large),
        WITH_WORLD(test_a_watch_that_ends_at_once),
        WITH_WORLD(test_watches_that_end_soon),
        WITH_WORLD(test_a_silent_watch),
        WITH_WORLD(test_late_answers),
        WITH_WORLD(test_a_refusal_that_is_cut_off),
        WITH_SECRET(test_a_token_that_is_rotated),
        WITH_SECRET(test_waits_for_credentials),
        WITH_WORLD(test_free_before_anything),
        WITH_WORLD(test_free_while_listing),
        WITH_WORLD(test_free_inside_of_a_page),
        WITH_WORLD(test_free_between_pages),
        WITH_WORLD(test_free_while_waiting),
        WITH_WORLD(test_free_while_opening),
        WITH_WORLD(test_free_while_refused),
        WITH_WORLD(test_free_while_proving),
        WITH_WORLD(test_free_inside_of_an_event),
        WITH_WORLD(test_free_in_on_list),
        WITH_WORLD(test_free_in_on_object),
        WITH_WORLD(test_free_in_on_synced),
        WITH_WORLD(test_free_in_an_event),
        WITH_WORLD(test_free_when_an_error_is_told),
        WITH_WORLD(test_free_when_all_is_well),
        WITH_WORLD(test_handlers_that_are_not_there),
        WITH_WORLD(test_wrong_options),
        WITH_WORLD(test_real_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
