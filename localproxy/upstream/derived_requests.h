/* SPDX-License-Identifier: Apache-2.0 */
/*
 * derived_requests.h - the requests that stand in for a watch when its selector changes.
 *
 * All parameters that the client gave and that choose objects (labelSelector, fieldSelector) stay
 * as they were written; those that say where and how to begin are replaced. Targets are appended to
 * `out`; 0, or as query_inject_selector.
 */
#ifndef LOCALPROXY_UPSTREAM_DERIVED_REQUESTS_H
#define LOCALPROXY_UPSTREAM_DERIVED_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "kube/client/client.h"
#include "kube/request_info.h"

/* Whether `target`, of a watch, names the collection in its path; the old form does not, in which
 * the path says /watch/ too. */
bool derived_possible(struct slice target);

/* Seconds that the watch of derived_probe takes. */
#define DERIVED_PROBE_S 3

/* Lists what the watch `target` sees of the objects matching `selector` (encoded), as they were at
 * `version`, page by page: `token` is the page before's `continue`, empty for the first. Version 0:
 * as they are in the API server's memory. */
MUST_CHECK int derived_list(struct slice target, struct slice selector, uint64_t version,
                            struct slice token, struct buf *out, struct err *e);

/* Watches what the watch `target` sees of the objects matching `selector` (encoded; empty: all),
 * from `version` on. */
MUST_CHECK int derived_watch(struct slice target, struct slice selector, uint64_t version,
                             struct buf *out, struct err *e);

/* The same for a short time, with bookmarks. */
MUST_CHECK int derived_probe(struct slice target, struct slice selector, uint64_t version,
                             struct buf *out, struct err *e);

/* The path of the collection that a resource request is about, in its namespace if it has one.
 * Errors stay in the buffer. */
void derived_collection(const struct request_info *ri, struct buf *out);

struct derived_request {
    struct slice target;
    struct slice accept;
    bool background;            /* it may take long */
    struct byte_budget *budget; /* as http_head has it */
};

/* Asks for it in localproxy's own name: as kube_client_request. */
MUST_CHECK struct http_exchange *derived_ask(struct kube_client *client,
                                             const struct derived_request *r,
                                             const struct http_exchange_handlers *handlers,
                                             void *data, struct err *e);

#endif
