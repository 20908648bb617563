/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"

static void test_every_code_point(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(8);
    for (uint32_t cp = 0; cp < 0x110800; cp++) {
        bool valid = cp <= 0x10ffff && (cp < 0xd800 || cp > 0xdfff);
        uint32_t back;
        buf_clear(&out);
        assert_int_equal(utf8_append(&out, cp), valid ? 0 : -EINVAL);
        if (valid) {
            assert_int_equal(utf8_decode(buf_slice(&out), &back), out.len);
            assert_int_equal(back, cp);
        }
    }
    buf_reset(&out);
}

static void test_invalid_bytes_are_replaced(void **state)
{
    (void)state;
    static const struct {
        struct slice text;
        const char *valid;
    } cases[] = {
        {SLICE("a\xc3\xa4z"), "a\xc3\xa4z"},
        {SLICE("\xff"), "\xef\xbf\xbd"},
        {SLICE("\xc0\x80"), "\xef\xbf\xbd\xef\xbf\xbd"},
        {SLICE("\xe2\x82"), "\xef\xbf\xbd\xef\xbf\xbd"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf out = BUF_INIT(32);
        assert_int_equal(utf8_append_valid(&out, cases[i].text), 0);
        assert_string_equal(buf_cstr(&out), cases[i].valid);
        buf_reset(&out);
    }
}

static void test_plain_copies_are_cut_between_characters(void **state)
{
    static const struct {
        const char *text;
        const char *copy;
    } cases[] = {
        {"", ""},
        {"abcde", "abcde"},
        {"abcdef", "abcde"},
        {"abc\xe2\x82\xac", "abc"},
        {"ab\xe2\x82\xac"
         "c",
         "ab\xe2\x82\xac"},
        {"a\n\x1b"
         "b\x7f",
         "a  b "},
        {"\xc2\x9b"
         "2J\xc2\xa0",
         "  2J"},
        {"\xc2\x9b\xc2\xa0", "  \xc2\xa0"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char out[6];
        utf8_copy_plain(out, sizeof out, cases[i].text);
        assert_string_equal(out, cases[i].copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_point),
        cmocka_unit_test(test_plain_copies_are_cut_between_characters),
        cmocka_unit_test(test_invalid_bytes_are_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
