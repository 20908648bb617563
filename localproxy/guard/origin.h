/* SPDX-License-Identifier: Apache-2.0 */
/*
 * origin.h - whether a request was sent by a web page that is not localproxy's own.
 *
 * A page may send to any address what needs no permission of its server: a GET, a POST without
 * Content-Type, a WebSocket. Browsers tell whose page it is in Origin (RFC 6454), and how it stands
 * to the server in Sec-Fetch-Site (https://www.w3.org/TR/fetch-metadata/). Programs send no
 * Sec-Fetch-Site; of Origin some WebSocket libraries (Python's, Fabric8) make a copy of Host.
 */
#ifndef LOCALPROXY_GUARD_ORIGIN_H
#define LOCALPROXY_GUARD_ORIGIN_H

#include <stdbool.h>

#include "base/flags.h"
#include "http/message.h"

/* Without Origin: whether Sec-Fetch-Site, if there is one, is none or same-origin. With Origin:
 * whether that names the Host of the request, and Sec-Fetch-Site is as before; or it is one of
 * `accepted`. Each of both may be there once. Where "*" is accepted, always. */
bool origin_is_accepted(const struct http_head *head, const struct flag_list *accepted);

/* Whether `accepted` can have it: "*", "null", or SCHEME://HOST[:PORT]; nothing else can match. */
bool origin_is_origin(const char *text);

/* Whether it is as the script of a page may have it in a browser that sends no Origin: a POST whose
 * body has no type, which the API server takes for JSON, and a length that is known. Pages need
 * permission for other methods with a body, and cannot chunk one; `kubectl create --raw` does,
 * without a type. Where "*" is accepted, never. */
bool origin_is_untyped(const struct http_head *head, const struct flag_list *accepted);

#endif
