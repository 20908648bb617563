/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "yaml/yaml.h"
#include "json/json.h"

static void expect_json(const char *yaml, const char *json)
{
    struct err e = ERR_INIT;
    struct buf out = BUF_INIT(1 << 20);
    cJSON *tree = yaml_parse(yaml, strlen(yaml), NULL, &e);
    if (tree == NULL) {
        fail_msg("refused: %s\n%s", e.msg, yaml);
    }
    assert_int_equal(json_canonical(tree, &out), 0);
    assert_string_equal(buf_cstr(&out), json);
    buf_reset(&out);
    cJSON_Delete(tree);
}

static void expect_refusal_of(const char *yaml, size_t len, const char *words)
{
    struct err e = ERR_INIT;
    cJSON *tree = yaml_parse(yaml, len, NULL, &e);
    if (tree != NULL) {
        cJSON_Delete(tree);
        fail_msg("taken: %.200s", yaml);
    }
    assert_true(e.code < 0);
    if (strstr(e.msg, words) == NULL) {
        fail_msg("\"%s\" is not in: %s", words, e.msg);
    }
}

static void expect_refusal(const char *yaml, const char *words)
{
    expect_refusal_of(yaml, strlen(yaml), words);
}

static void test_documents(void **state)
{
    (void)state;
    expect_json("", "null");
    expect_json("# nothing\n", "null");
    expect_json("---\n", "null");
    expect_json("a: 1\nb: [x, 'y', \"z\\n\"]\n", "{\"a\":1,\"b\":[\"x\",\"y\",\"z\\u000a\"]}");
    expect_json("a:\n- b: c\n  d: ~\n- []\n- {}\n", "{\"a\":[{\"b\":\"c\",\"d\":null},[],{}]}");
    expect_json("a: '1'\nb: \"true\"\nc: !!str 7\n", "{\"a\":\"1\",\"b\":\"true\",\"c\":\"7\"}");
    expect_json("a: !!int 7\nb: !!bool yes\nc: !!float 1\n", "{\"a\":7,\"b\":true,\"c\":1}");
    expect_json("a: |\n  x\n  y\nb: >-\n  x\n  y\n", "{\"a\":\"x\\u000ay\\u000a\",\"b\":\"x y\"}");
    expect_json("1: a\ntrue: b\n", "{\"1\":\"a\",\"true\":\"b\"}");
    expect_json("on: a\nNo: b\n'yes': c\n", "{\"false\":\"b\",\"true\":\"a\",\"yes\":\"c\"}");
    expect_json("0x1F: a\n1.50: b\n2.0: c\n!!str 012: d\n",
                "{\"012\":\"d\",\"1.5\":\"b\",\"2\":\"c\",\"31\":\"a\"}");
    expect_json("a: ! \"12\"\n", "{\"a\":\"12\"}");
}

static void test_json_is_yaml(void **state)
{
    (void)state;
    expect_json("{\"a\": [1, -2.5, true, null, \"x\\/\\u00e9\"],\n\t\"b\": {}}",
                "{\"a\":[1,-2.5,true,null,\"x/é\"],\"b\":{}}");
}

static void test_aliases(void **state)
{
    (void)state;
    expect_json("a: &x {b: 1}\nc: *x\nd: [*x, *x]\n",
                "{\"a\":{\"b\":1},\"c\":{\"b\":1},\"d\":[{\"b\":1},{\"b\":1}]}");
    expect_json("a: &x 1\nb: &x 2\nc: *x\n", "{\"a\":1,\"b\":2,\"c\":2}");
    expect_refusal("a: *x\n", "line 1, column 4");
    expect_refusal("a: &x [*x]\n", "anchor that is not defined before it");
    expect_refusal("a: &x {k: v}\nb:\n  <<: *x\n", "merge keys (<<) are not supported");
}

static void test_bombs(void **state)
{
    (void)state;
    expect_refusal("a: &a [x,x,x,x,x,x,x,x,x]\n"
                   "b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
                   "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
                   "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
                   "e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"
                   "f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n"
                   "g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n",
                   "line 6");

    struct buf text = BUF_INIT(1 << 20);
    assert_int_equal(buf_append_str(&text, "a: &a \""), 0);
    for (int i = 0; i < 100000; i++) {
        assert_int_equal(buf_append_char(&text, 'x'), 0);
    }
    assert_int_equal(buf_append_str(&text, "\"\nb: ["), 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(buf_append_str(&text, "*a,"), 0);
    }
    assert_int_equal(buf_append_str(&text, "]\n"), 0);
    expect_refusal(buf_cstr(&text), "expand to too much text");
    buf_reset(&text);
}

static void test_depth(void **state)
{
    (void)state;
    char text[2 * YAML_DEPTH_MAX + 8];
    memset(text, '[', YAML_DEPTH_MAX);
    memset(text + YAML_DEPTH_MAX, ']', YAML_DEPTH_MAX);
    text[2 * YAML_DEPTH_MAX] = '\0';
    struct err e = ERR_INIT;
    cJSON *tree = yaml_parse(text, strlen(text), NULL, &e);
    assert_non_null(tree);
    cJSON_Delete(tree);
    memset(text, '[', YAML_DEPTH_MAX + 1);
    expect_refusal(text, "nested too deeply");
    /* Each line nests one level deeper by an alias. */
    struct buf chain = BUF_INIT(1 << 16);
    assert_int_equal(buf_append_str(&chain, "- &a0 x\n"), 0);
    for (int i = 1; i <= YAML_DEPTH_MAX + 1; i++) {
        assert_int_equal(buf_printf(&chain, "- &a%d [*a%d]\n", i, i - 1), 0);
    }
    expect_refusal(buf_cstr(&chain), "nested too deeply");
    buf_reset(&chain);
}

static void test_too_many_values(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(1 << 20);
    assert_int_equal(buf_append_char(&text, '['), 0);
    for (int i = 0; i < YAML_NODES_MAX; i++) {
        assert_int_equal(buf_append_str(&text, "1,"), 0);
    }
    assert_int_equal(buf_append_char(&text, ']'), 0);
    expect_refusal(buf_cstr(&text), "too many values in the document");
    buf_reset(&text);
}

static void test_many_keys_are_fast(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct buf text = BUF_INIT(2 << 20);
    for (int i = 0; i < 100000; i++) {
        assert_int_equal(buf_printf(&text, "k%d: 1\n", i), 0);
    }
    cJSON *tree = yaml_parse((const char *)buf_data(&text), text.len, NULL, &e);
    assert_non_null(tree);
    cJSON_Delete(tree);
    buf_reset(&text);
}

static void test_refusals(void **state)
{
    (void)state;
    expect_refusal("a: b: c\n", "line 1, column 5");
    expect_refusal("a: [1, 2\nb: 3\n", "line 2");
    expect_refusal("x: 1\na: {b: 1, c: 2,\n b: 3}\n",
                   "line 2: duplicate key \"b\" in the mapping at line 2");
    expect_refusal("a: 1\n\"a\": 2\n", "duplicate key \"a\" in the mapping at line 1");
    expect_refusal("a: .inf\n", "line 1, column 4");
    expect_refusal("a: \"x\\0y\"\n", "NUL byte");
    expect_refusal("a: !!binary YQ==\n", "the tag is not supported");
    expect_refusal("a: !!int x\n", "does not match its value");
    expect_refusal("a: !secret x\n", "the tag is not supported");
    expect_refusal("a: !!set {x}\n", "the tag is not supported");
    expect_refusal("? [a]\n: b\n", "a key must be");
    expect_refusal("~: b\n", "an empty key");
    expect_refusal("a: 1\n---\nb: 2\n", "line 2, column 1: more than one document");
    expect_refusal("\ta: 1\n", "line 1");
    expect_refusal_of("a: \xff\xfe\n", 6, "byte 3");
    expect_refusal_of("a: \0b\n", 6, "byte 3");
    expect_refusal_of("\x7f"
                      "ELF\x02\x01\x01\0\0\0",
                      10, "");
}

static void test_streams(void **state)
{
    (void)state;
    static const char text[] = "a: &x 1\n---\n---\nb: 2\n...\n# end\n";
    struct err e = ERR_INIT;
    struct buf out = BUF_INIT(1000);
    cJSON *all = yaml_parse_all(text, strlen(text), NULL, &e);
    assert_non_null(all);
    assert_int_equal(json_canonical(all, &out), 0);
    assert_string_equal(buf_cstr(&out), "[{\"a\":1},null,{\"b\":2}]");
    cJSON_Delete(all);
    buf_reset(&out);
    static const char crossing[] = "a: &x 1\n---\nb: *x\n";
    assert_null(yaml_parse_all(crossing, strlen(crossing), NULL, &e));
}

static void test_lines(void **state)
{
    (void)state;
    static const char text[] = "a: 1\nb:\n  - x\n  - c: |\n      t\n    d: 2\n";
    struct yaml_lines lines = YAML_LINES_INIT;
    struct err e = ERR_INIT;
    cJSON *root = yaml_parse(text, strlen(text), &lines, &e);
    assert_non_null(root);
    const cJSON *list = cJSON_GetObjectItem(root, "b");
    const cJSON *second = cJSON_GetArrayItem(list, 1);
    assert_int_equal(yaml_line_of(&lines, root), 1);
    assert_int_equal(yaml_line_of(&lines, cJSON_GetArrayItem(list, 0)), 3);
    assert_int_equal(yaml_line_of(&lines, second), 4);
    assert_int_equal(yaml_line_of(&lines, cJSON_GetObjectItem(second, "d")), 6);
    assert_int_equal(yaml_line_of(&lines, (const cJSON *)&e), 0);
    yaml_lines_deinit(&lines);
    cJSON_Delete(root);
}

static void expect_emitted(const char *json, const char *yaml)
{
    struct err e = ERR_INIT;
    struct buf out = BUF_INIT(1 << 16);
    cJSON *tree = json_parse(json, strlen(json), &e);
    assert_non_null(tree);
    assert_int_equal(yaml_emit(tree, &out), 0);
    assert_string_equal(buf_cstr(&out), yaml);
    cJSON *again = yaml_parse((const char *)buf_data(&out), out.len, NULL, &e);
    assert_non_null(again);
    assert_true(cJSON_Compare(tree, again, 1));
    cJSON_Delete(again);
    cJSON_Delete(tree);
    buf_reset(&out);
}

static void test_emit(void **state)
{
    (void)state;
    expect_emitted("{\"a\":\"b\",\"n\":1,\"f\":0.5,\"t\":true,\"z\":null}",
                   "a: b\n\"n\": 1\nf: 0.5\nt: true\nz: null\n");
    expect_emitted("{\"l\":[\"x\",{\"k\":\"v\",\"w\":[]}],\"m\":{}}",
                   "l:\n- x\n- k: v\n  w: []\nm: {}\n");
    expect_emitted("{\"s\":\"yes\",\"i\":\"12\",\"c\":\"a: b\",\"e\":\"\",\"u\":\"é\"}",
                   "s: \"yes\"\ni: \"12\"\nc: \"a: b\"\ne: \"\"\nu: \"é\"\n");
    expect_emitted("{\"t\":\"x\\n  y: 1\\n\"}", "t: |\n  x\n    y: 1\n");
    expect_emitted("{\"t\":\" x\\n\"}", "t: \" x\\n\"\n");
    expect_emitted("{\"t\":\"x\\ny\"}", "t: \"x\\ny\"\n");
    expect_emitted("{\"t\":\"a\\u0085b\\u2028c\\u0007\"}", "t: \"a\\Nb\\Lc\\a\"\n");
    expect_emitted("[1e300,-0.1,123456789012345678]",
                   "- 1.0e+300\n- -0.1\n- 1.2345678901234568e+17\n");
    expect_emitted("\"x\"", "x\n");
}

static void test_emit_errors_leave_the_buffer(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(16);
    cJSON *bad = cJSON_CreateString("\xff");
    cJSON *large = cJSON_CreateString("this is longer than sixteen");
    assert_int_equal(buf_append_str(&out, "kept"), 0);
    assert_int_equal(yaml_emit(bad, &out), -EINVAL);
    assert_int_equal(yaml_emit(large, &out), -ENOBUFS);
    assert_string_equal(buf_cstr(&out), "kept");
    cJSON_Delete(bad);
    cJSON_Delete(large);
    buf_reset(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_json_is_yaml),
        cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_too_many_values),
        cmocka_unit_test(test_many_keys_are_fast),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_emit),
        cmocka_unit_test(test_emit_errors_leave_the_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
