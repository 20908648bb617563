/* SPDX-License-Identifier: Apache-2.0 */
#include "object/root_child.h"

#include "object/names.h"
#include "json/field.h"

const char *root_child_parent(const cJSON *config, const char *prefix)
{
    char key[NAMES_KEY_SIZE];
    names_key(prefix, ROOT_LABEL, key);
    return field_text(field_get(field_get(config, "metadata"), "labels"), key);
}

const cJSON *root_child_share(const cJSON *child)
{
    const cJSON *limits = field_get(field_get(child, "spec"), "limits");
    const cJSON *limit = cJSON_GetArrayItem(limits, 0);
    const cJSON *wrapped = field_get(limit, "objectSelector");
    const cJSON *selector = field_get(cJSON_IsObject(wrapped) ? wrapped : limit, "selector");
    const cJSON *expressions = field_get(selector, "matchExpressions");
    return cJSON_GetArrayItem(expressions, cJSON_GetArraySize(expressions) - 1);
}
