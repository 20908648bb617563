/* SPDX-License-Identifier: Apache-2.0 */
#include "json/edit.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/field.h"

void edit_fail(struct edit *ed, int rc)
{
    if (ed->rc == 0) {
        ed->rc = rc;
    }
}

cJSON *edit_result(const struct edit *ed, cJSON *document)
{
    if (ed->rc == 0) {
        return document;
    }
    cJSON_Delete(document);
    return NULL;
}

cJSON *edit_find(const cJSON *list, const char *key, const char *text)
{
    cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (strcmp(field_text(item, key), text) == 0) {
            return item;
        }
    }
    return NULL;
}

/* The new value gets the old one's key, and the old one what the new one had, to be freed. */
static void replace_member(cJSON *parent, cJSON *old, cJSON *value)
{
    char *key = old->string;
    old->string = value->string;
    value->string = key;
    (void)cJSON_ReplaceItemViaPointer(parent, old, value);
}

void edit_set(struct edit *ed, cJSON *parent, const char *key, cJSON *value)
{
    if (value == NULL || ed->rc != 0) {
        edit_fail(ed, -ENOMEM);
        cJSON_Delete(value);
        return;
    }
    cJSON *old = cJSON_GetObjectItemCaseSensitive(parent, key);
    if (old != NULL) {
        replace_member(parent, old, value);
    } else if (!cJSON_AddItemToObject(parent, key, value)) {
        edit_fail(ed, -ENOMEM);
        cJSON_Delete(value);
    }
}

/* What is there already, or a new item of `make`. */
static cJSON *provide(struct edit *ed, cJSON *parent, const char *key, cJSON *(*make)(void))
{
    cJSON *item = cJSON_GetObjectItemCaseSensitive(parent, key);
    if (ed->rc == 0 && (item == NULL || cJSON_IsNull(item))) {
        edit_set(ed, parent, key, make());
        item = ed->rc == 0 ? cJSON_GetObjectItemCaseSensitive(parent, key) : NULL;
    }
    return ed->rc == 0 ? item : NULL;
}

cJSON *edit_object(struct edit *ed, cJSON *parent, const char *key)
{
    cJSON *item = provide(ed, parent, key, cJSON_CreateObject);
    if (item != NULL && !cJSON_IsObject(item)) {
        edit_fail(ed, -EINVAL);
        return NULL;
    }
    return item;
}

cJSON *edit_array(struct edit *ed, cJSON *parent, const char *key)
{
    cJSON *item = provide(ed, parent, key, cJSON_CreateArray);
    if (item != NULL && !cJSON_IsArray(item)) {
        edit_fail(ed, -EINVAL);
        return NULL;
    }
    return item;
}

void edit_string(struct edit *ed, cJSON *parent, const char *key, const char *value)
{
    edit_set(ed, parent, key, cJSON_CreateString(value));
}

void edit_number(struct edit *ed, cJSON *parent, const char *key, double value)
{
    edit_set(ed, parent, key, cJSON_CreateNumber(value));
}

void edit_bool(struct edit *ed, cJSON *parent, const char *key, bool value)
{
    edit_set(ed, parent, key, cJSON_CreateBool(value));
}

void edit_append(struct edit *ed, cJSON *array, cJSON *value)
{
    if (value == NULL || ed->rc != 0 || !cJSON_AddItemToArray(array, value)) {
        edit_fail(ed, -ENOMEM);
        cJSON_Delete(value);
    }
}

/* Anywhere else but at the beginning cJSON_InsertItemInArray fails in some releases (Debian 12). */
void edit_prepend(struct edit *ed, cJSON *array, cJSON *value)
{
    if (value == NULL || ed->rc != 0 || !cJSON_InsertItemInArray(array, 0, value)) {
        edit_fail(ed, -ENOMEM);
        cJSON_Delete(value);
    }
}

void edit_replace(struct edit *ed, cJSON *array, cJSON *item, cJSON *value)
{
    if (value == NULL || ed->rc != 0 || !cJSON_ReplaceItemViaPointer(array, item, value)) {
        edit_fail(ed, -ENOMEM);
        cJSON_Delete(value);
    }
}

cJSON *edit_append_object(struct edit *ed, cJSON *array)
{
    cJSON *value = cJSON_CreateObject();
    edit_append(ed, array, value);
    return ed->rc == 0 ? value : NULL;
}

void edit_append_string(struct edit *ed, cJSON *array, const char *value)
{
    edit_append(ed, array, cJSON_CreateString(value));
}

void edit_append_format(struct edit *ed, cJSON *array, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0) {
        edit_fail(ed, -ENOMEM);
        return;
    }
    edit_append_string(ed, array, text);
    free(text);
}
