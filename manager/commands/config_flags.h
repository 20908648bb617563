/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_flags.h - the flags of the commands that read files of ShardingConfigs.
 */
#ifndef MANAGER_COMMANDS_CONFIG_FLAGS_H
#define MANAGER_COMMANDS_CONFIG_FLAGS_H

#include "base/flags.h"
#include "commands/shard_files.h"
#include "compile/compile.h"
#include "compile/label_flags.h"

#define CONFIG_FLAGS_DEFAULTS                                                                      \
    {                                                                                              \
        .namespace = "default", .generation = 1, .labels = LABEL_FLAGS_DEFAULTS(NULL)              \
    }

/* For the table. `files` is a struct flag_list, `options` a struct compile_options. */
#define FLAGS_CONFIG_FILES(owner, files)                                                           \
    {                                                                                              \
        .name = "filename", .letter = 'f', .value = "FILE", FLAG_LIST_AT(owner, files),            \
        .help = "A file with ShardingConfigs, or - for standard input; may be repeated."           \
    }
/* `at` is a bool. */
#define FLAGS_STRICT(owner, at)                                                                    \
    {                                                                                              \
        .name = "strict", FLAG_BOOL_AT(owner, at),                                                 \
        .help = "Take a warning for an error. Warnings are of what likely is not as it was "       \
                "meant; notes, of what was done with the input, are none."                         \
    }
#define FLAGS_CONFIG_OPTIONS(owner, options)                                                       \
    {.name = "namespace",                                                                          \
     .letter = 'n',                                                                                \
     .value = "NS",                                                                                \
     FLAG_STRING_AT(owner, options.namespace),                                                     \
     .help = "Namespace of ShardingConfigs that name none."},                                      \
        FLAGS_SHAREABLE(owner, options.shareable),                                                 \
        FLAGS_LABELS(owner, options.labels, "", "the API group of the ShardingConfig")

#define NAMESPACES_FLAGS_DEFAULTS                                                                  \
    {                                                                                              \
        .own = "cmesh-system"                                                                      \
    }
/* `at` is a struct shard_namespaces. */
#define FLAGS_NAMESPACES(owner, at, help_)                                                         \
    {.name = "namespaces", .value = "FILE", FLAG_STRING_AT(owner, at.path), .help = (help_)},      \
        {.name = "manager-namespace",                                                              \
         .value = "NS",                                                                            \
         FLAG_STRING_AT(owner, at.own),                                                            \
         .help = "Where the manager runs. It is left out, as kube-system, kube-public and "        \
                 "kube-node-lease are."},                                                          \
    {                                                                                              \
        .name = "label-system-namespaces", FLAG_BOOL_AT(owner, at.system),                         \
        .help = "Leave none out: the manager has this flag, too."                                  \
    }

/* What cannot be told flag by flag: ends the process as flags_misuse does without a file, with a
 * prefix that none can be, and when standard input is asked for twice. `input`: what the flag
 * `input_flag` reads, NULL for nothing. */
void config_flags_check(const struct command *c, const char *const *files, size_t count,
                        const struct compile_options *o, const char *input_flag, const char *input);

#endif
