/* SPDX-License-Identifier: Apache-2.0 */
#include "object/notes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

void notes_add(struct notes *n, const char *fmt, ...)
{
    char text[ERR_MSG_MAX];
    va_list ap;
    if (n == NULL) {
        return;
    }
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    char *copy = n->count < NOTES_MAX ? strdup(text) : NULL;
    if (copy == NULL) {
        n->dropped++;
        return;
    }
    n->items[n->count++] = copy;
}

void notes_deinit(struct notes *n)
{
    for (size_t i = 0; i < n->count; i++) {
        free(n->items[i]);
    }
    *n = (struct notes)NOTES_INIT;
}
