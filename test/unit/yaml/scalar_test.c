/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "yaml/scalar.h"

static void test_words(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum yaml_scalar_type type;
        bool value;
    } cases[] = {
        {"", YAML_NULL, false},       {"~", YAML_NULL, false},      {"null", YAML_NULL, false},
        {"NULL", YAML_NULL, false},   {"nuLL", YAML_STRING, false}, {"true", YAML_BOOL, true},
        {"True", YAML_BOOL, true},    {"yes", YAML_BOOL, true},     {"on", YAML_BOOL, true},
        {"y", YAML_BOOL, true},       {"false", YAML_BOOL, false},  {"NO", YAML_BOOL, false},
        {"off", YAML_BOOL, false},    {"n", YAML_BOOL, false},      {"tRue", YAML_STRING, false},
        {"yess", YAML_STRING, false}, {".nan", YAML_NOT_FINITE, 0}, {"-.inf", YAML_NOT_FINITE, 0},
        {"inf", YAML_STRING, false},  {"nan", YAML_STRING, false},  {"2001-01-01", YAML_STRING, 0},
        {"1:30", YAML_STRING, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct yaml_scalar s = yaml_scalar_resolve(cases[i].text);
        if (s.type != cases[i].type || (s.type == YAML_BOOL && s.boolean != cases[i].value)) {
            fail_msg("\"%s\" became type %d", cases[i].text, (int)s.type);
        }
    }
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"0", 0},
        {"7", 7},
        {"-7", -7},
        {"+7", 7},
        {"1_000", 1000},
        {"0x1F", 31},
        {"-0x10", -16},
        {"0o17", 15},
        {"017", 15},
        {"0b101", 5},
        {"08", 8}, /* no octal, but a float */
        {"1.5", 1.5},
        {"1.", 1},
        {".5", 0.5},
        {"-1e3", -1000},
        {"1E+2", 100},
        {"18446744073709551615", 18446744073709551615.0},
        {"-9223372036854775808", -9223372036854775808.0},
        {"99999999999999999999", 1e20},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct yaml_scalar s = yaml_scalar_resolve(cases[i].text);
        if (s.type != YAML_NUMBER || s.number != cases[i].value) {
            fail_msg("\"%s\" became type %d, %g", cases[i].text, (int)s.type, s.number);
        }
    }
}

static void test_no_numbers(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "-",     "+",   ".",   "-.",  "1a",    "0x",  "0xg",
        "0b2",   "--1", "1e",  "1e+", "1.2.3", "1,5", "+-1",
        "1e999", "_1",  ".e3", "0o8", "1 2",   "٣",   "0x1ffffffffffffffff",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (yaml_scalar_resolve(cases[i]).type != YAML_STRING) {
            fail_msg("\"%s\" is no string", cases[i]);
        }
    }
}

static void test_plain_is_kept_for_what_no_reader_mistakes(void **state)
{
    (void)state;
    static const char *const plain[] = {"abc",         "http://127.0.0.1:5443",
                                        "a.b/c@d-e_f", "v1",
                                        "/a/b",        "client.authentication.k8s.io/v1"};
    static const char *const quoted[] = {
        "",     "y",     "No",  "null", "Infinity x", "1",   "1.2",        "0x1",  "-a", "~",
        "a: b", "a #b",  "a:",  "=",    "<<",         "*a",  "&a",         "!a",   "%a", "@a",
        "`a",   " a",    "a ",  "a\nb", "[a",         "{a",  "2001-01-01", "1:30", "é",  ".5",
        "?a",   "a,b]c", "'a'", "NaN",  "---",        "...", "\"a\"",
    };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (!yaml_scalar_plain_ok(plain[i])) {
            fail_msg("\"%s\" needs no quotes", plain[i]);
        }
    }
    for (size_t i = 0; i < sizeof quoted / sizeof *quoted; i++) {
        if (yaml_scalar_plain_ok(quoted[i])) {
            fail_msg("\"%s\" needs quotes", quoted[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_no_numbers),
        cmocka_unit_test(test_plain_is_kept_for_what_no_reader_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
