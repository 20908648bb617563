/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the proxy refuses before the API server hears of it, and what it lets through.
 */
#include "reload_fixture.h"

#include <stdlib.h>

#include "base/file.h"
#include "certs.h"
#include "http/fetch.h"
#include "temp_dir.h"

#define OWN "ctrlmesh.kusionstack.io/namespace"

static void ask(struct fixture *f, struct client *c, const char *method, const char *target,
                const char *header)
{
    char text[1024];
    client_open(f, c);
    (void)snprintf(text, sizeof text,
                   "%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: 0\r\n"
                   "Content-Type: application/json\r\n\r\n",
                   method, target, header);
    client_send(c, text);
}

/* The API server hears nothing of it. `header`: one that the answer has. */
static void expect_refused_with(struct fixture *f, struct client *c, const char *status,
                                const char *header, const char *why)
{
    uint64_t refused = f->metrics.refused;
    fixture_expect(f, c, why);
    assert_true(client_has(c, status));
    assert_true(client_has(c, header));
    assert_true(client_has(c, "\"kind\":\"Status\""));
    assert_int_equal(f->metrics.refused, refused + 1);
    api_expect_quiet(f->api);
    client_close(c);
}

static void expect_refused(struct fixture *f, struct client *c, const char *status, const char *why)
{
    expect_refused_with(f, c, status, "Content-Type: application/json", why);
}

static void expect_passed(struct fixture *f, struct client *c, const char *target)
{
    struct api_request *q = api_expect_part(f->api, target);
    assert_string_equal(q->target, target);
    api_answer(q, 200, NULL, "{\"passed\":1}");
    fixture_expect(f, c, "{\"passed\":1}");
    client_close(c);
}

/* What the API server answers to a list at `target`, of that version. */
static void list_at(struct fixture *f, const char *target, const char *asked, unsigned version)
{
    struct client c;
    char text[32];
    ask(f, &c, "GET", target, "");
    struct api_request *q = api_expect_part(f->api, "/api/v1/pods");
    assert_string_equal(q->target, asked);
    api_answer(q, 200, NULL, pod_list(version, NULL, NULL));
    (void)snprintf(text, sizeof text, "\"%u\"", version);
    fixture_expect(f, &c, text);
    client_close(&c);
}

/* ---- the token ---- */

static void requests_without_the_token_are_refused(void **state)
{
    struct fixture *f = *state;
    struct client c;
    struct temp_dir dir;
    char path[256];
    temp_dir_init(&dir);
    temp_dir_write(&dir, "token", "secret\n", 0600);
    f->flags.token_file = temp_dir_path(&dir, "token", path);
    fixture_restart(f);
    fixture_limit(f, NULL);
    ask(f, &c, "GET", "/version", "");
    expect_refused_with(f, &c, "401 Unauthorized", "WWW-Authenticate: Bearer", "--token-file");
    ask(f, &c, "GET", "/version", "Authorization: Bearer secre\r\n");
    expect_refused(f, &c, "401 Unauthorized", "--token-file");
    ask(f, &c, "GET", "/version", "Authorization: Bearer secret\r\n");
    expect_passed(f, &c, "/version");
    temp_dir_deinit(&dir);
}

/* ---- the name that clients use ---- */

static void ask_as(struct fixture *f, struct client *c, const char *host)
{
    char text[1024];
    client_open(f, c);
    (void)snprintf(text, sizeof text, "GET /version HTTP/1.1\r\nHost: %s\r\n\r\n", host);
    client_send(c, text);
}

/* A web page whose name leads to 127.0.0.1 would get the operator's rights. */
static void other_names_are_refused_without_a_token(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, NULL);
    ask_as(f, &c, "evil.example:5443");
    expect_refused(f, &c, "403 Forbidden", "--accept-host");
    ask_as(f, &c, "127.0.0.1:5443");
    expect_passed(f, &c, "/version");
    f->flags.accept_hosts = (struct flag_list){.items = {"evil.example"}, .count = 1};
    ask_as(f, &c, "evil.example:5443");
    expect_passed(f, &c, "/version");
    f->flags.accept_hosts.count = 0;
    struct temp_dir dir;
    char path[256];
    temp_dir_init(&dir);
    temp_dir_write(&dir, "token", "secret\n", 0600);
    f->flags.token_file = temp_dir_path(&dir, "token", path);
    fixture_restart(f);
    ask_as(f, &c, "evil.example\r\nAuthorization: Bearer secret");
    expect_passed(f, &c, "/version");
    temp_dir_deinit(&dir);
}

/* ---- web pages ---- */

static void ask_with(struct fixture *f, struct client *c, const char *headers)
{
    char text[1024];
    client_open(f, c);
    (void)snprintf(text, sizeof text, "GET /version HTTP/1.1\r\nHost: localhost\r\n%s\r\n",
                   headers);
    client_send(c, text);
}

/* Whatever it may have learnt. */
static void pages_of_others_are_refused(void **state)
{
    struct fixture *f = *state;
    struct client c;
    struct temp_dir dir;
    char path[256];
    fixture_limit(f, NULL);
    ask_with(f, &c, "Origin: http://evil.example\r\n");
    expect_refused(f, &c, "403 Forbidden", "--accept-origin");
    ask_with(f, &c, "Sec-Fetch-Site: cross-site\r\n");
    expect_refused(f, &c, "403 Forbidden", "--accept-origin");
    ask_with(f, &c, "Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n");
    expect_passed(f, &c, "/version");
    temp_dir_init(&dir);
    temp_dir_write(&dir, "token", "secret\n", 0600);
    f->flags.token_file = temp_dir_path(&dir, "token", path);
    fixture_restart(f);
    ask_with(f, &c, "Origin: http://evil.example\r\n");
    expect_refused(f, &c, "401 Unauthorized", "--token-file");
    ask_with(f, &c, "Origin: http://evil.example\r\nAuthorization: Bearer secret\r\n");
    expect_refused(f, &c, "403 Forbidden", "--accept-origin");
    f->flags.accept_origins = (struct flag_list){.items = {"http://evil.example"}, .count = 1};
    ask_with(f, &c, "Origin: http://evil.example\r\nAuthorization: Bearer secret\r\n");
    expect_passed(f, &c, "/version");
    temp_dir_deinit(&dir);
}

static void send_untyped(struct fixture *f, struct client *c, const char *headers)
{
    char text[1024];
    client_open(f, c);
    (void)snprintf(text, sizeof text, "POST /api/v1/x HTTP/1.1\r\nHost: localhost\r\n%s\r\n{}",
                   headers);
    client_send(c, text);
}

/* As a page may send it that asks nobody; whoever has the token is none. */
static void a_body_without_a_type_is_refused_without_a_token(void **state)
{
    struct fixture *f = *state;
    struct client c;
    struct temp_dir dir;
    char path[256];
    f->flags.no_rules = NO_RULES_PASSTHROUGH;
    send_untyped(f, &c, "Content-Length: 2\r\n");
    expect_refused(f, &c, "415 Unsupported Media Type", "Content-Type: application/json");
    send_untyped(f, &c,
                 "Content-Length: 2\r\nUser-Agent: Mozilla/5.0 (X11; rv:68.0) Firefox/68.0\r\n"
                 "Accept: */*\r\nAccept-Language: en\r\nReferer: http://evil.example/\r\n");
    expect_refused(f, &c, "415 Unsupported Media Type", "Content-Type: application/json");
    send_untyped(f, &c, "Content-Length: 2\r\nContent-Type: application/json\r\n");
    expect_passed(f, &c, "/api/v1/x");
    /* client-go's RESTClient with raw bytes. */
    send_untyped(f, &c,
                 "User-Agent: e2e.test/v1.36.2 (linux/amd64) kubernetes/7a5c31d\r\n"
                 "Content-Length: 2\r\nAccept: application/json\r\nAccept-Encoding: gzip\r\n");
    expect_passed(f, &c, "/api/v1/x");
    temp_dir_init(&dir);
    temp_dir_write(&dir, "token", "secret\n", 0600);
    f->flags.token_file = temp_dir_path(&dir, "token", path);
    fixture_restart(f);
    send_untyped(f, &c, "Content-Length: 2\r\nAuthorization: Bearer secret\r\n");
    expect_passed(f, &c, "/api/v1/x");
    temp_dir_deinit(&dir);
}

/* ---- TLS ---- */

static void issue_certificate(struct certs_pair *ca, struct temp_dir *dir)
{
    const char *const ips[] = {"127.0.0.1", NULL};
    struct certs_pair cert;
    certs_make_ca("CA", ca);
    certs_issue(ca, &(struct certs_spec){.ips = ips}, &cert);
    temp_dir_write(dir, "cert", cert.cert, 0600);
    temp_dir_write(dir, "key", cert.key, 0600);
    certs_free(&cert);
}

struct tls_answer {
    bool done;
    unsigned status; /* 0: none */
};

static void on_tls_answer(void *data, const struct http_answer *a, const struct err *e)
{
    struct tls_answer *answer = data;
    answer->done = true;
    answer->status = e == NULL ? a->status : 0;
}

/* By a name that is not accepted without TLS. */
static unsigned get_over_tls(struct fixture *f, const struct certs_pair *ca)
{
    struct tls_answer answer = {.done = false};
    struct err e = ERR_INIT;
    struct tls_client_options tls = {.ca = slice_str(ca->cert), .server_name = "127.0.0.1"};
    struct http_client_options o = {
        .host = "127.0.0.1",
        .port = (unsigned)atoi(strrchr(proxy_address(f->proxy), ':') + 1),
        .tls = tls_config_new_client(&tls, &e),
        .connect_timeout_ms = 60000,
        .idle_timeout_ms = 60000,
        .write_timeout_ms = 60000,
    };
    struct http_client *client = http_client_new(f->api->loop, &o, &e);
    const struct http_header host = {SLICE("Host"), SLICE("evil.example")};
    const struct http_fetch_options get = {.via = http_client_requester(client),
                                           .method = SLICE("GET"),
                                           .target = SLICE("/version"),
                                           .headers = &host,
                                           .header_count = 1,
                                           .answer_max = 4096};
    assert_non_null(http_fetch_start(f->api->loop, &get, on_tls_answer, &answer, &e));
    run_until(f->api->loop, &answer.done);
    http_client_free(client);
    tls_config_unref(o.tls);
    return answer.status;
}

static void answer_all(struct scripted_api *a, struct api_request *q)
{
    (void)a;
    api_answer(q, 200, NULL, "{}");
}

static void the_certificate_may_change(void **state)
{
    struct fixture *f = *state;
    struct temp_dir dir;
    struct certs_pair ca[2];
    char cert[256];
    char key[256];
    temp_dir_init(&dir);
    issue_certificate(&ca[0], &dir);
    f->flags.listen_tls_cert = temp_dir_path(&dir, "cert", cert);
    f->flags.listen_tls_key = temp_dir_path(&dir, "key", key);
    f->secrets_check_ms = 10;
    f->api->serve = answer_all;
    fixture_restart(f);
    assert_int_equal(get_over_tls(f, &ca[0]), 200);
    issue_certificate(&ca[1], &dir);
    for (int turn = 0; turn < 500 && get_over_tls(f, &ca[1]) == 0; turn++) {
        run_for(f->api->loop, 10);
    }
    assert_int_equal(get_over_tls(f, &ca[1]), 200);
    assert_int_equal(get_over_tls(f, &ca[0]), 0);
    certs_free(&ca[0]);
    certs_free(&ca[1]);
    temp_dir_deinit(&dir);
}

/* ---- an API server that is frozen ---- */

/* The API server's answer to one of these is not awaited for ever, though TCP is answered. */
static void check_given_up(struct fixture *f, const char *method, bool repeatable)
{
    struct client c;
    ask(f, &c, method, "/api/v1/namespaces/a/pods/x", "");
    struct api_request *q = api_expect(f->api, method, NULL);
    loop_skip(f->api->loop, 60000);
    run_for(f->api->loop, 300);
    assert_int_equal(c.text.len, 0); /* it would have answered itself */
    loop_skip(f->api->loop, 5000);
    fixture_expect(f, &c, "does not answer");
    assert_true(client_has(&c, "504 Gateway Timeout"));
    assert_int_equal(client_has(&c, "Retry-After: 1"), repeatable);
    assert_int_equal(client_has(&c, "may have been executed"), !repeatable);
    api_expect_given_up(q);
    client_close(&c);
}

static void a_frozen_server_is_given_up(void **state)
{
    struct fixture *f = *state;
    fixture_limit(f, NULL);
    check_given_up(f, "GET", true);
    check_given_up(f, "DELETE", false);
    check_given_up(f, "POST", false);
    assert_int_equal(f->upstream->errors, 3);
}

static void a_frozen_servers_watch_ends(struct fixture *f, const char *target, uint64_t ms)
{
    struct client c;
    fixture_get(f, &c, target);
    struct api_request *q = api_expect_part(f->api, "watch=1");
    api_begin(q, NULL);
    api_send(q, pod_event("ADDED", "x", 7));
    fixture_expect(f, &c, "ADDED");
    loop_skip(f->api->loop, ms - 2000);
    run_for(f->api->loop, 300);
    client_read(&c);
    assert_false(client_has(&c, "\r\n0\r\n\r\n"));
    loop_skip(f->api->loop, 2000);
    fixture_expect(f, &c, "\r\n0\r\n\r\n"); /* plainly, and not as if there was more */
    api_expect_given_up(q);
    client_close(&c);
}

static void watches_of_a_frozen_server_end(void **state)
{
    struct fixture *f = *state;
    fixture_limit(f, "a");
    list_at(f, "/api/v1/pods", "/api/v1/pods?labelSelector=a", 5);
    a_frozen_servers_watch_ends(f, "/api/v1/pods?watch=1&timeoutSeconds=300", 330000);
    a_frozen_servers_watch_ends(f, "/api/v1/pods?watch=1", 3630000);
    a_frozen_servers_watch_ends(f, "/api/v1/services?watch=1&timeoutSeconds=300", 330000);
    fixture_limit(f, NULL); /* the lock is no part of what is watched under rules */
    a_frozen_servers_watch_ends(f,
                                "/apis/coordination.k8s.io/v1/namespaces/ns/leases?watch=1&"
                                "fieldSelector=metadata.name%3Dlock&timeoutSeconds=300",
                                330000);
}

/* Within an event there is no plain end. */
static void a_watch_of_a_frozen_server_is_cut_within_an_event(void **state)
{
    struct fixture *f = *state;
    struct client c;
    static char large[1100 * 1024];
    memset(large, 'x', sizeof large - 1);
    fixture_limit(f, "a");
    list_at(f, "/api/v1/pods", "/api/v1/pods?labelSelector=a", 5);
    fixture_get(f, &c, "/api/v1/pods?watch=1&timeoutSeconds=300");
    struct api_request *q = api_expect_part(f->api, "watch=1");
    api_begin(q, NULL);
    api_send(q,
             "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\",\"name\":\"");
    api_send(q, large);
    fixture_expect(f, &c, "ADDED");
    loop_skip(f->api->loop, 330000);
    fixture_expect(f, &c, NULL);
    assert_false(client_has(&c, "\r\n0\r\n\r\n"));
    client_close(&c);
}

/* What has begun to answer does answer, also if it did so before it had all of the request. */
static void an_answer_that_came_early_is_not_given_up(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, NULL);
    client_open(f, &c);
    client_send(&c, "PUT /api/v1/namespaces/a/pods/x HTTP/1.1\r\nHost: localhost\r\n"
                    "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{");
    struct api_request *q = api_expect_part(f->api, "/pods/x");
    api_begin(q, NULL);
    fixture_expect(f, &c, "200 OK");
    client_send(&c, "}");
    for (int turn = 0; turn < 1000 && !q->whole; turn++) {
        run_for(f->api->loop, 1);
    }
    assert_true(q->whole);
    loop_skip(f->api->loop, 65000);
    run_for(f->api->loop, 10);
    api_send(q, "the end");
    fixture_expect(f, &c, "the end");
    client_close(&c);
}

/* Whatever is a stream may say nothing for as long as it likes. */
static void streams_are_not_given_up(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, NULL);
    fixture_get(f, &c, "/api/v1/namespaces/a/pods/x/log?follow=true");
    struct api_request *q = api_expect_part(f->api, "log");
    loop_skip(f->api->loop, 7200000);
    run_for(f->api->loop, 300);
    api_begin(q, NULL);
    api_send(q, "a line");
    fixture_expect(f, &c, "a line");
    loop_skip(f->api->loop, 7200000);
    run_for(f->api->loop, 300);
    api_send(q, "another");
    fixture_expect(f, &c, "another");
    client_close(&c);
}

/* `kubectl logs | less`. */
static void who_reads_logs_may_take_a_while(void **state)
{
    struct fixture *f = *state;
    struct client c;
    static const char block[16 * 1024];
    fixture_limit(f, NULL);
    fixture_get(f, &c, "/api/v1/namespaces/a/pods/x/log");
    struct api_request *q = api_expect_part(f->api, "log");
    api_begin(q, NULL);
    for (int calm = 0; calm < 20; calm++) { /* more than the client's socket takes */
        if (proxy_memory(f->proxy).unread_bytes == 0) {
            api_send_bytes(q, slice_of(block, sizeof block));
            calm = 0;
        }
        run_for(f->api->loop, 1);
    }
    loop_skip(f->api->loop, 60000);
    run_for(f->api->loop, 300);
    assert_false(q->gone);
    api_end(q);
    fixture_expect(f, &c, "\r\n0\r\n\r\n");
    client_close(&c);
}

/* ---- the lock ---- */

/* A body that may have its name is collected, but not for as long as its sender likes. */
static void a_body_that_does_not_come_is_not_awaited(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, NULL);
    client_open(f, &c);
    client_send(
        &c, "POST /apis/coordination.k8s.io/v1/namespaces/ns/leases HTTP/1.1\r\nHost: localhost\r\n"
            "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{");
    run_for(f->api->loop, 20);
    loop_skip(f->api->loop, 59000);
    run_for(f->api->loop, 300);
    assert_false(client_has(&c, "HTTP"));
    loop_skip(f->api->loop, 1000);
    fixture_expect(f, &c, "did not come");
    assert_true(client_has(&c, "408 Request Timeout"));
    fixture_expect(f, &c, NULL);
    client_close(&c);
    api_expect_quiet(f->api);
}

/* ---- no rules ---- */

static void resources_are_refused_without_rules(void **state)
{
    struct fixture *f = *state;
    struct client c;
    char why[64];
    proxy_explain_no_rules(f->proxy, "still at school");
    f->flags.control = "/run/control";
    ask(f, &c, "GET", "/api/v1/pods", "");
    expect_refused_with(f, &c, "503 Service Unavailable", "Retry-After: 1", "still at school");
    f->flags.control = NULL; /* where none will come, clients need not ask again and again */
    ask(f, &c, "GET", "/api/v1/pods", "");
    expect_refused_with(f, &c, "503 Service Unavailable", "Service", "still at school");
    ask(f, &c, "GET", "/api/v1/pods", "");
    fixture_expect(f, &c, "still at school");
    assert_false(client_has(&c, "Retry-After"));
    assert_false(client_has(&c, "retryAfterSeconds"));
    client_close(&c);
    assert_false(proxy_ready(f->proxy, why, sizeof why));
    assert_non_null(strstr(why, "still at school"));
    ask(f, &c, "GET", "/version", "");
    expect_passed(f, &c, "/version");
    f->flags.no_rules = NO_RULES_PASSTHROUGH;
    ask(f, &c, "GET", "/api/v1/pods", "");
    expect_passed(f, &c, "/api/v1/pods");
    assert_true(proxy_ready(f->proxy, why, sizeof why));
}

/* ---- what cannot be read in one way only ---- */

static void ambiguous_paths_are_refused(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    ask(f, &c, "GET", "/api/v1/namespaces/a/../pods", "");
    expect_refused(f, &c, "400 Bad Request", "ambiguous");
    ask(f, &c, "GET", "/api/v1//pods", "");
    expect_refused(f, &c, "400 Bad Request", "ambiguous");
}

static void queries_that_servers_read_differently_are_refused(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    ask(f, &c, "GET", "/api/v1/pods?limit=1;labelSelector=x", "");
    expect_refused(f, &c, "400 Bad Request", "';'");
    assert_int_equal(f->metrics.limited, 0);
    ask(f, &c, "GET", "/api/v1/services?limit=1;labelSelector=x", ""); /* no limit, no selector */
    expect_passed(f, &c, "/api/v1/services?limit=1;labelSelector=x");
}

/* ---- the write fence ---- */

static void writes_to_other_namespaces_are_refused(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN " in (a)");
    ask(f, &c, "DELETE", "/api/v1/namespaces/b/pods/x", "");
    expect_refused(f, &c, "403 Forbidden", "does not belong to");
    ask(f, &c, "DELETE", "/api/v1/namespaces/b/pods", ""); /* a selector alone would do no harm */
    expect_refused(f, &c, "403 Forbidden", "does not belong to");
    assert_int_equal(f->metrics.writes_fenced, 2);
    ask(f, &c, "GET", "/api/v1/namespaces/b/pods/x", "");
    expect_passed(f, &c, "/api/v1/namespaces/b/pods/x");
    ask(f, &c, "DELETE", "/api/v1/namespaces/a/pods/x", "");
    expect_passed(f, &c, "/api/v1/namespaces/a/pods/x");
}

static void audited_writes_pass_unless_just_lost(void **state)
{
    struct fixture *f = *state;
    struct client c;
    f->flags.write_fence = FENCE_AUDIT;
    fixture_limit(f, OWN " in (a,b)");
    fixture_limit(f, OWN " in (a)");
    ask(f, &c, "DELETE", "/api/v1/namespaces/c/pods/x", "");
    expect_passed(f, &c, "/api/v1/namespaces/c/pods/x");
    assert_int_equal(f->metrics.writes_audited, 1);
    ask(f, &c, "DELETE", "/api/v1/namespaces/b/pods/x", "");
    expect_refused(f, &c, "403 Forbidden", "no longer belongs to");
    f->flags.write_fence = FENCE_OFF;
    ask(f, &c, "DELETE", "/api/v1/namespaces/b/pods/x", "");
    expect_refused(f, &c, "403 Forbidden", "no longer belongs to");
    ask(f, &c, "DELETE", "/api/v1/namespaces/c/pods/x", "");
    expect_passed(f, &c, "/api/v1/namespaces/c/pods/x");
    assert_int_equal(f->metrics.writes_audited, 1);
    assert_int_equal(f->metrics.writes_fenced, 2);
}

static void reads_by_name_are_fenced_where_it_is_asked_for(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN " in (a)");
    f->flags.read_fence = FENCE_AUDIT;
    ask(f, &c, "GET", "/api/v1/namespaces/b/pods/x", "");
    expect_passed(f, &c, "/api/v1/namespaces/b/pods/x");
    assert_int_equal(f->metrics.reads_audited, 1);
    f->flags.read_fence = FENCE_ENFORCE;
    ask(f, &c, "GET", "/api/v1/namespaces/b/pods/x/log", "");
    expect_refused(f, &c, "403 Forbidden", "--read-fence");
    ask(f, &c, "GET", "/api/v1/namespaces/a/pods/x", "");
    expect_passed(f, &c, "/api/v1/namespaces/a/pods/x");
    ask(f, &c, "GET", "/api/v1/namespaces/b/services/x", "");
    expect_passed(f, &c, "/api/v1/namespaces/b/services/x");
    assert_int_equal(f->metrics.reads_fenced, 1);
    assert_int_equal(f->metrics.reads_audited, 1);
    assert_int_equal(f->metrics.writes_fenced, 0);
}

/* ---- versions ---- */

/* With sendInitialEvents the version is only a lower bound of the list that comes first. */
static void initial_events_come_from_no_version(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, NULL);
    ask(f, &c, "GET", "/api/v1/pods?watch=1&resourceVersion=5", "");
    expect_refused(f, &c, "HTTP/1.1 200 OK", "\"reason\":\"Expired\",\"code\":410}}\n");
    assert_int_equal(f->metrics.resumes_refused, 1);
    ask(f, &c, "GET", "/api/v1/pods?watch=1&resourceVersion=5&sendInitialEvents=true", "");
    (void)api_expect_part(f->api, "sendInitialEvents");
    client_close(&c);
}

/* Only a watch is told in a stream. */
static void a_page_of_other_rules_is_refused(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "a");
    ask(f, &c, "GET", "/api/v1/pods?limit=1", "");
    api_answer(api_expect_part(f->api, "limit=1"), 200, NULL, pod_list(100, "more", NULL));
    fixture_expect(f, &c, "\"more\"");
    client_close(&c);
    fixture_limit(f, "b");
    ask(f, &c, "GET", "/api/v1/pods?limit=1&continue=more", "");
    expect_refused(f, &c, "HTTP/1.1 410 Gone", "list again");
}

static void copy_file(const char *from, const char *to)
{
    struct buf content = BUF_INIT((size_t)4 * 1024 * 1024);
    struct err e = ERR_INIT;
    assert_int_equal(file_read(from, &content, &e), 0);
    assert_int_equal(file_write_atomic(to, buf_data(&content), content.len, 0600, &e), 0);
    buf_reset(&content);
}

/* The process is killed before the API server has answered: the client goes on all the same. */
static void a_watch_that_was_asked_for_goes_on_in_the_next_process(void **state)
{
    struct fixture *f = *state;
    struct client c;
    struct temp_dir dir;
    char path[256];
    char copy[256];
    temp_dir_init(&dir);
    f->flags.state = temp_dir_path(&dir, "state", path);
    fixture_restart(f);
    fixture_limit(f, NULL);
    ask(f, &c, "GET", "/api/v1/pods", "");
    api_answer(api_expect_part(f->api, "/api/v1/pods"), 200, NULL, pod_list(100, NULL, NULL));
    fixture_expect(f, &c, "\"100\"");
    client_close(&c);
    ask(f, &c, "GET", "/api/v1/pods?watch=1&resourceVersion=100", "");
    (void)api_expect_part(f->api, "watch=1");
    copy_file(path, temp_dir_path(&dir, "copy", copy));
    client_close(&c);
    f->flags.state = copy;
    fixture_restart(f);
    fixture_limit(f, NULL);
    for (int i = 0; i < 2; i++) { /* also when the client has gone before the answer */
        ask(f, &c, "GET", "/api/v1/pods?watch=1&resourceVersion=100", "");
        (void)api_expect_part(f->api, "watch=1");
        client_close(&c);
        run_for(f->api->loop, 10);
    }
    assert_int_equal(f->metrics.resumes_refused, 0);
    f->flags.state = NULL;
    fixture_restart(f);
    temp_dir_deinit(&dir);
}

/* Two clients have version 100, one of them from before the change. */
static void a_list_in_vain_is_followed_by_one_of_the_newest_version(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "a");
    list_at(f, "/api/v1/pods", "/api/v1/pods?labelSelector=a", 100);
    fixture_limit(f, "b");
    ask(f, &c, "GET", "/api/v1/pods?watch=1&resourceVersion=100", "");
    expect_refused(f, &c, "", "list again");
    /* Out of the API server's memory it would be of that version as long as nothing changes. */
    list_at(f, "/api/v1/pods?resourceVersion=100&resourceVersionMatch=NotOlderThan&limit=5",
            "/api/v1/pods?limit=5&labelSelector=b", 100);
    list_at(f, "/api/v1/pods?resourceVersion=100&resourceVersionMatch=Exact",
            "/api/v1/pods?resourceVersion=100&resourceVersionMatch=Exact&labelSelector=b", 100);
    for (int i = 1; i <= 2;
         i++) { /* whose request it is cannot be told: each time it waits longer */
        uint64_t began = net_loop_now(f->api->loop);
        ask(f, &c, "GET", "/api/v1/pods?watch=1&resourceVersion=100", "");
        expect_refused(f, &c, "", "list again");
        run_for(f->api->loop, 1);
        assert_true(net_loop_now(f->api->loop) - began >= (uint64_t)i * 1000);
    }
    ask(f, &c, "GET", "/api/v1/pods?watch=1&resourceVersion=100", "");
    run_for(f->api->loop, 10);
    client_close(&c); /* while it waits */
    assert_int_equal(f->metrics.resumes_refused, 4);
    list_at(f, "/api/v1/pods?resourceVersion=0", "/api/v1/pods?labelSelector=b", 101);
    ask(f, &c, "GET", "/api/v1/pods?watch=1&resourceVersion=101", "");
    (void)api_expect_part(f->api, "watch=1");
    client_close(&c);
}

/* What comes first in such a watch is a list of the newest version, unless it may be an older one.
 */
static void the_end_of_initial_events_tells_the_newest_version(void **state)
{
    static const char *const versions[] = {"", "&resourceVersion=0"};
    struct fixture *f = *state;
    struct client c;
    for (int old = 0; old <= 1; old++) {
        char target[128] = "/api/v1/pods?watch=1&sendInitialEvents=true";
        fixture_restart(f);
        fixture_limit(f, "a");
        ask(f, &c, "GET", strcat(target, versions[old]), "");
        struct api_request *q = api_expect_part(f->api, "sendInitialEvents");
        api_begin(q, NULL);
        api_send(q, "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"100\","
                    "\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n");
        fixture_expect(f, &c, "BOOKMARK");
        client_close(&c);
        api_expect_given_up(q);
        ask(f, &c, "GET", "/api/v1/pods?watch=1&resourceVersion=101", "");
        if (old) {
            expect_refused(f, &c, "", "list again");
        } else {
            (void)api_expect_part(f->api, "resourceVersion=101");
            client_close(&c);
        }
    }
}

/* Without a file nothing is known of versions from before, but that they are not above the newest
 * one. So that is what lists ask for, instead of one out of memory; an exact one says nothing. */
static void without_a_file_lists_are_of_the_newest_version(void **state)
{
    struct fixture *f = *state;
    struct client c;
    struct temp_dir dir;
    char path[256];
    const char *exact = "/api/v1/pods?resourceVersion=100&resourceVersionMatch=Exact";
    const char *limited =
        "/api/v1/pods?resourceVersion=100&resourceVersionMatch=Exact&labelSelector=a";
    fixture_limit(f, "a");
    list_at(f, exact, limited, 100);
    for (unsigned version = 100; version <= 101; version++) {
        char target[64];
        (void)snprintf(target, sizeof target, "/api/v1/pods?watch=1&resourceVersion=%u", version);
        ask(f, &c, "GET", target, "");
        expect_refused(f, &c, "", "list again");
    }
    list_at(f, "/api/v1/pods?resourceVersion=0", "/api/v1/pods?labelSelector=a", 100);
    ask(f, &c, "GET", "/api/v1/pods?watch=1&resourceVersion=101", "");
    (void)api_expect_part(f->api, "watch=1");
    client_close(&c);
    temp_dir_init(&dir);
    f->flags.state = temp_dir_path(&dir, "state", path);
    fixture_restart(f);
    fixture_limit(f, "a");
    list_at(f, "/api/v1/pods?resourceVersion=0", "/api/v1/pods?resourceVersion=0&labelSelector=a",
            90);
    f->flags.state = NULL;
    fixture_restart(f);
    temp_dir_deinit(&dir);
}

/* With the memory for it gone too. */
static void what_waits_ends_with_the_proxy(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "a");
    list_at(f, "/api/v1/pods", "/api/v1/pods?labelSelector=a", 100);
    fixture_limit(f, "b");
    list_at(f, "/api/v1/pods", "/api/v1/pods?labelSelector=b", 100);
    ask(f, &c, "GET", "/api/v1/pods?watch=1&resourceVersion=100", "");
    for (int i = 0; i < 100 && f->metrics.resumes_refused == 0; i++) {
        run_for(f->api->loop, 10);
    }
    assert_int_equal(f->metrics.resumes_refused, 1);
    fixture_restart(f);
    client_close(&c);
}

static void cbor_is_not_asked_for_where_versions_must_be_read(void **state)
{
    struct fixture *f = *state;
    struct client c;
    const char *accept = "Accept: application/cbor, application/json;q=0.9\r\n";
    fixture_limit(f, "a");
    ask(f, &c, "GET", "/api/v1/pods", accept);
    struct api_request *q = api_expect_part(f->api, "/api/v1/pods");
    assert_string_equal(q->accept, "application/json;q=0.9");
    client_close(&c);
    ask(f, &c, "GET", "/api/v1/secrets", accept);
    q = api_expect_part(f->api, "/api/v1/secrets");
    assert_string_equal(q->accept, "application/cbor, application/json;q=0.9");
    client_close(&c);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(requests_without_the_token_are_refused),
        TEST(the_certificate_may_change),
        TEST(a_frozen_server_is_given_up),
        TEST(watches_of_a_frozen_server_end),
        TEST(a_watch_of_a_frozen_server_is_cut_within_an_event),
        TEST(an_answer_that_came_early_is_not_given_up),
        TEST(streams_are_not_given_up),
        TEST(who_reads_logs_may_take_a_while),
        TEST(a_body_that_does_not_come_is_not_awaited),
        TEST(other_names_are_refused_without_a_token),
        TEST(pages_of_others_are_refused),
        TEST(a_body_without_a_type_is_refused_without_a_token),
        TEST(resources_are_refused_without_rules),
        TEST(ambiguous_paths_are_refused),
        TEST(queries_that_servers_read_differently_are_refused),
        TEST(writes_to_other_namespaces_are_refused),
        TEST(audited_writes_pass_unless_just_lost),
        TEST(reads_by_name_are_fenced_where_it_is_asked_for),
        TEST(initial_events_come_from_no_version),
        TEST(a_page_of_other_rules_is_refused),
        TEST(a_watch_that_was_asked_for_goes_on_in_the_next_process),
        TEST(a_list_in_vain_is_followed_by_one_of_the_newest_version),
        TEST(the_end_of_initial_events_tells_the_newest_version),
        TEST(without_a_file_lists_are_of_the_newest_version),
        TEST(what_waits_ends_with_the_proxy),
        TEST(cbor_is_not_asked_for_where_versions_must_be_read),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
