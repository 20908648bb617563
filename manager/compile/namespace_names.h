/* SPDX-License-Identifier: Apache-2.0 */
/*
 * namespace_names.h - the names of namespaces, as kubectl prints them.
 */
#ifndef MANAGER_COMPILE_NAMESPACE_NAMES_H
#define MANAGER_COMPILE_NAMESPACE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct namespace_names {
    char **items; /* sorted, each once */
    size_t count;
    size_t cap;
};

#define NAMESPACE_NAMES_INIT                                                                       \
    {                                                                                              \
        .items = NULL, .count = 0, .cap = 0                                                        \
    }

/* Reads a file ("-": standard input): a name in each line, also as `-o name` prints it; or YAML or
 * JSON of Namespaces and lists of them. There must be one. Once. Negative on error: the message
 * names the file. */
MUST_CHECK int namespace_names_read(struct namespace_names *n, const char *path, struct err *e);

/* Whether it is one of Kubernetes' own, kube-system and so on: their objects get no control labels
 * unless the manager is told to set them. */
bool namespace_names_is_system(const char *name);

void namespace_names_deinit(struct namespace_names *n);

#endif
