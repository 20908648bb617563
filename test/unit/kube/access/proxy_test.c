/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "kube/access/proxy.h"

static int setup(void **state)
{
    static const char *const variables[] = {"HTTPS_PROXY", "https_proxy", "HTTP_PROXY",
                                            "http_proxy",  "NO_PROXY",    "no_proxy"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(variables); i++) {
        unsetenv(variables[i]);
    }
    return 0;
}

static void test_urls(void **state)
{
    static const struct {
        const char *text;
        const char *name;
        const char *authorization;
    } rows[] = {
        {"http://p:3128", "http://p:3128", NULL},
        {"HTTP://p", "http://p:80", NULL},
        {"p:3128", "http://p:3128", NULL},
        {"p", "http://p:80", NULL},
        {"http://p:3128/", "http://p:3128", NULL},
        {"http://p:3128/ignored?too", "http://p:3128", NULL},
        {"http://p:3128?ignored", "http://p:3128", NULL},
        {"p:3128#ignored", "http://p:3128", NULL},
        {"http://[fd00::1]:8080", "http://[fd00::1]:8080", NULL},
        {"10.0.0.1:8080", "http://10.0.0.1:8080", NULL},
        {"http://user:pass@p:1", "http://p:1", "Basic dXNlcjpwYXNz"},
        {"user:pass@p:1", "http://p:1", "Basic dXNlcjpwYXNz"},
        {"http://user@p:1", "http://p:1", "Basic dXNlcjo="},
        {"http://user:p%40s%3a@p:1", "http://p:1", "Basic dXNlcjpwQHM6"},
        {"http://user:p@s@p:1", "http://p:1", "Basic dXNlcjpwQHM="},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct kube_proxy p;
        struct err e = ERR_INIT;
        char name[KUBE_PROXY_NAME_SIZE];
        if (kube_proxy_parse(rows[i].text, &p, &e) != 0) {
            fail_msg("%s: %s", rows[i].text, e.msg);
        }
        kube_proxy_name(&p, name);
        assert_string_equal(name, rows[i].name);
        if (rows[i].authorization == NULL) {
            assert_null(p.authorization);
        } else {
            assert_string_equal(p.authorization, rows[i].authorization);
        }
        kube_proxy_deinit(&p);
    }
}

static void test_the_whole_url_is_kept_for_plugins(void **state)
{
    struct kube_proxy p;
    char name[KUBE_PROXY_NAME_SIZE];
    (void)state;
    assert_int_equal(kube_proxy_parse("user:pass@p:1/x", &p, NULL), 0);
    assert_string_equal(p.url, "http://user:pass@p:1");
    kube_proxy_deinit(&p);
    kube_proxy_name(&p, name);
    assert_string_equal(name, "");
}

static void test_refused_urls(void **state)
{
    static const char *const rows[][2] = {
        {"https://u:SECRET@p", "a proxy that speaks TLS itself (https://) is not supported"},
        {"socks5://u:SECRET@p", "SOCKS is not"},
        {"socks5h://p", "SOCKS is not"},
        {"ftp://u:SECRET@p", "name an http:// one"},
        {"http://u:SECRET@", "has no host"},
        {"http://u:SECRET@p:99999", "port is not a number"},
        {"http://u:SECRET%zz@p", "begins no escape"},
        {"http://u:SECRET%4@p", "begins no escape"},
        {"u:SECRET@[p]:1", "is not an IPv6 address"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct kube_proxy p;
        struct err e = ERR_INIT;
        assert_int_equal(kube_proxy_parse(rows[i][0], &p, &e), -EINVAL);
        if (strstr(e.msg, rows[i][1]) == NULL || strstr(e.msg, "SECRET") != NULL) {
            fail_msg("%s: %s", rows[i][0], e.msg);
        }
    }
}

static void test_a_user_can_be_too_long(void **state)
{
    static char text[8192];
    struct kube_proxy p;
    struct err e = ERR_INIT;
    (void)state;
    memset(text, 'a', sizeof text - 1);
    strcpy(text + sizeof text - 3, "@p");
    assert_int_equal(kube_proxy_parse(text, &p, &e), -EINVAL);
    assert_non_null(strstr(e.msg, "longer than 4096"));
    assert_int_equal(kube_proxy_parse(text + 4093, &p, &e), 0);
    kube_proxy_deinit(&p);
}

/* https://pkg.go.dev/golang.org/x/net/http/httpproxy#Config */
static void test_no_proxy(void **state)
{
    static const struct {
        const char *server;
        const char *no_proxy;
        bool excepted;
    } rows[] = {
        {"https://api.example.com:6443", "", false},
        {"https://api.example.com:6443", "*", true},
        {"https://api.example.com:6443", "other, *", true},
        {"https://localhost:6443", "", true},
        {"https://LocalHost:6443", "", true},
        {"https://localhost.example.com:6443", "", false},
        {"https://127.0.0.1:6443", "", true},
        {"https://127.9.9.9:6443", "", true},
        {"https://[::1]:6443", "", true},
        {"https://[::ffff:127.0.0.1]:6443", "", true},
        {"https://[::2]:6443", "", false},
        {"https://[7f00::1]:6443", "", false},
        {"https://128.0.0.1:6443", "", false},
        /* domains */
        {"https://api.example.com:6443", "example.com", true},
        {"https://example.com:6443", "example.com", true},
        {"https://EXAMPLE.com:6443", "example.COM", true},
        {"https://api.example.com:6443", ".example.com", true},
        {"https://example.com:6443", ".example.com", false},
        {"https://api.example.com:6443", "*.example.com", true},
        {"https://example.com:6443", "*.example.com", false},
        {"https://badexample.com:6443", "example.com", false},
        {"https://com:6443", "example.com", false},
        {"https://example.com:6443", "api.example.com", false},
        {"https://api.example.com:6443", "example.com:6443", true},
        {"https://api.example.com:6443", "example.com:443", false},
        {"https://api.example.com", "example.com:443", true},
        {"http://api.example.com", "example.com:80", true},
        {"https://api.example.com:6443", "example.com:", true},
        {"https://api.example.com:6443", "a, ,b,\texample.com ,c", true},
        {"https://api.example.com:6443", ",,", false},
        {"https://api.example.com:6443", ":6443", false},
        {"https://api.example.com.:6443", ",:6443", false},
        /* addresses */
        {"https://10.0.0.1:6443", "10.0.0.1", true},
        {"https://10.0.0.1:6443", "10.0.0.10", false},
        {"https://10.0.0.1:6443", "0.0.0.1", false},
        {"https://10.0.0.1:6443", "10.0.0.1:6443", true},
        {"https://10.0.0.1:6443", "10.0.0.1:443", false},
        {"https://10.0.0.1:6443", "::ffff:10.0.0.1", true},
        {"https://[fd00::1]:6443", "fd00::1", true},
        {"https://[fd00::1]:6443", "fd00:0:0:0::1", true},
        {"https://[fd00::1]:6443", "[fd00::1]", true},
        {"https://[fd00::1]:6443", "[fd00::1]:6443", true},
        {"https://[fd00::1]:6443", "[fd00::1]:443", false},
        {"https://[fe80::1%25lo]:6443", "fe80::1", true},
        /* CIDRs */
        {"https://10.0.0.1:6443", "10.0.0.0/8", true},
        {"https://11.0.0.1:6443", "10.0.0.0/8", false},
        {"https://11.0.0.1:6443", "10.0.0.0/7", true},
        {"https://12.0.0.1:6443", "10.0.0.0/7", false},
        {"https://10.0.0.1:6443", "10.0.0.1/32", true},
        {"https://10.0.0.2:6443", "10.0.0.1/32", false},
        {"https://10.0.0.1:6443", "0.0.0.0/0", true},
        {"https://10.0.0.1:6443", "10.0.0.0/33", false},
        {"https://10.0.0.1:6443", "10.0.0.1/33", false},
        {"https://[fd00::1]:6443", "fd00::1/128", true},
        {"https://[fd00::1]:6443", "fd00::1/129", false},
        {"https://10.0.0.1:6443", "10.0.0.0/", false},
        {"https://10.0.0.1:6443", "10.0.0.0/8x", false},
        {"https://10.0.0.1:6443", "10.0.0.0/-8", false},
        {"https://10.0.0.1:6443", "::/0", false},
        {"https://[fd00::1]:6443", "fd00::/8", true},
        {"https://[fe00::1]:6443", "fd00::/8", false},
        {"https://[fd00::1]:6443", "0.0.0.0/0", false},
        {"https://api.example.com:6443", "0.0.0.0/0", false},
        {"https://api.example.com:6443", "example.com/8", false},
        {"https://api.example.com:6443", "example.com/0", false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct url server;
        assert_int_equal(url_parse(rows[i].server, &server, NULL), 0);
        if (kube_proxy_excepted(&server, rows[i].no_proxy) != rows[i].excepted) {
            fail_msg("row %zu: %s, NO_PROXY=%s", i, rows[i].server, rows[i].no_proxy);
        }
    }
}

/* Longer than any name or address, with a beginning that would match. */
static void test_a_long_entry_matches_nothing(void **state)
{
    char no_proxy[1024];
    struct url server;
    (void)state;
    (void)snprintf(no_proxy, sizeof no_proxy, "10.0.0.0/%0512d", 8);
    assert_int_equal(url_parse("https://11.0.0.1:6443", &server, NULL), 0);
    assert_false(kube_proxy_excepted(&server, no_proxy));
}

static void expect_from_environment(const char *server, const char *name)
{
    struct url url;
    struct kube_proxy p;
    struct err e = ERR_INIT;
    char found[KUBE_PROXY_NAME_SIZE];
    assert_int_equal(url_parse(server, &url, NULL), 0);
    if (kube_proxy_from_environment(&url, &p, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    kube_proxy_name(&p, found);
    assert_string_equal(found, name);
    kube_proxy_deinit(&p);
}

static void test_the_environment(void **state)
{
    (void)state;
    expect_from_environment("https://api:6443", "");
    setenv("http_proxy", "plain:1", 1);
    expect_from_environment("https://api:6443", "");
    expect_from_environment("http://api:8080", "http://plain:1");
    setenv("https_proxy", "lower:1", 1);
    setenv("HTTPS_PROXY", "", 1);
    expect_from_environment("https://api:6443", "http://lower:1");
    setenv("HTTPS_PROXY", "http://upper:1", 1);
    setenv("HTTP_PROXY", "http://upper:2", 1);
    expect_from_environment("https://api:6443", "http://upper:1");
    expect_from_environment("http://api:8080", "http://upper:2");
    expect_from_environment("https://127.0.0.1:6443", "");
    setenv("no_proxy", "api", 1);
    expect_from_environment("https://api:6443", "");
    setenv("NO_PROXY", "other", 1);
    expect_from_environment("https://api:6443", "http://upper:1");
}

static void test_a_bad_variable_is_named(void **state)
{
    struct url url;
    struct kube_proxy p;
    struct err e = ERR_INIT;
    (void)state;
    assert_int_equal(url_parse("https://api:6443", &url, NULL), 0);
    setenv("https_proxy", "socks5://me:SECRET@p:1", 1);
    assert_int_equal(kube_proxy_from_environment(&url, &p, &e), -EINVAL);
    assert_non_null(strstr(e.msg, "the environment variable https_proxy: "));
    assert_null(strstr(e.msg, "SECRET"));
    setenv("NO_PROXY", "api", 1);
    assert_int_equal(kube_proxy_from_environment(&url, &p, &e), 0);
    kube_proxy_deinit(&p);
}

static bool parse_once(void *data)
{
    struct kube_proxy p;
    struct err e = ERR_INIT;
    (void)data;
    int rc = kube_proxy_parse("http://user:pass@p:1", &p, &e);
    kube_proxy_deinit(&p);
    assert_true(rc == 0 || rc == -ENOMEM);
    return rc == 0;
}

static void test_memory(void **state)
{
    (void)state;
    /* With _FORTIFY_SOURCE asprintf is another function, which does not fail here. */
    assert_true(sweep_allocations(parse_once, NULL) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_urls, setup),
        cmocka_unit_test_setup(test_the_whole_url_is_kept_for_plugins, setup),
        cmocka_unit_test_setup(test_refused_urls, setup),
        cmocka_unit_test_setup(test_a_user_can_be_too_long, setup),
        cmocka_unit_test_setup(test_no_proxy, setup),
        cmocka_unit_test_setup(test_a_long_entry_matches_nothing, setup),
        cmocka_unit_test_setup(test_the_environment, setup),
        cmocka_unit_test_setup(test_a_bad_variable_is_named, setup),
        cmocka_unit_test_setup(test_memory, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
