/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_traffic.h - what is remembered of the traffic document of a shard: nothing that another
 * leader would need.
 */
#ifndef MANAGER_SHARD_SHARD_TRAFFIC_H
#define MANAGER_SHARD_SHARD_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "policy/traffic_compile.h"

/* A policy that may be for pods of the shard. */
struct shard_policy {
    struct policy *policy;
    enum traffic_outcome outcome;
};

struct shard_traffic {
    /* What the policies come to: of this revision of them, this spec of the config, this room. */
    bool compiled;
    uint64_t revision;
    uint64_t config;
    size_t room;
    char checksum[TRAFFIC_CHECKSUM_LEN + 1]; /* "": there is to be no document */
    size_t size;                             /* bytes of its text, about */
    bool squeezed;                           /* something had no room */
    bool kept;                               /* something is in it only for it was published: */
    uint64_t kept_hash;                      /* in the text with this hash */
    struct traffic *good; /* from which that was taken, or would be; NULL: nothing is needed */
    uint64_t good_hash;   /* the text that held it last: any other is somebody else's */
    struct shard_policy *policies;
    size_t count;

    uint64_t sent_hash;  /* of the text that was written last; 0: none was */
    uint64_t generation; /* that was; 0: none was */
    char generation_checksum[TRAFFIC_CHECKSUM_LEN + 1];
    uint64_t heard; /* the largest that stood in the ConfigMap, whoever wrote it */

    bool placed;                /* what is compiled stands in the ConfigMap */
    const char *trouble_reason; /* why it does not; NULL: it does, or is on its way */
    struct err trouble;
    unsigned retry_after;
    uint64_t told; /* hash of what the policies' status were told of */
};

#endif
