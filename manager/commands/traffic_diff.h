/* SPDX-License-Identifier: Apache-2.0 */
/*
 * traffic_diff.h - what changes in the traffic policies of a shard, for people: as `diff -u` shows
 * it, over the lines of traffic_text.h.
 */
#ifndef MANAGER_COMMANDS_TRAFFIC_DIFF_H
#define MANAGER_COMMANDS_TRAFFIC_DIFF_H

#include <stdbool.h>

#include "base/buf.h"
#include "commands/traffic_text.h"
#include "traffic/traffic.h"

/* Appends the difference. Each may be NULL: there are none; if both are, nothing is appended. Of
 * those before only the wanted ones are compared. The document after gets the generation that
 * follows, whatever it carries. Documents that say the same get one line that says so; then it
 * returns true. Errors stay in `out`. */
bool traffic_diff(const struct traffic *before, const struct traffic *after,
                  traffic_text_wants_cb wants, void *data, struct buf *out);

#endif
