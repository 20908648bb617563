/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handover.h - what a shard's pods may still show while its rules change, so that what moves from
 * one shard to another is given only when it was taken away; and the rules for the time between.
 */
#ifndef MANAGER_OWNERSHIP_HANDOVER_H
#define MANAGER_OWNERSHIP_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cache/pod.h"
#include "cache/rules_map.h"
#include "enforcement/prober.h"
#include "rules/rules.h"

#define HANDOVER_RULES_MAX 8

/* The rules that were published of one shard, as far as its pods may enforce them still. All zero:
 * none are known of, as to a new leader. */
struct handover_past {
    struct rules *rules[HANDOVER_RULES_MAX]; /* the last ones that were sent at the end */
    size_t count;
    bool lost; /* there were more */
};

/* These are published, or about to be. */
void handover_note(struct handover_past *p, struct rules *rules);
/* All pods enforce these, which are published: earlier ones are forgotten. */
void handover_settled(struct handover_past *p, struct rules *published);
/* Of those only the last ones are remembered: there is no room for more (--shards-memory). */
void handover_lose(struct handover_past *p);
void handover_deinit(struct handover_past *p);

/* What a pod of a shard may show, from little to much. */
enum handover_hold {
    HANDOVER_NOTHING,   /* it is gone, or let go; or has no sidecar, and so no rules */
    HANDOVER_PUBLISHED, /* what stands in the ConfigMap, now or soon */
    HANDOVER_PAST,      /* that, or what stood there earlier, as far as is known */
    HANDOVER_ANYTHING,  /* nobody knows */
};

/* What is not known of a pod. */
enum handover_mode {
    HANDOVER_STRICT,  /* is taken for the worst until it is known, or the pod is gone */
    HANDOVER_BOUNDED, /* is waited for as long as it usually takes */
    HANDOVER_OFF,     /* does not matter: nothing waits */
};

/* `published`: the shard's ConfigMap; `r`, `published`, `past` NULL: there is none. */
enum handover_hold handover_hold_of(const struct pod *p, const struct probe_result *r,
                                    const char *shard, const struct rules_map *published,
                                    const struct handover_past *past, enum handover_mode mode);

/* Whether its proxy says that writes to what it lost may still be executed; and for how long it
 * says so at most (95 s: localproxy/upstream/pending_writes.h), in ms, with the questions to it. */
bool handover_unsettled(const struct probe_result *r);
#define HANDOVER_UNSETTLED_MS 110000

/* Rules that show what both show, else those of `to`, for the same shard: what is lost is lost, and
 * nothing is gained. NULL: -E2BIG. `e` is needed. */
MUST_CHECK struct rules *handover_between(const struct rules *from, const struct rules *to,
                                          uint64_t generation, struct err *e);

#endif
