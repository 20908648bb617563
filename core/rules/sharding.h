/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sharding.h - the hash that spreads namespaces over shards.
 */
#ifndef CORE_RULES_SHARDING_H
#define CORE_RULES_SHARDING_H

#include "base/slice.h"

#define SHARDING_HASH_SIZE 32

/* h = 0; for each code point c: h = (h*33 + c) mod 32. Compatible with KusionStack's controller
 * mesh: the text is decoded as Go ranges over a string, an invalid byte counts as U+FFFD. */
unsigned sharding_hash(const char *ns);
unsigned sharding_hash_of(struct slice ns);

#endif
