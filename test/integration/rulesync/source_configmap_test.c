/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ConfigMap source against an API server that holds one ConfigMap, or none.
 */
#include "loop_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "http/server.h"
#include "net/address.h"
#include "source_configmap.h"

#define TARGET "/api/v1/namespaces/demo/configmaps?fieldSelector=metadata.name%3Drules"

enum { STATUS_OK = 200 };

struct fixture {
    struct net_loop *loop;
    struct kube_access access;
    struct kube_client *client;
    struct source_configmap *source;
    /* the server */
    struct http_server *server;
    unsigned status;     /* of its answers to lists */
    const char *content; /* "data" of the ConfigMap as JSON; NULL: there is none */
    unsigned version;
    unsigned lists;
    struct http_exchange *watch;
    /* what the source told */
    char place[256];
    char text[256];
    char error[ERR_MSG_MAX];
    enum source_trouble trouble;
    unsigned offers;
    bool news;
};

/* ---- the server ---- */

static const char *object(const struct fixture *f)
{
    static char text[1024];
    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"name\":\"rules\",\"namespace\":\"demo\",\"resourceVersion\":"
                   "\"%u\"},\"data\":%s}",
                   f->version, f->content);
    return text;
}

static void respond(struct http_exchange *x, unsigned status, const char *body)
{
    assert_int_equal(http_respond(x, status, SLICE("application/json"), slice_str(body), NULL, 0),
                     0);
}

static void serve_list(struct fixture *f, struct http_exchange *x)
{
    char text[2048];
    f->lists++;
    if (f->status != STATUS_OK) {
        respond(x, f->status,
                "{\"kind\":\"Status\",\"message\":\"no such right\",\"code\":403,\"reason\":"
                "\"Forbidden\",\"status\":\"Failure\"}");
        return;
    }
    (void)snprintf(text, sizeof text,
                   "{\"kind\":\"ConfigMapList\",\"apiVersion\":\"v1\",\"metadata\":{"
                   "\"resourceVersion\":\"%u\"},\"items\":[%s]}",
                   f->version, f->content != NULL ? object(f) : "");
    respond(x, 200, text);
}

static void on_watch_close(struct http_exchange *x, const struct err *e)
{
    (void)e;
    struct fixture *f = x->data;
    f->watch = f->watch == x ? NULL : f->watch;
}

static void on_body(struct http_exchange *x, struct slice data)
{
    (void)x;
    (void)data;
}

static void on_nothing(struct http_exchange *x)
{
    (void)x;
}

static const struct http_exchange_handlers watch_handlers = {
    .on_body = on_body,
    .on_end = on_nothing,
    .on_drain = on_nothing,
    .on_close = on_watch_close,
};

static void serve_watch(struct fixture *f, struct http_exchange *x)
{
    struct http_header type = {SLICE("Content-Type"), SLICE("application/json")};
    struct http_head head = {
        .status = 200, .headers = &type, .header_count = 1, .framing = HTTP_BODY_CHUNKED};
    f->watch = x;
    assert_int_equal(http_exchange_send_head(x, &head), 0);
}

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct fixture *f = data;
    char target[512];
    (void)snprintf(target, sizeof target, "%.*s", (int)head->target.len, head->target.ptr);
    x->handlers = &watch_handlers;
    x->data = f;
    assert_int_equal(strncmp(target, TARGET, strlen(TARGET)), 0);
    if (strstr(target, "watch=true") != NULL) {
        serve_watch(f, x);
    } else {
        serve_list(f, x);
    }
}

static void on_refuse(void *data, unsigned status, const char *why, struct buf *body)
{
    (void)data;
    (void)status;
    (void)why;
    buf_clear(body);
}

static const struct http_server_handlers server_handlers = {
    .on_request = on_request,
    .on_refuse = on_refuse,
};

static bool server_start(struct fixture *f, const char *address)
{
    struct http_server_options o = {.address = address,
                                    .head_timeout_ms = 20000,
                                    .idle_timeout_ms = 20000,
                                    .write_timeout_ms = 20000};
    struct err e = ERR_INIT;
    f->server = http_server_new(f->loop, &o, &server_handlers, f, &e);
    return f->server != NULL;
}

/* NULL: it is deleted. */
static void publish(struct fixture *f, const char *content)
{
    char event[2048];
    const char *type = content == NULL ? "DELETED" : f->content == NULL ? "ADDED" : "MODIFIED";
    f->version++;
    if (content != NULL) {
        f->content = content;
    }
    for (unsigned i = 0; i < 400 && f->watch == NULL; i++) {
        run_for(f->loop, 10);
    }
    assert_non_null(f->watch);
    int len = snprintf(event, sizeof event, "{\"type\":\"%s\",\"object\":%s}\n", type, object(f));
    assert_int_equal(http_exchange_send_body(f->watch, slice_of(event, (size_t)len)), 0);
    f->content = content;
}

/* ---- what the source tells ---- */

static int on_offer(void *data, const char *place, struct slice text, bool final, struct err *e)
{
    struct fixture *f = data;
    (void)snprintf(f->place, sizeof f->place, "%s", place);
    (void)snprintf(f->text, sizeof f->text, "%.*s", (int)text.len, text.ptr);
    assert_true(final);
    assert_int_equal(f->trouble, SOURCE_FINE);
    f->offers++;
    f->news = true;
    return f->offers % 2 == 0 ? err_set(e, -EINVAL, "whatever") : 0;
}

static void on_trouble(void *data, enum source_trouble trouble, const struct err *e)
{
    struct fixture *f = data;
    f->trouble = trouble;
    (void)snprintf(f->error, sizeof f->error, "%s", e != NULL ? e->msg : "");
    f->news = true;
}

static const struct source_handlers handlers = {.offer = on_offer, .trouble = on_trouble};

static void wait_text(struct fixture *f, const char *text)
{
    while (f->trouble != SOURCE_FINE || strcmp(f->text, text) != 0) {
        f->news = false;
        run_until(f->loop, &f->news);
    }
}

static void wait_trouble(struct fixture *f, enum source_trouble trouble, const char *words)
{
    while (f->trouble != trouble || strstr(f->error, words) == NULL) {
        f->news = false;
        run_until(f->loop, &f->news);
    }
}

static int setup(void **state)
{
    struct err e = ERR_INIT;
    struct fixture *f = calloc(1, sizeof *f);
    if (f == NULL || loop_setup((void **)&f->loop) != 0) {
        return -1;
    }
    log_init("test", LOG_TEXT, LOG_ERROR);
    f->version = 10;
    f->status = STATUS_OK;
    f->trouble = SOURCE_TROUBLES;
    if (!server_start(f, "127.0.0.1:0")) {
        return -1;
    }
    f->access.user = "me";
    strcpy(f->access.server.host, "127.0.0.1");
    f->access.server.port =
        (uint16_t)strtoul(strrchr(http_server_address(f->server), ':') + 1, NULL, 10);
    struct kube_client_options o = {.access = &f->access, .max_idle = 2};
    f->client = kube_client_new(f->loop, &o, &e);
    *state = f;
    return f->client == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    source_configmap_free(f->source);
    kube_client_close(f->client, NULL, NULL);
    if (f->server != NULL) {
        http_server_free(f->server);
    }
    int rc = loop_free(f->loop);
    free(f);
    return rc;
}

static void start(struct fixture *f, const char *content)
{
    struct err e = ERR_INIT;
    f->content = content;
    f->source = source_configmap_new(f->loop, f->client, "demo/rules", &handlers, f, &e);
    assert_non_null(f->source);
}

#define DATA(text) "{\"rules.json\":\"" text "\",\"other\":\"x\"}"

static void takes_what_is_there_and_what_comes(void **state)
{
    struct fixture *f = *state;
    start(f, DATA("one"));
    wait_text(f, "one");
    assert_string_equal(f->place, "configmap demo/rules key rules.json");
    publish(f, DATA("two"));
    wait_text(f, "two");
    publish(f, DATA("three"));
    wait_text(f, "three");
    assert_int_equal(f->offers, 3);
}

static void says_what_is_missing(void **state)
{
    struct fixture *f = *state;
    start(f, NULL);
    wait_trouble(f, SOURCE_MISSING,
                 "configmap demo/rules key rules.json: the ConfigMap does not exist");
    publish(f, "{\"rules.yaml\":\"x\"}");
    wait_trouble(f, SOURCE_MISSING, "has no such key");
    publish(f, "null");
    wait_trouble(f, SOURCE_MISSING, "has no such key");
    publish(f, DATA("one"));
    wait_text(f, "one");
    publish(f, NULL);
    wait_trouble(f, SOURCE_MISSING, "was deleted");
    publish(f, DATA("two"));
    wait_text(f, "two");
}

static void says_what_is_forbidden(void **state)
{
    struct fixture *f = *state;
    f->status = 403;
    start(f, DATA("one"));
    wait_trouble(f, SOURCE_UNREACHABLE, "no such right");
    f->status = STATUS_OK;
    wait_text(f, "one");
}

/* The trouble that was there before is told again once the server is back. */
static void survives_the_server(void **state)
{
    struct fixture *f = *state;
    char address[NET_ADDRESS_MAX];
    start(f, NULL);
    wait_trouble(f, SOURCE_MISSING, "does not exist");
    (void)snprintf(address, sizeof address, "%s", http_server_address(f->server));
    http_server_free(f->server);
    f->server = NULL;
    wait_trouble(f, SOURCE_UNREACHABLE, "");
    assert_true(server_start(f, address));
    wait_trouble(f, SOURCE_MISSING, "does not exist");
    publish(f, DATA("one"));
    wait_text(f, "one");
}

static void looks_when_told_to(void **state)
{
    struct fixture *f = *state;
    start(f, DATA("one"));
    wait_text(f, "one");
    source_configmap_look(f->source);
    for (unsigned i = 0; i < 400 && f->offers < 2; i++) {
        run_for(f->loop, 10);
    }
    assert_int_equal(f->offers, 2);
    assert_int_equal(f->lists, 2);
    publish(f, DATA("two"));
    wait_text(f, "two");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(takes_what_is_there_and_what_comes),
        TEST(says_what_is_missing),
        TEST(says_what_is_forbidden),
        TEST(survives_the_server),
        TEST(looks_when_told_to),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
