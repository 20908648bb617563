/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_names.h - names for a message, "a, b, c", as many as fit.
 */
#ifndef MANAGER_INJECT_INJECT_NAMES_H
#define MANAGER_INJECT_INJECT_NAMES_H

#include <stddef.h>
#include <stdio.h>

/* All zero: empty. */
struct inject_names {
    char text[256];
    size_t len;
};

static inline void inject_names_add(struct inject_names *n, const char *name)
{
    size_t room = sizeof n->text - n->len;
    int len = snprintf(n->text + n->len, room, "%s%.63s", n->len == 0 ? "" : ", ", name);
    n->len += len > 0 && (size_t)len < room ? (size_t)len : room - 1;
}

#endif
