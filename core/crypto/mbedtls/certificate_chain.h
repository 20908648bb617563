/* SPDX-License-Identifier: Apache-2.0 */
/*
 * certificate_chain.h - enforces name constraints along a chain that the library verifies.
 */
#ifndef CORE_CRYPTO_MBEDTLS_CERTIFICATE_CHAIN_H
#define CORE_CRYPTO_MBEDTLS_CERTIFICATE_CHAIN_H

#include <mbedtls/x509_crt.h>

#include <stddef.h>

#include "base/err.h"

/* The root, the intermediates, and the peer's own certificate. */
#define CERTIFICATE_CHAIN_MAX (MBEDTLS_X509_MAX_INTERMEDIATE_CA + 2)

/* The authorities with constraints that were met so far. All zero at the beginning of a chain. */
struct certificate_chain {
    const mbedtls_x509_crt *limiting[CERTIFICATE_CHAIN_MAX];
    size_t count;
};

/* Takes the next certificate, from the root's end on. 0, or -EACCES with the reason in `e`: an
 * authority above it does not permit one of its names. */
MUST_CHECK int certificate_chain_add(struct certificate_chain *chain, const mbedtls_x509_crt *crt,
                                     struct err *e);

#endif
