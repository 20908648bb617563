/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe_stream.h - a short watch of localproxy's own (derived_probe), event by event.
 *
 * Events are asked for in JSON and as metadata alone; only their type and version are looked at.
 */
#ifndef LOCALPROXY_WATCH_PROBE_STREAM_H
#define LOCALPROXY_WATCH_PROBE_STREAM_H

#include "base/buf.h"
#include "base/byte_budget.h"
#include "base/err.h"
#include "codec/frames.h"
#include "codec/watch_frame.h"
#include "http/exchange.h"
#include "kube/client/client.h"

/* How long one takes at most: DERIVED_PROBE_S, and what an answer may take. Its owner's to see to.
 */
#define PROBE_STREAM_MS 6000

struct probe_stream;

struct probe_stream_handlers {
    /* An event; may stop the watch. */
    void (*on_event)(struct probe_stream *p, const struct watch_frame *ev);
    /* It is over, or there will be no answer that can be read. Not after probe_stream_stop. */
    void (*on_over)(struct probe_stream *p);
};

/* Its owner's to embed. May not be freed inside a handler. */
struct probe_stream {
    const struct probe_stream_handlers *handlers;
    struct http_exchange *up; /* NULL: none is open */
    struct frames frames;
    struct buf event;
    struct byte_share share;
    size_t bytes; /* that have come */
};

struct probe_stream_options {
    struct kube_client *client;
    struct slice target;        /* the watch that it is derived from */
    struct slice selector;      /* encoded; empty: none */
    uint64_t version;           /* from which on */
    struct byte_budget *budget; /* for requests and events (watch_memory.h); NULL: no bound */
};

void probe_stream_init(struct probe_stream *p, const struct probe_stream_handlers *handlers,
                       struct byte_budget *budget);
/* 0, or an error with `e` set. No handler is called before return. */
MUST_CHECK int probe_stream_start(struct probe_stream *p, const struct probe_stream_options *o,
                                  struct err *e);
/* May be called again, and inside a handler. */
void probe_stream_stop(struct probe_stream *p);

#endif
