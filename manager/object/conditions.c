/* SPDX-License-Identifier: Apache-2.0 */
#include "object/conditions.h"

#include <string.h>

#include "base/rfc3339.h"
#include "json/field.h"

const cJSON *conditions_find(const cJSON *status, const char *type)
{
    return edit_find(field_get(status, "conditions"), "type", type);
}

/* When the condition came to have this status. */
static const char *since(const struct conditions *c, const char *type, const char *status)
{
    const cJSON *before = conditions_find(field_get(c->object, "status"), type);
    const char *time = field_text(before, "lastTransitionTime");
    int64_t seconds = 0;
    bool same = strcmp(field_text(before, "status"), status) == 0;
    return same && rfc3339_parse(time, &seconds) ? time : c->now;
}

void conditions_add_observed(const struct conditions *c, cJSON *object)
{
    const cJSON *generation = field_get(field_get(c->object, "metadata"), "generation");
    if (cJSON_IsNumber(generation)) {
        edit_number(c->ed, object, "observedGeneration", generation->valuedouble);
    }
}

void conditions_add(const struct conditions *c, const char *type, const char *status,
                    const char *reason, const char *message)
{
    cJSON *object = edit_append_object(c->ed, c->list);
    edit_string(c->ed, object, "type", type);
    edit_string(c->ed, object, "status", status);
    edit_string(c->ed, object, "reason", reason);
    edit_string(c->ed, object, "message", message);
    edit_string(c->ed, object, "lastTransitionTime", since(c, type, status));
    conditions_add_observed(c, object);
}
