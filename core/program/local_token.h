/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local_token.h - the token by which localproxy knows its clients, in a file that kubeconfig-gen
 * reads as well.
 */
#ifndef CORE_PROGRAM_LOCAL_TOKEN_H
#define CORE_PROGRAM_LOCAL_TOKEN_H

#include <stdbool.h>

#include "base/err.h"
#include "base/slice.h"
#include "base/url.h"
#include "kube/access/access.h"

/* As --help shows it. */
#define LOCAL_TOKEN_DEFAULT "a file of the user's own"

/* The user name that stands beside it in Basic credentials. */
#define LOCAL_TOKEN_USER KUBE_LOCALPROXY_USER

#define LOCAL_TOKEN_LEN_MIN 16
#define LOCAL_TOKEN_LEN_MAX 4096

/* The token of the file, on one line of its own; the caller frees with secret_free. A missing file
 * is made, mode 0600, with 256 random bits; *made tells. Of several that do so at once one wins,
 * and all get its token. NULL with `e` set: unreadable, empty, short, several lines. */
MUST_CHECK char *local_token_load(const char *path, bool *made, struct err *e);

/* What --token-file says: "off" (then *path is NULL), a path, or nothing (NULL): the file `token`
 * of the user's own folder (local_folder.h), which is made if it is missing; *made tells. *path is
 * a copy that the caller frees. The error says what to give instead. */
MUST_CHECK int local_token_path(const char *flag, char **path, bool *made, struct err *e);

/* What stands behind a token that is meant for one API server alone: "." and eight hexadecimal
 * digits, of the hash of its URL. What was written for one cluster so does not lead to another when
 * localproxy talks to that one. */
#define LOCAL_TOKEN_SCOPE_LEN 9
void local_token_scope(const struct url *server, char out[LOCAL_TOKEN_SCOPE_LEN + 1]);

/* Whether `given` is the token, with a scope or without. */
bool local_token_matches(struct slice given, struct slice token);

/* Whether the flag turns it off. */
bool local_token_is_off(const char *flag);

#endif
