/* SPDX-License-Identifier: Apache-2.0 */
/* All there is of small numbers. delivered_versions_model_test.c asks whether it is right. */
#include "upstream/delivered_verdict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { VERSIONS = 5 };

struct situation {
    struct delivered_facts facts;
    uint64_t version;
};

/* False: after the last one. What a stale point or a cut watch holds was given out under another
 * selector. */
static bool next(struct situation *s)
{
    struct delivered_facts *f = &s->facts;
    do {
        if (++s->version < VERSIONS) {
            continue;
        }
        s->version = 1;
        if (++f->others < VERSIONS) {
            continue;
        }
        f->others = 0;
        if (++f->floor < VERSIONS) {
            continue;
        }
        f->floor = 0;
        if (++f->forgotten < VERSIONS) {
            continue;
        }
        f->forgotten = 0;
        f->stale = !f->stale;
        if (f->stale) {
            continue;
        }
        f->cut = !f->cut;
        if (f->cut) {
            continue;
        }
        if (f->fresh == DELIVERED_WITHIN) {
            return false;
        }
        f->fresh++;
    } while ((f->stale || f->cut) && s->version > f->others);
    return true;
}

static void who_may_have_it_from_another_selector_is_refused(void **state)
{
    struct situation s = {.version = 0};
    unsigned served = 0;
    (void)state;
    while (next(&s)) {
        const struct delivered_facts *f = &s.facts;
        bool from_before =
            s.version < f->floor || (s.version == f->floor && f->fresh != DELIVERED_LISTED);
        bool pushed_out = s.version <= f->forgotten && s.version <= f->others;
        bool unproven = f->fresh == DELIVERED_NOT_FRESH && s.version <= f->others;
        if (delivered_judge(f, s.version) == DELIVERED_SERVE) {
            assert_false(f->stale || f->cut || from_before || pushed_out || unproven);
            served++;
        }
    }
    assert_true(served > 100);
}

static void who_cannot_have_it_from_another_selector_is_served(void **state)
{
    struct situation s = {.version = 0};
    (void)state;
    while (next(&s)) {
        const struct delivered_facts *f = &s.facts;
        bool above = s.version > f->others && s.version > f->floor;
        bool proven = f->fresh != DELIVERED_NOT_FRESH && s.version > f->floor && !f->stale &&
                      !f->cut && s.version > f->forgotten;
        if (above || proven) {
            assert_int_equal(delivered_judge(f, s.version), DELIVERED_SERVE);
        }
    }
}

/* Only what nothing is known of is believed in time. */
static void what_somebody_has_is_not_doubted(void **state)
{
    struct situation s = {.version = 0};
    (void)state;
    while (next(&s)) {
        const struct delivered_facts *f = &s.facts;
        if (f->stale || (s.version <= f->forgotten && s.version <= f->others)) {
            assert_int_equal(delivered_judge(f, s.version), DELIVERED_STALE);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_may_have_it_from_another_selector_is_refused),
        cmocka_unit_test(who_cannot_have_it_from_another_selector_is_served),
        cmocka_unit_test(what_somebody_has_is_not_doubted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
