/* SPDX-License-Identifier: Apache-2.0 */
/*
 * certs.h - certificates made on the spot, good and bad ones, for tests.
 *
 *     struct certs_pair ca, server;
 *     certs_make_ca("test CA", &ca);
 *     certs_issue(&ca, &(struct certs_spec){.dns = (const char *[]){"localhost", NULL}}, &server);
 *
 * Everything is PEM text that certs_free frees. Failures abort: tests cannot go on without.
 */
#ifndef TEST_SUPPORT_CERTS_H
#define TEST_SUPPORT_CERTS_H

#include <stdbool.h>

struct certs_pair {
    char *cert;
    char *key;
};

struct certs_spec {
    const char *cn;         /* common name; NULL: "test" */
    const char *const *dns; /* subject alternative names, NULL-terminated; NULL: none */
    const char *const *ips; /* IPv4 and IPv6 literals */
    const char *const *emails;
    const char *not_before; /* "20240131235959", UTC; NULL: long ago */
    const char *not_after;  /* NULL: far ahead */
    bool is_client;         /* extended key usage: for clients, not for servers */
    bool is_ca;             /* may issue others */
    const char *permitted;  /* DNS names of those: critical name constraints; NULL: all */
    bool sha1;              /* signed with SHA-1 instead of SHA-256 */
    unsigned rsa_bits;      /* an RSA key of so many instead of P-256; 0: P-256 */
};

/* A self-signed authority, valid for long. */
void certs_make_ca(const char *cn, struct certs_pair *out);

void certs_issue(const struct certs_pair *ca, const struct certs_spec *spec,
                 struct certs_pair *out);

/* Adds the issuer behind the certificate, as servers send chains. */
void certs_append(struct certs_pair *pair, const struct certs_pair *issuer);

void certs_free(struct certs_pair *pair);

#endif
