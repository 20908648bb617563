/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/namespace_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/heap_size.h"
#include "base/list.h"
#include "base/xalloc.h"
#include "json/field.h"

bool namespace_is_system(const char *name)
{
    static const char *const system[] = {"kube-system", "kube-public", "kube-node-lease"};
    return ARRAY_HAS(system, name);
}

bool namespace_set_leaves_out(const struct namespace_set *s, const char *name)
{
    bool own = s->own != NULL && strcmp(s->own, name) == 0;
    return !s->system && (own || namespace_is_system(name));
}

/* ---- one ---- */

struct lengths {
    uint16_t key;
    uint16_t value;
};

static struct namespace_entry *entry_of(struct table_node *n)
{
    return n == NULL ? NULL : LIST_ITEM(n, struct namespace_entry, item.node);
}

static const char *labels_of(const struct namespace_entry *e)
{
    return e->text + strlen(e->text) + 1;
}

static size_t entry_size(const struct namespace_entry *e)
{
    return sizeof *e + strlen(e->text) + 1 + e->bytes;
}

/* What is no text is no label; `null` is "", as the API server has it. */
static const char *value_of(const cJSON *label)
{
    return cJSON_IsNull(label) ? "" : cJSON_GetStringValue(label);
}

struct labels_size {
    uint32_t count;
    size_t bytes;
};

static struct labels_size measure(const cJSON *labels)
{
    struct labels_size size = {.count = 0};
    const cJSON *label;
    cJSON_ArrayForEach(label, labels)
    {
        const char *value = value_of(label);
        if (value != NULL) {
            size.count++;
            size.bytes += sizeof(struct lengths) + strlen(label->string) + strlen(value);
        }
    }
    return size;
}

static char *write_label(char *to, const char *key, const char *value)
{
    const struct lengths len = {.key = (uint16_t)strlen(key), .value = (uint16_t)strlen(value)};
    memcpy(to, &len, sizeof len);
    memcpy(to + sizeof len, key, len.key);
    memcpy(to + sizeof len + len.key, value, len.value);
    return to + sizeof len + len.key + len.value;
}

static struct namespace_entry *make_entry(const char *name, const cJSON *labels)
{
    struct labels_size size = measure(labels);
    bool too_many = size.count > NAMESPACE_LABELS_MAX || size.bytes > NAMESPACE_LABELS_BYTES_MAX;
    size = too_many ? (struct labels_size){.count = 0} : size;
    size_t name_size = strlen(name) + 1;
    struct namespace_entry *e = xcalloc(1, sizeof *e + name_size + size.bytes);
    e->too_many = too_many;
    e->count = (uint16_t)size.count;
    e->bytes = (uint16_t)size.bytes;
    e->item.node.key = memcpy(e->text, name, name_size);
    char *to = e->text + name_size;
    const cJSON *label;
    cJSON_ArrayForEach(label, labels)
    {
        const char *value = value_of(label);
        if (value != NULL && !too_many) {
            to = write_label(to, label->string, value);
        }
    }
    return e;
}

static bool same(const struct namespace_entry *a, const struct namespace_entry *b)
{
    return a->too_many == b->too_many && a->count == b->count && a->bytes == b->bytes &&
           memcmp(labels_of(a), labels_of(b), a->bytes) == 0;
}

bool namespace_entry_matches(const struct namespace_entry *e, const struct selector *s)
{
    struct selector_label labels[NAMESPACE_LABELS_MAX];
    if (e == NULL || e->too_many) {
        return false;
    }
    const char *at = labels_of(e);
    for (uint32_t i = 0; i < e->count; i++) {
        struct lengths len;
        memcpy(&len, at, sizeof len);
        at += sizeof len;
        labels[i].key = slice_of(at, len.key);
        labels[i].value = slice_of(at + len.key, len.value);
        at += len.key + len.value;
    }
    return selector_matches(s, labels, e->count);
}

/* ---- all ---- */

bool namespace_set_make(const struct namespace_set *s, const cJSON *object,
                        struct namespace_entry **entry)
{
    const char *name = field_meta(object, "name");
    if (namespace_set_leaves_out(s, name)) {
        return false;
    }
    const cJSON *labels = s->names_only ? NULL : field_map(field_get(object, "metadata"), "labels");
    struct namespace_entry *e = make_entry(name, labels);
    if (*entry != NULL && same(*entry, e)) {
        free(e);
        return false;
    }
    *entry = e;
    return true;
}

bool namespace_set_put(struct namespace_set *s, const cJSON *object,
                       struct namespace_entry **before)
{
    struct namespace_entry *old = namespace_set_find(s, field_meta(object, "name"));
    struct namespace_entry *e = old;
    *before = NULL;
    if (!namespace_set_make(s, object, &e)) {
        return false;
    }
    if (old != NULL) {
        table_remove(&s->entries, &old->item.node);
    }
    xok(table_insert(&s->entries, &e->item.node, e->text));
    *before = old;
    return true;
}

struct namespace_entry *namespace_set_find(const struct namespace_set *s, const char *name)
{
    return entry_of(table_find(&s->entries, name));
}

struct namespace_entry *namespace_set_next(const struct namespace_set *s,
                                           const struct namespace_entry *e)
{
    return entry_of(table_next(&s->entries, e == NULL ? NULL : &e->item.node));
}

size_t namespace_set_select(const struct namespace_set *set, const struct selector *s,
                            const char **names, size_t room)
{
    size_t count = 0;
    for (const struct namespace_entry *e = NULL; (e = namespace_set_next(set, e)) != NULL;) {
        if (namespace_entry_matches(e, s)) {
            if (count < room) {
                names[count] = namespace_entry_name(e);
            }
            count++;
        }
    }
    if (count <= room && count > 1) {
        qsort(names, count, sizeof *names, array_compare_texts);
    }
    return count;
}

struct namespace_set *namespace_set_copy(const struct namespace_set *s)
{
    struct namespace_set *copy = xcalloc(1, sizeof *copy);
    copy->own = s->own;
    copy->system = s->system;
    copy->names_only = s->names_only;
    copy->missing = s->missing == NULL ? NULL : "the namespaces are not known yet";
    for (const struct namespace_entry *e = NULL; (e = namespace_set_next(s, e)) != NULL;) {
        struct namespace_entry *other = memcpy(xmalloc(entry_size(e)), e, entry_size(e));
        xok(table_insert(&copy->entries, &other->item.node, other->text));
    }
    return copy;
}

void namespace_set_free(struct namespace_set *copy)
{
    if (copy != NULL) {
        namespace_set_deinit(copy);
        free(copy);
    }
}

void namespace_set_deinit(struct namespace_set *s)
{
    for (struct namespace_entry *e = NULL; (e = namespace_set_next(s, NULL)) != NULL;) {
        table_remove(&s->entries, &e->item.node);
        free(e);
    }
    table_deinit(&s->entries);
}
