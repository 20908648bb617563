/* SPDX-License-Identifier: Apache-2.0 */
#include "json/json.h"

#include <ctype.h>
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
static int check_tree(const cJSON *item, struct err *e)
{
    if (cJSON_IsNumber(item) && !isfinite(item->valuedouble)) {
        return err_set(e, -EINVAL, "a number is out of range");
    }
    if (cJSON_IsObject(item)) {
        size_t n = 0;
        const cJSON **members = sorted_members(item, &n);
        if (members == NULL && n > 0) {
            return err_memory(e);
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
        int rc = check_tree(child, e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* Of an escape that is whole, for cJSON reads `\u` without four hex digits as a NUL. */
static bool check_escape(struct slice text)
{
    static const size_t len = sizeof "\\u0000" - 1;
    if (text.len < 2) {
        return true;
    }
    if (text.ptr[1] != 'u') {
        return text.ptr[1] != '\0' && strchr("\"\\/bfnrt", text.ptr[1]) != NULL;
    }
    for (size_t i = 2; i < len; i++) {
        if (i == text.len || !isxdigit((unsigned char)text.ptr[i])) {
            return false;
        }
    }
    return true;
}

/* Behind the opening quote: what a string may not hold though cJSON lets it pass. NULL: nothing
 * found; *p is then behind the string. */
static const char *check_string(const char **p, const char *end)
{
    while (*p < end && **p != '"') {
        unsigned char c = (unsigned char)**p;
        size_t n = 1;
        if (c < 0x20) {
            return "a control byte in a string";
        }
        if (c >= 0x80) {
            uint32_t cp;
            n = utf8_decode(slice_of(*p, (size_t)(end - *p)), &cp);
            if (n == 1) {
                return "a string is not UTF-8";
            }
        } else if (c == '\\') {
            if (!check_escape(slice_of(*p, (size_t)(end - *p)))) {
                return "an unknown escape in a string";
            }
            n = end - *p >= 2 ? 2 : 1;
        }
        *p += n;
    }
    if (*p == end) {
        return "a string does not end";
    }
    (*p)++;
    return NULL;
}

static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && isdigit((unsigned char)*p)) {
        p++;
    }
    return p;
}

/* RFC 8259 section 6; strtod, which cJSON uses, takes more. */
static const char *check_number(const char **p, const char *end)
{
    static const char *const bad = "not a JSON number";
    const char *at = *p + (**p == '-' ? 1 : 0);
    const char *digits = at;
    at = skip_digits(at, end);
    if (at == digits || (*digits == '0' && at > digits + 1)) {
        return bad;
    }
    if (at < end && *at == '.') {
        digits = ++at;
        at = skip_digits(at, end);
        if (at == digits) {
            return bad;
        }
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < end && (*at == '+' || *at == '-') ? 1 : 0;
        digits = at;
        at = skip_digits(at, end);
        if (at == digits) {
            return bad;
        }
    }
    *p = at;
    return NULL;
}

/* What RFC 8259 forbids and cJSON lets pass. NULL: nothing found; else *p is where. */
static const char *check_tokens(const char **p, const char *end)
{
    const char *found = NULL;
    while (*p < end && found == NULL) {
        unsigned char c = (unsigned char)**p;
        if (c == '"') {
            (*p)++;
            found = check_string(p, end);
        } else if (c == '-' || isdigit(c)) {
            found = check_number(p, end);
        } else if (c < 0x20 && c != '\t' && c != '\n' && c != '\r') {
            found = "a control byte";
        } else {
            (*p)++;
        }
    }
    return found;
}

static cJSON *fail_at(const char *text, const char *at, const char *what, struct err *e)
{
    unsigned line;
    unsigned column;
    position(text, at, &line, &column);
    err_set(e, -EINVAL, "line %u, column %u: %s", line, column, what);
    return NULL;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Whether brackets are open at the end, or nothing has begun. */
static bool is_unfinished(const char *text, size_t len)
{
    long depth = 0;
    bool blank = true;
    bool quoted = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        blank = blank && is_space(c);
        if (quoted) {
            quoted = c != '"';
            i += c == '\\' ? 1 : 0;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return depth > 0 || blank;
}

static cJSON *parse_tokens(const char *text, size_t len, struct err *e)
{
    const char *end = NULL;
    errno = 0; /* cJSON does not tell a failed malloc from an error in the text */
    cJSON *root = cJSON_ParseWithLengthOpts(text, len, &end, 0);
    if (root == NULL && errno == ENOMEM) {
        err_memory(e);
        return NULL;
    }
    if (root == NULL) {
        const char *at = end == NULL || end < text || end > text + len ? text : end;
        bool early = (size_t)(at - text) + 1 >= len && is_unfinished(text, len);
        return fail_at(text, at, early ? "JSON ends too early" : "JSON syntax error", e);
    }
    while (end < text + len && is_space(*end)) {
        end++;
    }
    if (end < text + len) {
        cJSON_Delete(root);
        return fail_at(text, end, "text after the JSON document", e);
    }
    if (check_tree(root, e) != 0) {
        cJSON_Delete(root);
        return NULL;
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
            if (len - i >= 6 && memcmp(copy + i, "\\u0000", 6) == 0) {
                memcpy(copy + i, "\\ufffd", 6);
            }
            i++;
        }
    }
    return copy;
}

cJSON *json_parse(const char *text, size_t len, struct err *e)
{
    if (len == 0) {
        return fail_at(text, text, "JSON ends too early", e);
    }
    const char *at = text;
    const char *found = check_tokens(&at, text + len);
    if (found != NULL) {
        return fail_at(text, at, found, e);
    }
    if (memmem(text, len, "\\u0000", 6) == NULL) {
        return parse_tokens(text, len, e);
    }
    char *copy = without_escaped_nul(text, len);
    if (copy == NULL) {
        err_memory(e);
        return NULL;
    }
    cJSON *root = parse_tokens(copy, len, e);
    free(copy);
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

static bool in_one_line(const cJSON *array)
{
    const cJSON *child;
    cJSON_ArrayForEach(child, array)
    {
        if (cJSON_IsObject(child) || cJSON_IsArray(child)) {
            return false;
        }
    }
    return true;
}

static int new_line(unsigned depth, struct buf *out)
{
    int rc = buf_append_char(out, '\n');
    for (unsigned i = 0; i < depth && rc == 0; i++) {
        rc = buf_append_str(out, "  ");
    }
    return rc;
}

static int indented(const cJSON *item, unsigned depth, struct buf *out);

static int indented_object(const cJSON *item, unsigned depth, struct buf *out)
{
    size_t n = 0;
    const cJSON **members = sorted_members(item, &n);
    if (members == NULL && n > 0) {
        return -ENOMEM;
    }
    int rc = buf_append_char(out, '{');
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = i > 0 ? buf_append_char(out, ',') : 0;
        rc = rc != 0 ? rc : new_line(depth + 1, out);
        rc = rc != 0 ? rc : json_quote(members[i]->string, out);
        rc = rc != 0 ? rc : buf_append_str(out, ": ");
        rc = rc != 0 ? rc : indented(members[i], depth + 1, out);
    }
    free(members);
    rc = rc != 0 ? rc : new_line(depth, out);
    return rc != 0 ? rc : buf_append_char(out, '}');
}

static int indented_array(const cJSON *item, unsigned depth, struct buf *out)
{
    bool one_line = in_one_line(item);
    int rc = buf_append_char(out, '[');
    const cJSON *child;
    cJSON_ArrayForEach(child, item)
    {
        if (rc == 0 && child != item->child) {
            rc = buf_append_str(out, one_line ? ", " : ",");
        }
        if (rc == 0 && !one_line) {
            rc = new_line(depth + 1, out);
        }
        rc = rc != 0 ? rc : indented(child, depth + 1, out);
    }
    if (rc == 0 && !one_line) {
        rc = new_line(depth, out);
    }
    return rc != 0 ? rc : buf_append_char(out, ']');
}

static int indented(const cJSON *item, unsigned depth, struct buf *out)
{
    if (cJSON_IsObject(item) && item->child != NULL) {
        return indented_object(item, depth, out);
    }
    return cJSON_IsArray(item) ? indented_array(item, depth, out) : json_canonical(item, out);
}

int json_indented(const cJSON *item, struct buf *out)
{
    return indented(item, 0, out);
}
