/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/url.h"

static void test_taken(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool https;
        const char *host;
        uint16_t port;
        const char *path;
        const char *host_port;
    } cases[] = {
        {"https://api.example.com", true, "api.example.com", 443, "", "api.example.com"},
        {"https://api.example.com/", true, "api.example.com", 443, "", "api.example.com"},
        {"HTTPS://h:6443", true, "h", 6443, "", "h:6443"},
        {"http://127.0.0.1:5443", false, "127.0.0.1", 5443, "", "127.0.0.1:5443"},
        {"http://h:443", false, "h", 443, "", "h:443"},
        {"http://h:", false, "h", 80, "", "h"},
        {"https://h/k8s/clusters/c-1/", true, "h", 443, "/k8s/clusters/c-1", "h"},
        {"https://h/a%20b", true, "h", 443, "/a%20b", "h"},
        {"https://h//", true, "h", 443, "", "h"},
        {"https://[::1]:6443/p", true, "::1", 6443, "/p", "[::1]:6443"},
        {"https://[fe80::1%25eth0]", true, "fe80::1%eth0", 443, "", "[fe80::1]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct url u;
        struct err e = ERR_INIT;
        char host_port[URL_HOST_PORT_SIZE];
        if (url_parse(cases[i].text, &u, &e) != 0) {
            fail_msg("%s: %s", cases[i].text, e.msg);
        }
        url_host_port(&u, host_port);
        assert_int_equal(u.https, cases[i].https);
        assert_string_equal(u.host, cases[i].host);
        assert_int_equal(u.port, cases[i].port);
        assert_string_equal(u.path, cases[i].path);
        assert_string_equal(host_port, cases[i].host_port);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *words;
    } cases[] = {
        {"", "must begin with http"},
        {"api.example.com", "must begin with http"},
        {"ftp://h", "must begin with http"},
        {"https://", "no host"},
        {"https://:6443", "no host"},
        {"https://h:0", "port"},
        {"https://h:65536", "port"},
        {"https://h:99999999999999999999", "port"},
        {"https://h:12x", "port"},
        {"https://h?x=1", "query"},
        {"https://h/p?x", "query"},
        {"https://h/p#x", "fragment"},
        {"https://h /p", "character 10"},
        {"https://h\r\nx", "byte 0x0d"},
        {"https://h/\xc3\xa9", "byte 0xc3"},
        {"https://user:hunter2@h", "user or password"},
        {"https://token@h:1", "user or password"},
        {"https://[::1", "bracket"},
        {"https://[hello]", "not an IPv6 address"},
        {"https://[::1]x", "between its host and its port"},
        {"https://[::1%eth0]", "%25ZONE"},
        {"https://a!b", "contains \"!\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct url u;
        struct err e = ERR_INIT;
        if (url_parse(cases[i].text, &u, &e) == 0) {
            fail_msg("taken: %s", cases[i].text);
        }
        if (strstr(e.msg, cases[i].words) == NULL || strstr(e.msg, "hunter2") != NULL) {
            fail_msg("%s: %s", cases[i].text, e.msg);
        }
    }
}

static void test_lengths(void **state)
{
    (void)state;
    char text[2048];
    struct url u;
    struct err e = ERR_INIT;
    strcpy(text, "https://");
    memset(text + 8, 'a', URL_HOST_MAX);
    text[8 + URL_HOST_MAX] = '\0';
    assert_int_equal(url_parse(text, &u, &e), 0);
    strcat(text, "a");
    assert_true(url_parse(text, &u, &e) < 0);
    strcpy(text, "https://h/");
    memset(text + 10, 'p', URL_PATH_MAX - 1);
    text[9 + URL_PATH_MAX] = '\0';
    assert_int_equal(url_parse(text, &u, &e), 0);
    assert_int_equal(strlen(u.path), URL_PATH_MAX);
    strcat(text, "p");
    assert_true(url_parse(text, &u, &e) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
