/* SPDX-License-Identifier: Apache-2.0 */
#include "bypass/socket_table.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "net/address.h"

/* As Linux 6.1 prints them on a machine that has the lowest byte first. */
#define TITLES                                                                                     \
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "  \
    "inode                                                     \n"
#define LISTENS                                                                                    \
    "   0: 0100007F:1539 00000000:0000 0A 00000000:00000000 00:00000000 00000000 65532        0 "  \
    "1130 1 0000000025dbe1ae 100 0 0 10 0                      \n"
#define WAITS                                                                                      \
    "   1: 0100007F:84A0 0100007F:8503 06 00000000:00000000 03:00001524 00000000     0        0 "  \
    "0 3 000000004d7b2172                                      \n"
#define TO_SERVICE                                                                                 \
    "   2: 0500F40A:A2C4 0100600A:01BB 01 00000000:00000000 02:000003E8 00000000 65532        0 "  \
    "4294967299 2 000000004d7b2172 20 4 30 10 -1                   \n"
#define TO_OTHER                                                                                   \
    "   3: 0500F40A:A2C6 0200600A:01BB 01 00000000:00000000 00:00000000 00000000 65532        0 "  \
    "77 1 000000004d7b2172 20 4 30 10 -1                   \n"
#define SIX_TITLES                                                                                 \
    "  sl  local_address                         remote_address                        st "        \
    "tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
#define TO_SIX                                                                                     \
    "   0: B80D01200000000000000000050000FD:A2C4 B80D01200000000000000000010000FD:192B 01 "        \
    "00000000:00000000 00:00000000 00000000 65532        0 78 1 000000004d7b2172 20 4 30 10 -1\n"
#define TO_MAPPED                                                                                  \
    "   1: 0000000000000000FFFF00000500F40A:A2C8 0000000000000000FFFF00000100600A:01BB 01 "        \
    "00000000:00000000 00:00000000 00000000 65532        0 79 1 000000004d7b2172 20 4 30 10 -1\n"

static struct socket_end end_of(const char *text)
{
    struct sockaddr_storage a;
    assert_int_equal(net_address_parse(text, &a, NULL), 0);
    return socket_end_of(&a);
}

static const struct socket_entry *only(const struct socket_table *t, const char *remote)
{
    size_t count = 0;
    struct socket_end end = end_of(remote);
    const struct socket_entry *found = socket_table_to(t, &end, &count);
    assert_int_equal(count, found == NULL ? 0 : 1);
    return found;
}

static void expect_entry(const struct socket_entry *entry, const char *local, const char *remote,
                         uint64_t inode)
{
    struct socket_end l = end_of(local);
    struct socket_end r = end_of(remote);
    assert_non_null(entry);
    assert_true(socket_end_equal(&entry->local, &l));
    assert_true(socket_end_equal(&entry->remote, &r));
    assert_true(entry->inode == inode);
}

static void test_established_connections(void **state)
{
    struct socket_table t = {.entries = NULL};
    (void)state;
    assert_int_equal(socket_table_add(&t, SLICE(TITLES LISTENS WAITS TO_SERVICE TO_OTHER)), 0);
    assert_int_equal(t.count, 2);
    socket_table_sort(&t);
    expect_entry(only(&t, "10.96.0.1:443"), "10.244.0.5:41668", "10.96.0.1:443",
                 UINT64_C(4294967299));
    expect_entry(only(&t, "10.96.0.2:443"), "10.244.0.5:41670", "10.96.0.2:443", 77);
    assert_null(only(&t, "10.96.0.1:444"));
    assert_null(only(&t, "10.96.0.0:443"));
    assert_null(only(&t, "10.96.0.3:443"));
    socket_table_deinit(&t);
}

static void test_ipv6_and_ipv4_in_it(void **state)
{
    struct socket_table t = {.entries = NULL};
    size_t count = 0;
    struct socket_end service = end_of("10.96.0.1:443");
    (void)state;
    assert_int_equal(socket_table_add(&t, SLICE(TITLES TO_SERVICE)), 0);
    assert_int_equal(socket_table_add(&t, SLICE(SIX_TITLES TO_SIX TO_MAPPED)), 0);
    socket_table_sort(&t);
    expect_entry(only(&t, "[2001:db8::fd00:1]:6443"), "[2001:db8::fd00:5]:41668",
                 "[2001:db8::fd00:1]:6443", 78);
    assert_non_null(socket_table_to(&t, &service, &count));
    assert_int_equal(count, 2);
    socket_table_deinit(&t);
}

static void test_an_empty_table(void **state)
{
    struct socket_table t = {.entries = NULL};
    size_t count = 1;
    struct socket_end service = end_of("10.96.0.1:443");
    (void)state;
    assert_int_equal(socket_table_add(&t, SLICE(TITLES)), 0);
    socket_table_sort(&t);
    assert_null(socket_table_to(&t, &service, &count));
    assert_int_equal(count, 0);
    socket_table_deinit(&t);
}

static void test_what_is_no_such_text(void **state)
{
    static const char *const texts[] = {
        "",
        "\n",
        "sll\n",
        "  TCP  \n" TO_SERVICE,
        TITLES "\n",
        TITLES "   2: 0500F40A:A2C4\n",
        TITLES "   2  0500F40A:A2C4 0100600A:01BB 01 0:0 0:0 0 1 0 5\n",
        TITLES "   2: 0500F40AA2C4 0100600A:01BB 01 0:0 0:0 0 1 0 5\n",
        TITLES "   2: 0500F4A:A2C4 0100600A:01BB 01 0:0 0:0 0 1 0 5\n",
        TITLES "   2: 0500F40G:A2C4 0100600A:01BB 01 0:0 0:0 0 1 0 5\n",
        TITLES "   2: 0500F40A:A2C40 0100600A:01BB 01 0:0 0:0 0 1 0 5\n",
        TITLES "   2: 0500F40A:A2C4 0100600A: 01 0:0 0:0 0 1 0 5\n",
        TITLES "   2: 0500F40A:A2C4 0100600A:01BB 101 0:0 0:0 0 1 0 5\n",
        TITLES "   2: 0500F40A:A2C4 0100600A:01BB 01 0:0 0:0 0 1 0\n",
        TITLES "   2: 0500F40A:A2C4 0100600A:01BB 01 0:0 0:0 0 1 0 5a\n",
        TITLES "   2: 0500F40A:A2C4 0100600A:01BB 01 0:0 0:0 0 1 0 18446744073709551616\n",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct socket_table t = {.entries = NULL};
        assert_int_equal(socket_table_add(&t, slice_str(texts[i])), -EPROTO);
        socket_table_deinit(&t);
    }
}

static void test_no_more_than_are_worth_it(void **state)
{
    struct socket_table t = {.entries = NULL};
    (void)state;
    for (size_t i = 0; i < SOCKET_TABLE_MAX; i++) {
        assert_int_equal(socket_table_add(&t, SLICE(TITLES TO_SERVICE)), 0);
    }
    assert_int_equal(socket_table_add(&t, SLICE(TITLES TO_SERVICE)), -ENOBUFS);
    assert_int_equal(t.count, SOCKET_TABLE_MAX);
    socket_table_deinit(&t);
}

static bool add_two(void *data)
{
    struct socket_table t = {.entries = NULL};
    (void)data;
    int rc = socket_table_add(&t, SLICE(TITLES TO_SERVICE TO_OTHER));
    assert_true(rc == 0 || rc == -ENOMEM);
    socket_table_deinit(&t);
    return rc == 0;
}

static void test_without_memory(void **state)
{
    (void)state;
    assert_in_range(sweep_allocations(add_two, NULL), 1, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_established_connections),
        cmocka_unit_test(test_ipv6_and_ipv4_in_it),
        cmocka_unit_test(test_an_empty_table),
        cmocka_unit_test(test_what_is_no_such_text),
        cmocka_unit_test(test_no_more_than_are_worth_it),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
