/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/probe_stream.h"

#include "exchange/headers.h"
#include "upstream/derived_requests.h"
#include "upstream/watch_memory.h"

enum { TARGET_MAX = 4 * 1024 * 1024, EVENT_MAX = 1024 * 1024 };

static void drop_event(struct probe_stream *p)
{
    buf_reset(&p->event);
    byte_share_give_back(&p->share);
}

void probe_stream_stop(struct probe_stream *p)
{
    if (p->up != NULL) {
        http_exchange_abort(p->up);
        p->up = NULL;
    }
    drop_event(p);
}

static void give_up(struct probe_stream *p)
{
    probe_stream_stop(p);
    p->handlers->on_over(p);
}

static void up_on_head(struct http_exchange *x, const struct http_head *head)
{
    if (head->status != 200 || headers_encoding(head) != ENCODING_JSON) {
        give_up(x->data);
    }
}

static bool hold(struct probe_stream *p, struct slice data)
{
    return byte_share_set_within(&p->share, buf_size_with(&p->event, data.len),
                                 WATCH_MEMORY_EVENTS) &&
           buf_append(&p->event, data.ptr, data.len) == 0;
}

static void up_on_body(struct http_exchange *x, struct slice data)
{
    struct probe_stream *p = x->data;
    p->bytes += data.len;
    while (p->up != NULL && data.len > 0) {
        size_t n = frames_next(&p->frames, data);
        size_t taken = n > 0 ? n : data.len;
        if (!hold(p, slice_of(data.ptr, taken))) {
            give_up(p);
            return;
        }
        data = slice_of(data.ptr + taken, data.len - taken);
        if (n > 0) {
            struct watch_frame ev;
            watch_frame_scan(ENCODING_JSON, buf_slice(&p->event), &ev);
            drop_event(p);
            p->handlers->on_event(p, &ev);
        }
    }
}

static void up_on_end(struct http_exchange *x)
{
    (void)x;
}

static void up_on_drain(struct http_exchange *x)
{
    (void)x;
}

static void up_on_close(struct http_exchange *x, const struct err *e)
{
    struct probe_stream *p = x->data;
    (void)e;
    p->up = NULL;
    give_up(p);
}

static const struct http_exchange_handlers up_handlers = {
    .on_head = up_on_head,
    .on_body = up_on_body,
    .on_end = up_on_end,
    .on_drain = up_on_drain,
    .on_close = up_on_close,
};

void probe_stream_init(struct probe_stream *p, const struct probe_stream_handlers *handlers,
                       struct byte_budget *budget)
{
    *p = (struct probe_stream){.handlers = handlers};
    frames_init(&p->frames, ENCODING_JSON);
    buf_init(&p->event, EVENT_MAX);
    byte_share_init(&p->share, budget);
}

int probe_stream_start(struct probe_stream *p, const struct probe_stream_options *o, struct err *e)
{
    struct buf target = BUF_INIT(TARGET_MAX);
    const struct slice accept =
        SLICE("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
              "application/json");
    int rc = derived_probe(o->target, o->selector, o->version, &target, e);
    if (rc == 0) {
        struct derived_request r = {.target = buf_slice(&target),
                                    .accept = accept,
                                    .background = true,
                                    .budget = o->budget};
        p->up = derived_ask(o->client, &r, &up_handlers, p, e);
        rc = p->up != NULL ? 0 : e->code;
    }
    buf_reset(&target);
    return rc;
}
