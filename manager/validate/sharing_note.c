/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/sharing_note.h"

#include "compile/control_labels.h"
#include "json/field.h"

#define FIELD "spec." SHARING_FIELD

/* Of the shards of a root at most one has the namespace. */
static bool is_left_out(const struct rules *rules, const char *resource, const char *ns, bool root)
{
    const struct rules_entry *entry = rules_match(rules, slice_str(""), slice_str(resource));
    bool asks = false;
    bool accepted = entry == NULL || control_labels_accept(rules, entry, slice_str(ns), &asks);
    return !accepted || (root && asks);
}

static void note_own(const struct rules *rules, const cJSON *config, const char *ns,
                     struct warnings *warnings)
{
    bool root = field_get(field_get(config, "spec"), "root") != NULL;
    bool secrets = is_left_out(rules, "secrets", ns, root);
    bool settings = is_left_out(rules, "configmaps", ns, root);
    if (secrets || settings) {
        warnings_add(warnings,
                     FIELD ": does not list \"%.63s\", where the operator itself runs: %s neither "
                           "see%s nor may write the %s there, such as the certificate of the "
                           "operator's webhook",
                     ns, root ? "all shards but one" : "the shard", root ? "" : "s",
                     secrets && settings ? "Secrets and ConfigMaps"
                     : secrets           ? "Secrets"
                                         : "ConfigMaps");
    }
}

static void note_unlabelled(const cJSON *own, const struct namespace_set *known,
                            struct warnings *warnings)
{
    unsigned i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, own)
    {
        if (namespace_set_leaves_out(known, item->valuestring)) {
            warnings_add(warnings,
                         FIELD "[%u]: has no effect: objects in \"%.63s\" get no control labels, "
                               "unless the manager runs with --label-system-namespaces",
                         i, item->valuestring);
        }
        i++;
    }
}

/* Names need no labels that are other than before. */
static void note_not_allowed(const cJSON *own, const struct sharing_consent *c,
                             struct warnings *warnings)
{
    unsigned i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, own)
    {
        if (!sharing_allowed(c, item->valuestring)) {
            warnings_add(warnings,
                         FIELD "[%u]: limits by the hash do not see \"%.63s\" yet: that takes a "
                               "ShardingConfig there that lists it, or the manager's "
                               "--shareable-namespaces",
                         i, item->valuestring);
        }
        i++;
    }
}

void sharing_note(const struct rules *rules, const cJSON *config, const struct sharing_consent *c,
                  const struct namespace_set *known, struct warnings *warnings)
{
    const cJSON *own = sharing_of(config);
    if (!field_has(own, c->ns)) {
        note_own(rules, config, c->ns, warnings);
    }
    if (control_labels_ask_hash(rules)) {
        note_not_allowed(own, c, warnings);
    }
    if (known != NULL) {
        note_unlabelled(own, known, warnings);
    }
}
