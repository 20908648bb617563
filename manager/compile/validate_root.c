/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/validate_root.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kube/name.h"
#include "rules/sharding.h"
#include "json/edit.h"
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
    bool right = field_object(root, ROOT, "canary", &canary, e) == 0 &&
                 field_known(canary, CANARY, known, e) == 0 &&
                 field_int(canary, CANARY, "replicas", 0, INT_MAX, &replicas, e) == 0 &&
                 check_list(canary, CANARY, "inNamespaces", name_check_label, e) == 0 &&
                 check_list(canary, CANARY, "inShardHash", check_hash, e) == 0;
    return right ? 0 : e->code;
}

static int check_size(const cJSON *automatic, const char *key, int max, struct err *e)
{
    int value = 0;
    if (field_int(automatic, AUTO, key, 1, max, &value, e) != 0) {
        return e->code;
    }
    return value != 0 ? 0 : err_set(e, -EINVAL, AUTO ".%s: Required value", key);
}

static int check_auto(const cJSON *root, struct err *e)
{
    static const char *const known[] = {"shardingSize", "everyShardReplicas", NULL};
    const cJSON *automatic = NULL;
    bool right =
        field_object(root, ROOT, "auto", &automatic, e) == 0 &&
        (automatic == NULL || (field_known(automatic, AUTO, known, e) == 0 &&
                               check_size(automatic, known[0], SHARDING_HASH_SIZE, e) == 0 &&
                               check_size(automatic, known[1], INT_MAX, e) == 0));
    return right ? 0 : e->code;
}

static int check_fields(const cJSON *root, struct err *e)
{
    static const char *const known[] = {
        "disable", "prefix", "targetStatefulSet", "canary", "auto", "resourceSelector", NULL};
    const cJSON *disable = field_get(root, "disable");
    if (field_known(root, ROOT, known, e) != 0) {
        return e->code;
    }
    if (disable != NULL && !cJSON_IsBool(disable)) {
        return field_wrong_type(e, ROOT, "disable", "true or false");
    }
    bool right = check_name(root, "prefix", e) == 0 &&
                 check_name(root, "targetStatefulSet", e) == 0 && check_canary(root, e) == 0 &&
                 check_auto(root, e) == 0;
    return right ? 0 : e->code;
}

/* {"matchLabels": {"a": "b"}}: where root needs no selector and the rules of a shard do. */
static void give_selector(struct edit *ed, cJSON *object)
{
    if (field_get(object, "selector") == NULL) {
        cJSON *selector = edit_object(ed, object, "selector");
        edit_string(ed, edit_object(ed, selector, "matchLabels"), "a", "b");
    }
}

/* The config as that of a shard, with what the root spreads in place of its limits. */
static cJSON *as_shard(const cJSON *config)
{
    struct edit ed = {.rc = 0};
    cJSON *copy = cJSON_Duplicate(config, true);
    cJSON *spec = cJSON_GetObjectItemCaseSensitive(copy, "spec");
    cJSON *root = cJSON_DetachItemFromObjectCaseSensitive(spec, "root");
    cJSON *list = cJSON_DetachItemFromObjectCaseSensitive(root, "resourceSelector");
    cJSON_Delete(root);
    edit_set(&ed, spec, "limits", list != NULL ? list : cJSON_CreateArray());
    cJSON *limit;
    cJSON_ArrayForEach(limit, field_get(spec, "limits"))
    {
        if (cJSON_IsObject(limit)) {
            give_selector(&ed, limit);
        }
    }
    give_selector(&ed, spec);
    return edit_result(&ed, copy);
}

static int compile_shard(const cJSON *config, const struct compile_options *o, struct err *e)
{
    static const char limits[] = "spec.limits";
    struct err inner = ERR_INIT;
    cJSON *copy = as_shard(config);
    if (copy == NULL) {
        return err_memory(e);
    }
    bool unknown = false;
    struct rules *rules = compile_draft(copy, o, &unknown, &inner);
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
    if (field_object(spec, "spec", "root", &root, e) != 0 || check_fields(root, e) != 0) {
        return e->code;
    }
    if (limits != NULL && limits->child != NULL) {
        return err_set(e, -EINVAL,
                       "spec.limits: Forbidden: may not be set together with " ROOT
                       ", which has resourceSelector");
    }
    return compile_shard(config, o, e);
}
