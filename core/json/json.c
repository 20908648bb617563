/* SPDX-License-Identifier: Apache-2.0 */
#include "json/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/heap_size.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "json/cursor.h"
#include "json/scanner.h"

#define ESCAPED_NUL "\\u0000"

static int compare_keys(const void *a, const void *b)
{
    const cJSON *const *x = a;
    const cJSON *const *y = b;
    return strcmp((*x)->string, (*y)->string);
}

const cJSON **json_sorted_members(const cJSON *object, size_t *count)
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

int json_find_duplicate(const cJSON *object, const cJSON **one, const cJSON **other)
{
    size_t n = 0;
    size_t i = 1;
    const cJSON **members = json_sorted_members(object, &n);
    if (members == NULL && n > 0) {
        return -ENOMEM;
    }
    while (i < n && strcmp(members[i - 1]->string, members[i]->string) != 0) {
        i++;
    }
    bool found = i < n;
    if (found) {
        *one = members[i - 1];
        *other = members[i];
        const cJSON *later = *one;
        while (later != NULL && later != *other) {
            later = later->next;
        }
        if (later == NULL) {
            *one = members[i];
            *other = members[i - 1];
        }
    }
    free(members);
    return found;
}

/* Walks over the value of `node` to where that of `item` begins; false: it is not below, and the
 * walk is behind. Nothing is looked at twice: a hostile document may be large and deep. */
static bool find_text(struct json_cursor *c, const cJSON *node, const cJSON *item,
                      struct slice *key)
{
    struct slice end;
    bool keyed = cJSON_IsObject(node);
    if (node == item) {
        return true;
    }
    if (!keyed && !cJSON_IsArray(node)) {
        (void)json_skip(c);
        return false;
    }
    (void)json_enter(c, keyed ? '{' : '[');
    for (node = node->child; node != NULL; node = node->next) {
        if (!(keyed ? json_next_key(c, key) : json_next_element(c))) {
            return false;
        }
        if (find_text(c, node, item, key)) {
            return true;
        }
    }
    (void)(keyed ? json_next_key(c, &end) : json_next_element(c));
    return false;
}

/* Where the text of `item` begins, and its key, without its quotes; NULL: it is not there. */
static const char *place_of(struct slice text, const cJSON *root, const cJSON *item,
                            struct slice *key)
{
    struct slice value;
    if (root == NULL || json_scan_document(text, &value, NULL) != 0) {
        return NULL;
    }
    struct json_cursor c = json_cursor_of(value);
    if (!find_text(&c, root, item, key)) {
        return NULL;
    }
    while (c.at < c.end && ascii_is_space(*c.at)) {
        c.at++;
    }
    return c.at;
}

/* A tree and the text that it was made of. */
struct document {
    struct slice text;
    const cJSON *root;
    bool unique; /* no object may have a key twice */
    struct err *e;
};

static int fail_duplicate(const struct document *d, const cJSON *second)
{
    char problem[160];
    struct slice key;
    bool found = place_of(d->text, d->root, second, &key) != NULL;
    (void)snprintf(problem, sizeof problem, "duplicate key \"%.100s\"", second->string);
    return json_fail_at(d->text, found ? key.ptr - 1 : d->text.ptr, problem, d->e);
}

static int fail_number(const struct document *d, const cJSON *item)
{
    struct slice key;
    const char *at = place_of(d->text, d->root, item, &key);
    return json_fail_at(d->text, at != NULL ? at : d->text.ptr, "number out of range", d->e);
}

static int check_keys(const struct document *d, const cJSON *object)
{
    const cJSON *one;
    const cJSON *other;
    int rc = json_find_duplicate(object, &one, &other);
    return rc > 0 ? fail_duplicate(d, other) : rc < 0 ? err_memory(d->e) : 0;
}

/* cJSON bounds the depth of what it parses (CJSON_NESTING_LIMIT), so recursion is bounded too. */
static int check_tree(const struct document *d, const cJSON *item)
{
    if (cJSON_IsNumber(item) && !isfinite(item->valuedouble)) {
        return fail_number(d, item);
    }
    int rc = d->unique && cJSON_IsObject(item) ? check_keys(d, item) : 0;
    for (const cJSON *child = item->child; child != NULL && rc == 0; child = child->next) {
        rc = check_tree(d, child);
    }
    return rc;
}

static cJSON *parse_checked(struct slice text, bool unique, struct err *e)
{
    const char *end = NULL;
    errno = 0; /* cJSON does not tell a failed malloc from an error in the text */
    cJSON *root = cJSON_ParseWithLengthOpts(text.ptr, text.len, &end, 0);
    struct document d = {.text = text, .root = root, .unique = unique, .e = e};
    if (root == NULL && errno == ENOMEM) {
        err_memory(e);
    } else if (root == NULL) { /* nothing that is known */
        bool known = end != NULL && end >= text.ptr && end <= text.ptr + text.len;
        json_fail_at(text, known ? end : text.ptr, "JSON syntax error", e);
    } else if (check_tree(&d, root) != 0) {
        cJSON_Delete(root);
        root = NULL;
    }
    return root;
}

/* With each escaped NUL, where cJSON would end the string, made an escaped U+FFFD. The caller
 * frees. */
static char *without_escaped_nul(const char *text, size_t len)
{
    char *copy = malloc(len);
    if (copy == NULL) {
        return NULL;
    }
    memcpy(copy, text, len);
    for (size_t i = 0; i < len; i++) {
        if (copy[i] == '\\') {
            if (len - i >= 6 && memcmp(copy + i, ESCAPED_NUL, 6) == 0) {
                memcpy(copy + i, "\\ufffd", 6);
            }
            i++;
        }
    }
    return copy;
}

static cJSON *parse_document(struct slice document, bool unique, struct err *e)
{
    if (json_check(document, e) != 0) {
        return NULL;
    }
    if (memmem(document.ptr, document.len, ESCAPED_NUL, strlen(ESCAPED_NUL)) == NULL) {
        return parse_checked(document, unique, e);
    }
    char *copy = without_escaped_nul(document.ptr, document.len);
    if (copy == NULL) {
        err_memory(e);
        return NULL;
    }
    cJSON *root = parse_checked(slice_of(copy, document.len), unique, e);
    explicit_bzero(copy, document.len); /* it may be a Secret */
    free(copy);
    return root;
}

cJSON *json_parse(const char *text, size_t len, struct err *e)
{
    return parse_document(slice_of(text, len), true, e);
}

/* The brackets of a value that lies too deep, at the start of `left`, of which it is taken; the
 * first one alone if the value has no end. */
static size_t empty_value(struct slice *left, char out[2])
{
    struct json_nesting n = {0};
    const char *behind = json_nesting_end(&n, left->ptr, left->ptr + left->len);
    size_t len = behind == NULL ? 1 : (size_t)(behind - left->ptr);
    out[0] = left->ptr[0];
    out[1] = left->ptr[len - 1];
    *left = slice_of(left->ptr + len, left->len - len);
    return behind == NULL ? 1 : 2;
}

/* Writes the text without what json_parse_foreign leaves out; returns its length, which is no
 * larger. */
static size_t repair(struct slice left, char *out)
{
    size_t n = 0;
    size_t depth = 0;
    bool quoted = false;
    while (left.len > 0) {
        char c = left.ptr[0];
        uint32_t code_point;
        size_t width = quoted && c == '\\' && left.len > 1 ? 2 : utf8_decode(left, &code_point);
        bool invalid = width == 1 && (c & 0x80) != 0;
        quoted = (c == '"') != quoted;
        depth -= !quoted && depth > 0 && (c == '}' || c == ']');
        if (!quoted && (c == '{' || c == '[') && depth + 1 == JSON_SCAN_DEPTH_MAX) {
            n += empty_value(&left, out + n);
            continue;
        }
        depth += !quoted && (c == '{' || c == '[');
        memcpy(out + n, invalid ? "?" : left.ptr, width);
        n += width;
        left = slice_of(left.ptr + width, left.len - width);
    }
    return n;
}

cJSON *json_parse_foreign(const char *text, size_t len, struct err *e)
{
    struct err why = ERR_INIT;
    struct err still = ERR_INIT;
    text = len == 0 ? "" : text; /* there may be none */
    cJSON *root = json_parse(text, len, &why);
    if (root != NULL) {
        return root;
    }
    char *copy = malloc(len + 1);
    if (copy == NULL) {
        err_memory(e);
        return NULL;
    }
    size_t left = repair(slice_of(text, len), copy);
    if (left != len || memcmp(text, copy, len) != 0 || memmem(text, len, ESCAPED_NUL, 6) != NULL) {
        root = parse_document(slice_of(copy, left), false, &still);
    }
    explicit_bzero(copy, len); /* it may be a Secret */
    free(copy);
    if (root == NULL) {
        const struct err *told = still.code == -ENOMEM ? &still : &why;
        (void)err_set(e, told->code, "%s", told->msg);
    }
    return root;
}

unsigned json_line(const char *text, size_t len, const cJSON *root, const cJSON *item)
{
    struct slice document = slice_of(text, len);
    struct slice key;
    const char *at = place_of(document, root, item, &key);
    return at == NULL ? 0 : json_line_at(document, at);
}

static size_t text_weight(const char *text)
{
    return text == NULL ? 0 : heap_size(strlen(text) + 1);
}

size_t json_weight(const cJSON *item)
{
    bool refers = (item->type & cJSON_IsReference) != 0;
    size_t sum = heap_size(sizeof *item);
    sum += (item->type & cJSON_StringIsConst) != 0 ? 0 : text_weight(item->string);
    sum += refers ? 0 : text_weight(item->valuestring);
    for (const cJSON *child = refers ? NULL : item->child; child != NULL; child = child->next) {
        sum += json_weight(child);
    }
    return sum;
}

/* Bytes that stand in a JSON string as they are. */
static size_t plain_length(const char *text)
{
    const char *p = text;
    while ((unsigned char)*p >= 0x20 && *p != '"' && *p != '\\') {
        p++;
    }
    return (size_t)(p - text);
}

int json_quote(const char *str, struct buf *out)
{
    const char *p = str;
    buf_append_char(out, '"');
    while (*p != '\0') {
        size_t plain = plain_length(p);
        buf_append(out, p, plain);
        p += plain;
        if (*p == '"' || *p == '\\') {
            buf_printf(out, "\\%c", *p++);
        } else if (*p != '\0') {
            buf_printf(out, "\\u%04x", (unsigned char)*p++);
        }
    }
    return buf_append_char(out, '"');
}

static void write_number(double value, struct buf *out)
{
    if (!isfinite(value)) {
        buf_fail(out, -EINVAL);
    } else if (value == floor(value) && fabs(value) <= 9007199254740992.0) {
        buf_printf(out, "%.0f", value == 0 ? 0.0 : value);
    } else {
        buf_printf(out, "%.17g", value);
    }
}

static void write_scalar(const cJSON *item, struct buf *out)
{
    if (cJSON_IsString(item)) {
        json_quote(item->valuestring, out);
    } else if (cJSON_IsNumber(item)) {
        write_number(item->valuedouble, out);
    } else if (cJSON_IsBool(item)) {
        buf_append_str(out, cJSON_IsTrue(item) ? "true" : "false");
    } else {
        buf_append_str(out, "null");
    }
}

/* How a tree is laid out. */
struct layout {
    bool lines; /* for people */
    unsigned depth;
};

static struct layout deeper(struct layout l)
{
    return (struct layout){.lines = l.lines, .depth = l.depth + 1};
}

static void new_line(struct layout l, struct buf *out)
{
    if (l.lines) {
        buf_append_char(out, '\n');
        for (unsigned i = 0; i < l.depth; i++) {
            buf_append_str(out, "  ");
        }
    }
}

static void write_tree(const cJSON *item, struct layout l, struct buf *out);

static void write_object(const cJSON *item, struct layout l, struct buf *out)
{
    size_t n = 0;
    const cJSON **members = json_sorted_members(item, &n);
    if (members == NULL && n > 0) {
        buf_fail(out, -ENOMEM);
        return;
    }
    buf_append_char(out, '{');
    for (size_t i = 0; i < n; i++) {
        buf_append_str(out, i > 0 ? "," : "");
        new_line(deeper(l), out);
        json_quote(members[i]->string, out);
        buf_append_str(out, l.lines ? ": " : ":");
        write_tree(members[i], deeper(l), out);
    }
    free(members);
    if (n > 0) {
        new_line(l, out);
    }
    buf_append_char(out, '}');
}

static bool has_trees(const cJSON *array)
{
    const cJSON *child;
    cJSON_ArrayForEach(child, array)
    {
        if (cJSON_IsObject(child) || cJSON_IsArray(child)) {
            return true;
        }
    }
    return false;
}

static void write_array(const cJSON *item, struct layout l, struct buf *out)
{
    bool one_line = !has_trees(item);
    const cJSON *child;
    buf_append_char(out, '[');
    cJSON_ArrayForEach(child, item)
    {
        if (child != item->child) {
            buf_append_str(out, l.lines && one_line ? ", " : ",");
        }
        if (!one_line) {
            new_line(deeper(l), out);
        }
        write_tree(child, deeper(l), out);
    }
    if (!one_line) {
        new_line(l, out);
    }
    buf_append_char(out, ']');
}

static void write_tree(const cJSON *item, struct layout l, struct buf *out)
{
    if (cJSON_IsObject(item)) {
        write_object(item, l, out);
    } else if (cJSON_IsArray(item)) {
        write_array(item, l, out);
    } else {
        write_scalar(item, out);
    }
}

int json_canonical(const cJSON *item, struct buf *out)
{
    write_tree(item, (struct layout){.lines = false}, out);
    return buf_error(out);
}

int json_indented(const cJSON *item, struct buf *out)
{
    write_tree(item, (struct layout){.lines = true}, out);
    return buf_error(out);
}
