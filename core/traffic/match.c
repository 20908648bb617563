/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/match.h"

#include "traffic/traffic_internal.h"

bool traffic_policy_selects(const struct traffic_policy *p, const struct selector_label *labels,
                            size_t count)
{
    return selector_matches(p->pods, labels, count);
}

/* Those of `count` whose policy is for the pod; each is of a rule. */
static bool activate(const struct traffic *t, size_t count, const uint16_t *rule,
                     const struct traffic_policy *(*policy_of)(const struct traffic *, size_t),
                     const bool *selected, uint64_t *set)
{
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        const struct traffic_policy *p = policy_of(t, rule == NULL ? i : rule[i]);
        if (selected[p - t->policies]) {
            set[i / 64] |= UINT64_C(1) << i % 64;
            any = true;
        }
    }
    return any;
}

static const struct traffic_policy *limiting_policy(const struct traffic *t, size_t i)
{
    return t->limitings[i]->policy;
}

static const struct traffic_policy *fault_policy(const struct traffic *t, size_t i)
{
    return t->faults[i]->policy;
}

static const struct traffic_policy *intercept_policy(const struct traffic *t, size_t i)
{
    return t->intercepts[i]->policy;
}

static void activate_external(struct traffic_active *a, const struct traffic *t,
                              const bool *selected)
{
    const struct external_table *x = &t->external;
    bool urls = activate(t, x->url_count, x->url_rule, limiting_policy, selected, a->urls);
    bool http = activate(t, x->http_count, x->http_rule, fault_policy, selected, a->http);
    bool intercepts =
        activate(t, t->intercept_count, NULL, intercept_policy, selected, a->intercepts);
    a->any_external = urls || http || intercepts;
}

void traffic_active_set(struct traffic_active *a, const struct traffic *t,
                        const struct selector_label *labels, size_t count)
{
    const struct row_table *limitings = &t->limiting_rows;
    const struct row_table *faults = &t->fault_rows;
    bool selected[TRAFFIC_POLICIES_MAX] = {false};
    *a = (struct traffic_active){0};
    for (size_t i = 0; i < t->policy_count; i++) {
        selected[i] = traffic_policy_selects(&t->policies[i], labels, count);
    }
    a->any_limiting =
        activate(t, limitings->count, limitings->rule, limiting_policy, selected, a->limitings);
    a->any_fault = activate(t, faults->count, faults->rule, fault_policy, selected, a->faults);
    activate_external(a, t, selected);
}

void traffic_find_limitings(const struct traffic *t, const struct traffic_active *a,
                            const struct traffic_request *r, struct traffic_found *out)
{
    uint64_t set[TRAFFIC_SET_WORDS];
    out->count = 0;
    if (a->any_limiting && row_table_most_specific(&t->limiting_rows, a->limitings, r, set)) {
        row_table_rules(&t->limiting_rows, set, out);
    }
}

void traffic_find_faults(const struct traffic *t, const struct traffic_active *a,
                         const struct traffic_request *r, struct traffic_found *out)
{
    uint64_t set[TRAFFIC_SET_WORDS];
    out->count = 0;
    if (a->any_fault && row_table_all(&t->fault_rows, a->faults, r, set)) {
        row_table_rules(&t->fault_rows, set, out);
    }
}
