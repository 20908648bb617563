/* SPDX-License-Identifier: Apache-2.0 */
#include "route/originals.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "object/names.h"
#include "object/route_names.h"
#include "route/narrowing.h"
#include "json/field.h"

struct source {
    struct originals *owner;
    enum originals_kind kind;
    struct informer *informer;
};

struct originals {
    char label[NAMES_KEY_SIZE];
    char annotation[NAMES_KEY_SIZE];
    struct source sources[ORIGINALS_KINDS];
    void (*on_change)(void *data);
    void *data;
};

#define GROUP "/apis/admissionregistration.k8s.io/v1/"

static const char *const names[ORIGINALS_KINDS] = {
    [ORIGINALS_VALIDATING] = "ValidatingWebhookConfiguration",
    [ORIGINALS_MUTATING] = "MutatingWebhookConfiguration",
};

static const char *const paths[ORIGINALS_KINDS] = {
    [ORIGINALS_VALIDATING] = GROUP "validatingwebhookconfigurations",
    [ORIGINALS_MUTATING] = GROUP "mutatingwebhookconfigurations",
};

const char *originals_kind_name(enum originals_kind kind)
{
    return names[kind];
}

const char *originals_path(enum originals_kind kind)
{
    return paths[kind];
}

static struct original *original_of(struct informer_item *item)
{
    return item == NULL ? NULL : LIST_ITEM(item, struct original, item);
}

static void changed(const struct originals *o)
{
    if (o->on_change != NULL) {
        o->on_change(o->data);
    }
}

/* ---- following ---- */

static bool is_own(const cJSON *object)
{
    const char *name = field_meta(object, "name");
    return strcmp(name, "cmesh") == 0 || strcmp(name, ROUTE_OBJECT) == 0;
}

static bool is_labelled(const struct originals *o, const cJSON *object)
{
    const cJSON *labels = field_get(field_get(object, "metadata"), "labels");
    return strcmp(field_text(labels, o->label), "true") == 0;
}

/* Two would narrow it twice, by their own labels, and then nobody is asked about namespaces that
 * have both. */
static const char *find_rival(const struct originals *o, const cJSON *object)
{
    const cJSON *label;
    cJSON_ArrayForEach(label, field_get(field_get(object, "metadata"), "labels"))
    {
        const char *slash = strrchr(label->string, '/');
        if (slash != NULL && strcmp(slash + 1, ROUTE_LABEL) == 0 && cJSON_IsString(label) &&
            strcmp(label->valuestring, "true") == 0 && strcmp(label->string, o->label) != 0) {
            return label->string;
        }
    }
    return NULL;
}

static void drop(void *data, struct informer_item *item)
{
    struct original *original = original_of(item);
    (void)data;
    cJSON_Delete(original->object);
    free(original);
}

static bool keep(void *data, const char *key, const cJSON *object, struct informer_item **item)
{
    const struct source *s = data;
    const struct originals *o = s->owner;
    if (is_own(object)) {
        return false;
    }
    if (*item != NULL && strcmp(field_meta(original_of(*item)->object, "resourceVersion"),
                                field_meta(object, "resourceVersion")) == 0) {
        return false;
    }
    struct original *original = informer_item_new(sizeof *original, key);
    original->kind = s->kind;
    original->object = cJSON_Duplicate(object, true);
    cJSON_DeleteItemFromObjectCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(original->object, "metadata"), "managedFields");
    original->labelled = is_labelled(o, object);
    original->rival = find_rival(o, original->object);
    *item = &original->item;
    return true;
}

static void on_change(void *data, struct informer_item *before, struct informer_item *after)
{
    const struct source *s = data;
    (void)before;
    (void)after;
    changed(s->owner);
}

static void on_synced(void *data, bool first)
{
    const struct source *s = data;
    if (first) {
        changed(s->owner);
    }
}

#define KIND(collection)                                                                           \
    {                                                                                              \
        .path = GROUP collection, .keep = keep, .drop = drop, .on_change = on_change,              \
        .on_synced = on_synced                                                                     \
    }

static const struct informer_kind kinds[ORIGINALS_KINDS] = {
    [ORIGINALS_VALIDATING] = KIND("validatingwebhookconfigurations"),
    [ORIGINALS_MUTATING] = KIND("mutatingwebhookconfigurations"),
};

/* ---- asking ---- */

void originals_listen(struct originals *o, void (*cb)(void *data), void *data)
{
    o->on_change = cb;
    o->data = data;
}

const char *originals_annotation(const struct originals *o)
{
    return o->annotation;
}

bool originals_synced(const struct originals *o)
{
    return informer_synced(o->sources[ORIGINALS_VALIDATING].informer) &&
           informer_synced(o->sources[ORIGINALS_MUTATING].informer);
}

const char *originals_error(const struct originals *o)
{
    const char *error = NULL;
    for (size_t kind = 0; kind < ORIGINALS_KINDS && error == NULL; kind++) {
        error = reflector_error(informer_reflector(o->sources[kind].informer));
    }
    return error;
}

const struct original *originals_find(const struct originals *o, enum originals_kind kind,
                                      const char *name)
{
    return original_of(informer_find(o->sources[kind].informer, name));
}

const struct original *originals_next(const struct originals *o, enum originals_kind kind,
                                      const struct original *original)
{
    return original_of(
        informer_next(o->sources[kind].informer, original == NULL ? NULL : &original->item));
}

static bool leads_to(const struct original *original, const char *ns)
{
    const cJSON *webhook;
    cJSON_ArrayForEach(webhook, field_get(original->object, "webhooks"))
    {
        const cJSON *service = field_get(field_get(webhook, "clientConfig"), "service");
        if (strcmp(field_text(service, "namespace"), ns) == 0) {
            return true;
        }
    }
    return false;
}

bool originals_lead_to(const struct originals *o, const char *ns)
{
    for (enum originals_kind kind = 0; kind < ORIGINALS_KINDS; kind++) {
        const struct original *original = NULL;
        while ((original = originals_next(o, kind, original)) != NULL) {
            if (original->labelled && leads_to(original, ns)) {
                return true;
            }
        }
    }
    return false;
}

/* ---- life ---- */

static void follow(struct net_loop *l, const struct originals_options *o, struct source *s)
{
    static const char effect[] = "reviews for operators' webhooks are routed as before";
    const struct informer_options options = {.client = o->client, .effect = effect, .ops = o->ops};
    s->informer = informer_new(l, &kinds[s->kind], &options, s);
}

struct originals *originals_new(struct net_loop *l, const struct originals_options *o)
{
    struct originals *all = xcalloc(1, sizeof *all);
    (void)names_key(o->prefix, ROUTE_LABEL, all->label);
    (void)names_key(o->prefix, ROUTE_NARROWED, all->annotation);
    for (enum originals_kind kind = 0; kind < ORIGINALS_KINDS; kind++) {
        all->sources[kind] = (struct source){.owner = all, .kind = kind};
        follow(l, o, &all->sources[kind]);
    }
    return all;
}

void originals_free(struct originals *o)
{
    if (o == NULL) {
        return;
    }
    for (size_t kind = 0; kind < ORIGINALS_KINDS; kind++) {
        informer_free(o->sources[kind].informer);
    }
    free(o);
}
