/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_store.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/buf.h"
#include "http/collect.h"
#include "kube/name.h"
#include "kube/request_info.h"
#include "kube/selector.h"
#include "query_get.h"
#include "selector_matches.h"
#include "json/json.h"

enum { BODY_MAX = 4 * 1024 * 1024, TEXT_MAX = 64 * 1024 * 1024, TARGET_MAX = 4096 };

struct object {
    struct list link;
    char *resource;
    char *ns;
    cJSON *json;
};

struct change {
    struct list link;
    unsigned version;
    char *resource;
    char *ns;
    cJSON *before; /* NULL: it was created */
    cJSON *after;  /* NULL: it was deleted */
};

struct watch {
    struct list link;
    struct kube_store *store;
    struct http_exchange *x;
    char *resource;
    char *ns;
    struct selector *selector;
};

struct asked {
    struct list link;
    struct http_collect collect;
    struct kube_store *store;
    char method[16];
    char target[TARGET_MAX];
};

static void guard(const struct kube_store *s, bool inside)
{
    if (s->guard != NULL) {
        s->guard(inside);
    }
}

/* ---- trees ---- */

static char *text_copy(struct slice s)
{
    char *text = strndup(s.len > 0 ? s.ptr : "", s.len);
    assert_non_null(text);
    return text;
}

static cJSON *member(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

const char *store_text(const cJSON *object, const char *path)
{
    static char number[32];
    char part[256];
    while (object != NULL && path[0] != '\0') {
        size_t len = strcspn(path, "/");
        (void)snprintf(part, sizeof part, "%.*s", (int)len, path);
        path += len + (path[len] == '/');
        /* Keys of annotations hold slashes: written with a `~`. */
        for (char *c = strchr(part, '~'); c != NULL; c = strchr(part, '~')) {
            *c = '/';
        }
        object =
            cJSON_IsArray(object) ? cJSON_GetArrayItem(object, atoi(part)) : member(object, part);
    }
    if (cJSON_IsNumber(object)) {
        (void)snprintf(number, sizeof number, "%.0f", object->valuedouble);
        return number;
    }
    const char *text = cJSON_GetStringValue(object);
    return text == NULL ? "" : text;
}

static const char *meta(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(member(member(object, "metadata"), key));
    return text == NULL ? "" : text;
}

static void set_text(cJSON *object, const char *key, const char *value)
{
    cJSON *copy = cJSON_CreateString(value);
    cJSON_DeleteItemFromObjectCaseSensitive(object, key);
    assert_true(cJSON_AddItemToObject(object, key, copy));
}

static void set_number(cJSON *object, const char *key, double value)
{
    cJSON_DeleteItemFromObjectCaseSensitive(object, key);
    assert_non_null(cJSON_AddNumberToObject(object, key, value));
}

/* RFC 7386. */
static void merge(cJSON *into, const cJSON *patch)
{
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, patch)
    {
        cJSON *old = member(into, item->string);
        if (cJSON_IsObject(item) && cJSON_IsObject(old)) {
            merge(old, item);
            continue;
        }
        cJSON_DeleteItemFromObjectCaseSensitive(into, item->string);
        if (cJSON_IsObject(item)) {
            merge(cJSON_AddObjectToObject(into, item->string), item);
        } else if (!cJSON_IsNull(item)) {
            (void)cJSON_AddItemToObject(into, item->string, cJSON_Duplicate(item, true));
        }
    }
}

static bool selects(const struct selector *selector, const cJSON *object)
{
    struct selector_label labels[64];
    size_t count = 0;
    const cJSON *label = NULL;
    cJSON_ArrayForEach(label, member(member(object, "metadata"), "labels"))
    {
        assert_true(count < 64);
        labels[count++] = (struct selector_label){slice_str(label->string),
                                                  slice_str(cJSON_GetStringValue(label))};
    }
    return selector == NULL || selector_matches(selector, labels, count);
}

/* ---- watches ---- */

static void forget_watch(struct watch *w)
{
    list_remove(&w->link);
    selector_free(w->selector);
    free(w->resource);
    free(w->ns);
    free(w);
}

static void on_watch_close(struct http_exchange *x, const struct err *e)
{
    struct watch *w = x->data;
    (void)e;
    forget_watch(w);
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

static const struct http_exchange_handlers watch_handlers = {
    .on_body = ignore_body, .on_end = ignore, .on_drain = ignore, .on_close = on_watch_close};
static const struct http_exchange_handlers no_handlers = {
    .on_body = ignore_body, .on_end = ignore, .on_drain = ignore, .on_close = ignore_close};

static void send_change(struct watch *w, const struct change *c)
{
    bool was = c->before != NULL && selects(w->selector, c->before);
    bool is = c->after != NULL && selects(w->selector, c->after);
    if (strcmp(w->resource, c->resource) != 0 || (w->ns[0] != '\0' && strcmp(w->ns, c->ns) != 0) ||
        (!was && !is)) {
        return;
    }
    char *text = cJSON_PrintUnformatted(is ? c->after : c->before);
    struct buf line = BUF_INIT(TEXT_MAX);
    assert_int_equal(buf_printf(&line, "{\"type\":\"%s\",\"object\":%s}\n",
                                is && was ? "MODIFIED"
                                : is      ? "ADDED"
                                          : "DELETED",
                                text),
                     0);
    assert_int_equal(http_exchange_send_body(w->x, buf_slice(&line)), 0);
    buf_reset(&line);
    free(text);
}

static void record(struct kube_store *s, const char *resource, const char *ns, cJSON *before,
                   const cJSON *after)
{
    struct change *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->version = s->version;
    c->resource = text_copy(slice_str(resource));
    c->ns = text_copy(slice_str(ns));
    c->before = before;
    c->after = after == NULL ? NULL : cJSON_Duplicate(after, true);
    if (after == NULL) { /* the last state has the version of its deletion */
        char version[16];
        (void)snprintf(version, sizeof version, "%u", s->version);
        set_text(member(before, "metadata"), "resourceVersion", version);
    }
    s->writes++;
    list_append(&s->history, &c->link);
    LIST_FOR_EACH(n, &s->watches)
    {
        send_change(LIST_ITEM(n, struct watch, link), c);
    }
}

static void begin_watch(struct kube_store *s, struct http_exchange *x,
                        const struct request_info *ri, unsigned version, struct selector *selector)
{
    struct http_header type = {SLICE("Content-Type"), SLICE("application/json")};
    struct http_head head = {
        .status = 200, .headers = &type, .header_count = 1, .framing = HTTP_BODY_CHUNKED};
    struct watch *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->store = s;
    w->x = x;
    w->resource = text_copy(ri->resource);
    w->ns = text_copy(ri->namespace);
    w->selector = selector;
    x->handlers = &watch_handlers;
    x->data = w;
    list_append(&s->watches, &w->link);
    assert_int_equal(http_exchange_send_head(x, &head), 0);
    LIST_FOR_EACH(n, &s->history)
    {
        const struct change *c = LIST_ITEM(n, struct change, link);
        if (c->version > version) {
            send_change(w, c);
        }
    }
}

void store_end_watches(struct kube_store *s)
{
    while (!list_empty(&s->watches)) {
        struct watch *w = LIST_ITEM(s->watches.next, struct watch, link);
        http_exchange_abort(w->x);
        forget_watch(w);
    }
}

/* ---- objects ---- */

static struct object *find(const struct kube_store *s, const char *resource, const char *ns,
                           const char *name)
{
    LIST_FOR_EACH(n, &s->objects)
    {
        struct object *o = LIST_ITEM(n, struct object, link);
        if (strcmp(o->resource, resource) == 0 && strcmp(o->ns, ns) == 0 &&
            strcmp(meta(o->json, "name"), name) == 0) {
            return o;
        }
    }
    return NULL;
}

const cJSON *store_get(const struct kube_store *s, const char *resource, const char *ns,
                       const char *name)
{
    const struct object *o = find(s, resource, ns, name);
    return o == NULL ? NULL : o->json;
}

/* Takes `json`, which is the object's new state. */
static void change_object(struct kube_store *s, struct object *o, cJSON *json)
{
    cJSON *old = o->json;
    cJSON *m = member(json, "metadata");
    char version[16];
    double generation = member(m, "generation") == NULL ? 1 : member(m, "generation")->valuedouble;
    if (old != NULL && cJSON_Compare(old, json, true)) {
        cJSON_Delete(json);
        return;
    }
    (void)snprintf(version, sizeof version, "%u", ++s->version);
    if (old != NULL && !cJSON_Compare(member(old, "spec"), member(json, "spec"), true)) {
        generation++;
    }
    set_text(m, "resourceVersion", version);
    set_number(m, "generation", generation);
    o->json = json;
    record(s, o->resource, o->ns, old, json);
}

static struct object *add_object(struct kube_store *s, const char *resource, const char *ns,
                                 cJSON *json)
{
    char uid[32];
    struct object *o = calloc(1, sizeof *o);
    assert_non_null(o);
    o->resource = text_copy(slice_str(resource));
    o->ns = text_copy(slice_str(ns));
    (void)snprintf(uid, sizeof uid, "uid-%u", s->version + 1);
    set_text(member(json, "metadata"), "uid", uid);
    set_text(member(json, "metadata"), "namespace", ns);
    list_append(&s->objects, &o->link);
    change_object(s, o, json);
    return o;
}

static void remove_object(struct kube_store *s, struct object *o)
{
    s->version++;
    list_remove(&o->link);
    record(s, o->resource, o->ns, o->json, NULL);
    free(o->resource);
    free(o->ns);
    free(o);
}

void store_put(struct kube_store *s, const char *resource, const char *ns, cJSON *object)
{
    struct object *o = find(s, resource, ns, meta(object, "name"));
    if (o == NULL) {
        (void)add_object(s, resource, ns, object);
        return;
    }
    static const char *const kept[] = {"uid", "namespace", "resourceVersion", "generation"};
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        cJSON *m = member(object, "metadata");
        cJSON_DeleteItemFromObjectCaseSensitive(m, kept[i]);
        (void)cJSON_AddItemToObject(
            m, kept[i], cJSON_Duplicate(member(member(o->json, "metadata"), kept[i]), true));
    }
    if (member(object, "status") == NULL && member(o->json, "status") != NULL) {
        (void)cJSON_AddItemToObject(object, "status",
                                    cJSON_Duplicate(member(o->json, "status"), true));
    }
    change_object(s, o, object);
}

void store_put_text(struct kube_store *s, const char *resource, const char *ns, const char *fmt,
                    ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    assert_true(n > 0);
    struct err e = ERR_INIT;
    cJSON *object = json_parse(text, (size_t)n, &e);
    if (object == NULL) {
        fail_msg("%s in %s", e.msg, text);
    }
    free(text);
    store_put(s, resource, ns, object);
}

void store_delete(struct kube_store *s, const char *resource, const char *ns, const char *name)
{
    struct object *o = find(s, resource, ns, name);
    assert_non_null(o);
    remove_object(s, o);
}

const cJSON *store_next(const struct kube_store *s, const char *resource, const cJSON *object)
{
    bool found = object == NULL;
    LIST_FOR_EACH(n, &s->objects)
    {
        const struct object *o = LIST_ITEM(n, struct object, link);
        if (found && strcmp(o->resource, resource) == 0) {
            return o->json;
        }
        found = found || o->json == object;
    }
    return NULL;
}

size_t store_count(const struct kube_store *s, const char *resource)
{
    size_t count = 0;
    for (const cJSON *o = NULL; (o = store_next(s, resource, o)) != NULL;) {
        count++;
    }
    return count;
}

/* ---- answers ---- */

static void answer(struct http_exchange *x, unsigned status, const char *body)
{
    x->handlers = &no_handlers;
    if (http_respond(x, status, SLICE("application/json"), slice_str(body), NULL, 0) != 0) {
        http_exchange_abort(x);
    }
}

static void answer_object(struct http_exchange *x, unsigned status, const cJSON *object)
{
    char *text = cJSON_PrintUnformatted(object);
    assert_non_null(text);
    answer(x, status, text);
    free(text);
}

static void answer_error(struct http_exchange *x, unsigned status)
{
    char body[256];
    const char *reason = status == 404   ? "NotFound"
                         : status == 409 ? "Conflict"
                         : status == 410 ? "AlreadyExists" /* see below */
                         : status == 403 ? "Forbidden"
                         : status == 422 ? "Invalid"
                                         : "InternalError";
    unsigned code = status == 410 ? 409 : status;
    (void)snprintf(body, sizeof body,
                   "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\","
                   "\"message\":\"the test said %u\",\"reason\":\"%s\",\"code\":%u}",
                   code, reason, code);
    answer(x, code, body);
}

static void answer_list(struct kube_store *s, struct http_exchange *x,
                        const struct request_info *ri, const struct selector *selector)
{
    struct buf out = BUF_INIT(TEXT_MAX);
    char *resource = text_copy(ri->resource);
    char *ns = text_copy(ri->namespace);
    const char *comma = "";
    assert_int_equal(
        buf_printf(&out, "{\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"%u\"},\"items\":[",
                   s->version),
        0);
    for (const cJSON *o = NULL; (o = store_next(s, resource, o)) != NULL;) {
        if ((ns[0] == '\0' || strcmp(meta(o, "namespace"), ns) == 0) && selects(selector, o)) {
            char *text = cJSON_PrintUnformatted(o);
            assert_int_equal(buf_append_str(&out, comma), 0);
            assert_int_equal(buf_append_str(&out, text), 0);
            free(text);
            comma = ",";
        }
    }
    assert_int_equal(buf_append_str(&out, "]}"), 0);
    answer(x, 200, buf_cstr(&out));
    buf_reset(&out);
    free(resource);
    free(ns);
}

/* ---- writes: a status, and the object that is answered ---- */

enum { EXISTS = 410 }; /* in here: 409 with the reason AlreadyExists */

static unsigned create(struct kube_store *s, const char *resource, const char *ns,
                       const cJSON *body, const cJSON **out)
{
    if (body == NULL) {
        return 400;
    }
    if (find(s, resource, ns, meta(body, "name")) != NULL) {
        return EXISTS;
    }
    *out = add_object(s, resource, ns, cJSON_Duplicate(body, true))->json;
    return 201;
}

static bool is_other(const cJSON *asked, const char *found)
{
    const char *text = cJSON_GetStringValue(asked);
    return text != NULL && strcmp(text, found) != 0;
}

static unsigned patch(struct kube_store *s, struct object *o, const char *subresource,
                      const cJSON *body, const cJSON **out)
{
    const cJSON *m = member(body, "metadata");
    if (is_other(member(m, "uid"), meta(o->json, "uid")) ||
        is_other(member(m, "resourceVersion"), meta(o->json, "resourceVersion"))) {
        return 409;
    }
    cJSON *json = cJSON_Duplicate(o->json, true);
    if (strcmp(subresource, "status") == 0) {
        cJSON *status = cJSON_CreateObject();
        (void)cJSON_AddItemToObject(status, "status",
                                    cJSON_Duplicate(member(body, "status"), true));
        merge(json, status);
        cJSON_Delete(status);
    } else {
        merge(json, body);
    }
    change_object(s, o, json);
    *out = o->json;
    return 200;
}

static unsigned delete (struct kube_store *s, struct object *o, const cJSON *body)
{
    const cJSON *conditions = member(body, "preconditions");
    if (is_other(member(conditions, "uid"), meta(o->json, "uid")) ||
        is_other(member(conditions, "resourceVersion"), meta(o->json, "resourceVersion"))) {
        return 409;
    }
    remove_object(s, o);
    return 200;
}

static unsigned act(struct kube_store *s, const struct request_info *ri, const cJSON *body,
                    const cJSON **out)
{
    char *resource = text_copy(ri->resource);
    char *ns = text_copy(ri->namespace);
    char *name = text_copy(ri->name);
    char *sub = text_copy(ri->subresource);
    struct object *o = find(s, resource, ns, name);
    unsigned status = 405;
    if (ri->verb == VERB_CREATE) {
        status = create(s, resource, ns, body, out);
    } else if (o == NULL) {
        status = 404;
    } else if (ri->verb == VERB_GET) {
        *out = o->json;
        status = 200;
    } else if (ri->verb == VERB_PATCH) {
        status = patch(s, o, sub, body, out);
    } else if (ri->verb == VERB_DELETE) {
        status = delete (s, o, body);
    }
    free(resource);
    free(ns);
    free(name);
    free(sub);
    return status;
}

/* ---- requests ---- */

static unsigned version_of(struct slice target)
{
    struct buf text = BUF_INIT(64);
    unsigned version = 0;
    if (query_get(target, "resourceVersion", &text) == 1) {
        version = (unsigned)strtoul(buf_cstr(&text), NULL, 10);
    }
    buf_reset(&text);
    return version;
}

static struct selector *selector_of(struct slice target)
{
    struct buf text = BUF_INIT(4096);
    struct selector *selector = NULL;
    if (query_get(target, "labelSelector", &text) == 1) {
        selector = selector_parse(buf_slice(&text), NULL);
        assert_non_null(selector);
    }
    buf_reset(&text);
    return selector;
}

static void drop(struct asked *a)
{
    list_remove(&a->link);
    http_collect_deinit(&a->collect);
    free(a);
}

static void serve_object(struct asked *a, const struct request_info *ri, const cJSON *body)
{
    struct kube_store *s = a->store;
    enum store_fault fault = STORE_NONE;
    char *path = text_copy(ri->path);
    struct store_request q = {.method = a->method, .path = path, .body = body};
    unsigned status = s->on_request == NULL ? 0 : s->on_request(s->data, &q, &fault);
    const cJSON *object = NULL;
    free(path);
    if (status == 0 && fault != STORE_CUT) {
        status = act(s, ri, body, &object);
    }
    if (fault == STORE_HOLD) {
        return; /* until the client gives up */
    }
    if (fault != STORE_NONE) {
        drop(a);
        return;
    }
    struct http_exchange *x = http_collect_release(&a->collect);
    if (status == 200 && object == NULL) {
        answer(x, 200, "{\"kind\":\"Status\",\"status\":\"Success\"}");
    } else if (object != NULL) {
        answer_object(x, status, object);
    } else {
        answer_error(x, status);
    }
    drop(a);
}

static void serve(struct asked *a, const cJSON *body)
{
    struct request_info ri;
    struct slice target = slice_str(a->target);
    assert_int_equal(request_info_parse(&ri, slice_str(a->method), target, NULL), 0);
    if (ri.verb == VERB_WATCH) {
        struct http_exchange *x = http_collect_release(&a->collect);
        begin_watch(a->store, x, &ri, version_of(target), selector_of(target));
        drop(a);
    } else if (ri.verb == VERB_LIST) {
        struct selector *selector = selector_of(target);
        struct http_exchange *x = http_collect_release(&a->collect);
        answer_list(a->store, x, &ri, selector);
        selector_free(selector);
        drop(a);
    } else {
        a->store->requests++;
        serve_object(a, &ri, body);
    }
    request_info_deinit(&ri);
}

static void on_body(struct http_collect *c, struct slice text, const struct err *e)
{
    struct asked *a = LIST_ITEM(c, struct asked, collect);
    struct kube_store *s = a->store;
    if (e != NULL) {
        drop(a);
        return;
    }
    guard(s, true);
    cJSON *body = text.len == 0 ? NULL : json_parse(text.ptr, text.len, NULL);
    serve(a, body);
    cJSON_Delete(body);
    guard(s, false);
}

static void on_close(struct http_collect *c, const struct err *e)
{
    (void)e;
    drop(LIST_ITEM(c, struct asked, collect));
}

static const struct http_collect_handlers collect_handlers = {.on_body = on_body,
                                                              .on_close = on_close};

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct kube_store *s = data;
    guard(s, true);
    struct asked *a = calloc(1, sizeof *a);
    assert_non_null(a);
    a->store = s;
    (void)snprintf(a->method, sizeof a->method, "%.*s", (int)head->method.len, head->method.ptr);
    (void)snprintf(a->target, sizeof a->target, "%.*s", (int)head->target.len, head->target.ptr);
    list_append(&s->held, &a->link);
    http_collect_init(&a->collect, BODY_MAX, &collect_handlers);
    http_collect_take(&a->collect, x);
    guard(s, false);
}

static void on_refuse(void *data, unsigned status, const char *why, struct buf *body)
{
    (void)data;
    (void)status;
    (void)why;
    buf_clear(body);
}

static const struct http_server_handlers server_handlers = {.on_request = on_request,
                                                            .on_refuse = on_refuse};

/* ---- life ---- */

bool store_open(struct kube_store *s, struct net_loop *l)
{
    struct http_server_options so = {.address = "127.0.0.1:0",
                                     .head_timeout_ms = 20000,
                                     .idle_timeout_ms = 60000,
                                     .write_timeout_ms = 20000};
    struct kube_client_options co = {.access = &s->access, .max_idle = 16};
    struct err e = ERR_INIT;
    s->loop = l;
    s->version = 100;
    list_init(&s->objects);
    list_init(&s->history);
    list_init(&s->watches);
    list_init(&s->held);
    s->server = http_server_new(l, &so, &server_handlers, s, NULL);
    if (s->server == NULL) {
        return false;
    }
    s->access.user = (char *)(size_t) "me";
    strcpy(s->access.server.host, "127.0.0.1");
    s->access.server.port =
        (uint16_t)strtoul(strrchr(http_server_address(s->server), ':') + 1, NULL, 10);
    s->client = kube_client_new(l, &co, &e);
    return s->client != NULL;
}

static void free_change(struct change *c)
{
    list_remove(&c->link);
    cJSON_Delete(c->before);
    cJSON_Delete(c->after);
    free(c->resource);
    free(c->ns);
    free(c);
}

void store_close(struct kube_store *s)
{
    store_end_watches(s);
    while (!list_empty(&s->held)) {
        drop(LIST_ITEM(s->held.next, struct asked, link));
    }
    if (s->client != NULL) {
        kube_client_close(s->client, NULL, NULL);
    }
    http_server_free(s->server);
    while (!list_empty(&s->objects)) {
        struct object *o = LIST_ITEM(s->objects.next, struct object, link);
        list_remove(&o->link);
        cJSON_Delete(o->json);
        free(o->resource);
        free(o->ns);
        free(o);
    }
    while (!list_empty(&s->history)) {
        free_change(LIST_ITEM(s->history.next, struct change, link));
    }
}
