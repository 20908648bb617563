/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cut_pacing.h - when a watch that lost its rules is cut, so that clients are not driven into
 * back-off nor all come at once.
 *
 * A client that is cut again and again waits longer each time before it lists (client-go: 1.4 s up
 * to 22 s and more). So a view that was cut lately is cut again only when an interval is over, once
 * for all that happened meanwhile. And where a change hits many watches, their ends are spread
 * evenly over a time. Until it is cut a watch is silent.
 */
#ifndef LOCALPROXY_WATCH_CUT_PACING_H
#define LOCALPROXY_WATCH_CUT_PACING_H

#include <stdint.h>

/* Watches that are cut at once, without being spread. */
#define CUT_PACING_AT_ONCE 16

/* Views whose last cut is remembered; one that hashes to the same place takes it over. */
#define CUT_PACING_VIEWS 1024

struct cut_pacing {
    uint64_t interval_ms;
    uint64_t spread_ms;
    struct cut_pacing_cut {
        uint64_t view;
        uint64_t at_ms;
    } cuts[CUT_PACING_VIEWS];
};

void cut_pacing_init(struct cut_pacing *p, uint64_t interval_ms, uint64_t spread_ms);

/* How long to wait, in ms, before cutting a watch of `view`: the `index`-th of `count` that one
 * change of the rules hit. */
uint64_t cut_pacing_delay(const struct cut_pacing *p, uint64_t view, uint64_t now_ms,
                          unsigned index, unsigned count);

/* A watch of `view` was cut. */
void cut_pacing_note(struct cut_pacing *p, uint64_t view, uint64_t now_ms);

#endif
