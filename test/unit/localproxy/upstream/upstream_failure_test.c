/* SPDX-License-Identifier: Apache-2.0 */
#include "upstream/upstream_failure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <uv.h>

#include "base/array.h"
#include "http/h1_parser.h"

static void expect(enum request_verb verb, bool may_be_executed, int code, unsigned status,
                   unsigned retry_after)
{
    struct err e = {.code = code};
    struct upstream_failure f = upstream_failure_of(verb, may_be_executed, &e);
    assert_int_equal(f.status, status);
    assert_int_equal(f.retry_after, retry_after);
}

static void test_what_may_be_executed_is_not_repeated(void **state)
{
    (void)state;
    expect(VERB_CREATE, true, UV_ECONNRESET, 502, 0);
    expect(VERB_CREATE, true, UV_ETIMEDOUT, 504, 0);
    expect(VERB_UPDATE, true, -HTTP_PARSE_BAD, 502, 0);
    expect(VERB_CREATE, false, UV_ECONNREFUSED, 503, 1);
    expect(VERB_GET, false, UV_EOF, 503, 1);
    expect(VERB_LIST, false, UV_ETIMEDOUT, 504, 1);
}

/* Too much is kept of what the API server does not read, or of what it has begun to say. */
static void test_what_is_not_read(void **state)
{
    (void)state;
    expect(VERB_UPDATE, true, UV_ENOBUFS, 503, 0);
    expect(VERB_LIST, false, UV_ENOBUFS, 503, 1);
    expect(VERB_WATCH, false, UV_ENOBUFS, 429, 1);
    expect(VERB_LIST, false, -HTTP_PARSE_NO_ROOM, 503, 1); /* of an answer's head */
    expect(VERB_WATCH, false, -HTTP_PARSE_NO_ROOM, 429, 1);
}

static void test_who_is_no_server_will_not_be_one(void **state)
{
    (void)state;
    expect(VERB_GET, false, -HTTP_PARSE_BAD, 502, 0);
    expect(VERB_WATCH, false, -HTTP_PARSE_VERSION, 502, 0);
}

/* What passes by itself, and what somebody must mend: he has to hear of it. */
static void test_watches(void **state)
{
    static const int passing[] = {UV_ECONNREFUSED, UV_ECONNRESET,   UV_EPIPE,       UV_EOF,
                                  UV_ETIMEDOUT,    UV_EHOSTUNREACH, UV_ENETUNREACH, UV_EAI_AGAIN};
    static const int lasting[] = {UV_EAI_NONAME, UV_ENOMEM, -9984 /* no certificate of ours */};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(passing); i++) {
        expect(VERB_WATCH, false, passing[i], 429, 1);
    }
    for (size_t i = 0; i < ARRAY_LEN(lasting); i++) {
        expect(VERB_WATCH, false, lasting[i], 503, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_may_be_executed_is_not_repeated),
        cmocka_unit_test(test_what_is_not_read),
        cmocka_unit_test(test_who_is_no_server_will_not_be_one),
        cmocka_unit_test(test_watches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
