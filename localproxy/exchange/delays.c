/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/delays.h"

#include <errno.h>
#include <stdlib.h>

#include "http/server.h"

struct delayed {
    struct due due;
    struct list link; /* in delays.waiting */
    struct delays *all;
    struct list waiting; /* for the request alone */
    struct fault_drawn drawn;
    struct delayed_body body;
    uint64_t begun_ms;
    size_t bytes; /* of the head */
};

static void delayed_free(struct delayed *d)
{
    due_heap_remove(&d->all->heap, &d->due);
    list_remove(&d->link);
    d->all->bytes -= d->bytes;
    fault_drawn_release(&d->drawn);
    free(d);
}

static void on_gone(void *data)
{
    struct delayed *d = data;
    if (d->body.body != NULL) {
        d->body.free(d->body.body);
    }
    delayed_free(d);
}

static void on_over(void *data, struct http_exchange *x, const struct http_head *head, bool ended,
                    struct passage *passage)
{
    struct delayed *d = data;
    (void)passage; /* it has not come to that yet */
    due_heap_remove(&d->all->heap, &d->due);
    if (http_server_client_left(x)) { /* while its body was not read */
        http_exchange_abort(x);
        on_gone(d);
        return;
    }
    d->all->cb(d->all->data, x, head, ended, d->body.body, &d->drawn);
    delayed_free(d);
}

static void set_timer(struct delays *all)
{
    const struct due *first = due_heap_first(&all->heap);
    uint64_t now = net_clock_now(all->clock);
    if (first != NULL) {
        net_clock_set_timer(all->clock, all->timer, first->at > now ? first->at - now : 0);
    }
}

static void on_timer(void *data)
{
    struct delays *all = data;
    uint64_t now = net_clock_now(all->clock);
    struct due *first = due_heap_first(&all->heap);
    while (first != NULL && first->at <= now) {
        paused_requests_continue(&LIST_ITEM(first, struct delayed, due)->waiting);
        first = due_heap_first(&all->heap);
    }
    set_timer(all);
}

int delays_init(struct delays *d, struct net_loop *l, const struct net_clock *clock, delays_cb cb,
                void *data)
{
    *d = (struct delays){.loop = l, .clock = clock, .cb = cb, .data = data};
    list_init(&d->waiting);
    int rc = due_heap_reserve(&d->heap, DELAYS_MAX);
    if (rc != 0) {
        return rc;
    }
    d->timer = net_timer_new(l, on_timer, d);
    if (d->timer == NULL) {
        due_heap_deinit(&d->heap);
        return -ENOMEM;
    }
    return 0;
}

void delays_deinit(struct delays *d)
{
    net_timer_free(d->timer);
    due_heap_deinit(&d->heap);
}

/* What a copy takes. */
static size_t size_of(const struct http_head *head)
{
    size_t bytes = head->target.len;
    for (size_t i = 0; i < head->header_count; i++) {
        bytes += sizeof head->headers[i] + head->headers[i].name.len + head->headers[i].value.len;
    }
    return bytes;
}

static bool is_full(const struct delays *all, size_t bytes)
{
    return all->heap.count >= DELAYS_MAX || bytes > DELAYS_BYTES_MAX - all->bytes;
}

static struct delayed *delayed_new(struct delays *all, const struct http_head *head,
                                   const struct delayed_body *body)
{
    struct delayed *d = calloc(1, sizeof *d);
    if (d != NULL) {
        *d = (struct delayed){
            .all = all,
            .body = *body,
            .begun_ms = net_clock_now(all->clock),
            .bytes = size_of(head),
        };
        list_init(&d->waiting);
        list_init(&d->link);
    }
    return d;
}

bool delays_begin(struct delays *all, struct http_exchange *x, const struct http_head *head,
                  bool ended, const struct delayed_body *body, struct fault_drawn *drawn)
{
    if (all->draining || is_full(all, size_of(head))) {
        all->skipped += all->draining ? 0 : 1;
        return false;
    }
    struct delayed *d = delayed_new(all, head, body);
    if (d == NULL) {
        return false;
    }
    const struct paused_request_end end = {
        .cb = on_over, .gone = on_gone, .data = d, .ended = ended};
    if (!paused_request_start(all->loop, &d->waiting, x, head, PAUSED_UNTIL_CONTINUED, &end)) {
        free(d);
        return false;
    }
    d->drawn = *drawn;
    *drawn = (struct fault_drawn){.set = NULL};
    fault_drawn_count_delay(&d->drawn);
    all->bytes += d->bytes;
    list_append(&all->waiting, &d->link);
    due_heap_set(&all->heap, &d->due, d->begun_ms + d->drawn.delay_ms);
    set_timer(all);
    return true;
}

void delays_review(struct delays *all)
{
    LIST_FOR_EACH(node, &all->waiting)
    {
        struct delayed *d = LIST_ITEM(node, struct delayed, link);
        due_heap_set(&all->heap, &d->due, d->begun_ms + fault_drawn_delay(&d->drawn));
    }
    set_timer(all);
}

void delays_drain(struct delays *all)
{
    all->draining = true;
    while (all->heap.count > 0) {
        struct due *first = due_heap_first(&all->heap);
        paused_requests_continue(&LIST_ITEM(first, struct delayed, due)->waiting);
    }
}
