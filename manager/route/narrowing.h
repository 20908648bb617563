/* SPDX-License-Identifier: Apache-2.0 */
/*
 * narrowing.h - keeps the original from being asked about namespaces with control labels, and the
 * way back.
 *
 * A webhook is *narrowed* when its namespaceSelector demands that the control label does not exist.
 * We note in an annotation, ROUTE_NARROWED, which webhooks we narrowed, with their selectors
 * before, or `true` where these are too much for annotations.
 */
#ifndef MANAGER_ROUTE_NARROWING_H
#define MANAGER_ROUTE_NARROWING_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "label/labels.h"

bool narrowing_is(const struct labels_keys *k, const cJSON *webhook);
/* Whether we narrowed the webhook of that name, or any (NULL). `annotation`: the whole key. */
bool narrowing_is_ours(const cJSON *configuration, const char *annotation, const char *webhook);

/* Which webhooks are concerned; NULL: all. */
typedef bool narrowing_pick_fn(void *data, const cJSON *webhook);

/* The JSON merge patches that narrow those that are not narrowed, and that widen those that we
 * narrowed; they fail when the configuration has changed since. The caller frees. NULL: there is
 * nothing to do. */
cJSON *narrowing_patch(const struct labels_keys *k, const cJSON *configuration,
                       const char *annotation, narrowing_pick_fn *pick, void *data);
cJSON *narrowing_undo_patch(const struct labels_keys *k, const cJSON *configuration,
                            const char *annotation, narrowing_pick_fn *pick, void *data);

#endif
