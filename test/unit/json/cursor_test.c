/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capture.h"
#include "random_json.h"
#include "json/cursor.h"

static void assert_slice(struct slice s, const char *expected)
{
    assert_int_equal(s.len, strlen(expected));
    assert_memory_equal(s.ptr, expected, s.len);
}

static void test_members_and_elements(void **state)
{
    (void)state;
    struct json_cursor c = json_cursor_of(
        SLICE(" { \"a\" : 1 , \"b\\\"\":[ {} , \"x\", -2.5e3,[]], \"\":{\"c\":\"}\"}}x"));
    struct slice s;
    assert_false(json_enter(&c, '['));
    assert_true(json_enter(&c, '{'));
    assert_true(json_next_key(&c, &s));
    assert_slice(s, "a");
    assert_true(json_value(&c, &s));
    assert_slice(s, "1");
    assert_true(json_next_key(&c, &s));
    assert_slice(s, "b\\\"");
    assert_true(json_enter(&c, '['));
    const char *const elements[] = {"{}", "\"x\"", "-2.5e3", "[]"};
    for (int i = 0; i < 4; i++) {
        assert_true(json_next_element(&c));
        assert_true(json_value(&c, &s));
        assert_slice(s, elements[i]);
    }
    assert_false(json_next_element(&c));
    assert_true(json_next_key(&c, &s));
    assert_slice(s, "");
    assert_true(json_value(&c, &s));
    assert_slice(s, "{\"c\":\"}\"}");
    assert_false(json_next_key(&c, &s));
    assert_int_equal(*c.at, 'x');
}

static void test_find_member(void **state)
{
    (void)state;
    struct json_cursor c = json_cursor_of(SLICE("{\"b\":{\"a\":1},\"a\":\"x\",\"a\":2}"));
    struct json_cursor none = c;
    struct slice s;
    assert_true(json_find_member(&c, SLICE("a"))); /* the first, and none of what is inside */
    assert_true(json_string(&c, &s));
    assert_slice(s, "x");
    assert_false(json_find_member(&none, SLICE("c")));
    c = json_cursor_of(SLICE("[\"a\"]"));
    assert_false(json_find_member(&c, SLICE("a")));
    c = json_cursor_of(SLICE("{\"b\":{\"a\":1}"));
    assert_false(json_find_member(&c, SLICE("a")));
}

static void test_strings(void **state)
{
    (void)state;
    static const char *const strings[] = {
        "",
        "a",
        "\\\"",
        "\\\\",
        "\\\\\\\"",
        "0123456789abcde",
        "0123456789abcdef",
        "0123456789abcde\\\"0123456789abcdef",
    };
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        struct buf b = BUF_INIT(200);
        assert_int_equal(buf_printf(&b, "\"%s\"", strings[i]), 0);
        struct slice copy = exact_copy(capture_slice(&b));
        struct json_cursor c = json_cursor_of(copy);
        struct slice s;
        assert_true(json_string(&c, &s));
        assert_slice(s, strings[i]);
        assert_ptr_equal(c.at, c.end);
        /* Nothing that is cut off is a string. */
        for (size_t len = 0; len < copy.len; len++) {
            struct slice cut = exact_copy(slice_of(copy.ptr, len));
            c = json_cursor_of(cut);
            assert_false(json_string(&c, &s));
            assert_true(c.at <= c.end);
            free((void *)cut.ptr);
        }
        free((void *)copy.ptr);
        buf_reset(&b);
    }
}

static void test_what_is_no_json_stays_inside(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",   "{",   "[", "\"",  "\"\\", "{\"a",     "{\"a\"", "{\"a\":", "{\"a\":1",
        "[1", "[1,", "}", "nul", "{,",   "{\"a\":}", "[}]",    "\\\"",    "{\"a\":[1,2}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct slice copy = exact_copy(slice_str(texts[i]));
        struct json_cursor c = json_cursor_of(copy);
        struct slice s;
        (void)json_skip(&c);
        assert_true(c.at <= c.end);
        c = json_cursor_of(copy);
        for (bool more = json_enter(&c, '{'); more && json_next_key(&c, &s);) {
            more = json_value(&c, &s);
        }
        assert_true(c.at <= c.end);
        c = json_cursor_of(copy);
        for (bool more = json_enter(&c, '['); more && json_next_element(&c);) {
            more = json_value(&c, &s);
        }
        assert_true(c.at <= c.end);
        free((void *)copy.ptr);
    }
    struct json_cursor none = json_cursor_of(slice_of(NULL, 0));
    assert_false(json_skip(&none));
}

/* The plain way: one byte at a time. */
static size_t plain_end(struct slice text)
{
    bool in_string = false;
    size_t depth = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            return i + 1;
        }
    }
    return 0;
}

static size_t end_in_pieces(struct slice text, size_t piece)
{
    struct json_nesting n = {0};
    for (size_t at = 0; at < text.len;) {
        size_t len = piece == 0 ? 1 + random_below(150) : piece;
        len = len < text.len - at ? len : text.len - at;
        struct slice copy = exact_copy(slice_of(text.ptr + at, len));
        const char *end = json_nesting_end(&n, copy.ptr, copy.ptr + copy.len);
        size_t found = end == NULL ? 0 : at + (size_t)(end - copy.ptr);
        free((void *)copy.ptr);
        if (found > 0) {
            return found;
        }
        at += len;
    }
    return 0;
}

static void test_nesting_in_pieces(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 3000; seed++) {
        random_state = seed * 7919;
        struct buf b = BUF_INIT(1 << 22);
        put_text(&b, random_below(2) == 0 ? "{" : "[");
        bool object = *buf_data(&b) == '{';
        if (object) {
            put_random_members(&b, 0, 1 + random_below(9));
        } else {
            put_random_value(&b, 0);
        }
        put_text(&b, object ? "}" : "]");
        size_t whole = b.len;
        put_text(&b, ",{\"next\":[]}");
        struct slice text = capture_slice(&b);
        assert_int_equal(plain_end(text), whole);
        assert_int_equal(end_in_pieces(text, text.len), whole);
        assert_int_equal(end_in_pieces(text, 1), whole);
        assert_int_equal(end_in_pieces(text, 63), whole);
        assert_int_equal(end_in_pieces(text, 64), whole);
        assert_int_equal(end_in_pieces(text, 0), whole);
        struct json_cursor c = json_cursor_of(text);
        assert_true(json_skip(&c));
        assert_ptr_equal(c.at, text.ptr + whole);
        buf_reset(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_and_elements),
        cmocka_unit_test(test_find_member),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_what_is_no_json_stays_inside),
        cmocka_unit_test(test_nesting_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
