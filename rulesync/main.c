/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - wiring: flags, the parts, signals, a clean end.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "admin.h"
#include "base/file.h"
#include "base/flags.h"
#include "base/log.h"
#include "flags.h"
#include "net/timer.h"
#include "pipeline.h"
#include "source_configmap.h"
#include "source_dir.h"

enum { SIGNALS = 3 };

struct app {
    struct rulesync_flags flags;
    struct net_loop *loop;
    struct pipeline *pipeline;
    struct source_dir *dir; /* one of these two */
    struct source_configmap *configmap;
    struct kube_access access;
    struct kube_client *client;
    struct rulesync_admin admin;
    struct admin_server *server;
    struct net_timer *limit; /* of a single pass */
    uv_signal_t signals[SIGNALS];
    bool over; /* the single pass */
    int exit_code;
};

/* ---- a single pass ---- */

static void fail(struct app *a, const char *event, const char *why)
{
    log_error(event, log_str("error", why));
    a->over = true;
    a->exit_code = EXIT_FAILED;
    net_loop_stop(a->loop);
}

static void on_progress(void *data)
{
    struct app *a = data;
    char why[ADMIN_WHY_MAX];
    if (a->over) {
        return;
    }
    switch (pipeline_result(a->pipeline, why, sizeof why)) {
    case PIPELINE_UNDER_WAY:
        return;
    case PIPELINE_DONE:
        log_info("done", log_num("generation",
                                 (int64_t)rules_generation(pipeline_status(a->pipeline)->rules)));
        a->over = true;
        net_loop_stop(a->loop);
        return;
    case PIPELINE_FAILED:
        fail(a, "failed", why);
        return;
    }
}

static void on_limit(void *data)
{
    struct app *a = data;
    char why[ADMIN_WHY_MAX];
    (void)pipeline_result(a->pipeline, why, sizeof why);
    fail(a, "not done within the time limit", why);
}

/* ---- signals ---- */

static void look_again(struct app *a)
{
    log_info("looking again");
    if (a->dir != NULL) {
        source_dir_look(a->dir);
    }
    if (a->configmap != NULL) {
        source_configmap_look(a->configmap);
    }
    pipeline_retry(a->pipeline);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    struct app *a = handle->data;
    if (signum == SIGHUP) {
        look_again(a);
        return;
    }
    log_info("shutting down", log_str("signal", strsignal(signum)));
    if (a->flags.once) {
        a->exit_code = EXIT_FAILED;
    }
    net_loop_stop(a->loop);
}

static void watch_signals(struct app *a)
{
    static const int numbers[SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
    (void)signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < SIGNALS; i++) {
        (void)uv_signal_init(&a->loop->uv, &a->signals[i]);
        a->signals[i].data = a;
        (void)uv_signal_start(&a->signals[i], on_signal, numbers[i]);
    }
}

/* ---- the beginning ---- */

static int open_sync(struct app *a, struct err *e)
{
    const struct rulesync_flags *c = &a->flags;
    struct pipeline_options o = {
        .to = c->to != NULL && c->to[0] != '\0' ? c->to : NULL,
        .control = c->control != NULL && c->control[0] != '\0' ? c->control : NULL,
        .shard = c->shard,
        .at_start = c->at_start,
        .on_change = c->once ? on_progress : NULL,
        .data = a,
    };
    a->pipeline = pipeline_new(a->loop, &o, e);
    return a->pipeline == NULL ? e->code : 0;
}

static int open_dir(struct app *a, struct err *e)
{
    struct source_dir_options o = {.path = a->flags.from};
    a->dir = source_dir_new(a->loop, &o, &pipeline_handlers, a->pipeline, e);
    return a->dir == NULL ? e->code : 0;
}

static int open_configmap(struct app *a, struct err *e)
{
    const struct rulesync_flags *c = &a->flags;
    int rc = kube_access_open(c->kubeconfig, c->context, c->in_cluster, &a->access, e);
    if (rc != 0) {
        return rc;
    }
    struct kube_client_options o = {.access = &a->access, .max_idle = 2};
    a->client = kube_client_new(a->loop, &o, e);
    if (a->client == NULL) {
        return e->code;
    }
    a->configmap = source_configmap_new(a->loop, a->client, c->from_configmap, &pipeline_handlers,
                                        a->pipeline, e);
    return a->configmap == NULL ? e->code : 0;
}

static int open_limit(struct app *a, struct err *e)
{
    if (a->flags.timeout_s == 0) {
        return 0;
    }
    a->limit = net_timer_new(a->loop, on_limit, a);
    if (a->limit == NULL) {
        return err_memory(e);
    }
    net_timer_set(a->limit, a->flags.timeout_s * 1000);
    return 0;
}

static int write_ready_file(const struct app *a, struct err *e)
{
    struct buf text = BUF_INIT(4096);
    if (a->flags.ready_file == NULL) {
        return 0;
    }
    int rc = buf_printf(&text, "{\"admin\":\"%s\"}\n", admin_server_address(a->server));
    if (rc == 0) {
        rc = file_write_atomic(a->flags.ready_file, buf_data(&text), text.len, 0644, e);
    }
    buf_reset(&text);
    return rc;
}

static int open_admin(struct app *a, struct err *e)
{
    a->admin = (struct rulesync_admin){.flags = &a->flags, .pipeline = a->pipeline};
    const struct admin_server_options o = {
        .address = a->flags.admin,
        .program = "rulesync",
        .ops = &rulesync_admin_ops,
        .data = &a->admin,
    };
    a->server = admin_server_new(a->loop, &o, e);
    if (a->server == NULL) {
        return e->code;
    }
    log_info("listening", log_str("admin", admin_server_address(a->server)));
    return write_ready_file(a, e);
}

static int open_all(struct app *a, struct err *e)
{
    int rc = open_sync(a, e);
    if (rc == 0) {
        rc = a->flags.from != NULL && a->flags.from[0] != '\0' ? open_dir(a, e)
                                                               : open_configmap(a, e);
    }
    if (rc == 0) {
        rc = a->flags.once ? open_limit(a, e) : open_admin(a, e);
    }
    return rc;
}

static void close_all(struct app *a)
{
    net_timer_free(a->limit);
    admin_server_free(a->server);
    source_dir_free(a->dir);
    source_configmap_free(a->configmap);
    pipeline_free(a->pipeline);
    if (a->client != NULL) {
        kube_client_close(a->client, NULL, NULL);
    }
    for (int i = 0; i < SIGNALS; i++) {
        uv_close((uv_handle_t *)&a->signals[i], NULL);
    }
    (void)net_loop_free(a->loop);
    kube_access_deinit(&a->access);
}

int main(int argc, char **argv)
{
    struct app a = {.exit_code = EXIT_DONE};
    struct err e = ERR_INIT;
    rulesync_flags_parse(&a.flags, argc, argv);
    tls_tune_memory();
    a.loop = net_loop_new(&e);
    if (a.loop == NULL) {
        log_error("cannot start", log_str("error", e.msg));
        return EXIT_FAILED;
    }
    watch_signals(&a);
    if (open_all(&a, &e) != 0) {
        log_error("cannot start", log_str("error", e.msg));
        a.exit_code = EXIT_FAILED;
    } else {
        net_loop_run(a.loop);
    }
    close_all(&a);
    return a.exit_code;
}
