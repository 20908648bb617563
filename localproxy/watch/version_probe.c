/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/version_probe.h"

#include <errno.h>
#include <stdlib.h>

#include "net/deadline.h"
#include "watch/probe_stream.h"

struct probe {
    struct version_probe *version_probe;
    struct probe_stream stream;
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
    probe_stream_stop(&p->stream);
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
        more = more || p->stream.up != NULL;
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

/* The first thing that it tells is all that is wanted. */
static void on_event(struct probe_stream *stream, const struct watch_frame *ev)
{
    struct probe *p = LIST_ITEM(stream, struct probe, stream);
    if (ev->resource_version != 0 && ev->type != WATCH_FRAME_ERROR &&
        ev->type != WATCH_FRAME_UNKNOWN) {
        p->found = ev->resource_version - (ev->type == WATCH_FRAME_BOOKMARK ? 0 : 1);
    }
    end_probe(p);
}

static void on_over(struct probe_stream *stream)
{
    end_probe(LIST_ITEM(stream, struct probe, stream));
}

static const struct probe_stream_handlers handlers = {.on_event = on_event, .on_over = on_over};

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
    const struct version_probe_options *v = &p->version_probe->o;
    struct probe_stream_options o = {.client = v->client,
                                     .target = v->target,
                                     .selector = selector,
                                     .version = v->version,
                                     .budget = v->budget};
    return probe_stream_start(&p->stream, &o, e);
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
        probe_stream_init(&v->probes[i].stream, &handlers, o->budget);
    }
    int rc = start_probe(&v->probes[NARROW], o->selector, e);
    if (rc == 0 && o->selector.len > 0) {
        rc = start_probe(&v->probes[WIDE], (struct slice){0}, e);
    }
    if (rc != 0) {
        version_probe_free(v);
        return NULL;
    }
    net_deadline_set(l, &v->limit, PROBE_STREAM_MS);
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
