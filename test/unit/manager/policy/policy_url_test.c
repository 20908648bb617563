/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy_url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"

static void test_urls(void **state)
{
    static const struct {
        const char *text;
        bool whole_host;
        bool tunnelled;
        bool odd_star;
    } all[] = {
        {"https://example.com", true, true, false},
        {"HTTPS://Example.COM/*", true, true, false},
        {"https://*.example.com", true, true, false},
        {"https://*.example.com/*", true, true, false},
        {"http://example.com:8080", true, true, false},
        {"https://[::1]:8443/*", true, true, false},
        {"http://[fd00::1]", true, true, false},
        {"http://example.com:443", true, false, false},
        {"https://example.com:80/*", true, false, false},
        {"http://example.com:80/*", true, true, false},
        {"https://example.com/", false, true, false},
        {"https://example.com?a=b", false, true, false},
        {"https://example.com/a/*", false, true, false},
        {"https://example.com/a?b=*", false, true, false},
        {"https://*.com/*/trafficOff", false, true, true},
        {"https://example.com/a*", false, true, true},
        {"https://example.com/*/*", false, true, true},
        {"https://example.com:65535", true, true, false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct policy_url u;
        const char *why = policy_url_read(all[i].text, &u);
        print_message("%s\n", all[i].text);
        assert_null(why);
        assert_int_equal(u.whole_host, all[i].whole_host);
        assert_int_equal(u.tunnelled, all[i].tunnelled);
        assert_int_equal(u.odd_star, all[i].odd_star);
    }
}

static void test_what_is_none(void **state)
{
    static const struct {
        const char *text;
        const char *why;
    } all[] = {
        {"", "must begin with http://"},
        {"example.com", "must begin with http://"},
        {"ftp://example.com", "must begin with http://"},
        {"https:/example.com", "must begin with http://"},
        {"https://", "must be a host"},
        {"https:///path", "must be a host"},
        {"https://:443", "must be a host"},
        {"https://?a", "must be a host"},
        {"https://a..b", "must be a host"},
        {"https://a b", "must not have white space"},
        {"https://a/\tb", "must not have white space"},
        {"https://a/b#c", "must not have white space, control characters, '#'"},
        {"https://user@a", "must not have a user name"},
        {"https://*", "must have \"*\" in the host only as in \"*.example.com\""},
        {"https://*example.com", "must have \"*\" in the host"},
        {"https://a.*.com/b", "must have \"*\" in the host"},
        {"https://*.*.com/b", "must have \"*\" in the host"},
        {"https://a:", "the port must be a number from 1 to 65535"},
        {"https://a:0", "the port must be"},
        {"https://a:65536", "the port must be"},
        {"https://a:http", "the port must be"},
        {"https://a/*?b", "a path that ends with /* has no query"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct policy_url u;
        const char *why = policy_url_read(all[i].text, &u);
        print_message("%s\n", all[i].text);
        assert_non_null(why);
        assert_int_equal(strncmp(why, all[i].why, strlen(all[i].why)), 0);
    }
}

static void test_long_ones(void **state)
{
    static char text[2050] = "https://a/";
    struct policy_url u;
    (void)state;
    memset(text + 10, 'b', 2048 - 10);
    assert_null(policy_url_read(text, &u));
    text[2048] = 'b';
    assert_string_equal(policy_url_read(text, &u), "must be no more than 2048 characters");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_what_is_none),
        cmocka_unit_test(test_long_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
