/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls_names.h - does a certificate name this host? Subject alternative names only (RFC 6125).
 */
#ifndef CORE_CRYPTO_TLS_NAMES_H
#define CORE_CRYPTO_TLS_NAMES_H

#include <mbedtls/x509_crt.h>

#include <stdbool.h>
#include <stddef.h>

/* Who the peer must be: an IP address in network order, or else a DNS name. */
struct tls_peer_name {
    const char *dns; /* as given, without a trailing dot counted in dns_len; NULL: an IP */
    size_t dns_len;
    unsigned char ip[16];
    size_t ip_len; /* 4, 16, or 0 */
};

/* Reads "10.0.0.1", "::1", "[::1]" or a name; `text` must outlive `n`. */
void tls_peer_name_init(struct tls_peer_name *n, const char *text);

/* One pattern of a certificate against a host: equal but for case, or with `*` as the whole
 * left-most label, which stands for exactly one label and needs one behind it. */
bool tls_name_matches(const char *pattern, size_t pattern_len, const char *host, size_t host_len);

bool tls_cert_names(const mbedtls_x509_crt *crt, const struct tls_peer_name *n);

/* The DNS names and IP addresses of `crt` as "a, b, 10.0.0.1", cut with "..." to fit. Empty when
 * it has none. Bytes that are in no host name become '?'. */
void tls_cert_list_names(const mbedtls_x509_crt *crt, char *out, size_t size);

#endif
