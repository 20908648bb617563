/* SPDX-License-Identifier: Apache-2.0 */
/*
 * traffic_text.h - traffic policies as lines of plain text, as rules_text.h has those of rules:
 *
 *     CircuitBreaker guard:
 *       rateLimitings deletePod:
 *         bucket: burst 1, interval 10s, limit 1
 *         resourceRules: apiGroups "", namespaces *, resources pods, verbs delete
 *         triggerPolicy: LimiterOnly
 *       selector:
 *         matchLabels: app operator
 *
 * What the API server and the manager give to an object is not shown: uid, and hash of the spec.
 */
#ifndef MANAGER_COMMANDS_TRAFFIC_TEXT_H
#define MANAGER_COMMANDS_TRAFFIC_TEXT_H

#include <stdbool.h>

#include "commands/rules_text.h"
#include "traffic/traffic.h"

/* Whether a policy is to be shown. */
typedef bool (*traffic_text_wants_cb)(void *data, enum traffic_kind kind, const char *name);

/* Adds those that are wanted; rules_text_deinit is due. */
void traffic_text_add(struct rules_text *t, const struct traffic *traffic,
                      traffic_text_wants_cb wants, void *data);

#endif
