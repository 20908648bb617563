/* SPDX-License-Identifier: Apache-2.0 */
#include "label/labels.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kube/name.h"
#include "object/json_patch.h"
#include "rules/sharding.h"

#define CONTROLLED "true"

int labels_keys_init(struct labels_keys *k, const struct compile_labels *names, struct err *e)
{
    const char *prefix = names->prefix != NULL ? names->prefix : LABELS_PREFIX;
    const struct {
        const char *flag;
        const char *name;
    } parts[LABELS_COUNT] = {
        [LABELS_NAMESPACE] = {"--label-namespace", names->namespace},
        [LABELS_SHARD_HASH] = {"--label-shard-hash", names->shard_hash},
        [LABELS_CONTROL] = {"--label-control", names->control},
    };
    const char *wrong = name_check_subdomain(slice_str(prefix));
    if (wrong != NULL) {
        return err_set(e, -EINVAL, "--label-prefix: Invalid value: \"%.100s\": %s", prefix, wrong);
    }
    for (size_t i = 0; i < LABELS_COUNT; i++) {
        bool whole = strchr(parts[i].name, '/') != NULL;
        (void)snprintf(k->key[i], sizeof k->key[i], "%s%s%s", whole ? "" : prefix, whole ? "" : "/",
                       parts[i].name);
        const char *why = name_check_qualified(slice_str(k->key[i]));
        if (why != NULL) {
            return err_set(e, -EINVAL, "%s: Invalid value: \"%.100s\": %s", parts[i].flag,
                           k->key[i], why);
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(k->key[i], k->key[j]) == 0) {
                return err_set(e, -EINVAL, "%s: Duplicate value: \"%.100s\": %s has it too",
                               parts[i].flag, k->key[i], parts[j].flag);
            }
        }
    }
    return 0;
}

static const cJSON *labels_of(const cJSON *object)
{
    const cJSON *meta = cJSON_GetObjectItemCaseSensitive(object, "metadata");
    return cJSON_GetObjectItemCaseSensitive(meta, "labels");
}

/* NULL: there is no such label. */
static const char *value_of(const cJSON *labels, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(labels, key);
    if (item == NULL || cJSON_IsNull(item)) {
        return NULL;
    }
    return cJSON_IsString(item) ? item->valuestring : "";
}

void labels_plan_init(struct labels_plan *p, const struct labels_keys *k, const cJSON *object,
                      const char *ns)
{
    const cJSON *labels = labels_of(object);
    const char *control = value_of(labels, k->key[LABELS_CONTROL]);
    bool ours = control != NULL && strcmp(control, CONTROLLED) == 0;
    *p = (struct labels_plan){.state = LABELS_RIGHT};
    (void)snprintf(p->hash, sizeof p->hash, "%u", sharding_hash(ns));
    p->value[LABELS_NAMESPACE] = ns;
    p->value[LABELS_SHARD_HASH] = p->hash;
    p->value[LABELS_CONTROL] = CONTROLLED;
    for (size_t i = 0; i < LABELS_COUNT; i++) {
        const char *found = value_of(labels, k->key[i]);
        p->set[i] = found == NULL || strcmp(found, p->value[i]) != 0;
        if (p->set[i] && found != NULL && !ours) {
            p->state = LABELS_FOREIGN;
            p->foreign = (enum labels_label)i;
            p->found = found;
        } else if (p->set[i] && p->state == LABELS_RIGHT) {
            p->state = LABELS_MISSING;
        }
    }
}

static cJSON *labels_to_set(const struct labels_plan *p, const struct labels_keys *k)
{
    cJSON *labels = cJSON_CreateObject();
    for (size_t i = 0; i < LABELS_COUNT && labels != NULL; i++) {
        if (p->set[i] && cJSON_AddStringToObject(labels, k->key[i], p->value[i]) == NULL) {
            cJSON_Delete(labels);
            labels = NULL;
        }
    }
    return labels;
}

/* `inner` under that key in a new object; takes it. */
static cJSON *wrap(const char *key, cJSON *inner)
{
    cJSON *outer = cJSON_CreateObject();
    if (inner == NULL || !cJSON_AddItemToObject(outer, key, inner)) {
        cJSON_Delete(inner);
        cJSON_Delete(outer);
        return NULL;
    }
    return outer;
}

static int add_whole(const struct labels_plan *p, const struct labels_keys *k, bool has_metadata,
                     cJSON *patch)
{
    cJSON *labels = labels_to_set(p, k);
    return has_metadata ? json_patch_add(patch, "add", "/metadata/labels", labels)
                        : json_patch_add(patch, "add", "/metadata", wrap("labels", labels));
}

/* "/metadata/labels/ctrlmesh.kusionstack.io~1control": of what a key may hold only the slash, which
 * every key of ours has, needs an escape (RFC 6901 section 3). */
static void label_pointer(const char *key, char *out, size_t size)
{
    size_t prefix = strcspn(key, "/");
    (void)snprintf(out, size, "/metadata/labels/%.*s~1%s", (int)prefix, key, key + prefix + 1);
}

static int add_each(const struct labels_plan *p, const struct labels_keys *k, cJSON *patch)
{
    int rc = 0;
    for (size_t i = 0; i < LABELS_COUNT; i++) {
        char path[LABELS_KEY_SIZE + 32];
        label_pointer(k->key[i], path, sizeof path);
        if (rc == 0 && p->set[i]) {
            rc = json_patch_add(patch, "add", path, cJSON_CreateString(p->value[i]));
        }
    }
    return rc;
}

cJSON *labels_json_patch(const struct labels_plan *p, const struct labels_keys *k,
                         const cJSON *object)
{
    const cJSON *meta = cJSON_GetObjectItemCaseSensitive(object, "metadata");
    cJSON *patch = cJSON_CreateArray();
    if (patch == NULL) {
        return NULL;
    }
    int rc = cJSON_IsObject(labels_of(object)) ? add_each(p, k, patch)
                                               : add_whole(p, k, cJSON_IsObject(meta), patch);
    if (rc != 0) {
        cJSON_Delete(patch);
        return NULL;
    }
    return patch;
}

cJSON *labels_merge_patch(const struct labels_plan *p, const struct labels_keys *k)
{
    return wrap("metadata", wrap("labels", labels_to_set(p, k)));
}

bool labels_are_ours(const struct labels_keys *k, const cJSON *object)
{
    const char *control = value_of(labels_of(object), k->key[LABELS_CONTROL]);
    return control != NULL && strcmp(control, CONTROLLED) == 0;
}

cJSON *labels_removal_patch(const struct labels_keys *k)
{
    cJSON *gone = cJSON_CreateObject();
    for (size_t i = 0; i < LABELS_COUNT && gone != NULL; i++) {
        if (cJSON_AddNullToObject(gone, k->key[i]) == NULL) {
            cJSON_Delete(gone);
            gone = NULL;
        }
    }
    return wrap("metadata", wrap("labels", gone));
}

/* The namespace that the object of the request belongs to; "" when there is none, or when it has no
 * name yet: the server makes one up later. */
static const char *namespace_of(const struct admission_request *r)
{
    if (strcmp(r->resource.resource, "namespaces") != 0 || r->resource.group[0] != '\0') {
        return r->namespace;
    }
    const cJSON *meta = cJSON_GetObjectItemCaseSensitive(r->object, "metadata");
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(meta, "name"));
    return name != NULL ? name : r->name;
}

int labels_admit(const struct labels_keys *k, const struct admission_request *r, cJSON **patch,
                 struct warnings *warnings)
{
    struct labels_plan p;
    const char *ns = namespace_of(r);
    *patch = NULL;
    if ((r->operation != ADMISSION_CREATE && r->operation != ADMISSION_UPDATE) ||
        r->object == NULL || r->resource.subresource[0] != '\0' || ns[0] == '\0') {
        return 0;
    }
    labels_plan_init(&p, k, r->object, ns);
    if (p.state == LABELS_FOREIGN) {
        warnings_add(
            warnings,
            "metadata.labels[%s]: \"%.63s\" is not \"%s\", and is left as it is without %s: "
            "\"" CONTROLLED "\": the shard that this belongs to may not see it",
            k->key[p.foreign], p.found, p.value[p.foreign], k->key[LABELS_CONTROL]);
    }
    if (p.state != LABELS_MISSING) {
        return 0;
    }
    *patch = labels_json_patch(&p, k, r->object);
    return *patch == NULL ? -ENOMEM : 0;
}
