/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/cut_pacing.h"

void cut_pacing_init(struct cut_pacing *p, uint64_t interval_ms, uint64_t spread_ms)
{
    *p = (struct cut_pacing){.interval_ms = interval_ms, .spread_ms = spread_ms};
}

uint64_t cut_pacing_delay(const struct cut_pacing *p, uint64_t view, uint64_t now_ms,
                          unsigned index, unsigned count)
{
    const struct cut_pacing_cut *last = &p->cuts[view % CUT_PACING_VIEWS];
    uint64_t delay = count > CUT_PACING_AT_ONCE ? p->spread_ms * index / count : 0;
    if (last->view == view && last->at_ms != 0 && now_ms < last->at_ms + p->interval_ms) {
        uint64_t wait = last->at_ms + p->interval_ms - now_ms;
        delay = wait > delay ? wait : delay;
    }
    return delay;
}

void cut_pacing_note(struct cut_pacing *p, uint64_t view, uint64_t now_ms)
{
    p->cuts[view % CUT_PACING_VIEWS] = (struct cut_pacing_cut){.view = view, .at_ms = now_ms};
}
