/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/state_machine.h"
#include "net/stream_internal.h"

/* Slices of a write that go to the kernel from where they lie. */
enum { DIRECT_PARTS_MAX = 7 };

static const struct state_machine outputs = {
    .object = "stream output",
    .states = {[OUTPUT_OPEN] = {"Open", STATE(OUTPUT_ENDING) | STATE(OUTPUT_FAILED)},
               [OUTPUT_ENDING] = {"Ending", STATE(OUTPUT_ENDED) | STATE(OUTPUT_FAILED)},
               [OUTPUT_ENDED] = {"Ended", STATE(OUTPUT_FAILED)},
               [OUTPUT_FAILED] = {"Failed", STATE(OUTPUT_FAILED)}},
};

static void set_output(struct net_stream *s, enum output next)
{
    s->output = state_change(&outputs, s->output, next, SLICE(""));
}

static size_t sum_of(const struct slice *parts, size_t count)
{
    size_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += parts[i].len;
    }
    return sum;
}

static size_t queued(const struct net_stream *s)
{
    size_t flight = s->flight != NULL ? s->flight->len : 0;
    return s->plain.len + s->wire.len + flight;
}

void stream_flush_later(struct net_stream *s)
{
    net_task_queue_last(s->loop, &s->flush);
}

void stream_on_flush(struct net_task *t)
{
    stream_flush(LIST_ITEM(t, struct net_stream, flush));
}

/* A failed write usually has its reason waiting on the reading side (an early answer, a reset);
 * that is the better story, so the error is only told if nothing comes from there. */
static void writing_failed(struct net_stream *s)
{
    set_output(s, OUTPUT_FAILED);
    buf_clear(&s->plain);
    buf_clear(&s->wire);
    if (s->state == STATE_FINISHING) {
        net_deadline_set(s->loop, &s->limit, 0);
    } else {
        net_deadline_set(s->loop, &s->limit, s->reading ? NET_TICK_MS : 0);
    }
}

/* Nothing is on its way any more: libuv, which would wait for that, is not needed. */
static void send_shutdown(struct net_stream *s)
{
    uv_os_fd_t fd;
    set_output(s, OUTPUT_ENDED);
    int rc = uv_fileno(&s->socket.handle, &fd);
    rc = rc == 0 ? shutdown(fd, SHUT_WR) : rc;
    if (s->state != STATE_FINISHING) {
        return;
    }
    if (s->eof_seen) {
        stream_begin_close(s);
    } else {
        net_deadline_set(s->loop, &s->limit, rc == 0 ? FINISH_TIMEOUT_MS : 0);
    }
}

bool stream_has_moved(struct net_stream *s)
{
    size_t left = uv_stream_get_write_queue_size(&s->socket.stream);
    bool moved = s->flight != NULL && left < s->flight->left;
    if (moved) {
        s->flight->left = left;
    }
    return moved;
}

static void end_flight(struct net_stream *s)
{
    free(s->flight);
    s->flight = NULL;
}

/* Also when the socket is closed, before stream_on_closed. */
static void on_written(uv_write_t *req, int status)
{
    struct net_stream *s = LIST_ITEM(req, struct flight, req)->stream;
    net_deadline_clear(&s->stall);
    end_flight(s);
    net_backlog_leave(&s->backlog);
    if (s->state == STATE_CLOSING || s->state == STATE_REOPENING) {
        return;
    }
    if (status < 0) {
        writing_failed(s);
        return;
    }
    stream_flush(s);
    if (s->was_blocked && s->flight == NULL && s->state == STATE_OPEN) {
        s->was_blocked = false;
        s->handlers->on_drain(s->data);
    }
    if (s->state != STATE_CLOSING) {
        stream_flush(s);
    }
}

static void encrypt_staged(struct net_stream *s)
{
    struct err e;
    err_clear(&e);
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
    net_deadline_set(s->loop, &s->quiet, TLS_IDLE_MS);
}

static void watch_flight(struct net_stream *s)
{
    if (s->flight == NULL) {
        return;
    }
    if (s->write_timeout_ms != 0) {
        net_deadline_set(s->loop, &s->stall, s->write_timeout_ms);
    } else {
        net_deadline_clear(&s->stall);
    }
}

void net_stream_set_write_timeout(struct net_stream *s, uint64_t ms)
{
    unsigned none = 0;
    uv_os_fd_t fd;
    s->write_timeout_ms = ms;
    watch_flight(s);
    if (ms == 0 && uv_fileno(&s->socket.handle, &fd) == 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &none, sizeof none);
    }
}

/* It has written more, or less is on its way. */
static void note_unread(struct net_stream *s)
{
    if (s->backlog.backlog == NULL) {
        return;
    }
    /* Whoever writes to it holds back as much as was read for it: of a client that is counted where
     * it is held. */
    size_t held_back = s->dialled ? 0 : NET_READ_SIZE;
    (void)net_backlog_count(&s->backlog, s->flight->len + s->wire.cap + s->plain.cap + held_back);
}

/* Writes the rest, which the kernel did not take at once: all behind the first `skip` bytes. The
 * copy has exactly their size, since it may be kept for long. */
static void start_flight(struct net_stream *s, const struct slice *parts, size_t count, size_t skip)
{
    size_t len = sum_of(parts, count) - skip;
    s->flight = malloc(sizeof *s->flight + len);
    if (s->flight == NULL) {
        writing_failed(s);
        return;
    }
    s->flight->stream = s;
    s->flight->left = len;
    s->flight->len = 0;
    for (size_t i = 0; i < count; i++) {
        size_t jump = skip < parts[i].len ? skip : parts[i].len;
        size_t rest = parts[i].len - jump;
        skip -= jump;
        if (rest > 0) {
            memcpy(s->flight->bytes + s->flight->len, parts[i].ptr + jump, rest);
            s->flight->len += rest;
        }
    }
    uv_buf_t b = uv_buf_init((char *)s->flight->bytes, (unsigned)len);
    if (uv_write(&s->flight->req, &s->socket.stream, &b, 1, on_written) != 0) {
        end_flight(s);
        writing_failed(s);
        return;
    }
    s->was_blocked = true;
    watch_flight(s);
    net_backlog_note_progress(&s->backlog);
    note_unread(s);
}

void stream_flush(struct net_stream *s)
{
    net_task_cancel(&s->flush);
    if (s->output == OUTPUT_FAILED || s->state < STATE_HANDSHAKING || s->state == STATE_CLOSING) {
        return;
    }
    if (s->tls != NULL && s->state != STATE_HANDSHAKING) {
        encrypt_staged(s);
    }
    if (s->flight != NULL || s->output == OUTPUT_FAILED) {
        return;
    }
    net_deadline_clear(&s->stall);
    if (s->wire.len > 0) {
        uv_buf_t b = uv_buf_init((char *)buf_data(&s->wire), (unsigned)s->wire.len);
        int n = uv_try_write(&s->socket.stream, &b, 1);
        if (n < 0 && n != UV_EAGAIN) {
            writing_failed(s);
            return;
        }
        buf_consume(&s->wire, n < 0 ? 0 : (size_t)n);
    }
    if (s->wire.len > 0) {
        struct slice rest = buf_slice(&s->wire);
        start_flight(s, &rest, 1, 0);
    }
    net_loop_take_back(s->loop, &s->wire);
    if (s->flight != NULL) {
        return;
    }
    if (s->output == OUTPUT_ENDING && s->plain.len == 0) {
        send_shutdown(s);
    }
}

/* Large plain writes go to the kernel from where they lie, behind what is staged. */
static void write_direct(struct net_stream *s, const struct slice *parts, size_t count)
{
    struct slice all[DIRECT_PARTS_MAX + 1];
    uv_buf_t bufs[DIRECT_PARTS_MAX + 1];
    all[0] = buf_slice(&s->wire);
    memcpy(all + 1, parts, count * sizeof *parts);
    for (size_t i = 0; i <= count; i++) {
        bufs[i] = uv_buf_init((char *)(uintptr_t)all[i].ptr, (unsigned)all[i].len);
    }
    unsigned first = s->wire.len == 0 ? 1 : 0;
    int rc = uv_try_write(&s->socket.stream, bufs + first, (unsigned)count + 1 - first);
    size_t went = rc < 0 ? 0 : (size_t)rc;
    if (rc < 0 && rc != UV_EAGAIN) {
        writing_failed(s);
    } else if (went < sum_of(all, count + 1)) {
        start_flight(s, all, count + 1, went);
    }
    net_loop_take_back(s->loop, &s->wire);
}

static int stage(struct net_stream *s, const struct slice *parts, size_t count)
{
    struct buf *to = stream_is_tls(s) ? &s->plain : &s->wire;
    net_loop_lend(s->loop, to);
    for (size_t i = 0; i < count; i++) {
        int rc = buf_append(to, parts[i].ptr, parts[i].len);
        if (rc != 0) {
            return rc;
        }
    }
    if (to->len > STAGE_MAX) {
        stream_flush(s);
    } else if (to->len > 0) {
        stream_flush_later(s);
    }
    return 0;
}

int net_stream_write(struct net_stream *s, const struct slice *parts, size_t count)
{
    if (s->output == OUTPUT_FAILED || s->state == STATE_CLOSING) {
        return 0;
    }
    size_t total = sum_of(parts, count);
    if (queued(s) + total > NET_WRITE_MAX) {
        return -ENOBUFS;
    }
    if (total == 0) {
        return 0;
    }
    int rc = 0;
    if (!stream_is_tls(s) && s->state == STATE_OPEN && s->flight == NULL &&
        s->wire.len + total > STAGE_MAX && count <= DIRECT_PARTS_MAX) {
        write_direct(s, parts, count);
    } else {
        rc = stage(s, parts, count);
    }
    if (rc == 0 && s->flight != NULL) {
        note_unread(s);
    }
    return rc;
}

/* What lies behind other bytes goes with these. */
int net_stream_write_ahead(struct net_stream *s, struct slice bytes)
{
    bool alone = queued(s) == 0;
    int rc = net_stream_write(s, &bytes, 1);
    if (rc == 0 && alone && queued(s) > 0 && s->flight == NULL) {
        net_task_cancel(&s->flush);
        net_deadline_set(s->loop, &s->stall, NET_TICK_MS);
    }
    return rc;
}

static bool has_moved(struct net_backlog_entry *e)
{
    return stream_has_moved(LIST_ITEM(e, struct net_stream, backlog));
}

static void give_up(struct net_backlog_entry *e)
{
    struct net_stream *s = LIST_ITEM(e, struct net_stream, backlog);
    struct err why = ERR_INIT;
    err_set(&why, UV_ENOBUFS, "the peer does not read, and too much is waiting for such peers");
    stream_fail(s, &why);
}

void net_stream_set_backlog(struct net_stream *s, struct net_backlog *b)
{
    static const struct net_backlog_ops ops = {.moved = has_moved, .give_up = give_up};
    net_backlog_entry_init(&s->backlog, b, &ops);
}

bool net_stream_flushed(const struct net_stream *s)
{
    return queued(s) == 0;
}

bool net_stream_stuck(const struct net_stream *s)
{
    return s->flight != NULL;
}

bool net_stream_blocked(const struct net_stream *s)
{
    return s->state < STATE_OPEN || s->was_blocked;
}

void net_stream_shutdown(struct net_stream *s)
{
    if (s->output != OUTPUT_OPEN || s->state == STATE_CLOSING) {
        return;
    }
    set_output(s, OUTPUT_ENDING);
    if (s->tls != NULL) {
        encrypt_staged(s);
        tls_session_shutdown(s->tls, &s->wire);
    }
    stream_flush_later(s);
}
