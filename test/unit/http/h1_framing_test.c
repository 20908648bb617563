/* SPDX-License-Identifier: Apache-2.0 */
/* What llhttp would refuse before is refused here as well: the rules do not hang on its version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"
#include "http/h1_framing.h"

enum { HEADERS_MAX = 4 };

struct row {
    const char *name;
    enum h1_role role;
    struct http_header headers[HEADERS_MAX]; /* ends with an empty name */
    int want;
};

#define HOST                                                                                       \
    {                                                                                              \
        SLICE("Host"), SLICE("x")                                                                  \
    }
#define LENGTH(value)                                                                              \
    {                                                                                              \
        SLICE("Content-Length"), SLICE(value)                                                      \
    }
#define ENCODING(value)                                                                            \
    {                                                                                              \
        SLICE("Transfer-Encoding"), SLICE(value)                                                   \
    }

static int derive(const struct row *row, struct http_head *h, struct http_header *headers)
{
    const char *why = NULL;
    *h = (struct http_head){.minor = 1, .status = row->role == H1_RESPONSES ? 200 : 0};
    while (h->header_count < HEADERS_MAX && row->headers[h->header_count].name.len > 0) {
        headers[h->header_count] = row->headers[h->header_count];
        h->header_count++;
    }
    int rc = h1_framing_derive(h, headers, row->role, false, &why);
    assert_true((rc == 0) == (why == NULL));
    return rc;
}

static void refuses_what_can_be_read_in_two_ways(void **state)
{
    (void)state;
    const struct row rows[] = {
        {"two lengths", H1_REQUESTS, {HOST, LENGTH("1"), LENGTH("2")}, -400},
        {"two equal lengths", H1_RESPONSES, {LENGTH("1"), LENGTH("1")}, -400},
        {"two encodings", H1_REQUESTS, {HOST, ENCODING("chunked"), ENCODING("chunked")}, -400},
        {"both", H1_REQUESTS, {HOST, ENCODING("chunked"), LENGTH("1")}, -400},
        {"both in a response", H1_RESPONSES, {LENGTH("0"), ENCODING("chunked")}, -400},
        {"a sign", H1_REQUESTS, {HOST, LENGTH("+1")}, -400},
        {"a list", H1_REQUESTS, {HOST, LENGTH("1, 1")}, -400},
        {"no digit", H1_REQUESTS, {HOST, LENGTH("")}, -400},
        {"2^63", H1_REQUESTS, {HOST, LENGTH("9223372036854775808")}, -400},
        {"2^64", H1_REQUESTS, {HOST, LENGTH("18446744073709551616")}, -400},
        {"chunked twice", H1_REQUESTS, {HOST, ENCODING("chunked, chunked")}, -501},
        {"chunked first", H1_RESPONSES, {ENCODING("chunked, gzip")}, -501},
        {"no Host", H1_REQUESTS, {LENGTH("1")}, -400},
        {"two Hosts", H1_REQUESTS, {HOST, HOST}, -400},
        {"length", H1_REQUESTS, {HOST, LENGTH("9223372036854775807")}, 0},
        {"chunked", H1_RESPONSES, {ENCODING("Chunked")}, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_head h;
        struct http_header headers[HEADERS_MAX];
        int got = derive(&rows[i], &h, headers);
        if (got != rows[i].want) {
            fail_msg("%s: %d", rows[i].name, got);
        }
    }
}

static void a_proxy_reads_them_as_a_server_does(void **state)
{
    (void)state;
    const struct row rows[] = {
        {"two lengths", H1_PROXY_REQUESTS, {HOST, LENGTH("1"), LENGTH("2")}, -400},
        {"both", H1_PROXY_REQUESTS, {HOST, ENCODING("chunked"), LENGTH("1")}, -400},
        {"chunked twice", H1_PROXY_REQUESTS, {HOST, ENCODING("chunked, chunked")}, -501},
        {"no Host", H1_PROXY_REQUESTS, {LENGTH("1")}, -400},
        {"two Hosts", H1_PROXY_REQUESTS, {HOST, HOST}, -400},
    };
    struct http_head h;
    struct http_header headers[HEADERS_MAX];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int got = derive(&rows[i], &h, headers);
        if (got != rows[i].want) {
            fail_msg("%s: %d", rows[i].name, got);
        }
    }
    const struct row plain = {"", H1_PROXY_REQUESTS, {HOST}, 0};
    assert_int_equal(derive(&plain, &h, headers), 0);
    assert_int_equal(h.framing, HTTP_BODY_NONE);
    assert_true(h.keep_alive);
}

static void connect_has_no_body(void **state)
{
    (void)state;
    struct http_header framing[] = {LENGTH("0"), ENCODING("chunked")};
    for (size_t i = 0; i < ARRAY_LEN(framing); i++) {
        struct http_header headers[] = {HOST, framing[i]};
        struct http_head h = {.minor = 1, .connect = true, .header_count = 2};
        const char *why = NULL;
        assert_int_equal(h1_framing_derive(&h, headers, H1_PROXY_REQUESTS, false, &why), -400);
        assert_non_null(why);
    }
}

static void takes_framing_out_and_keeps_the_order(void **state)
{
    (void)state;
    const struct row row = {"",
                            H1_REQUESTS,
                            {{SLICE("A"), SLICE("1")}, LENGTH("7"), HOST, {SLICE("B"), SLICE("2")}},
                            0};
    struct http_head h;
    struct http_header headers[HEADERS_MAX];
    assert_int_equal(derive(&row, &h, headers), 0);
    assert_int_equal(h.framing, HTTP_BODY_LENGTH);
    assert_int_equal(h.content_length, 7);
    assert_int_equal(h.header_count, 3);
    assert_true(slice_eq(h.headers[0].name, SLICE("A")));
    assert_true(slice_eq(h.headers[1].name, SLICE("Host")));
    assert_true(slice_eq(h.headers[2].value, SLICE("2")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_can_be_read_in_two_ways),
        cmocka_unit_test(a_proxy_reads_them_as_a_server_does),
        cmocka_unit_test(connect_has_no_body),
        cmocka_unit_test(takes_framing_out_and_keeps_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
