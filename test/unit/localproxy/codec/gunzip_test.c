/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <zlib.h>

#include "base/buf.h"
#include "codec/gunzip.h"

enum { GZIP_ONLY = 16 + MAX_WBITS, BLOCK = 1 << 16 };

/* `count` blocks of spaces, of which each begins with `varied` bytes of no order. */
static void zip(size_t count, size_t varied, struct buf *out)
{
    static unsigned char block[BLOCK];
    z_stream z = {.next_in = NULL};
    uint32_t random = 1;
    assert_int_equal(deflateInit2(&z, 1, Z_DEFLATED, GZIP_ONLY, 8, Z_DEFAULT_STRATEGY), Z_OK);
    memset(block, ' ', sizeof block);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < varied; j++) {
            random = random * 1664525 + 1013904223;
            block[j] = (unsigned char)(random >> 24);
        }
        z.next_in = block;
        z.avail_in = sizeof block;
        do {
            z.next_out = buf_reserve(out, BLOCK);
            assert_non_null(z.next_out);
            z.avail_out = BLOCK;
            assert_true(deflate(&z, i + 1 < count ? Z_NO_FLUSH : Z_FINISH) >= Z_OK);
            buf_commit(out, BLOCK - z.avail_out);
        } while (z.avail_out == 0);
    }
    (void)deflateEnd(&z);
}

static bool on_inflated(void *data, struct slice inflated)
{
    *(size_t *)data += inflated.len;
    return true;
}

/* Fed in pieces, until it fails: how much was inflated. */
static size_t inflate_pieces(struct slice zipped, int *rc)
{
    struct gunzip *g = gunzip_new();
    size_t inflated = 0;
    assert_non_null(g);
    *rc = 0;
    for (size_t at = 0; at < zipped.len && *rc == 0;) {
        size_t n = zipped.len - at < 10000 ? zipped.len - at : 10000;
        *rc = gunzip_feed(g, slice_of(zipped.ptr + at, n), on_inflated, &inflated);
        at += n;
    }
    gunzip_free(g);
    return inflated;
}

static void assert_inflates(size_t count, size_t varied)
{
    struct buf zipped = BUF_INIT(SIZE_MAX / 2);
    int rc;
    zip(count, varied, &zipped);
    assert_int_equal(inflate_pieces(buf_slice(&zipped), &rc), count * BLOCK);
    assert_int_equal(rc, 0);
    buf_reset(&zipped);
}

static void test_what_the_api_server_sends(void **state)
{
    (void)state;
    assert_inflates(GUNZIP_ANY_RATIO / BLOCK, 0);
    assert_inflates(10 * GUNZIP_ANY_RATIO / BLOCK, BLOCK / 50);
}

static void test_a_bomb(void **state)
{
    (void)state;
    struct buf zipped = BUF_INIT(SIZE_MAX / 2);
    int rc;
    zip(16 * GUNZIP_ANY_RATIO / BLOCK, 0, &zipped);
    assert_true(inflate_pieces(buf_slice(&zipped), &rc) <= GUNZIP_ANY_RATIO);
    assert_int_equal(rc, -EPROTO);
    buf_reset(&zipped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_api_server_sends),
        cmocka_unit_test(test_a_bomb),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
