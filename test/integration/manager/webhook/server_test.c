/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The webhook server and a client that trusts it, over TLS.
 */
#include "webhook/server.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log.h"
#include "crypto/certificate.h"
#include "http/client.h"
#include "http/fetch.h"
#include "loop_fixture.h"
#include "webhook/handlers.h"
#include "json/json.h"

enum { HOUR = 3600, LONG_MS = 60000, ASKS = 8 };

static const char *const names[] = {"127.0.0.1"};

/* What the deciding function does. */
enum whim { ALLOWS, PATCHES, REFUSES, WARNS, FAILS, KNOWS_NOTHING, LIES };

struct ask {
    struct http_fetch *fetch;
    bool done;
    unsigned status;
    struct err e;
    char body[4096];
};

struct fixture {
    struct net_loop *loop;
    struct webhook_server *server;
    struct http_client *client;
    struct certificate_pair ca;
    enum whim whim;
    unsigned decided;
    pthread_t thread; /* of the loop */
    bool held;        /* what is prepared waits for `gate`, after it posted `entered` */
    sem_t gate;
    sem_t entered;
    volatile unsigned forgotten; /* states */
    bool drained;
    struct ask asks[ASKS];
};

static volatile unsigned *forgotten;

static int prepare(const void *data, const struct admission_request *r, struct webhook_decision *d,
                   struct err *e)
{
    struct fixture *f = (struct fixture *)(uintptr_t)data;
    assert_string_equal(r->uid, "u-1");
    assert_false(pthread_equal(pthread_self(), f->thread));
    if (f->held) {
        (void)sem_post(&f->entered);
        (void)sem_wait(&f->gate);
    }
    (void)e;
    d->state = malloc(1);
    return 0;
}

static int finish(const void *data, const struct admission_request *r, struct webhook_decision *d,
                  struct err *e)
{
    const struct fixture *f = data;
    (void)r;
    (void)e;
    assert_non_null(d->state);
    assert_false(pthread_equal(pthread_self(), f->thread));
    return 0;
}

static void forget(void *state)
{
    (*forgotten)++;
    free(state);
}

static int decide(void *data, const struct admission_request *r, struct webhook_decision *d,
                  struct err *e)
{
    struct fixture *f = data;
    f->decided++;
    assert_true(pthread_equal(pthread_self(), f->thread));
    assert_string_equal(r->uid, "u-1");
    switch (f->whim) {
    case ALLOWS:
        return 0;
    case PATCHES:
        d->patch = cJSON_Parse("[{\"op\":\"add\",\"path\":\"/x\",\"value\":1}]");
        return 0;
    case REFUSES:
        return err_set(e, -EINVAL, "spec.x: Invalid value");
    case WARNS:
        warnings_add(&d->warnings, "mind the gap");
        return 0;
    case FAILS:
        return -EIO;
    case KNOWS_NOTHING:
        return err_set(e, -EAGAIN, "not ready to decide: the cache is empty");
    case LIES: /* what is decided half-way must not be seen */
        d->patch = cJSON_Parse("[{\"op\":\"remove\",\"path\":\"/x\"}]");
        return err_set(e, -EIO, "something broke");
    }
    return 0;
}

static const struct webhook_route routes[] = {
    {.path = "/mutate/x", .name = "x", .decide = decide, .parts = ADMISSION_LABELS},
    {.path = "/mutate/large",
     .name = "large",
     .decide = decide,
     .prepare = prepare,
     .finish = finish,
     .forget = forget,
     .inline_max = 1},
    {.path = NULL},
};

/* ---- set-up ---- */

static struct tls_config *make_tls(struct fixture *f, struct certificate_pair *ca)
{
    struct certificate_pair own;
    int64_t now = (int64_t)time(NULL);
    const struct certificate_spec a = {
        .common_name = "a", .not_before = now - HOUR, .not_after = now + HOUR};
    struct certificate_spec s = a;
    s.names = names;
    s.name_count = 1;
    (void)f;
    assert_int_equal(certificate_make_authority(&a, ca, NULL), 0);
    assert_int_equal(
        certificate_make_server(&s, slice_str(ca->cert), slice_str(ca->key), &own, NULL), 0);
    const struct tls_server_options o = {.cert = slice_str(own.cert), .key = slice_str(own.key)};
    struct tls_config *tls = tls_config_new_server(&o, NULL);
    assert_non_null(tls);
    certificate_pair_deinit(&own);
    return tls;
}

static struct http_client *make_client_of(struct fixture *f, const char *port, const char *trusted)
{
    struct http_client_options co = {
        .host = "127.0.0.1",
        .port = (uint16_t)atoi(port),
        .connect_timeout_ms = LONG_MS,
        .idle_timeout_ms = LONG_MS,
        .max_idle = 4,
    };
    struct tls_client_options to = {.ca = slice_str(trusted), .server_name = "127.0.0.1"};
    struct err e = ERR_INIT;
    struct http_client *c = http_client_new(f->loop, &co, &e);
    struct tls_config *tls = tls_config_new_client(&to, &e);
    if (c == NULL || tls == NULL) {
        fail_msg("%s", e.msg);
    }
    http_client_set_tls(c, tls, NULL);
    tls_config_unref(tls);
    return c;
}

static struct http_client *make_client(struct fixture *f, const char *trusted)
{
    return make_client_of(f, strrchr(webhook_server_address(f->server), ':') + 1, trusted);
}

/* A server with these options, and a client of it. */
static void open_pair_with(struct fixture *f, const struct webhook_server_options *o)
{
    struct err e = ERR_INIT;
    f->server = webhook_server_new(f->loop, o, &e);
    if (f->server == NULL) {
        fail_msg("%s", e.msg);
    }
    struct tls_config *tls = make_tls(f, &f->ca);
    webhook_server_set_tls(f->server, tls);
    tls_config_unref(tls);
    f->client = make_client(f, f->ca.cert);
}

/* One that waits so long for bodies, and holds so many bytes of them. */
static void open_pair_of(struct fixture *f, uint64_t body_timeout_ms, uint64_t bodies_max)
{
    const struct webhook_server_options o = {.address = "127.0.0.1:0",
                                             .routes = routes,
                                             .data = f,
                                             .body_timeout_ms = body_timeout_ms,
                                             .bodies_max = bodies_max};
    open_pair_with(f, &o);
}

static void open_pair(struct fixture *f, uint64_t body_timeout_ms)
{
    open_pair_of(f, body_timeout_ms, 0);
}

static void close_pair(struct fixture *f)
{
    http_client_free(f->client);
    webhook_server_free(f->server);
    certificate_pair_deinit(&f->ca);
}

static int setup(void **state)
{
    static struct fixture f;
    f = (struct fixture){.whim = ALLOWS, .thread = pthread_self()};
    forgotten = &f.forgotten;
    if (sem_init(&f.gate, 0, 0) != 0 || sem_init(&f.entered, 0, 0) != 0) {
        return -1;
    }
    if (loop_setup((void **)&f.loop) != 0) {
        return -1;
    }
    open_pair(&f, LONG_MS);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    close_pair(f);
    return loop_teardown((void **)&f->loop);
}

/* ---- asking ---- */

#define REVIEW                                                                                     \
    "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",\"request\":{"           \
    "\"uid\":\"u-1\",\"operation\":\"CREATE\",\"resource\":{\"group\":\"\",\"version\":\"v1\","    \
    "\"resource\":\"pods\"},\"namespace\":\"n\",\"name\":\"p\",\"object\":{\"metadata\":{}}}}"

static void on_answer(void *data, const struct http_answer *a, const struct err *e)
{
    struct ask *q = data;
    q->done = true;
    q->fetch = NULL;
    if (a == NULL) {
        q->e = *e;
        return;
    }
    q->status = a->status;
    (void)snprintf(q->body, sizeof q->body, "%.*s", (int)a->body.len, a->body.ptr);
}

static void begin(struct fixture *f, struct ask *q, const char *target, const char *body)
{
    static const struct http_header headers[] = {
        {SLICE("Host"), SLICE("127.0.0.1")},
        {SLICE("Content-Type"), SLICE("application/json")},
    };
    struct err e = ERR_INIT;
    const struct http_fetch_options o = {
        .via = http_client_requester(f->client),
        .method = SLICE("POST"),
        .target = slice_str(target),
        .headers = headers,
        .header_count = 2,
        .body = slice_str(body),
        .answer_max = sizeof q->body - 1,
        .timeout_ms = LONG_MS,
    };
    memset(q, 0, sizeof *q);
    q->fetch = http_fetch_start(f->loop, &o, on_answer, q, &e);
    if (q->fetch == NULL) {
        fail_msg("%s", e.msg);
    }
}

static const struct ask *post(struct fixture *f, const char *target, const char *body)
{
    struct ask *q = &f->asks[0];
    begin(f, q, target, body);
    run_until(f->loop, &q->done);
    return q;
}

static void expect_metric(struct fixture *f, const char *line)
{
    struct buf text = BUF_INIT(65536);
    webhook_server_metrics(f->server, &text);
    if (strstr(buf_cstr(&text), line) == NULL) {
        fail_msg("\"%s\" is not in\n%s", line, buf_cstr(&text));
    }
    buf_reset(&text);
}

/* The member `response` of the answer, which the caller frees with the whole. */
static cJSON *response(const struct ask *q)
{
    assert_int_equal(q->e.code, 0);
    assert_int_equal(q->status, 200);
    cJSON *root = json_parse(q->body, strlen(q->body), NULL);
    assert_non_null(root);
    cJSON *r = cJSON_DetachItemFromObject(root, "response");
    cJSON_Delete(root);
    assert_non_null(r);
    assert_string_equal(cJSON_GetObjectItem(r, "uid")->valuestring, "u-1");
    return r;
}

/* ---- tests ---- */

static void test_what_is_decided_is_answered(void **state)
{
    struct fixture *f = *state;
    cJSON *r = response(post(f, "/mutate/x?timeout=10s", REVIEW));
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(r, "allowed")));
    assert_null(cJSON_GetObjectItem(r, "patch"));
    cJSON_Delete(r);

    f->whim = PATCHES;
    r = response(post(f, "/mutate/x", REVIEW));
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(r, "allowed")));
    assert_non_null(cJSON_GetObjectItem(r, "patch"));
    cJSON_Delete(r);

    f->whim = WARNS;
    r = response(post(f, "/mutate/x", REVIEW));
    assert_string_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(r, "warnings"), 0)->valuestring,
                        "mind the gap");
    cJSON_Delete(r);

    f->whim = REFUSES;
    r = response(post(f, "/mutate/x", REVIEW));
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(r, "allowed")));
    const cJSON *status = cJSON_GetObjectItem(r, "status");
    assert_string_equal(cJSON_GetObjectItem(status, "message")->valuestring,
                        "spec.x: Invalid value");
    /* kubectl shows no message of the reason Invalid. */
    assert_string_equal(cJSON_GetObjectItem(status, "reason")->valuestring, "Forbidden");
    cJSON_Delete(r);

    assert_int_equal(f->decided, 4);
    expect_metric(f, "cmesh_webhook_requests_total{webhook=\"x\",result=\"allowed\"} 2\n");
    expect_metric(f, "cmesh_webhook_requests_total{webhook=\"x\",result=\"patched\"} 1\n");
    expect_metric(f, "cmesh_webhook_requests_total{webhook=\"x\",result=\"refused\"} 1\n");
    expect_metric(f, "cmesh_webhook_duration_seconds_count{webhook=\"x\"} 4\n");
    expect_metric(f, "cmesh_webhook_connections_total 1\n"); /* all on one */
}

/* Nothing that goes wrong is an answer that could be taken for "allowed". */
static void test_no_decision_is_no_answer(void **state)
{
    struct fixture *f = *state;
    static const struct {
        enum whim whim;
        const char *says;
    } cases[] = {
        {FAILS, "i/o error"}, {KNOWS_NOTHING, "the cache is empty"}, {LIES, "something broke"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        f->whim = cases[i].whim;
        const struct ask *q = post(f, "/mutate/x", REVIEW);
        assert_int_equal(q->status, 500);
        assert_non_null(strstr(q->body, cases[i].says));
        assert_non_null(strstr(q->body, "\"kind\":\"Status\""));
        assert_null(strstr(q->body, "allowed"));
    }
    expect_metric(f, "cmesh_webhook_requests_total{webhook=\"x\",result=\"error\"} 3\n");
}

static void test_wrong_questions(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(post(f, "/mutate/y", REVIEW)->status, 404);
    assert_int_equal(post(f, "/", REVIEW)->status, 404);
    assert_int_equal(post(f, "/mutate/x", "garbage")->status, 400);
    assert_int_equal(post(f, "/mutate/x", "{}")->status, 400);
    assert_int_equal(post(f, "/mutate/x", "")->status, 400);
    assert_int_equal(f->decided, 0);
    expect_metric(f, "cmesh_webhook_requests_total{webhook=\"x\",result=\"bad_request\"} 3\n");
    expect_metric(f, "cmesh_webhook_unknown_path_total 2\n");
}

static void test_a_new_certificate_is_for_new_connections(void **state)
{
    struct fixture *f = *state;
    struct certificate_pair another;
    assert_int_equal(post(f, "/mutate/x", REVIEW)->status, 200);
    struct tls_config *tls = make_tls(f, &another);
    webhook_server_set_tls(f->server, tls);
    tls_config_unref(tls);
    assert_int_equal(post(f, "/mutate/x", REVIEW)->status, 200);
    http_client_free(f->client);
    f->client = make_client(f, f->ca.cert);
    assert_int_equal(post(f, "/mutate/x", REVIEW)->e.code, -EACCES);
    http_client_free(f->client);
    f->client = make_client(f, another.cert);
    assert_int_equal(post(f, "/mutate/x", REVIEW)->status, 200);
    certificate_pair_deinit(&another);
}

/* Before there is a certificate nobody takes what is shown. */
static void test_the_stand_in_is_refused(void **state)
{
    struct fixture *f = *state;
    const struct webhook_server_options o = {.address = "127.0.0.1:0", .routes = routes, .data = f};
    webhook_server_free(f->server);
    f->server = webhook_server_new(f->loop, &o, NULL);
    assert_non_null(f->server);
    http_client_free(f->client);
    f->client = make_client(f, f->ca.cert);
    assert_int_equal(post(f, "/mutate/x", REVIEW)->e.code, -EACCES);
    assert_int_equal(f->decided, 0);
}

/* A request whose body does not come: raw bytes through our own client side of TLS. */
static void ignore_body(struct http_exchange *x, struct slice data)
{
    (void)x;
    (void)data;
}

static void ignore(struct http_exchange *x)
{
    (void)x;
}

static void on_head(struct http_exchange *x, const struct http_head *head)
{
    struct ask *q = x->data;
    q->status = head->status;
}

static void on_close(struct http_exchange *x, const struct err *e)
{
    struct ask *q = x->data;
    q->done = true;
    if (e != NULL) {
        q->e = *e;
    }
}

static const struct http_exchange_handlers slow_handlers = {
    .on_head = on_head,
    .on_body = ignore_body,
    .on_end = ignore,
    .on_drain = ignore,
    .on_close = on_close,
};

static struct http_exchange *begin_slow(struct fixture *f, struct ask *q, uint64_t size)
{
    static const struct http_header headers[] = {
        {SLICE("Host"), SLICE("127.0.0.1")},
        {SLICE("Content-Type"), SLICE("application/json")},
    };
    const struct http_head head = {.method = SLICE("POST"),
                                   .target = SLICE("/mutate/x"),
                                   .minor = 1,
                                   .headers = headers,
                                   .header_count = 2,
                                   .framing = HTTP_BODY_LENGTH,
                                   .content_length = size};
    struct err e = ERR_INIT;
    memset(q, 0, sizeof *q);
    struct http_exchange *x = http_client_request(f->client, &head, &slow_handlers, q, &e);
    if (x == NULL) {
        fail_msg("%s", e.msg);
    }
    return x;
}

/* Until the head was sent. */
static void wait_connected(struct fixture *f, const struct http_exchange *x)
{
    for (int i = 0; i < 5000 && http_exchange_blocked(x); i++) {
        run_for(f->loop, 1);
    }
    assert_false(http_exchange_blocked(x));
}

static void test_a_body_that_does_not_come(void **state)
{
    struct fixture *f = *state;
    struct ask *q = &f->asks[0];
    close_pair(f);
    open_pair(f, 400);
    struct http_exchange *x = begin_slow(f, q, 1000);
    wait_connected(f, x);
    assert_int_equal(http_exchange_send_body(x, SLICE("{\"kind\"")), 0);
    run_until(f->loop, &q->done);
    assert_int_equal(q->status, 408);
    assert_int_equal(post(f, "/mutate/x", REVIEW)->status, 200);
    expect_metric(f, "cmesh_webhook_requests_total{webhook=\"x\",result=\"bad_request\"} 1\n");
}

/* Bytes count when they come: what others announce refuses nobody. */
static void test_bodies_that_are_announced(void **state)
{
    struct fixture *f = *state;
    struct ask others[ASKS + 1];
    struct http_exchange *x[ASKS + 1];
    for (int i = 0; i <= ASKS; i++) {
        x[i] = begin_slow(f, &others[i], ADMISSION_REVIEW_MAX);
        wait_connected(f, x[i]);
        assert_int_equal(http_exchange_send_body(x[i], SLICE("{")), 0);
        run_for(f->loop, 10);
    }
    assert_int_equal(post(f, "/mutate/x", REVIEW)->status, 200);
    for (int i = 0; i <= ASKS; i++) {
        assert_false(others[i].done);
        http_exchange_abort(x[i]);
    }
    expect_metric(f, "cmesh_webhook_dropped_total{reason=\"too_many_bytes\"} 0\n");
}

static void test_bodies_are_bounded_together(void **state)
{
    static const char block[4000] = "{";
    struct fixture *f = *state;
    struct http_exchange *x[3];
    struct ask *q = &f->asks[1];
    close_pair(f);
    open_pair_of(f, LONG_MS, 2 * sizeof block);
    for (int i = 0; i < 3; i++) {
        x[i] = begin_slow(f, &q[i], ADMISSION_REVIEW_MAX);
        wait_connected(f, x[i]);
        assert_int_equal(http_exchange_send_body(x[i], slice_of(block, sizeof block)), 0);
        run_for(f->loop, 20);
    }
    run_until(f->loop, &q[0].done); /* the first one has to go */
    assert_int_equal(q[0].status, 503);
    assert_false(q[1].done || q[2].done);
    http_exchange_abort(x[1]);
    http_exchange_abort(x[2]);
    run_for(f->loop, 10);
    assert_int_equal(post(f, "/mutate/x", REVIEW)->status, 200);
    expect_metric(f, "cmesh_webhook_dropped_total{reason=\"too_many_bytes\"} 1\n");
}

/* It comes, but byte by byte. */
static void test_a_body_that_comes_too_slowly(void **state)
{
    struct fixture *f = *state;
    struct ask *q = &f->asks[0];
    struct http_exchange *x = begin_slow(f, q, 10000);
    wait_connected(f, x);
    for (int i = 0; i < 600 && !q->done && q->status == 0; i++) {
        assert_int_equal(http_exchange_send_body(x, SLICE(" ")), 0);
        run_for(f->loop, 10);
    }
    run_until(f->loop, &q->done);
    assert_int_equal(q->status, 408);
    expect_metric(f, "cmesh_webhook_dropped_total{reason=\"slow_body\"} 1\n");
}

static void test_a_client_that_gives_up(void **state)
{
    struct fixture *f = *state;
    struct ask *q = &f->asks[0];
    for (uint64_t ms = 0; ms < 25; ms += 5) {
        struct http_exchange *x = begin_slow(f, q, 1000);
        run_for(f->loop, ms);
        http_exchange_abort(x);
    }
    assert_int_equal(post(f, "/mutate/x", REVIEW)->status, 200);
    assert_int_equal(f->decided, 1);
}

static void on_drained(void *data)
{
    struct fixture *f = data;
    f->drained = true;
}

static void test_draining_answers_what_was_asked(void **state)
{
    struct fixture *f = *state;
    struct ask *q = &f->asks[0];
    struct http_exchange *x = begin_slow(f, q, strlen(REVIEW));
    wait_connected(f, x);
    run_for(f->loop, 20);
    webhook_server_drain(f->server, on_drained, f);
    run_for(f->loop, 20);
    assert_false(f->drained);
    assert_int_equal(http_exchange_send_body(x, SLICE(REVIEW)), 0);
    assert_int_equal(http_exchange_send_end(x), 0);
    run_until(f->loop, &q->done);
    assert_int_equal(q->status, 200);
    run_until(f->loop, &f->drained);
    assert_int_equal(f->decided, 1);
}

static void test_freed_while_it_is_asked(void **state)
{
    struct fixture *f = *state;
    struct ask *q = &f->asks[0];
    wait_connected(f, begin_slow(f, q, 1000));
    webhook_server_free(f->server);
    f->server = NULL;
    run_until(f->loop, &q->done);
    assert_int_not_equal(q->e.code, 0);
}

static void test_a_wrong_address(void **state)
{
    struct fixture *f = *state;
    struct err e = ERR_INIT;
    struct webhook_server_options o = {.address = "nonsense", .routes = routes, .data = f};
    assert_null(webhook_server_new(f->loop, &o, &e));
    assert_true(strlen(e.msg) > 5);
    o.address = webhook_server_address(f->server);
    assert_null(webhook_server_new(f->loop, &o, &e));
    assert_non_null(strstr(e.msg, "cannot listen"));
}

/* ---- threads ---- */

static void test_what_is_large_is_decided_in_a_thread(void **state)
{
    struct fixture *f = *state;
    f->whim = PATCHES;
    cJSON *r = response(post(f, "/mutate/large", REVIEW));
    assert_non_null(cJSON_GetObjectItem(r, "patch"));
    cJSON_Delete(r);
    f->whim = REFUSES;
    r = response(post(f, "/mutate/large", REVIEW));
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(r, "allowed")));
    cJSON_Delete(r);
    f->whim = KNOWS_NOTHING;
    assert_int_equal(post(f, "/mutate/large", REVIEW)->status, 500);
    assert_int_equal(post(f, "/mutate/large", "garbage")->status, 400);
    assert_int_equal(f->decided, 3);
    assert_int_equal(f->forgotten, 3);
    expect_metric(f, "cmesh_webhook_threads_total 4\n");
    expect_metric(f, "cmesh_webhook_waiting 0\n");
    expect_metric(f, "cmesh_webhook_thread_seconds_count{webhook=\"large\"} 4\n");
    expect_metric(f, "cmesh_webhook_loop_seconds_count{webhook=\"large\"} 4\n");
    expect_metric(f, "cmesh_webhook_requests_total{webhook=\"large\",result=\"patched\"} 1\n");
    assert_int_equal(post(f, "/mutate/x", REVIEW)->status, 500);
    expect_metric(f, "cmesh_webhook_threads_total 4\n");
}

/* A thread is where it waits for the gate. */
static void await_entry(struct fixture *f)
{
    bool entered = sem_trywait(&f->entered) == 0;
    for (int i = 0; i < 60000 && !entered; i++) {
        run_for(f->loop, 1);
        entered = sem_trywait(&f->entered) == 0;
    }
    assert_true(entered);
}

/* Begins one that stays in its thread until the gate is opened. */
static void hold(struct fixture *f, struct ask *q)
{
    f->held = true;
    begin(f, q, "/mutate/large", REVIEW);
    await_entry(f);
    f->held = false;
}

static void test_the_small_do_not_wait_for_the_large(void **state)
{
    struct fixture *f = *state;
    struct ask *large = &f->asks[1];
    hold(f, large);
    assert_int_equal(post(f, "/mutate/x", REVIEW)->status, 200);
    assert_false(large->done);
    (void)sem_post(&f->gate);
    run_until(f->loop, &large->done);
    assert_int_equal(large->status, 200);
}

static void wait_metric(struct fixture *f, const char *line)
{
    bool found = false;
    for (int i = 0; i < 5000 && !found; i++) {
        struct buf text = BUF_INIT(65536);
        webhook_server_metrics(f->server, &text);
        found = strstr(buf_cstr(&text), line) != NULL;
        buf_reset(&text);
        run_for(f->loop, 1);
    }
    assert_true(found);
}

static void test_a_client_that_gives_up_while_it_is_decided(void **state)
{
    struct fixture *f = *state;
    struct ask *running = &f->asks[1];
    struct ask *waiting = &f->asks[2];
    hold(f, running);
    begin(f, waiting, "/mutate/large", REVIEW);
    wait_metric(f, "cmesh_webhook_waiting 1\n");
    http_fetch_cancel(waiting->fetch);
    wait_metric(f, "cmesh_webhook_waiting 0\n");
    http_fetch_cancel(running->fetch);
    wait_metric(f, "cmesh_webhook_requests_total{webhook=\"large\",result=\"bad_request\"} 2\n");
    (void)sem_post(&f->gate);
    wait_metric(f, "cmesh_webhook_threads_total 1\n");
    assert_int_equal(f->decided, 0);
    assert_int_equal(f->forgotten, 1);
    assert_int_equal(post(f, "/mutate/large", REVIEW)->status, 200);
}

static void test_freed_while_a_thread_decides(void **state)
{
    struct fixture *f = *state;
    hold(f, &f->asks[1]);
    begin(f, &f->asks[2], "/mutate/large", REVIEW);
    wait_metric(f, "cmesh_webhook_waiting 1\n");
    webhook_server_free(f->server);
    f->server = NULL;
    (void)sem_post(&f->gate);
    run_until(f->loop, &f->asks[1].done);
    run_until(f->loop, &f->asks[2].done);
    assert_int_not_equal(f->asks[1].e.code, 0);
    for (int i = 0; i < 5000 && f->forgotten == 0; i++) {
        run_for(f->loop, 1);
    }
    assert_int_equal(f->forgotten, 1);
}

static void test_draining_waits_for_threads(void **state)
{
    struct fixture *f = *state;
    struct ask *q = &f->asks[1];
    hold(f, q);
    webhook_server_drain(f->server, on_drained, f);
    run_for(f->loop, 20);
    assert_false(f->drained);
    (void)sem_post(&f->gate);
    run_until(f->loop, &q->done);
    assert_int_equal(q->status, 200);
    run_until(f->loop, &f->drained);
}

/* A review with so many bytes of white space; the caller frees. */
static char *padded(size_t size)
{
    char *text = malloc(size + sizeof REVIEW);
    assert_non_null(text);
    memset(text, ' ', size);
    memcpy(text + size, REVIEW, sizeof REVIEW);
    return text;
}

static void test_the_largest_is_told_to_come_again(void **state)
{
    enum { MIB = 1024 * 1024, LARGE = 6, TOO_LARGE = 3 };
    struct fixture *f = *state;
    char *text = padded(3 * MIB);
    char *largest = padded(4 * MIB);
    f->held = true;
    begin(f, &f->asks[0], "/mutate/large", text);
    await_entry(f);
    f->held = false;
    for (int i = 1; i < LARGE; i++) {
        begin(f, &f->asks[i], "/mutate/large", i == TOO_LARGE ? largest : text);
    }
    run_until(f->loop, &f->asks[TOO_LARGE].done);
    assert_int_equal(f->asks[TOO_LARGE].status, 503);
    expect_metric(f, "cmesh_webhook_turned_away_total 1\n");
    (void)sem_post(&f->gate);
    for (int i = 0; i < LARGE; i++) {
        run_until(f->loop, &f->asks[i].done);
        assert_int_equal(f->asks[i].status, i == TOO_LARGE ? 503 : 200);
    }
    free(text);
    free(largest);
}

/* ---- namespaces that change while a thread compiles ---- */

/* The first comparison with a namespace that a thread makes waits for `gate`, after it posted
 * `entered`. */
static struct fixture *comparing;

bool __real_selector_matches(const struct selector *s, const struct selector_label *labels,
                             size_t count);
bool __wrap_selector_matches(const struct selector *s, const struct selector_label *labels,
                             size_t count);

bool __wrap_selector_matches(const struct selector *s, const struct selector_label *labels,
                             size_t count)
{
    struct fixture *f = comparing;
    if (f != NULL && f->held && !pthread_equal(pthread_self(), f->thread)) {
        f->held = false;
        (void)sem_post(&f->entered);
        (void)sem_wait(&f->gate);
    }
    return __real_selector_matches(s, labels, count);
}

static int look_at_nothing(void *data, const char *ns, struct validate_context *w, struct err *e)
{
    (void)data;
    (void)ns;
    (void)w;
    (void)e;
    return 0;
}

static void put_namespace(struct namespace_set *all, const char *team)
{
    struct namespace_entry *before = NULL;
    char text[128];
    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"name\":\"a\",\"labels\":{\"team\":\"%s\"}}}", team);
    cJSON *object = cJSON_Parse(text);
    assert_int_equal(namespace_set_put(all, object, &before), 1);
    free(before);
    cJSON_Delete(object);
}

/* A ShardingConfig that is too large to be read by the loop, and limits by labels of namespaces. */
static char *large_config(void)
{
    char *text = NULL;
    char padding[8192];
    memset(padding, ' ', sizeof padding - 1);
    padding[sizeof padding - 1] = '\0';
    assert_true(asprintf(&text,
                         "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\","
                         "\"request\":{\"uid\":\"u-1\",\"operation\":\"CREATE\","
                         "\"resource\":{\"group\":\"ctrlmesh.kusionstack.io\",\"version\":"
                         "\"v1alpha1\",\"resource\":\"shardingconfigs\"},\"namespace\":\"n\","
                         "\"name\":\"s\",\"object\":{\"apiVersion\":"
                         "\"ctrlmesh.kusionstack.io/v1alpha1\",\"kind\":\"ShardingConfig\","
                         "\"metadata\":{\"namespace\":\"n\",\"name\":\"s\"},\"spec\":{"
                         "\"selector\":{\"matchLabels\":{\"app\":\"x\"}},\"limits\":[{"
                         "\"relateResources\":[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"]}],"
                         "\"namespaceSelector\":{\"matchLabels\":{\"team\":\"x\"}}}]}}}}%s",
                         padding) > 0);
    return text;
}

static void test_namespaces_change_while_a_thread_compiles(void **state)
{
    struct fixture *f = *state;
    struct ask *q = &f->asks[0];
    struct namespace_set all = {.own = NULL};
    struct compile_options compile = {.generation = 1,
                                      .labels = {.prefix = "ctrlmesh.kusionstack.io",
                                                 .namespace = "namespace",
                                                 .shard_hash = "sharding-hash",
                                                 .control = "control"}};
    struct webhook_context context = {
        .compile = &compile, .namespaces = &all, .look = look_at_nothing};
    const struct webhook_server_options o = {
        .address = "127.0.0.1:0", .routes = webhook_routes, .data = &context};
    char *text = large_config();
    put_namespace(&all, "x");
    close_pair(f);
    open_pair_with(f, &o);
    f->held = true;
    comparing = f;
    begin(f, q, "/validate/shardingconfigs", text);
    await_entry(f);
    assert_false(f->held);
    put_namespace(&all, "y");
    (void)sem_post(&f->gate);
    run_until(f->loop, &q->done);
    comparing = NULL;
    cJSON *r = response(q);
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(r, "allowed")));
    cJSON_Delete(r);
    free(text);
    namespace_set_deinit(&all);
}

/* ---- Secrets ---- */

enum { SECRET_LEN = 40 };

/* Says what a Secret may hold, and is known to nobody before. */
static void make_secret(char out[SECRET_LEN + 1])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    unsigned seed = (unsigned)time(NULL) ^ (unsigned)getpid();
    for (int i = 0; i < SECRET_LEN; i++) {
        seed = seed * 1103515245 + 12345;
        out[i] = letters[(seed >> 16) % (sizeof letters - 1)];
    }
    out[SECRET_LEN] = '\0';
}

/* Newer sanitizers keep the frames of functions that have returned, which would be found too. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_stack_use_after_return=0";
}

/* How often its end is in the memory of a process. Of memory that was freed the allocator
 * overwrites the beginning. */
static size_t count_in_memory(pid_t pid, const char *secret)
{
    enum { PART = 24, STEP = 1 << 20 };
    char path[64];
    char line[512];
    const char *end_of_it = secret + SECRET_LEN - PART;
    size_t count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    int mem = open(path, O_RDONLY | O_CLOEXEC);
    (void)snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    char *piece = malloc(STEP + PART);
    assert_true(mem >= 0 && maps != NULL && piece != NULL);
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long from;
        unsigned long to;
        /* Shadow memory of a sanitizer is terabytes that nobody has touched. */
        if (sscanf(line, "%lx-%lx rw", &from, &to) != 2 || strstr(line, " rw") == NULL ||
            to - from > (1UL << 32)) {
            continue;
        }
        for (unsigned long at = from; at < to; at += STEP) {
            ssize_t n = pread(mem, piece, STEP + PART, (off_t)at);
            const char *end = piece + (n > 0 ? n : 0);
            for (const char *p = piece; (p = memmem(p, (size_t)(end - p), end_of_it, PART)) != NULL;
                 p++) {
                count++;
            }
        }
    }
    free(piece);
    (void)fclose(maps);
    (void)close(mem);
    return count;
}

struct remote {
    pid_t pid;
    char address[64];
};

/* The server alone, in a process of its own that ends with its parent's pipe. */
static void serve(int out, int in)
{
    struct fixture f = {.whim = ALLOWS, .thread = pthread_self()};
    const struct webhook_server_options o = {
        .address = "127.0.0.1:0", .routes = routes, .data = &f};
    char byte;
    forgotten = &f.forgotten;
    f.loop = net_loop_new(NULL);
    f.server = f.loop == NULL ? NULL : webhook_server_new(f.loop, &o, NULL);
    if (f.server == NULL || fcntl(in, F_SETFL, O_NONBLOCK) != 0) {
        _exit(1);
    }
    struct tls_config *tls = make_tls(&f, &f.ca);
    webhook_server_set_tls(f.server, tls);
    if (dprintf(out, "%s\n%s", webhook_server_address(f.server), f.ca.cert) < 0) {
        _exit(1);
    }
    (void)close(out);
    while (read(in, &byte, 1) != 0) {
        run_for(f.loop, 5);
    }
    _exit(0);
}

static void read_all(int fd, char *out, size_t size)
{
    size_t len = 0;
    ssize_t n;
    while (len < size - 1 && (n = read(fd, out + len, size - 1 - len)) > 0) {
        len += (size_t)n;
    }
    out[len] = '\0';
}

static void ask_remote(struct fixture *f, const char *target, const char *secret, size_t padding)
{
    struct buf text = BUF_INIT(ADMISSION_REVIEW_MAX);
    buf_append_str(&text, "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\","
                          "\"request\":{\"uid\":\"u-1\",\"operation\":\"UPDATE\",\"resource\":{"
                          "\"group\":\"\",\"version\":\"v1\",\"resource\":\"secrets\"}");
    for (int old = 0; old < 2; old++) {
        buf_printf(&text,
                   ",\"%s\":{\"metadata\":{\"annotations\":{\"last\":\"x%s\"}},\"data\":{"
                   "\"password\":\"%s\",\"nul\":\"%s\\u0000\"},\"padding\":\"",
                   old ? "oldObject" : "object", secret, secret, secret);
        for (size_t i = 0; i < padding; i++) {
            buf_append_char(&text, 'p');
        }
        buf_append_str(&text, "\"}");
    }
    buf_append_str(&text, "}}");
    const struct ask *q = post(f, target, buf_cstr(&text));
    assert_int_equal(q->status, 200);
    buf_reset(&text);
}

static void test_nothing_of_a_secret_is_left(void **state)
{
    struct fixture *f = *state;
    int to[2];
    int from[2];
    char said[8192];
    char secret[SECRET_LEN + 1];
    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(to[1]);
        (void)close(from[0]);
        serve(from[1], to[0]);
    }
    (void)close(to[0]);
    (void)close(from[1]);
    read_all(from[0], said, sizeof said);
    (void)close(from[0]);
    char *cert = strchr(said, '\n');
    assert_non_null(cert);
    *cert++ = '\0';
    http_client_free(f->client);
    f->client = make_client_of(f, strrchr(said, ':') + 1, cert);
    make_secret(secret);
    ask_remote(f, "/mutate/large", secret, 200000); /* in a thread */
    ask_remote(f, "/mutate/x", secret, 0);          /* at once, with nothing behind it */
    assert_true(count_in_memory(getpid(), secret) > 0);
    size_t count = count_in_memory(pid, secret);
    (void)close(to[1]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(count, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_decided_is_answered),
        TEST(test_no_decision_is_no_answer),
        TEST(test_wrong_questions),
        TEST(test_a_new_certificate_is_for_new_connections),
        TEST(test_the_stand_in_is_refused),
        TEST(test_a_body_that_does_not_come),
        TEST(test_bodies_that_are_announced),
        TEST(test_bodies_are_bounded_together),
        TEST(test_a_body_that_comes_too_slowly),
        TEST(test_a_client_that_gives_up),
        TEST(test_draining_answers_what_was_asked),
        TEST(test_freed_while_it_is_asked),
        TEST(test_a_wrong_address),
        TEST(test_what_is_large_is_decided_in_a_thread),
        TEST(test_the_small_do_not_wait_for_the_large),
        TEST(test_a_client_that_gives_up_while_it_is_decided),
        TEST(test_freed_while_a_thread_decides),
        TEST(test_draining_waits_for_threads),
        TEST(test_the_largest_is_told_to_come_again),
        TEST(test_namespaces_change_while_a_thread_compiles),
        TEST(test_nothing_of_a_secret_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
