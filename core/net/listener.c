/* SPDX-License-Identifier: Apache-2.0 */
#include "net/listener.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "net/socket.h"
#include "net/socket_file.h"
#include "net/timer.h"

enum {
    BACKLOG = 1024,
    BURST = 16, /* accepted in a turn of the loop */
};

struct net_listener {
    union net_socket socket;
    struct net_loop *loop;
    struct tls_config *tls;
    bool plain_too;
    uint64_t write_timeout_ms;
    struct net_backlog *backlog;
    int kernel_bytes;
    net_listener_cb cb;
    void *data;
    bool local;
    struct socket_file file; /* local */
    char address[NET_ADDRESS_MAX];
    union net_socket
        turned_away; /* takes connections for which there is no memory, to close them */
    bool turning_away;
    bool closed;
    bool another;            /* to be turned away as well */
    uint64_t turn;           /* of the loop, in which it has accepted */
    unsigned burst;          /* so many */
    struct net_timer *again; /* set: one that libuv has announced waits for the next turn */
};

/* Once neither handle is open any more. */
static void listener_free(struct net_listener *n)
{
    if (n->closed && !n->turning_away) {
        tls_config_unref(n->tls);
        net_timer_free(n->again);
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
    if (uv_is_closing(&n->socket.handle)) {
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
    if (net_socket_init(&n->loop->uv, &n->turned_away, n->local) != 0) {
        return;
    }
    n->turning_away = true;
    n->turned_away.handle.data = n;
    (void)uv_accept(&n->socket.stream, &n->turned_away.stream);
    uv_close(&n->turned_away.handle, on_turned_away);
}

/* Root can reach everything of ours anyhow. */
static bool may_enter(const struct net_listener *n, const struct net_stream *s)
{
    uid_t uid;
    if (!n->local) {
        return true;
    }
    int rc = net_stream_peer_uid(s, &uid);
    if (rc != 0) {
        log_warn("refusing a connection: cannot determine its user",
                 log_str("path", net_listener_address(n)), log_str("error", err_text(rc)));
        return false;
    }
    if (uid != geteuid() && uid != 0) {
        log_warn("refusing a connection from another user",
                 log_str("path", net_listener_address(n)), log_num("uid", uid));
        return false;
    }
    return true;
}

static void take_connection(struct net_listener *n, int status)
{
    uv_stream_t *server = &n->socket.stream;
    struct net_stream *s = NULL;
    int rc = status != 0 ? status
                         : net_stream_accept(n->loop, server, n->tls, n->plain_too,
                                             n->write_timeout_ms, &s);
    if (rc != 0) {
        log_warn("cannot accept a connection", log_str("address", net_listener_address(n)),
                 log_str("error", err_text(rc)));
        if (status == 0 && rc == UV_ENOMEM) {
            turn_away(n);
        }
        return;
    }
    net_stream_set_backlog(s, n->backlog);
    if (may_enter(n, s)) {
        n->cb(n->data, s);
    } else {
        net_stream_close(s);
    }
}

static void on_again(void *data)
{
    take_connection(data, 0);
}

/* libuv announces connections as long as there are any, and no more until one was accepted: who
 * connects as fast as that would have the loop to himself. */
static void on_connection(uv_stream_t *server, int status)
{
    struct net_listener *n = server->data;
    n->burst = n->turn == n->loop->turns ? n->burst + 1 : 1;
    n->turn = n->loop->turns;
    if (status == 0 && n->burst > BURST) {
        net_timer_set(n->again, 0);
    } else {
        take_connection(n, status);
    }
}

/* Finds out which port was picked. */
static int remember_address(struct net_listener *n)
{
    struct sockaddr_storage bound = {0};
    int len = sizeof bound;
    int rc = uv_tcp_getsockname(&n->socket.tcp, (struct sockaddr *)&bound, &len);
    if (rc == 0) {
        net_address_format((const struct sockaddr *)&bound, n->address);
    }
    return rc;
}

/* Whether it is [::], and then 0.0.0.0 with the same port. */
static bool all_addresses(const struct sockaddr_storage *addr, struct sockaddr_in *v4)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)addr;
    *v4 = (struct sockaddr_in){.sin_family = AF_INET};
    if (addr->ss_family != AF_INET6 || !IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr)) {
        return false;
    }
    v4->sin_port = v6->sin6_port;
    return true;
}

static int bind_tcp(struct net_listener *n, const char *address,
                    const struct sockaddr_storage *addr)
{
    struct sockaddr_in v4;
    /* Without UV_TCP_IPV6ONLY libuv switches IPV6_V6ONLY off, whatever the system's default. */
    int rc = uv_tcp_bind(&n->socket.tcp, (const struct sockaddr *)addr, 0);
    if (rc != UV_EAFNOSUPPORT || !all_addresses(addr, &v4)) {
        return rc;
    }
    log_info("the kernel has no IPv6: listening on the addresses of IPv4 alone",
             log_str("address", address));
    return uv_tcp_bind(&n->socket.tcp, (const struct sockaddr *)&v4, 0);
}

/* Sockets that are accepted have what the listening one has. The kernel doubles it, for what it
 * needs beside the bytes. */
static int limit_kernel(struct net_listener *n)
{
    int send = n->kernel_bytes / 2;
    int receive = send;
    if (send == 0) {
        return 0;
    }
    int rc = uv_send_buffer_size(&n->socket.handle, &send);
    return rc != 0 ? rc : uv_recv_buffer_size(&n->socket.handle, &receive);
}

static int listen_tcp(struct net_listener *n, const char *address,
                      const struct sockaddr_storage *addr, struct err *e)
{
    int rc = bind_tcp(n, address, addr);
    rc = rc != 0 ? rc : limit_kernel(n);
    if (rc == 0) {
        rc = uv_listen(&n->socket.stream, BACKLOG, on_connection);
    }
    if (rc == 0) {
        rc = remember_address(n);
    }
    if (rc != 0) {
        (void)err_set(
            e, rc, "cannot listen on %s: %s%s", address, err_text(rc),
            rc == UV_EADDRINUSE ? " (another program has the port; port 0 picks a free one)" : "");
    }
    return rc;
}

static int listen_local(struct net_listener *n, const char *path, struct err *e)
{
    int fd = socket_file_bind(&n->file, path, e);
    if (fd < 0) {
        return fd;
    }
    int rc = uv_pipe_open(&n->socket.pipe, fd);
    if (rc != 0) {
        (void)close(fd);
    } else {
        rc = uv_listen(&n->socket.stream, BACKLOG, on_connection);
    }
    if (rc != 0) {
        socket_file_remove(&n->file);
        (void)err_set(e, rc, "cannot listen on %s: %s", path, err_text(rc));
    }
    return rc;
}

/* A listener whose handle is open; NULL with `e` set. */
static struct net_listener *listener_new(struct net_loop *l, const struct net_listener_options *o,
                                         struct err *e)
{
    struct net_listener *n = calloc(1, sizeof *n);
    if (n == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    n->loop = l;
    n->local = o->path != NULL;
    n->plain_too = o->plain_too;
    n->write_timeout_ms = o->write_timeout_ms;
    n->backlog = o->backlog;
    n->kernel_bytes = o->kernel_bytes;
    int rc = net_socket_init(&l->uv, &n->socket, n->local);
    if (rc != 0) {
        (void)err_set(e, rc, "cannot create a socket: %s", err_text(rc));
        free(n);
        return NULL;
    }
    n->socket.handle.data = n;
    n->tls = tls_config_ref(o->tls);
    n->again = net_timer_new(l, on_again, n);
    if (n->again == NULL) {
        uv_close(&n->socket.handle, on_closed);
        (void)err_memory(e);
        return NULL;
    }
    return n;
}

struct net_listener *net_listener_new(struct net_loop *l, const struct net_listener_options *o,
                                      net_listener_cb cb, void *data, struct err *e)
{
    struct sockaddr_storage addr;
    if (o->path == NULL && net_address_parse(o->address, &addr, e) != 0) {
        return NULL;
    }
    struct net_listener *n = listener_new(l, o, e);
    if (n == NULL) {
        return NULL;
    }
    n->cb = cb;
    n->data = data;
    int rc = n->local ? listen_local(n, o->path, e) : listen_tcp(n, o->address, &addr, e);
    if (rc != 0) {
        uv_close(&n->socket.handle, on_closed);
        return NULL;
    }
    return n;
}

const char *net_listener_address(const struct net_listener *n)
{
    return n->local ? n->file.path : n->address;
}

bool net_listener_is_tls(const struct net_listener *n)
{
    return n->tls != NULL;
}

void net_listener_set_tls(struct net_listener *n, struct tls_config *tls)
{
    tls_config_ref(tls);
    tls_config_unref(n->tls);
    n->tls = tls;
}

void net_listener_close(struct net_listener *n)
{
    if (n == NULL || uv_is_closing(&n->socket.handle)) {
        return;
    }
    if (n->local) {
        socket_file_remove(&n->file);
    }
    net_timer_clear(n->again);
    uv_close(&n->socket.handle, on_closed);
}
