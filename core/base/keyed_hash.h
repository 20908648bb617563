/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keyed_hash.h - SipHash-1-3 under a key that is drawn once for the process: for tables whose keys
 * others choose, who cannot look for collisions (Aumasson, Bernstein: SipHash, 2012). Different in
 * each process: never to be stored or sent.
 */
#ifndef CORE_BASE_KEYED_HASH_H
#define CORE_BASE_KEYED_HASH_H

#include <stdint.h>

#include "base/slice.h"

/* Goes on from `hash`, 0 at the beginning. */
uint64_t keyed_hash(uint64_t hash, struct slice text);

/* Under this key: for tests. */
uint64_t keyed_hash_with(const uint64_t key[2], struct slice text);

#endif
