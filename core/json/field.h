/* SPDX-License-Identifier: Apache-2.0 */
/*
 * field.h - fields of API objects that others have checked. What is to be checked has rows
 * (schema/schema.h).
 *
 * A field that is null counts as absent, as the API server has it.
 */
#ifndef CORE_JSON_FIELD_H
#define CORE_JSON_FIELD_H

#include <stdbool.h>

#include <cjson/cJSON.h>

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

/* The owner that controls it, of its metadata; there can be one. NULL: there is none. */
const cJSON *field_controller(const cJSON *object);

/* Whether it is being deleted, by its metadata. */
bool field_is_deleted(const cJSON *object);

/* The generation in its metadata; 0 when it is absent. */
double field_generation(const cJSON *object);

#endif
