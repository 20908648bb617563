/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/frames.h"

static void test_lines(void **state)
{
    (void)state;
    struct frames f;
    frames_init(&f, ENCODING_JSON);
    assert_true(frames_at_boundary(&f)); /* nothing came yet */
    assert_int_equal(frames_next(&f, SLICE("{\"type\"")), 0);
    assert_false(frames_at_boundary(&f));
    assert_int_equal(frames_next(&f, SLICE(":1}\n{\"ty")), 4);
    assert_true(frames_at_boundary(&f)); /* what stands behind was not taken */
    assert_int_equal(frames_next(&f, SLICE("{\"ty")), 0);
    assert_int_equal(frames_next(&f, SLICE("")), 0);
    assert_false(frames_at_boundary(&f));
    assert_int_equal(frames_next(&f, SLICE("pe\":2}\n{}\n")), 7);
    assert_int_equal(frames_next(&f, SLICE("\n")), 1);
    assert_true(frames_at_boundary(&f));
}

static void test_lengths(void **state)
{
    (void)state;
    struct frames f;
    frames_init(&f, ENCODING_PROTOBUF);
    assert_int_equal(frames_next(&f, SLICE("\0\0\0\3abc\0\0\0\1x\0\0")), 7);
    assert_int_equal(frames_next(&f, SLICE("\0\0\0\1x\0\0")), 5);
    assert_int_equal(frames_next(&f, SLICE("\0\0")), 0);
    assert_false(frames_at_boundary(&f));
    assert_int_equal(frames_next(&f, SLICE("\0\2yz")), 4);
    assert_true(frames_at_boundary(&f));
    /* An event may hold newlines and have no length at all. */
    assert_int_equal(frames_next(&f, SLICE("\0\0\0\1\n\0\0\0\0")), 5);
    assert_int_equal(frames_next(&f, SLICE("\0\0\0\0")), 4);
    /* The largest length there is. */
    assert_int_equal(frames_next(&f, SLICE("\xff\xff\xff\xff!")), 0);
    assert_false(frames_at_boundary(&f));
    assert_int_equal(frames_next(&f, slice_of("", UINT32_MAX)), UINT32_MAX - 1); /* not read */
    assert_true(frames_at_boundary(&f));
}

/* Makes up events of `encoding`; returns their number. */
static size_t fill(enum encoding encoding, char *stream, size_t *len, size_t ends[64])
{
    size_t events = 0;
    for (*len = 0; *len < 3500; ends[events++] = *len) {
        size_t n = (size_t)(rand() % 300);
        char *at = stream + *len;
        if (encoding == ENCODING_JSON) {
            memset(at, 'x', n);
            at[n] = '\n';
            *len += n + 1;
        } else {
            const char head[] = {0, 0, (char)(n >> 8), (char)n};
            memcpy(at, head, sizeof head);
            memset(at + 4, rand(), n);
            *len += 4 + n;
        }
    }
    return events;
}

/* However a stream is cut into pieces, the whole events seen are the same. */
static void test_any_split_gives_the_same_boundaries(void **state)
{
    (void)state;
    static char stream[4096];
    size_t ends[64];
    size_t len;
    srand(7);
    for (int round = 0; round < 400; round++) {
        struct frames f;
        enum encoding encoding = round % 2 == 0 ? ENCODING_JSON : ENCODING_PROTOBUF;
        size_t events = fill(encoding, stream, &len, ends);
        size_t seen = 0;
        frames_init(&f, encoding);
        for (size_t at = 0; at < len;) {
            size_t step = 1 + (size_t)rand() % 97;
            step = step > len - at ? len - at : step;
            size_t n = frames_next(&f, slice_of(stream + at, step));
            at += n > 0 ? n : step;
            assert_int_equal(frames_at_boundary(&f), n > 0);
            if (n > 0) {
                assert_int_equal(at, ends[seen++]);
            }
        }
        assert_int_equal(seen, events);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_any_split_gives_the_same_boundaries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
