/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_bounds.h"

#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "json/field.h"

/* The kinds of what containers have. */
enum { VARIABLES, MOUNTS, ARGUMENTS, PORTS, KINDS };

static const struct {
    const char *name;
    size_t most;
} kinds[KINDS] = {
    [VARIABLES] = {"env", INJECT_VARIABLES_MAX},
    [MOUNTS] = {"volumeMounts", INJECT_MOUNTS_MAX},
    [ARGUMENTS] = {"command and args", INJECT_ARGUMENTS_MAX},
    [PORTS] = {"ports", INJECT_PORTS_MAX},
};

static const struct {
    const char *key;
    int kind;
} lists[] = {
    {"env", VARIABLES},     {"envFrom", VARIABLES}, {"volumeMounts", MOUNTS},
    {"command", ARGUMENTS}, {"args", ARGUMENTS},    {"ports", PORTS},
};

static const char *const containers[] = {"containers", "initContainers", "ephemeralContainers"};

static int refuse(struct err *e, const char *field, size_t count, size_t most)
{
    return err_set(e, -EINVAL, "%s: Too many: %zu: a pod that gets sidecars may have %zu", field,
                   count, most);
}

static int check_count(const cJSON *object, const char *key, const char *field, size_t most,
                       struct err *e)
{
    size_t count = (size_t)cJSON_GetArraySize(field_get(object, key));
    return count <= most ? 0 : refuse(e, field, count, most);
}

size_t inject_bounds_bytes(const cJSON *map)
{
    size_t size = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, map)
    {
        const char *value = cJSON_GetStringValue(item);
        size += strlen(item->string) + (value == NULL ? 0 : strlen(value));
    }
    return size;
}

static int check_bytes(const cJSON *meta, const char *key, size_t most, struct err *e)
{
    return inject_bounds_bytes(field_map(meta, key)) <= most
               ? 0
               : err_set(e, -EINVAL, "metadata.%s: Too long: may not be more than %zu bytes", key,
                         most);
}

static void count_items(const cJSON *list, size_t counts[KINDS], size_t *all)
{
    const cJSON *container;
    cJSON_ArrayForEach(container, list)
    {
        ++*all;
        for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
            counts[lists[i].kind] += (size_t)cJSON_GetArraySize(field_get(container, lists[i].key));
        }
    }
}

static int check_containers(const cJSON *spec, struct err *e)
{
    size_t counts[KINDS] = {0};
    size_t all = 0;
    for (size_t i = 0; i < ARRAY_LEN(containers); i++) {
        count_items(field_get(spec, containers[i]), counts, &all);
    }
    if (all > INJECT_CONTAINERS_MAX) {
        return refuse(e, "spec.containers", all, INJECT_CONTAINERS_MAX);
    }
    for (size_t i = 0; i < KINDS; i++) {
        if (counts[i] > kinds[i].most) {
            refuse(e, kinds[i].name, counts[i], kinds[i].most);
            err_prefix(e, "spec.containers");
            return e->code;
        }
    }
    return 0;
}

int inject_bounds_check(const cJSON *pod, struct err *e)
{
    const cJSON *meta = field_get(pod, "metadata");
    const cJSON *spec = field_get(pod, "spec");
    if (check_bytes(meta, "annotations", INJECT_ANNOTATIONS_MAX, e) != 0 ||
        check_count(meta, "labels", "metadata.labels", INJECT_LABELS_MAX, e) != 0 ||
        check_bytes(meta, "labels", INJECT_LABEL_BYTES_MAX, e) != 0 ||
        check_count(spec, "volumes", "spec.volumes", INJECT_VOLUMES_MAX, e) != 0) {
        return e->code;
    }
    return check_containers(spec, e);
}
