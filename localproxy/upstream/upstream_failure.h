/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upstream_failure.h - what the operator is told when the API server has not answered.
 *
 * In a way that a client acts on rightly: client-go repeats whatever is answered with Retry-After,
 * ten times. Upon 429 its reflector (since 0.22) then asks for the watch again, as it would if the
 * API server had refused the connection; upon 503 all informers list, and say why, as for a
 * certificate that is not trusted.
 */
#ifndef LOCALPROXY_UPSTREAM_UPSTREAM_FAILURE_H
#define LOCALPROXY_UPSTREAM_UPSTREAM_FAILURE_H

#include <stdbool.h>

#include "base/err.h"
#include "kube/request_info.h"

/* How long an API server is away for a moment only (kube_client_failing_ms), and how often what
 * waits for it asks. */
#define OUTAGE_MS 30000
#define OUTAGE_RETRY_MS 1000

struct upstream_failure {
    unsigned status;
    unsigned retry_after; /* seconds; 0: it must not be repeated */
    const char *what;     /* "the API server ..." */
};

/* `e` is an error of http/client.h. `may_be_executed`: something of the request was sent, and it
 * does more when it is asked twice. */
struct upstream_failure upstream_failure_of(enum request_verb verb, bool may_be_executed,
                                            const struct err *e);

/* Whether it is one of the network's errors, which pass without anybody's doing. */
bool upstream_failure_is_outage(const struct err *e);

#endif
