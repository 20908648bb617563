/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_h2.h - HTTP/2 on a connection of a client's pool: many requests at a time (RFC 9113).
 * Internal to core/http.
 *
 * Until the server's first bytes (SETTINGS) have come, which say how many requests it takes, the
 * connection carries one.
 */
#ifndef CORE_HTTP_CLIENT_H2_H
#define CORE_HTTP_CLIENT_H2_H

#include "http/client_conn.h"

extern const struct client_protocol client_h2;

#endif
