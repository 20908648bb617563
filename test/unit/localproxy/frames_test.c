/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frames.h"

static const struct slice json_type = {"application/json", 16};
static const struct slice protobuf_type = {"application/vnd.kubernetes.protobuf;stream=watch", 48};

static void test_lines(void **state)
{
    (void)state;
    struct frames f;
    frames_init(&f, json_type);
    assert_true(frames_at_boundary(&f)); /* nothing came yet */
    assert_int_equal(frames_feed(&f, SLICE("{\"type\"")), 0);
    assert_false(frames_at_boundary(&f));
    assert_int_equal(frames_feed(&f, SLICE(":1}\n{\"ty")), 4);
    assert_false(frames_at_boundary(&f));
    assert_int_equal(frames_feed(&f, SLICE("pe\":2}\n{}\n")), 10);
    assert_true(frames_at_boundary(&f));
    assert_int_equal(frames_feed(&f, SLICE("")), 0);
    assert_true(frames_at_boundary(&f));
}

static void test_lengths(void **state)
{
    (void)state;
    struct frames f;
    frames_init(&f, protobuf_type);
    assert_true(frames_at_boundary(&f));
    assert_int_equal(frames_feed(&f, SLICE("\0\0\0\3abc\0\0\0\1x\0\0")), 12);
    assert_false(frames_at_boundary(&f));
    assert_int_equal(frames_feed(&f, SLICE("\0\2yz")), 4);
    assert_true(frames_at_boundary(&f));
    /* An event may hold newlines and have no length at all. */
    assert_int_equal(frames_feed(&f, SLICE("\0\0\0\1\n\0\0\0\0")), 9);
    assert_true(frames_at_boundary(&f));
}

/* However a stream is cut into pieces, the whole events seen are the same. */
static void test_any_split_gives_the_same_boundaries(void **state)
{
    (void)state;
    char stream[4096];
    size_t ends[64];
    size_t len = 0;
    size_t events = 0;
    srand(7);
    while (len < 3500) {
        size_t n = (size_t)(rand() % 300);
        stream[len] = 0;
        stream[len + 1] = 0;
        stream[len + 2] = (char)(n >> 8);
        stream[len + 3] = (char)n;
        memset(stream + len + 4, rand(), n);
        len += 4 + n;
        ends[events++] = len;
    }
    for (int round = 0; round < 200; round++) {
        struct frames f;
        frames_init(&f, protobuf_type);
        size_t complete = 0;
        for (size_t at = 0; at < len;) {
            size_t step = 1 + (size_t)rand() % 97;
            step = step > len - at ? len - at : step;
            size_t whole = frames_feed(&f, slice_of(stream + at, step));
            complete = whole > 0 ? at + whole : complete;
            at += step;
            size_t expected = 0;
            for (size_t i = 0; i < events && ends[i] <= at; i++) {
                expected = ends[i];
            }
            assert_int_equal(complete, expected);
            assert_int_equal(frames_at_boundary(&f), expected == at);
        }
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
