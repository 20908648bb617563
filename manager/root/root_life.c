/* SPDX-License-Identifier: Apache-2.0 */
#include "root/root_life.h"

enum { MS = 1000 };

enum layout_life root_life_look(struct root_life *l, const struct root_life_sight *s,
                                uint64_t *wake_ms)
{
    uint64_t limit = (uint64_t)s->takeover_s * MS;
    if (!l->seen || l->alive != s->alive) {
        *l = (struct root_life){.seen = true, .alive = s->alive, .since = s->now};
    }
    uint64_t ms = s->now - l->since;
    if (s->alive && s->alive_ms > ms) {
        ms = s->alive_ms;
    }
    bool lasts = limit != 0 && ms >= limit;
    *wake_ms = limit == 0 || lasts ? 0 : limit - ms;
    if (s->alive) {
        return lasts ? LAYOUT_LONG_ALIVE : LAYOUT_ALIVE;
    }
    return lasts ? LAYOUT_LONG_DEAD : LAYOUT_DEAD;
}
