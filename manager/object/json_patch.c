/* SPDX-License-Identifier: Apache-2.0 */
#include "object/json_patch.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "json/json.h"

#define POINTER_MAX ((size_t)16 * 1024 * 1024)

/* So far behind its place an item of a list is looked for; what has moved further is written as a
 * removal and an addition. Lists may be long, and all their items others. */
enum { LOOK_AHEAD = 32 };

struct diff {
    struct edit edit;
    cJSON *patch;
    struct buf path; /* of what is being compared */
};

/* The parser bounds the depth of documents, so recursion is bounded too. */
static void diff_values(struct diff *d, const cJSON *from, const cJSON *to);

/* The member of that name, which `guess` is if both objects have the same order. */
static const cJSON *find(const cJSON *object, const cJSON *guess, const char *key)
{
    if (guess != NULL && strcmp(guess->string, key) == 0) {
        return guess;
    }
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

/* Members or items, in their order. */
static bool equal_children(const cJSON *a, const cJSON *b)
{
    const cJSON *x = a->child;
    const cJSON *y = b->child;
    while (x != NULL && y != NULL && json_patch_equal(x, y)) {
        x = x->next;
        y = y->next;
    }
    return x == NULL && y == NULL;
}

/* Of those that are in another order. Sorted first, for there may be many. */
static bool equal_sorted(const cJSON *a, const cJSON *b)
{
    size_t n = 0;
    size_t other = 0;
    if (a->child == NULL || b->child == NULL) {
        return false; /* for both are not empty */
    }
    const cJSON **x = xptr(json_sorted_members(a, &n));
    const cJSON **y = xptr(json_sorted_members(b, &other));
    bool same = n == other;
    for (size_t i = 0; i < n && same; i++) {
        same = strcmp(x[i]->string, y[i]->string) == 0 && json_patch_equal(x[i], y[i]);
    }
    free(x);
    free(y);
    return same;
}

/* Whether both have the same keys in the same order. */
static bool same_order(const cJSON *a, const cJSON *b)
{
    const cJSON *x = a->child;
    const cJSON *y = b->child;
    while (x != NULL && y != NULL && strcmp(x->string, y->string) == 0) {
        x = x->next;
        y = y->next;
    }
    return x == NULL && y == NULL;
}

static bool equal_objects(const cJSON *a, const cJSON *b)
{
    return same_order(a, b) ? equal_children(a, b) : equal_sorted(a, b);
}

static bool same_type(const cJSON *a, const cJSON *b)
{
    return (a->type & 0xff) == (b->type & 0xff);
}

bool json_patch_equal(const cJSON *a, const cJSON *b)
{
    if (!same_type(a, b)) {
        return false;
    }
    if (cJSON_IsObject(a)) {
        return equal_objects(a, b);
    }
    if (cJSON_IsArray(a)) {
        return equal_children(a, b);
    }
    if (cJSON_IsNumber(a)) {
        return !(a->valuedouble < b->valuedouble) && !(a->valuedouble > b->valuedouble);
    }
    return !cJSON_IsString(a) || strcmp(a->valuestring, b->valuestring) == 0;
}

static bool is_named(const cJSON *item)
{
    return cJSON_IsString(cJSON_GetObjectItemCaseSensitive(item, "name"));
}

/* Whether `b` is what has become of `a`; of those without names, whether they are equal. */
static bool same_item(const cJSON *a, const cJSON *b)
{
    const char *x = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(a, "name"));
    const char *y = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(b, "name"));
    if (x != NULL && y != NULL) {
        return strcmp(x, y) == 0;
    }
    return x == NULL && y == NULL && json_patch_equal(a, b);
}

static bool stands_behind(const cJSON *wanted, const cJSON *item)
{
    size_t looked = 0;
    while (item != NULL && looked < LOOK_AHEAD && !same_item(wanted, item)) {
        item = item->next;
        looked++;
    }
    return item != NULL && looked < LOOK_AHEAD;
}

void json_patch_add(struct edit *ed, cJSON *patch, const char *op, const char *path, cJSON *value)
{
    cJSON *operation = edit_append_object(ed, patch);
    edit_string(ed, operation, "op", op);
    edit_string(ed, operation, "path", path);
    if (value != NULL) {
        edit_set(ed, operation, "value", value);
    }
}

static void emit(struct diff *d, const char *op, const cJSON *value)
{
    json_patch_add(&d->edit, d->patch, op, xptr(buf_cstr(&d->path)), cJSON_Duplicate(value, true));
}

/* RFC 6901 section 3. */
static void enter_member(struct diff *d, const char *key)
{
    buf_append_char(&d->path, '/');
    for (const char *p = key; *p != '\0'; p++) {
        if (*p == '~' || *p == '/') {
            buf_append_str(&d->path, *p == '~' ? "~0" : "~1");
        } else {
            buf_append_char(&d->path, *p);
        }
    }
}

static void emit_member(struct diff *d, const char *op, const char *key, const cJSON *value)
{
    size_t before = d->path.len;
    enter_member(d, key);
    emit(d, op, value);
    buf_truncate(&d->path, before);
}

static void emit_item(struct diff *d, const char *op, size_t index, const cJSON *value)
{
    size_t before = d->path.len;
    buf_printf(&d->path, "/%zu", index);
    emit(d, op, value);
    buf_truncate(&d->path, before);
}

static void diff_member(struct diff *d, const cJSON *from, const cJSON *to)
{
    size_t before = d->path.len;
    enter_member(d, from->string);
    diff_values(d, from, to);
    buf_truncate(&d->path, before);
}

static void diff_objects(struct diff *d, const cJSON *from, const cJSON *to)
{
    const cJSON *guess = to->child;
    const cJSON *item;
    cJSON_ArrayForEach(item, from)
    {
        const cJSON *other = find(to, guess, item->string);
        if (other == NULL) {
            emit_member(d, "remove", item->string, NULL);
            continue;
        }
        diff_member(d, item, other);
        guess = other->next;
    }
    guess = from->child;
    cJSON_ArrayForEach(item, to)
    {
        const cJSON *other = find(from, guess, item->string);
        if (other == NULL) {
            emit_member(d, "add", item->string, item);
        } else {
            guess = other->next;
        }
    }
}

static void diff_item(struct diff *d, size_t index, const cJSON *from, const cJSON *to)
{
    size_t before = d->path.len;
    buf_printf(&d->path, "/%zu", index);
    diff_values(d, from, to);
    buf_truncate(&d->path, before);
}

/* The first items of what is left of both lists. What has no name and is the same is equal: there
 * is nothing to look for in it. */
static void diff_pair(struct diff *d, size_t index, const cJSON *x, const cJSON *y)
{
    if (is_named(x) || !same_item(x, y)) {
        diff_item(d, index, x, y);
    }
}

/* `at` counts in the list as it is after the operations so far. */
static void diff_arrays(struct diff *d, const cJSON *from, const cJSON *to)
{
    const cJSON *x = from->child;
    const cJSON *y = to->child;
    for (size_t at = 0; x != NULL || y != NULL;) {
        bool both = x != NULL && y != NULL;
        bool gone = y == NULL || (both && !same_item(x, y) && !stands_behind(x, y));
        bool new = x == NULL || (both && !same_item(x, y) && !stands_behind(y, x));
        if (gone && !new) {
            emit_item(d, "remove", at, NULL);
            x = x->next;
        } else if (new && !gone) {
            emit_item(d, "add", at++, y);
            y = y->next;
        } else {
            diff_pair(d, at++, x, y);
            x = x->next;
            y = y->next;
        }
    }
}

static void diff_values(struct diff *d, const cJSON *from, const cJSON *to)
{
    if (cJSON_IsObject(from) && cJSON_IsObject(to)) {
        diff_objects(d, from, to);
    } else if (cJSON_IsArray(from) && cJSON_IsArray(to)) {
        diff_arrays(d, from, to);
    } else if (!json_patch_equal(from, to)) {
        emit(d, "replace", to);
    }
}

cJSON *json_patch_diff(const cJSON *from, const cJSON *to)
{
    struct diff d = {.patch = cJSON_CreateArray(), .path = BUF_INIT(POINTER_MAX)};
    diff_values(&d, from, to);
    buf_reset(&d.path);
    return xptr(edit_result(&d.edit, d.patch));
}
