/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/via.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "base/array.h"

static const struct http_proxy *way_to(const struct via *v, const char *host, unsigned port)
{
    struct destination t = {.way = DESTINATION_TUNNEL, .port = port};
    (void)snprintf(t.host, sizeof t.host, "%s", host);
    return via_of(v, &t);
}

static void test_no_proxy_at_all(void **state)
{
    static const char *const urls[] = {NULL, ""};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        struct via *v = via_new(urls[i], "example.com", NULL);
        assert_non_null(v);
        assert_null(way_to(v, "example.org", 443));
        assert_string_equal(via_name(v), "");
        via_free(v);
    }
    via_free(NULL);
}

static void test_through_the_proxy(void **state)
{
    struct via *v = via_new("http://user:secret@proxy.corp:3128", NULL, NULL);
    (void)state;
    assert_non_null(v);
    const struct http_proxy *p = way_to(v, "example.org", 443);
    assert_non_null(p);
    assert_string_equal(p->host, "proxy.corp");
    assert_int_equal(p->port, 3128);
    assert_string_equal(p->authorization, "Basic dXNlcjpzZWNyZXQ=");
    assert_string_equal(via_name(v), "http://proxy.corp:3128");
    via_free(v);
}

static void test_exceptions(void **state)
{
    static const struct {
        const char *host;
        unsigned port;
        bool direct;
    } rows[] = {
        {"example.org", 443, false},
        {"svc", 443, false},
        {"a.svc", 80, true},
        {"corp.example", 80, true},
        {"a.corp.example", 80, true},
        {"notcorp.example", 80, false},
        {"10.1.2.3", 80, true},
        {"11.1.2.3", 80, false},
        {"fd00::7", 443, true},
        {"ports.example", 8080, true},
        {"ports.example", 8081, false},
        {"localhost", 80, true},
        {"127.0.0.1", 80, true},
        {"::1", 80, true},
    };
    struct via *v = via_new("http://proxy:1",
                            ".svc, corp.example,10.0.0.0/8 ,fd00::/16,ports.example:8080", NULL);
    (void)state;
    assert_non_null(v);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if ((way_to(v, rows[i].host, rows[i].port) == NULL) != rows[i].direct) {
            fail_msg("%s:%u", rows[i].host, rows[i].port);
        }
    }
    via_free(v);
}

static void test_refused(void **state)
{
    static const char *const urls[] = {
        "socks5://proxy:1",           "https://proxy:1",          "http://user:secret@pro xy:1",
        "http://user:secret@proxy:0", "http://user:secret@:3128", "http://user:sec%zzret@proxy",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        struct err e = ERR_INIT;
        assert_null(via_new(urls[i], NULL, &e));
        assert_int_equal(e.code, -EINVAL);
        assert_null(strstr(e.msg, "secret"));
    }
}

static bool scenario(void *data)
{
    struct err e = ERR_INIT;
    (void)data;
    struct via *v = via_new("http://user:secret@proxy:1", "a", &e);
    if (v == NULL) {
        assert_int_equal(e.code, -ENOMEM);
        return false;
    }
    via_free(v);
    return true;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    assert_true(sweep_allocations(scenario, NULL) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_proxy_at_all), cmocka_unit_test(test_through_the_proxy),
        cmocka_unit_test(test_exceptions),      cmocka_unit_test(test_refused),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
