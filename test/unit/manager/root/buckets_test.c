/* SPDX-License-Identifier: Apache-2.0 */
#include "root/buckets.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "root/root_spec.h"

static uint64_t random_state = 88172645463325252u;

static unsigned random_below(unsigned n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state % n);
}

/* The first n. */
static uint32_t first_bits(unsigned n)
{
    return n >= 32 ? UINT32_MAX : ((uint32_t)1 << n) - 1;
}

static uint32_t random_bits(void)
{
    uint32_t bits = 0;
    unsigned of = 1 + random_below(4);
    for (unsigned i = 0; i < 32; i++) {
        bits |= random_below(5) < of ? (uint32_t)1 << i : 0;
    }
    return bits;
}

static unsigned count_bits(uint32_t bits)
{
    unsigned count = 0;
    for (; bits != 0; bits &= bits - 1) {
        count++;
    }
    return count;
}

/* ---- balance ---- */

/* How many buckets can stay where they are at most, with shares that are the mean, and one more for
 * `left` of the shards: best[u] of the shards so far, u of which have one more. */
static unsigned most_kept(const struct buckets *b, uint32_t spread, uint32_t eligible)
{
    unsigned shards = count_bits(eligible);
    unsigned mean = count_bits(spread) / shards;
    unsigned left = count_bits(spread) % shards;
    int best[33] = {0};
    for (unsigned u = 1; u < ARRAY_LEN(best); u++) {
        best[u] = -1;
    }
    for (unsigned i = 1; i <= 32; i++) {
        if ((eligible >> (i - 1) & 1) == 0) {
            continue;
        }
        unsigned has = count_bits(buckets_of(b, i) & spread);
        for (unsigned u = left + 1; u-- > 0;) {
            int plain = best[u] < 0 ? -1 : best[u] + (int)(has < mean ? has : mean);
            int more = u == 0 || best[u - 1] < 0
                           ? -1
                           : best[u - 1] + (int)(has < mean + 1 ? has : mean + 1);
            best[u] = plain > more ? plain : more;
        }
    }
    return (unsigned)best[left];
}

static void check_even(const struct buckets *b, uint32_t spread, uint32_t eligible)
{
    unsigned least = 33;
    unsigned most = 0;
    for (unsigned i = 1; i <= 32; i++) {
        unsigned has = count_bits(buckets_of(b, i));
        if ((eligible >> (i - 1) & 1) == 0) {
            assert_int_equal(has, 0);
            continue;
        }
        least = has < least ? has : least;
        most = has > most ? has : most;
    }
    assert_true(most - least <= 1);
    for (unsigned i = 0; i < 32; i++) {
        assert_int_equal(b->owner[i] != 0, spread >> i & 1);
    }
}

/* Owned and spread before, and now somebody else's: what moves, but for the canary's. */
static void check_balance(struct buckets *b, uint32_t spread, uint32_t eligible)
{
    const struct buckets before = *b;
    struct buckets again = *b;
    unsigned owned = 0;
    unsigned kept = 0;
    buckets_balance(b, spread, eligible);
    check_even(b, spread, eligible);
    for (unsigned i = 0; i < 32; i++) {
        owned += before.owner[i] != 0 ? 1 : 0;
        kept += before.owner[i] != 0 && before.owner[i] == b->owner[i] ? 1 : 0;
    }
    assert_int_equal(kept, most_kept(&before, spread, eligible));
    assert_int_equal(buckets_moved(&before, b), owned - kept);
    buckets_balance(&again, spread, eligible);
    assert_memory_equal(&again, b, sizeof again);
    buckets_balance(&again, spread, eligible);
    assert_memory_equal(&again, b, sizeof again);
}

static void moves_are_fewest(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 100000; n++) {
        struct buckets b = {.owner = {0}};
        unsigned owners = 1 + random_below(33);
        for (unsigned i = 0; i < 32; i++) {
            b.owner[i] = (uint8_t)random_below(owners);
        }
        uint32_t eligible = random_below(3) == 0 ? random_bits() : first_bits(1 + random_below(32));
        uint32_t all = random_below(2) == 0 ? UINT32_MAX : random_bits();
        check_balance(&b, all, eligible == 0 ? 1 : eligible);
    }
}

/* The fewest moves of all distributions that are even, each of which is tried. */
static unsigned try_all(const struct buckets *from, unsigned total, unsigned shards)
{
    unsigned fewest = 33;
    unsigned ways = 1;
    for (unsigned i = 0; i < total; i++) {
        ways *= shards;
    }
    for (unsigned way = 0; way < ways; way++) {
        unsigned has[5] = {0};
        unsigned moved = 0;
        for (unsigned i = 0, rest = way; i < total; i++, rest /= shards) {
            has[rest % shards]++;
            moved += from->owner[i] != 0 && from->owner[i] != rest % shards + 1 ? 1 : 0;
        }
        unsigned least = total;
        unsigned most = 0;
        for (unsigned s = 0; s < shards; s++) {
            least = has[s] < least ? has[s] : least;
            most = has[s] > most ? has[s] : most;
        }
        fewest = most - least <= 1 && moved < fewest ? moved : fewest;
    }
    return fewest;
}

static void moves_are_fewest_of_all(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 2000; n++) {
        struct buckets b = {.owner = {0}};
        unsigned total = 1 + random_below(6);
        unsigned shards = 1 + random_below(4);
        for (unsigned i = 0; i < total; i++) {
            b.owner[i] = (uint8_t)random_below(6);
        }
        const struct buckets before = b;
        buckets_balance(&b, first_bits(total), first_bits(shards));
        assert_int_equal(buckets_moved(&before, &b), try_all(&before, total, shards));
    }
}

static void sizes_change(void **state)
{
    (void)state;
    struct buckets b = {.owner = {0}};
    static const struct {
        unsigned size;
        unsigned moved;
    } steps[] = {{2, 0}, {3, 10}, {10, 21}, {2, 24}, {1, 16}, {32, 31}, {31, 1}};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        const struct buckets before = b;
        check_balance(&b, UINT32_MAX, first_bits(steps[i].size));
        assert_int_equal(buckets_moved(&before, &b), steps[i].moved);
    }
}

static void first_shares_are_in_order(void **state)
{
    (void)state;
    struct buckets b = {.owner = {0}};
    buckets_balance(&b, UINT32_MAX, first_bits(3));
    assert_int_equal(buckets_of(&b, 1), 0x7ff);
    assert_int_equal(buckets_of(&b, 2), 0x7ff << 11);
    assert_int_equal(buckets_of(&b, 3), (uint32_t)0x3ff << 22);
}

static void without_shards(void **state)
{
    (void)state;
    struct buckets b = {.owner = {1, 2, 200}};
    buckets_balance(&b, UINT32_MAX, 0);
    for (unsigned i = 0; i < 32; i++) {
        assert_int_equal(b.owner[i], 0);
    }
    b.owner[5] = 200; /* no shard has that number */
    buckets_balance(&b, UINT32_MAX, 1);
    assert_int_equal(buckets_of(&b, 1), UINT32_MAX);
}

/* ---- text ---- */

static void text_there_and_back(void **state)
{
    (void)state;
    static const struct {
        uint32_t buckets;
        const char *text;
    } cases[] = {
        {0, ""},
        {1, "0"},
        {0x80000000, "31"},
        {3, "0-1"},
        {UINT32_MAX, "0-31"},
        {0x27ff, "0-10,13"},
        {0x55555555, "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30"},
    };
    char text[BUCKETS_TEXT_SIZE];
    uint32_t parsed = 1;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        buckets_print(cases[i].buckets, text);
        assert_string_equal(text, cases[i].text);
        assert_int_equal(buckets_parse(text, &parsed), 0);
        assert_int_equal(parsed, cases[i].buckets);
    }
    for (unsigned n = 0; n < 10000; n++) {
        uint32_t buckets = random_bits();
        buckets_print(buckets, text);
        assert_int_equal(buckets_parse(text, &parsed), 0);
        assert_int_equal(parsed, buckets);
    }
}

static void text_that_is_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "32",   "0-32", "-1", "1-", "1-1", "3-1",   ",",   "1,",  ",1",
        "1,,2", "a",    " 1", "1 ", "01",  "1-2-3", "1;2", "0x1", "100",
    };
    uint32_t parsed = 7;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(buckets_parse(cases[i], &parsed), -EINVAL);
        assert_int_equal(parsed, 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_are_fewest),     cmocka_unit_test(moves_are_fewest_of_all),
        cmocka_unit_test(sizes_change),         cmocka_unit_test(first_shares_are_in_order),
        cmocka_unit_test(without_shards),       cmocka_unit_test(text_there_and_back),
        cmocka_unit_test(text_that_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
