/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS handshakes of streams that take turns (net_stream_take_turns).
 *
 * bytes of a handshake come -> they are kept, and nothing more is read -> the loop looks at
 * everything else that is there -> it is this peer's turn: one step -> more is read, or it is open
 *
 * A step costs a millisecond or more of CPU. One is taken in each turn of the loop, so that what
 * else is ready waits for one at most; and it is that of the peer which has waited longest since
 * its last one, so that whoever shakes hands in a loop delays others by one step for each of
 * theirs, and gets all that nobody else wants.
 */
#include "base/log.h"
#include "net/stream_internal.h"

static struct net_stream *whose_turn(const struct net_loop *l)
{
    struct net_stream *found = NULL;
    LIST_FOR_EACH(node, &l->handshakes)
    {
        struct net_stream *s = LIST_ITEM(node, struct net_stream, turn);
        if (found == NULL || s->peer->served < found->peer->served) {
            found = s;
        }
    }
    return found;
}

static void take_step(struct net_stream *s)
{
    struct buf bytes = s->kept;
    struct slice in = buf_slice(&bytes);
    buf_init(&s->kept, NET_READ_SIZE);
    list_remove(&s->turn);
    s->peer->served = uv_hrtime();
    stream_on_handshake_bytes(s, in);
    buf_reset(&bytes);
}

static void on_idle(uv_idle_t *handle)
{
    struct net_loop *l = handle->data;
    struct net_stream *s = whose_turn(l);
    if (s != NULL) {
        take_step(s);
        net_loop_settle(l);
    }
    if (list_empty(&l->handshakes)) {
        (void)uv_idle_stop(&l->idle);
    }
}

void stream_keep_for_turn(struct net_stream *s, struct slice in)
{
    struct err e = ERR_INIT;
    if (buf_append(&s->kept, in.ptr, in.len) != 0) {
        err_set(&e, UV_ENOMEM, "out of memory for a TLS handshake");
        stream_fail(s, &e);
        return;
    }
    list_append(&s->loop->handshakes, &s->turn);
    stream_update_reading(s);
    (void)uv_idle_start(&s->loop->idle, on_idle);
}
