/* SPDX-License-Identifier: Apache-2.0 */
#include "base/keyed_hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* One bit of key or text changes half of the hash, whatever the length. */
static void every_bit_counts(void **state)
{
    enum { LENGTH = 40, BITS_MIN = 10, BITS_MAX = 54 };
    (void)state;
    for (size_t len = 1; len <= LENGTH; len++) {
        char text[LENGTH] = {0};
        uint64_t key[2] = {1, 2};
        uint64_t before = keyed_hash_with(key, slice_of(text, len));
        for (size_t bit = 0; bit < 8 * len; bit++) {
            text[bit / 8] = (char)(1u << bit % 8);
            uint64_t after = keyed_hash_with(key, slice_of(text, len));
            text[bit / 8] = 0;
            assert_in_range(__builtin_popcountll(before ^ after), BITS_MIN, BITS_MAX);
        }
        for (size_t bit = 0; bit < 128; bit++) {
            key[bit / 64] ^= UINT64_C(1) << bit % 64;
            uint64_t after = keyed_hash_with(key, slice_of(text, len));
            key[bit / 64] ^= UINT64_C(1) << bit % 64;
            assert_in_range(__builtin_popcountll(before ^ after), BITS_MIN, BITS_MAX);
        }
    }
}

/* As Python 3.11 and later hash bytes, which is the same function: `hash(b"...")` with
 * PYTHONHASHSEED=0, whose key is 0, 0. */
static void is_siphash_1_3(void **state)
{
    static const uint64_t none[2] = {0, 0};
    (void)state;
    assert_true(keyed_hash_with(none, SLICE("a")) == UINT64_C(0x407448d2b89b1813));
    assert_true(keyed_hash_with(none, SLICE("seven b")) == UINT64_C(0xab2262fcb5199654));
    assert_true(keyed_hash_with(none, SLICE("eight by")) == UINT64_C(0xd54cf3f0e0ee2aad));
    assert_true(keyed_hash_with(none, SLICE("operator-demo/sharding-demo")) ==
                UINT64_C(0xd365213e1d974d8e));
}

static void lengths_and_places_differ(void **state)
{
    (void)state;
    uint64_t ab = keyed_hash(keyed_hash(0, SLICE("a")), SLICE("bc"));
    uint64_t ba = keyed_hash(keyed_hash(0, SLICE("ab")), SLICE("c"));
    assert_true(ab != ba);
    assert_true(keyed_hash(0, SLICE("")) != keyed_hash(0, slice_of("\0", 1)));
    assert_true(keyed_hash(0, SLICE("a")) == keyed_hash(0, SLICE("a")));
    assert_true(keyed_hash(1, SLICE("a")) != keyed_hash(0, SLICE("a")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bit_counts),
        cmocka_unit_test(is_siphash_1_3),
        cmocka_unit_test(lengths_and_places_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
