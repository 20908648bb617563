/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "label/labeller_internal.h"

/* ---- what others ask ---- */

enum label_progress_knowledge
labeller_resources(const struct labeller *l, const struct discovery_resource **all, size_t *count)
{
    if (l == NULL) {
        return LABELLED_BY_NOBODY;
    }
    if (l->stage == LABELLER_RESOLVING) {
        return LABELLED_UNKNOWN;
    }
    *all = discovery_all(l->options.discovery, count);
    return LABELLED_KNOWN;
}

/* In whatever version it is labelled. NULL: it is not. */
static const struct resource *find_same(const struct labeller *l,
                                        const struct discovery_resource *d)
{
    LIST_FOR_EACH(n, &l->resources)
    {
        const struct resource *r = LIST_ITEM(n, struct resource, link);
        if (strcmp(r->api.plural, d->plural) == 0 && strcmp(r->api.group, d->group) == 0) {
            return r;
        }
    }
    return NULL;
}

void labeller_progress(const struct labeller *l, const struct discovery_resource *d,
                       struct label_progress *out)
{
    const struct resource *r = find_same(l, d);
    *out = (struct label_progress){.state = LABELLED_NEVER};
    if (r != NULL) {
        out->state = r->passed ? LABELLED_DONE : LABELLED_DUE;
        out->labelled = r->outcomes[PATCHER_CHANGED];
        out->pending = r->pending;
        out->error = resource_error(r);
    }
}

/* ---- who is told ---- */

void labeller_tell_progress(struct labeller *l)
{
    if (l->options.on_progress != NULL) {
        l->options.on_progress(l->options.data);
    }
}

void labeller_note_passes(struct labeller *l)
{
    bool more = false;
    LIST_FOR_EACH(n, &l->resources)
    {
        struct resource *r = LIST_ITEM(n, struct resource, link);
        bool all_seen = r->phase == RESOURCE_FOLLOWING && !r->left_out;
        if (!r->passed && all_seen && r->pending == 0) {
            r->passed = true;
            more = true;
        }
    }
    if (more) {
        labeller_tell_progress(l);
    }
}
