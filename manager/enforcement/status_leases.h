/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status_leases.h - what the proxies in pods tell by themselves: the Leases that localproxy writes
 * (control/status.h), followed at the API server.
 *
 * Whoever may write Leases in a pod's namespace may write these, too: they count for pods of their
 * own namespace, as what answers at a pod's address does.
 */
#ifndef MANAGER_ENFORCEMENT_STATUS_LEASES_H
#define MANAGER_ENFORCEMENT_STATUS_LEASES_H

#include <stddef.h>

#include "base/err.h"
#include "base/slice.h"
#include "kube/client/client.h"
#include "kube/client/reflector.h"
#include "net/clock.h"
#include "net/loop.h"

/* How many documents are kept: more are told, and forgotten. */
#define STATUS_LEASES_MAX 16384
/* And of one namespace: who makes Leases there crowds out no others. */
#define STATUS_LEASES_OF_NAMESPACE_MAX 2048

struct status_leases;

/* A document as localproxy's GET /status has it, told by the pod "namespace/name". It may not be
 * there any more, or be another one of that name: its uid is in the document. From the loop, never
 * inside a function of this header but status_leases_tell; may not free. */
typedef void (*status_leases_cb)(void *data, const char *pod, struct slice document);

struct status_leases_options {
    struct kube_client *client;      /* must outlive it */
    const char *namespace;           /* nothing else is looked at; NULL: all; copied */
    const struct reflector_ops *ops; /* for tests; NULL: the usual */
    const struct net_clock *clock;   /* kept, not copied; NULL: the system's */
    status_leases_cb on_told;        /* a Lease was written, or renewed */
    void *data;
};

/* Begins to follow with the loop's next turn; whatever keeps it from that is logged. */
MUST_CHECK struct status_leases *status_leases_new(struct net_loop *l,
                                                   const struct status_leases_options *o);

/* Tells what stands there of this pod, if anything does. */
void status_leases_tell(const struct status_leases *s, const char *pod);

/* What is known of a pod's Lease beside its document. The texts are valid until the loop runs on.
 */
struct status_lease_seen {
    const char *version; /* its resourceVersion */
    const char *uid;     /* the Lease's */
    uint64_t seen_ms;    /* when that version was first seen, by the clock */
    uint64_t seconds;    /* for so long its pod enforces rules without renewing it; 0: it does not
                            say that it stops by itself */
    char pod_uid[64];    /* whose it is; "": nobody says */
    bool asks;           /* localproxy does not know which generation is required of it */
};
/* False: nothing is known of it. */
bool status_leases_find(const struct status_leases *s, const char *pod,
                        struct status_lease_seen *out);

/* This process has changed the version `base` of a Lease, first seen at `seen_ms`, into `made`:
 * that was no word of localproxy's. */
struct status_lease_patch {
    const char *base;
    const char *made;
    uint64_t seen_ms;
};
void status_leases_patched(struct status_leases *s, const char *pod,
                           const struct status_lease_patch *p);

size_t status_leases_count(const struct status_leases *s);

/* At once. NULL is ignored. */
void status_leases_free(struct status_leases *s);

#endif
