/* SPDX-License-Identifier: Apache-2.0 */
#include "object_store.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "patch_apply.h"

struct stored {
    struct list link;
    char *path;
    cJSON *object;
};

enum { ANSWER_MAX = 1024 * 1024, PAUSE_MAX_MS = 30000, TURN_MS = 6, QUIET_TURNS = 4 };

static const char *text_at(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return text == NULL ? "" : text;
}

static const cJSON *metadata_of(const cJSON *object)
{
    return cJSON_GetObjectItemCaseSensitive(object, "metadata");
}

static const char *name_of(const cJSON *object)
{
    return text_at(metadata_of(object), "name");
}

static struct stored *find(const struct object_store *s, const char *path, const char *name)
{
    LIST_FOR_EACH(n, &s->objects)
    {
        struct stored *o = LIST_ITEM(n, struct stored, link);
        if (strcmp(o->path, path) == 0 && strcmp(name_of(o->object), name) == 0) {
            return o;
        }
    }
    return NULL;
}

const cJSON *store_get(const struct object_store *s, const char *path, const char *name)
{
    const struct stored *o = find(s, path, name);
    return o == NULL ? NULL : o->object;
}

/* ---- events ---- */

static void stamp(struct object_store *s, cJSON *object)
{
    char version[16];
    (void)snprintf(version, sizeof version, "%u", s->version + 1);
    cJSON *metadata = cJSON_GetObjectItemCaseSensitive(object, "metadata");
    cJSON_DeleteItemFromObjectCaseSensitive(metadata, "resourceVersion");
    cJSON_AddStringToObject(metadata, "resourceVersion", version);
}

static void record(struct object_store *s, const char *type, const char *path, const cJSON *object)
{
    if (s->version == STORE_EVENTS_MAX) {
        fail_msg("the store has seen too many changes");
    }
    char *text = cJSON_PrintUnformatted(object);
    char *line = NULL;
    if (asprintf(&line, "{\"type\":\"%s\",\"object\":%s}\n", type, text) < 0) {
        abort();
    }
    free(text);
    s->events[s->version].line = line;
    s->events[s->version].path = strdup(path);
    s->events[s->version].name = strdup(name_of(object));
    s->version++;
}

/* ---- requests ---- */

/* The target without its query, and what follows `key=` in that. */
static void split(const struct api_request *q, char path[256], const char *key, char value[256])
{
    const char *mark = strchr(q->target, '?');
    size_t len = mark == NULL ? strlen(q->target) : (size_t)(mark - q->target);
    (void)snprintf(path, 256, "%.*s", (int)len, q->target);
    const char *at = mark == NULL ? NULL : strstr(mark, key);
    value[0] = '\0';
    if (at != NULL) {
        at += strlen(key);
        (void)snprintf(value, 256, "%.*s", (int)strcspn(at, "&"), at);
    }
}

static void name_filter(const struct api_request *q, char path[256], char name[256])
{
    split(q, path, "metadata.name%3D", name);
}

static void answer_list(struct object_store *s, struct api_request *q)
{
    char path[256];
    char name[256];
    struct buf body = BUF_INIT(ANSWER_MAX);
    const char *comma = "";
    name_filter(q, path, name);
    assert_int_equal(
        buf_printf(&body, "{\"metadata\":{\"resourceVersion\":\"%u\"},\"items\":[", s->version), 0);
    LIST_FOR_EACH(n, &s->objects)
    {
        struct stored *o = LIST_ITEM(n, struct stored, link);
        if (strcmp(o->path, path) == 0 &&
            (name[0] == '\0' || strcmp(name, name_of(o->object)) == 0)) {
            char *text = cJSON_PrintUnformatted(o->object);
            assert_int_equal(buf_printf(&body, "%s%s", comma, text), 0);
            free(text);
            comma = ",";
        }
    }
    assert_int_equal(buf_append_str(&body, "]}"), 0);
    api_answer(q, 200, NULL, buf_cstr(&body));
    buf_reset(&body);
}

/* Leaves the request alone for as long as there is nothing to tell. */
static void answer_watch(struct object_store *s, struct api_request *q)
{
    char path[256];
    char name[256];
    char since[256];
    struct buf body = BUF_INIT(ANSWER_MAX);
    name_filter(q, path, name);
    split(q, path, "resourceVersion=", since);
    for (unsigned i = (unsigned)atoi(since); i < s->version && !s->silent; i++) {
        if (strcmp(s->events[i].path, path) == 0 &&
            (name[0] == '\0' || strcmp(name, s->events[i].name) == 0)) {
            assert_int_equal(buf_append_str(&body, s->events[i].line), 0);
        }
    }
    if (body.len > 0) {
        api_answer(q, 200, NULL, buf_cstr(&body));
    }
    buf_reset(&body);
}

static void answer_status(struct api_request *q, unsigned code, const char *reason)
{
    char body[256];
    (void)snprintf(body, sizeof body,
                   "{\"kind\":\"Status\",\"status\":\"Failure\",\"code\":%u,\"reason\":\"%s\","
                   "\"message\":\"as the test wants it\"}",
                   code, reason);
    api_answer(q, code, NULL, body);
}

static void answer_object(struct api_request *q, unsigned code, const cJSON *object)
{
    char *text = cJSON_PrintUnformatted(object);
    api_answer(q, code, NULL, text);
    free(text);
}

static void create(struct object_store *s, struct api_request *q, const char *path, cJSON *object)
{
    if (find(s, path, name_of(object)) != NULL) {
        s->conflicts++;
        answer_status(q, 409, "AlreadyExists");
        cJSON_Delete(object);
        return;
    }
    s->writes++;
    stamp(s, object);
    answer_object(q, 201, object);
    store_put(s, path, object);
}

/* RFC 7386 */
static void merge(cJSON *target, const cJSON *patch)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, patch)
    {
        cJSON *old = cJSON_GetObjectItemCaseSensitive(target, item->string);
        if (cJSON_IsObject(item) && cJSON_IsObject(old)) {
            merge(old, item);
            continue;
        }
        cJSON_DeleteItemFromObjectCaseSensitive(target, item->string);
        if (!cJSON_IsNull(item)) {
            cJSON_AddItemToObject(target, item->string, cJSON_Duplicate(item, true));
        }
    }
}

/* The version that a patch is based on; "": any. */
static const char *precondition(const cJSON *patch)
{
    const cJSON *op;
    if (cJSON_IsObject(patch)) {
        return text_at(metadata_of(patch), "resourceVersion");
    }
    cJSON_ArrayForEach(op, patch)
    {
        if (strcmp(text_at(op, "op"), "test") == 0) {
            assert_string_equal(text_at(op, "path"), "/metadata/resourceVersion");
            return text_at(op, "value");
        }
    }
    return "";
}

static cJSON *patched(const cJSON *object, cJSON *patch)
{
    if (cJSON_IsObject(patch)) {
        cJSON *out = cJSON_Duplicate(object, true);
        merge(out, patch);
        return out;
    }
    if (strcmp(text_at(patch->child, "op"), "test") == 0) {
        cJSON_DeleteItemFromArray(patch, 0);
    }
    cJSON *out = patch_apply(object, patch);
    assert_non_null(out);
    return out;
}

static void change(struct object_store *s, struct api_request *q, char *path, cJSON *patch)
{
    char *slash = strrchr(path, '/');
    *slash = '\0';
    struct stored *o = find(s, path, slash + 1);
    const char *version = precondition(patch);
    if (o == NULL) {
        answer_status(q, 404, "NotFound");
    } else if (version[0] != '\0' &&
               strcmp(version, text_at(metadata_of(o->object), "resourceVersion")) != 0) {
        s->conflicts++;
        answer_status(q, cJSON_IsArray(patch) ? 422 : 409,
                      cJSON_IsArray(patch) ? "Invalid" : "Conflict");
    } else {
        cJSON *now = patched(o->object, patch);
        s->writes++;
        stamp(s, now);
        answer_object(q, 200, now);
        store_put(s, path, now);
    }
    cJSON_Delete(patch);
}

static void write_object(struct object_store *s, struct api_request *q)
{
    char path[256];
    char ignored[256];
    split(q, path, "?", ignored);
    if (s->before_write != NULL) {
        s->before_write(s);
    }
    if (s->refusing != 0) {
        answer_status(q, s->refusing, "InternalError");
        return;
    }
    cJSON *body = cJSON_Parse(q->body);
    assert_non_null(body);
    if (strcmp(q->method, "POST") == 0) {
        create(s, q, path, body);
    } else {
        assert_string_equal(q->method, "PATCH");
        change(s, q, path, body);
    }
}

static void serve_one(struct object_store *s, struct api_request *q)
{
    if (strcmp(q->method, "GET") != 0) {
        if (!s->held) {
            write_object(s, q);
        }
    } else if (strstr(q->target, "watch=") != NULL) {
        answer_watch(s, q);
    } else {
        answer_list(s, q);
    }
}

static void serve(struct scripted_api *a, struct api_request *q)
{
    struct object_store *s = a->data;
    if (s->serving != NULL) {
        s->serving(true);
    }
    serve_one(s, q);
    if (s->serving != NULL) {
        s->serving(false);
    }
}

static void answer_watches(struct object_store *s)
{
    for (struct list *n = s->api.requests.next, *next; n != &s->api.requests; n = next) {
        struct api_request *q = LIST_ITEM(n, struct api_request, link);
        next = n->next;
        if (q->whole && strstr(q->target, "watch=") != NULL) {
            answer_watch(s, q);
        }
    }
}

static struct api_request *waiting_write(const struct object_store *s)
{
    LIST_FOR_EACH(n, &s->api.requests)
    {
        struct api_request *q = LIST_ITEM(n, struct api_request, link);
        if (q->whole && strcmp(q->method, "GET") != 0) {
            return q;
        }
    }
    return NULL;
}

void store_go_on(struct object_store *s)
{
    answer_watches(s);
    struct api_request *q;
    while (!s->held && (q = waiting_write(s)) != NULL) {
        write_object(s, q);
    }
}

void store_put(struct object_store *s, const char *path, cJSON *object)
{
    struct stored *o = find(s, path, name_of(object));
    stamp(s, object);
    record(s, o == NULL ? "ADDED" : "MODIFIED", path, object);
    if (o == NULL) {
        o = calloc(1, sizeof *o);
        assert_non_null(o);
        o->path = strdup(path);
        list_append(&s->objects, &o->link);
    }
    cJSON_Delete(o->object);
    o->object = object;
    answer_watches(s);
}

static void drop(struct stored *o)
{
    list_remove(&o->link);
    cJSON_Delete(o->object);
    free(o->path);
    free(o);
}

void store_delete(struct object_store *s, const char *path, const char *name)
{
    struct stored *o = find(s, path, name);
    assert_non_null(o);
    stamp(s, o->object);
    record(s, "DELETED", path, o->object);
    drop(o);
    answer_watches(s);
}

/* ---- time ---- */

static void set_deadline(void *data, struct net_deadline *d, uint64_t ms)
{
    struct object_store *s = data;
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

void store_turn(struct object_store *s, uint64_t ms)
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
    run_for(s->api.loop, ms);
}

void store_settle(struct object_store *s)
{
    unsigned before = 0;
    for (int quiet = 0; quiet < QUIET_TURNS; quiet++) {
        quiet = before == s->api.count + s->version ? quiet : 0;
        before = s->api.count + s->version;
        store_turn(s, TURN_MS);
    }
}

void store_pass(struct object_store *s, uint64_t ms)
{
    store_turn(s, TURN_MS / 2);
    fake_clock_pass(&s->api.clock, ms);
    store_turn(s, TURN_MS / 2);
}

bool store_open(struct object_store *s, struct net_loop *l)
{
    memset(s, 0, sizeof *s);
    s->ops = (struct reflector_ops){set_deadline, no_random, s};
    list_init(&s->pauses);
    list_init(&s->objects);
    s->api.serve = serve;
    s->api.data = s;
    return api_open(&s->api, l);
}

void store_close(struct object_store *s)
{
    api_close(&s->api);
    while (!list_empty(&s->objects)) {
        drop(LIST_ITEM(s->objects.next, struct stored, link));
    }
    for (unsigned i = 0; i < s->version; i++) {
        free(s->events[i].line);
        free(s->events[i].path);
        free(s->events[i].name);
    }
}
