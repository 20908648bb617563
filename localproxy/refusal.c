/* SPDX-License-Identifier: Apache-2.0 */
#include "refusal.h"

#include <stdio.h>

#include "http/server.h"
#include "kube/status.h"

enum { STATUS_MAX = 16 * 1024 };

bool refusal_send(struct metrics *m, struct http_exchange *x, enum request_verb verb, unsigned code,
                  unsigned retry_after, const char *message)
{
    struct buf body = BUF_INIT(STATUS_MAX);
    char seconds[16];
    struct http_header extra[2];
    size_t n = 0;
    if (retry_after != 0) {
        (void)snprintf(seconds, sizeof seconds, "%u", retry_after);
        extra[n++] = (struct http_header){SLICE("Retry-After"), slice_str(seconds)};
    }
    if (code == 401) {
        extra[n++] = (struct http_header){SLICE("WWW-Authenticate"), SLICE("Bearer")};
    }
    m->refused++;
    metrics_count_code(m, verb, code);
    int rc = status_write(&body, code, NULL, retry_after, "%s", message);
    if (rc == 0) {
        rc = http_respond(x, code, SLICE("application/json"), buf_slice(&body), extra, n);
    }
    buf_reset(&body);
    if (rc != 0) {
        http_exchange_abort(x);
    }
    return rc == 0;
}
