/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admit.c - serves the manager's webhooks with certificates that live for seconds, for end-to-end
 * tests of their renewal. It knows no ShardingConfigs. On SIGTERM it answers what it was asked and
 * ends.
 */
#include <signal.h>
#include <stdio.h>

#include "base/file.h"
#include "base/flags.h"
#include "base/log.h"
#include "webhook/serving.h"

struct app {
    struct net_loop *loop;
    struct kube_access access;
    struct kube_client *client;
    struct webhook_serving *serving;
    uv_signal_t terminate;
    const char *kubeconfig;
    const char *ready_file;
    struct flag_list hosts;
    struct labels_keys keys;
    struct compile_options compile;
    struct webhook_serving_options options;
    struct flags_common common;
};

static int look(void *data, bool pods_needed, struct validate_context *w, struct err *e)
{
    (void)data;
    (void)pods_needed;
    (void)w;
    (void)e;
    return 0;
}

static void on_drained(void *data)
{
    struct app *a = data;
    net_loop_stop(a->loop);
}

static void on_terminate(uv_signal_t *handle, int signum)
{
    struct app *a = handle->data;
    (void)signum;
    webhook_serving_drain(a->serving, on_drained, a);
    net_loop_settle(a->loop);
}

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
         .help = "Of the Secret.",
         .type = FLAG_STRING,
         .target = &a->options.namespace},
        {.name = "webhook",
         .value = "ADDR:PORT",
         .help = "Where to listen.",
         .type = FLAG_STRING,
         .target = &a->options.address},
        {.name = "host",
         .value = "NAME",
         .help = "A name of the certificate; may be repeated.",
         .type = FLAG_LIST,
         .target = &a->hosts},
        {.name = "authority-seconds",
         .value = "SECONDS",
         .help = "How long an authority is valid.",
         .type = FLAG_UINT,
         .target = &a->options.authority_seconds,
         .min = 1,
         .max = 1000000},
        {.name = "serving-seconds",
         .value = "SECONDS",
         .help = "How long a serving certificate is valid.",
         .type = FLAG_UINT,
         .target = &a->options.serving_seconds,
         .min = 1,
         .max = 1000000},
        {.name = "settle-ms",
         .value = "MS",
         .help = "From an authority that is published to its use.",
         .type = FLAG_UINT,
         .target = &a->options.settle_ms,
         .min = 1,
         .max = 1000000},
        {.name = "ready-file",
         .value = "PATH",
         .help = "Gets the address as JSON.",
         .type = FLAG_STRING,
         .target = &a->ready_file},
        FLAGS_COMMON(&a->common),
        {0},
    };
    const struct program program = {
        .name = "admit",
        .summary = "Serves webhooks.",
        .usage = "--namespace NAME --ready-file PATH [FLAG...]",
        .flags = flags,
    };
    (void)flags_parse_or_exit(&program, &a->common, argc, argv);
}

static int write_ready_file(const struct app *a, struct err *e)
{
    char text[256];
    int len =
        snprintf(text, sizeof text, "{\"webhook\":\"%s\"}\n", webhook_serving_address(a->serving));
    return file_write_atomic(a->ready_file, text, (size_t)len, 0600, e);
}

static int start(struct app *a, struct err *e)
{
    if (kube_access_open(a->kubeconfig, NULL, false, &a->access, e) != 0) {
        return e->code;
    }
    const struct kube_client_options o = {.access = &a->access, .max_idle = 4};
    a->client = kube_client_new(a->loop, &o, e);
    if (a->client == NULL || labels_keys_init(&a->keys, &a->compile.labels, e) != 0) {
        return e->code;
    }
    a->options.client = a->client;
    a->options.names = a->hosts.items;
    a->options.name_count = a->hosts.count;
    a->options.context = (struct webhook_context){
        .keys = &a->keys, .inject = &inject_defaults, .compile = &a->compile, .look = look};
    a->serving = webhook_serving_new(a->loop, &a->options, e);
    return a->serving == NULL ? e->code : write_ready_file(a, e);
}

static void close_all(struct app *a)
{
    webhook_serving_free(a->serving);
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
        .compile = {.namespace = "default",
                    .labels = {.namespace = "namespace",
                               .shard_hash = "sharding-hash",
                               .control = "control"}},
        .options = {.address = "127.0.0.1:0"},
        .common = {.log_format = LOG_TEXT, .log_level = LOG_INFO},
    };
    (void)signal(SIGPIPE, SIG_IGN);
    read_flags(&a, argc, argv);
    return run(&a);
}
