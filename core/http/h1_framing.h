/* SPDX-License-Identifier: Apache-2.0 */
/*
 * h1_framing.h - what the headers of an HTTP/1.1 head mean for its body and its connection
 * (RFC 9112 sections 6 and 9, RFC 9110 sections 7.2, 7.8 and 10.1.1).
 */
#ifndef CORE_HTTP_H1_FRAMING_H
#define CORE_HTTP_H1_FRAMING_H

#include <stdbool.h>

#include "base/err.h"
#include "http/h1_parser.h"
#include "http/message.h"

/* `h` has its start line (`connect` set) and `h->header_count` headers in `headers`. Takes
 * Content-Length and Transfer-Encoding out of these, and sets all that is derived: headers,
 * framing, content_length, keep_alive, upgrade and expect_continue. 0, or -HTTP_PARSE_* and *why (a
 * constant). */
MUST_CHECK int h1_framing_derive(struct http_head *h, struct http_header *headers,
                                 enum h1_role role, bool to_head_request, const char **why);

#endif
