/* SPDX-License-Identifier: Apache-2.0 */
/*
 * edit.h - changes a document in many small steps, whose failures are looked at once, at the end.
 *
 * After a failure nothing more is done: steps take and return NULL then.
 */
#ifndef CORE_JSON_EDIT_H
#define CORE_JSON_EDIT_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/err.h"

struct edit {
    int rc; /* 0, or the first failure: -ENOMEM; -EINVAL: a field has another type */
};

/* Notes a failure of who changes, unless there is one already. */
void edit_fail(struct edit *ed, int rc);

/* Ends the steps: `document`; NULL, and it is deleted, if one has failed. */
MUST_CHECK cJSON *edit_result(const struct edit *ed, cJSON *document);

/* The first item of a list whose field `key` is that text; NULL: none. */
cJSON *edit_find(const cJSON *list, const char *key, const char *text);

/* The field of `parent`, made if it is absent or null. */
cJSON *edit_object(struct edit *ed, cJSON *parent, const char *key);
cJSON *edit_array(struct edit *ed, cJSON *parent, const char *key);

/* Set a field, in place of what it was: the others stay where they are. */
void edit_string(struct edit *ed, cJSON *parent, const char *key, const char *value);
void edit_number(struct edit *ed, cJSON *parent, const char *key, double value);
void edit_bool(struct edit *ed, cJSON *parent, const char *key, bool value);
/* Takes `value` in any case. NULL counts as out of memory. */
void edit_set(struct edit *ed, cJSON *parent, const char *key, cJSON *value);

/* Append to an array. */
cJSON *edit_append_object(struct edit *ed, cJSON *array);
void edit_append_string(struct edit *ed, cJSON *array, const char *value);
void edit_append_format(struct edit *ed, cJSON *array, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Put at the end, at the beginning, in place of an item. Take `value` in any case. NULL counts as
 * out of memory. */
void edit_append(struct edit *ed, cJSON *array, cJSON *value);
void edit_prepend(struct edit *ed, cJSON *array, cJSON *value);
void edit_replace(struct edit *ed, cJSON *array, cJSON *item, cJSON *value);

#endif
