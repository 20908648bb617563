/* SPDX-License-Identifier: Apache-2.0 */
#include "object/json_patch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "growth.h"
#include "patch_apply.h"
#include "json/json.h"

static cJSON *parse(const char *text)
{
    struct err e = ERR_INIT;
    cJSON *tree = json_parse(text, strlen(text), &e);
    if (tree == NULL) {
        fail_msg("the test's own JSON: %s: %s", e.msg, text);
    }
    return tree;
}

static char *print(const cJSON *tree)
{
    struct buf out = BUF_INIT(1 << 20);
    assert_int_equal(json_canonical(tree, &out), 0);
    char *text = buf_take_str(&out);
    assert_non_null(text);
    return text;
}

/* The patch must be `want`, and make `to` of `from`. */
static void check(const char *from_text, const char *to_text, const char *want)
{
    cJSON *from = parse(from_text);
    cJSON *to = parse(to_text);
    cJSON *patch = json_patch_diff(from, to);
    assert_non_null(patch);
    char *text = print(patch);
    if (want != NULL) {
        assert_string_equal(text, want);
    }
    cJSON *made = patch_apply(from, patch);
    if (made == NULL) {
        fail_msg("%s does not fit %s", text, from_text);
    }
    char *got = print(made);
    char *wanted = print(to);
    assert_string_equal(got, wanted);
    free(text);
    free(got);
    free(wanted);
    cJSON_Delete(made);
    cJSON_Delete(patch);
    cJSON_Delete(to);
    cJSON_Delete(from);
}

static void equal_documents_need_nothing(void **state)
{
    (void)state;
    static const char *const documents[] = {
        "{}",
        "[]",
        "null",
        "\"a\"",
        "1.5",
        "true",
        "{\"a\":[1,\"b\",null,{\"c\":false}],\"d\":{}}",
        "[{\"name\":\"a\"},{\"name\":\"a\"}]",
    };
    for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
        check(documents[i], documents[i], "[]");
    }
    check("{\"a\":1,\"b\":{\"c\":2,\"d\":3}}", "{\"b\":{\"d\":3,\"c\":2},\"a\":1}", "[]");
    check("[{\"c\":2,\"d\":3}]", "[{\"d\":3,\"c\":2}]", "[]");
}

static void members(void **state)
{
    (void)state;
    check("{}", "{\"a\":1}", "[{\"op\":\"add\",\"path\":\"/a\",\"value\":1}]");
    check("{\"a\":1}", "{}", "[{\"op\":\"remove\",\"path\":\"/a\"}]");
    check("{\"a\":1}", "{\"a\":2}", "[{\"op\":\"replace\",\"path\":\"/a\",\"value\":2}]");
    check("{\"a\":null}", "{\"a\":{}}", "[{\"op\":\"replace\",\"path\":\"/a\",\"value\":{}}]");
    check("{\"a\":{\"b\":{\"c\":\"x\"}}}", "{\"a\":{\"b\":{\"c\":\"y\"}}}",
          "[{\"op\":\"replace\",\"path\":\"/a/b/c\",\"value\":\"y\"}]");
    check("{\"a\":true}", "{\"a\":false}",
          "[{\"op\":\"replace\",\"path\":\"/a\",\"value\":false}]");
    check("{\"x\":1,\"a\":1}", "{\"a\":1,\"y\":1}",
          "[{\"op\":\"remove\",\"path\":\"/x\"},{\"op\":\"add\",\"path\":\"/y\",\"value\":1}]");
    check("1", "{}", "[{\"op\":\"replace\",\"path\":\"\",\"value\":{}}]");
}

/* RFC 6901: `~` is `~0` and `/` is `~1`; label keys have the latter. */
static void keys_are_escaped(void **state)
{
    (void)state;
    check("{\"l\":{}}", "{\"l\":{\"a.io/b\":\"c\"}}",
          "[{\"op\":\"add\",\"path\":\"/l/a.io~1b\",\"value\":\"c\"}]");
    check("{\"~1\":1}", "{\"~1\":2}", "[{\"op\":\"replace\",\"path\":\"/~01\",\"value\":2}]");
    check("{\"\":1}", "{\"\":2}", "[{\"op\":\"replace\",\"path\":\"/\",\"value\":2}]");
    check("{\"~0/\":{\"/~\":1}}", "{\"~0/\":{\"/~\":3}}", NULL);
}

static void items_without_name(void **state)
{
    (void)state;
    check("[]", "[1,2]",
          "[{\"op\":\"add\",\"path\":\"/0\",\"value\":1},{\"op\":\"add\",\"path\":\"/"
          "1\",\"value\":2}]");
    check("[1,2]", "[]",
          "[{\"op\":\"remove\",\"path\":\"/0\"},{\"op\":\"remove\",\"path\":\"/0\"}]");
    check("[\"a\",\"b\"]", "[\"a\",\"b\",\"c\"]",
          "[{\"op\":\"add\",\"path\":\"/2\",\"value\":\"c\"}]");
    check("[\"a\",\"b\"]", "[\"x\",\"a\",\"b\"]",
          "[{\"op\":\"add\",\"path\":\"/0\",\"value\":\"x\"}]");
    check("[\"a\",\"b\",\"c\"]", "[\"a\",\"c\"]", "[{\"op\":\"remove\",\"path\":\"/1\"}]");
    check("[\"a\",\"b\",\"c\"]", "[\"a\",\"x\",\"c\"]",
          "[{\"op\":\"replace\",\"path\":\"/1\",\"value\":\"x\"}]");
    check("[1,2,3]", "[3,2,1]", NULL);
    check("[[1],[2]]", "[[2],[1,1]]", NULL);
    check("[1,1,1]", "[1]", NULL);
    check("[1]", "[1,1,1]", NULL);
}

/* What stands in a named item is compared, wherever the item moved to. */
static void items_with_names(void **state)
{
    (void)state;
    check("{\"c\":[{\"name\":\"op\",\"args\":[\"-v\"]}]}",
          "{\"c\":[{\"name\":\"proxy\"},{\"name\":\"op\",\"args\":[\"-v\",\"-k\"]}]}",
          "[{\"op\":\"add\",\"path\":\"/c/0\",\"value\":{\"name\":\"proxy\"}},"
          "{\"op\":\"add\",\"path\":\"/c/1/args/1\",\"value\":\"-k\"}]");
    check(
        "[{\"name\":\"a\",\"v\":1},{\"name\":\"b\",\"v\":1}]", "[{\"name\":\"b\",\"v\":2}]",
        "[{\"op\":\"remove\",\"path\":\"/0\"},{\"op\":\"replace\",\"path\":\"/0/v\",\"value\":2}]");
    check("[{\"name\":\"a\"},{\"name\":\"b\"}]", "[{\"name\":\"b\"},{\"name\":\"a\"}]", NULL);
    check("[{\"name\":\"a\",\"p\":\"/x\"},{\"name\":\"a\",\"p\":\"/y\"}]",
          "[{\"name\":\"a\",\"p\":\"/y\"},{\"name\":\"a\",\"p\":\"/z\"},{\"name\":\"b\"}]", NULL);
    check("[{\"name\":1}]", "[{\"name\":\"1\"}]", NULL);
}

/* All pairs of many small documents. */
static void any_pair_of_documents(void **state)
{
    (void)state;
    static const char *const documents[] = {
        "null",
        "{}",
        "[]",
        "[null]",
        "{\"a\":[]}",
        "{\"a\":[1,2,{\"name\":\"x\"}],\"b\":\"\"}",
        "{\"b\":\"\",\"a\":[{\"name\":\"x\",\"v\":1},1]}",
        "[{\"name\":\"x\"},{\"name\":\"y\"},{\"name\":\"z\"}]",
        "[{\"name\":\"z\"},{\"name\":\"new\"},{\"name\":\"x\",\"e\":[1]}]",
        "[1,2,3,4,5]",
        "[5,1,3,6]",
        "[[],[[]],{}]",
        "{\"a/b\":{\"c~d\":[[1]]}}",
        "{\"a/b\":{\"c~d\":[[1,2],3]}}",
        "\"text\"",
    };
    size_t n = ARRAY_LEN(documents);
    for (size_t i = 0; i < n * n; i++) {
        check(documents[i / n], documents[i % n], NULL);
    }
}

/* Every other item goes, and each of the others changes: with names, and without. */
static void lists_cost_no_more_than_their_length(void **state)
{
    enum { ITEMS = 20000, TIMES = 40 };
    (void)state;
    for (int named = 0; named < 2; named++) {
        clock_t begun = clock();
        struct buf text = BUF_INIT(ITEMS * 64);
        buf_append_char(&text, '[');
        for (unsigned i = 0; i < ITEMS; i++) {
            buf_printf(&text, named ? "%s{\"name\":\"n%u\",\"v\":1}" : "%s{\"v\":%u}",
                       i == 0 ? "" : ",", i);
        }
        buf_append_char(&text, ']');
        cJSON *from = parse(buf_cstr(&text));
        cJSON *to = parse(buf_cstr(&text));
        cJSON *next = to->child;
        for (unsigned i = 0; next != NULL; i++) {
            cJSON *item = next;
            next = next->next;
            if (i % 2 == 0) {
                cJSON_Delete(cJSON_DetachItemViaPointer(to, item));
            } else {
                cJSON_GetObjectItem(item, "v")->valuedouble = -1.0 - i;
            }
        }
        clock_t made = clock();
        cJSON *patch = json_patch_diff(from, to);
        clock_t took = clock() - made;
        assert_int_equal(cJSON_GetArraySize(patch), ITEMS);
        assert_in_range(took, 0, TIMES * (made - begun));
        cJSON_Delete(patch);
        cJSON_Delete(from);
        cJSON_Delete(to);
        buf_reset(&text);
    }
}

/* {"k0":0,"k1":1,...} in one order or the other. */
static cJSON *many_members(size_t count, bool reversed)
{
    struct buf text = BUF_INIT(1 << 22);
    buf_append_char(&text, '{');
    for (size_t i = 0; i < count; i++) {
        size_t k = reversed ? count - 1 - i : i;
        buf_printf(&text, "%s\"k%zu\":%zu", i > 0 ? "," : "", k, k);
    }
    buf_append_char(&text, '}');
    cJSON *tree = parse(buf_cstr(&text));
    buf_reset(&text);
    return tree;
}

static void compare_members(void *data, size_t count)
{
    (void)data;
    cJSON *a = many_members(count, false);
    cJSON *b = many_members(count, true);
    assert_true(json_patch_equal(a, b));
    cJSON_Delete(a);
    cJSON_Delete(b);
}

static void diff_items(void *data, size_t count)
{
    cJSON *from = cJSON_CreateArray();
    cJSON *to = cJSON_CreateArray();
    (void)data;
    for (size_t i = 0; i < count; i++) {
        assert_true(cJSON_AddItemToArray(from, cJSON_CreateNumber((double)i)));
        assert_true(cJSON_AddItemToArray(to, cJSON_CreateNumber((double)(i + count))));
    }
    cJSON *patch = json_patch_diff(from, to);
    assert_int_equal(cJSON_GetArraySize(patch), (int)count);
    cJSON_Delete(patch);
    cJSON_Delete(from);
    cJSON_Delete(to);
}

/* Who sends a review chooses both documents. */
static void no_pair_of_documents_takes_long(void **state)
{
    (void)state;
    double members = growth_of(compare_members, NULL, 2000);
    double items = growth_of(diff_items, NULL, 1000);
    if (members > 24 || items > 24) {
        fail_msg("eight times the members take %.1f, the items %.1f times as long", members, items);
    }
}

/* Objects within objects, each in another order, are sorted once each. */
static void deep_documents_in_another_order(void **state)
{
    enum { DEPTH = 200 };
    struct buf one = BUF_INIT(65536);
    struct buf other = BUF_INIT(65536);
    (void)state;
    for (int i = 0; i < DEPTH; i++) {
        buf_append_str(&one, "{\"a\":");
        buf_append_str(&other, "{\"b\":1,\"c\":2,\"a\":");
    }
    buf_append_str(&one, "0");
    buf_append_str(&other, "0");
    for (int i = 0; i < DEPTH; i++) {
        buf_append_str(&one, ",\"c\":2,\"b\":1}");
        buf_append_str(&other, "}");
    }
    cJSON *a = parse(buf_cstr(&one));
    cJSON *b = parse(buf_cstr(&other));
    assert_true(json_patch_equal(a, b));
    cJSON_Delete(a);
    cJSON_Delete(b);
    buf_reset(&one);
    buf_reset(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_documents_need_nothing),
        cmocka_unit_test(members),
        cmocka_unit_test(keys_are_escaped),
        cmocka_unit_test(items_without_name),
        cmocka_unit_test(items_with_names),
        cmocka_unit_test(any_pair_of_documents),
        cmocka_unit_test(no_pair_of_documents_takes_long),
        cmocka_unit_test(deep_documents_in_another_order),
        cmocka_unit_test(lists_cost_no_more_than_their_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
