/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writer.h - one request about one object of the API server, and its whole answer in JSON.
 *
 *     struct writer_request q = {.verb = WRITER_APPLY, .path = "/api/v1/namespaces/n/configmaps",
 *                                .name = "x", .body = object, .field_manager = "manager"};
 *     w = writer_start(loop, client, &q, on_written, self, &e);
 *
 * Numbers become doubles on the way: an integer of more than 53 bits that is read and written back
 * changes. Who writes objects of strangers patches them.
 *
 * Source: https://kubernetes.io/docs/reference/using-api/api-concepts/, "Patch and apply" and
 * "Server-side apply" there.
 */
#ifndef CORE_KUBE_CLIENT_WRITER_H
#define CORE_KUBE_CLIENT_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "kube/client/api_error.h"
#include "kube/client/client.h"
#include "net/loop.h"

/* What is taken of an answer, and sent in a request: bytes. etcd keeps no object above 1.5 MiB. */
#define WRITER_ANSWER_MAX ((size_t)16 * 1024 * 1024)
#define WRITER_BODY_MAX ((size_t)16 * 1024 * 1024)

/* Time limit of requests that name none: ms. The API server's own is 60 s. */
#define WRITER_TIMEOUT_MS 30000

struct writer;

enum writer_verb {
    WRITER_GET,
    WRITER_CREATE,      /* body: the object */
    WRITER_UPDATE,      /* body: the object; with metadata.resourceVersion the server answers 409
                           when it was changed since */
    WRITER_DELETE,      /* body: DeleteOptions (preconditions, propagationPolicy), or NULL */
    WRITER_MERGE_PATCH, /* RFC 7386 */
    WRITER_JSON_PATCH,  /* RFC 6902; body: an array */
    WRITER_STRATEGIC_PATCH, /* not for custom resources */
    WRITER_APPLY,           /* body: the fields that field_manager owns, with apiVersion and kind */
};

struct writer_request {
    enum writer_verb verb;
    const char *path;          /* of the collection: "/api/v1/namespaces/demo/configmaps" */
    const char *name;          /* of the object. NULL: to create, or to get `path` itself */
    const char *subresource;   /* "status"; NULL: the object */
    const cJSON *body;         /* NULL: none */
    const char *field_manager; /* whose the fields are; WRITER_APPLY must name one; NULL: the
                                  server makes one up */
    bool force;                /* WRITER_APPLY: take fields over that others own */
    bool dry_run;              /* change nothing */
    bool metadata_only;        /* ask for PartialObjectMetadata in the answer */
    const char *accept;        /* another Accept header; NULL: JSON */
    uint64_t timeout_ms;       /* to the last byte of the answer; 0: WRITER_TIMEOUT_MS */
};

/* Runs once, unless cancelled, and never inside writer_start; the writer is gone with its return.
 * `object` is what the server answered, valid during the call: the object as it is now, or a Status
 * (when deleting). NULL: `error` says why; its code is 0 when no answer of the server is known, and
 * then a write may have been done all the same. */
typedef void (*writer_cb)(void *data, const cJSON *object, const struct api_error *error);

/* All of the request is copied. An answer 401 makes the client look at its credentials again. NULL
 * with `e` set, and then no callback: -EINVAL (what the request lacks or cannot have), -EAGAIN (no
 * credentials yet), -ENOBUFS (body too large), -ENOMEM. */
MUST_CHECK struct writer *writer_start(struct net_loop *l, struct kube_client *c,
                                       const struct writer_request *q, writer_cb cb, void *data,
                                       struct err *e);

/* The callback is not called any more; the writer is gone. What was sent may be done all the same.
 * Not to be called in or after the callback. NULL is ignored. */
void writer_cancel(struct writer *w);

#endif
