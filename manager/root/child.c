/* SPDX-License-Identifier: Apache-2.0 */
#include "root/child.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/xalloc.h"
#include "compile/control_labels.h"
#include "kube/name.h"
#include "object/names.h"
#include "json/edit.h"
#include "json/field.h"

#define CANARY "spec.root.canary"

struct names {
    const char **items; /* sorted, each once; the array is our own */
    size_t count;
};

/* ---- names ---- */

int child_name(const struct root_spec *spec, unsigned number, char out[CHILD_NAME_SIZE])
{
    int n = number == 0 ? snprintf(out, CHILD_NAME_SIZE, "%s-0-canary", spec->prefix)
                        : snprintf(out, CHILD_NAME_SIZE, "%s-%u-normal", spec->prefix, number);
    return n < CHILD_NAME_SIZE ? 0 : -ENAMETOOLONG;
}

int child_number(const struct root_spec *spec, const char *name)
{
    return root_child_number(spec->prefix, name);
}

bool child_needs_namespaces(const struct root_spec *spec)
{
    return spec->canary.namespaces != NULL && spec->canary.buckets != 0;
}

/* ---- namespaces of the canary ---- */

static void sort_names(struct names *n)
{
    size_t kept = 0;
    qsort(n->items, n->count, sizeof *n->items, array_compare_texts);
    for (size_t i = 0; i < n->count; i++) {
        if (kept == 0 || strcmp(n->items[kept - 1], n->items[i]) != 0) {
            n->items[kept++] = n->items[i];
        }
    }
    n->count = kept;
}

bool child_share_covers(const cJSON *share, const cJSON *part)
{
    const cJSON *wider = field_get(share, "values");
    const cJSON *values = field_get(part, "values");
    const cJSON *value = NULL;
    if (cJSON_GetArraySize(values) == 0 || cJSON_Compare(share, part, true)) {
        return true;
    }
    if (strcmp(field_text(share, "key"), field_text(part, "key")) != 0) {
        return false;
    }
    cJSON_ArrayForEach(value, values)
    {
        if (!cJSON_IsString(value) || !field_has(wider, value->valuestring)) {
            return false;
        }
    }
    return true;
}

static bool has_namespace(const struct child_options *o, const char *name)
{
    char key[NAMES_KEY_SIZE];
    char hash[16];
    names_key(o->labels->prefix, o->labels->namespace, key);
    (void)snprintf(hash, sizeof hash, "%u", sharding_hash(name));
    return field_has(field_get(o->had, "values"),
                     strcmp(field_text(o->had, "key"), key) == 0 ? name : hash);
}

/* Of those that normal shards are not to have. */
static void drop_kept(const struct child_options *o, struct names *n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n->count; i++) {
        if (has_namespace(o, n->items[i])) {
            n->items[kept++] = n->items[i];
        }
    }
    n->count = kept;
}

static int check_count(const struct root_spec *spec, size_t count, struct err *e)
{
    if (count <= CHILD_NAMES_MAX) {
        return 0;
    }
    return child_needs_namespaces(spec)
               ? err_set(e, -E2BIG,
                         CANARY ": Too many: inNamespaces and inShardHash select %zu namespaces, "
                                "and with both there may be %d: use one of them",
                         count, CHILD_NAMES_MAX)
               : err_set(e, -E2BIG, CANARY ".inNamespaces: Too many: must have at most %d items",
                         CHILD_NAMES_MAX);
}

/* Those of the list; and with both lists those that there are of the hashes. The caller frees
 * `items`. */
static struct names find_names(const struct child_options *o)
{
    const struct root_canary *canary = &o->spec->canary;
    size_t more = child_needs_namespaces(o->spec) ? o->namespaces.count : 0;
    size_t cap = (size_t)cJSON_GetArraySize(canary->namespaces) + more;
    struct names out = {.items = xcalloc(cap + 1, sizeof *out.items)};
    const cJSON *item;
    cJSON_ArrayForEach(item, canary->namespaces)
    {
        out.items[out.count++] = item->valuestring;
    }
    for (size_t i = 0; i < more; i++) {
        if ((canary->buckets >> sharding_hash(o->namespaces.names[i]) & 1) != 0) {
            out.items[out.count++] = o->namespaces.names[i];
        }
    }
    sort_names(&out);
    return out;
}

/* ---- limits ---- */

/* What a shard asks for beside what all do. */
struct share {
    char hash_key[NAMES_KEY_SIZE];
    char namespace_key[NAMES_KEY_SIZE];
    bool by_hash;
    uint32_t buckets;
    const char *by_name; /* In, NotIn; NULL: not at all */
    struct names names;
    const cJSON *kept; /* all that it asks for; NULL: what is above */
};

static void find_share(const struct child_options *o, const struct layout_shard *shard,
                       const struct names *names, struct share *out)
{
    const struct root_canary *canary = &o->spec->canary;
    bool by_buckets = shard->number != 0 || shard->leaving || shard->taken_over;
    *out = (struct share){.names = *names, .kept = o->keeps && shard->number == 0 ? o->had : NULL};
    names_key(o->labels->prefix, o->labels->shard_hash, out->hash_key);
    names_key(o->labels->prefix, o->labels->namespace, out->namespace_key);
    if (by_buckets) {
        bool excludes = names->count > 0 && shard->buckets != 0 && !shard->with_canary;
        out->by_hash = true;
        out->buckets = shard->buckets;
        out->by_name = excludes ? "NotIn" : NULL;
    } else if (names->count > 0) {
        out->by_name = "In";
    } else {
        out->by_hash = true;
        out->buckets = canary->buckets;
    }
}

/* The values of a new requirement. */
static cJSON *add_requirement(struct edit *ed, cJSON *expressions, const char *key,
                              const char *operator)
{
    cJSON *requirement = edit_append_object(ed, expressions);
    edit_string(ed, requirement, "key", key);
    edit_string(ed, requirement, "operator", operator);
    return edit_array(ed, requirement, "values");
}

static void add_share(struct edit *ed, cJSON *limit, const struct share *share)
{
    cJSON *selector = edit_object(ed, limit, "selector");
    cJSON *expressions = edit_array(ed, selector, "matchExpressions");
    if (share->kept != NULL) {
        edit_append(ed, expressions, cJSON_Duplicate(share->kept, true));
        return;
    }
    if (share->by_hash) {
        cJSON *values = add_requirement(ed, expressions, share->hash_key, "In");
        for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
            if ((share->buckets >> i & 1) != 0) {
                edit_append_format(ed, values, "%u", i);
            }
        }
    }
    if (share->by_name != NULL) {
        cJSON *values = add_requirement(ed, expressions, share->namespace_key, share->by_name);
        for (size_t i = 0; i < share->names.count; i++) {
            edit_append_string(ed, values, share->names.items[i]);
        }
    }
}

static void add_limits(struct edit *ed, cJSON *spec, const cJSON *resources,
                       const struct share *share)
{
    cJSON *limits = cJSON_Duplicate(resources, true);
    cJSON *limit;
    cJSON_ArrayForEach(limit, limits)
    {
        cJSON *wrapped = cJSON_GetObjectItemCaseSensitive(limit, "objectSelector");
        add_share(ed, cJSON_IsObject(wrapped) ? wrapped : limit, share);
    }
    edit_set(ed, spec, "limits", limits);
}

/* ---- pods ---- */

static bool is_pod_name(const cJSON *requirement)
{
    return strcmp(field_text(requirement, "key"), POD_NAME_LABEL) == 0;
}

bool child_drops_pod_names(const cJSON *root)
{
    const cJSON *selector = field_get(field_get(root, "spec"), "selector");
    const cJSON *item;
    cJSON_ArrayForEach(item, field_get(selector, "matchExpressions"))
    {
        if (is_pod_name(item)) {
            return true;
        }
    }
    return field_get(field_get(selector, "matchLabels"), POD_NAME_LABEL) != NULL;
}

static void drop_pod_names(cJSON *selector)
{
    cJSON *expressions = cJSON_GetObjectItemCaseSensitive(selector, "matchExpressions");
    cJSON *item = expressions == NULL ? NULL : expressions->child;
    while (item != NULL) {
        cJSON *next = item->next;
        if (is_pod_name(item)) {
            cJSON_Delete(cJSON_DetachItemViaPointer(expressions, item));
        }
        item = next;
    }
    cJSON *labels = cJSON_GetObjectItemCaseSensitive(selector, "matchLabels");
    cJSON_DeleteItemFromObjectCaseSensitive(labels, POD_NAME_LABEL);
}

/* The name of a pod, or of a shard of a Deployment, is the value of a label, which is bounded more
 * narrowly than names are. */
static int check_pods(const struct root_spec *spec, const struct layout_shard *shard,
                      const char *name, struct err *e)
{
    if (spec->deployment) {
        return strlen(name) <= NAME_LABEL_MAX
                   ? 0
                   : err_set(e, -ENAMETOOLONG,
                             "spec.root.prefix: Invalid value: \"%.253s\": names of shards, as "
                             "%.253s, have more than %d characters, so that the label " POD_SHARD
                             " of pods cannot hold them: take a shorter one",
                             spec->prefix, name, NAME_LABEL_MAX);
    }
    int n = snprintf(NULL, 0, "%s-%u", spec->target, shard->first + shard->pods);
    return n <= NAME_LABEL_MAX
               ? 0
               : err_set(e, -ENAMETOOLONG,
                         "spec.root.targetStatefulSet: Invalid value: \"%.253s\": names of its "
                         "pods have more than %d characters, so that label " POD_NAME_LABEL
                         " cannot hold them",
                         spec->target, NAME_LABEL_MAX);
}

static void add_pods(struct edit *ed, cJSON *spec, const struct child_options *o,
                     const struct layout_shard *shard, const char *name)
{
    const cJSON *given = field_get(field_get(o->root, "spec"), "selector");
    if (given != NULL) {
        edit_set(ed, spec, "selector", cJSON_Duplicate(given, true));
    }
    cJSON *selector = edit_object(ed, spec, "selector");
    drop_pod_names(selector);
    if (o->spec->deployment) {
        char key[NAMES_KEY_SIZE];
        names_key(o->labels->prefix, POD_SHARD, key);
        cJSON *labels = edit_object(ed, selector, "matchLabels");
        cJSON_DeleteItemFromObjectCaseSensitive(labels, key);
        edit_string(ed, labels, key, name);
        return;
    }
    cJSON *expressions = edit_array(ed, selector, "matchExpressions");
    cJSON *values = add_requirement(ed, expressions, POD_NAME_LABEL, "In");
    for (unsigned i = 0; i < shard->pods; i++) {
        edit_append_format(ed, values, "%s-%u", o->spec->target, shard->first + i);
    }
}

/* ---- the whole ---- */

static void add_owner(struct edit *ed, cJSON *meta, const cJSON *root)
{
    const char *uid = field_meta(root, "uid");
    if (uid[0] == '\0') {
        return;
    }
    cJSON *owner = edit_append_object(ed, edit_array(ed, meta, "ownerReferences"));
    edit_string(ed, owner, "apiVersion", field_text(root, "apiVersion"));
    edit_string(ed, owner, "kind", field_text(root, "kind"));
    edit_string(ed, owner, "name", field_meta(root, "name"));
    edit_string(ed, owner, "uid", uid);
    edit_bool(ed, owner, "controller", true);
}

/* The load of normal shards is counted where buckets may move for its sake. */
static void add_annotations(struct edit *ed, cJSON *meta, const char *prefix,
                            const struct root_spec *spec, const struct layout_shard *shard)
{
    char key[NAMES_KEY_SIZE];
    char text[BUCKETS_TEXT_SIZE];
    bool normal = shard->number != 0;
    if (!normal && !shard->taken_over && !spec->deployment) {
        return;
    }
    cJSON *annotations = edit_object(ed, meta, "annotations");
    if (spec->deployment) {
        (void)snprintf(text, sizeof text, "%u", shard->pods);
        edit_string(ed, annotations, names_key(prefix, ROOT_PODS, key), text);
    }
    if (spec->deployment && shard->leaving) {
        edit_string(ed, annotations, names_key(prefix, ROOT_LEAVING, key), "true");
    }
    if (normal) {
        names_key(prefix, ROOT_BUCKETS, key);
        buckets_print(shard->buckets, text);
        edit_string(ed, annotations, key, text);
    }
    if (shard->taken_over) {
        names_key(prefix, ROOT_TAKEN_OVER, key);
        edit_string(ed, annotations, key, "true");
    }
    if (normal && spec->automatic.moves_per_hour > 0) {
        names_key(prefix, SIDECAR_COUNT_LOAD, key);
        edit_string(ed, annotations, key, "true");
    }
}

static void add_meta(struct edit *ed, cJSON *child, const struct child_options *o,
                     const struct layout_shard *shard, const char *name)
{
    char key[NAMES_KEY_SIZE];
    cJSON *meta = edit_object(ed, child, "metadata");
    edit_string(ed, meta, "name", name);
    edit_string(ed, meta, "namespace", o->ns);
    names_key(o->labels->prefix, ROOT_LABEL, key);
    edit_string(ed, edit_object(ed, meta, "labels"), key, field_meta(o->root, "name"));
    add_annotations(ed, meta, o->labels->prefix, o->spec, shard);
    add_owner(ed, meta, o->root);
}

/* All but what each shard has of its own. */
static void copy_fields(struct edit *ed, cJSON *spec, const cJSON *root)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, field_get(root, "spec"))
    {
        bool own = strcmp(item->string, "root") == 0 || strcmp(item->string, "limits") == 0 ||
                   strcmp(item->string, "selector") == 0;
        if (!own && !cJSON_IsNull(item)) {
            edit_set(ed, spec, item->string, cJSON_Duplicate(item, true));
        }
    }
}

static int check_names(const struct child_options *o, const struct layout_shard *shard,
                       char name[CHILD_NAME_SIZE], struct err *e)
{
    const char *root = field_meta(o->root, "name");
    if (strlen(root) > NAME_LABEL_MAX) {
        return err_set(e, -ENAMETOOLONG,
                       "metadata.name: Invalid value: \"%.100s\": must be no more than %d "
                       "characters, for it is a label of the shards",
                       root, NAME_LABEL_MAX);
    }
    if (child_name(o->spec, shard->number, name) != 0 ||
        strlen(name) > (size_t)RULES_MAP_SHARD_MAX) {
        return err_set(e, -ENAMETOOLONG,
                       "spec.root.prefix: Invalid value: \"%.100s...\": names of shards have more "
                       "than %d characters, and their rules are published in ConfigMaps "
                       "\"" RULES_MAP_PREFIX "<name>\"",
                       o->spec->prefix, RULES_MAP_SHARD_MAX);
    }
    return check_pods(o->spec, shard, name, e);
}

static cJSON *make(const struct child_options *o, const struct layout_shard *shard,
                   const char *name, const struct share *share)
{
    struct edit ed = {.rc = 0};
    cJSON *child = cJSON_CreateObject();
    edit_string(&ed, child, "apiVersion", field_text(o->root, "apiVersion"));
    edit_string(&ed, child, "kind", field_text(o->root, "kind"));
    add_meta(&ed, child, o, shard, name);
    cJSON *spec = edit_object(&ed, child, "spec");
    add_pods(&ed, spec, o, shard, name);
    copy_fields(&ed, spec, o->root);
    add_limits(&ed, spec, o->spec->resources, share);
    return xptr(edit_result(&ed, child)); /* root_spec_read has looked at the selectors */
}

cJSON *child_make(const struct child_options *o, const struct layout_shard *shard, struct err *e)
{
    char name[CHILD_NAME_SIZE];
    struct share share;
    cJSON *child = NULL;
    if (check_names(o, shard, name, e) != 0) {
        return NULL;
    }
    struct names names = find_names(o);
    if (check_count(o->spec, names.count, e) == 0) {
        if (o->keeps) {
            drop_kept(o, &names);
        }
        find_share(o, shard, &names, &share);
        child = make(o, shard, name, &share);
    }
    free(names.items);
    return child;
}

/* ---- reading ---- */

static unsigned ordinal_of(const cJSON *pod_name)
{
    const char *name = cJSON_IsString(pod_name) ? pod_name->valuestring : "";
    const char *dash = strrchr(name, '-');
    return dash == NULL ? 0 : (unsigned)strtoul(dash + 1, NULL, 10);
}

/* They stand in their order. */
static void read_pods(const cJSON *child, struct layout_child *out)
{
    const cJSON *selector = field_get(field_get(child, "spec"), "selector");
    const cJSON *item;
    cJSON_ArrayForEach(item, field_get(selector, "matchExpressions"))
    {
        const cJSON *values = field_get(item, "values");
        if (is_pod_name(item) && cJSON_IsArray(values)) {
            out->pods = (unsigned)cJSON_GetArraySize(values);
            out->first = ordinal_of(values->child);
            return;
        }
    }
}

int child_read(const struct root_spec *spec, const cJSON *child, const char *prefix,
               struct layout_child *out)
{
    char key[NAMES_KEY_SIZE];
    int number = child_number(spec, field_meta(child, "name"));
    const cJSON *annotations = field_get(field_get(child, "metadata"), "annotations");
    if (number < 0) {
        return number;
    }
    *out = (struct layout_child){.number = (unsigned)number};
    if (spec->deployment) {
        names_key(prefix, ROOT_PODS, key);
        out->pods = (unsigned)strtoul(field_text(annotations, key), NULL, 10);
    } else {
        read_pods(child, out);
    }
    if (number != 0) {
        names_key(prefix, ROOT_BUCKETS, key);
        if (buckets_parse(field_text(annotations, key), &out->buckets) != 0) {
            out->buckets = 0;
        }
    }
    names_key(prefix, ROOT_TAKEN_OVER, key);
    out->taken_over = strcmp(field_text(annotations, key), "true") == 0;
    return 0;
}
