/* SPDX-License-Identifier: Apache-2.0 */
#include "net/folder_watch.h"

#include <stdlib.h>

struct net_folder_watch {
    uv_fs_event_t uv;
    struct net_loop *loop;
    net_folder_watch_cb cb;
    void *data;
};

struct net_folder_watch *net_folder_watch_new(struct net_loop *l, net_folder_watch_cb cb,
                                              void *data)
{
    struct net_folder_watch *w = calloc(1, sizeof *w);
    if (w == NULL || uv_fs_event_init(&l->uv, &w->uv) != 0) {
        free(w);
        return NULL;
    }
    w->uv.data = w;
    w->loop = l;
    w->cb = cb;
    w->data = data;
    return w;
}

static void on_event(uv_fs_event_t *uv, const char *name, int events, int status)
{
    (void)events;
    struct net_folder_watch *w = uv->data;
    struct net_loop *l = w->loop;
    w->cb(w->data, status == 0 ? name : NULL); /* may free the watch */
    net_loop_settle(l);
}

int net_folder_watch_set(struct net_folder_watch *w, const char *path)
{
    (void)uv_fs_event_stop(&w->uv);
    return uv_fs_event_start(&w->uv, on_event, path, 0);
}

static void on_close(uv_handle_t *handle)
{
    free(handle->data);
}

void net_folder_watch_free(struct net_folder_watch *w)
{
    if (w != NULL) {
        uv_close((uv_handle_t *)&w->uv, on_close);
    }
}
