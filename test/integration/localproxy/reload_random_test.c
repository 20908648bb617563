/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of all there is: rules change at random, localproxy is killed and started again, with and
 * without --state, while clients of several kinds follow a small API server that fails at random.
 * Nobody is ever shown what is outside of the rules in force, nor anything twice; a bookmark never
 * comes before what it stands for, also one after a write by way of localproxy; when all is quiet
 * each client has exactly what it should; and none lists without end.
 *
 * CMESH_SEED begins with another seed, CMESH_ROUNDS does more of them. Seeds say which chances are
 * taken, not how the kernel cuts what is sent: one that fails may need several runs.
 */
#include "reload_informer.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/log.h"
#include "rounds.h"
#include "temp_dir.h"

enum {
    INFORMERS = 12,
    WRITERS = 4,
    STEPS = 400,
    SETTLE_TURNS = 4000,
    LEASE_TURNS = 200,
    CATCH_UP = 12,
    FEW = 5, /* rounds */
    MANY = 15,
    AWAY_TURNS = 10,
    DOUBT_S = 1000000, /* no doubt ends meanwhile, however slow the machine is */
    QUIET_TURNS = 1000,
    QUIET_SETTLE_TURNS = 800,
    LIST_EVERY_MS = 5000, /* what a client is held to that lists in vain */
    TURN_MS = 50,         /* what passes for deadlines with each turn */
};

struct play {
    struct fixture fixture;
    struct storing_api store;
    struct informer_world world;
    struct informer informers[INFORMERS];
    struct client writers[WRITERS]; /* each of one request */
    bool writing[WRITERS];
    struct temp_dir folder;
    char state[256];
    const char *selector; /* the text of `rules` */
    struct selector *rules;
    unsigned first; /* of the selectors that are used, and how many */
    unsigned choices;
    uint64_t seed;
    unsigned step;
    uint64_t turns;
    uint64_t lists_since;
    unsigned reloads;
    unsigned restarts;
};

static void turn_loop(struct play *p)
{
    for (int i = 0; i < 3; i++) {
        (void)uv_run(&p->store.api.loop->uv, UV_RUN_NOWAIT);
    }
}

static void pass_time(struct play *p)
{
    loop_skip(p->store.api.loop, TURN_MS);
    p->turns++;
}

static void arrive(struct play *p)
{
    for (int turn = 0; turn < CATCH_UP; turn++) {
        turn_loop(p);
    }
}

static void turn_informers(struct play *p)
{
    for (unsigned n = 0; n < INFORMERS; n++) {
        informer_turn(&p->informers[n]);
    }
}

/* The operator writes: by way of localproxy, while it is there. */
static void write_through(struct play *p, unsigned i, bool there, const char *object)
{
    char text[1024];
    unsigned n = 0;
    while (n < WRITERS && p->writing[n]) {
        n++;
    }
    if (n == WRITERS || p->fixture.proxy == NULL) {
        return;
    }
    (void)snprintf(text, sizeof text,
                   "%s /api/v1/namespaces/%s/pods%s%.*u HTTP/1.1\r\nHost: localhost\r\n"
                   "Accept: application/json\r\nContent-Type: application/%s\r\n"
                   "Connection: close\r\nContent-Length: %zu\r\n\r\n%s",
                   there ? "PATCH" : "POST", pod_ns(i), there ? "/p" : "", there ? 1 : 0,
                   there ? i : 0, there ? "merge-patch+json" : "json", strlen(object), object);
    client_open(&p->fixture, &p->writers[n]);
    client_send(&p->writers[n], text);
    p->writing[n] = true;
}

static void end_writers(struct play *p, bool all)
{
    for (unsigned n = 0; n < WRITERS; n++) {
        if (p->writing[n]) {
            client_read(&p->writers[n]);
        }
        if (p->writing[n] && (all || p->writers[n].ended)) {
            client_close(&p->writers[n]);
            p->writing[n] = false;
        }
    }
}

/* Creates, changes or deletes some pod, by way of localproxy or not. Its labels are ns (its
 * namespace, never another), app and zone, which may be missing. */
static void change_pod(struct play *p, bool through)
{
    struct storing_api *st = &p->store;
    unsigned i = store_chance(st, PODS);
    char name[16];
    char object[256];
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
    const char *none = through && old != NULL ? ",\"zone\":null" : "";
    (void)snprintf(
        object, sizeof object,
        "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"ns\":\"%s\",\"app\":\"%s\"%s%s%s}}}", name,
        pod_ns(i), letter, digit[0] != '\0' ? ",\"zone\":\"" : none, digit,
        digit[0] != '\0' ? "\"" : "");
    if (through) {
        write_through(p, i, old != NULL, object);
    } else {
        store_put_text(st, "pods", pod_ns(i), "%s", object);
    }
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

static void set_rules(struct play *p, const char *text)
{
    struct err e = ERR_INIT;
    selector_free(p->rules);
    p->selector = text;
    p->rules = text != NULL ? selector_parse(slice_str(text), &e) : NULL;
    p->world.rules = p->rules;
    p->world.strict = false;
    fixture_limit(&p->fixture, text);
    proxy_ask_start_version(p->fixture.proxy);
}

/* Some play with a few selectors only, so that what was in force comes back. */
static const char *any_selector(struct play *p)
{
    return pool[(p->first + store_chance(&p->store, p->choices)) % ARRAY_LEN(pool)];
}

static void reload(struct play *p)
{
    set_rules(p, any_selector(p));
    p->reloads++;
    arrive(p); /* what was on its way; nothing new does */
    p->world.strict = true;
}

/* As kube-apiserver renews its own lease: the version of lists moves on. */
static void renew_lease(struct storing_api *st)
{
    store_put_text(st, "leases", "kube-system", "{\"metadata\":{\"name\":\"kube-apiserver\"}}");
}

/*
 * The rules change while it is away, or do not. Without --state a client from before is not told
 * from one that has listed since, if nothing at all has changed in between
 * (upstream/delivered_versions.h), which no test can mend: so something does, though it be no pod.
 */
static void restart(struct play *p)
{
    struct storing_api *st = &p->store;
    end_writers(p, true);
    fixture_stop(&p->fixture, store_chance(st, 3) != 0);
    arrive(p); /* what it had sent */
    for (unsigned turn = store_chance(st, AWAY_TURNS); turn > 0; turn--) {
        store_play(st);
        turn_loop(p);
    }
    if (p->fixture.flags.state == NULL) {
        renew_lease(st);
    }
    fixture_start(&p->fixture);
    for (unsigned n = 0; n < INFORMERS; n++) {
        informer_move(&p->informers[n]);
    }
    for (unsigned turn = store_chance(st, AWAY_TURNS); turn > 0; turn--) {
        turn_informers(p); /* without rules nobody is shown anything */
        turn_loop(p);
    }
    set_rules(p, store_chance(st, 3) == 0 ? p->selector : any_selector(p));
    p->world.strict = true;
    p->restarts++;
}

/* The API server goes away for a while. */
static void lose_server(struct play *p)
{
    store_lose(&p->store);
    for (unsigned turn = store_chance(&p->store, AWAY_TURNS); turn > 0; turn--) {
        turn_informers(p);
        turn_loop(p);
    }
    assert_true(api_listen(&p->store.api));
}

static void step(struct play *p)
{
    struct storing_api *st = &p->store;
    if (store_chance(st, 2) == 0) {
        change_pod(p, store_chance(st, 2) == 0);
    }
    if (store_chance(st, 12) == 0) {
        reload(p);
    }
    if (store_chance(st, 150) == 0) {
        store_compact(st, store_chance(st, 20));
    }
    if (store_chance(st, 20) == 0) {
        renew_lease(st);
    }
    if (store_chance(st, 100) == 0) {
        restart(p);
    }
    if (store_chance(st, 200) == 0) {
        lose_server(p);
    }
    turn_informers(p);
    end_writers(p, false);
    store_play(st);
    turn_loop(p);
    pass_time(p);
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

/* A turn in which nothing but the lease changes. */
static void rest(struct play *p, bool renew)
{
    turn_informers(p);
    if (renew) {
        renew_lease(&p->store);
    }
    store_play(&p->store);
    turn_loop(p);
    pass_time(p);
}

static void settle(struct play *p, unsigned turns)
{
    bool was_calm = p->store.calm;
    p->store.calm = true;
    for (unsigned turn = 0; turn < turns && !all_right(p); turn++) {
        rest(p, turn % LEASE_TURNS == LEASE_TURNS - 1);
    }
    for (unsigned n = 0; n < INFORMERS; n++) {
        if (!informer_is_right(&p->informers[n])) {
            informer_explain(&p->informers[n]);
            fail_msg("seed %lu: informer %u does not have what it should", (unsigned long)p->seed,
                     n);
        }
    }
    p->store.calm = was_calm;
}

static struct play *open_play(struct net_loop *l, uint64_t seed)
{
    struct play *p = calloc(1, sizeof *p);
    assert_non_null(p);
    struct storing_api *st = &p->store;
    p->seed = seed;
    st->by_chance = true;
    st->kind = "Pod";
    st->random = seed * 2654435761u + 88172645463325252u;
    assert_true(store_open(st, l));
    for (unsigned i = 0; i < 2 * PODS; i++) {
        change_pod(p, false);
    }
    st->cache = store_chance(st, 2) == 0;
    p->first = store_chance(st, ARRAY_LEN(pool));
    p->choices = store_chance(st, 2) == 0 ? ARRAY_LEN(pool) : 2 + store_chance(st, 3);
    temp_dir_init(&p->folder);
    p->fixture.flags.reload_mode = store_chance(st, 4) == 0 ? RELOAD_CUT : RELOAD_SEAMLESS;
    p->fixture.flags.resume_doubt_s = DOUBT_S;
    p->fixture.flags.write_bookmarks = 1;
    p->fixture.flags.state =
        store_chance(st, 3) != 0 ? temp_dir_path(&p->folder, "state", p->state) : NULL;
    assert_true(fixture_open(&p->fixture, &st->api));
    p->world = (struct informer_world){.fixture = &p->fixture, .store = st};
    fixture_limit(&p->fixture, NULL);
    print_message("seed %lu: %s, %s, %s\n", (unsigned long)seed,
                  p->fixture.flags.reload_mode == RELOAD_CUT ? "cut" : "seamless",
                  p->fixture.flags.state != NULL ? "state" : "no state",
                  st->cache ? "cache" : "no cache");
    return p;
}

static void close_play(struct play *p)
{
    end_writers(p, true);
    for (unsigned n = 0; n < INFORMERS; n++) {
        informer_close(&p->informers[n]);
    }
    fixture_close(&p->fixture);
    store_close(&p->store);
    selector_free(p->rules);
    temp_dir_deinit(&p->folder);
    free(p);
}

static void play(struct net_loop *l, uint64_t seed)
{
    struct play *p = open_play(l, seed);
    for (unsigned n = 0; n < INFORMERS; n++) {
        informer_open(&p->informers[n], &p->world, n);
    }
    for (int part = 0; part < 2; part++) {
        for (p->step = 0; p->step < STEPS; p->step++) {
            step(p);
        }
        settle(p, SETTLE_TURNS);
    }
    const struct metrics *m = &p->fixture.metrics;
    print_message("  %u reloads, %u restarts, %lu migrated, %lu spliced, %lu cut, %lu expired, "
                  "%lu bookmarks, %lu overtaken, %lu failed\n",
                  p->reloads, p->restarts, (unsigned long)m->migrated,
                  (unsigned long)m->spliced_events, (unsigned long)m->watches_cut,
                  (unsigned long)m->fallbacks[FALLBACK_EXPIRED],
                  (unsigned long)m->write_probes[WRITE_PROBED_WRITTEN],
                  (unsigned long)m->write_probes[WRITE_PROBED_OVERTAKEN],
                  (unsigned long)m->write_probes[WRITE_PROBED_FAILED]);
    close_play(p);
}

/*
 * Nothing but the rules changes: stale points and fresh ones are of the same version, and clients
 * that look at the same are not told apart.
 */

/* Clients follow at once, so that what keeps a loop from being a hot one is localproxy alone. */
static struct play *open_quiet(struct net_loop *l, uint64_t seed)
{
    struct play *p = open_play(l, seed);
    p->store.calm = true;
    p->world.hasty = true;
    for (unsigned n = 0; n < INFORMERS; n++) {
        informer_open_alike(&p->informers[n], &p->world, n);
    }
    settle(p, SETTLE_TURNS);
    return p;
}

static void disturb(struct play *p)
{
    if (store_chance(&p->store, 3) == 0) {
        restart(p);
    } else {
        reload(p);
    }
}

static uint64_t time_of(const struct play *p)
{
    return p->turns * TURN_MS + uv_now(&p->store.api.loop->uv);
}

static void forget_lists(struct play *p)
{
    p->lists_since = time_of(p);
    for (unsigned n = 0; n < INFORMERS; n++) {
        p->informers[n].lists = 0;
    }
}

/* So many, and one every 5 s. */
static void expect_few_lists(const struct play *p, unsigned max)
{
    uint64_t elapsed = time_of(p) - p->lists_since;
    for (unsigned n = 0; n < INFORMERS; n++) {
        const struct informer *f = &p->informers[n];
        if (f->lists > max + elapsed / LIST_EVERY_MS) {
            informer_explain(f);
            fail_msg("seed %lu: informer %u listed %u times in %lu ms", (unsigned long)p->seed, n,
                     f->lists, (unsigned long)elapsed);
        }
    }
}

static void disturb_and_rest(struct play *p)
{
    unsigned disturbances = 1 + store_chance(&p->store, 6);
    forget_lists(p);
    for (unsigned i = 0; i < disturbances; i++) {
        disturb(p);
        for (unsigned turn = store_chance(&p->store, 40); turn > 0; turn--) {
            rest(p, false);
        }
    }
    expect_few_lists(p, 2 * disturbances + 2);
    forget_lists(p);
    for (unsigned turn = 0; turn < QUIET_TURNS; turn++) {
        rest(p, false);
    }
    expect_few_lists(p, 5);
    forget_lists(p);
    settle(p, QUIET_SETTLE_TURNS);
    expect_few_lists(p, 3);
}

static void play_quiet(struct net_loop *l, uint64_t seed)
{
    struct play *p = open_quiet(l, seed);
    for (int part = 0; part < 3; part++) {
        disturb_and_rest(p);
    }
    print_message("  quiet: %u reloads, %u restarts, %lu refused\n", p->reloads, p->restarts,
                  (unsigned long)p->fixture.metrics.resumes_refused);
    close_play(p);
}

static void views_follow_the_rules(void **state)
{
    uint64_t seed = rounds_number("CMESH_SEED", 1);
    uint64_t count = rounds_number("CMESH_ROUNDS", rounds(FEW, MANY));
    for (uint64_t i = 0; i < count; i++) {
        play(*state, seed + i);
    }
}

static void quiet_resources_cost_few_lists(void **state)
{
    uint64_t seed = rounds_number("CMESH_SEED", 1);
    uint64_t count = rounds_number("CMESH_ROUNDS", rounds(FEW, MANY));
    for (uint64_t i = 0; i < count; i++) {
        play_quiet(*state, seed + i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(quiet_resources_cost_few_lists, loop_setup, loop_teardown),
        cmocka_unit_test_setup_teardown(views_follow_the_rules, loop_setup, loop_teardown),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
