/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/policy_review.h"

#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "kube/selector.h"
#include "object/json_patch.h"
#include "policy/traffic_compile.h"
#include "json/field.h"

/* ---- what is looked at ---- */

/* Whatever else is sent is no policy, and left alone. */
static bool is_policy(const struct admission_request *r, enum traffic_kind *kind)
{
    static const enum traffic_kind kinds[] = {TRAFFIC_BREAKER, TRAFFIC_FAULT_INJECTION};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        *kind = kinds[i];
        if (strcmp(r->resource.resource, policy_kind_plural(*kind)) == 0) {
            return strcmp(r->resource.group, POLICY_GROUP) == 0;
        }
    }
    return false;
}

static bool has_same_spec(const struct admission_request *r)
{
    const cJSON *old = field_get(r->old_object, "spec");
    const cJSON *spec = field_get(r->object, "spec");
    if (r->operation != ADMISSION_UPDATE || r->same_spec || r->cut) {
        return r->operation == ADMISSION_UPDATE && r->same_spec;
    }
    return old == NULL || spec == NULL ? old == spec : json_patch_equal(old, spec);
}

/* ---- the answer ---- */

static void move_warnings(struct warnings *to, const char *prefix, const struct warnings *from)
{
    for (size_t i = 0; i < from->count; i++) {
        warnings_add(to, "%s%s", prefix, from->items[i]);
    }
    to->dropped += from->dropped;
}

/* Of a spec that is not new its mistakes are told, and no more. */
static int answer(const struct policy_findings *found, bool known, struct warnings *warnings,
                  struct err *e)
{
    move_warnings(warnings, "", &found->warnings);
    if (!policy_findings_failed(found)) {
        return 0;
    }
    if (known) {
        move_warnings(warnings, "not valid, and not used: ", &found->errors);
        return 0;
    }
    return policy_findings_join(found, e);
}

int policy_review(const struct admission_request *r, const struct policy_options *o,
                  struct warnings *warnings, struct policy **out, struct err *e)
{
    struct policy_findings found = POLICY_FINDINGS_INIT;
    enum traffic_kind kind;
    *out = NULL;
    if (!is_policy(r, &kind) || r->object == NULL || r->resource.subresource[0] != '\0' ||
        field_is_deleted(r->object)) {
        return 0;
    }
    bool known = has_same_spec(r);
    if (r->cut) {
        return known ? 0
                     : err_set(e, -E2BIG,
                               "spec: Too long: the object has more than %d values (fields and "
                               "items of lists)",
                               ADMISSION_VALUES_MAX);
    }
    struct policy *p = policy_read(kind, r->object, o, &found);
    int rc = answer(&found, known, warnings, e);
    policy_findings_deinit(&found);
    if (rc == 0 && policy_valid(p) && !known) {
        *out = p;
    } else {
        policy_unref(p);
    }
    return rc;
}

/* ---- the shards of its namespace ---- */

static bool concerns(const struct shards_item *shard, const struct policy *p)
{
    struct selector *own = NULL;
    const struct selector *pods = shard->pods;
    if (pods == NULL) {
        own = shards_pod_selector(shard->config, NULL);
        pods = own;
    }
    bool yes = pods != NULL && traffic_concerns(pods, p);
    selector_free(own);
    return yes;
}

void policy_review_shards(const struct policy *p, const char *ns, const struct shards_list *shards,
                          struct warnings *warnings)
{
    for (size_t i = 0; i < shards->count; i++) {
        const struct shards_item *shard = &shards->items[i];
        if (!shard->root && strcmp(shard->ns, ns) == 0 && concerns(shard, p)) {
            return;
        }
    }
    warnings_add(warnings,
                 "spec.selector: no ShardingConfig in namespace \"%.63s\" has pods that this "
                 "selects: until one does, nothing enforces the policy",
                 ns);
}
