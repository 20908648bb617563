/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transition.h - writes into an open watch what a change of the rules gained and lost.
 *
 *     FETCHING --- all is there, or much ---> WRITING ---> done
 *         ^                                     |
 *         +---------- more is to come ----------+
 *
 * A client that has all up to version R sees the objects matching its own selector and the old one
 * as they were at R. What the old selector matched and the new one does not is listed as it was at
 * R and written as DELETED events, what is new as ADDED events. Then the client's view is that of
 * the new selector at R, and a new watch from R goes on.
 *
 * When the API server does not keep R any more, it may still be at R itself: nothing of the kind
 * has changed since. Lists from its memory say of which version they are, and will do if that is R.
 */
#ifndef LOCALPROXY_WATCH_TRANSITION_H
#define LOCALPROXY_WATCH_TRANSITION_H

#include "codec/encoding.h"
#include "http/exchange.h"
#include "net/loop.h"
#include "watch/difference.h"
#include "watch/pages.h"

/* Up to so many bytes all is fetched before the first byte is written: until then a transition can
 * be given up without a trace. */
#define TRANSITION_AHEAD ((size_t)4 * 1024 * 1024)

struct transition;

struct transition_options {
    struct pages *pages;
    struct http_exchange *down; /* the stream, between two events */
    struct slice target; /* the client's own, without our selector; must outlive the transition */
    enum encoding encoding;
    bool partial;   /* the client asked for PartialObjectMetadata */
    bool bookmarks; /* the client takes BOOKMARK events */
    uint64_t version;
    struct difference *difference; /* a reference is taken */
};

struct transition_handlers {
    /* All is written. */
    void (*on_done)(void *data);
    /* It cannot be done: -ESTALE (the version is not kept any more, a later one would do), -ENODATA
     * (it is not kept, and none is later), -ENOTSUP and -E2BIG (the selectors), -EMSGSIZE, or
     * another. What was written is whole events. */
    void (*on_failed)(void *data, const struct err *e);
};

/* NULL with `e` set. No handler is called before return, at most one after it. */
MUST_CHECK struct transition *transition_new(struct net_loop *l, const struct transition_options *o,
                                             const struct transition_handlers *handlers, void *data,
                                             struct err *e);

/* After on_done: the number of events written, and the lowest version of an object in them (0:
 * there was none, or it could not be read). */
uint64_t transition_events(const struct transition *s);
uint64_t transition_lowest(const struct transition *s);

/* Whether the client got some of it, so that it cannot be given up any more. */
bool transition_has_written(const struct transition *s);

/* The stream takes more. */
void transition_drained(struct transition *s);

/* Gives it up, or frees what is left after a handler was called. May be called inside a handler.
 * NULL is ignored. */
void transition_free(struct transition *s);

#endif
