/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile_flags.h - the command line of `manager compile`.
 */
#ifndef MANAGER_COMMANDS_COMPILE_FLAGS_H
#define MANAGER_COMMANDS_COMPILE_FLAGS_H

/* Without the word "compile", argv[0] being the program. Returns the exit code; ends the process on
 * --help, --version and wrong usage. */
int compile_main(int argc, char **argv);

#endif
