/* SPDX-License-Identifier: Apache-2.0 */
/*
 * passing.h - how far a request and its answer have come that pass between a client (down) and a
 * server (up).
 */
#ifndef LOCALPROXY_PASSING_H
#define LOCALPROXY_PASSING_H

#include "base/slice.h"

/* COMING --- down sent all of it ---> WHOLE --- up was told ---> PASSED. WHOLE once more at the end
 * of an upgraded connection, and with each new watch that follows a migration. */
enum request_state { REQUEST_COMING, REQUEST_WHOLE, REQUEST_PASSED };

/* AWAITED --- its head went down ---> PASSING --- up sent all of it ---> ENDED. ENDED at once where
 * localproxy answers itself. */
enum response_state { RESPONSE_AWAITED, RESPONSE_PASSING, RESPONSE_ENDED };

/* The state `next`, after checking that it may follow. `about`: whose it is, for the log. */
enum request_state request_change(enum request_state now, enum request_state next,
                                  struct slice about);
enum response_state response_change(enum response_state now, enum response_state next,
                                    struct slice about);

#endif
