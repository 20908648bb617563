/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_recorder.h - Kubernetes Events (core/v1): what users should see in `kubectl describe`.
 *
 * Only for the manager: it ends without memory (base/xalloc.h).
 *
 * Recording never waits and never fails. An Event that repeats is written once and counted; one
 * that comes with ever different messages is counted together with those like it; an object about
 * which more is recorded than its share is heard of more rarely. What cannot be written is tried
 * again a few times, and given up; counts are never lost by that, only late. As client-go's event
 * correlator: https://pkg.go.dev/k8s.io/client-go/tools/record.
 */
#ifndef CORE_KUBE_CLIENT_EVENT_RECORDER_H
#define CORE_KUBE_CLIENT_EVENT_RECORDER_H

#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "kube/client/client.h"
#include "net/clock.h"
#include "net/loop.h"

/* Longest message: bytes. What is longer is cut. */
#define EVENT_MESSAGE_MAX 1024

/* Different Events that are kept in memory; the oldest are forgotten. */
#define EVENT_RECORDER_KEPT 1024

struct event_recorder;

enum event_type { EVENT_NORMAL, EVENT_WARNING };

/* What an Event is about. All but kind and name may be NULL or "". */
struct event_object {
    const char *api_version;
    const char *kind;
    const char *namespace; /* NULL: of the cluster; the Event is then in "default" */
    const char *name;
    const char *uid;
    const char *version; /* resourceVersion */
};

struct event_recorder_options {
    struct kube_client *client;    /* must outlive the recorder */
    const char *component;         /* "cmesh-manager"; copied */
    const char *host;              /* which one of them: the pod's name; copied; NULL: none */
    const struct net_clock *clock; /* kept, not copied; NULL: the system's */
};

struct event_recorder_stats {
    uint64_t recorded; /* calls */
    uint64_t written;  /* requests that succeeded */
    uint64_t failed;   /* Events that were given up */
    uint64_t dropped;  /* Events that were forgotten before they were written: too many at a time */
};

/* Never NULL. */
MUST_CHECK struct event_recorder *event_recorder_new(struct net_loop *l,
                                                     const struct event_recorder_options *o);

/* A view into an object of the API server with apiVersion and kind, which objects of lists lack:
 * set them then. */
struct event_object event_object_of(const cJSON *object);

/* Everything is copied. `reason` is one word: "Published". */
void event_record(struct event_recorder *r, const struct event_object *about, enum event_type type,
                  const char *reason, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

const struct event_recorder_stats *event_recorder_stats(const struct event_recorder *r);

/* Calls back from the loop when nothing waits to be written any more, or after `ms`;
 * event_recorder_free is then still due, and allowed inside. */
typedef void (*event_recorder_flush_cb)(void *data);
void event_recorder_flush(struct event_recorder *r, uint64_t ms, event_recorder_flush_cb cb,
                          void *data);

/* At once: what is not written is lost. NULL is ignored. */
void event_recorder_free(struct event_recorder *r);

#endif
