/* SPDX-License-Identifier: Apache-2.0 */
/*
 * configuration.h - what a Mutating- or ValidatingWebhookConfiguration should hold, and the patch
 * that makes it so. No I/O. See webhook/ca_bundle.h for the rules.
 *
 * Source:
 * https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/.
 */
#ifndef MANAGER_WEBHOOK_CONFIGURATION_H
#define MANAGER_WEBHOOK_CONFIGURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "base/slice.h"
#include "crypto/certificate.h"
#include "label/labels.h"
#include "label/sharding_resources.h"

/* The match condition that is ours, of all that a webhook may have. */
#define CONFIGURATION_CONDITION "needs-labels.cmesh.kusionstack.io"

/* Which webhooks are ours: those that lead to the service, or by URL to one of the hosts. */
struct configuration_target {
    const char *namespace;
    const char *service;
    const char *const *hosts; /* names and IP addresses, without brackets */
    size_t host_count;
};

/* What becomes of our match condition (label/labels_condition.h). One that is not as it should be
 * is always taken away first: it would keep from us what we are to see. */
enum configuration_condition {
    CONFIGURATION_CONDITION_LEFT, /* as it is */
    CONFIGURATION_CONDITION_KEPT, /* stays if it is as it should be */
    CONFIGURATION_CONDITION_NONE,
    CONFIGURATION_CONDITION_SET,
};

/* What ours should hold. */
struct configuration_wanted {
    struct slice bundle; /* PEM; empty: not known yet, and left alone */
    const cJSON *rules;  /* of the webhook that labels resources; NULL: left alone */
    bool other_rules;    /* those stay that it has besides */
    enum configuration_condition condition; /* of the webhooks that label */
    const struct labels_keys *keys;         /* of the condition; NULL: it must be _LEFT */
    int64_t now;                            /* seconds since 1970 */
};

/* How many of its webhooks are ours. */
unsigned configuration_count(const struct configuration_target *t, const cJSON *configuration);

/* The JSON Patch, which the caller frees, or NULL when all is right; it fails when the
 * configuration has changed since. */
MUST_CHECK cJSON *configuration_patch(const struct configuration_target *t,
                                      const struct configuration_wanted *wanted,
                                      const cJSON *configuration);

/* How many of ours are asked about pods; the namespaceSelector of the last of them, which may be
 * NULL, goes to *selector. */
unsigned configuration_pods(const struct configuration_target *t, const cJSON *configuration,
                            const cJSON **selector);

/* Whether all of ours trust this authority. */
bool configuration_trusts(const struct configuration_target *t, const cJSON *configuration,
                          const struct certificate *authority);

/* The `rules` that send the creation and change of these resources, which are sorted by group and
 * version; the caller frees. */
cJSON *configuration_rules(const struct sharding_resource *resources, size_t count);

#endif
