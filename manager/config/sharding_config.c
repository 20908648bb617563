/* SPDX-License-Identifier: Apache-2.0 */
#include "config/sharding_config.h"

#include <string.h>

#include "base/array.h"
#include "base/xalloc.h"
#include "kube/name.h"
#include "kube/user_agent.h"
#include "rules/rules.h"
#include "rules/sharding.h"
#include "json/field.h"

/* ---- checks ---- */

const char *sharding_check_shared(struct slice name)
{
    const char *why = name_check_label(name);
    return why == NULL && sharding_is_hash(name)
               ? "a namespace that is called as a hash, 0 to 31, cannot be shared"
               : why;
}

static const char *check_hash(struct slice text)
{
    return sharding_is_hash(text) ? NULL : "must be a whole number from 0 to 31";
}

static void check_controller(struct schema_reader *r, const struct schema_path *at, void *out)
{
    const struct sharding_controller *c = out;
    if (c->lock[0] == '\0' && c->lock_namespace[0] != '\0') {
        schema_error(r, at, "leaderElectionName", "Required value: leaderElectionNamespace is set");
    }
}

/* Beside an objectSelector the other spelling may be null: so Go's encoder writes what is not set.
 */
static void check_limit(struct schema_reader *r, const struct schema_path *at, void *out)
{
    static const char *const beside[] = {"relateResources", "selector", "namespaceSelector"};
    const struct sharding_limit *limit = out;
    const struct schema_path inner =
        SCHEMA_AT(at, "objectSelector", field_get(at->item, "objectSelector"));
    for (size_t i = 0; i < ARRAY_LEN(beside) && limit->wrapped != NULL; i++) {
        if (field_get(at->item, beside[i]) != NULL) {
            schema_error(r, at, beside[i],
                         "Forbidden: may not be set together with objectSelector");
        }
    }
    const struct sharding_limit *said = limit->wrapped != NULL ? limit->wrapped : limit;
    if (said->related.count == 0) {
        schema_error(r, limit->wrapped != NULL ? &inner : at, "relateResources",
                     "Required value: must have at least 1 entry");
    }
}

/* One without pods would leave its namespaces to nobody, and one without namespaces its pods idle:
 * likely something was forgotten. `replicas: 0` is a way to do without a canary for a while. */
static void check_canary(struct schema_reader *r, const struct schema_path *at, void *out)
{
    const struct sharding_canary *c = out;
    bool lists = c->namespaces.count > 0 || c->hashes.count > 0;
    if (c->replicas == UINT32_MAX && lists) {
        schema_error(r, at, "replicas",
                     "Required value: how many pods the canary has; 0: there is none");
    } else if (c->replicas > 0 && c->replicas != UINT32_MAX && !lists) {
        schema_error(r, at, "inNamespaces",
                     "Required value: says what the canary has, unless inShardHash does");
    }
}

/* "" is as nothing. */
static bool is_said(const cJSON *root, const char *key)
{
    const cJSON *item = field_get(root, key);
    return item != NULL && (!cJSON_IsString(item) || item->valuestring[0] != '\0');
}

static void check_root(struct schema_reader *r, const struct schema_path *at, void *out)
{
    const struct sharding_root *root = out;
    bool set = is_said(at->item, "targetStatefulSet");
    bool deployment = is_said(at->item, "targetDeployment");
    if (set && deployment) {
        schema_error(r, at, "targetDeployment",
                     "Forbidden: may not be set together with targetStatefulSet: remove one");
    } else if (!set && !deployment) {
        schema_error(r, at, "targetStatefulSet",
                     "Required value: set it, or targetDeployment, to the name of the operator's "
                     "workload");
    }
    if (root->resources.count == 0) {
        schema_error(r, at, "resourceSelector",
                     "Required value: must have at least one entry: without, each shard would see "
                     "everything");
    }
    if (root->automatic == NULL &&
        (root->canary.replicas == 0 || root->canary.replicas == UINT32_MAX)) {
        schema_error(r, at, "auto",
                     "Required value: says how many shards there are, unless there is a canary");
    }
}

/* ---- limits ---- */

static const struct schema_field resources_fields[] = {
    {"apiGroups", SCHEMA_TEXTS, SCHEMA_MEMBER(struct sharding_resources, groups), .required = "",
     .min = 1, .max = RULES_LIST_MAX, .flags = SCHEMA_NULL_PASSES,
     .help = "API groups without versions; \"\" is the core group, \"*\" any."},
    {"resources", SCHEMA_TEXTS, SCHEMA_MEMBER(struct sharding_resources, resources), .required = "",
     .min = 1, .max = RULES_LIST_MAX,
     .help = "Plural names in lower case, as in URLs; \"*\" is any."},
};
static const struct schema_object resources = {
    SCHEMA_OBJECT_OF(resources_fields, struct sharding_resources),
    .help = "Every combination of these groups with these resources."};

#define LIMIT_FIELDS                                                                               \
    {                                                                                              \
        "relateResources",                                                                         \
        SCHEMA_LIST,                                                                               \
        SCHEMA_MEMBER(struct sharding_limit, related),                                             \
        .min = 1,                                                                                  \
        .object = &resources,                                                                      \
        .help = "The resources that are limited. Required."},                                      \
        {"selector", SCHEMA_SELECTOR, SCHEMA_MEMBER(struct sharding_limit, selector),              \
         .help = "The objects that are seen; all others are hidden, as if they did not exist. "    \
                 "Required unless there is a namespaceSelector; must not be empty. The manager "   \
                 "sets the control labels: NotIn of one selects only objects that have it, and "   \
                 "DoesNotExist cannot be said of one."},                                           \
    {                                                                                              \
        "namespaceSelector", SCHEMA_SELECTOR, SCHEMA_MEMBER(struct sharding_limit, namespaces),    \
            .help = "The namespaces whose objects are seen, by the labels of the Namespaces. "     \
                    "With a selector, both must match. The manager compiles it to at most 1,000 "  \
                    "names, and follows changes. Must not be empty."                               \
    }

static const struct schema_field wrapped_fields[] = {LIMIT_FIELDS};
static const struct schema_object wrapped = {
    SCHEMA_OBJECT_OF(wrapped_fields, struct sharding_limit)};

static const struct schema_field limit_fields[] = {
    LIMIT_FIELDS,
    {"objectSelector", SCHEMA_OBJECT, SCHEMA_MEMBER(struct sharding_limit, wrapped),
     .object = &wrapped,
     .help = "Another spelling: an object that holds the other fields, which must then not be set "
             "beside it."},
};
static const struct schema_object limit = {
    SCHEMA_OBJECT_OF(limit_fields, struct sharding_limit), .check = check_limit,
    .help = "Selectors for some resources: relateResources with selector, namespaceSelector or "
            "both."};

/* ---- the root ---- */

static const struct schema_field canary_fields[] = {
    {"replicas", SCHEMA_NUMBER, SCHEMA_MEMBER(struct sharding_canary, replicas),
     .max = ROOT_REPLICAS_MAX, .absent = UINT32_MAX,
     .help = "Pods of the canary shard. 0: there is no canary."},
    {"inNamespaces", SCHEMA_TEXTS, SCHEMA_MEMBER(struct sharding_canary, namespaces),
     .check = name_check_label, .help = "Its namespaces."},
    {"inShardHash", SCHEMA_TEXTS, SCHEMA_MEMBER(struct sharding_canary, hashes),
     .check = check_hash, .help = "Its hashes of namespaces, \"0\" to \"31\"."},
};
static const struct schema_object canary = {SCHEMA_OBJECT_OF(canary_fields, struct sharding_canary),
                                            .check = check_canary};

static const struct schema_field takeover_fields[] = {
    {"afterSeconds", SCHEMA_NUMBER, SCHEMA_MEMBER(struct sharding_seconds, seconds), .required = "",
     .min = ROOT_TAKEOVER_MIN, .max = ROOT_TAKEOVER_MAX,
     .help = "How long the shard has had no living pod."},
};
static const struct schema_object takeover = {
    SCHEMA_OBJECT_OF(takeover_fields, struct sharding_seconds)};

static const struct schema_field rebalance_fields[] = {
    {"maxMovesPerHour", SCHEMA_NUMBER, SCHEMA_MEMBER(struct sharding_moves, an_hour),
     .required = "", .min = 1, .max = ROOT_MOVES_MAX, .help = "How many hashes may move."},
};
static const struct schema_object rebalance = {
    SCHEMA_OBJECT_OF(rebalance_fields, struct sharding_moves)};

static const char *const size_words[] = {"auto", NULL};
static const struct schema_field auto_fields[] = {
    {"shardingSize", SCHEMA_NUMBER, SCHEMA_MEMBER(struct sharding_auto, size), .required = "",
     .min = 1, .max = ROOT_SHARDS_MAX, .words = size_words,
     .help = "How many shards there are beside the canary; or the text auto: as many as the "
             "StatefulSet or Deployment has pods for."},
    {"everyShardReplicas", SCHEMA_NUMBER, SCHEMA_MEMBER(struct sharding_auto, every),
     .required = "", .min = 1, .max = ROOT_REPLICAS_MAX, .help = "Pods of each."},
    {"takeover", SCHEMA_PART, SCHEMA_MEMBER(struct sharding_auto, takeover), .object = &takeover,
     .help = "Other shards take over the hashes of a shard that has no living pod, until it has "
             "lived again for as long. Without it a shard keeps its hashes."},
    {"rebalance", SCHEMA_PART, SCHEMA_MEMBER(struct sharding_auto, rebalance), .object = &rebalance,
     .help = "Hashes may move between shards to balance their load. Without it all shards have as "
             "many hashes, whatever these cost."},
};
static const struct schema_object automatic = {SCHEMA_OBJECT_OF(auto_fields, struct sharding_auto)};

static const struct schema_field root_fields[] = {
    {"disable", SCHEMA_BOOL, SCHEMA_MEMBER(struct sharding_root, disable),
     .help = "Leave the shards as they are."},
    {"prefix", SCHEMA_TEXT, SCHEMA_MEMBER(struct sharding_root, prefix), .required = "",
     .check = name_check_subdomain, .help = "What the names of the shards begin with."},
    {"targetStatefulSet", SCHEMA_TEXT, SCHEMA_MEMBER(struct sharding_root, stateful_set),
     .check = name_check_subdomain,
     .help = "StatefulSet of the operator, in the same namespace. Its first pods are those of the "
             "canary, the next ones those of the first shard, and so on. Required unless "
             "targetDeployment is set."},
    {"targetDeployment", SCHEMA_TEXT, SCHEMA_MEMBER(struct sharding_root, deployment),
     .check = name_check_subdomain,
     .help = "Deployment of the operator, in the same namespace. Each new pod is given to the "
             "shard that lacks one most. May not be set together with targetStatefulSet."},
    {"canary", SCHEMA_PART, SCHEMA_MEMBER(struct sharding_root, canary), .object = &canary,
     .help = "A shard of its own for some namespaces. With both lists it has those that either of "
             "them selects, at most 1,000."},
    {"auto", SCHEMA_OBJECT, SCHEMA_MEMBER(struct sharding_root, automatic), .object = &automatic,
     .help = "How the other namespaces are spread by their hashes: evenly, and with as few moves "
             "as possible. Without it one shard has them all."},
    {"resourceSelector", SCHEMA_LIST, SCHEMA_MEMBER(struct sharding_root, resources),
     .object = &limit,
     .help = "The limits of each shard, which selects its share of the namespaces, too: the "
             "resources that are spread, and what else limits them, the same in all shards. "
             "Required."},
};
static const struct schema_object sharding_root = {
    SCHEMA_OBJECT_OF(root_fields, struct sharding_root), .check = check_root};

/* ---- the spec ---- */

static const struct schema_field controller_fields[] = {
    {"leaderElectionName", SCHEMA_TEXT, SCHEMA_MEMBER(struct sharding_controller, lock),
     .max = NAME_SUBDOMAIN_MAX, .flags = SCHEMA_NULLABLE,
     .help = "Name of the operator's leader election lock, a Lease, ConfigMap or Endpoints in its "
             "own namespace or in leaderElectionNamespace. The shard gets a lock of its own, "
             "NAME---SHARD, and so elects a leader of its own. Without it all shards share the "
             "lock, and only one of them works."},
    {"leaderElectionNamespace", SCHEMA_TEXT,
     SCHEMA_MEMBER(struct sharding_controller, lock_namespace), .max = NAME_LABEL_MAX,
     .flags = SCHEMA_NULLABLE,
     .help = "Namespace of that lock, if it is not the operator's own; cert-manager has it in "
             "kube-system. The operator must be allowed to create and update NAME---SHARD there. "
             "Pods whose localproxy is older than 0.2 keep the rules that they have."},
    {"userAgentOrPrefix", SCHEMA_TEXT, SCHEMA_MEMBER(struct sharding_controller, user_agent),
     .max = USER_AGENT_MAX, .flags = SCHEMA_NULLABLE, .check = user_agent_check,
     .pattern = "^([!-~]([ -~]*[!-~])?)?$",
     .help = "User-Agent of the operator's requests at the API server, in place of its own; a text "
             "that ends in / is put before its own. It applies to pods that are created from then "
             "on. The annotation user-agent of a pod takes precedence."},
};
static const struct schema_object controller = {
    SCHEMA_OBJECT_OF(controller_fields, struct sharding_controller), .check = check_controller};

static const char *const handover_words[] = {
    [SHARDING_OLD_OWNER] = "OldOwner", [SHARDING_HOLD] = "Hold", NULL};
static const struct schema_field webhook_fields[] = {
    {"certDir", SCHEMA_TEXT, SCHEMA_MEMBER(struct sharding_webhook, cert_dir),
     .flags = SCHEMA_NULLABLE,
     .help = "Folder of the serving certificate in the operator's container. It is accepted and "
             "has no effect: TLS ends in the operator, as without shards."},
    {"port", SCHEMA_NUMBER, SCHEMA_MEMBER(struct sharding_webhook, port), .min = 1, .max = 65535,
     .help = "Port on which it listens, that of the container. New pods get a second name for it, "
             "which only the pods of this shard have."},
    {"duringHandover", SCHEMA_WORD, SCHEMA_MEMBER(struct sharding_webhook, handover),
     .words = handover_words,
     .help =
         "Who reviews objects of a namespace that moves between shards, until all ready pods of "
         "its new shard have it: OldOwner, the default, or Hold: nobody, so that the "
         "failurePolicy of the webhook decides."},
};
static const struct schema_object webhook = {
    SCHEMA_OBJECT_OF(webhook_fields, struct sharding_webhook)};

static const struct schema_field spec_fields[] = {
    {"selector", SCHEMA_SELECTOR, SCHEMA_MEMBER(struct sharding_spec, selector),
     .help = "The pods of the shard, in the namespace of this object. No pod may be selected by "
             "two ShardingConfigs. Required unless root is set."},
    {"controller", SCHEMA_PART, SCHEMA_MEMBER(struct sharding_spec, controller),
     .object = &controller, .help = "The operator's controllers."},
    {"webhook", SCHEMA_OBJECT, SCHEMA_MEMBER(struct sharding_spec, webhook), .object = &webhook,
     .help = "The operator's own webhook server, if it has one. Reviews go to the shard that has "
             "the namespace where the operator's ValidatingWebhookConfiguration or "
             "MutatingWebhookConfiguration has the label ctrlmesh.kusionstack.io/route: \"true\", "
             "and to any pod otherwise."},
    {"sharedNamespaces", SCHEMA_TEXTS, SCHEMA_MEMBER(struct sharding_spec, shared),
     .max = SHARDING_SHARED_MAX, .each = NAME_LABEL_MAX, .check = sharding_check_shared,
     .pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
     .help = "Namespaces that limits by control labels let through in every shard that lists them, "
             "such as the one in which the operator runs and keeps its Secrets. All these shards "
             "see what limits name there, and may write it. The shards of a root have what it "
             "lists. Limits by the hash see a namespace that a ShardingConfig in it lists, or that "
             "the manager's --shareable-namespaces names."},
    {"leaving", SCHEMA_TEXT, SCHEMA_MEMBER(struct sharding_spec, leaving),
     .check = name_check_subdomain,
     .help = "The shards are to be left: the name of the one that sees everything meanwhile, and "
             "elects its leader by the operator's own lock, as pods without sidecars do. This "
             "shard sees nothing if it is another one. To be set in all shards of the operator, "
             "or in their root."},
    {"limits", SCHEMA_LIST, SCHEMA_MEMBER(struct sharding_spec, limits), .max = RULES_LIMITS_MAX,
     .object = &limit,
     .help = "What the shard sees. An object must be selected by every limit on its resource; "
             "resources without a limit are seen whole. With [] the shard sees everything; without "
             "limits it sees nothing."},
    {"root", SCHEMA_OBJECT, SCHEMA_MEMBER(struct sharding_spec, root), .object = &sharding_root,
     .help = "Automatic sharding of a StatefulSet or Deployment: the manager makes one "
             "ShardingConfig for each shard of it and keeps it as this one says, "
             "<prefix>-0-canary and <prefix>-1-normal to <prefix>-32-normal. This one has no "
             "rules of its own then; its shards have its controller, webhook and "
             "sharedNamespaces, and its selector, if there is one, beside the ordinals of their "
             "pods, or the label shard that pods of a Deployment get."},
};
const struct schema_object sharding_spec = {SCHEMA_OBJECT_OF(spec_fields, struct sharding_spec),
                                            .help = "What the shard is."};

/* ---- the whole ---- */

const char *const sharding_versions[] = {"ctrlmesh.kusionstack.io/v1alpha1",
                                         "kridge.kusionstack.io/v1alpha1", NULL};

static const struct schema_field metadata_fields[] = {
    {"name", SCHEMA_TEXT, SCHEMA_MEMBER(struct sharding_metadata, name), .required = ""},
    {"namespace", SCHEMA_TEXT, SCHEMA_MEMBER(struct sharding_metadata, namespace)},
};
static const struct schema_object metadata = {
    SCHEMA_OBJECT_OF(metadata_fields, struct sharding_metadata), .open = true};

static const struct schema_field head_fields[] = {
    {"apiVersion", SCHEMA_WORD, SCHEMA_MEMBER(struct sharding_head, version), .required = "",
     .words = sharding_versions},
    {"metadata", SCHEMA_PART, SCHEMA_MEMBER(struct sharding_head, metadata), .required = "",
     .object = &metadata},
    {"spec", SCHEMA_TREE, SCHEMA_MEMBER(struct sharding_head, spec), .required = ""},
};
static const struct schema_object head = {SCHEMA_OBJECT_OF(head_fields, struct sharding_head),
                                          .open = true};

static int read_object(const struct schema_object *o, const char *path, const cJSON *item,
                       struct schema_memory *memory, void *out, struct err *e)
{
    struct schema_reader r = {.memory = memory};
    const struct schema_path at = SCHEMA_AT(NULL, path, item);
    memset(out, 0, o->size);
    int rc = xrc(schema_read(&r, o, &at, out));
    return rc == 0 ? 0 : err_set(e, rc, "%s", r.first.msg);
}

int sharding_read_head(const cJSON *config, struct sharding_head *out, struct err *e)
{
    return read_object(&head, "", config, NULL, out, e);
}

int sharding_read_spec(const cJSON *spec, struct schema_memory *memory, struct sharding_spec *out,
                       struct err *e)
{
    return read_object(&sharding_spec, "spec", spec, memory, out, e);
}

int sharding_read_root(const cJSON *root, struct schema_memory *memory, struct sharding_root *out,
                       struct err *e)
{
    return read_object(&sharding_root, "spec.root", root, memory, out, e);
}
