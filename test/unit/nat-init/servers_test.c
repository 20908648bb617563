/* SPDX-License-Identifier: Apache-2.0 */
#include "servers.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"

static void expect(const struct flag_list *texts, const char *want)
{
    struct ruleset r = {.to_port = 1, .except_user = 2};
    struct err e = ERR_INIT;
    struct buf out = BUF_INIT(65536);
    if (servers_find(texts, &r, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    assert_int_equal(ruleset_write(&r, &out), 0);
    if (strstr(buf_cstr(&out), want) == NULL) {
        fail_msg("no \"%s\" in:\n%s", want, buf_cstr(&out));
    }
    buf_reset(&out);
}

static void of_the_pod(void **state)
{
    (void)state;
    const struct flag_list none = {.count = 0};
    assert_int_equal(setenv("KUBERNETES_SERVICE_PORT", "6443", 1), 0);
    assert_int_equal(setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", 1), 0);
    expect(&none, "ip daddr 10.96.0.1 tcp dport 6443 ");
    assert_int_equal(setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1), 0);
    expect(&none, "ip6 daddr fd00::1 tcp dport 6443 ");
}

static void of_flags(void **state)
{
    (void)state;
    const struct flag_list two = {.items = {"10.0.0.9:443", "[fd00::9]:6443"}, .count = 2};
    expect(&two, "ip daddr 10.0.0.9 tcp dport 443 ");
    expect(&two, "ip6 daddr fd00::9 tcp dport 6443 ");
    const struct flag_list mapped = {.items = {"[::ffff:10.0.0.7]:443"}, .count = 1};
    expect(&mapped, "ip daddr 10.0.0.7 tcp dport 443 ");
    const struct flag_list name = {.items = {"localhost:5"}, .count = 1};
    expect(&name, " tcp dport 5 ");
}

static void what_is_none(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        const char *port;
        const char *flag;
        const char *want;
    } cases[] = {
        {NULL, "443", NULL, "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set"},
        {"10.0.0.1", NULL, NULL, "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set"},
        {"10.0.0.1", "x", NULL, "\"10.0.0.1:x\" is not HOST:PORT"},
        {"10.0.0.1", "0", NULL, "\"10.0.0.1:0\" is not HOST:PORT"},
        {"10.0.0.1/x", "443", NULL, "\"10.0.0.1/x:443\" is not HOST:PORT"},
        {"10.0.0.1", "443", "a;b:1", "--server: \"a;b:1\" is not HOST:PORT"},
        {"10.0.0.1", "443", "0.0.0.0:443", "--server: no API server can have that address"},
        {"10.0.0.1", "443", "224.0.0.1:443", "--server: no API server can have that address"},
        {"10.0.0.1", "443", "[::]:443", "--server: no API server can have that address"},
        {"10.0.0.1", "443", "[ff02::1]:443", "--server: no API server can have that address"},
        {"10.0.0.1", "443", "[::ffff:0.0.0.0]:443", "--server: no API server can have that"},
        {"10.0.0.1", "443", "", "--server: \"\" is not HOST:PORT"},
        {"10.0.0.1", "443", "x@10.0.0.1:1", "--server: \"x@10.0.0.1:1\" is not HOST:PORT"},
        {"10.0.0.1", "443", "h:1\n", "--server: \"h:1\n\" is not HOST:PORT"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct ruleset r = {0};
        struct err e = ERR_INIT;
        struct flag_list texts = {.items = {cases[i].flag}, .count = cases[i].flag != NULL};
        (void)unsetenv("KUBERNETES_SERVICE_HOST");
        (void)unsetenv("KUBERNETES_SERVICE_PORT");
        if (cases[i].host != NULL) {
            assert_int_equal(setenv("KUBERNETES_SERVICE_HOST", cases[i].host, 1), 0);
        }
        if (cases[i].port != NULL) {
            assert_int_equal(setenv("KUBERNETES_SERVICE_PORT", cases[i].port, 1), 0);
        }
        int rc = servers_find(&texts, &r, &e);
        if (rc >= 0 || strncmp(e.msg, cases[i].want, strlen(cases[i].want)) != 0) {
            fail_msg("wanted \"%s\", got %d \"%s\"", cases[i].want, rc, e.msg);
        }
        assert_int_equal(r.server_count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_the_pod),
        cmocka_unit_test(of_flags),
        cmocka_unit_test(what_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
