/* SPDX-License-Identifier: Apache-2.0 */
/* What the encoder writes, another one's decoder reads. */
#include "http/hpack_encoder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <nghttp2/nghttp2.h>

struct world {
    struct hpack_encoder encoder;
    nghttp2_hd_inflater *decoder;
    struct buf block;
    struct buf said; /* name: value; !name of what may not be remembered */
};

static void open_world(struct world *w)
{
    memset(w, 0, sizeof *w);
    buf_init(&w->block, SIZE_MAX);
    buf_init(&w->said, SIZE_MAX);
    assert_int_equal(nghttp2_hd_inflate_new(&w->decoder), 0);
    hpack_encoder_begin(&w->encoder, &w->block);
}

static void close_world(struct world *w)
{
    hpack_encoder_deinit(&w->encoder);
    nghttp2_hd_inflate_del(w->decoder);
    buf_reset(&w->block);
    buf_reset(&w->said);
}

static void put(struct world *w, const char *name, const char *value, enum hpack_kind kind)
{
    hpack_encoder_put(&w->encoder, &w->block, slice_str(name), slice_str(value), kind);
}

/* Ends the list and begins another one. How many bytes it took. */
static size_t decode(struct world *w)
{
    size_t size = w->block.len;
    int flags = 0;
    buf_clear(&w->said);
    while ((flags & NGHTTP2_HD_INFLATE_FINAL) == 0) {
        nghttp2_nv nv;
        flags = 0;
        ssize_t n =
            nghttp2_hd_inflate_hd2(w->decoder, &nv, &flags, buf_data(&w->block), w->block.len, 1);
        assert_true(n >= 0);
        buf_consume(&w->block, (size_t)n);
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
            const char *mark = (nv.flags & NGHTTP2_NV_FLAG_NO_INDEX) != 0 ? "!" : "";
            assert_int_equal(buf_printf(&w->said, "%s%.*s: %.*s\n", mark, (int)nv.namelen,
                                        (const char *)nv.name, (int)nv.valuelen,
                                        (const char *)nv.value),
                             0);
        }
    }
    assert_int_equal(w->block.len, 0);
    assert_int_equal(nghttp2_hd_inflate_end_headers(w->decoder), 0);
    buf_clear(&w->block);
    hpack_encoder_begin(&w->encoder, &w->block);
    return size;
}

static void put_request(struct world *w, const char *token)
{
    put(w, ":method", "GET", HPACK_REPEATED);
    put(w, ":scheme", "https", HPACK_REPEATED);
    put(w, ":authority", "10.0.0.1:443", HPACK_REPEATED);
    put(w, ":path", "/api/v1/pods", HPACK_ONCE);
    put(w, "User-Agent", "manager/v0.1", HPACK_REPEATED);
    put(w, "X-Empty", "", HPACK_REPEATED);
    put(w, "Authorization", token, HPACK_REPEATED);
    put(w, "Cookie", "a=b", HPACK_SECRET);
}

static const char *request_said = ":method: GET\n:scheme: https\n:authority: 10.0.0.1:443\n"
                                  ":path: /api/v1/pods\nuser-agent: manager/v0.1\nx-empty: \n";

/* What was said before takes a byte; what may not be remembered comes whole each time. */
static void test_what_is_repeated(void **state)
{
    (void)state;
    struct world w;
    char token[1201];
    memset(token, 't', sizeof token - 1);
    token[sizeof token - 1] = '\0';
    open_world(&w);
    for (int i = 0; i < 3; i++) {
        put_request(&w, token);
        size_t size = decode(&w);
        assert_in_range(size, i == 0 ? 1200 : 20, i == 0 ? 1300 : 30);
        assert_memory_equal(buf_cstr(&w.said), request_said, strlen(request_said));
        assert_non_null(strstr(buf_cstr(&w.said), token));
        assert_non_null(strstr(buf_cstr(&w.said), "\n!cookie: a=b\n"));
    }
    /* Another token, as each hour, and one that is too large to be remembered. */
    token[0] = 'x';
    put_request(&w, token);
    assert_true(decode(&w) > 1200);
    put_request(&w, token);
    assert_true(decode(&w) < 30);
    char *large = malloc(3001);
    memset(large, 'l', 3000);
    large[3000] = '\0';
    for (int i = 0; i < 2; i++) {
        put_request(&w, large);
        assert_true(decode(&w) > 3000);
        assert_non_null(strstr(buf_cstr(&w.said), large));
    }
    free(large);
    close_world(&w);
}

/* The server's table is smaller, and larger again, also between two lists. */
static void test_limits(void **state)
{
    (void)state;
    static const uint32_t limits[][3] = {{0, 0, 0},      {100, 100, 100},      {0, 4096, 4096},
                                         {50, 200, 100}, {65536, 1000, 65536}, {4096, 4096, 4096}};
    struct world w;
    open_world(&w);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        for (size_t n = 0; n < 3; n++) {
            assert_int_equal(nghttp2_hd_inflate_change_table_size(w.decoder, limits[i][n]), 0);
            hpack_encoder_limit(&w.encoder, limits[i][n]);
        }
        buf_clear(&w.block);
        hpack_encoder_begin(&w.encoder, &w.block);
        for (int again = 0; again < 3; again++) {
            put_request(&w, "Bearer abc");
            (void)decode(&w);
            assert_memory_equal(buf_cstr(&w.said), request_said, strlen(request_said));
        }
    }
    close_world(&w);
}

/* Random lists: more than the table holds, of all kinds. */
static void test_random_lists(void **state)
{
    (void)state;
    static const enum hpack_kind kinds[] = {HPACK_REPEATED, HPACK_REPEATED, HPACK_ONCE,
                                            HPACK_SECRET};
    struct world w;
    struct buf want;
    buf_init(&want, SIZE_MAX);
    open_world(&w);
    srand(7);
    for (int round = 0; round < 3000; round++) {
        if (rand() % 50 == 0) {
            uint32_t limit = (uint32_t)(rand() % 5000);
            assert_int_equal(nghttp2_hd_inflate_change_table_size(w.decoder, limit), 0);
            hpack_encoder_limit(&w.encoder, limit);
            buf_clear(&w.block);
            hpack_encoder_begin(&w.encoder, &w.block);
        }
        buf_clear(&want);
        for (int i = rand() % 10; i >= 0; i--) {
            char name[40];
            char value[600];
            enum hpack_kind kind = kinds[rand() % 4];
            (void)snprintf(name, sizeof name, "x-%0*d", rand() % 30 + 1, rand() % 20);
            (void)snprintf(value, sizeof value, "%0*d", rand() % 8 == 0 ? rand() % 599 + 1 : 1,
                           rand() % 9);
            put(&w, name, value, kind);
            assert_int_equal(
                buf_printf(&want, "%s%s: %s\n", kind == HPACK_SECRET ? "!" : "", name, value), 0);
        }
        (void)decode(&w);
        assert_string_equal(buf_cstr(&w.said), buf_cstr(&want));
    }
    buf_reset(&want);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_repeated),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_random_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
