/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "guard/host.h"

static const struct flag_list accepted = {.items = {"proxy.example", "Other"}, .count = 2};

static bool is_accepted(struct slice value)
{
    const struct http_header h = {SLICE("Host"), value};
    const struct http_head head = {.headers = &h, .header_count = 1};
    return host_is_accepted(&head, &accepted);
}

static void names_that_a_page_can_have_are_not_accepted(void **state)
{
    static const struct {
        const char *host;
        bool accepted;
    } rows[] = {
        {"127.0.0.1:5443", true},
        {"127.0.0.1", true},
        {"127.0.36.3:80", true},
        {"10.1.2.3:5443", true},
        {"[::1]:5443", true},
        {"[::1]", true},
        {"localhost:5443", true},
        {"LocalHost", true},
        {"localhost.:5443", true},
        {"blue.localhost:5443", true},
        {"proxy.example:5443", true},
        {"PROXY.example.", true},
        {"other", true},
        {"evil.example", false},
        {"evil.example:5443", false},
        {"127.0.0.1.evil.example", false},
        {"localhost.evil.example", false},
        {"evillocalhost", false},
        {"evil.example.localhost", true}, /* RFC 6761: nobody else can have it */
        {".localhost", false},
        {"..localhost", false},
        {"evil.example\t.localhost", false},
        {"evil.example .localhost", false},
        {"\xa1.localhost", false},
        {"[blue.localhost]", false},
        {"[proxy.example]", false},
        {"1.proxy.example", false},
        {"proxy.exampl", false},
        {"127.1", false},
        {"[::1", false},
        {"[evil.example]", false},
        {"", false},
        {":5443", false},
        {"x:127.0.0.1", false},
        {"127.0.0.1:80.evil.example", false},
        {"127.0.0.1:", true}, /* RFC 3986, section 3.2.3: a port may be empty */
        {"localhost:x", false},
        {"[::1].evil.example", false},
        {"[::1]5443", false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (is_accepted(slice_str(rows[i].host)) != rows[i].accepted) {
            fail_msg("\"%s\"", rows[i].host);
        }
    }
}

static void what_is_too_long_or_nothing_is_no_name(void **state)
{
    static char text[400];
    (void)state;
    memset(text, '1', sizeof text);
    for (size_t len = 250; len <= sizeof text; len++) {
        assert_false(is_accepted(slice_of(text, len)));
    }
    assert_false(is_accepted((struct slice){.len = 0}));
}

static void a_head_without_it_is_accepted(void **state)
{
    (void)state;
    const struct http_head head = {.minor = 0};
    assert_true(host_is_accepted(&head, &accepted));
}

static void what_never_matches_is_no_name(void **state)
{
    static const char *const names[] = {"proxy.example", "Other", "a_b-c.9", "10.0.0.1"};
    static const char *const others[] = {
        "",      "http://proxy.example", "proxy.example:5443", "*",
        "[::1]", "proxy.example.",       ".example",           "a b"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_true(host_is_name(names[i]));
    }
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        if (host_is_name(others[i])) {
            fail_msg("\"%s\"", others[i]);
        }
    }
    char text[257];
    memset(text, 'a', sizeof text - 1);
    text[256] = '\0';
    assert_false(host_is_name(text));
    assert_true(host_is_name(text + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_a_page_can_have_are_not_accepted),
        cmocka_unit_test(what_is_too_long_or_nothing_is_no_name),
        cmocka_unit_test(a_head_without_it_is_accepted),
        cmocka_unit_test(what_never_matches_is_no_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
