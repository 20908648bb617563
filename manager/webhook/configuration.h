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
#include "label/sharding_resources.h"

/* Which webhooks are ours: those that lead to the service, or by URL to one of the hosts. */
struct configuration_target {
    const char *namespace;
    const char *service;
    const char *const *hosts; /* names and IP addresses, without brackets */
    size_t host_count;
};

/* What ours should hold. */
struct configuration_wanted {
    struct slice bundle; /* PEM; empty: not known yet, and left alone */
    const cJSON *rules;  /* of the webhook that labels resources; NULL: left alone */
    bool other_rules;    /* those stay that it has besides */
    int64_t now;         /* seconds since 1970 */
};

/* How many of its webhooks are ours. */
unsigned configuration_count(const struct configuration_target *t, const cJSON *configuration);

/* 0, and the JSON Patch, which the caller frees, or NULL when all is right; it fails when the
 * configuration has changed since. -ENOMEM. */
MUST_CHECK int configuration_patch(const struct configuration_target *t,
                                   const struct configuration_wanted *wanted,
                                   const cJSON *configuration, cJSON **patch);

/* Whether all of ours trust this authority. */
bool configuration_trusts(const struct configuration_target *t, const cJSON *configuration,
                          const struct certificate *authority);

/* The `rules` that send the creation and change of these resources, which are sorted by group and
 * version; the caller frees. NULL without memory. */
MUST_CHECK cJSON *configuration_rules(const struct sharding_resource *resources, size_t count);

#endif
