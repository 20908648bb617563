/* SPDX-License-Identifier: Apache-2.0 */
/*
 * certificate_parse.h - certificates from text to the library, with reasons for those it cannot
 * read.
 *
 * Critical name constraints and certificate policies, which the library refuses, are taken: the
 * first are enforced when a chain is verified (certificate_chain.h), and the second restrict nobody
 * who asks for no policy in particular (RFC 5280 section 6.1.1).
 */
#ifndef CORE_CRYPTO_MBEDTLS_CERTIFICATE_PARSE_H
#define CORE_CRYPTO_MBEDTLS_CERTIFICATE_PARSE_H

#include <mbedtls/x509_crt.h>

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Appends the certificates of a PEM text (with its NUL, which `len` counts) or the one of DER to
 * `chain`. Returns how many of them could not be read, `e` having the reason of the first, or an
 * error if there is none that could. `log_as`, if not NULL, names the text in a warning for each
 * that was left out. */
MUST_CHECK int certificate_parse(mbedtls_x509_crt *chain, const unsigned char *text, size_t len,
                                 const char *log_as, struct err *e);

/* Seconds since 1970. */
int64_t certificate_seconds(const mbedtls_x509_time *t);

/* While the library shakes hands, it reads certificates itself. From here until the call with NULL
 * the reason for the first that it cannot read is put into `e`, whose code is 0 otherwise. */
void certificate_parse_watch(struct err *e);

#endif
