/* SPDX-License-Identifier: Apache-2.0 */
#include "net/blocking.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>

struct net_blocking {
    uv_work_t uv;
    struct net_loop *loop;
    const struct net_blocking_ops *ops;
    void *data;
    bool dropped;
};

/* This thread gets the smaller part of a processor that it has to share with the loop's: a third.
 * Linux keeps priorities by thread, and 0 is the one that asks. */
static void come_second(void)
{
    enum { LATER = 5 };
    static _Thread_local bool done;
    if (!done) {
        done = true;
        (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + LATER);
    }
}

static void on_work(uv_work_t *uv)
{
    const struct net_blocking *b = uv->data;
    come_second();
    b->ops->work(b->data);
}

/* Not with a status other than 0: it is never cancelled, since that succeeds only now and then. */
static void on_done(uv_work_t *uv, int status)
{
    struct net_blocking b = *(struct net_blocking *)uv->data;
    (void)status;
    free(uv->data);
    if (b.dropped) {
        b.ops->drop(b.data);
    } else {
        b.ops->done(b.data);
    }
    net_loop_settle(b.loop);
}

struct net_blocking *net_blocking_start(struct net_loop *l, const struct net_blocking_ops *ops,
                                        void *data)
{
    struct net_blocking *b = calloc(1, sizeof *b);
    if (b == NULL) {
        return NULL;
    }
    b->uv.data = b;
    b->loop = l;
    b->ops = ops;
    b->data = data;
    if (uv_queue_work(&l->uv, &b->uv, on_work, on_done) != 0) {
        free(b);
        return NULL;
    }
    return b;
}

void net_blocking_drop(struct net_blocking *b)
{
    if (b != NULL) {
        b->dropped = true;
    }
}
