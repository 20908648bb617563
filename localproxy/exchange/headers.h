/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headers.h - what headers say, and which of them go on to the other side.
 */
#ifndef LOCALPROXY_EXCHANGE_HEADERS_H
#define LOCALPROXY_EXCHANGE_HEADERS_H

#include "codec/encoding.h"
#include "http/message.h"
#include "kube/request_info.h"

enum { HEADERS_MAX = 160 };

/* The value of the first header of that name; empty when there is none. */
struct slice headers_value(const struct http_head *head, struct slice name);

/* How the objects of a response are written; ENCODING_OTHER too when they are compressed. */
enum encoding headers_encoding(const struct http_head *head);

/* Copies the headers of a message that go on to the other side, those of the hop left out, but for
 * Upgrade where it is asked for or agreed on; returns their number. RFC 9110 section 7.6.1. */
size_t headers_end_to_end(const struct http_head *head, struct http_header out[HEADERS_MAX]);

/* Those of a request that the API server gets: without Host, credentials and Expect, with one Via
 * more. The answer to a watch is asked for uncompressed, as nothing can be told apart in it
 * otherwise. */
size_t headers_of_request(const struct http_head *head, enum request_verb verb,
                          struct http_header out[HEADERS_MAX]);

/* A copy of a watch's head with as much of it as headers_of_request needs: for as long as the watch
 * is open. The caller frees; NULL without memory. */
MUST_CHECK struct http_head *headers_copy_of_watch(const struct http_head *head);

/* Gives a request one User-Agent, by kube/user_agent.h, in place of those that it has. `agent` has
 * its text. 0, or as user_agent_write; then `headers` are as they were. */
MUST_CHECK int headers_name_client(struct http_header headers[HEADERS_MAX], size_t *count,
                                   struct slice text, struct buf *agent);

/* The head that an answer is passed on with, with these headers. That of an answer to HEAD has the
 * length that the answer to GET would have. */
struct http_head headers_answer(const struct http_head *head, const struct http_header *headers,
                                size_t count, bool unhurried);

/* Whether a body follows a request's head. */
bool headers_announce_body(const struct http_head *head);

/* Asked twice it does no more than asked once, as RFC 9110 section 9.2.1 has it. PUT and DELETE do
 * not count: the second time the client would be told of a conflict, or that nothing is there. */
bool headers_method_is_safe(const struct http_head *head);

/* Whether the connection may be upgraded: only to what Kubernetes speaks over upgraded connections
 * (SPDY/3.1, websocket). Others are ignored, as RFC 9110 section 7.8 allows: a tunnel that speaks
 * HTTP (h2c, TLS) would go round the rules. So are those of a watch, which kube-apiserver then
 * answers with a plain stream: in that events can be told apart. */
bool headers_may_upgrade(const struct http_head *head, enum request_verb verb);

#endif
