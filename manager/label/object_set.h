/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object_set.h - a set of objects of one resource, of which it keeps 8 bytes each.
 *
 * Two objects of the same hash count as one: with 100,000 objects the chance is one in four
 * thousand million.
 */
#ifndef MANAGER_LABEL_OBJECT_SET_H
#define MANAGER_LABEL_OBJECT_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: empty. */
struct object_set {
    uint64_t *slots; /* 0: free */
    size_t room;     /* a power of two, or 0 */
    size_t count;
};

/* True: it was not there. */
bool object_set_add(struct object_set *s, const char *ns, const char *name);
/* True: it was there. */
bool object_set_remove(struct object_set *s, const char *ns, const char *name);
/* Frees the memory: it is empty again. */
void object_set_clear(struct object_set *s);

#endif
