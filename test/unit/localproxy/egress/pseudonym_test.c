/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/pseudonym.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"

static void it_is_added_with_the_version_of_the_message(void **state)
{
    struct pseudonym p;
    struct http_head head = {.minor = 1};
    (void)state;
    pseudonym_init(&p, 0x1a2b);
    struct http_header via = pseudonym_via(&p, &head);
    assert_true(slice_eq(via.name, SLICE("Via")));
    assert_true(slice_eq(via.value, SLICE("1.1 cmesh-00001a2b")));
    head.minor = 0;
    assert_true(slice_eq(pseudonym_via(&p, &head).value, SLICE("1.0 cmesh-00001a2b")));
}

static bool passed(const char *a, const char *b)
{
    struct pseudonym p;
    const struct http_header headers[] = {{SLICE("via"), slice_str(a)},
                                          {SLICE("VIA"), slice_str(b)}};
    const struct http_head head = {.headers = headers, .header_count = ARRAY_LEN(headers)};
    pseudonym_init(&p, 0xdeadbeef);
    return pseudonym_has_passed(&p, &head);
}

static void it_is_found_among_those_of_others(void **state)
{
    (void)state;
    assert_true(passed("1.1 a, 1.1 cmesh-deadbeef (x), 1.0 b", ""));
    assert_true(passed("", "HTTP/1.1 cmesh-deadbeef"));
    assert_false(passed("1.1 cmesh", "1.1 cmesh-deadbee0"));
    assert_false(passed("", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_added_with_the_version_of_the_message),
        cmocka_unit_test(it_is_found_among_those_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
