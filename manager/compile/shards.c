/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/shards.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    struct selector *s = selector_from_label_selector(item, "spec.selector", e);
    if (s != NULL && selector_is_everything(s)) {
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

/* 0 or -ENOMEM. */
static int label_index_init(struct label_index *x, const cJSON *pod)
{
    const cJSON *labels = field_map(field_get(pod, "metadata"), "labels");
    *x = (struct label_index){.count = 0};
    x->items = json_sorted_members(labels, &x->count);
    return x->items == NULL && x->count > 0 ? -ENOMEM : 0;
}

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

/* 1 or 0, or -ENOMEM. */
static int selects(const struct shards_item *item, const char *ns, const struct label_index *pod)
{
    struct err e = ERR_INIT;
    if (item->root || strcmp(item->ns, ns) != 0) {
        return 0;
    }
    if (item->pods != NULL) {
        return selects_labels(item->pods, pod);
    }
    struct selector *s = shards_pod_selector(item->config, &e);
    int found = s == NULL ? 0 : selects_labels(s, pod);
    selector_free(s);
    return s == NULL && e.code == -ENOMEM ? -ENOMEM : found;
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
        int rc = selects(&list->items[i], ns, pod);
        if (rc < 0) {
            (void)err_memory(e);
            return NULL;
        }
        if (rc > 0 && found != NULL) {
            refuse_both(list, ns, shards_name(found), list->items[i].name, e);
            return NULL;
        }
        found = rc > 0 ? list->items[i].config : found;
    }
    if (found == NULL) {
        (void)err_set(e, -ENOENT, "no ShardingConfig in namespace \"%.63s\" selects this pod", ns);
    }
    return found;
}

const cJSON *shards_of_pod(const struct shards_list *list, const char *ns, const cJSON *pod,
                           struct err *e)
{
    struct label_index labels;
    if (label_index_init(&labels, pod) != 0) {
        (void)err_memory(e);
        return NULL;
    }
    const cJSON *found = find_shard(list, ns, &labels, e);
    free(labels.items);
    return found;
}
