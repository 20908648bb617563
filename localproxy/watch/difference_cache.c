/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/difference_cache.h"

#include <stdlib.h>

void difference_unref(struct difference *d)
{
    if (d != NULL && --d->refs == 0) {
        selector_difference_deinit(&d->lost);
        selector_difference_deinit(&d->gained);
        free(d);
    }
}

static struct difference *difference_new(struct difference_side from, struct difference_side to,
                                         struct err *e)
{
    struct difference *d = calloc(1, sizeof *d);
    if (d == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    d->refs = 1;
    d->from = from.id;
    d->to = to.id;
    if (selector_difference(from.selector, to.selector, &d->lost, e) != 0 ||
        selector_difference(to.selector, from.selector, &d->gained, e) != 0) {
        difference_unref(d);
        return NULL;
    }
    return d;
}

struct difference *difference_cache_get(struct difference_cache *d, struct difference_side from,
                                        struct difference_side to, struct err *e)
{
    for (unsigned i = 0; i < DIFFERENCE_CACHE_MAX; i++) {
        struct difference *kept = d->kept[i];
        if (kept != NULL && kept->from == from.id && kept->to == to.id) {
            kept->refs++;
            return kept;
        }
    }
    struct difference *new = difference_new(from, to, e);
    if (new != NULL) {
        difference_unref(d->kept[d->next]);
        new->refs++;
        d->kept[d->next] = new;
        d->next = (d->next + 1) % DIFFERENCE_CACHE_MAX;
    }
    return new;
}

void difference_cache_deinit(struct difference_cache *d)
{
    for (unsigned i = 0; i < DIFFERENCE_CACHE_MAX; i++) {
        difference_unref(d->kept[i]);
        d->kept[i] = NULL;
    }
}
