/* SPDX-License-Identifier: Apache-2.0 */
/*
 * time_limits.h - how long the API server may take over a request, and the operator over its
 * answer.
 *
 * A *long-running* request is one that kube-apiserver gives no time limit (the flags of
 * BasicLongRunningRequestCheck in its pkg/server/config.go): watches, and the subresources that are
 * streams. All others it answers, or ends with 504, within --request-timeout, 60 s. A watch it ends
 * after the client's timeoutSeconds, or, without one, after at most twice its
 * --min-request-timeout, 1,800 s.
 */
#ifndef LOCALPROXY_FORWARD_TIME_LIMITS_H
#define LOCALPROXY_FORWARD_TIME_LIMITS_H

#include <stdint.h>

#include "kube/request_info.h"

/* Of all that are not long-running, and of a watch that follows a migration. */
#define REQUEST_ANSWER_MS 65000

struct time_limits {
    uint64_t answer_ms; /* until the head of an answer comes; 0: no limit */
    uint64_t watch_ms;  /* until a watch has ended; 0: it is none */
    bool unhurried;     /* a stream that its reader may let wait */
};

struct time_limits time_limits_of(const struct request_info *ri);

#endif
