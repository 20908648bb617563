/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.h - metav1.Status bodies for the errors that a program of ours answers itself.
 */
#ifndef CORE_KUBE_STATUS_H
#define CORE_KUBE_STATUS_H

#include "base/buf.h"
#include "base/err.h"

/* The reason (metav1.StatusReason) that belongs to an HTTP status code: 400 BadRequest, 401
 * Unauthorized, 403 Forbidden, 404 NotFound, 410 Expired, 429 TooManyRequests, 500 InternalError,
 * 503 ServiceUnavailable, 504 Timeout, ...; "" for codes that have none (Unknown in Kubernetes). */
const char *status_reason(unsigned code);

/* Appends a Status object as one line of compact JSON in the API server's field order, without a
 * newline. `reason` NULL: the one of the code. `retry_after`: seconds, 0 leaves it out; the caller
 * sets the Retry-After header too. "cmesh: " is put before the message; bytes in it that are not
 * UTF-8 become U+FFFD. 0, -ENOBUFS or -ENOMEM; on error `out` is as it was. */
MUST_CHECK int status_write(struct buf *out, unsigned code, const char *reason,
                            unsigned retry_after, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

#endif
