/* SPDX-License-Identifier: Apache-2.0 */
/*
 * field.h - reads fields of API objects, and says what is wrong with them as Kubernetes does.
 *
 * `path` names the object that holds the field, as in "spec.webhook", "" for the whole document. A
 * field that is null counts as absent, as the API server has it. Errors are -EINVAL.
 * Source: k8s.io/apimachinery/pkg/util/validation/field.
 */
#ifndef CORE_JSON_FIELD_H
#define CORE_JSON_FIELD_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/err.h"

/* NULL when it is absent. */
const cJSON *field_get(const cJSON *object, const char *key);

/* The same, of a map: NULL as well when it is no object, so that each item of it has a name. */
const cJSON *field_map(const cJSON *object, const char *key);

/* Its text; "" when it is absent or no string. */
const char *field_text(const cJSON *object, const char *key);
/* The same of its metadata. */
const char *field_meta(const cJSON *object, const char *key);

/* Whether one item of a list is that text. */
bool field_has(const cJSON *list, const char *text);

/* Whether it is being deleted, by its metadata. */
bool field_is_deleted(const cJSON *object);

/* The generation in its metadata; 0 when it is absent. */
double field_generation(const cJSON *object);

/* "" or NULL when it is absent. */
MUST_CHECK int field_string(const cJSON *object, const char *path, const char *key,
                            const char **out, struct err *e);
MUST_CHECK int field_object(const cJSON *object, const char *path, const char *key,
                            const cJSON **out, struct err *e);
MUST_CHECK int field_array(const cJSON *object, const char *path, const char *key,
                           const cJSON **out, struct err *e);
/* A whole number within the bounds; *out stays as it is when it is absent. */
MUST_CHECK int field_int(const cJSON *object, const char *path, const char *key, int min, int max,
                         int *out, struct err *e);

/* As field_string; absent and empty are errors too. */
MUST_CHECK int field_required(const cJSON *object, const char *path, const char *key,
                              const char **out, struct err *e);

/* Refuses fields that are not in the list, which ends with NULL, and names the one that is likely
 * meant. */
MUST_CHECK int field_known(const cJSON *object, const char *path, const char *const *known,
                           struct err *e);

/* "<path>.<key>: Invalid value: "<value>": <why>". Returns -EINVAL. */
int field_invalid(struct err *e, const char *path, const char *key, const char *value,
                  const char *why);

/* "<path>.<key>: Invalid value: must be <expected>". Returns -EINVAL. */
int field_wrong_type(struct err *e, const char *path, const char *key, const char *expected);

#endif
