/* SPDX-License-Identifier: Apache-2.0 */
#include "base/splice.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static const struct slice text = {.ptr = "one two three", .len = 13};

static struct slice part(size_t start, size_t len)
{
    return slice_of(text.ptr + start, len);
}

static void replaces_parts(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(100);
    struct splice s;
    assert_int_equal(buf_append_str(&out, ">"), 0);
    splice_init(&s, text, &out);
    splice_replace(&s, part(0, 3), SLICE("1"));
    splice_replace(&s, part(4, 0), SLICE("and "));
    splice_replace(&s, part(4, 3), SLICE(""));
    splice_replace(&s, part(8, 5), SLICE("threeee"));
    assert_int_equal(splice_finish(&s), 0);
    assert_string_equal(buf_cstr(&out), ">1 and  threeee");
    buf_reset(&out);
}

static void copies_when_nothing_is_replaced(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(100);
    struct splice s;
    splice_init(&s, text, &out);
    assert_int_equal(splice_finish(&s), 0);
    assert_string_equal(buf_cstr(&out), "one two three");
    buf_reset(&out);
}

static void takes_everything_back_on_error(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(13);
    struct splice s;
    assert_int_equal(buf_append_str(&out, ">"), 0);
    splice_init(&s, text, &out);
    splice_replace(&s, part(0, 3), SLICE("1"));
    splice_replace(&s, part(4, 3), SLICE("much too long"));
    splice_replace(&s, part(8, 5), SLICE("3"));
    assert_int_equal(splice_finish(&s), -ENOBUFS);
    assert_string_equal(buf_cstr(&out), ">");
    buf_reset(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replaces_parts),
        cmocka_unit_test(copies_when_nothing_is_replaced),
        cmocka_unit_test(takes_everything_back_on_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
