/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_pattern.h - what a regular expression for hosts matches that its author may not have
 * meant.
 */
#ifndef MANAGER_POLICY_POLICY_PATTERN_H
#define MANAGER_POLICY_POLICY_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#include "traffic/pattern.h"

struct policy_pattern {
    bool anchored;   /* it is about a whole text, whatever it matches */
    bool everything; /* it matches hosts that have nothing in common */
    bool loopback;   /* as a host, 127.0.0.1 or ::1 */
    bool metadata;   /* as a host, 169.254.169.254, where clouds give credentials to who asks */
};

/* Steps (traffic/pattern.h) that all expressions of a policy may take: some milliseconds. */
#define POLICY_PATTERN_STEPS 1000000

/* Any thread may. `p` is made of the text, whatever the case. What it matches takes steps out of
 * *steps, and is not known when there are no more. */
void policy_pattern_look(const char *text, const struct pattern *p, uint32_t *steps,
                         struct policy_pattern *out);

#endif
