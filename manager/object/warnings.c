/* SPDX-License-Identifier: Apache-2.0 */
#include "object/warnings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

void warnings_add(struct warnings *n, const char *fmt, ...)
{
    char text[ERR_MSG_MAX];
    va_list ap;
    if (n == NULL) {
        return;
    }
    if (n->count == WARNINGS_MAX) {
        n->dropped++;
        return;
    }
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    char *copy = strdup(text);
    if (copy == NULL) {
        n->dropped++;
        return;
    }
    n->items[n->count++] = copy;
}

void warnings_deinit(struct warnings *n)
{
    for (size_t i = 0; i < n->count; i++) {
        free(n->items[i]);
    }
    *n = (struct warnings)WARNINGS_INIT;
}
