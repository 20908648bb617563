/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of all that a cache meets while it follows pods: they and ShardingConfigs come and go, at
 * an API server that fails, refuses and delays at random.
 *
 * Once all is known it stays so, and never goes back in time: no pod comes back, none is missing
 * for a moment, none is shown as it was. Each ShardingConfig has the pods that it selects of those
 * that are known. When all is quiet the cache has what the API server has.
 *
 * CMESH_SEED begins with another seed, CMESH_ROUNDS does more of them. Seeds say which chances are
 * taken, not how the kernel cuts what is sent: one that fails may need several runs.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/log.h"
#include "rounds.h"
#include "shard_cache_fixture.h"

enum {
    NAMESPACES = 9,
    PODS = 4, /* names in each namespace */
    STEPS = 500,
    FEW = 8, /* rounds */
    MANY = 25,
    SETTLE_TURNS = 4000,
    QUIET_TURNS = 60,
    PASSED_MS = 10000, /* of time limits, now and then */
    UNKNOWN = -2,      /* what is known of a pod: nothing that is to be relied on */
    NEVER = -1,        /* that it has not been there yet; else the place in its history */
};

struct play {
    struct place place;
    bool synced;
    int seen[NAMESPACES][PODS];
    uint64_t seed;
    unsigned step;
};

static const char *ns_name(unsigned n)
{
    static const char *const names[NAMESPACES] = {"n0", "n1", "n2", "n3", "n4",
                                                  "n5", "n6", "n7", "n8"};
    return names[n];
}

static const char *pod_name(unsigned i)
{
    static const char *const names[PODS] = {"p0", "p1", "p2", "p3"};
    return names[i];
}

static unsigned chance(struct play *p, unsigned n)
{
    return store_chance(&p->place.store, n);
}

/* ---- what is known, and what may be ---- */

static const struct stored_object *history_of(struct play *p, unsigned n, unsigned i)
{
    LIST_FOR_EACH(node, &p->place.store.objects)
    {
        const struct stored_object *o = LIST_ITEM(node, struct stored_object, link);
        if (strcmp(o->resource, "pods") == 0 && strcmp(o->ns, ns_name(n)) == 0 &&
            strcmp(o->name, pod_name(i)) == 0) {
            return o;
        }
    }
    return NULL;
}

/* The place in its history of what is known, not before `from`; UNKNOWN: it is not there. */
static int place_of(const struct stored_object *o, const struct pod *pod, int from)
{
    int count = o == NULL ? 0 : (int)o->count;
    if (pod == NULL && from <= NEVER) {
        return NEVER;
    }
    for (int at = from < 0 ? 0 : from; at < count; at++) {
        const struct stored_version *v = &o->history[at];
        bool same = pod == NULL ? v->json == NULL
                                : v->json != NULL &&
                                      (unsigned)strtoul(pod->version, NULL, 10) == v->version;
        if (same) {
            return at;
        }
    }
    return UNKNOWN;
}

static void check_pod(struct play *p, unsigned n, unsigned i)
{
    char key[32];
    (void)snprintf(key, sizeof key, "%s/%s", ns_name(n), pod_name(i));
    const struct pod *pod = shard_cache_find_pod(p->place.cache, key);
    int *last = &p->seen[n][i];
    int now = place_of(history_of(p, n, i), pod, *last);
    if (now == UNKNOWN) {
        fail_msg("seed %lu, step %u: %s is known of version %s, after state %d of it",
                 (unsigned long)p->seed, p->step, key, pod == NULL ? "none" : pod->version, *last);
    }
    *last = now;
}

static void check(struct play *p)
{
    bool synced = shard_cache_synced(p->place.cache);
    if (p->synced && !synced) {
        fail_msg("seed %lu, step %u: not synced any more", (unsigned long)p->seed, p->step);
    }
    p->synced = synced;
    for (unsigned i = 0; synced && i < NAMESPACES * PODS; i++) {
        check_pod(p, i / PODS, i % PODS);
    }
    if (place_config_difference(&p->place)[0] != '\0') {
        fail_msg("seed %lu, step %u: %s", (unsigned long)p->seed, p->step,
                 place_config_difference(&p->place));
    }
}

/* ---- what happens ---- */

static void change_pod(struct play *p)
{
    struct storing_api *st = &p->place.store;
    unsigned n = chance(p, NAMESPACES);
    const char *name = pod_name(chance(p, PODS));
    if (store_get(st, "pods", ns_name(n), name) != NULL && chance(p, 3) == 0) {
        store_delete(st, "pods", ns_name(n), name);
    } else {
        place_put_pod(&p->place, ns_name(n), name, chance(p, 2) == 0 ? "a" : "b");
    }
}

/* They come more often when they are to be many. */
static void change_config(struct play *p, unsigned many)
{
    struct storing_api *st = &p->place.store;
    const char *ns = ns_name(chance(p, NAMESPACES));
    if (chance(p, 10) < many) {
        place_put_config(&p->place, ns, "a", chance(p, 2) == 0 ? "a" : "b");
    } else if (store_get(st, "shardingconfigs", ns, "a") != NULL) {
        store_delete(st, "shardingconfigs", ns, "a");
    }
}

static const char *const parts[] = {
    "/api/v1/pods?", "/api/v1/pods?watch", "/api/v1/pods?limit", "continue=", "/shardingconfigs?",
};

static const char *any_part(struct play *p)
{
    return chance(p, 2) == 0 ? NULL : parts[chance(p, ARRAY_LEN(parts))];
}

static void disturb(struct play *p)
{
    static const unsigned statuses[] = {403, 403, 500, 429};
    struct storing_api *st = &p->place.store;
    switch (chance(p, 6)) {
    case 0:
        st->refused.part = any_part(p);
        st->refused.status = statuses[chance(p, ARRAY_LEN(statuses))];
        break;
    case 1:
    case 2:
        st->paused = any_part(p);
        break;
    case 3:
        store_expire_watches(st, chance(p, 2) == 0 ? "/api/v1/pods?" : "/shardingconfigs?");
        break;
    case 4:
        store_compact(st, chance(p, 30));
        break;
    default:
        store_end_watches(st);
        break;
    }
}

static void turn(struct play *p)
{
    struct storing_api *st = &p->place.store;
    store_play(st);
    for (unsigned i = chance(p, 3); i > 0; i--) {
        (void)uv_run(&st->api.loop->uv, UV_RUN_NOWAIT);
        check(p);
    }
    if (chance(p, 3) == 0) {
        store_end_pauses(st);
    }
    if (chance(p, 20) == 0) {
        loop_skip(st->api.loop, PASSED_MS);
    }
    check(p);
    buf_clear(&p->place.log);
}

static void step(struct play *p, unsigned many)
{
    if (chance(p, 2) == 0) {
        change_pod(p);
    }
    if (chance(p, 12) == 0) {
        change_config(p, many);
    }
    if (chance(p, 25) == 0) {
        disturb(p);
    }
    if (chance(p, 300) == 0) {
        store_lose(&p->place.store);
        turn(p);
        assert_true(api_listen(&p->place.store.api));
    }
    turn(p);
}

/* ---- when all is quiet ---- */

static const char *what_is_wrong(struct play *p)
{
    const char *difference = place_difference(&p->place);
    if (difference[0] != '\0') {
        return difference;
    }
    return shard_cache_synced(p->place.cache) ? NULL : "it is not synced";
}

static void settle(struct play *p)
{
    struct storing_api *st = &p->place.store;
    st->calm = true;
    st->paused = NULL;
    st->refused.part = NULL;
    for (unsigned i = 0, quiet = 0; i < SETTLE_TURNS && quiet < QUIET_TURNS; i++) {
        turn(p);
        quiet = what_is_wrong(p) == NULL ? quiet + 1 : 0;
    }
    if (what_is_wrong(p) != NULL) {
        fail_msg("seed %lu: %s", (unsigned long)p->seed, what_is_wrong(p));
    }
    st->calm = false;
}

/* ---- a round ---- */

static struct play *open_play(uint64_t seed)
{
    struct play *p = calloc(1, sizeof *p);
    assert_non_null(p);
    struct storing_api *st = &p->place.store;
    p->seed = seed;
    p->place.hurried = true;
    st->by_chance = true;
    st->random = seed * 2654435761u + 88172645463325252u;
    assert_true(place_open(&p->place));
    st->page_max = chance(p, 4);
    st->cache = chance(p, 2) == 0;
    for (unsigned i = 0; i < 20; i++) {
        change_pod(p);
        change_config(p, 5);
    }
    for (unsigned i = 0; i < NAMESPACES * PODS; i++) {
        p->seen[i / PODS][i % PODS] = UNKNOWN;
    }
    place_begin(&p->place, NULL);
    return p;
}

static void play(uint64_t seed)
{
    static const unsigned many[] = {9, 5, 1, 8};
    struct play *p = open_play(seed);
    for (unsigned part = 0; part < ARRAY_LEN(many); part++) {
        for (p->step = 0; p->step < STEPS; p->step++) {
            step(p, many[part]);
        }
        settle(p);
    }
    assert_true(place_close(&p->place));
    free(p);
}

static void pods_are_as_they_are(void **state)
{
    (void)state;
    uint64_t seed = rounds_number("CMESH_SEED", 1);
    uint64_t count = rounds_number("CMESH_ROUNDS", rounds(FEW, MANY));
    for (uint64_t i = 0; i < count; i++) {
        play(seed + i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pods_are_as_they_are),
    };
    log_init("test", LOG_TEXT, getenv("CMESH_DEBUG") != NULL ? LOG_DEBUG : LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
