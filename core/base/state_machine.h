/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state_machine.h - the states of an object, which of them may follow which, and the log of it.
 *
 * An object keeps its state as an enum of its own and changes it in one function, which does what
 * belongs to entering a state. The table says the names and the edges:
 *
 *     enum state { IDLE, ASKING, DONE };
 *     static const struct state_machine machine = {
 *         .object = "question",
 *         .states = {[IDLE] = {"Idle", STATE(ASKING)},
 *                    [ASKING] = {"Asking", STATE(IDLE) | STATE(DONE)},
 *                    [DONE] = {"Done", 0}},
 *     };
 *
 *     static void set_state(struct question *q, enum state next)
 *     {
 *         q->state = state_change(&machine, q->state, next, slice_str(q->name));
 *     }
 */
#ifndef CORE_BASE_STATE_MACHINE_H
#define CORE_BASE_STATE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

/* States are numbered from 0. */
#define STATE_MAX 32

struct state_machine {
    const char *object; /* what has these states, for the log */
    struct {
        const char *name;
        uint32_t next; /* STATE() of each that may follow */
    } states[STATE_MAX];
};

#define STATE(state) (UINT32_C(1) << (state))

/* Logs (at level debug) that the object `which`, empty where there is but one, goes from one state
 * to another. An edge that the table does not have is logged as an error, and odd (ensure.h).
 * Returns `to`. */
uint32_t state_change(const struct state_machine *m, uint32_t from, uint32_t to,
                      struct slice which);

/* The same, but silent where the table has the edge: for what changes with every message. */
static inline uint32_t state_step(const struct state_machine *m, uint32_t from, uint32_t to,
                                  struct slice which)
{
    bool valid = from < STATE_MAX && to < STATE_MAX && (m->states[from].next & STATE(to)) != 0;
    return valid ? to : state_change(m, from, to, which);
}

/* The name of a state; "?" of one that the table does not have. */
const char *state_name(const struct state_machine *m, uint32_t state);

#endif
