/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_variables.h - the variables that annotations give to localproxy (env-sync) and to the
 * pod's own containers (env-inject).
 */
#ifndef MANAGER_INJECT_INJECT_VARIABLES_H
#define MANAGER_INJECT_INJECT_VARIABLES_H

#include <cjson/cJSON.h>

#include "inject/inject_options.h"
#include "object/warnings.h"
#include "json/edit.h"

/* The variables of env-sync, each name once, in a new array that the caller frees. NULL after a
 * failure. */
cJSON *inject_variables_sync(struct edit *ed, const struct inject_options *o, const cJSON *spec,
                             struct warnings *warnings);

/* Sets the variables of env-inject. */
void inject_variables_inject(struct edit *ed, const struct inject_options *o, cJSON *spec,
                             struct warnings *warnings);

/* Sets one variable of a container: of several with that name one is left. */
void inject_variables_set(struct edit *ed, cJSON *container, const char *name, const char *value);

#endif
