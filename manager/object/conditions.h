/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conditions.h - the list status.conditions of an object of ours, made anew from what it was.
 *
 * As metav1.Condition: a condition keeps its lastTransitionTime as long as its status stays.
 */
#ifndef MANAGER_OBJECT_CONDITIONS_H
#define MANAGER_OBJECT_CONDITIONS_H

#include <cjson/cJSON.h>

#include "json/edit.h"

struct conditions {
    struct edit *ed;
    cJSON *list;         /* to which they are appended */
    const cJSON *object; /* as it is, with its old status and metadata.generation */
    const char *now;     /* RFC 3339 */
};

/* `message` is never "": old API servers take it for null. `status`: "True", "False", "Unknown". */
void conditions_add(const struct conditions *c, const char *type, const char *status,
                    const char *reason, const char *message);

/* metadata.generation goes to object.observedGeneration, if there is one. */
void conditions_add_observed(const struct conditions *c, cJSON *object);

/* The condition of that type in a status; NULL: it has none. */
const cJSON *conditions_find(const cJSON *status, const char *type);

#endif
