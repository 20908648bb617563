/* SPDX-License-Identifier: Apache-2.0 */
#include "object/json_patch.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"

#define POINTER_MAX ((size_t)16 * 1024 * 1024)

struct diff {
    cJSON *patch;
    struct buf path; /* of what is being compared */
};

/* The parser bounds the depth of documents, so recursion is bounded too. */
static int diff_values(struct diff *d, const cJSON *from, const cJSON *to);

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

int json_patch_add(cJSON *patch, const char *op, const char *path, cJSON *value)
{
    cJSON *operation = cJSON_CreateObject();
    bool made = (value != NULL || strcmp(op, "remove") == 0) &&
                cJSON_AddStringToObject(operation, "op", op) != NULL &&
                cJSON_AddStringToObject(operation, "path", path) != NULL;
    if (made && value != NULL) {
        made = cJSON_AddItemToObject(operation, "value", value);
        value = made ? NULL : value;
    }
    if (made && cJSON_AddItemToArray(patch, operation)) {
        return 0;
    }
    cJSON_Delete(value);
    cJSON_Delete(operation);
    return -ENOMEM;
}

static int emit(struct diff *d, const char *op, const cJSON *value)
{
    const char *path = buf_cstr(&d->path);
    cJSON *copy = value == NULL ? NULL : cJSON_Duplicate(value, true);
    if (path == NULL) {
        cJSON_Delete(copy);
        return -ENOMEM;
    }
    return json_patch_add(d->patch, op, path, copy);
}

/* RFC 6901 section 3. */
static int enter_member(struct diff *d, const char *key)
{
    int rc = buf_append_char(&d->path, '/');
    for (const char *p = key; *p != '\0' && rc == 0; p++) {
        if (*p == '~' || *p == '/') {
            rc = buf_append_str(&d->path, *p == '~' ? "~0" : "~1");
        } else {
            rc = buf_append_char(&d->path, *p);
        }
    }
    return rc;
}

static int emit_member(struct diff *d, const char *op, const char *key, const cJSON *value)
{
    size_t before = d->path.len;
    int rc = enter_member(d, key);
    rc = rc != 0 ? rc : emit(d, op, value);
    d->path.len = before;
    return rc;
}

static int emit_item(struct diff *d, const char *op, size_t index, const cJSON *value)
{
    size_t before = d->path.len;
    int rc = buf_printf(&d->path, "/%zu", index);
    rc = rc != 0 ? rc : emit(d, op, value);
    d->path.len = before;
    return rc;
}

static int diff_member(struct diff *d, const cJSON *from, const cJSON *to)
{
    size_t before = d->path.len;
    int rc = enter_member(d, from->string);
    rc = rc != 0 ? rc : diff_values(d, from, to);
    d->path.len = before;
    return rc;
}

static int diff_objects(struct diff *d, const cJSON *from, const cJSON *to)
{
    int rc = 0;
    const cJSON *guess = to->child;
    const cJSON *item;
    cJSON_ArrayForEach(item, from)
    {
        const cJSON *other = find(to, guess, item->string);
        if (other == NULL) {
            rc = rc != 0 ? rc : emit_member(d, "remove", item->string, NULL);
            continue;
        }
        rc = rc != 0 ? rc : diff_member(d, item, other);
        guess = other->next;
    }
    guess = from->child;
    cJSON_ArrayForEach(item, to)
    {
        const cJSON *other = find(from, guess, item->string);
        if (other == NULL) {
            rc = rc != 0 ? rc : emit_member(d, "add", item->string, item);
        } else {
            guess = other->next;
        }
    }
    return rc;
}

static int diff_item(struct diff *d, size_t index, const cJSON *from, const cJSON *to)
{
    size_t before = d->path.len;
    int rc = buf_printf(&d->path, "/%zu", index);
    rc = rc != 0 ? rc : diff_values(d, from, to);
    d->path.len = before;
    return rc;
}

/* `at` counts in the list as it is after the operations so far. */
static int diff_arrays(struct diff *d, const cJSON *from, const cJSON *to)
{
    const cJSON *x = from->child;
    const cJSON *y = to->child;
    int rc = 0;
    for (size_t at = 0; rc == 0 && (x != NULL || y != NULL);) {
        bool both = x != NULL && y != NULL;
        bool gone = y == NULL || (both && !same_item(x, y) && !stands_behind(x, y));
        bool new = x == NULL || (both && !same_item(x, y) && !stands_behind(y, x));
        if (gone && !new) {
            rc = emit_item(d, "remove", at, NULL);
            x = x->next;
        } else if (new && !gone) {
            rc = emit_item(d, "add", at++, y);
            y = y->next;
        } else {
            rc = diff_item(d, at++, x, y);
            x = x->next;
            y = y->next;
        }
    }
    return rc;
}

static int diff_values(struct diff *d, const cJSON *from, const cJSON *to)
{
    if (cJSON_IsObject(from) && cJSON_IsObject(to)) {
        return diff_objects(d, from, to);
    }
    if (cJSON_IsArray(from) && cJSON_IsArray(to)) {
        return diff_arrays(d, from, to);
    }
    return json_patch_equal(from, to) ? 0 : emit(d, "replace", to);
}

cJSON *json_patch_diff(const cJSON *from, const cJSON *to)
{
    struct diff d = {.patch = cJSON_CreateArray(), .path = BUF_INIT(POINTER_MAX)};
    int rc = d.patch == NULL ? -ENOMEM : diff_values(&d, from, to);
    buf_reset(&d.path);
    if (rc != 0) {
        cJSON_Delete(d.patch);
        d.patch = NULL;
    }
    return d.patch;
}
