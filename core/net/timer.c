/* SPDX-License-Identifier: Apache-2.0 */
#include "net/timer.h"

#include <stdlib.h>

struct net_timer {
    uv_timer_t uv;
    struct net_loop *loop;
    net_timer_cb cb;
    void *data;
};

struct net_timer *net_timer_new(struct net_loop *l, net_timer_cb cb, void *data)
{
    struct net_timer *t = calloc(1, sizeof *t);
    if (t == NULL || uv_timer_init(&l->uv, &t->uv) != 0) {
        free(t);
        return NULL;
    }
    t->uv.data = t;
    t->loop = l;
    t->cb = cb;
    t->data = data;
    return t;
}

static void on_timer(uv_timer_t *uv)
{
    struct net_timer *t = uv->data;
    struct net_loop *l = t->loop;
    t->cb(t->data); /* may free the timer */
    net_loop_settle(l);
}

/* The loop's clock stands still during a turn, which may have taken long: from that, `ms` from now.
 * And later than that clock in any case: libuv calls one that is due by it in this turn, again and
 * again if it is set by its own callback, and looks at no socket meanwhile. */
static uint64_t from_turn(const struct net_loop *l, uint64_t ms)
{
    uint64_t wait = net_loop_clock(l) - net_loop_now(l) + ms;
    return wait == 0 ? 1 : wait;
}

void net_timer_set(struct net_timer *t, uint64_t ms)
{
    (void)uv_timer_start(&t->uv, on_timer, from_turn(t->loop, ms), 0);
}

void net_timer_clear(struct net_timer *t)
{
    (void)uv_timer_stop(&t->uv);
}

static void on_close(uv_handle_t *handle)
{
    free(handle->data);
}

void net_timer_free(struct net_timer *t)
{
    if (t != NULL) {
        uv_close((uv_handle_t *)&t->uv, on_close);
    }
}
