/* SPDX-License-Identifier: Apache-2.0 */
/*
 * patch_apply.h - applies a JSON Patch as the API server would; for tests, include it once.
 */
#ifndef TEST_SUPPORT_PATCH_APPLY_H
#define TEST_SUPPORT_PATCH_APPLY_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

/* The next token of a pointer, unescaped; the pointer stands behind it then. */
static void patch_token(const char **pointer, char *out, size_t size)
{
    size_t n = 0;
    const char *p = *pointer + 1;
    for (; *p != '\0' && *p != '/' && n + 1 < size; p++) {
        if (p[0] == '~' && (p[1] == '0' || p[1] == '1')) {
            out[n++] = *++p == '0' ? '~' : '/';
        } else {
            out[n++] = *p;
        }
    }
    out[n] = '\0';
    *pointer = p;
}

static bool patch_index(const char *token, const cJSON *list, int *index)
{
    int size = cJSON_GetArraySize(list);
    char *end;
    if (strcmp(token, "-") == 0) {
        *index = size;
        return true;
    }
    if (token[0] < '0' || token[0] > '9' || (token[0] == '0' && token[1] != '\0')) {
        return false;
    }
    *index = (int)strtol(token, &end, 10);
    return *end == '\0' && *index <= size;
}

/* cJSON_InsertItemInArray fails in the middle of a list in some releases (Debian 12). */
static bool patch_insert(cJSON *list, int index, cJSON *value)
{
    cJSON *rest = cJSON_CreateArray();
    while (cJSON_GetArraySize(list) > index) {
        (void)cJSON_AddItemToArray(rest, cJSON_DetachItemFromArray(list, index));
    }
    bool done = cJSON_AddItemToArray(list, value) != 0;
    while (cJSON_GetArraySize(rest) > 0) {
        (void)cJSON_AddItemToArray(list, cJSON_DetachItemFromArray(rest, 0));
    }
    cJSON_Delete(rest);
    return done;
}

static bool patch_list(cJSON *list, const char *op, const char *token, cJSON *value)
{
    int i = 0;
    if (!patch_index(token, list, &i)) {
        return false;
    }
    if (strcmp(op, "add") == 0) {
        return patch_insert(list, i, value);
    }
    if (i >= cJSON_GetArraySize(list)) {
        return false;
    }
    if (strcmp(op, "remove") == 0) {
        cJSON_DeleteItemFromArray(list, i);
        return true;
    }
    return cJSON_ReplaceItemInArray(list, i, value) != 0;
}

static bool patch_object(cJSON *object, const char *op, const char *token, cJSON *value)
{
    bool there = cJSON_GetObjectItemCaseSensitive(object, token) != NULL;
    if (strcmp(op, "add") == 0) {
        cJSON_DeleteItemFromObjectCaseSensitive(object, token);
        return cJSON_AddItemToObject(object, token, value) != 0;
    }
    if (!there) {
        return false;
    }
    if (strcmp(op, "remove") == 0) {
        cJSON_DeleteItemFromObjectCaseSensitive(object, token);
        return true;
    }
    return cJSON_ReplaceItemInObjectCaseSensitive(object, token, value) != 0;
}

/* One operation; false if it does not fit the document. */
static bool patch_one(cJSON **document, const cJSON *operation)
{
    const char *op = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(operation, "op"));
    const char *path = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(operation, "path"));
    cJSON *value = cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(operation, "value"), true);
    if (op == NULL || path == NULL || (value == NULL) != (strcmp(op, "remove") == 0)) {
        cJSON_Delete(value);
        return false;
    }
    if (*path == '\0') {
        cJSON_Delete(*document);
        *document = value;
        return value != NULL;
    }
    cJSON *at = *document;
    static char token[70000];
    patch_token(&path, token, sizeof token);
    while (*path == '/' && at != NULL) {
        int i = 0;
        if (cJSON_IsArray(at)) {
            at = patch_index(token, at, &i) ? cJSON_GetArrayItem(at, i) : NULL;
        } else {
            at = cJSON_GetObjectItemCaseSensitive(at, token);
        }
        patch_token(&path, token, sizeof token);
    }
    bool done = cJSON_IsArray(at)    ? patch_list(at, op, token, value)
                : cJSON_IsObject(at) ? patch_object(at, op, token, value)
                                     : false;
    if (!done) {
        cJSON_Delete(value);
    }
    return done;
}

/* The document with the patch applied, or NULL if an operation does not fit. */
static cJSON *patch_apply(const cJSON *document, const cJSON *patch)
{
    cJSON *out = cJSON_Duplicate(document, true);
    const cJSON *operation;
    cJSON_ArrayForEach(operation, patch)
    {
        if (!patch_one(&out, operation)) {
            cJSON_Delete(out);
            return NULL;
        }
    }
    return out;
}

#endif
