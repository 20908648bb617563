/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "http/h1_line.h"

static enum h1_line_result scan(const char *text, size_t len, size_t *used)
{
    struct h1_line line = {.len = 0, .cr = false};
    return h1_line_scan(&line, text, len, used);
}

/* Byte `c` at every place among others that are checked with it, in a line of that length. */
static void look_for(int c, char neighbour, size_t len)
{
    char text[32];
    size_t used;
    bool bad = (c < 0x20 && c != '\t') || c == 0x7f;
    for (size_t at = 0; at < len; at++) {
        memset(text, neighbour, len);
        memcpy(text + len, "\r\n", 2);
        text[at] = (char)c;
        enum h1_line_result got = scan(text, len + 2, &used);
        if (got != (bad ? H1_LINE_BAD : H1_LINE_DONE)) {
            fail_msg("byte %d at %zu of %zu among %d: %d", c, at, len, neighbour, got);
        }
    }
}

static void finds_control_bytes_anywhere(void **state)
{
    (void)state;
    static const char neighbours[] = {' ', '~', '\x80', '\xff', '\t', 'a'};
    static const size_t lengths[] = {1, 7, 8, 9, 15, 16, 20};
    for (size_t k = 0; k < sizeof neighbours; k++) {
        for (int c = 0; c < 256; c++) {
            for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++) {
                look_for(c, neighbours[k], lengths[n]);
            }
        }
    }
}

static void ends_at_the_first_line_end(void **state)
{
    (void)state;
    size_t used = 0;
    assert_int_equal(scan("ab\r\ncd\r\n", 8, &used), H1_LINE_DONE);
    assert_int_equal(used, 4);
    assert_int_equal(scan("\r\n\x01", 3, &used), H1_LINE_DONE);
    assert_int_equal(used, 2);
    assert_int_equal(scan("ab", 2, &used), H1_LINE_OPEN);
    assert_int_equal(used, 2);
}

static void pieces_make_one_line(void **state)
{
    (void)state;
    struct h1_line line = {.len = 0, .cr = false};
    size_t used = 0;
    assert_true(h1_line_folds(&line, " "));
    assert_true(h1_line_folds(&line, "\t"));
    assert_int_equal(h1_line_scan(&line, "ab", 2, &used), H1_LINE_OPEN);
    assert_false(h1_line_folds(&line, " "));
    assert_int_equal(h1_line_scan(&line, "c\r", 2, &used), H1_LINE_OPEN);
    assert_int_equal(line.len, 3);
    struct h1_line copy = line;
    assert_int_equal(h1_line_scan(&copy, "\r\n", 2, &used), H1_LINE_BAD);
    copy = line;
    assert_int_equal(h1_line_scan(&copy, "d", 1, &used), H1_LINE_BAD);
    assert_int_equal(h1_line_scan(&line, "\nd", 2, &used), H1_LINE_DONE);
    assert_int_equal(used, 1);
    assert_int_equal(line.len, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_control_bytes_anywhere),
        cmocka_unit_test(ends_at_the_first_line_end),
        cmocka_unit_test(pieces_make_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
