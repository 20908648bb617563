/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refusal.h - answers of localproxy's own: errors as metav1.Status.
 */
#ifndef LOCALPROXY_EXCHANGE_REFUSAL_H
#define LOCALPROXY_EXCHANGE_REFUSAL_H

#include "codec/encoding.h"
#include "http/exchange.h"
#include "kube/request_info.h"
#include "metrics/metrics.h"

/* Answers with an error. `retry_after`: seconds, 0: none. False: that failed, and the exchange was
 * aborted. */
bool refusal_send(struct metrics *m, struct http_exchange *x, enum request_verb verb, unsigned code,
                  unsigned retry_after, const char *message);

/* Answers a watch as kube-apiserver answers one from a version that it does not keep: with 200 and
 * an ERROR event of code 410, reason Expired. Not every client lists again upon the status 410.
 * `encoding` is JSON or PROTOBUF. As refusal_send. */
bool refusal_send_expired(struct metrics *m, struct http_exchange *x, enum encoding encoding,
                          const char *message);

#endif
