/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_hints.h - what in a pod does not do what its author expects, and refuses nothing: names
 * that are misspelt, arguments that lead past localproxy, variables of KusionStack's mesh.
 */
#ifndef MANAGER_INJECT_INJECT_HINTS_H
#define MANAGER_INJECT_INJECT_HINTS_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "inject/inject_options.h"
#include "label/labels.h"
#include "object/warnings.h"

/* Whether the name, below the prefix, means something as a label or an annotation of a pod. */
bool inject_hints_knows(const char *name);

/* Warns of labels and annotations below the prefix that mean nothing on a pod: those that are
 * spelt nearly as one that does, or, if `all`, any; and of a SIDECAR_ENABLE that is neither "true"
 * nor "false". */
void inject_hints_names(const char *prefix, const struct labels_keys *keys, const cJSON *pod,
                        bool all, struct warnings *warnings);

/* Warns of what the operator's containers are told, as the pod came, but for the variables that
 * annotations set. */
void inject_hints_containers(const struct inject_options *o, const cJSON *spec,
                             struct warnings *warnings);

#endif
