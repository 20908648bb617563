/* SPDX-License-Identifier: Apache-2.0 */
#include "object/root_child.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/sharding_config.h"
#include "kube/name.h"
#include "object/names.h"
#include "json/field.h"

/* Of metadata.generateName, which 5 random characters follow: what is longer is cut. */
enum { GENERATED_MAX = NAME_LABEL_MAX - 5 };

const char *root_child_parent(const cJSON *config, const char *prefix)
{
    char key[NAMES_KEY_SIZE];
    names_key(prefix, ROOT_LABEL, key);
    return field_text(field_get(field_get(config, "metadata"), "labels"), key);
}

const char *root_child_deployment(const cJSON *root)
{
    return field_text(field_get(field_get(root, "spec"), "root"), "targetDeployment");
}

bool root_child_deploys(const cJSON *root, const char *pod, const char *hash)
{
    const char *name = root_child_deployment(root);
    char begin[GENERATED_MAX + 1];
    (void)snprintf(begin, sizeof begin, "%s-%s-", name, hash);
    return name[0] != '\0' && hash[0] != '\0' && strncmp(pod, begin, strlen(begin)) == 0;
}

bool root_child_precedes(const cJSON *a, const cJSON *b)
{
    int order = strcmp(field_meta(a, "creationTimestamp"), field_meta(b, "creationTimestamp"));
    return order != 0 ? order < 0 : strcmp(field_meta(a, "name"), field_meta(b, "name")) < 0;
}

static const char *annotation(const cJSON *child, const char *prefix, const char *name)
{
    char key[NAMES_KEY_SIZE];
    return field_text(field_get(field_get(child, "metadata"), "annotations"),
                      names_key(prefix, name, key));
}

int root_child_number(const char *prefix, const char *name)
{
    size_t len = strlen(prefix);
    if (strncmp(name, prefix, len) != 0 || name[len] != '-') {
        return -ENOENT;
    }
    for (unsigned i = 0; i <= ROOT_SHARDS_MAX; i++) {
        char tail[24];
        (void)snprintf(tail, sizeof tail, "-%u-%s", i, i == 0 ? "canary" : "normal");
        if (strcmp(name + len, tail) == 0) {
            return (int)i;
        }
    }
    return -ENOENT;
}

bool root_child_seat(const cJSON *root, const cJSON *child, const char *prefix,
                     struct root_child_seat *out)
{
    const char *names = field_text(field_get(field_get(root, "spec"), "root"), "prefix");
    int number = root_child_number(names, field_meta(child, "name"));
    char *end = NULL;
    const char *pods = annotation(child, prefix, ROOT_PODS);
    unsigned long wanted = strtoul(pods, &end, 10);
    bool whole = pods[0] >= '0' && pods[0] <= '9' && *end == '\0';
    if (root_child_deployment(root)[0] == '\0' || number < 0 || !whole ||
        wanted > ROOT_REPLICAS_MAX) {
        return false;
    }
    *out = (struct root_child_seat){
        .number = (unsigned)number,
        .wanted = wanted == 0 ? 1 : (unsigned)wanted,
        .leaving = strcmp(annotation(child, prefix, ROOT_LEAVING), "true") == 0,
    };
    return true;
}

const cJSON *root_child_share(const cJSON *child)
{
    const cJSON *limits = field_get(field_get(child, "spec"), "limits");
    const cJSON *limit = cJSON_GetArrayItem(limits, 0);
    const cJSON *wrapped = field_get(limit, "objectSelector");
    const cJSON *selector = field_get(cJSON_IsObject(wrapped) ? wrapped : limit, "selector");
    const cJSON *expressions = field_get(selector, "matchExpressions");
    return cJSON_GetArrayItem(expressions, cJSON_GetArraySize(expressions) - 1);
}
