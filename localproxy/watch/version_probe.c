/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/version_probe.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "codec/frames.h"
#include "codec/watch_frame.h"
#include "headers.h"
#include "net/deadline.h"
#include "watch/derived_requests.h"
#include "watch/watch_memory.h"

enum {
    TARGET_MAX = 4 * 1024 * 1024,
    EVENT_MAX = 1024 * 1024,
    LIMIT_MS = 6000 /* DERIVED_PROBE_S, and what an answer may take */
};

struct probe {
    struct version_probe *version_probe;
    struct http_exchange *up; /* NULL: over */
    struct frames frames;
    struct buf event;
    struct byte_share event_share;
    uint64_t found; /* up to it nothing changed; 0: not known */
};

enum { WIDE, NARROW, PROBES };

struct version_probe {
    struct net_loop *loop;
    struct version_probe_options o;
    version_probe_cb cb;
    void *data;
    struct probe probes[PROBES];
    uint64_t version; /* the highest that was told */
    bool asked;       /* `cb` is to follow */
    struct net_task report;
    struct net_deadline limit;
};

static void end_probe(struct probe *p)
{
    if (p->up != NULL) {
        http_exchange_abort(p->up);
        p->up = NULL;
    }
    buf_reset(&p->event);
    byte_share_give_back(&p->event_share);
    net_task_queue(p->version_probe->loop, &p->version_probe->report);
}

static void on_report(struct net_task *t)
{
    struct version_probe *v = LIST_ITEM(t, struct version_probe, report);
    struct err e = ERR_INIT;
    bool more = false;
    if (!v->asked) {
        return;
    }
    for (int i = 0; i < PROBES; i++) {
        const struct probe *p = &v->probes[i];
        more = more || p->up != NULL;
        if (p->found > v->version) {
            v->version = p->found;
            v->asked = false;
        }
    }
    if (!v->asked) {
        v->cb(v->data, v->version, NULL);
    } else if (!more) {
        v->asked = false;
        (void)err_set(&e, -ESTALE, "the API server does not keep the version any more");
        v->cb(v->data, 0, &e);
    }
}

/* ---- the answer ---- */

static void read_event(struct probe *p)
{
    struct watch_frame ev;
    watch_frame_scan(ENCODING_JSON, buf_slice(&p->event), &ev);
    if (ev.resource_version != 0 && ev.type != WATCH_FRAME_ERROR &&
        ev.type != WATCH_FRAME_UNKNOWN) {
        p->found = ev.resource_version - (ev.type == WATCH_FRAME_BOOKMARK ? 0 : 1);
    }
}

static void up_on_head(struct http_exchange *x, const struct http_head *head)
{
    struct probe *p = x->data;
    if (head->status != 200 || headers_encoding(head) != ENCODING_JSON) {
        end_probe(p);
    }
}

static bool hold(struct probe *p, struct slice data)
{
    return byte_share_set_within(&p->event_share, buf_size_with(&p->event, data.len),
                                 WATCH_MEMORY_EVENTS) &&
           buf_append(&p->event, data.ptr, data.len) == 0;
}

static void up_on_body(struct http_exchange *x, struct slice data)
{
    struct probe *p = x->data;
    size_t n = frames_next(&p->frames, data);
    bool held = hold(p, slice_of(data.ptr, n > 0 ? n : data.len));
    if (held && n > 0) {
        read_event(p);
    }
    if (!held || n > 0) {
        end_probe(p);
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
    struct probe *p = x->data;
    (void)e;
    p->up = NULL;
    end_probe(p);
}

static const struct http_exchange_handlers up_handlers = {
    .on_head = up_on_head,
    .on_body = up_on_body,
    .on_end = up_on_end,
    .on_drain = up_on_drain,
    .on_close = up_on_close,
};

static void on_limit(struct net_deadline *d)
{
    struct version_probe *v = LIST_ITEM(d, struct version_probe, limit);
    for (int i = 0; i < PROBES; i++) {
        end_probe(&v->probes[i]);
    }
}

/* ---- asking ---- */

static int start_probe(struct probe *p, struct slice selector, struct err *e)
{
    struct buf target = BUF_INIT(TARGET_MAX);
    const struct slice accept =
        SLICE("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
              "application/json");
    const struct version_probe_options *o = &p->version_probe->o;
    int rc = derived_probe(o->target, selector, o->version, &target, e);
    if (rc == 0) {
        struct derived_request r = {.target = buf_slice(&target),
                                    .accept = accept,
                                    .background = true,
                                    .budget = o->budget};
        p->up = derived_ask(o->upstream, &r, &up_handlers, p, e);
        rc = p->up != NULL ? 0 : e->code;
    }
    buf_reset(&target);
    return rc;
}

struct version_probe *version_probe_new(struct net_loop *l, const struct version_probe_options *o,
                                        version_probe_cb cb, void *data, struct err *e)
{
    struct version_probe *v = calloc(1, sizeof *v);
    if (v == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    v->loop = l;
    v->o = *o;
    v->cb = cb;
    v->data = data;
    v->version = o->version;
    net_task_init(&v->report, on_report);
    net_deadline_init(&v->limit, on_limit);
    for (int i = 0; i < PROBES; i++) {
        v->probes[i].version_probe = v;
        frames_init(&v->probes[i].frames, ENCODING_JSON);
        buf_init(&v->probes[i].event, EVENT_MAX);
        byte_share_init(&v->probes[i].event_share, o->budget);
    }
    int rc = start_probe(&v->probes[NARROW], o->selector, e);
    if (rc == 0 && o->selector.len > 0) {
        rc = start_probe(&v->probes[WIDE], (struct slice){0}, e);
    }
    if (rc != 0) {
        version_probe_free(v);
        return NULL;
    }
    net_deadline_set(l, &v->limit, LIMIT_MS);
    v->asked = true;
    return v;
}

void version_probe_continue(struct version_probe *v)
{
    v->asked = true;
    net_task_queue(v->loop, &v->report);
}

void version_probe_free(struct version_probe *v)
{
    if (v == NULL) {
        return;
    }
    for (int i = 0; i < PROBES; i++) {
        end_probe(&v->probes[i]);
    }
    net_task_cancel(&v->report);
    net_deadline_clear(&v->limit);
    free(v);
}
