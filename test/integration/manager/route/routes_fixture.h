/* SPDX-License-Identifier: Apache-2.0 */
/*
 * routes_fixture.h - the controller of routes with all that it has around it: an API server in the
 * same process, the caches, and pods that enforce what a test says.
 *
 * The operator is in namespace "ops": Service "hook", and the original "op" of the kind validating,
 * whose webhook "w.example.com" is about ConfigMaps. Its shards are "a" and "b".
 *
 *     rig_operator(g);                          all of that; a has namespaces x and y, b has z
 *     rig_lead(g);
 *     rig_label(g, true);
 *     rig_pass(g, 20000);
 *     rig_expect_owner(g, "x", "a");
 */
#ifndef TEST_INTEGRATION_ROUTES_FIXTURE_H
#define TEST_INTEGRATION_ROUTES_FIXTURE_H

#include "fake_clock.h"
#include "route/routes.h"
#include "storing_api.h"

#define RIG_PREFIX "ctrlmesh.kusionstack.io"
#define RIG_VALIDATING "validatingwebhookconfigurations"
#define RIG_MUTATING "mutatingwebhookconfigurations"

struct rig_shard {
    struct rules *published; /* NULL: what its spec comes to */
    bool unconfirmed;
};

struct rig {
    struct storing_api store;
    struct fake_clock clock;
    struct labels_keys keys;
    struct shard_cache *cache;
    struct originals *originals;
    struct routes *routes;
    struct originals *rival_originals; /* of a second process that thinks to lead, too */
    struct routes *rival;
    struct routes_counts counts;
    struct rig_shard shards[2]; /* a and b */
    bool holds;                 /* the lease */
    int other_port;             /* to which the Service's own port leads in pods; 0: to 9443 */
    unsigned reports;           /* calls of on_report */
    void (*on_turn)(struct rig *g);
};

/* cmocka set-up and tear-down: *state is the rig. */
int rig_setup(void **state);
int rig_teardown(void **state);

/* The process leads, or leads no more. */
void rig_lead(struct rig *g);
void rig_retire(struct rig *g);
/* There is a second one that thinks to lead, until both retire. */
void rig_rival(struct rig *g);

/* Originals as a process has them that begins. */
struct originals *rig_originals(struct rig *g);

/* ---- objects ---- */

void rig_operator(struct rig *g);
/* `names`: namespaces, as "\"x\",\"y\""; `webhook`: more members of spec.webhook, each behind a
 * comma. */
void rig_shard(struct rig *g, const char *name, const char *names, const char *webhook);
/* `port`: it has the port of its shard. */
void rig_pod(struct rig *g, const char *shard, bool ready, bool port);
void rig_service(struct rig *g, const char *ports);
/* Which shards' ports have ready pods. */
void rig_slices(struct rig *g, bool a, bool b);
/* The original as its owner has it; what others have written stays if `keep`. */
void rig_original(struct rig *g, const char *labels, const char *webhook);
void rig_label(struct rig *g, bool on);
/* Its owner sets that as namespaceSelector; NULL: {}. */
void rig_select(struct rig *g, const char *selector);

/* ---- time ---- */

/* A moment passes; so many ms, in steps of 20. */
void rig_turn(struct rig *g);
void rig_pass(struct rig *g, uint64_t ms);
/* The same in steps of 200. */
void rig_stride(struct rig *g, uint64_t ms);

/* ---- what there is ---- */

bool rig_narrowed(struct rig *g);
unsigned rig_entries(struct rig *g);
/* Of the Service; 0: it has none of that shard ("hold": the port without pods). */
int rig_port(struct rig *g, const char *shard);
/* Who is asked about ConfigMaps in that namespace, with control labels, as an API server would find
 * it: "a", "b", "rest", "held", or several; "": nobody. */
const char *rig_owner(struct rig *g, const char *ns);
void rig_expect_owner(struct rig *g, const char *ns, const char *owner);
const struct route_report *rig_report(struct rig *g, const char *shard);
void rig_expect_reason(struct rig *g, const char *shard, enum route_reason reason);
/* Somebody resets the selectors of the original until the manager lets go. */
void rig_contest(struct rig *g);
/* Within so many ms. */
#define RIG_AWAIT(g, condition, ms)                                                                \
    do {                                                                                           \
        for (unsigned passed_ = 0; !(condition) && passed_ < (ms); passed_ += 20) {                \
            rig_turn(g);                                                                           \
        }                                                                                          \
        assert_true(condition);                                                                    \
    } while (0)

#endif
