/* SPDX-License-Identifier: Apache-2.0 */
#include "object/conditions.h"

#include <string.h>

#include "base/rfc3339.h"
#include "json/field.h"

const cJSON *conditions_find(const cJSON *status, const char *type)
{
    return edit_find(field_get(status, "conditions"), "type", type);
}

bool conditions_observed(const cJSON *object)
{
    return cJSON_Compare(field_get(field_get(object, "metadata"), "generation"),
                         field_get(field_get(object, "status"), "observedGeneration"), true);
}

static void add_observed(struct edit *ed, cJSON *object, double generation)
{
    if (generation > 0) {
        edit_number(ed, object, "observedGeneration", generation);
    }
}

struct conditions conditions_begin(struct edit *ed, cJSON *status, const cJSON *old,
                                   double generation, const char *now)
{
    add_observed(ed, status, generation);
    return (struct conditions){.ed = ed,
                               .list = edit_array(ed, status, "conditions"),
                               .old = old,
                               .generation = generation,
                               .now = now};
}

/* When the condition came to have this status. */
static const char *since(const struct conditions *c, const char *type, const char *status)
{
    const cJSON *before = conditions_find(c->old, type);
    const char *time = field_text(before, "lastTransitionTime");
    int64_t seconds = 0;
    bool same = strcmp(field_text(before, "status"), status) == 0;
    return same && rfc3339_parse(time, &seconds) ? time : c->now;
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
    add_observed(c->ed, object, c->generation);
}

void conditions_set(const struct conditions *c, const char *type, bool holds, const char *reason,
                    const char *message)
{
    conditions_add(c, type, holds ? "True" : "False", reason, message);
}

bool conditions_keep(const struct conditions *c, const char *type)
{
    const cJSON *before = conditions_find(c->old, type);
    if (before != NULL) {
        edit_append(c->ed, c->list, cJSON_Duplicate(before, true));
    }
    return before != NULL;
}
