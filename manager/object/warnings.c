/* SPDX-License-Identifier: Apache-2.0 */
#include "object/warnings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/xalloc.h"

void warnings_add(struct warnings *n, const char *fmt, ...)
{
    va_list ap;
    if (n == NULL) {
        return;
    }
    if (n->count == WARNINGS_MAX) {
        n->dropped++;
        return;
    }
    char text[ERR_MSG_MAX];
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    n->items[n->count++] = xstrdup(text);
}

void warnings_deinit(struct warnings *n)
{
    for (size_t i = 0; i < n->count; i++) {
        free(n->items[i]);
    }
    *n = (struct warnings)WARNINGS_INIT;
}
