/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "crypto/aead.h"
#include "heap_in_use.h"
#include "link.h"

static struct tls_config *client;
static struct tls_config *server;

static int make_configs(void **state)
{
    static const char *const names[] = {"localhost", NULL};
    struct err e = ERR_INIT;
    struct certs_pair ca;
    struct certs_pair pair;
    (void)state;
    certs_make_ca("test CA", &ca);
    certs_issue(&ca, &(struct certs_spec){.dns = names}, &pair);
    client = tls_config_new_client(
        &(struct tls_client_options){.ca = slice_str(ca.cert), .server_name = "localhost"}, &e);
    server = tls_config_new_server(
        &(struct tls_server_options){.cert = slice_str(pair.cert), .key = slice_str(pair.key)}, &e);
    certs_free(&ca);
    certs_free(&pair);
    return client != NULL && server != NULL ? 0 : -1;
}

static int free_configs(void **state)
{
    (void)state;
    tls_config_unref(client);
    tls_config_unref(server);
    return 0;
}

static void open_link(struct link *l)
{
    link_init(l, client, server);
    link_shake(l);
    assert_int_equal(l->client.result, TLS_OK);
    assert_int_equal(l->server.result, TLS_OK);
}

static void an_idle_session_works_on(void **state)
{
    struct link l;
    (void)state;
    open_link(&l);
    tls_session_idle(l.client.tls);
    tls_session_idle(l.server.tls);
    for (int i = 0; i < 3; i++) {
        send_and_check(&l.client, &l.server, 50000, 700);
        tls_session_idle(l.client.tls);
        tls_session_idle(l.server.tls);
        send_and_check(&l.server, &l.client, 50000, 701);
        tls_session_idle(l.client.tls);
        tls_session_idle(l.server.tls);
    }
    link_deinit(&l);
}

/* Half a record, or plaintext that was not fetched yet, must survive. */
static void idling_at_a_bad_moment_loses_nothing(void **state)
{
    static char data[16000];
    struct link l;
    char piece[10];
    (void)state;
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (char)(i * 7);
    }
    open_link(&l);
    assert_int_equal(
        tls_session_write(l.client.tls, data, sizeof(data), &l.client.out, &l.client.e), 0);
    struct buf plain = BUF_INIT(sizeof(data));
    while (l.client.out.len > 0) {
        size_t n = l.client.out.len < 999 ? l.client.out.len : 999;
        struct slice in = slice_of((const char *)buf_data(&l.client.out), n);
        enum tls_result r = TLS_MORE;
        size_t got = 0;
        do {
            r = tls_session_read(l.server.tls, &in, piece, sizeof(piece), &got, &l.server.out,
                                 &l.server.e);
            tls_session_idle(l.server.tls);
            assert_int_equal(buf_append(&plain, piece, got), 0);
        } while (r == TLS_OK);
        assert_int_equal(r, TLS_MORE);
        buf_consume(&l.client.out, n);
    }
    assert_int_equal(plain.len, sizeof(data));
    assert_memory_equal(buf_data(&plain), data, sizeof(data));
    buf_reset(&plain);
    link_deinit(&l);
}

static void idling_is_allowed_at_any_time(void **state)
{
    struct link l;
    (void)state;
    link_init(&l, client, server);
    for (int i = 0; i < 4; i++) {
        tls_session_idle(l.client.tls);
        tls_session_idle(l.server.tls);
        link_shake_end(&l.client, &l.server, 100);
        tls_session_idle(l.client.tls);
        link_shake_end(&l.server, &l.client, 100);
    }
    assert_int_equal(l.client.result, TLS_OK);
    send_and_check(&l.client, &l.server, 100, LINK_MAX);
    link_deinit(&l);
}

/* Memory that is this process's alone, in KiB; -1: the kernel does not tell. */
static long resident_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f != NULL && kib < 0 && fgets(line, sizeof(line), f) != NULL) {
        (void)sscanf(line, "Private_Dirty: %ld", &kib);
    }
    if (f != NULL) {
        fclose(f);
    }
    return kib;
}

#define MANY 100

static void idle_sessions_take_little_memory(void **state)
{
    static struct link links[MANY];
    (void)state;
    for (size_t i = 0; i < MANY; i++) {
        open_link(&links[i]);
        send_and_check(&links[i].client, &links[i].server, 50000, LINK_MAX);
        send_and_check(&links[i].server, &links[i].client, 50000, LINK_MAX);
        buf_reset(&links[i].client.out);
        buf_reset(&links[i].server.out);
    }
    long busy = resident_kib();
    for (size_t i = 0; i < MANY; i++) {
        tls_session_idle(links[i].client.tls);
        tls_session_idle(links[i].server.tls);
    }
    long idle = resident_kib();
    for (size_t i = 0; i < MANY; i++) {
        link_deinit(&links[i]);
    }
    if (busy < 0) {
        skip();
    }
    /* Each of the sessions has two buffers of 16 KiB, of which three pages are its alone. */
    assert_true(busy - idle >= MANY * 2 * 2 * 8);
}

static void sessions_with_records_of_our_own_take_less_than_a_kib(void **state)
{
    static struct link links[MANY];
    (void)state;
    if (!aead_usable()) {
        skip();
    }
    for (size_t i = 0; i < MANY; i++) {
        open_link(&links[i]);
        send_and_check(&links[i].client, &links[i].server, 50000, 999);
        send_and_check(&links[i].server, &links[i].client, 50000, 999);
        buf_reset(&links[i].client.out);
        buf_reset(&links[i].server.out);
        tls_session_idle(links[i].client.tls);
        tls_session_idle(links[i].server.tls);
    }
    size_t idle = heap_in_use();
    for (size_t i = 0; i < MANY; i++) {
        link_deinit(&links[i]);
    }
    assert_in_range(idle - heap_in_use(), 1, MANY * 2 * 1024);
}

int main(void)
{
    const struct CMUnitTest by_library[] = {
        cmocka_unit_test(an_idle_session_works_on),
        cmocka_unit_test(idling_at_a_bad_moment_loses_nothing),
        cmocka_unit_test(idling_is_allowed_at_any_time),
        cmocka_unit_test(idle_sessions_take_little_memory),
    };
    const struct CMUnitTest by_ourselves[] = {
        cmocka_unit_test(an_idle_session_works_on),
        cmocka_unit_test(idling_at_a_bad_moment_loses_nothing),
        cmocka_unit_test(idling_is_allowed_at_any_time),
        cmocka_unit_test(sessions_with_records_of_our_own_take_less_than_a_kib),
    };
    tls_use_records(TLS_RECORDS_LIBRARY);
    int failures = cmocka_run_group_tests(by_library, make_configs, free_configs);
    tls_use_records(TLS_RECORDS_OWN);
    return failures + cmocka_run_group_tests(by_ourselves, make_configs, free_configs);
}
