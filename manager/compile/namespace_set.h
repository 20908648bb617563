/* SPDX-License-Identifier: Apache-2.0 */
/*
 * namespace_set.h - namespaces with their labels, in little memory: what limits by
 * namespaceSelector are compiled to.
 *
 * Left out are those whose objects get no control labels: a limit by names shows none of them.
 */
#ifndef MANAGER_COMPILE_NAMESPACE_SET_H
#define MANAGER_COMPILE_NAMESPACE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/table.h"
#include "kube/client/informer.h"
#include "kube/selector.h"

/* Labels of one namespace, and bytes of them. One with more is not selected by any selector. */
#define NAMESPACE_LABELS_MAX 128
#define NAMESPACE_LABELS_BYTES_MAX ((size_t)16 * 1024)

struct namespace_set {
    struct table entries;
    const char *own;     /* the manager's, left out as system namespaces are; NULL: none; kept */
    bool system;         /* none is left out */
    bool names_only;     /* no labels are kept */
    const char *missing; /* what messages say of them as long as they are not known; NULL: they are;
                            kept */
};

/* One of them. */
struct namespace_entry {
    struct informer_item item;
    bool too_many;  /* labels, none of which is kept */
    uint16_t count; /* of labels */
    uint16_t bytes; /* of `text` behind the name */
    char text[];    /* the name and its NUL; then of each label two lengths, key and value */
};

static inline const char *namespace_entry_name(const struct namespace_entry *e)
{
    return e->text;
}

/* One of Kubernetes' own, kube-system and so on: their objects get no control labels unless the
 * manager is told to set them. */
bool namespace_is_system(const char *name);
bool namespace_set_leaves_out(const struct namespace_set *s, const char *name);

/* What is known of a namespace as an informer keeps it (informer_kind.keep): *entry is what was,
 * and becomes what is. The set itself stays as it is. Whether it is new or other than before. */
bool namespace_set_make(const struct namespace_set *s, const cJSON *object,
                        struct namespace_entry **entry);
/* `object` is a Namespace: its labels are those that are kept from now on. *before is what was
 * known of it, which the caller frees; NULL: nothing, or just the same. Returns true: it is new or
 * other than before; false: it is as before, or left out. */
bool namespace_set_put(struct namespace_set *s, const cJSON *object,
                       struct namespace_entry **before);
/* NULL: it is not there. */
struct namespace_entry *namespace_set_find(const struct namespace_set *s, const char *name);
/* One after the other, in no order; NULL begins, and ends. */
struct namespace_entry *namespace_set_next(const struct namespace_set *s,
                                           const struct namespace_entry *e);

/* Whether its labels match; `e` NULL: no. */
bool namespace_entry_matches(const struct namespace_entry *e, const struct selector *s);

/* Whose labels match: returns how many they are, and puts the names there, sorted, if there is room
 * for all. */
size_t namespace_set_select(const struct namespace_set *set, const struct selector *s,
                            const char **names, size_t room);

/* As it is now, for another thread, which may not look at one that changes: to be freed by
 * namespace_set_free. `own` is kept as it is. */
struct namespace_set *namespace_set_copy(const struct namespace_set *s);
/* NULL is ignored. */
void namespace_set_free(struct namespace_set *copy);

void namespace_set_deinit(struct namespace_set *s);

#endif
