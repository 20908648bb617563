/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rules name is the test's own (policies_name_address is wrapped).
 */
#include "egress/reach.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "net/address.h"

/* "address:port" that a rule names; NULL: none. */
static const char *named;
/* Never looked into. */
static const struct policies *const policies = (const struct policies *)(const void *)&named;

bool __wrap_policies_name_address(const struct policies *p, struct slice address, unsigned port);
bool __wrap_policies_name_address(const struct policies *p, struct slice address, unsigned port)
{
    char text[128];
    assert_ptr_equal(p, policies);
    (void)snprintf(text, sizeof text, "%.*s %u", (int)address.len, address.ptr, port);
    return named != NULL && strcmp(named, text) == 0;
}

static int setup(void **state)
{
    (void)state;
    named = NULL;
    unsetenv("KUBERNETES_SERVICE_HOST");
    unsetenv("KUBERNETES_SERVICE_PORT");
    return 0;
}

static struct sockaddr_storage address_of(const char *host, unsigned port)
{
    struct sockaddr_storage a;
    if (net_address_literal(host, port, &a) != 0) {
        fail_msg("%s is no address", host);
    }
    return a;
}

static bool is_protected(const char *host)
{
    struct sockaddr_storage a = address_of(host, 80);
    return reach_is_protected((const struct sockaddr *)&a);
}

static void test_protected(void **state)
{
    static const char *const yes[] = {
        "0.0.0.0",
        "0.255.1.2",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.0.0",
        "169.254.169.254",
        "169.254.170.2",
        "169.254.255.255",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "224.0.0.1",
        "239.255.255.255",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "febf::1",
        "ff02::1",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "::169.254.169.254",
        "64:ff9b::127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe",
        "64:ff9b:1:a9fe:a9:fe00::",
        "2002:7f00:1::",
        "2002:a9fe:a9fe:1::1",
        "::ffff:0:127.0.0.1",
        "::ffff:0:a9fe:a9fe",
        "2001::1",
        "2001:0:1:2:3:4:5:6",
    };
    static const char *const no[] = {
        "1.0.0.0",        "126.255.255.255",    "128.0.0.1",        "169.253.255.255",
        "169.255.0.0",    "100.100.100.199",    "168.63.129.17",    "192.0.0.193",
        "10.0.0.1",       "172.16.0.1",         "192.168.1.1",      "100.64.0.1",
        "223.255.255.1",  "240.0.0.1",          "255.255.255.254",  "fc00::1",
        "fd00::1",        "fd20:ce::253",       "fec0::1",          "fe00::1",
        "2001:db8::1",    "2001:1::1",          "64:ff9b::8.8.8.8", "::ffff:8.8.8.8",
        "2002:808:808::", "64:ff9a::127.0.0.1", "::1:127.0.0.1",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        if (!is_protected(yes[i])) {
            fail_msg("%s", yes[i]);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(no); i++) {
        if (is_protected(no[i])) {
            fail_msg("%s", no[i]);
        }
    }
    struct sockaddr other = {.sa_family = AF_UNIX};
    assert_true(reach_is_protected(&other));
}

/* ---- a whole one ---- */

static struct reach *make(const char *server, unsigned port, const char *own)
{
    struct url url = {.https = true, .port = (uint16_t)port};
    struct reach_options o = {.server = &url, .own = {own}};
    (void)snprintf(url.host, sizeof url.host, "%s", server);
    struct reach *r = reach_new(&o, policies);
    assert_non_null(r);
    return r;
}

/* 0, or -EACCES with the message holding `why`. */
static int check(const struct reach *r, const char *authority, const char *why)
{
    struct http_head head = {
        .connect = true, .method = SLICE("CONNECT"), .target = slice_str(authority)};
    struct traffic_external q;
    struct destination t;
    struct err e = ERR_INIT;
    if (destination_read(&head, &t, &e) != 0) {
        fail_msg("%s: %s", authority, e.msg);
    }
    destination_describe(&t, &head, &q);
    int rc = reach_check(r, &t, &q, &e);
    if (rc != 0 && (rc != -EACCES || e.code != rc || strstr(e.msg, why) == NULL)) {
        fail_msg("%s: %d %s", authority, rc, e.msg);
    }
    return rc;
}

static bool gate_allows(struct reach *r, const char *host, unsigned port)
{
    struct sockaddr_storage a = address_of(host, port);
    const struct net_dial_gate *g = reach_gate(r);
    return g->allows(g->data, (const struct sockaddr *)&a);
}

static void assert_refused(struct reach *r, const char *authority, const char *why)
{
    if (check(r, authority, why) == 0) {
        fail_msg("%s is reached", authority);
    }
}

/* Also addresses that are known later, and no more of them than there is room for. */
static void test_own_addresses_are_added(void **state)
{
    struct reach *r = make("api.example", 6443, "127.0.0.1:5443");
    char address[32];
    (void)state;
    assert_int_equal(check(r, "10.0.0.1:5441", ""), 0);
    reach_add_own(r, "not an address");
    for (unsigned i = 0; i < REACH_OWN_MAX + 2; i++) {
        (void)snprintf(address, sizeof address, "10.0.0.1:%u", 5441 + i);
        reach_add_own(r, address);
    }
    assert_refused(r, "127.0.0.1:5443", "localproxy itself");
    assert_refused(r, "10.0.0.1:5441", "localproxy itself");
    assert_refused(r, "10.0.0.1:5463", "localproxy itself");
    assert_int_equal(check(r, "10.0.0.1:5464", ""), 0);
    reach_free(r);
}

static void test_protected_addresses_are_not_reached(void **state)
{
    struct reach *r = make("api.example", 6443, NULL);
    (void)state;
    assert_refused(r, "127.0.0.1:80", "Whitelist");
    assert_refused(r, "[::1]:80", "Whitelist");
    assert_refused(r, "169.254.169.254:80", "Whitelist");
    assert_refused(r, "[64:ff9b::169.254.169.254]:80", "Whitelist");
    assert_int_equal(check(r, "10.0.0.1:80", ""), 0);
    assert_int_equal(check(r, "example.com:443", ""), 0);
    /* Names are judged by what they lead to. */
    assert_int_equal(check(r, "localhost:80", ""), 0);
    assert_false(gate_allows(r, "127.0.0.1", 80));
    assert_false(gate_allows(r, "::1", 80));
    assert_false(gate_allows(r, "::ffff:169.254.169.254", 80));
    assert_true(gate_allows(r, "10.0.0.1", 80));
    assert_true(gate_allows(r, "2001:db8::1", 80));
    assert_int_equal(reach_gate(r)->lookups_max, REACH_LOOKUPS_MAX);
    reach_free(r);
}

static void test_a_rule_may_name_an_address(void **state)
{
    struct reach *r = make("api.example", 6443, NULL);
    (void)state;
    named = "127.0.0.1 8080";
    assert_int_equal(check(r, "127.0.0.1:8080", ""), 0);
    assert_true(gate_allows(r, "127.0.0.1", 8080));
    assert_true(gate_allows(r, "::ffff:127.0.0.1", 8080));
    assert_refused(r, "127.0.0.1:8081", "Whitelist");
    assert_refused(r, "127.0.0.2:8080", "Whitelist");
    assert_false(gate_allows(r, "::1", 8080));
    named = "::1 8080";
    assert_int_equal(check(r, "[0:0::1]:8080", ""), 0);
    reach_free(r);
}

/* Where dialling failed, it says what to do. */
static void test_explain(void **state)
{
    struct err refused = {.code = NET_DIAL_FORBIDDEN, .msg = "cannot connect to h"};
    struct err other = {.code = UV_ECONNREFUSED, .msg = "cannot connect to h"};
    (void)state;
    reach_explain(&refused);
    reach_explain(&other);
    assert_int_equal(refused.code, NET_DIAL_FORBIDDEN);
    assert_non_null(strstr(refused.msg, "cannot connect to h; "));
    assert_non_null(strstr(refused.msg, "Whitelist"));
    assert_string_equal(other.msg, "cannot connect to h");
}

static void test_without_policies(void **state)
{
    struct url url = {.https = true, .host = "api.example", .port = 443};
    struct reach_options o = {.server = &url};
    struct reach *r = reach_new(&o, NULL);
    (void)state;
    assert_non_null(r);
    assert_refused(r, "127.0.0.1:80", "Whitelist");
    assert_int_equal(check(r, "10.0.0.1:80", ""), 0);
    reach_free(r);
    reach_free(NULL);
}

static void test_localproxy_itself_is_never_reached(void **state)
{
    struct reach *r = make("api.example", 6443, "127.0.0.1:5443");
    (void)state;
    named = "127.0.0.1 5443";
    assert_refused(r, "127.0.0.1:5443", "localproxy itself");
    assert_refused(r, "0.0.0.0:5443", "localproxy itself");
    assert_refused(r, "[::]:5443", "");
    assert_refused(r, "[::ffff:127.0.0.1]:5443", "localproxy itself");
    assert_false(gate_allows(r, "127.0.0.1", 5443));
    reach_free(r);
}

static void test_a_listener_on_all_addresses(void **state)
{
    struct reach *r = make("api.example", 6443, "[::]:5441");
    (void)state;
    named = "127.0.0.1 5441";
    assert_refused(r, "127.0.0.1:5441", "localproxy itself");
    named = "127.8.9.1 5441";
    assert_refused(r, "127.8.9.1:5441", "localproxy itself");
    named = "::1 5441";
    assert_false(gate_allows(r, "::1", 5441));
    /* Not this machine's. */
    assert_int_equal(check(r, "198.51.100.7:5441", ""), 0);
    reach_free(r);
}

static void test_the_api_server_is_never_reached(void **state)
{
    setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", 1);
    setenv("KUBERNETES_SERVICE_PORT", "8443", 1);
    struct reach *r = make("API.example.", 6443, NULL);
    (void)state;
    named = "10.96.0.1 8443";
    assert_refused(r, "10.96.0.1:8443", "NO_PROXY");
    assert_false(gate_allows(r, "10.96.0.1", 8443));
    assert_false(gate_allows(r, "::ffff:10.96.0.1", 8443));
    assert_int_equal(check(r, "10.96.0.1:443", ""), 0);
    assert_refused(r, "api.example:6443", "NO_PROXY");
    assert_refused(r, "api.EXAMPLE.:6443", "NO_PROXY");
    assert_int_equal(check(r, "api.example:443", ""), 0);
    assert_refused(r, "kubernetes:443", "NO_PROXY");
    assert_refused(r, "kubernetes.default:6443", "NO_PROXY");
    assert_refused(r, "kubernetes.default.svc:80", "NO_PROXY");
    assert_int_equal(check(r, "kubernetes.example:443", ""), 0);
    assert_int_equal(check(r, "other.default.svc:443", ""), 0);
    reach_free(r);
}

static void test_the_api_server_by_address(void **state)
{
    setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
    setenv("KUBERNETES_SERVICE_PORT", "none", 1);
    struct reach *r = make("127.0.0.1", 6443, NULL);
    (void)state;
    named = "127.0.0.1 6443";
    assert_refused(r, "127.0.0.1:6443", "NO_PROXY");
    assert_refused(r, "[fd00:0:0::1]:443", "NO_PROXY");
    assert_false(gate_allows(r, "127.0.0.1", 6443));
    assert_false(gate_allows(r, "fd00::1", 443));
    reach_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_protected, setup),
        cmocka_unit_test_setup(test_protected_addresses_are_not_reached, setup),
        cmocka_unit_test_setup(test_own_addresses_are_added, setup),
        cmocka_unit_test_setup(test_a_rule_may_name_an_address, setup),
        cmocka_unit_test_setup(test_explain, setup),
        cmocka_unit_test_setup(test_without_policies, setup),
        cmocka_unit_test_setup(test_localproxy_itself_is_never_reached, setup),
        cmocka_unit_test_setup(test_a_listener_on_all_addresses, setup),
        cmocka_unit_test_setup(test_the_api_server_is_never_reached, setup),
        cmocka_unit_test_setup(test_the_api_server_by_address, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
