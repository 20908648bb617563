/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h - whether a request comes from somebody who meant localproxy.
 *
 * A web page can have its own name resolve to 127.0.0.1, and its scripts then send requests here
 * and read the answers (DNS rebinding). The browser tells that name in Host. An IP address there,
 * or localhost, is no such name: a browser lets a page of another origin read nothing from them.
 */
#ifndef LOCALPROXY_GUARD_HOST_H
#define LOCALPROXY_GUARD_HOST_H

#include <stdbool.h>

#include "base/flags.h"
#include "http/message.h"

/* Whether Host is an IP address, localhost or a name below it (RFC 6761), or one of `accepted`,
 * without regard to case and port. A head without Host (HTTP/1.0) is no browser's. */
bool host_is_accepted(const struct http_head *head, const struct flag_list *accepted);

/* Whether `accepted` can have it: what is a URL, has a port or a wildcard would never match. */
bool host_is_name(const char *text);

#endif
