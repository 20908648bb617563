/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls_names.h - does a certificate name this host? Subject alternative names only (RFC 6125).
 *
 * The library reads a certificate and gives its names one by one; what they mean is decided here.
 */
#ifndef CORE_CRYPTO_TLS_NAMES_H
#define CORE_CRYPTO_TLS_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

/* Who the peer must be: an IP address in network order, or else a DNS name. */
struct tls_peer_name {
    const char *dns; /* as given, without a trailing dot counted in dns_len; NULL: an IP */
    size_t dns_len;
    unsigned char ip[16];
    size_t ip_len; /* 4, 16, or 0 */
};

/* A subject alternative name of a certificate; the other types of name are not those of a host. */
enum tls_san_type { TLS_SAN_OTHER, TLS_SAN_DNS, TLS_SAN_IP };

struct tls_san {
    enum tls_san_type type;
    struct slice value; /* as the certificate has it: the name, or 4 or 16 bytes */
};

/* Reads "10.0.0.1", "::1", "[::1]" or a name; `text` must outlive `n`. */
void tls_peer_name_init(struct tls_peer_name *n, const char *text);

/* One pattern of a certificate against a host: equal but for case, or with `*` as the whole
 * left-most label, which stands for exactly one label and needs one behind it. */
bool tls_name_matches(const char *pattern, size_t pattern_len, const char *host, size_t host_len);

/* Whether it is a name of that peer. */
bool tls_san_matches(const struct tls_san *san, const struct tls_peer_name *n);

/* Appends the name to the list of names in `out` ("a, b, 10.0.0.1"), which begins as "". False when
 * it does not fit: the list ends with "..." then. A name that names no host is left out; bytes that
 * are in no host name become '?'. */
bool tls_san_list(const struct tls_san *san, char *out, size_t size);

#endif
