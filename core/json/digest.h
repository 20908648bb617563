/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digest.h - tells whether two trees are the same document, of which one is not kept.
 */
#ifndef CORE_JSON_DIGEST_H
#define CORE_JSON_DIGEST_H

#include <stdint.h>

#include <cjson/cJSON.h>

/* The same for the same document, whatever the order of keys; else another one, as far as 64 bits
 * can tell, and who writes documents cannot look for two of one digest. Different in each process:
 * never to be stored or sent. NULL is a document of its own. */
uint64_t json_digest(const cJSON *item);

#endif
