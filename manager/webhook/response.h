/* SPDX-License-Identifier: Apache-2.0 */
/*
 * response.h - answers to who asks the webhook server. The exchange is over for its user
 * afterwards.
 */
#ifndef MANAGER_WEBHOOK_RESPONSE_H
#define MANAGER_WEBHOOK_RESPONSE_H

#include "base/slice.h"
#include "http/exchange.h"

/* JSON, with one more header or NULL. */
void webhook_respond(struct http_exchange *x, unsigned status, struct slice body,
                     const struct http_header *header);
/* An answer that is no review: the API server takes the webhook for failed, and shows the words. */
void webhook_respond_failure(struct http_exchange *x, unsigned status, const char *why,
                             const struct http_header *header);

#endif
