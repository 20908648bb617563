/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A duration that is taken has a unit or is zero, is taken again as what it says in nanoseconds,
 * and with the other sign is as long.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "check.h"

enum { TEXT_MAX = 64 };

static void check_again(int64_t ns)
{
    char text[TEXT_MAX];
    int64_t again = 0;
    (void)snprintf(text, sizeof text, "%" PRId64 "ns", ns);
    CHECK(duration_parse(slice_str(text), &again) && again == ns);
}

static void check_other_sign(const char *data, size_t size, int64_t ns)
{
    char text[TEXT_MAX + 1];
    int64_t other = 0;
    bool has_sign = data[0] == '-' || data[0] == '+';
    if (size > TEXT_MAX) {
        return;
    }
    text[0] = data[0] == '-' ? '+' : '-';
    memcpy(text + 1, data + has_sign, size - has_sign);
    CHECK(duration_parse(slice_of(text, size + 1 - has_sign), &other) && other == -ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    int64_t ns = 0;
    if (duration_parse(slice_of(text, size), &ns)) {
        CHECK(size > 0 && (ns == 0 || memchr("smh", text[size - 1], 3) != NULL));
        check_again(ns);
        check_other_sign(text, size, ns);
    }
    return 0;
}
