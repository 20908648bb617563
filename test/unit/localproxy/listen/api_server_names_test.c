/* SPDX-License-Identifier: Apache-2.0 */
#include "listen/api_server_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void expect(const char *resolv_conf, const char *host, const char *names)
{
    struct api_server_names n;
    char got[1024] = "";
    api_server_names_make(slice_str(resolv_conf), host, &n);
    for (size_t i = 0; i < n.count; i++) {
        strcat(strcat(got, i == 0 ? "" : " "), n.names[i]);
    }
    assert_string_equal(got, names);
}

#define SHORT "kubernetes kubernetes.default kubernetes.default.svc "

static void test_domain(void **state)
{
    (void)state;
    expect("", NULL, SHORT "kubernetes.default.svc.cluster.local");
    expect("search ns.svc.corp.example svc.corp.example corp.example\nnameserver 10.0.0.1\n", NULL,
           SHORT "kubernetes.default.svc.corp.example");
    expect("nameserver 10.0.0.1\nsearch\tns.svc.a.b.\t\tsvc.a.b.\r\noptions ndots:5", NULL,
           SHORT "kubernetes.default.svc.a.b");
    expect("search svc.one\nsearch svc.two", NULL, SHORT "kubernetes.default.svc.two");
    expect("search a b\nsearch\nsearch svc. svc", NULL,
           SHORT "kubernetes.default.svc.cluster.local");
    expect("research svc.x\n# search svc.x\nsearch svc.X_y", NULL,
           SHORT "kubernetes.default.svc.cluster.local");
}

static void test_host(void **state)
{
    (void)state;
    expect("", "10.96.0.1", SHORT "kubernetes.default.svc.cluster.local 10.96.0.1");
    expect("", "fd00::1", SHORT "kubernetes.default.svc.cluster.local fd00::1");
    expect("", "abc.hcp.example", SHORT "kubernetes.default.svc.cluster.local abc.hcp.example");
    expect("", "", SHORT "kubernetes.default.svc.cluster.local");
    expect("", "no name", SHORT "kubernetes.default.svc.cluster.local");
}

static void test_long_names_are_left_out(void **state)
{
    char text[600] = "search svc.";
    struct api_server_names n;
    (void)state;
    memset(text + 11, 'a', 500);
    api_server_names_make(slice_str(text), NULL, &n);
    assert_int_equal(n.count, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_domain),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_long_names_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
