/* SPDX-License-Identifier: Apache-2.0 */
#include "json/field.h"

#include <string.h>

const cJSON *field_get(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNull(item) ? NULL : item;
}

const cJSON *field_map(const cJSON *object, const char *key)
{
    const cJSON *item = field_get(object, key);
    return cJSON_IsObject(item) ? item : NULL;
}

const char *field_text(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(field_get(object, key));
    return text == NULL ? "" : text;
}

const char *field_meta(const cJSON *object, const char *key)
{
    return field_text(field_get(object, "metadata"), key);
}

bool field_has(const cJSON *list, const char *text)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (cJSON_IsString(item) && strcmp(item->valuestring, text) == 0) {
            return true;
        }
    }
    return false;
}

const cJSON *field_controller(const cJSON *object)
{
    const cJSON *owner;
    cJSON_ArrayForEach(owner, field_get(field_get(object, "metadata"), "ownerReferences"))
    {
        if (cJSON_IsTrue(field_get(owner, "controller"))) {
            return owner;
        }
    }
    return NULL;
}

bool field_is_deleted(const cJSON *object)
{
    return field_get(field_get(object, "metadata"), "deletionTimestamp") != NULL;
}

double field_generation(const cJSON *object)
{
    const cJSON *generation = field_get(field_get(object, "metadata"), "generation");
    return cJSON_IsNumber(generation) ? generation->valuedouble : 0;
}
