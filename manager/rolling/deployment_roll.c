/* SPDX-License-Identifier: Apache-2.0 */
#include "rolling/deployment_roll.h"

static bool is_finished(const struct deployment_roll_facts *f)
{
    return f->observed && f->updated == f->replicas && f->total == f->replicas;
}

static bool is_well(const struct deployment_roll_facts *f)
{
    return f->new_pods == f->updated && f->new_well == f->updated && !f->ending;
}

/* It has just been made, or scaled from 0: there is no old pod whose place a new one takes. */
static bool is_fresh(const struct deployment_roll_facts *f)
{
    return f->updated == f->total && f->total < f->replicas;
}

enum deployment_roll_step deployment_roll_decide(const struct deployment_roll_facts *f)
{
    if (!f->paused && is_fresh(f)) {
        return DEPLOYMENT_ROLL_OBSERVE;
    }
    if (!f->paused) {
        bool moved = f->resumed < 0 || f->updated != (uint64_t)f->resumed;
        return moved || is_finished(f) ? DEPLOYMENT_ROLL_PAUSE : DEPLOYMENT_ROLL_OBSERVE;
    }
    if (!f->observed) {
        return DEPLOYMENT_ROLL_OBSERVE;
    }
    if (is_finished(f)) {
        return DEPLOYMENT_ROLL_DONE;
    }
    return is_fresh(f) || is_well(f) ? DEPLOYMENT_ROLL_RESUME : DEPLOYMENT_ROLL_WAIT;
}
