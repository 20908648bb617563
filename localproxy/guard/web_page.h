/* SPDX-License-Identifier: Apache-2.0 */
/*
 * origin.h - whether a request was sent by a web page that is not localproxy's own.
 *
 * A page may send to any address what needs no permission of its server: a GET, a POST without
 * Content-Type, a WebSocket. Browsers tell whose page it is in Origin (RFC 6454), and how it stands
 * to the server in Sec-Fetch-Site (https://www.w3.org/TR/fetch-metadata/). Programs send no
 * Sec-Fetch-Site; of Origin some WebSocket libraries (Python's, Fabric8) make a copy of Host.
 */
#ifndef LOCALPROXY_GUARD_WEB_PAGE_H
#define LOCALPROXY_GUARD_WEB_PAGE_H

#include <stdbool.h>

#include "base/flags.h"
#include "http/message.h"

/* Without Origin: whether Sec-Fetch-Site, if there is one, is none or same-origin. With Origin:
 * whether that names the Host of the request, and Sec-Fetch-Site is as before; or it is one of
 * `accepted`. Each of both may be there once. Where "*" is accepted, always. */
bool web_page_is_accepted(const struct http_head *head, const struct flag_list *accepted);

/* Whether `accepted` can have it: "*", "null", or SCHEME://HOST[:PORT]; nothing else can match. */
bool web_page_is_origin(const char *text);

/* Whether a page may have sent it although there is neither header: browsers before 2020 (Firefox
 * 69, Edge 18) send no Origin with a POST of fetch() in the mode no-cors. Of these only a body
 * without a type can do harm, which the API server takes for JSON; its length is known, as pages
 * cannot chunk one, and other methods with a body need the server's permission. Programs post such
 * bodies too (client-go's RESTClient with raw bytes), but name themselves, and not as a browser
 * does, and send no Accept-Language: scripts can take neither header away. Where "*" is accepted,
 * never. */
bool web_page_is_untold(const struct http_head *head, const struct flag_list *accepted);

#endif
