/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/compile_flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/flags.h"
#include "base/log.h"
#include "compile/compile_command.h"
#include "kube/name.h"

#define GENERATION_MAX 9007199254740991u /* what a JSON number holds exactly */

static const char description[] =
    "`manager compile` turns ShardingConfigs into the rules documents that the proxies of each "
    "shard enforce. It needs no cluster: use it to review a change or to develop locally.\n"
    "A FILE holds YAML or JSON, one document or several; `-` is standard input. What `kubectl get "
    "shardingconfigs -A -o yaml` prints is taken too. Objects of other kinds are skipped with a "
    "note. Everything that is wrong is reported as FILE:LINE: MESSAGE, and then nothing is "
    "written.\n"
    "With --diff it writes nothing but what would change, as `diff -u` does, and its exit codes "
    "are "
    "those of diff: 0 no difference, 1 there are some, 2 trouble.";

static const char examples[] =
    "    manager compile -f sharding.yaml\n"
    "    manager compile -f sharding.yaml --shard operator-demo/sharding-demo > rules.json\n"
    "    kubectl get shardingconfigs -A -o yaml | manager compile -f - -o rules/\n"
    "    kubectl get configmaps -A -o yaml | manager compile -f sharding.yaml --diff -\n";

struct arguments {
    struct flags_common common;
    struct flag_list files;
    struct compile_command command;
};

static void misuse(const char *msg, const char *detail)
{
    fprintf(stderr, "manager: %s%s\nRun \"manager compile --help\" for the usage.\n", msg, detail);
    exit(EXIT_USAGE);
}

static bool shard_ok(const char *shard)
{
    const char *slash = strchr(shard, '/');
    if (slash == NULL) {
        return name_check_subdomain(slice_str(shard)) == NULL;
    }
    return name_check_label(slice_of(shard, (size_t)(slash - shard))) == NULL &&
           name_check_subdomain(slice_str(slash + 1)) == NULL;
}

/* The files are those of -f and, so that `-f *.yaml` works, what follows. The caller frees. NULL
 * without memory. */
static const char **collect_files(struct arguments *a, int argc, char **argv, int rest)
{
    const char **files = calloc(a->files.count + (size_t)argc, sizeof *files);
    if (files == NULL) {
        return NULL;
    }
    size_t n = 0;
    for (size_t i = 0; i < a->files.count; i++) {
        files[n++] = a->files.items[i];
    }
    for (int i = rest; i < argc; i++) {
        files[n++] = argv[i];
    }
    a->command.files = files;
    a->command.file_count = n;
    return files;
}

static int parse(struct arguments *a, int argc, char **argv)
{
    struct compile_command *c = &a->command;
    const struct flag flags[] = {
        {.name = "filename",
         .letter = 'f',
         .value = "FILE",
         .help = "A file with ShardingConfigs, or - for standard input; may be repeated.",
         .type = FLAG_LIST,
         .target = &a->files},
        {.name = "shard",
         .value = "[NS/]NAME",
         .help = "Compile this shard alone. Without it: all.",
         .type = FLAG_STRING,
         .target = &c->shard},
        {.name = "output",
         .letter = 'o',
         .value = "DIR",
         .help = "Write NAMESPACE.NAME.json for each shard into this folder, which is made if it "
                 "is missing; - prints them one after the other, sorted by shard.",
         .type = FLAG_STRING,
         .target = &c->output},
        {.name = "diff",
         .value = "RULES",
         .help = "Show what changes against these rules: a file with rules documents or the "
                 "ConfigMaps that hold them, a folder of such files (as -o writes it), or - for "
                 "standard input. The generation shown is the one that follows.",
         .type = FLAG_STRING,
         .target = &c->diff},
        {.name = "namespace",
         .letter = 'n',
         .value = "NS",
         .help = "Namespace of ShardingConfigs that name none.",
         .type = FLAG_STRING,
         .target = &c->options.namespace},
        {.name = "generation",
         .value = "NUMBER",
         .help = "Generation of the rules. A proxy refuses rules older than those it enforces.",
         .type = FLAG_UINT,
         .target = &c->options.generation,
         .min = 1,
         .max = GENERATION_MAX},
        {.name = "label-prefix",
         .value = "PREFIX",
         .help = "Prefix of the control labels.",
         .type = FLAG_STRING,
         .target = &c->options.labels.prefix,
         .default_text = "the API group of the ShardingConfig"},
        {.name = "label-namespace",
         .value = "NAME",
         .help = "Control label with an object's namespace: a name below the prefix, or a whole "
                 "key with a slash.",
         .type = FLAG_STRING,
         .target = &c->options.labels.namespace},
        {.name = "label-shard-hash",
         .value = "NAME",
         .help = "Control label with the hash of an object's namespace.",
         .type = FLAG_STRING,
         .target = &c->options.labels.shard_hash},
        {.name = "label-control",
         .value = "NAME",
         .help = "Control label that says that an object is labelled.",
         .type = FLAG_STRING,
         .target = &c->options.labels.control},
        FLAGS_COMMON(&a->common),
        {.name = NULL},
    };
    const struct program program = {
        .name = "manager",
        .summary = "the control plane of the mesh",
        .usage = "compile -f FILE... [FLAGS]",
        .description = description,
        .examples = examples,
        .flags = flags,
    };
    return flags_parse_or_exit(&program, &a->common, argc, argv);
}

/* What cannot be told flag by flag. */
static void check(const struct compile_command *c)
{
    bool standard = false;
    for (size_t i = 0; i < c->file_count; i++) {
        standard = standard || strcmp(c->files[i], "-") == 0;
    }
    if (c->file_count == 0) {
        misuse("-f FILE is missing; - is standard input", "");
    }
    if (c->shard != NULL && !shard_ok(c->shard)) {
        misuse("--shard must be NAME or NAMESPACE/NAME, not ", c->shard);
    }
    if (c->diff != NULL && strcmp(c->output, "-") != 0) {
        misuse("--diff and --output cannot stand together", "");
    }
    if (c->diff != NULL && strcmp(c->diff, "-") == 0 && standard) {
        misuse("--filename and --diff cannot both be standard input", "");
    }
}

int compile_main(int argc, char **argv)
{
    struct arguments a = {
        .common = {.log_format = LOG_TEXT, .log_level = LOG_INFO},
        .command = {.output = "-",
                    .options = {.namespace = "default",
                                .generation = 1,
                                .labels = {.namespace = "namespace",
                                           .shard_hash = "sharding-hash",
                                           .control = "control"}}},
    };
    int rest = parse(&a, argc, argv);
    const char **files = collect_files(&a, argc, argv, rest);
    if (files == NULL) {
        fprintf(stderr, "manager: out of memory\n");
        return EXIT_FAILED;
    }
    check(&a.command);
    a.command.log_format = (enum log_format)a.common.log_format;
    int code = compile_command_run(&a.command);
    free(files);
    return code;
}
