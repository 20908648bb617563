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
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/flags.h"
#include "base/log.h"
#include "kube/client/lease.h"
#include "kube/client/object_request.h"
#include "program/program.h"
#include "json/json.h"

enum { WRITE_MS = 10 };

struct app {
    struct program program;
    struct kube_access access;
    struct kube_client *client;
    struct lease *lease;
    struct net_timer *timer; /* of the next write */
    struct object_request *request;
    unsigned writes;
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
    a->request = object_request_start(a->program.loop, a->client, &q, on_written, a, &e);
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

static void on_state(void *data, const char *error, enum log_level level)
{
    (void)level;
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
    program_stop(&a->program, EXIT_DONE);
}

static void on_shutdown(void *data)
{
    struct app *a = data;
    lease_release(a->lease, on_released, a);
}

/* ---- life ---- */

static const struct flag table[] = {
    {.name = "kubeconfig",
     .value = "PATH",
     .help = "How to reach the API server.",
     FLAG_STRING_AT(struct app, kubeconfig)},
    {.name = "namespace",
     .value = "NAME",
     .help = "Of the Lease.",
     FLAG_STRING_AT(struct app, options.namespace)},
    {.name = "name",
     .value = "NAME",
     .help = "Of the Lease.",
     FLAG_STRING_AT(struct app, options.name)},
    {.name = "identity",
     .value = "NAME",
     .help = "Of this replica.",
     FLAG_STRING_AT(struct app, options.identity)},
    {.name = "map",
     .value = "NAME",
     .help = "Of the ConfigMap that a leader writes.",
     FLAG_STRING_AT(struct app, map)},
    {.name = "duration-ms",
     .value = "MS",
     .help = "How long a Lease holds that is not renewed.",
     FLAG_UINT_AT(struct app, options.duration_ms),
     .min = 1000,
     .max = 3600000},
    {.name = "renew-deadline-ms",
     .value = "MS",
     .help = "When a leader that cannot renew gives up.",
     FLAG_UINT_AT(struct app, options.renew_deadline_ms),
     .min = 1,
     .max = 3600000},
    {.name = "retry-period-ms",
     .value = "MS",
     .help = "Between tries.",
     FLAG_UINT_AT(struct app, options.retry_period_ms),
     .min = 1,
     .max = 3600000},
    FLAGS_COMMON(struct app, common),
    {0},
};

static const struct command command = {
    .program = "elect",
    .summary = "Stands for election.",
    .usage = "--namespace NAME --name NAME --identity NAME [FLAG...]",
    .flags = table,
};

static int open_all(void *data, struct err *e)
{
    struct app *a = data;
    if (kube_access_open(a->kubeconfig, NULL, false, &a->access, e) != 0) {
        return e->code;
    }
    struct kube_client_options o = {.access = &a->access, .max_idle = 4};
    a->client = kube_client_new(a->program.loop, &o, e);
    a->timer = a->client == NULL ? NULL : net_timer_new(a->program.loop, on_timer, a);
    if (a->timer == NULL) {
        return -1;
    }
    a->options.client = a->client;
    a->lease = lease_new(a->program.loop, &a->options, &handlers, a, e);
    return a->lease == NULL ? e->code : 0;
}

static void close_all(void *data)
{
    struct app *a = data;
    lease_free(a->lease);
    if (a->timer != NULL) {
        stop_writing(a);
    }
    net_timer_free(a->timer);
    if (a->client != NULL) {
        kube_client_close(a->client, NULL, NULL);
    }
}

static const struct program_ops ops = {
    .open = open_all,
    .on_shutdown = on_shutdown,
    .close = close_all,
};

int main(int argc, char **argv)
{
    struct app a = {
        .options = {.duration_ms = 15000, .renew_deadline_ms = 10000, .retry_period_ms = 2000},
        .common = FLAGS_COMMON_DEFAULTS};
    (void)flags_parse_or_exit(&command, &a, &a.common, argc, argv);
    int code = program_run(&a.program, &ops, &a);
    kube_access_deinit(&a.access);
    return code;
}
