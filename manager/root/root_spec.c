/* SPDX-License-Identifier: Apache-2.0 */
#include "root/root_spec.h"

#include <errno.h>
#include <stdlib.h>

#include "json/field.h"

/* What stands beside it: limits, which cannot be both here and there, and the selector of pods, to
 * which requirements are added. */
static int check_beside(const cJSON *spec, struct err *e)
{
    const cJSON *limits = field_get(spec, "limits");
    const cJSON *selector = field_get(spec, "selector");
    const cJSON *expressions = field_get(selector, "matchExpressions");
    if (limits != NULL && limits->child != NULL) {
        return err_set(e, -EINVAL,
                       "spec.limits: Forbidden: may not be set together with spec.root, which has "
                       "resourceSelector");
    }
    if (selector != NULL && !cJSON_IsObject(selector)) {
        return err_set(e, -EINVAL, "spec.selector: Invalid value: must be an object");
    }
    const cJSON *labels = field_get(selector, "matchLabels");
    if (labels != NULL && !cJSON_IsObject(labels)) {
        return err_set(e, -EINVAL, "spec.selector.matchLabels: Invalid value: must be an object");
    }
    return expressions == NULL || cJSON_IsArray(expressions)
               ? 0
               : err_set(e, -EINVAL,
                         "spec.selector.matchExpressions: Invalid value: must be an array");
}

static struct root_canary make_canary(const struct sharding_canary *c, const cJSON *root)
{
    const cJSON *namespaces = field_get(field_get(root, "canary"), "inNamespaces");
    struct root_canary canary = {.replicas = c->replicas};
    if (c->replicas == 0 || c->replicas == UINT32_MAX) {
        return (struct root_canary){.replicas = 0};
    }
    canary.namespaces = c->namespaces.count == 0 ? NULL : namespaces;
    for (size_t i = 0; i < c->hashes.count; i++) {
        canary.buckets |= (uint32_t)1 << strtoul(c->hashes.items[i], NULL, 10);
    }
    return canary;
}

static struct root_spec make_spec(const struct sharding_root *root, const cJSON *item)
{
    const struct sharding_auto *a = root->automatic;
    struct root_spec spec = {.disable = root->disable,
                             .prefix = root->prefix,
                             .deployment = root->deployment[0] != '\0',
                             .target = root->deployment[0] != '\0' ? root->deployment
                                                                   : root->stateful_set,
                             .canary = make_canary(&root->canary, item),
                             .resources = field_get(item, "resourceSelector")};
    if (a != NULL) {
        spec.automatic = (struct root_auto){.there = true,
                                            .size = a->size,
                                            .every = a->every,
                                            .takeover_s = a->takeover.seconds,
                                            .moves_per_hour = a->rebalance.an_hour};
    }
    return spec;
}

int root_spec_read(const cJSON *config, struct root_spec *out, struct err *e)
{
    struct err ignored = ERR_INIT;
    struct err *said = e == NULL ? &ignored : e;
    struct schema_memory memory = {0};
    struct sharding_root root;
    const cJSON *spec = field_get(config, "spec");
    const cJSON *item = field_get(spec, "root");
    *out = (struct root_spec){.disable = false};
    said->code = 0;
    if (item == NULL) {
        return err_set(said, -EINVAL, "spec.root: Required value");
    }
    bool beside = !cJSON_IsObject(item) || check_beside(spec, said) == 0;
    if (beside && sharding_read_root(item, &memory, &root, said) == 0) {
        *out = make_spec(&root, item);
    }
    schema_memory_deinit(&memory);
    return said->code;
}

const char *root_target_kind(const struct root_spec *spec)
{
    return spec->deployment ? "Deployment" : "StatefulSet";
}

unsigned root_first_ordinal(const cJSON *stateful_set)
{
    const cJSON *ordinals = field_get(field_get(stateful_set, "spec"), "ordinals");
    const cJSON *start = field_get(ordinals, "start");
    bool good = cJSON_IsNumber(start) && start->valuedouble >= 0 && start->valuedouble <= INT32_MAX;
    return good ? (unsigned)start->valuedouble : 0;
}
