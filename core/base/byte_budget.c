/* SPDX-License-Identifier: Apache-2.0 */
#include "base/byte_budget.h"

static size_t counted(size_t size)
{
    return size > BYTE_SHARE_FREE ? size : 0;
}

bool byte_share_set(struct byte_share *s, size_t size)
{
    return byte_share_set_within(s, size, SIZE_MAX);
}

bool byte_share_set_within(struct byte_share *s, size_t size, size_t max)
{
    if (byte_share_try_within(s, size, max)) {
        return true;
    }
    s->budget->refused++;
    return false;
}

bool byte_share_try_within(struct byte_share *s, size_t size, size_t max)
{
    struct byte_budget *b = s->budget;
    size_t bound = b != NULL && b->max < max ? b->max : max;
    size_t now = counted(s->size);
    size_t then = counted(size);
    size_t others = b != NULL ? b->used - now : 0;
    if (b != NULL && then > now && (others > bound || then > bound - others)) {
        return false;
    }
    byte_share_force(s, size);
    return true;
}

void byte_share_force(struct byte_share *s, size_t size)
{
    if (s->budget != NULL) {
        s->budget->used += counted(size) - counted(s->size);
    }
    s->size = size;
}
