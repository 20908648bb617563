/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waits_text.h - says for people whom a shard waits for, and why.
 */
#ifndef MANAGER_SHARD_WAITS_TEXT_H
#define MANAGER_SHARD_WAITS_TEXT_H

#include "enforcement/takeover.h"
#include "ownership/ownership.h"

/* Only the first ones are named, with how many there are besides. `leases`: of each wait what
 * takeover_want said; NULL: nobody was asked. The caller frees. */
MUST_CHECK char *waits_text(const struct ownership_plan *plan, const struct takeover_word *leases);

#endif
