/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_files.h - the shards that files of ShardingConfigs define, for commands without a cluster.
 *
 * What is wrong is told on standard error as "file:line: message": what the files' syntax is, what
 * does not compile, and what the webhook would refuse (validate.h).
 */
#ifndef MANAGER_COMMANDS_SHARD_FILES_H
#define MANAGER_COMMANDS_SHARD_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/log.h"
#include "commands/config_files.h"
#include "commands/namespace_names.h"
#include "commands/rules_set.h"
#include "compile/compile.h"
#include "compile/shards.h"

/* The namespaces of the cluster. Those that the files with ShardingConfigs hold count too. */
struct shard_namespaces {
    const char *path; /* of a file with them (namespace_names.h); NULL: none */
    const char *own;  /* the manager's namespace, left out as system namespaces are */
    bool system;      /* none is left out */
};

struct shard_files {
    const struct compile_options *options; /* must outlive it; without namespaces */
    struct shard_namespaces namespaces;
    const char *shard; /* NAME or NAMESPACE/NAME alone; NULL: all */
    enum log_format log_format;
    struct config_files files;
    struct namespace_names names;
    struct compile_options with; /* options, with these */
    struct sharing_set shared;   /* by all of them */
    struct shards_item *items;   /* all of them */
    cJSON *made; /* shards of roots (shard_roots.h), which stand among the configs too */
    struct rules_set results;
    size_t skipped; /* configs of other shards */
    bool roots;     /* there is a root, which may have no shards */
    bool failed;    /* an error was told, */
    bool warned;    /* or a warning */
};

#define SHARD_FILES_INIT(options_)                                                                 \
    {                                                                                              \
        .options = (options_), .files = CONFIG_FILES_INIT, .names = NAMESPACE_NAMES_INIT,          \
        .results = RULES_SET_INIT                                                                  \
    }

/* Fills `results`, sorted by shard; "-" is standard input. Of roots it has the shards that are made
 * of them. 0, or -1: it failed, which was told. No shard at all is an error, too. Once. */
MUST_CHECK int shard_files_read(struct shard_files *r, const char *const *paths, size_t count);

/* Whether it is the shard that is asked for. */
bool shard_files_wants(const struct shard_files *r, const struct rules *rules);

/* What the rules were compiled of. */
const cJSON *shard_files_config(const struct shard_files *r, const struct rules *rules);

/* Tells of an error; or of a note, which is what was done with the input. Both are about no file.
 */
void shard_files_fail(struct shard_files *r, const char *msg);
void shard_files_note(struct shard_files *r, const char *msg);

/* The same about a field of what a file holds, whose path the message begins with; and a warning,
 * of what likely is not as it was meant. */
void shard_files_fail_entry(struct shard_files *r, const struct config_entry *entry,
                            const char *msg);
void shard_files_warn_entry(struct shard_files *r, const struct config_entry *entry,
                            const char *msg);
void shard_files_note_entry(struct shard_files *r, const struct config_entry *entry,
                            const char *msg);

/* Makes an error of warnings, which is told. 0, or -1: there was an error. */
MUST_CHECK int shard_files_be_strict(struct shard_files *r);

void shard_files_deinit(struct shard_files *r);

#endif
