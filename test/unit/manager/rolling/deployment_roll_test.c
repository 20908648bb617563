/* SPDX-License-Identifier: Apache-2.0 */
#include "rolling/deployment_roll.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"

enum { NEVER = -1 };

static void steps(void **state)
{
    (void)state;
    static const struct {
        struct deployment_roll_facts facts; /* replicas, updated, total, observed, paused, resumed,
                                       new_pods, new_well, ending */
        enum deployment_roll_step want;
    } cases[] = {
        /* Nothing is to be rolled out. */
        {{3, 3, 3, true, true, NEVER, 3, 3, false}, DEPLOYMENT_ROLL_DONE},
        {{3, 3, 3, true, true, NEVER, 3, 2, false}, DEPLOYMENT_ROLL_DONE},
        {{0, 0, 0, true, true, NEVER, 0, 0, false}, DEPLOYMENT_ROLL_DONE},
        {{3, 3, 3, true, false, NEVER, 3, 3, false}, DEPLOYMENT_ROLL_PAUSE},
        {{3, 0, 3, false, true, NEVER, 0, 0, false}, DEPLOYMENT_ROLL_OBSERVE},
        /* It has just been made, or scaled up from nothing. */
        {{3, 0, 0, true, false, NEVER, 0, 0, false}, DEPLOYMENT_ROLL_OBSERVE},
        {{3, 2, 2, true, false, NEVER, 2, 1, false}, DEPLOYMENT_ROLL_OBSERVE},
        {{3, 0, 0, true, true, NEVER, 0, 0, false}, DEPLOYMENT_ROLL_RESUME},
        /* Another template, and all is well. */
        {{3, 0, 3, true, true, NEVER, 0, 0, false}, DEPLOYMENT_ROLL_RESUME},
        {{3, 0, 3, true, false, 0, 0, 0, false}, DEPLOYMENT_ROLL_OBSERVE},
        {{3, 1, 4, true, false, 0, 1, 0, false}, DEPLOYMENT_ROLL_PAUSE},
        {{3, 1, 4, true, true, NEVER, 1, 0, false}, DEPLOYMENT_ROLL_WAIT},
        {{3, 1, 4, true, true, NEVER, 1, 1, false}, DEPLOYMENT_ROLL_RESUME},
        {{3, 1, 3, true, false, 1, 1, 1, true}, DEPLOYMENT_ROLL_OBSERVE},
        {{3, 2, 4, false, false, 1, 2, 1, true}, DEPLOYMENT_ROLL_PAUSE},
        /* The last old pod; after it was rolled back this is the one that was not well. */
        {{3, 3, 4, true, true, NEVER, 3, 3, false}, DEPLOYMENT_ROLL_RESUME},
        {{3, 3, 3, true, false, 3, 3, 3, false}, DEPLOYMENT_ROLL_PAUSE},
        /* Not all is well, or seen. */
        {{3, 2, 4, true, true, NEVER, 2, 1, false}, DEPLOYMENT_ROLL_WAIT},
        {{3, 2, 4, true, true, NEVER, 1, 1, false}, DEPLOYMENT_ROLL_WAIT},
        {{3, 2, 4, true, true, NEVER, 2, 2, true}, DEPLOYMENT_ROLL_WAIT},
        /* The template was changed while it was resumed, or nobody paused it. */
        {{3, 0, 4, true, false, 2, 0, 0, false}, DEPLOYMENT_ROLL_PAUSE},
        {{3, 1, 4, true, false, NEVER, 1, 0, false}, DEPLOYMENT_ROLL_PAUSE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        enum deployment_roll_step step = deployment_roll_decide(&cases[i].facts);
        if (step != cases[i].want) {
            fail_msg("case %zu: %d", i, step);
        }
    }
}

/* With the Deployment's controller, played: pods are replaced one by one, and none while the newest
 * is not well. */
static void a_whole_roll(void **state)
{
    (void)state;
    const uint64_t replicas = 5;
    struct deployment_roll_facts f = {
        .replicas = replicas, .total = replicas, .observed = true, .paused = true, .resumed = -1};
    unsigned resumed = 0;
    for (unsigned i = 0; i < 100 && !(f.paused && f.updated == replicas && f.total == replicas);
         i++) {
        enum deployment_roll_step step = deployment_roll_decide(&f);
        if (step == DEPLOYMENT_ROLL_RESUME) {
            assert_int_equal(f.new_well, f.updated);
            f.paused = false;
            f.resumed = (int64_t)f.updated;
            resumed++;
        } else if (step == DEPLOYMENT_ROLL_PAUSE) {
            f.paused = true;
            f.resumed = -1;
        } else if (step == DEPLOYMENT_ROLL_WAIT) {
            f.new_well++; /* the new pod becomes well */
        } else if (f.total > f.replicas) {
            f.total--;
        } else {
            f.updated++;
            f.total++;
            f.new_pods++;
        }
        assert_true(f.total <= replicas + 1);
        assert_true(f.total - f.updated + f.new_well >= replicas);
    }
    assert_int_equal(f.updated, replicas);
    assert_int_equal(deployment_roll_decide(&f), DEPLOYMENT_ROLL_DONE);
    assert_int_equal(resumed, replicas + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps),
        cmocka_unit_test(a_whole_roll),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
