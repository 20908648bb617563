/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules that only a later version of the document can hold wait until all pods of the shard read
 * it: a pod that does not would go on with the rules that it has, for ever.
 */
#include <errno.h>
#include <stdlib.h>

#include "shard/controller_internal.h"

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

int shard_find_held_back(const struct shard *s, const struct rules_map *map,
                         enum rules_version version, struct buf *names)
{
    bool first = map == NULL || map->generation == 0;
    const struct controller *c = s->controller;
    size_t count = 0;
    int found = 0;
    const struct pod **pods = controller_own_pods(c, s->key, &count);
    for (size_t i = 0; pods != NULL && i < count; i++) {
        const struct probe_result *r = prober_result(c->prober, pods[i]->key);
        if (holds_back(pods[i], r, version, first)) {
            found++;
            if (found <= NAMED_MAX) {
                name_pod(names, pods[i], r);
            }
        }
    }
    if (found > NAMED_MAX) {
        (void)buf_printf(names, " and %d more", found - NAMED_MAX);
    }
    int rc = pods == NULL ? -ENOMEM : buf_error(names) != 0 ? buf_error(names) : found;
    free(pods);
    return rc;
}
