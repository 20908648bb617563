/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of a zone database that is taken has a rule that base/time_zone.h takes, and differs from
 * it at no time before the one that is asked about. The first eight bytes are that time.
 */
#include <string.h>

#include "base/time_zone.h"
#include "check.h"
#include "policy/zone_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t now;
    struct zone_rule rule;
    struct time_zone zone;
    struct err e = ERR_INIT;
    if (size < sizeof now) {
        return 0;
    }
    memcpy(&now, data, sizeof now);
    now %= INT64_C(1) << 40;
    if (zone_file_parse(data + sizeof now, size - sizeof now, now, &rule, &e) == 0) {
        CHECK(time_zone_parse(rule.text, &zone, &e) == 0);
        CHECK(rule.differs == 0 || rule.differs >= now);
    } else {
        CHECK(e.code < 0 && e.msg[0] != '\0');
    }
    return 0;
}
