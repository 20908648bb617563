/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void canonical(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *canonical;
    } rows[] = {
        {" { } ", "{}"},
        {"[ ]", "[]"},
        {"{\"b\":1,\"a\":[true,false,null]}", "{\"a\":[true,false,null],\"b\":1}"},
        {"{\"a\":{\"z\":0,\"B\":-0.0}}", "{\"a\":{\"B\":0,\"z\":0}}"},
        {"[1e3, 1.5, 9007199254740991, -3]", "[1000,1.5,9007199254740991,-3]"},
        {"\"\\u00e9\\/\\n\\\"\\\\\"", "\"\xc3\xa9/\\u000a\\\"\\\\\""},
        {"\"\\\\u0000\"", "\"\\\\u0000\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err e = ERR_INIT;
        cJSON *root = json_parse(rows[i].text, strlen(rows[i].text), &e);
        if (root == NULL) {
            fail_msg("%s: %s", rows[i].text, e.msg);
        }
        struct buf out = BUF_INIT(1024);
        assert_int_equal(json_canonical(root, &out), 0);
        assert_string_equal(buf_cstr(&out), rows[i].canonical);
        buf_reset(&out);
        cJSON_Delete(root);
    }
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len;
        const char *says;
    } rows[] = {
#define ROW(text, says) {text, sizeof(text) - 1, says}
        ROW("", "line 1, column 1: JSON ends too early"),
        ROW("{\"a\":1", "line 1, column 6: JSON ends too early"),
        ROW("{\n \"a\":x,\n \"b\":1}", "line 2, column 6: JSON syntax error"),
        ROW("{}\n{}", "line 2, column 1: text after the JSON document"),
        ROW("{}\0", "line 1, column 3: a NUL byte in JSON"),
        ROW("[\n\"a\\u0000b\"]", "line 2, column 3: a NUL in a JSON string"),
        ROW("[\"\\\\\\u0000\"]", "line 1, column 5: a NUL in a JSON string"),
        ROW("[\"\xff\"]", "line 1, column 3: JSON is not UTF-8"),
        ROW("[\"\xed\xa0\x80\"]", "line 1, column 3: JSON is not UTF-8"),
        ROW("{\"a\":1,\"a\":1}", "key \"a\" stands twice in one object"),
        ROW("[{\"a\":1,\"b\":2,\"a\":1}]", "key \"a\" stands twice in one object"),
#undef ROW
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err e = ERR_INIT;
        assert_null(json_parse(rows[i].text, rows[i].len, &e));
        if (e.code != -EINVAL || strcmp(e.msg, rows[i].says) != 0) {
            fail_msg("%s: %s", rows[i].text, e.msg);
        }
    }
}

static void lines(void **state)
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
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(json_line(text, strlen(text), root, rows[i].item), rows[i].line);
    }
    cJSON *other = cJSON_CreateNull();
    assert_int_equal(json_line(text, strlen(text), root, other), 0);
    cJSON_Delete(other);
    cJSON_Delete(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical),
        cmocka_unit_test(refused),
        cmocka_unit_test(lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
