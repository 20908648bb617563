/* SPDX-License-Identifier: Apache-2.0 */
/*
 * input.h - files that commands are given.
 */
#ifndef MANAGER_COMMANDS_INPUT_H
#define MANAGER_COMMANDS_INPUT_H

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/flags.h"

#define INPUT_MAX (64 * 1024 * 1024)

/* Appends what the file holds; "-" is standard input. 0, or negative: the message names the file.
 */
MUST_CHECK int input_read(const char *path, struct buf *out, struct err *e);

/* The items of a list as kubectl prints it: of kind `List` or `<kind>List`. NULL: it is none. */
const cJSON *input_list_items(const cJSON *document, const char *kind);

/* The files of -f and, so that `-f *.yaml` works, the arguments from `rest` on. The caller frees.
 */
const char **input_paths(const struct flag_list *list, int argc, char **argv, int rest,
                         size_t *count);

#endif
