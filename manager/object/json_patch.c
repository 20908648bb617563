/* SPDX-License-Identifier: Apache-2.0 */
#include "object/json_patch.h"

#include <string.h>

#include "base/buf.h"

#define POINTER_MAX ((size_t)16 * 1024 * 1024)

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

static bool equal_objects(const cJSON *a, const cJSON *b)
{
    const cJSON *guess = b->child;
    size_t unmatched = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, b)
    {
        unmatched++;
    }
    cJSON_ArrayForEach(item, a)
    {
        const cJSON *other = find(b, guess, item->string);
        if (other == NULL || !json_patch_equal(item, other)) {
            return false;
        }
        guess = other->next;
        unmatched--;
    }
    return unmatched == 0;
}

static bool equal_arrays(const cJSON *a, const cJSON *b)
{
    const cJSON *x = a->child;
    const cJSON *y = b->child;
    while (x != NULL && y != NULL && json_patch_equal(x, y)) {
        x = x->next;
        y = y->next;
    }
    return x == NULL && y == NULL;
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
        return equal_arrays(a, b);
    }
    if (cJSON_IsNumber(a)) {
        return !(a->valuedouble < b->valuedouble) && !(a->valuedouble > b->valuedouble);
    }
    return !cJSON_IsString(a) || strcmp(a->valuestring, b->valuestring) == 0;
}

/* Whether `b` is what has become of `a`. */
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
    while (item != NULL && !same_item(wanted, item)) {
        item = item->next;
    }
    return item != NULL;
}

void json_patch_add(struct edit *ed, cJSON *patch, const char *op, const char *path, cJSON *value)
{
    cJSON *operation = edit_append_object(ed, patch);
    edit_string(ed, operation, "op", op);
    edit_string(ed, operation, "path", path);
    if (value != NULL || strcmp(op, "remove") != 0) {
        edit_set(ed, operation, "value", value);
    }
}

static void emit(struct diff *d, const char *op, const cJSON *value)
{
    json_patch_add(&d->edit, d->patch, op, buf_cstr(&d->path), cJSON_Duplicate(value, true));
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
            diff_item(d, at++, x, y);
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
    if (d.patch == NULL) {
        return NULL;
    }
    diff_values(&d, from, to);
    buf_reset(&d.path);
    return edit_result(&d.edit, d.patch);
}
