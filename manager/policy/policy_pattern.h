/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_pattern.h - a regular expression of a policy, for hosts or paths: what is wrong with it,
 * and what it matches that its author may not have meant.
 */
#ifndef MANAGER_POLICY_POLICY_PATTERN_H
#define MANAGER_POLICY_POLICY_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

struct policy_pattern {
    char why[128];   /* what is wrong with it; "": nothing, and only then what follows is known */
    bool anchored;   /* it is about a whole text, whatever it matches. This and the following if
                        somebody wanted to know */
    bool everything; /* it matches hosts that have nothing in common */
    bool loopback;   /* as a host, 127.0.0.1 or ::1 */
    bool metadata;   /* as a host, 169.254.169.254, where clouds give credentials to who asks */
};

/* Steps (traffic/pattern.h) that all expressions of a policy may take: some milliseconds. */
#define POLICY_PATTERN_STEPS 1000000

/* Any thread may. The proxies take what this takes. What it matches takes steps out of *steps, and
 * is not known when there are no more; NULL: nobody wants to know. */
void policy_pattern_read(const char *text, uint32_t *steps, struct policy_pattern *out);

#endif
