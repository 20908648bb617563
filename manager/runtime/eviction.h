/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eviction.h - evicts pods, by the API version that the API server has for it, so that disruption
 * budgets hold.
 */
#ifndef MANAGER_RUNTIME_EVICTION_H
#define MANAGER_RUNTIME_EVICTION_H

#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"
#include "kube/client/object_request.h"
#include "runtime/reconciler.h"

#define EVICTION_VERSION_SIZE 64

enum eviction_result {
    EVICTION_DONE,
    EVICTION_BLOCKED, /* a disruption budget, or the API server is busy */
    EVICTION_GONE,    /* it was another pod already, or none */
    EVICTION_FAILED,
    EVICTION_RESULTS,
};

/* Of one API server. All zero: it was not asked yet. */
struct eviction_api {
    char version[EVICTION_VERSION_SIZE]; /* "policy/v1" */
};

struct eviction_pod {
    const char *ns;
    const char *name;
    const char *uid; /* no other pod of that name is evicted */
};

/* To be asked, and its answer learned, while the version is "". */
void eviction_ask(struct reconcile *s, object_request_cb next);
/* Of that answer; NULL: `error`, or that it has no evictions, which is returned. NULL: it is
 * known. */
MUST_CHECK const struct api_error *eviction_learn(struct eviction_api *a, const cJSON *resources,
                                                  const struct api_error *error);

void eviction_send(struct reconcile *s, const struct eviction_api *a, const struct eviction_pod *p,
                   object_request_cb next);
/* What became of it; `error` NULL: it was done. The version may be forgotten: the API server was
 * replaced by one of another version. */
enum eviction_result eviction_judge(struct eviction_api *a, const struct api_error *error);

/* Appends a metric with a series for each result. Errors stay in `out`. */
void eviction_write_counts(struct buf *out, const char *name, const char *help,
                           const uint64_t counts[EVICTION_RESULTS]);

#endif
