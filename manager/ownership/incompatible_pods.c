/* SPDX-License-Identifier: Apache-2.0 */
#include "ownership/incompatible_pods.h"

enum { NAMED_MAX = 3 };

static bool is_heard_of(const struct probe_result *r)
{
    return r != NULL && r->version[0] != '\0';
}

/* One that has never said what it reads may be of any version. But while there are no rules at all
 * it cannot say so: its localproxy starts when the init container has got some. If it was told of
 * some, there were, although they are gone. One without an address has not started either, and may
 * never: there may be no node for it. */
static bool holds_back(const struct pod *p, const struct probe_result *r,
                       enum rules_version version, bool first)
{
    bool reads = is_heard_of(r) ? r->reads >= version : first && !p->told;
    return !reads && !p->let_go && !p->over && p->ip[0] != '\0';
}

static void name_pod(struct buf *out, const struct pod *p, const struct probe_result *r)
{
    bool known = is_heard_of(r);
    (void)buf_printf(out, "%s%s (%s%s)", out->len > 0 ? ", " : "", p->name,
                     known ? "cmesh " : "not heard of yet", known ? r->version : "");
}

size_t incompatible_pods(const struct ownership_pod *pods, size_t count, enum rules_version version,
                         bool first, struct buf *names)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        const struct pod *p = pods[i].pod;
        if (holds_back(p, pods[i].probe, version, first) && ++found <= NAMED_MAX) {
            name_pod(names, p, pods[i].probe);
        }
    }
    if (found > NAMED_MAX) {
        (void)buf_printf(names, " and %zu more", found - NAMED_MAX);
    }
    return found;
}
