/* SPDX-License-Identifier: Apache-2.0 */
/*
 * in_flight.h - all requests that are being forwarded: what a change of the rules and the end of
 * the program do to them.
 */
#ifndef LOCALPROXY_FORWARD_IN_FLIGHT_H
#define LOCALPROXY_FORWARD_IN_FLIGHT_H

#include <cjson/cJSON.h>

#include "forward/forward.h"

/* The rules `now` are in force instead of `old` (NULL: none). Of the requests that see collections,
 * those whose selector is another now end, each kind in its own way. Of the writes, those that
 * the shard may not make any more are waited for, also where nobody waits for their answer any
 * more: on_settled follows, perhaps before return. The rest goes on untouched. `why` is told to
 * those who must list again. */
void in_flight_change_rules(struct forward_context *ctx, struct rules *old, struct rules *now,
                            const char *why);

/* The rules are not valid any more: what is for resources ends, and `why` tells its client. */
void in_flight_expire(struct forward_context *ctx, const char *why);

/* Ends all watches cleanly, each between two events. Other requests go on. */
void in_flight_drain(struct forward_context *ctx);

/* Appends an object for each open watch to the JSON array, IN_FLIGHT_DESCRIBED_MAX at most; returns
 * how many there are. */
#define IN_FLIGHT_DESCRIBED_MAX 500
unsigned in_flight_describe_watches(const struct forward_context *ctx, cJSON *array);

#endif
