/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"
#include "upstream/derived_retry.h"

enum { NOW = 1000 };

static uint64_t pause_after(unsigned status, const char *retry_after, uint64_t passed_ms,
                            uint32_t random)
{
    struct derived_retry r;
    struct http_header header = {SLICE("retry-after"),
                                 slice_str(retry_after != NULL ? retry_after : "")};
    struct http_head head = {
        .status = status, .headers = &header, .header_count = retry_after != NULL ? 1 : 0};
    derived_retry_init(&r, NOW);
    return derived_retry_pause(&r, status != 0 ? &head : NULL, NOW + passed_ms, random);
}

static void what_may_change_soon_is_tried_again(void **state)
{
    static const unsigned again[] = {0, 429, 500, 502, 503, 504};
    static const unsigned final[] = {200, 301, 400, 401, 403, 404, 406, 410, 422, 501, 505};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(again); i++) {
        assert_true(pause_after(again[i], NULL, 0, 0) > 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(final); i++) {
        assert_int_equal(pause_after(final[i], "1", 0, 0), 0);
    }
}

static void pauses_grow(void **state)
{
    static const uint64_t longest[] = {200, 400, 800, 1600, 3200, 4000, 4000};
    struct derived_retry r;
    (void)state;
    derived_retry_init(&r, NOW);
    for (size_t i = 0; i < ARRAY_LEN(longest); i++) {
        struct derived_retry other = r;
        assert_int_equal(derived_retry_pause(&r, NULL, NOW, (uint32_t)longest[i] / 2), longest[i]);
        assert_int_equal(derived_retry_pause(&other, NULL, NOW, 0), longest[i] / 2);
    }
}

static void retry_after_is_obeyed(void **state)
{
    (void)state;
    assert_int_equal(pause_after(429, "3", 0, 0), 3100);
    assert_int_equal(pause_after(503, "0", 0, 0), 100);
    assert_int_equal(pause_after(429, "Mon, 01 Jan 2026 00:00:00 GMT", 0, 0), 100);
    assert_int_equal(pause_after(429, "-1", 0, 0), 100);
}

static void the_time_is_bounded(void **state)
{
    (void)state;
    assert_int_equal(pause_after(0, NULL, DERIVED_RETRY_TIME_MS - 101, 0), 100);
    assert_int_equal(pause_after(0, NULL, DERIVED_RETRY_TIME_MS - 100, 0), 0);
    assert_int_equal(pause_after(0, NULL, DERIVED_RETRY_TIME_MS, 0), 0);
    assert_int_equal(pause_after(0, NULL, 2 * DERIVED_RETRY_TIME_MS, 0), 0);
    assert_int_equal(pause_after(429, "14", 0, 0), 14100);
    assert_int_equal(pause_after(429, "15", 0, 0), 0);
    assert_int_equal(pause_after(429, "18446744073709551615", 0, 0), 0);
}

static void what_is_left(void **state)
{
    struct derived_retry r;
    (void)state;
    derived_retry_init(&r, NOW);
    assert_int_equal(derived_retry_left(&r, NOW), DERIVED_RETRY_TIME_MS);
    assert_int_equal(derived_retry_left(&r, NOW + DERIVED_RETRY_TIME_MS - 1), 1);
    assert_int_equal(derived_retry_left(&r, NOW + DERIVED_RETRY_TIME_MS + 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_may_change_soon_is_tried_again),
        cmocka_unit_test(pauses_grow),
        cmocka_unit_test(retry_after_is_obeyed),
        cmocka_unit_test(the_time_is_bounded),
        cmocka_unit_test(what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
