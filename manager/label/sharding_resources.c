/* SPDX-License-Identifier: Apache-2.0 */
#include "label/sharding_resources.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/xalloc.h"
#include "kube/name.h"
#include "schema/schema.h"
#include "yaml/yaml.h"
#include "json/field.h"

enum {
    TEXT_MAX = 1024 * 1024, /* a ConfigMap is no larger */
    ENTRIES_MAX = 4096,
    NEEDED = DISCOVERY_LIST | DISCOVERY_WATCH | DISCOVERY_PATCH,
};

#define FIELD "groupVersionKinds"

static const char field[] = FIELD;

struct entry {
    const char *group_version; /* "*": any */
    const char *kind;          /* "*": all */
};

struct sharding_resources {
    cJSON *tree; /* that the entries point into; NULL: to constants */
    struct entry *entries;
    size_t count;
    bool events; /* "*" has them */
};

static bool is_any(const char *text)
{
    return strcmp(text, "*") == 0;
}

/* ---- reading ---- */

struct reading {
    struct sharding_resources *out;
    const char *name;
    struct yaml_lines lines;
    struct err *e;
};

/* Puts the place before the message. */
static int wrong(struct reading *r, const cJSON *item)
{
    unsigned line = yaml_line_of(&r->lines, item);
    if (line == 0) {
        err_prefix(r->e, "%s", r->name);
    } else {
        err_prefix(r->e, "%s:%u", r->name, line);
    }
    return -EINVAL;
}

static const char *check_group_version(const char *text)
{
    const char *slash = strchr(text, '/');
    if (is_any(text)) {
        return NULL;
    }
    if (slash == NULL) {
        return name_check_label(slice_str(text));
    }
    const char *why = name_check_subdomain(slice_of(text, (size_t)(slash - text)));
    return why != NULL ? why : name_check_label(slice_str(slash + 1));
}

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static bool is_kind(const char *text)
{
    const char *c = text;
    while (is_letter(*c) || (c != text && *c >= '0' && *c <= '9')) {
        c++;
    }
    return *c == '\0' && c != text && (size_t)(c - text) <= NAME_LABEL_MAX;
}

static int add_kind(struct reading *r, const cJSON *kinds, int index, const cJSON *item)
{
    struct sharding_resources *s = r->out;
    char key[32];
    const char *kind = cJSON_GetStringValue(item);
    (void)snprintf(key, sizeof key, "[%d]", index);
    if (kind == NULL || !(is_kind(kind) || is_any(kind))) {
        (void)err_set(r->e, -EINVAL,
                      "%s[%.200s]%s: Invalid value: must be a kind, as \"Pod\", or \"*\"", field,
                      kinds->string, key);
        return wrong(r, item);
    }
    if (s->count == ENTRIES_MAX) {
        (void)err_set(r->e, -EINVAL, "%s: Too many: must have at most %d kinds", field,
                      ENTRIES_MAX);
        return wrong(r, item);
    }
    s->entries[s->count++] = (struct entry){.group_version = kinds->string, .kind = kind};
    return 0;
}

static int read_kinds(struct reading *r, const cJSON *kinds)
{
    const char *why = check_group_version(kinds->string);
    const cJSON *item;
    int index = 0;
    if (why != NULL) {
        (void)err_set(r->e, -EINVAL, "%s: Invalid value: \"%.100s\": %s", field, kinds->string,
                      why);
        return wrong(r, kinds);
    }
    if (!cJSON_IsArray(kinds)) {
        (void)err_set(r->e, -EINVAL, "%s[%.200s]: Invalid value: must be an array", field,
                      kinds->string);
        return wrong(r, kinds);
    }
    cJSON_ArrayForEach(item, kinds)
    {
        int rc = add_kind(r, kinds, index++, item);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

struct document {
    const cJSON *versions;
    const cJSON *other;
};

static const struct schema_field document_fields[] = {
    {FIELD, SCHEMA_TREE, SCHEMA_MEMBER(struct document, versions), .required = ""},
    {"apiVersion", SCHEMA_TREE, SCHEMA_MEMBER(struct document, other)},
    {"kind", SCHEMA_TREE, SCHEMA_MEMBER(struct document, other)},
};
static const struct schema_object document_object = {
    SCHEMA_OBJECT_OF(document_fields, struct document)};

static int read_document(struct reading *r, const cJSON *document)
{
    struct document d = {.versions = NULL};
    struct schema_reader s = {.memory = NULL};
    const struct schema_path at = SCHEMA_AT(NULL, "", document);
    const cJSON *item;
    if (!cJSON_IsObject(document)) {
        (void)err_set(r->e, -EINVAL, "must be an object with %s", field);
        return wrong(r, document);
    }
    if (schema_read(&s, &document_object, &at, &d) == 0 && !cJSON_IsObject(d.versions)) {
        schema_error(&s, &at, field, "Invalid value: must be an object");
    }
    if (s.first.code != 0) {
        (void)err_set(r->e, s.first.code, "%s", s.first.msg);
        return wrong(r, document);
    }
    cJSON_ArrayForEach(item, d.versions)
    {
        int rc = read_kinds(r, item);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* The text in a ConfigMap; NULL with the error set. */
static const char *text_of(struct reading *r, const cJSON *manifest)
{
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(manifest, "data");
    const char *text = cJSON_GetArraySize(data) == 1 ? cJSON_GetStringValue(data->child) : NULL;
    if (text == NULL) {
        (void)err_set(r->e, -EINVAL, "data: must have exactly one key, with the text");
        (void)wrong(r, data == NULL ? manifest : data);
    }
    return text;
}

/* The tree of the text itself, or of that in a ConfigMap, with its lines. The caller frees. */
static cJSON *read_tree(struct reading *r, struct slice text)
{
    cJSON *tree = yaml_parse(text.ptr, text.len, &r->lines, r->e);
    if (tree == NULL) {
        err_prefix(r->e, "%s", r->name);
        return NULL;
    }
    if (strcmp(field_text(tree, "kind"), "ConfigMap") != 0) {
        return tree;
    }
    cJSON *inner = NULL;
    const char *inside = text_of(r, tree);
    if (inside != NULL) {
        unsigned line = yaml_line_of(&r->lines, cJSON_GetObjectItemCaseSensitive(tree, "data"));
        yaml_lines_deinit(&r->lines);
        inner = yaml_parse(inside, strlen(inside), &r->lines, r->e);
        /* Lines of the text inside do not help: it is the manifest that is looked at. */
        yaml_lines_deinit(&r->lines);
        if (inner == NULL) {
            err_prefix(r->e, "%s:%u: data", r->name, line);
        }
    }
    cJSON_Delete(tree);
    return inner;
}

static struct sharding_resources *new_resources(size_t room)
{
    struct sharding_resources *s = xcalloc(1, sizeof *s);
    s->entries = xcalloc(room, sizeof *s->entries);
    return s;
}

struct sharding_resources *sharding_resources_parse(struct slice text, const char *name,
                                                    struct err *e)
{
    struct err local = ERR_INIT;
    struct reading r = {
        .out = new_resources(ENTRIES_MAX), .name = name, .lines = YAML_LINES_INIT, .e = &local};
    r.out->tree = read_tree(&r, text);
    if (r.out->tree == NULL || read_document(&r, r.out->tree) != 0) {
        xerr(&local);
        sharding_resources_free(r.out);
        r.out = NULL;
        err_set(e, local.code, "%s", local.msg);
    }
    yaml_lines_deinit(&r.lines);
    return r.out;
}

struct sharding_resources *sharding_resources_load(const char *path, struct err *e)
{
    struct buf text = BUF_INIT(TEXT_MAX);
    struct sharding_resources *s = NULL;
    if (file_read(path, &text, e) == 0) {
        s = sharding_resources_parse(buf_slice(&text), path, e);
    }
    if (s == NULL) {
        err_prefix(e, "--sharding-resources");
    }
    buf_reset(&text);
    return s;
}

static struct sharding_resources *from_entries(const struct entry *entries, size_t count)
{
    struct sharding_resources *s = new_resources(count);
    memcpy(s->entries, entries, count * sizeof *entries);
    s->count = count;
    return s;
}

struct sharding_resources *sharding_resources_default(void)
{
    static const struct entry entries[] = {
        {"v1", "Pod"},          {"v1", "Service"},        {"v1", "ConfigMap"},
        {"v1", "Secret"},       {"v1", "ServiceAccount"}, {"v1", "PersistentVolumeClaim"},
        {"v1", "Endpoints"},    {"apps/v1", "*"},         {"batch/v1", "*"},
        {"*", "EndpointSlice"}, /* discovery.k8s.io/v1beta1 before Kubernetes 1.21, v1beta1 or v1 */
    };
    return from_entries(entries, ARRAY_LEN(entries));
}

struct sharding_resources *sharding_resources_everything(void)
{
    static const struct entry entries[] = {{"*", "*"}};
    struct sharding_resources *s = from_entries(entries, 1);
    s->events = true;
    return s;
}

void sharding_resources_free(struct sharding_resources *s)
{
    if (s != NULL) {
        cJSON_Delete(s->tree);
        free(s->entries);
        free(s);
    }
}

/* ---- what the API server has of it ---- */

struct resolving {
    const struct sharding_resources *s;
    const struct discovery_resource **found;
    size_t count;
    size_t room;
    struct warnings *warnings;
};

static bool can_be_labelled(const struct discovery_resource *d)
{
    return d->namespaced && (d->verbs & NEEDED) == NEEDED;
}

static bool is_of(const struct discovery_resource *d, const char *group_version)
{
    const char *slash = strchr(group_version, '/');
    if (is_any(group_version)) {
        return true;
    }
    size_t len = slash == NULL ? 0 : (size_t)(slash - group_version);
    return strlen(d->group) == len && memcmp(d->group, group_version, len) == 0 &&
           strcmp(d->version, slash == NULL ? group_version : slash + 1) == 0;
}

static void warn_about(const struct resolving *r, const struct entry *entry, const char *what)
{
    warnings_add(r->warnings, "%.200s/%.63s: %s", entry->group_version, entry->kind, what);
}

static void resolve_entry(struct resolving *r, const struct entry *entry,
                          const struct discovery_resource *all, size_t count)
{
    const struct discovery_resource *unfit = NULL;
    bool any = is_any(entry->kind);
    size_t before = r->count;
    for (size_t i = 0; i < count; i++) {
        const struct discovery_resource *d = &all[i];
        bool named =
            any ? r->s->events || strcmp(d->kind, "Event") != 0 : strcmp(d->kind, entry->kind) == 0;
        if (!named || !is_of(d, entry->group_version)) {
            continue;
        }
        if (can_be_labelled(d)) {
            r->found = xptr(grow_array(r->found, r->count, &r->room, sizeof *r->found));
            r->found[r->count++] = d;
        } else {
            unfit = d;
        }
    }
    bool known = unfit != NULL && (any || strcmp(unfit->kind, "Namespace") == 0);
    if (r->count == before && !known) {
        warn_about(r, entry,
                   unfit == NULL        ? "the API server does not serve this kind"
                   : !unfit->namespaced ? "it is not namespaced"
                                        : "it cannot be listed, watched and patched");
    }
}

/* The best version first. */
static int compare_resources(const void *a, const void *b)
{
    const struct discovery_resource *x = *(const struct discovery_resource *const *)a;
    const struct discovery_resource *y = *(const struct discovery_resource *const *)b;
    int order = strcmp(x->group, y->group);
    order = order != 0 ? order : strcmp(x->plural, y->plural);
    order = order != 0 ? order : (int)y->preferred - (int)x->preferred;
    return order != 0 ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

/* Drops all but the first of each. */
static void keep_each_once(struct resolving *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (n == 0 || strcmp(r->found[n - 1]->group, r->found[i]->group) != 0 ||
            strcmp(r->found[n - 1]->plural, r->found[i]->plural) != 0) {
            r->found[n++] = r->found[i];
        }
    }
    r->count = n;
}

static const char *copy_text(char **at, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = memcpy(*at, text, size);
    *at += size;
    return copy;
}

/* The array, with the texts behind it. */
static struct sharding_resource *copy_found(const struct resolving *r)
{
    size_t texts = 1;
    for (size_t i = 0; i < r->count; i++) {
        const struct discovery_resource *d = r->found[i];
        texts += strlen(d->group) + strlen(d->version) + strlen(d->plural) + strlen(d->kind) + 4;
    }
    struct sharding_resource *out = xmalloc(r->count * sizeof *out + texts);
    char *at = (char *)(out + r->count);
    for (size_t i = 0; i < r->count; i++) {
        const struct discovery_resource *d = r->found[i];
        out[i].group = copy_text(&at, d->group);
        out[i].version = copy_text(&at, d->version);
        out[i].plural = copy_text(&at, d->plural);
        out[i].kind = copy_text(&at, d->kind);
    }
    return out;
}

struct sharding_resource *sharding_resources_resolve(const struct sharding_resources *s,
                                                     const struct discovery *d, size_t *count,
                                                     struct warnings *warnings)
{
    struct resolving r = {.s = s, .warnings = warnings};
    size_t all_count;
    const struct discovery_resource *all = discovery_all(d, &all_count);
    for (size_t i = 0; i < s->count; i++) {
        resolve_entry(&r, &s->entries[i], all, all_count);
    }
    if (r.count > 0) {
        qsort(r.found, r.count, sizeof *r.found, compare_resources);
    }
    keep_each_once(&r);
    struct sharding_resource *out = copy_found(&r);
    *count = r.count;
    free(r.found);
    return out;
}
