/* SPDX-License-Identifier: Apache-2.0 */
#include "route/entries_list.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/keyed_hash.h"
#include "base/list.h"
#include "base/table.h"
#include "base/xalloc.h"
#include "object/json_patch.h"
#include "route/entries.h"
#include "json/edit.h"
#include "json/field.h"
#include "json/json.h"

/* ---- what fits ---- */

struct size {
    size_t entries;
    size_t bytes;
};

struct taken_name {
    struct table_node node;
    char text[];
};

/* An entry of the routes object. */
struct standing {
    struct table_node node;
    size_t bytes;
    char name[];
};

/* A claim, by its rank. */
struct applicant {
    struct entries_claim *claim;
    struct size size; /* of its entries */
    struct size reserved;
};

struct room {
    struct size used;     /* by those that came before */
    struct size reserved; /* for those that come later */
    struct table names;   /* struct taken_name */
    struct table now;     /* struct standing */
};

static int compare_rank(const void *left, const void *right)
{
    const struct entries_claim *a = ((const struct applicant *)left)->claim;
    const struct entries_claim *b = ((const struct applicant *)right)->claim;
    if (a->has_entries != b->has_entries) {
        return a->has_entries ? -1 : 1;
    }
    int order = strcmp(a->created, b->created);
    return order != 0 ? order : strcmp(a->configuration, b->configuration);
}

static size_t bytes_of(const cJSON *json)
{
    struct buf text = BUF_INIT(ENTRIES_BYTES_MAX);
    size_t bytes = xrc(json_canonical(json, &text)) == 0 ? text.len : ENTRIES_BYTES_MAX + 1;
    buf_reset(&text);
    return bytes;
}

static struct size size_of(const cJSON *entries)
{
    return (struct size){(size_t)cJSON_GetArraySize(entries),
                         entries == NULL ? 0 : bytes_of(entries)};
}

static struct size add(struct size a, struct size b)
{
    return (struct size){a.entries + b.entries, a.bytes + b.bytes};
}

static bool is_within(struct size s)
{
    return s.entries <= ENTRIES_MAX && s.bytes <= ENTRIES_BYTES_MAX;
}

/* ---- what is reserved ---- */

static void list_standing(struct room *r, const cJSON *now)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, now)
    {
        struct slice name = slice_str(field_text(item, "name"));
        struct standing *s = xptr(TABLE_PROVIDE(&r->now, name, struct standing, name));
        s->bytes = bytes_of(item) + 1; /* with a comma */
    }
}

/* What the routes object has of these. */
static struct size standing_of(const struct room *r, const cJSON *entries)
{
    struct size has = {.entries = 0};
    const cJSON *item;
    cJSON_ArrayForEach(item, entries)
    {
        struct table_node *n = table_find(&r->now, field_text(item, "name"));
        if (n != NULL) {
            size_t before = LIST_ITEM(n, struct standing, node)->bytes;
            size_t bytes = bytes_of(item) + 1;
            has = add(has, (struct size){1, bytes < before ? bytes : before});
        }
    }
    return has;
}

/* So that what it has stays, or what it must have takes the place of that. */
static struct size reserved_for(const struct room *r, const struct entries_claim *c)
{
    struct size all = standing_of(r, c->entries);
    struct size least = standing_of(r, c->least);
    return (struct size){all.entries > least.entries ? all.entries : least.entries,
                         all.bytes > least.bytes ? all.bytes : least.bytes};
}

/* ---- one claim ---- */

static bool is_taken(const struct room *r, const cJSON *entry)
{
    return table_find(&r->names, field_text(entry, "name")) != NULL;
}

/* The API server wants each name once. An original that came by v1beta1 may have one twice. */
static bool has_name_twice(const struct room *r, const cJSON *entries)
{
    const char **names = xmalloc(((size_t)cJSON_GetArraySize(entries) + 1) * sizeof *names);
    size_t count = 0;
    bool twice = false;
    const cJSON *item;
    cJSON_ArrayForEach(item, entries)
    {
        twice = twice || is_taken(r, item);
        names[count++] = field_text(item, "name");
    }
    qsort(names, count, sizeof *names, array_compare_texts);
    for (size_t i = 1; i < count && !twice; i++) {
        twice = strcmp(names[i], names[i - 1]) == 0;
    }
    free(names);
    return twice;
}

static void take_name(struct room *r, const cJSON *entry)
{
    struct slice name = slice_str(field_text(entry, "name"));
    (void)xptr(TABLE_PROVIDE(&r->names, name, struct taken_name, text));
}

static bool take_room(struct room *r, struct size size)
{
    struct size all = add(r->used, size);
    bool fits = is_within(add(all, r->reserved));
    r->used = fits ? all : r->used;
    return fits;
}

static bool take_entry(struct room *r, const cJSON *entry)
{
    bool fits = !is_taken(r, entry) && take_room(r, (struct size){1, bytes_of(entry) + 1});
    if (fits) {
        take_name(r, entry);
    }
    return fits;
}

static bool take(struct room *r, const cJSON *entries, struct size size)
{
    if (has_name_twice(r, entries) || !take_room(r, size)) {
        return false;
    }
    const cJSON *item;
    cJSON_ArrayForEach(item, entries)
    {
        take_name(r, item);
    }
    return true;
}

/* What was reserved for it is free now. */
static void fit(struct room *r, const struct applicant *a)
{
    struct entries_claim *c = a->claim;
    r->reserved.entries -= a->reserved.entries;
    r->reserved.bytes -= a->reserved.bytes;
    c->fits = take(r, c->entries, a->size);
    c->least_count = 0;
    const cJSON *item;
    const cJSON *least = c->fits ? NULL : c->least;
    cJSON_ArrayForEach(item, least)
    {
        if (!take_entry(r, item)) {
            break;
        }
        c->least_count++;
    }
}

static void free_name(struct table_node *n)
{
    free(LIST_ITEM(n, struct taken_name, node));
}

static void free_standing(struct table_node *n)
{
    free(LIST_ITEM(n, struct standing, node));
}

static void forget(struct table *t, void (*free_node)(struct table_node *n))
{
    struct table_node *next;
    for (struct table_node *n = table_next(t, NULL); n != NULL; n = next) {
        next = table_next(t, n);
        free_node(n);
    }
    table_deinit(t);
}

static void reserve(struct room *r, struct applicant *list, size_t count, const cJSON *now)
{
    list_standing(r, now);
    for (size_t i = 0; i < count; i++) {
        list[i].reserved = reserved_for(r, list[i].claim);
        r->reserved = add(r->reserved, list[i].reserved);
    }
}

void entries_list_fit(struct entries_claim *claims, size_t count, const cJSON *now)
{
    struct room room = {.used = {.entries = 0}};
    struct size all = {.entries = 0};
    struct applicant *list = xcalloc(count + 1, sizeof *list);
    for (size_t i = 0; i < count; i++) {
        list[i] = (struct applicant){.claim = &claims[i], .size = size_of(claims[i].entries)};
        all = add(all, list[i].size);
    }
    if (!is_within(all)) {
        reserve(&room, list, count, now);
    }
    qsort(list, count, sizeof *list, compare_rank);
    for (size_t i = 0; i < count; i++) {
        fit(&room, &list[i]);
    }
    forget(&room.names, free_name);
    forget(&room.now, free_standing);
    free(list);
}

/* ---- the object ---- */

static int compare_names(const void *left, const void *right)
{
    const struct entries_claim *a = *(const struct entries_claim *const *)left;
    const struct entries_claim *b = *(const struct entries_claim *const *)right;
    return strcmp(a->configuration, b->configuration);
}

static void append_copies(cJSON *all, const cJSON *entries, size_t count)
{
    const cJSON *item = entries == NULL ? NULL : entries->child;
    for (size_t i = 0; i < count && item != NULL; i++, item = item->next) {
        (void)cJSON_AddItemToArray(all, xptr(cJSON_Duplicate(item, true)));
    }
}

cJSON *entries_list_join(const struct entries_claim *claims, size_t count)
{
    cJSON *all = xptr(cJSON_CreateArray());
    const struct entries_claim **sorted = xmalloc((count + 1) * sizeof(struct entries_claim *));
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &claims[i];
    }
    qsort(sorted, count, sizeof(struct entries_claim *), compare_names);
    for (size_t i = 0; i < count; i++) {
        const struct entries_claim *c = sorted[i];
        append_copies(all, c->fits ? c->entries : c->least, c->fits ? SIZE_MAX : c->least_count);
    }
    free(sorted);
    return all;
}

/* ---- other installations ---- */

static bool is_foreign(const cJSON *entry, const cJSON *own, const char *control)
{
    bool foreign = false;
    const cJSON *item;
    cJSON_ArrayForEach(item, field_get(field_get(entry, "namespaceSelector"), "matchExpressions"))
    {
        foreign = foreign || strcmp(field_text(item, "operator"), "Exists") == 0;
    }
    return foreign && !entries_is_ours(entry, control) &&
           edit_find(own, "name", field_text(entry, "name")) == NULL;
}

bool entries_list_is(const cJSON *now, const cJSON *own, const char *control)
{
    const cJSON *next = own->child;
    const cJSON *item;
    cJSON_ArrayForEach(item, now)
    {
        if (next != NULL && json_patch_equal(item, next)) {
            next = next->next;
        } else if (!is_foreign(item, own, control)) {
            return false;
        }
    }
    return next == NULL;
}

uint64_t entries_list_hash(const cJSON *now, const char *control)
{
    uint64_t hash = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, now)
    {
        struct buf text = BUF_INIT(SIZE_MAX);
        if (!is_foreign(item, NULL, control) && xrc(json_canonical(item, &text)) == 0) {
            hash = keyed_hash(hash, buf_slice(&text));
        }
        buf_reset(&text);
    }
    return hash;
}

void entries_list_add_foreign(cJSON *own, const cJSON *now, const char *control)
{
    size_t bytes = bytes_of(own);
    cJSON *kept = xptr(cJSON_CreateArray());
    const cJSON *item;
    cJSON_ArrayForEach(item, now)
    {
        size_t more = is_foreign(item, own, control) ? bytes_of(item) + 1 : 0;
        if (more > 0 && bytes + more <= ENTRIES_ALL_BYTES_MAX) {
            bytes += more;
            (void)cJSON_AddItemToArray(kept, xptr(cJSON_Duplicate(item, true)));
        }
    }
    while (kept->child != NULL) {
        (void)cJSON_AddItemToArray(own, cJSON_DetachItemFromArray(kept, 0));
    }
    cJSON_Delete(kept);
}
