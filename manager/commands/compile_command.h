/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile_command.h - `manager compile`: files of ShardingConfigs, traffic policies and webhook
 * configurations in, rules, traffic documents and routed webhooks out.
 */
#ifndef MANAGER_COMMANDS_COMPILE_COMMAND_H
#define MANAGER_COMMANDS_COMPILE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/log.h"
#include "commands/shard_files.h"
#include "compile/compile.h"

struct compile_command {
    const char *const *files; /* "-" is standard input */
    size_t file_count;
    const char *shard;  /* NAME or NAMESPACE/NAME; NULL: all */
    const char *output; /* a folder, or "-" for standard output */
    struct shard_namespaces namespaces;
    const char *diff; /* rules to compare with instead of writing any (rules_set_read); or NULL */
    bool children;    /* write the shards of roots as ShardingConfigs instead of rules */
    bool strict;      /* a warning is an error */
    enum log_format log_format;
    struct compile_options options;
};

/* Exit codes with `diff`, as diff(1) has them. */
enum { COMPILE_SAME, COMPILE_DIFFERENT, COMPILE_TROUBLE };

/* Reads all files, reports everything that is wrong with them on standard error as
 * "file:line: message", what the webhook would refuse too (validate.h), and writes the documents
 * only if nothing was. Returns the exit code. With `diff` that is as diff(1) has it: 0 no
 * difference, 1 there are some, 2 trouble. */
int compile_command_run(const struct compile_command *command);

#endif
