/* SPDX-License-Identifier: Apache-2.0 */
#include "label/unlabel_flags.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/flags.h"
#include "base/log.h"
#include "label/labeller.h"
#include "label/unlabel.h"

static const char description[] =
    "`manager unlabel` takes the control labels away again, of objects first and then of "
    "namespaces: what is left to do when the product is removed. Labels that another owner put "
    "there, without the control label, stay.\n"
    "Remove the manager and its webhook configurations before: they would put the labels back. "
    "Give the same flags for labels and resources as the manager had.\n"
    "Exit code 1 means that labels of ours are left; it can be run again at any time.";

static const char examples[] = "    manager unlabel --dry-run\n"
                               "    manager unlabel --all-resources --label-qps=500\n";

static void misuse(const char *msg, const char *detail)
{
    fprintf(stderr, "manager: %s%s\nRun \"manager unlabel --help\" for the flags.\n", msg, detail);
    exit(EXIT_USAGE);
}

/* What cannot be told flag by flag. */
static void check(const struct unlabel_command *c)
{
    struct err e = ERR_INIT;
    struct labels_keys keys;
    if (c->in_cluster && (c->kubeconfig != NULL || c->context != NULL)) {
        misuse("--in-cluster cannot stand beside --kubeconfig or --context", "");
    }
    if (c->all_resources && c->resources != NULL) {
        misuse("--all-resources cannot stand beside --sharding-resources", "");
    }
    if (labels_keys_init(&keys, &c->labels, &e) != 0) {
        misuse(e.msg, "");
    }
}

static void parse(struct unlabel_command *c, int argc, char **argv)
{
    struct flags_common common = {.log_format = LOG_TEXT, .log_level = LOG_INFO};
    const struct flag flags[] = {
        {.name = "dry-run",
         .help = "Change nothing: say how many objects carry labels of ours.",
         .type = FLAG_BOOL,
         .target = &c->dry_run},
        {.name = "sharding-resources",
         .value = "PATH",
         .help = "Which resources were labelled, as for the running manager.",
         .type = FLAG_STRING,
         .target = &c->resources,
         .default_text = "the usual namespaced kinds of v1, apps/v1 and batch/v1"},
        {.name = "all-resources",
         .help = "Look at every resource of the API server instead.",
         .type = FLAG_BOOL,
         .target = &c->all_resources},
        {.name = "label-qps",
         .value = "RATE",
         .help = "How many objects are changed in a second.",
         .type = FLAG_UINT,
         .target = &c->qps,
         .min = 1,
         .max = 100000},
        {.name = "kubeconfig",
         .value = "PATH",
         .help = "Kubeconfig of the API server. Without it: $KUBECONFIG, ~/.kube/config, or the "
                 "pod's service account.",
         .type = FLAG_STRING,
         .target = &c->kubeconfig},
        {.name = "context",
         .value = "NAME",
         .help = "Its context; the current one otherwise.",
         .type = FLAG_STRING,
         .target = &c->context},
        {.name = "in-cluster",
         .help = "Use the pod's service account, whatever kubeconfig there is.",
         .type = FLAG_BOOL,
         .target = &c->in_cluster},
        {.name = "label-prefix",
         .value = "PREFIX",
         .help = "Prefix of the control labels.",
         .type = FLAG_STRING,
         .target = &c->labels.prefix},
        {.name = "label-namespace",
         .value = "NAME",
         .help = "Control label with an object's namespace: a name below the prefix, or a whole "
                 "key with a slash.",
         .type = FLAG_STRING,
         .target = &c->labels.namespace},
        {.name = "label-shard-hash",
         .value = "NAME",
         .help = "Control label with the hash of an object's namespace.",
         .type = FLAG_STRING,
         .target = &c->labels.shard_hash},
        {.name = "label-control",
         .value = "NAME",
         .help = "Control label that says that an object is labelled.",
         .type = FLAG_STRING,
         .target = &c->labels.control},
        FLAGS_COMMON(&common),
        {.name = NULL},
    };
    const struct program program = {
        .name = "manager",
        .summary = "the control plane of the mesh",
        .usage = "unlabel [FLAGS]",
        .description = description,
        .examples = examples,
        .flags = flags,
    };
    int rest = flags_parse_or_exit(&program, &common, argc, argv);
    if (rest < argc) {
        misuse("unexpected argument ", argv[rest]);
    }
}

int unlabel_main(int argc, char **argv)
{
    struct unlabel_command c = {
        .labels = {.prefix = LABELS_PREFIX,
                   .namespace = "namespace",
                   .shard_hash = "sharding-hash",
                   .control = "control"},
        .qps = LABELLER_QPS,
    };
    parse(&c, argc, argv);
    check(&c);
    return unlabel_command_run(&c);
}
