/* SPDX-License-Identifier: Apache-2.0 */
#include "ruleset.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "net/address.h"

static struct sockaddr_storage address(const char *host, uint16_t port)
{
    struct sockaddr_storage a = {0};
    assert_int_equal(net_address_literal(host, port, &a), 0);
    return a;
}

static void add(struct ruleset *r, const char *host, uint16_t port)
{
    struct sockaddr_storage a = address(host, port);
    assert_int_equal(ruleset_add(r, &a), 0);
}

static void expect(int (*write)(const struct ruleset *, struct buf *), const struct ruleset *r,
                   const char *want)
{
    struct buf out = BUF_INIT(65536);
    assert_int_equal(write(r, &out), 0);
    assert_string_equal(buf_cstr(&out), want);
    buf_reset(&out);
}

#define CHAIN                                                                                      \
    "\tchain output {\n"                                                                           \
    "\t\ttype nat hook output priority -100; policy accept;\n"                                     \
    "\t\tmeta skuid 5443 return\n"
#define V4 "\t\tip daddr 10.96.0.1 tcp dport 443 redirect to :5446\n"
#define V6 "\t\tip6 daddr fd00::1 tcp dport 6443 redirect to :5446\n"

static void both_families(void **state)
{
    (void)state;
    struct ruleset r = {.to_port = 5446, .except_user = 5443};
    add(&r, "10.96.0.1", 443);
    add(&r, "fd00::1", 6443);
    expect(ruleset_write, &r,
           "table inet cmesh\ndelete table inet cmesh\n"
           "table inet cmesh {\n" CHAIN V4 V6 "\t}\n}\n");
    /* Where the kernel has no nat for both in one table. */
    expect(ruleset_write_by_family, &r,
           "table inet cmesh\ndelete table inet cmesh\n"
           "table ip cmesh\ndelete table ip cmesh\n"
           "table ip cmesh {\n" CHAIN V4 "\t}\n}\n"
           "table ip6 cmesh\ndelete table ip6 cmesh\n"
           "table ip6 cmesh {\n" CHAIN V6 "\t}\n}\n");
}

/* A kernel without IPv6 need not hear of it. */
static void one_family(void **state)
{
    (void)state;
    struct ruleset r = {.to_port = 5446, .except_user = 5443};
    add(&r, "10.96.0.1", 443);
    expect(ruleset_write_by_family, &r,
           "table inet cmesh\ndelete table inet cmesh\n"
           "table ip cmesh\ndelete table ip cmesh\n"
           "table ip cmesh {\n" CHAIN V4 "\t}\n}\n");
}

static void no_address_is_there_twice(void **state)
{
    (void)state;
    struct ruleset r = {0};
    add(&r, "10.96.0.1", 443);
    add(&r, "10.96.0.1", 443);
    add(&r, "fd00::1", 443);
    add(&r, "fd00:0:0::1", 443);
    assert_int_equal(r.server_count, 2);
    add(&r, "10.96.0.1", 6443);
    add(&r, "fd00::2", 443);
    assert_int_equal(r.server_count, 4);
}

static void addresses_are_bounded(void **state)
{
    (void)state;
    struct ruleset r = {0};
    for (int i = 0; i < RULESET_SERVERS_MAX; i++) {
        add(&r, "10.96.0.1", (uint16_t)(i + 1));
    }
    struct sockaddr_storage known = address("10.96.0.1", 1);
    struct sockaddr_storage one_more = address("10.96.0.1", 1000);
    assert_int_equal(ruleset_add(&r, &known), 0);
    assert_int_equal(ruleset_add(&r, &one_more), -ENOBUFS);
}

/* nft takes them as one argument, of which the kernel takes 128 KiB. */
static void all_addresses_have_room(void **state)
{
    (void)state;
    struct ruleset r = {.to_port = 65535, .except_user = UINT32_MAX - 1};
    for (int i = 0; i < RULESET_SERVERS_MAX; i++) {
        add(&r, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", (uint16_t)(65535 - i));
    }
    struct buf out = BUF_INIT(64 * 1024);
    assert_int_equal(ruleset_write(&r, &out), 0);
    assert_true(out.len < (size_t)64 * 1024);
    buf_clear(&out);
    assert_int_equal(ruleset_write_by_family(&r, &out), 0);
    buf_reset(&out);
    struct buf small = BUF_INIT(100);
    assert_int_not_equal(ruleset_write(&r, &small), 0);
    buf_reset(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_families),
        cmocka_unit_test(one_family),
        cmocka_unit_test(no_address_is_there_twice),
        cmocka_unit_test(addresses_are_bounded),
        cmocka_unit_test(all_addresses_have_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
