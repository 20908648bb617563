/* SPDX-License-Identifier: Apache-2.0 */
#include "object/pod_place.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

void pod_place_print(const struct pod_place *p, char out[POD_PLACE_SIZE])
{
    (void)snprintf(out, POD_PLACE_SIZE, "%u-%016" PRIx64, p->rank, p->mark);
}

struct pod_place pod_place_parse(const char *text)
{
    struct pod_place p = {.rank = 0};
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9') {
        return p;
    }
    unsigned long rank = strtoul(text, &end, 10);
    if (*end != '-' || rank > UINT_MAX) {
        return p;
    }
    const char *hex = end + 1;
    uint64_t mark = strtoull(hex, &end, 16);
    if (end == hex + 16 && *end == '\0') {
        p = (struct pod_place){.rank = (unsigned)rank, .mark = mark};
    }
    return p;
}
