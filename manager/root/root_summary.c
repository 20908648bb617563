/* SPDX-License-Identifier: Apache-2.0 */
#include "root/root_summary.h"

#include <string.h>

#include "base/utf8.h"
#include "object/conditions.h"
#include "json/field.h"

enum { MESSAGE_SIZE = 200 };

void root_summary_add(cJSON *array, const cJSON *root)
{
    const cJSON *status = field_get(root, "status");
    const cJSON *shards = field_get(status, "root");
    const cJSON *ready = conditions_find(status, "Ready");
    const cJSON *size = field_get(shards, "size");
    const char *state = field_text(ready, "reason");
    char why[MESSAGE_SIZE];
    cJSON *row = cJSON_CreateObject();
    utf8_copy_plain(why, sizeof why, field_text(ready, "message"));
    cJSON_AddStringToObject(row, "namespace", field_meta(root, "namespace"));
    cJSON_AddStringToObject(row, "name", field_meta(root, "name"));
    if (cJSON_IsNumber(size)) {
        cJSON_AddNumberToObject(row, "size", size->valuedouble);
    }
    cJSON_AddNumberToObject(row, "shards",
                            cJSON_GetArraySize(field_get(shards, "childShardingConfigs")));
    cJSON_AddStringToObject(row, "enforced", field_text(status, "enforced"));
    cJSON_AddStringToObject(row, "state", state[0] != '\0' ? state : "Pending");
    if (strcmp(field_text(ready, "status"), "False") == 0) {
        cJSON_AddStringToObject(row, "message", why);
    }
    cJSON_AddItemToArray(array, row);
}
