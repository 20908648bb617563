/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - the manager as a running program: `manager` without a command.
 */
#ifndef MANAGER_RUN_RUN_H
#define MANAGER_RUN_RUN_H

#include <stdint.h>

/* For tests, which have no minutes to wait: `minute_ms` is the minute in which load is counted
 * (root/roots.h). 0: as usual. */
int run_main_at(int argc, char **argv, uint64_t minute_ms);

/* Returns the exit code; ends the process on --help, --version and wrong usage. */
int run_main(int argc, char **argv);

#endif
