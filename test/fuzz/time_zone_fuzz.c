/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is taken for a rule gives an offset of at most a day at any time, one of its two.
 */
#include "base/time_zone.h"

#include <string.h>

#include "check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct time_zone z;
    struct err e = ERR_INIT;
    char text[256];
    if (size >= sizeof text) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    if (time_zone_parse(text, &z, &e) != 0) {
        CHECK(e.code < 0 && e.msg[0] != '\0');
        return 0;
    }
    for (int64_t now = -100000000; now < 4000000000; now += 31556952 / 3) {
        int32_t offset = time_zone_offset(&z, now);
        CHECK(offset == z.standard || (z.has_summer && offset == z.summer));
        CHECK(offset >= -26 * 3600 && offset <= 26 * 3600);
    }
    return 0;
}
