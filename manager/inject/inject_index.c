/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_index.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/xalloc.h"
#include "json/field.h"

void inject_index_init(struct inject_index *x)
{
    *x = (struct inject_index){.entries = NULL};
}

void inject_index_deinit(struct inject_index *x)
{
    while (x->entries != NULL) {
        struct inject_entry *n = x->entries;
        x->entries = n->before;
        inject_index_deinit(&n->inner);
        free(n);
    }
    table_deinit(&x->table);
}

void inject_index_add(struct inject_index *x, const char *name, cJSON *item)
{
    struct inject_entry *first = inject_index_find(x, name);
    struct inject_entry *n = xcalloc(1, sizeof *n);
    if (first == NULL) {
        xok(table_insert(&x->table, &n->node, name));
    } else {
        n->same = first->same;
        first->same = n;
    }
    n->item = item;
    n->before = x->entries;
    x->entries = n;
}

void inject_index_add_list(struct inject_index *x, const cJSON *list)
{
    cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        const char *name = cJSON_GetStringValue(field_get(item, "name"));
        if (name != NULL) {
            inject_index_add(x, name, item);
        }
    }
}

struct inject_entry *inject_index_find(const struct inject_index *x, const char *name)
{
    return TABLE_FIND(&x->table, slice_str(name), struct inject_entry);
}
