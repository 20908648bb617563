/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notes.h - what somebody should know although nothing failed: a few sentences.
 */
#ifndef MANAGER_OBJECT_NOTES_H
#define MANAGER_OBJECT_NOTES_H

#include <stddef.h>

#define NOTES_MAX 16

struct notes {
    char *items[NOTES_MAX];
    size_t count;
    size_t dropped; /* further ones, and those for which there was no memory */
};

#define NOTES_INIT                                                                                 \
    {                                                                                              \
        .count = 0, .dropped = 0                                                                   \
    }

/* `n` may be NULL: nobody wants to know. */
void notes_add(struct notes *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Empties it. */
void notes_deinit(struct notes *n);

#endif
