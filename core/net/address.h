/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address.h - `ADDR:PORT` texts and socket addresses.
 */
#ifndef CORE_NET_ADDRESS_H
#define CORE_NET_ADDRESS_H

#include <sys/socket.h>

#include "base/err.h"

/* Room for "[ipv6%zone]:port" and the NUL. */
#define NET_ADDRESS_MAX 80

/* Parses `127.0.0.1:5443`, `[::1]:5443`, or `:5443` for `[::]:5443`, all addresses. Names are not
 * looked up. 0, or -EINVAL with the message. */
MUST_CHECK int net_address_parse(const char *text, struct sockaddr_storage *out, struct err *e);
/* The same, to learn only whether a listener can be given this text. */
MUST_CHECK int net_address_check(const char *text, struct err *e);

/* 0 when `host` (without brackets) is an IP literal; otherwise `out` is of no meaning. */
MUST_CHECK int net_address_literal(const char *host, unsigned port, struct sockaddr_storage *out);

void net_address_format(const struct sockaddr *addr, char out[NET_ADDRESS_MAX]);

#endif
