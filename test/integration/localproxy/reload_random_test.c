/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules change at random while clients follow a small API server that fails at random: nobody is
 * ever shown what is outside of the rules in force, nor anything twice, and when all is quiet each
 * client has exactly what it should.
 *
 * CMESH_SEED begins with another seed, CMESH_ROUNDS does more of them.
 */
#include "reload_informer.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/log.h"

enum {
    INFORMERS = 12,
    STEPS = 400,
    SETTLE_TURNS = 4000,
    LEASE_TURNS = 100,
    CATCH_UP = 12,
    ROUNDS = 20,
};

struct play {
    struct fixture fixture;
    struct storing_api store;
    struct informer_world world;
    struct informer informers[INFORMERS];
    struct selector *rules;
    uint64_t seed;
    unsigned step;
    unsigned reloads;
    unsigned restarts;
};

static void turn_loop(struct play *p)
{
    for (int i = 0; i < 3; i++) {
        (void)uv_run(&p->store.api.loop->uv, UV_RUN_NOWAIT);
    }
}

/* Creates, changes or deletes some pod. Its labels are ns (its namespace, never another), app and
 * zone, which may be missing. */
static void change_pod(struct storing_api *st)
{
    unsigned i = store_chance(st, PODS);
    char name[16];
    (void)snprintf(name, sizeof name, "p%u", i);
    const cJSON *old = store_get(st, "pods", pod_ns(i), name);
    const char *app = store_text(old, "metadata/labels/app");
    const char *zone = store_text(old, "metadata/labels/zone");
    char letter[2] = {app[0] != '\0' ? app[0] : 'x', '\0'};
    char digit[2] = {zone[0], '\0'};
    if (old != NULL && store_chance(st, 6) == 0) {
        store_delete(st, "pods", pod_ns(i), name);
        return;
    }
    if (store_chance(st, 2) == 0) {
        letter[0] = (char)('x' + store_chance(st, 3));
        digit[0] = store_chance(st, 3) == 0 ? '\0' : (char)('1' + store_chance(st, 5));
    }
    store_put_text(
        st, "pods", pod_ns(i),
        "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"ns\":\"%s\",\"app\":\"%s\"%s%s%s}}}", name,
        pod_ns(i), letter, digit[0] != '\0' ? ",\"zone\":\"" : "", digit,
        digit[0] != '\0' ? "\"" : "");
}

static const char *const pool[] = {
    "ns in (a)",
    "ns in (a,b)",
    "ns in (b,c)",
    "ns in (a,b,c,d)",
    "ns in (d)",
    "ns notin (a)",
    "ns in (a,b),app in (x,y)",
    "ns in (b),app!=z",
    "app=x",
    "app!=x,zone",
    "!zone",
    "zone>2",
    "zone in (1,2),ns in (a,c)",
    "zone notin (1,5)",
    "k,!k",
    NULL,
};

static void set_selector(struct play *p, const char *text)
{
    struct err e = ERR_INIT;
    selector_free(p->rules);
    p->rules = text != NULL ? selector_parse(slice_str(text), &e) : NULL;
    p->world.rules = p->rules;
    p->world.strict = false;
}

static void reload(struct play *p)
{
    unsigned i = store_chance(&p->store, ARRAY_LEN(pool));
    set_selector(p, pool[i]);
    fixture_limit(&p->fixture, pool[i]);
    p->reloads++;
    /* What was on its way arrives; nothing new does. */
    for (int turn = 0; turn < CATCH_UP; turn++) {
        turn_loop(p);
    }
    p->world.strict = true;
}

/* The rules change while it is away, or do not. */
static void restart(struct play *p)
{
    unsigned i = store_chance(&p->store, ARRAY_LEN(pool));
    fixture_restart(&p->fixture);
    for (unsigned n = 0; n < INFORMERS; n++) {
        informer_move(&p->informers[n]);
    }
    set_selector(p, pool[i]);
    fixture_limit(&p->fixture, pool[i]);
    p->world.strict = true;
    p->restarts++;
}

static void step(struct play *p)
{
    struct storing_api *st = &p->store;
    if (store_chance(st, 2) == 0) {
        change_pod(st);
    }
    if (store_chance(st, 12) == 0) {
        reload(p);
    }
    if (store_chance(st, 150) == 0) {
        store_compact(st, store_chance(st, 20));
    }
    if (store_chance(st, 300) == 0) {
        restart(p);
    }
    for (unsigned n = 0; n < INFORMERS; n++) {
        informer_turn(&p->informers[n]);
    }
    store_play(st);
    turn_loop(p);
}

static bool all_right(const struct play *p)
{
    for (unsigned n = 0; n < INFORMERS; n++) {
        if (!informer_is_right(&p->informers[n])) {
            return false;
        }
    }
    return true;
}

/* As kube-apiserver renews its own lease: the version of lists moves on. */
static void renew_lease(struct storing_api *st)
{
    store_put_text(st, "leases", "kube-system", "{\"metadata\":{\"name\":\"kube-apiserver\"}}");
}

static void settle(struct play *p)
{
    p->store.calm = true;
    for (unsigned turn = 0; turn < SETTLE_TURNS && !all_right(p); turn++) {
        for (unsigned n = 0; n < INFORMERS; n++) {
            informer_turn(&p->informers[n]);
        }
        if (turn % LEASE_TURNS == 0) {
            renew_lease(&p->store);
        }
        store_play(&p->store);
        run_for(p->store.api.loop, 1);
    }
    for (unsigned n = 0; n < INFORMERS; n++) {
        if (!informer_is_right(&p->informers[n])) {
            informer_explain(&p->informers[n]);
            fail_msg("seed %lu: informer %u does not have what it should", (unsigned long)p->seed,
                     n);
        }
    }
    p->store.calm = false;
}

static void play(struct net_loop *l, uint64_t seed)
{
    struct play *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->seed = seed;
    p->store.by_chance = true;
    p->store.kind = "Pod";
    p->store.random = seed * 2654435761u + 88172645463325252u;
    assert_true(store_open(&p->store, l));
    for (unsigned i = 0; i < 2 * PODS; i++) {
        change_pod(&p->store);
    }
    p->fixture.flags.reload_mode = store_chance(&p->store, 4) == 0 ? RELOAD_CUT : RELOAD_SEAMLESS;
    assert_true(fixture_open(&p->fixture, &p->store.api));
    p->world = (struct informer_world){.fixture = &p->fixture, .store = &p->store};
    fixture_limit(&p->fixture, NULL);
    for (unsigned n = 0; n < INFORMERS; n++) {
        informer_open(&p->informers[n], &p->world, n);
    }
    print_message("seed %lu\n", (unsigned long)seed);
    for (int part = 0; part < 2; part++) {
        for (p->step = 0; p->step < STEPS; p->step++) {
            step(p);
        }
        settle(p);
    }
    const struct metrics *m = &p->fixture.metrics;
    print_message("  %u reloads, %u restarts, %lu migrated, %lu spliced, %lu cut, %lu expired\n",
                  p->reloads, p->restarts, (unsigned long)m->migrated,
                  (unsigned long)m->spliced_events, (unsigned long)m->watches_cut,
                  (unsigned long)m->fallbacks[FALLBACK_EXPIRED]);
    for (unsigned n = 0; n < INFORMERS; n++) {
        informer_close(&p->informers[n]);
    }
    fixture_close(&p->fixture);
    store_close(&p->store);
    selector_free(p->rules);
    free(p);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void views_follow_the_rules(void **state)
{
    uint64_t seed = number_of("CMESH_SEED", 1);
    uint64_t rounds = number_of("CMESH_ROUNDS", ROUNDS);
    for (uint64_t i = 0; i < rounds; i++) {
        play(*state, seed + i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(views_follow_the_rules, loop_setup, loop_teardown),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
