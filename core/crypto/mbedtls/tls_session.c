/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/mbedtls/tls_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/state_machine.h"
#include "crypto/mbedtls/certificate_parse.h"
#include "crypto/tls_alert.h"
#include "crypto/tls_records.h"

/* Header 5, explicit nonce 8, tag 16; with some room. */
#define RECORD_OVERHEAD 40

static const struct state_machine machine = {
    .object = "TLS session",
    .states = {[TLS_SHAKING] = {"Shaking", STATE(TLS_OPEN) | STATE(TLS_DEAD)},
               [TLS_OPEN] = {"Open", STATE(TLS_ENDED) | STATE(TLS_DEAD)},
               [TLS_ENDED] = {"Ended", STATE(TLS_DEAD)},
               [TLS_DEAD] = {"Dead", 0}},
};

static void set_state(struct tls_session *s, enum tls_state next)
{
    s->state = state_change(&machine, s->state, next, SLICE(""));
}

/* ---- the library's I/O: memory only ---- */

static int on_recv(void *data, unsigned char *to, size_t len)
{
    struct tls_session *s = data;
    struct slice *in = s->io.in;
    /* The very first read is for a record's header, and so is every one at the same place. */
    s->in_base = s->in_base == NULL ? to : s->in_base;
    if (in == NULL) {
        return MBEDTLS_ERR_SSL_WANT_READ;
    }
    s->between_records = to == s->in_base && in->len == 0;
    if (in->len == 0) {
        return MBEDTLS_ERR_SSL_WANT_READ;
    }
    if (!s->heard) {
        s->heard = true;
        s->not_tls = in->ptr[0] != MBEDTLS_SSL_MSG_HANDSHAKE && in->ptr[0] != MBEDTLS_SSL_MSG_ALERT;
    }
    len = len < in->len ? len : in->len;
    len = len < INT_MAX ? len : INT_MAX;
    memcpy(to, in->ptr, len);
    in->ptr += len;
    in->len -= len;
    return (int)len;
}

static int on_send(void *data, const unsigned char *from, size_t len)
{
    struct tls_session *s = data;
    s->out_base = (unsigned char *)(uintptr_t)from;
    len = len < INT_MAX ? len : INT_MAX;
    if (compat_sends_no_certificate(s->ssl)) {
        return (int)len; /* see ensure_alert */
    }
    s->io.alert_sent = from[0] == MBEDTLS_SSL_MSG_ALERT;
    s->io.send_rc = buf_append(s->io.out, from, len);
    return s->io.send_rc == 0 ? (int)len : MBEDTLS_ERR_SSL_INTERNAL_ERROR;
}

static void begin_io(struct tls_session *s, struct slice *in, struct buf *out, struct err *e)
{
    s->io = (struct tls_io){.in = in, .out = out, .e = e};
}

static void end_io(struct tls_session *s)
{
    s->io = (struct tls_io){.in = NULL};
}

/* ---- sessions ---- */

static bool may_resume(const struct tls_config *c)
{
    return c->has_resumable && (c->insecure || mbedtls_x509_time_is_past(&c->resumable_until) == 0);
}

static int session_setup(struct tls_session *s)
{
    struct tls_config *c = s->config;
    s->ssl = malloc(sizeof *s->ssl);
    if (s->ssl == NULL) {
        return MBEDTLS_ERR_SSL_ALLOC_FAILED;
    }
    mbedtls_ssl_init(s->ssl);
    int rc = mbedtls_ssl_setup(s->ssl, &c->conf);
    if (rc != 0) {
        return rc;
    }
    /* Without memory for them the library makes the records. */
    s->exported = c->hands_over ? tls_exported_new() : NULL;
    tls_export_keys(s);
    mbedtls_ssl_set_bio(s->ssl, s, on_send, on_recv, NULL);
    mbedtls_ssl_set_verify(s->ssl, tls_verify, s);
    if (!s->client) {
        return 0;
    }
    /* Sent as SNI, where addresses have no place (RFC 6066 section 3). */
    rc = mbedtls_ssl_set_hostname(s->ssl, c->peer.dns);
    if (rc == 0 && may_resume(c)) {
        rc = mbedtls_ssl_set_session(s->ssl, &c->resumable);
        s->valid_until = c->resumable_until;
        s->valid_from = c->resumable_from;
    }
    return rc;
}

struct tls_session *tls_session_new(struct tls_config *c, struct err *e)
{
    struct tls_session *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        err_memory(e);
        return NULL;
    }
    s->config = tls_config_ref(c);
    s->client = !c->server;
    int rc = session_setup(s);
    if (rc != 0) {
        tls_error(e, -EPROTO, "TLS", rc);
        tls_session_free(s);
        return NULL;
    }
    return s;
}

void tls_session_free_library(struct tls_session *s)
{
    if (s->ssl != NULL) {
        s->alpn = tls_session_alpn(s);
        mbedtls_ssl_free(s->ssl);
        free(s->ssl);
        s->ssl = NULL;
    }
}

void tls_session_free(struct tls_session *s)
{
    if (s != NULL) {
        tls_session_free_library(s);
        tls_exported_free(s->exported);
        tls_records_free(s->records);
        tls_config_unref(s->config);
        free(s);
    }
}

/* ---- failures ---- */

/* Flags that the library raises after the verification callback has run. */
static bool usage_refused(const struct tls_session *s)
{
    uint32_t flags = mbedtls_ssl_get_verify_result(s->ssl);
    return flags != UINT32_MAX &&
           (flags & (MBEDTLS_X509_BADCERT_KEY_USAGE | MBEDTLS_X509_BADCERT_EXT_KEY_USAGE |
                     MBEDTLS_X509_BADCERT_NS_CERT_TYPE | MBEDTLS_X509_BADCERT_BAD_KEY)) != 0;
}

static void explain(const struct tls_session *s, int rc)
{
    struct err *e = s->io.e;
    bool shaking = s->state == TLS_SHAKING;
    if (s->io.verify_failed) {
        return;
    }
    if (s->io.send_rc != 0) {
        err_set(e, s->io.send_rc, "no room for what TLS has to send");
    } else if (rc == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE) {
        tls_alert_error(e, s->client, shaking, compat_alert(s->ssl));
    } else if (shaking && compat_alert_in_clear(s->ssl, rc) >= 0) {
        tls_alert_error(e, s->client, shaking, compat_alert_in_clear(s->ssl, rc));
    } else if (shaking && s->io.shown->unreadable.code != 0) {
        err_set(e, -EACCES, "%s", s->io.shown->unreadable.msg);
    } else if (rc == MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE) {
        err_set(e, -EACCES, "the client showed no certificate");
    } else if (shaking && usage_refused(s)) {
        tls_verify_explain_usage(mbedtls_ssl_get_verify_result(s->ssl), s->client, e);
    } else if (shaking && !s->client && compat_has_nothing_in_common(rc)) {
        err_set(e, -EPROTO,
                "the client offers no version or no cipher of TLS that is spoken here (%s)",
                tls_has_13() ? "TLS 1.2 and 1.3"
                             : "TLS 1.2; TLS 1.3 needs a build on Debian 13, such as the images");
    } else if (s->not_tls) {
        err_set(e, -EPROTO, "the %s does not speak TLS (plain HTTP?)",
                s->client ? "server" : "client");
    } else {
        tls_error(e, -EPROTO, shaking ? "TLS handshake" : "TLS", rc);
    }
}

/* The library ends some handshakes without a word; the peer would wait. */
static void ensure_alert(struct tls_session *s, int rc)
{
    unsigned char description = MBEDTLS_SSL_ALERT_MSG_DECODE_ERROR;
    if (rc == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE || s->io.alert_sent || s->io.send_rc != 0 ||
        (s->state == TLS_SHAKING && compat_alert_in_clear(s->ssl, rc) >= 0)) {
        return;
    }
    if (rc == MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE && compat_is_tls13(s->ssl)) {
        description = TLS_ALERT_CERTIFICATE_REQUIRED; /* RFC 8446 section 4.4.2.4 */
        compat_prepare_alert(s->ssl, s->client);
    } else if (rc == MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE) {
        description = MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE; /* RFC 5246 section 7.4.6 */
    }
    (void)mbedtls_ssl_send_alert_message(s->ssl, MBEDTLS_SSL_ALERT_LEVEL_FATAL, description);
}

static enum tls_result failed(struct tls_session *s, int rc)
{
    explain(s, rc);
    ensure_alert(s, rc);
    set_state(s, TLS_DEAD);
    return TLS_FAILED;
}

static enum tls_result unusable(struct err *e)
{
    err_set(e, -EPROTO, "the TLS session is not open");
    return TLS_FAILED;
}

bool tls_config_peer_validity(const struct tls_config *c, int64_t *from, int64_t *until)
{
    if (!c->has_resumable || c->resumable_until.year == 0) {
        return false;
    }
    *from = certificate_seconds(&c->resumable_from);
    *until = certificate_seconds(&c->resumable_until);
    return true;
}

/* ---- handshake ---- */

/* Keeps the session for the config's next connections. Failing costs them a full handshake. */
static void remember(struct tls_session *s)
{
    struct tls_config *c = s->config;
    mbedtls_ssl_session fresh;
    mbedtls_ssl_session_init(&fresh);
    if (mbedtls_ssl_get_session(s->ssl, &fresh) != 0) {
        mbedtls_ssl_session_free(&fresh);
        return;
    }
    mbedtls_ssl_session_free(&c->resumable);
    c->resumable = fresh;
    c->resumable_until = s->valid_until;
    c->resumable_from = s->valid_from;
    c->has_resumable = true;
}

static void established(struct tls_session *s)
{
    if (s->client) {
        /* Only a full handshake shows a certificate, and remembered sessions have none. */
        s->resumed = mbedtls_ssl_get_peer_cert(s->ssl) == NULL;
    }
    compat_session_drop_peer(compat_session(s->ssl));
    if (s->client && !compat_is_tls13(s->ssl)) {
        remember(s); /* TLS 1.3 has something to remember only when a ticket comes */
    }
    set_state(s, TLS_OPEN);
    /* Tickets come right behind the handshake of TLS 1.3, and the library reads them. */
    if (!s->client || !compat_is_tls13(s->ssl)) {
        tls_hand_over(s);
    }
    /* The handshake's records were large, those of a watch may never be. */
    s->between_records = true;
    tls_session_idle(s);
}

enum tls_result tls_session_handshake(struct tls_session *s, struct slice *in, struct buf *out,
                                      struct err *e)
{
    enum tls_result r = TLS_OK;
    struct tls_shown shown = {.unreadable = ERR_INIT};
    if (s->state != TLS_SHAKING) {
        return s->state == TLS_OPEN ? TLS_OK : unusable(e);
    }
    begin_io(s, in, out, e);
    s->io.shown = &shown;
    s->config->ticket_taken = false;
    s->config->shaking = s;
    certificate_parse_watch(&shown.unreadable);
    int rc = mbedtls_ssl_handshake(s->ssl);
    certificate_parse_watch(NULL);
    s->config->shaking = NULL;
    s->resumed = s->resumed || s->config->ticket_taken;
    if (rc == 0) {
        established(s);
    } else if (rc == MBEDTLS_ERR_SSL_WANT_READ) {
        r = TLS_MORE;
        if (!s->client) {
            compat_prepare_alert(s->ssl, false);
        }
    } else if (rc == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY) {
        set_state(s, TLS_DEAD);
        r = TLS_CLOSED;
    } else {
        r = failed(s, rc);
    }
    end_io(s);
    return r;
}

/* ---- data ---- */

/* Whether to repeat a call because a ticket of TLS 1.3 came, which may be at any time. */
static bool take_ticket(struct tls_session *s, bool met, int rc)
{
    if (compat_has_ticket(rc)) {
        remember(s);
        return true;
    }
    return rc == MBEDTLS_ERR_SSL_WANT_READ && !met && compat_meets_ticket(s->ssl);
}

static int read_some(struct tls_session *s, void *data, size_t len)
{
    bool met;
    int rc;
    do {
        met = compat_meets_ticket(s->ssl);
        rc = mbedtls_ssl_read(s->ssl, data, len);
    } while (take_ticket(s, met, rc));
    return rc;
}

static int write_some(struct tls_session *s, const unsigned char *data, size_t len)
{
    bool met;
    int rc;
    do {
        met = compat_meets_ticket(s->ssl);
        rc = mbedtls_ssl_write(s->ssl, data, len);
    } while (take_ticket(s, met, rc));
    return rc;
}

static enum tls_result read_own(struct tls_session *s, struct slice *in, void *data, size_t len,
                                size_t *got, struct buf *out, struct err *e)
{
    enum tls_result r = tls_records_read(s->records, in, data, len, got, out, e);
    if (r == TLS_CLOSED) {
        set_state(s, TLS_ENDED);
    } else if (r == TLS_FAILED) {
        set_state(s, TLS_DEAD);
    }
    return r;
}

/* A new key that comes before any data is one that the library does not know what to do with. */
static bool takes_key_update(struct tls_session *s, int rc, struct buf *out)
{
    uint8_t wish = 0;
    if (!compat_has_key_update(s->ssl, rc, &wish)) {
        return false;
    }
    tls_hand_over(s);
    if (s->records == NULL) {
        return false;
    }
    tls_records_take_key_update(s->records, wish, out);
    return true;
}

static enum tls_result read_library(struct tls_session *s, struct slice *in, void *data, size_t len,
                                    size_t *got, struct buf *out, struct err *e)
{
    enum tls_result r = TLS_OK;
    begin_io(s, in, out, e);
    int rc = read_some(s, data, len < INT_MAX ? len : INT_MAX);
    if (rc > 0) {
        *got = (size_t)rc;
        tls_hand_over(s);
    } else if (takes_key_update(s, rc, out)) {
        r = read_own(s, in, data, len, got, out, e);
    } else if (rc == MBEDTLS_ERR_SSL_WANT_READ) {
        r = TLS_MORE;
    } else if (rc == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY) {
        set_state(s, TLS_ENDED);
        r = TLS_CLOSED;
    } else {
        r = failed(s, rc);
    }
    end_io(s);
    return r;
}

enum tls_result tls_session_read(struct tls_session *s, struct slice *in, void *data, size_t len,
                                 size_t *got, struct buf *out, struct err *e)
{
    *got = 0;
    if (s->state == TLS_ENDED) {
        return TLS_CLOSED;
    }
    if (s->state != TLS_OPEN) {
        return unusable(e);
    }
    return s->records != NULL ? read_own(s, in, data, len, got, out, e)
                              : read_library(s, in, data, len, got, out, e);
}

static bool may_write(const struct tls_session *s)
{
    return (s->state == TLS_OPEN || s->state == TLS_ENDED) && !s->close_sent;
}

/* Makes all the room first, so that a refused write leaves the session as it was. */
static int make_room(const struct tls_session *s, size_t len, struct buf *out, struct err *e)
{
    int payload = mbedtls_ssl_get_max_out_record_payload(s->ssl);
    size_t record = payload > 0 ? (size_t)payload : TLS_RECORD_DATA_MAX;
    size_t need = len + (len / record + 1) * RECORD_OVERHEAD;
    if (need > out->max - out->len) {
        return err_set(e, -ENOBUFS, "no room for encrypted data");
    }
    if (buf_reserve(out, need) == NULL) {
        return err_memory(e);
    }
    return 0;
}

static int write_library(struct tls_session *s, const unsigned char *from, size_t len,
                         struct buf *out, struct err *e)
{
    int rc = make_room(s, len, out, e);
    if (rc != 0) {
        return rc;
    }
    begin_io(s, NULL, out, e);
    while (len > 0 && rc >= 0) {
        rc = write_some(s, from, len);
        from += rc > 0 ? rc : 0;
        len -= rc > 0 ? (size_t)rc : 0;
    }
    if (rc < 0) {
        failed(s, rc);
    }
    end_io(s);
    return rc < 0 ? -EPROTO : 0;
}

static int write_own(struct tls_session *s, const void *data, size_t len, struct buf *out,
                     struct err *e)
{
    int rc = tls_records_write(s->records, data, len, out, e);
    if (rc == -EPROTO) {
        set_state(s, TLS_DEAD);
    }
    return rc;
}

int tls_session_write(struct tls_session *s, const void *data, size_t len, struct buf *out,
                      struct err *e)
{
    if (!may_write(s)) {
        return err_set(e, -EPROTO, "the TLS session is not open");
    }
    return s->records != NULL ? write_own(s, data, len, out, e)
                              : write_library(s, data, len, out, e);
}

void tls_session_shutdown(struct tls_session *s, struct buf *out)
{
    if (!may_write(s)) {
        return;
    }
    s->close_sent = true;
    if (s->records != NULL) {
        tls_records_shutdown(s->records, out);
        return;
    }
    begin_io(s, NULL, out, NULL);
    /* Without room or memory for it the peer sees the connection end without notice. */
    (void)mbedtls_ssl_close_notify(s->ssl);
    end_io(s);
}

/* ---- what was agreed on ---- */

const char *tls_session_alpn(const struct tls_session *s)
{
    return s->ssl == NULL ? s->alpn : mbedtls_ssl_get_alpn_protocol(s->ssl);
}

bool tls_session_resumed(const struct tls_session *s)
{
    return s->resumed;
}
