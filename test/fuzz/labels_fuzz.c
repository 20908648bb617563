/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An object of whatever labels. The patches that plans make, applied, must make the plan come true
 * and change nothing else, both must say the same, and what is taken away is not ours any more.
 */
#include "label/labels.h"

#include <string.h>

#include "check.h"
#include "patch_apply.h"
#include "json/json.h"

static const struct compile_labels names = {.prefix = "p.io",
                                            .namespace = "namespace",
                                            .shard_hash = "sharding-hash",
                                            .control = "control"};

/* As the API server has them: an object, or none. */
static bool is_object(const cJSON *parent, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(parent, key);
    return item == NULL || cJSON_IsObject(item);
}

static size_t count_labels(const cJSON *object)
{
    const cJSON *meta = cJSON_GetObjectItemCaseSensitive(object, "metadata");
    return (size_t)cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(meta, "labels"));
}

/* RFC 7386. Takes the target. */
static cJSON *merge_patch(cJSON *target, const cJSON *patch)
{
    const cJSON *item;
    if (!cJSON_IsObject(patch)) {
        cJSON_Delete(target);
        return cJSON_Duplicate(patch, true);
    }
    if (!cJSON_IsObject(target)) {
        cJSON_Delete(target);
        target = cJSON_CreateObject();
    }
    cJSON_ArrayForEach(item, patch)
    {
        cJSON *old = cJSON_DetachItemFromObjectCaseSensitive(target, item->string);
        if (cJSON_IsNull(item)) {
            cJSON_Delete(old);
        } else {
            CHECK(cJSON_AddItemToObject(target, item->string, merge_patch(old, item)));
        }
    }
    return target;
}

static void check_plan(const struct labels_keys *k, const cJSON *object)
{
    struct labels_plan p;
    labels_plan_init(&p, k, object, "ns-a");
    if (p.state != LABELS_MISSING) {
        CHECK(p.state != LABELS_FOREIGN || strcmp(p.found, p.value[p.foreign]) != 0);
        return;
    }
    cJSON *json = labels_json_patch(&p, k, object);
    cJSON *merge = labels_merge_patch(&p, k);
    cJSON *patched = patch_apply(object, json);
    cJSON *merged = merge_patch(cJSON_Duplicate(object, true), merge);
    CHECK(patched != NULL && cJSON_Compare(patched, merged, true));
    CHECK(count_labels(patched) >= count_labels(object));
    labels_plan_init(&p, k, patched, "ns-a");
    CHECK(p.state == LABELS_RIGHT && labels_are_ours(k, patched));
    cJSON_Delete(json);
    cJSON_Delete(merge);
    cJSON_Delete(patched);
    cJSON_Delete(merged);
}

static void check_removal(const struct labels_keys *k, const cJSON *object)
{
    struct labels_plan p;
    cJSON *patch = labels_removal_patch(k);
    cJSON *bare = merge_patch(cJSON_Duplicate(object, true), patch);
    CHECK(!labels_are_ours(k, bare));
    labels_plan_init(&p, k, bare, "ns-a");
    CHECK(p.state == LABELS_MISSING || p.state == LABELS_IGNORED);
    CHECK(p.set[0] && p.set[1] && p.set[2]);
    cJSON_Delete(patch);
    cJSON_Delete(bare);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    struct labels_keys k;
    cJSON *object = json_parse((const char *)data, size, &e);
    const cJSON *meta = cJSON_GetObjectItemCaseSensitive(object, "metadata");
    if (cJSON_IsObject(object) && is_object(object, "metadata") && is_object(meta, "labels")) {
        CHECK(labels_keys_init(&k, &names, &e) == 0);
        check_plan(&k, object);
        check_removal(&k, object);
    }
    cJSON_Delete(object);
    return 0;
}
