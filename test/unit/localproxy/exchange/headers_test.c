/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which headers of a request the API server gets.
 */
#include "exchange/headers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/array.h"

#define HEADER(name, value)                                                                        \
    {                                                                                              \
        SLICE(name), SLICE(value)                                                                  \
    }

static struct http_head head_of(const struct http_header *headers, size_t count)
{
    return (struct http_head){.minor = 1, .headers = headers, .header_count = count};
}

static void expect_header(const struct http_header *h, const char *name, const char *value)
{
    assert_true(slice_eq(h->name, slice_str(name)));
    assert_true(slice_eq(h->value, slice_str(value)));
}

static void credentials_and_hop_by_hop_stay_behind(void **state)
{
    const struct http_header headers[] = {
        HEADER("host", "127.0.0.1:5443"),
        HEADER("Accept", "application/json"),
        HEADER("authorization", "Bearer x"),
        HEADER("Connection", "keep-alive, X-Hop"),
        HEADER("X-Hop", "1"),
        HEADER("Expect", "100-continue"),
        HEADER("X-Own", "2"),
    };
    struct http_header out[HEADERS_MAX];
    struct http_head head = head_of(headers, ARRAY_LEN(headers));
    assert_int_equal(headers_of_request(&head, VERB_GET, out), 3);
    expect_header(&out[0], "Accept", "application/json");
    expect_header(&out[1], "X-Own", "2");
    expect_header(&out[2], "Via", "1.1 cmesh");
    (void)state;
}

/* Each proxy adds its own; the order of the lines is that of the way (RFC 9110, section 5.3). */
static void via_comes_after_those_of_others(void **state)
{
    const struct http_header headers[] = {HEADER("Via", "1.1 other"), HEADER("A", "b")};
    struct http_header out[HEADERS_MAX];
    struct http_head head = head_of(headers, ARRAY_LEN(headers));
    head.minor = 0;
    assert_int_equal(headers_of_request(&head, VERB_GET, out), 3);
    expect_header(&out[0], "Via", "1.1 other");
    expect_header(&out[2], "Via", "1.0 cmesh");
    (void)state;
}

static void watches_are_plain_streams(void **state)
{
    const struct http_header headers[] = {
        HEADER("Accept-Encoding", "gzip"), HEADER("Connection", "Upgrade"),
        HEADER("Upgrade", "websocket"), HEADER("accept-encoding", "br")};
    struct http_header out[HEADERS_MAX];
    struct http_head head = head_of(headers, ARRAY_LEN(headers));
    head.upgrade = true;
    assert_true(headers_may_upgrade(&head, VERB_CREATE));
    assert_false(headers_may_upgrade(&head, VERB_WATCH));
    head.upgrade = false;
    assert_int_equal(headers_of_request(&head, VERB_WATCH, out), 2);
    expect_header(&out[0], "Accept-Encoding", "identity");
    expect_header(&out[1], "Via", "1.1 cmesh");
    assert_int_equal(headers_of_request(&head, VERB_LIST, out), 3);
    expect_header(&out[0], "Accept-Encoding", "gzip");
    (void)state;
}

/* The same request comes of it, and no credentials are in it. */
static void what_is_kept_of_a_watch(void **state)
{
    const struct http_header headers[] = {HEADER("Host", "h"),
                                          HEADER("Authorization", "Bearer t"),
                                          HEADER("Via", "1.1 other"),
                                          HEADER("Accept-Encoding", "gzip"),
                                          HEADER("Connection", "X-Hop"),
                                          HEADER("X-Hop", "1"),
                                          HEADER("Accept", "application/json")};
    struct http_header out[HEADERS_MAX];
    struct http_head head = head_of(headers, ARRAY_LEN(headers));
    (void)state;
    struct http_head *kept = headers_copy_of_watch(&head);
    assert_non_null(kept);
    assert_int_equal(kept->header_count, 2);
    assert_int_equal(headers_of_request(kept, VERB_WATCH, out), 4);
    expect_header(&out[0], "Via", "1.1 other");
    expect_header(&out[1], "Accept", "application/json");
    expect_header(&out[2], "Accept-Encoding", "identity");
    expect_header(&out[3], "Via", "1.1 cmesh");
    free(kept);
}

static void responses_have_no_via(void **state)
{
    const struct http_header headers[] = {HEADER("A", "b"), HEADER("Keep-Alive", "1")};
    struct http_header out[HEADERS_MAX];
    struct http_head head = head_of(headers, ARRAY_LEN(headers));
    assert_int_equal(headers_end_to_end(&head, out), 1);
    expect_header(&out[0], "A", "b");
    (void)state;
}

static void there_are_no_more_than_fit(void **state)
{
    static struct http_header headers[HEADERS_MAX + 10];
    struct http_header out[HEADERS_MAX];
    struct http_head head = head_of(headers, ARRAY_LEN(headers));
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
        headers[i] = (struct http_header){SLICE("A"), SLICE("b")};
    }
    assert_int_equal(headers_of_request(&head, VERB_WATCH, out), HEADERS_MAX);
    expect_header(&out[HEADERS_MAX - 1], "Accept-Encoding", "identity");
    headers[0] = (struct http_header){SLICE("Upgrade"), SLICE("websocket")};
    head.upgrade = true;
    assert_int_equal(headers_of_request(&head, VERB_CREATE, out), HEADERS_MAX);
    expect_header(&out[HEADERS_MAX - 1], "Upgrade", "websocket");
    assert_int_equal(headers_of_request(&head, VERB_WATCH, out), HEADERS_MAX);
}

static void one_user_agent_in_place_of_all(void **state)
{
    static struct http_header headers[HEADERS_MAX] = {
        HEADER("user-agent", "manager/v1"), HEADER("A", "b"), HEADER("User-Agent", "other")};
    struct buf agent = BUF_INIT(64);
    size_t count = 3;
    (void)state;
    assert_int_equal(headers_name_client(headers, &count, SLICE("shard-a/"), &agent), 0);
    assert_int_equal(count, 2);
    expect_header(&headers[0], "A", "b");
    expect_header(&headers[1], "User-Agent", "shard-a/manager/v1");
    buf_clear(&agent);
    count = 1;
    assert_int_equal(headers_name_client(headers, &count, SLICE("whole"), &agent), 0);
    assert_int_equal(count, 2);
    expect_header(&headers[1], "User-Agent", "whole");
    buf_reset(&agent);
    /* There is no place for one more. */
    for (count = 0; count < HEADERS_MAX; count++) {
        headers[count] = (struct http_header){SLICE("A"), SLICE("b")};
    }
    assert_int_equal(headers_name_client(headers, &count, SLICE("whole"), &agent), 0);
    assert_int_equal(count, HEADERS_MAX);
    buf_reset(&agent);
    /* Nor for the text. */
    struct buf small = BUF_INIT(2);
    headers[0] = (struct http_header){SLICE("User-Agent"), SLICE("own")};
    count = 1;
    assert_int_not_equal(headers_name_client(headers, &count, SLICE("whole"), &small), 0);
    assert_int_equal(count, 1);
    expect_header(&headers[0], "User-Agent", "own");
    buf_reset(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(credentials_and_hop_by_hop_stay_behind),
        cmocka_unit_test(via_comes_after_those_of_others),
        cmocka_unit_test(watches_are_plain_streams),
        cmocka_unit_test(what_is_kept_of_a_watch),
        cmocka_unit_test(responses_have_no_via),
        cmocka_unit_test(there_are_no_more_than_fit),
        cmocka_unit_test(one_user_agent_in_place_of_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
