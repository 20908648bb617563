/* SPDX-License-Identifier: Apache-2.0 */
#include "route/narrowing.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "object/preconditions.h"
#include "json/edit.h"
#include "json/field.h"
#include "json/json.h"

#define SELECTOR "namespaceSelector"
#define EXPRESSIONS "matchExpressions"
#define ABSENT "DoesNotExist"
/* Bytes of keys and values: TotalAnnotationSizeLimitB of k8s.io/apimachinery/pkg/api/validation. */
#define ANNOTATIONS_MAX ((size_t)256 * 1024)

static bool is_constant(const struct labels_keys *k, const cJSON *expression)
{
    return strcmp(field_text(expression, "key"), k->key[LABELS_CONTROL]) == 0 &&
           strcmp(field_text(expression, "operator"), ABSENT) == 0;
}

bool narrowing_is(const struct labels_keys *k, const cJSON *webhook)
{
    const cJSON *expression;
    cJSON_ArrayForEach(expression, field_get(field_get(webhook, SELECTOR), EXPRESSIONS))
    {
        if (is_constant(k, expression)) {
            return true;
        }
    }
    return false;
}

/* ---- what the annotation says: {webhook: selector} ---- */

/* The caller deletes. NULL: there is none, or none that can be read. */
static cJSON *read_annotation(const cJSON *configuration, const char *annotation)
{
    const cJSON *annotations = field_get(field_get(configuration, "metadata"), "annotations");
    const char *text = field_text(annotations, annotation);
    struct err e = ERR_INIT;
    cJSON *told = text[0] == '\0' ? NULL : json_parse(text, strlen(text), &e);
    xerr(&e);
    if (told != NULL && !cJSON_IsObject(told)) {
        cJSON_Delete(told);
        return NULL;
    }
    return told;
}

bool narrowing_is_ours(const cJSON *configuration, const char *annotation, const char *webhook)
{
    cJSON *told = read_annotation(configuration, annotation);
    bool ours = told != NULL && (webhook == NULL || field_get(told, webhook) != NULL);
    cJSON_Delete(told);
    return ours;
}

/* What is said of webhooks that are not there any more goes. Whether there was such. */
static bool forget_others(cJSON *told, const cJSON *webhooks)
{
    bool any = false;
    cJSON *next = told->child;
    while (next != NULL) {
        cJSON *item = next;
        next = next->next;
        if (edit_find(webhooks, "name", item->string) == NULL) {
            cJSON_Delete(cJSON_DetachItemViaPointer(told, item));
            any = true;
        }
    }
    return any;
}

/* Of all annotations but one. */
static size_t bytes_of_others(const cJSON *annotations, const char *annotation)
{
    size_t bytes = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, annotations)
    {
        if (cJSON_IsString(item) && strcmp(item->string, annotation) != 0) {
            bytes += strlen(item->string) + strlen(item->valuestring);
        }
    }
    return bytes;
}

/* With no more than the names if that is too much: what was there is for people. */
static char *print(const cJSON *told, size_t room)
{
    char *text = xptr(cJSON_PrintUnformatted(told));
    if (strlen(text) <= room) {
        return text;
    }
    cJSON_free(text);
    cJSON *names = xptr(cJSON_CreateObject());
    const cJSON *item;
    cJSON_ArrayForEach(item, told)
    {
        (void)xptr(cJSON_AddTrueToObject(names, item->string));
    }
    text = xptr(cJSON_PrintUnformatted(names));
    cJSON_Delete(names);
    return text;
}

static void set_annotation(struct edit *ed, cJSON *metadata, const char *annotation,
                           const cJSON *told, const cJSON *before)
{
    cJSON *annotations = edit_object(ed, metadata, "annotations");
    size_t used = bytes_of_others(before, annotation) + strlen(annotation);
    size_t room = used < ANNOTATIONS_MAX ? ANNOTATIONS_MAX - used : 0;
    char *text = told->child == NULL ? NULL : print(told, room);
    edit_set(ed, annotations, annotation,
             text == NULL ? cJSON_CreateNull() : cJSON_CreateString(text));
    cJSON_free(text);
}

/* ---- the writes ---- */

struct writing {
    const struct labels_keys *keys;
    const char *annotation;
    cJSON *webhooks; /* copies */
    cJSON *told;
    bool changed;
};

static struct writing begin(const struct labels_keys *k, const cJSON *configuration,
                            const char *annotation)
{
    cJSON *webhooks = cJSON_Duplicate(field_get(configuration, "webhooks"), true);
    cJSON *told = read_annotation(configuration, annotation);
    bool there = field_get(field_get(field_get(configuration, "metadata"), "annotations"),
                           annotation) != NULL;
    return (struct writing){
        .keys = k,
        .annotation = annotation,
        .webhooks = webhooks != NULL ? webhooks : cJSON_CreateArray(),
        .told = told != NULL ? told : cJSON_CreateObject(),
        .changed = told == NULL && there, /* it makes no sense */
    };
}

static cJSON *end(struct writing *w, const cJSON *configuration)
{
    struct edit ed = {.rc = 0};
    cJSON *patch = NULL;
    w->changed = forget_others(w->told, w->webhooks) || w->changed;
    if (w->changed) {
        patch = cJSON_CreateObject();
        cJSON *metadata = preconditions_set(&ed, patch, field_meta(configuration, "uid"),
                                            field_meta(configuration, "resourceVersion"));
        set_annotation(&ed, metadata, w->annotation, w->told,
                       field_get(field_get(configuration, "metadata"), "annotations"));
        edit_set(&ed, patch, "webhooks", w->webhooks);
        patch = xptr(edit_result(&ed, patch));
    } else {
        cJSON_Delete(w->webhooks);
    }
    cJSON_Delete(w->told);
    return patch;
}

static void narrow(struct writing *w, cJSON *webhook)
{
    struct edit ed = {.rc = 0};
    cJSON *selector = edit_object(&ed, webhook, SELECTOR);
    edit_set(&ed, w->told, field_text(webhook, "name"), cJSON_Duplicate(selector, true));
    cJSON *expression = edit_append_object(&ed, edit_array(&ed, selector, EXPRESSIONS));
    edit_string(&ed, expression, "key", w->keys->key[LABELS_CONTROL]);
    edit_string(&ed, expression, "operator", ABSENT);
    xok(ed.rc);
    w->changed = true;
}

static void widen(struct writing *w, cJSON *webhook)
{
    cJSON *selector = cJSON_GetObjectItemCaseSensitive(webhook, SELECTOR);
    cJSON *list = cJSON_GetObjectItemCaseSensitive(selector, EXPRESSIONS);
    cJSON *next = list == NULL ? NULL : list->child;
    while (next != NULL) {
        cJSON *expression = next;
        next = next->next;
        if (is_constant(w->keys, expression)) {
            cJSON_Delete(cJSON_DetachItemViaPointer(list, expression));
        }
    }
    if (list != NULL && list->child == NULL) {
        cJSON_DeleteItemFromObjectCaseSensitive(selector, EXPRESSIONS);
    }
    cJSON_DeleteItemFromObjectCaseSensitive(w->told, field_text(webhook, "name"));
    w->changed = true;
}

cJSON *narrowing_patch(const struct labels_keys *k, const cJSON *configuration,
                       const char *annotation, narrowing_pick_fn *pick, void *data)
{
    struct writing w = begin(k, configuration, annotation);
    cJSON *webhook;
    w.changed = false;
    cJSON_ArrayForEach(webhook, w.webhooks)
    {
        if (!narrowing_is(k, webhook) && (pick == NULL || pick(data, webhook))) {
            narrow(&w, webhook);
        }
    }
    return end(&w, configuration);
}

cJSON *narrowing_undo_patch(const struct labels_keys *k, const cJSON *configuration,
                            const char *annotation, narrowing_pick_fn *pick, void *data)
{
    struct writing w = begin(k, configuration, annotation);
    cJSON *webhook;
    cJSON_ArrayForEach(webhook, w.webhooks)
    {
        bool ours = field_get(w.told, field_text(webhook, "name")) != NULL;
        if (ours && (pick == NULL || pick(data, webhook))) {
            widen(&w, webhook);
        }
    }
    return end(&w, configuration);
}
