/* SPDX-License-Identifier: Apache-2.0 */
#include "base/state_machine.h"

#include "base/ensure.h"
#include "base/log.h"

const char *state_name(const struct state_machine *m, uint32_t state)
{
    const char *name = state < STATE_MAX ? m->states[state].name : NULL;
    return name != NULL ? name : "?";
}

uint32_t state_change(const struct state_machine *m, uint32_t from, uint32_t to, struct slice which)
{
    log_debug("state changed", log_str("object", m->object),
              log_strn("which", which.ptr, which.len), log_str("from", state_name(m, from)),
              log_str("to", state_name(m, to)));
    ensure(from < STATE_MAX && to < STATE_MAX);
    bool invalid = (m->states[from].next & STATE(to)) == 0;
    if (invalid) {
        log_error("invalid state transition", log_str("object", m->object),
                  log_strn("which", which.ptr, which.len), log_str("from", state_name(m, from)),
                  log_str("to", state_name(m, to)));
    }
    (void)odd(invalid);
    return to;
}
