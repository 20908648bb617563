/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "alloc_sweep.h"
#include "crypto/aead.h"
#include "crypto/mbedtls/tls_internal.h"
#include "link.h"

static struct tls_config *client;
static struct tls_config *server;

static int make_configs(void **state)
{
    static const char *const names[] = {"localhost", NULL};
    struct certs_pair ca;
    struct certs_pair pair;
    (void)state;
    certs_make_ca("test CA", &ca);
    certs_issue(&ca, &(struct certs_spec){.dns = names}, &pair);
    client = tls_config_new_client(
        &(struct tls_client_options){.ca = slice_str(ca.cert), .server_name = "localhost"}, NULL);
    server = tls_config_new_server(
        &(struct tls_server_options){.cert = slice_str(pair.cert), .key = slice_str(pair.key)},
        NULL);
    certs_free(&ca);
    certs_free(&pair);
    return client != NULL && server != NULL && aead_usable() ? 0 : -1;
}

static int free_configs(void **state)
{
    (void)state;
    tls_config_unref(client);
    tls_config_unref(server);
    return 0;
}

/* Each end hands the other what it has to say. False: one of them could not go on. */
static bool shake(struct link *l)
{
    for (int i = 0; i < 10; i++) {
        link_shake_end(&l->client, &l->server, LINK_MAX);
        link_shake_end(&l->server, &l->client, LINK_MAX);
    }
    return l->client.result == TLS_OK && l->server.result == TLS_OK;
}

static bool says(struct link_end *from, struct link_end *to)
{
    char data[100];
    size_t got = 0;
    if (tls_session_write(from->tls, "hello", 5, &from->out, &from->e) != 0) {
        assert_int_equal(from->e.code, -ENOMEM);
        return false;
    }
    struct slice in = buf_slice(&from->out);
    if (tls_session_read(to->tls, &in, data, sizeof data, &got, &to->out, &to->e) != TLS_OK) {
        assert_int_equal(to->e.code, -ENOMEM);
        return false;
    }
    assert_int_equal(got, 5);
    assert_memory_equal(data, "hello", 5);
    buf_clear(&from->out);
    return true;
}

struct seen {
    bool library_after_all;
    bool own;
};

/* Without memory for records of our own the session goes on with the library's. */
static bool connect_and_talk(void *data)
{
    struct seen *seen = data;
    struct link l = {.step = LINK_MAX};
    buf_init(&l.client.out, LINK_MAX);
    buf_init(&l.server.out, LINK_MAX);
    l.client.result = TLS_MORE;
    l.server.result = TLS_MORE;
    l.client.tls = tls_session_new(client, &l.client.e);
    l.server.tls = tls_session_new(server, &l.server.e);
    bool well = l.client.tls != NULL && l.server.tls != NULL && shake(&l);
    well = well && says(&l.client, &l.server) && says(&l.server, &l.client);
    if (well) {
        assert_true((l.client.tls->ssl == NULL) == (l.client.tls->records != NULL));
        seen->own = seen->own || l.client.tls->records != NULL;
        seen->library_after_all = seen->library_after_all || l.client.tls->records == NULL;
        well = says(&l.client, &l.server) && says(&l.server, &l.client);
    }
    link_deinit(&l);
    return well;
}

static void sessions_do_without_memory_for_records_of_their_own(void **state)
{
    struct seen seen = {.own = false};
    (void)state;
    assert_true(sweep_allocations(connect_and_talk, &seen) > 8);
    assert_true(seen.own);
    assert_true(seen.library_after_all);
}

static void sessions_without_keys_stay_with_the_library(void **state)
{
    struct link l;
    (void)state;
    link_init(&l, client, server);
    tls_exported_free(l.client.tls->exported);
    l.client.tls->exported = NULL;
    link_shake(&l);
    assert_int_equal(l.client.result, TLS_OK);
    assert_null(l.client.tls->records);
    assert_non_null(l.server.tls->records);
    send_and_check(&l.client, &l.server, 40000, LINK_MAX);
    send_and_check(&l.server, &l.client, 40000, LINK_MAX);
    link_deinit(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_do_without_memory_for_records_of_their_own),
        cmocka_unit_test(sessions_without_keys_stay_with_the_library),
    };
    return cmocka_run_group_tests(tests, make_configs, free_configs);
}
