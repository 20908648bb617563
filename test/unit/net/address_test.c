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

static void test_ipv4_in_ipv6(void **state)
{
    static const struct {
        const char *host;
        const char *plain; /* NULL: it stays */
    } rows[] = {
        {"::ffff:192.0.2.2", "192.0.2.2"},
        {"::ffff:0:192.0.2.2", "192.0.2.2"},
        {"::192.0.2.2", "192.0.2.2"},
        {"::2", "0.0.0.2"},
        {"64:ff9b::c000:202", "192.0.2.2"},
        {"2002:c000:202::", "192.0.2.2"},
        {"2002:C000:0202:1::7", "192.0.2.2"},
        {"::", NULL},
        {"::1", NULL},
        {"::fffe:192.0.2.2", NULL},
        {"::1:0:192.0.2.2", NULL},
        {"64:ff9b:1::c000:202", NULL},
        {"64:ff9b:0:0:1::c000:202", NULL},
        {"2001:0:c000:202::", NULL},
        {"2003:c000:202::", NULL},
        {"2001:db8::5efe:192.0.2.2", NULL},
        {"192.0.2.2", NULL},
        {"a.example", NULL},
        {"a:b", NULL},
        {"", NULL},
        {"1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa", NULL},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char room[INET_ADDRSTRLEN];
        struct slice host = slice_str(rows[i].host);
        struct slice plain = net_address_plain_host(host, room);
        if (rows[i].plain == NULL ? plain.ptr != host.ptr || plain.len != host.len
                                  : !slice_eq(plain, slice_str(rows[i].plain))) {
            fail_msg("%s is %.*s", rows[i].host, (int)plain.len, plain.ptr);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_ipv4_in_ipv6),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
