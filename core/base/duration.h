/* SPDX-License-Identifier: Apache-2.0 */
/*
 * duration.h - times that pass, as Go's time.ParseDuration reads them: "1h30m", "1.5s", "100ms".
 */
#ifndef CORE_BASE_DURATION_H
#define CORE_BASE_DURATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

#define DURATION_MS INT64_C(1000000) /* nanoseconds */

/* To the nearest nanosecond. A sign is taken, and "0" without a unit, as Go has it.
 * False for anything else and outside 64 bits. */
bool duration_parse(struct slice text, int64_t *ns);

#endif
