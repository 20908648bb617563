/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/compile_flags.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"
#include "commands/compile_command.h"
#include "commands/config_flags.h"
#include "commands/input.h"
#include "kube/name.h"
#include "rules/rules.h"

static const char description[] =
    "`manager compile` turns ShardingConfigs into the rules documents that the proxies of each "
    "shard enforce, and the CircuitBreakers and FaultInjections beside them into traffic "
    "documents. It needs no cluster: use it to review a change or to develop locally.\n"
    "A FILE holds YAML or JSON, one document or several; `-` is standard input. What `kubectl get "
    "shardingconfigs -A -o yaml` prints is taken too. Objects of other kinds are skipped with a "
    "note. Of a root, a ShardingConfig with spec.root, it compiles the shards that the manager "
    "makes "
    "of it. For webhook configurations with the label route among them it also "
    "prints what the manager makes: the entries in cmesh-routes, as if all shards were ready, and "
    "the operator's own without the namespaces that are routed. Everything that is wrong is "
    "reported as FILE:LINE: FIELD: MESSAGE, and then nothing "
    "is written.\n"
    "With --diff it writes nothing but what would change, as `diff -u` does.";

static const char examples[] =
    "    manager compile -f sharding.yaml\n"
    "    manager compile -f sharding.yaml -f breakers.yaml\n"
    "    manager compile -f sharding.yaml --shard operator-demo/sharding-demo > rules.json\n"
    "    kubectl get shardingconfigs -A -o yaml | manager compile -f - -o rules/\n"
    "    kubectl get configmaps -A -o yaml | manager compile -f sharding.yaml --diff -\n"
    "    kubectl get namespaces -o yaml | manager compile -f sharding.yaml --namespaces -\n"
    "    manager compile -f root.yaml -f statefulset.yaml --children\n"
    "    manager compile -f shards.yaml -f configuration.yaml -f service.yaml\n";

struct compile_flags {
    struct flags_common common;
    struct flag_list files; /* of -f */
    struct compile_command command;
};

static const struct compile_flags defaults = {
    .common = FLAGS_COMMON_DEFAULTS,
    .command = {.output = "-",
                .namespaces = NAMESPACES_FLAGS_DEFAULTS,
                .options = CONFIG_FLAGS_DEFAULTS},
};

static const struct flag table[] = {
    FLAGS_CONFIG_FILES(struct compile_flags, files),
    {.name = "shard",
     .value = "[NS/]NAME",
     FLAG_STRING_AT(struct compile_flags, command.shard),
     .help = "Compile this shard alone. Without it: all."},
    {.name = "output",
     .letter = 'o',
     .value = "DIR",
     FLAG_STRING_AT(struct compile_flags, command.output),
     .help = "Write NAMESPACE.NAME.json for each shard into this folder, which is made if it "
             "is missing, and NAMESPACE.NAME_traffic.json if traffic policies are for the shard, "
             "else that file is removed; webhook configurations go to _webhooks.json. - prints "
             "them one after the other, sorted by shard: first rules, then traffic documents, then "
             "webhook configurations."},
    FLAGS_NAMESPACES(struct compile_flags, command.namespaces,
                     "The namespaces of the cluster, or - for standard input, as `kubectl get "
                     "namespaces -o yaml` prints them: which limits by namespaceSelector need. "
                     "Namespaces in the files with ShardingConfigs count too."),
    {.name = "diff",
     .value = "RULES",
     FLAG_STRING_AT(struct compile_flags, command.diff),
     .help = "Show what changes against these rules and traffic policies: a file with the "
             "documents or the ConfigMaps that hold them, a folder of such files (as -o writes "
             "it), or - for "
             "standard input. The generation shown is the one that follows."},
    {.name = "children",
     FLAG_BOOL_AT(struct compile_flags, command.children),
     .help = "Print the shards of roots as the ShardingConfigs that the manager makes of them, in "
             "place of rules. With its StatefulSet or Deployment among the files the number of "
             "replicas "
             "counts; "
             "with shards that there are, buckets stay where they are as far as they can."},
    FLAGS_STRICT(struct compile_flags, command.strict),
    {.name = "generation",
     .value = "NUMBER",
     .min = 1,
     .max = RULES_GENERATION_MAX,
     FLAG_UINT_AT(struct compile_flags, command.options.generation),
     .help = "Generation of the documents. A proxy refuses rules older than those it enforces."},
    FLAGS_CONFIG_OPTIONS(struct compile_flags, command.options),
    FLAGS_COMMON(struct compile_flags, common),
    {.name = NULL},
};

static const struct command command = {
    .program = "manager",
    .name = "compile",
    .summary = "compile ShardingConfigs into rules, without a cluster",
    .usage = "-f FILE... [FLAGS]",
    .description = description,
    .examples = examples,
    .exit_codes = "With --diff those of diff: 0 no difference, 1 some, 2 trouble, such as invalid "
                  "input.",
    .see_also = "manager(1), manager-coverage(1), localproxy(1)",
    .flags = table,
    .takes_arguments = true,
};

static bool shard_ok(const char *shard)
{
    const char *slash = strchr(shard, '/');
    if (slash == NULL) {
        return name_check_subdomain(slice_str(shard)) == NULL;
    }
    return name_check_label(slice_of(shard, (size_t)(slash - shard))) == NULL &&
           name_check_subdomain(slice_str(slash + 1)) == NULL;
}

/* What cannot be told flag by flag. */
static void check_flags(const struct compile_command *c)
{
    config_flags_check(&command, c->files, c->file_count, &c->options, "diff", c->diff);
    config_flags_check(&command, c->files, c->file_count, &c->options, "namespaces",
                       c->namespaces.path);
    if (c->diff != NULL && c->namespaces.path != NULL && strcmp(c->diff, "-") == 0 &&
        strcmp(c->namespaces.path, "-") == 0) {
        flags_misuse(&command, "--diff and --namespaces cannot both be standard input");
    }
    if (c->shard != NULL && !shard_ok(c->shard)) {
        flags_misuse(&command, "--shard must be NAME or NAMESPACE/NAME, not %s", c->shard);
    }
    if (c->diff != NULL && strcmp(c->output, "-") != 0) {
        flags_misuse(&command, "--diff and --output cannot be combined");
    }
    if (c->children && (c->diff != NULL || strcmp(c->output, "-") != 0)) {
        flags_misuse(&command, "--children cannot be combined with --diff or --output");
    }
}

int compile_main(int argc, char **argv)
{
    struct compile_flags f = defaults;
    int rest = flags_parse_or_exit(&command, &f, &f.common, argc, argv);
    xalloc_set_exit_code(f.command.diff != NULL ? COMPILE_TROUBLE : EXIT_FAILED);
    const char **files = input_paths(&f.files, argc, argv, rest, &f.command.file_count);
    f.command.files = files;
    check_flags(&f.command);
    f.command.log_format = (enum log_format)f.common.log_format;
    int code = compile_command_run(&f.command);
    free(files);
    return code;
}
