/* SPDX-License-Identifier: Apache-2.0 */
#include "json/scanner.h"

#include <errno.h>

#include "base/ascii.h"
#include "base/utf8.h"
#include "json/cursor.h"

enum { NUMBER_MAX = 63 }; /* cJSON reads no further */

struct scanner {
    const char *at;
    const char *end;
    unsigned depth;
    bool strict; /* for a tree: strings are Unicode, numbers fit into cJSON's buffer */
    const char *problem;
};

static bool check_value(struct scanner *s);

static void skip_space(struct scanner *s)
{
    while (s->at < s->end && ascii_is_space(*s->at)) {
        s->at++;
    }
}

static bool set_problem(struct scanner *s, const char *problem)
{
    s->problem = problem;
    return false;
}

/* Of a byte that nothing may begin with here, if there is one. */
static bool set_unexpected(struct scanner *s, const char *problem)
{
    if (s->at == s->end) {
        return set_problem(s, "unexpected end of JSON");
    }
    return set_problem(s, (unsigned char)*s->at < 0x20 ? "control character" : problem);
}

static bool take_char(struct scanner *s, char c)
{
    if (s->at == s->end || *s->at != c) {
        return false;
    }
    s->at++;
    return true;
}

/* The code unit of `XXXX`, which stands behind `\u`; -1 when it is none. */
static int code_unit(struct slice text)
{
    int unit = 0;
    for (size_t i = 0; i < 4; i++) {
        int digit = i < text.len ? ascii_hex_value(text.ptr[i]) : -1;
        if (digit < 0) {
            return -1;
        }
        unit = unit * 16 + digit;
    }
    return unit;
}

/* The code unit of `\uXXXX`; -1 when it is none. */
static int unicode_escape(struct slice text)
{
    bool is = text.len > 2 && text.ptr[0] == '\\' && text.ptr[1] == 'u';
    return is ? code_unit(slice_of(text.ptr + 2, text.len - 2)) : -1;
}

/* At a backslash. */
static bool check_escape(struct scanner *s)
{
    struct slice text = slice_of(s->at, (size_t)(s->end - s->at));
    if (text.len == 1) {
        s->at = s->end;
        return set_problem(s, "unterminated string");
    }
    int unit = unicode_escape(text);
    if (unit < 0 && memchr("\"\\/bfnrt", text.ptr[1], 8) == NULL) {
        return set_problem(s, "invalid escape sequence in a string");
    }
    size_t len = unit < 0 ? 2 : 6;
    if (s->strict && unit >= 0xd800 && unit <= 0xdfff) {
        int low = unicode_escape(slice_of(text.ptr + len, text.len - len));
        if (unit >= 0xdc00 || low < 0xdc00 || low > 0xdfff) {
            return set_problem(s, "unpaired surrogate in a string");
        }
        len = 12;
    }
    s->at += len;
    return true;
}

/* At a byte above 0x7f. */
static bool check_character(struct scanner *s)
{
    uint32_t code_point;
    size_t n = utf8_decode(slice_of(s->at, (size_t)(s->end - s->at)), &code_point);
    if (s->strict && n == 1) {
        return set_problem(s, "invalid UTF-8 in a string");
    }
    s->at += n;
    return true;
}

static bool check_string(struct scanner *s)
{
    if (!take_char(s, '"')) {
        return set_unexpected(s, "expected a string");
    }
    while (!take_char(s, '"')) {
        if (s->at == s->end) {
            return set_problem(s, "unterminated string");
        }
        unsigned char c = (unsigned char)*s->at;
        if (c < 0x20) {
            return set_problem(s, "control character in a string");
        }
        if (c == '\\' || c > 0x7f) {
            if (c == '\\' ? !check_escape(s) : !check_character(s)) {
                return false;
            }
        } else {
            s->at++;
        }
    }
    return true;
}

static bool take_digits(struct scanner *s)
{
    const char *start = s->at;
    while (s->at < s->end && ascii_is_digit(*s->at)) {
        s->at++;
    }
    return s->at > start;
}

static bool check_number(struct scanner *s)
{
    const char *start = s->at;
    (void)take_char(s, '-');
    bool well = take_char(s, '0') ? s->at == s->end || !ascii_is_digit(*s->at) : take_digits(s);
    if (well && take_char(s, '.')) {
        well = take_digits(s);
    }
    if (well && (take_char(s, 'e') || take_char(s, 'E'))) {
        (void)(take_char(s, '+') || take_char(s, '-'));
        well = take_digits(s);
    }
    bool fits = !s->strict || s->at - start <= NUMBER_MAX;
    s->at = well && fits ? s->at : start;
    return (well && fits) ||
           set_problem(s, well ? "number with too many digits" : "invalid number");
}

static bool check_word(struct scanner *s, struct slice word)
{
    if ((size_t)(s->end - s->at) < word.len || memcmp(s->at, word.ptr, word.len) != 0) {
        return set_problem(s, "expected a JSON value");
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
    return (take_char(s, ':') || set_unexpected(s, "expected ':'")) && check_value(s);
}

static bool check_list(struct scanner *s, char close)
{
    if (++s->depth > JSON_SCAN_DEPTH_MAX) {
        return set_problem(s, "nested too deeply");
    }
    s->at++;
    skip_space(s);
    bool done = take_char(s, close);
    while (!done) {
        if (!check_member(s, close == '}')) {
            return false;
        }
        done = take_char(s, close);
        if (!done && !take_char(s, ',')) {
            return set_unexpected(s, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
        }
    }
    s->depth--;
    return true;
}

static bool check_bare(struct scanner *s)
{
    switch (s->at == s->end ? '\0' : *s->at) {
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
        return s->at < s->end && (*s->at == '-' || ascii_is_digit(*s->at))
                   ? check_number(s)
                   : set_unexpected(s, "expected a JSON value");
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

int json_fail_at(struct slice text, const char *at, const char *problem, struct err *e)
{
    unsigned line = json_line_at(text, at);
    const char *start = at;
    while (start > text.ptr && start[-1] != '\n') {
        start--;
    }
    return err_set(e, -EINVAL, "line %u, column %zu: %s", line, (size_t)(at - start) + 1, problem);
}

unsigned json_line_at(struct slice text, const char *at)
{
    unsigned line = 1;
    for (const char *p = text.ptr; p < at; p++) {
        line += *p == '\n' ? 1 : 0;
    }
    return line;
}

static struct slice trimmed(struct slice text)
{
    while (text.len > 0 && ascii_is_space(text.ptr[0])) {
        text = slice_of(text.ptr + 1, text.len - 1);
    }
    while (text.len > 0 && ascii_is_space(text.ptr[text.len - 1])) {
        text.len--;
    }
    return text;
}

static int check_document(struct slice text, bool strict, struct err *e)
{
    const char *start = text.len > 0 ? text.ptr : "";
    struct scanner s = {.at = start, .end = start + text.len, .strict = strict};
    if (check_value(&s) && s.at < s.end) {
        s.problem = "unexpected text after the JSON document";
    }
    return s.problem == NULL ? 0 : json_fail_at(slice_of(start, text.len), s.at, s.problem, e);
}

int json_check(struct slice text, struct err *e)
{
    return check_document(text, true, e);
}

int json_scan_document(struct slice text, struct slice *value, struct err *e)
{
    int rc = check_document(text, false, e);
    if (rc == 0) {
        *value = trimmed(text);
    }
    return rc;
}

struct slice json_scan_inside(struct slice value)
{
    bool nested = value.len > 0 && (value.ptr[0] == '{' || value.ptr[0] == '[');
    return nested ? slice_of(value.ptr + 1, value.len - 1) : slice_of(NULL, 0);
}

bool json_scan_next(struct slice *inside, struct slice *key, struct slice *value)
{
    struct json_cursor c = json_cursor_of(*inside);
    bool keyed = inside->len > 0 && inside->ptr[inside->len - 1] == '}';
    *key = slice_of(NULL, 0);
    bool found = (keyed ? json_next_key(&c, key) : json_next_element(&c)) && json_value(&c, value);
    if (found && keyed) {
        *key = slice_of(key->ptr - 1, key->len + 2);
    }
    *inside = slice_of(c.at, (size_t)(c.end - c.at));
    return found;
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

size_t json_count_values(struct slice text)
{
    size_t count = 1;
    bool in_string = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (in_string && c == '\\') {
            i++;
        } else if (c == '"') {
            in_string = !in_string;
        } else if (!in_string) {
            count += c == ',' || c == '[' || c == '{' ? 1 : 0;
        }
    }
    return count;
}
