/* SPDX-License-Identifier: Apache-2.0 */
#include "route/route_plan.h"

/* Whether the pause is over; if not, it is asked for again when it is. */
static bool is_over(uint64_t passed_ms, struct route_plan *p)
{
    if (passed_ms >= ROUTE_PLAN_PAUSE_MS) {
        return true;
    }
    p->again_ms = ROUTE_PLAN_PAUSE_MS - passed_ms;
    return false;
}

/* Nobody else is asked about namespaces with control labels, so also what its owner has narrowed
 * without the label has entries. Another operator than those in shards may have its reasons. */
static void plan_narrowed(const struct route_plan_facts *f, struct route_plan *p)
{
    p->entries = f->asked || f->of_shards || f->has_entries || f->ours;
    if (f->ours && !(f->asked && f->routable)) {
        p->selector = ROUTE_PLAN_WIDEN;
    }
}

static void plan_wide(const struct route_plan_facts *f, struct route_plan *p)
{
    bool wanted = f->asked && f->routable && f->ready;
    if (wanted) {
        p->entries = true;
        bool narrow = f->has_entries && is_over(f->entries_ms, p);
        p->selector = narrow ? ROUTE_PLAN_NARROW : ROUTE_PLAN_LEAVE;
        return;
    }
    p->entries = f->has_entries && !f->gone && !is_over(f->widened_ms, p);
    p->selector = f->ours ? ROUTE_PLAN_WIDEN : ROUTE_PLAN_LEAVE; /* the annotation goes */
}

struct route_plan route_plan(const struct route_plan_facts *f)
{
    struct route_plan p = {.selector = ROUTE_PLAN_LEAVE, .again_ms = UINT64_MAX};
    if (f->narrowed) {
        plan_narrowed(f, &p);
    } else {
        plan_wide(f, &p);
    }
    return p;
}
