/* SPDX-License-Identifier: Apache-2.0 */
#include "route/route_verdict.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const reasons[ROUTE_REASONS] = {
    [ROUTE_ROUTED] = "Routed",
    [ROUTE_NOTHING] = "Nothing",
    [ROUTE_NOT_BY_NAMESPACE] = "NotByNamespace",
    [ROUTE_SEEN_BY_ALL] = "SeenByAll",
    [ROUTE_MIXED] = "Mixed",
    [ROUTE_BY_URL] = "ByURL",
    [ROUTE_TOO_MANY] = "TooMany",
    [ROUTE_PORT_UNNAMED] = "PortUnnamed",
    [ROUTE_NO_PORT] = "NoPort",
    [ROUTE_OTHER_PORT] = "OtherPort",
    [ROUTE_SAME_PORT] = "SamePort",
    [ROUTE_NOT_ALLOWED] = "NotAllowed",
    [ROUTE_NOT_INSTALLED] = "NotInstalled",
    [ROUTE_NO_SERVICE] = "NoService",
    [ROUTE_NO_PODS] = "NoPods",
    [ROUTE_OLD_PODS] = "OldPods",
    [ROUTE_REFUSED] = "Refused",
    [ROUTE_NOT_NARROWED] = "NotNarrowed",
    [ROUTE_UNLABELLED] = "Unlabelled",
    [ROUTE_SETTLING] = "Settling",
    [ROUTE_CONTESTED] = "Contested",
};

const char *route_reason_text(enum route_reason reason)
{
    return reasons[reason];
}

void route_verdict_set(struct route_verdict *v, enum route_reason reason, const char *fmt, ...)
{
    va_list args;
    v->reason = reason;
    va_start(args, fmt);
    (void)vsnprintf(v->text, sizeof v->text, fmt, args);
    va_end(args);
}
