/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conditions.h - the list status.conditions of an object of ours, made anew from what it was.
 *
 * As metav1.Condition: a condition keeps its lastTransitionTime as long as its status stays.
 */
#ifndef MANAGER_OBJECT_CONDITIONS_H
#define MANAGER_OBJECT_CONDITIONS_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "json/edit.h"

struct conditions {
    struct edit *ed;
    cJSON *list;       /* to which they are appended */
    const cJSON *old;  /* the status as it is; NULL: there is none */
    double generation; /* metadata.generation; 0: not known */
    const char *now;   /* RFC 3339 */
};

/* Of a new status, to which the list is added, and observedGeneration. */
struct conditions conditions_begin(struct edit *ed, cJSON *status, const cJSON *old,
                                   double generation, const char *now);

/* `message` is never "": old API servers take it for null. `status`: "True", "False", "Unknown". */
void conditions_add(const struct conditions *c, const char *type, const char *status,
                    const char *reason, const char *message);
/* The same with True or False. */
void conditions_set(const struct conditions *c, const char *type, bool holds, const char *reason,
                    const char *message);
/* Keeps what was said last. False: there is no such condition. */
bool conditions_keep(const struct conditions *c, const char *type);

/* Whether the status of the object is of its spec as it is. */
bool conditions_observed(const cJSON *object);

/* The condition of that type in a status; NULL: it has none. */
const cJSON *conditions_find(const cJSON *status, const char *type);

#endif
