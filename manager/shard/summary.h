/* SPDX-License-Identifier: Apache-2.0 */
/*
 * summary.h - a shard in a few words, from what its status says: for /status.
 */
#ifndef MANAGER_SHARD_SUMMARY_H
#define MANAGER_SHARD_SUMMARY_H

#include <cjson/cJSON.h>

/* Appends an object to the array: namespace, name; the generation of its rules, how many pods
 * enforce them, "2/2", and the reason of Enforced, "Pending" before there is a status; and, when
 * the last edit is invalid or held back, why and for whom, cut to 200 bytes. */
void summary_add(cJSON *array, const cJSON *config);

#endif
