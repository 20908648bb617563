/* SPDX-License-Identifier: Apache-2.0 */
/*
 * traffic_internal.h - what a compiled traffic document is made of.
 */
#ifndef CORE_TRAFFIC_TRAFFIC_INTERNAL_H
#define CORE_TRAFFIC_TRAFFIC_INTERNAL_H

#include <cjson/cJSON.h>

#include "traffic/external_table.h"
#include "traffic/row_table.h"
#include "traffic/traffic.h"

#define TRAFFIC_FRAME_MAX 1024 /* bytes of what traffic_to_json writes around the spec */

struct traffic {
    size_t refs;
    cJSON *document; /* what all strings below point into */
    uint64_t generation;
    char checksum[TRAFFIC_CHECKSUM_LEN + 1];
    const char *shard_namespace;
    const char *shard_name;
    struct traffic_reading reading; /* what all below points into */
    struct traffic_policy *policies;
    size_t policy_count;
    const struct traffic_limiting **limitings;
    size_t limiting_count;
    const struct traffic_intercept **intercepts;
    size_t intercept_count;
    const struct traffic_fault **faults; /* that act */
    size_t fault_count;
    struct row_table limiting_rows;
    struct row_table fault_rows;
    struct external_table external;
};

#endif
