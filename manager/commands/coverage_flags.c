/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/coverage_flags.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/xalloc.h"
#include "commands/config_flags.h"
#include "commands/coverage_command.h"
#include "commands/input.h"

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
    "    manager coverage -f <(kubectl get shardingconfigs -A -o yaml) \\\n"
    "        --namespaces <(kubectl get namespaces -o name)        # of what is in force\n";

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
    .command = {.namespaces = NAMESPACES_FLAGS_DEFAULTS, .options = CONFIG_FLAGS_DEFAULTS},
};

static const struct flag table[] = {
    FLAGS_CONFIG_FILES(struct coverage_flags, files),
    FLAGS_NAMESPACES(struct coverage_flags, command.namespaces,
                     "The namespaces of the cluster, or - for standard input: YAML or JSON, which "
                     "limits by namespaceSelector need, or one name in a line, as `kubectl get "
                     "namespaces -o name` prints them."),
    {.name = "output",
     .letter = 'o',
     .value = "FORMAT",
     FLAG_CHOICE_AT(struct coverage_flags, output),
     .choices = outputs,
     .help = "For people, or for programs."},
    FLAGS_STRICT(struct coverage_flags, command.strict),
    FLAGS_CONFIG_OPTIONS(struct coverage_flags, command.options),
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
    config_flags_check(&command, c->files, c->file_count, &c->options, "namespaces",
                       c->namespaces.path);
    if (c->namespaces.path == NULL) {
        flags_misuse(&command, "--namespaces FILE is missing; - is standard input");
    }
}

int coverage_main(int argc, char **argv)
{
    struct coverage_flags f = defaults;
    int rest = flags_parse_or_exit(&command, &f, &f.common, argc, argv);
    xalloc_set_exit_code(COVERAGE_TROUBLE);
    const char **files = input_paths(&f.files, argc, argv, rest, &f.command.file_count);
    f.command.files = files;
    check_flags(&f.command);
    f.command.json = f.output == OUTPUT_JSON;
    f.command.log_format = (enum log_format)f.common.log_format;
    int code = coverage_command_run(&f.command);
    free(files);
    return code;
}
