/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sharding.h - the hash that spreads namespaces over shards.
 */
#ifndef CORE_RULES_SHARDING_H
#define CORE_RULES_SHARDING_H

#include <stdbool.h>

#include "base/slice.h"
#include "kube/selector.h"

#define SHARDING_HASH_SIZE 32

/* h = 0; for each code point c: h = (h*33 + c) mod 32. Compatible with KusionStack's controller
 * mesh: the text is decoded as Go ranges over a string, an invalid byte counts as U+FFFD. */
unsigned sharding_hash(const char *ns);
unsigned sharding_hash_of(struct slice ns);

/* Whether a requirement on the hash label accepts objects of namespace `ns`. In a shared namespace
 * the label's value is not the hash but the namespace's name, which rules list where the shard is
 * to see it: so a name counts only where it is listed. */
bool sharding_accepts(const struct selector_requirement *r, struct slice ns);
/* Whether the text is a value of the hash, 0 to 31: such a namespace cannot be shared. */
bool sharding_is_hash(struct slice text);

#endif
