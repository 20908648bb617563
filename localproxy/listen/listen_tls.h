/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen_tls.h - the addresses of --listen-tls.
 *
 * Beside ADDR:PORT there is localhost:PORT, for both loopback addresses: a connection that the
 * kernel redirects to this machine comes to the one of its own family, and nobody knows beforehand
 * which of them a pod has.
 */
#ifndef LOCALPROXY_LISTEN_LISTEN_TLS_H
#define LOCALPROXY_LISTEN_LISTEN_TLS_H

#include "base/err.h"
#include "http/server.h"
#include "net/address.h"

/* Room for the addresses that one text stands for. */
enum { LISTEN_TLS_ADDRESSES = 2 };
struct listen_tls {
    char addresses[LISTEN_TLS_ADDRESSES][NET_ADDRESS_MAX];
    size_t count;
};

/* 0, or -EINVAL with the message. */
MUST_CHECK int listen_tls_parse(const char *text, struct listen_tls *out, struct err *e);

/* Lets the server listen there as well. ::1 of localhost is left out where the kernel has none.
 * 0, or negative with `e` set. */
MUST_CHECK int listen_tls_open(struct http_server *s, const char *text, struct tls_config *tls,
                               struct err *e);

#endif
