/* SPDX-License-Identifier: Apache-2.0 */
#include "passing.h"

#include "base/state_machine.h"

static const struct state_machine request_machine = {
    .object = "request",
    .states = {[REQUEST_COMING] = {"Coming", STATE(REQUEST_WHOLE)},
               [REQUEST_WHOLE] = {"Whole", STATE(REQUEST_WHOLE) | STATE(REQUEST_PASSED)},
               [REQUEST_PASSED] = {"Passed", STATE(REQUEST_WHOLE)}},
};

static const struct state_machine response_machine = {
    .object = "response",
    .states = {[RESPONSE_AWAITED] = {"Awaited", STATE(RESPONSE_PASSING) | STATE(RESPONSE_ENDED)},
               [RESPONSE_PASSING] = {"Passing", STATE(RESPONSE_ENDED)},
               [RESPONSE_ENDED] = {"Ended", 0}},
};

enum request_state request_change(enum request_state now, enum request_state next,
                                  struct slice about)
{
    return state_change(&request_machine, now, next, about);
}

enum response_state response_change(enum response_state now, enum response_state next,
                                    struct slice about)
{
    return state_change(&response_machine, now, next, about);
}
