/* SPDX-License-Identifier: Apache-2.0 */
#include "certs.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mbedtls/asn1write.h>
#include <mbedtls/ecp.h>
#include <mbedtls/rsa.h>

#include "crypto/mbedtls/compat.h"
#include "der_write.h"

#define PEM_SIZE 8192

/* GeneralName choices with the class bits of an implicit tag. */
#define TAG_EMAIL 0x81
#define TAG_DNS 0x82
#define TAG_IP 0x87

static void must(int rc, const char *what)
{
    if (rc < 0) {
        fprintf(stderr, "certs: %s: -0x%04x\n", what, (unsigned)-rc);
        abort();
    }
}

static char *copy(const char *text)
{
    char *s = strdup(text);
    if (s == NULL) {
        abort();
    }
    return s;
}

static void make_key(mbedtls_pk_context *key, unsigned rsa_bits)
{
    mbedtls_pk_init(key);
    mbedtls_pk_type_t type = rsa_bits > 0 ? MBEDTLS_PK_RSA : MBEDTLS_PK_ECKEY;
    must(mbedtls_pk_setup(key, mbedtls_pk_info_from_type(type)), "key");
    if (rsa_bits > 0) {
        must(mbedtls_rsa_gen_key(mbedtls_pk_rsa(*key), crypto_random, NULL, rsa_bits, 65537),
             "RSA");
    } else {
        must(
            mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(*key), crypto_random, NULL),
            "EC");
    }
}

/* ASN.1 is written backwards: from the end of the buffer to its start. */
static void put_name(unsigned char **p, unsigned char *start, unsigned char tag, const void *data,
                     size_t len)
{
    must(mbedtls_asn1_write_raw_buffer(p, start, data, len), "SAN");
    must(mbedtls_asn1_write_len(p, start, len), "SAN");
    must(mbedtls_asn1_write_tag(p, start, tag), "SAN");
}

static void put_ip(unsigned char **p, unsigned char *start, const char *text)
{
    unsigned char ip[16];
    bool v6 = strchr(text, ':') != NULL;
    must(inet_pton(v6 ? AF_INET6 : AF_INET, text, ip) == 1 ? 0 : -1, text);
    put_name(p, start, TAG_IP, ip, v6 ? 16 : 4);
}

static size_t count(const char *const *list)
{
    size_t n = 0;
    while (list != NULL && list[n] != NULL) {
        n++;
    }
    return n;
}

static void put_texts(unsigned char **p, unsigned char *start, unsigned char tag,
                      const char *const *list)
{
    for (size_t n = count(list); n > 0; n--) {
        put_name(p, start, tag, list[n - 1], strlen(list[n - 1]));
    }
}

static void add_names(mbedtls_x509write_cert *w, const struct certs_spec *spec)
{
    static const char oid[] = MBEDTLS_OID_SUBJECT_ALT_NAME;
    unsigned char buf[4096];
    unsigned char *p = buf + sizeof(buf);
    for (size_t n = count(spec->ips); n > 0; n--) {
        put_ip(&p, buf, spec->ips[n - 1]);
    }
    put_texts(&p, buf, TAG_DNS, spec->dns);
    put_texts(&p, buf, TAG_EMAIL, spec->emails);
    size_t len = (size_t)(buf + sizeof(buf) - p);
    if (len == 0) {
        return;
    }
    must(mbedtls_asn1_write_len(&p, buf, len), "SAN");
    must(mbedtls_asn1_write_tag(&p, buf, MBEDTLS_ASN1_CONSTRUCTED | MBEDTLS_ASN1_SEQUENCE), "SAN");
    must(mbedtls_x509write_crt_set_extension(w, oid, MBEDTLS_OID_SIZE(MBEDTLS_OID_SUBJECT_ALT_NAME),
                                             0, p, (size_t)(buf + sizeof(buf) - p)),
         "SAN");
}

static void add_usage(mbedtls_x509write_cert *w, const struct certs_spec *spec)
{
    static const char oid[] = MBEDTLS_OID_EXTENDED_KEY_USAGE;
    static const unsigned char server[] = {0x30, 0x0a, 0x06, 0x08, 0x2b, 0x06,
                                           0x01, 0x05, 0x05, 0x07, 0x03, 0x01};
    static const unsigned char client[] = {0x30, 0x0a, 0x06, 0x08, 0x2b, 0x06,
                                           0x01, 0x05, 0x05, 0x07, 0x03, 0x02};
    must(mbedtls_x509write_crt_set_basic_constraints(w, spec->is_ca, -1), "CA");
    if (!spec->is_ca) {
        must(mbedtls_x509write_crt_set_extension(
                 w, oid, MBEDTLS_OID_SIZE(MBEDTLS_OID_EXTENDED_KEY_USAGE), 0,
                 spec->is_client ? client : server, sizeof(server)),
             "usage");
    }
}

static void add_constraints(mbedtls_x509write_cert *w, const struct certs_spec *spec)
{
    static const char oid[] = "\x55\x1d\x1e"; /* RFC 5280 section 4.2.1.10 */
    struct buf b = BUF_INIT(PEM_SIZE);
    if (spec->permitted == NULL) {
        return;
    }
    der_put_element(&b, TAG_DNS, slice_str(spec->permitted));
    der_wrap(&b, 0, DER_SEQUENCE);
    der_wrap(&b, 0, DER_CONTEXT | DER_CONSTRUCTED);
    der_wrap(&b, 0, DER_SEQUENCE);
    must(mbedtls_x509write_crt_set_extension(w, oid, sizeof oid - 1, 1, buf_data(&b), b.len),
         "constraints");
    buf_reset(&b);
}

static void set_serial(mbedtls_x509write_cert *w)
{
    unsigned char serial[8];
    crypto_random(NULL, serial, sizeof(serial));
    serial[0] = (unsigned char)((serial[0] & 0x7f) | 0x40);
#if MBEDTLS_VERSION_MAJOR >= 3
    must(mbedtls_x509write_crt_set_serial_raw(w, serial, sizeof(serial)), "serial");
#else
    mbedtls_mpi mpi;
    mbedtls_mpi_init(&mpi);
    must(mbedtls_mpi_read_binary(&mpi, serial, sizeof(serial)), "serial");
    must(mbedtls_x509write_crt_set_serial(w, &mpi), "serial");
    mbedtls_mpi_free(&mpi);
#endif
}

static void write_cert(const struct certs_spec *spec, const char *issuer,
                       mbedtls_pk_context *issuer_key, mbedtls_pk_context *key,
                       struct certs_pair *out)
{
    static unsigned char pem[PEM_SIZE];
    char subject[256];
    mbedtls_x509write_cert w;
    snprintf(subject, sizeof(subject), "O=cmesh tests,CN=%s", spec->cn != NULL ? spec->cn : "test");
    mbedtls_x509write_crt_init(&w);
    mbedtls_x509write_crt_set_version(&w, MBEDTLS_X509_CRT_VERSION_3);
    mbedtls_x509write_crt_set_md_alg(&w, spec->sha1 ? MBEDTLS_MD_SHA1 : MBEDTLS_MD_SHA256);
    mbedtls_x509write_crt_set_subject_key(&w, key);
    mbedtls_x509write_crt_set_issuer_key(&w, issuer_key);
    must(mbedtls_x509write_crt_set_subject_name(&w, subject), "subject");
    must(mbedtls_x509write_crt_set_issuer_name(&w, issuer != NULL ? issuer : subject), "issuer");
    must(mbedtls_x509write_crt_set_validity(
             &w, spec->not_before != NULL ? spec->not_before : "20200101000000",
             spec->not_after != NULL ? spec->not_after : "20491231235959"),
         "validity");
    set_serial(&w);
    add_names(&w, spec);
    add_usage(&w, spec);
    add_constraints(&w, spec);
    must(mbedtls_x509write_crt_pem(&w, pem, sizeof(pem), crypto_random, NULL), "certificate");
    out->cert = copy((const char *)pem);
    must(mbedtls_pk_write_key_pem(key, pem, sizeof(pem)), "key");
    out->key = copy((const char *)pem);
    mbedtls_x509write_crt_free(&w);
}

void certs_make_ca(const char *cn, struct certs_pair *out)
{
    mbedtls_pk_context key;
    make_key(&key, 0);
    write_cert(&(struct certs_spec){.cn = cn, .is_ca = true}, NULL, &key, &key, out);
    mbedtls_pk_free(&key);
}

void certs_issue(const struct certs_pair *ca, const struct certs_spec *spec, struct certs_pair *out)
{
    mbedtls_pk_context key;
    mbedtls_pk_context ca_key;
    mbedtls_x509_crt ca_cert;
    char issuer[256];
    mbedtls_pk_init(&ca_key);
    mbedtls_x509_crt_init(&ca_cert);
    must(compat_parse_key(&ca_key, (const unsigned char *)ca->key, strlen(ca->key) + 1), "CA key");
    must(mbedtls_x509_crt_parse(&ca_cert, (const unsigned char *)ca->cert, strlen(ca->cert) + 1),
         "CA");
    must(mbedtls_x509_dn_gets(issuer, sizeof(issuer), &ca_cert.subject), "CA");
    make_key(&key, spec->rsa_bits);
    write_cert(spec, issuer, &ca_key, &key, out);
    mbedtls_x509_crt_free(&ca_cert);
    mbedtls_pk_free(&ca_key);
    mbedtls_pk_free(&key);
}

void certs_append(struct certs_pair *pair, const struct certs_pair *issuer)
{
    char *chain = NULL;
    if (asprintf(&chain, "%s%s", pair->cert, issuer->cert) < 0) {
        abort();
    }
    free(pair->cert);
    pair->cert = chain;
}

void certs_free(struct certs_pair *pair)
{
    free(pair->cert);
    free(pair->key);
    *pair = (struct certs_pair){.cert = NULL};
}
