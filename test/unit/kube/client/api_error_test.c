/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/api_error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "json/json.h"

static struct api_error answer(unsigned status, const char *retry_after, const char *body)
{
    struct api_error error;
    api_error_from_answer(status, retry_after, slice_str(body), &error);
    return error;
}

static struct api_error event(const char *object)
{
    struct api_error error;
    cJSON *root = json_parse(object, strlen(object), NULL);
    assert_non_null(root);
    api_error_from_status(root, &error);
    cJSON_Delete(root);
    return error;
}

static void test_says_what_the_server_says(void **state)
{
    (void)state;
    struct api_error e =
        answer(403, NULL,
               "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
               "\"message\":\"configmaps is forbidden: User \\\"u\\\" cannot list\","
               "\"reason\":\"Forbidden\",\"details\":{\"kind\":\"configmaps\"},\"code\":403}");
    assert_int_equal(e.code, 403);
    assert_false(e.expired);
    assert_int_equal(e.retry_after, 0);
    assert_string_equal(e.msg, "403 Forbidden: configmaps is forbidden: User \"u\" cannot list");
}

static void test_tells_what_is_there_from_what_conflicts(void **state)
{
    (void)state;
    const char *exists = "{\"kind\":\"Status\",\"reason\":\"AlreadyExists\",\"code\":409}";
    assert_true(answer(409, NULL, exists).exists);
    assert_false(answer(500, NULL, exists).exists);
    assert_false(answer(409, NULL, "").exists);
    assert_false(
        answer(409, NULL, "{\"kind\":\"Status\",\"reason\":\"Conflict\",\"code\":409}").exists);
}

static void test_takes_any_body(void **state)
{
    (void)state;
    assert_string_equal(answer(502, NULL, "").msg, "502 Bad Gateway");
    assert_string_equal(answer(502, NULL, "upstream\nis gone").msg, "502 Bad Gateway: upstream");
    assert_string_equal(answer(500, NULL, "{\"kind\":\"Other\",\"message\":\"x\"}").msg,
                        "500 Internal Server Error: {\"kind\":\"Other\",\"message\":\"x\"}");
    assert_string_equal(
        answer(500, NULL, "{\"kind\":\"Status\",\"code\":410,\"message\":\"m\"}").msg,
        "500 Internal Server Error: m");
    assert_string_equal(answer(500, NULL, "{\"kind\":\"Status\",\"code\":\"x\",\"reason\":7}").msg,
                        "500 Internal Server Error");
    assert_string_equal(answer(499, NULL, "[]").msg, "499 Unknown: []");
}

static void test_long_messages_are_cut(void **state)
{
    (void)state;
    char body[4096] = "{\"kind\":\"Status\",\"code\":400,\"message\":\"";
    while (strlen(body) < 3000) {
        strcat(body, "\xc3\xa9\xe2\x82\xac");
    }
    strcat(body, "\"}");
    struct api_error e = answer(400, NULL, body);
    size_t len = strlen(e.msg);
    assert_in_range(len, 400, sizeof e.msg - 1);
    assert_true((unsigned char)e.msg[len - 1] >= 0x80 && (unsigned char)e.msg[len - 1] < 0xc0);
}

static void test_expired_means_list_again(void **state)
{
    (void)state;
    assert_true(answer(410, NULL, "").expired);
    assert_false(
        answer(500, NULL, "{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}").expired);
    assert_true(event("{\"kind\":\"Status\",\"code\":410,\"message\":\"too old\"}").expired);
    assert_true(event("{\"kind\":\"Status\",\"reason\":\"Expired\"}").expired);
    assert_true(event("{\"kind\":\"Status\",\"reason\":\"Gone\"}").expired);
    assert_false(event("{\"kind\":\"Status\",\"code\":500}").expired);
    assert_false(event("{}").expired);
}

static void test_pauses(void **state)
{
    (void)state;
    assert_int_equal(answer(429, "7", "").retry_after, 7);
    assert_int_equal(answer(503, "0", "").retry_after, 0);
    assert_int_equal(answer(503, "-5", "").retry_after, 0);
    assert_int_equal(answer(503, "1000000", "").retry_after, API_ERROR_RETRY_MAX);
    assert_int_equal(answer(503, "99999999999999999999", "").retry_after, 0);
    assert_int_equal(answer(503, "Fri, 31 Dec 1999 23:59:59 GMT", "").retry_after, 0);
    const char *body = "{\"kind\":\"Status\",\"code\":429,\"details\":{\"retryAfterSeconds\":12}}";
    assert_int_equal(answer(429, NULL, body).retry_after, 12);
    assert_int_equal(answer(429, "3", body).retry_after, 12);
    assert_int_equal(answer(429, "30", body).retry_after, 30);
    assert_int_equal(event("{\"details\":{\"retryAfterSeconds\":1e300}}").retry_after,
                     API_ERROR_RETRY_MAX);
    assert_int_equal(event("{\"details\":{\"retryAfterSeconds\":-1}}").retry_after, 0);
    assert_int_equal(event("{\"details\":{\"retryAfterSeconds\":\"9\"}}").retry_after, 0);
}

static void test_events_of_any_shape(void **state)
{
    (void)state;
    struct api_error error;
    assert_string_equal(event("{}").msg, "an unknown error");
    assert_string_equal(event("{\"message\":\"m\"}").msg, "an unknown error: m");
    assert_string_equal(event("{\"reason\":\"R\",\"message\":\"m\"}").msg, "R: m");
    assert_string_equal(event("{\"code\":504}").msg, "504 Gateway Timeout");
    assert_int_equal(event("{\"code\":-3}").code, 0);
    assert_int_equal(event("{\"code\":1e9}").code, 999);
    assert_string_equal(event("[1]").msg, "an unknown error");
    api_error_from_status(NULL, &error);
    assert_string_equal(error.msg, "an unknown error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_says_what_the_server_says),
        cmocka_unit_test(test_tells_what_is_there_from_what_conflicts),
        cmocka_unit_test(test_takes_any_body),
        cmocka_unit_test(test_long_messages_are_cut),
        cmocka_unit_test(test_expired_means_list_again),
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_events_of_any_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
