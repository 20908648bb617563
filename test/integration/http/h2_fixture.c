/* SPDX-License-Identifier: Apache-2.0 */
#include "h2_fixture.h"

struct h2_server server;

struct http_client_options h2_client_options(void)
{
    return (struct http_client_options){
        .host = "127.0.0.1",
        .port = server.port,
        .tls = server.client,
        .tls_upgrade = server.client_h1,
        .connect_timeout_ms = LONG_MS,
        .idle_timeout_ms = LONG_MS,
        .max_idle = 4,
    };
}

void world_use_options(struct world *w, const struct http_client_options *o)
{
    http_client_free(w->client);
    w->client = http_client_new(w->loop, o, NULL);
    assert_non_null(w->client);
}

int h2_setup(void **state)
{
    if (world_setup(state) != 0) {
        return -1;
    }
    struct world *w = *state;
    h2_server_start(&server, w->loop);
    const struct http_client_options o = h2_client_options();
    world_use_options(w, &o);
    return 0;
}

int h2_teardown(void **state)
{
    struct world *w = *state;
    http_client_free(w->client);
    w->client = NULL;
    h2_server_stop(&server);
    return world_teardown(state);
}

const struct http_client_stats *world_stats(const struct world *w)
{
    return http_client_stats(w->client);
}

void ask_expect_hello(struct ask *a)
{
    assert_true(a->closed && !a->failed);
    assert_int_equal(a->status, 200);
    ask_expect_body(a, "hello");
}

struct h2_server_conn *world_proven(struct world *w)
{
    static struct ask a;
    bool answers = server.answers;
    server.answers = true;
    ask_all(w, &a);
    ask_expect_hello(&a);
    server.answers = answers;
    assert_int_equal(world_stats(w)->idle, 1);
    return h2_conn(&server, server.accepted - 1);
}

struct h2_request *ask_begin_get(struct world *w, struct ask *a, unsigned n)
{
    ask_begin(w, a, "GET", HTTP_BODY_NONE, 0, false);
    return h2_request(&server, n);
}

void ask_send(struct world *w, struct ask *a, size_t size)
{
    static char block[64 * 1024];
    while (size > 0) {
        size_t n = size < sizeof block ? size : sizeof block;
        a->drained = false;
        assert_int_equal(http_exchange_send_body(a->x, slice_of(block, n)), 0);
        size -= n;
        if (http_exchange_blocked(a->x)) {
            run_until(w->loop, &a->drained);
        }
    }
}
