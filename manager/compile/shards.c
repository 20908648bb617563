/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/shards.h"

#include <errno.h>
#include <string.h>

#include "json/field.h"

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

bool shards_selects(const struct selector *s, const cJSON *object)
{
    size_t count = 0;
    const struct selector_requirement *items = selector_requirements(s, &count);
    const cJSON *labels = field_get(field_get(object, "metadata"), "labels");
    for (size_t i = 0; i < count; i++) {
        const cJSON *label = field_get(labels, items[i].key);
        struct slice value = slice_str(cJSON_GetStringValue(label));
        if (!selector_requirement_matches(&items[i], label == NULL ? NULL : &value)) {
            return false;
        }
    }
    return true;
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

/* 1 or 0, or -ENOMEM. */
static int selects(const struct shards_item *item, const char *ns, const cJSON *pod)
{
    struct err e = ERR_INIT;
    if (item->root || strcmp(item->ns, ns) != 0) {
        return 0;
    }
    if (item->pods != NULL) {
        return shards_selects(item->pods, pod);
    }
    struct selector *s = shards_pod_selector(item->config, &e);
    int found = s == NULL ? 0 : shards_selects(s, pod);
    selector_free(s);
    return s == NULL && e.code == -ENOMEM ? -ENOMEM : found;
}

const cJSON *shards_of_pod(const struct shards_list *list, const char *ns, const cJSON *pod,
                           struct err *e)
{
    const cJSON *found = NULL;
    for (size_t i = 0; i < list->count; i++) {
        int rc = selects(&list->items[i], ns, pod);
        if (rc < 0) {
            (void)err_set(e, rc, "out of memory");
            return NULL;
        }
        if (rc > 0 && found != NULL) {
            (void)err_set(e, -EEXIST,
                          "the ShardingConfigs \"%.253s\" and \"%.253s\" both select this pod: a "
                          "pod can be in one shard only",
                          shards_name(found), list->items[i].name);
            return NULL;
        }
        found = rc > 0 ? list->items[i].config : found;
    }
    if (found == NULL) {
        (void)err_set(e, -ENOENT, "no ShardingConfig in namespace \"%.63s\" selects this pod", ns);
    }
    return found;
}
