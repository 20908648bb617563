/* SPDX-License-Identifier: Apache-2.0 */
/*
 * misspelt.h - labels that nothing sets, and resources that are none: what compiles, and then shows
 * a shard nothing, or everything.
 */
#ifndef MANAGER_VALIDATE_MISSPELT_H
#define MANAGER_VALIDATE_MISSPELT_H

#include <stddef.h>

#include <cjson/cJSON.h>

#include "object/warnings.h"
#include "rules/rules.h"

/* Warns of keys of a label selector, found at `path`, that are like one of the control labels but
 * none of them. */
void misspelt_note_keys(const cJSON *selector, const struct rules_labels *labels, const char *path,
                        struct warnings *warnings);

/* How many keys that has. */
size_t misspelt_key_count(const cJSON *selector);

/* Warns of groups and resources of one entry of relateResources that no API server can have, as far
 * as that can be told without one: of Kubernetes' own groups. */
void misspelt_note_resources(const cJSON *entry, const char *path, struct warnings *warnings);

#endif
