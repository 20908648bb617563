/* SPDX-License-Identifier: Apache-2.0 */
#include "json/digest.h"

#include <stdbool.h>

#include "base/keyed_hash.h"

enum kind { NOTHING, NUL, NO, YES, NUMBER, TEXT, ARRAY, OBJECT };

static enum kind kind_of(const cJSON *item)
{
    if (item == NULL || cJSON_IsInvalid(item)) {
        return NOTHING;
    }
    if (cJSON_IsBool(item)) {
        return cJSON_IsTrue(item) ? YES : NO;
    }
    if (cJSON_IsNumber(item)) {
        return NUMBER;
    }
    if (cJSON_IsNull(item)) {
        return NUL;
    }
    return cJSON_IsString(item) ? TEXT : cJSON_IsArray(item) ? ARRAY : OBJECT;
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t size)
{
    return keyed_hash(hash, (struct slice){bytes, size});
}

/* In whatever order they come. */
static uint64_t members(const cJSON *object)
{
    uint64_t sum = 0;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, object)
    {
        sum += keyed_hash(json_digest(item), slice_str(item->string));
    }
    return sum;
}

static uint64_t items(const cJSON *array)
{
    uint64_t hash = 0;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, array)
    {
        uint64_t one = json_digest(item);
        hash = mix(hash, &one, sizeof one);
    }
    return hash;
}

uint64_t json_digest(const cJSON *item)
{
    const unsigned char kind = (unsigned char)kind_of(item);
    uint64_t content = 0;
    if (kind == OBJECT) {
        content = members(item);
    } else if (kind == ARRAY) {
        content = items(item);
    } else if (kind == TEXT) {
        content = keyed_hash(0, slice_str(item->valuestring));
    } else if (kind == NUMBER) {
        const double value = item->valuedouble + 0.0; /* -0 is 0 */
        content = mix(0, &value, sizeof value);
    }
    return mix(content, &kind, sizeof kind);
}
