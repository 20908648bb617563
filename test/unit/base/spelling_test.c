/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/spelling.h"

static void distances(void **state)
{
    static const struct {
        const char *a;
        const char *b;
        unsigned distance;
    } rows[] = {
        {"", "", 0},         {"", "abc", 3},     {"qps", "qps", 0},        {"qps", "qsp", 1},
        {"qps", "qp", 1},    {"qps", "qpps", 1}, {"qps", "qpx", 1},        {"abcd", "dcba", 3},
        {"abcd", "badc", 2}, {"pod", "pods", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (spelling_distance(rows[i].a, rows[i].b) != rows[i].distance ||
            spelling_distance(rows[i].b, rows[i].a) != rows[i].distance) {
            fail_msg("%s %s: %u", rows[i].a, rows[i].b, spelling_distance(rows[i].a, rows[i].b));
        }
    }
}

static void long_words_are_like_no_other(void **state)
{
    (void)state;
    char word[SPELLING_MAX + 2];
    memset(word, 'a', sizeof word);
    word[SPELLING_MAX] = '\0';
    assert_int_equal(spelling_distance(word, word), 0);
    word[SPELLING_MAX] = 'a';
    word[SPELLING_MAX + 1] = '\0';
    assert_true(spelling_distance(word, word) == UINT_MAX);
    assert_true(spelling_distance("a", word) == UINT_MAX);
    assert_true(spelling_distance(word, "a") == UINT_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances),
        cmocka_unit_test(long_words_are_like_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
