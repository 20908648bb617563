/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/utf8.h"

static void holds_code_and_message(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    assert_int_equal(e.code, 0);
    assert_int_equal(err_set(&e, -EINVAL, "field %s: %d", "a.b", 3), -EINVAL);
    assert_int_equal(e.code, -EINVAL);
    assert_string_equal(e.msg, "field a.b: 3");
    assert_int_equal(err_set(NULL, -ENOENT, "nobody reads this"), -ENOENT);
    err_prefix(NULL, "nor this");
    assert_true(strlen(err_text(-ENOENT)) > 0);
    assert_string_equal(err_text(-ESTALE), strerror(ESTALE)); /* libuv does not know it */
}

static void prefixes_add_context(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    (void)err_set(&e, -EINVAL, "not a number");
    err_prefix(&e, "line %d", 7);
    err_prefix(&e, "file.json");
    assert_string_equal(e.msg, "file.json: line 7: not a number");
    assert_int_equal(e.code, -EINVAL);
}

static void assert_valid_utf8(const char *text)
{
    struct slice rest = slice_str(text);
    while (rest.len > 0) {
        uint32_t cp;
        size_t n = utf8_decode(rest, &cp);
        assert_int_not_equal(cp, UTF8_REPLACEMENT);
        rest = slice_of(rest.ptr + n, rest.len - n);
    }
}

/* Whatever stands before it, a long text is cut between characters and stays a string. */
static void cuts_between_characters(void **state)
{
    (void)state;
    char text[4 * ERR_MSG_MAX + 1] = "";
    for (size_t i = 0; i < ERR_MSG_MAX; i++) {
        strcat(text, i % 3 == 0 ? "\xf0\x9f\x98\x80" : i % 3 == 1 ? "\xe2\x82\xac" : "\xc3\xa4");
    }
    for (int shift = 0; shift < 12; shift++) {
        struct err e = ERR_INIT;
        (void)err_set(&e, -EINVAL, "%.*s%s", shift, "aaaaaaaaaaaa", text);
        assert_true(strlen(e.msg) >= ERR_MSG_MAX - 8);
        assert_valid_utf8(e.msg);
        err_prefix(&e, "%.*s", shift + 1, "bbbbbbbbbbbbb");
        assert_int_equal(e.msg[0], 'b');
        assert_true(strlen(e.msg) >= ERR_MSG_MAX - 8);
        assert_valid_utf8(e.msg);
        err_prefix(&e, "%s", text);
        assert_valid_utf8(e.msg);
    }
}

static void keeps_short_text_whole(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    (void)err_set(&e, -EINVAL, "%s", "\xc3\xa4");
    assert_string_equal(e.msg, "\xc3\xa4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_code_and_message),
        cmocka_unit_test(prefixes_add_context),
        cmocka_unit_test(cuts_between_characters),
        cmocka_unit_test(keeps_short_text_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
