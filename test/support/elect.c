/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elect.c - a replica that stands for election, for end-to-end tests. It prints how it goes, one
 * JSON object a line with the time in ns since 1970, as the programs around other clients do:
 *
 *     {"kind":"leading","t":1}  {"kind":"stopped","t":2}  {"kind":"leader","leader":"NAME","t":3}
 *     {"kind":"state","error":"...","t":4}
 *
 * While it leads, it writes its name into a ConfigMap, again and again, if one is named. On SIGTERM
 * it gives the Lease back and ends.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/flags.h"
#include "base/log.h"
#include "kube/client/lease.h"
#include "kube/client/object_request.h"
#include "json/json.h"

enum { WRITE_MS = 10 };

struct app {
    struct net_loop *loop;
    struct kube_access access;
    struct kube_client *client;
    struct lease *lease;
    struct net_timer *timer; /* of the next write */
    struct object_request *request;
    unsigned writes;
    uv_signal_t terminate;
    const char *kubeconfig;
    const char *map; /* NULL: nothing is written */
    struct lease_options options;
    struct flags_common common;
};

static void print_line(const char *kind, const char *key, const char *value)
{
    struct timespec t;
    struct buf text = BUF_INIT(65536);
    (void)clock_gettime(CLOCK_REALTIME, &t);
    if (key != NULL && (json_quote(value, &text) != 0 || buf_cstr(&text) == NULL)) {
        abort();
    }
    (void)printf("{\"kind\":\"%s\"", kind);
    if (key != NULL) {
        (void)printf(",\"%s\":%s", key, buf_cstr(&text));
    }
    (void)printf(",\"t\":%" PRId64 "}\n", (int64_t)t.tv_sec * 1000000000 + t.tv_nsec);
    (void)fflush(stdout);
    buf_reset(&text);
}

/* ---- what a leader does ---- */

static void on_written(void *data, const cJSON *object, const struct api_error *error)
{
    struct app *a = data;
    (void)object;
    a->request = NULL;
    if (error != NULL) {
        log_warn("cannot write", log_str("error", error->msg));
    }
    net_timer_set(a->timer, WRITE_MS);
}

static void on_timer(void *data)
{
    struct app *a = data;
    if (!lease_held(a->lease)) {
        return;
    }
    cJSON *patch = cJSON_CreateObject();
    cJSON *values = cJSON_AddObjectToObject(patch, "data");
    char count[16];
    (void)snprintf(count, sizeof count, "%u", ++a->writes);
    cJSON_AddStringToObject(values, "writer", a->options.identity);
    cJSON_AddStringToObject(values, "count", count); /* what changes nothing is no write */
    char path[256];
    (void)snprintf(path, sizeof path, "/api/v1/namespaces/%s/configmaps", a->options.namespace);
    struct object_request_options q = {
        .verb = OBJECT_REQUEST_MERGE_PATCH, .path = path, .name = a->map, .body = patch};
    struct err e = ERR_INIT;
    a->request = object_request_start(a->loop, a->client, &q, on_written, a, &e);
    if (a->request == NULL) {
        log_warn("cannot write", log_str("error", e.msg));
    }
    cJSON_Delete(patch);
}

static void stop_writing(struct app *a)
{
    net_timer_clear(a->timer);
    object_request_cancel(a->request);
    a->request = NULL;
}

/* ---- the election ---- */

static void on_started(void *data)
{
    struct app *a = data;
    print_line("leading", NULL, NULL);
    if (a->map != NULL) {
        net_timer_set(a->timer, 0);
    }
}

static void on_stopped(void *data)
{
    stop_writing(data);
    print_line("stopped", NULL, NULL);
}

static void on_leader(void *data, const char *identity)
{
    (void)data;
    print_line("leader", "leader", identity);
}

static void on_state(void *data, const char *error)
{
    (void)data;
    print_line("state", "error", error == NULL ? "" : error);
}

static const struct lease_handlers handlers = {
    .on_started = on_started,
    .on_stopped = on_stopped,
    .on_leader = on_leader,
    .on_state = on_state,
};

static void on_released(void *data)
{
    struct app *a = data;
    net_loop_stop(a->loop);
}

static void on_terminate(uv_signal_t *handle, int signum)
{
    struct app *a = handle->data;
    (void)signum;
    lease_release(a->lease, on_released, a);
    net_loop_settle(a->loop);
}

/* ---- life ---- */

static void read_flags(struct app *a, int argc, char **argv)
{
    const struct flag flags[] = {
        {.name = "kubeconfig",
         .value = "PATH",
         .help = "How to reach the API server.",
         .type = FLAG_STRING,
         .target = &a->kubeconfig},
        {.name = "namespace",
         .value = "NAME",
         .help = "Of the Lease.",
         .type = FLAG_STRING,
         .target = &a->options.namespace},
        {.name = "name",
         .value = "NAME",
         .help = "Of the Lease.",
         .type = FLAG_STRING,
         .target = &a->options.name},
        {.name = "identity",
         .value = "NAME",
         .help = "Of this replica.",
         .type = FLAG_STRING,
         .target = &a->options.identity},
        {.name = "map",
         .value = "NAME",
         .help = "Of the ConfigMap that a leader writes.",
         .type = FLAG_STRING,
         .target = &a->map},
        {.name = "duration-ms",
         .value = "MS",
         .help = "How long a Lease holds that is not renewed.",
         .type = FLAG_UINT,
         .target = &a->options.duration_ms,
         .min = 1000,
         .max = 3600000},
        {.name = "renew-deadline-ms",
         .value = "MS",
         .help = "When a leader that cannot renew gives up.",
         .type = FLAG_UINT,
         .target = &a->options.renew_deadline_ms,
         .min = 1,
         .max = 3600000},
        {.name = "retry-period-ms",
         .value = "MS",
         .help = "Between tries.",
         .type = FLAG_UINT,
         .target = &a->options.retry_period_ms,
         .min = 1,
         .max = 3600000},
        FLAGS_COMMON(&a->common),
        {0},
    };
    const struct program program = {
        .name = "elect",
        .summary = "Stands for election.",
        .usage = "--namespace NAME --name NAME --identity NAME [FLAG...]",
        .flags = flags,
    };
    (void)flags_parse_or_exit(&program, &a->common, argc, argv);
}

static int start(struct app *a, struct err *e)
{
    if (kube_access_open(a->kubeconfig, NULL, false, &a->access, e) != 0) {
        return e->code;
    }
    struct kube_client_options o = {.access = &a->access, .max_idle = 4};
    a->client = kube_client_new(a->loop, &o, e);
    a->timer = a->client == NULL ? NULL : net_timer_new(a->loop, on_timer, a);
    if (a->timer == NULL) {
        return -1;
    }
    a->options.client = a->client;
    a->lease = lease_new(a->loop, &a->options, &handlers, a, e);
    return a->lease == NULL ? e->code : 0;
}

static void close_all(struct app *a)
{
    lease_free(a->lease);
    if (a->timer != NULL) {
        stop_writing(a);
    }
    net_timer_free(a->timer);
    if (a->client != NULL) {
        kube_client_close(a->client, NULL, NULL);
    }
    uv_close((uv_handle_t *)&a->terminate, NULL);
}

static int run(struct app *a)
{
    struct err e = ERR_INIT;
    a->loop = net_loop_new(&e);
    if (a->loop == NULL) {
        log_error("cannot start", log_str("error", e.msg));
        return EXIT_FAILED;
    }
    (void)uv_signal_init(&a->loop->uv, &a->terminate);
    a->terminate.data = a;
    (void)uv_signal_start(&a->terminate, on_terminate, SIGTERM);
    int rc = start(a, &e);
    if (rc == 0) {
        net_loop_run(a->loop);
    } else {
        log_error("cannot start", log_str("error", e.msg));
    }
    close_all(a);
    rc = net_loop_free(a->loop) != 0 || rc != 0 ? EXIT_FAILED : EXIT_DONE;
    kube_access_deinit(&a->access);
    return rc;
}

int main(int argc, char **argv)
{
    struct app a = {
        .options = {.duration_ms = 15000, .renew_deadline_ms = 10000, .retry_period_ms = 2000},
        .common = {.log_format = LOG_TEXT, .log_level = LOG_INFO}};
    (void)signal(SIGPIPE, SIG_IGN);
    read_flags(&a, argc, argv);
    return run(&a);
}
