/* SPDX-License-Identifier: Apache-2.0 */
#include "net/stream.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/log.h"
#include "base/state_machine.h"
#include "net/stream_internal.h"

static const struct state_machine machine = {
    .object = "stream",
    .states = {[STATE_NO_SOCKET] = {"NoSocket", STATE(STATE_WAITING) | STATE(STATE_RESOLVING) |
                                                    STATE(STATE_CONNECTING) | STATE(STATE_CLOSING)},
               [STATE_WAITING] = {"Waiting", STATE(STATE_RESOLVING) | STATE(STATE_NO_SOCKET) |
                                                 STATE(STATE_CLOSING)},
               [STATE_RESOLVING] = {"Resolving", STATE(STATE_NO_SOCKET) | STATE(STATE_CONNECTING) |
                                                     STATE(STATE_CLOSING)},
               [STATE_CONNECTING] = {"Connecting", STATE(STATE_REOPENING) |
                                                       STATE(STATE_HANDSHAKING) |
                                                       STATE(STATE_OPEN) | STATE(STATE_CLOSING)},
               [STATE_REOPENING] = {"Reopening", STATE(STATE_NO_SOCKET) | STATE(STATE_CONNECTING) |
                                                     STATE(STATE_CLOSING)},
               [STATE_HANDSHAKING] = {"Handshaking", STATE(STATE_REOPENING) | STATE(STATE_OPEN) |
                                                         STATE(STATE_CLOSING)},
               [STATE_OPEN] = {"Open", STATE(STATE_HANDSHAKING) | STATE(STATE_FINISHING) |
                                           STATE(STATE_CLOSING)},
               [STATE_FINISHING] = {"Finishing", STATE(STATE_CLOSING)},
               [STATE_CLOSING] = {"Closing", 0}},
};

void stream_set_state(struct net_stream *s, enum state next)
{
    const char *host = s->dial != NULL ? s->dial->host : "";
    s->state = state_change(&machine, s->state, next, slice_str(host));
}

void stream_free(struct net_stream *s)
{
    net_loop_stream_is_gone(s->loop);
    tls_session_free(s->tls);
    tls_config_unref(s->offered);
    net_peer_unref(s->peer);
    buf_reset(&s->kept);
    net_loop_take_back(s->loop, &s->plain);
    net_loop_take_back(s->loop, &s->wire);
    dial_free(s);
    net_backlog_entry_deinit(&s->backlog);
    free(s);
}

void stream_on_closed(uv_handle_t *handle)
{
    struct net_stream *s = handle->data;
    if (s->state == STATE_REOPENING) {
        dial_next(s);
    } else {
        stream_free(s);
    }
}

void stream_begin_close(struct net_stream *s)
{
    enum state was = s->state;
    if (was == STATE_CLOSING) {
        return;
    }
    stream_set_state(s, STATE_CLOSING);
    net_deadline_clear(&s->limit);
    net_deadline_clear(&s->stall);
    net_deadline_clear(&s->quiet);
    net_task_cancel(&s->flush);
    list_remove(&s->turn);
    list_remove(&s->finishing);
    net_backlog_leave(&s->backlog);
    if (was == STATE_NO_SOCKET || was == STATE_WAITING) {
        stream_free(s);
    } else if (was == STATE_RESOLVING) {
        (void)uv_cancel((uv_req_t *)&s->dial->lookup); /* which may be past it */
    } else if (was != STATE_REOPENING) {
        uv_close(&s->socket.handle, stream_on_closed);
    }
}

static void end_by_reset(uv_os_fd_t fd)
{
    static const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

/* What was to be delivered is not all gone: the peer must not take the end for an orderly one. */
static void give_up_finishing(struct net_stream *s)
{
    uv_os_fd_t fd;
    if (!net_stream_flushed(s) && uv_fileno(&s->socket.handle, &fd) == 0) {
        end_by_reset(fd);
    }
    stream_begin_close(s);
}

void stream_fail(struct net_stream *s, const struct err *e)
{
    if (s->state == STATE_FINISHING) {
        give_up_finishing(s);
    } else if (s->state != STATE_CLOSING) {
        s->want_read = false;
        list_remove(&s->turn);
        stream_update_reading(s);
        net_deadline_clear(&s->limit);
        net_deadline_clear(&s->stall);
        s->handlers->on_error(s->data, e);
    }
}

static void fail_code(struct net_stream *s, int code, const char *doing)
{
    struct err e = ERR_INIT;
    err_set(&e, code, "%s: %s", doing, err_text(code));
    stream_fail(s, &e);
}

static void on_limit(struct net_deadline *d)
{
    struct net_stream *s = LIST_ITEM(d, struct net_stream, limit);
    struct err e = ERR_INIT;
    if (dial_pass_on(s)) {
        return;
    }
    switch (s->state) {
    case STATE_FINISHING:
        give_up_finishing(s);
        break;
    case STATE_HANDSHAKING:
        err_set(&e, UV_ETIMEDOUT, "the TLS handshake timed out");
        stream_fail(s, &e);
        break;
    case STATE_OPEN:
        /* Set by a failed write whose reason the reading side did not learn. */
        fail_code(s, UV_EPIPE, "cannot write");
        break;
    default:
        err_set(&e, UV_ETIMEDOUT, "connecting to %s%s timed out", s->dial->host, s->dial->port);
        stream_fail(s, &e);
        break;
    }
}

static void on_stall(struct net_deadline *d)
{
    struct net_stream *s = LIST_ITEM(d, struct net_stream, stall);
    if (s->flight == NULL) {
        stream_flush(s);
        return;
    }
    if (stream_has_moved(s)) {
        net_backlog_note_progress(&s->backlog);
        net_deadline_set(s->loop, &s->stall, s->write_timeout_ms);
        return;
    }
    struct err e = ERR_INIT;
    err_set(&e, UV_ETIMEDOUT, "the peer did not read for %llu s",
            (unsigned long long)(s->write_timeout_ms / 1000));
    stream_fail(s, &e);
}

/* An idle watch need not hold the pages that its TLS buffers touched. */
static void on_quiet(struct net_deadline *d)
{
    struct net_stream *s = LIST_ITEM(d, struct net_stream, quiet);
    if (s->state == STATE_OPEN) {
        tls_session_idle(s->tls);
    }
}

struct net_stream *stream_new(struct net_loop *l, uint64_t write_timeout_ms)
{
    struct net_stream *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return NULL;
    }
    s->loop = l;
    net_loop_stream_begins(l);
    s->write_timeout_ms = write_timeout_ms;
    buf_init(&s->plain, NET_WRITE_MAX);
    buf_init(&s->wire, NET_WRITE_MAX + NET_WRITE_MAX / 16);
    buf_init(&s->kept, NET_READ_SIZE);
    list_init(&s->turn);
    list_init(&s->finishing);
    net_stream_set_backlog(s, NULL);
    net_task_init(&s->flush, stream_on_flush);
    net_deadline_init(&s->limit, on_limit);
    net_deadline_init(&s->stall, on_stall);
    net_deadline_init(&s->quiet, on_quiet);
    return s;
}

int stream_open_socket(struct net_stream *s)
{
    int rc = net_socket_init(&s->loop->uv, &s->socket, s->local);
    s->socket.handle.data = s;
    if (rc == 0) {
        stream_set_state(s, STATE_CONNECTING);
    }
    return rc;
}

/* ---- reading ---- */

static void deliver(struct net_stream *s, struct slice bytes)
{
    if (s->state == STATE_OPEN) {
        s->handlers->on_read(s->data, bytes);
    }
}

void stream_opened(struct net_stream *s)
{
    stream_set_state(s, STATE_OPEN);
    net_deadline_clear(&s->limit);
    dial_free(s);
    s->was_blocked = s->flight != NULL; /* no drain was reported before */
    stream_update_reading(s);
    if (s->dialled) {
        s->handlers->on_open(s->data);
    }
}

bool stream_shake_hands(struct net_stream *s, struct slice *in)
{
    struct err e = ERR_INIT;
    net_loop_lend(s->loop, &s->wire);
    enum tls_result r = tls_session_handshake(s->tls, in, &s->wire, &e);
    stream_flush(s);
    switch (r) {
    case TLS_OK:
        stream_opened(s);
        return s->state == STATE_OPEN;
    case TLS_MORE:
        return false;
    case TLS_CLOSED:
        err_set(&e, UV_ECONNRESET, "the peer closed the connection during the TLS handshake");
        break;
    case TLS_FAILED:
        break;
    }
    stream_fail(s, &e);
    return false;
}

static void wipe(const struct net_loop *l, size_t len)
{
    if (l->wipes) {
        explicit_bzero(l->plain, len);
    }
}

/* Decrypts all of `in`, handing over as much plaintext at once as fits. */
static void decrypt(struct net_stream *s, struct slice in)
{
    for (;;) {
        struct err e;
        size_t have = 0;
        enum tls_result r = TLS_OK;
        err_clear(&e);
        while (r == TLS_OK && have < NET_READ_SIZE) {
            size_t got = 0;
            r = tls_session_read(s->tls, &in, s->loop->plain + have, NET_READ_SIZE - have, &got,
                                 &s->wire, &e);
            have += r == TLS_OK ? got : 0;
        }
        if (s->wire.len > 0) {
            stream_flush_later(s);
        }
        if (have > 0) {
            deliver(s, slice_of((const char *)s->loop->plain, have));
            wipe(s->loop, have);
        }
        if (s->state != STATE_OPEN || r == TLS_MORE) {
            return;
        }
        if (r == TLS_CLOSED) {
            s->eof_seen = true;
            stream_update_reading(s);
            s->handlers->on_eof(s->data);
            return;
        }
        if (r == TLS_FAILED) {
            stream_flush(s);
            stream_fail(s, &e);
            return;
        }
    }
}

/* Not before: whoever connects and says nothing is to cost nothing. */
static bool begin_session(struct net_stream *s)
{
    struct err e = ERR_INIT;
    s->tls = tls_session_new(s->offered, &e);
    if (s->tls == NULL) {
        log_warn("cannot start TLS", log_str("error", e.msg));
        stream_fail(s, &e);
        return false;
    }
    tls_config_unref(s->offered);
    s->offered = NULL;
    return true;
}

void stream_on_handshake_bytes(struct net_stream *s, struct slice in)
{
    if (s->tls == NULL && !begin_session(s)) {
        return;
    }
    if (stream_shake_hands(s, &in)) {
        decrypt(s, in);
    } else {
        stream_update_reading(s);
    }
}

/* The peer's first byte, or its end, says that it does not speak TLS. */
static void go_plain(struct net_stream *s)
{
    s->plain_too = false;
    tls_config_unref(s->offered);
    s->offered = NULL;
    net_peer_unref(s->peer);
    s->peer = NULL;
    stream_opened(s);
}

static void decide_tls(struct net_stream *s, uint8_t first)
{
    if (first != TLS_HANDSHAKE_RECORD) {
        go_plain(s);
        return;
    }
    s->plain_too = false;
    net_deadline_set(s->loop, &s->limit, ACCEPT_HANDSHAKE_MS);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *b)
{
    (void)suggested;
    struct net_stream *s = handle->data;
    b->base = (char *)s->loop->cipher;
    b->len = NET_READ_SIZE;
}

static void on_read_end(struct net_stream *s, int code)
{
    s->eof_seen = true;
    if (s->state == STATE_FINISHING) {
        if (code != UV_EOF || s->output != OUTPUT_ENDING) {
            stream_begin_close(s);
        } else {
            stream_update_reading(s);
        }
        return;
    }
    struct err e = ERR_INIT;
    if (s->plain_too) {
        go_plain(s);
    }
    if (code != UV_EOF) {
        fail_code(s, code, "cannot read");
    } else if (s->state == STATE_HANDSHAKING) {
        err_set(&e, UV_ECONNRESET, "the peer closed the connection during the TLS handshake");
        stream_fail(s, &e);
    } else if (s->tls != NULL) {
        /* RFC 5246 section 7.2.1: without close_notify the end may be an attacker's. */
        err_set(&e, UV_ECONNRESET, "the peer closed the connection without close_notify");
        stream_fail(s, &e);
    } else {
        stream_update_reading(s);
        s->handlers->on_eof(s->data);
    }
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
    struct net_stream *s = stream->data;
    struct net_loop *l = s->loop;
    if (n == 0) {
        return;
    }
    if (n < 0) {
        on_read_end(s, (int)n);
    } else if (s->state != STATE_FINISHING) {
        struct slice in = slice_of(b->base, (size_t)n);
        if (s->plain_too) {
            decide_tls(s, (uint8_t)in.ptr[0]);
        }
        if (s->tls != NULL) {
            net_deadline_set(l, &s->quiet, TLS_IDLE_MS);
        }
        if (!stream_is_tls(s)) {
            deliver(s, in);
        } else if (s->state == STATE_OPEN) {
            decrypt(s, in);
        } else if (s->peer != NULL) {
            stream_keep_for_turn(s, in);
        } else {
            stream_on_handshake_bytes(s, in);
        }
    }
    net_loop_settle(l);
}

void stream_update_reading(struct net_stream *s)
{
    bool wanted;
    switch (s->state) {
    case STATE_HANDSHAKING:
        wanted = !list_linked(&s->turn);
        break;
    case STATE_FINISHING:
        wanted = true;
        break;
    case STATE_OPEN:
        wanted = s->want_read;
        break;
    default:
        wanted = false;
        break;
    }
    wanted = wanted && !s->eof_seen;
    if (wanted == s->reading || uv_is_closing(&s->socket.handle)) {
        return;
    }
    s->reading = wanted;
    if (wanted) {
        (void)uv_read_start(&s->socket.stream, on_alloc, on_read);
    } else {
        (void)uv_read_stop(&s->socket.stream);
    }
}

void net_stream_read_start(struct net_stream *s)
{
    s->want_read = true;
    stream_update_reading(s);
}

void net_stream_read_stop(struct net_stream *s)
{
    s->want_read = false;
    stream_update_reading(s);
}

/* ---- opening ---- */

/* Dead peers are found by keepalive while idle and by the user timeout while bytes are out. */
void stream_set_options(struct net_stream *s, unsigned user_timeout_ms)
{
    uv_os_fd_t fd;
    if (s->local) {
        return;
    }
    (void)uv_tcp_nodelay(&s->socket.tcp, 1);
    if (uv_fileno(&s->socket.handle, &fd) != 0) {
        return;
    }
    int on = 1;
    int idle = 30;
    int interval = 10;
    int count = 3;
    if (user_timeout_ms != 0) {
        idle = (int)(user_timeout_ms / 2000);
        interval = (int)(user_timeout_ms / 6000);
        idle = idle < 1 ? 1 : idle;
        interval = interval < 1 ? 1 : interval;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms,
                         sizeof user_timeout_ms);
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

/* A peer that does not read is noticed when so much waits in the kernel, and not megabytes. */
static void limit_unsent(struct net_stream *s)
{
    int most = ACCEPTED_UNSENT_MAX;
    uv_os_fd_t fd;
    if (!s->local && uv_fileno(&s->socket.handle, &fd) == 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most, sizeof most);
    }
}

int net_stream_accept(struct net_loop *l, uv_stream_t *server, struct tls_config *tls,
                      bool plain_too, uint64_t write_timeout_ms, struct net_stream **out)
{
    struct net_stream *s = stream_new(l, write_timeout_ms);
    if (s == NULL) {
        return UV_ENOMEM;
    }
    s->local = server->type == UV_NAMED_PIPE;
    int rc = stream_open_socket(s);
    if (rc == 0) {
        rc = uv_accept(server, &s->socket.stream);
    }
    if (rc == 0 && tls != NULL) {
        stream_set_state(s, STATE_HANDSHAKING);
        s->offered = tls_config_ref(tls);
        s->plain_too = plain_too;
    }
    if (rc != 0) {
        stream_begin_close(s);
        return rc;
    }
    stream_set_options(s, 0);
    limit_unsent(s);
    if (tls != NULL) {
        if (!plain_too) {
            net_deadline_set(l, &s->limit, ACCEPT_HANDSHAKE_MS);
        }
        stream_update_reading(s);
    } else {
        stream_opened(s);
    }
    *out = s;
    return 0;
}

int net_stream_peer_address(const struct net_stream *s, struct sockaddr_storage *out)
{
    int len = sizeof *out;
    *out = (struct sockaddr_storage){.ss_family = AF_UNIX};
    return s->local ? 0 : uv_tcp_getpeername(&s->socket.tcp, (struct sockaddr *)out, &len);
}

bool net_stream_has_tls(const struct net_stream *s)
{
    return s->tls != NULL || s->offered != NULL;
}

void net_stream_take_turns(struct net_stream *s, struct net_peer *peer)
{
    s->peer = net_peer_ref(peer);
}

int net_stream_start_tls(struct net_stream *s, struct tls_config *tls, struct err *e)
{
    struct slice none = {0};
    s->tls = tls_session_new(tls, e);
    if (s->tls == NULL) {
        return e->code;
    }
    stream_set_state(s, STATE_HANDSHAKING);
    net_loop_lend(s->loop, &s->wire);
    if (tls_session_handshake(s->tls, &none, &s->wire, e) == TLS_FAILED) {
        return e->code;
    }
    stream_update_reading(s);
    stream_flush_later(s);
    return 0;
}

void net_stream_set_handlers(struct net_stream *s, const struct net_stream_handlers *handlers,
                             void *data)
{
    s->handlers = handlers;
    s->data = data;
}

/* ---- the end ---- */

void net_stream_finish(struct net_stream *s)
{
    if (s->state != STATE_OPEN || s->output == OUTPUT_FAILED) {
        net_stream_close(s);
        return;
    }
    net_stream_shutdown(s);
    stream_set_state(s, STATE_FINISHING);
    list_append(&s->loop->finishing, &s->finishing);
    s->handlers = NULL;
    if (s->write_timeout_ms == 0) {
        net_stream_set_write_timeout(s, FINISH_STALL_MS);
    }
    if (s->output == OUTPUT_ENDED && s->eof_seen) {
        stream_begin_close(s);
        return;
    }
    if (s->output == OUTPUT_ENDED) {
        net_deadline_set(s->loop, &s->limit, FINISH_TIMEOUT_MS);
    }
    stream_update_reading(s);
}

void net_stream_hurry_finished(struct net_loop *l)
{
    LIST_FOR_EACH(node, &l->finishing)
    {
        struct net_stream *s = LIST_ITEM(node, struct net_stream, finishing);
        net_deadline_set(l, &s->limit, FINISH_TIMEOUT_MS);
    }
}

void net_stream_close(struct net_stream *s)
{
    s->handlers = NULL;
    stream_begin_close(s);
}

static bool kernel_has_some(const struct net_stream *s)
{
    uv_os_fd_t fd;
    int unsent = 0;
    return uv_fileno(&s->socket.handle, &fd) == 0 && ioctl(fd, SIOCOUTQ, &unsent) == 0 &&
           unsent > 0;
}

bool net_stream_unacknowledged(const struct net_stream *s)
{
    return !net_stream_flushed(s) || kernel_has_some(s);
}

void net_stream_drop_unsent(struct net_stream *s)
{
    uv_os_fd_t fd;
    if (kernel_has_some(s) && uv_fileno(&s->socket.handle, &fd) == 0) {
        end_by_reset(fd);
    }
}

void net_stream_reset(struct net_stream *s)
{
    uv_os_fd_t fd;
    if (uv_fileno(&s->socket.handle, &fd) == 0) {
        end_by_reset(fd);
    }
    net_stream_close(s);
}

bool net_stream_quiet(const struct net_stream *s)
{
    uv_os_fd_t fd;
    char byte;
    if (s->state != STATE_OPEN || s->eof_seen || s->output == OUTPUT_FAILED ||
        uv_fileno(&s->socket.handle, &fd) != 0) {
        return false;
    }
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
}

bool net_stream_peer_left(const struct net_stream *s)
{
    uv_os_fd_t fd;
    if (s->state != STATE_OPEN || s->eof_seen || uv_fileno(&s->socket.handle, &fd) != 0) {
        return true;
    }
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0;
}

static int peer_credentials(const struct net_stream *s, struct ucred *out)
{
    uv_os_fd_t fd;
    socklen_t len = sizeof *out;
    int rc = s->local ? uv_fileno(&s->socket.handle, &fd) : -EOPNOTSUPP;
    if (rc == 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, out, &len) != 0) {
        rc = -errno;
    }
    return rc;
}

int net_stream_peer_uid(const struct net_stream *s, uid_t *uid)
{
    struct ucred peer;
    int rc = peer_credentials(s, &peer);
    if (rc == 0) {
        *uid = peer.uid;
    }
    return rc;
}

const struct tls_session *net_stream_tls(const struct net_stream *s)
{
    return s->tls;
}
