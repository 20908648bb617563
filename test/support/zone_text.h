/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zone_text.h - files of a zone database, for tests. Include it once.
 */
#ifndef TEST_SUPPORT_ZONE_TEXT_H
#define TEST_SUPPORT_ZONE_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

/* A change of the clocks. */
struct zone_change {
    int64_t at;
    uint8_t type;
};

static void zone_put(struct buf *out, uint64_t value, unsigned bytes)
{
    for (unsigned i = bytes; i-- > 0;) {
        (void)buf_append_char(out, (char)(value >> (8 * i) & 0xff));
    }
}

static void zone_header(struct buf *out, char version, size_t times, size_t types)
{
    (void)buf_append_str(out, "TZif");
    (void)buf_append_char(out, version);
    zone_put(out, 0, 8);
    zone_put(out, 0, 7);
    zone_put(out, 0, 4); /* isutcnt */
    zone_put(out, 0, 4); /* isstdcnt */
    zone_put(out, 0, 4); /* leapcnt */
    zone_put(out, times, 4);
    zone_put(out, types, 4);
    zone_put(out, types == 0 ? 0 : 4, 4);
}

/* Appends a file of version 2 with these changes, types with these offsets, and that rule. */
static void zone_text(struct buf *out, const struct zone_change *changes, size_t count,
                      const int32_t *offsets, size_t types, const char *rule)
{
    zone_header(out, '2', 0, 0);
    zone_header(out, '2', count, types);
    for (size_t i = 0; i < count; i++) {
        zone_put(out, (uint64_t)changes[i].at, 8);
    }
    for (size_t i = 0; i < count; i++) {
        zone_put(out, changes[i].type, 1);
    }
    for (size_t i = 0; i < types; i++) {
        zone_put(out, (uint32_t)offsets[i], 4);
        zone_put(out, 0, 2);
    }
    (void)buf_append(out, "ABC", 4);
    (void)buf_printf(out, "\n%s\n", rule);
}

#endif
