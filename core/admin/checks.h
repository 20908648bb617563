/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checks.h - what readiness is made of, check by check, as /readyz?verbose prints it in
 * kube-apiserver's words:
 *
 *     [+]rules ok
 *     [-]credentials failed: https://10.0.0.1:6443 answers 401 Unauthorized: it expired at ...
 *     [-]expiry failed, not required: it expires at 2026-12-01T00:00:00Z
 *     readyz check failed
 */
#ifndef CORE_ADMIN_CHECKS_H
#define CORE_ADMIN_CHECKS_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "kube/client/client.h"

#define ADMIN_WHY_MAX (ERR_MSG_MAX + 64)

struct admin_checks {
    bool ready;
    char why[ADMIN_WHY_MAX]; /* of the first required check that failed; "ok" */
    struct buf *text;        /* where lines go; NULL: nowhere */
};

void admin_checks_init(struct admin_checks *c, struct buf *text);

/* One that the program must pass to be ready. `why` NULL: it passes. */
void admin_check(struct admin_checks *c, const char *name, const char *why);
/* One that is shown, and does not count. */
void admin_check_shown(struct admin_checks *c, const char *name, const char *why);

/* What the client says of the API server; the credentials do not count unless they are `needed`, or
 * there are none at all. */
void admin_check_client(struct admin_checks *c, const struct kube_client *client, bool needed);

#endif
