/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_h1.h - HTTP/1.1 on a connection of a client's pool: one request at a time (RFC 9112).
 * Internal to core/http.
 */
#ifndef CORE_HTTP_CLIENT_H1_H
#define CORE_HTTP_CLIENT_H1_H

#include "http/client_conn.h"

extern const struct client_protocol client_h1;

#endif
