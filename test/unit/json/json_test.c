/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "base/buf.h"
#include "json/json.h"

/* The canonical text of `text`; the caller frees. */
static char *canonical(const char *text, size_t len)
{
    struct err e = ERR_INIT;
    struct buf out = BUF_INIT(64 * 1024);
    cJSON *root = json_parse(text, len, &e);
    if (root == NULL) {
        fail_msg("%s: %s", text, e.msg);
    }
    assert_int_equal(json_canonical(root, &out), 0);
    cJSON_Delete(root);
    return buf_take_str(&out);
}

static void accepts_and_prints_canonically(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *want;
    } rows[] = {
        {"{}", "{}"},
        {" [ ] \r\n\t", "[]"},
        {"null", "null"},
        {"[true, false]", "[true,false]"},
        {"{\"b\":1,\"a\":{\"d\":[],\"c\":{}}}", "{\"a\":{\"c\":{},\"d\":[]},\"b\":1}"},
        {"{\"a\":1,\"B\":2,\"\xc3\xa4\":3,\"\":4}", "{\"\":4,\"B\":2,\"a\":1,\"\xc3\xa4\":3}"},
        {"[0,-0,-0.0,1.0,1e3,10E-1,-7]", "[0,0,0,1,1000,1,-7]"},
        {"[9007199254740992,0.5]", "[9007199254740992,0.5]"},
        {"\"\\u0041\\/\\b\\f\\n\\r\\t\\\\\\\"\"",
         "\"A/\\u0008\\u000c\\u000a\\u000d\\u0009\\\\\\\"\""},
        {"\"\\u00e4\\ud83d\\ude00 \xf0\x9f\x98\x80\x7f\"",
         "\"\xc3\xa4\xf0\x9f\x98\x80 \xf0\x9f\x98\x80\x7f\""},
        {"\"a\\u0000b\\\\u0000\"", "\"a\xef\xbf\xbd"
                                   "b\\\\u0000\""},
        {"{\"a\\u0000\":1,\"a\":2}", "{\"a\":2,\"a\xef\xbf\xbd\":1}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *got = canonical(rows[i].text, strlen(rows[i].text));
        assert_string_equal(got, rows[i].want);
        char *again = canonical(got, strlen(got));
        assert_string_equal(again, got);
        free(again);
        free(got);
    }
}

/* In memory of its own, so that a read over its end is seen. */
static void refuse(const char *text, size_t len, const char *want)
{
    struct err e = ERR_INIT;
    char *copy = malloc(len + 1);
    assert_non_null(copy);
    copy = realloc(copy, len > 0 ? len : 1);
    assert_non_null(copy);
    memcpy(copy, text, len);
    cJSON *root = json_parse(copy, len, &e);
    free(copy);
    if (root != NULL) {
        cJSON_Delete(root);
        fail_msg("accepted: %s", text);
    }
    if (strstr(e.msg, want) == NULL) {
        fail_msg("%s: \"%s\" does not hold \"%s\"", text, e.msg, want);
    }
    assert_int_equal(e.code, -EINVAL);
}

#define NUMBER_OF_64 "1000000000000000000000000000000000000000000000000000000000000000"

static void refuses_what_is_not_json(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *want;
    } rows[] = {
        {"", "line 1, column 1: unexpected end of JSON"},
        {"  ", "unexpected end of JSON"},
        {"{\"a\":1", "unexpected end of JSON"},
        {"{\n \"a\":x,\n \"b\":1}", "line 2, column 6: expected a JSON value"},
        {"{\n \"a\": x }", "line 2, column 7: expected a JSON value"},
        {"\xef\xbb\xbf{}", "line 1, column 1: expected a JSON value"},
        {"{} {}", "line 1, column 4: unexpected text after the JSON document"},
        {"{}\n}", "line 2, column 1: unexpected text after the JSON document"},
        {"[1,]", "line 1, column 4: expected a JSON value"},
        {"[,1]", "expected a JSON value"},
        {"{\"a\" 1}", "line 1, column 6: expected ':'"},
        {"{a:1}", "expected a string"},
        {"{'a':1}", "expected a string"},
        {"[nul]", "expected a JSON value"},
        {"[NaN]", "JSON"},
        {"[Infinity]", "JSON"},
        {"// a\n{}", "expected a JSON value"},
        {"[01]", "line 1, column 2: invalid number"},
        {"[-]", "invalid number"},
        {"[1.]", "invalid number"},
        {"[1.e1]", "invalid number"},
        {"[1e]", "invalid number"},
        {"[1e+]", "invalid number"},
        {"[-a]", "invalid number"},
        {"[+1]", "JSON"},
        {"[.5]", "JSON"},
        {"[0x10]", "expected ',' or ']'"},
        {"[1 2]", "expected ',' or ']'"},
        {"[1e999]", "line 1, column 2: number out of range"},
        {"{\"a\":[1,\n -1e999]}", "line 2, column 2: number out of range"},
        {"\"a\nb\"", "line 1, column 3: control character in a string"},
        {"\"a\tb\"", "control character in a string"},
        {"[\x0b]", "line 1, column 2: control character"},
        {"{\x01}", "control character"},
        {"\"\\u12\"", "line 1, column 2: invalid escape sequence"},
        {"[\"\\u006+1\"]", "invalid escape sequence"},
        {"{\"name\":\"a\\uzzzzb\"}", "invalid escape sequence"},
        {"\"\\x41\"", "invalid escape sequence"},
        {"\"\\ud83d\"", "line 1, column 2: unpaired surrogate in a string"},
        {"\"\\ude00\"", "line 1, column 2: unpaired surrogate in a string"},
        {"{\"a\":\n\"x\\ud800\"}", "line 2, column 3: unpaired surrogate in a string"},
        {"\"\\ud83d\\u0041\"", "unpaired surrogate"},
        {"\"\\ud83d\\ud83d\"", "unpaired surrogate"},
        {"\"\\ud83d\\", "unpaired surrogate"},
        {NUMBER_OF_64, "line 1, column 1: number with too many digits"},
        {"[" NUMBER_OF_64 "]", "line 1, column 2: number with too many digits"},
        {"\"abc", "line 1, column 5: unterminated string"},
        {"\"abc\\", "unterminated string"},
        {"\"\xff\"", "line 1, column 2: invalid UTF-8 in a string"},
        {"\"\xc3\"", "invalid UTF-8 in a string"},
        {"\"\xed\xa0\x80\"", "invalid UTF-8 in a string"},
        {"\"\xc0\x80\"", "invalid UTF-8 in a string"},
        {"{\"a\":1,\"b\":2,\"a\":3}", "line 1, column 14: duplicate key \"a\""},
        {"[{\"x\":{\"a\":1,\n \"\\u0061\": 1}}]", "line 2, column 2: duplicate key \"a\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        refuse(rows[i].text, strlen(rows[i].text), rows[i].want);
    }
    refuse("{}\0", 3, "");
    refuse("\"a\0b\"", 5, "control character in a string");
    refuse("[1\0]", 4, "control character");
}

static void differs_in_case_is_no_duplicate(void **state)
{
    (void)state;
    char *got = canonical("{\"a\":1,\"A\":2}", 13);
    assert_string_equal(got, "{\"A\":2,\"a\":1}");
    free(got);
}

static void bounds_the_depth(void **state)
{
    (void)state;
    char text[20001];
    memset(text, '[', 10000);
    memset(text + 10000, ']', 10000);
    struct err e = ERR_INIT;
    assert_null(json_parse(text, 20000, &e));
    memset(text, '[', 500);
    memset(text + 500, ']', 500);
    char *got = canonical(text, 1000);
    assert_int_equal(strlen(got), 1000);
    free(got);
}

/* `levels` arrays in each other, the innermost with `last`. */
static void nest(struct buf *text, int levels, const char *last)
{
    for (int i = 0; i < levels; i++) {
        buf_append_char(text, '[');
    }
    buf_append_str(text, last);
    for (int i = 0; i < levels; i++) {
        buf_append_char(text, ']');
    }
}

static char *foreign(const char *text, size_t len)
{
    struct err e = ERR_INIT;
    struct buf out = BUF_INIT(65536);
    cJSON *root = json_parse_foreign(text, len, &e);
    char *copy = NULL;
    assert_true((root == NULL) == (e.code == -EINVAL));
    if (root != NULL) {
        assert_int_equal(json_canonical(root, &out), 0);
        copy = strdup(buf_cstr(&out));
    }
    cJSON_Delete(root);
    buf_reset(&out);
    return copy;
}

static void reads_what_strangers_wrote(void **state)
{
    (void)state;
    static const char *const table[][2] = {
        {"{\"a\":1}", "{\"a\":1}"},
        {"{\"a\xff\\\"}\":1,\"a\xfe\\\"}\":2}", "{\"a?\\\"}\":1,\"a?\\\"}\":2}"},
        {"[\"\\u0000\",{\"\\u0000\":1,\"\\ufffd\":2}]",
         "[\"\xef\xbf\xbd\",{\"\xef\xbf\xbd\":1,\"\xef\xbf\xbd\":2}]"},
        {"{\"a\":1,\"a\":2}", NULL},
        {"{\"a\":\"\xff}", NULL},
        {"[\"\\", NULL},
        {"\xff", NULL},
        {"[1,]", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char *got = foreign(table[i][0], strlen(table[i][0]));
        assert_true((got == NULL) == (table[i][1] == NULL));
        assert_true(got == NULL || strcmp(got, table[i][1]) == 0);
        free(got);
    }
    assert_null(foreign(NULL, 0)); /* as an answer without a body is */
    for (int levels = 998; levels <= 1002; levels++) {
        struct buf text = BUF_INIT(65536);
        struct buf want = BUF_INIT(65536);
        nest(&text, levels, "{\"a\":[1,{\"]\":2}]}");
        nest(&want, levels < 1000 ? levels : 1000,
             levels == 998 ? "{\"a\":[]}" : (levels == 999 ? "{}" : ""));
        char *got = foreign(buf_cstr(&text), text.len);
        assert_string_equal(got, buf_cstr(&want));
        text.len--;
        assert_null(foreign(buf_cstr(&text), text.len));
        free(got);
        buf_reset(&text);
        buf_reset(&want);
    }
}

/* How long it takes to read a large document, with `last` below 900 arrays that all of it is in. */
static clock_t deep(const char *last, const char *want)
{
    enum { DEPTH = 900, ITEMS = 100000 };
    struct buf text = BUF_INIT(ITEMS * 4);
    struct err e = ERR_INIT;
    for (int i = 0; i < DEPTH; i++) {
        buf_append_char(&text, '[');
    }
    for (int i = 0; i < ITEMS; i++) {
        buf_append_str(&text, "[],");
    }
    buf_append_str(&text, last);
    for (int i = 0; i < DEPTH; i++) {
        buf_append_char(&text, ']');
    }
    assert_int_equal(buf_error(&text), 0);
    clock_t begun = clock();
    cJSON *root = json_parse((const char *)buf_data(&text), text.len, &e);
    clock_t took = clock() - begun;
    assert_string_equal(e.msg, want);
    cJSON_Delete(root);
    buf_reset(&text);
    return took;
}

static void a_place_far_down_costs_no_more_than_the_document(void **state)
{
    (void)state;
    clock_t good = deep("0", "");
    assert_true(deep("1e999", "line 1, column 300901: number out of range") <= 10 * good);
    assert_true(deep("{\"a\":1,\"a\":2}", "line 1, column 300908: duplicate key \"a\"") <=
                10 * good);
}

static void canonical_text_is_bounded_and_finite(void **state)
{
    (void)state;
    cJSON *root = cJSON_CreateArray();
    assert_non_null(root);
    assert_true(cJSON_AddItemToArray(root, cJSON_CreateString("0123456789")));
    struct buf small = BUF_INIT(13);
    assert_int_equal(json_canonical(root, &small), -ENOBUFS);
    buf_reset(&small);
    struct buf exact = BUF_INIT(14);
    assert_int_equal(json_canonical(root, &exact), 0);
    buf_reset(&exact);
    assert_true(cJSON_AddItemToArray(root, cJSON_CreateNumber((double)INFINITY)));
    struct buf out = BUF_INIT(100);
    assert_int_equal(json_canonical(root, &out), -EINVAL);
    buf_reset(&out);
    cJSON_Delete(root);
}

static void numbers_keep_their_value(void **state)
{
    (void)state;
    static const double values[] = {0.1, 1.0 / 3, 1e300, -2.5e-300, 9007199254740994.0, 5e-324};
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        struct buf out = BUF_INIT(100);
        cJSON *number = cJSON_CreateNumber(values[i]);
        assert_non_null(number);
        assert_int_equal(json_canonical(number, &out), 0);
        cJSON_Delete(number);
        struct err e = ERR_INIT;
        number = json_parse((const char *)buf_data(&out), out.len, &e);
        assert_non_null(number);
        assert_true(number->valuedouble == values[i]);
        cJSON_Delete(number);
        buf_reset(&out);
    }
}

static void tells_the_line_of_a_value(void **state)
{
    (void)state;
    static const char text[] =
        "\n{\"a\" :\n 1,\n\"\\\"b\": [ -1.5e3,\n\"x:\\\\\",\n{}, true,\n{\"c\""
        ":\n null}],\n\"d\":\"y\"}";
    cJSON *root = json_parse(text, strlen(text), NULL);
    assert_non_null(root);
    const cJSON *b = cJSON_GetObjectItemCaseSensitive(root, "\"b");
    const struct {
        const cJSON *item;
        unsigned line;
    } rows[] = {
        {root, 2},
        {cJSON_GetObjectItemCaseSensitive(root, "a"), 3},
        {b, 4},
        {cJSON_GetArrayItem(b, 0), 4},
        {cJSON_GetArrayItem(b, 1), 5},
        {cJSON_GetArrayItem(b, 2), 6},
        {cJSON_GetArrayItem(b, 3), 6},
        {cJSON_GetArrayItem(b, 4), 7},
        {cJSON_GetArrayItem(b, 4)->child, 8},
        {cJSON_GetObjectItemCaseSensitive(root, "d"), 9},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(json_line(text, strlen(text), root, rows[i].item), rows[i].line);
    }
    cJSON *other = cJSON_CreateNull();
    assert_int_equal(json_line(text, strlen(text), root, other), 0);
    cJSON_Delete(other);
    cJSON_Delete(root);
}

static void indented(void **state)
{
    (void)state;
    static const char text[] = "{\"b\":[],\"a\":{},\"c\":[1,\"x\"],\"d\":[{\"e\":null},[true]]}";
    struct err e = ERR_INIT;
    cJSON *root = json_parse(text, sizeof text - 1, &e);
    struct buf out = BUF_INIT(1024);
    assert_int_equal(json_indented(root, &out), 0);
    assert_string_equal(buf_cstr(&out), "{\n"
                                        "  \"a\": {},\n"
                                        "  \"b\": [],\n"
                                        "  \"c\": [1, \"x\"],\n"
                                        "  \"d\": [\n"
                                        "    {\n"
                                        "      \"e\": null\n"
                                        "    },\n"
                                        "    [true]\n"
                                        "  ]\n"
                                        "}");
    buf_reset(&out);
    cJSON_Delete(root);
}

static bool parse_something(void *data)
{
    static const char text[] = "{\"a\":[1,\"x\",{\"b\":null,\"c\":\"\\u0000\"}],\"d\":\"y\"}";
    (void)data;
    struct err e = ERR_INIT;
    cJSON *root = json_parse(text, sizeof text - 1, &e);
    if (root == NULL) {
        assert_int_equal(e.code, -ENOMEM);
        return false;
    }
    cJSON_Delete(root);
    return true;
}

static void tells_when_memory_is_out(void **state)
{
    (void)state;
    assert_true(sweep_allocations(parse_something, NULL) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_and_prints_canonically),
        cmocka_unit_test(refuses_what_is_not_json),
        cmocka_unit_test(differs_in_case_is_no_duplicate),
        cmocka_unit_test(reads_what_strangers_wrote),
        cmocka_unit_test(bounds_the_depth),
        cmocka_unit_test(a_place_far_down_costs_no_more_than_the_document),
        cmocka_unit_test(canonical_text_is_bounded_and_finite),
        cmocka_unit_test(numbers_keep_their_value),
        cmocka_unit_test(tells_the_line_of_a_value),
        cmocka_unit_test(indented),
        cmocka_unit_test(tells_when_memory_is_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
