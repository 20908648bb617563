/* SPDX-License-Identifier: Apache-2.0 */
#include "json/field.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/spelling.h"

/* What stands between a path and the key below it. */
static const char *dot(const char *path)
{
    return path[0] == '\0' ? "" : ".";
}

int field_wrong_type(struct err *e, const char *path, const char *key, const char *expected)
{
    return err_set(e, -EINVAL, "%s%s%s: Invalid value: must be %s", path, dot(path), key, expected);
}

int field_invalid(struct err *e, const char *path, const char *key, const char *value,
                  const char *why)
{
    return err_set(e, -EINVAL, "%s%s%s: Invalid value: \"%.100s\": %s", path, dot(path), key, value,
                   why);
}

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

bool field_is_deleted(const cJSON *object)
{
    return field_get(field_get(object, "metadata"), "deletionTimestamp") != NULL;
}

double field_generation(const cJSON *object)
{
    const cJSON *generation = field_get(field_get(object, "metadata"), "generation");
    return cJSON_IsNumber(generation) ? generation->valuedouble : 0;
}

int field_string(const cJSON *object, const char *path, const char *key, const char **out,
                 struct err *e)
{
    const cJSON *item = field_get(object, key);
    if (item != NULL && !cJSON_IsString(item)) {
        return field_wrong_type(e, path, key, "a string");
    }
    *out = item == NULL ? "" : item->valuestring;
    return 0;
}

int field_object(const cJSON *object, const char *path, const char *key, const cJSON **out,
                 struct err *e)
{
    *out = field_get(object, key);
    return *out == NULL || cJSON_IsObject(*out) ? 0 : field_wrong_type(e, path, key, "an object");
}

int field_array(const cJSON *object, const char *path, const char *key, const cJSON **out,
                struct err *e)
{
    *out = field_get(object, key);
    return *out == NULL || cJSON_IsArray(*out) ? 0 : field_wrong_type(e, path, key, "an array");
}

int field_int(const cJSON *object, const char *path, const char *key, int min, int max, int *out,
              struct err *e)
{
    const cJSON *item = field_get(object, key);
    if (item == NULL) {
        return 0;
    }
    if (!cJSON_IsNumber(item) || item->valuedouble < min || item->valuedouble > max ||
        item->valuedouble > item->valueint || item->valuedouble < item->valueint) {
        char expected[64];
        (void)snprintf(expected, sizeof expected, "a whole number from %d to %d", min, max);
        return field_wrong_type(e, path, key, expected);
    }
    *out = item->valueint;
    return 0;
}

int field_required(const cJSON *object, const char *path, const char *key, const char **out,
                   struct err *e)
{
    int rc = field_string(object, path, key, out, e);
    if (rc == 0 && (*out)[0] == '\0') {
        rc = err_set(e, -EINVAL, "%s%s%s: Required value", path, dot(path), key);
    }
    return rc;
}

/* The one that is meant by it; NULL: none is like it. Short words have little to differ in. */
static const char *field_meant(const char *name, const char *const *known)
{
    unsigned best = SPELLING_NEAR;
    const char *meant = NULL;
    for (size_t i = 0; known[i] != NULL; i++) {
        unsigned distance = spelling_distance(name, known[i]);
        if (distance < best && (size_t)distance * 2 < strlen(name)) {
            best = distance;
            meant = known[i];
        }
    }
    return meant;
}

int field_known(const cJSON *object, const char *path, const char *const *known, struct err *e)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, object)
    {
        size_t i = 0;
        while (known[i] != NULL && strcmp(known[i], item->string) != 0) {
            i++;
        }
        if (known[i] == NULL) {
            const char *meant = field_meant(item->string, known);
            return err_set(e, -EINVAL, "%s%s%.100s: Forbidden: unknown field%s%s%s", path,
                           dot(path), item->string, meant == NULL ? "" : "; is \"",
                           meant == NULL ? "" : meant, meant == NULL ? "" : "\" meant?");
        }
    }
    return 0;
}
