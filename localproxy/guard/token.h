/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token.h - whether a request carries the token that --token-file demands.
 */
#ifndef LOCALPROXY_GUARD_TOKEN_H
#define LOCALPROXY_GUARD_TOKEN_H

#include <stdbool.h>

#include "base/slice.h"
#include "http/message.h"

/* `basic` is what clients make of it with the user name of kubeconfig-gen, encoded, so that it need
 * not be decoded with each request. */
struct token {
    struct slice text;
    struct slice basic;
};

/* As bearer token, or as the password of Basic credentials: client-go sends no bearer token over
 * plain HTTP, but what stands in the server's URL (RFC 7617). */
bool token_is_in(const struct http_head *head, const struct token *token);

#endif
