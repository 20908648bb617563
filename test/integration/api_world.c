/* SPDX-License-Identifier: Apache-2.0 */
#include "api_world.h"

#include <stdio.h>
#include <stdlib.h>

enum { PATIENCE_TURNS = 4000, TURN_MS = 1, QUIET_MS = 20 };

static struct api_request *request_of(struct http_collect *c)
{
    return LIST_ITEM(c, struct api_request, collect);
}

static void forget(struct api_request *q)
{
    list_remove(&q->link);
    http_collect_deinit(&q->collect);
    free(q);
}

static void on_body(struct http_collect *c, struct slice body, const struct err *e)
{
    struct api_request *q = request_of(c);
    if (e != NULL || body.len >= sizeof q->body) {
        forget(q);
        return;
    }
    (void)snprintf(q->body, sizeof q->body, "%.*s", (int)body.len, body.len > 0 ? body.ptr : "");
    q->whole = true;
    if (q->world->serve != NULL) {
        q->world->serve(q->world, q);
    }
}

static void on_gone(struct http_collect *c, const struct err *e)
{
    struct api_request *q = request_of(c);
    (void)e;
    q->world->gone++;
    forget(q);
}

static const struct http_collect_handlers handlers = {.on_body = on_body, .on_close = on_gone};

static void copy_header(const struct http_head *head, struct slice name, char *out, size_t size)
{
    const struct http_header *h = http_head_find(head, name);
    (void)snprintf(out, size, "%.*s", h == NULL ? 0 : (int)h->value.len,
                   h == NULL ? "" : h->value.ptr);
}

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct api_world *w = data;
    struct api_request *q = calloc(1, sizeof *q);
    w->count++;
    if (q == NULL) {
        http_exchange_abort(x);
        return;
    }
    q->world = w;
    (void)snprintf(q->method, sizeof q->method, "%.*s", (int)head->method.len, head->method.ptr);
    (void)snprintf(q->target, sizeof q->target, "%.*s", (int)head->target.len, head->target.ptr);
    copy_header(head, SLICE("Accept"), q->accept, sizeof q->accept);
    copy_header(head, SLICE("Content-Type"), q->content_type, sizeof q->content_type);
    copy_header(head, SLICE("User-Agent"), q->user_agent, sizeof q->user_agent);
    copy_header(head, SLICE("Authorization"), q->authorization, sizeof q->authorization);
    list_append(&w->requests, &q->link);
    http_collect_init(&q->collect, sizeof q->body, &handlers);
    http_collect_take(&q->collect, x);
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

static const struct http_exchange_handlers no_handlers = {
    .on_body = ignore_body,
    .on_end = ignore,
    .on_drain = ignore,
    .on_close = ignore_close,
};

void api_answer(struct api_request *q, unsigned status, const char *retry_after, const char *body)
{
    struct http_header header = {SLICE("Retry-After"), slice_str(retry_after)};
    struct http_exchange *x = http_collect_release(&q->collect);
    x->handlers = &no_handlers;
    if (http_respond(x, status, SLICE("application/json"), slice_str(body), &header,
                     retry_after == NULL ? 0 : 1) != 0) {
        http_exchange_abort(x);
    }
    forget(q);
}

void api_cut(struct api_request *q)
{
    forget(q);
}

static struct api_request *first_whole(struct api_world *w)
{
    LIST_FOR_EACH(n, &w->requests)
    {
        struct api_request *q = LIST_ITEM(n, struct api_request, link);
        if (q->whole) {
            return q;
        }
    }
    return NULL;
}

struct api_request *api_expect(struct api_world *w, const char *method, const char *target)
{
    struct api_request *q = NULL;
    for (int turn = 0; turn < PATIENCE_TURNS && (q = first_whole(w)) == NULL; turn++) {
        run_for(w->loop, TURN_MS);
    }
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

void api_expect_quiet(struct api_world *w)
{
    unsigned before = w->count;
    run_for(w->loop, QUIET_MS);
    assert_int_equal(w->count, before);
}

void api_expect_gone(struct api_world *w, unsigned count)
{
    for (int turn = 0; turn < PATIENCE_TURNS && w->gone < count; turn++) {
        run_for(w->loop, TURN_MS);
    }
    assert_int_equal(w->gone, count);
}

bool api_open(struct api_world *w, struct net_loop *l)
{
    struct http_server_options so = {.address = "127.0.0.1:0",
                                     .head_timeout_ms = 20000,
                                     .idle_timeout_ms = 20000,
                                     .write_timeout_ms = 20000};
    struct kube_client_options co = {.access = &w->access, .max_idle = 4};
    struct err e = ERR_INIT;
    w->loop = l;
    list_init(&w->requests);
    fake_clock_init(&w->clock, l);
    w->server = http_server_new(l, &so, &server_handlers, w, NULL);
    if (w->server == NULL) {
        return false;
    }
    w->access.user = "me";
    strcpy(w->access.server.host, "127.0.0.1");
    w->access.server.port =
        (uint16_t)strtoul(strrchr(http_server_address(w->server), ':') + 1, NULL, 10);
    w->client = kube_client_new(l, &co, &e);
    return w->client != NULL;
}

void api_close(struct api_world *w)
{
    while (!list_empty(&w->requests)) {
        forget(LIST_ITEM(w->requests.next, struct api_request, link));
    }
    if (w->client != NULL) {
        kube_client_close(w->client, NULL, NULL);
    }
    http_server_free(w->server);
}
