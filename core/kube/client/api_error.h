/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api_error.h - what the API server says went wrong, from an answer or from an event of a watch.
 *
 * The body is a metav1.Status, but whatever stands between may answer with anything:
 * https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md#response-status-kind
 */
#ifndef CORE_KUBE_CLIENT_API_ERROR_H
#define CORE_KUBE_CLIENT_API_ERROR_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "base/log.h"
#include "base/slice.h"

/* A server cannot ask for a longer pause than this: seconds. */
#define API_ERROR_RETRY_MAX 300

struct api_error {
    unsigned code;         /* as an HTTP status; 0: unknown */
    bool expired;          /* the version or continue token is too old: list again */
    bool exists;           /* 409 because an object of that name is there already; without it a 409
                              is a conflict: with a version, a precondition, another's field */
    unsigned retry_after;  /* seconds to wait at least; 0: not said */
    enum log_level level;  /* at which to log it: LOG_WARN, or as kube_client_failure_level */
    char msg[ERR_MSG_MAX]; /* "403 Forbidden: the server's words"; never empty */
};

/* `status` is a Status object, NULL or anything else. */
void api_error_from_status(const cJSON *status, struct api_error *out);

/* An answer with that status. `retry_after`: the header, NULL: absent; only seconds are understood
 * (RFC 9110 section 10.2.3), a date counts as absent. */
void api_error_from_answer(unsigned status, const char *retry_after, struct slice body,
                           struct api_error *out);

#endif
