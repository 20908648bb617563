/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/plain_path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"

static void test_forms(void **state)
{
    static const struct {
        const char *path;
        const char *plain;
    } cases[] = {
        {"", "/"},
        {"/", "/"},
        {"//", "/"},
        {"/a", "/a"},
        {"/a/", "/a/"},
        {"//a///b//", "/a/b/"},
        {"/.", "/"},
        {"/..", "/"},
        {"/../..", "/"},
        {"/a/.", "/a/"},
        {"/a/..", "/"},
        {"/a/../", "/"},
        {"/a/./b", "/a/b"},
        {"/a/b/../c", "/a/c"},
        {"/a/b/../../../c", "/c"},
        {"/a//../b", "/b"}, /* an empty segment is none, so it is not what goes away */
        {"/...", "/..."},
        {"/.a/..b/c..", "/.a/..b/c.."},
        {"/%61", "/a"},
        {"/%2e%2E/a", "/a"},
        {"/a/%2e/b", "/a/b"},
        {"/a/.%2e/b", "/b"},
        {"/a%2Fb", "/a/b"},
        {"/a%2f%2e%2e%2fb", "/b"},
        {"/a%2f%2fb", "/a/b"},
        {"%2Fa", "/a"},
        {"/%252e%252e/a", "/%2e%2e/a"}, /* once */
        {"/%", "/%"},
        {"/%4", "/%4"},
        {"/%zz/a", "/%zz/a"},
        {"/%3Fx", "/?x"},
        {"/\xc3\xa4/%c3%a4", "/\xc3\xa4/\xc3\xa4"},
        {"/a;x/b", "/a;x/b"},
        {"/A", "/A"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct plain_path p;
        plain_path_read(&p, slice_str(cases[i].path));
        if (!p.whole || !slice_eq(slice_of(p.text, p.len), slice_str(cases[i].plain))) {
            fail_msg("%s: %.*s", cases[i].path, (int)p.len, p.text);
        }
    }
}

static void test_zero_byte(void **state)
{
    struct plain_path p;
    (void)state;
    plain_path_read(&p, SLICE("/a%00b"));
    assert_true(slice_eq(slice_of(p.text, p.len), slice_of("/a\0b", 4)));
}

/* "/a" and a segment of so many bytes, and something behind. */
static void read_long(struct plain_path *p, size_t bytes, const char *behind)
{
    struct buf b = BUF_INIT(1 << 20);
    buf_append_str(&b, "/a/");
    for (size_t i = 0; i < bytes; i++) {
        buf_append_char(&b, 'x');
    }
    buf_append_str(&b, behind);
    assert_int_equal(buf_error(&b), 0);
    plain_path_read(p, buf_slice(&b));
    buf_reset(&b);
}

static void test_long_ones(void **state)
{
    static const struct {
        size_t bytes;
        const char *behind;
        const char *plain; /* NULL: it is not whole, but begins as it is */
    } cases[] = {
        {PLAIN_PATH_MAX - 4, "", NULL}, /* just fits: looked at below */
        {PLAIN_PATH_MAX - 2, "", NULL},
        {PLAIN_PATH_MAX - 2, "/..", "/a/"},
        {PLAIN_PATH_MAX - 2, "/../b", "/a/b"},
        {PLAIN_PATH_MAX - 2, "/./../b", "/a/b"},
        {PLAIN_PATH_MAX - 2, "//..//b", "/a/b"},
        {PLAIN_PATH_MAX - 2, "/y/..", NULL},
        {PLAIN_PATH_MAX - 2, "/y/../../b", "/a/b"},
        {PLAIN_PATH_MAX - 2, "/y/../../../b", "/b"},
        {PLAIN_PATH_MAX - 2, "/y/z/../../..", "/a/"},
        {PLAIN_PATH_MAX - 3, "/..", "/a/"},
        {PLAIN_PATH_MAX - 3, "/b/../..", "/a/"},
        {PLAIN_PATH_MAX - 3, "/b/../../c", "/a/c"},
        {PLAIN_PATH_MAX - 4, "/b/../../c", "/a/c"},
        {PLAIN_PATH_MAX - 5, "/b/../../c", "/a/c"},
        {PLAIN_PATH_MAX * 3, "/..", "/a/"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct plain_path p;
        read_long(&p, cases[i].bytes, cases[i].behind);
        bool as_said = cases[i].plain == NULL ? p.len > 1000 && memcmp(p.text, "/a/xxx", 6) == 0
                                              : p.whole && slice_eq(slice_of(p.text, p.len),
                                                                    slice_str(cases[i].plain));
        if (!as_said) {
            fail_msg("%zu: %zu bytes, %.20s", i, p.len, p.text);
        }
    }
    struct plain_path p;
    read_long(&p, PLAIN_PATH_MAX - 3, "");
    assert_true(p.whole);
    assert_int_equal(p.len, PLAIN_PATH_MAX);
    read_long(&p, PLAIN_PATH_MAX - 2, "");
    assert_false(p.whole);
    read_long(&p, PLAIN_PATH_MAX - 3, "/");
    assert_false(p.whole);
}

/* What is plain stays as it is. */
static void test_is_stable(void **state)
{
    static const char alphabet[] = "/./.ab%2eF";
    uint32_t seed = 1;
    (void)state;
    for (int round = 0; round < 20000; round++) {
        char text[16];
        struct plain_path p;
        struct plain_path again;
        for (size_t i = 0; i < sizeof text; i++) {
            seed = seed * 1664525 + 1013904223;
            text[i] = alphabet[(seed >> 16) % (sizeof alphabet - 1)];
        }
        text[0] = '/';
        plain_path_read(&p, slice_of(text, sizeof text));
        if (memchr(p.text, '%', p.len) != NULL) {
            continue;
        }
        plain_path_read(&again, slice_of(p.text, p.len));
        if (!slice_eq(slice_of(p.text, p.len), slice_of(again.text, again.len)) || p.len == 0 ||
            p.text[0] != '/' || memmem(p.text, p.len, "//", 2) != NULL) {
            fail_msg("%.16s: %.*s, %.*s", text, (int)p.len, p.text, (int)again.len, again.text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_zero_byte),
        cmocka_unit_test(test_long_ones),
        cmocka_unit_test(test_is_stable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
