/* SPDX-License-Identifier: Apache-2.0 */
/*
 * certificate.h - makes authorities and the server certificates that they sign, and reads them.
 *
 * Keys are P-256, signatures ECDSA with SHA-256 (RFC 5758). An authority can sign server
 * certificates and no further authorities. Everything that is made is PEM; serial numbers are
 * random.
 *
 * Source: RFC 5280.
 */
#ifndef CORE_CRYPTO_CERTIFICATE_H
#define CORE_CRYPTO_CERTIFICATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

struct certificate;

/* Names of a certificate, and bytes of all of them. */
#define CERTIFICATE_NAMES_MAX 64
#define CERTIFICATE_NAMES_SIZE 4096

struct certificate_spec {
    const char *common_name; /* of 1 to 64 bytes, letters, digits and `-._@: ` */
    int64_t not_before;      /* seconds since 1970, UTC */
    int64_t not_after;
    /* Of a server: host names and IP addresses; an authority has none. */
    const char *const *names;
    size_t name_count;
};

/* A certificate with its key, PEM. */
struct certificate_pair {
    char *cert;
    char *key;
};

/* Overwrites the key, frees both. An all-zero pair is allowed; it is one again then. */
void certificate_pair_deinit(struct certificate_pair *p);

/* Makes a key and a certificate that it signs itself. 0, then certificate_pair_deinit is due;
 * -EINVAL with the reason in `e`, -ENOMEM, -EIO. */
MUST_CHECK int certificate_make_authority(const struct certificate_spec *spec,
                                          struct certificate_pair *out, struct err *e);
/* The same, signed by an authority. -EINVAL also: the authority's key is not that of its
 * certificate. */
MUST_CHECK int certificate_make_server(const struct certificate_spec *spec, struct slice ca_cert,
                                       struct slice ca_key, struct certificate_pair *out,
                                       struct err *e);

/* Reads the first certificate of a PEM text; `*rest`, if not NULL, is what follows it. NULL with
 * `e` set: -ENOENT when there is none any more, -EINVAL, -ENOMEM. */
MUST_CHECK struct certificate *certificate_read(struct slice pem, struct slice *rest,
                                                struct err *e);
void certificate_free(struct certificate *c);

/* Seconds since 1970; both moments are within. */
int64_t certificate_not_before(const struct certificate *c);
int64_t certificate_not_after(const struct certificate *c);
/* The first common name of the subject; "" when there is none, or it is too long. */
const char *certificate_common_name(const struct certificate *c);
/* Whether it may sign others. */
bool certificate_is_authority(const struct certificate *c);
/* Whether a client that asks for that host name or IP address takes it. */
bool certificate_has_name(const struct certificate *c, const char *name);
/* Whether it may be shown by a server. */
bool certificate_is_server(const struct certificate *c);
/* Whether the authority's key made its signature and the authority's name constraints permit its
 * names; dates are not looked at. */
bool certificate_signed_by(const struct certificate *c, const struct certificate *ca);
/* Whether `key` (PEM) is its private key. */
bool certificate_fits(const struct certificate *c, struct slice key);
/* Whether both are the same, to the byte. */
bool certificate_same(const struct certificate *a, const struct certificate *b);

#endif
