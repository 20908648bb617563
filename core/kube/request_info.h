/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request_info.h - what a request asks of the Kubernetes API, derived from method and target
 * exactly as kube-apiserver does it.
 *
 * Source: RequestInfoFactory.NewRequestInfo in k8s.io/apiserver/pkg/endpoints/request (1.20 and
 * current releases agree), fed with what Go's net/http makes of the request line: the path is
 * percent-decoded before it is split, so `%2F` is a separator like `/`.
 */
#ifndef CORE_KUBE_REQUEST_INFO_H
#define CORE_KUBE_REQUEST_INFO_H

#include <stdbool.h>

#include "base/err.h"
#include "base/slice.h"
#include "kube/api_prefix.h"

enum request_verb {
    VERB_OTHER, /* a non-resource request, or a method that Kubernetes has no verb for */
    VERB_GET,
    VERB_LIST,
    VERB_WATCH,
    VERB_CREATE,
    VERB_UPDATE,
    VERB_PATCH,
    VERB_DELETE,
    VERB_DELETECOLLECTION,
    VERB_PROXY, /* the old /api/v1/proxy/... form */
};

#define REQUEST_METHOD_MAX 31

/* Slices point into the target given to request_info_parse or into `path_mem`/`name_mem`. */
struct request_info {
    bool is_resource;
    /* The path has a `.` or `..` segment, or an empty one inside resource, name and what stands
     * before them. kube-apiserver takes these literally, but something between here and there may
     * resolve them and so see another resource: do not let such a request through. Behind a
     * gateway, which may decode the path once more, `%`, `?` and `#` that were escaped count too.
     */
    bool ambiguous;
    enum request_verb verb;
    struct slice verb_name;  /* "list"; of a non-resource request: the method in lower case */
    struct slice path;       /* decoded, without the query */
    struct slice gateway;    /* its beginning, without slashes around, if that is a gateway */
    struct slice own_path;   /* the path without the gateway: all that follows is read from it */
    struct slice query;      /* raw, without the `?`; empty when there is none */
    struct slice api_prefix; /* "api" or "apis" */
    struct slice group;      /* "" is the core group */
    struct slice version;
    struct slice namespace; /* "" when there is none */
    struct slice resource;
    struct slice subresource;
    struct slice name;  /* from the path, or of list and watch from fieldSelector=metadata.name=x */
    struct slice parts; /* the path from the resource on: "pods/web-0/proxy/index.html" */

    char method[REQUEST_METHOD_MAX + 1]; /* what verb_name may point to */
    char *path_mem;                      /* decoded path, only if it had escapes */
    char *name_mem;                      /* only if the name came from a field selector */
};

/* Parses an origin-form target. `ri` may hold anything before; after 0 call request_info_deinit,
 * and keep `target` and `ri` where they are while the slices are used. Allocates only for a path
 * with percent-escapes or a query with a field selector.
 *
 * -EINVAL (nothing to deinit): not a path, a bad percent-escape in the path, control characters,
 * white space or `#` (kube-apiserver answers 400 to most of these); `/api/v1/watch` or
 * `/api/v1/proxy` with nothing behind (it answers 500). -ENOMEM. */
MUST_CHECK int request_info_parse(struct request_info *ri, struct slice method, struct slice target,
                                  struct err *e);
/* The same, but what is behind a gateway that `prefixes` match is read as a request to the API
 * server there. */
MUST_CHECK int request_info_parse_behind(struct request_info *ri,
                                         const struct api_prefixes *prefixes, struct slice method,
                                         struct slice target, struct err *e);
void request_info_deinit(struct request_info *ri);

/* Whether it opens a session in a pod: exec, attach or portforward. Clients ask for it by POST
 * (SPDY) or GET (WebSocket, kubectl since 1.31), and mean the same. Of `proxy` the method says what
 * is meant, for what it carries is HTTP. */
bool request_info_opens_session(const struct request_info *ri);

/* The part of the path, without a slash in front, that seems to be a gateway which no prefix
 * matched: up to a `proxy` subresource, but for those of pods, services and nodes, or up to where
 * in the path of no resource that of one begins. Empty: there is none. */
struct slice request_info_unnamed_gateway(const struct request_info *ri);

#endif
