/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_event.h - the events of a watch in JSON: one object a line.
 *
 * https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
 */
#ifndef CORE_KUBE_CLIENT_WATCH_EVENT_H
#define CORE_KUBE_CLIENT_WATCH_EVENT_H

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

/* Longest resourceVersion that is understood: bytes. They are opaque; real ones have 20 digits. */
#define RESOURCE_VERSION_MAX 128

/* Takes a stream apart into lines, however it arrives. */
struct watch_lines {
    struct buf partial; /* the beginning of a line whose end is still to come */
    size_t max;
    bool given; /* `partial` was returned as a line */
};

/* `max`: bytes of a line. */
void watch_lines_init(struct watch_lines *w, size_t max);
void watch_lines_deinit(struct watch_lines *w);
/* Takes the next line off `data`: 1, with *line (without line feed, never empty), valid until the
 * next call and for as long as the data; 0: all was taken, the rest is kept for what comes next;
 * -EMSGSIZE: a line is longer than `max`; -ENOMEM. */
MUST_CHECK int watch_lines_next(struct watch_lines *w, struct slice *data, struct slice *line);
/* Bytes of a line that is not complete. */
size_t watch_lines_pending(const struct watch_lines *w);

enum watch_event_type {
    WATCH_ADDED,
    WATCH_MODIFIED,
    WATCH_DELETED,
    WATCH_BOOKMARK, /* the object has nothing but its version */
    WATCH_ERROR,    /* the object is a Status */
};

struct watch_event {
    enum watch_event_type type;
    const cJSON *object;
    const char *version; /* to go on from; not empty; NULL for WATCH_ERROR */
    cJSON *root;         /* of all of this */
};

/* 0, then watch_event_deinit is due; -ENOMEM; -EINVAL: with `e` set: not JSON, an unknown type, or
 * not what object_name and object_version demand. */
MUST_CHECK int watch_event_parse(struct slice line, struct watch_event *event, struct err *e);
void watch_event_deinit(struct watch_event *event);

/* metadata.name and metadata.resourceVersion (at most RESOURCE_VERSION_MAX bytes); NULL when they
 * are missing, empty or no strings. */
const char *object_name(const cJSON *object);
const char *object_version(const cJSON *object);

#endif
