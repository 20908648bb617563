/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/refusal.h"

#include <stdio.h>

#include "codec/watch_frame_write.h"
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
        x->last = true; /* who could not say who it is gets no place to stay */
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

/* In chunks, as every watch is answered. */
static int send_stream(struct http_exchange *x, struct slice type, struct slice body)
{
    const struct http_header header = {SLICE("Content-Type"), type};
    const struct http_head head = {
        .status = 200,
        .minor = 1,
        .headers = &header,
        .header_count = 1,
        .framing = HTTP_BODY_CHUNKED,
    };
    int rc = http_exchange_send_head(x, &head);
    if (rc == 0) {
        rc = http_exchange_send_body(x, body);
    }
    return rc == 0 ? http_exchange_send_end(x) : rc;
}

bool refusal_send_expired(struct metrics *m, struct http_exchange *x, enum encoding encoding,
                          const char *message)
{
    struct buf event = BUF_INIT(STATUS_MAX);
    struct slice type = encoding == ENCODING_JSON
                            ? SLICE("application/json")
                            : SLICE("application/vnd.kubernetes.protobuf;stream=watch");
    m->refused++;
    metrics_count_code(m, VERB_WATCH, 200);
    int rc = watch_frame_write_expired(encoding, message, &event);
    if (rc == 0) {
        rc = send_stream(x, type, buf_slice(&event));
    }
    buf_reset(&event);
    if (rc != 0) {
        http_exchange_abort(x);
    }
    return rc == 0;
}
