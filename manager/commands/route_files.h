/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route_files.h - the webhook configurations of files with the label ROUTE_LABEL, and what the
 * manager makes of them: the routes objects, and the operator's own, narrowed.
 *
 * As if all shards were ready and nothing had been routed before. A Service among the files says
 * which shards it selects, and which of its ports are taken; else all shards of its namespace with
 * spec.webhook.port count. What cannot be routed is reported as a warning (shard_files.h).
 */
#ifndef MANAGER_COMMANDS_ROUTE_FILES_H
#define MANAGER_COMMANDS_ROUTE_FILES_H

#include <cjson/cJSON.h>

#include "commands/shard_files.h"
#include "label/labels.h"
#include "object/names.h"

struct route_files {
    struct shard_files *shards; /* must outlive it */
    struct labels_keys keys;
    char service_key[NAMES_KEY_SIZE]; /* of the annotation */
    struct file_service *services;
    size_t service_count;
    cJSON *objects; /* in the order in which they are to be printed; NULL: none is asked for */
};

#define ROUTE_FILES_INIT(shards_)                                                                  \
    {                                                                                              \
        .shards = (shards_), .services = NULL, .objects = NULL                                     \
    }

/* Makes `objects`, when shard_files_read is done and did not fail. Once. */
void route_files_make(struct route_files *r);

void route_files_deinit(struct route_files *r);

#endif
