/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/pod_labels.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"

/* "a=1|b=2", with what is there. */
static void expect(const char *text, const char *expected)
{
    struct pod_label_list list;
    struct err e = ERR_INIT;
    struct buf out = BUF_INIT(4096);
    if (pod_label_list_parse(slice_str(text), &list, &e) != 0) {
        fail_msg("%s: %s", text, e.msg);
    }
    for (size_t i = 0; i < list.count; i++) {
        const struct selector_label *l = &list.labels[i];
        buf_printf(&out, "%s%.*s=%.*s", i > 0 ? "|" : "", (int)l->key.len, l->key.ptr,
                   (int)l->value.len, l->value.ptr);
    }
    assert_string_equal(buf_cstr(&out), expected);
    buf_reset(&out);
    pod_label_list_deinit(&list);
}

static void test_labels_are_read(void **state)
{
    (void)state;
    expect("", "");
    expect("app=\"web\"", "app=web");
    expect("app=\"web\"\nexample.com/tier=\"\"\n", "app=web|example.com/tier=");
    expect("a=\"\\\"\\\\\\n\\t\\x41\\u00e4\\u20ac\\U0001f600\"", "a=\"\\\n\tA\xc3\xa4\xe2\x82\xac"
                                                                 "\xf0\x9f\x98\x80");
}

static void test_what_is_no_such_file(void **state)
{
    static const char *const texts[] = {
        "\n",
        "app",
        "app=",
        "app=web",
        "app=\"web",
        "app=\"web\n",
        "app=\"web\"x",
        "=\"web\"",
        "a b=\"web\"",
        "app=\"\\\"",
        "app=\"\\q\"",
        "app=\"\\x4\"",
        "app=\"\\x4g\"",
        "app=\"\\u12\"",
        "app=\"\\ud800\"",
        "app=\"\\U00110000\"",
        "app=\"1\"\n\nb=\"2\"",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct pod_label_list list;
        struct err e = ERR_INIT;
        if (pod_label_list_parse(slice_str(texts[i]), &list, &e) != -EINVAL) {
            fail_msg("%s", texts[i]);
        }
        assert_memory_equal(e.msg, "line ", 5);
        assert_null(list.labels);
    }
}

static void test_there_are_bounds(void **state)
{
    struct pod_label_list list;
    struct err e = ERR_INIT;
    struct buf text = BUF_INIT(2 * POD_LABELS_TEXT_MAX);
    (void)state;
    for (int i = 0; i <= POD_LABELS_MAX; i++) {
        buf_append_str(&text, "a=\"1\"\n");
    }
    assert_int_equal(pod_label_list_parse(buf_slice(&text), &list, &e), -E2BIG);
    buf_clear(&text);
    buf_append_str(&text, "a=\"");
    while (text.len <= POD_LABELS_TEXT_MAX) {
        buf_append_char(&text, 'a');
    }
    buf_append_str(&text, "\"");
    assert_int_equal(pod_label_list_parse(buf_slice(&text), &list, &e), -E2BIG);
    buf_reset(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labels_are_read),
        cmocka_unit_test(test_what_is_no_such_file),
        cmocka_unit_test(test_there_are_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
