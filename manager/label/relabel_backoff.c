/* SPDX-License-Identifier: Apache-2.0 */
#include "label/relabel_backoff.h"

#include "base/keyed_hash.h"

enum { PAUSE_MS = 1000 };

static uint64_t hash_of(unsigned resource, const char *ns, const char *name)
{
    return keyed_hash(keyed_hash(resource, slice_str(ns)), slice_str(name));
}

static bool is_fresh(const struct relabel_backoff_slot *s, uint64_t now)
{
    return s->times > 0 && now - s->at < (uint64_t)2 * RELABEL_BACKOFF_MAX_MS;
}

void relabel_backoff_labelled(struct relabel_backoff *c, unsigned resource, const char *ns,
                              const char *name, uint64_t now)
{
    uint64_t object = hash_of(resource, ns, name);
    struct relabel_backoff_slot *s = &c->slots[object % RELABEL_BACKOFF_SLOTS];
    bool same = s->object == object && is_fresh(s, now);
    if (!same && is_fresh(s, now) && s->times >= RELABEL_BACKOFF_FREE) {
        return; /* the pause is not forgotten for an object that is labelled for the first time */
    }
    *s = (struct relabel_backoff_slot){
        .object = object, .at = now, .times = same ? s->times + 1 : 1};
}

uint64_t relabel_backoff_pause(const struct relabel_backoff *c, unsigned resource, const char *ns,
                               const char *name, uint64_t now, bool *begins)
{
    uint64_t object = hash_of(resource, ns, name);
    const struct relabel_backoff_slot *s = &c->slots[object % RELABEL_BACKOFF_SLOTS];
    *begins = false;
    if (s->object != object || !is_fresh(s, now) || s->times < RELABEL_BACKOFF_FREE) {
        return 0;
    }
    *begins = s->times == RELABEL_BACKOFF_FREE;
    uint64_t pause = PAUSE_MS;
    for (unsigned i = RELABEL_BACKOFF_FREE; i < s->times && pause < RELABEL_BACKOFF_MAX_MS; i++) {
        pause *= 2;
    }
    return pause < RELABEL_BACKOFF_MAX_MS ? pause : RELABEL_BACKOFF_MAX_MS;
}
