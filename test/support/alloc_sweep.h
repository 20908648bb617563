/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc_sweep.h - fails the first allocation of a scenario, then the second, and so on, until the
 * scenario needs no more. In every test's program (cmesh_tests): outside of a sweep nothing fails.
 *
 * What libraries allocate inside of themselves does not fail, but for cJSON.
 */
#ifndef TEST_SUPPORT_ALLOC_SWEEP_H
#define TEST_SUPPORT_ALLOC_SWEEP_H

#include <stdbool.h>

/* Volatile, for compilers know that the real functions change neither.
 * sweep_left: allocations until the one that fails; negative: none fails. */
extern volatile long sweep_left;
extern volatile bool sweep_failed;

/* Keeps what a test's own server allocates out of a sweep:
 *
 *     long paused = alloc_sweep_pause();
 *     ...                                   no allocation is made to fail
 *     alloc_sweep_resume(paused);
 */
long alloc_sweep_pause(void);
void alloc_sweep_resume(long paused);

/* Runs `scenario` again and again. It returns false when it met an error; true when all went well,
 * which is only right when nothing failed, or when it can do without what failed. The number of
 * allocations that were made to fail; -1: the scenario fails by itself. */
long sweep_allocations(bool (*scenario)(void *data), void *data);

#endif
