/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "json/scanner.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static struct slice document(const char *text)
{
    struct slice value;
    struct err e = ERR_INIT;
    if (json_scan_document(slice_str(text), &value, &e) != 0) {
        fail_msg("%s: %s", text, e.msg);
    }
    return value;
}

static void expect(struct slice got, const char *want)
{
    if (!slice_eq(got, slice_str(want))) {
        fail_msg("got %.*s, not %s", (int)got.len, got.ptr, want);
    }
}

static void takes_json(void **state)
{
    (void)state;
    expect(document("{}"), "{}");
    expect(document(" \t\r\n[ 1 , {} ] \n"), "[ 1 , {} ]");
    expect(document("null"), "null");
    expect(document("true "), "true");
    expect(document(" false"), "false");
    expect(document("-0.5e+10"), "-0.5e+10");
    expect(document("0"), "0");
    expect(document("1E2"), "1E2");
    expect(document("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00aF\x7f\xff\""),
           "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00aF\x7f\xff\"");
    expect(document("{\"a\":[[],[{}]],\"a\":{\"\":\"\"}}"), "{\"a\":[[],[{}]],\"a\":{\"\":\"\"}}");
}

static void refuses_what_is_none(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *says;
    } rows[] = {
        {"", "line 1, column 1: unexpected end of JSON"},
        {" \n ", "line 2, column 2: unexpected end of JSON"},
        {"{", "unexpected end of JSON"},
        {"[", "unexpected end of JSON"},
        {"[1", "unexpected end of JSON"},
        {"[1,]", "line 1, column 4: expected a JSON value"},
        {"[,1]", "a JSON value"},
        {"[1 2]", "',' or ']'"},
        {"[1}", "',' or ']'"},
        {"{\"a\"}", "expected ':'"},
        {"{\"a\":}", "a JSON value"},
        {"{\"a\":1,}", "expected a string"},
        {"{\"a\":1 \"b\":2}", "',' or '}'"},
        {"{a:1}", "expected a string"},
        {"{1:1}", "expected a string"},
        {"\n\n {} x", "line 3, column 5: unexpected text after"},
        {"{}{}", "unexpected text after"},
        {"nul", "a JSON value"},
        {"nulll", "unexpected text after"},
        {"True", "a JSON value"},
        {"01", "line 1, column 1: invalid number"},
        {"-", "invalid number"},
        {"1.", "invalid number"},
        {".5", "a JSON value"},
        {"+1", "a JSON value"},
        {"1e", "invalid number"},
        {"1e+", "invalid number"},
        {"0x1", "unexpected text after"},
        {"'a'", "a JSON value"},
        {"\"a", "unterminated"},
        {"\"a\\", "unterminated"},
        {"\"a\nb\"", "control character"},
        {"\"\\x\"", "invalid escape"},
        {"\"\\u12\"", "invalid escape"},
        {"\"\\u006+1\"", "invalid escape"},
        {"\xef\xbb\xbf{}", "a JSON value"},
        {"// no\n{}", "a JSON value"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct slice value;
        struct err e = ERR_INIT;
        assert_int_equal(json_scan_document(slice_str(rows[i].text), &value, &e), -EINVAL);
        if (strstr(e.msg, rows[i].says) == NULL) {
            fail_msg("%s: %s", rows[i].text, e.msg);
        }
    }
    struct slice value;
    assert_int_equal(json_scan_document(SLICE("{}\0"), &value, NULL), -EINVAL);
    assert_int_equal(json_scan_document(SLICE("\"\\\0\""), &value, NULL), -EINVAL);
    assert_int_equal(json_scan_document(slice_of(NULL, 0), &value, NULL), -EINVAL);
}

static void bounds_the_depth(void **state)
{
    (void)state;
    char text[2 * (JSON_SCAN_DEPTH_MAX + 1)];
    struct slice value;
    struct err e = ERR_INIT;
    for (size_t depth = JSON_SCAN_DEPTH_MAX; depth <= JSON_SCAN_DEPTH_MAX + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        int rc = json_scan_document(slice_of(text, 2 * depth), &value, &e);
        assert_int_equal(rc, depth <= JSON_SCAN_DEPTH_MAX ? 0 : -EINVAL);
    }
    assert_non_null(strstr(e.msg, "nested too deeply"));
}

static void goes_through_members(void **state)
{
    (void)state;
    struct slice inside = json_scan_inside(
        document("{ \"a\" : [1, \"]\"] ,\"b,\\\":{\":\"x:,}\", \"\":{\"c\":{}} ,\"d\":-1.5 }"));
    static const char *const want[][2] = {{"\"a\"", "[1, \"]\"]"},
                                          {"\"b,\\\":{\"", "\"x:,}\""},
                                          {"\"\"", "{\"c\":{}}"},
                                          {"\"d\"", "-1.5"}};
    struct slice key;
    struct slice value;
    for (size_t i = 0; i < 4; i++) {
        assert_true(json_scan_next(&inside, &key, &value));
        expect(key, want[i][0]);
        expect(value, want[i][1]);
    }
    assert_false(json_scan_next(&inside, &key, &value));
}

static void goes_through_items(void **state)
{
    (void)state;
    struct slice inside = json_scan_inside(document("[ \"a\" , \":\",[{}],null, 12]"));
    static const char *const want[] = {"\"a\"", "\":\"", "[{}]", "null", "12"};
    struct slice key;
    struct slice value;
    for (size_t i = 0; i < 5; i++) {
        assert_true(json_scan_next(&inside, &key, &value));
        assert_int_equal(key.len, 0);
        expect(value, want[i]);
    }
    assert_false(json_scan_next(&inside, &key, &value));
    static const char *const without[] = {"[]", "{ }", "\"[1]\"", "12", "true"};
    for (size_t i = 0; i < 5; i++) {
        inside = json_scan_inside(document(without[i]));
        assert_false(json_scan_next(&inside, &key, &value));
    }
}

static void finds_a_member(void **state)
{
    (void)state;
    struct slice object = document("{\"x\":{\"b\":0},\"a\":1,\"\\u0062\":[2],\"c\":3,\"c\":4}");
    struct slice value;
    assert_int_equal(json_scan_member(object, SLICE("a"), &value), 1);
    expect(value, "1");
    assert_int_equal(json_scan_member(object, SLICE("b"), &value), 1);
    expect(value, "[2]");
    assert_int_equal(json_scan_member(object, SLICE("c"), &value), -EINVAL);
    assert_int_equal(json_scan_member(object, SLICE("d"), &value), 0);
    assert_int_equal(json_scan_member(object, SLICE("A"), &value), 0);
    assert_int_equal(json_scan_member(document("[\"a\",1]"), SLICE("a"), &value), 0);
    assert_int_equal(json_scan_member(document("\"a\""), SLICE("a"), &value), 0);
}

static void compares_strings(void **state)
{
    (void)state;
    assert_true(json_scan_equal(document("\"\""), SLICE("")));
    assert_true(json_scan_equal(document("\"a-b\""), SLICE("a-b")));
    assert_true(json_scan_equal(document("\"\\u0061\\u002D\\u0062\""), SLICE("a-b")));
    assert_true(
        json_scan_equal(document("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), SLICE("\"\\/\b\f\n\r\t")));
    assert_true(json_scan_equal(document("\"\\u0000\""), SLICE("\0")));
    assert_false(json_scan_equal(document("\"a\""), SLICE("")));
    assert_false(json_scan_equal(document("\"a\""), SLICE("ab")));
    assert_false(json_scan_equal(document("\"ab\""), SLICE("a")));
    assert_false(json_scan_equal(document("\"\\u0161\""), SLICE("a")));
    assert_false(json_scan_equal(document("\"\\u00e4\""), SLICE("a")));
    assert_false(json_scan_equal(document("12"), SLICE("12")));
    assert_false(json_scan_equal(document("[]"), SLICE("")));
    assert_false(json_scan_equal(slice_of(NULL, 0), SLICE("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_json),         cmocka_unit_test(refuses_what_is_none),
        cmocka_unit_test(bounds_the_depth),   cmocka_unit_test(goes_through_members),
        cmocka_unit_test(goes_through_items), cmocka_unit_test(finds_a_member),
        cmocka_unit_test(compares_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
