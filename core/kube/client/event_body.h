/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_body.h - Events (core/v1) as the API server takes them.
 *
 * Source: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/, as far
 * as core/v1 has its fields.
 */
#ifndef CORE_KUBE_CLIENT_EVENT_BODY_H
#define CORE_KUBE_CLIENT_EVENT_BODY_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "kube/client/event_recorder.h"

/* An Event's name has at most 253 bytes. */
#define EVENT_NAME_SIZE 254

struct event_body {
    const char *name; /* of the Event */
    struct event_object about;
    enum event_type type;
    const char *reason;
    const char *message;
    const char *component;
    const char *host; /* NULL: none */
    unsigned count;
    int64_t first; /* seconds since 1970 */
    int64_t last;
};

/* The namespace that an Event about that is in. */
const char *event_body_namespace(const struct event_object *about);

/* "NAME.0123456789abcdef": the name of what it is about, which is a DNS subdomain, cut to fit, and
 * a number that no other Event about it has. */
void event_body_name(const char *about, uint64_t unique, char out[EVENT_NAME_SIZE]);

/* The Event, or a merge patch of what changes when it repeats. */
MUST_CHECK cJSON *event_body(const struct event_body *b, bool repeat);

#endif
