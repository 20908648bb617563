/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name_constraints.h - the names that an authority may certify (RFC 5280 section 4.2.1.10).
 *
 * The extension lists permitted and excluded subtrees. DNS names and IP addresses are checked. If a
 * constraint is about another kind of name, a certificate with a name of that kind is refused,
 * because nothing here can tell whether it is permitted. Common names are not checked: they name no
 * host here.
 */
#ifndef CORE_CRYPTO_NAME_CONSTRAINTS_H
#define CORE_CRYPTO_NAME_CONSTRAINTS_H

#include <stdbool.h>

#include "base/err.h"
#include "crypto/x509.h"

/* Whether the value of the extension can be read. What cannot be read is never enforced halfway:
 * the check below refuses all certificates of such an authority. */
bool name_constraints_readable(struct slice value);

/* Whether the authority has any. */
bool name_constraints_present(const struct x509 *authority);

/* Checks the names of a certificate that is anywhere below the authority. 0, or -EACCES with `e`
 * set to a sentence about both. Without constraints everything is permitted. */
MUST_CHECK int name_constraints_check(const struct x509 *authority, const struct x509 *c,
                                      struct err *e);

#endif
