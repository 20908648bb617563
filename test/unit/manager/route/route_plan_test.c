/* SPDX-License-Identifier: Apache-2.0 */
#include "route/route_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"

/* ---- a table ---- */

static void each_step(void **state)
{
    (void)state;
    static const struct {
        struct route_plan_facts f;
        bool entries;
        enum route_plan_selector selector;
        uint64_t again_ms;
    } rows[] = {
        /* Nobody asks. */
        {{.routable = true, .ready = true}, false, ROUTE_PLAN_LEAVE, UINT64_MAX},
        /* No shard may be asked yet. */
        {{.asked = true, .routable = true}, false, ROUTE_PLAN_LEAVE, UINT64_MAX},
        {{.asked = true, .ready = true}, false, ROUTE_PLAN_LEAVE, UINT64_MAX},
        /* Entries, a pause, and then it is narrowed. */
        {{.asked = true, .routable = true, .ready = true}, true, ROUTE_PLAN_LEAVE, UINT64_MAX},
        {{.asked = true, .routable = true, .ready = true, .has_entries = true, .entries_ms = 1000},
         true,
         ROUTE_PLAN_LEAVE,
         4000},
        {{.asked = true, .routable = true, .ready = true, .has_entries = true, .entries_ms = 5000},
         true,
         ROUTE_PLAN_NARROW,
         UINT64_MAX},
        {{.asked = true, .routable = true, .ready = true, .has_entries = true, .narrowed = true},
         true,
         ROUTE_PLAN_LEAVE,
         UINT64_MAX},
        /* Its owner narrows it first. */
        {{.asked = true, .routable = true, .narrowed = true}, true, ROUTE_PLAN_LEAVE, UINT64_MAX},
        {{.asked = true, .narrowed = true}, true, ROUTE_PLAN_LEAVE, UINT64_MAX},
        {{.narrowed = true}, false, ROUTE_PLAN_LEAVE, UINT64_MAX},
        {{.of_shards = true, .narrowed = true}, true, ROUTE_PLAN_LEAVE, UINT64_MAX},
        {{.of_shards = true}, false, ROUTE_PLAN_LEAVE, UINT64_MAX},
        /* The label goes, or nothing can be routed any more. */
        {{.routable = true, .ready = true, .has_entries = true, .narrowed = true, .ours = true},
         true,
         ROUTE_PLAN_WIDEN,
         UINT64_MAX},
        {{.asked = true, .ready = true, .has_entries = true, .narrowed = true, .ours = true},
         true,
         ROUTE_PLAN_WIDEN,
         UINT64_MAX},
        {{.narrowed = true, .ours = true}, true, ROUTE_PLAN_WIDEN, UINT64_MAX},
        {{.has_entries = true, .narrowed = true}, true, ROUTE_PLAN_LEAVE, UINT64_MAX},
        {{.has_entries = true, .widened_ms = 2000}, true, ROUTE_PLAN_LEAVE, 3000},
        {{.has_entries = true, .widened_ms = 5000}, false, ROUTE_PLAN_LEAVE, UINT64_MAX},
        {{.has_entries = true, .gone = true}, false, ROUTE_PLAN_LEAVE, UINT64_MAX},
        {{.ours = true}, false, ROUTE_PLAN_WIDEN, UINT64_MAX},
        /* Somebody else has widened it. */
        {{.asked = true,
          .routable = true,
          .ready = true,
          .has_entries = true,
          .ours = true,
          .entries_ms = 60000},
         true,
         ROUTE_PLAN_NARROW,
         UINT64_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct route_plan p = route_plan(&rows[i].f);
        if (p.entries != rows[i].entries || p.selector != rows[i].selector ||
            p.again_ms != rows[i].again_ms) {
            fail_msg("row %zu: entries %d, selector %d, again %llu", i, p.entries, p.selector,
                     (unsigned long long)p.again_ms);
        }
    }
}

/* ---- a world ---- */

static uint64_t random_state = 88172645463325252u;

static unsigned chance(unsigned n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state % n);
}

struct world {
    struct route_plan_facts f;
    uint64_t now;
    uint64_t entries_since;
    uint64_t widened_since;
    /* The same, whatever a restart forgets. */
    uint64_t entries_at;
    uint64_t widened_at;
};

static void see(struct world *w)
{
    w->f.entries_ms = w->f.has_entries ? w->now - w->entries_since : 0;
    w->f.widened_ms = w->f.narrowed ? 0 : w->now - w->widened_since;
}

static void set_entries(struct world *w, bool has)
{
    if (has && !w->f.has_entries) {
        w->entries_since = w->now;
        w->entries_at = w->now;
    }
    if (!has && w->f.has_entries) {
        /* Each API server has seen that the original is asked again. */
        assert_true(w->now >= w->widened_at + ROUTE_PLAN_PAUSE_MS);
    }
    w->f.has_entries = has;
}

static void set_narrowed(struct world *w, bool is)
{
    if (is && !w->f.narrowed) {
        assert_true(w->now >= w->entries_at + ROUTE_PLAN_PAUSE_MS);
    }
    if (!is && w->f.narrowed) {
        w->widened_since = w->now;
        w->widened_at = w->now;
    }
    w->f.narrowed = is;
}

/* Some of what the plan asks for comes true, in any order. */
static void obey(struct world *w, const struct route_plan *p)
{
    if (chance(2) == 0) {
        set_entries(w, p->entries);
    }
    if (chance(2) == 0 && p->selector != ROUTE_PLAN_LEAVE) {
        w->f.ours = p->selector == ROUTE_PLAN_NARROW;
        set_narrowed(w, p->selector == ROUTE_PLAN_NARROW);
    }
}

/* A restart forgets for how long things have been so. */
static void happen(struct world *w)
{
    switch (chance(8)) {
    case 0:
        w->f.asked = !w->f.asked;
        break;
    case 1:
        w->f.routable = !w->f.routable;
        break;
    case 2:
        w->f.ready = !w->f.ready;
        break;
    case 3:
        w->entries_since = w->now;
        w->widened_since = w->now;
        break;
    case 4:
        set_narrowed(w, false); /* somebody resets the selector */
        break;
    default:
        break;
    }
    w->now += chance(2000);
}

static void what_we_narrow_always_has_entries(void **state)
{
    (void)state;
    struct world w = {.now = 1000000};
    unsigned narrowed = 0;
    for (unsigned i = 0; i < 200000; i++) {
        see(&w);
        struct route_plan p = route_plan(&w.f);
        if (w.f.narrowed) {
            narrowed++;
            assert_true(p.entries);
            assert_true(w.f.has_entries);
        }
        obey(&w, &p);
        happen(&w);
    }
    assert_true(narrowed > 1000);
}

/* Whatever was, it comes to an end. */
static void without_the_label_nothing_stays(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 64; i++) {
        struct world w = {.now = 1000000,
                          .widened_since = 999000,
                          .f = {.routable = (i & 1) != 0,
                                .ready = (i & 2) != 0,
                                .ours = (i & 4) != 0,
                                .narrowed = (i & 4) != 0 && (i & 8) != 0,
                                .has_entries = (i & 16) != 0,
                                .asked = false}};
        for (unsigned step = 0; step < 10; step++) {
            see(&w);
            struct route_plan p = route_plan(&w.f);
            set_entries(&w, p.entries);
            if (p.selector == ROUTE_PLAN_WIDEN) {
                w.f.ours = false;
                set_narrowed(&w, false);
            }
            w.now += 2000;
        }
        assert_false(w.f.has_entries || w.f.narrowed || w.f.ours);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_step),
        cmocka_unit_test(what_we_narrow_always_has_entries),
        cmocka_unit_test(without_the_label_nothing_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
