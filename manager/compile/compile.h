/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile.h - from a ShardingConfig to the rules of its shard.
 *
 * Glossary: a *config* is one ShardingConfig object of the API; its *rules* are what the proxies of
 * the shard enforce (kube/rules.h). A limit is written {relateResources, selector} or, as Kridge
 * wrote it, {objectSelector: {relateResources, selector}}. Beside the selector, or in its place, it
 * may have a namespaceSelector by labels of namespaces, which is compiled to their names. What
 * spec.sharedNamespaces names is let through (compile/sharing.h).
 */
#ifndef MANAGER_COMPILE_COMPILE_H
#define MANAGER_COMPILE_COMPILE_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "compile/namespace_set.h"
#include "compile/sharing.h"
#include "rules/rules.h"

#define COMPILE_KIND "ShardingConfig"
#define COMPILE_GROUP "ctrlmesh.kusionstack.io"
#define COMPILE_API_VERSION COMPILE_GROUP "/v1alpha1" /* of what is followed at an API server */

/* Of spec.controller: the lock of its leader election, where that is, and what the operator is
 * called at the API server (kube/user_agent.h). */
#define COMPILE_LOCK_NAME "leaderElectionName"
#define COMPILE_LOCK_NAMESPACE "leaderElectionNamespace"
#define COMPILE_USER_AGENT "userAgentOrPrefix"
/* Of the spec: the name of the shard that all is left to. */
#define COMPILE_LEAVING "leaving"
/* Of spec: the operator's webhooks. */
#define COMPILE_WEBHOOK "webhook"
#define COMPILE_WEBHOOK_PORT "port"
#define COMPILE_WEBHOOK_HANDOVER "duringHandover"
#define COMPILE_WEBHOOK_HOLD "Hold"

/* The control labels: names below `prefix`, or whole keys if they hold a slash. */
struct compile_labels {
    const char *prefix; /* NULL: the API group of the config */
    const char *namespace;
    const char *shard_hash;
    const char *control;
};

struct compile_options {
    const char *namespace; /* of configs that name none */
    uint64_t generation;
    struct compile_labels labels;
    const struct namespace_set *namespaces; /* NULL: not known */
    const struct sharing_set *shared;       /* namespaces; NULL: not known */
    struct flag_list shareable;             /* those that any config may share */
};

/* Whether the document calls itself a ShardingConfig, of whatever version. */
bool compile_is_config(const cJSON *document);

/* What its control labels begin with: the prefix of `l`, or else its API group. */
#define COMPILE_PREFIX_SIZE 512
void compile_prefix(const cJSON *config, const struct compile_labels *l,
                    char out[COMPILE_PREFIX_SIZE]);

/* Whether it has no list of limits, not even `limits: []`, which says that the shard sees
 * everything. Then it is compiled to rules that show nothing. */
bool compile_lacks_limits(const cJSON *config);

/* What the config says of it; NULL: nothing, or nothing valid. */
const char *compile_user_agent(const cJSON *config);

/* spec.webhook.port: that of the container in which the operator answers reviews; 0: there is none,
 * or it is no port. */
unsigned compile_webhook_port(const cJSON *config);
/* Whether spec.webhook.duringHandover is Hold. */
bool compile_webhook_holds(const cJSON *config);

/* Compiles one config. The caller holds one reference to the rules. NULL on error; the message
 * begins with the path of the field: -EINVAL or -E2BIG; or -EAGAIN: it has a namespaceSelector, and
 * the namespaces are not known. Fields of the spec that are unknown are refused, since a misspelt
 * limit would limit nothing. */
MUST_CHECK struct rules *compile_config(const cJSON *config, const struct compile_options *o,
                                        struct err *e);

/* The same, but as if there were no namespaces as long as they are not known: *unknown tells. */
MUST_CHECK struct rules *compile_draft(const cJSON *config, const struct compile_options *o,
                                       bool *unknown, struct err *e);

#endif
