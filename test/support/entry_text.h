/* SPDX-License-Identifier: Apache-2.0 */
/* entry_text.h - the selector of a resource as text. */
#ifndef TEST_SUPPORT_ENTRY_TEXT_H
#define TEST_SUPPORT_ENTRY_TEXT_H

#include <stdlib.h>

#include "base/buf.h"
#include "rules/rules.h"

/* Valid until the next call; NULL: without memory, or longer than anybody expects. */
static inline const char *entry_text(const struct rules_entry *entry)
{
    static char last[8192];
    struct buf text = BUF_INIT(sizeof last - 1);
    const char *result = NULL;
    if (selector_print(entry->compiled, &text) == 0 && text.len == entry->length) {
        memcpy(last, buf_cstr(&text), text.len + 1);
        result = last;
    }
    buf_reset(&text);
    return result;
}

#endif
