/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/status.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void looks_like_the_api_server(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(4096);
    assert_int_equal(status_write(&out, 503, NULL, 5, "no rules for shard %s", "s"), 0);
    assert_string_equal(buf_cstr(&out),
                        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},"
                        "\"status\":\"Failure\",\"message\":\"cmesh: no rules for shard s\","
                        "\"reason\":\"ServiceUnavailable\",\"details\":{\"retryAfterSeconds\":5},"
                        "\"code\":503}");
    buf_clear(&out);
    assert_int_equal(status_write(&out, 410, "Gone", 0, "x"), 0);
    assert_string_equal(buf_cstr(&out),
                        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},"
                        "\"status\":\"Failure\",\"message\":\"cmesh: x\","
                        "\"reason\":\"Gone\",\"code\":410}");
    buf_clear(&out);
    assert_int_equal(status_write(&out, 502, NULL, 0, "x"), 0);
    assert_string_equal(buf_cstr(&out),
                        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},"
                        "\"status\":\"Failure\",\"message\":\"cmesh: x\","
                        "\"code\":502}");
    buf_reset(&out);
}

static void message_is_always_json(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(65536);
    assert_int_equal(status_write(&out, 400, NULL, 0, "%s", "a\"\\\n\xff\xc3\xa9\xe2\x82"), 0);
    assert_non_null(strstr(buf_cstr(&out), "cmesh: a\\\"\\\\\\u000a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd"
                                           "\xef\xbf\xbd\""));
    buf_clear(&out);
    char longest[5000];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(status_write(&out, 400, NULL, 0, "%s", longest), 0);
    assert_non_null(strstr(buf_cstr(&out), "x\",\"reason\":\"BadRequest\",\"code\":400}"));
    buf_reset(&out);
}

static void whole_or_not_at_all(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(100);
    assert_int_equal(buf_append_str(&out, "kept"), 0);
    assert_int_equal(status_write(&out, 400, NULL, 0, "too long for the buffer"), -ENOBUFS);
    assert_string_equal(buf_cstr(&out), "kept");
    buf_reset(&out);
}

static void reasons(void **state)
{
    (void)state;
    assert_string_equal(status_reason(400), "BadRequest");
    assert_string_equal(status_reason(401), "Unauthorized");
    assert_string_equal(status_reason(403), "Forbidden");
    assert_string_equal(status_reason(404), "NotFound");
    assert_string_equal(status_reason(410), "Expired");
    assert_string_equal(status_reason(429), "TooManyRequests");
    assert_string_equal(status_reason(500), "InternalError");
    assert_string_equal(status_reason(503), "ServiceUnavailable");
    assert_string_equal(status_reason(504), "Timeout");
    assert_string_equal(status_reason(599), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks_like_the_api_server),
        cmocka_unit_test(message_is_always_json),
        cmocka_unit_test(whole_or_not_at_all),
        cmocka_unit_test(reasons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
