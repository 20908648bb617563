/* SPDX-License-Identifier: Apache-2.0 */
#include "net/stream.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "net/deadline.h"

/*
 *              dial                                      accept
 *               |                                     plain |  | TLS
 *           RESOLVING --> CONNECTING --> HANDSHAKING <------|--+
 *               |          |   ^  |           |             |
 *               |          +---+  +---------> OPEN <--------+
 *               |        next address          |
 *               +----------+-------+-----------+---> FINISHING (owner gone, delivering the rest)
 *                                              |          |
 *                                              +----------+---> CLOSING (uv_close called)
 *
 * The memory goes in the last callback of the last handle or request.
 */
enum state {
    STATE_RESOLVING,
    STATE_CONNECTING,
    STATE_HANDSHAKING,
    STATE_OPEN,
    STATE_FINISHING,
    STATE_CLOSING,
};

enum {
    FINISH_TIMEOUT_MS = 1000,
    ACCEPT_HANDSHAKE_MS = 10000,
    TLS_IDLE_MS = 1000,
    STAGE_MAX = 12 * 1024,
};

struct net_stream {
    uv_tcp_t tcp;
    struct net_loop *loop;
    struct tls_session *tls; /* NULL: plain */
    const struct net_stream_handlers *handlers;
    void *data;
    enum state state;
    bool reading;       /* uv_read_start is in force */
    bool want_read;     /* the owner wants bytes */
    bool was_blocked;   /* on_drain is due */
    bool shut;          /* net_stream_shutdown was called */
    bool shut_sent;     /* and carried out */
    bool write_dead;    /* the peer takes no more: output is dropped */
    bool eof_seen;      /* nothing more comes from the peer */
    bool in_flight;     /* write_req is under way */
    bool resolving;     /* the look-up holds on to the memory */
    bool reopening;     /* closing the handle only to try the next address */
    struct buf plain;   /* staged plaintext (TLS only) */
    struct buf wire;    /* bytes for the kernel */
    struct buf flight;  /* bytes that uv_write is at */
    size_t flight_left; /* for the write timeout: what was left when last looked at */
    uv_write_t write_req;
    uv_shutdown_t shutdown_req;
    struct list dirty_link;
    struct net_deadline limit; /* connecting, handshake or finishing */
    struct net_deadline stall; /* writing */
    struct net_deadline quiet; /* TLS: when it passes, memory is given back */
    uint64_t write_timeout_ms;
    struct dial *dial; /* NULL once open */
};

/* What only a stream that is being dialled needs. */
struct dial {
    uv_getaddrinfo_t lookup;
    uv_connect_t connect;
    struct addrinfo *found;      /* to be freed; NULL for a literal */
    const struct addrinfo *next; /* to be tried */
    struct sockaddr_storage literal;
    struct tls_config *tls;
    char *host;
    unsigned port;
    unsigned user_timeout_ms;
    struct err last; /* of the address tried last */
};

static void connect_next(struct net_stream *s);
static void update_reading(struct net_stream *s);
static void flush(struct net_stream *s);

static void dial_free(struct net_stream *s)
{
    struct dial *d = s->dial;
    if (d == NULL) {
        return;
    }
    if (d->found != NULL) {
        uv_freeaddrinfo(d->found);
    }
    tls_config_unref(d->tls);
    free(d->host);
    free(d);
    s->dial = NULL;
}

static void stream_free(struct net_stream *s)
{
    s->loop->streams--;
    tls_session_free(s->tls);
    net_loop_take_back(s->loop, &s->plain);
    net_loop_take_back(s->loop, &s->wire);
    net_loop_take_back(s->loop, &s->flight);
    dial_free(s);
    free(s);
}

static void on_closed(uv_handle_t *handle)
{
    struct net_stream *s = handle->data;
    if (s->reopening && s->state == STATE_CONNECTING) {
        s->reopening = false;
        connect_next(s);
        return;
    }
    s->reopening = false;
    if (s->state == STATE_CLOSING && !s->resolving) {
        stream_free(s);
    }
}

/* May free the stream: no access after it where no handle is open. */
static void begin_close(struct net_stream *s)
{
    if (s->state == STATE_CLOSING) {
        return;
    }
    bool had_handle = s->state != STATE_RESOLVING;
    s->state = STATE_CLOSING;
    net_deadline_clear(&s->limit);
    net_deadline_clear(&s->stall);
    net_deadline_clear(&s->quiet);
    list_remove(&s->dirty_link);
    if (s->resolving) {
        /* The look-up's callback frees; it may be past cancelling. */
        (void)uv_cancel((uv_req_t *)&s->dial->lookup);
    }
    if (!had_handle && !s->resolving) {
        stream_free(s);
    } else if (had_handle && !uv_is_closing((uv_handle_t *)&s->tcp)) {
        uv_close((uv_handle_t *)&s->tcp, on_closed);
    }
}

static void fail(struct net_stream *s, const struct err *e)
{
    if (s->state == STATE_FINISHING) {
        begin_close(s);
    } else if (s->state != STATE_CLOSING) {
        s->want_read = false;
        update_reading(s);
        net_deadline_clear(&s->limit);
        net_deadline_clear(&s->stall);
        s->handlers->on_error(s->data, e);
    }
}

static void fail_code(struct net_stream *s, int code, const char *doing)
{
    struct err e = ERR_INIT;
    err_set(&e, code, "%s: %s", doing, err_text(code));
    fail(s, &e);
}

static void on_limit(struct net_deadline *d)
{
    struct net_stream *s = LIST_ITEM(d, struct net_stream, limit);
    struct err e = ERR_INIT;
    switch (s->state) {
    case STATE_FINISHING:
        begin_close(s);
        break;
    case STATE_HANDSHAKING:
        err_set(&e, UV_ETIMEDOUT, "the TLS handshake took too long");
        fail(s, &e);
        break;
    case STATE_OPEN:
        /* Set by a failed write whose reason the reading side did not learn. */
        fail_code(s, UV_EPIPE, "cannot write");
        break;
    default:
        err_set(&e, UV_ETIMEDOUT, "connecting to %s port %u took too long",
                s->dial != NULL ? s->dial->host : "?", s->dial != NULL ? s->dial->port : 0);
        fail(s, &e);
        break;
    }
}

static void on_stall(struct net_deadline *d)
{
    struct net_stream *s = LIST_ITEM(d, struct net_stream, stall);
    size_t left = uv_stream_get_write_queue_size((uv_stream_t *)&s->tcp);
    if (left < s->flight_left) {
        s->flight_left = left;
        net_deadline_set(s->loop, &s->stall, s->write_timeout_ms);
        return;
    }
    struct err e = ERR_INIT;
    err_set(&e, UV_ETIMEDOUT, "the peer did not read for %llu s",
            (unsigned long long)(s->write_timeout_ms / 1000));
    fail(s, &e);
}

/* An idle watch need not hold the pages that its TLS buffers touched. */
static void on_quiet(struct net_deadline *d)
{
    struct net_stream *s = LIST_ITEM(d, struct net_stream, quiet);
    if (s->state == STATE_OPEN) {
        tls_session_idle(s->tls);
    }
}

static struct net_stream *stream_new(struct net_loop *l, uint64_t write_timeout_ms)
{
    struct net_stream *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return NULL;
    }
    s->loop = l;
    l->streams++;
    s->write_timeout_ms = write_timeout_ms;
    buf_init(&s->plain, NET_WRITE_MAX);
    buf_init(&s->wire, NET_WRITE_MAX + NET_WRITE_MAX / 16);
    buf_init(&s->flight, NET_WRITE_MAX + NET_WRITE_MAX / 16);
    list_init(&s->dirty_link);
    net_deadline_init(&s->limit, on_limit);
    net_deadline_init(&s->stall, on_stall);
    net_deadline_init(&s->quiet, on_quiet);
    return s;
}

static int open_handle(struct net_stream *s)
{
    int rc = uv_tcp_init(&s->loop->uv, &s->tcp);
    s->tcp.data = s;
    return rc;
}

/* ---- writing ---- */

static size_t queued(const struct net_stream *s)
{
    return s->plain.len + s->wire.len + s->flight.len;
}

static void mark_dirty(struct net_stream *s)
{
    if (!list_linked(&s->dirty_link)) {
        list_append(&s->loop->dirty, &s->dirty_link);
    }
}

/* A failed write usually has its reason waiting on the reading side (an early answer, a reset);
 * that is the better story, so the error is only told if nothing comes from there. */
static void writing_failed(struct net_stream *s)
{
    s->write_dead = true;
    buf_clear(&s->plain);
    buf_clear(&s->wire);
    if (s->state == STATE_FINISHING) {
        net_deadline_set(s->loop, &s->limit, 0);
    } else {
        net_deadline_set(s->loop, &s->limit, s->reading ? NET_TICK_MS : 0);
    }
}

static void on_shutdown(uv_shutdown_t *req, int status)
{
    (void)status;
    struct net_stream *s = req->data;
    if (s->state == STATE_FINISHING && s->eof_seen) {
        begin_close(s);
    }
}

static void send_shutdown(struct net_stream *s)
{
    s->shut_sent = true;
    s->shutdown_req.data = s;
    int rc = uv_shutdown(&s->shutdown_req, (uv_stream_t *)&s->tcp, on_shutdown);
    if (s->state == STATE_FINISHING) {
        net_deadline_set(s->loop, &s->limit, rc == 0 ? FINISH_TIMEOUT_MS : 0);
    }
}

static void on_written(uv_write_t *req, int status)
{
    struct net_stream *s = req->data;
    s->in_flight = false;
    net_deadline_clear(&s->stall);
    net_loop_take_back(s->loop, &s->flight);
    if (s->state == STATE_CLOSING) {
        return;
    }
    if (status < 0) {
        writing_failed(s);
        return;
    }
    flush(s);
    if (s->was_blocked && queued(s) <= NET_WRITE_LOW && s->state == STATE_OPEN) {
        s->was_blocked = false;
        s->handlers->on_drain(s->data);
    }
    if (s->state != STATE_CLOSING) {
        flush(s);
    }
}

static void encrypt_staged(struct net_stream *s)
{
    struct err e = ERR_INIT;
    if (s->plain.len == 0) {
        return;
    }
    net_loop_lend(s->loop, &s->wire);
    if (tls_session_write(s->tls, buf_data(&s->plain), s->plain.len, &s->wire, &e) != 0) {
        log_warn("cannot encrypt", log_str("error", e.msg));
        writing_failed(s);
        return;
    }
    net_loop_take_back(s->loop, &s->plain);
}

/* What the kernel did not take at once goes on the way with uv_write; `wire` is free again. */
static void start_flight(struct net_stream *s)
{
    struct buf empty = s->flight;
    s->flight = s->wire;
    s->wire = empty;
    uv_buf_t b = uv_buf_init((char *)buf_data(&s->flight), (unsigned)s->flight.len);
    s->write_req.data = s;
    int rc = uv_write(&s->write_req, (uv_stream_t *)&s->tcp, &b, 1, on_written);
    if (rc != 0) {
        net_loop_take_back(s->loop, &s->flight);
        writing_failed(s);
        return;
    }
    s->in_flight = true;
    if (s->write_timeout_ms != 0) {
        s->flight_left = s->flight.len;
        net_deadline_set(s->loop, &s->stall, s->write_timeout_ms);
    }
}

/* Sends what is staged. Calls no handler. */
static void flush(struct net_stream *s)
{
    list_remove(&s->dirty_link);
    if (s->write_dead || s->state < STATE_HANDSHAKING || s->state == STATE_CLOSING) {
        return;
    }
    if (s->tls != NULL && s->state != STATE_HANDSHAKING) {
        encrypt_staged(s);
    }
    if (s->in_flight || s->write_dead) {
        return;
    }
    if (s->wire.len > 0) {
        uv_buf_t b = uv_buf_init((char *)buf_data(&s->wire), (unsigned)s->wire.len);
        int n = uv_try_write((uv_stream_t *)&s->tcp, &b, 1);
        if (n < 0 && n != UV_EAGAIN) {
            writing_failed(s);
            return;
        }
        buf_consume(&s->wire, n < 0 ? 0 : (size_t)n);
    }
    if (s->wire.len > 0) {
        start_flight(s);
        return;
    }
    net_loop_take_back(s->loop, &s->wire);
    if (s->shut && !s->shut_sent && s->plain.len == 0) {
        send_shutdown(s);
    }
}

void net_stream_flush_all(struct net_loop *l)
{
    while (!list_empty(&l->dirty)) {
        flush(LIST_ITEM(l->dirty.next, struct net_stream, dirty_link));
    }
}

/* Large plain writes go to the kernel from where they lie. Returns how many bytes went. */
static size_t write_direct(struct net_stream *s, const struct slice *parts, size_t count)
{
    uv_buf_t bufs[8];
    unsigned n = 0;
    size_t staged = s->wire.len;
    if (staged > 0) {
        bufs[n++] = uv_buf_init((char *)buf_data(&s->wire), (unsigned)staged);
    }
    for (size_t i = 0; i < count && n < 8; i++) {
        bufs[n++] = uv_buf_init((char *)(uintptr_t)parts[i].ptr, (unsigned)parts[i].len);
    }
    int rc = uv_try_write((uv_stream_t *)&s->tcp, bufs, n);
    if (rc < 0) {
        if (rc != UV_EAGAIN) {
            writing_failed(s);
        }
        return 0;
    }
    size_t went = (size_t)rc;
    if (went < staged) {
        buf_consume(&s->wire, went);
        return 0;
    }
    buf_clear(&s->wire);
    return went - staged;
}

int net_stream_write(struct net_stream *s, const struct slice *parts, size_t count)
{
    if (s->write_dead || s->state == STATE_CLOSING) {
        return 0;
    }
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        total += parts[i].len;
    }
    if (queued(s) + total > NET_WRITE_MAX) {
        return -ENOBUFS;
    }
    size_t skip = 0;
    if (s->tls == NULL && s->state == STATE_OPEN && !s->in_flight &&
        s->wire.len + total > STAGE_MAX) {
        skip = write_direct(s, parts, count);
    }
    struct buf *stage = s->tls != NULL ? &s->plain : &s->wire;
    if (skip < total) {
        net_loop_lend(s->loop, stage);
    }
    for (size_t i = 0; i < count; i++) {
        size_t jump = skip < parts[i].len ? skip : parts[i].len;
        skip -= jump;
        int rc = buf_append(stage, parts[i].ptr + jump, parts[i].len - jump);
        if (rc != 0) {
            return rc;
        }
    }
    if (stage->len > STAGE_MAX) {
        flush(s);
    } else if (stage->len > 0) {
        mark_dirty(s);
    }
    if (queued(s) > NET_WRITE_HIGH) {
        s->was_blocked = true;
    }
    return 0;
}

bool net_stream_blocked(const struct net_stream *s)
{
    return s->state < STATE_OPEN || s->was_blocked;
}

void net_stream_shutdown(struct net_stream *s)
{
    if (s->shut || s->state == STATE_CLOSING) {
        return;
    }
    if (s->tls != NULL && !s->write_dead) {
        encrypt_staged(s);
        tls_session_shutdown(s->tls, &s->wire);
    }
    s->shut = true;
    mark_dirty(s);
}

/* ---- reading ---- */

static void deliver(struct net_stream *s, struct slice bytes)
{
    if (s->state == STATE_OPEN) {
        s->handlers->on_read(s->data, bytes);
    }
}

static void finish_opening(struct net_stream *s)
{
    bool dialled = s->dial != NULL;
    s->state = STATE_OPEN;
    net_deadline_clear(&s->limit);
    dial_free(s);
    update_reading(s);
    if (dialled) {
        s->handlers->on_open(s->data);
    }
}

/* Feeds the handshake; true when it is done and `in` may hold more. */
static bool shake_hands(struct net_stream *s, struct slice *in)
{
    struct err e = ERR_INIT;
    net_loop_lend(s->loop, &s->wire);
    enum tls_result r = tls_session_handshake(s->tls, in, &s->wire, &e);
    flush(s);
    switch (r) {
    case TLS_OK:
        finish_opening(s);
        return s->state == STATE_OPEN;
    case TLS_MORE:
        return false;
    case TLS_CLOSED:
        err_set(&e, UV_ECONNRESET, "the peer closed during the TLS handshake");
        break;
    case TLS_FAILED:
        break;
    }
    fail(s, &e);
    return false;
}

/* Decrypts all of `in`, handing over as much plaintext at once as fits. */
static void decrypt(struct net_stream *s, struct slice in)
{
    for (;;) {
        struct err e = ERR_INIT;
        size_t have = 0;
        enum tls_result r = TLS_OK;
        while (r == TLS_OK && have < NET_READ_SIZE) {
            size_t got = 0;
            r = tls_session_read(s->tls, &in, s->loop->plain + have, NET_READ_SIZE - have, &got,
                                 &s->wire, &e);
            have += r == TLS_OK ? got : 0;
        }
        if (s->wire.len > 0) {
            mark_dirty(s);
        }
        if (have > 0) {
            deliver(s, slice_of((const char *)s->loop->plain, have));
        }
        if (s->state != STATE_OPEN || r == TLS_MORE) {
            return;
        }
        if (r == TLS_CLOSED) {
            s->eof_seen = true;
            update_reading(s);
            s->handlers->on_eof(s->data);
            return;
        }
        if (r == TLS_FAILED) {
            flush(s);
            fail(s, &e);
            return;
        }
    }
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
        if (code != UV_EOF || s->shut_sent) {
            begin_close(s);
        } else {
            update_reading(s);
        }
        return;
    }
    struct err e = ERR_INIT;
    if (code != UV_EOF) {
        fail_code(s, code, "cannot read");
    } else if (s->state == STATE_HANDSHAKING) {
        err_set(&e, UV_ECONNRESET, "the peer closed during the TLS handshake");
        fail(s, &e);
    } else if (s->tls != NULL) {
        /* RFC 5246 section 7.2.1: without close_notify the end may be an attacker's. */
        err_set(&e, UV_ECONNRESET, "the peer closed without ending TLS");
        fail(s, &e);
    } else {
        update_reading(s);
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
        if (s->tls != NULL) {
            net_deadline_set(l, &s->quiet, TLS_IDLE_MS);
        }
        if (s->tls == NULL) {
            deliver(s, in);
        } else if (s->state == STATE_OPEN || shake_hands(s, &in)) {
            decrypt(s, in);
        }
    }
    net_loop_settle(l);
}

static void update_reading(struct net_stream *s)
{
    bool wanted;
    switch (s->state) {
    case STATE_HANDSHAKING:
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
    if (wanted == s->reading || uv_is_closing((uv_handle_t *)&s->tcp)) {
        return;
    }
    s->reading = wanted;
    if (wanted) {
        (void)uv_read_start((uv_stream_t *)&s->tcp, on_alloc, on_read);
    } else {
        (void)uv_read_stop((uv_stream_t *)&s->tcp);
    }
}

void net_stream_read_start(struct net_stream *s)
{
    s->want_read = true;
    update_reading(s);
}

void net_stream_read_stop(struct net_stream *s)
{
    s->want_read = false;
    update_reading(s);
}

/* ---- opening ---- */

/* Dead peers are found by keepalive while idle and by the user timeout while bytes are out. */
static void set_socket_options(struct net_stream *s, unsigned user_timeout_ms)
{
    uv_os_fd_t fd;
    (void)uv_tcp_nodelay(&s->tcp, 1);
    if (uv_fileno((uv_handle_t *)&s->tcp, &fd) != 0) {
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

static void on_connected(uv_connect_t *req, int status)
{
    struct net_stream *s = req->data;
    struct dial *d = s->dial;
    if (s->state == STATE_CLOSING) {
        return;
    }
    if (status != 0) {
        err_set(&d->last, status, "cannot connect to %s port %u: %s", d->host, d->port,
                err_text(status));
        s->reopening = true;
        uv_close((uv_handle_t *)&s->tcp, on_closed);
        return;
    }
    set_socket_options(s, d->user_timeout_ms);
    if (d->tls == NULL) {
        finish_opening(s);
    } else {
        struct err e = ERR_INIT;
        s->state = STATE_HANDSHAKING;
        s->tls = tls_session_new(d->tls, &e);
        if (s->tls == NULL) {
            fail(s, &e);
            return;
        }
        struct slice none = {0};
        update_reading(s);
        (void)shake_hands(s, &none);
    }
    if (s->state == STATE_OPEN) {
        net_loop_settle(s->loop);
    }
}

/* Tries the next address; the handle is closed or not yet open. */
static void connect_next(struct net_stream *s)
{
    struct dial *d = s->dial;
    const struct sockaddr *addr = NULL;
    if (d->next != NULL) {
        addr = d->next->ai_addr;
        d->next = d->next->ai_next;
    } else if (d->literal.ss_family != AF_UNSPEC) {
        addr = (const struct sockaddr *)&d->literal;
    }
    int rc = addr == NULL ? 0 : open_handle(s);
    if (addr == NULL || rc != 0) {
        /* No handle is open: the look-up state frees without one. */
        s->state = STATE_RESOLVING;
        if (addr != NULL) {
            err_set(&d->last, rc, "cannot make a socket: %s", err_text(rc));
        }
        struct err e = d->last;
        fail(s, &e);
        return;
    }
    s->state = STATE_CONNECTING;
    d->connect.data = s;
    rc = uv_tcp_connect(&d->connect, &s->tcp, addr, on_connected);
    if (d->literal.ss_family != AF_UNSPEC) {
        d->literal.ss_family = AF_UNSPEC; /* tried */
    }
    if (rc != 0) {
        err_set(&d->last, rc, "cannot connect to %s port %u: %s", d->host, d->port, err_text(rc));
        s->reopening = true;
        uv_close((uv_handle_t *)&s->tcp, on_closed);
    }
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
    struct net_stream *s = req->data;
    s->resolving = false;
    if (s->state == STATE_CLOSING) {
        if (found != NULL) {
            uv_freeaddrinfo(found);
        }
        stream_free(s);
        return;
    }
    if (status != 0) {
        struct err e = ERR_INIT;
        err_set(&e, status, "cannot look up %s: %s", s->dial->host, err_text(status));
        fail(s, &e);
        return;
    }
    s->dial->found = found;
    s->dial->next = found;
    connect_next(s);
}

static int begin_lookup(struct net_stream *s)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    char port[8];
    (void)snprintf(port, sizeof port, "%u", s->dial->port);
    s->dial->lookup.data = s;
    int rc =
        uv_getaddrinfo(&s->loop->uv, &s->dial->lookup, on_resolved, s->dial->host, port, &hints);
    s->resolving = rc == 0;
    return rc;
}

/* A literal needs no look-up, but its errors too must come after net_dial returned. */
static int begin_connect(struct net_stream *s)
{
    struct dial *d = s->dial;
    int rc = open_handle(s);
    if (rc != 0) {
        return rc;
    }
    s->state = STATE_CONNECTING;
    d->connect.data = s;
    rc = uv_tcp_connect(&d->connect, &s->tcp, (const struct sockaddr *)&d->literal, on_connected);
    d->literal.ss_family = AF_UNSPEC;
    return rc;
}

int net_dial(struct net_loop *l, const struct net_dial_options *o,
             const struct net_stream_handlers *handlers, void *data, struct net_stream **out,
             struct err *e)
{
    struct dial *d = calloc(1, sizeof *d);
    struct net_stream *s = NULL;
    if (d == NULL || (d->host = strdup(o->host)) == NULL ||
        (s = stream_new(l, o->write_timeout_ms)) == NULL) {
        free(d != NULL ? d->host : NULL);
        free(d);
        return err_set(e, UV_ENOMEM, "out of memory");
    }
    s->dial = d;
    s->state = STATE_RESOLVING;
    s->handlers = handlers;
    s->data = data;
    d->port = o->port;
    d->user_timeout_ms = o->user_timeout_ms;
    d->tls = o->tls != NULL ? tls_config_ref(o->tls) : NULL;
    int rc = net_address_literal(d->host, d->port, &d->literal) == 0 ? begin_connect(s)
                                                                     : begin_lookup(s);
    if (rc != 0) {
        err_set(e, rc, "cannot connect to %s port %u: %s", o->host, o->port, err_text(rc));
        if (s->state == STATE_CONNECTING) {
            begin_close(s);
        } else {
            stream_free(s);
        }
        return rc;
    }
    if (o->connect_timeout_ms != 0) {
        net_deadline_set(l, &s->limit, o->connect_timeout_ms);
    }
    *out = s;
    return 0;
}

int net_stream_accept(struct net_loop *l, uv_stream_t *server, struct tls_config *tls,
                      uint64_t write_timeout_ms, struct net_stream **out)
{
    struct net_stream *s = stream_new(l, write_timeout_ms);
    if (s == NULL) {
        return UV_ENOMEM;
    }
    int rc = open_handle(s);
    if (rc != 0) {
        stream_free(s);
        return rc;
    }
    s->state = STATE_OPEN;
    rc = uv_accept(server, (uv_stream_t *)&s->tcp);
    if (rc == 0 && tls != NULL) {
        s->state = STATE_HANDSHAKING;
        struct err e = ERR_INIT;
        s->tls = tls_session_new(tls, &e);
        if (s->tls == NULL) {
            log_warn("cannot begin TLS", log_str("error", e.msg));
            rc = UV_EPROTO;
        }
    }
    if (rc != 0) {
        begin_close(s);
        return rc;
    }
    set_socket_options(s, 0);
    if (tls != NULL) {
        net_deadline_set(l, &s->limit, ACCEPT_HANDSHAKE_MS);
        update_reading(s);
    }
    *out = s;
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
    if (s->state != STATE_OPEN || s->write_dead) {
        net_stream_close(s);
        return;
    }
    net_stream_shutdown(s);
    s->state = STATE_FINISHING;
    s->handlers = NULL;
    if (s->shut_sent && s->eof_seen) {
        begin_close(s);
        return;
    }
    if (s->shut_sent) {
        net_deadline_set(s->loop, &s->limit, FINISH_TIMEOUT_MS);
    }
    update_reading(s);
}

void net_stream_close(struct net_stream *s)
{
    s->handlers = NULL;
    begin_close(s);
}

bool net_stream_alive(const struct net_stream *s)
{
    uv_os_fd_t fd;
    char byte;
    if (s->state != STATE_OPEN || s->eof_seen || s->write_dead ||
        uv_fileno((const uv_handle_t *)&s->tcp, &fd) != 0) {
        return false;
    }
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}

void net_stream_peer(const struct net_stream *s, char out[NET_ADDRESS_MAX])
{
    struct sockaddr_storage addr = {0};
    int len = sizeof addr;
    if (uv_tcp_getpeername(&s->tcp, (struct sockaddr *)&addr, &len) != 0) {
        (void)snprintf(out, NET_ADDRESS_MAX, "unknown");
        return;
    }
    net_address_format((const struct sockaddr *)&addr, out);
}

const struct tls_session *net_stream_tls(const struct net_stream *s)
{
    return s->tls;
}
