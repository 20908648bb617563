/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of requests share the server's window for the connection, which opens as the server reads
 * them: those that it does not read, say of requests that wait in its queue, would take it whole.
 *
 * Small ones (http_head_is_small) come first. Each is promised the window that it needs when it is
 * placed on the connection, and is sent as it comes. Large ones, and those of unknown length, leave
 * what is promised to others, and a share of the window that is spared for small ones still to
 * come. What does not fit is held until there is more.
 *
 * A promise ends with what was sent of it, and shrinks to a few times what was sent lately
 * (h2_session_look): whoever sends slowly keeps no place that others could use.
 */
#include <errno.h>

#include "http/h2_internal.h"

enum {
    SPARED_MAX = 256 * 1024, /* for small bodies, of a large window */
    HELD_MIN = 1024,         /* what is held waits for so much */
    KEPT_TIMES = 4,          /* of what was sent between two looks stays promised */
};

/* ---- who may use the server's window ---- */

static int64_t window_of(struct h2_session *s)
{
    int32_t window = nghttp2_session_get_remote_window_size(s->ng);
    s->widest = window > s->widest ? window : s->widest;
    return window;
}

/* Less than half: many servers open their window when half of it has been used. */
static int64_t spared(const struct h2_session *s)
{
    int64_t share = (int64_t)s->widest * 3 / 8;
    return share < SPARED_MAX ? share : SPARED_MAX;
}

/* What nobody was promised. */
static int64_t room_for(struct h2_session *s, bool large)
{
    int64_t room = window_of(s) - s->promised[false];
    return large ? room - spared(s) - s->promised[true] : room;
}

/* What the server may leave unread of a body: at most the window of its stream. One that is longer
 * than all that large ones may have together finds half of that enough. */
static int64_t need_of(struct h2_session *s, const struct http_head *head)
{
    if (http_head_is_bodyless(head)) {
        return 0;
    }
    (void)window_of(s);
    int64_t most = s->widest - spared(s);
    bool known = head->framing == HTTP_BODY_LENGTH && head->content_length <= (uint64_t)most;
    int64_t need = known ? (int64_t)head->content_length : most / 2;
    int64_t window =
        nghttp2_session_get_remote_settings(s->ng, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE);
    return need < window ? need : window;
}

/* Large ones that are held come before others. Where there are no bodies, the server has read all
 * that there was, and half of the window is as good as all of it. */
static bool has_room(struct h2_session *s, bool large, int64_t need)
{
    if (!large) {
        return room_for(s, large) >= need;
    }
    bool idle = s->bodies == 0 && window_of(s) >= s->widest / 2;
    return list_empty(&s->held) && (idle || room_for(s, large) >= need);
}

bool h2_session_fits(struct h2_session *s, const struct http_head *head)
{
    bool large = !http_head_is_small(head);
    int64_t need = need_of(s, head);
    if (need == 0 || has_room(s, large, need)) {
        return true;
    }
    int64_t least = large && need > s->widest / 8 ? s->widest / 8 : need;
    s->missed[large] = least < s->missed[large] ? least : s->missed[large];
    return false;
}

bool h2_session_shares(struct h2_session *s, const struct http_head *head)
{
    return !http_head_is_small(head) && has_room(s, true, s->widest / 8);
}

bool h2_session_has_upload(const struct h2_session *s)
{
    return s->uploads > 0;
}

bool h2_upload_found_room(struct h2_session *s)
{
    bool found = false;
    for (int large = 0; large < 2; large++) {
        if (s->missed[large] != INT64_MAX && has_room(s, large != 0, s->missed[large])) {
            s->missed[large] = INT64_MAX;
            found = true;
        }
    }
    return found;
}

void h2_upload_begin(struct h2_stream *t, const struct http_head *head)
{
    struct h2_session *s = t->session;
    t->large = !http_head_is_small(head);
    int64_t need = need_of(s, head);
    int64_t room = need > 0 ? room_for(s, t->large) : 0;
    if (room > 0) {
        t->promised = need < room ? need : room;
    }
    s->promised[t->large] += t->promised;
    t->moved = t->promised; /* it has until the look after the next */
    t->has_body = need > 0;
    s->bodies += t->has_body ? 1 : 0;
    s->uploads += t->large ? 1 : 0;
}

static void keep_promise(struct h2_stream *t, int64_t len)
{
    int64_t kept = len < t->promised ? len : t->promised;
    t->promised -= kept;
    t->session->promised[t->large] -= kept;
}

static void release(struct h2_stream *t)
{
    keep_promise(t, t->promised);
}

void h2_upload_end(struct h2_stream *t)
{
    release(t);
    t->session->bodies -= t->has_body ? 1 : 0;
    t->session->uploads -= t->large ? 1 : 0;
    list_remove(&t->held);
}

/* How much of the window that nghttp2 sees it may take now. */
static size_t may_take(const struct h2_stream *t, size_t len)
{
    if (!t->large) {
        return len;
    }
    int64_t room = room_for(t->session, true) + t->promised;
    if (room < HELD_MIN) {
        return 0;
    }
    return (uint64_t)room < len ? (size_t)room : len;
}

/* ---- sending ---- */

static int resume(struct h2_stream *t)
{
    return !t->closed && nghttp2_session_resume_data(t->session->ng, t->id) == NGHTTP2_ERR_NOMEM
               ? -ENOMEM
               : 0;
}

static int resume_sending(struct h2_stream *t)
{
    if (!t->deferred) {
        return 0;
    }
    t->deferred = false;
    return resume(t);
}

void h2_upload_resume_held(struct h2_session *s)
{
    if (list_empty(&s->held) || room_for(s, true) <= s->held_room) {
        return;
    }
    while (!list_empty(&s->held)) {
        struct h2_stream *t = LIST_ITEM(s->held.next, struct h2_stream, held);
        list_remove(&t->held);
        h2_note(s, resume(t) != 0 ? NGHTTP2_ERR_NOMEM : 0);
    }
}

int h2_stream_send_body(struct h2_stream *t, struct slice bytes)
{
    if (t->out != H2_OUT_OPEN || bytes.len > t->send_left) {
        return -EPROTO;
    }
    int rc = buf_append(&t->unsent, bytes.ptr, bytes.len);
    if (rc != 0) {
        return rc;
    }
    t->send_left -= t->send_left != UINT64_MAX ? bytes.len : 0;
    h2_stream_count_unread(t);
    t->blocked =
        t->blocked || t->unsent.len > (size_t)(t->crowded ? H2_SEND_DRAINED : H2_SEND_BLOCKED);
    return bytes.len > 0 ? resume_sending(t) : 0;
}

int h2_stream_send_end(struct h2_stream *t)
{
    if (t->out != H2_OUT_OPEN) {
        return 0;
    }
    if (t->send_left != 0 && t->send_left != UINT64_MAX) {
        return -EPROTO;
    }
    h2_stream_set_out(t, H2_OUT_ENDED);
    if (t->unsent.len == 0) {
        release(t); /* it was not known to be so short */
    }
    return resume_sending(t);
}

bool h2_stream_blocked(const struct h2_stream *t)
{
    return t->blocked;
}

static void hold(struct h2_stream *t)
{
    struct h2_session *s = t->session;
    list_append(&s->held, &t->held);
    s->held_room = room_for(s, true);
}

static void take(struct h2_stream *t, uint8_t *to, size_t n)
{
    memcpy(to, buf_data(&t->unsent), n);
    buf_consume(&t->unsent, n);
    if (t->unsent.len == 0) {
        buf_reset(&t->unsent);
    } else {
        net_backlog_note_progress(&t->unread);
    }
    h2_stream_count_unread(t);
    keep_promise(t, (int64_t)n);
    t->moved += (int64_t)n;
}

ssize_t h2_stream_read(nghttp2_session *ng, int32_t id, uint8_t *to, size_t len, uint32_t *flags,
                       nghttp2_data_source *source, void *data)
{
    (void)source;
    (void)ng;
    struct h2_stream *t = h2_stream_find(data, id);
    if (t == NULL) {
        return NGHTTP2_ERR_DEFERRED; /* its RST_STREAM is on the way */
    }
    size_t n = t->unsent.len < len ? t->unsent.len : len;
    if (n == 0 && t->out == H2_OUT_OPEN) {
        t->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n > 0) {
        n = may_take(t, n);
        if (n == 0) {
            hold(t);
            return NGHTTP2_ERR_DEFERRED;
        }
        take(t, to, n);
    }
    if (t->unsent.len == 0 && t->out != H2_OUT_OPEN) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        release(t);
    }
    t->session->drained = t->session->drained || (t->blocked && t->unsent.len <= H2_SEND_DRAINED);
    return (ssize_t)n;
}

static struct h2_stream *first_drained(const struct h2_session *s)
{
    LIST_FOR_EACH(node, &s->streams)
    {
        struct h2_stream *t = LIST_ITEM(node, struct h2_stream, link);
        if (t->blocked && t->unsent.len <= H2_SEND_DRAINED) {
            return t;
        }
    }
    return NULL;
}

void h2_tell_drained(struct h2_session *s)
{
    while (s->drained) {
        struct h2_stream *t = first_drained(s);
        if (t == NULL) {
            s->drained = false;
        } else {
            t->blocked = false;
            s->handlers->on_drain(t->data);
        }
    }
}

/* ---- uploads that stand still ---- */

static struct h2_stream *first_stuck(const struct h2_session *s, uint64_t limit_ms)
{
    LIST_FOR_EACH(node, &s->streams)
    {
        struct h2_stream *t = LIST_ITEM(node, struct h2_stream, link);
        if (limit_ms > 0 && t->stuck_ms >= limit_ms) {
            return t;
        }
    }
    return NULL;
}

bool h2_session_look(struct h2_session *s, uint64_t passed_ms, uint64_t limit_ms)
{
    bool more = false;
    LIST_FOR_EACH(node, &s->streams)
    {
        struct h2_stream *t = LIST_ITEM(node, struct h2_stream, link);
        if (t->out == H2_OUT_SENT) {
            continue;
        }
        if (t->promised / KEPT_TIMES >= t->moved) {
            keep_promise(t, t->promised - t->moved * KEPT_TIMES);
        }
        t->stuck_ms = t->moved > 0 || t->unsent.len == 0 ? 0 : t->stuck_ms + passed_ms;
        t->moved = 0;
        more = true;
    }
    for (struct h2_stream *t; (t = first_stuck(s, limit_ms)) != NULL;) {
        h2_stream_fail(t, NGHTTP2_CANCEL, -ETIMEDOUT, "the server does not read the request");
    }
    return more;
}
