/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reflect.c - a program that follows a collection and prints what it learns, one JSON object a
 * line, for end-to-end tests. It ends on SIGTERM and then prints what it counted.
 *
 *     {"type":"list"}  {"type":"listed","object":{...}}  {"type":"synced"}
 *     {"type":"added","object":{...}}  {"type":"modified",...}  {"type":"deleted",...}
 *     {"type":"state","error":"..."}   {"type":"stats",...}
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/flags.h"
#include "base/log.h"
#include "kube/client/reflector.h"
#include "json/json.h"

static const char *const change_names[] = {
    [REFLECTOR_LISTED] = "listed",
    [REFLECTOR_ADDED] = "added",
    [REFLECTOR_MODIFIED] = "modified",
    [REFLECTOR_DELETED] = "deleted",
};

struct app {
    struct net_loop *loop;
    struct kube_access access;
    struct kube_client *client;
    struct reflector *reflector;
    uv_signal_t terminate;
    const char *kubeconfig;
    struct reflector_options options;
    uint64_t page_size;
    struct flags_common common;
};

static void print_line(const char *type, const char *key, const cJSON *value)
{
    struct buf text = BUF_INIT(SIZE_MAX);
    if (value != NULL && json_canonical(value, &text) == 0) {
        (void)printf("{\"type\":\"%s\",\"%s\":%s}\n", type, key, buf_cstr(&text));
    } else {
        (void)printf("{\"type\":\"%s\"}\n", type);
    }
    (void)fflush(stdout);
    buf_reset(&text);
}

static void on_list(void *data)
{
    (void)data;
    print_line("list", NULL, NULL);
}

static void on_object(void *data, enum reflector_change change, const cJSON *object)
{
    (void)data;
    print_line(change_names[change], "object", object);
}

static void on_synced(void *data)
{
    (void)data;
    print_line("synced", NULL, NULL);
}

static void on_state(void *data, const char *error)
{
    (void)data;
    cJSON *text = error == NULL ? cJSON_CreateNull() : cJSON_CreateString(error);
    print_line("state", "error", text);
    cJSON_Delete(text);
}

static const struct reflector_handlers handlers = {
    .on_list = on_list,
    .on_object = on_object,
    .on_synced = on_synced,
    .on_state = on_state,
};

static const char *const reasons[REFLECTOR_REASONS] = {
    [REFLECTOR_START] = "start",
    [REFLECTOR_EXPIRED] = "expired",
    [REFLECTOR_MALFORMED] = "malformed",
    [REFLECTOR_REFUSED] = "refused",
};

static void print_stats(const struct reflector_stats *s)
{
    cJSON *stats = cJSON_CreateObject();
    for (int i = 0; i < REFLECTOR_REASONS; i++) {
        cJSON_AddNumberToObject(stats, reasons[i], (double)s->lists[i]);
    }
    cJSON_AddNumberToObject(stats, "pages", (double)s->pages);
    cJSON_AddNumberToObject(stats, "objects", (double)s->objects);
    cJSON_AddNumberToObject(stats, "watches", (double)s->watches);
    cJSON_AddNumberToObject(stats, "events", (double)s->events);
    cJSON_AddNumberToObject(stats, "bookmarks", (double)s->bookmarks);
    cJSON_AddNumberToObject(stats, "failures", (double)s->failures);
    print_line("stats", "stats", stats);
    cJSON_Delete(stats);
}

static void on_terminate(uv_signal_t *handle, int signum)
{
    struct app *a = handle->data;
    (void)signum;
    print_stats(reflector_stats(a->reflector));
    net_loop_stop(a->loop);
}

static void read_flags(struct app *a, int argc, char **argv)
{
    const struct flag flags[] = {
        {.name = "kubeconfig",
         .value = "PATH",
         .help = "How to reach the API server.",
         .type = FLAG_STRING,
         .target = &a->kubeconfig},
        {.name = "path",
         .value = "PATH",
         .help = "Of the collection.",
         .type = FLAG_STRING,
         .target = &a->options.path},
        {.name = "name",
         .value = "NAME",
         .help = "Only this object.",
         .type = FLAG_STRING,
         .target = &a->options.name},
        {.name = "labels",
         .value = "SELECTOR",
         .help = "Label selector.",
         .type = FLAG_STRING,
         .target = &a->options.label_selector},
        {.name = "fields",
         .value = "SELECTOR",
         .help = "Field selector.",
         .type = FLAG_STRING,
         .target = &a->options.field_selector},
        {.name = "metadata-only",
         .help = "Ask for metadata alone.",
         .type = FLAG_BOOL,
         .target = &a->options.metadata_only},
        {.name = "page-size",
         .value = "COUNT",
         .help = "Objects in a page.",
         .type = FLAG_UINT,
         .target = &a->page_size,
         .min = 1,
         .max = 10000},
        FLAGS_COMMON(&a->common),
        {0},
    };
    const struct program program = {
        .name = "reflect",
        .summary = "Prints what happens in a collection of the API server.",
        .usage = "--path PATH [FLAG...]",
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
    if (a->client == NULL) {
        return e->code;
    }
    a->options.client = a->client;
    a->options.page_size = (unsigned)a->page_size;
    a->reflector = reflector_new(a->loop, &a->options, &handlers, a, e);
    return a->reflector == NULL ? e->code : 0;
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
    reflector_free(a->reflector);
    if (a->client != NULL) {
        kube_client_close(a->client, NULL, NULL);
    }
    uv_close((uv_handle_t *)&a->terminate, NULL);
    rc = net_loop_free(a->loop) != 0 || rc != 0 ? EXIT_FAILED : EXIT_DONE;
    kube_access_deinit(&a->access);
    return rc;
}

int main(int argc, char **argv)
{
    struct app a = {.page_size = 500, .common = {.log_format = LOG_TEXT, .log_level = LOG_INFO}};
    (void)signal(SIGPIPE, SIG_IGN);
    read_flags(&a, argc, argv);
    return run(&a);
}
