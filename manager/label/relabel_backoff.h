/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relabel_backoff.h - objects whose labels somebody takes away again and again, as an operator does
 * that writes all labels of its objects: they are labelled ever more seldom, or two programs would
 * keep each other and the API server busy.
 *
 * A table of fixed size: when many objects are labelled at a time, some contests begin anew.
 */
#ifndef MANAGER_LABEL_RELABEL_BACKOFF_H
#define MANAGER_LABEL_RELABEL_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

#define RELABEL_BACKOFF_SLOTS 1024
#define RELABEL_BACKOFF_FREE 3       /* times that an object is labelled without a pause */
#define RELABEL_BACKOFF_MAX_MS 60000 /* longest pause; after twice that all is forgotten */

struct relabel_backoff {
    struct relabel_backoff_slot {
        uint64_t object;
        uint64_t at; /* labelled last: ms */
        unsigned times;
    } slots[RELABEL_BACKOFF_SLOTS];
};

/* The object was labelled. `now`: ms of a clock that never goes back. */
void relabel_backoff_labelled(struct relabel_backoff *c, unsigned resource, const char *ns,
                              const char *name, uint64_t now);

/* It has no labels (any more): how long to wait before it is labelled, in ms; 0: not at all.
 * *begins is set when it has to wait for the first time. */
uint64_t relabel_backoff_pause(const struct relabel_backoff *c, unsigned resource, const char *ns,
                               const char *name, uint64_t now, bool *begins);

#endif
