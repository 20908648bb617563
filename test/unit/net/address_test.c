/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"
#include "net/address.h"

static void test_addresses(void **state)
{
    static const struct {
        const char *text;
        const char *printed; /* NULL: refused */
    } rows[] = {
        {"127.0.0.1:5443", "127.0.0.1:5443"},
        {"0.0.0.0:0", "0.0.0.0:0"},
        {":5441", "[::]:5441"},
        {"[::1]:80", "[::1]:80"},
        {"[::]:65535", "[::]:65535"},
        {"127.0.0.1", NULL},
        {"127.0.0.1:", NULL},
        {"127.0.0.1:65536", NULL},
        {"127.0.0.1:-1", NULL},
        {"127.0.0.1:80x", NULL},
        {"localhost:80", NULL},
        {"1.2.3:80", NULL},
        {"", NULL},
        {"[::1:80", NULL},
        {"127.0.0.1127.0.0.1127.0.0.1127.0.0.1127.0.0.1127.0.0.1127.0.0.1127.0.0.1:80", NULL},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct sockaddr_storage addr;
        struct err e = ERR_INIT;
        int rc = net_address_parse(rows[i].text, &addr, &e);
        assert_int_equal(net_address_check(rows[i].text, NULL), rc);
        if (rows[i].printed == NULL) {
            assert_int_not_equal(rc, 0);
            assert_string_not_equal(e.msg, "");
            continue;
        }
        char text[NET_ADDRESS_MAX];
        assert_int_equal(rc, 0);
        net_address_format((const struct sockaddr *)&addr, text);
        assert_string_equal(text, rows[i].printed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
