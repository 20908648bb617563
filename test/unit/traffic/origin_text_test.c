/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/origin_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"

static void test_hosts(void **state)
{
    static const struct {
        const char *text;
        const char *host; /* NULL: refused */
        unsigned port;
    } cases[] = {
        {"example.com", "example.com", 0},
        {"Example.COM.", "example.com", 0},
        {"example.com:443", "example.com", 443},
        {"example.com.:1", "example.com", 1},
        {"a_b-c.d", "a_b-c.d", 0},
        {"127.0.0.1:65535", "127.0.0.1", 65535},
        {"::1", "::1", 0},
        {"[::1]", "::1", 0},
        {"[0:0:0:0:0:0:0:1]:80", "::1", 80},
        {"2001:DB8::", "2001:db8::", 0},
        {"::ffff:10.0.0.1", "10.0.0.1", 0},
        {"[::FFFF:a00:1]:80", "10.0.0.1", 80},
        {"[::10.0.0.1]", "10.0.0.1", 0},
        {"[64:ff9b::a00:1]:80", "10.0.0.1", 80},
        {"", NULL, 0},
        {".", NULL, 0},
        {"..", NULL, 0},
        {".a", NULL, 0},
        {"a..b", NULL, 0},
        {"a..", NULL, 0},
        {"*.example.com", NULL, 0},
        {"*", NULL, 0},
        {"a b", NULL, 0},
        {"a/b", NULL, 0},
        {"http://a", NULL, 0},
        {"u@a", NULL, 0},
        {"a:", NULL, 0},
        {"a:0", NULL, 0},
        {"a:080", NULL, 0},
        {"a:65536", NULL, 0},
        {"a:99999999999", NULL, 0},
        {"a:8x", NULL, 0},
        {":80", NULL, 0},
        {"[::1", NULL, 0},
        {"[::1]80", NULL, 0},
        {"[::1]:", NULL, 0},
        {"[a]", NULL, 0},
        {"[]", NULL, 0},
        {"[127.0.0.1]", NULL, 0},
        {"::1%eth0", NULL, 0},
        {"1:2:3", NULL, 0},
        {"\xc3\xa4.example", NULL, 0},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct origin_host h;
        const char *why = origin_host_read(slice_str(cases[i].text), &h);
        if ((why == NULL) != (cases[i].host != NULL) ||
            (why == NULL && (strcmp(h.host, cases[i].host) != 0 || h.port != cases[i].port))) {
            fail_msg("%s: %s", cases[i].text, why != NULL ? why : h.host);
        }
    }
}

static void test_longest_host(void **state)
{
    char text[256];
    struct origin_host h;
    (void)state;
    memset(text, 'a', sizeof text);
    assert_null(origin_host_read(slice_of(text, 253), &h));
    assert_int_equal(strlen(h.host), 253);
    assert_non_null(origin_host_read(slice_of(text, 254), &h));
    assert_non_null(origin_host_read(slice_of("a\0b", 3), &h));
    assert_non_null(origin_host_read(slice_of("[::1\0]", 6), &h));
}

static void test_urls(void **state)
{
    static const struct {
        const char *text;
        const char *is; /* scheme, host, port, path, below, query; NULL: refused */
    } cases[] = {
        {"http://[::ffff:10.0.0.1]:8080/a", "http 10.0.0.1 8080 /a"},
        {"http://*.[::ffff:10.0.0.1]", NULL},
        {"http://*.::ffff:10.0.0.1", NULL},
        {"https://example.com", "https example.com 443 / below"},
        {"HTTP://Example.com./", "http example.com 80 /"},
        {"http://example.com/*", "http example.com 80 / below"},
        {"http://example.com:8080/a/*", "http example.com 8080 /a/ below"},
        {"http://example.com/a*", "http example.com 80 /a*"},
        {"http://example.com/%2A", "http example.com 80 /*"},
        {"http://example.com/a/../b//c?x=1&y", "http example.com 80 /b/c ?x=1&y"},
        {"http://example.com?x", "http example.com 80 / ?x"},
        {"http://example.com/a?", "http example.com 80 /a ?"},
        {"https://*.example.com/a/./*", "https *.example.com 443 /a/ below"},
        {"https://[::0001]:8443/a", "https ::1 8443 /a"},
        {"example.com/a", NULL},
        {"ftp://example.com/", NULL},
        {"http:///a", NULL},
        {"http://", NULL},
        {"http://*/a", NULL},
        {"http://*.[::1]/a", NULL},
        {"http://a.*.example.com/", NULL},
        {"http://u:p@example.com/", NULL},
        {"http://example.com/a b", NULL},
        {"http://example.com/a#b", NULL},
        {"http://example.com/a\\b", NULL},
        {"http://example.com/a/*?x", NULL},
        {"http://example.com:http/", NULL},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct origin_url u;
        char is[512] = "";
        const char *why = origin_url_read(slice_str(cases[i].text), &u);
        if (why == NULL) {
            (void)snprintf(is, sizeof is, "%s %s%s %u %.*s%s%s%.*s", u.https ? "https" : "http",
                           u.below_host ? "*." : "", u.at.host, u.at.port, (int)u.path.len,
                           u.path.text, u.below_path ? " below" : "", u.has_query ? " ?" : "",
                           (int)u.query.len, u.query.len > 0 ? u.query.ptr : "");
        }
        if ((why == NULL) != (cases[i].is != NULL) ||
            (why == NULL && strcmp(is, cases[i].is) != 0)) {
            fail_msg("%s: %s", cases[i].text, why != NULL ? why : is);
        }
    }
}

static void test_methods(void **state)
{
    (void)state;
    assert_null(origin_method_check(SLICE("GET")));
    assert_null(origin_method_check(SLICE("M-SEARCH")));
    assert_null(origin_method_check(SLICE("*")));
    assert_non_null(origin_method_check(SLICE("")));
    assert_non_null(origin_method_check(SLICE("get")));
    assert_non_null(origin_method_check(SLICE("GET POST")));
    assert_non_null(origin_method_check(SLICE("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_longest_host),
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_methods),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
