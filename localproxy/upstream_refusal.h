/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upstream_refusal.h - answers of the API server, or of what stands before it, that say something
 * of localproxy rather than of the operator.
 */
#ifndef LOCALPROXY_UPSTREAM_REFUSAL_H
#define LOCALPROXY_UPSTREAM_REFUSAL_H

#include "guard/request_attributes.h"
#include "http/message.h"
#include "kube/client/client.h"

/* The value of a Warning header for an answer 401: whose credentials the API server refused. A
 * client could take it for a refusal of its token for localproxy. */
#define UPSTREAM_REFUSAL_WARNING_MAX 640
void upstream_refusal_warning(const struct kube_client *upstream,
                              char out[UPSTREAM_REFUSAL_WARNING_MAX]);

/* Requests that a selector made longer, of which some were refused for it. */
struct request_lengths {
    size_t refused; /* the length of the shortest target that was; 0: none */
};

/* A request with the shard's selector, and a target so long, of which `added` bytes are not the
 * client's, was answered so. Reports, once for each resource, what is refused for a length that the
 * selector has a part in; and that it is not any more. */
void upstream_refusal_judge(struct request_lengths *l, const struct kube_client *upstream,
                            const struct request_attributes *a, size_t target_len, size_t added,
                            const struct http_head *answer);
/* The rules changed, and with them the selectors. */
void upstream_refusal_forget(struct request_lengths *l, const struct kube_client *upstream);

#endif
