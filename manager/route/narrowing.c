/* SPDX-License-Identifier: Apache-2.0 */
#include "route/narrowing.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "json/field.h"
#include "json/json.h"

#define EXPRESSIONS "matchExpressions"
#define SELECTOR "namespaceSelector"

/* Of the annotation: the API server takes 256 KiB for all of an object. */
#define NOTE_MAX ((size_t)128 * 1024)

/* ---- selectors ---- */

static bool narrows(const char *control, const cJSON *expression)
{
    return strcmp(field_text(expression, "key"), control) == 0 &&
           strcmp(field_text(expression, "operator"), "DoesNotExist") == 0;
}

bool narrowing_is(const struct labels_keys *k, const cJSON *webhook)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, field_get(field_get(webhook, SELECTOR), EXPRESSIONS))
    {
        if (narrows(k->key[LABELS_CONTROL], item)) {
            return true;
        }
    }
    return false;
}

cJSON *narrowing_demand(struct edit *ed, cJSON *expressions, const char *key, const char *operator)
{
    cJSON *expression = edit_append_object(ed, expressions);
    edit_string(ed, expression, "key", key);
    edit_string(ed, expression, "operator", operator);
    return expression;
}

cJSON *narrowing_without(const char *control, const cJSON *selector)
{
    bool is_selector = cJSON_IsObject(selector);
    cJSON *copy = xptr(is_selector ? cJSON_Duplicate(selector, true) : cJSON_CreateObject());
    cJSON *list = cJSON_GetObjectItemCaseSensitive(copy, EXPRESSIONS);
    cJSON *next;
    for (cJSON *item = list == NULL ? NULL : list->child; item != NULL; item = next) {
        next = item->next;
        if (narrows(control, item)) {
            cJSON_Delete(cJSON_DetachItemViaPointer(list, item));
        }
    }
    if (list != NULL && list->child == NULL) {
        cJSON_DeleteItemFromObjectCaseSensitive(copy, EXPRESSIONS);
    }
    return copy;
}

static cJSON *narrowed(struct edit *ed, const char *control, const cJSON *selector)
{
    cJSON *made = narrowing_without(control, selector);
    (void)narrowing_demand(ed, edit_array(ed, made, EXPRESSIONS), control, "DoesNotExist");
    return made;
}

/* ---- what we note ---- */

/* The caller frees. NULL: there is none, or it is not ours. */
static cJSON *read_note(const cJSON *configuration, const char *annotation)
{
    const cJSON *annotations = field_get(field_get(configuration, "metadata"), "annotations");
    const char *text = field_text(annotations, annotation);
    cJSON *note = *text == '\0' ? NULL : json_parse(text, strlen(text), NULL);
    if (!cJSON_IsObject(note)) {
        cJSON_Delete(note);
        note = NULL;
    }
    return note;
}

bool narrowing_is_ours(const cJSON *configuration, const char *annotation, const char *webhook)
{
    cJSON *note = read_note(configuration, annotation);
    bool ours = note != NULL && (webhook == NULL || cJSON_HasObjectItem(note, webhook));
    cJSON_Delete(note);
    return ours;
}

/* What is too long to be noted: only which webhooks they are. */
static void forget_selectors(struct edit *ed, cJSON *note)
{
    cJSON *next;
    for (cJSON *item = note->child; item != NULL; item = next) {
        next = item->next;
        edit_set(ed, note, item->string, cJSON_CreateNull());
    }
}

static void set_note(struct edit *ed, cJSON *annotations, const char *annotation, cJSON *note)
{
    struct buf text = BUF_INIT(NOTE_MAX);
    int rc = xrc(json_canonical(note, &text));
    if (rc != 0) {
        buf_reset(&text);
        text.max = SIZE_MAX;
        forget_selectors(ed, note);
        xok(json_canonical(note, &text));
    }
    char *value = xstrndup((const char *)buf_data(&text), text.len);
    edit_string(ed, annotations, annotation, value);
    free(value);
    buf_reset(&text);
}

/* ---- patches ---- */

struct change {
    struct edit ed;
    const struct labels_keys *keys;
    cJSON *webhooks; /* as they are to be */
    cJSON *note;
    bool changed;
};

static cJSON *metadata_of(struct change *c, const cJSON *configuration, const char *annotation)
{
    cJSON *metadata = xptr(cJSON_CreateObject());
    cJSON *annotations = edit_object(&c->ed, metadata, "annotations");
    const char *version = field_meta(configuration, "resourceVersion");
    if (*version != '\0') {
        edit_string(&c->ed, metadata, "resourceVersion", version);
    }
    if (c->note->child != NULL) {
        set_note(&c->ed, annotations, annotation, c->note);
    } else {
        edit_set(&c->ed, annotations, annotation, cJSON_CreateNull());
    }
    return metadata;
}

static void begin(struct change *c, const struct labels_keys *k, const cJSON *configuration,
                  const char *annotation)
{
    const cJSON *webhooks = field_get(configuration, "webhooks");
    *c = (struct change){.keys = k, .note = read_note(configuration, annotation)};
    c->webhooks =
        xptr(cJSON_IsArray(webhooks) ? cJSON_Duplicate(webhooks, true) : cJSON_CreateArray());
}

static cJSON *finish(struct change *c, const cJSON *configuration, const char *annotation)
{
    cJSON *patch = NULL;
    if (c->changed) {
        patch = xptr(cJSON_CreateObject());
        edit_set(&c->ed, patch, "metadata", metadata_of(c, configuration, annotation));
        edit_set(&c->ed, patch, "webhooks", c->webhooks);
        c->webhooks = NULL;
    }
    cJSON_Delete(c->webhooks);
    cJSON_Delete(c->note);
    xok(c->ed.rc);
    return patch;
}

static void narrow(struct change *c, cJSON *webhook)
{
    const cJSON *selector = field_get(webhook, SELECTOR);
    cJSON *before =
        cJSON_IsObject(selector) ? cJSON_Duplicate(selector, true) : cJSON_CreateObject();
    edit_set(&c->ed, c->note, field_text(webhook, "name"), before);
    edit_set(&c->ed, webhook, SELECTOR, narrowed(&c->ed, c->keys->key[LABELS_CONTROL], selector));
    c->changed = true;
}

cJSON *narrowing_patch(const struct labels_keys *k, const cJSON *configuration,
                       const char *annotation, narrowing_pick_fn *pick, void *data)
{
    struct change c;
    cJSON *webhook;
    begin(&c, k, configuration, annotation);
    c.note = c.note != NULL ? c.note : xptr(cJSON_CreateObject());
    cJSON_ArrayForEach(webhook, c.webhooks)
    {
        if (cJSON_IsObject(webhook) && !narrowing_is(k, webhook) &&
            (pick == NULL || pick(data, webhook))) {
            narrow(&c, webhook);
        }
    }
    return finish(&c, configuration, annotation);
}

static void widen(struct change *c, cJSON *webhook, const cJSON *noted)
{
    const cJSON *selector = field_get(webhook, SELECTOR);
    if (narrowing_is(c->keys, webhook)) {
        edit_set(&c->ed, webhook, SELECTOR,
                 narrowing_without(c->keys->key[LABELS_CONTROL], selector));
    }
    cJSON_Delete(cJSON_DetachItemViaPointer(c->note, (cJSON *)noted));
    c->changed = true;
}

cJSON *narrowing_undo_patch(const struct labels_keys *k, const cJSON *configuration,
                            const char *annotation, narrowing_pick_fn *pick, void *data)
{
    struct change c;
    cJSON *next;
    begin(&c, k, configuration, annotation);
    for (cJSON *item = c.note == NULL ? NULL : c.note->child; item != NULL; item = next) {
        cJSON *webhook = edit_find(c.webhooks, "name", item->string);
        next = item->next;
        if (webhook == NULL || pick == NULL || pick(data, webhook)) {
            widen(&c, webhook, item);
        }
    }
    return finish(&c, configuration, annotation);
}
