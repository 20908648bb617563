/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/array.h"
#include "crypto/tls_names.h"

static const struct {
    const char *pattern;
    const char *host;
    bool matches;
} rules[] = {
    {"localhost", "localhost", true},
    {"localhost", "LocalHost", true},
    {"LOCALHOST", "localhost", true},
    {"kubernetes.default.svc", "kubernetes.default.svc", true},
    {"kubernetes.default.svc", "kubernetes.default", false},
    {"kubernetes.default", "kubernetes.default.svc", false},
    {"localhost", "localhostx", false},
    {"localhost", "", false},
    {"", "localhost", false},
    {"", "", false},
    /* A wildcard is a whole label, the left-most, and stands for exactly one. */
    {"*.example.com", "api.example.com", true},
    {"*.EXAMPLE.com", "API.example.COM", true},
    {"*.example.com", "example.com", false},
    {"*.example.com", ".example.com", false},
    {"*.example.com", "a.b.example.com", false},
    {"*.example.com", "api.example.org", false},
    {"*.*.example.com", "a.b.example.com", false},
    {"a.*.example.com", "a.b.example.com", false},
    {"a*.example.com", "api.example.com", false},
    {"*i.example.com", "api.example.com", false},
    {"**.example.com", "api.example.com", false},
    {"*", "localhost", false},
    {"*.", "localhost", false},
    {"*.", "localhost.", false},
    {"*.com", "example.com", true},
    /* A host is no pattern. */
    {"*.example.com", "*.example.com", false},
    {"api.example.com", "*.example.com", false},
};

static void names_match_by_rfc6125(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        bool m = tls_name_matches(rules[i].pattern, strlen(rules[i].pattern), rules[i].host,
                                  strlen(rules[i].host));
        if (m != rules[i].matches) {
            fail_msg("pattern \"%s\", host \"%s\": %d", rules[i].pattern, rules[i].host, m);
        }
    }
}

static void a_nul_in_a_pattern_does_not_end_it(void **state)
{
    static const char pattern[] = "good.example\0.evil.example";
    (void)state;
    assert_false(tls_name_matches(pattern, sizeof(pattern) - 1, "good.example", 12));
}

static void peers_are_addresses_or_names(void **state)
{
    static const struct {
        const char *text;
        size_t ip_len;
    } peers[] = {
        {"10.0.0.1", 4},    {"::1", 16},          {"[::1]", 16},
        {"[fd00::10]", 16}, {"10.0.0", 0},        {"10.0.0.256", 0},
        {"localhost", 0},   {"1.example.com", 0}, {"[localhost]", 0},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(peers); i++) {
        struct tls_peer_name n;
        tls_peer_name_init(&n, peers[i].text);
        assert_int_equal(n.ip_len, peers[i].ip_len);
        assert_int_equal(n.dns == NULL, peers[i].ip_len != 0);
    }
}

static void a_trailing_dot_is_not_part_of_the_name(void **state)
{
    struct tls_peer_name n;
    (void)state;
    tls_peer_name_init(&n, "example.com.");
    assert_int_equal(n.dns_len, strlen("example.com"));
}

static void only_names_of_the_peers_type_match(void **state)
{
    static const struct {
        enum tls_san_type type;
        struct slice value;
        const char *peer;
        bool matches;
    } cases[] = {
        {TLS_SAN_DNS, {"localhost", 9}, "localhost", true},
        {TLS_SAN_OTHER, {"localhost", 9}, "localhost", false},
        {TLS_SAN_IP, {"localhost", 9}, "localhost", false},
        {TLS_SAN_IP, {"\x7f\0\0\1", 4}, "127.0.0.1", true},
        {TLS_SAN_IP, {"\x7f\0\0\2", 4}, "127.0.0.1", false},
        {TLS_SAN_IP, {"\x7f\0\0\1", 3}, "127.0.0.1", false},
        {TLS_SAN_OTHER, {"\x7f\0\0\1", 4}, "127.0.0.1", false},
        {TLS_SAN_DNS, {"127.0.0.1", 9}, "127.0.0.1", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tls_san san = {.type = cases[i].type, .value = cases[i].value};
        struct tls_peer_name n;
        tls_peer_name_init(&n, cases[i].peer);
        if (tls_san_matches(&san, &n) != cases[i].matches) {
            fail_msg("case %zu: %d", i, !cases[i].matches);
        }
    }
}

static void names_of_hosts_are_listed(void **state)
{
    static const struct tls_san sans[] = {
        {TLS_SAN_DNS, {"a.example", 9}},
        {TLS_SAN_OTHER, {"mail@example", 12}},
        {TLS_SAN_IP, {"\12\0\0\1", 4}},
    };
    char list[32] = "";
    (void)state;
    for (size_t i = 0; i < sizeof(sans) / sizeof(sans[0]); i++) {
        assert_true(tls_san_list(&sans[i], list, sizeof(list)));
    }
    assert_string_equal(list, "a.example, 10.0.0.1");
    assert_false(tls_san_list(&sans[0], list, sizeof(list)));
    assert_string_equal(list, "a.example, 10.0.0.1, ...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_match_by_rfc6125),
        cmocka_unit_test(a_nul_in_a_pattern_does_not_end_it),
        cmocka_unit_test(peers_are_addresses_or_names),
        cmocka_unit_test(a_trailing_dot_is_not_part_of_the_name),
        cmocka_unit_test(only_names_of_the_peers_type_match),
        cmocka_unit_test(names_of_hosts_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
