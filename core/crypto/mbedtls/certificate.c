/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/certificate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mbedtls/asn1write.h>
#include <mbedtls/ecp.h>

#include "base/secret.h"
#include "crypto/mbedtls/certificate_chain.h"
#include "crypto/mbedtls/certificate_names.h"
#include "crypto/mbedtls/certificate_parse.h"
#include "crypto/mbedtls/tls_internal.h"

/* GeneralName choices with the class bits of an implicit tag: RFC 5280 section 4.2.1.6. */
enum { TAG_DNS = 0x82, TAG_IP = 0x87 };

enum { SERIAL_LEN = 16, COMMON_NAME_MAX = 64, KEY_PEM_MAX = 1024, CERT_PEM_MAX = 16 * 1024 };

/* Of keys and names that others made. */
enum { KEY_PEM_IN_MAX = 16 * 1024, ISSUER_MAX = 1024 };

#define PEM_BEGIN "-----BEGIN CERTIFICATE-----"
#define PEM_END "-----END CERTIFICATE-----"

struct certificate {
    mbedtls_x509_crt crt;
    int64_t not_before;
    int64_t not_after;
    char common_name[COMMON_NAME_MAX + 1];
};

/* ---- writing ---- */

/* What a certificate is made from. Steps are false with `e` set. */
struct maker {
    mbedtls_x509write_cert w;
    mbedtls_pk_context key;    /* of the new certificate */
    mbedtls_pk_context ca_key; /* of a server's authority */
    int rc;                    /* the library's first error */
    struct err *e;
};

static void maker_init(struct maker *m, struct err *e)
{
    mbedtls_x509write_crt_init(&m->w);
    mbedtls_pk_init(&m->key);
    mbedtls_pk_init(&m->ca_key);
    m->rc = 0;
    m->e = e;
}

static bool refuse(struct maker *m, const char *why)
{
    (void)err_set(m->e, -EINVAL, "%s", why);
    return false;
}

/* Keeps what a function of the library returned, if it is the first error. */
static void note(struct maker *m, int rc)
{
    m->rc = m->rc < 0 ? m->rc : rc;
}

/* Whether all went well that was noted; `code` is ours for errors of the library. */
static bool outcome(struct maker *m, int code, const char *what)
{
    if (m->rc < 0) {
        (void)tls_error(m->e, code, what, m->rc);
    }
    return m->rc >= 0;
}

static bool common_name_ok(const char *name)
{
    size_t len = name == NULL ? 0 : strlen(name);
    return len >= 1 && len <= COMMON_NAME_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._@: ") ==
               len;
}

static bool set_subject(struct maker *m, const char *common_name)
{
    char text[COMMON_NAME_MAX + sizeof "CN="];
    if (!common_name_ok(common_name)) {
        return refuse(m, "this cannot be a common name");
    }
    (void)snprintf(text, sizeof text, "CN=%s", common_name);
    note(m, mbedtls_x509write_crt_set_subject_name(&m->w, text));
    return outcome(m, -EINVAL, "subject");
}

/* As the library wants it: "20240131235959". */
static int format_time(int64_t at, char out[16])
{
    time_t seconds = (time_t)at;
    struct tm tm;
    if (gmtime_r(&seconds, &tm) == NULL || tm.tm_year < 70 || tm.tm_year > 9999 - 1900) {
        return -EINVAL;
    }
    return strftime(out, 16, "%Y%m%d%H%M%S", &tm) == 14 ? 0 : -EINVAL;
}

static bool set_validity(struct maker *m, const struct certificate_spec *spec)
{
    char from[16];
    char to[16];
    if (spec->not_before > spec->not_after || format_time(spec->not_before, from) != 0 ||
        format_time(spec->not_after, to) != 0) {
        return refuse(m, "these dates cannot be those of a certificate");
    }
    note(m, mbedtls_x509write_crt_set_validity(&m->w, from, to));
    return outcome(m, -EINVAL, "validity");
}

/* RFC 5280 section 4.1.2.2: positive, at most 20 bytes; and hard to guess. */
static bool set_serial(struct maker *m)
{
    unsigned char serial[SERIAL_LEN] = {0};
    note(m, crypto_random(NULL, serial, sizeof serial));
    serial[0] = (unsigned char)((serial[0] & 0x7f) | 0x40);
    note(m, compat_set_serial(&m->w, serial, sizeof serial));
    return outcome(m, -EIO, "serial number");
}

static bool make_key(struct maker *m)
{
    mbedtls_x509write_crt_set_subject_key(&m->w, &m->key);
    note(m, mbedtls_pk_setup(&m->key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY)));
    if (m->rc == 0) {
        note(m, mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(m->key), crypto_random,
                                    NULL));
    }
    return outcome(m, -EIO, "key");
}

/* What authorities and servers have in common. */
static bool begin(struct maker *m, const struct certificate_spec *spec)
{
    mbedtls_x509write_crt_set_version(&m->w, MBEDTLS_X509_CRT_VERSION_3);
    mbedtls_x509write_crt_set_md_alg(&m->w, MBEDTLS_MD_SHA256);
    return set_subject(m, spec->common_name) && set_validity(m, spec) && set_serial(m) &&
           make_key(m);
}

static bool set_issuer(struct maker *m, const char *name)
{
    note(m, mbedtls_x509write_crt_set_issuer_name(&m->w, name));
    return outcome(m, -EINVAL, "the authority's name");
}

static int read_key(mbedtls_pk_context *pk, struct slice text, struct err *e)
{
    unsigned char pem[KEY_PEM_IN_MAX];
    if (text.len >= sizeof pem) {
        return err_set(e, -EINVAL, "the private key is too long");
    }
    if (text.len > 0) {
        memcpy(pem, text.ptr, text.len);
    }
    pem[text.len] = '\0';
    int rc = compat_parse_key(pk, pem, text.len + 1);
    mbedtls_platform_zeroize(pem, sizeof pem);
    return rc == 0 ? 0 : tls_error(e, -EINVAL, "the private key cannot be read", rc);
}

/* ASN.1 is written backwards: from the end of the buffer to its start. */
static void put_name(struct maker *m, unsigned char **p, unsigned char *start, const char *name)
{
    struct tls_peer_name n;
    tls_peer_name_init(&n, name);
    const void *data = n.dns != NULL ? (const void *)n.dns : n.ip;
    size_t len = n.dns != NULL ? n.dns_len : n.ip_len;
    note(m, name[0] == '\0' ? MBEDTLS_ERR_X509_INVALID_NAME : 0);
    note(m, mbedtls_asn1_write_raw_buffer(p, start, data, len));
    note(m, mbedtls_asn1_write_len(p, start, len));
    note(m, mbedtls_asn1_write_tag(p, start, n.dns != NULL ? TAG_DNS : TAG_IP));
}

static bool set_names(struct maker *m, const struct certificate_spec *spec)
{
    unsigned char buf[CERTIFICATE_NAMES_SIZE];
    unsigned char *const end = buf + sizeof buf;
    unsigned char *p = end;
    if (spec->name_count == 0 || spec->name_count > CERTIFICATE_NAMES_MAX) {
        (void)err_set(m->e, -EINVAL, "a server's certificate needs 1 to %d names",
                      CERTIFICATE_NAMES_MAX);
        return false;
    }
    for (size_t n = spec->name_count; n > 0; n--) {
        put_name(m, &p, buf, spec->names[n - 1]);
    }
    note(m, mbedtls_asn1_write_len(&p, buf, (size_t)(end - p)));
    note(m, mbedtls_asn1_write_tag(&p, buf, MBEDTLS_ASN1_CONSTRUCTED | MBEDTLS_ASN1_SEQUENCE));
    note(m, mbedtls_x509write_crt_set_extension(&m->w, MBEDTLS_OID_SUBJECT_ALT_NAME,
                                                MBEDTLS_OID_SIZE(MBEDTLS_OID_SUBJECT_ALT_NAME), 0,
                                                p, (size_t)(end - p)));
    return outcome(m, -EINVAL, "names");
}

static bool set_server_usage(struct maker *m)
{
    /* SEQUENCE { OID 1.3.6.1.5.5.7.3.1 }: serverAuth */
    static const unsigned char server_auth[] = {0x30, 0x0a, 0x06, 0x08, 0x2b, 0x06,
                                                0x01, 0x05, 0x05, 0x07, 0x03, 0x01};
    note(m, mbedtls_x509write_crt_set_basic_constraints(&m->w, 0, -1));
    note(m, mbedtls_x509write_crt_set_key_usage(&m->w, MBEDTLS_X509_KU_DIGITAL_SIGNATURE));
    note(m, mbedtls_x509write_crt_set_extension(&m->w, MBEDTLS_OID_EXTENDED_KEY_USAGE,
                                                MBEDTLS_OID_SIZE(MBEDTLS_OID_EXTENDED_KEY_USAGE), 0,
                                                server_auth, sizeof server_auth));
    return outcome(m, -EINVAL, "usage");
}

static bool set_authority_usage(struct maker *m)
{
    note(m, mbedtls_x509write_crt_set_basic_constraints(&m->w, 1, 0));
    note(m, mbedtls_x509write_crt_set_key_usage(&m->w, MBEDTLS_X509_KU_KEY_CERT_SIGN |
                                                           MBEDTLS_X509_KU_CRL_SIGN));
    return outcome(m, -EINVAL, "usage");
}

/* Signs, and writes both as PEM. */
static bool finish(struct maker *m, struct certificate_pair *out)
{
    unsigned char key[KEY_PEM_MAX];
    unsigned char cert[CERT_PEM_MAX];
    /* Identifiers let a client find the right one of two authorities. */
    note(m, mbedtls_x509write_crt_set_subject_key_identifier(&m->w));
    note(m, mbedtls_x509write_crt_set_authority_key_identifier(&m->w));
    note(m, mbedtls_x509write_crt_pem(&m->w, cert, sizeof cert, crypto_random, NULL));
    note(m, mbedtls_pk_write_key_pem(&m->key, key, sizeof key));
    bool good = outcome(m, -EIO, "certificate");
    if (good) {
        out->cert = strdup((const char *)cert);
        out->key = strdup((const char *)key);
        good = out->cert != NULL && out->key != NULL;
        if (!good) {
            (void)err_memory(m->e);
        }
    }
    mbedtls_platform_zeroize(key, sizeof key);
    return good;
}

void certificate_pair_deinit(struct certificate_pair *p)
{
    free(p->cert);
    secret_free(p->key);
    *p = (struct certificate_pair){0};
}

/* The authority is its own issuer. */
static bool sign_itself(struct maker *m, const char *common_name)
{
    char issuer[COMMON_NAME_MAX + sizeof "CN="];
    (void)snprintf(issuer, sizeof issuer, "CN=%s", common_name);
    mbedtls_x509write_crt_set_issuer_key(&m->w, &m->key);
    return set_issuer(m, issuer);
}

static int maker_deinit(struct maker *m, bool good, struct certificate_pair *out)
{
    if (!good) {
        certificate_pair_deinit(out);
    }
    mbedtls_x509write_crt_free(&m->w);
    mbedtls_pk_free(&m->key);
    mbedtls_pk_free(&m->ca_key);
    return good ? 0 : m->e->code;
}

int certificate_make_authority(const struct certificate_spec *spec, struct certificate_pair *out,
                               struct err *e)
{
    struct maker m;
    struct err local;
    *out = (struct certificate_pair){0};
    maker_init(&m, e != NULL ? e : &local);
    bool good = begin(&m, spec) && set_authority_usage(&m) && sign_itself(&m, spec->common_name) &&
                finish(&m, out);
    return maker_deinit(&m, good, out);
}

/* The text of a name is not always enough to write the same name again, and a client compares their
 * bytes. */
static bool check_signature(struct maker *m, const struct certificate_pair *made,
                            const struct certificate *ca)
{
    struct certificate *c = certificate_read(slice_str(made->cert), NULL, m->e);
    if (c == NULL) {
        return false;
    }
    bool good = certificate_signed_by(c, ca);
    certificate_free(c);
    return good ||
           refuse(m, "the authority cannot be used: what it signs does not lead back to it");
}

/* Issuer and key of the authority. */
static bool set_authority(struct maker *m, const struct certificate *ca, struct slice key)
{
    char issuer[ISSUER_MAX];
    if (read_key(&m->ca_key, key, m->e) != 0) {
        return false;
    }
    if (compat_check_pair(&ca->crt.pk, &m->ca_key) != 0) {
        return refuse(m, "the key is not that of the authority's certificate");
    }
    if (!certificate_is_authority(ca)) {
        return refuse(m, "the certificate is not that of an authority");
    }
    if (mbedtls_x509_dn_gets(issuer, sizeof issuer, &ca->crt.subject) < 0) {
        return refuse(m, "the authority's name is too long");
    }
    mbedtls_x509write_crt_set_issuer_key(&m->w, &m->ca_key);
    return set_issuer(m, issuer);
}

int certificate_make_server(const struct certificate_spec *spec, struct slice ca_cert,
                            struct slice ca_key, struct certificate_pair *out, struct err *e)
{
    struct maker m;
    struct err local;
    e = e == NULL ? &local : e;
    *out = (struct certificate_pair){0};
    struct certificate *ca = certificate_read(ca_cert, NULL, e);
    if (ca == NULL) {
        return e->code == -ENOENT ? err_set(e, -EINVAL, "the authority's certificate is missing")
                                  : e->code;
    }
    maker_init(&m, e);
    bool good = begin(&m, spec) && set_names(&m, spec) && set_server_usage(&m) &&
                set_authority(&m, ca, ca_key) && finish(&m, out) && check_signature(&m, out, ca);
    certificate_free(ca);
    return maker_deinit(&m, good, out);
}

/* ---- reading ---- */

static void copy_common_name(struct certificate *c)
{
    for (const mbedtls_x509_name *n = &c->crt.subject; n != NULL; n = n->next) {
        if (n->oid.p != NULL && MBEDTLS_OID_CMP(MBEDTLS_OID_AT_CN, &n->oid) == 0) {
            if (n->val.len <= COMMON_NAME_MAX && memchr(n->val.p, '\0', n->val.len) == NULL) {
                memcpy(c->common_name, n->val.p, n->val.len);
            }
            return;
        }
    }
}

/* The first certificate's text, from BEGIN to END. */
static int find_pem(struct slice text, struct slice *found, struct slice *rest)
{
    const char *end = text.ptr + text.len;
    const char *from =
        text.len == 0 ? NULL : memmem(text.ptr, text.len, PEM_BEGIN, strlen(PEM_BEGIN));
    const char *to =
        from == NULL ? NULL : memmem(from, (size_t)(end - from), PEM_END, strlen(PEM_END));
    if (to == NULL) {
        return from == NULL ? -ENOENT : -EINVAL;
    }
    to += strlen(PEM_END);
    *found = slice_of(from, (size_t)(to - from));
    if (rest != NULL) {
        *rest = slice_of(to, (size_t)(end - to));
    }
    return 0;
}

/* The library's PEM reader wants a NUL that is counted. */
static int parse(struct certificate *c, struct slice pem, struct err *e)
{
    char *copy = strndup(pem.ptr, pem.len);
    if (copy == NULL) {
        return err_memory(e);
    }
    int rc = certificate_parse(&c->crt, (const unsigned char *)copy, strlen(copy) + 1, NULL, e);
    free(copy);
    return rc;
}

struct certificate *certificate_read(struct slice pem, struct slice *rest, struct err *e)
{
    struct slice one = {0};
    int rc = find_pem(pem, &one, rest);
    if (rc != 0) {
        (void)err_set(e, rc,
                      rc == -ENOENT ? "there is no certificate" : "a certificate is cut off");
        return NULL;
    }
    struct certificate *c = calloc(1, sizeof *c);
    if (c == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    mbedtls_x509_crt_init(&c->crt);
    if (parse(c, one, e) != 0) {
        certificate_free(c);
        return NULL;
    }
    c->not_before = certificate_seconds(&c->crt.valid_from);
    c->not_after = certificate_seconds(&c->crt.valid_to);
    copy_common_name(c);
    return c;
}

void certificate_free(struct certificate *c)
{
    if (c != NULL) {
        mbedtls_x509_crt_free(&c->crt);
        free(c);
    }
}

int64_t certificate_not_before(const struct certificate *c)
{
    return c->not_before;
}

int64_t certificate_not_after(const struct certificate *c)
{
    return c->not_after;
}

const char *certificate_common_name(const struct certificate *c)
{
    return c->common_name;
}

bool certificate_is_authority(const struct certificate *c)
{
    return COMPAT_FIELD(&c->crt, ca_istrue) != 0 &&
           mbedtls_x509_crt_check_key_usage(&c->crt, MBEDTLS_X509_KU_KEY_CERT_SIGN) == 0;
}

bool certificate_has_name(const struct certificate *c, const char *name)
{
    struct tls_peer_name n;
    tls_peer_name_init(&n, name);
    return certificate_names_peer(&c->crt, &n);
}

bool certificate_is_server(const struct certificate *c)
{
    return mbedtls_x509_crt_check_extended_key_usage(
               &c->crt, MBEDTLS_OID_SERVER_AUTH, MBEDTLS_OID_SIZE(MBEDTLS_OID_SERVER_AUTH)) == 0 &&
           mbedtls_x509_crt_check_key_usage(&c->crt, MBEDTLS_X509_KU_DIGITAL_SIGNATURE) == 0;
}

static int check_chain(void *data, mbedtls_x509_crt *crt, int depth, uint32_t *flags)
{
    (void)depth;
    *flags |= certificate_chain_add(data, crt, NULL) != 0 ? MBEDTLS_X509_BADCERT_OTHER : 0;
    return 0;
}

bool certificate_signed_by(const struct certificate *c, const struct certificate *ca)
{
    const uint32_t dates = MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE;
    struct certificate_chain chain = {.count = 0};
    uint32_t flags = 0;
    /* The library only reads them: it counts on a chain that it may have to walk. */
    mbedtls_x509_crt *leaf = (mbedtls_x509_crt *)(uintptr_t)&c->crt;
    mbedtls_x509_crt *trust = (mbedtls_x509_crt *)(uintptr_t)&ca->crt;
    int rc = mbedtls_x509_crt_verify(leaf, trust, NULL, NULL, &flags, check_chain, &chain);
    return rc == 0 || (rc == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED && (flags & ~dates) == 0);
}

bool certificate_fits(const struct certificate *c, struct slice key)
{
    mbedtls_pk_context pk;
    mbedtls_pk_init(&pk);
    bool fits = read_key(&pk, key, NULL) == 0 && compat_check_pair(&c->crt.pk, &pk) == 0;
    mbedtls_pk_free(&pk);
    return fits;
}

bool certificate_same(const struct certificate *a, const struct certificate *b)
{
    return a->crt.raw.len == b->crt.raw.len &&
           memcmp(a->crt.raw.p, b->crt.raw.p, a->crt.raw.len) == 0;
}
