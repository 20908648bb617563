/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_capture.h - what the code under test logs, that is what it writes to standard error.
 */
#ifndef TEST_SUPPORT_LOG_CAPTURE_H
#define TEST_SUPPORT_LOG_CAPTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"

/* All zero at first. */
struct log_capture {
    int saved;
    int pipe[2];
    char text[8 * LOG_LINE_MAX];
};

static inline void log_capture_begin(struct log_capture *c)
{
    assert_int_equal(pipe(c->pipe), 0);
    c->saved = dup(STDERR_FILENO);
    assert_true(c->saved >= 0 && dup2(c->pipe[1], STDERR_FILENO) >= 0);
}

/* What was written since, which has to fit into the pipe: some lines do. */
static inline const char *log_capture_end(struct log_capture *c)
{
    (void)dup2(c->saved, STDERR_FILENO);
    (void)close(c->saved);
    (void)close(c->pipe[1]);
    size_t len = 0;
    ssize_t n;
    while ((n = read(c->pipe[0], c->text + len, sizeof c->text - 1 - len)) > 0) {
        len += (size_t)n;
    }
    (void)close(c->pipe[0]);
    c->text[len] = '\0';
    return c->text;
}

#endif
