/* SPDX-License-Identifier: Apache-2.0 */
#include "rolling/deployment.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "object/names.h"
#include "rolling/stateful_set.h"
#include "json/edit.h"
#include "json/field.h"

static uint64_t count(const cJSON *object, const char *key, uint64_t usual)
{
    const cJSON *n = field_get(object, key);
    bool good = cJSON_IsNumber(n) && n->valuedouble >= 0 && n->valuedouble <= INT32_MAX;
    return good ? (uint64_t)n->valuedouble : usual;
}

static bool is_number(const cJSON *item, double number)
{
    return cJSON_IsNumber(item) && item->valuedouble == number;
}

static bool is_one_by_one(const cJSON *spec)
{
    const cJSON *strategy = field_get(spec, "strategy");
    const cJSON *rolling = field_get(strategy, "rollingUpdate");
    return strcmp(field_text(strategy, "type"), "RollingUpdate") == 0 &&
           is_number(field_get(rolling, "maxSurge"), 1) &&
           is_number(field_get(rolling, "maxUnavailable"), 0);
}

static const char *keep(struct edit *ed, cJSON *tree, const char *name, const char *value)
{
    edit_string(ed, tree, name, value);
    return field_text(tree, name);
}

static void read_numbers(struct deployment *d, const cJSON *object)
{
    const cJSON *spec = field_get(object, "spec");
    const cJSON *status = field_get(object, "status");
    d->is = (struct deployment_roll_facts){
        .replicas = count(spec, "replicas", 1),
        .updated = count(status, "updatedReplicas", 0),
        .total = count(status, "replicas", 0),
        .observed = (double)count(status, "observedGeneration", 0) >= field_generation(object),
        .paused = cJSON_IsTrue(field_get(spec, "paused")),
        .resumed = -1,
    };
}

struct deployment *deployment_new(const cJSON *object, const char *prefix)
{
    struct edit ed = {.rc = 0};
    struct err ignored = ERR_INIT;
    char name[NAMES_KEY_SIZE];
    const cJSON *meta = field_get(object, "metadata");
    const cJSON *spec = field_get(object, "spec");
    const cJSON *annotations = field_get(meta, "annotations");
    struct deployment *d = xcalloc(1, sizeof *d);
    d->tree = cJSON_CreateObject();
    d->ns = keep(&ed, d->tree, "namespace", field_text(meta, "namespace"));
    d->name = keep(&ed, d->tree, "name", field_text(meta, "name"));
    d->uid = keep(&ed, d->tree, "uid", field_text(meta, "uid"));
    d->version = keep(&ed, d->tree, "version", field_text(meta, "resourceVersion"));
    d->label = keep(&ed, d->tree, "label",
                    field_text(field_get(meta, "labels"), names_key(prefix, ROLLING_LABEL, name)));
    d->expected = keep(&ed, d->tree, "expected",
                       field_text(annotations, names_key(prefix, ROLLING_EXPECTED, name)));
    d->status = keep(&ed, d->tree, "status",
                     field_text(annotations, names_key(prefix, ROLLING_STATUS, name)));
    char *key = xasprintf("%s/%s", d->ns, d->name);
    d->key = keep(&ed, d->tree, "key", key);
    free(key);
    d->pods = selector_from_label_selector(field_get(spec, "selector"), "spec.selector", &ignored);
    read_numbers(d, object);
    d->deadline_ms =
        rolling_deadline_ms(field_text(annotations, names_key(prefix, ROLLING_DEADLINE, name)));
    d->one_by_one = is_one_by_one(spec);
    d->ending = field_get(meta, "deletionTimestamp") != NULL;
    return d;
}

void deployment_free(struct deployment *d)
{
    if (d != NULL) {
        selector_free(d->pods);
        cJSON_Delete(d->tree);
        free(d);
    }
}
