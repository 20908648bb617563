/* SPDX-License-Identifier: Apache-2.0 */
#include "rolling/stateful_set.h"
#include "object/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "json/edit.h"
#include "json/field.h"

/* As the API server bounds both: int32. */
enum { COUNT_MAX = INT32_MAX };

static uint64_t count(const cJSON *object, const char *key, uint64_t usual)
{
    const cJSON *n = field_get(object, key);
    bool good = cJSON_IsNumber(n) && n->valuedouble >= 0 && n->valuedouble <= COUNT_MAX;
    return good ? (uint64_t)n->valuedouble : usual;
}

uint64_t rolling_deadline_ms(const char *text)
{
    char *end = NULL;
    unsigned long long s = text[0] < '0' || text[0] > '9' ? 0 : strtoull(text, &end, 10);
    bool good = s >= ROLLING_DEADLINE_MIN && s <= ROLLING_DEADLINE_MAX && *end == '\0';
    return 1000 * (good ? s : ROLLING_DEADLINE_DEFAULT);
}

/* The value of prefix/name, kept in the tree under that name. */
static const char *keep_text(struct edit *ed, cJSON *tree, const cJSON *from, const char *prefix,
                             const char *name)
{
    char key[NAMES_KEY_SIZE];
    edit_string(ed, tree, name, field_text(from, names_key(prefix, name, key)));
    return field_text(tree, name);
}

static const char *keep(struct edit *ed, cJSON *tree, const char *name, const char *value)
{
    edit_string(ed, tree, name, value);
    return field_text(tree, name);
}

static void keep_texts(struct edit *ed, struct stateful_set *s, const cJSON *object,
                       const char *prefix)
{
    const cJSON *meta = field_get(object, "metadata");
    const cJSON *spec = field_get(object, "spec");
    const cJSON *status = field_get(object, "status");
    const cJSON *annotations = field_get(meta, "annotations");
    const cJSON *template = field_get(field_get(spec, "template"), "metadata");
    s->ns = keep(ed, s->tree, "namespace", field_text(meta, "namespace"));
    s->name = keep(ed, s->tree, "name", field_text(meta, "name"));
    s->uid = keep(ed, s->tree, "uid", field_text(meta, "uid"));
    s->version = keep(ed, s->tree, "version", field_text(meta, "resourceVersion"));
    s->revision = keep(ed, s->tree, "revision", field_text(status, "updateRevision"));
    const cJSON *strategy = field_get(spec, "updateStrategy");
    s->strategy = keep(ed, s->tree, "strategy", field_text(strategy, "type"));
    s->label = keep_text(ed, s->tree, field_get(meta, "labels"), prefix, ROLLING_LABEL);
    s->scope = keep_text(ed, s->tree, annotations, prefix, ROLLING_SHARD);
    if (s->scope[0] == '\0' && strcmp(s->label, ROLLING_ALL) != 0) {
        s->scope = s->label;
    }
    s->status = keep_text(ed, s->tree, annotations, prefix, ROLLING_STATUS);
    s->expected = keep_text(ed, s->tree, annotations, prefix, ROLLING_EXPECTED);
    char *key = xasprintf("%s/%s", s->ns, s->name);
    s->key = keep(ed, s->tree, "key", key);
    free(key);
    if (field_map(template, "labels") != NULL) {
        edit_set(ed, s->tree, "labels", cJSON_Duplicate(field_map(template, "labels"), true));
        s->labels = field_map(s->tree, "labels");
    }
}

static void read_numbers(struct stateful_set *s, const cJSON *object, const char *prefix)
{
    char key[NAMES_KEY_SIZE];
    const cJSON *meta = field_get(object, "metadata");
    const cJSON *spec = field_get(object, "spec");
    const char *policy = field_text(spec, "podManagementPolicy");
    s->deadline_ms = rolling_deadline_ms(
        field_text(field_get(meta, "annotations"), names_key(prefix, ROLLING_DEADLINE, key)));
    s->replicas = count(spec, "replicas", 1);
    s->first = count(field_get(spec, "ordinals"), "start", 0);
    s->min_ready_s = (int64_t)count(spec, "minReadySeconds", 0);
    s->ordered = strcmp(policy, "Parallel") != 0;
    s->current =
        count(field_get(object, "status"), "observedGeneration", 0) >= count(meta, "generation", 0);
    s->ending = field_get(meta, "deletionTimestamp") != NULL;
}

struct stateful_set *stateful_set_new(const cJSON *object, const char *prefix)
{
    struct edit ed = {.rc = 0};
    struct stateful_set *s = xcalloc(1, sizeof *s);
    s->tree = cJSON_CreateObject();
    keep_texts(&ed, s, object, prefix);
    read_numbers(s, object, prefix);
    return s;
}

void stateful_set_free(struct stateful_set *s)
{
    if (s != NULL) {
        cJSON_Delete(s->tree);
        free(s);
    }
}
