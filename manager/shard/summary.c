/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/summary.h"

#include <string.h>

#include "base/utf8.h"
#include "json/edit.h"
#include "json/field.h"

enum { MESSAGE_SIZE = 200 };

/* What keeps the last edit from being published; "": nothing. */
static const char *obstacle(const cJSON *conditions)
{
    static const char *const types[] = {"Compiled", "Published"};
    for (size_t i = 0; i < 2; i++) {
        const cJSON *c = edit_find(conditions, "type", types[i]);
        if (strcmp(field_text(c, "status"), "False") == 0) {
            return field_text(c, "message");
        }
    }
    return "";
}

void summary_add(cJSON *array, const cJSON *config)
{
    const cJSON *meta = field_get(config, "metadata");
    const cJSON *status = field_get(config, "status");
    const cJSON *conditions = field_get(status, "conditions");
    const cJSON *generation = field_get(status, "generation");
    const char *state = field_text(edit_find(conditions, "type", "Ready"), "reason");
    char why[MESSAGE_SIZE];
    utf8_copy_plain(why, sizeof why, obstacle(conditions));
    cJSON *shard = cJSON_CreateObject();
    cJSON_AddStringToObject(shard, "namespace", field_text(meta, "namespace"));
    cJSON_AddStringToObject(shard, "name", field_text(meta, "name"));
    if (cJSON_IsNumber(generation)) {
        cJSON_AddNumberToObject(shard, "generation", generation->valuedouble);
    }
    cJSON_AddStringToObject(shard, "enforced", field_text(status, "enforced"));
    cJSON_AddStringToObject(shard, "state", state[0] != '\0' ? state : "Pending");
    if (why[0] != '\0') {
        cJSON_AddStringToObject(shard, "message", why);
    }
    cJSON_AddItemToArray(array, shard);
}
