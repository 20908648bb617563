/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/destination.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"

#define NAME_63 "abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabc"

static struct http_head head_of(const char *method, const char *target)
{
    return (struct http_head){
        .method = slice_str(method),
        .target = slice_str(target),
        .connect = strcmp(method, "CONNECT") == 0,
    };
}

static void assert_slice(struct slice got, const char *expected)
{
    char text[256];
    (void)snprintf(text, sizeof text, "%.*s", (int)got.len, got.len > 0 ? got.ptr : "");
    assert_string_equal(text, expected);
}

static void test_absolute_form(void **state)
{
    static const struct {
        const char *url;
        bool https;
        const char *host;
        unsigned port;
        const char *path;
        const char *query;
        const char *origin;
    } rows[] = {
        {"http://example.com/a/b?c=d&e", false, "example.com", 80, "/a/b", "c=d&e", "/a/b?c=d&e"},
        {"https://example.com/", true, "example.com", 443, "/", "", "/"},
        {"HTTP://EXAMPLE.Com", false, "example.com", 80, "/", "", ""},
        {"http://example.com?a/b?c", false, "example.com", 80, "/", "a/b?c", ""},
        {"http://example.com/?", false, "example.com", 80, "/", "", "/?"},
        {"http://example.com.:8080/x", false, "example.com", 8080, "/x", "", "/x"},
        {"http://example.com:/x", false, "example.com", 80, "/x", "", "/x"},
        {"https://example.com:65535//x", true, "example.com", 65535, "//x", "", "//x"},
        {"http://a_b.example/", false, "a_b.example", 80, "/", "", "/"},
        {"http://xn--bcher-kva.example/", false, "xn--bcher-kva.example", 80, "/", "", "/"},
        {"http://10.0.0.1/", false, "10.0.0.1", 80, "/", "", "/"},
        {"http://[FD00:0::1]:81/", false, "fd00::1", 81, "/", "", "/"},
        {"http://[::ffff:10.0.0.1]/", false, "10.0.0.1", 80, "/", "", "/"},
        {"http://1.example/a/../%2e%2E/%00", false, "1.example", 80, "/a/../%2e%2E/%00", "",
         "/a/../%2e%2E/%00"},
        {"http://p/api?query=up{job=\"x\"}|y\\z", false, "p", 80, "/api",
         "query=up{job=\"x\"}|y\\z", "/api?query=up{job=\"x\"}|y\\z"},
        {"http://e/a@b:c", false, "e", 80, "/a@b:c", "", "/a@b:c"},
        {"http://0xg.de/", false, "0xg.de", 80, "/", "", "/"},
        {"http://" NAME_63 "." NAME_63 "/", false, NAME_63 "." NAME_63, 80, "/", "", "/"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_head head = head_of("GET", rows[i].url);
        struct destination t;
        struct err e = ERR_INIT;
        if (destination_read(&head, &t, &e) != 0) {
            fail_msg("%s: %s", rows[i].url, e.msg);
        }
        assert_int_equal(t.way, DESTINATION_ABSOLUTE);
        assert_int_equal(t.https, rows[i].https);
        assert_string_equal(t.host, rows[i].host);
        assert_int_equal(t.port, rows[i].port);
        assert_slice(t.path, rows[i].path);
        assert_slice(t.query, rows[i].query);
        assert_slice(t.origin, rows[i].origin);
    }
}

static void test_literals(void **state)
{
    (void)state;
    struct http_head v4 = head_of("GET", "http://10.0.0.1/");
    struct http_head v6 = head_of("CONNECT", "[::1]:443");
    struct http_head mapped = head_of("GET", "http://[::ffff:7f00:1]/");
    struct http_head name = head_of("GET", "http://localhost/");
    struct destination t;
    assert_int_equal(destination_read(&v4, &t, NULL), 0);
    assert_true(t.literal);
    assert_int_equal(destination_read(&v6, &t, NULL), 0);
    assert_true(t.literal);
    assert_int_equal(destination_read(&mapped, &t, NULL), 0);
    assert_true(t.literal);
    assert_string_equal(t.host, "127.0.0.1");
    assert_int_equal(destination_read(&name, &t, NULL), 0);
    assert_false(t.literal);
}

static void test_tunnels(void **state)
{
    static const struct {
        const char *authority;
        const char *host;
        unsigned port;
    } rows[] = {
        {"example.com:443", "example.com", 443},
        {"EXAMPLE.com.:8443", "example.com", 8443},
        {"[::1]:443", "::1", 443},
        {"10.1.2.3:22", "10.1.2.3", 22},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_head head = head_of("CONNECT", rows[i].authority);
        struct destination t;
        assert_int_equal(destination_read(&head, &t, NULL), 0);
        assert_int_equal(t.way, DESTINATION_TUNNEL);
        assert_false(t.https);
        assert_string_equal(t.host, rows[i].host);
        assert_int_equal(t.port, rows[i].port);
        assert_slice(t.path, "");
        assert_slice(t.query, "");
        assert_slice(t.origin, "");
    }
}

/* Not well-formed, or two programs could read it differently. The message repeats nothing that may
 * be a password. */
static void test_refused(void **state)
{
    static const struct {
        const char *method;
        const char *target;
        const char *why;
    } rows[] = {
        {"GET", "ftp://example.com/", "begin with http"},
        {"GET", "http:/example.com/", "begin with http"},
        {"GET", "http:example.com/", "begin with http"},
        {"GET", "example.com:80", "begin with http"},
        {"GET", "http://", "no host"},
        {"GET", "http:///path", "no host"},
        {"GET", "http://:80/", "no host"},
        {"GET", "http://./", "empty"},
        {"GET", "http://a..b/", "empty"},
        {"GET", "http://.a/", "empty"},
        {"GET", "http://a../", "empty"},
        {"GET", "http://user:secret@example.com/", "user or password"},
        {"GET", "http://secret@example.com/", "user or password"},
        {"GET", "http://example.com@10.0.0.1/", "user or password"},
        {"GET", "http://example.com/#secret", "fragment"},
        {"GET", "http://example.com#secret", "fragment"},
        {"GET", "http://example.com/?a#secret", "fragment"},
        {"GET", "http://example.com/a b", "character 21"},
        {"GET", "http://example.com\t/", "character 19"},
        {"GET", "http://example.com/\x7f", "byte 0x7f"},
        {"GET", "http://example.com\\@evil.example/", "user or password"},
        {"GET", "http://example.com\\.evil.example/", "\"\\\""},
        {"GET", "http://example.com/a\\..\\b", "backslash"},
        {"GET", "http://ex%61mple.com/", "\"%\""},
        {"GET", "http://example%00.com/", "\"%\""},
        {"GET",
         "http://b\xc3\xbc"
         "cher.example/",
         "byte 0xc3"},
        {"GET", "http://*.example.com/", "\"*\""},
        {"GET", "http://a,b/", "\",\""},
        {"GET", "http://a!b/", "\"!\""},
        {"GET", "http://127.1/", "nearly"},
        {"GET", "http://1/", "nearly"},
        {"GET", "http://2130706433/", "nearly"},
        {"GET", "http://0177.0.0.1/", "nearly"},
        {"GET", "http://127.0.0.01/", "nearly"},
        {"GET", "http://0x7f000001/", "nearly"},
        {"GET", "http://0x7f.0.0.1/", "nearly"},
        {"GET", "http://0X7F.0.0.0X1/", "nearly"},
        {"GET", "http://127.0.0x/", "nearly"},
        {"GET", "http://127.0.0.1./", "nearly"},
        {"GET", "http://256.0.0.1/", "nearly"},
        {"GET", "http://1.2.3.4.5/", "nearly"},
        {"GET", "http://a.1/", "nearly"},
        {"GET", "http://[::1/", "closing bracket"},
        {"GET", "http://[]/", "not an IPv6"},
        {"GET", "http://[127.0.0.1]/", "not an IPv6"},
        {"GET", "http://[v1.a]/", "not an IPv6"},
        {"GET", "http://[fe80::1%25eth0]/", "zone"},
        {"GET", "http://[fe80::1%eth0]/", "zone"},
        {"GET", "http://[::1]x/", "between"},
        {"GET", "http://::1/", "no host"},
        {"GET", "http://example.com:0/", "from 1 to 65535"},
        {"GET", "http://example.com:080/", "from 1 to 65535"},
        {"GET", "http://example.com:65536/", "from 1 to 65535"},
        {"GET", "http://example.com:100000/", "from 1 to 65535"},
        {"GET", "http://example.com:+80/", "from 1 to 65535"},
        {"GET", "http://example.com:80:80/", "from 1 to 65535"},
        {"GET", "http://example.com:8o/", "from 1 to 65535"},
        {"GET", "http://" NAME_63 "d/", "longer than 63"},
        {"GET", "http://" NAME_63 "." NAME_63 "." NAME_63 "." NAME_63 "/", "longer than 253"},
        {"CONNECT", "", "no host"},
        {"CONNECT", "example.com", "needs host and port"},
        {"CONNECT", "example.com:", "needs host and port"},
        {"CONNECT", "[::1]", "needs host and port"},
        {"CONNECT", ":443", "no host"},
        {"CONNECT", "example.com:0", "from 1 to 65535"},
        {"CONNECT", "example.com:443/", "from 1 to 65535"},
        {"CONNECT", "http://example.com:443", "from 1 to 65535"},
        {"CONNECT", "secret@example.com:443", "user or password"},
        {"CONNECT", "/", "\"/\""},
        {"CONNECT", "127.1:443", "nearly"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_head head = head_of(rows[i].method, rows[i].target);
        struct destination t;
        struct err e = ERR_INIT;
        if (destination_read(&head, &t, &e) != -EINVAL || strstr(e.msg, rows[i].why) == NULL ||
            strstr(e.msg, "secret") != NULL) {
            fail_msg("%s %s: %d %s", rows[i].method, rows[i].target, e.code, e.msg);
        }
    }
}

static void test_a_nul_byte_is_refused(void **state)
{
    struct destination t;
    (void)state;
    struct http_head tunnel = {.connect = true, .target = SLICE("example.com\0.evil:443")};
    struct http_head url = {.target = SLICE("http://example.com\0.evil/")};
    struct http_head v6 = {.connect = true, .target = SLICE("[::1\0]:443")};
    assert_int_equal(destination_read(&tunnel, &t, NULL), -EINVAL);
    assert_int_equal(destination_read(&url, &t, NULL), -EINVAL);
    assert_int_equal(destination_read(&v6, &t, NULL), -EINVAL);
}

/* ---- the header ---- */

static int read_with(struct http_head head, const struct http_header *headers, size_t count,
                     struct destination *t, struct err *e)
{
    head.headers = headers;
    head.header_count = count;
    return destination_read(&head, t, e);
}

static void test_header(void **state)
{
    const struct http_header one[] = {{SLICE("Host"), SLICE("127.0.0.1:15002")},
                                      {SLICE("mesh-real-ENDPOINT"), SLICE("https://h:1/p?q")}};
    struct destination t;
    (void)state;
    assert_int_equal(read_with(head_of("POST", "/other?x"), one, 2, &t, NULL), 0);
    assert_int_equal(t.way, DESTINATION_HEADER_WAY);
    assert_true(t.https);
    assert_string_equal(t.host, "h");
    assert_int_equal(t.port, 1);
    assert_slice(t.path, "/p");
    assert_slice(t.query, "q");
    assert_slice(t.origin, "/p?q");
    assert_int_equal(read_with(head_of("OPTIONS", "*"), one, 2, &t, NULL), 0);
    assert_string_equal(t.host, "h");
}

static void test_header_refused(void **state)
{
    const struct http_header two[] = {{SLICE(DESTINATION_HEADER), SLICE("https://h/")},
                                      {SLICE(DESTINATION_HEADER), SLICE("https://h/")}};
    const struct http_header bad[] = {{SLICE(DESTINATION_HEADER), SLICE("https://u:secret@h/")}};
    const struct http_header empty[] = {{SLICE(DESTINATION_HEADER), {NULL, 0}}};
    struct destination t;
    struct err e = ERR_INIT;
    (void)state;
    assert_int_equal(read_with(head_of("GET", "/"), two, 2, &t, &e), -EINVAL);
    assert_non_null(strstr(e.msg, "several"));
    assert_int_equal(read_with(head_of("GET", "http://h/"), two, 1, &t, &e), -EINVAL);
    assert_non_null(strstr(e.msg, "both name a host"));
    assert_int_equal(read_with(head_of("CONNECT", "h:443"), two, 1, &t, &e), -EINVAL);
    assert_non_null(strstr(e.msg, "both name a host"));
    assert_int_equal(read_with(head_of("GET", "/"), bad, 1, &t, &e), -EINVAL);
    assert_null(strstr(e.msg, "secret"));
    assert_non_null(strstr(e.msg, DESTINATION_HEADER));
    assert_int_equal(read_with(head_of("GET", "/"), empty, 1, &t, &e), -EINVAL);
}

static void test_origin_form(void **state)
{
    struct http_head get = head_of("GET", "/path");
    struct http_head options = head_of("OPTIONS", "*");
    struct destination t;
    struct err e = ERR_INIT;
    (void)state;
    assert_int_equal(destination_read(&get, &t, &e), -ENOENT);
    assert_int_equal(destination_read(&options, &t, &e), -ENOENT);
}

/* RFC 9112 section 3.2.2. */
static void test_the_target_wins_over_host(void **state)
{
    const struct http_header host[] = {{SLICE("Host"), SLICE("other.example")}};
    struct destination t;
    (void)state;
    assert_int_equal(read_with(head_of("GET", "http://h/"), host, 1, &t, NULL), 0);
    assert_string_equal(t.host, "h");
}

/* ---- what is said of it ---- */

static void test_describe(void **state)
{
    const struct http_header headers[] = {{SLICE("Host"), SLICE("h")}};
    struct http_head get = head_of("GET", "https://h/p?q");
    struct http_head connect = head_of("CONNECT", "h:443");
    struct traffic_external q;
    struct destination t;
    (void)state;
    get.headers = connect.headers = headers;
    get.header_count = connect.header_count = 1;
    assert_int_equal(destination_read(&get, &t, NULL), 0);
    destination_describe(&t, &get, &q);
    assert_false(q.tunnel);
    assert_true(q.https);
    assert_slice(q.host, "h");
    assert_int_equal(q.port, 443);
    assert_slice(q.path, "/p");
    assert_slice(q.query, "q");
    assert_slice(q.method, "GET");
    assert_int_equal(q.header_count, 1);
    assert_int_equal(destination_read(&connect, &t, NULL), 0);
    destination_describe(&t, &connect, &q);
    assert_true(q.tunnel);
    assert_false(q.https);
    assert_slice(q.path, "");
    assert_slice(q.method, "CONNECT");
    assert_int_equal(q.header_count, 0);
}

static void test_host_port(void **state)
{
    static const struct {
        const char *method;
        const char *target;
        const char *whole;
        const char *brief;
    } rows[] = {
        {"GET", "http://h/", "h:80", "h"},
        {"GET", "https://h/", "h:443", "h"},
        {"GET", "https://h:80/", "h:80", "h:80"},
        {"GET", "http://[::1]:8080/", "[::1]:8080", "[::1]:8080"},
        {"GET", "http://[::1]/", "[::1]:80", "[::1]"},
        {"CONNECT", "h:80", "h:80", "h:80"},
        {"CONNECT", "h:443", "h:443", "h:443"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_head head = head_of(rows[i].method, rows[i].target);
        char text[DESTINATION_HOST_PORT_SIZE];
        struct destination t;
        assert_int_equal(destination_read(&head, &t, NULL), 0);
        destination_host_port(&t, false, text);
        assert_string_equal(text, rows[i].whole);
        destination_host_port(&t, true, text);
        assert_string_equal(text, rows[i].brief);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_absolute_form),
        cmocka_unit_test(test_literals),
        cmocka_unit_test(test_tunnels),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_a_nul_byte_is_refused),
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_header_refused),
        cmocka_unit_test(test_origin_form),
        cmocka_unit_test(test_the_target_wins_over_host),
        cmocka_unit_test(test_describe),
        cmocka_unit_test(test_host_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
