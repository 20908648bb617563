/* SPDX-License-Identifier: Apache-2.0 */
/*
 * namespace_names.h - the namespaces of a cluster, as kubectl prints them.
 */
#ifndef MANAGER_COMMANDS_NAMESPACE_NAMES_H
#define MANAGER_COMMANDS_NAMESPACE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "compile/namespace_set.h"

struct namespace_names {
    char **items; /* sorted, each once */
    size_t count;
    size_t cap;
    bool bare;                /* some have no labels, since names were all that was given */
    struct namespace_set set; /* the same with their labels, but those that it leaves out */
};

#define NAMESPACE_NAMES_INIT                                                                       \
    {                                                                                              \
        .items = NULL, .count = 0, .cap = 0, .bare = false                                         \
    }

/* Reads a file ("-": standard input): a name in each line, also as `-o name` prints it; or YAML or
 * JSON of Namespaces and lists of them. There must be one. Once. Negative on error: the message
 * names the file. */
MUST_CHECK int namespace_names_read(struct namespace_names *n, const char *path, struct err *e);

/* Adds a Namespace; namespace_names_sort is due. 0; -EINVAL: it has no good name. */
MUST_CHECK int namespace_names_add(struct namespace_names *n, const cJSON *object, struct err *e);
void namespace_names_sort(struct namespace_names *n);

/* Whether it is a Namespace; `bare`: or has no kind, as items of lists have. */
bool namespace_names_is_one(const cJSON *object, bool bare);

void namespace_names_deinit(struct namespace_names *n);

#endif
