/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_external.h - what rules for requests to other places than the API server have in common;
 * for the files that read them, and no one else.
 *
 * Checks see a text as core/traffic/parse_external.c does, and return what is wrong with it, or
 * NULL. A rule is *blind* if it does not hold in tunnels, where nobody sees paths, methods and
 * headers.
 */
#ifndef MANAGER_POLICY_POLICY_EXTERNAL_H
#define MANAGER_POLICY_POLICY_EXTERNAL_H

#include "policy/policy_pattern.h"
#include "policy/policy_reader.h"

/* An upper-case method, or `*`. */
const char *external_check_method(const char *text);
const char *external_check_host(const char *text);
/* Neither empty nor too long. */
const char *external_check_any(const char *text);

/* "<path>: Invalid value: "<text>": <why>". */
void external_refuse(struct policy_reader *r, const char *path, const char *text, const char *why);

/* Whether a method holds in tunnels, too. */
bool external_is_any_method(const char *method);

/* Whether the expression can be used; what it matches is in *out then. NULL: nobody wants to know.
 */
bool external_pattern(struct policy_reader *r, const char *path, const char *text,
                      struct policy_pattern *out);

/* The rule of that name is blind; once for each. */
void external_add_blind(struct policy_reader *r, const char *name);

#endif
