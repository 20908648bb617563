/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_fixture.h - a loop for tests: it is run with a bound on time, and at the end every handle
 * must have been closed; those that were not are printed.
 */
#ifndef TEST_UNIT_LOOP_FIXTURE_H
#define TEST_UNIT_LOOP_FIXTURE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <uv.h>

struct loop_fixture {
    uv_loop_t loop;
    uv_timer_t limit;
    bool late;
};

static inline void loop_fixture_on_limit(uv_timer_t *timer)
{
    struct loop_fixture *f = timer->data;
    f->late = true;
    uv_stop(&f->loop);
}

static inline void loop_fixture_init(struct loop_fixture *f)
{
    f->late = false;
    if (uv_loop_init(&f->loop) != 0 || uv_timer_init(&f->loop, &f->limit) != 0) {
        abort();
    }
    f->limit.data = f;
    uv_unref((uv_handle_t *)&f->limit);
}

/* Runs until *done (when given), or until nothing is left to do. False when that took longer than
 * `ms`. */
static inline bool loop_fixture_run(struct loop_fixture *f, const bool *done, uint64_t ms)
{
    f->late = false;
    (void)uv_timer_start(&f->limit, loop_fixture_on_limit, ms, 0);
    /* A loop that waits for nothing but a flag must wake for the limit too. */
    if (done != NULL) {
        uv_ref((uv_handle_t *)&f->limit);
    }
    while (!f->late && (done == NULL || !*done) && uv_run(&f->loop, UV_RUN_ONCE) != 0) {
    }
    (void)uv_timer_stop(&f->limit);
    uv_unref((uv_handle_t *)&f->limit);
    return !f->late;
}

/* 0, or UV_EBUSY with the handles that survived on stderr. */
static inline int loop_fixture_deinit(struct loop_fixture *f)
{
    uv_close((uv_handle_t *)&f->limit, NULL);
    (void)uv_run(&f->loop, UV_RUN_NOWAIT);
    int rc = uv_loop_close(&f->loop);
    if (rc != 0) {
        uv_print_all_handles(&f->loop, stderr);
    }
    return rc;
}

#endif
