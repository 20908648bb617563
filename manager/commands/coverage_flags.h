/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coverage_flags.h - the command line of `manager coverage`.
 */
#ifndef MANAGER_COMMANDS_COVERAGE_FLAGS_H
#define MANAGER_COMMANDS_COVERAGE_FLAGS_H

/* Without the word "coverage", argv[0] being the program. Returns the exit code; ends the process
 * on
 * --help, --version and wrong usage. */
int coverage_main(int argc, char **argv);

#endif
