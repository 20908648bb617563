/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token.h - whether a request carries the token that --token-file demands.
 */
#ifndef LOCALPROXY_GUARD_TOKEN_H
#define LOCALPROXY_GUARD_TOKEN_H

#include "base/slice.h"
#include "http/message.h"

/* `header` is where it is looked for; empty: Authorization. `scope` is local_token_scope of the API
 * server: what was written for this cluster bears it. `basic` is what clients make of it with the
 * user name of kubeconfig-gen, encoded, so that it need not be decoded with each request. */
struct token {
    struct slice text;
    struct slice basic;
    struct slice scope;
    struct slice header;
};

enum token_verdict {
    TOKEN_RIGHT,
    TOKEN_WRONG,      /* or missing */
    TOKEN_OF_ANOTHER, /* right, but for another cluster */
};

/* As bearer token, or as the password of Basic credentials: client-go sends no bearer token over
 * plain HTTP, but what stands in the server's URL (RFC 7617). */
enum token_verdict token_look(const struct http_head *head, const struct token *token);

#endif
