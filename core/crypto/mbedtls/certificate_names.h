/* SPDX-License-Identifier: Apache-2.0 */
/*
 * certificate_names.h - the names that a certificate bears, for tls_names.h to judge.
 */
#ifndef CORE_CRYPTO_MBEDTLS_CERTIFICATE_NAMES_H
#define CORE_CRYPTO_MBEDTLS_CERTIFICATE_NAMES_H

#include <mbedtls/x509_crt.h>

#include <stdbool.h>
#include <stddef.h>

#include "crypto/tls_names.h"

bool certificate_names_peer(const mbedtls_x509_crt *crt, const struct tls_peer_name *n);

/* The DNS names and IP addresses of `crt` as "a, b, 10.0.0.1", cut with "..." to fit. Empty when
 * it has none. Bytes that are in no host name become '?'. */
void certificate_names_list(const mbedtls_x509_crt *crt, char *out, size_t size);

#endif
