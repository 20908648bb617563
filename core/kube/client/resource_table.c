/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/resource_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/grow.h"
#include "base/xalloc.h"
#include "kube/name.h"
#include "json/field.h"

/* Strings of one resource, in one block. */
struct resource_text {
    struct resource_text *next;
    char bytes[];
};

void resource_table_deinit(struct resource_table *t)
{
    for (struct resource_text *text = t->texts, *next; text != NULL; text = next) {
        next = text->next;
        free(text);
    }
    free(t->items);
    *t = (struct resource_table){0};
}

int discovery_path(const struct discovery_resource *r, const char *namespace, struct buf *out)
{
    bool core = r->group[0] == '\0';
    buf_printf(out, "%s%s/%s", core ? "/api" : "/apis/", r->group, r->version);
    if (namespace != NULL && r->namespaced) {
        buf_printf(out, "/namespaces/%s", namespace);
    }
    return buf_printf(out, "/%s", r->plural);
}

/* ---- adding ---- */

static const char *copy_text(char **at, const char *text)
{
    char *copy = *at;
    size_t size = strlen(text) + 1;
    memcpy(copy, text, size);
    *at += size;
    return copy;
}

static bool is_group(const char *text)
{
    return text[0] == '\0' || name_check_subdomain(slice_str(text)) == NULL;
}

static bool is_label(const char *text)
{
    return name_check_label(slice_str(text)) == NULL;
}

/* Texts are copied. */
static void add_resource(struct resource_table *t, const struct discovery_resource *r)
{
    if (t->count >= RESOURCE_TABLE_MAX || !is_label(r->plural) || r->kind[0] == '\0') {
        return;
    }
    size_t size = strlen(r->group) + strlen(r->version) + strlen(r->kind) + strlen(r->plural) + 4;
    struct resource_text *text = xmalloc(sizeof *text + size);
    text->next = t->texts;
    t->texts = text;
    char *at = text->bytes;
    t->items = xptr(grow_array(t->items, t->count, &t->room, sizeof *r));
    struct discovery_resource *copy = &t->items[t->count++];
    *copy = *r;
    copy->group = copy_text(&at, r->group);
    copy->version = copy_text(&at, r->version);
    copy->kind = copy_text(&at, r->kind);
    copy->plural = copy_text(&at, r->plural);
}

static void add_version(struct list *versions, const char *group, const char *version,
                        unsigned rank, bool stale)
{
    size_t size = strlen(group) + strlen(version) + 2;
    if (!is_group(group) || !is_label(version)) {
        return;
    }
    struct resource_version *v = xcalloc(1, sizeof *v + size);
    char *at = v->text;
    v->group = copy_text(&at, group);
    v->version = copy_text(&at, version);
    v->rank = rank;
    v->stale = stale;
    list_append(versions, &v->link);
}

void resource_table_copy(struct resource_table *t, const struct resource_table *from,
                         const char *group, const char *version)
{
    for (size_t i = 0; i < from->count; i++) {
        const struct discovery_resource *r = &from->items[i];
        if (strcmp(r->group, group) == 0 && (version == NULL || strcmp(r->version, version) == 0)) {
            add_resource(t, r);
        }
    }
}

void resource_table_copy_groups(struct resource_table *t, const struct resource_table *from)
{
    for (size_t i = 0; i < from->count; i++) {
        if (from->items[i].group[0] != '\0') {
            add_resource(t, &from->items[i]);
        }
    }
}

/* ---- documents ---- */

static unsigned verbs_of(const cJSON *resource)
{
    static const char *const names[] = {"get",    "list",  "watch",  "create",
                                        "update", "patch", "delete", "deletecollection"};
    unsigned verbs = 0;
    const cJSON *verb;
    cJSON_ArrayForEach(verb, field_get(resource, "verbs"))
    {
        for (size_t i = 0; cJSON_IsString(verb) && i < ARRAY_LEN(names); i++) {
            verbs |= strcmp(verb->valuestring, names[i]) == 0 ? 1u << i : 0;
        }
    }
    return verbs;
}

int resource_table_add_list(struct resource_table *t, const cJSON *document,
                            const struct resource_version *version, struct err *e)
{
    const cJSON *item;
    if (strcmp(field_text(document, "kind"), "APIResourceList") != 0) {
        return err_set(e, -EINVAL, "not an APIResourceList");
    }
    cJSON_ArrayForEach(item, field_get(document, "resources"))
    {
        struct discovery_resource r = {
            .group = version->group,
            .version = version->version,
            .kind = field_text(item, "kind"),
            .plural = field_text(item, "name"),
            .namespaced = cJSON_IsTrue(field_get(item, "namespaced")),
            .verbs = verbs_of(item),
            .rank = version->rank,
        };
        add_resource(t, &r);
    }
    return 0;
}

/* Of an APIGroupDiscoveryList. */
static void add_discovered(struct resource_table *t, const cJSON *version, const char *group,
                           unsigned rank)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, field_get(version, "resources"))
    {
        struct discovery_resource r = {
            .group = group,
            .version = field_text(version, "version"),
            .kind = field_text(field_get(item, "responseKind"), "kind"),
            .plural = field_text(item, "resource"),
            .namespaced = strcmp(field_text(item, "scope"), "Namespaced") == 0,
            .verbs = verbs_of(item),
            .rank = rank,
        };
        add_resource(t, &r);
    }
}

/* The versions stand in the order of the group's preference. */
static void add_discovered_group(struct resource_table *t, const cJSON *group,
                                 struct list *versions)
{
    const char *name = field_meta(group, "name");
    const cJSON *version;
    unsigned rank = 0;
    if (!is_group(name)) {
        return;
    }
    cJSON_ArrayForEach(version, field_get(group, "versions"))
    {
        const char *version_name = field_text(version, "version");
        if (is_label(version_name)) {
            add_discovered(t, version, name, rank);
        }
        if (strcmp(field_text(version, "freshness"), "Stale") == 0) {
            add_version(versions, name, version_name, rank, true);
        }
        rank++;
    }
}

/* Of an APIGroupList: there the preferred version is named, usually the first. */
static void name_versions(const cJSON *group, struct list *versions)
{
    const char *preferred = field_text(field_get(group, "preferredVersion"), "version");
    const cJSON *version;
    unsigned rank = 1;
    cJSON_ArrayForEach(version, field_get(group, "versions"))
    {
        const char *name = field_text(version, "version");
        bool first = strcmp(name, preferred) == 0;
        add_version(versions, field_text(group, "name"), name, first ? 0 : rank, false);
        rank++;
    }
}

int resource_table_add_root(struct resource_table *t, const cJSON *document, struct list *versions,
                            struct err *e)
{
    const char *kind = field_text(document, "kind");
    const cJSON *item;
    if (strcmp(kind, "APIGroupDiscoveryList") == 0) {
        cJSON_ArrayForEach(item, field_get(document, "items"))
        {
            add_discovered_group(t, item, versions);
        }
    } else if (strcmp(kind, "APIGroupList") == 0) {
        cJSON_ArrayForEach(item, field_get(document, "groups"))
        {
            name_versions(item, versions);
        }
    } else if (strcmp(kind, "APIVersions") == 0) {
        cJSON_ArrayForEach(item, field_get(document, "versions"))
        {
            if (cJSON_IsString(item)) {
                add_version(versions, "", item->valuestring, 0, false);
            }
        }
    } else {
        return err_set(e, -EINVAL, "not a discovery document");
    }
    return 0;
}

/* ---- order ---- */

static int compare_version(const struct discovery_resource *a, const struct discovery_resource *b)
{
    int order = strcmp(a->group, b->group);
    return order != 0 ? order : strcmp(a->version, b->version);
}

static int compare_resources(const void *left, const void *right)
{
    const struct discovery_resource *a = left;
    const struct discovery_resource *b = right;
    int order = compare_version(a, b);
    return order != 0 ? order : strcmp(a->plural, b->plural);
}

/* The preferred version first. */
static int compare_preference(const void *left, const void *right)
{
    const struct discovery_resource *a = left;
    const struct discovery_resource *b = right;
    int order = strcmp(a->group, b->group);
    order = order != 0 ? order : strcmp(a->plural, b->plural);
    order = order != 0 ? order : (a->rank > b->rank) - (a->rank < b->rank);
    return order != 0 ? order : strcmp(a->version, b->version);
}

static void find_preferred(struct resource_table *t)
{
    qsort(t->items, t->count, sizeof *t->items, compare_preference);
    for (size_t i = 0; i < t->count; i++) {
        const struct discovery_resource *before = i == 0 ? NULL : &t->items[i - 1];
        t->items[i].preferred = before == NULL || strcmp(before->group, t->items[i].group) != 0 ||
                                strcmp(before->plural, t->items[i].plural) != 0;
    }
}

void resource_table_finish(struct resource_table *t)
{
    size_t kept = 0;
    if (t->count == 0) {
        return;
    }
    find_preferred(t);
    qsort(t->items, t->count, sizeof *t->items, compare_resources);
    for (size_t i = 0; i < t->count; i++) {
        if (kept > 0 && compare_resources(&t->items[kept - 1], &t->items[i]) == 0) {
            t->items[kept - 1].preferred |= t->items[i].preferred;
        } else {
            t->items[kept++] = t->items[i];
        }
    }
    t->count = kept;
}

bool resource_table_same(const struct resource_table *a, const struct resource_table *b)
{
    if (a->count != b->count) {
        return false;
    }
    for (size_t i = 0; i < a->count; i++) {
        const struct discovery_resource *x = &a->items[i];
        const struct discovery_resource *y = &b->items[i];
        if (compare_resources(x, y) != 0 || strcmp(x->kind, y->kind) != 0 || x->verbs != y->verbs ||
            x->namespaced != y->namespaced || x->preferred != y->preferred || x->rank != y->rank) {
            return false;
        }
    }
    return true;
}
