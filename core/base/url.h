/* SPDX-License-Identifier: Apache-2.0 */
/*
 * url.h - addresses of API servers: scheme, host, port and a path prefix.
 */
#ifndef CORE_BASE_URL_H
#define CORE_BASE_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define URL_HOST_MAX 255
#define URL_PATH_MAX 1023

struct url {
    bool https;
    char host[URL_HOST_MAX + 1]; /* name or IP literal; IPv6 without brackets */
    uint16_t port;               /* 443 or 80 where the text has none */
    char path[URL_PATH_MAX + 1]; /* "" or "/prefix", without a slash at the end; as written */
};

/* Parses `http[s]://host[:port][/prefix]`. Refused with the reason, and without repeating what may
 * be a password: another scheme, user information, a query, a fragment, white space. RFC 3986. */
MUST_CHECK int url_parse(const char *text, struct url *out, struct err *e);

/* Room for every url_host_port. */
#define URL_HOST_PORT_SIZE (URL_HOST_MAX + 10)

/* Writes "host:port", an IPv6 literal in brackets, and the port only where it is not the scheme's
 * own: the value of a Host header. */
void url_host_port(const struct url *u, char out[URL_HOST_PORT_SIZE]);

#endif
