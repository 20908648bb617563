/* SPDX-License-Identifier: Apache-2.0 */
#include "json/scanner.h"

#include <errno.h>

struct scanner {
    const char *at;
    const char *end;
    unsigned depth;
    const char *problem;
};

static bool check_value(struct scanner *s);

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_space(struct scanner *s)
{
    while (s->at < s->end && is_space(*s->at)) {
        s->at++;
    }
}

static bool wrong(struct scanner *s, const char *problem)
{
    s->problem = problem;
    return false;
}

static bool take(struct scanner *s, char c)
{
    if (s->at == s->end || *s->at != c) {
        return false;
    }
    s->at++;
    return true;
}

static int hex_digit(char c)
{
    if (is_digit(c)) {
        return c - '0';
    }
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* The code unit of `XXXX`, which stands behind `\u`; -1 when it is none. */
static int code_unit(struct slice text)
{
    int unit = 0;
    for (size_t i = 0; i < 4; i++) {
        int digit = i < text.len ? hex_digit(text.ptr[i]) : -1;
        if (digit < 0) {
            return -1;
        }
        unit = unit * 16 + digit;
    }
    return unit;
}

/* Behind a backslash. */
static bool check_escape(struct scanner *s)
{
    if (s->at == s->end) {
        return wrong(s, "a string does not end");
    }
    char c = *s->at++;
    if (c == 'u') {
        if (code_unit(slice_of(s->at, (size_t)(s->end - s->at))) < 0) {
            return wrong(s, "an unknown escape in a string");
        }
        s->at += 4;
        return true;
    }
    return (c != '\0' && strchr("\"\\/bfnrt", c) != NULL) ||
           wrong(s, "an unknown escape in a string");
}

static bool check_string(struct scanner *s)
{
    if (!take(s, '"')) {
        return wrong(s, "a string is expected");
    }
    while (!take(s, '"')) {
        if (s->at == s->end) {
            return wrong(s, "a string does not end");
        }
        if ((unsigned char)*s->at < 0x20) {
            return wrong(s, "a control byte in a string");
        }
        if (*s->at++ == '\\' && !check_escape(s)) {
            return false;
        }
    }
    return true;
}

static bool take_digits(struct scanner *s)
{
    const char *start = s->at;
    while (s->at < s->end && is_digit(*s->at)) {
        s->at++;
    }
    return s->at > start;
}

static bool check_number(struct scanner *s)
{
    (void)take(s, '-');
    bool well = take(s, '0') || take_digits(s);
    if (well && take(s, '.')) {
        well = take_digits(s);
    }
    if (well && (take(s, 'e') || take(s, 'E'))) {
        (void)(take(s, '+') || take(s, '-'));
        well = take_digits(s);
    }
    return well || wrong(s, "not a JSON number");
}

static bool check_word(struct scanner *s, struct slice word)
{
    if ((size_t)(s->end - s->at) < word.len || memcmp(s->at, word.ptr, word.len) != 0) {
        return wrong(s, "a JSON value is expected");
    }
    s->at += word.len;
    return true;
}

static bool check_member(struct scanner *s, bool keyed)
{
    skip_space(s);
    if (!keyed) {
        return check_value(s);
    }
    if (!check_string(s)) {
        return false;
    }
    skip_space(s);
    return (take(s, ':') || wrong(s, "':' is expected")) && check_value(s);
}

static bool check_list(struct scanner *s, char close)
{
    if (++s->depth > JSON_SCAN_DEPTH_MAX) {
        return wrong(s, "too many levels");
    }
    s->at++;
    skip_space(s);
    bool done = take(s, close);
    while (!done) {
        if (!check_member(s, close == '}')) {
            return false;
        }
        done = take(s, close);
        if (!done && !take(s, ',')) {
            return wrong(s, close == '}' ? "',' or '}' is expected" : "',' or ']' is expected");
        }
    }
    s->depth--;
    return true;
}

static bool check_bare(struct scanner *s)
{
    if (s->at == s->end) {
        return wrong(s, "JSON ends too early");
    }
    switch (*s->at) {
    case '{':
        return check_list(s, '}');
    case '[':
        return check_list(s, ']');
    case '"':
        return check_string(s);
    case 't':
        return check_word(s, SLICE("true"));
    case 'f':
        return check_word(s, SLICE("false"));
    case 'n':
        return check_word(s, SLICE("null"));
    default:
        return *s->at == '-' || is_digit(*s->at) ? check_number(s)
                                                 : wrong(s, "a JSON value is expected");
    }
}

/* With the white space around it. */
static bool check_value(struct scanner *s)
{
    skip_space(s);
    if (!check_bare(s)) {
        return false;
    }
    skip_space(s);
    return true;
}

static int fail_at(struct slice text, const struct scanner *s, struct err *e)
{
    unsigned line = 1;
    const char *start = text.ptr;
    for (const char *p = text.ptr; p < s->at; p++) {
        if (*p == '\n') {
            line++;
            start = p + 1;
        }
    }
    return err_set(e, -EINVAL, "line %u, column %zu: %s", line, (size_t)(s->at - start) + 1,
                   s->problem);
}

static struct slice trimmed(struct slice text)
{
    while (text.len > 0 && is_space(text.ptr[0])) {
        text = slice_of(text.ptr + 1, text.len - 1);
    }
    while (text.len > 0 && is_space(text.ptr[text.len - 1])) {
        text.len--;
    }
    return text;
}

int json_scan_document(struct slice text, struct slice *value, struct err *e)
{
    const char *start = text.len > 0 ? text.ptr : "";
    struct scanner s = {.at = start, .end = start + text.len};
    if (check_value(&s) && s.at < s.end) {
        s.problem = "text after the JSON document";
    }
    if (s.problem != NULL) {
        return fail_at(slice_of(start, text.len), &s, e);
    }
    *value = trimmed(text);
    return 0;
}

struct slice json_scan_inside(struct slice value)
{
    if (value.len < 2 || (value.ptr[0] != '{' && value.ptr[0] != '[')) {
        return slice_of(NULL, 0);
    }
    return trimmed(slice_of(value.ptr + 1, value.len - 2));
}

/* In checked text: the length of the value that stands at its beginning. */
static size_t value_length(struct slice text)
{
    size_t depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (quoted) {
            quoted = c != '"';
            i += c == '\\' ? 1 : 0;
            continue;
        }
        if (depth == 0 && (c == ',' || c == ':' || is_space(c))) {
            return i;
        }
        quoted = c == '"';
        depth += c == '{' || c == '[' ? 1 : 0;
        depth -= c == '}' || c == ']' ? 1 : 0;
    }
    return text.len;
}

/* Takes a value and the white space and the one separator that follow it. */
static struct slice take_value(struct slice *rest)
{
    size_t n = value_length(*rest);
    struct slice value = slice_of(rest->ptr, n);
    *rest = trimmed(slice_of(rest->ptr + n, rest->len - n));
    if (rest->len > 0) {
        *rest = trimmed(slice_of(rest->ptr + 1, rest->len - 1));
    }
    return value;
}

static bool has_key(struct slice inside)
{
    size_t n = value_length(inside);
    struct slice behind = trimmed(slice_of(inside.ptr + n, inside.len - n));
    return inside.ptr[0] == '"' && behind.len > 0 && behind.ptr[0] == ':';
}

bool json_scan_next(struct slice *inside, struct slice *key, struct slice *value)
{
    if (inside->len == 0) {
        return false;
    }
    *key = has_key(*inside) ? take_value(inside) : slice_of(NULL, 0);
    *value = take_value(inside);
    return true;
}

int json_scan_member(struct slice object, struct slice key, struct slice *value)
{
    struct slice inside = json_scan_inside(object);
    struct slice k;
    struct slice v;
    int found = 0;
    while (json_scan_next(&inside, &k, &v)) {
        if (!json_scan_equal(k, key)) {
            continue;
        }
        if (found > 0) {
            return -EINVAL;
        }
        *value = v;
        found = 1;
    }
    return found;
}

/* Takes one character off the inside of a checked string. One that is not ASCII gives something
 * above 0x7f. */
static int take_character(struct slice *rest)
{
    static const char names[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    size_t n = 1;
    int c = (unsigned char)rest->ptr[0];
    if (c == '\\' && rest->ptr[1] == 'u') {
        c = code_unit(slice_of(rest->ptr + 2, rest->len - 2));
        n = 6;
    } else if (c == '\\') {
        c = (unsigned char)meanings[strchr(names, rest->ptr[1]) - names];
        n = 2;
    }
    *rest = slice_of(rest->ptr + n, rest->len - n);
    return c;
}

bool json_scan_equal(struct slice value, struct slice plain)
{
    if (value.len < 2 || value.ptr[0] != '"') {
        return false;
    }
    struct slice rest = slice_of(value.ptr + 1, value.len - 2);
    for (size_t i = 0; i < plain.len; i++) {
        if (rest.len == 0 || take_character(&rest) != (unsigned char)plain.ptr[i]) {
            return false;
        }
    }
    return rest.len == 0;
}
