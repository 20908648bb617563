/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/sharding.h"

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
