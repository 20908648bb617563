/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admit.c - serves the manager's webhooks with certificates that live for seconds, for end-to-end
 * tests of their renewal. It knows no ShardingConfigs. On SIGTERM it answers what it was asked and
 * ends.
 */
#include "base/flags.h"
#include "base/log.h"
#include "compile/label_flags.h"
#include "program/program.h"
#include "webhook/serving.h"

struct app {
    struct program program;
    struct kube_access access;
    struct kube_client *client;
    struct webhook_serving *serving;
    const char *kubeconfig;
    const char *ready_file;
    struct flag_list hosts;
    struct labels_keys keys;
    struct compile_options compile;
    struct webhook_context context;
    struct webhook_serving_options options;
    struct flags_common common;
};

static int look(void *data, const char *ns, struct validate_context *w, struct err *e)
{
    (void)data;
    (void)ns;
    (void)w;
    (void)e;
    return 0;
}

static void on_drained(void *data)
{
    struct app *a = data;
    program_stop(&a->program, EXIT_DONE);
}

static void on_shutdown(void *data)
{
    struct app *a = data;
    webhook_serving_drain(a->serving, on_drained, a);
}

static const struct flag table[] = {
    {.name = "kubeconfig",
     .value = "PATH",
     .help = "How to reach the API server.",
     FLAG_STRING_AT(struct app, kubeconfig)},
    {.name = "namespace",
     .value = "NAME",
     .help = "Of the Secret.",
     FLAG_STRING_AT(struct app, options.namespace)},
    {.name = "webhook",
     .value = "ADDR:PORT",
     .help = "Where to listen.",
     FLAG_STRING_AT(struct app, options.address)},
    {.name = "host",
     .value = "NAME",
     .help = "A name of the certificate; may be repeated.",
     FLAG_LIST_AT(struct app, hosts)},
    {.name = "authority-seconds",
     .value = "SECONDS",
     .help = "How long an authority is valid.",
     FLAG_UINT_AT(struct app, options.authority_seconds),
     .min = 1,
     .max = 1000000},
    {.name = "serving-seconds",
     .value = "SECONDS",
     .help = "How long a serving certificate is valid.",
     FLAG_UINT_AT(struct app, options.serving_seconds),
     .min = 1,
     .max = 1000000},
    {.name = "settle-ms",
     .value = "MS",
     .help = "From an authority that is published to its use.",
     FLAG_UINT_AT(struct app, options.settle_ms),
     .min = 1,
     .max = 1000000},
    {.name = "ready-file",
     .value = "PATH",
     .help = "Gets the address as JSON.",
     FLAG_STRING_AT(struct app, ready_file)},
    FLAGS_COMMON(struct app, common),
    {0},
};

static const struct command command = {
    .program = "admit",
    .summary = "Serves webhooks.",
    .usage = "--namespace NAME --ready-file PATH [FLAG...]",
    .flags = table,
};

static int write_ready_file(const struct app *a, struct err *e)
{
    const struct program_address address = {"webhook", webhook_serving_address(a->serving)};
    return program_write_ready_file(a->ready_file, &address, 1, e);
}

static int open_all(void *data, struct err *e)
{
    struct app *a = data;
    if (kube_access_open(a->kubeconfig, NULL, false, &a->access, e) != 0) {
        return e->code;
    }
    const struct kube_client_options o = {.access = &a->access, .max_idle = 4};
    a->client = kube_client_new(a->program.loop, &o, e);
    if (a->client == NULL || labels_keys_init(&a->keys, &a->compile.labels, e) != 0) {
        return e->code;
    }
    a->options.client = a->client;
    a->options.names = a->hosts.items;
    a->options.name_count = a->hosts.count;
    a->context = (struct webhook_context){
        .keys = &a->keys, .inject = &inject_defaults, .compile = &a->compile, .look = look};
    a->options.context = &a->context;
    a->serving = webhook_serving_new(a->program.loop, &a->options, e);
    return a->serving == NULL ? e->code : write_ready_file(a, e);
}

static void close_all(void *data)
{
    struct app *a = data;
    webhook_serving_free(a->serving);
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
        .compile = {.namespace = "default", .labels = LABEL_FLAGS_DEFAULTS(NULL)},
        .options = {.address = "127.0.0.1:0"},
        .common = FLAGS_COMMON_DEFAULTS,
    };
    (void)flags_parse_or_exit(&command, &a, &a.common, argc, argv);
    int code = program_run(&a.program, &ops, &a);
    kube_access_deinit(&a.access);
    return code;
}
