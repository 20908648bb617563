/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/mbedtls/tls_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "base/secret.h"
#include "crypto/aead.h"
#include "crypto/mbedtls/certificate_parse.h"

#define BUNDLE_MAX (16 * 1024 * 1024)
#define TICKET_LIFETIME_S 3600

#define CHACHA20_CIPHERS                                                                           \
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,                                         \
        MBEDTLS_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
#define AES_CIPHERS                                                                                \
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,                                               \
        MBEDTLS_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,                                             \
        MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,                                           \
        MBEDTLS_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384

/* Fastest first, measured; forward secret and authenticated only. */
static const int chacha20_first[] = {COMPAT_TLS13_CIPHERS CHACHA20_CIPHERS, AES_CIPHERS, 0};
static const int aes_first[] = {COMPAT_TLS13_CIPHERS_AES_FIRST AES_CIPHERS, CHACHA20_CIPHERS, 0};

static enum tls_records_by records_by = TLS_RECORDS_OWN;

void tls_use_records(enum tls_records_by by)
{
    records_by = by;
}

bool tls_has_13(void)
{
    return COMPAT_HAS_TLS13;
}

int crypto_random(void *ctx, unsigned char *out, size_t len)
{
    (void)ctx;
    while (len > 0) {
        ssize_t n = getrandom(out, len, 0);
        if (n < 0 && errno != EINTR) {
            return MBEDTLS_ERR_SSL_INTERNAL_ERROR;
        }
        size_t got = n < 0 ? 0 : (size_t)n;
        out += got;
        len -= got;
    }
    return 0;
}

int tls_error(struct err *e, int code, const char *what, int rc)
{
    char words[128];
    mbedtls_strerror(rc, words, sizeof(words));
    if (rc == MBEDTLS_ERR_SSL_ALLOC_FAILED || rc == MBEDTLS_ERR_X509_ALLOC_FAILED ||
        rc == MBEDTLS_ERR_PK_ALLOC_FAILED) {
        return err_set(e, -ENOMEM, "%s: out of memory", what);
    }
    return err_set(e, code, "%s: %s", what, words);
}

static const char *label(const char *name, const char *otherwise)
{
    return name != NULL && name[0] != '\0' ? name : otherwise;
}

static bool is_pem(struct slice s)
{
    return memmem(s.ptr, s.len, "-----BEGIN ", strlen("-----BEGIN ")) != NULL;
}

/* ---- certificates and keys ---- */

/* The library's PEM readers want a NUL that is counted. */
static int copy_for_parser(struct slice text, struct buf *out, struct err *e)
{
    buf_init(out, BUNDLE_MAX + 1);
    int rc = text.len > BUNDLE_MAX ? -ENOBUFS : 0;
    if (rc == 0 &&
        (buf_reserve(out, text.len + 1) == NULL || buf_append(out, text.ptr, text.len) != 0 ||
         (is_pem(text) && buf_append_char(out, '\0') != 0))) {
        rc = -ENOMEM;
    }
    return rc == 0 ? 0 : err_set(e, rc, "%s", err_text(rc));
}

/* Returns how many certificates of `text` could not be read (at least one could), the first one's
 * reason being in `e`, or an error. Those of a bundle are logged. */
static int parse_certs(mbedtls_x509_crt *crt, struct slice text, const char *name, bool is_bundle,
                       struct err *e)
{
    struct buf copy;
    int rc = copy_for_parser(text, &copy, e);
    if (rc == 0) {
        rc = certificate_parse(crt, buf_data(&copy), copy.len, is_bundle ? name : NULL, e);
    }
    buf_reset(&copy);
    if (rc != 0) {
        err_prefix(e, "%s", name);
    }
    return rc;
}

/* ---- whom to trust ---- */

/* Unreadable certificates among readable ones are left out, as in Go: bundles hold oddities. */
static struct tls_trust *load_ca(struct slice ca, const char *name, struct err *e)
{
    struct err why = ERR_INIT;
    struct tls_trust *t = calloc(1, sizeof *t);
    if (t == NULL) {
        err_memory(e);
        return NULL;
    }
    t->refs = 1;
    mbedtls_x509_crt_init(&t->ca);
    t->name = strdup(label(name, "the given CA"));
    int rc = t->name == NULL ? err_memory(&why) : parse_certs(&t->ca, ca, t->name, true, &why);
    if (rc < 0) {
        (void)err_set(e, rc, "%s", why.msg);
        tls_trust_unref(t);
        return NULL;
    }
    return t;
}

static const char *find_bundle(void)
{
    static const char *const paths[] = {
        "/etc/ssl/certs/ca-certificates.crt",                /* Debian, Alpine */
        "/etc/pki/tls/certs/ca-bundle.crt",                  /* Fedora, RHEL 6 */
        "/etc/ssl/ca-bundle.pem",                            /* openSUSE */
        "/etc/pki/tls/cacert.pem",                           /* OpenELEC */
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* RHEL 7 */
        "/etc/ssl/cert.pem",                                 /* Alpine */
    };
    const char *given = getenv("SSL_CERT_FILE");
    if (given != NULL && given[0] != '\0') {
        return given;
    }
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        if (access(paths[i], R_OK) == 0) {
            return paths[i];
        }
    }
    return NULL;
}

static struct tls_trust *load_system_ca(struct err *e)
{
    const char *path = find_bundle();
    if (path == NULL) {
        err_set(e, -ENOENT,
                "no CA is given and the system has no bundle of root certificates (such as "
                "/etc/ssl/certs/ca-certificates.crt)");
        return NULL;
    }
    struct buf text = BUF_INIT(BUNDLE_MAX);
    struct tls_trust *t = NULL;
    if (file_read(path, &text, e) == 0) {
        t = load_ca(buf_slice(&text), path, e);
    }
    buf_reset(&text);
    return t;
}

struct tls_trust *tls_trust_new(struct slice ca, const char *ca_name, struct err *e)
{
    if (compat_init() != 0) {
        err_set(e, -EINVAL, "the TLS library cannot be started");
        return NULL;
    }
    return ca.len > 0 ? load_ca(ca, ca_name, e) : load_system_ca(e);
}

void tls_trust_unref(struct tls_trust *t)
{
    if (t != NULL && --t->refs == 0) {
        mbedtls_x509_crt_free(&t->ca);
        free(t->name);
        free(t);
    }
}

/* Takes the reference. NULL: `e` is set. */
static int set_trust(struct tls_config *c, struct tls_trust *t, struct err *e)
{
    c->trust = t;
    if (t == NULL) {
        return e->code;
    }
    mbedtls_ssl_conf_ca_chain(&c->conf, &t->ca, NULL);
    mbedtls_ssl_conf_authmode(&c->conf, MBEDTLS_SSL_VERIFY_REQUIRED);
    return 0;
}

static int load_key(struct tls_config *c, struct slice key, const char *name, struct err *e)
{
    struct buf copy;
    int rc = copy_for_parser(key, &copy, e);
    if (rc == 0) {
        rc = compat_parse_key(&c->key, buf_data(&copy), copy.len);
        if (rc == MBEDTLS_ERR_PK_PASSWORD_REQUIRED) {
            rc = err_set(e, -EINVAL, "the private key is encrypted; a plain one is needed");
        } else if (rc != 0) {
            rc = tls_error(e, -EINVAL, "no private key could be read", rc);
        }
    }
    secret_buf_reset(&copy);
    if (rc != 0) {
        err_prefix(e, "%s", name);
    }
    return rc;
}

/* A certificate chain and its key: both or, unless `required`, neither. */
static int load_own(struct tls_config *c, struct slice cert, const char *cert_name,
                    struct slice key, const char *key_name, bool required, struct err *e)
{
    cert_name = label(cert_name, "the certificate");
    key_name = label(key_name, "the private key");
    if (cert.len == 0 && key.len == 0 && !required) {
        return 0;
    }
    if (cert.len == 0 || key.len == 0) {
        return err_set(e, -EINVAL, "%s is empty", cert.len == 0 ? cert_name : key_name);
    }
    int rc = parse_certs(&c->cert, cert, cert_name, false, e);
    rc = rc > 0 ? -EINVAL : rc;
    if (rc == 0) {
        rc = load_key(c, key, key_name, e);
    }
    if (rc != 0) {
        return rc;
    }
    if (compat_check_pair(&c->cert.pk, &c->key) != 0) {
        return err_set(e, -EINVAL, "the private key of %s does not belong to the certificate of %s",
                       key_name, cert_name);
    }
    rc = mbedtls_ssl_conf_own_cert(&c->conf, &c->cert, &c->key);
    return rc == 0 ? 0 : tls_error(e, -EINVAL, cert_name, rc);
}

/* ---- configs ---- */

static void alpn_free(char **list)
{
    for (char **p = list; p != NULL && *p != NULL; p++) {
        free(*p);
    }
    free(list);
}

static int copy_alpn(struct tls_config *c, const char *const *alpn, struct err *e)
{
    size_t n = 0;
    if (alpn == NULL) {
        return 0;
    }
    while (alpn[n] != NULL) {
        n++;
    }
    c->alpn = calloc(n + 1, sizeof(*c->alpn));
    if (c->alpn == NULL) {
        return err_memory(e);
    }
    for (size_t i = 0; i < n; i++) {
        c->alpn[i] = strdup(alpn[i]);
        if (c->alpn[i] == NULL) {
            return err_memory(e);
        }
    }
    int rc = mbedtls_ssl_conf_alpn_protocols(&c->conf, (const char **)c->alpn);
    return rc == 0 ? 0 : tls_error(e, -EINVAL, "ALPN", rc);
}

static void config_free(struct tls_config *c)
{
    mbedtls_ssl_config_free(&c->conf);
    mbedtls_ssl_ticket_free(&c->tickets);
    mbedtls_ssl_session_free(&c->resumable);
    mbedtls_x509_crt_free(&c->cert);
    mbedtls_pk_free(&c->key);
    alpn_free(c->alpn);
    tls_trust_unref(c->trust);
    free(c->server_name);
    free(c->client_name);
    free(c);
}

static struct tls_config *config_alloc(int endpoint, struct err *e)
{
    struct tls_config *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        err_memory(e);
        return NULL;
    }
    c->refs = 1;
    mbedtls_ssl_config_init(&c->conf);
    mbedtls_ssl_ticket_init(&c->tickets);
    mbedtls_ssl_session_init(&c->resumable);
    mbedtls_x509_crt_init(&c->cert);
    mbedtls_pk_init(&c->key);
    int rc = compat_init();
    if (rc == 0) {
        rc = mbedtls_ssl_config_defaults(&c->conf, endpoint, MBEDTLS_SSL_TRANSPORT_STREAM,
                                         MBEDTLS_SSL_PRESET_DEFAULT);
    }
    if (rc != 0) {
        tls_error(e, -EINVAL, "TLS defaults", rc);
        config_free(c);
        return NULL;
    }
    mbedtls_ssl_conf_rng(&c->conf, crypto_random, NULL);
    c->hands_over = records_by == TLS_RECORDS_OWN && aead_usable();
    mbedtls_ssl_conf_ciphersuites(&c->conf,
                                  c->hands_over && aead_prefers_aes() ? aes_first : chacha20_first);
    if (c->hands_over) {
        tls_config_export_keys(c);
    }
    mbedtls_ssl_conf_renegotiation(&c->conf, MBEDTLS_SSL_RENEGOTIATION_DISABLED);
    compat_conf_groups(&c->conf);
    compat_conf_signatures(&c->conf);
    compat_conf_versions(&c->conf);
    return c;
}

static int set_server_name(struct tls_config *c, const char *name, struct err *e)
{
    if (name == NULL || name[0] == '\0') {
        return c->insecure ? 0 : err_set(e, -EINVAL, "TLS needs the server's name");
    }
    c->server_name = strdup(name);
    if (c->server_name == NULL) {
        return err_memory(e);
    }
    size_t len = strlen(name);
    if (len > 1 && name[len - 1] == '.') {
        c->server_name[len - 1] = '\0';
    }
    tls_peer_name_init(&c->peer, c->server_name);
    return 0;
}

static int set_client_trust(struct tls_config *c, const struct tls_client_options *o, struct err *e)
{
    if (o->insecure) {
        mbedtls_ssl_conf_authmode(&c->conf, MBEDTLS_SSL_VERIFY_NONE);
        return 0;
    }
    if (o->trust != NULL) {
        o->trust->refs++;
        return set_trust(c, o->trust, e);
    }
    return set_trust(c, tls_trust_new(o->ca, o->ca_name, e), e);
}

struct tls_config *tls_config_new_client(const struct tls_client_options *o, struct err *e)
{
    struct tls_config *c = config_alloc(MBEDTLS_SSL_IS_CLIENT, e);
    if (c == NULL) {
        return NULL;
    }
    c->insecure = o->insecure;
    if (set_server_name(c, o->server_name, e) != 0 || set_client_trust(c, o, e) != 0 ||
        load_own(c, o->cert, o->cert_name, o->key, o->key_name, false, e) != 0 ||
        copy_alpn(c, o->alpn, e) != 0) {
        config_free(c);
        return NULL;
    }
    return c;
}

static int take_ticket(void *data, mbedtls_ssl_session *session, unsigned char *buf, size_t len)
{
    struct tls_config *c = data;
    int rc = mbedtls_ssl_ticket_parse(&c->tickets, session, buf, len);
    c->ticket_taken = rc == 0;
    return rc;
}

static int give_ticket(void *data, const mbedtls_ssl_session *session, unsigned char *start,
                       const unsigned char *end, size_t *len, uint32_t *lifetime)
{
    struct tls_config *c = data;
    return mbedtls_ssl_ticket_write(&c->tickets, session, start, end, len, lifetime);
}

static int set_tickets(struct tls_config *c, struct err *e)
{
    int rc = mbedtls_ssl_ticket_setup(&c->tickets, crypto_random, NULL, MBEDTLS_CIPHER_AES_256_GCM,
                                      TICKET_LIFETIME_S);
    if (rc != 0) {
        return tls_error(e, -EINVAL, "session tickets", rc);
    }
    mbedtls_ssl_conf_session_tickets_cb(&c->conf, give_ticket, take_ticket, c);
    return 0;
}

static int set_server_trust(struct tls_config *c, const struct tls_server_options *o, struct err *e)
{
    if (o->client_ca.len == 0) {
        mbedtls_ssl_conf_authmode(&c->conf, MBEDTLS_SSL_VERIFY_NONE);
        return 0;
    }
    if (o->client_name != NULL) {
        c->client_name = strdup(o->client_name);
        if (c->client_name == NULL) {
            return err_memory(e);
        }
    }
    return set_trust(c, load_ca(o->client_ca, label(o->client_ca_name, "the client CA"), e), e);
}

/* The library would refuse only later, at every handshake, and without words. */
static int check_server_usage(const struct tls_config *c, const char *cert_name, struct err *e)
{
    if (mbedtls_x509_crt_check_extended_key_usage(&c->cert, MBEDTLS_OID_SERVER_AUTH,
                                                  MBEDTLS_OID_SIZE(MBEDTLS_OID_SERVER_AUTH)) != 0 ||
        mbedtls_x509_crt_check_key_usage(&c->cert, MBEDTLS_X509_KU_DIGITAL_SIGNATURE) != 0) {
        return err_set(e, -EINVAL, "%s: the certificate is not meant for a TLS server (key usage)",
                       label(cert_name, "the certificate"));
    }
    return 0;
}

struct tls_config *tls_config_new_server(const struct tls_server_options *o, struct err *e)
{
    struct tls_config *c = config_alloc(MBEDTLS_SSL_IS_SERVER, e);
    if (c == NULL) {
        return NULL;
    }
    c->server = true;
    if (load_own(c, o->cert, o->cert_name, o->key, o->key_name, true, e) != 0 ||
        check_server_usage(c, o->cert_name, e) != 0 || set_server_trust(c, o, e) != 0 ||
        set_tickets(c, e) != 0 || copy_alpn(c, o->alpn, e) != 0) {
        config_free(c);
        return NULL;
    }
    return c;
}

struct tls_config *tls_config_ref(struct tls_config *c)
{
    if (c != NULL) {
        c->refs++;
    }
    return c;
}

void tls_config_unref(struct tls_config *c)
{
    if (c != NULL && --c->refs == 0) {
        config_free(c);
    }
}
