/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - wiring: flags, the parts, signals, a clean end.
 *
 *     RUNNING -- first signal --> LINGERING -- no client left, delay over --> DRAINING
 *     DRAINING -- drained, grace over --> STOPPED
 *     LINGERING, DRAINING -- second signal --> STOPPED
 *
 * Without a delay there is no LINGERING.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "admin.h"
#include "base/file.h"
#include "base/flags.h"
#include "base/log.h"
#include "base/secret.h"
#include "flags.h"
#include "lock/lock.h"
#include "proxy.h"
#include "rules/reload.h"

enum { SECRET_FILE_MAX = 1024 * 1024, SIGNALS = 2 };

/* While it lingers: how often clients are counted, and how long there must have been none. An
 * operator that is about to give its lease back may have closed all connections for a moment. */
enum { LINGER_LOOK_MS = 200, LINGER_ALONE_MS = 2000 };

enum state { STATE_RUNNING, STATE_LINGERING, STATE_DRAINING, STATE_STOPPED };

struct app {
    struct localproxy_flags flags;
    struct net_loop *loop;
    struct kube_access access;
    struct kube_client *upstream;
    struct metrics metrics;
    struct buf token;
    char *pod_namespace;
    struct proxy *proxy;
    struct reload *reload;
    struct admin *admin;
    uv_signal_t signals[SIGNALS];
    uv_timer_t timer; /* of the state */
    uint64_t signal_at;
    uint64_t client_at; /* while it lingers: when there was one last */
    enum state state;
};

/* ---- the end ---- */

static void stop(struct app *a)
{
    if (a->state == STATE_STOPPED) {
        return;
    }
    a->state = STATE_STOPPED;
    net_loop_stop(a->loop);
}

static void on_grace_over(uv_timer_t *timer)
{
    struct app *a = timer->data;
    log_warn("the grace period is over: ending what is still in flight",
             log_num("requests", proxy_stats(a->proxy)->busy));
    stop(a);
}

static void on_drained(void *data)
{
    log_info("all requests are done");
    stop(data);
}

static void drain(struct app *a)
{
    log_info("shutting down", log_num("requests", proxy_stats(a->proxy)->busy),
             log_num("watches", (int64_t)a->metrics.open_watches));
    a->state = STATE_DRAINING;
    (void)uv_timer_start(&a->timer, on_grace_over, a->flags.shutdown_grace_s * 1000, 0);
    proxy_drain(a->proxy);
}

static void on_linger(uv_timer_t *timer)
{
    struct app *a = timer->data;
    uint64_t now = uv_now(&a->loop->uv);
    if (proxy_stats(a->proxy)->open > 0) {
        a->client_at = now;
    }
    if (now - a->client_at >= LINGER_ALONE_MS ||
        now - a->signal_at >= a->flags.shutdown_delay_s * 1000) {
        drain(a);
    }
}

static void linger(struct app *a)
{
    log_info("still serving the operator until it ends",
             log_num("connections", proxy_stats(a->proxy)->open),
             log_num("seconds", (int64_t)a->flags.shutdown_delay_s));
    a->state = STATE_LINGERING;
    a->signal_at = uv_now(&a->loop->uv);
    a->client_at = a->signal_at;
    (void)uv_timer_start(&a->timer, on_linger, LINGER_LOOK_MS, LINGER_LOOK_MS);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    struct app *a = handle->data;
    if (a->state != STATE_RUNNING) {
        log_warn("second signal: ending at once");
        stop(a);
        return;
    }
    log_info("told to end", log_str("signal", strsignal(signum)));
    if (a->flags.shutdown_delay_s > 0) {
        linger(a);
    } else {
        drain(a);
    }
}

/* ---- the beginning ---- */

static int load_token(struct app *a, struct slice *token, struct err *e)
{
    *token = (struct slice){0};
    if (a->flags.token_file == NULL) {
        return 0;
    }
    int rc = file_read(a->flags.token_file, &a->token, e);
    if (rc != 0) {
        err_prefix(e, "--token-file");
        return rc;
    }
    const char *text = (const char *)buf_data(&a->token);
    size_t len = a->token.len;
    while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL) {
        len--;
    }
    if (len == 0) {
        return err_set(e, -EINVAL, "--token-file: %s: holds no token", a->flags.token_file);
    }
    *token = slice_of(text, len);
    return 0;
}

static int load_listen_tls(const struct localproxy_flags *c, struct tls_config **out, struct err *e)
{
    static const char *const alpn[] = {"http/1.1", NULL};
    *out = NULL;
    if (c->listen_tls_cert == NULL) {
        return 0;
    }
    struct buf cert = BUF_INIT(SECRET_FILE_MAX);
    struct buf key = BUF_INIT(SECRET_FILE_MAX);
    int rc = file_read(c->listen_tls_cert, &cert, e);
    rc = rc != 0 ? rc : file_read(c->listen_tls_key, &key, e);
    if (rc == 0) {
        struct tls_server_options o = {
            .cert = buf_slice(&cert),
            .cert_name = c->listen_tls_cert,
            .key = buf_slice(&key),
            .key_name = c->listen_tls_key,
            .alpn = alpn,
        };
        *out = tls_config_new_server(&o, e);
        rc = *out == NULL ? e->code : 0;
    }
    buf_reset(&cert);
    secret_buf_reset(&key);
    return rc;
}

static int open_proxy(struct app *a, struct err *e)
{
    struct proxy_options o = {
        .flags = &a->flags,
        .upstream = a->upstream,
        .metrics = &a->metrics,
        .on_drained = on_drained,
        .data = a,
    };
    int rc = lock_pod_namespace(a->flags.pod_namespace, getenv("POD_NAMESPACE"), NULL,
                                &a->pod_namespace, e);
    o.pod_namespace = a->pod_namespace;
    rc = rc != 0 ? rc : load_token(a, &o.token, e);
    rc = rc != 0 ? rc : load_listen_tls(&a->flags, &o.tls, e);
    if (rc != 0) {
        return rc;
    }
    a->proxy = proxy_new(a->loop, &o, e);
    tls_config_unref(o.tls);
    return a->proxy == NULL ? e->code : 0;
}

static int open_admin(struct app *a, struct err *e)
{
    struct admin_options o = {
        .flags = &a->flags,
        .proxy = a->proxy,
        .upstream = a->upstream,
        .metrics = &a->metrics,
    };
    a->admin = admin_new(a->loop, &o, e);
    return a->admin == NULL ? e->code : 0;
}

static int write_ready_file(const struct app *a, struct err *e)
{
    struct buf text = BUF_INIT(4096);
    if (a->flags.ready_file == NULL) {
        return 0;
    }
    int rc = buf_printf(&text, "{\"listen\":\"%s\",\"admin\":\"%s\"}\n", proxy_address(a->proxy),
                        admin_address(a->admin));
    if (rc == 0) {
        rc = file_write_atomic(a->flags.ready_file, buf_data(&text), text.len, 0644, e);
    }
    buf_reset(&text);
    return rc;
}

/* One connection of the operator takes two descriptors; the soft limit is often 1,024. */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void watch_signals(struct app *a)
{
    static const int numbers[SIGNALS] = {SIGTERM, SIGINT};
    (void)signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < SIGNALS; i++) {
        (void)uv_signal_init(&a->loop->uv, &a->signals[i]);
        a->signals[i].data = a;
        (void)uv_signal_start(&a->signals[i], on_signal, numbers[i]);
    }
    (void)uv_timer_init(&a->loop->uv, &a->timer);
    a->timer.data = a;
}

static int open_all(struct app *a, struct err *e)
{
    const struct localproxy_flags *c = &a->flags;
    int rc = kube_access_open(c->kubeconfig, c->context, c->in_cluster, &a->access, e);
    if (rc != 0) {
        return rc;
    }
    struct kube_client_options o = {.access = &a->access, .max_idle = 256};
    a->upstream = kube_client_new(a->loop, &o, e);
    if (a->upstream == NULL) {
        return e->code;
    }
    rc = open_proxy(a, e);
    if (rc != 0) {
        return rc;
    }
    a->reload = reload_new(a->loop, c, a->proxy, &a->metrics, e);
    if (a->reload == NULL) {
        return e->code;
    }
    rc = open_admin(a, e);
    if (rc != 0) {
        return rc;
    }
    log_info("listening", log_str("listen", proxy_address(a->proxy)),
             log_str("admin", admin_address(a->admin)),
             log_str("upstream", kube_client_server(a->upstream)));
    return write_ready_file(a, e);
}

static void close_all(struct app *a)
{
    admin_free(a->admin);
    reload_free(a->reload);
    proxy_free(a->proxy);
    if (a->upstream != NULL) {
        kube_client_close(a->upstream, NULL, NULL);
    }
    for (int i = 0; i < SIGNALS; i++) {
        uv_close((uv_handle_t *)&a->signals[i], NULL);
    }
    uv_close((uv_handle_t *)&a->timer, NULL);
    (void)net_loop_free(a->loop);
    kube_access_deinit(&a->access);
    secret_buf_reset(&a->token);
    free(a->pod_namespace);
}

int main(int argc, char **argv)
{
    struct app a = {.token = BUF_INIT(SECRET_FILE_MAX)};
    struct err e = ERR_INIT;
    localproxy_flags_parse(&a.flags, argc, argv);
    tls_tune_memory();
    raise_file_limit();
    a.loop = net_loop_new(&e);
    if (a.loop == NULL) {
        log_error("cannot start", log_str("error", e.msg));
        return EXIT_FAILED;
    }
    watch_signals(&a);
    int rc = open_all(&a, &e);
    if (rc != 0) {
        log_error("cannot start", log_str("error", e.msg));
    } else {
        net_loop_run(a.loop);
    }
    close_all(&a);
    return rc == 0 ? EXIT_DONE : EXIT_FAILED;
}
