/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expiry.h - certificates and tokens that end soon, as rows of the table of health.h.
 */
#ifndef CORE_KUBE_CLIENT_EXPIRY_H
#define CORE_KUBE_CLIENT_EXPIRY_H

#include "kube/access/credential_text.h"
#include "kube/client/health.h"

/* How often whoever has one should look: ms. */
#define EXPIRY_LOOK_MS (10 * 60 * 1000)

/* Raises the row of `subject` if it ends soon or has ended at `now` (seconds since 1970), and
 * clears it otherwise. */
void expiry_judge(struct health *h, const char *subject, const struct validity *v, int64_t now,
                  const char *remedy);

#endif
