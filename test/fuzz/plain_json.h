/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain_json.h - a second opinion: the input as a tree, for targets that scan JSON without one.
 */
#ifndef TEST_FUZZ_PLAIN_JSON_H
#define TEST_FUZZ_PLAIN_JSON_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/decimal.h"
#include "base/slice.h"
#include "json/json.h"

/* Scanners compare keys as they are written, so only escapes that no name of interest could be
 * written with are let through. */
static inline bool plain_escapes(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\\' &&
            (++i == text.len || (text.ptr[i] != '"' && text.ptr[i] != '\\'))) {
            return false;
        }
    }
    return true;
}

/* NULL when it is no JSON of which the scanners must say the same. The caller deletes. */
static inline cJSON *plain_parse(struct slice text)
{
    return plain_escapes(text) ? json_parse(text.ptr, text.len, NULL) : NULL;
}

static inline const cJSON *plain_get(const cJSON *object, const char *key)
{
    return cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, key) : NULL;
}

static inline struct slice plain_string(const cJSON *object, const char *key)
{
    const char *s = cJSON_GetStringValue(plain_get(object, key));
    return slice_str(s == NULL ? "" : s);
}

static inline uint64_t plain_version(const cJSON *metadata)
{
    return decimal_or_zero(plain_string(metadata, "resourceVersion"));
}

#endif
