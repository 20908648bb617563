/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/pace.h"

void pace_init(struct pace *p, uint64_t interval_ms, uint64_t spread_ms)
{
    *p = (struct pace){.interval_ms = interval_ms, .spread_ms = spread_ms};
}

uint64_t pace_delay(const struct pace *p, uint64_t view, uint64_t now_ms, unsigned index,
                    unsigned count)
{
    const struct pace_cut *last = &p->cuts[view % PACE_VIEWS];
    uint64_t delay = count > PACE_AT_ONCE ? p->spread_ms * index / count : 0;
    if (last->view == view && last->at_ms != 0 && now_ms < last->at_ms + p->interval_ms) {
        uint64_t wait = last->at_ms + p->interval_ms - now_ms;
        delay = wait > delay ? wait : delay;
    }
    return delay;
}

void pace_note(struct pace *p, uint64_t view, uint64_t now_ms)
{
    p->cuts[view % PACE_VIEWS] = (struct pace_cut){.view = view, .at_ms = now_ms};
}
