/* SPDX-License-Identifier: Apache-2.0 */
/*
 * x509.h - reads a certificate without the TLS library (RFC 5280 section 4.1).
 *
 * The library knows some algorithms and some extensions. This reader takes any certificate apart,
 * so that a message can name what the library does not know, and so that extensions can be enforced
 * that the library passes over. It verifies nothing.
 */
#ifndef CORE_CRYPTO_X509_H
#define CORE_CRYPTO_X509_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

/* Parts of a certificate, in the memory that it was read from. */
struct x509 {
    struct slice subject;       /* content of the Name */
    struct slice key_oid;       /* algorithm of the public key */
    struct slice curve_oid;     /* named curve of an EC key; empty: none */
    struct slice signature_oid; /* algorithm of the authority's signature */
    struct slice extensions;    /* content of the sequence; empty: none */
};

struct x509_extension {
    struct slice oid;
    bool critical;
    struct slice value; /* DER */
};

/* Contents of object identifiers. */
#define X509_OID_NAME_CONSTRAINTS SLICE("\x55\x1d\x1e")
#define X509_OID_CERTIFICATE_POLICIES SLICE("\x55\x1d\x20")
#define X509_OID_SUBJECT_ALT_NAME SLICE("\x55\x1d\x11")

/* Whether `der` begins with a certificate whose parts, all extensions included, can be found. */
bool x509_read(struct slice der, struct x509 *out);

/* Takes the next one off `rest`, which begins as the certificate's `extensions`. False: none left.
 */
bool x509_next_extension(struct slice *rest, struct x509_extension *out);

/* Whether the subject has an attribute of that type. */
bool x509_subject_has(const struct x509 *c, struct slice attribute);

/* The common name, or else the organization, for messages: printable ASCII without quotes. */
void x509_subject_text(const struct x509 *c, char *out, size_t size);

/* What the key is for: "Ed25519", "ECDSA on P-256". */
void x509_key_text(const struct x509 *c, char *out, size_t size);

/* "Ed25519" for the algorithms, curves and extensions that have a name here, else "1.2.3.4". */
void x509_oid_text(struct slice oid, char *out, size_t size);

#endif
