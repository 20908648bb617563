/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/address.h"
#include "net/peers.h"

static struct net_peer *get(struct net_peers *p, const char *text)
{
    struct sockaddr_storage addr;
    assert_int_equal(net_address_literal(text, 1234, &addr), 0);
    struct net_peer *peer = net_peers_get(p, (const struct sockaddr *)&addr);
    assert_non_null(peer);
    return peer;
}

static bool same(const char *a, const char *b)
{
    struct net_peers peers;
    net_peers_init(&peers);
    struct net_peer *first = get(&peers, a);
    struct net_peer *second = get(&peers, b);
    bool result = first == second;
    net_peer_unref(first);
    net_peer_unref(second);
    assert_true(list_empty(&peers.list));
    net_peers_deinit(&peers);
    return result;
}

static void test_who_is_one_peer(void **state)
{
    (void)state;
    assert_true(same("10.0.0.1", "10.0.0.1"));
    assert_false(same("10.0.0.1", "10.0.0.2"));
    /* A listener on all addresses sees those of IPv4 mapped. */
    assert_true(same("10.0.0.1", "::ffff:10.0.0.1"));
    assert_false(same("::ffff:10.0.0.1", "::ffff:10.0.0.2"));
    assert_true(same("2001:db8:0:1::1", "2001:db8:0:1:ffff::2"));
    assert_false(same("2001:db8:0:1::1", "2001:db8:0:2::1"));
    assert_false(same("::1", "0.0.0.0"));
}

static void test_nobody_is_remembered(void **state)
{
    (void)state;
    struct net_peers peers;
    net_peers_init(&peers);
    for (int i = 0; i < 1000; i++) {
        struct net_peer *p = get(&peers, i % 2 == 0 ? "10.0.0.1" : "10.0.0.2");
        assert_int_equal(p->connections, 0);
        p->connections++;
        net_peer_unref(p);
        assert_true(list_empty(&peers.list));
    }
    net_peers_deinit(&peers);
}

static void test_a_peer_outlives_the_table(void **state)
{
    (void)state;
    struct net_peers peers;
    net_peers_init(&peers);
    struct net_peer *p = net_peer_ref(get(&peers, "10.0.0.1"));
    net_peers_deinit(&peers);
    net_peer_unref(p);
    net_peer_unref(p);
    net_peer_unref(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_one_peer),
        cmocka_unit_test(test_nobody_is_remembered),
        cmocka_unit_test(test_a_peer_outlives_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
