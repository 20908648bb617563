/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy_pattern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"

static struct policy_pattern look(const char *text, uint32_t steps)
{
    struct policy_pattern found;
    struct pattern *p = NULL;
    struct err e = ERR_INIT;
    assert_int_equal(pattern_compile_any_case(text, &p, &e), 0);
    policy_pattern_look(text, p, &steps, &found);
    pattern_free(p);
    return found;
}

static struct policy_pattern read_text(const char *text)
{
    return look(text, POLICY_PATTERN_STEPS);
}

static void test_anchors(void **state)
{
    static const char *const whole[] = {
        "^a$",       "\\Aa\\z", "^(a|b)$",         "(?i)^a$",  "(?i)(?s)^a\\Z", "^a$|^b$",
        "(^a$|^b$)", "(?:^a$)", "(?<n>^a$|(^b$))", "^[$|^)]$", "^a\\\\$",       "^$",
    };
    static const char *const loose[] = {
        "a",    "^a",      "a$",      "^a|b$",  "^a$|b",     "(a|b)", "^a\\$",
        "a^$b", "[^a]$",   "^[$]",    "(^a$)b", "(^a$)|(b)", "(?i)a", ".*(127.0.0.1).*",
        "",     "^a\\x24", "(^a$|b)", "|^a$",   "(^a$)(b)",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(whole); i++) {
        struct policy_pattern p = read_text(whole[i]);
        print_message("%s\n", whole[i]);
        assert_true(p.anchored);
    }
    for (size_t i = 0; i < ARRAY_LEN(loose); i++) {
        print_message("%s\n", loose[i]);
        assert_false(read_text(loose[i]).anchored);
    }
}

static void test_what_it_opens(void **state)
{
    static const struct {
        const char *text;
        bool everything;
        bool loopback;
        bool metadata;
    } all[] = {
        {".*(127.0.0.1).*", false, true, false},
        {".*", true, true, true},
        {"^.*$", true, true, true},
        {"^169\\.254\\.", false, false, true},
        {"^127\\.0\\.0\\.1:443$", false, true, false},
        {"^\\[::1\\]", false, true, false},
        {"^[a-z.-]+\\.corp\\.example$", false, false, false},
        {"^[0-9.]+$", false, true, true},
        {"^.+\\.example$", false, false, false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct policy_pattern p = read_text(all[i].text);
        print_message("%s\n", all[i].text);
        assert_int_equal(p.everything, all[i].everything);
        assert_int_equal(p.loopback, all[i].loopback);
        assert_int_equal(p.metadata, all[i].metadata);
    }
}

/* What takes too long to match is as if it did not. */
static void test_one_that_takes_long(void **state)
{
    (void)state;
    struct policy_pattern p = read_text("^([0-9.:a-z]+)+[A-Z]$");
    assert_false(p.everything);
}

/* All of a policy together take so many steps, and then nothing more is known. */
static void test_without_steps(void **state)
{
    struct policy_pattern p = look(".*", 0);
    (void)state;
    assert_false(p.everything || p.loopback || p.metadata);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_anchors),
        cmocka_unit_test(test_what_it_opens),
        cmocka_unit_test(test_one_that_takes_long),
        cmocka_unit_test(test_without_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
