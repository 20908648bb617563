/* SPDX-License-Identifier: Apache-2.0 */
#include "base/condition.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

bool condition_raise(struct condition *c, uint64_t now_ms, const char *text)
{
    bool news = !c->open || strncmp(c->text, text, sizeof c->text - 1) != 0 ||
                now_ms - c->logged_ms >= CONDITION_REPEAT_MS;
    c->last = time(NULL);
    c->since = c->open ? c->since : c->last;
    c->open = true;
    if (news) {
        (void)snprintf(c->text, sizeof c->text, "%s", text);
        c->logged_ms = now_ms;
    }
    return news;
}

bool condition_clear(struct condition *c)
{
    bool was = c->open;
    c->open = false;
    return was;
}
