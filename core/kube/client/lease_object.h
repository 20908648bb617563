/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease_object.h - what a coordination.k8s.io/v1 Lease says about who leads, and Leases that say
 * it.
 *
 * Whatever is missing or of another type counts as empty.
 */
#ifndef CORE_KUBE_CLIENT_LEASE_OBJECT_H
#define CORE_KUBE_CLIENT_LEASE_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"

/* spec.holderIdentity; "": nobody. */
const char *lease_object_holder(const cJSON *lease);
/* spec.leaseDurationSeconds; 0: not said. */
int64_t lease_object_seconds(const cJSON *lease);
/* Whether both say the same of who leads and since when: a renewal is a difference. */
bool lease_object_same(const cJSON *a, const cJSON *b);

enum lease_claim {
    LEASE_CREATE,  /* nobody ever held it */
    LEASE_ACQUIRE, /* the holder is another one than before */
    LEASE_RENEW,   /* the holder is the same */
    LEASE_RELEASE, /* it lasts a second and nobody holds it; `identity` and `seconds` are ignored */
};

/* A Lease of that name that says nothing. NULL without memory. */
MUST_CHECK cJSON *lease_object_new(const char *namespace, const char *name);

/* A Lease that claims that at `now` (microseconds since 1970), in place of `before`, of which all
 * else is kept. NULL without memory. */
MUST_CHECK cJSON *lease_object_claim(const cJSON *before, enum lease_claim claim,
                                     const char *identity, int64_t seconds, int64_t now);

#endif
