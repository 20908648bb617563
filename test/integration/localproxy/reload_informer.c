/* SPDX-License-Identifier: Apache-2.0 */
#include "reload_informer.h"

#include <stdio.h>
#include <stdlib.h>

#include <cjson/cJSON.h>

#include "base/array.h"
#include "kube/query.h"

enum { PAUSE_MAX = 12, BACKOFF_MAX = 60 };

static void note(struct informer *f, const char *what, unsigned number)
{
    size_t len = strlen(f->last);
    if (len > sizeof f->last - 64) {
        memmove(f->last, f->last + len / 2, len - len / 2 + 1);
        len = strlen(f->last);
    }
    (void)snprintf(f->last + len, sizeof f->last - len, " %s%u", what, number);
}

static unsigned chance(struct informer *f, unsigned n)
{
    return store_chance(f->world->store, n);
}

static void pause_a_while(struct informer *f)
{
    f->phase = INFORMER_WAITS;
    f->pause = f->world->hasty ? 0 : chance(f, PAUSE_MAX);
}

static void back_off(struct informer *f)
{
    f->phase = INFORMER_WAITS;
    f->pause = chance(f, f->world->hasty ? BACKOFF_MAX : PAUSE_MAX);
}

/* It begins anew; from nothing, but that client-go wants no list that is older than its last. */
static void start_over(struct informer *f)
{
    f->version = f->kind == INFORMER_LISTS ? f->version : 0;
    f->synced = false;
    free(f->token);
    f->token = NULL;
    if (f->kind == INFORMER_WATCHES) {
        memset(f->cache, 0, sizeof f->cache);
    }
    memset(f->coming, 0, sizeof f->coming);
}

/* ---- objects ---- */

struct seen {
    unsigned object;
    unsigned version;
};

static const char *text_in(const cJSON *object, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

static struct seen read_object(const cJSON *object)
{
    return (struct seen){
        .object = (unsigned)strtoul(store_text(object, "metadata/name") + 1, NULL, 10),
        .version = (unsigned)strtoul(store_text(object, "metadata/resourceVersion"), NULL, 10),
    };
}

static bool is_mine(const struct informer *f, const cJSON *object)
{
    return store_selects(f->selector, object) &&
           (f->ns == 0 || store_text(object, "metadata/namespace")[0] == f->ns);
}

static void check(struct informer *f, const cJSON *object, const char *how)
{
    struct seen s = read_object(object);
    if (!is_mine(f, object)) {
        informer_explain(f);
        fail_msg("informer %u %s p%u, which it did not ask for", f->number, how, s.object);
    }
    if (f->world->strict && !store_selects(f->world->rules, object)) {
        informer_explain(f);
        fail_msg("informer %u %s p%u@%u, which is outside of the rules", f->number, how, s.object,
                 s.version);
    }
}

/* The version of the pod in a view as of `version`; 0: it is not in it. */
static unsigned wanted_at(const struct informer *f, unsigned pod, unsigned version)
{
    char name[16];
    (void)snprintf(name, sizeof name, "p%u", pod);
    LIST_FOR_EACH(n, &f->world->store->objects)
    {
        const struct stored_object *o = LIST_ITEM(n, struct stored_object, link);
        if (strcmp(o->resource, "pods") == 0 && strcmp(o->name, name) == 0) {
            const struct stored_version *v = stored_at(o, version);
            bool shown = v != NULL && v->json != NULL && is_mine(f, v->json) &&
                         store_selects(f->world->rules, v->json);
            return shown ? v->version : 0;
        }
    }
    return 0;
}

static unsigned wanted(const struct informer *f, unsigned pod)
{
    return wanted_at(f, pod, f->world->store->version);
}

/* ---- lists ---- */

static void take_list(struct informer *f, const cJSON *list)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(list, "metadata");
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(list, "items"))
    {
        struct seen s = read_object(item);
        check(f, item, "was listed");
        assert_int_equal(f->coming[s.object], 0);
        f->coming[s.object] = s.version;
    }
    const char *token = text_in(metadata, "continue");
    free(f->token);
    f->token = token != NULL && token[0] != '\0' ? strdup(token) : NULL;
    if (f->token != NULL) {
        return;
    }
    memcpy(f->cache, f->coming, sizeof f->cache);
    memset(f->coming, 0, sizeof f->coming);
    f->version = (unsigned)strtoul(text_in(metadata, "resourceVersion"), NULL, 10);
    f->synced = true;
    f->list_expired = false;
    note(f, "list@", f->version);
}

static void end_list(struct informer *f, bool whole)
{
    pause_a_while(f);
    cJSON *list = whole && f->status == 200
                      ? cJSON_ParseWithLength((const char *)buf_data(&f->body), f->body.len)
                      : NULL;
    if (list != NULL) {
        take_list(f, list);
        cJSON_Delete(list);
    } else {
        note(f, "list:", f->status);
        f->list_expired = f->status == 410;
        start_over(f); /* what it has stays until a list comes */
        back_off(f);
    }
}

/* ---- watches ---- */

static bool take_error(struct informer *f, const cJSON *status)
{
    const cJSON *code = cJSON_GetObjectItemCaseSensitive(status, "code");
    assert_int_equal(code->valueint, 410);
    f->expired++;
    note(f, "expired", 0);
    start_over(f);
    return false;
}

/* Nothing up to a bookmark is still to come. */
static void check_view_at(struct informer *f, unsigned version)
{
    for (unsigned i = 0; i < PODS; i++) {
        if (f->cache[i] != wanted_at(f, i, version)) {
            informer_explain(f);
            fail_msg("informer %u: a bookmark at %u, and it has version %u of p%u, not %u",
                     f->number, version, f->cache[i], i, wanted_at(f, i, version));
        }
    }
}

static void take_bookmark(struct informer *f, const cJSON *object)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(object, "metadata");
    const cJSON *notes = cJSON_GetObjectItemCaseSensitive(metadata, "annotations");
    unsigned version = (unsigned)strtoul(text_in(metadata, "resourceVersion"), NULL, 10);
    if (version != f->version) {
        note(f, "mark@", version);
    }
    if (f->synced && f->world->strict) {
        check_view_at(f, version);
    }
    f->version = version;
    if (f->kind == INFORMER_WATCHES) {
        f->synced = true;
    }
    if (notes != NULL && text_in(notes, "k8s.io/initial-events-end") != NULL) {
        memcpy(f->cache, f->coming, sizeof f->cache);
        memset(f->coming, 0, sizeof f->coming);
        f->synced = true;
    }
}

static void take_change(struct informer *f, const char *type, const cJSON *object)
{
    struct seen s = read_object(object);
    unsigned *cache = f->kind == INFORMER_STREAMS && !f->synced ? f->coming : f->cache;
    unsigned had = cache[s.object];
    bool deleted = strcmp(type, "DELETED") == 0;
    bool right = strcmp(type, "ADDED") == 0 ? had == 0 : had != 0 && (deleted || had < s.version);
    note(f, type, s.object);
    note(f, "@", s.version);
    if (!deleted) {
        check(f, object, "was shown");
    }
    if (!right) {
        informer_explain(f);
        fail_msg("informer %u: %s p%u@%u, but it has version %u", f->number, type, s.object,
                 s.version, had);
    }
    cache[s.object] = deleted ? 0 : s.version;
    f->version = s.version;
    f->events++;
}

/* False: the watch is of no use any more. */
static bool take_event(struct informer *f, const char *line, size_t len)
{
    cJSON *event = cJSON_ParseWithLength(line, len);
    assert_non_null(event);
    const char *type = text_in(event, "type");
    const cJSON *object = cJSON_GetObjectItemCaseSensitive(event, "object");
    bool on = true;
    if (strcmp(type, "ERROR") == 0) {
        on = take_error(f, object);
    } else if (strcmp(type, "BOOKMARK") == 0) {
        take_bookmark(f, object);
    } else {
        take_change(f, type, object);
    }
    cJSON_Delete(event);
    return on;
}

static void give_up(struct informer *f)
{
    if (f->x != NULL) {
        http_exchange_abort(f->x);
        f->x = NULL;
    }
    pause_a_while(f);
}

static void take_events(struct informer *f)
{
    const char *end;
    while (f->body.len > 0 && (end = memchr(buf_data(&f->body), '\n', f->body.len)) != NULL) {
        size_t len = (size_t)(end - (const char *)buf_data(&f->body)) + 1;
        if (!take_event(f, (const char *)buf_data(&f->body), len)) {
            give_up(f);
            return;
        }
        buf_consume(&f->body, len);
    }
}

/* That a watch must begin anew is told by an event, as kube-apiserver does: many clients know
 * nothing else. */
static void end_watch(struct informer *f)
{
    assert_int_not_equal(f->status, 410);
    if (!f->synced) {
        start_over(f);
    }
    note(f, "end:", f->status);
    back_off(f);
}

/* ---- the exchange ---- */

static void on_head(struct http_exchange *x, const struct http_head *head)
{
    struct informer *f = x->data;
    f->status = head->status;
}

static void on_body(struct http_exchange *x, struct slice data)
{
    struct informer *f = x->data;
    assert_int_equal(buf_append(&f->body, data.ptr, data.len), 0);
    if (f->phase == INFORMER_WATCHING && f->status == 200) {
        take_events(f);
    }
}

static void ignore(struct http_exchange *x)
{
    (void)x;
}

static void on_close(struct http_exchange *x, const struct err *e)
{
    struct informer *f = x->data;
    f->x = NULL;
    if (f->phase == INFORMER_LISTING) {
        end_list(f, e == NULL);
    } else {
        end_watch(f);
    }
}

static const struct http_exchange_handlers handlers = {
    .on_head = on_head,
    .on_body = on_body,
    .on_end = ignore,
    .on_drain = ignore,
    .on_close = on_close,
};

static void ask(struct informer *f, enum informer_phase phase, const char *query)
{
    char target[1024];
    struct err e = ERR_INIT;
    struct http_header headers[] = {{SLICE("Host"), SLICE("localhost")},
                                    {SLICE("Accept"), SLICE("application/json")}};
    char place[32] = "";
    if (f->ns != 0) {
        (void)snprintf(place, sizeof place, "/namespaces/%c", f->ns);
    }
    int n = snprintf(target, sizeof target, "/api/v1%s/pods?%s%s%s", place, query,
                     f->selector_text != NULL ? "&labelSelector=" : "",
                     f->selector_text != NULL ? f->selector_text : "");
    struct http_head head = {.method = SLICE("GET"),
                             .target = slice_of(target, (size_t)n),
                             .headers = headers,
                             .header_count = 2,
                             .framing = HTTP_BODY_NONE};
    buf_clear(&f->body);
    f->status = 0;
    f->phase = phase;
    f->x = http_client_request(f->http, &head, &handlers, f, &e);
    assert_non_null(f->x);
}

static void ask_list(struct informer *f)
{
    char query[256];
    bool newest = f->kind == INFORMER_KEEPS || (f->kind == INFORMER_LISTS && f->list_expired);
    if (f->token != NULL) {
        (void)snprintf(query, sizeof query, "limit=%u&continue=%s", f->page, f->token);
    } else if (newest) {
        (void)snprintf(query, sizeof query, "limit=%u", f->page);
    } else if (f->kind == INFORMER_LISTS && f->version == 0) {
        (void)snprintf(query, sizeof query, "resourceVersion=0&limit=%u", f->page);
    } else { /* client-go asks for no pages here, others never */
        (void)snprintf(query, sizeof query, "resourceVersion=%u", f->version);
    }
    f->lists += f->token == NULL ? 1 : 0;
    note(f, "list from ", newest ? 0 : f->version);
    ask(f, INFORMER_LISTING, query);
}

static void ask_watch(struct informer *f)
{
    char query[256];
    char from[64] = "";
    if (f->version != 0) {
        (void)snprintf(from, sizeof from, "&resourceVersion=%u", f->version);
    }
    bool stream = f->kind == INFORMER_STREAMS && !f->synced;
    if (stream) {
        memset(f->coming, 0, sizeof f->coming);
    }
    f->lists += stream || f->version == 0 ? 1 : 0;
    note(f, "watch@", f->version);
    (void)snprintf(query, sizeof query, "watch=1%s%s%s",
                   f->kind != INFORMER_PLAIN ? "&allowWatchBookmarks=true" : "", from,
                   stream ? "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan" : "");
    ask(f, INFORMER_WATCHING, query);
}

void informer_turn(struct informer *f)
{
    bool lists = f->kind <= INFORMER_PLAIN;
    if (f->phase != INFORMER_WAITS) {
        if (!f->world->store->calm && chance(f, 400) == 0) { /* its connection breaks */
            http_exchange_abort(f->x);
            f->x = NULL;
            on_close(&(struct http_exchange){.data = f}, &(struct err){.code = -1});
        }
    } else if (f->pause > 0) {
        f->pause--;
    } else if (lists && !f->synced) {
        ask_list(f);
    } else {
        ask_watch(f);
    }
}

/* ---- life ---- */

static void connect_to(struct informer *f)
{
    struct err e = ERR_INIT;
    const char *address = proxy_address(f->world->fixture->proxy);
    struct http_client_options o = {
        .host = "127.0.0.1",
        .port = (unsigned)strtoul(strrchr(address, ':') + 1, NULL, 10),
        .connect_timeout_ms = 10000,
        .idle_timeout_ms = 10000,
        .write_timeout_ms = 10000,
        .max_idle = 1,
    };
    f->http = http_client_new(f->world->store->api.loop, &o, &e);
    assert_non_null(f->http);
}

void informer_open_alike(struct informer *f, struct informer_world *w, unsigned number)
{
    *f = (struct informer){
        .number = number, .world = w, .kind = number % INFORMER_KINDS, .page = 500};
    buf_init(&f->body, SIZE_MAX / 2);
    connect_to(f);
}

void informer_open(struct informer *f, struct informer_world *w, unsigned number)
{
    static const char *const selectors[] = {NULL, NULL, "app%3Dx", "app+in+%28x%2Cy%29",
                                            "zone%21%3D2"};
    struct err e = ERR_INIT;
    informer_open_alike(f, w, number);
    f->ns = chance(f, 3) == 0 ? (char)('a' + chance(f, 4)) : '\0';
    f->page = chance(f, 2) == 0 ? 500 : 1 + chance(f, 5);
    f->selector_text = selectors[chance(f, ARRAY_LEN(selectors))];
    if (f->selector_text != NULL) {
        struct buf text = BUF_INIT(256);
        assert_int_equal(query_decode(slice_str(f->selector_text), &text), 0);
        f->selector = selector_parse(buf_slice(&text), &e);
        assert_non_null(f->selector);
        buf_reset(&text);
    }
}

void informer_move(struct informer *f)
{
    http_client_free(f->http);
    connect_to(f);
}

const char *pod_ns(unsigned pod)
{
    static const char *const spaces[] = {"a", "b", "c", "d"};
    return spaces[pod % ARRAY_LEN(spaces)];
}

bool informer_is_right(const struct informer *f)
{
    bool right = f->synced || f->kind == INFORMER_WATCHES;
    for (unsigned i = 0; i < PODS && right; i++) {
        right = f->cache[i] == wanted(f, i);
    }
    return right && f->phase == INFORMER_WATCHING && f->status == 200;
}

void informer_explain(const struct informer *f)
{
    print_message(
        "informer %u: kind %d, namespace %c, selector %s, phase %d, status %u, version %u\n",
        f->number, (int)f->kind, f->ns != 0 ? f->ns : '*',
        f->selector_text != NULL ? f->selector_text : "", (int)f->phase, f->status, f->version);
    for (unsigned i = 0; i < PODS; i++) {
        if (f->cache[i] != wanted(f, i)) {
            print_message("  p%u: has %u, should have %u\n", i, f->cache[i], wanted(f, i));
        }
    }
    (void)fprintf(stderr, "  %s\n", f->last);
}

void informer_close(struct informer *f)
{
    if (f->x != NULL) {
        http_exchange_abort(f->x);
    }
    http_client_free(f->http);
    buf_reset(&f->body);
    selector_free(f->selector);
    free(f->token);
}
