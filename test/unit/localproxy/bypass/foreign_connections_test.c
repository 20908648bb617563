/* SPDX-License-Identifier: Apache-2.0 */
#include "bypass/foreign_connections.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "net/address.h"

#define SERVICE "10.96.0.1:443"
#define BACKEND "172.18.0.2:6443"

static struct socket_end end_of(const char *text)
{
    struct sockaddr_storage a;
    assert_int_equal(net_address_parse(text, &a, NULL), 0);
    return socket_end_of(&a);
}

/* What a look may find; inodes below 100 are localproxy's. */
struct scene {
    struct socket_entry entries[80];
    size_t count;
};

static void add(struct scene *s, uint64_t inode, const char *local, const char *remote)
{
    s->entries[s->count++] = (struct socket_entry){end_of(local), end_of(remote), inode};
}

static bool update(struct foreign_connections *f, struct scene *s)
{
    uint64_t own[99];
    struct socket_look look = {.table = {s->entries, s->count, s->count}, .own = own};
    for (look.own_count = 0; look.own_count < 99; look.own_count++) {
        own[look.own_count] = look.own_count + 1;
    }
    socket_table_sort(&look.table);
    return foreign_connections_update(f, &look);
}

static struct foreign_connections with_service(void)
{
    struct foreign_connections f = {.port = 6443, .own_ports = {5443, 5441}};
    struct socket_end service = end_of(SERVICE);
    foreign_connections_name(&f, &service);
    return f;
}

static void test_what_lasts(void **state)
{
    struct foreign_connections f = with_service();
    struct scene s = {.count = 0};
    (void)state;
    assert_false(update(&f, &s));
    add(&s, 100, "10.0.0.5:4000", SERVICE);
    add(&s, 101, "10.0.0.5:4001", SERVICE);
    add(&s, 102, "10.0.0.5:4002", "10.0.0.9:443");
    add(&s, 1, "10.0.0.5:4003", SERVICE);
    assert_true(update(&f, &s));
    assert_int_equal(f.lasting, 0);
    assert_false(update(&f, &s));
    assert_int_equal(f.lasting, 2);
    s = (struct scene){.count = 0};
    add(&s, 101, "10.0.0.5:4009", SERVICE); /* another one with an inode that was free again */
    add(&s, 103, "10.0.0.5:4003", SERVICE);
    assert_true(update(&f, &s));
    assert_int_equal(f.lasting, 0);
}

static void test_where_our_own_go_is_the_api_server(void **state)
{
    struct foreign_connections f = with_service();
    struct scene s = {.count = 0};
    (void)state;
    add(&s, 100, "10.0.0.5:4000", BACKEND);
    assert_false(update(&f, &s));
    add(&s, 1, "10.0.0.5:4001", BACKEND);
    assert_true(update(&f, &s));
    s.count = 0; /* ours was closed */
    add(&s, 100, "10.0.0.5:4000", BACKEND);
    assert_false(update(&f, &s));
    assert_int_equal(f.lasting, 1);
}

static void test_our_clients_are_no_api_server(void **state)
{
    struct foreign_connections f = with_service();
    struct scene s = {.count = 0};
    (void)state;
    add(&s, 1, "127.0.0.1:5443", "127.0.0.1:6443");
    add(&s, 2, "10.0.0.5:5441", "10.0.0.1:6443");
    add(&s, 100, "10.0.0.5:4000", "127.0.0.1:6443");
    add(&s, 101, "10.0.0.5:4001", "10.0.0.1:6443");
    assert_false(update(&f, &s));
    f.port = 0; /* what is reached through an HTTP proxy tells nothing either */
    add(&s, 3, "10.0.0.5:4002", BACKEND);
    add(&s, 102, "10.0.0.5:4003", BACKEND);
    assert_false(update(&f, &s));
}

/* Each connection has a second one, of the other mesh's proxy. */
static void test_in_another_service_mesh(void **state)
{
    struct foreign_connections f = with_service();
    struct scene s = {.count = 0};
    (void)state;
    add(&s, 1, "10.0.0.5:4000", BACKEND);
    add(&s, 100, "127.0.0.1:15001", "10.0.0.5:4000");
    add(&s, 101, "10.0.0.5:4001", BACKEND);
    assert_false(update(&f, &s));
    assert_false(update(&f, &s));
    assert_int_equal(f.lasting, 0);
    add(&s, 102, "10.0.0.5:4002", SERVICE); /* the operator's */
    add(&s, 103, "127.0.0.1:15001", "10.0.0.5:4002");
    add(&s, 104, "10.0.0.5:4003", SERVICE);
    assert_true(update(&f, &s));
    assert_false(update(&f, &s));
    assert_int_equal(f.lasting, 1);
}

/* As nat does it: they look as if they went to the API server, and end at a socket of localproxy's.
 */
static void test_what_is_redirected_to_us(void **state)
{
    struct foreign_connections f = with_service();
    struct scene s = {.count = 0};
    (void)state;
    f.own_ports[2] = 5446;
    add(&s, 100, "10.0.0.5:4000", SERVICE);
    add(&s, 1, "127.0.0.1:5446", "10.0.0.5:4000");
    add(&s, 2, "10.0.0.5:4001", SERVICE); /* localproxy's own, which is not redirected */
    assert_false(update(&f, &s));
    assert_false(update(&f, &s));
    assert_int_equal(f.found_count, 0);
    add(&s, 101, "10.0.0.5:4002", SERVICE);
    add(&s, 102, "127.0.0.1:9999", "10.0.0.5:4002"); /* somebody else has that one */
    add(&s, 103, "10.0.0.5:4003", SERVICE);
    add(&s, 104, "127.0.0.1:5446", "10.0.0.5:4003"); /* not localproxy, whatever its port */
    assert_true(update(&f, &s));
    assert_false(update(&f, &s));
    assert_int_equal(f.lasting, 2);
}

static void test_bounds(void **state)
{
    struct foreign_connections f = with_service();
    char text[32];
    (void)state;
    for (int i = 0; i < 3 * FOREIGN_SERVERS_MAX; i++) {
        struct scene s = {.count = 0};
        (void)snprintf(text, sizeof text, "10.1.0.%d:6443", i);
        add(&s, 1, "10.0.0.5:4001", text);
        add(&s, 100, "10.0.0.5:4000", SERVICE);
        (void)update(&f, &s);
        assert_int_equal(f.found_count, 1); /* the one that was named is never forgotten */
    }
    assert_int_equal(f.count, FOREIGN_SERVERS_MAX);
    struct scene s = {.count = 0};
    for (uint64_t i = 0; i < 80; i++) {
        (void)snprintf(text, sizeof text, "10.0.0.5:%d", (int)(4000 + i));
        add(&s, 100 + i, text, SERVICE);
    }
    (void)update(&f, &s);
    assert_int_equal(f.found_count, FOREIGN_FOUND_MAX);
    for (int i = 0; i < 2 * FOREIGN_NAMED_MAX; i++) {
        (void)snprintf(text, sizeof text, "10.2.0.%d:6443", i);
        struct socket_end end = end_of(text);
        foreign_connections_name(&f, &end);
    }
    assert_int_equal(f.named, FOREIGN_NAMED_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_lasts),
        cmocka_unit_test(test_where_our_own_go_is_the_api_server),
        cmocka_unit_test(test_our_clients_are_no_api_server),
        cmocka_unit_test(test_in_another_service_mesh),
        cmocka_unit_test(test_what_is_redirected_to_us),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
