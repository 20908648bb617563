/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rfc3339.h - points in time as text: 2026-07-14T09:30:00Z (RFC 3339 section 5.6).
 */
#ifndef CORE_BASE_RFC3339_H
#define CORE_BASE_RFC3339_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define RFC3339_SIZE sizeof "2026-07-14T09:30:00Z"

/* Seconds since 1970. Any offset is taken; fractions of a second are dropped. False for what is no
 * such time. */
MUST_CHECK bool rfc3339_parse(const char *text, int64_t *out);

/* In UTC. 0, or -EINVAL outside of the years 0 to 9999. */
MUST_CHECK int rfc3339_format(int64_t seconds, char out[RFC3339_SIZE]);

#endif
