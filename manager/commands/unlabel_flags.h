/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unlabel_flags.h - the command line of `manager unlabel`.
 */
#ifndef MANAGER_COMMANDS_UNLABEL_FLAGS_H
#define MANAGER_COMMANDS_UNLABEL_FLAGS_H

/* Without the word "unlabel", argv[0] being the program. Returns the exit code; ends the process on
 * --help, --version and wrong usage. */
int unlabel_main(int argc, char **argv);

#endif
