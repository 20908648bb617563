/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_variables.h - the variables that annotations give to localproxy (env-sync) and to the
 * pod's own containers (env-inject).
 *
 * Not everything goes to localproxy: what would change what it enforces, or which code it runs, is
 * left out and warned of. It has the operator's identity, and those who may set a variable of the
 * operator need not be those who may say what it sees.
 */
#ifndef MANAGER_INJECT_INJECT_VARIABLES_H
#define MANAGER_INJECT_INJECT_VARIABLES_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "inject/inject_options.h"
#include "object/warnings.h"
#include "json/edit.h"

/* Whether localproxy may get a variable of that name: any but those of the dynamic linker and the C
 * library, PATH, what says which pod it is in, and CMESH_... but some that weaken nothing. */
bool inject_variables_allowed(const char *name);

/* The variables of env-sync, each name once, in a new array that the caller frees. NULL after a
 * failure. */
cJSON *inject_variables_sync(struct edit *ed, const struct inject_options *o, const cJSON *spec,
                             struct warnings *warnings);

/* Sets the variables of env-inject. */
void inject_variables_inject(struct edit *ed, const struct inject_options *o, cJSON *spec,
                             struct warnings *warnings);

/* Appends one to a list of them. */
void inject_variables_append(struct edit *ed, cJSON *list, const char *name, const char *value);
/* Sets one variable of a container: of several with that name one is left. */
void inject_variables_set(struct edit *ed, cJSON *container, const char *name, const char *value);
/* The same, before all others: those that refer to it have it. */
void inject_variables_set_first(struct edit *ed, cJSON *container, const char *name,
                                const char *value);

#endif
