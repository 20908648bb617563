/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/check_operator_flags.h"

#include <stddef.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "commands/check_operator.h"
#include "kube/name.h"
#include "label/labels.h"

static const char description[] =
    "`manager check-operator` looks at an operator and says what would break when it works in "
    "shards, what somebody who knows it should look at, and what is fine: whether its pods can get "
    "the sidecars, which lock they elect a leader by, what its roles let it read and write, and "
    "which webhooks lead to it. It changes nothing; the operator need not be in the mesh.\n"
    "It reads the operator's workload, and the pods, ConfigMaps and Services of its namespace; and "
    "Leases, roles, webhook configurations and CustomResourceDefinitions of the cluster; and from "
    "pods that are in the mesh what they asked for (pods/proxy). What may not be read is told as "
    "unknown.\n"
    "What it cannot see stands in docs/operator-checklist.md.";

static const char examples[] = "    manager check-operator deployment/op -n demo\n"
                               "    manager check-operator statefulset/op -n demo -o json\n";

struct check_operator_flags {
    struct flags_common common;
    int output;
    struct check_operator_command command;
};

enum { OUTPUT_TEXT, OUTPUT_JSON };
static const char *const outputs[] = {"text", "json", NULL};

static const struct check_operator_flags defaults = {
    .common = FLAGS_COMMON_DEFAULTS,
    .output = OUTPUT_TEXT,
    .command = {.kube = KUBE_FLAGS_DEFAULTS, .prefix = LABELS_PREFIX},
};

static const struct flag table[] = {
    {.name = "namespace",
     .letter = 'n',
     .value = "NAME",
     .default_text = "that of the kubeconfig's context",
     FLAG_STRING_AT(struct check_operator_flags, command.ns),
     .help = "Where the operator is."},
    {.name = "output",
     .letter = 'o',
     .value = "FORMAT",
     FLAG_CHOICE_AT(struct check_operator_flags, output),
     .choices = outputs,
     .help = "For people, or for programs."},
    {.name = "sharding-resources",
     .value = "PATH",
     .default_text = "the usual namespaced kinds of v1, apps/v1 and batch/v1",
     FLAG_STRING_AT(struct check_operator_flags, command.resources),
     .help = "Which resources get control labels, as for the running manager."},
    {.name = "label-prefix",
     .value = "PREFIX",
     FLAG_STRING_AT(struct check_operator_flags, command.prefix),
     .help = "Prefix of labels and annotations, as for the running manager."},
    FLAGS_KUBE(struct check_operator_flags, command.kube, NULL),
    FLAGS_COMMON(struct check_operator_flags, common),
    {.name = NULL},
};

static const struct command command = {
    .program = "manager",
    .name = "check-operator",
    .summary = "say what would break when an operator works in shards",
    .usage = "deployment/NAME [FLAGS]\nstatefulset/NAME [FLAGS]",
    .description = description,
    .examples = examples,
    .exit_codes =
        "0 nothing would break, 1 something would, 2 trouble, such as an operator that is "
        "not there.",
    .see_also = "manager(1)",
    .flags = table,
    .takes_arguments = true,
};

/* As kubectl has it. */
static void read_workload(struct check_operator_command *c, const char *text)
{
    const char *slash = strchr(text, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - text);
    static const struct {
        const char *kind;
        bool stateful_set;
    } kinds[] = {{"deployment", false}, {"deployments", false}, {"deploy", false},
                 {"statefulset", true}, {"statefulsets", true}, {"sts", true}};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (len == strlen(kinds[i].kind) && strncmp(text, kinds[i].kind, len) == 0) {
            c->stateful_set = kinds[i].stateful_set;
            c->name = slash + 1;
        }
    }
    if (c->name == NULL || name_check_subdomain(slice_str(c->name)) != NULL) {
        flags_misuse(&command, "\"%s\" is not deployment/NAME or statefulset/NAME", text);
    }
}

static void check_flags(struct check_operator_flags *f, int argc, char **argv, int rest)
{
    struct err e = ERR_INIT;
    struct check_operator_command *c = &f->command;
    if (rest >= argc) {
        flags_misuse(&command, "which operator? deployment/NAME or statefulset/NAME is missing");
    }
    if (rest + 1 < argc) {
        flags_misuse(&command, "unexpected argument \"%s\"", argv[rest + 1]);
    }
    read_workload(c, argv[rest]);
    if (c->ns != NULL && name_check_label(slice_str(c->ns)) != NULL) {
        flags_misuse(&command, "--namespace: \"%s\" is not the name of a namespace", c->ns);
    }
    if (name_check_subdomain(slice_str(c->prefix)) != NULL) {
        flags_misuse(&command, "--label-prefix: \"%s\" is not the prefix of a label", c->prefix);
    }
    if (kube_flags_check(&c->kube, &e) != 0) {
        flags_misuse(&command, "%s", e.msg);
    }
}

int check_operator_main(int argc, char **argv)
{
    struct check_operator_flags f = defaults;
    int rest = flags_parse_or_exit(&command, &f, &f.common, argc, argv);
    xalloc_set_exit_code(CHECK_OPERATOR_TROUBLE);
    check_flags(&f, argc, argv, rest);
    f.command.json = f.output == OUTPUT_JSON;
    return check_operator_run(&f.command);
}
