/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reflect.c - a program that follows a collection and prints what it learns, one JSON object a
 * line, for end-to-end tests. It ends on SIGTERM and then prints what it counted.
 *
 *     {"type":"list"}  {"type":"listed","object":{...}}  {"type":"synced"}
 *     {"type":"added","object":{...}}  {"type":"modified",...}  {"type":"deleted",...}
 *     {"type":"state","error":"..."}   {"type":"stats",...}
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/flags.h"
#include "base/log.h"
#include "kube/client/reflector.h"
#include "program/program.h"
#include "json/json.h"

static const char *const change_names[] = {
    [REFLECTOR_LISTED] = "listed",
    [REFLECTOR_ADDED] = "added",
    [REFLECTOR_MODIFIED] = "modified",
    [REFLECTOR_DELETED] = "deleted",
};

struct app {
    struct program program;
    struct kube_access access;
    struct kube_client *client;
    struct reflector *reflector;
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

static void on_state(void *data, const char *error, enum log_level level)
{
    (void)level;
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
    [REFLECTOR_START] = "start",         [REFLECTOR_EXPIRED] = "expired",
    [REFLECTOR_MALFORMED] = "malformed", [REFLECTOR_REFUSED] = "refused",
    [REFLECTOR_ASKED] = "asked",
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

static void on_shutdown(void *data)
{
    struct app *a = data;
    print_stats(reflector_stats(a->reflector));
    program_stop(&a->program, EXIT_DONE);
}

static const struct flag table[] = {
    {.name = "kubeconfig",
     .value = "PATH",
     .help = "How to reach the API server.",
     FLAG_STRING_AT(struct app, kubeconfig)},
    {.name = "path",
     .value = "PATH",
     .help = "Of the collection.",
     FLAG_STRING_AT(struct app, options.path)},
    {.name = "name",
     .value = "NAME",
     .help = "Only this object.",
     FLAG_STRING_AT(struct app, options.name)},
    {.name = "labels",
     .value = "SELECTOR",
     .help = "Label selector.",
     FLAG_STRING_AT(struct app, options.label_selector)},
    {.name = "fields",
     .value = "SELECTOR",
     .help = "Field selector.",
     FLAG_STRING_AT(struct app, options.field_selector)},
    {.name = "metadata-only",
     .help = "Ask for metadata alone.",
     FLAG_BOOL_AT(struct app, options.metadata_only)},
    {.name = "page-size",
     .value = "COUNT",
     .help = "Objects in a page.",
     FLAG_UINT_AT(struct app, page_size),
     .min = 1,
     .max = 10000},
    FLAGS_COMMON(struct app, common),
    {0},
};

static const struct command command = {
    .program = "reflect",
    .summary = "Prints what happens in a collection of the API server.",
    .usage = "--path PATH [FLAG...]",
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
    if (a->client == NULL) {
        return e->code;
    }
    a->options.client = a->client;
    a->options.page_size = (unsigned)a->page_size;
    a->reflector = reflector_new(a->program.loop, &a->options, &handlers, a, e);
    return a->reflector == NULL ? e->code : 0;
}

static void close_all(void *data)
{
    struct app *a = data;
    reflector_free(a->reflector);
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
    struct app a = {.page_size = 500, .common = FLAGS_COMMON_DEFAULTS};
    (void)flags_parse_or_exit(&command, &a, &a.common, argc, argv);
    int code = program_run(&a.program, &ops, &a);
    kube_access_deinit(&a.access);
    return code;
}
