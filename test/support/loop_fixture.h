/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_fixture.h - a loop for a test, bounded in time, that nothing may survive.
 */
#ifndef TEST_SUPPORT_LOOP_FIXTURE_H
#define TEST_SUPPORT_LOOP_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/loop.h"

/* cmocka set-up and tear-down: *state is the loop. Tear-down fails if a handle survived. */
int loop_setup(void **state);
int loop_teardown(void **state);
/* What tear-down does: 0, or UV_EBUSY with the handles that survived on stderr. */
int loop_free(struct net_loop *l);

/* Runs the loop until *flag, or fails the test after a minute. */
void run_until(struct net_loop *l, const bool *flag);
/* Runs the loop until nothing is left to do, or fails the test after a minute. */
void run_to_end(struct net_loop *l);
/* Runs the loop for about `ms`, and what is ready then. */
void run_for(struct net_loop *l, uint64_t ms);
/* All deadlines that are set (net/deadline.h) come nearer, as if `ms` had passed. */
void loop_skip(struct net_loop *l, uint64_t ms);

#endif
