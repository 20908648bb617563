/* SPDX-License-Identifier: Apache-2.0 */
#include "route/route_report.h"

#include <stdio.h>
#include <string.h>

#include "json/field.h"

void route_report_add(const struct conditions *c, const struct route_report *r)
{
    char message[ROUTE_VERDICT_SIZE + 1];
    if (r == NULL || r->state == ROUTE_NOT_ASKED) {
        return;
    }
    if (r->state == ROUTE_UNKNOWN) {
        (void)conditions_keep(c, ROUTE_CONDITION);
        return;
    }
    (void)snprintf(message, sizeof message, "%s.", r->verdict.text);
    conditions_set(c, ROUTE_CONDITION, r->verdict.reason == ROUTE_ROUTED,
                   route_reason_text(r->verdict.reason), message);
}

static bool is_same(const cJSON *before, const cJSON *now, const char *key)
{
    return strcmp(field_text(before, key), field_text(now, key)) == 0;
}

const char *route_report_event(const cJSON *before, const cJSON *now)
{
    const char *reason = field_text(now, "reason");
    if (now == NULL || (is_same(before, now, "status") && is_same(before, now, "reason")) ||
        strcmp(reason, route_reason_text(ROUTE_SETTLING)) == 0) {
        return NULL;
    }
    if (strcmp(field_text(now, "status"), "True") == 0) {
        return "WebhookRouted";
    }
    return strcmp(reason, route_reason_text(ROUTE_CONTESTED)) == 0 ? "WebhookContested"
                                                                   : "WebhookNotRouted";
}
