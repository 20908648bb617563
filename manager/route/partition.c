/* SPDX-License-Identifier: Apache-2.0 */
#include "route/partition.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

void partition_init(struct partition *p)
{
    *p = (struct partition){.count = 0};
    for (size_t i = 0; i < SHARDING_HASH_SIZE; i++) {
        p->hashes[i] = PARTITION_REST;
    }
}

void partition_deinit(struct partition *p)
{
    free(p->names);
    free(p->text);
    partition_init(p);
}

static int compare_names(const void *left, const void *right)
{
    const struct partition_name *a = left;
    const struct partition_name *b = right;
    return strcmp(a->name, b->name);
}

/* The first one of each; qsort may change the order of equal ones, so places decide. */
struct placed {
    struct partition_name name;
    size_t place;
};

static int compare_placed(const void *left, const void *right)
{
    const struct placed *a = left;
    const struct placed *b = right;
    int order = strcmp(a->name.name, b->name.name);
    return order != 0 ? order : (a->place > b->place) - (a->place < b->place);
}

static size_t keep_first(struct placed *list, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(list[i].name.name, list[kept - 1].name.name) != 0) {
            list[kept++] = list[i];
        }
    }
    return kept < PARTITION_NAMES_MAX ? kept : PARTITION_NAMES_MAX;
}

static void copy_names(struct partition *p, const struct placed *list, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += strlen(list[i].name.name) + 1;
    }
    p->names = xmalloc((count + 1) * sizeof *p->names);
    p->text = xmalloc(bytes + 1);
    p->count = count;
    char *at = p->text;
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(list[i].name.name) + 1;
        p->names[i] = (struct partition_name){.name = at, .owner = list[i].name.owner};
        memcpy(at, list[i].name.name, size);
        at += size;
    }
}

void partition_set_names(struct partition *p, const struct partition_name *names, size_t count)
{
    struct placed *list = xmalloc((count + 1) * sizeof *list);
    for (size_t i = 0; i < count; i++) {
        list[i] = (struct placed){.name = names[i], .place = i};
    }
    qsort(list, count, sizeof *list, compare_placed);
    free(p->names);
    free(p->text);
    copy_names(p, list, keep_first(list, count));
    free(list);
}

int partition_owner(const struct partition *p, const char *ns)
{
    const struct partition_name key = {.name = ns};
    const struct partition_name *found =
        p->count == 0 ? NULL : bsearch(&key, p->names, p->count, sizeof key, compare_names);
    return found != NULL ? found->owner : p->hashes[sharding_hash(ns)];
}

bool partition_equal(const struct partition *a, const struct partition *b)
{
    bool same = a->count == b->count && memcmp(a->hashes, b->hashes, sizeof a->hashes) == 0;
    for (size_t i = 0; i < a->count && same; i++) {
        same = a->names[i].owner == b->names[i].owner &&
               strcmp(a->names[i].name, b->names[i].name) == 0;
    }
    return same;
}

bool partition_has(const struct partition *p, int owner)
{
    bool found = false;
    for (size_t i = 0; i < SHARDING_HASH_SIZE && !found; i++) {
        found = p->hashes[i] == owner;
    }
    for (size_t i = 0; i < p->count && !found; i++) {
        found = p->names[i].owner == owner;
    }
    return found;
}
