/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc_pause.h - keeps what a test's own server allocates out of a sweep (alloc_sweep.h). In a
 * test without one nothing happens.
 *
 *     long paused = alloc_pause();
 *     ...                             no allocation is made to fail
 *     alloc_resume(paused);
 */
#ifndef TEST_SUPPORT_ALLOC_PAUSE_H
#define TEST_SUPPORT_ALLOC_PAUSE_H

#include <stddef.h>

/* Of alloc_sweep.h, when the test includes it. */
long alloc_sweep_pause(void) __attribute__((weak));
void alloc_sweep_resume(long paused) __attribute__((weak));

static inline long alloc_pause(void)
{
    return alloc_sweep_pause != NULL ? alloc_sweep_pause() : 0;
}

static inline void alloc_resume(long paused)
{
    if (alloc_sweep_resume != NULL) {
        alloc_sweep_resume(paused);
    }
}

#endif
