/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/response.h"

#include "base/buf.h"
#include "http/server.h"
#include "kube/status.h"

enum { REFUSAL_MAX = 4096 };

static void ignore_body(struct http_exchange *x, struct slice data)
{
    (void)x;
    (void)data;
}

static void ignore(struct http_exchange *x)
{
    (void)x;
}

static void ignore_close(struct http_exchange *x, const struct err *e)
{
    (void)x;
    (void)e;
}

/* Of an exchange whose answer was given: what more comes is of no interest. */
static const struct http_exchange_handlers answered = {
    .on_body = ignore_body,
    .on_end = ignore,
    .on_drain = ignore,
    .on_close = ignore_close,
};

void webhook_respond(struct http_exchange *x, unsigned status, struct slice body,
                     const struct http_header *header)
{
    x->handlers = &answered;
    if (http_respond(x, status, SLICE("application/json"), body, header, header == NULL ? 0 : 1) !=
        0) {
        http_exchange_abort(x);
    }
}

void webhook_respond_failure(struct http_exchange *x, unsigned status, const char *why,
                             const struct http_header *header)
{
    struct buf body = BUF_INIT(REFUSAL_MAX);
    if (status_write(&body, status, NULL, 0, "%s", why) != 0) {
        http_exchange_abort(x);
    } else {
        webhook_respond(x, status, buf_slice(&body), header);
    }
    buf_reset(&body);
}
