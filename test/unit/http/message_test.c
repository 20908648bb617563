/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"
#include "http/message.h"

static void finds_the_first_header_whatever_its_case(void **state)
{
    (void)state;
    const struct http_header headers[] = {
        {SLICE("Accept"), SLICE("a")},
        {SLICE("ACCEPT"), SLICE("b")},
        {SLICE("Host"), SLICE("")},
    };
    const struct http_head h = {.headers = headers, .header_count = 3};
    assert_ptr_equal(http_head_find(&h, SLICE("accept")), &headers[0]);
    assert_ptr_equal(http_head_find(&h, SLICE("hOST")), &headers[2]);
    assert_null(http_head_find(&h, SLICE("Accep")));
    assert_null(http_head_find(&h, SLICE("")));
    const struct http_head empty = {0};
    assert_null(http_head_find(&empty, SLICE("Host")));
}

static void list_holds_whole_tokens_only(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        const char *token;
        bool want;
    } rows[] = {
        {"close", "close", true},          {"Keep-Alive, Upgrade", "upgrade", true},
        {"a,\tclose \t,b", "CLOSE", true}, {",,close,", "close", true},
        {"closed", "close", false},        {"not close", "close", false},
        {"close;q=1", "close", false},     {"", "close", false},
        {" , ", "close", false},           {",", "", false},
        {"clos", "close", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        bool got = http_list_has(slice_str(rows[i].value), slice_str(rows[i].token));
        if (got != rows[i].want) {
            fail_msg("\"%s\" has \"%s\": %d", rows[i].value, rows[i].token, got);
        }
    }
    assert_false(http_list_has(slice_of(NULL, 0), SLICE("close")));
}

static void tells_hop_by_hop_headers(void **state)
{
    (void)state;
    static const char *const hop[] = {"Connection",
                                      "keep-alive",
                                      "PROXY-CONNECTION",
                                      "Proxy-Authenticate",
                                      "Proxy-Authorization",
                                      "TE",
                                      "Trailer",
                                      "Transfer-Encoding",
                                      "Upgrade"};
    for (size_t i = 0; i < ARRAY_LEN(hop); i++) {
        assert_true(http_header_is_hop_by_hop(slice_str(hop[i]), slice_of(NULL, 0)));
    }
    static const char *const end_to_end[] = {"Authorization", "Content-Type", "Trailers", "T",
                                             "Host",          "Accept",       "Upgrad3",  ""};
    for (size_t i = 0; i < ARRAY_LEN(end_to_end); i++) {
        assert_false(http_header_is_hop_by_hop(slice_str(end_to_end[i]), SLICE("close")));
    }
    assert_true(http_header_is_hop_by_hop(SLICE("X-Trace"), SLICE("close, x-trace")));
    assert_false(http_header_is_hop_by_hop(SLICE("X-Trace"), SLICE("close, x-trac")));
}

static void knows_reason_phrases(void **state)
{
    (void)state;
    assert_string_equal(http_reason(200), "OK");
    assert_string_equal(http_reason(410), "Gone");
    assert_string_equal(http_reason(431), "Request Header Fields Too Large");
    assert_string_equal(http_reason(299), "Unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_first_header_whatever_its_case),
        cmocka_unit_test(list_holds_whole_tokens_only),
        cmocka_unit_test(tells_hop_by_hop_headers),
        cmocka_unit_test(knows_reason_phrases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
