/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

static void assert_content(struct buf *b, const char *want)
{
    assert_int_equal(b->len, strlen(want));
    assert_string_equal(buf_cstr(b), want);
}

static void appends_in_order(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(100);
    assert_int_equal(buf_append(&b, "ab", 2), 0);
    assert_int_equal(buf_append(&b, NULL, 0), 0);
    assert_int_equal(buf_append_str(&b, "cd"), 0);
    assert_int_equal(buf_append_char(&b, 'e'), 0);
    assert_int_equal(buf_printf(&b, "%s-%d", "f", 7), 0);
    assert_content(&b, "abcdef-7");
    buf_reset(&b);
    assert_null(buf_data(&b));
    assert_int_equal(buf_append_str(&b, "again"), 0);
    assert_content(&b, "again");
    buf_reset(&b);
}

static void never_grows_past_its_maximum(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(4);
    assert_int_equal(buf_append_str(&b, "abc"), 0);
    assert_null(buf_reserve(&b, 2));
    assert_int_equal(buf_append_str(&b, "de"), -ENOBUFS);
    assert_int_equal(buf_settle(&b, 3), -ENOBUFS);
    assert_int_equal(buf_printf(&b, "%d", 12), -ENOBUFS);
    assert_int_equal(buf_settle(&b, 3), -ENOBUFS);
    assert_content(&b, "abc");
    assert_int_equal(buf_append_char(&b, 'd'), 0);
    assert_int_equal(buf_append_char(&b, 'e'), -ENOBUFS);
    assert_int_equal(buf_settle(&b, 4), -ENOBUFS);
    assert_content(&b, "abcd");
    buf_reset(&b);
}

static void the_first_error_stays(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(4);
    assert_int_equal(buf_settle(&b, 0), 0);
    buf_append_str(&b, "abc");
    buf_append_str(&b, "de");
    /* These would fit. */
    assert_int_equal(buf_append_char(&b, 'f'), -ENOBUFS);
    assert_int_equal(buf_append(&b, NULL, 0), -ENOBUFS);
    assert_int_equal(buf_printf(&b, "%d", 1), -ENOBUFS);
    assert_int_equal(buf_fail(&b, -EINVAL), -ENOBUFS);
    assert_null(buf_reserve(&b, 1));
    assert_null(buf_cstr(&b));
    assert_null(buf_take_str(&b));
    assert_int_equal(buf_error(&b), -ENOBUFS);
    assert_int_equal(b.len, 3);
    assert_int_equal(buf_settle(&b, 1), -ENOBUFS);
    assert_int_equal(buf_error(&b), 0);
    assert_content(&b, "a");
    assert_int_equal(buf_fail(&b, -EINVAL), -EINVAL);
    buf_truncate(&b, 1);
    assert_content(&b, "a");
    buf_fail(&b, -EINVAL);
    buf_clear(&b);
    assert_content(&b, "");
    buf_fail(&b, -EINVAL);
    buf_reset(&b);
    assert_content(&b, "");
    buf_reset(&b);
}

static void refuses_sizes_that_overflow(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(SIZE_MAX);
    assert_int_equal(buf_append_str(&b, "a"), 0);
    assert_null(buf_reserve(&b, SIZE_MAX));
    assert_null(buf_reserve(&b, SIZE_MAX - 1));
    assert_content(&b, "a");
    buf_reset(&b);
}

/* What is consumed makes room, for ever, and the content moves along. */
static void consumes_from_the_front(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(64);
    char next = 0;
    char expected = 0;
    for (int round = 0; round < 10000; round++) {
        size_t in = (size_t)round * 7 % 13;
        for (size_t i = 0; i < in && b.len < b.max; i++) {
            assert_int_equal(buf_append_char(&b, next++), 0);
        }
        size_t out = (size_t)round * 5 % 11;
        for (size_t i = 0; i < out && b.len > 0; i++) {
            assert_int_equal((char)*buf_data(&b), expected++);
            buf_consume(&b, 1);
        }
        assert_true(b.cap <= 4 * b.max);
    }
    buf_reset(&b);
}

static void reserves_and_commits(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1000);
    assert_int_equal(buf_append_str(&b, "x"), 0);
    uint8_t *room = buf_reserve(&b, 500);
    assert_non_null(room);
    memset(room, 'y', 500);
    buf_commit(&b, 2);
    assert_content(&b, "xyy");
    buf_clear(&b);
    assert_int_equal(b.len, 0);
    assert_content(&b, "");
    buf_reset(&b);
}

static void gives_back_what_it_does_not_need(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1000);
    buf_fit(&b);
    assert_int_equal(b.cap, 0);
    for (size_t i = 0; i < 300; i++) {
        assert_int_equal(buf_append_char(&b, 'x'), 0);
    }
    buf_consume(&b, 298);
    assert_int_equal(b.cap, 512);
    buf_fit(&b);
    assert_int_equal(b.cap, 301);
    assert_content(&b, "xx");
    assert_int_equal(buf_append_str(&b, "more"), 0);
    assert_content(&b, "xxmore");
    buf_reset(&b);
}

static void gives_its_text_away(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(100);
    assert_int_equal(buf_append_str(&b, "skipped text"), 0);
    buf_consume(&b, 8);
    char *text = buf_take_str(&b);
    assert_string_equal(text, "text");
    assert_int_equal(b.len, 0);
    assert_int_equal(b.max, 100);
    free(text);
    text = buf_take_str(&b);
    assert_string_equal(text, "");
    free(text);
    buf_reset(&b);
}

/* That nothing of it is left is seen in the memory of a process: webhook/server_test.c. */
static void a_secret_is_overwritten(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 20);
    b.secret = true;
    assert_int_equal(buf_append_str(&b, "secret"), 0);
    uint8_t *first = buf_reserve(&b, 1);
    assert_non_null(first);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(buf_append_str(&b, " and more of it"), 0);
    }
    assert_int_equal(b.len, 6 + 100 * 15);
    assert_memory_equal(buf_data(&b), "secret and more of it and", 25);
    buf_reset(&b);
    assert_true(b.secret);
    assert_int_equal(b.max, 1 << 20);
    assert_int_equal(buf_append_str(&b, "x"), 0);
    buf_reset(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_in_order),
        cmocka_unit_test(never_grows_past_its_maximum),
        cmocka_unit_test(the_first_error_stays),
        cmocka_unit_test(refuses_sizes_that_overflow),
        cmocka_unit_test(consumes_from_the_front),
        cmocka_unit_test(reserves_and_commits),
        cmocka_unit_test(gives_its_text_away),
        cmocka_unit_test(gives_back_what_it_does_not_need),
        cmocka_unit_test(a_secret_is_overwritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
