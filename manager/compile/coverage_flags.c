/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/coverage_flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "compile/coverage_command.h"
#include "compile/input.h"
#include "compile/label_flags.h"
#include "kube/name.h"

static const char description[] =
    "`manager coverage` says which namespaces are in no shard of an operator, where nobody works, "
    "and which are in several, where two do: before ShardingConfigs are applied, for what is in "
    "force the condition Covered says the same. It needs no cluster.\n"
    "Both files hold what kubectl prints; one of them can be standard input, `-`. The shards of an "
    "operator are the ShardingConfigs of one namespace that have the same leaderElectionName, or "
    "none: give all of them. An operator with a shard that no control label limits is listed, but "
    "not looked at.";

static const char examples[] =
    "    kubectl get namespaces -o name | manager coverage -f sharding.yaml --namespaces -\n"
    "    kubectl get shardingconfigs -A -o yaml | manager coverage -f - --namespaces names.txt\n";

struct coverage_flags {
    struct flags_common common;
    struct flag_list files; /* of -f */
    int output;
    struct coverage_command command;
};

enum { OUTPUT_TEXT, OUTPUT_JSON };
static const char *const outputs[] = {"text", "json", NULL};

static const struct coverage_flags defaults = {
    .common = FLAGS_COMMON_DEFAULTS,
    .output = OUTPUT_TEXT,
    .command = {.own = "cmesh-system",
                .options = {.namespace = "default",
                            .generation = 1,
                            .labels = LABEL_FLAGS_DEFAULTS(NULL)}},
};

static const struct flag table[] = {
    {.name = "filename",
     .letter = 'f',
     .value = "FILE",
     FLAG_LIST_AT(struct coverage_flags, files),
     .help = "A file with ShardingConfigs, or - for standard input; may be repeated."},
    {.name = "namespaces",
     .value = "FILE",
     FLAG_STRING_AT(struct coverage_flags, command.namespaces),
     .help = "The namespaces of the cluster, or - for standard input: one name in a line, as "
             "`kubectl get namespaces -o name` prints them, or YAML or JSON."},
    {.name = "output",
     .letter = 'o',
     .value = "FORMAT",
     FLAG_CHOICE_AT(struct coverage_flags, output),
     .choices = outputs,
     .help = "For people, or for programs."},
    {.name = "namespace",
     .letter = 'n',
     .value = "NS",
     FLAG_STRING_AT(struct coverage_flags, command.options.namespace),
     .help = "Namespace of ShardingConfigs that name none."},
    {.name = "manager-namespace",
     .value = "NS",
     FLAG_STRING_AT(struct coverage_flags, command.own),
     .help = "Where the manager runs. It is left out, as kube-system, kube-public and "
             "kube-node-lease are."},
    {.name = "label-system-namespaces",
     FLAG_BOOL_AT(struct coverage_flags, command.system),
     .help = "Leave none out: the manager has this flag, too."},
    FLAGS_LABELS(struct coverage_flags, command.options.labels, "",
                 "the API group of the ShardingConfig"),
    FLAGS_COMMON(struct coverage_flags, common),
    {.name = NULL},
};

static const struct command command = {
    .program = "manager",
    .name = "coverage",
    .summary = "find namespaces in no shard or in several, without a cluster",
    .usage = "-f FILE... --namespaces FILE [FLAGS]",
    .description = description,
    .examples = examples,
    .exit_codes =
        "Those of diff: 0 each namespace is in one shard, 1 some are not, 2 trouble, such "
        "as invalid input.",
    .see_also = "manager(1), manager-compile(1)",
    .flags = table,
    .takes_arguments = true,
};

/* What cannot be told flag by flag. */
static void check_flags(const struct coverage_command *c)
{
    const char *prefix = c->options.labels.prefix;
    bool standard = false;
    for (size_t i = 0; i < c->file_count; i++) {
        standard = standard || strcmp(c->files[i], "-") == 0;
    }
    if (c->file_count == 0) {
        flags_misuse(&command, "-f FILE is missing; - is standard input");
    }
    if (c->namespaces == NULL) {
        flags_misuse(&command, "--namespaces FILE is missing; - is standard input");
    }
    if (strcmp(c->namespaces, "-") == 0 && standard) {
        flags_misuse(&command, "--filename and --namespaces cannot both be standard input");
    }
    if (prefix != NULL && name_check_subdomain(slice_str(prefix)) != NULL) {
        flags_misuse(&command, "--label-prefix: Invalid value: \"%.100s\": %s", prefix,
                     name_check_subdomain(slice_str(prefix)));
    }
}

int coverage_main(int argc, char **argv)
{
    struct coverage_flags f = defaults;
    int rest = flags_parse_or_exit(&command, &f, &f.common, argc, argv);
    const char **files = input_paths(&f.files, argc, argv, rest, &f.command.file_count);
    if (files == NULL) {
        fprintf(stderr, "manager: out of memory\n");
        return EXIT_USAGE;
    }
    f.command.files = files;
    check_flags(&f.command);
    f.command.json = f.output == OUTPUT_JSON;
    f.command.log_format = (enum log_format)f.common.log_format;
    int code = coverage_command_run(&f.command);
    free(files);
    return code;
}
