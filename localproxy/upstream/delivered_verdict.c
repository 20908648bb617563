/* SPDX-License-Identifier: Apache-2.0 */
#include "upstream/delivered_verdict.h"

/* Who has it from before, and who has listed since, are not told apart where nothing at all changed
 * in between: then the floor is where the list is. */
static bool may_be_from_before(const struct delivered_facts *f, uint64_t version)
{
    return version < f->floor || (version == f->floor && f->fresh != DELIVERED_LISTED);
}

enum delivered_verdict delivered_judge(const struct delivered_facts *f, uint64_t version)
{
    if (version > f->others && version > f->floor) {
        return DELIVERED_SERVE;
    }
    if (f->stale || version <= f->forgotten) {
        return DELIVERED_STALE;
    }
    bool known = f->fresh != DELIVERED_NOT_FRESH && !f->cut && !may_be_from_before(f, version);
    return known ? DELIVERED_SERVE : DELIVERED_DOUBT;
}
