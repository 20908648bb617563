/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_patch.h - the difference of two documents as a JSON Patch (RFC 6902).
 */
#ifndef MANAGER_OBJECT_JSON_PATCH_H
#define MANAGER_OBJECT_JSON_PATCH_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "json/edit.h"

/* Whether both say the same, in whatever order the members of objects stand. */
bool json_patch_equal(const cJSON *a, const cJSON *b);

/* The operations (add, remove, replace) that make `to` of `from`; `[]` when they are equal. Items
 * of a list are recognised by their `name`, those without by their content, so that an item that
 * was put before others is one operation. Best when `to` is a changed copy of `from`: members are
 * looked for in the same order first. The caller frees. */
MUST_CHECK cJSON *json_patch_diff(const cJSON *from, const cJSON *to);

/* Adds one operation to a patch; `path` is a JSON Pointer (RFC 6901). Takes `value` in any case;
 * NULL: the operation has none. */
void json_patch_add(struct edit *ed, cJSON *patch, const char *op, const char *path, cJSON *value);

#endif
