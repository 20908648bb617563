/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gain_cache.h - rules_gain (compile/rules_gain.h) with a memory for rules of many limits: what it
 * says depends on the rules alone, and is asked of each two shards of an operator again and again.
 */
#ifndef MANAGER_OWNERSHIP_GAIN_CACHE_H
#define MANAGER_OWNERSHIP_GAIN_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "rules/rules.h"

struct gain_cache;

/* Takes a quarter of a megabyte, as far as it is used. */
MUST_CHECK struct gain_cache *gain_cache_new(void);

/* As rules_gain says. */
bool gain_cache_ask(struct gain_cache *c, const struct rules *from, const struct rules *to,
                    const struct rules *others);

/* How often the answer was known. */
size_t gain_cache_hits(const struct gain_cache *c);

/* NULL is ignored. */
void gain_cache_free(struct gain_cache *c);

#endif
