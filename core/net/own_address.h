/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_address.h - which addresses lead to this machine, and to a listener of it.
 */
#ifndef CORE_NET_OWN_ADDRESS_H
#define CORE_NET_OWN_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* 127.0.0.0/8, ::1, and the first in IPv6. */
bool net_address_is_loopback(const struct sockaddr_storage *address);

/* Whether who connects to that host, a name or an IP literal, and port reaches what listens on
 * `listen`; never with port 0 there, which is none yet. A name is looked up, which blocks, when the
 * ports are the same. */
bool net_address_leads_to(const char *host, unsigned port, const struct sockaddr_storage *listen);

#endif
