/* SPDX-License-Identifier: Apache-2.0 */
/*
 * difference_writer.h - writes into an open watch what a change of the rules gained and lost.
 *
 *     LISTING --- all is there, or much ---> WRITING ---> OVER
 *        |                                                 ^
 *        +--- there is no event, or it cannot be done -----+
 *
 * A client that has all up to version R sees the objects matching its own selector and the old one
 * as they were at R. What the old selector matched and the new one does not is listed as it was at
 * R and written as DELETED events, what is new as ADDED events. Then the client's view is that of
 * the new selector at R, and a new watch from R goes on.
 *
 * When the API server does not keep R any more, it may still be at R itself: nothing of the kind
 * has changed since. Lists from its memory say of which version they are, and will do if that is R.
 */
#ifndef LOCALPROXY_WATCH_DIFFERENCE_WRITER_H
#define LOCALPROXY_WATCH_DIFFERENCE_WRITER_H

#include "codec/encoding.h"
#include "http/exchange.h"
#include "net/loop.h"
#include "upstream/list_pages.h"
#include "watch/difference_cache.h"

/* Up to so many bytes all is fetched before the first byte is written: until then it can be
 * given up without a trace. */
#define DIFFERENCE_WRITER_AHEAD ((size_t)4 * 1024 * 1024)

struct difference_writer;

struct difference_writer_options {
    struct list_pages *pages;
    struct http_exchange *down; /* the stream, between two events */
    struct slice target; /* the client's own, without our selector; must outlive the writer */
    enum encoding encoding;
    bool partial;   /* the client asked for PartialObjectMetadata */
    bool bookmarks; /* the client takes BOOKMARK events */
    uint64_t version;
    struct difference *difference; /* a reference is taken */
};

struct difference_writer_handlers {
    /* The first events went out: from here on the client has to be told the rest, or to list
     * again. May not free the writer. */
    void (*on_first_event)(void *data);
    /* All is written. */
    void (*on_done)(void *data);
    /* It cannot be done: -ESTALE (the version is not kept any more, a later one would do), -ENODATA
     * (it is not kept, and none is later), -ENOTSUP and -E2BIG (the selectors), -EMSGSIZE, or
     * another. What was written is whole events. */
    void (*on_failed)(void *data, const struct err *e);
};

/* NULL with `e` set. No handler is called before return, at most one after it. */
MUST_CHECK struct difference_writer *
difference_writer_new(struct net_loop *l, const struct difference_writer_options *o,
                      const struct difference_writer_handlers *handlers, void *data, struct err *e);

/* The number of events that are written, or about to be, and the lowest version of an object in
 * them (0: there was none, or it could not be read). */
uint64_t difference_writer_events(const struct difference_writer *s);
uint64_t difference_writer_lowest(const struct difference_writer *s);

/* The stream takes more. */
void difference_writer_drained(struct difference_writer *s);

/* Gives it up, or frees what is left after a handler was called. May be called inside a handler.
 * NULL is ignored. */
void difference_writer_free(struct difference_writer *s);

#endif
