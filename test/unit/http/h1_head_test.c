/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/h1_conn.h"

static const struct http_header some[] = {
    {{"Accept", 6}, {"a/b", 3}},
    {{"X-Empty", 7}, {NULL, 0}},
};

static void assert_written(const struct http_head *h, enum h1_after after, const char *text)
{
    struct buf out = BUF_INIT(1024);
    assert_int_equal(h1_head_write(h, after, &out), 0);
    assert_string_equal(buf_cstr(&out), text);
    buf_reset(&out);
}

static void requests_have_a_request_line(void **state)
{
    (void)state;
    struct http_head h = {.method = SLICE("GET"), .target = SLICE("/a?b"), .minor = 1};
    assert_written(&h, H1_AFTER_DEFAULT, "GET /a?b HTTP/1.1\r\n\r\n");
    h.headers = some;
    h.header_count = 2;
    assert_written(&h, H1_AFTER_CLOSE,
                   "GET /a?b HTTP/1.1\r\nAccept: a/b\r\nX-Empty: \r\nConnection: close\r\n\r\n");
    h.upgrade = true;
    assert_written(&h, H1_AFTER_CLOSE,
                   "GET /a?b HTTP/1.1\r\nAccept: a/b\r\nX-Empty: \r\nConnection: Upgrade\r\n\r\n");
}

static void responses_have_a_status_line(void **state)
{
    (void)state;
    struct http_head h = {.status = 204, .minor = 1};
    assert_written(&h, H1_AFTER_DEFAULT, "HTTP/1.1 204 No Content\r\n\r\n");
    h.reason = SLICE("Nothing");
    assert_written(&h, H1_AFTER_KEEP, "HTTP/1.1 204 Nothing\r\nConnection: keep-alive\r\n\r\n");
}

static void the_framing_comes_last(void **state)
{
    static const struct {
        uint64_t length;
        const char *text;
    } lengths[] = {
        {0, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
        {9, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"},
        {10, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"},
        {UINT64_MAX, "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n"},
    };
    (void)state;
    struct http_head h = {.status = 200, .framing = HTTP_BODY_LENGTH};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        h.content_length = lengths[i].length;
        assert_written(&h, H1_AFTER_DEFAULT, lengths[i].text);
    }
    h.framing = HTTP_BODY_CHUNKED;
    assert_written(&h, H1_AFTER_CLOSE,
                   "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n");
    h.framing = HTTP_BODY_CLOSE;
    assert_written(&h, H1_AFTER_DEFAULT, "HTTP/1.1 200 OK\r\n\r\n");
}

static void is_written_whole_or_not_at_all(void **state)
{
    static const char text[] = "GET / HTTP/1.1\r\nAccept: a/b\r\nX-Empty: \r\n\r\n";
    (void)state;
    const struct http_head h = {
        .method = SLICE("GET"), .target = SLICE("/"), .headers = some, .header_count = 2};
    struct buf out = BUF_INIT(sizeof text - 1);
    assert_int_equal(h1_head_write(&h, H1_AFTER_DEFAULT, &out), 0);
    assert_int_equal(out.len, sizeof text - 1);
    buf_reset(&out);
    out = (struct buf)BUF_INIT(sizeof text - 2);
    assert_int_equal(h1_head_write(&h, H1_AFTER_DEFAULT, &out), -ENOBUFS);
    assert_int_equal(out.len, 0);
    buf_reset(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_have_a_request_line),
        cmocka_unit_test(responses_have_a_status_line),
        cmocka_unit_test(the_framing_comes_last),
        cmocka_unit_test(is_written_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
