/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that are not client-go, and servers that are not kube-apiserver: what each makes of the
 * answers that it gets when the rules change.
 */
#include "reload_fixture.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "temp_dir.h"

#define PODS "/api/v1/pods"
#define EXPIRED_EVENT "\"reason\":\"Expired\",\"code\":410}}\n"
#define ONE "/api/v1/namespaces/a/pods/x"

static const char *const old_name[] = {"old", NULL};
static const char *const new_name[] = {"new", NULL};

static void send_watch(struct fixture *f, struct client *c, unsigned version, const char *headers)
{
    char text[512];
    client_open(f, c);
    (void)snprintf(text, sizeof text,
                   "GET " PODS
                   "?allowWatchBookmarks=true&resourceVersion=%u&watch=true HTTP/1.1\r\n"
                   "Host: localhost\r\n%s\r\n",
                   version, headers);
    client_send(c, text);
}

static void list_pods(struct fixture *f, unsigned version, const char *const *names)
{
    struct client c;
    fixture_get(f, &c, PODS);
    api_answer(api_expect_part(f->api, PODS), 200, NULL, pod_list(version, NULL, names));
    fixture_expect(f, &c, names != NULL ? names[0] : "PodList");
    client_close(&c);
}

/* The API server answers two lists: what is lost, what is gained. */
static void answer_difference(struct fixture *f, unsigned version)
{
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
               pod_list(version, NULL, old_name));
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
               pod_list(version, NULL, new_name));
}

/* ---- Fabric8's kubernetes-client: watches over WebSocket if the server switches to it, and by
 * plain HTTP if the server answers 200 ---- */

#define WEBSOCKET                                                                                  \
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"                   \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define PLAIN_HTTP "Accept: application/json\r\nAccept-Encoding: gzip\r\n"

static void switch_protocols(struct api_request *q)
{
    const struct http_header upgrade[] = {{SLICE("Upgrade"), SLICE("websocket")},
                                          {SLICE("Connection"), SLICE("Upgrade")}};
    const struct http_head head = {.status = 101, .headers = upgrade, .header_count = 2};
    api_begin_head(q, &head);
}

/* As kube-apiserver, which switches whoever asks for it. */
static struct api_request *answer_watch(struct fixture *f)
{
    struct api_request *q = api_expect_part(f->api, "watch=true");
    if (q->upgrade[0] != '\0') {
        switch_protocols(q);
    } else {
        api_begin(q, NULL);
    }
    return q;
}

static struct api_request *watch_as_fabric8(struct fixture *f, struct client *c, unsigned version)
{
    send_watch(f, c, version, WEBSOCKET);
    struct api_request *q = answer_watch(f);
    fixture_expect(f, c, "\r\n\r\n");
    if (client_has(c, "HTTP/1.1 101")) {
        return q;
    }
    assert_true(client_has(c, "HTTP/1.1 200"));
    client_close(c);
    api_expect_given_up(q);
    send_watch(f, c, version, PLAIN_HTTP);
    q = answer_watch(f);
    fixture_expect(f, c, "HTTP/1.1 200");
    return q;
}

static void fabric8_follows_new_rules(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    list_pods(f, 100, old_name);
    api_send(watch_as_fabric8(f, &c, 100), pod_event("MODIFIED", "old", 150));
    fixture_expect(f, &c, "\"150\"");
    assert_int_equal(f->metrics.tunnels, 0);
    fixture_limit(f, "ns in (b)");
    answer_difference(f, 150);
    fixture_expect(f, &c, "{\"type\":\"DELETED\"");
    fixture_expect(f, &c, "{\"type\":\"ADDED\"");
    struct api_request *q = answer_watch(f);
    assert_non_null(strstr(q->target, "resourceVersion=150"));
    api_send(q, pod_event("MODIFIED", "new", 151));
    fixture_expect(f, &c, "\"151\"");
    client_close(&c);
}

/* Its last version is of other rules: it is told so in the stream that it falls back on. */
static void fabric8_lists_again(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    list_pods(f, 100, old_name);
    fixture_limit(f, "ns in (b)");
    send_watch(f, &c, 100, WEBSOCKET);
    fixture_expect(f, &c, EXPIRED_EVENT);
    assert_true(client_has(&c, "HTTP/1.1 200"));
    client_close(&c);
    send_watch(f, &c, 100, PLAIN_HTTP);
    fixture_expect(f, &c, EXPIRED_EVENT);
    client_close(&c);
    list_pods(f, 101, new_name);
    send_watch(f, &c, 101, PLAIN_HTTP);
    api_begin(api_expect_part(f->api, "watch=true"), NULL);
    fixture_expect(f, &c, "HTTP/1.1 200");
    client_close(&c);
    api_expect_quiet(f->api);
}

/* Some server switches although nobody asked it to: events would pass under no rules. */
static void no_watch_is_a_tunnel(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    list_pods(f, 100, old_name);
    send_watch(f, &c, 0, WEBSOCKET);
    switch_protocols(api_expect_part(f->api, "watch=true"));
    fixture_expect(f, &c, "switched protocols");
    assert_true(client_has(&c, "HTTP/1.1 502"));
    assert_false(client_has(&c, "Retry-After"));
    assert_int_equal(f->metrics.tunnels, 0);
    client_close(&c);
}

/* ---- client-go repeats whatever is answered with 429 or 5xx and Retry-After ---- */

static void ask(struct fixture *f, struct client *c, const char *method)
{
    char text[256];
    bool has_body = method[0] == 'P';
    client_open(f, c);
    (void)snprintf(text, sizeof text,
                   "%s " ONE " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                   "Content-Length: %d\r\n\r\n%s",
                   method, has_body ? 2 : 0, has_body ? "{}" : "");
    client_send(c, text);
}

static void expect_failure(struct fixture *f, struct client *c, const char *status, bool again,
                           const char *why)
{
    fixture_expect(f, c, status);
    fixture_expect(f, c, "\"kind\":\"Status\"");
    assert_true(client_has(c, why));
    assert_true(client_has(c, "\r\nRetry-After: 1\r\n") == again);
    assert_true(client_has(c, "retryAfterSeconds") == again);
    client_close(c);
}

/* A second time the operator would be told AlreadyExists or NotFound of its own doing. */
static void lost_writes_are_not_repeated(void **state)
{
    static const char *const methods[] = {"POST", "PUT", "PATCH", "DELETE"};
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, NULL);
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        ask(f, &c, methods[i]);
        api_cut(api_expect(f->api, methods[i], ONE));
        expect_failure(f, &c, "HTTP/1.1 502", false, "may have been executed");
    }
}

static void lost_reads_are_repeated(void **state)
{
    static const char *const methods[] = {"GET", "OPTIONS"};
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, NULL);
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        ask(f, &c, methods[i]);
        api_cut(api_expect(f->api, methods[i], ONE));
        expect_failure(f, &c, "HTTP/1.1 503", true, "cannot be asked");
    }
}

static int accept_one(struct fixture *f)
{
    int fd = -1;
    for (int turn = 0; turn < 5000 && fd < 0; turn++) {
        run_for(f->api->loop, 1);
        fd = accept(f->api->reserved, NULL, NULL);
    }
    assert_true(fd >= 0);
    return fd;
}

/* Whoever it is will answer the same again. */
static void answers_that_are_no_http_are_not_asked_for_again(void **state)
{
    static const char *const answers[] = {"SSH-2.0-OpenSSH_9\r\n\r\n", "HTTP/3.0 200 OK\r\n\r\n"};
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, NULL);
    api_stop(f->api);
    assert_int_equal(listen(f->api->reserved, 16), 0);
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        ask(f, &c, "GET");
        int fd = accept_one(f);
        size_t len = strlen(answers[i]);
        assert_int_equal(send(fd, answers[i], len, MSG_NOSIGNAL), len);
        expect_failure(f, &c, "HTTP/1.1 502", false, "invalid answer");
        assert_int_equal(close(fd), 0);
    }
}

/* The command may run. */
static void lost_commands_are_not_repeated(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, NULL);
    client_open(f, &c);
    client_send(&c, "GET " ONE "/exec?command=sh HTTP/1.1\r\nHost: localhost\r\n" WEBSOCKET "\r\n");
    api_cut(api_expect_part(f->api, "/exec"));
    expect_failure(f, &c, "HTTP/1.1 502", false, "may have been executed");
}

static void what_was_not_sent_is_repeated(void **state)
{
    static const char *const methods[] = {"POST", "DELETE", "GET"};
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, NULL);
    api_stop(f->api);
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        ask(f, &c, methods[i]);
        expect_failure(f, &c, "HTTP/1.1 503", true, "refused");
    }
    assert_true(api_listen(f->api));
}

/* ---- client-go before 0.22 lists whatever a watch is answered with, but not when a connection is
 * refused; later ones ask for the watch again upon 429, too ---- */

/* The API server is away, and a watch waits for it. */
static void wait_for_api(struct fixture *f, struct client *c)
{
    uint64_t failed = f->upstream->errors + 1;
    fixture_limit(f, "ns in (a)");
    list_pods(f, 100, old_name);
    api_stop(f->api);
    send_watch(f, c, 100, PLAIN_HTTP);
    fixture_expect_number(f, &f->upstream->errors, failed + 1); /* tried again already */
    assert_int_equal(c->text.len, 0);
}

static void watch_waits_while_the_api_server_is_away(void **state)
{
    struct fixture *f = *state;
    struct client c;
    wait_for_api(f, &c);
    assert_true(api_listen(f->api));
    api_begin(api_expect_part(f->api, "resourceVersion=100"), NULL);
    fixture_expect(f, &c, "HTTP/1.1 200");
    client_close(&c);
}

static void watch_that_waits_comes_under_new_rules(void **state)
{
    struct fixture *f = *state;
    struct client c;
    wait_for_api(f, &c);
    fixture_limit(f, "ns in (b)");
    fixture_expect(f, &c, EXPIRED_EVENT);
    client_close(&c);
}

static void client_that_waits_goes(void **state)
{
    struct fixture *f = *state;
    struct client c;
    wait_for_api(f, &c);
    client_close(&c);
    assert_true(api_listen(f->api));
    fixture_get(f, &c, ONE); /* nobody asks for the watch meanwhile */
    api_answer(api_expect(f->api, "GET", ONE), 200, NULL, "{}");
    fixture_expect(f, &c, "{}");
    client_close(&c);
}

static void localproxy_ends_while_a_watch_waits(void **state)
{
    struct fixture *f = *state;
    struct client c;
    wait_for_api(f, &c);
    proxy_drain(f->proxy);
    expect_failure(f, &c, "HTTP/1.1 429", true, "refused");
}

static void localproxy_is_killed_while_a_watch_waits(void **state)
{
    struct fixture *f = *state;
    struct client c;
    wait_for_api(f, &c);
    fixture_restart(f);
    fixture_expect(f, &c, NULL);
    assert_int_equal(c.text.len, 0);
    client_close(&c);
}

static void watch_that_was_sent_does_not_wait(void **state)
{
    struct fixture *f = *state;
    struct client c;
    wait_for_api(f, &c);
    assert_true(api_listen(f->api));
    api_cut(api_expect_part(f->api, "watch=true"));
    expect_failure(f, &c, "HTTP/1.1 429", true, "\"reason\":\"TooManyRequests\"");
}

/* ---- kube-rs: only an ERROR event of code 410 makes it list again; a watch that cannot be started
 * is asked for again from the same version, for ever ---- */

static uint64_t watches_answered(const struct metrics *m, unsigned code)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < m->code_count; i++) {
        count += m->codes[i].verb == VERB_WATCH && m->codes[i].code == code ? m->codes[i].count : 0;
    }
    return count;
}

static bool is_started(struct client *c)
{
    return client_has(c, "HTTP/1.1 200");
}

static void kube_rs_lists_again(void **state)
{
    static const char *const accepts[] = {"", "Accept: application/json\r\n", "Accept: */*\r\n"};
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    list_pods(f, 100, old_name);
    fixture_limit(f, "ns in (b)");
    for (size_t i = 0; i < ARRAY_LEN(accepts); i++) {
        send_watch(f, &c, 100, accepts[i]);
        fixture_expect(f, &c, EXPIRED_EVENT "\r\n0\r\n\r\n");
        assert_true(is_started(&c));
        assert_true(client_has(&c, "\r\nContent-Type: application/json\r\n"));
        client_close(&c);
    }
    assert_int_equal(f->metrics.resumes_refused, ARRAY_LEN(accepts));
    assert_int_equal(watches_answered(&f->metrics, 200), ARRAY_LEN(accepts));
    api_expect_quiet(f->api);
}

static void protobuf_is_answered_in_protobuf(void **state)
{
    static const char type[] =
        "\r\nContent-Type: application/vnd.kubernetes.protobuf;stream=watch\r\n";
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    list_pods(f, 100, old_name);
    fixture_limit(f, "ns in (b)");
    send_watch(f, &c, 100,
               "Accept: application/vnd.kubernetes.protobuf;stream=watch,application/json\r\n");
    fixture_expect(f, &c,
                   "\"\x07"
                   "Expired0\x9a\x03");
    assert_true(client_has(&c, type));
    client_close(&c);
    /* In what localproxy cannot write it says so as it can. */
    send_watch(f, &c, 100, "Accept: application/cbor-seq\r\n");
    fixture_expect(f, &c, "list again");
    assert_true(client_has(&c, "HTTP/1.1 410"));
    client_close(&c);
    api_expect_quiet(f->api);
}

/* ---- streams that cannot be read ---- */

/* Go's client asks for gzip by itself, and Kubernetes 1.37 compresses what a watch begins with. */
static void watches_are_asked_for_as_they_can_be_read(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    list_pods(f, 100, old_name);
    send_watch(f, &c, 0, PLAIN_HTTP);
    struct api_request *q = api_expect_part(f->api, "watch=true");
    assert_string_equal(q->accept_encoding, "identity");
    client_close(&c);
    fixture_get(f, &c, PODS);
    q = api_expect_part(f->api, PODS);
    assert_string_equal(q->accept_encoding, "");
    client_close(&c);
    client_open(f, &c);
    client_send(&c, "GET " PODS " HTTP/1.1\r\nHost: localhost\r\n" PLAIN_HTTP "\r\n");
    q = api_expect_part(f->api, PODS);
    assert_string_equal(q->accept_encoding, "gzip");
    client_close(&c);
}

static void answer_unreadable(struct fixture *f, struct client *c, const char *target)
{
    fixture_get(f, c, target);
    struct api_request *q = api_expect_part(f->api, target);
    api_begin(q, "text/plain");
    api_send(q, "anything");
    api_end(q);
    fixture_expect(f, c, "anything");
    client_close(c);
}

/* Whoever got it may have any version and any token of the rules in force, and of no others. */
static void lists_that_cannot_be_read_may_be_of_any_version(void **state)
{
    struct fixture *f = *state;
    struct client c;
    struct temp_dir dir;
    char path[256];
    temp_dir_init(&dir);
    f->flags.state = temp_dir_path(&dir, "state", path); /* so that all else is known */
    fixture_restart(f);
    fixture_limit(f, "a");
    answer_unreadable(f, &c, PODS "?limit=1");
    answer_unreadable(f, &c, PODS "?limit=1&continue=some");
    fixture_limit(f, "b");
    send_watch(f, &c, 500, PLAIN_HTTP);
    fixture_expect(f, &c, EXPIRED_EVENT);
    client_close(&c);
    f->flags.state = NULL;
    fixture_restart(f);
    temp_dir_deinit(&dir);
}

/* It tells nobody anything. */
static void the_head_of_a_list_is_of_no_version(void **state)
{
    struct fixture *f = *state;
    struct client c;
    struct temp_dir dir;
    char path[256];
    temp_dir_init(&dir);
    f->flags.state = temp_dir_path(&dir, "state", path); /* so that all else is known */
    fixture_restart(f);
    fixture_limit(f, "a");
    client_open(f, &c);
    client_send(&c, "HEAD " PODS " HTTP/1.1\r\nHost: localhost\r\n" PLAIN_HTTP "\r\n");
    struct api_request *q = api_expect_part(f->api, PODS);
    api_begin(q, "application/json");
    api_end(q);
    fixture_expect(f, &c, "200 OK");
    client_close(&c);
    fixture_limit(f, "b");
    send_watch(f, &c, 500, PLAIN_HTTP);
    api_expect_part(f->api, "watch=true");
    client_close(&c);
    f->flags.state = NULL;
    fixture_restart(f);
    temp_dir_deinit(&dir);
}

/* ---- the end of a stream ---- */

/* kube-apiserver ends each event with a newline; other servers need not. */
static void last_event_needs_no_newline(void **state)
{
    struct fixture *f = *state;
    struct client c;
    char event[512];
    const struct http_header type = {SLICE("Content-Type"), SLICE("application/json")};
    (void)snprintf(event, sizeof event, "%s", pod_event("ADDED", "last", 150));
    event[strlen(event) - 1] = '\0';
    const struct http_head head = {.status = 200,
                                   .headers = &type,
                                   .header_count = 1,
                                   .framing = HTTP_BODY_LENGTH,
                                   .content_length = strlen(event)};
    fixture_limit(f, "ns in (a)");
    list_pods(f, 100, old_name);
    send_watch(f, &c, 100, PLAIN_HTTP "Connection: close\r\n");
    struct api_request *q = api_expect_part(f->api, "watch=true");
    api_begin_head(q, &head);
    api_send(q, event);
    api_end(q);
    fixture_expect(f, &c, NULL);
    assert_true(client_has(&c, event));
    client_close(&c);
    /* It was delivered: who goes on from it under other rules is told to list. */
    fixture_limit(f, "ns in (b)");
    send_watch(f, &c, 150, PLAIN_HTTP);
    fixture_expect(f, &c, EXPIRED_EVENT);
    client_close(&c);
}

static void tunnel_passes_bytes_and_its_end(void **state)
{
    struct fixture *f = *state;
    struct client c;
    const struct http_header upgrade[] = {{SLICE("Upgrade"), SLICE("SPDY/3.1")},
                                          {SLICE("Connection"), SLICE("Upgrade")}};
    struct http_head head = {.status = 101, .headers = upgrade, .header_count = 2};
    fixture_limit(f, "ns in (a)");
    client_open(f, &c);
    client_send(&c,
                "POST /api/v1/namespaces/a/pods/x/exec?command=sh HTTP/1.1\r\nHost: localhost\r\n"
                "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n");
    struct api_request *a = api_expect_part(f->api, "/exec");
    assert_int_equal(http_exchange_send_head(a->x, &head), 0);
    fixture_expect(f, &c, "101 Switching");
    assert_int_equal(f->metrics.tunnels, 1);
    api_send(a, "from the pod");
    fixture_expect(f, &c, "from the pod");
    a->whole = false;
    client_send(&c, "to the pod");
    assert_int_equal(shutdown(c.fd, SHUT_WR), 0);
    for (int turn = 0; turn < 1000 && !a->whole; turn++) {
        run_for(f->api->loop, 1);
    }
    assert_true(a->whole);
    api_end(a);
    fixture_expect(f, &c, NULL);
    fixture_expect_number(f, &f->metrics.tunnels, 0);
    client_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fabric8_follows_new_rules, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(fabric8_lists_again, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(kube_rs_lists_again, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(protobuf_is_answered_in_protobuf, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(no_watch_is_a_tunnel, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(lost_writes_are_not_repeated, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(lost_reads_are_repeated, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(answers_that_are_no_http_are_not_asked_for_again,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(lost_commands_are_not_repeated, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(what_was_not_sent_is_repeated, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(watch_waits_while_the_api_server_is_away, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(watch_that_waits_comes_under_new_rules, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(client_that_waits_goes, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(localproxy_ends_while_a_watch_waits, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(localproxy_is_killed_while_a_watch_waits, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(watch_that_was_sent_does_not_wait, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(watches_are_asked_for_as_they_can_be_read, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(lists_that_cannot_be_read_may_be_of_any_version,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(the_head_of_a_list_is_of_no_version, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(last_event_needs_no_newline, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(tunnel_passes_bytes_and_its_end, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
