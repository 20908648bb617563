/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upstream_refusal.h - answers of the API server, or of what stands before it, that say something
 * of localproxy rather than of the operator.
 */
#ifndef LOCALPROXY_UPSTREAM_UPSTREAM_REFUSAL_H
#define LOCALPROXY_UPSTREAM_UPSTREAM_REFUSAL_H

#include "http/message.h"
#include "upstream/request_attributes.h"
#include "upstream/upstream.h"

/* The value of a Warning header for an answer 401: whose credentials the API server refused. A
 * client could take it for a refusal of its token for localproxy. */
#define UPSTREAM_REFUSAL_WARNING_MAX 640
void upstream_refusal_warning(const struct kube_client *client,
                              char out[UPSTREAM_REFUSAL_WARNING_MAX]);

/* A request with the shard's selector, and a target so long, of which `added` bytes are not the
 * client's, was answered so. Reports, once for each resource, what is refused for a length that the
 * selector has a part in; and that it is not any more. */
void upstream_refusal_judge(struct upstream *u, const struct request_attributes *a,
                            size_t target_len, size_t added, const struct http_head *answer);
/* The rules changed, and with them the selectors. */
void upstream_refusal_forget(struct upstream *u);

#endif
