/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/slice.h"
#include "base/utf8.h"

static void position(const char *text, const char *at, unsigned *line, unsigned *column)
{
    *line = 1;
    *column = 1;
    for (const char *p = text; p < at; p++) {
        if (*p == '\n') {
            (*line)++;
            *column = 1;
        } else {
            (*column)++;
        }
    }
}

static int compare_keys(const void *a, const void *b)
{
    const cJSON *const *x = a;
    const cJSON *const *y = b;
    return strcmp((*x)->string, (*y)->string);
}

/* The members of an object in key order; the caller frees. NULL without memory or when empty. */
static const cJSON **sorted_members(const cJSON *object, size_t *count)
{
    size_t n = 0;
    const cJSON *child;
    cJSON_ArrayForEach(child, object)
    {
        n++;
    }
    *count = n;
    if (n == 0) {
        return NULL;
    }
    const cJSON **members = malloc(n * sizeof *members);
    if (members == NULL) {
        return NULL;
    }
    n = 0;
    cJSON_ArrayForEach(child, object)
    {
        members[n++] = child;
    }
    qsort(members, n, sizeof(const cJSON *), compare_keys);
    return members;
}

/* cJSON bounds the depth of what it parses (CJSON_NESTING_LIMIT), so recursion is bounded too. */
static int refuse_duplicates(const cJSON *item, struct err *e)
{
    if (cJSON_IsObject(item)) {
        size_t n = 0;
        const cJSON **members = sorted_members(item, &n);
        if (members == NULL && n > 0) {
            return err_set(e, -ENOMEM, "out of memory");
        }
        for (size_t i = 1; i < n; i++) {
            if (strcmp(members[i - 1]->string, members[i]->string) == 0) {
                int rc = err_set(e, -EINVAL, "key \"%s\" stands twice in one object",
                                 members[i]->string);
                free(members);
                return rc;
            }
        }
        free(members);
    }
    const cJSON *child;
    cJSON_ArrayForEach(child, item)
    {
        int rc = refuse_duplicates(child, e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* What cJSON would take silently. */
static int refuse_bad_bytes(const char *text, size_t len, struct err *e)
{
    const char *what = NULL;
    size_t i = 0;
    while (i < len) {
        uint32_t cp;
        size_t n = utf8_decode(slice_of(text + i, len - i), &cp);
        if (text[i] == '\0') {
            what = "a NUL byte in JSON";
        } else if (n == 1 && cp == UTF8_REPLACEMENT) {
            what = "JSON is not UTF-8";
        } else if (text[i] == '\\' && len - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0) {
            what = "a NUL in a JSON string";
        }
        if (what != NULL) {
            unsigned line;
            unsigned column;
            position(text, text + i, &line, &column);
            return err_set(e, -EINVAL, "line %u, column %u: %s", line, column, what);
        }
        /* A backslash takes the next byte with it, so that of `\\u0000` nothing is refused. */
        i += text[i] == '\\' && len - i >= 2 && (text[i + 1] == '\\' || text[i + 1] == '"') ? 2 : n;
    }
    return 0;
}

cJSON *json_parse(const char *text, size_t len, struct err *e)
{
    unsigned line;
    unsigned column;
    if (refuse_bad_bytes(text, len, e) != 0) {
        return NULL;
    }
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(text, len, &end, 0);
    if (root == NULL) {
        if (end == NULL || end < text || end > text + len) {
            end = text;
        }
        position(text, end, &line, &column);
        if ((size_t)(end - text) + 1 >= len) {
            err_set(e, -EINVAL, "line %u, column %u: JSON ends too early", line, column);
        } else {
            err_set(e, -EINVAL, "line %u, column %u: JSON syntax error", line, column);
        }
        return NULL;
    }
    while (end < text + len && strchr(" \t\r\n", *end) != NULL) {
        end++;
    }
    if (end < text + len) {
        position(text, end, &line, &column);
        err_set(e, -EINVAL, "line %u, column %u: text after the JSON document", line, column);
        cJSON_Delete(root);
        return NULL;
    }
    if (refuse_duplicates(root, e) != 0) {
        cJSON_Delete(root);
        return NULL;
    }
    return root;
}

static size_t string_end(const char *text, size_t len, size_t start)
{
    size_t i = start + 1;
    while (i < len && text[i] != '"') {
        i += text[i] == '\\' ? 2 : 1;
    }
    return i < len ? i + 1 : len;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Where the next value that begins at `from` or later begins; keys are passed over. */
static size_t next_value(const char *text, size_t len, size_t from)
{
    size_t i = from;
    while (i < len) {
        char c = text[i];
        if (c == '"') {
            size_t end = string_end(text, len, i);
            size_t colon = end;
            while (colon < len && is_space(text[colon])) {
                colon++;
            }
            if (colon == len || text[colon] != ':') {
                return i;
            }
            i = colon + 1;
        } else if (c == '{' || c == '[' || c == '-' || (c >= '0' && c <= '9') || c == 't' ||
                   c == 'f' || c == 'n') {
            return i;
        } else {
            i++;
        }
    }
    return len;
}

static size_t value_end(const char *text, size_t len, size_t start)
{
    if (text[start] == '"') {
        return string_end(text, len, start);
    }
    size_t i = start + 1;
    if (text[start] != '{' && text[start] != '[') {
        while (i < len && strchr(",]} \t\r\n", text[i]) == NULL) {
            i++;
        }
    }
    return i;
}

/* The tree in document order. */
static const cJSON *find_next(const cJSON *at, const cJSON *item, size_t *index)
{
    for (; at != NULL; at = at->next) {
        if (at == item) {
            return at;
        }
        (*index)++;
        const cJSON *found = find_next(at->child, item, index);
        if (found != NULL) {
            return found;
        }
    }
    return NULL;
}

unsigned json_line(const char *text, size_t len, const cJSON *root, const cJSON *item)
{
    size_t index = 0;
    if (find_next(root, item, &index) == NULL) {
        return 0;
    }
    size_t at = next_value(text, len, 0);
    for (; index > 0 && at < len; index--) {
        at = next_value(text, len, value_end(text, len, at));
    }
    unsigned line;
    unsigned column;
    position(text, text + at, &line, &column);
    return at < len ? line : 0;
}

int json_quote(const char *str, struct buf *out)
{
    int rc = buf_append_char(out, '"');
    for (const char *p = str; *p != '\0' && rc == 0; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\') {
            rc = buf_printf(out, "\\%c", c);
        } else if (c < 0x20) {
            rc = buf_printf(out, "\\u%04x", c);
        } else {
            rc = buf_append_char(out, (char)c);
        }
    }
    return rc != 0 ? rc : buf_append_char(out, '"');
}

static int canonical_number(double value, struct buf *out)
{
    if (!isfinite(value)) {
        return -EINVAL;
    }
    if (value == floor(value) && fabs(value) <= 9007199254740992.0) {
        return buf_printf(out, "%.0f", value == 0 ? 0.0 : value);
    }
    return buf_printf(out, "%.17g", value);
}

static int canonical_object(const cJSON *item, struct buf *out)
{
    size_t n = 0;
    const cJSON **members = sorted_members(item, &n);
    if (members == NULL && n > 0) {
        return -ENOMEM;
    }
    int rc = buf_append_char(out, '{');
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = i > 0 ? buf_append_char(out, ',') : 0;
        rc = rc != 0 ? rc : json_quote(members[i]->string, out);
        rc = rc != 0 ? rc : buf_append_char(out, ':');
        rc = rc != 0 ? rc : json_canonical(members[i], out);
    }
    free(members);
    return rc != 0 ? rc : buf_append_char(out, '}');
}

static int canonical_array(const cJSON *item, struct buf *out)
{
    int rc = buf_append_char(out, '[');
    const cJSON *child;
    cJSON_ArrayForEach(child, item)
    {
        if (rc == 0 && child != item->child) {
            rc = buf_append_char(out, ',');
        }
        rc = rc != 0 ? rc : json_canonical(child, out);
    }
    return rc != 0 ? rc : buf_append_char(out, ']');
}

int json_canonical(const cJSON *item, struct buf *out)
{
    if (cJSON_IsObject(item)) {
        return canonical_object(item, out);
    }
    if (cJSON_IsArray(item)) {
        return canonical_array(item, out);
    }
    if (cJSON_IsString(item)) {
        return json_quote(item->valuestring, out);
    }
    if (cJSON_IsNumber(item)) {
        return canonical_number(item->valuedouble, out);
    }
    if (cJSON_IsBool(item)) {
        return buf_append_str(out, cJSON_IsTrue(item) ? "true" : "false");
    }
    return buf_append_str(out, "null");
}
