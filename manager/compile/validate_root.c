/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/validate_root.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kube/name.h"
#include "rules/sharding.h"
#include "json/field.h"

#define ROOT "spec.root"
#define AUTO ROOT ".auto"
#define CANARY ROOT ".canary"

typedef const char *(*check_cb)(struct slice text);

/* A list of strings, each of which `check` finds nothing wrong with. */
static int check_list(const cJSON *object, const char *path, const char *key, check_cb check,
                      struct err *e)
{
    const cJSON *list = NULL;
    int rc = field_array(object, path, key, &list, e);
    unsigned i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        char entry[64];
        const char *text = cJSON_GetStringValue(item);
        const char *why = text == NULL ? "must be a string" : check(slice_str(text));
        (void)snprintf(entry, sizeof entry, "%s[%u]", key, i++);
        if (rc == 0 && why != NULL) {
            rc = field_invalid(e, path, entry, text == NULL ? "" : text, why);
        }
    }
    return rc;
}

static const char *check_hash(struct slice text)
{
    bool digits = text.len == 1 || (text.len == 2 && text.ptr[0] != '0');
    for (size_t i = 0; i < text.len; i++) {
        digits = digits && text.ptr[i] >= '0' && text.ptr[i] <= '9';
    }
    return digits && strtol(text.ptr, NULL, 10) < SHARDING_HASH_SIZE
               ? NULL
               : "must be a whole number from 0 to 31";
}

static int check_name(const cJSON *root, const char *key, struct err *e)
{
    const char *name = "";
    int rc = field_required(root, ROOT, key, &name, e);
    const char *why = rc == 0 ? name_check_subdomain(slice_str(name)) : NULL;
    return why == NULL ? rc : field_invalid(e, ROOT, key, name, why);
}

static int check_canary(const cJSON *root, struct err *e)
{
    static const char *const known[] = {"replicas", "inNamespaces", "inShardHash", NULL};
    const cJSON *canary = NULL;
    int replicas = 0;
    int rc = field_object(root, ROOT, "canary", &canary, e);
    rc = rc != 0 ? rc : field_known(canary, CANARY, known, e);
    rc = rc != 0 ? rc : field_int(canary, CANARY, "replicas", 0, INT_MAX, &replicas, e);
    rc = rc != 0 ? rc : check_list(canary, CANARY, "inNamespaces", name_check_label, e);
    return rc != 0 ? rc : check_list(canary, CANARY, "inShardHash", check_hash, e);
}

static int check_auto(const cJSON *root, struct err *e)
{
    static const char *const known[] = {"shardingSize", "everyShardReplicas", NULL};
    const cJSON *automatic = NULL;
    int rc = field_object(root, ROOT, "auto", &automatic, e);
    rc = rc != 0 ? rc : field_known(automatic, AUTO, known, e);
    for (size_t i = 0; known[i] != NULL && rc == 0 && automatic != NULL; i++) {
        int max = i == 0 ? SHARDING_HASH_SIZE : INT_MAX;
        int value = 0;
        rc = field_int(automatic, AUTO, known[i], 1, max, &value, e);
        if (rc == 0 && value == 0) {
            rc = err_set(e, -EINVAL, AUTO ".%s: Required value", known[i]);
        }
    }
    return rc;
}

static int check_fields(const cJSON *root, struct err *e)
{
    static const char *const known[] = {
        "disable", "prefix", "targetStatefulSet", "canary", "auto", "resourceSelector", NULL};
    const cJSON *disable = field_get(root, "disable");
    int rc = field_known(root, ROOT, known, e);
    if (rc == 0 && disable != NULL && !cJSON_IsBool(disable)) {
        rc = err_set(e, -EINVAL, ROOT ".disable: Invalid value: must be true or false");
    }
    rc = rc != 0 ? rc : check_name(root, "prefix", e);
    rc = rc != 0 ? rc : check_name(root, "targetStatefulSet", e);
    rc = rc != 0 ? rc : check_canary(root, e);
    return rc != 0 ? rc : check_auto(root, e);
}

/* {"matchLabels": {"a": "b"}}: where root needs no selector and the rules of a shard do. */
static cJSON *some_selector(void)
{
    cJSON *selector = cJSON_CreateObject();
    cJSON *labels = cJSON_AddObjectToObject(selector, "matchLabels");
    if (cJSON_AddStringToObject(labels, "a", "b") == NULL) {
        cJSON_Delete(selector);
        return NULL;
    }
    return selector;
}

static int give_selector(cJSON *object)
{
    if (field_get(object, "selector") != NULL) {
        return 0;
    }
    cJSON *selector = some_selector();
    cJSON_DeleteItemFromObjectCaseSensitive(object, "selector");
    if (selector == NULL || !cJSON_AddItemToObject(object, "selector", selector)) {
        cJSON_Delete(selector);
        return -ENOMEM;
    }
    return 0;
}

/* What the root spreads, as the limits of a shard. */
static int make_limits(cJSON *spec, const cJSON *list)
{
    cJSON *limits = list == NULL ? cJSON_CreateArray() : cJSON_Duplicate(list, true);
    int rc = limits == NULL ? -ENOMEM : 0;
    cJSON *limit;
    cJSON_ArrayForEach(limit, limits)
    {
        if (rc == 0 && cJSON_IsObject(limit)) {
            rc = give_selector(limit);
        }
    }
    cJSON_DeleteItemFromObjectCaseSensitive(spec, "limits");
    if (rc != 0 || !cJSON_AddItemToObject(spec, "limits", limits)) {
        cJSON_Delete(limits);
        return -ENOMEM;
    }
    return 0;
}

/* The config as that of a shard, with the root's resources in place of its limits. */
static cJSON *as_shard(const cJSON *config)
{
    cJSON *copy = cJSON_Duplicate(config, true);
    cJSON *spec = cJSON_GetObjectItemCaseSensitive(copy, "spec");
    cJSON *root = cJSON_DetachItemFromObjectCaseSensitive(spec, "root");
    int rc = copy == NULL ? -ENOMEM : make_limits(spec, field_get(root, "resourceSelector"));
    rc = rc != 0 ? rc : give_selector(spec);
    cJSON_Delete(root);
    if (rc != 0) {
        cJSON_Delete(copy);
        return NULL;
    }
    return copy;
}

static int compile_shard(const cJSON *config, const struct compile_options *o, struct err *e)
{
    static const char limits[] = "spec.limits";
    struct err inner = ERR_INIT;
    cJSON *copy = as_shard(config);
    if (copy == NULL) {
        return err_memory(e);
    }
    struct rules *rules = compile_config(copy, o, &inner);
    cJSON_Delete(copy);
    if (rules == NULL) {
        bool translate = strncmp(inner.msg, limits, sizeof limits - 1) == 0;
        return err_set(e, inner.code, "%s%s", translate ? ROOT ".resourceSelector" : "",
                       inner.msg + (translate ? sizeof limits - 1 : 0));
    }
    rules_unref(rules);
    return 0;
}

int validate_root(const cJSON *config, const struct compile_options *o, struct err *e)
{
    const cJSON *spec = field_get(config, "spec");
    const cJSON *root = NULL;
    const cJSON *limits = field_get(spec, "limits");
    int rc = field_object(spec, "spec", "root", &root, e);
    rc = rc != 0 ? rc : check_fields(root, e);
    if (rc == 0 && limits != NULL && limits->child != NULL) {
        rc = err_set(e, -EINVAL,
                     "spec.limits: Forbidden: may not be set together with " ROOT
                     ", which has resourceSelector");
    }
    return rc != 0 ? rc : compile_shard(config, o, e);
}
