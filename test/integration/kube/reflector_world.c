/* SPDX-License-Identifier: Apache-2.0 */
#include "reflector_world.h"

#include <stdio.h>
#include <stdlib.h>

enum { PATIENCE_TURNS = 2000, TURN_MS = 2, QUIET_MS = 30, PAUSE_MAX_MS = 30000, LOG_SIZE = 65536 };

/* ---- the server ---- */

static void ignore_body(struct http_exchange *x, struct slice data)
{
    (void)x;
    (void)data;
}

static void ignore(struct http_exchange *x)
{
    (void)x;
}

static void on_serve_close(struct http_exchange *x, const struct err *e)
{
    struct world *w = x->data;
    (void)e;
    if (w->asked == x) {
        w->asked = NULL;
        w->gone = true;
    }
}

static const struct http_exchange_handlers serve_handlers = {
    .on_body = ignore_body,
    .on_end = ignore,
    .on_drain = ignore,
    .on_close = on_serve_close,
};

static void copy_header(const struct http_head *head, struct slice name, char *out, size_t size)
{
    const struct http_header *h = http_head_find(head, name);
    (void)snprintf(out, size, "%.*s", h == NULL ? 0 : (int)h->value.len,
                   h == NULL ? "" : h->value.ptr);
}

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct world *w = data;
    x->handlers = &serve_handlers;
    x->data = w;
    w->asked = x;
    w->gone = false;
    w->requests++;
    (void)snprintf(w->target, sizeof w->target, "%.*s", (int)head->target.len, head->target.ptr);
    copy_header(head, SLICE("Accept"), w->accept, sizeof w->accept);
    copy_header(head, SLICE("Authorization"), w->authorization, sizeof w->authorization);
    if (w->on_request != NULL) {
        w->on_request(w);
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

void world_answer(struct world *w, unsigned status, const char *retry_after, const char *body)
{
    struct http_header header = {SLICE("Retry-After"), slice_str(retry_after)};
    struct http_exchange *x = w->asked;
    w->asked = NULL;
    if (http_respond(x, status, SLICE("application/json"), slice_str(body), &header,
                     retry_after == NULL ? 0 : 1) != 0) {
        http_exchange_abort(x);
    }
}

void world_begin(struct world *w)
{
    struct http_header type = {SLICE("Content-Type"), SLICE("application/json")};
    struct http_head head = {
        .status = 200, .headers = &type, .header_count = 1, .framing = HTTP_BODY_CHUNKED};
    if (http_exchange_send_head(w->asked, &head) != 0) {
        world_cut(w);
    }
}

void world_send_bytes(struct world *w, struct slice bytes)
{
    if (w->asked != NULL && http_exchange_send_body(w->asked, bytes) != 0) {
        world_cut(w);
    }
}

void world_send(struct world *w, const char *text)
{
    world_send_bytes(w, slice_str(text));
}

void world_end(struct world *w)
{
    struct http_exchange *x = w->asked;
    w->asked = NULL;
    if (http_exchange_send_end(x) != 0) {
        http_exchange_abort(x);
    }
}

void world_cut(struct world *w)
{
    struct http_exchange *x = w->asked;
    w->asked = NULL;
    http_exchange_abort(x);
}

/* ---- the user ---- */

static void note(struct world *w, const char *text)
{
    assert_int_equal(buf_append_str(&w->log, text), 0);
    assert_int_equal(buf_append_char(&w->log, ' '), 0);
}

static void follow_whim(struct world *w, enum world_whim whim)
{
    if (w->whim == whim) {
        reflector_free(w->reflector);
        reflector_free(NULL);
        w->reflector = NULL;
    }
}

static void on_list(void *data)
{
    note(data, "list");
    follow_whim(data, WORLD_FREES_ON_LIST);
}

static void on_object(void *data, enum reflector_change change, const cJSON *object)
{
    static const char *const marks[] = {
        [REFLECTOR_LISTED] = "+",
        [REFLECTOR_ADDED] = "A:",
        [REFLECTOR_MODIFIED] = "M:",
        [REFLECTOR_DELETED] = "D:",
    };
    const cJSON *metadata = cJSON_GetObjectItem(object, "metadata");
    const char *version = cJSON_GetStringValue(cJSON_GetObjectItem(metadata, "resourceVersion"));
    char text[256];
    (void)snprintf(text, sizeof text, "%s%s@%s", marks[change],
                   cJSON_GetStringValue(cJSON_GetObjectItem(metadata, "name")),
                   version == NULL ? "" : version);
    note(data, text);
    follow_whim(data, WORLD_FREES_ON_OBJECT);
}

static void on_synced(void *data)
{
    note(data, "synced");
    follow_whim(data, WORLD_FREES_ON_SYNCED);
}

static void on_state(void *data, const char *error)
{
    struct world *w = data;
    char text[ERR_MSG_MAX + 16];
    (void)snprintf(text, sizeof text, "error(%s)", error == NULL ? "" : error);
    note(w, error == NULL ? "fine" : text);
    if (w->reflector != NULL) {
        const char *told = reflector_error(w->reflector);
        assert_true(error == NULL ? told == NULL : strcmp(told, error) == 0);
    }
    follow_whim(w, WORLD_FREES_ON_STATE);
}

static const struct reflector_handlers handlers = {
    .on_list = on_list,
    .on_object = on_object,
    .on_synced = on_synced,
    .on_state = on_state,
};

/* ---- the clock ---- */

static void set_deadline(void *data, struct net_deadline *d, uint64_t ms)
{
    struct world *w = data;
    w->deadline_ms = ms;
    list_remove(&d->link);
    list_append(&w->deadlines, &d->link);
    w->deadline = d;
    if (w->running && ms <= PAUSE_MAX_MS) {
        net_task_queue(w->loop, &w->passing);
    }
}

static void fire(struct world *w)
{
    struct net_deadline *d = w->deadline;
    list_remove(&d->link);
    d->cb(d);
}

static void on_passing(struct net_task *t)
{
    struct world *w = LIST_ITEM(t, struct world, passing);
    if (!list_empty(&w->deadlines) && w->deadline_ms <= PAUSE_MAX_MS) {
        fire(w);
    }
}

static uint32_t take_random(void *data)
{
    struct world *w = data;
    return w->random;
}

void world_expect_deadline(struct world *w, uint64_t from, uint64_t to)
{
    for (int turn = 0; turn < PATIENCE_TURNS; turn++) {
        if (!list_empty(&w->deadlines) && w->deadline_ms >= from && w->deadline_ms <= to) {
            return;
        }
        run_for(w->loop, TURN_MS);
    }
    fail_msg("expected a pause of %lu to %lu ms, %s %lu", (unsigned long)from, (unsigned long)to,
             list_empty(&w->deadlines) ? "there is none, the last one was" : "got",
             (unsigned long)w->deadline_ms);
}

void world_pass(struct world *w, uint64_t from, uint64_t to)
{
    world_expect_deadline(w, from, to);
    fire(w);
}

/* ---- expectations ---- */

void world_expect_request(struct world *w, const char *target)
{
    for (int turn = 0; turn < PATIENCE_TURNS && w->asked == NULL; turn++) {
        run_for(w->loop, TURN_MS);
    }
    assert_non_null(w->asked);
    assert_string_equal(w->target, target);
}

void world_expect_quiet(struct world *w)
{
    unsigned before = w->requests;
    run_for(w->loop, QUIET_MS);
    assert_int_equal(w->requests, before);
}

void world_expect_gone(struct world *w)
{
    for (int turn = 0; turn < PATIENCE_TURNS && !w->gone; turn++) {
        run_for(w->loop, TURN_MS);
    }
    assert_true(w->gone);
}

static const char *log_text(struct world *w)
{
    const char *text = buf_cstr(&w->log);
    return text == NULL ? "" : text;
}

void world_expect_log(struct world *w, const char *expected)
{
    for (int turn = 0; turn < PATIENCE_TURNS; turn++) {
        if (strcmp(log_text(w), expected) == 0) {
            buf_clear(&w->log);
            return;
        }
        run_for(w->loop, TURN_MS);
    }
    assert_string_equal(log_text(w), expected);
}

void world_expect_error(struct world *w, const char *text)
{
    for (int turn = 0; turn < PATIENCE_TURNS; turn++) {
        const char *last = strstr(log_text(w), "error(");
        if (last != NULL && strstr(last, text) != NULL) {
            buf_clear(&w->log);
            return;
        }
        run_for(w->loop, TURN_MS);
    }
    fail_msg("expected an error with \"%s\", got \"%s\"", text, log_text(w));
}

/* ---- life ---- */

bool world_open(struct world *w, struct net_loop *l)
{
    struct http_server_options so = {.address = "127.0.0.1:0",
                                     .head_timeout_ms = 20000,
                                     .idle_timeout_ms = 20000,
                                     .write_timeout_ms = 20000};
    struct kube_client_options co = {.access = &w->access, .max_idle = 2};
    w->loop = l;
    list_init(&w->deadlines);
    buf_init(&w->log, SIZE_MAX);
    w->ops = (struct reflector_ops){set_deadline, take_random, w};
    net_task_init(&w->passing, on_passing);
    /* So that writing down takes no memory where that is short. */
    if (buf_reserve(&w->log, LOG_SIZE) == NULL) {
        return false;
    }
    w->server = http_server_new(l, &so, &server_handlers, w, NULL);
    if (w->server == NULL) {
        return false;
    }
    w->access.user = "me";
    strcpy(w->access.server.host, "127.0.0.1");
    w->access.server.port =
        (uint16_t)strtoul(strrchr(http_server_address(w->server), ':') + 1, NULL, 10);
    struct err e = ERR_INIT;
    w->client = kube_client_new(l, &co, &e);
    return w->client != NULL;
}

void world_close(struct world *w)
{
    reflector_free(w->reflector);
    if (w->client != NULL) {
        kube_client_close(w->client, NULL, NULL);
    }
    http_server_free(w->server);
    net_task_cancel(&w->passing);
    assert_true(list_empty(&w->deadlines));
    buf_reset(&w->log);
}

bool world_start(struct world *w, struct reflector_options *o)
{
    o->client = w->client;
    o->ops = &w->ops;
    w->reflector = reflector_new(w->loop, o, &handlers, w, NULL);
    return w->reflector != NULL;
}

void world_start_plain(struct world *w)
{
    struct reflector_options o = {.path = "/p"};
    assert_true(world_start(w, &o));
}

/* ---- texts ---- */

enum { TEXTS = 8, TEXT_SIZE = 4096 };

static char *next_text(void)
{
    static char texts[TEXTS][TEXT_SIZE];
    static unsigned next;
    char *text = texts[next++ % TEXTS];
    text[0] = '\0';
    return text;
}

/* Without memory from the heap, which a test may make short. */
static void add(char *text, const char *part)
{
    size_t at = strlen(text);
    size_t len = strlen(part);
    assert_true(at + len < TEXT_SIZE);
    memmove(text + at, part, len + 1);
}

const char *world_object(const char *name, const char *version)
{
    char *text = next_text();
    add(text, "{\"metadata\":{\"name\":\"");
    add(text, name);
    add(text, "\",\"resourceVersion\":\"");
    add(text, version);
    add(text, "\"}}");
    return text;
}

const char *world_list(const char *version, const char *token, const char *const *objects)
{
    char *text = next_text();
    add(text, "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"");
    add(text, version);
    add(text, "\",\"continue\":\"");
    add(text, token == NULL ? "" : token);
    add(text, "\"},\"items\":[");
    for (size_t i = 0; objects != NULL && objects[i] != NULL; i++) {
        add(text, i == 0 ? "" : ",");
        add(text, objects[i]);
    }
    add(text, "]}\n");
    return text;
}

const char *world_event(const char *type, const char *name, const char *version)
{
    char *text = next_text();
    add(text, "{\"type\":\"");
    add(text, type);
    add(text, "\",\"object\":");
    add(text, world_object(name, version));
    add(text, "}\n");
    return text;
}
