/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - wiring: flags, the parts, a clean end.
 */
#include <stdlib.h>

#include "admin.h"
#include "base/file.h"
#include "base/flags.h"
#include "base/log.h"
#include "control/status.h"
#include "flags.h"
#include "net/timer.h"
#include "pipeline.h"
#include "program/program.h"
#include "source_configmap.h"
#include "source_dir.h"

struct app {
    struct program program;
    struct rulesync_flags flags;
    struct pipeline *pipeline; /* of rules */
    struct pipeline *traffic;
    char *traffic_to;       /* beside that of rules */
    struct source_dir *dir; /* one of these two */
    struct source_configmap *configmap;
    struct kube_access access;
    struct kube_client *client;
    struct health health;
    struct rulesync_admin admin;
    struct admin_server *server;
    struct net_timer *limit; /* of a single pass */
    bool over;               /* the single pass */
};

/* ---- a single pass ---- */

static void fail(struct app *a)
{
    a->over = true;
    program_stop(&a->program, EXIT_FAILED);
}

static void finish(struct app *a)
{
    const struct shard_document *rules = pipeline_status(a->pipeline)->used;
    log_info("done", log_num("generation", (int64_t)shard_document_generation(rules)));
    a->over = true;
    program_stop(&a->program, EXIT_DONE);
}

/* Traffic policies are waited for, but whatever becomes of them, it is no failure. */
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
        if (pipeline_settled(a->traffic)) {
            finish(a);
        }
        return;
    case PIPELINE_FAILED:
        log_error("failed"); /* why was logged when it was found */
        fail(a);
        return;
    }
}

static void on_limit(void *data)
{
    struct app *a = data;
    char why[ADMIN_WHY_MAX];
    if (a->over) {
        return;
    }
    if (pipeline_result(a->pipeline, why, sizeof why) == PIPELINE_DONE) {
        log_warn("traffic policies not done within the time limit");
        finish(a);
        return;
    }
    log_error("not done within the time limit", log_str("error", why));
    fail(a);
}

/* ---- signals ---- */

static void on_reload(void *data)
{
    struct app *a = data;
    log_info("received SIGHUP, looking again");
    if (a->dir != NULL) {
        source_dir_look(a->dir);
    }
    if (a->configmap != NULL) {
        source_configmap_look(a->configmap);
    }
    pipeline_retry(a->pipeline);
    pipeline_retry(a->traffic);
}

static void on_shutdown(void *data)
{
    struct app *a = data;
    program_stop(&a->program, a->flags.once ? EXIT_FAILED : EXIT_DONE);
}

/* ---- the beginning ---- */

static int open_sync(struct app *a, struct err *e)
{
    const struct rulesync_flags *c = &a->flags;
    struct pipeline_options o = {
        .document = CONTROL_RULES,
        .to = c->to != NULL && c->to[0] != '\0' ? c->to : NULL,
        .control = c->control != NULL && c->control[0] != '\0' ? c->control : NULL,
        .shard = c->shard,
        .once = c->once,
        .at_start = c->at_start,
        .on_change = c->once ? on_progress : NULL,
        .data = a,
    };
    a->pipeline = pipeline_new(a->program.loop, &o, e);
    if (a->pipeline == NULL) {
        return e->code;
    }
    if (o.to != NULL) {
        a->traffic_to = file_resolve(o.to, SOURCE_TRAFFIC_KEY);
        if (a->traffic_to == NULL) {
            return err_memory(e);
        }
    }
    o.document = CONTROL_TRAFFIC;
    o.to = a->traffic_to;
    o.rules = a->pipeline;
    a->traffic = pipeline_new(a->program.loop, &o, e);
    return a->traffic == NULL ? e->code : 0;
}

static struct source_taker traffic_taker(const struct app *a)
{
    return (struct source_taker){.handlers = &pipeline_handlers, .data = a->traffic};
}

static int open_dir(struct app *a, struct err *e)
{
    struct source_dir_options o = {.path = a->flags.from, .traffic = traffic_taker(a)};
    a->dir = source_dir_new(a->program.loop, &o, &pipeline_handlers, a->pipeline, e);
    return a->dir == NULL ? e->code : 0;
}

static const char *granted_by(const struct request_info *ri)
{
    (void)ri;
    return "allow list and watch on that ConfigMap by a Role in its namespace, bound to the user "
           "or "
           "service account of rulesync";
}

static int open_configmap(struct app *a, struct err *e)
{
    const struct rulesync_flags *c = &a->flags;
    int rc = kube_flags_open(&c->kube, &a->access, e);
    if (rc != 0) {
        return rc;
    }
    const struct kube_client_options o = {
        .access = &a->access,
        .max_idle = 2,
        .health = &a->health,
        .granted_by = granted_by,
        .http1_only = c->kube.protocol == UPSTREAM_HTTP1,
    };
    a->client = kube_client_new(a->program.loop, &o, e);
    if (a->client == NULL) {
        return e->code;
    }
    a->configmap = source_configmap_new(a->program.loop, a->client, c->from_configmap,
                                        &pipeline_handlers, a->pipeline, e);
    if (a->configmap == NULL) {
        return e->code;
    }
    const struct source_taker taker = traffic_taker(a);
    source_configmap_take_traffic(a->configmap, &taker);
    return 0;
}

static int open_limit(struct app *a, struct err *e)
{
    if (a->flags.timeout_s == 0) {
        return 0;
    }
    a->limit = net_timer_new(a->program.loop, on_limit, a);
    if (a->limit == NULL) {
        return err_memory(e);
    }
    net_timer_set(a->limit, a->flags.timeout_s * 1000);
    return 0;
}

static int write_ready_file(const struct app *a, struct err *e)
{
    const struct program_address address = {"admin", admin_server_address(a->server)};
    return program_write_ready_file(a->flags.ready_file, &address, 1, e);
}

static int open_admin(struct app *a, struct err *e)
{
    a->admin = (struct rulesync_admin){
        .flags = &a->flags,
        .pipeline = a->pipeline,
        .traffic = a->traffic,
        .traffic_to = a->traffic_to,
        .client = a->client,
        .health = &a->health,
    };
    const struct admin_server_options o = {
        .address = a->flags.admin,
        .program = CONTROL_STATUS_RULESYNC,
        .ops = &rulesync_admin_ops,
        .data = &a->admin,
    };
    a->server = admin_server_new(a->program.loop, &o, e);
    if (a->server == NULL) {
        return e->code;
    }
    log_info("listening", log_str("admin", admin_server_address(a->server)));
    return write_ready_file(a, e);
}

static int open_all(void *data, struct err *e)
{
    struct app *a = data;
    bool from_file = a->flags.from != NULL && a->flags.from[0] != '\0';
    int rc = program_check_ready_file(a->flags.ready_file, e);
    if (rc != 0) {
        return rc;
    }
    rc = open_sync(a, e);
    if (rc != 0) {
        return rc;
    }
    rc = from_file ? open_dir(a, e) : open_configmap(a, e);
    if (rc != 0) {
        return rc;
    }
    return a->flags.once ? open_limit(a, e) : open_admin(a, e);
}

static void close_all(void *data)
{
    struct app *a = data;
    net_timer_free(a->limit);
    admin_server_free(a->server);
    source_dir_free(a->dir);
    source_configmap_free(a->configmap);
    pipeline_free(a->traffic);
    pipeline_free(a->pipeline);
    free(a->traffic_to);
    if (a->client != NULL) {
        kube_client_close(a->client, NULL, NULL);
    }
}

static const struct program_ops ops = {
    .open = open_all,
    .on_shutdown = on_shutdown,
    .on_reload = on_reload,
    .close = close_all,
};

int main(int argc, char **argv)
{
    struct app a = {.over = false};
    health_init(&a.health, NULL);
    rulesync_flags_parse(&a.flags, argc, argv);
    int code = program_run(&a.program, &ops, &a);
    kube_access_deinit(&a.access);
    health_deinit(&a.health);
    return code;
}
