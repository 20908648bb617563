/* SPDX-License-Identifier: Apache-2.0 */
#include "net/listener.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/log.h"

enum { BACKLOG = 1024 };

struct net_listener {
    uv_tcp_t tcp;
    struct net_loop *loop;
    struct tls_config *tls;
    uint64_t write_timeout_ms;
    net_listener_cb cb;
    void *data;
    char address[NET_ADDRESS_MAX];
    uv_tcp_t turned_away; /* takes connections for which there is no memory, to close them */
    bool turning_away;
    bool closed;
    bool another; /* to be turned away as well */
};

/* Once neither handle is open any more. */
static void listener_free(struct net_listener *n)
{
    if (n->closed && !n->turning_away) {
        tls_config_unref(n->tls);
        free(n);
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct net_listener *n = handle->data;
    n->closed = true;
    listener_free(n);
}

static void turn_away(struct net_listener *n);

static void on_turned_away(uv_handle_t *handle)
{
    struct net_listener *n = handle->data;
    n->turning_away = false;
    if (uv_is_closing((uv_handle_t *)&n->tcp)) {
        listener_free(n);
    } else if (n->another) {
        n->another = false;
        turn_away(n);
    }
}

/* libuv listens on only when a connection it announced was accepted. */
static void turn_away(struct net_listener *n)
{
    if (n->turning_away) {
        n->another = true;
        return;
    }
    if (uv_tcp_init(&n->loop->uv, &n->turned_away) != 0) {
        return;
    }
    n->turning_away = true;
    n->turned_away.data = n;
    (void)uv_accept((uv_stream_t *)&n->tcp, (uv_stream_t *)&n->turned_away);
    uv_close((uv_handle_t *)&n->turned_away, on_turned_away);
}

static void on_connection(uv_stream_t *server, int status)
{
    struct net_listener *n = server->data;
    struct net_stream *s = NULL;
    int rc =
        status != 0 ? status : net_stream_accept(n->loop, server, n->tls, n->write_timeout_ms, &s);
    if (rc != 0) {
        log_warn("cannot accept a connection", log_str("address", n->address),
                 log_str("error", err_text(rc)));
        if (status == 0 && rc == UV_ENOMEM) {
            turn_away(n);
        }
        return;
    }
    n->cb(n->data, s);
}

/* Finds out which port was picked. */
static int remember_address(struct net_listener *n)
{
    struct sockaddr_storage bound = {0};
    int len = sizeof bound;
    int rc = uv_tcp_getsockname(&n->tcp, (struct sockaddr *)&bound, &len);
    if (rc == 0) {
        net_address_format((const struct sockaddr *)&bound, n->address);
    }
    return rc;
}

struct net_listener *net_listener_new(struct net_loop *l, const struct net_listener_options *o,
                                      net_listener_cb cb, void *data, struct err *e)
{
    struct sockaddr_storage addr;
    if (net_address_parse(o->address, &addr, e) != 0) {
        return NULL;
    }
    struct net_listener *n = calloc(1, sizeof *n);
    if (n == NULL) {
        err_set(e, UV_ENOMEM, "out of memory");
        return NULL;
    }
    n->loop = l;
    n->tls = o->tls != NULL ? tls_config_ref(o->tls) : NULL;
    n->write_timeout_ms = o->write_timeout_ms;
    n->cb = cb;
    n->data = data;
    int rc = uv_tcp_init(&l->uv, &n->tcp);
    if (rc != 0) {
        err_set(e, rc, "cannot make a socket: %s", err_text(rc));
        tls_config_unref(n->tls);
        free(n);
        return NULL;
    }
    n->tcp.data = n;
    rc = uv_tcp_bind(&n->tcp, (const struct sockaddr *)&addr, 0);
    rc = rc != 0 ? rc : uv_listen((uv_stream_t *)&n->tcp, BACKLOG, on_connection);
    rc = rc != 0 ? rc : remember_address(n);
    if (rc != 0) {
        err_set(e, rc, "cannot listen on %s: %s%s", o->address, err_text(rc),
                rc == UV_EADDRINUSE ? " (another program has the port; port 0 picks a free one)"
                                    : "");
        net_listener_close(n);
        return NULL;
    }
    return n;
}

const char *net_listener_address(const struct net_listener *n)
{
    return n->address;
}

void net_listener_close(struct net_listener *n)
{
    if (n != NULL && !uv_is_closing((uv_handle_t *)&n->tcp)) {
        uv_close((uv_handle_t *)&n->tcp, on_closed);
    }
}
