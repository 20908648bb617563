/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fence.h - whether a write, or a read by name, concerns an object that is certainly not the
 * shard's.
 *
 * The labels that follow from an object's namespace (rules_labels: its name and its hash) are known
 * from the request alone, so the limit's requirements on these two keys can be decided before the
 * object is seen. Nothing here allocates, logs or answers; single-threaded.
 *
 * The lock object of leader election is exempt, which only lock.h can tell: ask it first.
 */
#ifndef LOCALPROXY_GUARD_FENCE_H
#define LOCALPROXY_GUARD_FENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kube/request_info.h"
#include "rules/rules.h"

/* How long and how many rules are remembered after they were replaced. */
#define FENCE_HISTORY_MAX 16
#define FENCE_HISTORY_MS (10 * 60 * 1000)

/* True if the request writes (create, update, patch, delete, deletecollection, with subresources;
 * exec, attach and portforward by GET too) to a limited resource in a namespace that the limit
 * leaves out, or if the limit matches no object at all (as `k,!k`). Left alone: cluster-scoped
 * requests, namespaces themselves, requirements on other keys, and `key` and `!key` on all.
 * `r` NULL: false. */
bool fence_applies(const struct rules *r, const struct request_info *ri);
/* The same of what reads one object by its name, or a subresource of it (logs, status, scale,
 * proxy); false of what the other one is about. Lists and watches are narrowed instead. */
bool fence_applies_to_read(const struct rules *r, const struct request_info *ri);

/* Words for the Status of a fenced request, with code -EACCES: namespace, resource, shard,
 * generation and what to do. `lost`: what fence_lost said; false of a read. */
void fence_message(const struct rules *r, const struct request_info *ri, bool lost, struct err *e);

/* Rules that were in force before the present ones. */
struct fence_history {
    struct fence_past {
        struct rules *rules;
        uint64_t replaced_ms;
    } past[FENCE_HISTORY_MAX]; /* the one replaced last at the end */
    size_t count;
};

void fence_history_init(struct fence_history *h);
void fence_history_deinit(struct fence_history *h);

/* Remembers rules that are replaced at `now_ms` (a monotonic clock), without what is only sent.
 * Rules with the same checksum are remembered once. The oldest make room. What is too old is
 * forgotten, also with NULL. */
void fence_history_add(struct fence_history *h, struct rules *old, uint64_t now_ms);

/* Whether a write was just lost: fenced by the rules `now`, but not by some that were in force a
 * short time ago. It is refused in every mode of the fence: work that is still queued in the
 * operator must not touch what another shard owns now. */
bool fence_lost(const struct fence_history *h, const struct rules *now,
                const struct request_info *ri, uint64_t now_ms);

#endif
