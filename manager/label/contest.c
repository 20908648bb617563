/* SPDX-License-Identifier: Apache-2.0 */
#include "label/contest.h"

#include "base/hash.h"

enum { PAUSE_MS = 1000 };

static uint64_t hash_of(unsigned resource, const char *ns, const char *name)
{
    return hash_slice(hash_slice(HASH_SEED + resource, slice_str(ns)), slice_str(name));
}

static bool is_fresh(const struct contest_slot *s, uint64_t now)
{
    return s->times > 0 && now - s->at < (uint64_t)2 * CONTEST_MAX_MS;
}

void contest_labelled(struct contest *c, unsigned resource, const char *ns, const char *name,
                      uint64_t now)
{
    uint64_t object = hash_of(resource, ns, name);
    struct contest_slot *s = &c->slots[object % CONTEST_SLOTS];
    bool same = s->object == object && is_fresh(s, now);
    if (!same && is_fresh(s, now) && s->times >= CONTEST_FREE) {
        return; /* a contest is not forgotten for an object that is labelled for the first time */
    }
    *s = (struct contest_slot){.object = object, .at = now, .times = same ? s->times + 1 : 1};
}

uint64_t contest_pause(const struct contest *c, unsigned resource, const char *ns, const char *name,
                       uint64_t now, bool *begins)
{
    uint64_t object = hash_of(resource, ns, name);
    const struct contest_slot *s = &c->slots[object % CONTEST_SLOTS];
    *begins = false;
    if (s->object != object || !is_fresh(s, now) || s->times < CONTEST_FREE) {
        return 0;
    }
    *begins = s->times == CONTEST_FREE;
    uint64_t pause = PAUSE_MS;
    for (unsigned i = CONTEST_FREE; i < s->times && pause < CONTEST_MAX_MS; i++) {
        pause *= 2;
    }
    return pause < CONTEST_MAX_MS ? pause : CONTEST_MAX_MS;
}
