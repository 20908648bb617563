/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/publish_plan.h"

static struct publish_plan plan_of(enum publish_action action, enum publish_reason reason)
{
    return (struct publish_plan){action, reason};
}

/* Nothing newer can be published. What was written last may not fit any more, since pods may read
 * less than those that were there. */
static struct publish_plan keep(const struct publish_facts *f, enum publish_reason reason)
{
    if (f->overwritten && f->own == PUBLISH_UNMADE) {
        return plan_of(PUBLISH_MAKE_OWN, reason);
    }
    return plan_of(f->overwritten && f->own == PUBLISH_FITS ? PUBLISH_WRITE : PUBLISH_KEEP, reason);
}

static struct publish_plan plan_gone(const struct publish_facts *f)
{
    struct publish_plan kept = keep(f, PUBLISH_OK);
    if (f->map == PUBLISH_MAP_NONE || (f->map == PUBLISH_MAP_FOREIGN && !f->overwritten)) {
        return plan_of(PUBLISH_NOTHING, PUBLISH_OK);
    }
    if (f->mounted && f->unread) {
        return plan_of(PUBLISH_READ, PUBLISH_OK); /* others ask what it shows */
    }
    if (f->mounted && kept.action != PUBLISH_KEEP) {
        return kept;
    }
    if (f->map == PUBLISH_MAP_FOREIGN) {
        return plan_of(PUBLISH_NOTHING, PUBLISH_OK);
    }
    return plan_of(f->mounted ? PUBLISH_FOLLOW : PUBLISH_DELETE, PUBLISH_OK);
}

/* While it waits for others, that is what is said, whatever else is in the way. */
static struct publish_plan plan_write(const struct publish_facts *f)
{
    bool waits = f->handover == PUBLISH_HANDOVER_WAITS;
    switch (f->wanted) {
    case PUBLISH_UNMADE:
        return plan_of(PUBLISH_MAKE, PUBLISH_PENDING);
    case PUBLISH_TOO_LARGE:
        return keep(f, waits ? PUBLISH_WAITS_FOR_HANDOVER : PUBLISH_OVERSIZED);
    case PUBLISH_UNREADABLE:
        return keep(f, waits ? PUBLISH_WAITS_FOR_HANDOVER : PUBLISH_HELD_BACK);
    default:
        return plan_of(PUBLISH_WRITE, waits ? PUBLISH_WAITS_FOR_HANDOVER : PUBLISH_PENDING);
    }
}

/* Without a ConfigMap only pods know which generation there was, and the last leader may have died
 * before it could tell them by an annotation. */
static struct publish_plan plan_valid(const struct publish_facts *f)
{
    if (f->map == PUBLISH_MAP_FOREIGN) {
        return plan_of(PUBLISH_REPORT, PUBLISH_NAME_TAKEN);
    }
    if (f->map == PUBLISH_MAP_NONE && f->unasked) {
        return plan_of(PUBLISH_NOTHING, PUBLISH_WAITS_FOR_PODS);
    }
    if (f->map == PUBLISH_MAP_NONE && f->policies_unknown) {
        return plan_of(PUBLISH_NOTHING, PUBLISH_WAITS_FOR_POLICIES);
    }
    if (f->labels_missing) {
        return plan_of(PUBLISH_REPORT, PUBLISH_WAITS_FOR_LABELS);
    }
    if (f->right && (!f->beside_bare || f->handover == PUBLISH_HANDOVER_DONE)) {
        return plan_of(PUBLISH_CONFIRM, PUBLISH_OK);
    }
    if (f->handover == PUBLISH_HANDOVER_UNKNOWN) {
        return plan_of(PUBLISH_ASK_OTHERS, PUBLISH_PENDING);
    }
    if (f->handover == PUBLISH_HANDOVER_WAITS && !f->meanwhile) {
        return plan_of(PUBLISH_REPORT, PUBLISH_WAITS_FOR_HANDOVER); /* its pods wait for rules */
    }
    if (f->handover == PUBLISH_HANDOVER_WAITS && f->right_meanwhile) {
        return plan_of(PUBLISH_CONFIRM, PUBLISH_WAITS_FOR_HANDOVER);
    }
    return plan_write(f);
}

struct publish_plan publish_plan(const struct publish_facts *f)
{
    if (f->spec == PUBLISH_SPEC_GONE) {
        return plan_gone(f);
    }
    if (f->spec == PUBLISH_SPEC_NAMESPACES) {
        return plan_of(PUBLISH_NOTHING, PUBLISH_WAITS_FOR_NAMESPACES);
    }
    if (f->unread) {
        return plan_of(PUBLISH_READ, PUBLISH_PENDING);
    }
    return f->spec == PUBLISH_SPEC_VALID ? plan_valid(f) : keep(f, PUBLISH_OK);
}

bool publish_reason_passes(enum publish_reason reason)
{
    return reason <= PUBLISH_WAITS_FOR_HANDOVER;
}

bool publish_reason_retried(enum publish_reason reason)
{
    return reason == PUBLISH_NAME_TAKEN || reason == PUBLISH_REFUSED;
}
