/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TLS listener whose handshakes take turns: one peer shakes hands all the time, another once.
 */
#include <stdlib.h>

#include "certs.h"
#include "loop_fixture.h"
#include "net/listener.h"
#include "net/stream.h"

enum { MANY = 8, ENDS = MANY + 1 };

struct scene;

struct end {
    struct scene *scene;
    struct net_stream *stream;
    bool opened;
    unsigned place; /* in the order of opening */
};

struct scene {
    struct net_loop *loop;
    struct net_listener *listener;
    struct tls_config *server;
    struct tls_config *client;
    struct certs_pair ca;
    struct certs_pair cert;
    struct net_peer *peers[2]; /* of all but the last that is accepted, and of that */
    struct end accepted[ENDS];
    size_t count;
    struct end dialled[ENDS];
    unsigned opened;
    unsigned opened_before; /* the last one was accepted */
    bool all_opened;
};

static void on_open(void *data)
{
    struct end *e = data;
    e->opened = true;
    e->place = e->scene->opened++;
    e->scene->all_opened = e->scene->opened == ENDS;
}

static void on_read(void *data, struct slice bytes)
{
    (void)data;
    (void)bytes;
}

static void ignore(void *data)
{
    (void)data;
}

static void on_error(void *data, const struct err *e)
{
    struct end *end = data;
    (void)e;
    net_stream_close(end->stream);
    end->stream = NULL;
}

static const struct net_stream_handlers handlers = {
    .on_open = on_open,
    .on_read = on_read,
    .on_eof = ignore,
    .on_drain = ignore,
    .on_error = on_error,
};

static void on_accept(void *data, struct net_stream *s)
{
    struct scene *t = data;
    struct end *e = &t->accepted[t->count++];
    *e = (struct end){.scene = t, .stream = s};
    net_stream_set_handlers(s, &handlers, e);
    net_stream_take_turns(s, t->peers[t->count == ENDS ? 1 : 0]);
    t->opened_before = t->opened;
}

static struct net_peer *make_peer(struct net_peers *peers, const char *text)
{
    struct sockaddr_storage addr;
    assert_int_equal(net_address_literal(text, 1, &addr), 0);
    struct net_peer *p = net_peers_get(peers, (const struct sockaddr *)&addr);
    assert_non_null(p);
    return p;
}

static int setup(void **state)
{
    static struct scene t;
    static const char *const ips[] = {"127.0.0.1", NULL};
    struct net_peers peers;
    memset(&t, 0, sizeof t);
    certs_make_ca("integration CA", &t.ca);
    certs_issue(&t.ca, &(struct certs_spec){.ips = ips}, &t.cert);
    t.server = tls_config_new_server(
        &(struct tls_server_options){.cert = slice_str(t.cert.cert), .key = slice_str(t.cert.key)},
        NULL);
    t.client = tls_config_new_client(
        &(struct tls_client_options){.ca = slice_str(t.ca.cert), .server_name = "127.0.0.1"}, NULL);
    net_peers_init(&peers);
    t.peers[0] = make_peer(&peers, "10.0.0.1");
    t.peers[1] = make_peer(&peers, "10.0.0.2");
    net_peers_deinit(&peers);
    *state = &t;
    return t.server == NULL || t.client == NULL ? -1 : loop_setup((void **)&t.loop);
}

static int teardown(void **state)
{
    struct scene *t = *state;
    for (size_t i = 0; i < ENDS; i++) {
        if (t->dialled[i].stream != NULL) {
            net_stream_close(t->dialled[i].stream);
        }
        if (t->accepted[i].stream != NULL) {
            net_stream_close(t->accepted[i].stream);
        }
    }
    net_listener_close(t->listener);
    int rc = loop_teardown((void **)&t->loop);
    assert_int_equal(t->peers[0]->refs, 1);
    net_peer_unref(t->peers[0]);
    net_peer_unref(t->peers[1]);
    tls_config_unref(t->server);
    tls_config_unref(t->client);
    certs_free(&t->cert);
    certs_free(&t->ca);
    return rc;
}

/* Each is accepted before the next one comes; nobody has said a word by then. */
static void dial_all(struct scene *t)
{
    const struct net_listener_options lo = {.address = "127.0.0.1:0", .tls = t->server};
    t->listener = net_listener_new(t->loop, &lo, on_accept, t, NULL);
    assert_non_null(t->listener);
    const struct net_dial_options o = {
        .host = "127.0.0.1",
        .port = (unsigned)atoi(strrchr(net_listener_address(t->listener), ':') + 1),
        .tls = t->client,
        .connect_timeout_ms = 60000,
    };
    for (size_t i = 0; i < ENDS; i++) {
        t->dialled[i].scene = t;
        assert_int_equal(
            net_dial(t->loop, &o, &handlers, &t->dialled[i], &t->dialled[i].stream, NULL), 0);
    }
}

static void test_who_shakes_hands_once_does_not_wait_for_all(void **state)
{
    struct scene *t = *state;
    dial_all(t);
    run_until(t->loop, &t->all_opened);
    assert_int_equal(t->count, ENDS);
    assert_in_range(t->dialled[MANY].place - t->opened_before, 0, MANY / 4);
}

static void test_closed_while_they_wait(void **state)
{
    struct scene *t = *state;
    dial_all(t);
    while (list_empty(&t->loop->handshakes)) {
        (void)uv_run(&t->loop->uv, UV_RUN_ONCE);
    }
    for (size_t i = 0; i < t->count; i++) {
        net_stream_close(t->accepted[i].stream);
        t->accepted[i].stream = NULL;
    }
    assert_true(list_empty(&t->loop->handshakes));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_who_shakes_hands_once_does_not_wait_for_all),
        TEST(test_closed_while_they_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
