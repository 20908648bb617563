/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules_set.h - the rules of several shards, one each, and the traffic documents of some.
 */
#ifndef MANAGER_COMMANDS_RULES_SET_H
#define MANAGER_COMMANDS_RULES_SET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "rules/rules.h"
#include "traffic/traffic.h"

/* A ConfigMap of a shard whose rules cannot be read, or whose traffic policies. */
struct rules_set_unread {
    char *shard; /* as rules_set_name */
    char *why;
    bool traffic;
};

struct rules_set {
    struct rules **items;
    size_t count;
    size_t cap;
    struct traffic **traffic;
    size_t traffic_count;
    struct rules_set_unread *unread;
    size_t unread_count;
};

#define RULES_SET_INIT                                                                             \
    {                                                                                              \
        .items = NULL, .count = 0, .cap = 0, .traffic = NULL, .traffic_count = 0, .unread = NULL,  \
        .unread_count = 0                                                                          \
    }

/* Takes over the reference in any case. False: there are rules of that shard already. */
MUST_CHECK bool rules_set_add(struct rules_set *s, struct rules *rules);

/* The rules of the shard that `like` is for; NULL: there are none. */
const struct rules *rules_set_find(const struct rules_set *s, const struct rules *like);

/* The traffic document of that shard; NULL: there is none. */
const struct traffic *rules_set_traffic(const struct rules_set *s, const struct rules *like);

/* Adds the rules that a file holds ("-": standard input), or the files of a folder whose names end
 * with .json, .yaml or .yml. Taken are rules and traffic documents and ConfigMaps that hold them,
 * lists of them, JSON or YAML; what else there is is skipped, but there must be one. ConfigMaps
 * that are called as a shard's and cannot be read are listed. Negative on error: the message names
 * the file. */
MUST_CHECK int rules_set_read(struct rules_set *s, const char *path, struct err *e);

/* By NAMESPACE/NAME. */
void rules_set_sort(struct rules_set *s);

void rules_set_deinit(struct rules_set *s);

#define RULES_SET_NAME 400
/* "NAMESPACE/NAME" */
const char *rules_set_name(const struct rules *rules, char out[RULES_SET_NAME]);

#endif
