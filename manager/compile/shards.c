/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/shards.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "json/field.h"
#include "json/json.h"

struct selector *shards_pod_selector(const cJSON *config, struct err *e)
{
    const cJSON *spec = field_get(config, "spec");
    const cJSON *item = field_get(spec, "selector");
    if (item == NULL) {
        (void)err_set(e, -EINVAL, "spec.selector: Required value: selects the pods of the shard");
        return NULL;
    }
    struct err inner = ERR_INIT;
    struct selector *s = selector_from_label_selector(item, "spec.selector", &inner);
    if (s == NULL) {
        xerr(&inner);
        (void)err_set(e, inner.code, "%s", inner.msg);
        return NULL;
    }
    if (selector_is_everything(s)) {
        selector_free(s);
        (void)err_set(e, -EINVAL,
                      "spec.selector: Required value: an empty selector would make every pod of "
                      "the namespace one of the shard");
        return NULL;
    }
    return s;
}

const char *shards_name(const cJSON *object)
{
    return field_meta(object, "name");
}

const char *shards_namespace(const cJSON *object)
{
    return field_meta(object, "namespace");
}

struct shards_item shards_item_of(const cJSON *config)
{
    return (struct shards_item){
        .config = config,
        .ns = shards_namespace(config),
        .name = shards_name(config),
        .root = field_get(field_get(config, "spec"), "root") != NULL,
    };
}

/* The labels of a pod by their keys: they may be many, and are asked for again and again. */
struct label_index {
    const cJSON **items;
    size_t count;
};

static int compare_key(const void *key, const void *member)
{
    const cJSON *const *item = member;
    return strcmp(key, (*item)->string);
}

static bool selects_labels(const struct selector *s, const struct label_index *x)
{
    size_t count = 0;
    const struct selector_requirement *items = selector_requirements(s, &count);
    for (size_t i = 0; i < count; i++) {
        const cJSON *const *found = x->count == 0 ? NULL
                                                  : bsearch(items[i].key, x->items, x->count,
                                                            sizeof *x->items, compare_key);
        bool has = found != NULL && !cJSON_IsNull(*found);
        struct slice value = slice_str(has ? cJSON_GetStringValue(*found) : NULL);
        if (!selector_requirement_matches(&items[i], has ? &value : NULL)) {
            return false;
        }
    }
    return true;
}

static bool selects(const struct shards_item *item, const char *ns, const struct label_index *pod)
{
    if (item->root || strcmp(item->ns, ns) != 0) {
        return false;
    }
    if (item->pods != NULL) {
        return selects_labels(item->pods, pod);
    }
    struct selector *s = shards_pod_selector(item->config, NULL);
    bool found = s != NULL && selects_labels(s, pod);
    selector_free(s);
    return found;
}

void shards_withhold(const struct shards_list *list, const char *fmt, ...)
{
    va_list ap;
    if (list->withheld != NULL) {
        va_start(ap, fmt);
        (void)vsnprintf(list->withheld, ERR_MSG_MAX, fmt, ap);
        va_end(ap);
    }
}

static void refuse_both(const struct shards_list *list, const char *ns, const char *one,
                        const char *other, struct err *e)
{
    static const char one_only[] = "a pod can be in one shard only";
    if (list->withheld == NULL) {
        (void)err_set(e, -EEXIST,
                      "the ShardingConfigs \"%.253s\" and \"%.253s\" both select this pod: %s", one,
                      other, one_only);
        return;
    }
    shards_withhold(list, "ShardingConfigs \"%.200s\" and \"%.200s\" both select the pod", one,
                    other);
    (void)err_set(e, -EEXIST, "several ShardingConfigs select this pod: %s: see " SHARDS_SHOW,
                  one_only, ns);
}

static const cJSON *find_shard(const struct shards_list *list, const char *ns,
                               const struct label_index *pod, struct err *e)
{
    const cJSON *found = NULL;
    for (size_t i = 0; i < list->count; i++) {
        if (!selects(&list->items[i], ns, pod)) {
            continue;
        }
        if (found != NULL) {
            refuse_both(list, ns, shards_name(found), list->items[i].name, e);
            return NULL;
        }
        found = list->items[i].config;
    }
    if (found == NULL) {
        (void)err_set(e, -ENOENT, "no ShardingConfig in namespace \"%.63s\" selects this pod", ns);
    }
    return found;
}

const cJSON *shards_of_pod(const struct shards_list *list, const char *ns, const cJSON *pod,
                           struct err *e)
{
    const cJSON *map = field_map(field_get(pod, "metadata"), "labels");
    struct label_index labels = {.count = 0};
    labels.items = json_sorted_members(map, &labels.count);
    if (labels.items == NULL && labels.count > 0) {
        xalloc_end();
    }
    const cJSON *found = find_shard(list, ns, &labels, e);
    free(labels.items);
    return found;
}
