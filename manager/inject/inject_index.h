/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_index.h - finds what a pod has by name, in a time that does not grow with the pod.
 *
 * Names are the pod's, or another's who outlives the index.
 */
#ifndef MANAGER_INJECT_INJECT_INDEX_H
#define MANAGER_INJECT_INJECT_INDEX_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/table.h"

struct inject_entry;

struct inject_index {
    struct table table;
    struct inject_entry *entries; /* all */
};

struct inject_entry {
    struct table_node node;
    struct inject_entry *before; /* in the order in which they came */
    struct inject_entry *same;   /* others of the name */
    cJSON *item;                 /* NULL: there is only the name */
    bool indexed;                /* `inner` knows what the item has */
    struct inject_index inner;
};

/* Empty. */
void inject_index_init(struct inject_index *x);
void inject_index_deinit(struct inject_index *x);

/* One more; of several with a name the first one is found. */
void inject_index_add(struct inject_index *x, const char *name, cJSON *item);
/* All that a list has; what has no name is passed over. */
void inject_index_add_list(struct inject_index *x, const cJSON *list);

/* NULL: there is none. */
struct inject_entry *inject_index_find(const struct inject_index *x, const char *name);

#endif
