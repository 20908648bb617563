/* SPDX-License-Identifier: Apache-2.0 */
#include "route/entries_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/table.h"
#include "base/xalloc.h"
#include "json/field.h"
#include "json/json.h"

/* ---- what fits ---- */

struct taken_name {
    struct table_node node;
    char text[];
};

/* What those that come before have used up. */
struct room {
    size_t entries;
    size_t bytes;
    struct table names;
};

static int compare_rank(const void *left, const void *right)
{
    const struct entries_claim *a = *(struct entries_claim *const *)left;
    const struct entries_claim *b = *(struct entries_claim *const *)right;
    if (a->has_entries != b->has_entries) {
        return a->has_entries ? -1 : 1;
    }
    int order = strcmp(a->created, b->created);
    return order != 0 ? order : strcmp(a->configuration, b->configuration);
}

static size_t bytes_of(const cJSON *entries)
{
    struct buf text = BUF_INIT(ENTRIES_BYTES_MAX);
    size_t bytes = xrc(json_canonical(entries, &text)) == 0 ? text.len : ENTRIES_BYTES_MAX + 1;
    buf_reset(&text);
    return bytes;
}

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

static void take(struct room *r, const struct entries_claim *c, size_t bytes)
{
    const cJSON *item;
    r->entries += (size_t)cJSON_GetArraySize(c->entries);
    r->bytes += bytes;
    cJSON_ArrayForEach(item, c->entries)
    {
        struct slice name = slice_str(field_text(item, "name"));
        (void)xptr(TABLE_PROVIDE(&r->names, name, struct taken_name, text));
    }
}

static void fit(struct room *r, struct entries_claim *c)
{
    size_t bytes = bytes_of(c->entries);
    c->fits = r->entries + (size_t)cJSON_GetArraySize(c->entries) <= ENTRIES_MAX &&
              r->bytes + bytes <= ENTRIES_BYTES_MAX && !has_name_twice(r, c->entries);
    if (c->fits) {
        take(r, c, bytes);
    }
}

static void room_deinit(struct room *r)
{
    struct table_node *next;
    for (struct table_node *n = table_next(&r->names, NULL); n != NULL; n = next) {
        next = table_next(&r->names, n);
        free(LIST_ITEM(n, struct taken_name, node));
    }
    table_deinit(&r->names);
}

void entries_list_fit(struct entries_claim *claims, size_t count)
{
    struct room room = {.entries = 0};
    struct entries_claim **ranked = xmalloc((count + 1) * sizeof(struct entries_claim *));
    for (size_t i = 0; i < count; i++) {
        ranked[i] = &claims[i];
    }
    qsort(ranked, count, sizeof(struct entries_claim *), compare_rank);
    for (size_t i = 0; i < count; i++) {
        fit(&room, ranked[i]);
    }
    room_deinit(&room);
    free(ranked);
}

/* ---- the object ---- */

static int compare_names(const void *left, const void *right)
{
    const struct entries_claim *a = *(const struct entries_claim *const *)left;
    const struct entries_claim *b = *(const struct entries_claim *const *)right;
    return strcmp(a->configuration, b->configuration);
}

static void append_copies(cJSON *all, const cJSON *entries)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, entries)
    {
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
        if (sorted[i]->fits) {
            append_copies(all, sorted[i]->entries);
        }
    }
    free(sorted);
    return all;
}
