/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sharing_note.h - warnings about shared namespaces: what likely should be shared and is not, and
 * what cannot be.
 */
#ifndef MANAGER_VALIDATE_SHARING_NOTE_H
#define MANAGER_VALIDATE_SHARING_NOTE_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "compile/namespace_set.h"
#include "compile/sharing.h"
#include "object/warnings.h"
#include "rules/rules.h"

/* Of the rules of a config in the namespace that `c` has, where its pods run; of a root those of
 * one of its shards. `known` NULL: nothing is known of namespaces. */
void sharing_note(const struct rules *rules, const cJSON *config, const struct sharing_consent *c,
                  const struct namespace_set *known, struct warnings *warnings);

#endif
