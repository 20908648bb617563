/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - the manager as a running program: `manager` without a command.
 */
#ifndef MANAGER_RUN_RUN_H
#define MANAGER_RUN_RUN_H

/* Returns the exit code; ends the process on --help, --version and wrong usage. */
int run_main(int argc, char **argv);

#endif
