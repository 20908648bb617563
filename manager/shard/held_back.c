/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules that only a later version of the document can hold wait until all pods of the shard read
 * it: a pod that does not would go on with the rules that it has, for ever.
 */
#include <errno.h>
#include <stdlib.h>

#include "shard/controller_internal.h"

enum { NAMED_MAX = 3 };

const char shard_held_back[] = "HeldBack";

/* One that has never said what it reads may be of any version. */
static bool reads(const struct probe_result *r, enum rules_version version)
{
    return r != NULL && r->version[0] != '\0' && r->reads >= version;
}

static void name_pod(struct buf *out, const struct pod *p, const struct probe_result *r)
{
    bool known = r != NULL && r->version[0] != '\0';
    (void)buf_printf(out, "%s%s (%s%s)", out->len > 0 ? ", " : "", p->name,
                     known ? "cmesh " : "not heard of yet", known ? r->version : "");
}

int shard_find_held_back(const struct shard *s, enum rules_version version, struct buf *names)
{
    const struct controller *c = s->controller;
    size_t count = 0;
    int found = 0;
    const struct pod **pods = controller_own_pods(c, s->key, &count);
    for (size_t i = 0; pods != NULL && i < count; i++) {
        const struct probe_result *r = prober_result(c->prober, pods[i]->key);
        if (!reads(r, version)) {
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
