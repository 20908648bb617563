/* SPDX-License-Identifier: Apache-2.0 */
#include "storing_api.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "net/deadline.h"
#include "query_get.h"
#include "storing_objects.h"
#include "json/json.h"

enum { PAUSE_MAX_MS = 30000, TURN_MS = 4, QUIET_TURNS = 4, PARAMETER_MAX = 8192 };

/* Of a list or a watch, beside its api_request. */
struct query {
    struct request_info ri;
    struct selector *selector; /* NULL: none */
    unsigned version;          /* list: of it; watch: sent up to it */
    unsigned from;             /* list: the first object */
    unsigned limit;            /* 0: none */
    bool exact;
    bool newest; /* list: no version is named */
    bool bookmarks;
    bool marked;    /* what there is comes first, and a mark behind it */
    bool initial;   /* what there is has not been sent yet */
    unsigned begun; /* watch: the version from which it goes on */
};

static struct storing_api *store_of(const struct api_request *q)
{
    return q->api->data;
}

/* ---- what is asked ---- */

static bool parameter(const struct api_request *r, const char *key, char out[PARAMETER_MAX])
{
    struct buf text = BUF_INIT(PARAMETER_MAX - 1);
    int found = query_get(slice_str(r->target), key, &text);
    assert_true(found >= 0);
    (void)snprintf(out, PARAMETER_MAX, "%s", text.len > 0 ? buf_cstr(&text) : "");
    buf_reset(&text);
    return found > 0;
}

static unsigned number(const struct api_request *r, const char *key)
{
    char text[PARAMETER_MAX];
    return parameter(r, key, text) ? (unsigned)strtoul(text, NULL, 10) : 0;
}

static struct query *query_new(const struct api_request *r)
{
    char text[PARAMETER_MAX];
    struct query *q = calloc(1, sizeof *q);
    assert_non_null(q);
    assert_int_equal(request_info_parse(&q->ri, slice_str(r->method), slice_str(r->target), NULL),
                     0);
    if (parameter(r, "labelSelector", text)) {
        q->selector = selector_parse(slice_str(text), NULL);
        assert_non_null(q->selector);
    }
    q->version = number(r, "resourceVersion");
    q->newest = !parameter(r, "resourceVersion", text) || text[0] == '\0';
    q->limit = number(r, "limit");
    q->exact = parameter(r, "resourceVersionMatch", text) && strcmp(text, "Exact") == 0;
    q->bookmarks = parameter(r, "allowWatchBookmarks", text) && strcmp(text, "true") == 0;
    q->marked = parameter(r, "sendInitialEvents", text);
    if (parameter(r, "continue", text) && text[0] != '\0') {
        assert_int_equal(sscanf(text, "%u.%u", &q->version, &q->from), 2);
        q->exact = true;
    }
    return q;
}

static void query_free(void *data)
{
    struct query *q = data;
    if (q != NULL) {
        request_info_deinit(&q->ri);
        selector_free(q->selector);
        free(q);
    }
}

static bool is_text(struct slice wanted, const char *text)
{
    return slice_eq(wanted, slice_str(text));
}

static bool is_asked_for(const struct query *q, const struct stored_object *o)
{
    return is_text(q->ri.resource, o->resource) &&
           (q->ri.namespace.len == 0 || is_text(q->ri.namespace, o->ns)) &&
           (q->ri.name.len == 0 || is_text(q->ri.name, o->name));
}

/* NULL: the client is not shown it. */
static const struct stored_version *shown_at(const struct query *q, const struct stored_object *o,
                                             unsigned version)
{
    const struct stored_version *v = stored_at(o, version);
    return v != NULL && store_selects(q->selector, v->json) ? v : NULL;
}

/* ---- lists ---- */

static const char gone[] = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":"
                           "\"Failure\",\"message\":\"too old\",\"reason\":\"Expired\","
                           "\"code\":410}";

static void put(struct buf *out, const char *text)
{
    assert_int_equal(buf_append_str(out, text), 0);
}

static void put_list(const struct storing_api *s, const struct query *q, struct buf *out)
{
    struct buf items = BUF_INIT(SIZE_MAX / 2);
    char token[32] = "";
    unsigned shown = 0;
    unsigned i = 0;
    LIST_FOR_EACH(n, &s->objects)
    {
        const struct stored_object *o = LIST_ITEM(n, struct stored_object, link);
        const struct stored_version *v =
            i >= q->from && is_asked_for(q, o) ? shown_at(q, o, q->version) : NULL;
        if (v != NULL && q->limit > 0 && shown == q->limit) {
            (void)snprintf(token, sizeof token, "%u.%u", q->version, i);
            break;
        }
        if (v != NULL) {
            put(&items, shown++ > 0 ? "," : "");
            put(&items, v->text);
        }
        i++;
    }
    assert_int_equal(
        buf_printf(out,
                   "{\"kind\":\"%sList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":"
                   "\"%u\",\"continue\":\"%s\"},\"items\":[",
                   s->kind == NULL ? "" : s->kind, q->version, token),
        0);
    put(out, items.len > 0 ? buf_cstr(&items) : "");
    put(out, "]}");
    buf_reset(&items);
}

/* Of the last change of what is asked for, but no less than `version`. */
static unsigned cached_version(const struct storing_api *s, const struct query *q, unsigned version)
{
    unsigned at = s->version;
    while (at > version && at > STORE_FIRST &&
           !is_text(q->ri.resource, s->log[at - STORE_FIRST - 1]->resource)) {
        at--;
    }
    return at;
}

static void set_list_version(const struct storing_api *s, struct query *q)
{
    if (s->page_max > 0 && q->limit > s->page_max) {
        q->limit = s->page_max;
    }
    if (!q->exact && s->cache && !q->newest) {
        q->version = cached_version(s, q, q->version);
        q->limit = 0; /* a watch cache knows no pages */
    } else if (!q->exact) {
        q->version = s->version;
    }
}

/* `cut`: the connection ends in its midst. */
static void answer_list(struct api_request *r, bool cut)
{
    struct storing_api *s = store_of(r);
    struct query *q = r->data;
    struct buf body = BUF_INIT(SIZE_MAX / 2);
    s->lists++;
    if (q->exact && q->version < s->compacted) {
        api_answer(r, 410, NULL, gone);
        return;
    }
    set_list_version(s, q);
    put_list(s, q, &body);
    if (cut) {
        api_begin(r, NULL);
        api_send_bytes(r, slice_of(buf_cstr(&body), store_chance(s, (unsigned)body.len)));
        api_cut(r);
    } else {
        api_answer(r, 200, NULL, buf_cstr(&body));
    }
    buf_reset(&body);
}

/* ---- watches ---- */

static void put_event(const struct storing_api *s, const char *type, const char *object,
                      struct buf *out)
{
    assert_int_equal(buf_printf(out, "{\"type\":\"%s\",\"object\":{", type), 0);
    if (s->kind != NULL) {
        assert_int_equal(buf_printf(out, "\"kind\":\"%s\",\"apiVersion\":\"v1\",", s->kind), 0);
    }
    put(out, object + 1);
    put(out, "}\n");
}

static void put_bookmark(const struct storing_api *s, unsigned version, bool end, struct buf *out)
{
    char object[256];
    (void)snprintf(object, sizeof object, "{\"metadata\":{\"resourceVersion\":\"%u\"%s}}", version,
                   end ? ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}" : "");
    put_event(s, "BOOKMARK", object, out);
}

static void put_what_is_there(const struct storing_api *s, struct query *q, struct buf *out)
{
    q->initial = false;
    q->version = s->version;
    q->begun = q->version;
    LIST_FOR_EACH(n, &s->objects)
    {
        const struct stored_object *o = LIST_ITEM(n, struct stored_object, link);
        const struct stored_version *v = is_asked_for(q, o) ? shown_at(q, o, q->version) : NULL;
        if (v != NULL) {
            put_event(s, "ADDED", v->text, out);
        }
    }
    if (q->marked) {
        put_bookmark(s, q->version, true, out);
    }
}

/* The last state that was shown, with the version of its end. */
static void put_end(const struct storing_api *s, const cJSON *object, unsigned version,
                    struct buf *out)
{
    char text[16];
    cJSON *json = cJSON_Duplicate(object, true);
    cJSON *metadata = cJSON_GetObjectItem(json, "metadata");
    (void)snprintf(text, sizeof text, "%u", version);
    assert_true(cJSON_ReplaceItemInObject(metadata, "resourceVersion", cJSON_CreateString(text)));
    char *last = cJSON_PrintUnformatted(json);
    put_event(s, "DELETED", last, out);
    free(last);
    cJSON_Delete(json);
}

static void put_change(const struct storing_api *s, const struct query *q, unsigned version,
                       struct buf *out)
{
    const struct stored_object *o = s->log[version - STORE_FIRST - 1];
    if (!is_asked_for(q, o)) {
        return;
    }
    const struct stored_version *before = shown_at(q, o, version - 1);
    const struct stored_version *now = shown_at(q, o, version);
    if (now != NULL) {
        put_event(s, before != NULL ? "MODIFIED" : "ADDED", now->text, out);
    } else if (before != NULL) {
        put_end(s, before->json, version, out);
    }
}

static void end_expired(struct api_request *r)
{
    api_send(r, "{\"type\":\"ERROR\",\"object\":");
    api_send(r, gone);
    api_send(r, "}\n");
    api_end(r);
}

static void begin_watch(struct api_request *r)
{
    struct query *q = r->data;
    api_begin(r, NULL);
    q->initial = q->version == 0 || q->marked;
    q->begun = q->version;
    if (!q->initial && q->version < store_of(r)->forgotten) {
        end_expired(r);
    }
}

/* At most so many changes. */
static void put_changes(const struct storing_api *s, struct query *q, unsigned max, struct buf *out)
{
    if (q->initial) {
        put_what_is_there(s, q, out);
    }
    for (; max > 0 && q->version < s->version; max--) {
        put_change(s, q, ++q->version, out);
    }
}

static bool has_part(const struct api_request *r, const char *part)
{
    return part != NULL && strstr(r->target, part) != NULL;
}

static void go_on_watch(struct api_request *r)
{
    const struct storing_api *s = store_of(r);
    struct buf text = BUF_INIT(SIZE_MAX / 2);
    if (!s->silent && !has_part(r, s->paused) && r->x != NULL) {
        put_changes(s, r->data, UINT32_MAX, &text);
        if (text.len > 0) {
            api_send_bytes(r, buf_slice(&text));
        }
    }
    buf_reset(&text);
}

static bool is_open_watch(const struct api_request *r)
{
    return r->data != NULL && r->begun;
}

static void go_on_watches(struct storing_api *s)
{
    LIST_FOR_EACH_SAFE(n, after, &s->api.requests)
    {
        struct api_request *r = LIST_ITEM(n, struct api_request, link);
        if (is_open_watch(r)) {
            go_on_watch(r);
        }
    }
}

void store_changed(struct storing_api *s)
{
    if (!s->by_chance) {
        go_on_watches(s);
    }
}

void store_lose(struct storing_api *s)
{
    while (!list_empty(&s->api.requests)) {
        api_cut(LIST_ITEM(s->api.requests.next, struct api_request, link));
    }
    api_stop(&s->api);
}

void store_end_watches(struct storing_api *s)
{
    LIST_FOR_EACH_SAFE(n, after, &s->api.requests)
    {
        struct api_request *r = LIST_ITEM(n, struct api_request, link);
        if (is_open_watch(r)) {
            api_cut(r);
        }
    }
}

void store_expire_watches(struct storing_api *s, const char *part)
{
    LIST_FOR_EACH_SAFE(n, after, &s->api.requests)
    {
        struct api_request *r = LIST_ITEM(n, struct api_request, link);
        if (is_open_watch(r) && has_part(r, part)) {
            end_expired(r);
        }
    }
}

/* ---- requests about one object ---- */

static void answer_error(struct api_request *r, unsigned status)
{
    char body[256];
    const char *reason = status == 404            ? "NotFound"
                         : status == 409          ? "Conflict"
                         : status == STORE_EXISTS ? "AlreadyExists"
                         : status == 403          ? "Forbidden"
                         : status == 422          ? "Invalid"
                                                  : "InternalError";
    unsigned code = status == STORE_EXISTS ? 409 : status;
    (void)snprintf(body, sizeof body,
                   "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\","
                   "\"message\":\"the test said %u\",\"reason\":\"%s\",\"code\":%u}",
                   code, reason, code);
    api_answer(r, code, NULL, body);
}

static void answer_object(struct api_request *r, unsigned status, const cJSON *object)
{
    if (object == NULL && (status == 200 || status == 201)) {
        api_answer(r, status, NULL, "{\"kind\":\"Status\",\"status\":\"Success\"}");
    } else if (object == NULL) {
        answer_error(r, status);
    } else {
        const char *kind = store_of(r)->kind;
        char *text = cJSON_PrintUnformatted(object);
        struct buf body = BUF_INIT(SIZE_MAX / 2);
        put(&body, "{");
        if (kind != NULL) {
            assert_int_equal(buf_printf(&body, "\"kind\":\"%s\",\"apiVersion\":\"v1\",", kind), 0);
        }
        put(&body, text + 1);
        api_answer(r, status, NULL, buf_cstr(&body));
        buf_reset(&body);
        free(text);
    }
}

/* The status that the test wants; 0: what is right. */
static unsigned fails(struct storing_api *s, const struct request_info *ri, enum store_fault *fault)
{
    if (s->failing.count == 0 || ri->verb == VERB_GET ||
        (s->failing.path[0] != '\0' &&
         memmem(ri->path.ptr, ri->path.len, s->failing.path, strlen(s->failing.path)) == NULL)) {
        return 0;
    }
    s->failing.count--;
    *fault = s->failing.fault;
    return s->failing.status;
}

static enum store_patch patch_kind(const struct api_request *r)
{
    char force[PARAMETER_MAX];
    if (strcmp(r->content_type, "application/apply-patch+yaml") == 0) {
        bool forced = parameter(r, "force", force) && strcmp(force, "true") == 0;
        return forced ? STORE_APPLY_FORCE : STORE_APPLY;
    }
    return strcmp(r->content_type, "application/json-patch+json") == 0 ? STORE_JSON_PATCH
                                                                       : STORE_MERGE_PATCH;
}

/* Whether it was answered so. */
static bool refuse_invalid(struct api_request *r, const cJSON *patch)
{
    const struct storing_api *s = store_of(r);
    char body[512];
    int index = s->find_invalid == NULL ? -1 : s->find_invalid(patch);
    if (index < 0) {
        return false;
    }
    (void)snprintf(body, sizeof body,
                   "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\","
                   "\"message\":\"it is invalid: webhooks[%d].sideEffects: Unsupported value\","
                   "\"reason\":\"Invalid\",\"code\":422}",
                   index);
    api_answer(r, 422, NULL, body);
    return true;
}

static void serve_object(struct api_request *r, const struct request_info *ri)
{
    struct storing_api *s = store_of(r);
    enum store_fault fault = STORE_NONE;
    const cJSON *object = NULL;
    r->seen = true;
    s->requests++;
    if (s->before_write != NULL && ri->verb != VERB_GET) {
        s->before_write(s);
    }
    unsigned status = fails(s, ri, &fault);
    if (status == 0 && fault != STORE_CUT && fault != STORE_HANG) {
        cJSON *body = r->bytes.len == 0 ? NULL : json_parse(r->body, r->bytes.len, NULL);
        if (has_part(r, s->dropped.path)) {
            cJSON_DeleteItemFromObject(cJSON_GetObjectItem(body, "status"), s->dropped.field);
        }
        bool refused = refuse_invalid(r, body);
        status = refused ? 0 : store_act(s, ri, patch_kind(r), body, &object);
        cJSON_Delete(body);
        if (refused) {
            return;
        }
    }
    if (fault == STORE_NONE) {
        answer_object(r, status, object);
    } else if (fault != STORE_HOLD && fault != STORE_HANG) {
        api_cut(r);
    }
}

/* ---- any request ---- */

static bool is_collection(const struct request_info *ri)
{
    return ri->verb == VERB_WATCH || ri->verb == VERB_LIST;
}

/* True: it waits, or is over. */
static bool refuse_or_pause(struct api_request *r)
{
    const struct storing_api *s = store_of(r);
    bool refused = !r->begun && has_part(r, s->refused.part);
    if (refused) {
        answer_error(r, s->refused.status);
    }
    return refused || has_part(r, s->paused);
}

static void serve_collection(struct api_request *r)
{
    const struct query *q = r->data;
    if (refuse_or_pause(r)) {
        return;
    }
    if (q->ri.verb == VERB_LIST) {
        answer_list(r, false);
        return;
    }
    begin_watch(r);
    go_on_watch(r);
}

static void serve(struct scripted_api *a, struct api_request *r)
{
    struct storing_api *s = a->data;
    if (s->served != NULL && strcmp(r->target, "/api/v1") == 0) {
        s->requests++;
        api_answer(r, 200, NULL, s->served);
        return;
    }
    struct query *q = query_new(r);
    if (is_collection(&q->ri)) {
        r->data = q;
        if (!s->by_chance) {
            serve_collection(r);
        }
        return;
    }
    if (!s->held || q->ri.verb == VERB_GET) {
        serve_object(r, &q->ri);
    }
    query_free(q);
}

static struct api_request *waiting_write(const struct storing_api *s)
{
    LIST_FOR_EACH(n, &s->api.requests)
    {
        struct api_request *r = LIST_ITEM(n, struct api_request, link);
        if (r->whole && !r->seen && r->data == NULL) {
            return r;
        }
    }
    return NULL;
}

bool store_holds(const struct storing_api *s)
{
    return waiting_write(s) != NULL;
}

static void go_on_collections(struct storing_api *s)
{
    LIST_FOR_EACH_SAFE(n, after, &s->api.requests)
    {
        struct api_request *r = LIST_ITEM(n, struct api_request, link);
        if (r->data != NULL && !r->begun && !s->by_chance) {
            serve_collection(r);
        }
    }
}

void store_go_on(struct storing_api *s)
{
    struct api_request *r;
    go_on_watches(s);
    go_on_collections(s);
    while (!s->held && (r = waiting_write(s)) != NULL) {
        serve(&s->api, r);
    }
}

void store_fail(struct storing_api *s, const char *path, unsigned status, enum store_fault fault,
                unsigned count)
{
    s->failing.path = path;
    s->failing.status = status;
    s->failing.fault = fault;
    s->failing.count = count;
}

/* ---- by chance ---- */

unsigned store_chance(struct storing_api *s, unsigned n)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return (unsigned)((s->random >> 11) % n);
}

void store_compact(struct storing_api *s, unsigned kept)
{
    unsigned at = s->version > STORE_FIRST + kept ? s->version - kept : STORE_FIRST;
    s->compacted = at > s->compacted ? at : s->compacted;
    unsigned more = store_chance(s, 3) == 0 ? 0 : store_chance(s, 60);
    unsigned begin = s->compacted > STORE_FIRST + more ? s->compacted - more : STORE_FIRST;
    s->forgotten = begin > s->forgotten ? begin : s->forgotten;
}

static bool happens(struct storing_api *s, unsigned one_in)
{
    return !s->calm && store_chance(s, one_in) == 0;
}

/* Some changes, cut into two pieces somewhere, of which the second may never come. */
static void send_some(struct storing_api *s, struct api_request *r)
{
    struct query *q = r->data;
    struct buf text = BUF_INIT(SIZE_MAX / 2);
    put_changes(s, q, s->calm ? UINT32_MAX : store_chance(s, 6), &text);
    if (q->bookmarks && q->version == s->version && store_chance(s, 8) == 0) {
        unsigned version = s->cache ? cached_version(s, q, q->begun) : q->version;
        put_bookmark(s, version, false, &text);
    }
    if (text.len > 0) {
        struct slice all = buf_slice(&text);
        size_t first = store_chance(s, (unsigned)all.len);
        api_send_bytes(r, slice_of(all.ptr, first));
        if (happens(s, 100)) {
            api_cut(r);
        }
        api_send_bytes(r, slice_of(all.ptr + first, all.len - first));
    }
    buf_reset(&text);
}

static void refuse_by_chance(struct storing_api *s, struct api_request *r)
{
    api_answer(r, store_chance(s, 2) == 0 ? 429 : 500, store_chance(s, 2) == 0 ? "1" : NULL, "{}");
}

static void play_watch(struct storing_api *s, struct api_request *r)
{
    if (happens(s, 300)) {
        api_cut(r);
    } else if (r->begun && happens(s, 200)) {
        api_end(r);
    } else if (r->begun && happens(s, 600)) {
        end_expired(r);
    } else if (!r->begun && happens(s, 100)) {
        refuse_by_chance(s, r);
    } else if (!r->begun) {
        begin_watch(r);
    } else {
        send_some(s, r);
    }
}

static void play_list(struct storing_api *s, struct api_request *r)
{
    if (happens(s, 60)) {
        refuse_by_chance(s, r);
    } else if (happens(s, 100)) {
        api_cut(r);
    } else {
        answer_list(r, happens(s, 60));
    }
}

void store_play(struct storing_api *s)
{
    LIST_FOR_EACH_SAFE(n, after, &s->api.requests)
    {
        struct api_request *r = LIST_ITEM(n, struct api_request, link);
        const struct query *q = r->data;
        if (q == NULL || (!s->calm && store_chance(s, 4) != 0) || refuse_or_pause(r)) {
            continue;
        }
        if (q->ri.verb == VERB_WATCH) {
            play_watch(s, r);
        } else {
            play_list(s, r);
        }
    }
    api_forget(&s->api);
}

/* ---- time ---- */

static void set_deadline(void *data, struct net_deadline *d, uint64_t ms)
{
    struct storing_api *s = data;
    net_deadline_clear(d);
    if (ms > PAUSE_MAX_MS) { /* a limit, and no pause */
        net_deadline_set(s->api.loop, d, ms);
    } else {
        list_append(&s->pauses, &d->link);
    }
}

static uint32_t no_random(void *data)
{
    (void)data;
    return 0;
}

void store_end_pauses(struct storing_api *s)
{
    struct list due;
    list_init(&due);
    while (!list_empty(&s->pauses)) {
        struct list *first = s->pauses.next;
        list_remove(first);
        list_append(&due, first);
    }
    while (!list_empty(&due)) {
        struct net_deadline *d = LIST_ITEM(due.next, struct net_deadline, link);
        list_remove(&d->link);
        d->cb(d);
    }
}

void store_turn(struct storing_api *s, uint64_t ms)
{
    store_end_pauses(s);
    run_for(s->api.loop, ms);
}

void store_settle(struct storing_api *s)
{
    unsigned before = 0;
    for (int quiet = 0; quiet < QUIET_TURNS; quiet++) {
        quiet = before == s->api.count + s->version ? quiet : 0;
        before = s->api.count + s->version;
        store_turn(s, TURN_MS);
    }
}

void store_pass(struct storing_api *s, uint64_t ms)
{
    store_turn(s, TURN_MS / 2);
    fake_clock_pass(&s->api.clock, ms);
    store_turn(s, TURN_MS / 2);
}

/* ---- life ---- */

bool store_open(struct storing_api *s, struct net_loop *l)
{
    s->ops = (struct reflector_ops){set_deadline, no_random, s};
    s->version = STORE_FIRST;
    s->api.serve = serve;
    s->api.free_data = query_free;
    s->api.data = s;
    list_init(&s->pauses);
    list_init(&s->objects);
    return api_open(&s->api, l);
}

void store_close(struct storing_api *s)
{
    api_close(&s->api);
    store_free_objects(s);
}

int store_setup(void **state, size_t size)
{
    struct net_loop *l = NULL;
    struct storing_api *s = calloc(1, size);
    *state = s;
    return s != NULL && loop_setup((void **)&l) == 0 && store_open(s, l) ? 0 : -1;
}

int store_teardown(void **state)
{
    struct storing_api *s = *state;
    struct net_loop *l = s->api.loop;
    store_close(s);
    free(s);
    return loop_free(l);
}
