/* SPDX-License-Identifier: Apache-2.0 */
#include "base/condition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static void is_said_once(void **state)
{
    (void)state;
    struct condition c = {.open = false};
    int64_t before = time(NULL);
    assert_false(condition_clear(&c));
    assert_true(condition_raise(&c, 1000, "bad"));
    assert_false(condition_raise(&c, 2000, "bad"));
    assert_true(c.open && c.since >= before && c.last >= c.since);
    assert_true(condition_clear(&c));
    assert_false(condition_clear(&c));
    assert_string_equal(c.text, "bad"); /* for those who ask what was */
    assert_true(condition_raise(&c, 3000, "bad"));
}

static void is_said_again_when_it_changes_or_after_long(void **state)
{
    (void)state;
    struct condition c = {.open = false};
    assert_true(condition_raise(&c, 5, "bad"));
    assert_true(condition_raise(&c, 6, "worse"));
    assert_string_equal(c.text, "worse");
    assert_false(condition_raise(&c, CONDITION_REPEAT_MS, "worse"));
    assert_true(condition_raise(&c, CONDITION_REPEAT_MS + 6, "worse"));
    assert_false(condition_raise(&c, CONDITION_REPEAT_MS + 7, "worse"));
}

static void long_words_are_cut_and_still_the_same(void **state)
{
    (void)state;
    struct condition c = {.open = false};
    char text[ERR_MSG_MAX + 100];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_true(condition_raise(&c, 5, text));
    assert_false(condition_raise(&c, 6, text));
    assert_int_equal(strlen(c.text), ERR_MSG_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_said_once),
        cmocka_unit_test(is_said_again_when_it_changes_or_after_long),
        cmocka_unit_test(long_words_are_cut_and_still_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
