/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/unlabel_flags.h"

#include "base/log.h"
#include "commands/unlabel.h"
#include "compile/label_flags.h"
#include "label/labeller.h"

static const char description[] =
    "`manager unlabel` takes the control labels away again, of objects first and then of "
    "namespaces: what is left to do when the product is removed. Labels that another owner put "
    "there, without the control label, stay.\n"
    "Remove the manager and its webhook configurations before: they would put the labels back. "
    "Give the same flags for labels and resources as the manager had.\n"
    "Exit code 1 means that labels of ours are left; it can be run again at any time.";

static const char examples[] = "    manager unlabel --dry-run\n"
                               "    manager unlabel --all-resources --label-qps=500\n";

struct unlabel_flags {
    struct flags_common common;
    struct unlabel_command command;
};

static const struct unlabel_flags defaults = {
    .common = FLAGS_COMMON_DEFAULTS,
    .command = {.kube = KUBE_FLAGS_DEFAULTS,
                .labels = LABEL_FLAGS_DEFAULTS(LABELS_PREFIX),
                .qps = LABELLER_QPS},
};

static const struct flag table[] = {
    {.name = "dry-run",
     FLAG_BOOL_AT(struct unlabel_flags, command.dry_run),
     .help = "Change nothing: say how many objects carry labels of ours."},
    {.name = "sharding-resources",
     .value = "PATH",
     .default_text = "the usual namespaced kinds of v1, apps/v1 and batch/v1",
     FLAG_STRING_AT(struct unlabel_flags, command.resources),
     .help = "Which resources were labelled, as for the running manager."},
    {.name = "all-resources",
     FLAG_BOOL_AT(struct unlabel_flags, command.all_resources),
     .help = "Look at every resource of the API server instead."},
    {.name = "label-qps",
     .value = "RATE",
     .min = 1,
     .max = 100000,
     FLAG_UINT_AT(struct unlabel_flags, command.qps),
     .help = "How many objects are changed in a second."},
    FLAGS_KUBE(struct unlabel_flags, command.kube, NULL),
    FLAGS_LABELS(struct unlabel_flags, command.labels, "", NULL),
    FLAGS_COMMON(struct unlabel_flags, common),
    {.name = NULL},
};

static const struct command command = {
    .program = "manager",
    .name = "unlabel",
    .summary = "remove the control labels from the objects of a cluster",
    .usage = "[FLAGS]",
    .description = description,
    .examples = examples,
    .see_also = "manager(1)",
    .flags = table,
};

/* What cannot be told flag by flag. */
static void check_flags(const struct unlabel_command *c)
{
    struct err e = ERR_INIT;
    struct labels_keys keys;
    if (c->all_resources && c->resources != NULL) {
        flags_misuse(&command, "--all-resources cannot be combined with --sharding-resources");
    }
    if (kube_flags_check(&c->kube, &e) != 0 || labels_keys_init(&keys, &c->labels, &e) != 0) {
        flags_misuse(&command, "%s", e.msg);
    }
}

int unlabel_main(int argc, char **argv)
{
    struct unlabel_flags f = defaults;
    (void)flags_parse_or_exit(&command, &f, &f.common, argc, argv);
    check_flags(&f.command);
    return unlabel_command_run(&f.command);
}
