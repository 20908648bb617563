/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object_request.h - one request about one object of the API server, and its whole answer in JSON.
 *
 *     struct object_request_options q = {.verb = OBJECT_REQUEST_APPLY, .path =
 * "/api/v1/namespaces/n/configmaps", .name = "x", .body = object, .field_manager = "manager"}; w =
 * object_request_start(loop, client, &q, on_written, self, &e);
 *
 * Numbers become doubles on the way: an integer of more than 53 bits that is read and written back
 * changes. Who writes objects of strangers patches them.
 *
 * Source: https://kubernetes.io/docs/reference/using-api/api-concepts/, "Patch and apply" and
 * "Server-side apply" there.
 */
#ifndef CORE_KUBE_CLIENT_OBJECT_REQUEST_H
#define CORE_KUBE_CLIENT_OBJECT_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "kube/client/api_error.h"
#include "kube/client/client.h"
#include "net/loop.h"

/* What is taken of an answer, and sent in a request: bytes. etcd keeps no object above 1.5 MiB. */
#define OBJECT_REQUEST_ANSWER_MAX ((size_t)16 * 1024 * 1024)
#define OBJECT_REQUEST_BODY_MAX ((size_t)16 * 1024 * 1024)

/* Time limit of requests that name none: ms. The API server's own is 60 s. */
#define OBJECT_REQUEST_TIMEOUT_MS 30000

struct object_request;

enum object_request_verb {
    OBJECT_REQUEST_GET,
    OBJECT_REQUEST_CREATE, /* body: the object */
    OBJECT_REQUEST_UPDATE, /* body: the object; with metadata.resourceVersion the server answers 409
                      when it was changed since */
    OBJECT_REQUEST_DELETE, /* body: DeleteOptions (preconditions, propagationPolicy), or NULL */
    OBJECT_REQUEST_MERGE_PATCH,     /* RFC 7386 */
    OBJECT_REQUEST_JSON_PATCH,      /* RFC 6902; body: an array */
    OBJECT_REQUEST_STRATEGIC_PATCH, /* not for custom resources */
    OBJECT_REQUEST_APPLY, /* body: the fields that field_manager owns, with apiVersion and kind */
};

struct object_request_options {
    enum object_request_verb verb;
    const char *path;          /* of the collection: "/api/v1/namespaces/demo/configmaps" */
    const char *name;          /* of the object. NULL: to create, or to get `path` itself */
    const char *subresource;   /* "status"; NULL: the object */
    const cJSON *body;         /* NULL: none */
    const char *field_manager; /* whose the fields are; OBJECT_REQUEST_APPLY must name one; NULL:
                                  the server makes one up */
    bool force;                /* OBJECT_REQUEST_APPLY: take fields over that others own */
    bool dry_run;              /* change nothing */
    bool metadata_only;        /* ask for PartialObjectMetadata in the answer */
    const char *accept;        /* another Accept header; NULL: JSON */
    uint64_t timeout_ms;       /* to the last byte of the answer; 0: OBJECT_REQUEST_TIMEOUT_MS */
};

/* Runs once, unless cancelled, and never inside object_request_start; the request is gone with its
 * return. `object` is what the server answered, valid during the call: the object as it is now, or
 * a Status (when deleting). NULL: `error` says why; its code is 0 when no answer of the server is
 * known, and then a write may have been done all the same. */
typedef void (*object_request_cb)(void *data, const cJSON *object, const struct api_error *error);

/* All of the request is copied. NULL
 * with `e` set, and then no callback: -EINVAL (what the request lacks or cannot have), -EAGAIN (no
 * credentials yet), -ENOBUFS (body too large), -ENOMEM. */
MUST_CHECK struct object_request *object_request_start(struct net_loop *l, struct kube_client *c,
                                                       const struct object_request_options *q,
                                                       object_request_cb cb, void *data,
                                                       struct err *e);

/* The callback is not called any more; the request is gone. What was sent may be done all the same.
 * Not to be called in or after the callback. NULL is ignored. */
void object_request_cancel(struct object_request *w);

#endif
