/* SPDX-License-Identifier: Apache-2.0 */
#include "listen/listener_secrets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/file_state.h"
#include "base/log.h"
#include "base/secret.h"
#include "crypto/digest.h"
#include "kube/client/expiry.h"
#include "listen/local_certificate.h"
#include "net/timer.h"
#include "program/local_tls.h"
#include "program/local_token.h"

enum {
    CHECK_MS = 10000,
    SECRET_FILE_MAX = 1024 * 1024,
    BASIC_MAX = 2 * SECRET_FILE_MAX, /* a token with its user name, encoded */
    FILE_NAME_SIZE = 256,            /* in messages */
};

struct listener_secrets {
    const struct localproxy_flags *flags;
    struct buf token;
    struct buf basic;
    struct tls_config *tls;
    struct file_state token_state;
    struct file_state cert_state;
    struct file_state key_state;
    struct validity valid;   /* of --listen-tls-cert */
    struct health *health;   /* may be NULL */
    char *authority;         /* the path of its certificate; NULL: without --local-tls */
    int64_t renew_at;        /* what it has signed; seconds since 1970 */
    struct net_timer *timer; /* NULL: there is no file to look at */
    uint64_t check_ms;
    listener_secrets_tls_cb on_tls;
    void *data;
};

static int read_file(const char *flag, const char *path, struct buf *out, struct err *e)
{
    if (buf_reserve(out, SECRET_FILE_MAX) == NULL) { /* whole, so that nothing is left behind */
        return err_memory(e);
    }
    int rc = file_read(path, out, e);
    if (rc != 0) {
        err_prefix(e, "%s", flag);
    }
    return rc;
}

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static int encode_basic(const struct buf *token, struct buf *out)
{
    struct buf text = BUF_INIT(BASIC_MAX);
    int rc = buf_reserve(&text, sizeof LOCAL_TOKEN_USER + token->len) == NULL ? -ENOMEM : 0;
    buf_append_str(&text, LOCAL_TOKEN_USER ":");
    if (rc == 0) {
        rc = buf_append(&text, buf_data(token), token->len);
    }
    if (rc == 0) {
        rc = base64_encode(buf_slice(&text), out);
    }
    secret_buf_reset(&text);
    return rc;
}

/* Replaces the token when the file holds one. */
static int read_token(struct listener_secrets *s, struct err *e)
{
    struct buf token = BUF_INIT(SECRET_FILE_MAX);
    int rc = read_file("--token-file", s->flags->token_file, &token, e);
    if (rc == 0) {
        while (token.len > 0 && is_space(buf_data(&token)[token.len - 1])) {
            token.len--;
        }
        rc = token.len > 0
                 ? 0
                 : err_set(e, -EINVAL, "--token-file: %s: contains no token", s->flags->token_file);
    }
    struct buf basic = BUF_INIT(BASIC_MAX);
    if (rc == 0 && encode_basic(&token, &basic) != 0) {
        rc = err_memory(e);
    }
    if (rc != 0) {
        secret_buf_reset(&token);
        secret_buf_reset(&basic);
        return rc;
    }
    secret_buf_reset(&s->token);
    secret_buf_reset(&s->basic);
    s->token = token;
    s->basic = basic;
    return 0;
}

static struct tls_config *make_tls(const struct localproxy_flags *f, struct slice cert,
                                   struct slice key, struct err *e)
{
    static const char *const alpn[] = {"http/1.1", NULL};
    char cert_name[FILE_NAME_SIZE];
    char key_name[FILE_NAME_SIZE];
    (void)snprintf(cert_name, sizeof cert_name, "--listen-tls-cert=%s", f->listen_tls_cert);
    (void)snprintf(key_name, sizeof key_name, "--listen-tls-key=%s", f->listen_tls_key);
    const struct tls_server_options o = {
        .cert = cert,
        .cert_name = cert_name,
        .key = key,
        .key_name = key_name,
        .alpn = alpn,
    };
    return tls_config_new_server(&o, e);
}

/* Replaces the configuration when the files hold a pair. */
static int read_tls(struct listener_secrets *s, struct err *e)
{
    struct buf cert = BUF_INIT(SECRET_FILE_MAX);
    struct buf key = BUF_INIT(SECRET_FILE_MAX);
    struct tls_config *tls = NULL;
    if (read_file("--listen-tls-cert", s->flags->listen_tls_cert, &cert, e) == 0 &&
        read_file("--listen-tls-key", s->flags->listen_tls_key, &key, e) == 0) {
        tls = make_tls(s->flags, buf_slice(&cert), buf_slice(&key), e);
    }
    if (tls != NULL) {
        s->valid = validity_of_certificate(buf_slice(&cert));
    }
    buf_reset(&cert);
    secret_buf_reset(&key);
    if (tls == NULL) {
        return e->code;
    }
    tls_config_unref(s->tls);
    s->tls = tls;
    return 0;
}

/* Replaces the configuration by what the authority signs now. */
static int read_local(struct listener_secrets *s, struct err *e)
{
    bool made = false;
    struct tls_config *tls =
        local_certificate_new(s->flags, (int64_t)time(NULL), &s->renew_at, &made, e);
    if (made) {
        log_info("made an authority: kubeconfigs that name another are to be written anew",
                 log_str("path", s->authority));
    }
    (void)file_state_changed(&s->cert_state, s->authority);
    if (tls == NULL) {
        return e->code;
    }
    tls_config_unref(s->tls);
    s->tls = tls;
    return 0;
}

/* ---- while it runs ---- */

static void look_at_token(struct listener_secrets *s)
{
    struct err e = ERR_INIT;
    if (!file_state_changed(&s->token_state, s->flags->token_file)) {
        return;
    }
    if (read_token(s, &e) == 0) {
        log_info("the token was read again", log_str("path", s->flags->token_file));
    } else {
        log_warn("the token file cannot be used; the last token stays in use",
                 log_str("error", e.msg));
    }
}

/* What came of reading a certificate again. */
static void use_tls(const struct listener_secrets *s, const char *path, const struct err *e)
{
    if (e->code != 0) {
        log_warn("the listener's new certificate cannot be used; the last one stays in use",
                 log_str("error", e->msg));
        return;
    }
    log_info("the listener's certificate was read again", log_str("path", path));
    if (s->on_tls != NULL) {
        s->on_tls(s->data);
    }
}

static void look_at_expiry(const struct listener_secrets *s)
{
    char subject[FILE_NAME_SIZE + 64];
    if (s->health == NULL || s->flags->listen_tls_cert == NULL) {
        return;
    }
    (void)snprintf(subject, sizeof subject, "the certificate for clients, --listen-tls-cert=%.255s",
                   s->flags->listen_tls_cert);
    expiry_judge(s->health, subject, &s->valid, (int64_t)time(NULL),
                 "write a new one with its key into the files, which are read again by themselves");
}

static void on_timer(void *data)
{
    struct listener_secrets *s = data;
    struct err e = ERR_INIT;
    if (s->flags->token_file != NULL) {
        look_at_token(s);
    }
    if (s->flags->listen_tls_cert != NULL) {
        bool cert = file_state_changed(&s->cert_state, s->flags->listen_tls_cert);
        bool key = file_state_changed(&s->key_state, s->flags->listen_tls_key);
        if (cert || key) {
            (void)read_tls(s, &e);
            use_tls(s, s->flags->listen_tls_cert, &e);
        }
        look_at_expiry(s);
    } else if (s->authority != NULL &&
               (file_state_changed(&s->cert_state, s->authority) || time(NULL) >= s->renew_at)) {
        (void)read_local(s, &e);
        use_tls(s, s->authority, &e);
    }
    net_timer_set(s->timer, s->check_ms);
}

/* ---- life ---- */

static int start_local(struct listener_secrets *s, struct err *e)
{
    if (asprintf(&s->authority, "%s/" LOCAL_TLS_CERT, s->flags->local_tls) < 0) {
        s->authority = NULL;
        return err_memory(e);
    }
    int rc = read_local(s, e);
    if (rc != 0 && s->flags->may_lack_tls) {
        log_warn("TLS is left out, so that kubeconfigs with https do not lead here: its authority "
                 "cannot be used (--local-tls=PATH names another folder, off does without)",
                 log_str("error", e->msg));
        free(s->authority);
        s->authority = NULL;
        err_clear(e);
        rc = 0;
    }
    return rc;
}

static int start(struct listener_secrets *s, struct net_loop *l, struct err *e)
{
    const struct localproxy_flags *flags = s->flags;
    if (flags->token_file != NULL) {
        (void)file_state_changed(&s->token_state, flags->token_file);
        if (read_token(s, e) != 0) {
            return e->code;
        }
    }
    if (flags->local_tls != NULL) {
        if (start_local(s, e) != 0) {
            return e->code;
        }
    } else if (flags->listen_tls_cert != NULL) {
        (void)file_state_changed(&s->cert_state, flags->listen_tls_cert);
        (void)file_state_changed(&s->key_state, flags->listen_tls_key);
        if (read_tls(s, e) != 0) {
            return e->code;
        }
    }
    if (flags->token_file == NULL && s->tls == NULL) {
        return 0;
    }
    s->timer = net_timer_new(l, on_timer, s);
    if (s->timer == NULL) {
        return err_memory(e);
    }
    net_timer_set(s->timer, s->check_ms);
    return 0;
}

struct listener_secrets *listener_secrets_new(struct net_loop *l,
                                              const struct localproxy_flags *flags,
                                              uint64_t check_ms, struct err *e)
{
    struct listener_secrets *s = calloc(1, sizeof *s);
    if (s == NULL) {
        err_memory(e);
        return NULL;
    }
    s->flags = flags;
    s->check_ms = check_ms != 0 ? check_ms : CHECK_MS;
    buf_init(&s->token, SECRET_FILE_MAX);
    buf_init(&s->basic, BASIC_MAX);
    if (start(s, l, e) != 0) {
        listener_secrets_free(s);
        return NULL;
    }
    return s;
}

struct slice listener_secrets_token(const struct listener_secrets *s)
{
    return buf_slice(&s->token);
}

struct slice listener_secrets_basic(const struct listener_secrets *s)
{
    return buf_slice(&s->basic);
}

struct tls_config *listener_secrets_tls(const struct listener_secrets *s)
{
    return s->tls;
}

void listener_secrets_on_tls(struct listener_secrets *s, listener_secrets_tls_cb cb, void *data)
{
    s->on_tls = cb;
    s->data = data;
}

void listener_secrets_report_to(struct listener_secrets *s, struct health *health)
{
    s->health = health;
    look_at_expiry(s);
}

void listener_secrets_free(struct listener_secrets *s)
{
    if (s == NULL) {
        return;
    }
    net_timer_free(s->timer);
    tls_config_unref(s->tls);
    secret_buf_reset(&s->token);
    secret_buf_reset(&s->basic);
    free(s->authority);
    free(s);
}
