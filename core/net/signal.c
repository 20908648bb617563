/* SPDX-License-Identifier: Apache-2.0 */
#include "net/signal.h"

#include <stdlib.h>

struct net_signal {
    uv_signal_t uv;
    struct net_loop *loop;
    net_signal_cb cb;
    void *data;
};

static void on_signal(uv_signal_t *uv, int signum)
{
    struct net_signal *s = uv->data;
    struct net_loop *l = s->loop;
    s->cb(s->data, signum); /* may free it */
    net_loop_settle(l);
}

static void on_close(uv_handle_t *handle)
{
    free(handle->data);
}

struct net_signal *net_signal_new(struct net_loop *l, int signum, net_signal_cb cb, void *data,
                                  struct err *e)
{
    struct net_signal *s = calloc(1, sizeof *s);
    if (s == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    s->uv.data = s;
    s->loop = l;
    s->cb = cb;
    s->data = data;
    int rc = uv_signal_init(&l->uv, &s->uv);
    if (rc != 0) {
        free(s);
        goto fail;
    }
    rc = uv_signal_start(&s->uv, on_signal, signum);
    if (rc != 0) {
        net_signal_free(s);
        goto fail;
    }
    return s;

fail:
    err_set(e, rc, "cannot wait for signal %d: %s", signum, err_text(rc));
    return NULL;
}

void net_signal_free(struct net_signal *s)
{
    if (s != NULL) {
        uv_close((uv_handle_t *)&s->uv, on_close);
    }
}
