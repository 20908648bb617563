/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_operator_flags.h - the command line of `manager check-operator`.
 */
#ifndef MANAGER_COMMANDS_CHECK_OPERATOR_FLAGS_H
#define MANAGER_COMMANDS_CHECK_OPERATOR_FLAGS_H

/* Returns the exit code. */
int check_operator_main(int argc, char **argv);

#endif
