/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a change of the rules does to lists and watches in every phase, between a scripted API
 * server and clients on plain sockets.
 */
#include "alloc_sweep.h"
#include "base/array.h"
#include "reload_fixture.h"
#include "upstream/derived_retry.h"
#include "upstream/watch_memory.h"

#include <poll.h>
#include <stdlib.h>

#define WATCH "?watch=1&resourceVersion=100&allowWatchBookmarks=true"
#define OWN "ctrlmesh.kusionstack.io/namespace"

/* Somebody has a list of that version. */
static void list_at(struct fixture *f, const char *path, unsigned version)
{
    struct client lister;
    fixture_get(f, &lister, path);
    if (f->api->serve == NULL) {
        api_answer(api_expect_part(f->api, path), 200, NULL, pod_list(version, NULL, NULL));
    }
    fixture_expect(f, &lister, "PodList");
    client_close(&lister);
}

/* The client has a list of version 100 under the rules in force, and watches on. */
static struct api_request *open_watch_of(struct fixture *f, struct client *c, const char *path)
{
    char watch[256];
    (void)snprintf(watch, sizeof watch, "%s" WATCH, path);
    list_at(f, path, 100);
    fixture_get(f, c, watch);
    struct api_request *a = api_expect_part(f->api, "watch=1");
    api_begin(a, NULL);
    fixture_expect(f, c, "200 OK");
    return a;
}

static struct api_request *open_watch(struct fixture *f, struct client *c)
{
    return open_watch_of(f, c, "/api/v1/pods");
}

/* ---- what is refused from the first moment ---- */

static void exec_by_get_is_a_write(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN " in (a,b)");
    fixture_limit(f, OWN " in (b)");
    client_open(f, &c);
    client_send(&c,
                "GET /api/v1/namespaces/a/pods/x/exec?command=sh HTTP/1.1\r\nHost: localhost\r\n"
                "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    fixture_expect(f, &c, "no longer belongs to");
    assert_true(client_has(&c, "403 Forbidden"));
    client_close(&c);
}

/* ---- a watch that is not answered yet ---- */

static void pending_watch_with_a_body_does_not_keep_old_rules(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    list_at(f, "/api/v1/pods", 100);
    client_open(f, &c);
    client_send(
        &c, "GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}");
    struct api_request *a = api_expect_part(f->api, "watch=1");
    fixture_limit(f, "ns in (b)");
    api_expect_given_up(a);
    fixture_expect(f, &c, NULL);
    assert_false(client_has(&c, "200"));
    client_close(&c);
}

/* ---- a list that is being sent ---- */

static void list_that_is_being_sent_is_broken_off(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    fixture_get(f, &c, "/api/v1/pods");
    struct api_request *a = api_expect_part(f->api, "/api/v1/pods");
    api_begin(a, NULL);
    api_send(a, "{\"kind\":\"PodList\",");
    fixture_expect(f, &c, "PodList");
    fixture_limit(f, "ns in (b)");
    api_expect_given_up(a);
    fixture_expect(f, &c, NULL);
    assert_int_equal(f->metrics.lists_broken_off, 1);
    client_close(&c);
}

/* ---- an event too large to be held ---- */

static void send_large(struct api_request *a, char fill, size_t size)
{
    char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, fill, size);
    text[size] = '\0';
    api_send(a, text);
    free(text);
}

static void large_event_is_finished_before_the_cut(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    struct api_request *a = open_watch(f, &c);
    api_send(a, "{\"type\":\"ADDED\",\"object\":{\"data\":\"");
    for (int i = 0; i < 24; i++) {
        send_large(a, 'x', 64 * 1024);
        run_for(f->api->loop, 5);
        client_read(&c);
    }
    fixture_expect(f, &c, "xxxx");
    fixture_limit(f, "ns in (b)");
    run_for(f->api->loop, 20);
    api_send(a, "\",\"end\":1}}\n");
    api_send(a, pod_event("ADDED", "secret", 102));
    fixture_expect(f, &c, "\"end\":1}}\n");
    fixture_expect(f, &c, "\"code\":410");
    assert_false(client_has(&c, "secret"));
    client_close(&c);
}

/* ---- the difference ---- */

static const char *const one_name[] = {"one", NULL};

static void lists_of_the_difference_share_connections(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c);
    fixture_limit(f, "ns in (b)");
    struct api_request *a = api_expect_part(f->api, "resourceVersionMatch=Exact");
    uint64_t dialled = kube_client_stats(f->upstream->client)->dialled;
    api_answer(a, 200, NULL, pod_list(100, "more", one_name));
    api_answer(api_expect_part(f->api, "continue=more"), 200, NULL, pod_list(100, NULL, one_name));
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
               pod_list(100, NULL, one_name));
    (void)api_expect_part(f->api, "watch=1");
    assert_int_equal(kube_client_stats(f->upstream->client)->dialled, dialled);
    client_close(&c);
}

static const char *path_of(unsigned n)
{
    static char text[64];
    (void)snprintf(text, sizeof text, "/api/v1/namespaces/n%u/pods", n);
    return text;
}

static void few_lists_are_asked_for_at_a_time(void **state)
{
    struct fixture *f = *state;
    static struct client clients[12];
    struct api_request *asked[8];
    fixture_limit(f, "ns in (a)");
    for (unsigned n = 0; n < 12; n++) {
        (void)open_watch_of(f, &clients[n], path_of(n));
    }
    fixture_limit(f, "ns in (b)");
    for (unsigned n = 0; n < 8; n++) {
        asked[n] = api_expect_part(f->api, "resourceVersionMatch=Exact");
    }
    api_expect_quiet(f->api);
    client_close(&clients[0]); /* whose list is given up, so there is room for one */
    api_expect_given_up(asked[0]);
    (void)api_expect_part(f->api, path_of(8));
    api_expect_quiet(f->api);
    api_answer(asked[1], 403, NULL, "{}"); /* likewise */
    fixture_expect(f, &clients[1], "\"code\":410");
    (void)api_expect_part(f->api, path_of(9));
    api_expect_quiet(f->api);
    api_answer(asked[2], 200, NULL, pod_list(100, NULL, one_name)); /* then the second list */
    (void)api_expect_part(f->api, path_of(2));
    api_expect_quiet(f->api);
    for (unsigned n = 1; n < 12; n++) {
        client_close(&clients[n]);
    }
}

/* False: it was given up meanwhile. */
static bool send_large_items(struct fixture *f, struct api_request *a, size_t size)
{
    api_begin(a, NULL);
    api_send(a, "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":"
                "\"100\",\"continue\":\"more\"},\"items\":[{\"metadata\":{\"name\":\"p\"}}");
    for (size_t sent = 0; sent < size && a->x != NULL; sent += 512 * 1024) {
        api_send(a, ",{\"metadata\":{\"name\":\"p\"},\"data\":\"");
        send_large(a, 'x', 512 * 1024);
        api_send(a, "\"}");
        while (a->x != NULL && http_exchange_blocked(a->x)) {
            run_for(f->api->loop, 1);
        }
    }
    return a->x != NULL;
}

static void send_large_list(struct fixture *f, struct api_request *a, size_t size)
{
    assert_true(send_large_items(f, a, size));
    api_send(a, "]}");
    api_end(a);
}

/* Until something has come that it could read; it does not. */
static void expect_readable(struct fixture *f, const struct client *c)
{
    struct pollfd fd = {.fd = c->fd, .events = POLLIN};
    for (int turn = 0; turn < 5000 && poll(&fd, 1, 0) == 0; turn++) {
        run_for(f->api->loop, 1);
    }
    assert_int_equal(fd.revents, POLLIN);
}

/* Clients that do not read hold what was listed for them. A list for which there is no room is
 * given up, and asked for again when there is; small ones of others go on. */
static void memory_of_all_migrations_is_bounded(void **state)
{
    struct fixture *f = *state;
    static struct client clients[9];
    struct api_request *lists[8];
    size_t large = (size_t)14 * 1024 * 1024;
    fixture_limit(f, "ns in (a)");
    for (unsigned n = 0; n < 9; n++) {
        (void)open_watch_of(f, &clients[n], path_of(n));
    }
    fixture_limit(f, "ns in (b)");
    for (unsigned n = 0; n < 8; n++) {
        lists[n] = api_expect_part(f->api, "resourceVersionMatch=Exact");
    }
    for (unsigned n = 0; n < 2; n++) {
        send_large_list(f, lists[n], large);
        expect_readable(f, &clients[n]);
    }
    (void)api_expect_part(f->api, path_of(8));
    assert_false(send_large_items(f, lists[2], large));
    api_expect_quiet(f->api);
    api_answer(lists[3], 200, NULL, pod_list(100, NULL, one_name));
    api_answer(api_expect_part(f->api, path_of(3)), 200, NULL, pod_list(100, NULL, one_name));
    fixture_expect(f, &clients[3], "\"ADDED\"");
    (void)api_expect_part(f->api, "watch=1");
    api_expect_quiet(f->api);
    client_close(&clients[0]);
    struct api_request *again = api_expect_part(f->api, path_of(2));
    send_large_list(f, again, large);
    expect_readable(f, &clients[2]);
    assert_in_range(proxy_memory(f->proxy).watch_bytes, 2 * large, WATCH_MEMORY_MAX);
    assert_int_equal(f->metrics.fallbacks[FALLBACK_SIZE], 0);
    for (unsigned n = 1; n < 9; n++) {
        assert_false(client_has(&clients[n], "410"));
        client_close(&clients[n]);
    }
}

static const char gone[] = "{\"kind\":\"Status\",\"code\":410}";

static void version_in_memory_will_do(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c);
    fixture_limit(f, "ns in (b)");
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 410, NULL, gone);
    api_answer(api_expect_part(f->api, "&resourceVersion=0"), 200, NULL,
               pod_list(100, NULL, one_name));
    api_answer(api_expect_part(f->api, "&resourceVersion=0"), 200, NULL,
               pod_list(100, NULL, one_name));
    fixture_expect(f, &c, "\"DELETED\"");
    fixture_expect(f, &c, "\"ADDED\"");
    (void)api_expect_part(f->api, "watch=1&allowWatchBookmarks=true&resourceVersion=100");
    assert_false(client_has(&c, "410"));
    client_close(&c);
}

static void later_version_is_found(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c);
    fixture_limit(f, "ns in (b)");
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 410, NULL, gone);
    api_answer(api_expect_part(f->api, "&resourceVersion=0"), 200, NULL,
               pod_list(150, NULL, one_name));
    struct api_request *probe = api_expect_part(f->api, "timeoutSeconds=3");
    struct api_request *other = api_expect_part(f->api, "timeoutSeconds=3");
    api_begin(probe, NULL);
    api_send(probe, pod_event("MODIFIED", "secret", 141));
    api_answer(api_expect_part(f->api, "resourceVersion=140&resourceVersionMatch=Exact"), 200, NULL,
               pod_list(140, NULL, one_name));
    api_answer(api_expect_part(f->api, "resourceVersion=140&resourceVersionMatch=Exact"), 200, NULL,
               pod_list(140, NULL, one_name));
    fixture_expect(f, &c, "\"ADDED\"");
    (void)api_expect_part(f->api, "watch=1&allowWatchBookmarks=true&resourceVersion=140");
    api_expect_given_up(other);
    assert_false(client_has(&c, "secret"));
    assert_false(client_has(&c, "410"));
    client_close(&c);
}

static void no_later_version_is_found(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c);
    fixture_limit(f, "ns in (b)");
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 410, NULL, gone);
    api_answer(api_expect_part(f->api, "&resourceVersion=0"), 200, NULL,
               pod_list(150, NULL, one_name));
    api_answer(api_expect_part(f->api, "timeoutSeconds=3"), 500, NULL, gone);
    api_answer(api_expect_part(f->api, "timeoutSeconds=3"), 410, NULL, gone);
    fixture_expect(f, &c, "\"code\":410");
    assert_int_equal(f->metrics.fallbacks[FALLBACK_EXPIRED], 1);
    client_close(&c);
}

/* ---- how a migration stands ---- */

/* Runs the loop until the one watch is in that state. */
static void expect_state(struct fixture *f, const char *state)
{
    char now[32] = "";
    for (int turn = 0; turn < 5000 && strcmp(now, state) != 0; turn++) {
        cJSON *watches = cJSON_CreateArray();
        assert_int_equal(proxy_describe_watches(f->proxy, watches), 1);
        const cJSON *watch = cJSON_GetArrayItem(watches, 0);
        (void)snprintf(now, sizeof now, "%s",
                       cJSON_GetStringValue(cJSON_GetObjectItem(watch, "state")));
        cJSON_Delete(watches);
        run_for(f->api->loop, turn > 0 ? 1 : 0);
    }
    assert_string_equal(now, state);
}

static void status_follows_a_migration(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c);
    expect_state(f, "Passing");
    fixture_limit(f, "ns in (b)");
    expect_state(f, "ListingDifference");
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
               pod_list(100, NULL, one_name));
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
               pod_list(100, NULL, one_name));
    struct api_request *next = api_expect_part(f->api, "watch=1");
    expect_state(f, "Reopening");
    api_begin(next, NULL);
    api_send(next, pod_event("ADDED", "later", 101));
    fixture_expect(f, &c, "later");
    expect_state(f, "Passing");
    assert_int_equal(f->metrics.migrated, 1);
    assert_int_equal(f->metrics.spliced_events, 2);
    client_close(&c);
}

static const char *const lost_name[] = {"lost", NULL};
static const char *const gained_name[] = {"gained", NULL};

/* The client stands still meanwhile. */
static void a_new_watch_is_not_awaited_for_ever(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c);
    fixture_limit(f, "ns in (b)");
    for (int i = 0; i < 2; i++) {
        api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
                   pod_list(100, NULL, one_name));
    }
    struct api_request *frozen = api_expect_part(f->api, "watch=1");
    loop_skip(f->api->loop, 65000);
    api_expect_given_up(frozen);
    struct api_request *next = api_expect_part(f->api, "watch=1");
    api_begin(next, NULL);
    expect_state(f, "Passing");
    loop_skip(f->api->loop, 65000); /* once it has begun it lasts as long as any */
    run_for(f->api->loop, 10);
    api_send(next, pod_event("ADDED", "later", 101));
    fixture_expect(f, &c, "later");
    loop_skip(f->api->loop, 3630000);
    api_expect_given_up(next);
    fixture_expect(f, &c, "\r\n0\r\n\r\n");
    client_close(&c);
}

/* Nothing is written before all is there: until then it can be given up. What is lost comes first,
 * as a client may hold so many objects only. */
static void all_is_listed_before_the_lost_is_written(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c);
    fixture_limit(f, "ns in (b)");
    struct api_request *a = api_expect_part(f->api, "resourceVersionMatch=Exact");
    assert_non_null(strstr(a->target, "%28a%29"));
    api_answer(a, 200, NULL, pod_list(100, NULL, lost_name));
    a = api_expect_part(f->api, "resourceVersionMatch=Exact");
    run_for(f->api->loop, 20);
    assert_false(client_has(&c, "DELETED"));
    api_answer(a, 200, NULL, pod_list(100, NULL, gained_name));
    fixture_expect(f, &c, "BOOKMARK");
    const char *text = buf_cstr(&c.text);
    assert_true(strstr(text, "\"lost\"") < strstr(text, "\"gained\""));
    client_close(&c);
}

static void who_takes_no_bookmarks_gets_none(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    list_at(f, "/api/v1/pods", 100);
    fixture_get(f, &c, "/api/v1/pods?watch=1&resourceVersion=100");
    api_begin(api_expect_part(f->api, "watch=1"), NULL);
    fixture_expect(f, &c, "200 OK");
    fixture_limit(f, "ns in (b)");
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
               pod_list(100, NULL, lost_name));
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
               pod_list(100, NULL, gained_name));
    (void)api_expect_part(f->api, "watch=1");
    fixture_expect(f, &c, "gained");
    assert_false(client_has(&c, "BOOKMARK"));
    client_close(&c);
}

/* What was listed as it was at the version is not mixed with what is in memory: all is listed
 * anew. */
static void memory_is_listed_from_the_beginning(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c);
    fixture_limit(f, "ns in (b)");
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
               pod_list(100, NULL, one_name));
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 410, NULL, gone);
    api_answer(api_expect_part(f->api, "&resourceVersion=0"), 200, NULL,
               pod_list(100, NULL, lost_name));
    api_answer(api_expect_part(f->api, "&resourceVersion=0"), 200, NULL,
               pod_list(100, NULL, gained_name));
    fixture_expect(f, &c, "\"gained\"");
    assert_true(client_has(&c, "\"lost\""));
    assert_false(client_has(&c, "\"one\""));
    assert_int_equal(f->metrics.spliced_events, 2);
    client_close(&c);
}

/* Pages are shared, but what was in memory may be of another version by now. */
static void memory_is_asked_for_anew(void **state)
{
    struct fixture *f = *state;
    struct client c[2];
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c[0]);
    api_send(open_watch(f, &c[1]), pod_event("MODIFIED", "one", 101));
    fixture_expect(f, &c[1], "\"101\"");
    fixture_limit(f, "ns in (b)");
    api_answer(api_expect_part(f->api, "resourceVersion=100&resourceVersionMatch=Exact"), 410, NULL,
               gone);
    struct api_request *later =
        api_expect_part(f->api, "resourceVersion=101&resourceVersionMatch=Exact");
    api_answer(api_expect_part(f->api, "&resourceVersion=0"), 200, NULL,
               pod_list(100, NULL, lost_name));
    (void)api_expect_part(f->api, "&resourceVersion=0"); /* so that the first page is still held */
    api_answer(later, 410, NULL, gone);
    struct api_request *anew = api_expect_part(f->api, "&resourceVersion=0");
    assert_non_null(strstr(anew->target, "%28a%29"));
    assert_false(client_has(&c[1], "410"));
    client_close(&c[0]);
    client_close(&c[1]);
}

/* The client may have read each of the events, the oldest too. */
static void versions_of_what_was_written_are_no_points(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c);
    fixture_limit(f, "ns in (b)");
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
               pod_list(100, NULL, lost_name));
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
               "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{"
               "\"resourceVersion\":\"100\"},\"items\":[{\"metadata\":{\"name\":\"gained\","
               "\"resourceVersion\":\"50\"}}]}");
    struct api_request *next = api_expect_part(f->api, "watch=1");
    client_close(&c);
    api_expect_given_up(next);
    list_at(f, "/api/v1/pods", 30); /* lost_name has version 10 */
    fixture_get(f, &c, "/api/v1/pods?watch=1&resourceVersion=30");
    fixture_expect(f, &c, "\"code\":410");
    client_close(&c);
}

/* ---- a migration that the API server refuses for now ---- */

/* What may change soon: a status, or a connection that breaks. */
struct api_fault {
    unsigned status; /* 0: it breaks */
    const char *begins;
};

static void fail_list(struct fixture *f, const struct api_fault *fault)
{
    struct api_request *a = api_expect_part(f->api, "resourceVersionMatch=Exact");
    if (fault->status != 0) {
        api_answer(a, fault->status, NULL, "{}");
        return;
    }
    if (fault->begins != NULL) {
        api_begin(a, NULL);
        api_send(a, fault->begins);
        run_for(f->api->loop, 20);
    }
    api_cut(a);
}

static void expect_migrated(struct fixture *f, struct client *c, struct api_request *next)
{
    api_begin(next, NULL);
    api_send(next, pod_event("ADDED", "later", 101));
    fixture_expect(f, c, "later");
    assert_false(client_has(c, "410"));
    for (unsigned i = 0; i < FALLBACKS; i++) {
        assert_int_equal(f->metrics.fallbacks[i], 0);
    }
}

/* Of an answer that broke off in its midst nothing is taken. */
static void list_that_fails_for_now_is_repeated(void **state)
{
    static const struct api_fault faults[] = {
        {429, NULL},
        {503, NULL},
        {0, NULL},
        {0, "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":"
            "\"100\"},\"items\":[{\"metadata\":{\"name\":\"torn\"}},"},
    };
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c);
    fixture_limit(f, "ns in (b)");
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        fail_list(f, &faults[i]);
    }
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
               pod_list(100, NULL, lost_name));
    fail_list(f, &faults[0]);
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
               pod_list(100, NULL, gained_name));
    expect_migrated(f, &c, api_expect_part(f->api, "watch=1"));
    assert_false(client_has(&c, "torn"));
    assert_int_equal(f->metrics.spliced_events, 2);
    client_close(&c);
}

/* The next page of a list, of which others were written already. */
static void page_that_fails_for_now_is_repeated(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c);
    fixture_limit(f, "ns in (b)");
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
               pod_list(100, "more", lost_name));
    api_answer(api_expect_part(f->api, "continue=more"), 500, NULL, "{}");
    api_answer(api_expect_part(f->api, "continue=more"), 200, NULL, pod_list(100, NULL, one_name));
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
               pod_list(100, NULL, gained_name));
    expect_migrated(f, &c, api_expect_part(f->api, "watch=1"));
    assert_int_equal(f->metrics.spliced_events, 3);
    client_close(&c);
}

static void answer_difference(struct fixture *f)
{
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
               pod_list(100, NULL, lost_name));
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
               pod_list(100, NULL, gained_name));
}

static void new_watch_that_fails_for_now_is_repeated(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c);
    fixture_limit(f, "ns in (b)");
    answer_difference(f);
    api_answer(api_expect_part(f->api, "watch=1"), 429, NULL, "{}");
    expect_state(f, "ReopenPaused");
    api_cut(api_expect_part(f->api, "watch=1"));
    struct api_request *next = api_expect_part(f->api, "resourceVersion=100");
    expect_state(f, "Reopening");
    api_answer(next, 500, NULL, "{}");
    expect_migrated(f, &c, api_expect_part(f->api, "watch=1"));
    client_close(&c);
}

static void rules_change_while_the_new_watch_is_refused(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c);
    fixture_limit(f, "ns in (b)");
    answer_difference(f);
    api_answer(api_expect_part(f->api, "watch=1"), 429, NULL, "{}");
    expect_state(f, "ReopenPaused");
    fixture_limit(f, "ns in (c)");
    loop_skip(f->api->loop, 4000); /* the pause is over */
    run_for(f->api->loop, 10);
    answer_difference(f);
    struct api_request *next = api_expect_part(f->api, "watch=1");
    assert_non_null(strstr(next->target, "%28c%29"));
    api_expect_quiet(f->api); /* nobody asks for the one between any more */
    expect_migrated(f, &c, next);
    client_close(&c);
}

static void client_leaves_while_the_new_watch_is_refused(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c);
    fixture_limit(f, "ns in (b)");
    answer_difference(f);
    api_answer(api_expect_part(f->api, "watch=1"), 429, NULL, "{}");
    expect_state(f, "ReopenPaused");
    client_close(&c);
    fixture_expect_number(f, &f->metrics.open_watches, 0);
}

static void shutdown_while_the_new_watch_is_refused(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c);
    fixture_limit(f, "ns in (b)");
    answer_difference(f);
    api_answer(api_expect_part(f->api, "watch=1"), 429, NULL, "{}");
    expect_state(f, "ReopenPaused");
    unsigned before = f->api->count;
    proxy_drain(f->proxy);
    fixture_expect(f, &c, "\r\n0\r\n\r\n");
    fixture_expect_number(f, &f->metrics.open_watches, 0);
    assert_int_equal(f->api->count, before);
    assert_false(client_has(&c, "410"));
    client_close(&c);
}

/* The watch of who sends these headers with it. */
static struct api_request *open_watch_with(struct fixture *f, struct client *c, const char *headers)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "GET /api/v1/pods" WATCH " HTTP/1.1\r\nHost: localhost\r\n%s\r\n", headers);
    list_at(f, "/api/v1/pods", 100);
    client_open(f, c);
    client_send(c, text);
    struct api_request *a = api_expect_part(f->api, "watch=1");
    api_begin(a, NULL);
    fixture_expect(f, c, "200 OK");
    return a;
}

/* Several would do: it is listed in the one that the API server has chosen for the watch. */
static void lists_have_the_form_of_the_watch(void **state)
{
    static const struct {
        const char *headers;
        bool partial;
    } rows[] = {
        {"Accept: application/json, application/json;as=PartialObjectMetadata\r\n", false},
        {"Accept: application/json;as=PartialObjectMetadata, application/json\r\n", true},
        {"Accept: application/json;as=Table;q=0.5, application/json\r\n", false},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct client c;
        fixture_limit(f, "ns in (a)");
        (void)open_watch_with(f, &c, rows[i].headers);
        fixture_limit(f, "ns in (b)");
        struct api_request *a = api_expect_part(f->api, "resourceVersionMatch=Exact");
        assert_int_equal(strstr(a->accept, "as=PartialObjectMetadata") != NULL, rows[i].partial);
        api_answer(a, 200, NULL, pod_list(100, NULL, lost_name));
        api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
                   pod_list(100, NULL, gained_name));
        expect_migrated(f, &c, api_expect_part(f->api, "watch=1"));
        client_close(&c);
        fixture_restart(f);
    }
}

/* ---- a migration that fails ---- */

static void expect_cut(struct fixture *f, struct client *c, enum fallback why)
{
    fixture_expect(f, c, "\"code\":410");
    for (unsigned i = 0; i < FALLBACKS; i++) {
        assert_int_equal(f->metrics.fallbacks[i], i == why);
    }
    assert_int_equal(f->metrics.watches_cut, 1);
    api_expect_quiet(f->api);
    client_close(c);
}

/* The lists would be asked for in localproxy's own name. */
static void watch_in_the_name_of_another_is_cut(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch_with(f, &c, "Accept: application/json\r\nimpersonate-user: other\r\n");
    fixture_limit(f, "ns in (b)");
    expect_cut(f, &c, FALLBACK_FORM);
}

static void new_watch_in_another_encoding_is_not_passed(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c);
    fixture_limit(f, "ns in (b)");
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
               pod_list(100, NULL, one_name));
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
               pod_list(100, NULL, one_name));
    struct api_request *next = api_expect_part(f->api, "watch=1");
    api_begin(next, "application/vnd.kubernetes.protobuf;stream=watch");
    api_expect_given_up(next);
    expect_cut(f, &c, FALLBACK_REOPEN);
}

static void list_that_is_refused_for_long_cuts(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c);
    fixture_limit(f, "ns in (b)");
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 429, "60", "{}");
    expect_cut(f, &c, FALLBACK_UPSTREAM);
}

static void list_that_is_refused_and_then_not_answered_cuts(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c);
    fixture_limit(f, "ns in (b)");
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 503, NULL, "{}");
    struct api_request *frozen = api_expect_part(f->api, "resourceVersionMatch=Exact");
    loop_skip(f->api->loop, DERIVED_RETRY_TIME_MS);
    api_expect_given_up(frozen);
    expect_cut(f, &c, FALLBACK_UPSTREAM);
}

static void new_watch_that_is_refused_for_long_cuts(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c);
    fixture_limit(f, "ns in (b)");
    answer_difference(f);
    api_answer(api_expect_part(f->api, "watch=1"), 429, "60", "{}");
    expect_cut(f, &c, FALLBACK_REOPEN);
}

static void new_watch_that_is_forbidden_cuts(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c);
    fixture_limit(f, "ns in (b)");
    answer_difference(f);
    api_answer(api_expect_part(f->api, "watch=1"), 403, NULL, "{}");
    expect_cut(f, &c, FALLBACK_REOPEN);
}

/* Views are not cut too often. The time of the end is not that of the API server's watch. */
static void silenced_watch_ends_when_its_time_has_come(void **state)
{
    static const char *const selectors[] = {"ns in (a)", "ns in (b)", "ns in (c)"};
    struct fixture *f = *state;
    struct client c;
    struct api_request *a = NULL;
    f->flags.reload_mode = RELOAD_CUT;
    f->flags.cut_interval_s = 3600;
    fixture_restart(f);
    for (unsigned i = 0; i < 2; i++) {
        char target[128];
        (void)snprintf(target, sizeof target,
                       "/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion=%u", 100 + i);
        fixture_limit(f, selectors[i]);
        list_at(f, "/api/v1/pods", 100 + i);
        fixture_get(f, &c, target);
        a = api_expect_part(f->api, "watch=1");
        api_begin(a, NULL);
        fixture_expect(f, &c, "200 OK");
        fixture_limit(f, selectors[i + 1]);
        if (i == 0) {
            fixture_expect(f, &c, "\"code\":410");
            client_close(&c);
        }
    }
    assert_int_equal(f->metrics.watches_silenced, 1);
    api_send(a, pod_event("ADDED", "secret", 102));
    loop_skip(f->api->loop, 31000); /* the API server should have ended it */
    run_for(f->api->loop, 20);
    assert_false(client_has(&c, "secret"));
    assert_false(client_has(&c, "\r\n0\r\n\r\n"));
    loop_skip(f->api->loop, 3600000);
    fixture_expect(f, &c, "\"code\":410");
    client_close(&c);
}

/* Its client may come back with what it was shown last for as long as that is doubted, however long
 * nobody has asked for anything before. */
static void watch_that_is_cut_long_after_the_last_request(void **state)
{
    struct fixture *f = *state;
    struct client c;
    f->flags.reload_mode = RELOAD_CUT;
    f->flags.resume_doubt_s = 1;
    fixture_restart(f);
    fixture_limit(f, "ns in (a)");
    list_at(f, "/api/v1/pods", 100);
    fixture_get(f, &c, "/api/v1/pods?watch=1&resourceVersion=100");
    struct api_request *a = api_expect_part(f->api, "watch=1");
    api_begin(a, NULL);
    api_send(a, pod_event("ADDED", "one", 101));
    fixture_expect(f, &c, "\"one\"");
    run_for(f->api->loop, 1100);
    fixture_limit(f, "ns in (b)");
    fixture_expect(f, &c, "\"code\":410");
    client_close(&c);
    list_at(f, "/api/v1/pods", 101);
    fixture_get(f, &c, "/api/v1/pods?watch=1&resourceVersion=101"); /* perhaps it has not read it */
    fixture_expect(f, &c, "list again");
    client_close(&c);
}

/* Until the difference is being written to a client that does not read. */
static void begin_writing(struct fixture *f, struct client *c)
{
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, c);
    fixture_limit(f, "ns in (b)");
    send_large_list(f, api_expect_part(f->api, "resourceVersionMatch=Exact"),
                    (size_t)14 * 1024 * 1024);
    expect_readable(f, c);
    expect_state(f, "WritingDifference");
}

static void rules_that_change_while_it_is_written_cut_it(void **state)
{
    struct fixture *f = *state;
    struct client c;
    begin_writing(f, &c);
    fixture_limit(f, "ns in (b,c)");
    expect_cut(f, &c, FALLBACK_SUPERSEDED);
}

/* Some of the events went out: it can neither begin again nor be as at another version. */
static void version_that_expires_while_it_is_written_cuts_it(void **state)
{
    struct fixture *f = *state;
    struct client c;
    begin_writing(f, &c);
    struct api_request *more = NULL;
    for (int turn = 0; turn < 1000 && more == NULL; turn++) {
        client_read(&c);
        run_for(f->api->loop, 5);
        more = f->api->count > 3 ? api_expect_part(f->api, "continue=more") : NULL;
    }
    assert_non_null(more);
    api_answer(more, 410, NULL, gone);
    expect_cut(f, &c, FALLBACK_EXPIRED);
}

/* It has read some of what the rules between show, and would go on as if it had not. */
static void who_leaves_while_it_is_written_lists_again(void **state)
{
    struct fixture *f = *state;
    struct client c;
    begin_writing(f, &c);
    client_close(&c);
    fixture_expect_number(f, &f->metrics.open_watches, 0);
    fixture_limit(f, "ns in (a)");
    fixture_get(f, &c, "/api/v1/pods?watch=1&resourceVersion=100");
    fixture_expect(f, &c, "\"code\":410");
    client_close(&c);
}

static void shutdown_waits_for_no_migration(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    (void)open_watch(f, &c);
    fixture_limit(f, "ns in (b)");
    struct api_request *list = api_expect_part(f->api, "resourceVersionMatch=Exact");
    proxy_drain(f->proxy);
    fixture_expect(f, &c, "\"code\":410");
    api_expect_given_up(list);
    client_close(&c);
}

static void shutdown_ends_a_watch_that_begins(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    list_at(f, "/api/v1/pods", 100);
    fixture_get(f, &c, "/api/v1/pods" WATCH);
    struct api_request *a = api_expect_part(f->api, "watch=1");
    proxy_drain(f->proxy);
    api_begin(a, NULL);
    api_expect_given_up(a);
    fixture_expect(f, &c, "\r\n0\r\n\r\n");
    client_close(&c);
}

/* ---- without memory ---- */

static void answer_all(struct scripted_api *a, struct api_request *q)
{
    const unsigned *version = a->data;
    if (strstr(q->target, "watch=1") != NULL) {
        api_begin(q, NULL);
    } else {
        api_answer(q, 200, NULL, pod_list(*version, NULL, one_name));
    }
}

/* While it changes over to other rules, until the first answer is on its way. */
static bool migrate_once(void *data)
{
    struct fixture *f = data;
    struct client c;
    char target[256];
    long paused = alloc_sweep_pause();
    unsigned *version = f->api->data;
    (void)snprintf(target, sizeof target,
                   "/api/v1/pods?watch=1&resourceVersion=%u&allowWatchBookmarks=true", ++*version);
    fixture_limit(f, "ns in (a)");
    list_at(f, "/api/v1/pods", *version);
    fixture_get(f, &c, target);
    fixture_expect(f, &c, "200 OK");
    uint64_t before = f->metrics.migrated;
    alloc_sweep_resume(paused);
    fixture_limit(f, "ns in (b)");
    run_for(f->api->loop, 3);
    paused = alloc_sweep_pause();
    bool cut = false;
    for (int turn = 0; turn < 4000 && !cut && f->metrics.migrated == before; turn++) {
        run_for(f->api->loop, 1);
        cut = client_has(&c, "\"code\":410");
    }
    assert_true(cut || f->metrics.migrated > before);
    client_close(&c);
    fixture_expect_number(f, &f->metrics.open_watches, 0);
    alloc_sweep_resume(paused);
    return !cut;
}

static void watch_is_cut_without_memory_to_migrate(void **state)
{
    struct fixture *f = *state;
    unsigned version = 100;
    f->api->data = &version;
    f->api->serve = answer_all;
    assert_true(sweep_allocations(migrate_once, f) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(exec_by_get_is_a_write, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(pending_watch_with_a_body_does_not_keep_old_rules,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(list_that_is_being_sent_is_broken_off, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(large_event_is_finished_before_the_cut, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(lists_of_the_difference_share_connections, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(few_lists_are_asked_for_at_a_time, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(memory_of_all_migrations_is_bounded, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(version_in_memory_will_do, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(later_version_is_found, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(no_later_version_is_found, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(status_follows_a_migration, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_new_watch_is_not_awaited_for_ever, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(all_is_listed_before_the_lost_is_written, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(who_takes_no_bookmarks_gets_none, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(memory_is_listed_from_the_beginning, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(memory_is_asked_for_anew, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(versions_of_what_was_written_are_no_points, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(list_that_fails_for_now_is_repeated, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(page_that_fails_for_now_is_repeated, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(new_watch_that_fails_for_now_is_repeated, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(rules_change_while_the_new_watch_is_refused, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(client_leaves_while_the_new_watch_is_refused, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(shutdown_while_the_new_watch_is_refused, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(list_that_is_refused_for_long_cuts, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(list_that_is_refused_and_then_not_answered_cuts,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(new_watch_that_is_refused_for_long_cuts, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(new_watch_that_is_forbidden_cuts, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(lists_have_the_form_of_the_watch, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(watch_in_the_name_of_another_is_cut, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(new_watch_in_another_encoding_is_not_passed, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(watch_that_is_cut_long_after_the_last_request,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(silenced_watch_ends_when_its_time_has_come, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(rules_that_change_while_it_is_written_cut_it, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(version_that_expires_while_it_is_written_cuts_it,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(who_leaves_while_it_is_written_lists_again, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(shutdown_waits_for_no_migration, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(shutdown_ends_a_watch_that_begins, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(watch_is_cut_without_memory_to_migrate, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
