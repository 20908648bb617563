/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.h - runs a program and collects what it prints.
 *
 * The program reads /dev/null, leads a session of its own, and is killed with all that it started
 * when its time is over, when it prints too much, or on process_cancel.
 */
#ifndef CORE_NET_PROCESS_H
#define CORE_NET_PROCESS_H

#include <stdint.h>

#include <uv.h>

#include "base/err.h"
#include "base/slice.h"

/* So much of standard error is kept; the rest is read and dropped. */
#define PROCESS_STDERR_MAX 4096

struct process;

struct process_options {
    char *const *argv; /* argv[0] is looked up in PATH unless it holds a slash; copied by uv */
    char *const *env;  /* the whole environment; NULL: this process's own */
    uint64_t timeout_ms;
    size_t output_max; /* bytes of standard output */
};

struct process_result {
    int code;        /* 0: it ended by itself; -ETIMEDOUT, -ENOBUFS, -ECANCELED, or a read error */
    int exit_status; /* when it ended by itself */
    int signal;      /* that ended it, or 0 */
    struct slice out;
    struct slice err; /* valid, as `out`, until the callback returns; overwritten afterwards */
};

/* Runs once, when everything is closed; the process is freed after it. */
typedef void (*process_done_cb)(void *data, const struct process_result *r);

/* 0, and then `cb` runs exactly once, never before the return; or negative with `e` set (no such
 * program, not executable), and then never. *out is valid until `cb`. */
MUST_CHECK int process_run(uv_loop_t *loop, const struct process_options *o, process_done_cb cb,
                           void *data, struct process **out, struct err *e);

/* Ends it early: `cb` follows with -ECANCELED, unless another end was on its way. */
void process_cancel(struct process *p);

#endif
