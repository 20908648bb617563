/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address.h - `ADDR:PORT` texts and socket addresses.
 */
#ifndef CORE_NET_ADDRESS_H
#define CORE_NET_ADDRESS_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/slice.h"

/* Room for "[ipv6%zone]:port" and the NUL. */
#define NET_ADDRESS_MAX 80

/* Parses `127.0.0.1:5443`, `[::1]:5443`, or `:5443` for `[::]:5443`, all addresses. Names are not
 * looked up. 0, or -EINVAL with the message. */
MUST_CHECK int net_address_parse(const char *text, struct sockaddr_storage *out, struct err *e);
/* The same, to learn only whether a listener can be given this text. */
MUST_CHECK int net_address_check(const char *text, struct err *e);

/* 0 when `host` (without brackets) is an IP literal; otherwise `out` is of no meaning. */
MUST_CHECK int net_address_literal(const char *host, unsigned port, struct sockaddr_storage *out);

/* The four bytes of the IPv4 address for which an IPv6 one stands, within it: mapped (RFC 4291
 * section 2.5.5.2), compatible (2.5.5.1; not :: and ::1), translated (RFC 7915's ::ffff:0:0:0/96),
 * by NAT64's well-known prefix (RFC 6052) or 6to4 (RFC 3056). NULL: none. */
const uint8_t *net_address_carried(const uint8_t ipv6[16]);

/* The host, or where it is an IPv6 literal that carries an IPv4 address, that, in `room`. */
struct slice net_address_plain_host(struct slice host, char room[INET_ADDRSTRLEN]);

void net_address_format(const struct sockaddr *addr, char out[NET_ADDRESS_MAX]);

#endif
