/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a change of the rules does to requests in every phase, between a scripted API server and
 * clients on plain sockets.
 */
#include "reload_scene.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#define WATCH "?watch=1&resourceVersion=100&allowWatchBookmarks=true"
#define OWN "ctrlmesh.kusionstack.io/namespace"

static int setup(void **state)
{
    struct scene *s = calloc(1, sizeof *s);
    void *loop;
    if (s == NULL || loop_setup(&loop) != 0 || !scene_open(s, loop)) {
        return -1;
    }
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    struct scene *s = *state;
    void *loop = s->loop;
    scene_close(s);
    free(s);
    return loop_teardown(&loop);
}

/* Somebody has a list of that version. */
static void list_at(struct scene *s, const char *path, unsigned version)
{
    struct client lister;
    scene_get(s, &lister, path);
    asked_answer(scene_asked(s, path), 200, pod_list(version, NULL, NULL));
    scene_expect(s, &lister, "PodList");
    client_close(&lister);
}

/* The client has a list of version 100 under the rules in force, and watches on. */
static struct asked *open_watch_of(struct scene *s, struct client *c, const char *path)
{
    char watch[256];
    (void)snprintf(watch, sizeof watch, "%s" WATCH, path);
    list_at(s, path, 100);
    scene_get(s, c, watch);
    struct asked *a = scene_asked(s, "watch=1");
    asked_begin(a, NULL);
    scene_expect(s, c, "200 OK");
    return a;
}

static struct asked *open_watch(struct scene *s, struct client *c)
{
    return open_watch_of(s, c, "/api/v1/pods");
}

/* ---- what is refused from the first moment ---- */

static void exec_by_get_is_a_write(void **state)
{
    struct scene *s = *state;
    struct client c;
    scene_limit(s, OWN " in (a,b)");
    scene_limit(s, OWN " in (b)");
    client_open(s, &c);
    client_send(&c, "GET /api/v1/namespaces/a/pods/x/exec?command=sh HTTP/1.1\r\nHost: x\r\n"
                    "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    scene_expect(s, &c, "no longer belongs to");
    assert_true(client_has(&c, "403 Forbidden"));
    client_close(&c);
}

/* ---- a watch that is not answered yet ---- */

static void pending_watch_with_a_body_does_not_keep_old_rules(void **state)
{
    struct scene *s = *state;
    struct client c;
    scene_limit(s, "ns in (a)");
    client_open(s, &c);
    client_send(&c, "GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}");
    struct asked *a = scene_asked(s, "watch=1");
    scene_limit(s, "ns in (b)");
    scene_expect_gone(s, a);
    scene_expect(s, &c, NULL);
    assert_false(client_has(&c, "200"));
    client_close(&c);
}

/* ---- an event too large to be held ---- */

static void send_large(struct asked *a, char fill, size_t size)
{
    char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, fill, size);
    text[size] = '\0';
    asked_send(a, text);
    free(text);
}

static void large_event_is_finished_before_the_cut(void **state)
{
    struct scene *s = *state;
    struct client c;
    scene_limit(s, "ns in (a)");
    struct asked *a = open_watch(s, &c);
    asked_send(a, "{\"type\":\"ADDED\",\"object\":{\"data\":\"");
    for (int i = 0; i < 24; i++) {
        send_large(a, 'x', 64 * 1024);
        run_for(s->loop, 5);
        client_read(&c);
    }
    scene_expect(s, &c, "xxxx");
    scene_limit(s, "ns in (b)");
    run_for(s->loop, 20);
    asked_send(a, "\",\"end\":1}}\n");
    asked_send(a, pod_event("ADDED", "secret", 102));
    scene_expect(s, &c, "\"end\":1}}\n");
    scene_expect(s, &c, "\"code\":410");
    assert_false(client_has(&c, "secret"));
    client_close(&c);
}

/* ---- the difference ---- */

static const char *const one_name[] = {"one", NULL};

static void lists_of_the_difference_share_connections(void **state)
{
    struct scene *s = *state;
    struct client c;
    scene_limit(s, "ns in (a)");
    (void)open_watch(s, &c);
    scene_limit(s, "ns in (b)");
    struct asked *a = scene_asked(s, "resourceVersionMatch=Exact");
    uint64_t dialled = kube_client_stats(s->upstream)->dialled;
    asked_answer(a, 200, pod_list(100, "more", one_name));
    asked_answer(scene_asked(s, "continue=more"), 200, pod_list(100, NULL, one_name));
    asked_answer(scene_asked(s, "resourceVersionMatch=Exact"), 200, pod_list(100, NULL, one_name));
    (void)scene_asked(s, "watch=1");
    assert_int_equal(kube_client_stats(s->upstream)->dialled, dialled);
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
    struct scene *s = *state;
    static struct client clients[12];
    struct asked *asked[8];
    scene_limit(s, "ns in (a)");
    for (unsigned n = 0; n < 12; n++) {
        (void)open_watch_of(s, &clients[n], path_of(n));
    }
    scene_limit(s, "ns in (b)");
    for (unsigned n = 0; n < 8; n++) {
        asked[n] = scene_asked(s, "resourceVersionMatch=Exact");
    }
    scene_expect_quiet(s);
    client_close(&clients[0]); /* whose list is given up, so there is room for one */
    scene_expect_gone(s, asked[0]);
    (void)scene_asked(s, path_of(8));
    scene_expect_quiet(s);
    asked_answer(asked[1], 500, "{}"); /* likewise */
    scene_expect(s, &clients[1], "\"code\":410");
    (void)scene_asked(s, path_of(9));
    scene_expect_quiet(s);
    asked_answer(asked[2], 200, pod_list(100, NULL, one_name)); /* then the second list */
    (void)scene_asked(s, path_of(2));
    scene_expect_quiet(s);
    for (unsigned n = 1; n < 12; n++) {
        client_close(&clients[n]);
    }
}

static void send_large_list(struct scene *s, struct asked *a, size_t size)
{
    asked_begin(a, NULL);
    asked_send(a, "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":"
                  "\"100\",\"continue\":\"more\"},\"items\":[{\"metadata\":{\"name\":\"p\"}}");
    for (size_t sent = 0; sent < size; sent += 512 * 1024) {
        asked_send(a, ",{\"metadata\":{\"name\":\"p\"},\"data\":\"");
        send_large(a, 'x', 512 * 1024);
        asked_send(a, "\"}");
        while (http_exchange_blocked(a->x)) {
            run_for(s->loop, 1);
        }
    }
    asked_send(a, "]}");
    asked_end(a);
}

/* Until something has come that it could read; it does not. */
static void expect_readable(struct scene *s, const struct client *c)
{
    struct pollfd fd = {.fd = c->fd, .events = POLLIN};
    for (int turn = 0; turn < 5000 && poll(&fd, 1, 0) == 0; turn++) {
        run_for(s->loop, 1);
    }
    assert_int_equal(fd.revents, POLLIN);
}

/* Clients that do not read hold what was listed for them. Whoever has nothing yet waits then; who
 * has something, and would have to wait for more, is cut. */
static void memory_of_all_migrations_is_bounded(void **state)
{
    struct scene *s = *state;
    static struct client clients[9];
    struct asked *lists[8];
    scene_limit(s, "ns in (a)");
    for (unsigned n = 0; n < 9; n++) {
        (void)open_watch_of(s, &clients[n], path_of(n));
    }
    scene_limit(s, "ns in (b)");
    for (unsigned n = 0; n < 8; n++) {
        lists[n] = scene_asked(s, "resourceVersionMatch=Exact");
    }
    for (unsigned n = 0; n < 5; n++) {
        send_large_list(s, lists[n], (size_t)14 * 1024 * 1024);
        expect_readable(s, &clients[n]);
    }
    scene_expect_quiet(s);
    asked_answer(lists[5], 200, pod_list(100, NULL, one_name));
    scene_expect(s, &clients[5], "\"code\":410");
    assert_int_equal(s->metrics.fallbacks[FALLBACK_SIZE], 1);
    for (unsigned n = 0; n < 3; n++) {
        scene_expect_quiet(s);
        client_close(&clients[n]);
    }
    (void)scene_asked(s, path_of(8));
    assert_false(client_has(&clients[8], "410"));
    for (unsigned n = 3; n < 9; n++) {
        client_close(&clients[n]);
    }
}

static const char gone[] = "{\"kind\":\"Status\",\"code\":410}";

static void version_in_memory_will_do(void **state)
{
    struct scene *s = *state;
    struct client c;
    scene_limit(s, "ns in (a)");
    (void)open_watch(s, &c);
    scene_limit(s, "ns in (b)");
    asked_answer(scene_asked(s, "resourceVersionMatch=Exact"), 410, gone);
    asked_answer(scene_asked(s, "&resourceVersion=0"), 200, pod_list(100, NULL, one_name));
    asked_answer(scene_asked(s, "&resourceVersion=0"), 200, pod_list(100, NULL, one_name));
    scene_expect(s, &c, "\"DELETED\"");
    scene_expect(s, &c, "\"ADDED\"");
    (void)scene_asked(s, "watch=1&allowWatchBookmarks=true&resourceVersion=100");
    assert_false(client_has(&c, "410"));
    client_close(&c);
}

static void later_version_is_found(void **state)
{
    struct scene *s = *state;
    struct client c;
    scene_limit(s, "ns in (a)");
    (void)open_watch(s, &c);
    scene_limit(s, "ns in (b)");
    asked_answer(scene_asked(s, "resourceVersionMatch=Exact"), 410, gone);
    asked_answer(scene_asked(s, "&resourceVersion=0"), 200, pod_list(150, NULL, one_name));
    struct asked *probe = scene_asked(s, "timeoutSeconds=3");
    struct asked *other = scene_asked(s, "timeoutSeconds=3");
    asked_begin(probe, NULL);
    asked_send(probe, pod_event("MODIFIED", "secret", 141));
    asked_answer(scene_asked(s, "resourceVersion=140&resourceVersionMatch=Exact"), 200,
                 pod_list(140, NULL, one_name));
    asked_answer(scene_asked(s, "resourceVersion=140&resourceVersionMatch=Exact"), 200,
                 pod_list(140, NULL, one_name));
    scene_expect(s, &c, "\"ADDED\"");
    (void)scene_asked(s, "watch=1&allowWatchBookmarks=true&resourceVersion=140");
    scene_expect_gone(s, other);
    assert_false(client_has(&c, "secret"));
    assert_false(client_has(&c, "410"));
    client_close(&c);
}

static void no_later_version_is_found(void **state)
{
    struct scene *s = *state;
    struct client c;
    scene_limit(s, "ns in (a)");
    (void)open_watch(s, &c);
    scene_limit(s, "ns in (b)");
    asked_answer(scene_asked(s, "resourceVersionMatch=Exact"), 410, gone);
    asked_answer(scene_asked(s, "&resourceVersion=0"), 200, pod_list(150, NULL, one_name));
    asked_answer(scene_asked(s, "timeoutSeconds=3"), 500, gone);
    asked_answer(scene_asked(s, "timeoutSeconds=3"), 410, gone);
    scene_expect(s, &c, "\"code\":410");
    assert_int_equal(s->metrics.fallbacks[FALLBACK_EXPIRED], 1);
    client_close(&c);
}

/* ---- how a migration stands ---- */

static void expect_state(struct scene *s, const char *state)
{
    cJSON *watches = cJSON_CreateArray();
    assert_int_equal(proxy_describe_watches(s->proxy, watches), 1);
    const cJSON *watch = cJSON_GetArrayItem(watches, 0);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(watch, "state")), state);
    cJSON_Delete(watches);
}

static void status_follows_a_migration(void **state)
{
    struct scene *s = *state;
    struct client c;
    scene_limit(s, "ns in (a)");
    (void)open_watch(s, &c);
    expect_state(s, "Passing");
    scene_limit(s, "ns in (b)");
    expect_state(s, "ListingDifference");
    asked_answer(scene_asked(s, "resourceVersionMatch=Exact"), 200, pod_list(100, NULL, one_name));
    asked_answer(scene_asked(s, "resourceVersionMatch=Exact"), 200, pod_list(100, NULL, one_name));
    struct asked *next = scene_asked(s, "watch=1");
    expect_state(s, "Reopening");
    asked_begin(next, NULL);
    asked_send(next, pod_event("ADDED", "later", 101));
    scene_expect(s, &c, "later");
    expect_state(s, "Passing");
    assert_int_equal(s->metrics.transitions, 1);
    assert_int_equal(s->metrics.spliced_events, 2);
    client_close(&c);
}

static const char *const lost_name[] = {"lost", NULL};
static const char *const gained_name[] = {"gained", NULL};

/* Nothing is written before all is there: until then it can be given up. What is lost comes first,
 * as a client may hold so many objects only. */
static void all_is_listed_before_the_lost_is_written(void **state)
{
    struct scene *s = *state;
    struct client c;
    scene_limit(s, "ns in (a)");
    (void)open_watch(s, &c);
    scene_limit(s, "ns in (b)");
    struct asked *a = scene_asked(s, "resourceVersionMatch=Exact");
    assert_non_null(strstr(a->target, "%28a%29"));
    asked_answer(a, 200, pod_list(100, NULL, lost_name));
    a = scene_asked(s, "resourceVersionMatch=Exact");
    run_for(s->loop, 20);
    assert_false(client_has(&c, "DELETED"));
    asked_answer(a, 200, pod_list(100, NULL, gained_name));
    scene_expect(s, &c, "BOOKMARK");
    const char *text = buf_cstr(&c.text);
    assert_true(strstr(text, "\"lost\"") < strstr(text, "\"gained\""));
    client_close(&c);
}

static void who_takes_no_bookmarks_gets_none(void **state)
{
    struct scene *s = *state;
    struct client c;
    scene_limit(s, "ns in (a)");
    list_at(s, "/api/v1/pods", 100);
    scene_get(s, &c, "/api/v1/pods?watch=1&resourceVersion=100");
    asked_begin(scene_asked(s, "watch=1"), NULL);
    scene_expect(s, &c, "200 OK");
    scene_limit(s, "ns in (b)");
    asked_answer(scene_asked(s, "resourceVersionMatch=Exact"), 200, pod_list(100, NULL, lost_name));
    asked_answer(scene_asked(s, "resourceVersionMatch=Exact"), 200,
                 pod_list(100, NULL, gained_name));
    (void)scene_asked(s, "watch=1");
    scene_expect(s, &c, "gained");
    assert_false(client_has(&c, "BOOKMARK"));
    client_close(&c);
}

/* What was listed as it was at the version is not mixed with what is in memory: all is listed
 * anew. */
static void memory_is_listed_from_the_beginning(void **state)
{
    struct scene *s = *state;
    struct client c;
    scene_limit(s, "ns in (a)");
    (void)open_watch(s, &c);
    scene_limit(s, "ns in (b)");
    asked_answer(scene_asked(s, "resourceVersionMatch=Exact"), 200, pod_list(100, NULL, one_name));
    asked_answer(scene_asked(s, "resourceVersionMatch=Exact"), 410, gone);
    asked_answer(scene_asked(s, "&resourceVersion=0"), 200, pod_list(100, NULL, lost_name));
    asked_answer(scene_asked(s, "&resourceVersion=0"), 200, pod_list(100, NULL, gained_name));
    scene_expect(s, &c, "\"gained\"");
    assert_true(client_has(&c, "\"lost\""));
    assert_false(client_has(&c, "\"one\""));
    assert_int_equal(s->metrics.spliced_events, 2);
    client_close(&c);
}

/* The client may have read each of the events, the oldest too. */
static void versions_of_what_was_written_are_no_points(void **state)
{
    struct scene *s = *state;
    struct client c;
    scene_limit(s, "ns in (a)");
    (void)open_watch(s, &c);
    scene_limit(s, "ns in (b)");
    asked_answer(scene_asked(s, "resourceVersionMatch=Exact"), 200, pod_list(100, NULL, lost_name));
    asked_answer(scene_asked(s, "resourceVersionMatch=Exact"), 200,
                 "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{"
                 "\"resourceVersion\":\"100\"},\"items\":[{\"metadata\":{\"name\":\"gained\","
                 "\"resourceVersion\":\"50\"}}]}");
    struct asked *next = scene_asked(s, "watch=1");
    client_close(&c);
    scene_expect_gone(s, next);
    list_at(s, "/api/v1/pods", 30); /* lost_name has version 10 */
    scene_get(s, &c, "/api/v1/pods?watch=1&resourceVersion=30");
    scene_expect(s, &c, "410 Gone");
    client_close(&c);
}

/* ---- a migration that fails ---- */

static void expect_cut(struct scene *s, struct client *c, enum fallback why)
{
    scene_expect(s, c, "\"code\":410");
    for (unsigned i = 0; i < FALLBACKS; i++) {
        assert_int_equal(s->metrics.fallbacks[i], i == why);
    }
    assert_int_equal(s->metrics.watches_cut, 1);
    scene_expect_quiet(s);
    client_close(c);
}

/* The lists would be asked for in localproxy's own name. */
static void watch_in_the_name_of_another_is_cut(void **state)
{
    struct scene *s = *state;
    struct client c;
    scene_limit(s, "ns in (a)");
    list_at(s, "/api/v1/pods", 100);
    client_open(s, &c);
    client_send(&c, "GET /api/v1/pods" WATCH " HTTP/1.1\r\nHost: x\r\n"
                    "Accept: application/json\r\nimpersonate-user: other\r\n\r\n");
    asked_begin(scene_asked(s, "watch=1"), NULL);
    scene_expect(s, &c, "200 OK");
    scene_limit(s, "ns in (b)");
    expect_cut(s, &c, FALLBACK_FORM);
}

static void new_watch_in_another_encoding_is_not_passed(void **state)
{
    struct scene *s = *state;
    struct client c;
    scene_limit(s, "ns in (a)");
    (void)open_watch(s, &c);
    scene_limit(s, "ns in (b)");
    asked_answer(scene_asked(s, "resourceVersionMatch=Exact"), 200, pod_list(100, NULL, one_name));
    asked_answer(scene_asked(s, "resourceVersionMatch=Exact"), 200, pod_list(100, NULL, one_name));
    struct asked *next = scene_asked(s, "watch=1");
    asked_begin(next, "application/vnd.kubernetes.protobuf;stream=watch");
    scene_expect_gone(s, next);
    expect_cut(s, &c, FALLBACK_REOPEN);
}

/* Until the difference is being written to a client that does not read. */
static void begin_writing(struct scene *s, struct client *c)
{
    scene_limit(s, "ns in (a)");
    (void)open_watch(s, c);
    scene_limit(s, "ns in (b)");
    send_large_list(s, scene_asked(s, "resourceVersionMatch=Exact"), (size_t)14 * 1024 * 1024);
    expect_readable(s, c);
    expect_state(s, "WritingDifference");
}

static void rules_that_change_while_it_is_written_cut_it(void **state)
{
    struct scene *s = *state;
    struct client c;
    begin_writing(s, &c);
    scene_limit(s, "ns in (b,c)");
    expect_cut(s, &c, FALLBACK_SUPERSEDED);
}

/* Some of the events went out: it can neither begin again nor be as at another version. */
static void version_that_expires_while_it_is_written_cuts_it(void **state)
{
    struct scene *s = *state;
    struct client c;
    begin_writing(s, &c);
    struct asked *more = NULL;
    for (int turn = 0; turn < 1000 && more == NULL; turn++) {
        client_read(&c);
        run_for(s->loop, 5);
        more = s->count > 3 ? scene_asked(s, "continue=more") : NULL;
    }
    assert_non_null(more);
    asked_answer(more, 410, gone);
    expect_cut(s, &c, FALLBACK_EXPIRED);
}

/* It has read some of what the rules between show, and would go on as if it had not. */
static void who_leaves_while_it_is_written_lists_again(void **state)
{
    struct scene *s = *state;
    struct client c;
    begin_writing(s, &c);
    client_close(&c);
    scene_expect_number(s, &s->metrics.open_watches, 0);
    scene_limit(s, "ns in (a)");
    scene_get(s, &c, "/api/v1/pods?watch=1&resourceVersion=100");
    scene_expect(s, &c, "410 Gone");
    client_close(&c);
}

static void shutdown_waits_for_no_migration(void **state)
{
    struct scene *s = *state;
    struct client c;
    scene_limit(s, "ns in (a)");
    (void)open_watch(s, &c);
    scene_limit(s, "ns in (b)");
    struct asked *list = scene_asked(s, "resourceVersionMatch=Exact");
    proxy_drain(s->proxy);
    scene_expect(s, &c, "\"code\":410");
    scene_expect_gone(s, list);
    client_close(&c);
}

/* ---- writes to what was lost ---- */

static void write_to_what_was_lost_is_waited_for(void **state)
{
    struct scene *s = *state;
    struct client c;
    scene_limit(s, OWN " in (a)");
    client_open(s, &c);
    client_send(&c, "POST /api/v1/namespaces/a/pods HTTP/1.1\r\nHost: x\r\n"
                    "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
    struct asked *a = scene_asked(s, "/namespaces/a/pods");
    unsigned before = s->settled;
    scene_limit(s, OWN " in (b)");
    run_for(s->loop, 20);
    assert_int_equal(s->settled, before);
    assert_false(proxy_settled(s->proxy));
    asked_answer(a, 201, "{}");
    scene_expect(s, &c, "201 Created");
    run_for(s->loop, 20);
    assert_int_equal(s->settled, before + 1);
    assert_true(proxy_settled(s->proxy));
    client_close(&c);
}

/* ---- a tunnel ---- */

static void tunnel_passes_bytes_and_its_end(void **state)
{
    struct scene *s = *state;
    struct client c;
    const struct http_header upgrade[] = {{SLICE("Upgrade"), SLICE("SPDY/3.1")},
                                          {SLICE("Connection"), SLICE("Upgrade")}};
    struct http_head head = {.status = 101, .headers = upgrade, .header_count = 2};
    scene_limit(s, "ns in (a)");
    client_open(s, &c);
    client_send(&c, "POST /api/v1/namespaces/a/pods/x/exec?command=sh HTTP/1.1\r\nHost: x\r\n"
                    "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n");
    struct asked *a = scene_asked(s, "/exec");
    assert_int_equal(http_exchange_send_head(a->x, &head), 0);
    scene_expect(s, &c, "101 Switching");
    assert_int_equal(s->metrics.tunnels, 1);
    asked_send(a, "from the pod");
    scene_expect(s, &c, "from the pod");
    a->ended = false;
    client_send(&c, "to the pod");
    assert_int_equal(shutdown(c.fd, SHUT_WR), 0);
    for (int turn = 0; turn < 1000 && !a->ended; turn++) {
        run_for(s->loop, 1);
    }
    assert_true(a->ended);
    asked_end(a);
    scene_expect(s, &c, NULL);
    scene_expect_number(s, &s->metrics.tunnels, 0);
    client_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(exec_by_get_is_a_write, setup, teardown),
        cmocka_unit_test_setup_teardown(pending_watch_with_a_body_does_not_keep_old_rules, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(large_event_is_finished_before_the_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(lists_of_the_difference_share_connections, setup, teardown),
        cmocka_unit_test_setup_teardown(few_lists_are_asked_for_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_of_all_migrations_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(version_in_memory_will_do, setup, teardown),
        cmocka_unit_test_setup_teardown(later_version_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(no_later_version_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(status_follows_a_migration, setup, teardown),
        cmocka_unit_test_setup_teardown(all_is_listed_before_the_lost_is_written, setup, teardown),
        cmocka_unit_test_setup_teardown(who_takes_no_bookmarks_gets_none, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_is_listed_from_the_beginning, setup, teardown),
        cmocka_unit_test_setup_teardown(versions_of_what_was_written_are_no_points, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(watch_in_the_name_of_another_is_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(new_watch_in_another_encoding_is_not_passed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(rules_that_change_while_it_is_written_cut_it, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(version_that_expires_while_it_is_written_cuts_it, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(who_leaves_while_it_is_written_lists_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(shutdown_waits_for_no_migration, setup, teardown),
        cmocka_unit_test_setup_teardown(write_to_what_was_lost_is_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(tunnel_passes_bytes_and_its_end, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
