/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h - which children a root is to have now, and which buckets each: from its spec, from the
 * children that there are, and from what is known of their pods. No clock, no cluster.
 *
 *   - A bucket stays where it is, if its shard still is to be and to work on it.
 *   - A shard that has none gets some when it has a living pod, and not before: nothing is taken
 *     from a shard that works and given to one that does not. But if no shard has any bucket yet,
 *     all get theirs at once, for their pods wait for rules.
 *   - A shard that has some, but none of whose pods is alive, gets no more while others work.
 *   - A shard above the size gives away all that it has, unless it works and none below does. Its
 *     child stays, with an empty share, until it has no pods any more. So does that of a canary
 *     that is not to be any more, without pods to select: they are those of other shards now.
 *   - With takeover, so does a shard that has been dead for long enough, while another one lives;
 *     its child stays, and gets buckets again when it has lived for as long. So does a canary,
 *     while a normal shard lives: these have its hashes and namespaces then.
 *   - What two children claim, because a change of theirs was broken off, belongs to the one with
 *     fewer buckets; then to the one with the larger number. So gains are to be applied first.
 *   - Where buckets may move for the sake of load (moves_per_hour), a distribution that is not even
 *     stays as long as no shard comes or goes.
 *
 * Two roots whose children would have the same names are not told apart here: who applies children
 * looks whose they are.
 */
#ifndef MANAGER_ROOT_LAYOUT_H
#define MANAGER_ROOT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "root/buckets.h"
#include "root/root_spec.h"

/* What is known of the pods of a shard. */
enum layout_life {
    LAYOUT_UNKNOWN,    /* nothing: taken as it was when its buckets were given */
    LAYOUT_DEAD,       /* none of its pods is ready, */
    LAYOUT_LONG_DEAD,  /* for root_auto.takeover_s or longer */
    LAYOUT_ALIVE,      /* at least one is ready, */
    LAYOUT_LONG_ALIVE, /* for as long */
};

/* A child that there is. */
struct layout_child {
    unsigned number;  /* 0: the canary */
    uint32_t buckets; /* as the annotation ROOT_BUCKETS of the child has it */
    bool taken_over;  /* its annotation says so: it waits for a long life */
    unsigned pods;    /* that its selector names, or of a Deployment its annotation; 0: none,
                         or not known */
    unsigned first;   /* the lowest ordinal of them */
    bool has_pods;    /* any, ready or not, that it selects or that have its sidecars */
    enum layout_life life;
};

struct layout_facts {
    const struct layout_child *children;
    size_t child_count;
    int replicas;  /* spec.replicas of the target; -1: not known: shardingSize `auto` stays at
                     the shards that have buckets, and a spec without `auto` at the pods that the
                     selector of its child names; at least one */
    int64_t first; /* ordinal of its first pod; -1: not known: as the children have it */
};

struct layout_shard {
    unsigned number;
    unsigned first;   /* ordinals of its pods: first to first + pods - 1; not of a Deployment */
    unsigned pods;    /* that it is to have; 0: of a canary that leaves */
    uint32_t buckets; /* of normal shards */
    bool taken_over;
    bool with_canary; /* a normal one: it has what the canary had by names, too */
    bool leaving;     /* above the size: the child is to be deleted as soon as it has no pods */
};

/* The canary first, if there is one, then by number. */
struct layout {
    struct layout_shard shards[1 + ROOT_SHARDS_MAX];
    size_t count;
    unsigned size;   /* normal shards that are to be */
    unsigned needed; /* pods that the target must have for them and the canary */
    unsigned room;   /* and may have: further ones are in no shard; UINT_MAX of a Deployment, whose
                        normal shards take all that there are */
    unsigned first;  /* the ordinal of the first pod of all */
    size_t moved;    /* buckets that change from one shard to another */
    bool changed;    /* some child has other buckets than before, or the canary its share or not */
    bool fresh;      /* no shard had any */
};

/* Children with the numbers of leaving shards that have no pods are not in the result: they are to
 * be deleted. */
void layout_make(const struct root_spec *spec, const struct layout_facts *facts,
                 struct layout *out);

#endif
