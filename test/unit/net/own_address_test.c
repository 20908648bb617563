/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"
#include "net/address.h"
#include "net/own_address.h"

static struct sockaddr_storage parse(const char *text)
{
    struct sockaddr_storage a;
    assert_int_equal(net_address_parse(text, &a, NULL), 0);
    return a;
}

static void loopback_is_told_from_others(void **state)
{
    static const struct {
        const char *address;
        bool loopback;
    } rows[] = {
        {"127.0.0.1:1", true},
        {"127.255.0.9:1", true},
        {"128.0.0.1:1", false},
        {"0.0.0.0:1", false},
        {"[::1]:1", true},
        {"[::]:1", false},
        {"10.0.0.127:1", false},
        {"[::ffff:127.0.0.1]:1", true},
        {"[::ffff:10.0.0.1]:1", false},
        {"[fe80::1]:1", false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct sockaddr_storage a = parse(rows[i].address);
        if (net_address_is_loopback(&a) != rows[i].loopback) {
            fail_msg("%s", rows[i].address);
        }
    }
}

static void who_leads_to_a_listener(void **state)
{
    static const struct {
        const char *host;
        unsigned port;
        const char *listen;
        bool leads;
    } rows[] = {
        {"127.0.0.1", 5443, "127.0.0.1:5443", true},
        {"127.0.0.1", 5444, "127.0.0.1:5443", false},
        {"127.0.0.1", 0, "127.0.0.1:0", false},
        {"127.0.0.2", 5443, "127.0.0.1:5443", false},
        {"localhost", 5443, "127.0.0.1:5443", true},
        {"localhost", 5444, "127.0.0.1:5443", false},
        {"localhost", 5443, "0.0.0.0:5443", true},
        {"0.0.0.0", 5443, "127.0.0.1:5443", true},
        {"::ffff:127.0.0.1", 5443, "127.0.0.1:5443", true},
        {"::1", 5443, "[::1]:5443", true},
        {"::1", 5443, "127.0.0.1:5443", false},
        {"::", 5443, "[::1]:5443", true},
        {"127.0.0.1", 5443, "0.0.0.0:5443", true},
        {"127.0.0.9", 5443, "0.0.0.0:5443", true},
        {"127.0.0.1", 5443, "[::]:5443", true},
        {"::1", 5443, "0.0.0.0:5443", false},
        {"192.0.2.1", 5443, "0.0.0.0:5443", false}, /* RFC 5737: nobody's */
        {"192.0.2.1", 5443, "192.0.2.1:5443", true},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct sockaddr_storage listen = parse(rows[i].listen);
        if (net_address_leads_to(rows[i].host, rows[i].port, &listen) != rows[i].leads) {
            fail_msg("%s port %u, listener %s", rows[i].host, rows[i].port, rows[i].listen);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loopback_is_told_from_others),
        cmocka_unit_test(who_leads_to_a_listener),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
