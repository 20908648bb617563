/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of an operator in shards: edits, rules that are published and confirmed step by step, as
 * the shard controller does it, pods that go away and come back, shards that come and go. Each pass
 * of the manager begins from nothing but the routes object, as after a restart. Who is asked about
 * a namespace is decided as the API server does it: by the selectors of the entries.
 */
#include "route/entries.h"

#include "manager/route/route_fixture.h"

#include "base/array.h"
#include "base/xalloc.h"
#include "rounds.h"

enum { SHARDS = 4, NAMES = 6, HASHES = 4, CLASSES = NAMES + HASHES };

/* The first are named by limits at times; the others never, one of each hash: 1, 2, 3, 4. */
static const char *const classes[CLASSES] = {"a",  "b",  "c",  "d",  "aa",
                                             "bb", "wj", "wk", "wl", "wm"};

static const char *const keys[SHARDS] = {"ops/a", "ops/b", "ops/c", "ops/d"};

/* A set of classes, and nobody's: */
typedef unsigned set;
enum { SHARED = 2 }; /* the class that all shards share at times */
enum { NOBODY = -1, FIRST_PORT = 20443, HOLD_PORT = 20500, ORIGINAL_PORT = 443 };

/* The canary has names, the others have hashes without names. */
struct shard {
    bool exists;
    set wanted;
    set published;
    set enforced; /* by its pods */
    bool pods;
    bool admitted;
    bool hold;
    struct rules *wanted_rules;
    struct rules *published_rules;
};

struct world {
    struct fixture_random random;
    struct shard shards[SHARDS];
    bool shared;
    cJSON *routes;
    cJSON *webhook;
    int asked[CLASSES]; /* who, since the last pass: a shard, PARTITION_REST, PARTITION_HELD */
};

static bool has(set s, unsigned class)
{
    return (s >> class & 1) != 0;
}

/* ---- rules ---- */

/* Of a set: hashes without the names that are not in it, or names. */
static struct rules *rules_of(const struct world *w, size_t shard, set s)
{
    char text[512];
    size_t len = 0;
    bool canary = shard == 0;
    if (canary) {
        len += (size_t)snprintf(text, sizeof text, "N in (none");
        for (unsigned i = 0; i < NAMES; i++) {
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", has(s, i) ? "," : "",
                                    has(s, i) ? classes[i] : "");
        }
    } else {
        len += (size_t)snprintf(text, sizeof text, "H in (none");
        for (unsigned i = NAMES; i < CLASSES; i++) {
            if (has(s, i)) {
                len += (size_t)snprintf(text + len, sizeof text - len, ",%u",
                                        sharding_hash(classes[i]));
            }
        }
        if (w->shared && has(s, SHARED)) {
            len += (size_t)snprintf(text + len, sizeof text - len, ",%s", classes[SHARED]);
        }
        len += (size_t)snprintf(text + len, sizeof text - len, "),N notin (none");
        for (unsigned i = 0; i < NAMES; i++) {
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", has(s, i) ? "" : ",",
                                    has(s, i) ? "" : classes[i]);
        }
    }
    (void)snprintf(text + len, sizeof text - len, ")");
    return fixture_rules(text);
}

static void set_rules(struct rules **rules, struct rules *made)
{
    rules_unref(*rules);
    *rules = made;
}

static void want(struct world *w, size_t shard, set s)
{
    w->shards[shard].wanted = s;
    set_rules(&w->shards[shard].wanted_rules, rules_of(w, shard, s));
}

static void publish(struct world *w, size_t shard, set s)
{
    w->shards[shard].published = s;
    set_rules(&w->shards[shard].published_rules, rules_of(w, shard, s));
}

/* ---- what happens ---- */

/* The hash of a named class has the place of its representative. */
static unsigned hash_class(unsigned name)
{
    for (unsigned i = NAMES; i < CLASSES; i++) {
        if (sharding_hash(classes[i]) == sharding_hash(classes[name])) {
            return i;
        }
    }
    return 0;
}

/* Each hash goes to some shard or nobody, some names go to the canary. */
static void edit(struct world *w)
{
    set wanted[SHARDS] = {0};
    for (unsigned i = NAMES; i < CLASSES; i++) {
        unsigned to = fixture_pick(&w->random, SHARDS);
        wanted[to] |= to == 0 ? 0 : 1U << i;
    }
    for (unsigned i = 0; i < NAMES; i++) {
        bool canary = w->shards[0].exists && fixture_pick(&w->random, 3) == 0;
        for (unsigned s = 1; s < SHARDS; s++) {
            wanted[s] |= !canary && has(wanted[s], hash_class(i)) ? 1U << i : 0;
        }
        wanted[0] |= canary ? 1U << i : 0;
    }
    for (unsigned s = 0; s < SHARDS; s++) {
        set shared = w->shared ? 1U << SHARED : 0;
        want(w, s, w->shards[s].exists ? wanted[s] | shared : 0);
    }
}

/* What pods of others may still act on. */
static set taken_by_others(const struct world *w, size_t shard)
{
    set taken = 0;
    for (size_t i = 0; i < SHARDS; i++) {
        const struct shard *s = &w->shards[i];
        taken |= i == shard || !s->exists ? 0 : s->published | (s->pods ? s->enforced : 0);
    }
    return w->shared ? taken & ~(1U << SHARED) : taken;
}

/* Of hashes a name cannot be shown without its hash, unless it is listed by its name. */
static set closed(const struct world *w, size_t shard, set s)
{
    for (unsigned i = 0; i < NAMES && shard != 0; i++) {
        bool shown = has(s, hash_class(i)) || (w->shared && i == SHARED);
        s &= shown ? ~0U : ~(1U << i);
    }
    return s;
}

static const struct partition_resource pods = {SLICE(""), SLICE("pods")};

static struct entries_webhook webhook_of(const struct world *w, struct entries_shard *shards,
                                         size_t *places)
{
    size_t count = 0;
    for (size_t i = 0; i < SHARDS; i++) {
        if (w->shards[i].exists) {
            shards[count] = (struct entries_shard){keys[i], FIRST_PORT + (int)i};
            places[count++] = i;
        }
    }
    return (struct entries_webhook){.keys = &fixture_keys,
                                    .configuration = "operator",
                                    .webhook = w->webhook,
                                    .shards = shards,
                                    .shard_count = count,
                                    .hold_port = HOLD_PORT};
}

/* The shard controller's gate: it does not publish less before nobody is asked for it any more. */
static bool may_release(const struct world *w, size_t shard, set to)
{
    struct entries_shard shards[SHARDS];
    size_t places[SHARDS] = {0};
    struct entries_webhook webhook = webhook_of(w, shards, places);
    struct partition present;
    bool may = true;
    (void)entries_read(&webhook, w->routes, &present, NULL);
    for (size_t i = 0; i < webhook.shard_count; i++) {
        if (places[i] == shard) {
            struct rules *rules = rules_of(w, shard, to);
            may = partition_is_shown(&present, (int)i, rules, &pods);
            rules_unref(rules);
        }
    }
    partition_deinit(&present);
    return may;
}

/* What a shard loses it loses at once, and it gains what no other has. */
static void publish_some(struct world *w, size_t shard)
{
    struct shard *s = &w->shards[shard];
    set gained = s->wanted & ~s->published & ~taken_by_others(w, shard);
    set to = closed(w, shard, (s->published & s->wanted) | gained);
    if (!s->hold || may_release(w, shard, to)) {
        publish(w, shard, to);
    }
}

static void come_or_go(struct world *w, size_t shard)
{
    struct shard *s = &w->shards[shard];
    s->exists = !s->exists;
    s->pods = false;
    s->admitted = false;
    want(w, shard, 0);
    publish(w, shard, 0);
    edit(w);
}

static void happen(struct world *w)
{
    size_t shard = fixture_pick(&w->random, SHARDS);
    struct shard *s = &w->shards[shard];
    switch (fixture_pick(&w->random, 17)) {
    case 0:
        edit(w);
        break;
    case 1:
        s->pods = false;
        break;
    case 2:
        if (fixture_pick(&w->random, 4) == 0) {
            come_or_go(w, shard);
        }
        break;
    case 16:
        if (fixture_pick(&w->random, 3) == 0) {
            w->shared = !w->shared;
            edit(w);
        }
        break;
    case 3:
    case 4:
        s->admitted = s->admitted || s->pods;
        break;
    case 5:
    case 6:
        s->enforced = s->pods ? s->enforced : s->published;
        s->pods = s->exists;
        break;
    case 7:
    case 8:
    case 9:
        s->enforced = s->published;
        break;
    default:
        publish_some(w, shard);
    }
}

/* ---- the manager ---- */

static void gather(const struct world *w, struct partition_shard *facts, const size_t *places,
                   size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct shard *s = &w->shards[places[i]];
        facts[i] = (struct partition_shard){
            .key = keys[places[i]],
            .wanted = s->wanted_rules,
            .published = s->published_rules,
            .confirmed = s->pods && s->enforced == s->published,
            .can_gain = s->admitted,
            .hold = s->hold,
        };
    }
}

static char *shared_names[] = {"c"}; /* classes[SHARED] */

static void pass(struct world *w)
{
    const struct sharing_set shared = {.names = shared_names, .count = w->shared};
    struct entries_shard shards[SHARDS];
    struct partition_shard facts[SHARDS];
    size_t places[SHARDS] = {0};
    struct entries_webhook webhook = webhook_of(w, shards, places);
    struct partition_facts all = {.shards = facts, .count = webhook.shard_count, .shared = &shared};
    struct partition present;
    struct partition next;
    struct route_verdict why;
    struct route_rules rules;
    gather(w, facts, places, webhook.shard_count);
    struct partitioner *p = partitioner_new(&all);
    (void)entries_read(&webhook, w->routes, &present, NULL);
    assert_int_equal(partitioner_next(p, &pods, &present, &next, &why), ROUTE_ROUTED);
    route_rules_init(&rules, p, w->webhook);
    cJSON *made = cJSON_CreateArray();
    entries_make(&webhook, &rules, &next, made);
    route_rules_deinit(&rules);
    cJSON_Delete(w->routes);
    w->routes = made;
    partition_deinit(&present);
    partition_deinit(&next);
    partitioner_free(p);
}

/* ---- the API server ---- */

static int owner_by_port(int port)
{
    return port == ORIGINAL_PORT ? PARTITION_REST
           : port == HOLD_PORT   ? PARTITION_HELD
                                 : port - FIRST_PORT;
}

/* `hash`: the label of the namespace as it is; "": by its name. */
static int ask(const struct world *w, const char *ns, const char *hash)
{
    int found = 0;
    int owner = 0;
    const cJSON *entry;
    cJSON_ArrayForEach(entry, w->routes)
    {
        struct entries_service service;
        if (fixture_matches(cJSON_GetObjectItem(entry, "namespaceSelector"), ns, hash, true)) {
            assert_true(entries_service_of(entry, &service));
            owner = owner_by_port(service.port);
            found++;
        }
    }
    if (found != 1) {
        fail_msg("%d entries match %s: %s", found, ns, cJSON_Print(w->routes));
    }
    return owner;
}

/* ---- promises ---- */

/* Which shard's spec has the class alone. */
static int wanted_by(const struct world *w, unsigned class)
{
    if (w->shared && class == SHARED) {
        return NOBODY;
    }
    for (int i = 0; i < SHARDS; i++) {
        if (w->shards[i].exists && has(w->shards[i].wanted, class)) {
            return i;
        }
    }
    return NOBODY;
}

static void check_move(const struct world *w, unsigned class, int from, int to)
{
    const struct shard *s = to >= 0 ? &w->shards[to] : NULL;
    if (to >= 0 && !(s->exists && s->admitted && s->pods && s->enforced == s->published &&
                     has(s->published, class))) {
        fail_msg("%s moved from %d to %d, which has not confirmed it", classes[class], from, to);
    }
    bool had = from >= 0 && w->shards[from].exists;
    int wanting = wanted_by(w, class);
    bool hold = (had && w->shards[from].hold) || (wanting >= 0 && w->shards[wanting].hold);
    if (to == PARTITION_HELD && !hold) {
        fail_msg("%s is held", classes[class]);
    }
    bool shared = w->shared && class == SHARED;
    if (to == PARTITION_REST && had && !hold && !shared && has(w->shards[from].published, class)) {
        fail_msg("%s was taken from %d, which still shows it", classes[class], from);
    }
    if (to == PARTITION_REST && had && wanting != NOBODY) {
        fail_msg("%s was taken from %d, before anybody has gained it", classes[class], from);
    }
}

/* A pass after which nothing happens has nothing to do. */
static void pass_again(struct world *w)
{
    cJSON *before = cJSON_Duplicate(w->routes, true);
    pass(w);
    assert_true(cJSON_Compare(before, w->routes, true));
    cJSON_Delete(before);
}

static void check_pass(struct world *w)
{
    for (unsigned i = 0; i < CLASSES; i++) {
        int owner = ask(w, classes[i], "");
        if (w->shared && i == SHARED) { /* whether it was relabelled already, or not */
            assert_int_equal(ask(w, classes[i], classes[i]), owner);
        }
        if (owner != w->asked[i]) {
            check_move(w, i, w->asked[i], owner);
        }
        w->asked[i] = owner;
    }
}

/* At any moment, also between two passes: who is asked is allowed to see it. */
static void check_moment(const struct world *w)
{
    for (unsigned i = 0; i < CLASSES; i++) {
        int owner = w->asked[i];
        if (owner >= 0 && w->shards[owner].exists && w->shards[owner].hold &&
            !has(w->shards[owner].published, i)) {
            fail_msg("%s is at %d, which does not show it", classes[i], owner);
        }
    }
}

/* Once nothing happens any more, those are asked whose specs say so. */
static void settle(struct world *w)
{
    for (int round = 0; round < 2 * SHARDS; round++) {
        for (size_t i = 0; i < SHARDS; i++) {
            struct shard *s = &w->shards[i];
            s->pods = s->exists;
            s->admitted = s->exists;
            pass(w);
            check_pass(w);
            publish_some(w, i);
            check_moment(w);
            s->enforced = s->published;
            pass(w);
            check_pass(w);
        }
    }
    for (unsigned i = 0; i < CLASSES; i++) {
        assert_int_equal(w->asked[i], wanted_by(w, i) == NOBODY ? PARTITION_REST : wanted_by(w, i));
    }
}

/* ---- all ---- */

static void world_init(struct world *w, uint64_t seed)
{
    *w = (struct world){.random = fixture_random_of(seed), .routes = cJSON_CreateArray()};
    w->webhook = fixture_json("{\"name\":\"v.example.com\",\"clientConfig\":{\"service\":{"
                              "\"namespace\":\"ops\",\"name\":\"webhook\",\"port\":443}},\"rules\":"
                              "[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"]}],"
                              "\"namespaceSelector\":{\"matchExpressions\":[{\"key\":\"C\","
                              "\"operator\":\"DoesNotExist\"}]}}");
    unsigned holding = fixture_pick(&w->random, 3);
    for (size_t i = 0; i < SHARDS; i++) {
        w->shards[i].hold = holding == 2 || (holding == 1 && fixture_pick(&w->random, 2) == 0);
        w->shards[i].exists = fixture_pick(&w->random, 4) != 0;
        want(w, i, 0);
        publish(w, i, 0);
    }
    edit(w);
    pass(w);
    for (unsigned i = 0; i < CLASSES; i++) {
        w->asked[i] = PARTITION_REST;
    }
    check_pass(w);
}

static void world_deinit(struct world *w)
{
    for (size_t i = 0; i < SHARDS; i++) {
        rules_unref(w->shards[i].wanted_rules);
        rules_unref(w->shards[i].published_rules);
    }
    cJSON_Delete(w->routes);
    cJSON_Delete(w->webhook);
}

static void play(uint64_t seed)
{
    enum { STEPS = 120 };
    struct world w;
    print_message("CMESH_SEED=%llu\n", (unsigned long long)seed);
    world_init(&w, seed);
    for (unsigned step = 0; step < STEPS; step++) {
        happen(&w);
        check_moment(&w);
        if (fixture_pick(&w.random, 3) != 0) {
            pass(&w);
            check_pass(&w);
            check_moment(&w);
            pass_again(&w);
        }
    }
    settle(&w);
    world_deinit(&w);
}

static void random_worlds(void **state)
{
    (void)state;
    uint64_t first = rounds_number("CMESH_SEED", 1);
    uint64_t count = rounds_number("CMESH_ROUNDS", rounds(30, 500));
    for (uint64_t i = 0; i < count; i++) {
        play(first + i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_worlds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
