/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preconditions.h - bodies of writes that the API server refuses with 409 when the object was
 * replaced, or changed, since it was read.
 */
#ifndef MANAGER_OBJECT_PRECONDITIONS_H
#define MANAGER_OBJECT_PRECONDITIONS_H

#include "json/edit.h"

/* The metadata of a merge patch, or of an object to apply, made if it is absent. */
cJSON *preconditions_set(struct edit *ed, cJSON *body, const char *uid, const char *version);
/* A merge patch that takes a finalizer off those that there are. */
void preconditions_unbind(struct edit *ed, cJSON *patch, const char *uid, const char *version,
                          const cJSON *finalizers, const char *finalizer);
/* DeleteOptions. */
MUST_CHECK cJSON *preconditions_delete(const char *uid, const char *version);
/* A merge patch that makes `status` of the status `old`: fields that it lacks, at any depth of
 * objects, are removed. `old` NULL: there was none. */
MUST_CHECK cJSON *preconditions_status(const char *uid, const char *version, const cJSON *old,
                                       const cJSON *status);

#endif
