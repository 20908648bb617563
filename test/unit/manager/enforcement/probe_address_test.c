/* SPDX-License-Identifier: Apache-2.0 */
#include "enforcement/probe_address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"
#include "net/address.h"

static bool is_plausible(const char *host)
{
    struct sockaddr_storage address;
    assert_int_equal(net_address_literal(host, 5441, &address), 0);
    return probe_address_is_plausible(&address);
}

static void test_where_pods_are(void **state)
{
    (void)state;
    static const char *const hosts[] = {
        "10.0.0.1",        "172.16.3.4",      "192.168.1.1",     "100.64.0.7",      "8.8.8.8",
        "1.0.0.0",         "126.255.255.255", "128.0.0.1",       "169.253.255.255", "169.255.0.1",
        "223.255.255.255", "fd00::1",         "fc00::7",         "2001:db8::1",     "2a00:1:2::3",
        "64:ff9b::a00:1",  "2002:a00:1::1",   "::ffff:10.0.0.1", "fe00::1",         "fd00:ec3::1",
        "240.0.0.1",       "255.255.255.254",
    };
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        if (!is_plausible(hosts[i])) {
            fail_msg("%s", hosts[i]);
        }
    }
}

static void test_where_none_are(void **state)
{
    (void)state;
    static const char *const hosts[] = {
        "0.0.0.0",
        "0.1.2.3",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.169.254",
        "169.254.0.1",
        "224.0.0.1",
        "239.255.255.255",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0.0.0.0",
        "::ffff:0:169.254.169.254",
        "64:ff9b::169.254.169.254",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "feff::1",
        "ff02::1",
        "fd00:ec2::254",
    };
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        if (is_plausible(hosts[i])) {
            fail_msg("%s", hosts[i]);
        }
    }
    const struct sockaddr_storage none = {.ss_family = AF_UNIX};
    assert_false(probe_address_is_plausible(&none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_pods_are),
        cmocka_unit_test(test_where_none_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
