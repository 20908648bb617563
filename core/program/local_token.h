/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local_token.h - the token that localproxy demands, in a file that both read.
 */
#ifndef CORE_PROGRAM_LOCAL_TOKEN_H
#define CORE_PROGRAM_LOCAL_TOKEN_H

#include <stdbool.h>

#include "base/err.h"

#define LOCAL_TOKEN_LEN_MIN 16
#define LOCAL_TOKEN_LEN_MAX 4096

/* The token of the file, on one line of its own; the caller frees with secret_free. A missing file
 * is made, mode 0600, with 256 random bits; *made tells. Of several that do so at once one wins,
 * and all get its token. NULL with `e` set: unreadable, empty, short, several lines. */
MUST_CHECK char *local_token_load(const char *path, bool *made, struct err *e);

#endif
