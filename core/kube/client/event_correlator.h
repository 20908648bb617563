/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_correlator.h - which Event something that happened belongs to, and when it may be written.
 *
 * An Event that repeats is counted. Of those about one object that differ in their message only,
 * all behind the tenth within ten minutes become one, whose message changes. The number of Events
 * in memory is bounded, and how many may be written: of one object, and of all together. As
 * client-go's EventCorrelator: https://pkg.go.dev/k8s.io/client-go/tools/record.
 *
 * Nothing here writes, waits or looks at a clock.
 */
#ifndef CORE_KUBE_CLIENT_EVENT_CORRELATOR_H
#define CORE_KUBE_CLIENT_EVENT_CORRELATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/token_bucket.h"
#include "kube/client/event_recorder.h"

struct event_subject;

/* One Event. The user's struct begins with it; the rest of that is all zero at first. */
struct correlated_event {
    struct list link; /* of the subject's */
    struct event_subject *subject;
    const struct event_object *about;
    enum event_type type;
    bool combined; /* of several that differ in their message */
    unsigned count;
    int64_t first; /* seconds since 1970 */
    int64_t last;
    char *message; /* with a mark before it, if they are combined */
    char *reason;
};

enum { EVENT_CORRELATOR_BUCKETS = 256 };

struct event_correlator {
    struct event_subject *buckets[EVENT_CORRELATOR_BUCKETS];
    struct list subjects; /* the one of which nothing was recorded for longest first */
    size_t count;         /* of Events */
    size_t max;
    size_t event_size;
    struct token_bucket tokens; /* of all */
    void (*on_forget)(void *data, struct correlated_event *v);
    void *data;
};

/* At most `max` Events of `event_size` bytes each are kept. `on_forget` is told before one of them
 * is forgotten to make room for another; it may not call back. */
void event_correlator_init(struct event_correlator *c, size_t max, size_t event_size,
                           void (*on_forget)(void *data, struct correlated_event *v), void *data);

/* Counts what happened at `now` (seconds since 1970), and gives its Event: a new one has a count of
 * 1. `about` has kind and name; everything is copied; the message has at most EVENT_MESSAGE_MAX
 * bytes. NULL without memory. */
MUST_CHECK struct correlated_event *event_correlator_count(struct event_correlator *c,
                                                           const struct event_object *about,
                                                           enum event_type type, const char *reason,
                                                           const char *message, int64_t now);

/* Whether the Event may be written at `now_ms`: 0, and it is taken for written; or in how many
 * milliseconds to ask again. *all: this goes for all other Events too. `again`: after a failure,
 * which the share of its object does not pay for. */
uint64_t event_correlator_admit(struct event_correlator *c, struct correlated_event *v, bool again,
                                uint64_t now_ms, bool *all);

/* Frees it. */
void event_correlator_forget(struct event_correlator *c, struct correlated_event *v);

/* Any; NULL: there is none. */
struct correlated_event *event_correlator_any(const struct event_correlator *c);

#endif
