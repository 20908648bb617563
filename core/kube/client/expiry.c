/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/expiry.h"

#include "base/rfc3339.h"

void expiry_judge(struct health *h, const char *subject, const struct validity *v, int64_t now,
                  const char *remedy)
{
    char until[RFC3339_SIZE];
    struct err e = ERR_INIT;
    if (!validity_ends_soon(v, now) || rfc3339_format(v->until, until) != 0) {
        health_clear(h, HEALTH_EXPIRY, subject);
        return;
    }
    err_set(&e, 0, "%s at %s", v->until <= now ? "it expired" : "it expires", until);
    const struct health_report r = {
        .cause = HEALTH_EXPIRY, .subject = subject, .message = e.msg, .remedy = remedy};
    health_raise(h, &r);
}
