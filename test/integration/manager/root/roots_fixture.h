/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roots_fixture.h - the controller of roots with all that it has around it: an API server in the
 * same process, the cache, and a controller of shards that is played: it finds each child in order.
 * Everything is in namespace "n"; the root is "r", its prefix "x", its StatefulSet "op".
 *
 *     world_root(w, "auto: size 2, every 1");     see world_root
 *     world_pods(w, 0, 1, true);                  op-0 and op-1 are ready
 *     world_lead(w);
 *     world_expect_buckets(w, 1, "0-15");
 */
#ifndef TEST_INTEGRATION_ROOTS_FIXTURE_H
#define TEST_INTEGRATION_ROOTS_FIXTURE_H

#include "fake_clock.h"
#include "root/roots.h"
#include "storing_api.h"

#define WORLD_PREFIX "ctrlmesh.kusionstack.io"

struct world {
    struct storing_api store;
    struct shard_cache *cache;
    struct event_recorder *events;
    struct fake_clock clock;
    struct roots *roots;
    struct roots_counts counts;
    size_t targets;   /* of roots_options */
    size_t memory;    /* of the cache */
    bool hurried;     /* pauses of reflectors are over with the next turn */
    bool holds;       /* the lease, */
    unsigned lasts;   /* in some tests for so many writes more; 0: for good */
    bool idle;        /* children are found as they are by nobody, */
    unsigned waiting; /* and this one waits for a handover; 0: none does */
    bool refuses;     /* who has the webhook refuses a child that selects pods of another one */
    unsigned refusals;
    uint64_t minute_ms; /* of roots_options, as is: */
    const struct control_load *(*load_of)(void *world, const char *pod);
    void (*on_turn)(struct world *w); /* NULL: nothing happens then */
};

/* cmocka set-up and tear-down: *state is the world. */
int world_setup(void **state);
int world_teardown(void **state);

void world_lead(struct world *w);
void world_retire(struct world *w);

/* `root`: members of spec.root beside prefix, targetStatefulSet and resourceSelector, as JSON
 * without braces; `more`: members of spec, each behind a comma. */
void world_root_with(struct world *w, const char *root, const char *more);
void world_root(struct world *w, const char *root);
/* size normal shards of `every` pods each. */
void world_size(struct world *w, unsigned size, unsigned every);
/* Pods first to last, with the sidecars of the child that has that name now; not ready, or ready.
 */
void world_pod(struct world *w, unsigned ordinal, const char *child, bool ready);
void world_pods(struct world *w, unsigned first, unsigned last, const char *child, bool ready);
/* It is being deleted, and ready still. */
void world_end_pod(struct world *w, unsigned ordinal, const char *child);
void world_delete_pod(struct world *w, unsigned ordinal);
void world_stateful_set(struct world *w, int replicas);
/* `first`: its first ordinal. */
void world_stateful_set_from(struct world *w, int first, int replicas);
void world_namespace(struct world *w, const char *name);

/* A moment passes, by the clock and in the loop. */
void world_turn(struct world *w);
void world_pass(struct world *w, uint64_t ms);
/* The same in steps of a quarter of a second. */
void world_stride(struct world *w, uint64_t ms);
/* Waits, or fails the test. */
void world_expect_buckets(struct world *w, unsigned number, const char *buckets);
void world_expect_gone(struct world *w, const char *child);
void world_expect_text_in(struct world *w, const char *ns, const char *name, const char *path,
                          const char *text);
/* In the namespace "n". */
void world_expect_text(struct world *w, const char *name, const char *path, const char *text);
void world_expect_condition(struct world *w, const char *type, const char *status,
                            const char *reason);
void world_expect_event(struct world *w, const char *reason, const char *part);
/* Among the manager's metrics is that text. */
void world_expect_metric(struct world *w, const char *line);
void world_settle(struct world *w);

const cJSON *world_child(struct world *w, unsigned number);
const char *world_buckets(struct world *w, unsigned number);
const char *world_condition(struct world *w, const char *type, const char *key);
/* Events of that reason. */
unsigned world_events(struct world *w, const char *reason);
/* At no version of the API server's objects, from the first on at which all were somebody's, was a
 * bucket nobody's. */
void world_expect_attended(struct world *w);
/* How often a write gave a child buckets that it did not have. */
unsigned world_gained(struct world *w, unsigned since);

#endif
