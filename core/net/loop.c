/* SPDX-License-Identifier: Apache-2.0 */
#include "net/loop.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "net/deadline.h"
#include "net/stream.h"

enum {
    CLOSE_PATIENCE_MS = 5000,
    /* So many streams fewer than there were, and what they had goes back after a moment, in which
     * others may end, too. */
    GIVE_BACK_STREAMS = 256,
    GIVE_BACK_MS = 1000,
};

static void on_prepare(uv_prepare_t *handle)
{
    struct net_loop *l = handle->data;
    net_loop_settle(l);
    l->turns++;
    uv_update_time(&l->uv); /* of which libuv takes how long to wait */
}

/* What many connections had lies between what others have, and is not at the end of the heap, from
 * where the C library would give it back by itself. It takes a millisecond for some ten MiB. */
static void on_give_back(uv_timer_t *timer)
{
    struct net_loop *l = timer->data;
    l->streams_most = l->streams;
    (void)malloc_trim(0);
}

void net_loop_stream_begins(struct net_loop *l)
{
    l->streams++;
    if (l->streams > l->streams_most) {
        l->streams_most = l->streams;
    }
}

void net_loop_stream_is_gone(struct net_loop *l)
{
    l->streams--;
    if (l->streams_most - l->streams >= GIVE_BACK_STREAMS &&
        !uv_is_active((uv_handle_t *)&l->give_back)) {
        (void)uv_timer_start(&l->give_back, on_give_back, GIVE_BACK_MS, 0);
    }
}

static int init_handles(struct net_loop *l)
{
    int rc = uv_prepare_init(&l->uv, &l->prepare);
    if (rc != 0) {
        return rc;
    }
    rc = uv_timer_init(&l->uv, &l->tick);
    if (rc != 0) {
        uv_close((uv_handle_t *)&l->prepare, NULL);
        return rc;
    }
    (void)uv_timer_init(&l->uv, &l->give_back); /* cannot fail where the first did not */
    (void)uv_idle_init(&l->uv, &l->idle);       /* cannot fail */
    l->prepare.data = l;
    l->idle.data = l;
    l->tick.data = l;
    l->give_back.data = l;
    (void)uv_prepare_start(&l->prepare, on_prepare);
    uv_unref((uv_handle_t *)&l->prepare);
    uv_unref((uv_handle_t *)&l->tick);
    uv_unref((uv_handle_t *)&l->give_back);
    return 0;
}

void net_loop_set_threads(unsigned count)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%u", count);
    (void)setenv("UV_THREADPOOL_SIZE", text, 0); /* without memory there are fewer */
}

struct net_loop *net_loop_new(struct err *e)
{
    struct net_loop *l = calloc(1, sizeof *l);
    if (l == NULL) {
        err_memory(e);
        return NULL;
    }
    list_init(&l->tasks);
    list_init(&l->last);
    list_init(&l->deadlines);
    list_init(&l->handshakes);
    list_init(&l->finishing);
    l->tick_at = UINT64_MAX;
    l->cipher = malloc(NET_READ_SIZE);
    l->plain = malloc(NET_READ_SIZE);
    int rc = l->cipher == NULL || l->plain == NULL ? UV_ENOMEM : uv_loop_init(&l->uv);
    if (rc != 0) {
        goto free_memory;
    }
    rc = init_handles(l);
    if (rc != 0) {
        goto close_loop;
    }
    return l;

close_loop:
    (void)uv_run(&l->uv, UV_RUN_DEFAULT);
    (void)uv_loop_close(&l->uv);
free_memory:
    err_set(e, rc, "cannot create an event loop: %s", err_text(rc));
    free(l->plain);
    free(l->cipher);
    free(l);
    return NULL;
}

void net_loop_run(struct net_loop *l)
{
    (void)uv_run(&l->uv, UV_RUN_DEFAULT);
}

void net_loop_stop(struct net_loop *l)
{
    uv_stop(&l->uv);
}

static void report_open_handle(uv_handle_t *handle, void *arg)
{
    bool *leaked = arg;
    if (!uv_is_closing(handle)) {
        *leaked = true;
        log_error("handle leaked", log_str("type", uv_handle_type_name(handle->type)));
    }
}

static void on_patience_over(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

int net_loop_free(struct net_loop *l)
{
    net_loop_settle(l);
    net_stream_hurry_finished(l);
    /* What is closing keeps the loop alive until it is done; what somebody forgot to close must
     * not make this wait for ever. */
    uv_timer_t patience;
    (void)uv_timer_init(&l->uv, &patience);
    (void)uv_timer_start(&patience, on_patience_over, CLOSE_PATIENCE_MS, 0);
    bool over = false;
    patience.data = &over;
    uv_unref((uv_handle_t *)&patience);
    while (!over && (l->streams > 0 || uv_loop_alive(&l->uv))) {
        if (l->streams > 0) {
            uv_ref((uv_handle_t *)&patience); /* a stream may wait for its deadline alone */
        } else {
            uv_unref((uv_handle_t *)&patience);
        }
        (void)uv_run(&l->uv, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&l->prepare, NULL);
    uv_close((uv_handle_t *)&l->tick, NULL);
    uv_close((uv_handle_t *)&l->give_back, NULL);
    uv_close((uv_handle_t *)&l->idle, NULL);
    uv_close((uv_handle_t *)&patience, NULL);
    (void)uv_run(&l->uv, UV_RUN_NOWAIT);
    int rc = uv_loop_close(&l->uv);
    if (rc != 0) {
        bool leaked = false;
        uv_walk(&l->uv, report_open_handle, &leaked);
        return leaked ? rc : 0; /* a name that is being looked up cannot be cancelled */
    }
    for (size_t i = 0; i < l->spare_count; i++) {
        buf_reset(&l->spare[i]);
    }
    free(l->plain);
    free(l->cipher);
    free(l);
    return 0;
}

void net_task_init(struct net_task *t, net_task_cb cb)
{
    list_init(&t->link);
    t->cb = cb;
}

void net_task_queue(struct net_loop *l, struct net_task *t)
{
    if (!list_linked(&t->link)) {
        list_append(&l->tasks, &t->link);
    }
}

void net_task_queue_last(struct net_loop *l, struct net_task *t)
{
    if (!list_linked(&t->link)) {
        list_append(&l->last, &t->link);
    }
}

void net_task_cancel(struct net_task *t)
{
    list_remove(&t->link);
}

static void run_tasks(struct list *tasks)
{
    while (!list_empty(tasks)) {
        struct net_task *t = LIST_ITEM(tasks->next, struct net_task, link);
        list_remove(&t->link);
        t->cb(t);
    }
}

void net_loop_settle(struct net_loop *l)
{
    run_tasks(&l->tasks);
    run_tasks(&l->last);
}

void net_loop_lend(struct net_loop *l, struct buf *b)
{
    if (b->base == NULL && l->spare_count > 0) {
        size_t max = b->max;
        *b = l->spare[--l->spare_count];
        b->max = max;
    }
}

void net_loop_take_back(struct net_loop *l, struct buf *b)
{
    if (b->base == NULL) {
        return;
    }
    if (b->cap <= NET_SPARE_SIZE && l->spare_count < NET_SPARE_COUNT) {
        size_t max = b->max;
        buf_clear(b);
        l->spare[l->spare_count++] = *b;
        buf_init(b, max);
    } else {
        buf_reset(b);
    }
}
