/* SPDX-License-Identifier: Apache-2.0 */
#include "storing_objects.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "patch_apply.h"
#include "json/json.h"

/* ---- trees ---- */

static cJSON *member(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static const char *meta(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(member(member(object, "metadata"), key));
    return text == NULL ? "" : text;
}

/* Takes `value`. */
static void set(cJSON *object, const char *key, cJSON *value)
{
    cJSON_DeleteItemFromObjectCaseSensitive(object, key);
    assert_true(cJSON_AddItemToObject(object, key, value));
}

const char *store_text(const cJSON *object, const char *path)
{
    static char number[32];
    char part[256];
    while (object != NULL && path[0] != '\0') {
        size_t len = strcspn(path, "/");
        (void)snprintf(part, sizeof part, "%.*s", (int)len, path);
        path += len + (path[len] == '/');
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

bool store_selects(const struct selector *selector, const cJSON *object)
{
    struct selector_label labels[64];
    size_t count = 0;
    const cJSON *label = NULL;
    if (selector == NULL) {
        return true;
    }
    cJSON_ArrayForEach(label, member(member(object, "metadata"), "labels"))
    {
        assert_true(count < ARRAY_LEN(labels));
        labels[count++] = (struct selector_label){slice_str(label->string),
                                                  slice_str(cJSON_GetStringValue(label))};
    }
    return selector_matches(selector, labels, count);
}

/* ---- objects and their versions ---- */

static const struct stored_version *newest(const struct stored_object *o)
{
    return o->count > 0 ? &o->history[o->count - 1] : NULL;
}

/* NULL: it is not there. */
static const cJSON *state_of(const struct stored_object *o)
{
    return o == NULL || o->count == 0 ? NULL : newest(o)->json;
}

const struct stored_version *stored_at(const struct stored_object *o, unsigned version)
{
    size_t n = o->count;
    while (n > 0 && o->history[n - 1].version > version) {
        n--;
    }
    return n > 0 && o->history[n - 1].json != NULL ? &o->history[n - 1] : NULL;
}

static struct stored_object *find(const struct storing_api *s, const char *resource, const char *ns,
                                  const char *name)
{
    LIST_FOR_EACH(n, &s->objects)
    {
        struct stored_object *o = LIST_ITEM(n, struct stored_object, link);
        if (strcmp(o->name, name) == 0 && strcmp(o->ns, ns) == 0 &&
            strcmp(o->resource, resource) == 0) {
            return o;
        }
    }
    return NULL;
}

static struct stored_object *find_or_make(struct storing_api *s, const char *resource,
                                          const char *ns, const char *name)
{
    struct stored_object *o = find(s, resource, ns, name);
    if (o == NULL) {
        o = calloc(1, sizeof *o);
        assert_non_null(o);
        o->resource = strdup(resource);
        o->ns = strdup(ns);
        o->name = strdup(name);
        list_append(&s->objects, &o->link);
    }
    return o;
}

/* Takes `json`; NULL: the object is deleted. */
static void add_version(struct storing_api *s, struct stored_object *o, cJSON *json)
{
    size_t changes = s->version - STORE_FIRST;
    struct stored_version v = {.version = ++s->version, .json = json};
    if (json != NULL) {
        char version[16];
        (void)snprintf(version, sizeof version, "%u", v.version);
        set(member(json, "metadata"), "resourceVersion", cJSON_CreateString(version));
        v.text = cJSON_PrintUnformatted(json);
    }
    o->history = realloc(o->history, (o->count + 1) * sizeof v);
    s->log = realloc(s->log, (changes + 1) * sizeof s->log[0]);
    assert_non_null(o->history);
    assert_non_null(s->log);
    o->history[o->count++] = v;
    s->log[changes] = o;
    store_changed(s);
}

/* What neither has is no edit. */
static bool is_edited(const cJSON *old, const cJSON *json, const char *key)
{
    const cJSON *before = member(old, key);
    const cJSON *now = member(json, key);
    return before == NULL ? now != NULL : !cJSON_Compare(before, now, true);
}

/* What the API server itself writes into metadata. */
static void set_metadata(const struct storing_api *s, const struct stored_object *o, cJSON *json)
{
    static const char *const kept[] = {"uid", "generation", "namespace"};
    const cJSON *old = state_of(o);
    cJSON *m = member(json, "metadata");
    for (size_t i = 0; old != NULL && i < ARRAY_LEN(kept); i++) {
        set(m, kept[i], cJSON_Duplicate(member(member(old, "metadata"), kept[i]), true));
    }
    if (old == NULL) {
        char uid[32];
        (void)snprintf(uid, sizeof uid, "uid-%u", s->version + 1);
        set(m, "uid", cJSON_CreateString(uid));
        set(m, "generation", cJSON_CreateNumber(1));
        set(m, "namespace", cJSON_CreateString(o->ns));
    } else if (is_edited(old, json, "spec") || is_edited(old, json, "webhooks")) {
        set(m, "generation", cJSON_CreateNumber(member(m, "generation")->valuedouble + 1));
    }
}

void store_put(struct storing_api *s, const char *resource, const char *ns, cJSON *object)
{
    assert_non_null(object);
    struct stored_object *o = find_or_make(s, resource, ns, meta(object, "name"));
    const cJSON *status = member(state_of(o), "status");
    if (member(object, "status") == NULL && status != NULL) {
        set(object, "status", cJSON_Duplicate(status, true));
    }
    set_metadata(s, o, object);
    add_version(s, o, object);
}

void store_put_text(struct storing_api *s, const char *resource, const char *ns, const char *fmt,
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

void store_delete(struct storing_api *s, const char *resource, const char *ns, const char *name)
{
    struct stored_object *o = find(s, resource, ns, name);
    assert_non_null(state_of(o));
    add_version(s, o, NULL);
    cJSON_Delete(o->applied);
    o->applied = NULL;
}

const cJSON *store_get(const struct storing_api *s, const char *resource, const char *ns,
                       const char *name)
{
    return state_of(find(s, resource, ns, name));
}

const cJSON *store_next(const struct storing_api *s, const char *resource, const cJSON *object)
{
    bool found = object == NULL;
    LIST_FOR_EACH(n, &s->objects)
    {
        const struct stored_object *o = LIST_ITEM(n, struct stored_object, link);
        const cJSON *json = state_of(o);
        if (found && json != NULL && strcmp(o->resource, resource) == 0) {
            return json;
        }
        found = found || json == object;
    }
    return NULL;
}

void store_free_objects(struct storing_api *s)
{
    LIST_FOR_EACH_SAFE(n, after, &s->objects)
    {
        struct stored_object *o = LIST_ITEM(n, struct stored_object, link);
        for (size_t i = 0; i < o->count; i++) {
            cJSON_Delete(o->history[i].json);
            free(o->history[i].text);
        }
        free(o->history);
        cJSON_Delete(o->applied);
        free(o->resource);
        free(o->ns);
        free(o->name);
        free(o);
    }
    free(s->log);
}

/* ---- writes of clients ---- */

static unsigned do_create(struct storing_api *s, const char *resource, const char *ns,
                          const cJSON *body, const cJSON **out)
{
    if (body == NULL) {
        return 400;
    }
    if (store_get(s, resource, ns, meta(body, "name")) != NULL) {
        return STORE_EXISTS;
    }
    struct stored_object *o = find_or_make(s, resource, ns, meta(body, "name"));
    cJSON *json = cJSON_Duplicate(body, true);
    set_metadata(s, o, json);
    add_version(s, o, json);
    s->writes++;
    *out = state_of(o);
    return 201;
}

static bool is_other(const cJSON *wanted, const char *found)
{
    const char *text = cJSON_GetStringValue(wanted);
    return text != NULL && strcmp(text, found) != 0;
}

/* Whether `conditions`, when it has them, name another object or another state of it. */
static bool is_another(const cJSON *conditions, const cJSON *object)
{
    return is_other(member(conditions, "uid"), meta(object, "uid")) ||
           is_other(member(conditions, "resourceVersion"), meta(object, "resourceVersion"));
}

/* Of a field of metadata, spec or status. */
static bool passes(const cJSON *old, const cJSON *test)
{
    char part[64];
    char key[64];
    assert_int_equal(sscanf(store_text(test, "path"), "/%63[a-z]/%63[a-zA-Z]", part, key), 2);
    return cJSON_Compare(member(member(old, part), key), member(test, "value"), true);
}

/* NULL: a test at the beginning of the patch fails. */
static cJSON *apply_json_patch(const cJSON *old, cJSON *patch)
{
    while (strcmp(store_text(patch, "0/op"), "test") == 0) {
        if (!passes(old, cJSON_GetArrayItem(patch, 0))) {
            return NULL;
        }
        cJSON_DeleteItemFromArray(patch, 0);
    }
    cJSON *json = patch_apply(old, patch);
    assert_non_null(json);
    return json;
}

static cJSON *apply_merge_patch(const cJSON *old, const char *subresource, const cJSON *patch)
{
    if (is_another(member(patch, "metadata"), old)) {
        return NULL;
    }
    cJSON *json = cJSON_Duplicate(old, true);
    if (strcmp(subresource, "status") == 0) {
        cJSON *status = cJSON_CreateObject();
        set(status, "status", cJSON_Duplicate(member(patch, "status"), true));
        merge(json, status);
        cJSON_Delete(status);
    } else {
        merge(json, patch);
    }
    return json;
}

static unsigned do_patch(struct storing_api *s, struct stored_object *o, const char *subresource,
                         enum store_patch kind, cJSON *patch, const cJSON **out)
{
    const cJSON *old = state_of(o);
    bool json_patch = kind == STORE_JSON_PATCH;
    cJSON *json =
        json_patch ? apply_json_patch(old, patch) : apply_merge_patch(old, subresource, patch);
    if (json == NULL) {
        return json_patch ? 422 : 409;
    }
    if (cJSON_Compare(old, json, true)) {
        cJSON_Delete(json);
    } else {
        set_metadata(s, o, json);
        add_version(s, o, json);
        s->writes++;
    }
    *out = state_of(o);
    return 200;
}

/* What was applied before and is not any more goes. */
static void take_back(cJSON *from, const cJSON *before, const cJSON *now)
{
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, before)
    {
        const cJSON *kept = member(now, item->string);
        if (kept == NULL) {
            cJSON_DeleteItemFromObjectCaseSensitive(from, item->string);
        } else if (cJSON_IsObject(item) && cJSON_IsObject(kept)) {
            take_back(member(from, item->string), item, kept);
        }
    }
}

/* Without force what others wrote otherwise is a conflict. Arrays are taken whole. */
static unsigned do_apply(struct storing_api *s, const char *resource, const char *ns, cJSON *body,
                         bool force, const cJSON **out)
{
    cJSON *json = NULL;
    struct stored_object *o = find_or_make(s, resource, ns, meta(body, "name"));
    const cJSON *old = state_of(o);
    bool versioned = meta(body, "resourceVersion")[0] != '\0';
    if (s->admit != NULL && !s->admit(s, body)) {
        return 403;
    }
    if (old == NULL ? versioned : is_another(member(body, "metadata"), old)) {
        return 409;
    }
    if (old != NULL && !force && !cJSON_Compare(member(old, "spec"), member(body, "spec"), true)) {
        return 409;
    }
    cJSON_DeleteItemFromObjectCaseSensitive(member(body, "metadata"), "uid");
    cJSON_DeleteItemFromObjectCaseSensitive(member(body, "metadata"), "resourceVersion");
    json = cJSON_Duplicate(old != NULL ? old : body, true);
    if (old != NULL) {
        take_back(json, o->applied, body);
        merge(json, body);
    }
    cJSON_Delete(o->applied);
    o->applied = cJSON_Duplicate(body, true);
    if (old != NULL && cJSON_Compare(old, json, true)) {
        cJSON_Delete(json);
    } else {
        set_metadata(s, o, json);
        add_version(s, o, json);
        s->writes++;
    }
    *out = state_of(o);
    return old == NULL ? 201 : 200;
}

/* ---- Services: a list of ports by their numbers ---- */

static cJSON *port_of(const cJSON *service, const cJSON *like)
{
    cJSON *port = NULL;
    cJSON_ArrayForEach(port, member(member(service, "spec"), "ports"))
    {
        if (cJSON_Compare(member(port, "port"), member(like, "port"), true)) {
            return port;
        }
    }
    return NULL;
}

static cJSON *ports_of(cJSON *service)
{
    return member(member(service, "spec"), "ports");
}

/* Ports that were applied before and are not any more go; what others have there stays. 409: one
 * of them is another than theirs. */
static unsigned apply_ports(cJSON *service, const cJSON *before, const cJSON *now)
{
    cJSON *port = NULL;
    cJSON_ArrayForEach(port, member(member(before, "spec"), "ports"))
    {
        cJSON *there = port_of(service, port);
        if (there != NULL && port_of(now, port) == NULL) {
            cJSON_Delete(cJSON_DetachItemViaPointer(ports_of(service), there));
        }
    }
    cJSON_ArrayForEach(port, member(member(now, "spec"), "ports"))
    {
        const cJSON *there = port_of(service, port);
        if (there != NULL && !cJSON_Compare(there, port, true)) {
            return 409;
        }
        if (there == NULL) {
            cJSON_AddItemToArray(ports_of(service), cJSON_Duplicate(port, true));
        }
    }
    return 200;
}

static unsigned do_apply_service(struct storing_api *s, struct stored_object *o, const cJSON *body,
                                 const cJSON **out)
{
    const cJSON *old = state_of(o);
    if (old == NULL || is_another(member(body, "metadata"), old)) {
        return 409;
    }
    cJSON *json = cJSON_Duplicate(old, true);
    unsigned status = apply_ports(json, o->applied, body);
    if (status != 200 || cJSON_Compare(old, json, true)) {
        cJSON_Delete(json);
    } else {
        set_metadata(s, o, json);
        add_version(s, o, json);
        s->writes++;
    }
    if (status == 200) {
        cJSON_Delete(o->applied);
        o->applied = cJSON_Duplicate(body, true);
    }
    *out = state_of(o);
    return status;
}

static unsigned do_delete(struct storing_api *s, struct stored_object *o, const cJSON *options)
{
    if (is_another(member(options, "preconditions"), state_of(o))) {
        return 409;
    }
    add_version(s, o, NULL);
    cJSON_Delete(o->applied);
    o->applied = NULL;
    s->writes++;
    return 200;
}

static char *text_copy(struct slice s)
{
    char *text = strndup(s.len > 0 ? s.ptr : "", s.len);
    assert_non_null(text);
    return text;
}

/* The pod is gone at once. */
static unsigned do_evict(struct storing_api *s, struct stored_object *o, const cJSON *eviction)
{
    unsigned status = do_delete(s, o, member(eviction, "deleteOptions"));
    return status == 200 ? 201 : status;
}

unsigned store_act(struct storing_api *s, const struct request_info *ri, enum store_patch kind,
                   cJSON *body, const cJSON **out)
{
    bool applies = kind == STORE_APPLY || kind == STORE_APPLY_FORCE;
    char *resource = text_copy(ri->resource);
    char *ns = text_copy(ri->namespace);
    char *name = text_copy(ri->name);
    char *subresource = text_copy(ri->subresource);
    struct stored_object *o = find(s, resource, ns, name);
    unsigned status = 405;
    if (ri->verb == VERB_CREATE && subresource[0] == '\0') {
        status = do_create(s, resource, ns, body, out);
    } else if (ri->verb == VERB_PATCH && applies && strcmp(resource, "services") == 0) {
        status = o == NULL ? 409 : do_apply_service(s, o, body, out);
    } else if (ri->verb == VERB_PATCH && applies) {
        status = do_apply(s, resource, ns, body, kind == STORE_APPLY_FORCE, out);
    } else if (state_of(o) == NULL) {
        status = 404;
    } else if (ri->verb == VERB_CREATE && strcmp(subresource, "eviction") == 0) {
        status = do_evict(s, o, body);
    } else if (ri->verb == VERB_GET) {
        *out = state_of(o);
        status = 200;
    } else if (ri->verb == VERB_PATCH) {
        status = do_patch(s, o, subresource, kind, body, out);
    } else if (ri->verb == VERB_DELETE) {
        status = do_delete(s, o, body);
    }
    s->conflicts += status == 409 || status == 422 || status == STORE_EXISTS ? 1 : 0;
    free(resource);
    free(ns);
    free(name);
    free(subresource);
    return status;
}
