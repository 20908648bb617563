/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/access/credentials.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/file_state.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/state_machine.h"
#include "crypto/digest.h"
#include "kube/access/exec_credential.h"
#include "net/process.h"
#include "net/timer.h"

enum {
    FILE_CHECK_MS = 10000,
    EXEC_TIMEOUT_MS = 60000,
    RETRY_MS = 1000,
    RETRY_GROWTH_MAX = 60, /* times the first pause */
    TOKEN_MAX = 1 << 20,
    OUTPUT_MAX = 1 << 20,
    STDERR_SHOWN = 1024,
    LEAD_MAX_S = 300, /* a new credential is fetched so long before the old one expires, at most */
};

/*
 * FIXED --plugin--> FETCHING --done--> WAITING --timer, rejected, expired--+
 *                      ^                                                   |
 *                      +---------------------------------------------------+
 * A plugin that cannot be started: WAITING. Any --close--> CLOSING. Without a plugin always FIXED.
 */
enum phase { FIXED, FETCHING, WAITING, CLOSING };

static const struct state_machine machine = {
    .object = "credentials",
    .states = {[FIXED] = {"Fixed", STATE(FETCHING) | STATE(WAITING) | STATE(CLOSING)},
               [FETCHING] = {"Fetching", STATE(WAITING) | STATE(CLOSING)},
               [WAITING] = {"Waiting", STATE(FETCHING) | STATE(WAITING) | STATE(CLOSING)},
               [CLOSING] = {"Closing", 0}},
};

struct credentials {
    struct net_loop *loop;
    const struct kube_access *access;
    struct credentials_options options;
    enum phase phase;
    struct err error; /* code 0: the last attempt went well */

    char *authorization; /* the header's value; NULL: none */
    struct kube_pem ca;
    struct kube_pem cert;
    struct kube_pem key;
    int64_t expires_at; /* seconds since 1970; 0: never, or nothing is there */
    bool given;         /* there is a credential, or none is needed */

    struct file_state token_state;
    struct file_state ca_state;
    struct file_state cert_state;
    struct file_state key_state;
    uint64_t looked_at; /* loop time of the last look at the files */

    struct process *plugin; /* while FETCHING, or CLOSING after it */
    uint64_t fetched_at;    /* loop time of the last start of the plugin */
    unsigned failures;      /* in a row */
    struct net_timer *timer;

    credentials_close_cb close_cb;
    void *close_data;
    struct net_task closed; /* calls back outside of credentials_close */
    int open;               /* what close waits for: that task, and the plugin */
};

static void set_phase(struct credentials *c, enum phase next)
{
    c->phase = state_change(&machine, c->phase, next, (struct slice){0});
}

static void notify_user(struct credentials *c, enum credentials_event event)
{
    if (c->options.on_event != NULL && c->phase != CLOSING) {
        c->options.on_event(c->options.data, event);
    }
}

/* Puts "<scheme> <value>" in the place of the old value. */
static int set_authorization(struct credentials *c, const char *scheme, const char *value)
{
    char *text = NULL;
    if (asprintf(&text, "%s %s", scheme, value) < 0) {
        return -ENOMEM;
    }
    secret_free(c->authorization);
    c->authorization = text;
    return 0;
}

static int set_basic(struct credentials *c, const char *user, const char *password)
{
    char *plain = NULL;
    if (asprintf(&plain, "%s:%s", user != NULL ? user : "", password != NULL ? password : "") < 0) {
        return -ENOMEM;
    }
    size_t len = strlen(plain);
    struct buf text = BUF_INIT(len * 2 + 8);
    bool encoded = buf_reserve(&text, len * 2 + 8) != NULL &&
                   base64_encode(slice_of(plain, len), &text) == 0 && buf_cstr(&text) != NULL;
    int rc = encoded ? set_authorization(c, "Basic", (const char *)buf_data(&text)) : -ENOMEM;
    secret_buf_reset(&text);
    secret_free(plain);
    return rc;
}

/* `text` is what the token file holds. */
static int take_token(struct credentials *c, char *text, struct err *e)
{
    const char *path = c->access->token_file;
    const char *token = kube_token_trim(text);
    if (token[0] == '\0') {
        return err_set(e, -EINVAL, "%s: the token file is empty", path);
    }
    if (!kube_token_ok(token)) {
        return err_set(e, -EINVAL,
                       "%s: contains more than one token, or something that is not a token", path);
    }
    return set_authorization(c, "Bearer", token) == 0 ? 0 : err_memory(e);
}

static int read_token_file(struct credentials *c, struct err *e)
{
    struct buf text = BUF_INIT(TOKEN_MAX);
    if (buf_reserve(&text, TOKEN_MAX) == NULL) {
        return err_memory(e);
    }
    int rc = file_read(c->access->token_file, &text, e);
    if (rc == 0) {
        rc = buf_cstr(&text) == NULL ? err_memory(e) : take_token(c, (char *)buf_data(&text), e);
    }
    secret_buf_reset(&text);
    return rc;
}

/* Keeps what there was when the new content cannot be read or is no token. */
static void refresh_token_file(struct credentials *c)
{
    struct err e = ERR_INIT;
    if (!file_state_changed(&c->token_state, c->access->token_file)) {
        return;
    }
    if (read_token_file(c, &e) != 0) {
        c->token_state = (struct file_state){.ino = 0}; /* look again next time */
        if (c->error.code == 0) {
            log_warn("cannot read the token file; using the last token", log_str("error", e.msg));
        }
        c->error = e;
        return;
    }
    c->error = (struct err)ERR_INIT;
    log_debug("the token file was read", log_str("path", c->access->token_file));
}

static int read_certificate(struct credentials *c, struct err *e)
{
    struct kube_pem cert = {.data = NULL};
    struct kube_pem key = {.data = NULL};
    if (kube_pem_read(c->access->cert.path, &cert, e) != 0 ||
        kube_pem_read(c->access->key.path, &key, e) != 0) {
        kube_pem_deinit(&cert);
        kube_pem_deinit(&key);
        return e->code;
    }
    kube_pem_deinit(&c->cert);
    kube_pem_deinit(&c->key);
    c->cert = cert;
    c->key = key;
    return 0;
}

static bool certificate_is_in_files(const struct credentials *c)
{
    return c->access->cert.path != NULL && c->access->key.path != NULL;
}

/* True when there is a new pair. */
static bool refresh_certificate(struct credentials *c)
{
    struct err e = ERR_INIT;
    bool cert = file_state_changed(&c->cert_state, c->access->cert.path);
    bool key = file_state_changed(&c->key_state, c->access->key.path);
    if (!cert && !key) {
        return false;
    }
    if (read_certificate(c, &e) != 0) {
        c->cert_state = (struct file_state){.ino = 0};
        log_warn("cannot read the client certificate; using the last one", log_str("error", e.msg));
        return false;
    }
    log_info("the client certificate changed", log_str("path", c->access->cert.path));
    return true;
}

/* True when it holds others than before: the kubelet writes all files anew with each token. */
static bool refresh_ca(struct credentials *c)
{
    struct err e = ERR_INIT;
    struct kube_pem ca = {.data = NULL};
    if (!file_state_changed(&c->ca_state, c->access->ca.path)) {
        return false;
    }
    if (kube_pem_read(c->access->ca.path, &ca, &e) != 0) {
        kube_pem_deinit(&ca);
        c->ca_state = (struct file_state){.ino = 0};
        log_warn("cannot read the certificate authorities; using the last ones",
                 log_str("error", e.msg));
        return false;
    }
    if (slice_eq(slice_of(ca.data, ca.len), credentials_ca(c))) {
        kube_pem_deinit(&ca);
        return false;
    }
    kube_pem_deinit(&c->ca);
    c->ca = ca;
    log_info("the certificate authorities changed", log_str("path", c->access->ca.path));
    return true;
}

static void look_at_files(struct credentials *c, uint64_t pause_ms)
{
    uint64_t now = net_loop_now(c->loop);
    if (c->phase == CLOSING || now - c->looked_at < pause_ms) {
        return;
    }
    c->looked_at = now;
    if (c->access->token_file != NULL) {
        refresh_token_file(c);
    }
    bool new_tls = certificate_is_in_files(c) && refresh_certificate(c);
    if (c->access->ca.path != NULL && refresh_ca(c)) {
        new_tls = true;
    }
    if (new_tls) {
        notify_user(c, CREDENTIALS_TLS);
    }
}

static int64_t wall_clock(void)
{
    return (int64_t)time(NULL);
}

static bool is_expired(const struct credentials *c)
{
    return c->expires_at != 0 && wall_clock() >= c->expires_at;
}

bool credentials_ready(const struct credentials *c)
{
    return c->given && !is_expired(c);
}

static void add_hint(struct credentials *c)
{
    const char *hint = c->access->exec->install_hint;
    size_t len = strlen(c->error.msg);
    if (hint != NULL && len + 4 < sizeof c->error.msg) {
        (void)snprintf(c->error.msg + len, sizeof c->error.msg - len, "; %s", hint);
    }
}

/* c->error says why. */
static void fetch_failed(struct credentials *c)
{
    uint64_t pause = c->options.retry_ms << (c->failures < 6 ? c->failures : 6);
    uint64_t max = c->options.retry_ms * RETRY_GROWTH_MAX;
    c->failures++;
    set_phase(c, WAITING);
    pause = pause < max ? pause : max;
    err_prefix(&c->error, "users[%.80s].exec", c->access->user);
    log_warn("the credential plugin failed", log_str("error", c->error.msg),
             log_num("retry_ms", (int64_t)pause));
    net_timer_set(c->timer, pause);
    if (!credentials_ready(c)) {
        notify_user(c, CREDENTIALS_FAILED);
    }
}

/* When to fetch the next one: with a fifth of the life left, at most five minutes. */
static uint64_t refresh_pause_ms(int64_t expires_at)
{
    int64_t life = (expires_at - wall_clock()) * 1000;
    int64_t lead = life / 5 < LEAD_MAX_S * 1000 ? life / 5 : LEAD_MAX_S * 1000;
    return life - lead < 1000 ? 1000 : (uint64_t)(life - lead);
}

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* Moves `text` into the place of the old PEM. */
static void set_pem(struct kube_pem *pem, char **text)
{
    kube_pem_deinit(pem);
    pem->data = *text;
    pem->len = *text == NULL ? 0 : strlen(*text);
    *text = NULL;
}

static void fetch_succeeded(struct credentials *c, struct exec_credential *new)
{
    bool was_ready = credentials_ready(c);
    /* A certificate of the kubeconfig's own stays if the plugin gives none. */
    bool pem = new->cert != NULL || c->access->cert.data == NULL;
    bool tls = pem && (!same_text(new->cert, c->cert.data) || !same_text(new->key, c->key.data));
    if (new->token != NULL && set_authorization(c, "Bearer", new->token) != 0) {
        (void)err_memory(&c->error);
        fetch_failed(c);
        return;
    }
    if (new->token == NULL) {
        secret_free(c->authorization);
        c->authorization = NULL;
    }
    if (pem) {
        set_pem(&c->cert, &new->cert);
        set_pem(&c->key, &new->key);
    }
    c->expires_at = new->expires_at;
    c->given = true;
    c->failures = 0;
    c->error = (struct err)ERR_INIT;
    set_phase(c, WAITING);
    if (c->expires_at != 0) {
        net_timer_set(c->timer, refresh_pause_ms(c->expires_at));
    }
    log_debug("the credential plugin returned a credential", log_str("user", c->access->user),
              log_num("expires_at", c->expires_at));
    if (tls) {
        notify_user(c, CREDENTIALS_TLS);
    }
    if (!was_ready) {
        notify_user(c, CREDENTIALS_READY);
    }
}

static void log_diagnostics(const struct credentials *c, struct slice text, bool failed)
{
    size_t len = text.len < STDERR_SHOWN ? text.len : STDERR_SHOWN;
    if (len == 0) {
        return;
    }
    if (failed) {
        log_warn("output of the credential plugin", log_str("command", c->access->exec->command),
                 log_strn("stderr", text.ptr, len));
    } else {
        log_debug("output of the credential plugin", log_str("command", c->access->exec->command),
                  log_strn("stderr", text.ptr, len));
    }
}

/* 0 when the plugin ended well. */
static int check_end(struct credentials *c, const struct process_result *r)
{
    const char *command = c->access->exec->command;
    struct err *e = &c->error;
    if (r->code == -ETIMEDOUT) {
        return err_set(e, r->code, "%.120s ran longer than %llu s and was killed", command,
                       (unsigned long long)(c->options.exec_timeout_ms / 1000));
    }
    if (r->code == -ENOBUFS) {
        return err_set(e, r->code, "%.120s printed more than %d bytes and was killed", command,
                       OUTPUT_MAX);
    }
    if (r->code != 0) {
        return err_set(e, r->code, "%.120s: %s", command, err_text(r->code));
    }
    if (r->signal != 0) {
        return err_set(e, -ECHILD, "%.120s was terminated by signal %d", command, r->signal);
    }
    if (r->exit_status != 0) {
        err_set(e, -ECHILD, "%.120s failed with exit code %d; its output is in the log", command,
                r->exit_status);
        add_hint(c);
        return -ECHILD;
    }
    return 0;
}

static void finish_close(struct credentials *c);

static void on_plugin_done(void *data, const struct process_result *r)
{
    struct credentials *c = data;
    struct exec_credential new;
    c->plugin = NULL;
    if (c->phase == CLOSING) {
        finish_close(c);
        return;
    }
    int rc = check_end(c, r);
    log_diagnostics(c, r->err, rc != 0);
    if (rc == 0) {
        rc = exec_credential_parse(r->out, c->access->exec->api_version, wall_clock(), &new,
                                   &c->error);
        if (rc != 0) {
            err_prefix(&c->error, "%.120s", c->access->exec->command);
        } else {
            fetch_succeeded(c, &new);
            exec_credential_deinit(&new);
        }
    }
    if (rc != 0) {
        fetch_failed(c);
    }
}

/* c->error says why it did not start. */
static int start_plugin(struct credentials *c)
{
    struct process_options o = {
        .argv = exec_credential_argv(c->access),
        .env = exec_credential_env(c->access),
        .timeout_ms = c->options.exec_timeout_ms,
        .output_max = OUTPUT_MAX,
    };
    int rc = o.argv == NULL || o.env == NULL
                 ? err_memory(&c->error)
                 : process_run(&c->loop->uv, &o, on_plugin_done, c, &c->plugin, &c->error);
    free((char **)o.argv);
    exec_credential_env_free((char **)o.env);
    c->fetched_at = net_loop_now(c->loop);
    if (rc == 0) {
        set_phase(c, FETCHING);
    } else {
        add_hint(c);
    }
    return rc;
}

static void fetch_credential(struct credentials *c)
{
    net_timer_clear(c->timer);
    if (start_plugin(c) != 0) {
        fetch_failed(c);
    }
}

static void on_timer(void *data)
{
    struct credentials *c = data;
    if (c->phase == WAITING) {
        fetch_credential(c);
    }
}

static int start_token(struct credentials *c, struct err *e)
{
    const struct kube_access *a = c->access;
    if (a->token != NULL && set_authorization(c, "Bearer", a->token) != 0) {
        return err_memory(e);
    }
    if (a->token_file == NULL) {
        return 0;
    }
    (void)file_state_changed(&c->token_state, a->token_file);
    int rc = read_token_file(c, e);
    if (rc != 0 && a->token != NULL) {
        c->token_state = (struct file_state){.ino = 0};
        log_warn("cannot read the token file; using the token in the kubeconfig",
                 log_str("error", e != NULL ? e->msg : ""));
        return 0;
    }
    return rc;
}

static int copy_pem(const struct kube_pem *from, struct kube_pem *to)
{
    if (from->data == NULL) {
        return 0;
    }
    to->data = calloc(1, from->len + 1);
    if (to->data == NULL) {
        return -ENOMEM;
    }
    memcpy(to->data, from->data, from->len);
    to->len = from->len;
    return 0;
}

static int start_sources(struct credentials *c, struct err *e)
{
    const struct kube_access *a = c->access;
    int rc = start_token(c, e);
    if (rc != 0) {
        return rc;
    }
    if ((a->username != NULL || a->password != NULL) &&
        set_basic(c, a->username, a->password) != 0) {
        return err_memory(e);
    }
    if (certificate_is_in_files(c)) {
        (void)file_state_changed(&c->cert_state, a->cert.path);
        (void)file_state_changed(&c->key_state, a->key.path);
    }
    if (copy_pem(&a->ca, &c->ca) != 0 || copy_pem(&a->cert, &c->cert) != 0 ||
        copy_pem(&a->key, &c->key) != 0) {
        return err_memory(e);
    }
    c->given = a->exec == NULL;
    if (a->exec == NULL) {
        return 0;
    }
    rc = start_plugin(c);
    return rc == 0 ? 0 : err_set(e, rc, "users[%.80s].exec: %s", a->user, c->error.msg);
}

static void free_credentials(struct credentials *c)
{
    secret_free(c->authorization);
    kube_pem_deinit(&c->ca);
    kube_pem_deinit(&c->cert);
    kube_pem_deinit(&c->key);
    free(c);
}

static void on_closed(struct net_task *task)
{
    finish_close(LIST_ITEM(task, struct credentials, closed));
}

struct credentials *credentials_new(struct net_loop *l, const struct kube_access *access,
                                    const struct credentials_options *options, struct err *e)
{
    struct credentials *c = calloc(1, sizeof *c);
    if (c == NULL) {
        err_memory(e);
        return NULL;
    }
    c->loop = l;
    c->access = access;
    c->options = options != NULL ? *options : (struct credentials_options){.data = NULL};
    c->options.file_check_ms =
        c->options.file_check_ms != 0 ? c->options.file_check_ms : FILE_CHECK_MS;
    c->options.exec_timeout_ms =
        c->options.exec_timeout_ms != 0 ? c->options.exec_timeout_ms : EXEC_TIMEOUT_MS;
    c->options.retry_ms = c->options.retry_ms != 0 ? c->options.retry_ms : RETRY_MS;
    c->looked_at = net_loop_now(l);
    net_task_init(&c->closed, on_closed);
    c->timer = net_timer_new(l, on_timer, c);
    if (c->timer == NULL) {
        err_memory(e);
    }
    if (c->timer == NULL || start_sources(c, e) != 0) {
        net_timer_free(c->timer);
        free_credentials(c);
        return NULL;
    }
    return c;
}

const char *credentials_error(const struct credentials *c)
{
    return c->error.code == 0 ? NULL : c->error.msg;
}

const char *credentials_authorization(struct credentials *c)
{
    look_at_files(c, c->options.file_check_ms);
    if (is_expired(c)) {
        /* The timer would have fetched a new one; this clock was set forward. */
        if (c->phase == WAITING && c->failures == 0) {
            fetch_credential(c);
        }
        return NULL;
    }
    return c->authorization;
}

struct slice credentials_ca(const struct credentials *c)
{
    return slice_of(c->ca.data, c->ca.len);
}

struct slice credentials_cert(const struct credentials *c)
{
    return slice_of(c->cert.data, c->cert.len);
}

struct slice credentials_key(const struct credentials *c)
{
    return slice_of(c->key.data, c->key.len);
}

void credentials_refresh(struct credentials *c)
{
    look_at_files(c, 0);
}

void credentials_describe(const struct credentials *c, struct credential_text *out)
{
    credential_text(c->access, c->authorization, credentials_cert(c), out);
}

void credentials_rejected(struct credentials *c)
{
    enum { AGAIN_MS = 1000 };
    look_at_files(c, c->options.file_check_ms < AGAIN_MS ? c->options.file_check_ms : AGAIN_MS);
    if (c->phase == WAITING && c->failures == 0 &&
        net_loop_now(c->loop) - c->fetched_at >= c->options.file_check_ms) {
        log_info("the API server rejected the credential; running the plugin again",
                 log_str("user", c->access->user));
        fetch_credential(c);
    }
}

static void finish_close(struct credentials *c)
{
    if (--c->open > 0) {
        return;
    }
    credentials_close_cb cb = c->close_cb;
    void *data = c->close_data;
    free_credentials(c);
    if (cb != NULL) {
        cb(data);
    }
}

void credentials_close(struct credentials *c, credentials_close_cb cb, void *data)
{
    if (c->phase == CLOSING) {
        return;
    }
    set_phase(c, CLOSING);
    c->close_cb = cb;
    c->close_data = data;
    c->open = 1;
    net_timer_free(c->timer);
    net_task_queue(c->loop, &c->closed);
    if (c->plugin != NULL) {
        c->open++;
        process_cancel(c->plugin);
    }
}
