/* SPDX-License-Identifier: Apache-2.0 */
/*
 * operator.h - whether two shards of a namespace are of one operator.
 *
 * No field says so for certain, least of all while it is edited. So any of these is enough:
 *   - a lock name in common: of the specs, of what is or was published, of what pods may enforce;
 *   - one root made both;
 *   - the selector of one selects a pod of the other, or their pods have a controller in common;
 *   - neither has a lock name, and their pods' service accounts are not known to differ;
 *   - one has none, and their pods have a service account in common that is not "default";
 *   - their pods have a service account in common, and one is deleted, or has a pod with rules that
 *     nobody knows, whose lock name may be any;
 *   - the rules of one cannot be read.
 * Where their lock names differ, they may be one operator all the same, as one of them may be about
 * to be renamed. That is doubtful unless the service accounts of their pods are known to differ.
 */
#ifndef MANAGER_OWNERSHIP_OPERATOR_H
#define MANAGER_OWNERSHIP_OPERATOR_H

#include <stdbool.h>

#include "ownership/ownership.h"

enum operator_kinship {
    OPERATOR_OTHER,
    OPERATOR_DOUBTFUL,
    OPERATOR_SAME,
};

enum operator_kinship operator_kinship(const struct ownership_shard *a,
                                       const struct ownership_shard *b);

/* The same as far as it is certain, where rules that were not read yet prove nothing. */
bool operator_is_same(const struct ownership_shard *a, const struct ownership_shard *b);

/* Whether a pod without sidecars of a known shard is the operator's: which shards select it says
 * that; and only of one that none selects, or that has sidecars, a service account in common. */
bool operator_has_bare_pod(const struct ownership_shard *a, const struct ownership_bare_pod *p);

#endif
