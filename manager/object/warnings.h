/* SPDX-License-Identifier: Apache-2.0 */
/*
 * warnings.h - what somebody should know although nothing failed: a few sentences.
 */
#ifndef MANAGER_OBJECT_WARNINGS_H
#define MANAGER_OBJECT_WARNINGS_H

#include <stddef.h>

#define WARNINGS_MAX 16

struct warnings {
    char *items[WARNINGS_MAX];
    size_t count;
    size_t dropped; /* further ones */
};

#define WARNINGS_INIT                                                                              \
    {                                                                                              \
        .count = 0, .dropped = 0                                                                   \
    }

/* `n` may be NULL: nobody wants to know. */
void warnings_add(struct warnings *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Empties it. */
void warnings_deinit(struct warnings *n);

#endif
