/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/sharding.h"

#include <stdio.h>

#include "base/utf8.h"

unsigned sharding_hash_of(struct slice ns)
{
    uint32_t h = 0;
    for (struct slice rest = ns; rest.len > 0;) {
        uint32_t cp;
        size_t n = utf8_decode(rest, &cp);
        h = (h * 33 + cp) % SHARDING_HASH_SIZE;
        rest = slice_of(rest.ptr + n, rest.len - n);
    }
    return h;
}

unsigned sharding_hash(const char *ns)
{
    return sharding_hash_of(slice_str(ns));
}

static bool lists_values(enum selector_op op)
{
    return op == SELECTOR_IN || op == SELECTOR_EQUALS || op == SELECTOR_DOUBLE_EQUALS;
}

bool sharding_is_hash(struct slice text)
{
    unsigned value = 0;
    if (text.len == 0 || text.len > 2 || (text.len == 2 && text.ptr[0] == '0')) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') {
            return false;
        }
        value = value * 10 + (unsigned)(text.ptr[i] - '0');
    }
    return value < SHARDING_HASH_SIZE;
}

bool sharding_accepts(const struct selector_requirement *r, struct slice ns)
{
    char text[16];
    int len = snprintf(text, sizeof text, "%u", sharding_hash_of(ns));
    struct slice hash = slice_of(text, (size_t)len);
    return selector_requirement_matches(r, &hash) ||
           (lists_values(r->op) && !sharding_is_hash(ns) && selector_requirement_matches(r, &ns));
}
