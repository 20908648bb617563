/* SPDX-License-Identifier: Apache-2.0 */
#include <netdb.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/array.h"
#include "net/address.h"
#include "net/own_address.h"

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found);
int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found);

/* both.test has two addresses. */
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found)
{
    bool both = strcmp(node, "both.test") == 0;
    int rc = __real_getaddrinfo(both ? "127.0.0.1" : node, service, hints, found);
    if (rc == 0 && both) {
        rc = __real_getaddrinfo("127.0.0.2", service, hints, &(*found)->ai_next);
    }
    return rc;
}

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
        {"127.0.0.1", 5443, "[::ffff:127.0.0.1]:5443", true},
        {"0.0.0.0", 5443, "[fd00::1]:5443", false},
        {"both.test", 5443, "127.0.0.1:5443", true},
        {"both.test", 5443, "127.0.0.2:5443", true},
        {"both.test", 5443, "127.0.0.3:5443", false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct sockaddr_storage listen = parse(rows[i].listen);
        if (net_address_leads_to(rows[i].host, rows[i].port, &listen) != rows[i].leads) {
            fail_msg("%s port %u, listener %s", rows[i].host, rows[i].port, rows[i].listen);
        }
    }
}

/* Whether something else uses the number says nothing about the address. */
static void a_port_may_be_in_use(void **state)
{
    static const struct {
        const char *host;
        const char *listen;
    } rows[] = {{"127.0.0.1", "0.0.0.0:0"}, {"::1", "[::]:0"}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct sockaddr_storage a = parse(rows[i].listen);
        socklen_t len = sizeof a;
        int fd = socket(a.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
        unsigned port = ntohs(((struct sockaddr_in *)(void *)&a)->sin_port); /* IPv6 has it there */
        assert_true(net_address_leads_to(rows[i].host, port, &a));
        assert_int_equal(close(fd), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loopback_is_told_from_others),
        cmocka_unit_test(a_port_may_be_in_use),
        cmocka_unit_test(who_leads_to_a_listener),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
