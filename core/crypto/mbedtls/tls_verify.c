/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/mbedtls/certificate_names.h"
#include "crypto/mbedtls/tls_internal.h"
#include "crypto/x509.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/array.h"

#define NAME_MAX_TEXT 160
#define ALGORITHM_MAX 64

/* The common name, else the first alternative name, else the whole subject. */
static void cert_label(const mbedtls_x509_name *dn, const mbedtls_x509_crt *crt, char *out,
                       size_t size)
{
    out[0] = '\0';
    for (const mbedtls_x509_name *n = dn; n != NULL; n = n->next) {
        if (MBEDTLS_OID_CMP(MBEDTLS_OID_AT_CN, &n->oid) == 0 && n->val.len > 0) {
            snprintf(out, size, "%.*s", (int)n->val.len, (const char *)n->val.p);
            for (char *c = out; *c != '\0'; c++) {
                *c = *c < 0x20 || *c > 0x7e || *c == '"' ? '?' : *c;
            }
            return;
        }
    }
    if (crt != NULL) {
        certificate_names_list(crt, out, size);
    }
    if (out[0] == '\0' && mbedtls_x509_dn_gets(out, size, dn) <= 0) {
        snprintf(out, size, "an unnamed subject");
    }
}

/* Whether its only common name is this one. */
static bool has_common_name(const mbedtls_x509_crt *crt, const char *name)
{
    size_t found = 0;
    size_t equal = 0;
    for (const mbedtls_x509_name *n = &crt->subject; n != NULL; n = n->next) {
        if (MBEDTLS_OID_CMP(MBEDTLS_OID_AT_CN, &n->oid) == 0) {
            found++;
            equal +=
                slice_eq(slice_of((const char *)n->val.p, n->val.len), slice_str(name)) ? 1 : 0;
        }
    }
    return found == 1 && equal == 1;
}

static void date_text(const mbedtls_x509_time *t, char out[32])
{
    snprintf(out, 32, "%04d-%02d-%02d %02d:%02d:%02d UTC", t->year % 10000, t->mon % 100,
             t->day % 100, t->hour % 100, t->min % 100, t->sec % 100);
}

static void now_text(char out[32])
{
    struct tm tm;
    time_t now = time(NULL);
    out[0] = '\0';
    if (gmtime_r(&now, &tm) != NULL) {
        strftime(out, 32, "%Y-%m-%d %H:%M:%S UTC", &tm);
    }
}

/* One that the peer sent may have been the missing link, if only the library could read it. */
static void say_unknown_authority(const struct tls_session *s, const mbedtls_x509_crt *crt,
                                  const char *name)
{
    char issuer[NAME_MAX_TEXT];
    const struct err *unreadable = &s->io.shown->unreadable;
    cert_label(&crt->issuer, NULL, issuer, sizeof(issuer));
    err_set(s->io.e, -EACCES,
            "certificate of \"%s\" is signed by an unknown authority, \"%s\" (CA from %s)%s%s",
            name, issuer, s->config->trust->name, unreadable->code != 0 ? "; not used: " : "",
            unreadable->msg);
}

static void say_dates(const struct tls_session *s, const mbedtls_x509_crt *crt, const char *name,
                      uint32_t flags)
{
    char date[32];
    char now[32];
    bool expired = (flags & MBEDTLS_X509_BADCERT_EXPIRED) != 0;
    now_text(now);
    date_text(expired ? &crt->valid_to : &crt->valid_from, date);
    err_set(s->io.e, -EACCES, "certificate of \"%s\" %s %s (the clock here says %s)", name,
            expired ? "expired on" : "is not valid before", date, now);
}

static void say_wrong_name(const struct tls_session *s, const mbedtls_x509_crt *crt,
                           const char *name)
{
    char names[NAME_MAX_TEXT];
    if (!s->client) {
        err_set(s->io.e, -EACCES, "certificate is that of \"%s\", and only \"%s\" is admitted",
                name, s->config->client_name);
        return;
    }
    certificate_names_list(crt, names, sizeof(names));
    if (names[0] == '\0') {
        err_set(s->io.e, -EACCES,
                "certificate of \"%s\" has no DNS or IP subject alternative names, but the server "
                "is called \"%s\"",
                name, s->config->server_name);
        return;
    }
    err_set(s->io.e, -EACCES, "certificate is for %s, but the server is called \"%s\"", names,
            s->config->server_name);
}

static void say_unacceptable(const struct tls_session *s, const mbedtls_x509_crt *crt,
                             const char *name, uint32_t flags)
{
    const char *why = "is not acceptable";
    char algorithm[ALGORITHM_MAX] = "";
    struct x509 x;
    bool read = x509_read(slice_of((const char *)crt->raw.p, crt->raw.len), &x);
    if ((flags & (MBEDTLS_X509_BADCERT_BAD_MD | MBEDTLS_X509_BADCERT_BAD_PK)) != 0) {
        why = "is signed with an algorithm that is too weak or not supported: ";
        x509_oid_text(read ? x.signature_oid : slice_of(NULL, 0), algorithm, sizeof algorithm);
    } else if ((flags & MBEDTLS_X509_BADCERT_BAD_KEY) != 0) {
        why = "has a key that is too short or of an unsupported kind: ";
        x509_key_text(&x, algorithm, sizeof algorithm);
    }
    err_set(s->io.e, -EACCES, "certificate of \"%s\" %s%s", name, why, algorithm);
}

/* `limited` is what the name constraints of an authority have against it, or has no code. */
static void say_refused(struct tls_session *s, const mbedtls_x509_crt *crt, uint32_t flags,
                        const struct err *limited)
{
    char name[NAME_MAX_TEXT];
    cert_label(&crt->subject, crt, name, sizeof(name));
    if ((flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) != 0) {
        say_unknown_authority(s, crt, name);
    } else if ((flags & (MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE)) != 0) {
        say_dates(s, crt, name, flags);
    } else if ((flags & MBEDTLS_X509_BADCERT_CN_MISMATCH) != 0) {
        say_wrong_name(s, crt, name);
    } else if (limited->code != 0) {
        err_set(s->io.e, limited->code, "%s", limited->msg);
    } else {
        say_unacceptable(s, crt, name, flags);
    }
}

static bool earlier(const mbedtls_x509_time *a, const mbedtls_x509_time *b)
{
    const int x[] = {a->year, a->mon, a->day, a->hour, a->min, a->sec};
    const int y[] = {b->year, b->mon, b->day, b->hour, b->min, b->sec};
    for (size_t i = 0; i < ARRAY_LEN(x); i++) {
        if (x[i] != y[i]) {
            return x[i] < y[i];
        }
    }
    return false;
}

/* Called from the root's end of the chain down to the peer's own certificate (depth 0), so the
 * first refusal is the one nearest the root. */
int tls_verify(void *data, mbedtls_x509_crt *crt, int depth, uint32_t *flags)
{
    struct tls_session *s = data;
    /* To the library a common name may be the host's: see tls_names.h. */
    if (depth == 0 && s->client && !certificate_names_peer(crt, &s->config->peer)) {
        *flags |= MBEDTLS_X509_BADCERT_CN_MISMATCH;
    }
    const char *admitted = s->config->client_name;
    if (depth == 0 && !s->client && admitted != NULL && !has_common_name(crt, admitted)) {
        *flags |= MBEDTLS_X509_BADCERT_CN_MISMATCH;
    }
    struct err limited = ERR_INIT;
    if (certificate_chain_add(&s->io.shown->chain, crt, &limited) != 0) {
        *flags |= MBEDTLS_X509_BADCERT_OTHER;
    }
    if (s->valid_until.year == 0 || earlier(&crt->valid_to, &s->valid_until)) {
        s->valid_until = crt->valid_to;
        s->valid_from = crt->valid_from;
    }
    if (*flags != 0 && !s->io.verify_failed) {
        s->io.verify_failed = true;
        if (s->client) {
            compat_prepare_alert(s->ssl, true);
        }
        say_refused(s, crt, *flags, &limited);
    }
    return 0;
}

void tls_verify_explain_usage(uint32_t flags, bool client, struct err *e)
{
    const char *peer = client ? "server" : "client";
    if ((flags & (MBEDTLS_X509_BADCERT_KEY_USAGE | MBEDTLS_X509_BADCERT_EXT_KEY_USAGE |
                  MBEDTLS_X509_BADCERT_NS_CERT_TYPE)) != 0) {
        err_set(e, -EACCES, "the %s's certificate is not meant for a TLS %s (key usage)", peer,
                peer);
    } else {
        err_set(e, -EACCES, "the %s's certificate has a key of an unsupported kind", peer);
    }
}
