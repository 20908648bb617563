/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token.h - the token that localproxy demands, in a file that both read.
 */
#ifndef KUBECONFIG_GEN_TOKEN_H
#define KUBECONFIG_GEN_TOKEN_H

#include <stdbool.h>

#include "base/err.h"

#define TOKEN_LEN_MIN 16
#define TOKEN_LEN_MAX 4096

/* The token of the file, on one line of its own; the caller frees with secret_free. A missing file
 * is made, mode 0600, with 256 random bits; *made tells. Of several that do so at once one wins,
 * and all get its token. NULL with `e` set: unreadable, empty, short, several lines. */
MUST_CHECK char *token_load(const char *path, bool *made, struct err *e);

#endif
