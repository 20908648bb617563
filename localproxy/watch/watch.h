/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.h - an open watch, event by event.
 *
 *        +------- watch_migrated ----+
 *        v                             |
 *     PASSING --- watch_silence ---> SILENT --- watch_cut ---> CUT
 *        |                             ^
 *        +--- watch_silence ---> LAST -+ its event has ended
 *
 * Only whole events go to the operator: one that is still arriving is held back until it is
 * complete, so that at any moment the stream can be ended or an event of localproxy's own written
 * into it. An event over WATCH_HELD_MAX, or for which there is no room (watch_memory.h), is passed
 * on as it comes; silenced within one, the watch finishes it (LAST).
 *
 * The stream is JSON lines or protobuf frames. In any other encoding nothing can be told apart:
 * bytes pass, and the watch can only be broken off.
 */
#ifndef LOCALPROXY_WATCH_WATCH_H
#define LOCALPROXY_WATCH_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/byte_budget.h"
#include "codec/encoding.h"
#include "codec/list_items.h"
#include "http/exchange.h"
#include "metrics/bucket_load.h"
#include "upstream/delivered_versions.h"

#define WATCH_HELD_MAX ((size_t)1024 * 1024) /* bytes */

enum watch_state { WATCH_PASSING, WATCH_LAST, WATCH_SILENT, WATCH_CUT };

struct watch;

struct watch_options {
    enum encoding encoding; /* of the response */
    struct delivered_versions
        *points; /* is told what was delivered, and at the end from where to go on */
    struct delivered_account *account; /* open; of the watch from here on, unless it is NULL */
    uint64_t version;                  /* the watch began after it; 0: with all there is */
    bool initial_events;               /* asked for with sendInitialEvents */
    bool newest;                       /* those are of the newest version that there is */
    struct byte_budget *budget;        /* for events that are not whole; NULL: no bound */
    struct bucket_load *load;          /* counts the events; NULL: they are not counted */
    struct slice namespace; /* that all of them have; empty: each says its own. Read by watch_new
                               alone */
};

/* NULL without memory. */
MUST_CHECK struct watch *watch_new(const struct watch_options *o);
/* Tells `points` from where the operator may go on, or that it was cut at `now_ms`
 * (delivered_clock). NULL is ignored. */
void watch_free(struct watch *w, uint64_t now_ms);

enum watch_state watch_state(const struct watch *w);

enum encoding watch_encoding(const struct watch *w);

/* The version up to which the operator has all that the watch shows; 0: not known. It is known if
 * the watch began from a version, or after the first bookmark. */
uint64_t watch_version(const struct watch *w);

/* Bytes came from the API server: whole events go to `down`. 0, or as http_exchange_send_body. */
MUST_CHECK int watch_feed(struct watch *w, struct slice data, struct http_exchange *down);

/* No more bytes come, and the API server ended its response in good order. A last event that lacks
 * its newline goes to `down`. 0, or as http_exchange_send_body. */
MUST_CHECK int watch_end(struct watch *w, struct http_exchange *down);

/* Tells the operator by a BOOKMARK of objects of that type that it has everything up to `version`,
 * above watch_version, which is known; the caller has made sure of that. The watch is PASSING and
 * at a boundary. Bookmarks of the API server that say less are left out from then on. 0; -EINVAL
 * (type) or -ENOTSUP (encoding), and nothing has happened; else as http_exchange_send_body. */
MUST_CHECK int watch_bookmark(struct watch *w, const struct object_type *type, uint64_t version,
                              struct http_exchange *down);

/* From now on nothing that comes goes to the operator, but for the end of an event that it has
 * begun to read. */
void watch_silence(struct watch *w);

/* Whether the operator has whole events only. */
bool watch_at_boundary(const struct watch *w);

/* What the watch shows is up to `version` as it was at watch_version: so the operator has all up to
 * there, without having been told. The watch is SILENT. */
void watch_stands(struct watch *w, uint64_t version);

/* Some of the events of a change were written that will not be completed: the oldest object in them
 * has version `lowest` (0: not known). There is no point to go on from. */
void watch_mix(struct watch *w, uint64_t lowest);

/* The operator's view was brought to the selector key->selector, at the same version, by events of
 * which the oldest object has version `lowest` (0: none was written). The watch passes events
 * again: those of another stream from the API server, which begins after watch_version.
 *
 * Until one of those is delivered there is no point to go on from: a client that comes back with an
 * earlier version may have read all of these events, some, or none. */
void watch_migrated(struct watch *w, const struct delivered_key *key, uint64_t lowest);

/* Ends the response with the event that makes the operator list again (410 Expired). The watch is
 * SILENT. 0; -ENOTSUP in an encoding that is not known, else as http_exchange_send_*: then abort
 * `down`. */
MUST_CHECK int watch_cut(struct watch *w, const char *message, struct http_exchange *down);

#endif
