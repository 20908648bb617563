/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/mbedtls/certificate_parse.h"

#include <errno.h>
#include <mbedtls/pem.h>
#include <time.h>

#include "base/log.h"
#include "crypto/mbedtls/tls_internal.h"
#include "crypto/name_constraints.h"
#include "crypto/x509.h"

#define SUBJECT_MAX 128
#define OID_TEXT_MAX 64
#define LIBRARY "mbedTLS " MBEDTLS_VERSION_STRING
#define USABLE "an ECDSA (P-256, P-384 or P-521) or RSA key"

/* Where the reason goes while the library reads certificates by itself. */
static _Thread_local struct err *watcher;

void certificate_parse_watch(struct err *e)
{
    watcher = e;
}

int64_t certificate_seconds(const mbedtls_x509_time *t)
{
    struct tm tm = {.tm_year = t->year - 1900,
                    .tm_mon = t->mon - 1,
                    .tm_mday = t->day,
                    .tm_hour = t->hour,
                    .tm_min = t->min,
                    .tm_sec = t->sec};
    return (int64_t)timegm(&tm);
}

/* ---- extensions that the library does not know ---- */

/* A certificate that is being read, and the extension for which it is refused. */
struct reading {
    struct slice der;
    struct slice refused;
};

static int on_extension(void *data, const mbedtls_x509_crt *crt, const mbedtls_x509_buf *oid,
                        int critical, const unsigned char *p, const unsigned char *end)
{
    struct reading *r = data;
    /* The library has a copy, which it frees when it fails. */
    struct slice id = slice_of(r->der.ptr + (oid->p - crt->raw.p), oid->len);
    if (!critical || slice_eq(id, X509_OID_CERTIFICATE_POLICIES) ||
        (slice_eq(id, X509_OID_NAME_CONSTRAINTS) &&
         name_constraints_readable(slice_of((const char *)p, (size_t)(end - p))))) {
        return 0;
    }
    r->refused = id;
    return MBEDTLS_ERR_X509_INVALID_EXTENSIONS;
}

/* ---- what is wrong with a certificate ---- */

static int refuse_key(const struct x509 *x, const char *subject, struct err *e)
{
    char key[OID_TEXT_MAX];
    x509_key_text(x, key, sizeof key);
    return err_set(e, -EINVAL,
                   "the certificate of \"%s\" has a key for %s, which " LIBRARY
                   " does not support: use one with " USABLE,
                   subject, key);
}

static int refuse_signature(const struct x509 *x, const char *subject, struct err *e)
{
    char algorithm[OID_TEXT_MAX];
    x509_oid_text(x->signature_oid, algorithm, sizeof algorithm);
    return err_set(e, -EINVAL,
                   "the certificate of \"%s\" is signed with %s, which " LIBRARY
                   " does not support: use one from an authority with " USABLE,
                   subject, algorithm);
}

static int refuse_extension(struct slice oid, const char *subject, struct err *e)
{
    char name[OID_TEXT_MAX];
    x509_oid_text(oid, name, sizeof name);
    return err_set(
        e, -EINVAL, "the certificate of \"%s\" has a critical extension that %s: %s", subject,
        slice_eq(oid, X509_OID_NAME_CONSTRAINTS) ? "cannot be read" : "is not supported", name);
}

/* Whether a code of the library is `high`, with whatever detail. */
static bool is_code(int rc, int high)
{
    return -rc / 0x80 == -high / 0x80;
}

static int refuse(const struct reading *r, int rc, struct err *e)
{
    char subject[SUBJECT_MAX];
    struct x509 x;
    if (is_code(rc, MBEDTLS_ERR_X509_ALLOC_FAILED) || is_code(rc, MBEDTLS_ERR_PK_ALLOC_FAILED)) {
        return err_memory(e);
    }
    if (!x509_read(r->der, &x)) {
        return tls_error(e, -EINVAL, "it is malformed", rc);
    }
    x509_subject_text(&x, subject, sizeof subject);
    if (r->refused.len > 0) {
        return refuse_extension(r->refused, subject, e);
    }
    if (is_code(rc, MBEDTLS_ERR_X509_UNKNOWN_SIG_ALG)) {
        return refuse_signature(&x, subject, e);
    }
    if (is_code(rc, MBEDTLS_ERR_PK_UNKNOWN_PK_ALG) ||
        is_code(rc, MBEDTLS_ERR_PK_UNKNOWN_NAMED_CURVE)) {
        return refuse_key(&x, subject, e);
    }
    rc = tls_error(e, -EINVAL, "it is malformed", rc);
    err_prefix(e, "the certificate of \"%s\"", subject);
    return rc;
}

/* Returns the library's code. */
static int parse_der(mbedtls_x509_crt *chain, const unsigned char *der, size_t len, struct err *e)
{
    struct reading r = {.der = slice_of((const char *)der, len)};
    int rc = mbedtls_x509_crt_parse_der_with_ext_cb(chain, der, len, 1, on_extension, &r);
    if (rc != 0) {
        (void)refuse(&r, rc, e);
    }
    return rc;
}

/* What the library calls for the certificates of a handshake. It has no hook for extensions there,
 * so this definition takes the place of its own: the dynamic linker finds the program's first.
 * Where mbedTLS is linked statically its own definition wins, because this one is weak, and then
 * peers that send an authority with critical name constraints are refused. */
__attribute__((weak, visibility("default"))) int
mbedtls_x509_crt_parse_der(mbedtls_x509_crt *chain, const unsigned char *buf, size_t buflen)
{
    struct err e = ERR_INIT;
    int rc = parse_der(chain, buf, buflen, &e);
    if (rc != 0 && watcher != NULL && watcher->code == 0) {
        *watcher = e;
    }
    return rc;
}

/* ---- texts ---- */

struct parse {
    mbedtls_x509_crt *chain;
    const char *log_as;
    int read;
    int left_out;
    int code; /* of the first that was left out */
    struct err *e;
};

static void leave_out(struct parse *p, const struct err *why)
{
    if (p->log_as != NULL) {
        log_warn("a certificate authority is left out", log_str("from", p->log_as),
                 log_str("reason", why->msg));
    }
    if (p->left_out++ == 0) {
        p->code = err_set(p->e, why->code, "%s", why->msg);
    }
}

static void parse_one(struct parse *p, const unsigned char *der, size_t len)
{
    struct err e = ERR_INIT;
    if (parse_der(p->chain, der, len, &e) == 0) {
        p->read++;
    } else {
        leave_out(p, &e);
    }
}

/* Takes the first block off the text. False: there is none, or nothing behind it can be found. */
static bool parse_block(struct parse *p, const unsigned char **text, size_t *len)
{
    mbedtls_pem_context pem;
    struct err e = ERR_INIT;
    size_t used = 0;
    mbedtls_pem_init(&pem);
    int rc = mbedtls_pem_read_buffer(&pem, "-----BEGIN CERTIFICATE-----",
                                     "-----END CERTIFICATE-----", *text, NULL, 0, &used);
    if (rc == 0) {
        parse_one(p, COMPAT_FIELD(&pem, buf), COMPAT_FIELD(&pem, buflen));
    } else if (rc != MBEDTLS_ERR_PEM_NO_HEADER_FOOTER_PRESENT) {
        (void)tls_error(&e, -EINVAL, "it is malformed", rc);
        leave_out(p, &e);
    }
    mbedtls_pem_free(&pem);
    *text += used;
    *len -= used;
    return used > 0 && *len > 1;
}

int certificate_parse(mbedtls_x509_crt *chain, const unsigned char *text, size_t len,
                      const char *log_as, struct err *e)
{
    struct parse p = {.chain = chain, .log_as = log_as, .e = e};
    bool pem = len > 0 && text[len - 1] == '\0' &&
               strstr((const char *)text, "-----BEGIN CERTIFICATE-----") != NULL;
    if (!pem) {
        parse_one(&p, text, len);
    }
    while (pem) {
        pem = parse_block(&p, &text, &len);
    }
    if (p.read > 0) {
        return p.left_out;
    }
    if (p.left_out == 0) {
        return err_set(e, -EINVAL, "no certificate could be read");
    }
    err_prefix(e, "no certificate could be read");
    return p.code;
}
