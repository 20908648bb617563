/* SPDX-License-Identifier: Apache-2.0 */
/*
 * traffic_files.h - the traffic policies of files, and the traffic documents of their shards.
 *
 * What is wrong is told as shard_files.h does, and so is what has no place in a shard's document,
 * and what is for the pods of no shard.
 */
#ifndef MANAGER_COMMANDS_TRAFFIC_FILES_H
#define MANAGER_COMMANDS_TRAFFIC_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "commands/shard_files.h"
#include "policy/policy.h"
#include "traffic/traffic.h"

struct traffic_file_policy {
    const struct config_entry *entry;
    struct policy *policy;
    const char *ns; /* that it is in, if need be by default */
    bool concerned; /* it may be for a pod of some shard */
};

struct traffic_files {
    struct shard_files *shards; /* must outlive it */
    struct traffic_file_policy *items;
    size_t count;
    struct traffic **documents; /* of shards->results; NULL: no policy is for that shard */
    size_t document_count;
};

#define TRAFFIC_FILES_INIT(shards_)                                                                \
    {                                                                                              \
        .shards = (shards_), .items = NULL, .documents = NULL                                      \
    }

/* Reads the policies, when shard_files_read is done, whatever came of it; the documents are made
 * only if nothing failed so far. 0, or -1: it failed, which was told. Once. */
MUST_CHECK int traffic_files_read(struct traffic_files *t);

/* Of the shard with that number in shards->results; NULL: there is none. */
const struct traffic *traffic_files_document(const struct traffic_files *t, size_t number);

/* Whether the files have that policy. */
bool traffic_files_has(const struct traffic_files *t, enum traffic_kind kind, const char *ns,
                       const char *name);

void traffic_files_deinit(struct traffic_files *t);

#endif
