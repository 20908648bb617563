/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coverage_command.h - `manager coverage`: which namespaces are in no shard of an operator, and
 * which in several.
 */
#ifndef MANAGER_COMMANDS_COVERAGE_COMMAND_H
#define MANAGER_COMMANDS_COVERAGE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/log.h"
#include "commands/shard_files.h"
#include "compile/compile.h"

struct coverage_command {
    const char *const *files; /* of ShardingConfigs; "-" is standard input */
    size_t file_count;
    struct shard_namespaces namespaces; /* with a path */
    bool json;                          /* the output */
    bool strict;                        /* a warning is an error */
    enum log_format log_format;
    struct compile_options options;
};

/* Exit codes, as diff(1) has them. */
enum { COVERAGE_COMPLETE, COVERAGE_INCOMPLETE, COVERAGE_TROUBLE };

/* Returns the exit code: 0: each namespace is in one shard; 1: some are not; 2: trouble, told as
 * shard_files.h has it. */
int coverage_command_run(const struct coverage_command *command);

#endif
