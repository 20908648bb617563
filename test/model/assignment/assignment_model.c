/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deployments, ReplicaSets, pods and webhooks in small: which shards pods get when several webhooks
 * assign them, each of which sees pods late.
 *
 * A world advances in steps of STEP_MS. A Deployment sizes ReplicaSets as Kubernetes' deployment
 * controller does (maxSurge, maxUnavailable). A ReplicaSet creates pods in batches of 1, 2, 4, ...,
 * backs off after a failure, and deletes in the order of its controller: not ready, cheap, young.
 * Each pod is reviewed by one of the webhooks and comes to be some milliseconds later, or fails.
 * Each webhook sees it come and go after a delay of its own. The root makes shards and evicts the
 * pods of those that leave. It evicts no others: what is uneven at the end the webhooks have made,
 * and how many evictions would put it right is counted.
 *
 *     assignment_model [--seeds N] [--lag MS] [--ends both|front|any] [--no-costs]
 *
 * For each scenario it prints how many worlds end with which difference between the normal shards
 * with the most and the fewest pods; in how many a shard is empty and another has two, and the
 * canary is not as it is to be; the longest time in ms in which a shard was empty; evictions, of
 * all worlds; and how late the last pod came in ms, at most. Exit code 1: fewer worlds than the
 * scenario demands are even, that is with a difference of 1 at most and with the canary's pods as
 * they are to be.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assign/assigner.h"
#include "assign/assignment.h"
#include "assign/assignments.h"
#include "base/array.h"
#include "root/balance.h"

enum {
    STEP_MS = 2,
    WEBHOOKS = 3,
    PODS = 2000,
    REQUESTS = 512,
    SHARDS = 33,
    REVISIONS = 4,
    NEVER = INT32_MAX,
    TERMINATING_MS = 400,
    ROOT_LAG_MS = 150,
    EVICTION_MS = 200,
    CHILD_MS = 10,
    BACKOFF_MS = 5,
};

/* Which webhooks take places from the back: all but the first, none, or any for each pod. */
enum ends { ENDS_BOTH, ENDS_FRONT, ENDS_ANY };

static const char *const end_names[] = {"both", "front", "any"};

static enum ends ends = ENDS_BOTH;
static bool with_costs = true;
static int lag_ms; /* 0: the scenario's */

struct world;

struct scenario {
    const char *name;
    unsigned replicas;
    unsigned canary; /* pods of it; 0: there is none */
    unsigned every;
    unsigned shards; /* normal ones; 0: as many as there are pods for */
    unsigned webhooks;
    int lag_ms; /* at most */
    unsigned surge;
    unsigned unavailable;
    void (*act)(struct world *w);
    int end_ms;
    unsigned even_min; /* percent of the worlds that are even at the end */
};

struct pod {
    unsigned revision;
    unsigned number;
    unsigned rank;
    int32_t cost;
    uint64_t mark;
    int created;
    int ready;   /* NEVER: it does not become */
    int deleted; /* its end begins; NEVER */
    int known;   /* its ReplicaSet sees that */
    int seen[WEBHOOKS];
    int seen_deleted[WEBHOOKS];
};

struct replica_set {
    unsigned replicas;
    unsigned batch; /* pods of the one under way; 0: none */
    unsigned left;  /* to be created, without these */
    unsigned in_flight;
    bool failing; /* one of the batch failed */
    unsigned failures;
    int next_try;
};

struct request {
    bool used;
    unsigned revision;
    unsigned webhook;
    int due;       /* the next step of it */
    bool assigned; /* it was reviewed */
    struct pod pod;
};

struct webhook {
    struct assignments memory;
    bool from_back;
};

struct child_state {
    unsigned wanted; /* 0: there is none */
    bool leaving;
};

/* What one webhook sees of it. */
struct child_view {
    struct child_state seen;
    int due;     /* when it sees what is now; NEVER: it does */
    int changed; /* when it saw another one last; 0: from the beginning */
};

struct child {
    struct child_state now;
    struct child_view views[WEBHOOKS];
};

struct world {
    const struct scenario *s;
    int lag_ms;
    unsigned first_share; /* percent of reviews that the first webhook gets: connections last */
    uint64_t random;
    int now;
    unsigned replicas;
    unsigned revision; /* the newest */
    bool paused;
    bool broken;   /* pods of the newest revision never start */
    unsigned lost; /* percent of pods that are refused after they were assigned */
    struct replica_set sets[REVISIONS];
    struct pod pods[PODS];
    size_t pod_count;
    struct request requests[REQUESTS];
    struct webhook webhooks[WEBHOOKS];
    unsigned size; /* normal shards that are to be */
    struct child children[SHARDS];
    int next_child; /* when the next one is written */
    int resized;    /* when replicas changed last */
    int next_eviction;
    int empty_since[SHARDS];
    int longest_empty;
    int latest; /* when there were too few pods */
};

static unsigned below(struct world *w, unsigned n)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return (unsigned)((w->random >> 11) % n);
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static bool lives(const struct world *w, const struct pod *p)
{
    return p->created <= w->now && w->now < p->deleted;
}

static bool is_ready(const struct world *w, const struct pod *p)
{
    return lives(w, p) && p->ready <= w->now;
}

static void delete_pod(struct world *w, struct pod *p, bool evicted)
{
    p->deleted = w->now;
    p->known = w->now + (evicted ? 2 + (int)below(w, 30) : 0);
    for (unsigned i = 0; i < w->s->webhooks; i++) {
        p->seen_deleted[i] = w->now + 2 + (int)below(w, (unsigned)w->lag_ms);
    }
}

/* ---- the webhooks ---- */

/* Takes what the webhook sees by now. False: it saw a change of a shard just now. */
static bool see_children(struct world *w, unsigned webhook)
{
    bool settled = true;
    for (unsigned n = 0; n < SHARDS; n++) {
        struct child *c = &w->children[n];
        struct child_view *v = &c->views[webhook];
        if (v->due <= w->now) {
            v->changed = v->due;
            v->due = NEVER;
            v->seen = c->now;
        }
        settled = settled && (v->changed == 0 || w->now - v->changed >= ASSIGNER_SETTLE_MS);
    }
    return settled;
}

static size_t describe_shards(struct world *w, unsigned webhook, unsigned revision,
                              struct assignment_shard *shards)
{
    struct assignments *memory = &w->webhooks[webhook].memory;
    size_t count = 0;
    size_t place[SHARDS];
    for (unsigned n = 0; n < SHARDS; n++) {
        const struct child_state *c = &w->children[n].views[webhook].seen;
        place[n] = SIZE_MAX;
        if (c->wanted != 0) {
            place[n] = count;
            shards[count++] =
                (struct assignment_shard){.number = n, .wanted = c->wanted, .leaving = c->leaving};
        }
    }
    for (size_t i = 0; i < w->pod_count; i++) {
        const struct pod *p = &w->pods[i];
        if (p->seen[webhook] > w->now) {
            continue;
        }
        assignments_see(memory, p->mark);
        if (p->seen_deleted[webhook] > w->now && place[p->number] != SIZE_MAX) {
            assignment_add_pod(&shards[place[p->number]], p->revision == revision, p->rank);
        }
    }
    assignments_expire(memory, (uint64_t)w->now);
    for (const struct assignment *a = NULL; (a = assignments_next(memory, a)) != NULL;) {
        if (place[a->number] != SIZE_MAX) {
            assignment_add_pod(&shards[place[a->number]], a->revision == revision, a->rank);
        }
    }
    return count;
}

/* False: it is refused. */
static bool review(struct world *w, struct request *r)
{
    struct webhook *h = &w->webhooks[r->webhook];
    struct assignment_shard shards[SHARDS];
    struct assignment_place place;
    if (!see_children(w, r->webhook)) {
        return false;
    }
    size_t count = describe_shards(w, r->webhook, r->revision, shards);
    bool from_back = ends == ENDS_ANY ? below(w, 2) == 0 : h->from_back;
    if (assignment_choose(shards, count, from_back, false, &place) != 0) {
        return false;
    }
    const struct assignment_shard *shard = &shards[place.shard];
    struct assignment a = {.revision = r->revision,
                           .number = shard->number,
                           .rank = place.rank,
                           .at_ms = (uint64_t)w->now};
    r->pod.number = shard->number;
    r->pod.rank = place.rank;
    r->pod.cost = assignment_cost(a.number, a.rank);
    r->pod.mark = assignments_mark(&h->memory);
    assignments_add(&h->memory, &a);
    r->pod.revision = r->revision;
    return true;
}

/* ---- ReplicaSets ---- */

static void fail(struct world *w, struct replica_set *set)
{
    if (!set->failing) {
        set->failing = true;
        set->left = 0;
        set->next_try = w->now + (BACKOFF_MS << (set->failures < 12 ? set->failures : 12));
        set->failures++;
    }
}

static unsigned any_webhook(struct world *w)
{
    unsigned others = w->s->webhooks - 1;
    return others == 0 || below(w, 100) < w->first_share ? 0 : 1 + below(w, others);
}

static void send_batch(struct world *w, unsigned revision)
{
    struct replica_set *set = &w->sets[revision];
    unsigned size = set->batch < set->left ? set->batch : set->left;
    set->left -= size;
    set->in_flight = size;
    for (size_t i = 0; size > 0; i++) {
        if (!w->requests[i].used) {
            w->requests[i] = (struct request){.used = true,
                                              .revision = revision,
                                              .webhook = any_webhook(w),
                                              .due = w->now + 1 + (int)below(w, 12)};
            size--;
        }
    }
}

static void come_to_be(struct world *w, struct request *r)
{
    struct pod *p = &w->pods[w->pod_count++];
    *p = r->pod;
    p->created = w->now;
    p->ready = w->broken && p->revision == w->revision ? NEVER : w->now + 300 + (int)below(w, 1200);
    p->deleted = NEVER;
    p->known = NEVER;
    for (unsigned i = 0; i < w->s->webhooks; i++) {
        p->seen[i] = w->now + 2 + (int)below(w, (unsigned)w->lag_ms);
        p->seen_deleted[i] = NEVER;
    }
}

static void step_requests(struct world *w)
{
    for (size_t i = 0; i < REQUESTS; i++) {
        struct request *r = &w->requests[i];
        struct replica_set *set = &w->sets[r->revision];
        if (!r->used || r->due > w->now) {
            continue;
        }
        if (!r->assigned && review(w, r)) {
            r->assigned = true;
            r->due = w->now + 3 + (int)below(w, 15);
            continue;
        }
        if (!r->assigned || below(w, 100) < w->lost) {
            fail(w, set);
        } else {
            come_to_be(w, r);
        }
        r->used = false;
        set->in_flight--;
    }
}

/* Whether `a` is deleted before `b`. */
static bool goes_before(const struct world *w, const struct pod *a, const struct pod *b)
{
    if (is_ready(w, a) != is_ready(w, b)) {
        return !is_ready(w, a);
    }
    if (with_costs && a->cost != b->cost) {
        return a->cost < b->cost;
    }
    return a->ready != b->ready ? a->ready > b->ready : a->created > b->created;
}

static void step_set(struct world *w, unsigned revision)
{
    struct replica_set *set = &w->sets[revision];
    unsigned active = 0;
    if (set->in_flight > 0) {
        return;
    }
    if (set->left > 0) {
        set->batch *= 2;
        send_batch(w, revision);
        return;
    }
    for (size_t i = 0; i < w->pod_count; i++) {
        const struct pod *p = &w->pods[i];
        active += p->revision == revision && p->created <= w->now && w->now < p->known;
    }
    set->failures = active >= set->replicas ? 0 : set->failures;
    if (active < set->replicas && set->next_try <= w->now) {
        set->failing = false;
        set->left = set->replicas - active;
        set->batch = 1;
        send_batch(w, revision);
    }
    for (; active > set->replicas; active--) {
        struct pod *first = NULL;
        for (size_t i = 0; i < w->pod_count; i++) {
            struct pod *p = &w->pods[i];
            if (p->revision == revision && lives(w, p) &&
                (first == NULL || goes_before(w, p, first))) {
                first = p;
            }
        }
        delete_pod(w, first, false);
    }
}

/* ---- the Deployment ---- */

static void step_deployment(struct world *w)
{
    unsigned ready[REVISIONS] = {0};
    unsigned total = 0;
    unsigned available = 0;
    for (size_t i = 0; i < w->pod_count; i++) {
        ready[w->pods[i].revision] += is_ready(w, &w->pods[i]);
    }
    for (unsigned i = 0; i <= w->revision; i++) {
        total += w->sets[i].replicas;
        available += ready[i];
    }
    struct replica_set *newest = &w->sets[w->revision];
    bool single = total == newest->replicas;
    if (w->paused) {
        return;
    }
    if (single) {
        newest->replicas = w->replicas;
        return;
    }
    if (total < w->replicas + w->s->surge) {
        unsigned more = least(w->replicas + w->s->surge - total,
                              w->replicas - least(w->replicas, newest->replicas));
        newest->replicas += more;
        total += more;
    }
    unsigned must = w->replicas - least(w->replicas, w->s->unavailable);
    unsigned unready = newest->replicas - least(newest->replicas, ready[w->revision]);
    if (total <= must + unready) {
        return;
    }
    unsigned most = total - must - unready;
    for (unsigned i = 0; i < w->revision; i++) { /* those that are not ready first */
        struct replica_set *old = &w->sets[i];
        unsigned n = least(most, old->replicas - least(old->replicas, ready[i]));
        old->replicas -= n;
        most -= n;
    }
    unsigned down = available > must ? available - must : 0;
    for (unsigned i = 0; i < w->revision; i++) {
        struct replica_set *old = &w->sets[i];
        unsigned n = least(down, old->replicas);
        old->replicas -= n;
        down -= n;
    }
}

/* ---- the root ---- */

static unsigned size_for(const struct world *w)
{
    const struct scenario *s = w->s;
    unsigned pods = w->replicas - least(w->replicas, s->canary);
    unsigned size = s->shards != 0 ? s->shards : pods / s->every;
    return size < 1 ? 1 : least(size, SHARDS - 1);
}

static struct child_state wanted_child(const struct world *w, unsigned n, bool has_pods)
{
    unsigned pods = w->replicas - least(w->replicas, w->s->canary);
    unsigned share = pods / w->size + (n <= pods % w->size);
    struct child_state c = {.wanted = n == 0 ? w->s->canary : share == 0 ? 1 : share};
    if (n > w->size) {
        c = (struct child_state){.wanted = has_pods ? w->s->every : 0, .leaving = has_pods};
    }
    return c;
}

/* One after the other. */
static void write_children(struct world *w, const bool has_pods[SHARDS])
{
    for (unsigned n = 0; n < SHARDS && w->now >= w->next_child; n++) {
        struct child *c = &w->children[n];
        struct child_state wanted = wanted_child(w, n, has_pods[n]);
        if (wanted.wanted == c->now.wanted && wanted.leaving == c->now.leaving) {
            continue;
        }
        c->now = wanted;
        w->next_child = w->now + CHILD_MS;
        for (unsigned i = 0; i < w->s->webhooks; i++) {
            c->views[i].due = w->now + 2 + (int)below(w, (unsigned)w->lag_ms);
        }
    }
}

static void step_root(struct world *w)
{
    bool has_pods[SHARDS] = {false};
    if (w->now < w->resized + ROOT_LAG_MS) {
        return;
    }
    w->size = size_for(w);
    for (size_t i = 0; i < w->pod_count; i++) {
        struct pod *p = &w->pods[i];
        if (!lives(w, p)) {
            continue;
        }
        has_pods[p->number] = true;
        if (p->number > w->size && w->now >= w->next_eviction) {
            delete_pod(w, p, true);
            w->next_eviction = w->now + EVICTION_MS;
        }
    }
    write_children(w, has_pods);
}

/* ---- scenarios ---- */

static void resize(struct world *w, unsigned replicas)
{
    w->replicas = replicas;
    w->resized = w->now;
}

static void roll(struct world *w)
{
    w->revision++;
    w->sets[w->revision] = (struct replica_set){.replicas = 0};
}

static void evict(struct world *w, unsigned percent)
{
    for (size_t i = 0; i < w->pod_count; i++) {
        if (lives(w, &w->pods[i]) && below(w, 100) < percent) {
            delete_pod(w, &w->pods[i], true);
        }
    }
}

static void act_nothing(struct world *w)
{
    (void)w;
}

static void act_roll(struct world *w)
{
    if (w->now == 4000) {
        roll(w);
    }
}

static void act_roll_twice(struct world *w)
{
    if (w->now == 4000 || w->now == 5500) {
        roll(w);
    }
}

static void act_pause(struct world *w)
{
    act_roll(w);
    w->paused = w->now >= 6000;
}

static void act_undo(struct world *w)
{
    act_roll(w);
    w->broken = w->now >= 4000 && w->now < 8000;
    if (w->now ==
        8000) { /* as a rollout undo: the old template, and its ReplicaSet, is the newest */
        struct replica_set swapped = w->sets[0];
        w->sets[0] = w->sets[1];
        w->sets[1] = swapped;
        for (size_t i = 0; i < w->pod_count; i++) {
            w->pods[i].revision = 1 - w->pods[i].revision;
        }
        for (size_t i = 0; i < REQUESTS; i++) {
            w->requests[i].revision = 1 - w->requests[i].revision;
            w->requests[i].pod.revision = 1 - w->requests[i].pod.revision;
        }
    }
}

static void act_down(struct world *w)
{
    if (w->now == 4000) {
        resize(w, w->s->replicas / 3);
    }
}

/* Before the last pods of the burst are seen by all. */
static void act_down_and_up(struct world *w)
{
    if (w->now == 4000 || w->now == 6000) {
        resize(w, 1);
    } else if (w->now == 4500 || w->now == 6500) {
        resize(w, w->s->replicas);
    }
}

static void act_up_and_down(struct world *w)
{
    const unsigned sizes[] = {2, 1, 3, 1, 2, 3};
    if (w->now >= 4000 && w->now % 3000 == 0 && (size_t)w->now / 3000 - 1 < ARRAY_LEN(sizes)) {
        resize(w, w->s->replicas * sizes[w->now / 3000 - 1] / 2);
    }
}

static void act_evictions(struct world *w)
{
    if (w->now >= 4000 && w->now < 10000 && w->now % 1500 == 0) {
        evict(w, 25);
    }
}

static void act_failures(struct world *w)
{
    act_evictions(w);
    w->lost = w->now >= 4000 && w->now < 10400 ? 50 : 0;
}

#define AS_DEPLOYED .surge = 8, .unavailable = 7 /* a quarter of 30, as by default */

static const struct scenario scenarios[] = {
    {.name = "burst of 30, one webhook",
     .replicas = 30,
     .canary = 0,
     .every = 3,
     .shards = 10,
     .webhooks = 1,
     .lag_ms = 200,
     AS_DEPLOYED,
     .act = act_nothing,
     .end_ms = 4000,
     .even_min = 90},
    {.name = "burst of 30, two webhooks",
     .replicas = 30,
     .canary = 0,
     .every = 3,
     .shards = 10,
     .webhooks = 2,
     .lag_ms = 200,
     AS_DEPLOYED,
     .act = act_nothing,
     .end_ms = 4000,
     .even_min = 70},
    {.name = "burst of 30, fast caches",
     .replicas = 30,
     .canary = 0,
     .every = 3,
     .shards = 10,
     .webhooks = 2,
     .lag_ms = 20,
     AS_DEPLOYED,
     .act = act_nothing,
     .end_ms = 4000,
     .even_min = 98},
    {.name = "burst of 30, one pod a shard",
     .replicas = 30,
     .canary = 0,
     .every = 1,
     .shards = 30,
     .webhooks = 2,
     .lag_ms = 200,
     AS_DEPLOYED,
     .act = act_nothing,
     .end_ms = 4000,
     .even_min = 90},
    {.name = "burst of 30, three webhooks",
     .replicas = 30,
     .canary = 1,
     .every = 3,
     .shards = 10,
     .webhooks = 3,
     .lag_ms = 20,
     AS_DEPLOYED,
     .act = act_nothing,
     .end_ms = 4000,
     .even_min = 10},
    {.name = "burst of 31 with a canary",
     .replicas = 32,
     .canary = 2,
     .every = 3,
     .shards = 0,
     .webhooks = 2,
     .lag_ms = 20,
     AS_DEPLOYED,
     .act = act_nothing,
     .end_ms = 4000,
     .even_min = 90},
    {.name = "burst of 31 with one canary",
     .replicas = 31,
     .canary = 1,
     .every = 3,
     .shards = 10,
     .webhooks = 2,
     .lag_ms = 20,
     AS_DEPLOYED,
     .act = act_nothing,
     .end_ms = 4000,
     .even_min = 95},
    {.name = "rolling update",
     .replicas = 31,
     .canary = 1,
     .every = 3,
     .shards = 10,
     .webhooks = 2,
     .lag_ms = 20,
     AS_DEPLOYED,
     .act = act_roll,
     .end_ms = 20000,
     .even_min = 90},
    {.name = "rolling update, one at a time",
     .replicas = 6,
     .canary = 0,
     .every = 2,
     .shards = 3,
     .webhooks = 2,
     .lag_ms = 20,
     .surge = 1,
     .unavailable = 0,
     .act = act_roll,
     .end_ms = 20000,
     .even_min = 90},
    {.name = "two rolling updates",
     .replicas = 31,
     .canary = 1,
     .every = 3,
     .shards = 10,
     .webhooks = 2,
     .lag_ms = 20,
     AS_DEPLOYED,
     .act = act_roll_twice,
     .end_ms = 24000,
     .even_min = 90},
    {.name = "paused rolling update",
     .replicas = 31,
     .canary = 1,
     .every = 3,
     .shards = 10,
     .webhooks = 2,
     .lag_ms = 20,
     AS_DEPLOYED,
     .act = act_pause,
     .end_ms = 12000,
     .even_min = 90},
    {.name = "pods that never start, undone",
     .replicas = 31,
     .canary = 1,
     .every = 3,
     .shards = 10,
     .webhooks = 2,
     .lag_ms = 20,
     AS_DEPLOYED,
     .act = act_undo,
     .end_ms = 16000,
     .even_min = 90},
    {.name = "scaled to a third",
     .replicas = 30,
     .canary = 0,
     .every = 3,
     .shards = 10,
     .webhooks = 2,
     .lag_ms = 20,
     AS_DEPLOYED,
     .act = act_down,
     .end_ms = 8000,
     .even_min = 90},
    {.name = "autoscaler, fixed shards",
     .replicas = 20,
     .canary = 0,
     .every = 2,
     .shards = 10,
     .webhooks = 2,
     .lag_ms = 20,
     AS_DEPLOYED,
     .act = act_up_and_down,
     .end_ms = 24000,
     .even_min = 90},
    {.name = "autoscaler, as many shards",
     .replicas = 20,
     .canary = 1,
     .every = 1,
     .shards = 0,
     .webhooks = 2,
     .lag_ms = 20,
     AS_DEPLOYED,
     .act = act_up_and_down,
     .end_ms = 24000,
     .even_min = 90},
    {.name = "down and up within seconds",
     .replicas = 30,
     .canary = 0,
     .every = 3,
     .shards = 10,
     .webhooks = 2,
     .lag_ms = 200,
     AS_DEPLOYED,
     .act = act_down_and_up,
     .end_ms = 60000,
     .even_min = 70},
    {.name = "rolling update, three webhooks",
     .replicas = 31,
     .canary = 1,
     .every = 3,
     .shards = 10,
     .webhooks = 3,
     .lag_ms = 20,
     AS_DEPLOYED,
     .act = act_roll,
     .end_ms = 20000,
     .even_min = 50},
    {.name = "down and up, three webhooks",
     .replicas = 30,
     .canary = 0,
     .every = 3,
     .shards = 10,
     .webhooks = 3,
     .lag_ms = 200,
     AS_DEPLOYED,
     .act = act_down_and_up,
     .end_ms = 60000,
     .even_min = 0},
    {.name = "evictions",
     .replicas = 30,
     .canary = 0,
     .every = 3,
     .shards = 10,
     .webhooks = 2,
     .lag_ms = 20,
     AS_DEPLOYED,
     .act = act_evictions,
     .end_ms = 14000,
     .even_min = 90},
    {.name = "evictions, one pod a shard",
     .replicas = 10,
     .canary = 0,
     .every = 1,
     .shards = 10,
     .webhooks = 2,
     .lag_ms = 20,
     AS_DEPLOYED,
     .act = act_evictions,
     .end_ms = 14000,
     .even_min = 90},
    {.name = "evictions and failed creations",
     .replicas = 30,
     .canary = 0,
     .every = 3,
     .shards = 10,
     .webhooks = 2,
     .lag_ms = 20,
     AS_DEPLOYED,
     .act = act_failures,
     .end_ms = 20000,
     .even_min = 70},
};

/* ---- a world ---- */

static void begin(struct world *w, const struct scenario *s, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    w->s = s;
    w->lag_ms = lag_ms != 0 ? lag_ms : s->lag_ms;
    w->random = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    for (unsigned i = 0; i < 10; i++) {
        (void)below(w, 2);
    }
    w->first_share = 10 + below(w, 81);
    resize(w, s->replicas);
    w->size = size_for(w);
    for (unsigned n = 0; n < SHARDS; n++) {
        struct child *c = &w->children[n];
        c->now = wanted_child(w, n, false);
        for (unsigned i = 0; i < WEBHOOKS; i++) {
            c->views[i] = (struct child_view){.seen = c->now, .due = NEVER};
        }
    }
    for (unsigned i = 0; i < s->webhooks; i++) {
        struct webhook *h = &w->webhooks[i];
        uint64_t random = (uint64_t)below(w, UINT32_MAX) << 32 | below(w, UINT32_MAX);
        assignments_init(&h->memory, random);
        h->from_back = ends == ENDS_BOTH && i > 0;
    }
}

static void count_living(const struct world *w, unsigned count[SHARDS])
{
    memset(count, 0, SHARDS * sizeof *count);
    for (size_t i = 0; i < w->pod_count; i++) {
        count[w->pods[i].number] += lives(w, &w->pods[i]);
    }
}

static void note_empty(struct world *w)
{
    unsigned count[SHARDS];
    unsigned total = 0;
    count_living(w, count);
    for (unsigned n = 0; n < SHARDS; n++) {
        total += count[n];
    }
    w->latest = total < w->replicas ? w->now : w->latest;
    for (unsigned n = 1; n < SHARDS; n++) {
        bool empty = n <= w->size && count[n] == 0 && w->now >= 4000;
        w->empty_since[n] = !empty ? 0 : w->empty_since[n] == 0 ? w->now : w->empty_since[n];
        int since = empty ? w->now - w->empty_since[n] : 0;
        w->longest_empty = since > w->longest_empty ? since : w->longest_empty;
    }
}

static void run(struct world *w)
{
    for (; w->now < w->s->end_ms; w->now += STEP_MS) {
        w->s->act(w);
        step_requests(w);
        step_deployment(w);
        step_root(w);
        for (unsigned i = 0; i <= w->revision; i++) {
            step_set(w, i);
        }
        note_empty(w);
    }
}

struct sums {
    unsigned spreads[6];   /* worlds by the largest difference between two normal shards */
    unsigned even;         /* in which it is 1 at most, and the canary is right */
    unsigned empty;        /* in which a shard is empty, and another has two */
    unsigned wrong_canary; /* in which it has not as many as it is to have */
    unsigned wrong_total;  /* in which there are not as many pods as there are to be */
    unsigned evictions;    /* that make all even, in all of them */
    int longest_empty;
    int latest; /* of all pods, since there are to be so many */
};

/* By the root, one after the other, each followed by a pod for who lacks one. */
static unsigned count_evictions(const struct world *w, const unsigned count[SHARDS])
{
    struct balance_shard shards[SHARDS];
    struct balance b;
    unsigned evictions = 0;
    size_t n = 0;
    for (unsigned i = 0; i <= w->size; i++) {
        struct child_state c = wanted_child(w, i, count[i] > 0);
        unsigned wanted = i == 0 ? c.wanted : least(c.wanted, w->s->every);
        if (c.wanted != 0) {
            shards[n++] = (struct balance_shard){.number = i, .wanted = wanted, .pods = count[i]};
        }
    }
    while ((b = balance_look(shards, n)).from != BALANCE_NONE && b.to != BALANCE_NONE) {
        shards[b.from].pods--;
        shards[b.to].pods++;
        evictions++;
    }
    return evictions;
}

static void judge(const struct world *w, struct sums *sums)
{
    unsigned count[SHARDS];
    unsigned most = 0;
    unsigned fewest = UINT32_MAX;
    unsigned total = 0;
    count_living(w, count);
    for (unsigned n = 1; n <= w->size; n++) {
        most = count[n] > most ? count[n] : most;
        fewest = least(fewest, count[n]);
    }
    for (unsigned n = 0; n < SHARDS; n++) {
        total += count[n];
    }
    bool right = w->paused || count[0] == w->s->canary;
    sums->spreads[least(most - fewest, ARRAY_LEN(sums->spreads) - 1)]++;
    sums->even += most - fewest <= 1 && right;
    sums->empty += fewest == 0 && most >= 2;
    sums->wrong_canary += !right;
    sums->wrong_total += !w->paused && total != w->replicas;
    sums->evictions += w->paused ? 0 : count_evictions(w, count);
    int late = w->latest < w->resized ? 0 : w->latest - w->resized;
    sums->latest = late > sums->latest ? late : sums->latest;
    sums->longest_empty =
        w->longest_empty > sums->longest_empty ? w->longest_empty : sums->longest_empty;
}

static bool report(const struct scenario *s, const struct sums *sums, unsigned seeds)
{
    bool enough = sums->even * 100 >= s->even_min * seeds && sums->wrong_total == 0;
    printf("%-34s", s->name);
    for (unsigned i = 0; i < ARRAY_LEN(sums->spreads); i++) {
        printf(" %5u", sums->spreads[i]);
    }
    printf(" | %5u %5u %6d %5u %6d%s\n", sums->empty, sums->wrong_canary, sums->longest_empty,
           sums->evictions, sums->latest, enough ? "" : "  NOT ENOUGH ARE EVEN");
    return enough;
}

static bool explore(const struct scenario *s, unsigned seeds)
{
    static struct world w;
    struct sums sums = {.empty = 0};
    for (unsigned seed = 1; seed <= seeds; seed++) {
        begin(&w, s, seed);
        run(&w);
        judge(&w, &sums);
    }
    return report(s, &sums, seeds);
}

static bool read_ends(const char *text)
{
    for (size_t i = 0; i < ARRAY_LEN(end_names); i++) {
        if (strcmp(text, end_names[i]) == 0) {
            ends = (enum ends)i;
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    unsigned seeds = 100;
    bool right = true;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--no-costs") == 0) {
            with_costs = false;
            continue;
        }
        if (strcmp(argv[i], "--seeds") == 0) {
            seeds = (unsigned)strtoul(value, NULL, 10);
        } else if (strcmp(argv[i], "--lag") == 0) {
            lag_ms = (int)strtoul(value, NULL, 10);
        } else if (strcmp(argv[i], "--ends") != 0 || !read_ends(value)) {
            (void)fprintf(stderr, "unknown: %s %s\n", argv[i], value);
            return 2;
        }
        i++;
    }
    printf("%u worlds of each scenario, places from %s, deletion costs: %s\n", seeds,
           end_names[ends], with_costs ? "yes" : "no");
    printf("%-34s worlds by difference 0 to 4, more   | empty canary gap evictions late\n", "");
    for (size_t i = 0; i < ARRAY_LEN(scenarios); i++) {
        right = explore(&scenarios[i], seeds) && right;
    }
    return right ? 0 : 1;
}
