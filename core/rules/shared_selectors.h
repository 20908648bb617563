/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared_selectors.h - the spec of rules in version 2: limits name their selector by its place in
 * spec.selectors, so that what many of them have stands there once.
 */
#ifndef CORE_RULES_SHARED_SELECTORS_H
#define CORE_RULES_SHARED_SELECTORS_H

#include <cjson/cJSON.h>

#include "base/err.h"

/* A copy of the spec of version 1, whose limits each have a text at "selector", in version 2; the
 * caller deletes. The same bytes for the same spec. NULL without memory. */
MUST_CHECK cJSON *shared_selectors_make(const cJSON *spec);

#endif
