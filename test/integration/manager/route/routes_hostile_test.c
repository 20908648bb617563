/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller of routes among others who write what they like, and an API server that fails:
 * who is asked in each moment, also by two processes that think to lead. CMESH_SEED begins with
 * another seed, CMESH_ROUNDS plays more of them.
 */
#include "base/log.h"
#include "rounds.h"
#include "route/entries_list.h"
#include "routes_fixture.h"
#include "json/edit.h"
#include "json/field.h"

#include <stdio.h>
#include <stdlib.h>

#define CONSTANT                                                                                   \
    "{\"matchExpressions\":[{\"key\":\"" RIG_PREFIX "/control\",\"operator\":\"DoesNotExist\"}]}"

static const char *const names[] = {"x", "y", "z", "other"};

/* The first namespace that nobody is asked about, or several are; NULL: there is none. */
static const char *find_wrong(struct rig *g, bool several)
{
    for (size_t i = 0; i < 4; i++) {
        const char *owner = rig_owner(g, names[i]);
        if (several ? strchr(owner, ',') != NULL : owner[0] == '\0') {
            return names[i];
        }
    }
    return NULL;
}

static void expect_covered(struct rig *g)
{
    const char *wrong = rig_narrowed(g) ? find_wrong(g, false) : NULL;
    if (wrong != NULL) {
        fail_msg("nobody is asked about %s", wrong);
    }
}

static void begin_routed(struct rig *g)
{
    rig_operator(g);
    rig_label(g, true);
    rig_lead(g);
    RIG_AWAIT(g, rig_narrowed(g), 15000);
    rig_pass(g, 500);
}

/* Another operator's, older than "op", narrowed by its owner, with so many webhooks. */
static void put_crowd(struct rig *g, unsigned count)
{
    struct edit ed = {.rc = 0};
    cJSON *o = cJSON_Parse("{\"metadata\":{\"name\":\"crowd\",\"labels\":{\"" RIG_PREFIX
                           "/route\":\"true\"},\"creationTimestamp\":\"2025-01-01T00:00:00Z\"}}");
    cJSON *list = edit_array(&ed, o, "webhooks");
    for (unsigned i = 0; i < count; i++) {
        char text[1024];
        (void)snprintf(text, sizeof text,
                       "{\"name\":\"w%u.crowd.example.com\",\"clientConfig\":{\"service\":{"
                       "\"namespace\":\"ops\",\"name\":\"hook\",\"port\":443}},\"rules\":[{"
                       "\"apiGroups\":[\"\"],\"apiVersions\":[\"v1\"],\"operations\":[\"*\"],"
                       "\"resources\":[\"secrets\"]}],\"namespaceSelector\":" CONSTANT "}",
                       i);
        edit_append(&ed, list, cJSON_Parse(text));
    }
    assert_int_equal(ed.rc, 0);
    store_put(&g->store, RIG_VALIDATING, "", o);
}

static void one_that_grows_takes_no_room_of_others(void **state)
{
    struct rig *g = *state;
    begin_routed(g);
    g->on_turn = expect_covered;
    put_crowd(g, 100);
    rig_pass(g, 2000);
    assert_true(rig_entries(g) > 100);
    put_crowd(g, 149);
    rig_pass(g, 10000);
    assert_true(rig_narrowed(g));
    rig_expect_owner(g, "x", "a");
    assert_int_equal(rig_entries(g), ENTRIES_MAX); /* as many of the other one as there is room */
}

/* ---- at random ---- */

struct play {
    struct rig *g;
    uint64_t excused_until; /* somebody has left namespaces without entries */
    uint64_t doubled_since;
    uint64_t failed_at; /* a write, or it was about to */
    bool covered; /* since it is narrowed: what its owner narrows without us is not our matter */
    unsigned seed;
    char last[4096]; /* what has happened */
};

static struct play play;

static uint64_t now(struct rig *g)
{
    return net_clock_now(&g->clock.clock);
}

static void excuse(struct rig *g, uint64_t ms)
{
    bool failed = play.failed_at != 0 && now(g) - play.failed_at < 65000;
    uint64_t until = now(g) + (failed ? 130000 : ms); /* what is forbidden is tried each minute */
    play.excused_until = until > play.excused_until ? until : play.excused_until;
}

static void note(const char *what)
{
    size_t len = strlen(play.last);
    if (len > sizeof play.last - 100) {
        memmove(play.last, play.last + 2000, len - 2000 + 1);
        len -= 2000;
    }
    (void)snprintf(play.last + len, sizeof play.last - len, "%u:%s ", (unsigned)now(play.g), what);
}

static bool is_labelled(struct rig *g)
{
    const cJSON *o = store_get(&g->store, RIG_VALIDATING, "", "op");
    const cJSON *labels = field_get(field_get(o, "metadata"), "labels");
    return strcmp(field_text(labels, RIG_PREFIX "/route"), "true") == 0;
}

static void judge(struct rig *g)
{
    bool faulty = g->store.failing.count > 0 || g->routes == NULL;
    play.failed_at = faulty ? now(g) : play.failed_at;
    const char *wrong = rig_narrowed(g) ? find_wrong(g, false) : NULL;
    play.covered = rig_narrowed(g) && (play.covered || wrong == NULL);
    if (wrong != NULL && (play.covered || is_labelled(g)) && now(g) > play.excused_until) {
        print_error("%s\n", play.last);
        fail_msg("seed %u: nobody is asked about %s at %u", play.seed, wrong, (unsigned)now(g));
    }
    wrong = find_wrong(g, true);
    if (wrong != NULL) {
        fail_msg("seed %u: two are asked about %s: %s", play.seed, wrong, play.last);
    }
    bool doubled = !rig_narrowed(g) && rig_entries(g) > 0;
    play.doubled_since = !doubled || faulty ? now(g) : play.doubled_since;
    if (now(g) - play.doubled_since > 75000) {
        fail_msg("seed %u: reviews are sent twice since %u at %u: %s", play.seed,
                 (unsigned)play.doubled_since, (unsigned)now(g), play.last);
    }
}

/* What was so between two writes. */
static void judge_writes(struct storing_api *s)
{
    judge(LIST_ITEM(s, struct rig, store));
}

static const char *const some_names[] = {"\"x\"",       "\"x\",\"y\"", "\"z\"",
                                         "\"z\",\"y\"", "\"x\",\"z\"", "\"w\""};

static void edit_shard(struct rig *g, const char *name)
{
    unsigned i = store_chance(&g->store, 6);
    bool hold = store_chance(&g->store, 3) == 0;
    char text[64];
    (void)snprintf(text, sizeof text, "%s=%s", name, some_names[i]);
    note(text);
    rig_shard(g, name, some_names[i], hold ? ",\"duringHandover\":\"Hold\"" : "");
}

static void touch_routes(struct rig *g)
{
    cJSON *o = cJSON_Duplicate(store_get(&g->store, RIG_VALIDATING, "", "cmesh-routes"), true);
    cJSON *list = o == NULL ? NULL : cJSON_GetObjectItem(o, "webhooks");
    if (o == NULL) {
        note("routes made");
        store_put_text(&g->store, RIG_VALIDATING, "", "{\"metadata\":{\"name\":\"cmesh-routes\"}}");
        return;
    }
    int count = cJSON_GetArraySize(list);
    if (count > 0) {
        note("an entry goes");
        cJSON_DeleteItemFromArray(list, (int)store_chance(&g->store, (unsigned)count));
    }
    store_put(&g->store, RIG_VALIDATING, "", o);
    play.covered = play.covered && is_labelled(g);
    excuse(g, 1500);
}

static void fail_somewhere(struct rig *g)
{
    static const char *const paths[] = {"services/hook", RIG_VALIDATING "/cmesh-routes",
                                        RIG_VALIDATING "/op"};
    static const struct {
        unsigned status;
        enum store_fault fault;
    } faults[] = {{500, STORE_NONE}, {409, STORE_NONE},   {429, STORE_NONE}, {403, STORE_NONE},
                  {422, STORE_NONE}, {0, STORE_CUT_DONE}, {0, STORE_CUT}};
    unsigned i = store_chance(&g->store, 7);
    unsigned p = store_chance(&g->store, 3);
    char text[64];
    (void)snprintf(text, sizeof text, "%s %u/%d", paths[p], faults[i].status, (int)faults[i].fault);
    note(text);
    store_fail(&g->store, paths[p], faults[i].status, faults[i].fault,
               1 + store_chance(&g->store, 2));
    if (now(g) < play.excused_until) {
        excuse(g, 70000);
    }
}

static void delete (struct rig *g, const char *resource, const char *ns, const char *name)
{
    note(name);
    note("deleted");
    if (store_get(&g->store, resource, ns, name) != NULL) {
        store_delete(&g->store, resource, ns, name);
    }
}

static void happen(struct rig *g)
{
    switch (store_chance(&g->store, 19)) {
    case 0:
        note("label on");
        if (rig_narrowed(g) && !play.covered) {
            excuse(g, 1500);
        }
        rig_label(g, true);
        break;
    case 1:
        note("label off");
        rig_label(g, false);
        break;
    case 2:
        note("reset");
        rig_select(g, NULL);
        break;
    case 3:
        note("owner narrows");
        if (!rig_narrowed(g) && find_wrong(g, false) != NULL) {
            rig_label(g, true);
            excuse(g, 1500);
        }
        rig_select(g, CONSTANT);
        break;
    case 4:
        touch_routes(g);
        break;
    case 5:
        delete (g, "services", "ops", "hook");
        break;
    case 6:
    case 7:
        note("service anew");
        rig_service(g, "{\"name\":\"webhook\",\"port\":443,\"targetPort\":9443}");
        break;
    case 8:
        edit_shard(g, "a");
        break;
    case 9:
        edit_shard(g, "b");
        break;
    case 10:
        delete (g, "shardingconfigs", "ops", "b");
        break;
    case 11: {
        bool on = store_chance(&g->store, 2) == 0;
        rig_pod(g, "a", on, true);
        rig_slices(g, on, true);
        break;
    }
    case 12:
        g->shards[1].unconfirmed = !g->shards[1].unconfirmed;
        note(g->shards[1].unconfirmed ? "b unconfirmed" : "b confirmed");
        break;
    case 13:
    case 14:
        fail_somewhere(g);
        break;
    case 15:
    case 16:
        note("new leader");
        rig_retire(g);
        rig_lead(g);
        if (now(g) < play.excused_until) {
            excuse(g, 1500);
        }
        break;
    case 17:
        if (g->rival == NULL) {
            note("a rival");
            rig_rival(g);
        }
        break;
    case 18: /* the owner narrows no more */
        note("wide");
        rig_select(g, "{\"matchLabels\":{\"team\":\"t\"}}");
        rig_select(g, NULL);
        break;
    }
    if (g->routes != NULL) {
        routes_look(g->routes, "ops/b");
    }
    if (g->rival != NULL) {
        routes_look(g->rival, "ops/b");
    }
}

static void play_round(struct rig *g, unsigned seed)
{
    play = (struct play){.g = g, .seed = seed};
    g->store.random = seed * 0x9e3779b97f4a7c15ULL;
    rig_operator(g);
    rig_lead(g);
    g->on_turn = judge;
    g->store.before_write = judge_writes;
    for (unsigned i = 0; i < 60; i++) {
        happen(g);
        rig_pass(g, store_chance(&g->store, 3) == 0 ? 7000 : 20 * store_chance(&g->store, 40));
    }
    g->on_turn = NULL;
    g->store.before_write = NULL;
}

static void whatever_others_do_somebody_is_asked(void **state)
{
    unsigned first = (unsigned)rounds_number("CMESH_SEED", 1);
    unsigned count = (unsigned)rounds_number("CMESH_ROUNDS", rounds(1, 5));
    for (unsigned i = 0; i < count; i++) {
        if (i > 0) {
            assert_int_equal(rig_teardown(state), 0);
            assert_int_equal(rig_setup(state), 0);
        }
        play_round(*state, first + i);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_that_grows_takes_no_room_of_others),
        TEST(whatever_others_do_somebody_is_asked),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
