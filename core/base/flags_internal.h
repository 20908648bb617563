/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flags_internal.h - what parsing, --help and the manual page share.
 */
#ifndef CORE_BASE_FLAGS_INTERNAL_H
#define CORE_BASE_FLAGS_INTERNAL_H

#include "base/flags.h"

#define FLAGS_ENV_NAME_SIZE 64
#define FLAGS_FULL_NAME_SIZE 64
#define FLAGS_NUMBER_SIZE 24
#define FLAGS_MAX 64 /* in a table */

/* CMESH_LOG_LEVEL of log-level. */
void flags_env_name(const char *flag, char out[FLAGS_ENV_NAME_SIZE]);
/* The program's name, and the command's behind `separator`. */
void flags_full_name(const struct command *c, char separator, char out[FLAGS_FULL_NAME_SIZE]);
/* What is shown as the default: a constant, or a number written into `number`; NULL: nothing. */
const char *flags_default(const struct flag *f, const void *flags, char number[FLAGS_NUMBER_SIZE]);

/* The flag that is most like that name, from which at most `near` letters differ
 * (base/spelling.h); NULL: none is. */
const char *flags_meant(const struct flag *flags, const char *name, unsigned near);

/* Logs a warning for each variable CMESH_... that is a setting of no program, and that Kubernetes
 * does not set. */
void flags_warn_of_environment(const struct command *c);

/* On standard output. `flags` holds the defaults. */
void flags_print_help(const struct command *c, const void *flags);
void flags_print_man(const struct command *c, const void *flags);

#endif
