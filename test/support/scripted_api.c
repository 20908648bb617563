/* SPDX-License-Identifier: Apache-2.0 */
#include "scripted_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "alloc_sweep.h"
#include "raw_peer.h"

enum {
    PATIENCE_TURNS = 20000,
    TURN_MS = 1,
    QUIET_MS = 20,
    BODY_MAX = 4 * 1024 * 1024,
    TIMEOUT_MS = 60000,
    IDLE_MS = 90000, /* as kube-apiserver has it */
};

/* ---- requests ---- */

static void request_free(struct api_request *q)
{
    void (*free_data)(void *) = q->api->free_data;
    if (q->x != NULL) {
        http_exchange_abort(q->x);
    }
    if (free_data != NULL) {
        free_data(q->data);
    } else {
        free(q->data);
    }
    list_remove(&q->link);
    buf_reset(&q->bytes);
    free(q->target);
    free(q);
}

static void forget_all(struct list *requests)
{
    while (!list_empty(requests)) {
        request_free(LIST_ITEM(requests->next, struct api_request, link));
    }
}

void api_forget(struct scripted_api *a)
{
    forget_all(&a->over);
}

static void request_is_over(struct api_request *q)
{
    q->x = NULL;
    list_remove(&q->link);
    list_append(&q->api->over, &q->link);
}

static void on_body(struct http_exchange *x, struct slice data)
{
    struct api_request *q = x->data;
    long paused = alloc_sweep_pause();
    assert_int_equal(buf_append(&q->bytes, data.ptr, data.len), 0);
    q->body = buf_cstr(&q->bytes);
    alloc_sweep_resume(paused);
}

static void on_end(struct http_exchange *x)
{
    struct api_request *q = x->data;
    struct scripted_api *a = q->api;
    q->whole = true;
    if (a->knows_client && strcmp(q->target, "/version") == 0) {
        long paused = alloc_sweep_pause();
        a->count--;
        api_answer(q, 200, NULL, "{}");
        alloc_sweep_resume(paused);
        return;
    }
    if (a->serve != NULL) {
        long paused = alloc_sweep_pause();
        a->serve(a, q);
        alloc_sweep_resume(paused);
    }
}

static void ignore_body(struct http_exchange *x, struct slice data)
{
    (void)x;
    (void)data;
}

static void ignore(struct http_exchange *x)
{
    (void)x;
}

static void ignore_close(struct http_exchange *x, const struct err *e)
{
    (void)x;
    (void)e;
}

static void on_close(struct http_exchange *x, const struct err *e)
{
    struct api_request *q = x->data;
    (void)e;
    q->gone = true;
    q->api->gone++;
    request_is_over(q);
}

static const struct http_exchange_handlers handlers = {
    .on_body = on_body, .on_end = on_end, .on_drain = ignore, .on_close = on_close};
static const struct http_exchange_handlers no_handlers = {
    .on_body = ignore_body, .on_end = ignore, .on_drain = ignore, .on_close = ignore_close};

static void copy_header(const struct http_head *head, struct slice name, char *out, size_t size)
{
    const struct http_header *h = http_head_find(head, name);
    (void)snprintf(out, size, "%.*s", h == NULL ? 0 : (int)h->value.len,
                   h == NULL ? "" : h->value.ptr);
}

static struct api_request *request_new(struct scripted_api *a, const struct http_head *head)
{
    struct api_request *q = calloc(1, sizeof *q);
    assert_non_null(q);
    q->api = a;
    q->body = "";
    buf_init(&q->bytes, BODY_MAX);
    q->target = strndup(head->target.ptr, head->target.len);
    assert_non_null(q->target);
    (void)snprintf(q->method, sizeof q->method, "%.*s", (int)head->method.len, head->method.ptr);
    copy_header(head, SLICE("Accept"), q->accept, sizeof q->accept);
    copy_header(head, SLICE("Accept-Encoding"), q->accept_encoding, sizeof q->accept_encoding);
    copy_header(head, SLICE("Upgrade"), q->upgrade, sizeof q->upgrade);
    copy_header(head, SLICE("Content-Type"), q->content_type, sizeof q->content_type);
    copy_header(head, SLICE("User-Agent"), q->user_agent, sizeof q->user_agent);
    copy_header(head, SLICE("Authorization"), q->authorization, sizeof q->authorization);
    return q;
}

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct scripted_api *a = data;
    long paused = alloc_sweep_pause();
    struct api_request *q = request_new(a, head);
    alloc_sweep_resume(paused);
    q->x = x;
    x->handlers = &handlers;
    x->data = q;
    list_append(&a->requests, &q->link);
    a->count++;
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

/* ---- answers ---- */

static void cut_on_error(struct api_request *q, int rc)
{
    if (rc != 0) {
        api_cut(q);
    }
}

static void let_go(struct api_request *q)
{
    q->x->handlers = &no_handlers;
    request_is_over(q);
}

void api_answer(struct api_request *q, unsigned status, const char *retry_after, const char *body)
{
    struct http_header header = {SLICE("Retry-After"), slice_str(retry_after)};
    struct http_exchange *x = q->x;
    let_go(q);
    if (http_respond(x, status, SLICE("application/json"), slice_str(body), &header,
                     retry_after == NULL ? 0 : 1) != 0) {
        http_exchange_abort(x);
    }
}

void api_begin_head(struct api_request *q, const struct http_head *head)
{
    q->begun = true;
    cut_on_error(q, http_exchange_send_head(q->x, head));
}

void api_begin(struct api_request *q, const char *type)
{
    struct http_header header = {SLICE("Content-Type"),
                                 slice_str(type == NULL ? "application/json" : type)};
    struct http_head head = {
        .status = 200, .headers = &header, .header_count = 1, .framing = HTTP_BODY_CHUNKED};
    api_begin_head(q, &head);
}

void api_send_bytes(struct api_request *q, struct slice bytes)
{
    if (q->x != NULL) {
        cut_on_error(q, http_exchange_send_body(q->x, bytes));
    }
}

void api_send(struct api_request *q, const char *text)
{
    api_send_bytes(q, slice_str(text));
}

void api_end(struct api_request *q)
{
    struct http_exchange *x = q->x;
    let_go(q);
    if (http_exchange_send_end(x) != 0) {
        http_exchange_abort(x);
    }
}

void api_cut(struct api_request *q)
{
    http_exchange_abort(q->x);
    request_is_over(q);
}

/* ---- expectations ---- */

/* The first that nobody has looked at; `part` NULL: the first that is whole and has no answer. */
static struct api_request *look(struct scripted_api *a, const char *part)
{
    LIST_FOR_EACH(n, &a->requests)
    {
        struct api_request *q = LIST_ITEM(n, struct api_request, link);
        if (part == NULL ? q->whole && !q->begun : !q->seen && strstr(q->target, part) != NULL) {
            q->seen = true;
            return q;
        }
    }
    return NULL;
}

static struct api_request *await(struct scripted_api *a, const char *part)
{
    struct api_request *q = look(a, part);
    for (int turn = 0; turn < PATIENCE_TURNS && q == NULL; turn++) {
        run_for(a->loop, TURN_MS);
        q = look(a, part);
    }
    return q;
}

struct api_request *api_expect(struct scripted_api *a, const char *method, const char *target)
{
    struct api_request *q = await(a, NULL);
    if (q == NULL) {
        fail_msg("nobody asks for %s %s", method, target == NULL ? "" : target);
        abort();
    }
    assert_string_equal(q->method, method);
    if (target != NULL) {
        assert_string_equal(q->target, target);
    }
    return q;
}

struct api_request *api_expect_part(struct scripted_api *a, const char *part)
{
    struct api_request *q = await(a, part);
    if (q == NULL) {
        fail_msg("nobody asks for anything with \"%s\"", part);
        abort();
    }
    return q;
}

void api_expect_quiet(struct scripted_api *a)
{
    unsigned before = a->count;
    run_for(a->loop, QUIET_MS);
    assert_int_equal(a->count, before);
}

void api_expect_gone(struct scripted_api *a, unsigned count)
{
    for (int turn = 0; turn < PATIENCE_TURNS && a->gone < count; turn++) {
        run_for(a->loop, TURN_MS);
    }
    assert_int_equal(a->gone, count);
}

void api_expect_given_up(const struct api_request *q)
{
    for (int turn = 0; turn < PATIENCE_TURNS && !q->gone; turn++) {
        run_for(q->api->loop, TURN_MS);
    }
    assert_true(q->gone);
}

/* ---- life ---- */

bool api_listen(struct scripted_api *a)
{
    char address[32];
    struct http_server_options o = {.address = address,
                                    .head_timeout_ms = TIMEOUT_MS,
                                    .idle_timeout_ms = IDLE_MS,
                                    .write_timeout_ms = TIMEOUT_MS};
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", a->access.server.port);
    a->server = http_server_new(a->loop, &o, &server_handlers, a, NULL);
    return a->server != NULL;
}

void api_stop(struct scripted_api *a)
{
    http_server_free(a->server);
    a->server = NULL;
}

bool api_open(struct scripted_api *a, struct net_loop *l)
{
    struct kube_client_options o = {.access = &a->access, .max_idle = 16};
    struct err e = ERR_INIT;
    unsigned port;
    a->loop = l;
    list_init(&a->requests);
    list_init(&a->over);
    fake_clock_init(&a->clock, l);
    a->reserved = raw_reserve(&port);
    a->access.user = "me";
    strcpy(a->access.server.host, "127.0.0.1");
    a->access.server.port = (uint16_t)port;
    if (!api_listen(a)) {
        return false;
    }
    a->client = kube_client_new(l, &o, &e);
    return a->client != NULL;
}

void api_close(struct scripted_api *a)
{
    forget_all(&a->requests);
    api_forget(a);
    if (a->client != NULL) {
        kube_client_close(a->client, NULL, NULL);
    }
    http_server_free(a->server);
    if (a->reserved > 0) {
        (void)close(a->reserved);
    }
}
