/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_files.h - the ShardingConfigs that files hold, and where in them they stand; beside them
 * Namespaces, StatefulSets and Deployments; and if these are asked for, traffic policies
 * (policy/policy.h), and the webhook configurations of operators with the Services of these.
 */
#ifndef MANAGER_COMMANDS_CONFIG_FILES_H
#define MANAGER_COMMANDS_CONFIG_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/log.h"

struct config_file;

struct config_entry {
    const cJSON *config; /* or policy */
    const struct config_file *file;
    const cJSON *source; /* what stands in the file, if the config was made of that; NULL */
    bool used;           /* of a workload: some root has it; of a Service: some webhook does */
};

/* In the order of the files. */
struct config_list {
    struct config_entry *entries;
    size_t count;
    size_t cap;
};

struct config_files {
    struct config_list configs;
    struct config_list policies; /* CircuitBreakers and FaultInjections */
    bool take_policies;          /* or skip them like other kinds; set before reading */
    struct config_list namespaces;
    struct config_list workloads; /* StatefulSets and Deployments */
    /* Key of the label of webhook configurations that are taken, with Services, or NULL: these are
     * skipped like other kinds; set before reading. */
    const char *route_label;
    struct config_list webhooks; /* configurations with that label */
    struct config_list services;
    struct config_file *files; /* a list */
};

#define CONFIG_FILES_INIT                                                                          \
    {                                                                                              \
        .take_policies = false, .files = NULL                                                      \
    }

/* What is to be told of a file: an error (LOG_ERROR), a warning (LOG_WARN) or a note (LOG_INFO).
 * `line` 0: none. */
typedef void (*config_files_report_cb)(void *data, enum log_level level, const char *file,
                                       unsigned line, const char *msg);

/* Adds what the file holds: YAML or JSON, several documents, lists; "-" is standard input. What is
 * none of these is skipped with a note, or a warning if one of these was likely meant. `path` is
 * kept. 0, or -1: reported. */
int config_files_read(struct config_files *c, const char *path, config_files_report_cb report,
                      void *data);

/* Adds one that was made of another; it is not taken. */
void config_files_add(struct config_list *list, const cJSON *config,
                      const struct config_entry *source);

const char *config_files_name(const struct config_entry *entry);
/* The line where the config begins; with a message that begins with the path of a field, that of
 * the field or the nearest around it. */
unsigned config_files_line(const struct config_entry *entry, const char *msg);

void config_files_deinit(struct config_files *c);

#endif
