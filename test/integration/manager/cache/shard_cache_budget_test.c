/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits and rules of all shards have one bound: who takes the most gives up, nobody else.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "shard_cache_fixture.h"
#include "json/json.h"

enum { MEMORY = 400 * 1024, READMIT_MS = 10000, READMIT_TURNS = 50 /* pauses pass */ };

static const struct compile_options options = {
    .generation = 1,
    .labels = {.namespace = "namespace", .shard_hash = "hash", .control = "control"}};

#define OTHER                                                                                      \
    "{\"apiVersion\":\"cmesh/v1\",\"generation\":1,\"kind\":\"ShardRules\",\"shard\":{"            \
    "\"name\":\"a\",\"namespace\":\"elsewhere\"},\"spec\":{\"limits\":[]}}"

static int setup(void **state)
{
    int rc = place_setup(state);
    if (rc == 0) {
        struct place *p = *state;
        p->hurried = true;
        p->memory = MEMORY;
    }
    return rc;
}

/* One limit takes some 1.1 KB when it is compiled. */
static void put(struct place *p, const char *ns, const char *name, unsigned generation,
                unsigned limits)
{
    struct buf text = BUF_INIT(1024 * 1024);
    for (unsigned i = 0; i < limits; i++) {
        (void)buf_printf(&text,
                         "%s{\"relateResources\":[{\"apiGroups\":[\"\"],\"resources\":[\"r%u\"]}],"
                         "\"selector\":{\"matchLabels\":{\"a\":\"v%u\"}}}",
                         i == 0 ? "" : ",", i, i);
    }
    store_put_text(&p->store, "shardingconfigs", ns,
                   "{\"metadata\":{\"name\":\"%s\",\"uid\":\"u-%s\",\"generation\":%u},\"spec\":{"
                   "\"selector\":{\"matchLabels\":{\"shard\":\"%s\"}},\"limits\":[%s]}}",
                   name, name, generation, name, buf_cstr(&text));
    buf_reset(&text);
}

static const struct shard_cache_config *find(const struct place *p, const char *key)
{
    const struct shard_cache_config *c = shard_cache_find_config(p->cache, key);
    assert_non_null(c);
    return c;
}

/* Compiles it, as who leads does. Its limits; -1: it is given up. */
static int limits_of(struct place *p, const char *key)
{
    struct err e = ERR_INIT;
    const struct rules *r = shard_cache_rules(p->cache, find(p, key), &options, &e);
    if (r == NULL) {
        assert_int_equal(e.code, -EDQUOT);
        assert_non_null(strstr(e.msg, "--shards-memory"));
    }
    assert_int_equal(r == NULL, find(p, key)->over);
    return r == NULL ? -1 : (int)rules_limit_count(r);
}

static void expect_limits(struct place *p, const char *key, int limits)
{
    assert_int_equal(limits_of(p, key), limits);
}

static void begin(struct place *p)
{
    place_begin(p, NULL);
    place_await_synced(p);
}

/* More than one look finds; of equal ones the last by name, whatever order they came in. */
static void test_many_give_up(void **state)
{
    enum { SHARDS = 100, STEP = 37 };
    struct place *p = *state;
    char key[32];
    for (unsigned i = 0; i < SHARDS; i++) {
        (void)snprintf(key, sizeof key, "c%02u", i * STEP % SHARDS);
        put(p, "tenant", key, 1, 120);
    }
    begin(p);
    place_run(p, 20);
    unsigned given_up = place_metric(p, "cmesh_manager_shards_given_up");
    assert_in_range(given_up, 65, 80);
    assert_in_range(place_metric(p, "cmesh_manager_shards_memory_bytes"), MEMORY * 19 / 20, MEMORY);
    for (unsigned i = 0; i < SHARDS; i++) {
        (void)snprintf(key, sizeof key, "tenant/c%02u", i);
        assert_int_equal(find(p, key)->over, i >= SHARDS - given_up);
    }
}

static unsigned kept_in(struct place *p, const char *ns, unsigned shards)
{
    char key[32];
    unsigned kept = 0;
    for (unsigned i = 0; i < shards; i++) {
        (void)snprintf(key, sizeof key, "%s/c%02u", ns, i);
        kept += !find(p, key)->over;
    }
    return kept;
}

/* Whoever has more gives up next, until both have as much. */
static void test_two_give_up_in_turn(void **state)
{
    enum { SHARDS = 60 };
    struct place *p = *state;
    char name[32];
    for (unsigned i = 0; i < SHARDS; i++) {
        (void)snprintf(name, sizeof name, "c%02u", i);
        put(p, "tenant", name, 1, 120);
        put(p, "another", name, 1, 120);
    }
    begin(p);
    place_run(p, 20);
    unsigned one = kept_in(p, "tenant", SHARDS);
    unsigned two = kept_in(p, "another", SHARDS);
    assert_in_range(one + two, 25, 35);
    assert_in_range(one, two == 0 ? 0 : two - 1, two + 1);
}

/* It is as large as its own limits, and others have nothing to do with it. */
static void test_who_takes_most_gives_up(void **state)
{
    struct place *p = *state;
    put(p, "honest", "a", 1, 100);
    put(p, "tenant", "b", 1, 120);
    put(p, "tenant", "c", 1, 150);
    begin(p);
    expect_limits(p, "tenant/b", 120);
    expect_limits(p, "tenant/c", 150);
    expect_limits(p, "honest/a", 100);
    unsigned used = place_metric(p, "cmesh_manager_shards_memory_bytes");
    assert_in_range(used, 370 * 900, 370 * 1400);
    put(p, "tenant", "d", 1, 140);
    place_expect(p, "config(tenant/d) ");
    /* c is larger than d: it is told, for it was taken before. */
    expect_limits(p, "tenant/d", 140);
    place_expect(p, "excess(tenant) config(tenant/c) ");
    expect_limits(p, "tenant/c", -1);
    expect_limits(p, "tenant/b", 120);
    expect_limits(p, "tenant/d", 140);
    expect_limits(p, "honest/a", 100);
    assert_int_equal(place_metric(p, "cmesh_manager_shards_given_up"), 1);
    assert_true(place_metric(p, "cmesh_manager_shards_memory_bytes") < MEMORY);
    /* The largest one is not even taken, and nobody else is told. */
    put(p, "tenant", "e", 1, 400);
    place_expect(p, "config(tenant/e) ");
    buf_clear(&p->log);
    expect_limits(p, "tenant/e", -1);
    place_run(p, 20);
    assert_null(strstr(buf_cstr(&p->log), "config(tenant/b)"));
    expect_limits(p, "tenant/d", 140);
    /* Somebody with less may have more. */
    put(p, "honest", "f", 1, 100);
    place_expect(p, "config(honest/f) ");
    expect_limits(p, "honest/f", 100);
    place_run(p, 20);
    expect_limits(p, "honest/f", 100);
    expect_limits(p, "honest/a", 100);
    expect_limits(p, "tenant/d", -1);
    expect_limits(p, "tenant/b", 120);
}

/* Also before anybody compiles anything: text counts. */
static void test_texts_count(void **state)
{
    struct place *p = *state;
    for (unsigned i = 0; i < 8; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "c%u", i);
        put(p, "tenant", name, 1, 900);
    }
    begin(p);
    place_run(p, 20);
    assert_true(place_metric(p, "cmesh_manager_shards_memory_bytes") <= MEMORY);
    assert_in_range(place_metric(p, "cmesh_manager_shards_given_up"), 3, 7);
}

/* What differs by little, as by a status, decides nothing: each replica has another one. */
static void test_equal_shards(void **state)
{
    struct place *p = *state;
    put(p, "tenant", "a", 1, 150);
    put(p, "tenant", "b", 1, 150);
    put(p, "tenant", "c", 1, 150);
    begin(p);
    cJSON *o = cJSON_Duplicate(store_get(&p->store, "shardingconfigs", "tenant", "a"), true);
    assert_non_null(
        cJSON_AddStringToObject(o, "status", "200 bytes of a condition, say: 1234567890"));
    store_put(&p->store, "shardingconfigs", "tenant", o);
    place_expect(p, "config(tenant/a) ");
    expect_limits(p, "tenant/c", 150);
    expect_limits(p, "tenant/a", 150);
    (void)limits_of(p, "tenant/b");
    place_run(p, 20);
    expect_limits(p, "tenant/a", 150);
    expect_limits(p, "tenant/b", 150);
    expect_limits(p, "tenant/c", -1);
}

static struct {
    void (*set)(void *data, struct net_deadline *d, uint64_t ms);
    unsigned count;
} tried;

/* Until it is tried again to take up what was given up: here never. */
static void count_tries(void *data, struct net_deadline *d, uint64_t ms)
{
    if (ms == READMIT_MS) {
        tried.count++;
    } else {
        tried.set(data, d, ms);
    }
}

/* Who gives up one shard after the other does not keep others from what they wait for. */
static void test_nobody_puts_it_off(void **state)
{
    struct place *p = *state;
    tried.set = p->store.ops.set_deadline;
    tried.count = 0;
    p->store.ops.set_deadline = count_tries;
    put(p, "tenant", "a", 1, 200);
    put(p, "tenant", "b", 1, 300);
    begin(p);
    expect_limits(p, "tenant/a", 200);
    expect_limits(p, "tenant/b", -1);
    assert_int_equal(tried.count, 1);
    put(p, "tenant", "b", 2, 301);
    place_expect(p, "config(tenant/b) ");
    expect_limits(p, "tenant/b", -1);
    assert_int_equal(tried.count, 1);
}

static void test_room_is_used_again(void **state)
{
    struct place *p = *state;
    put(p, "tenant", "a", 1, 200);
    put(p, "tenant", "b", 1, 300);
    begin(p);
    expect_limits(p, "tenant/a", 200);
    expect_limits(p, "tenant/b", -1);
    /* What is not its spec changes nothing, and does not bring it back. */
    put(p, "tenant", "b", 1, 300);
    place_expect(p, "config(tenant/b) ");
    expect_limits(p, "tenant/b", -1);
    place_run(p, READMIT_TURNS);
    expect_limits(p, "tenant/b", -1);
    assert_int_equal(find(p, "tenant/b")->pod_count, 0);
    /* A smaller spec fits. */
    put(p, "tenant", "b", 2, 100);
    place_expect(p, "config(tenant/b) ");
    expect_limits(p, "tenant/b", 100);
    put(p, "tenant", "b", 3, 300);
    place_expect(p, "config(tenant/b) ");
    expect_limits(p, "tenant/b", -1);
    store_delete(&p->store, "shardingconfigs", "tenant", "a");
    place_expect(p, "config(tenant/a) ");
    place_run(p, READMIT_TURNS);
    assert_false(find(p, "tenant/b")->over);
    expect_limits(p, "tenant/b", 300);
    assert_int_equal(place_metric(p, "cmesh_manager_shards_given_up"), 0);
}

/* Each of two would fit: the second one waits on. */
static void test_room_is_given_once(void **state)
{
    struct place *p = *state;
    put(p, "tenant", "a", 1, 200);
    put(p, "tenant", "b", 1, 300);
    put(p, "tenant", "c", 1, 290);
    begin(p);
    expect_limits(p, "tenant/a", 200);
    expect_limits(p, "tenant/b", -1);
    expect_limits(p, "tenant/c", -1);
    store_delete(&p->store, "shardingconfigs", "tenant", "a");
    place_expect(p, "config(tenant/a) ");
    place_run(p, READMIT_TURNS);
    assert_true(find(p, "tenant/b")->over != find(p, "tenant/c")->over);
}

/* Its pods are its own on: another shard must not get them. */
static void test_pods_stay(void **state)
{
    struct place *p = *state;
    place_put_pod(p, "tenant", "p1", "b");
    put(p, "tenant", "a", 1, 200);
    put(p, "tenant", "b", 1, 300);
    begin(p);
    expect_limits(p, "tenant/a", 200);
    expect_limits(p, "tenant/b", -1);
    place_run(p, 20);
    assert_int_equal(find(p, "tenant/b")->pod_count, 1);
}

/* Unless the selector itself is large. */
static void test_a_large_selector_goes_too(void **state)
{
    struct place *p = *state;
    struct buf values = BUF_INIT(1024 * 1024);
    for (unsigned i = 0; i < 6000; i++) {
        (void)buf_printf(&values, ",\"v%u\"", i);
    }
    place_put_pod(p, "tenant", "p1", "b");
    store_put_text(
        &p->store, "shardingconfigs", "tenant",
        "{\"metadata\":{\"name\":\"b\",\"generation\":1},\"spec\":{\"selector\":{"
        "\"matchExpressions\":[{\"key\":\"shard\",\"operator\":\"In\",\"values\":[\"b\"%s]"
        "}]},\"limits\":[]}}",
        buf_cstr(&values));
    buf_reset(&values);
    place_begin(p, NULL);
    place_expect(p, "excess(tenant) ");
    place_run(p, 20);
    assert_true(find(p, "tenant/b")->over);
    assert_int_equal(find(p, "tenant/b")->pod_count, 0);
    place_put_pod(p, "tenant", "p2", "b");
    place_expect(p, "pod(tenant/p2 0) ");
    assert_true(place_metric(p, "cmesh_manager_shards_memory_bytes") < MEMORY);
}

/* What is written beside what the manager looks at takes nothing, also of what is given up. */
static void test_junk_is_not_kept(void **state)
{
    struct place *p = *state;
    struct buf junk = BUF_INIT(1024 * 1024);
    struct err e = ERR_INIT;
    for (unsigned i = 0; i < 20000; i++) {
        (void)buf_printf(&junk, "%s\"l%u\":\"v\"", i == 0 ? "" : ",", i);
    }
    store_put_text(
        &p->store, "shardingconfigs", "tenant",
        "{\"metadata\":{\"name\":\"b\",\"generation\":1,\"labels\":{%s},\"annotations\":{%s}"
        "},\"spec\":{\"selector\":{\"matchLabels\":{\"shard\":\"b\"}},\"junk\":{%s}}}",
        buf_cstr(&junk), buf_cstr(&junk), buf_cstr(&junk));
    buf_reset(&junk);
    put(p, "honest", "a", 1, 100);
    begin(p);
    expect_limits(p, "honest/a", 100);
    assert_null(shard_cache_rules(p->cache, find(p, "tenant/b"), &options, &e));
    assert_int_equal(e.code, -EINVAL);
    assert_true(place_metric(p, "cmesh_manager_shards_memory_bytes") < 150 * 1024);
}

/* Who takes less keeps it, also while another takes too much and can give up nothing. */
static void test_others_do_not_pay(void **state)
{
    struct place *p = *state;
    struct buf list = BUF_INIT(1024 * 1024);
    for (unsigned i = 0; i < 8000; i++) {
        (void)buf_printf(&list, "%s\"example.com/f%u\"", i == 0 ? "" : ",", i);
    }
    store_put_text(&p->store, "shardingconfigs", "tenant",
                   "{\"metadata\":{\"name\":\"b\",\"generation\":1,\"finalizers\":[%s]},\"spec\":{"
                   "\"selector\":{\"matchLabels\":{\"shard\":\"b\"}},\"limits\":[]}}",
                   buf_cstr(&list));
    buf_reset(&list);
    put(p, "honest", "a", 1, 100);
    begin(p);
    place_run(p, 20);
    assert_true(find(p, "tenant/b")->over);
    expect_limits(p, "honest/a", 100);
    put(p, "honest", "c", 1, 100);
    place_expect(p, "config(honest/c) ");
    expect_limits(p, "honest/c", 100);
    place_run(p, 20);
    expect_limits(p, "honest/a", 100);
    expect_limits(p, "honest/c", 100);
}

/* ---- ConfigMaps ---- */

static void put_rules(struct place *p, const char *ns, const char *shard, unsigned limits)
{
    struct buf text = BUF_INIT(1024 * 1024);
    (void)buf_printf(&text,
                     "{\\\"apiVersion\\\":\\\"cmesh/v1\\\",\\\"generation\\\":5,\\\"kind\\\":"
                     "\\\"ShardRules\\\",\\\"shard\\\":{\\\"name\\\":\\\"%s\\\",\\\"namespace\\\":"
                     "\\\"%s\\\"},\\\"spec\\\":{\\\"limits\\\":[",
                     shard, ns);
    for (unsigned i = 0; i < limits; i++) {
        (void)buf_printf(&text,
                         "%s{\\\"apiGroups\\\":[\\\"\\\"],\\\"resources\\\":[\\\"r%u\\\"],"
                         "\\\"selector\\\":\\\"a=v%u\\\"}",
                         i == 0 ? "" : ",", i, i);
    }
    store_put_text(&p->store, "configmaps", ns,
                   "{\"metadata\":{\"name\":\"cmesh-rules-%s\",\"uid\":\"m-%s\",\"labels\":{"
                   "\"ctrlmesh.kusionstack.io/rules\":\"true\"}},\"data\":{\"rules.json\":\"%s]}}\""
                   "}}",
                   shard, shard, buf_cstr(&text));
    buf_reset(&text);
}

/* Then its spec is the largest one. */
static void test_a_configmap_and_its_spec_go_before_others(void **state)
{
    struct place *p = *state;
    put(p, "tenant", "a", 1, 2250);
    put_rules(p, "tenant", "a", 90);
    begin(p);
    place_run(p, 20);
    assert_false(find(p, "tenant/a")->over);
    put(p, "tenant", "b", 1, 2000);
    place_expect(p, "config(tenant/b) ");
    place_run(p, 20);
    assert_true(find(p, "tenant/a")->over);
    assert_false(find(p, "tenant/b")->over);
}

/* A replica that has read the ConfigMap and compiles the spec has its rules once. */
static void test_rules_in_both_places_count_once(void **state)
{
    struct place *p = *state;
    struct buf text = BUF_INIT(1024 * 1024);
    struct buf quoted = BUF_INIT(1024 * 1024);
    put(p, "tenant", "a", 1, 240);
    begin(p);
    assert_int_equal(
        rules_to_json(shard_cache_rules(p->cache, find(p, "tenant/a"), &options, NULL), &text), 0);
    assert_int_equal(json_quote(buf_cstr(&text), &quoted), 0);
    store_put_text(&p->store, "configmaps", "tenant",
                   "{\"metadata\":{\"name\":\"cmesh-rules-a\",\"labels\":{"
                   "\"ctrlmesh.kusionstack.io/rules\":\"true\"}},\"data\":{\"rules.json\":%s}}",
                   buf_cstr(&quoted));
    shard_cache_free(p->cache);
    begin(p); /* another replica */
    for (unsigned i = 0; i < 2; i++) {
        place_run(p, 20);
        assert_non_null(shard_cache_find_map(p->cache, "tenant/a")->rules);
        expect_limits(p, "tenant/a", 240);
    }
    assert_in_range(place_metric(p, "cmesh_manager_shards_memory_bytes"), 200 * 1024, 300 * 1024);
    buf_reset(&text);
    buf_reset(&quoted);
}

static void test_rules_of_configmaps_count(void **state)
{
    struct place *p = *state;
    put(p, "tenant", "a", 1, 1);
    put(p, "tenant", "b", 1, 50);
    begin(p);
    expect_limits(p, "tenant/a", 1);
    expect_limits(p, "tenant/b", 50);
    put_rules(p, "tenant", "a", 300);
    place_expect(p, "map(tenant/a) ");
    const struct rules_map *m = shard_cache_find_map(p->cache, "tenant/a");
    assert_non_null(m->rules);
    /* Far too many: the config is not given up for what somebody wrote over its rules. */
    put_rules(p, "tenant", "a", 700);
    place_expect(p, "map(tenant/a) ");
    place_run(p, 20);
    m = shard_cache_find_map(p->cache, "tenant/a");
    assert_null(m->rules);
    assert_true(m->later && !m->unread && m->given_up > MEMORY);
    assert_int_equal(m->generation, 5);
    assert_string_not_equal(m->checksum, "");
    expect_limits(p, "tenant/a", 1);
    expect_limits(p, "tenant/b", 50);
    /* Never any room for it. */
    place_run(p, READMIT_TURNS);
    assert_true(shard_cache_find_map(p->cache, "tenant/a")->later);
    /* There is none for this one as long as there is the other shard; then it is to be read. */
    put(p, "tenant", "b", 2, 200);
    place_expect(p, "config(tenant/b) ");
    expect_limits(p, "tenant/b", 200);
    put_rules(p, "tenant", "a", 300);
    place_expect(p, "map(tenant/a) ");
    place_run(p, READMIT_TURNS);
    assert_true(shard_cache_find_map(p->cache, "tenant/a")->given_up > 0);
    put(p, "tenant", "b", 3, 50);
    place_expect(p, "map(tenant/a) ");
    m = shard_cache_find_map(p->cache, "tenant/a");
    assert_true(m->unread && !m->later && m->given_up == 0);
    put_rules(p, "tenant", "a", 2);
    place_expect(p, "map(tenant/a) ");
    m = shard_cache_find_map(p->cache, "tenant/a");
    assert_non_null(m->rules);
    assert_int_equal(m->given_up, 0);
}

/* Who else holds them frees them before long: until then they count for nobody. */
static void test_rules_that_others_hold(void **state)
{
    struct place *p = *state;
    put(p, "tenant", "a", 1, 200);
    put(p, "tenant", "b", 1, 150);
    begin(p);
    expect_limits(p, "tenant/a", 200);
    expect_limits(p, "tenant/b", 150);
    struct rules *held =
        rules_ref(shard_cache_rules(p->cache, find(p, "tenant/a"), &options, NULL));
    unsigned before = place_metric(p, "cmesh_manager_shards_memory_bytes");
    put(p, "honest", "c", 1, 100);
    place_expect(p, "config(honest/c) ");
    expect_limits(p, "honest/c", 100);
    place_run(p, 20);
    expect_limits(p, "tenant/a", -1);
    expect_limits(p, "tenant/b", 150);
    assert_true(place_metric(p, "cmesh_manager_shards_memory_bytes") < before - 50 * 1024);
    rules_unref(held);
}

/* Rules of a leader's, which no longer stand anywhere, count as well. */
static void test_rules_that_are_kept_elsewhere(void **state)
{
    struct place *p = *state;
    put(p, "tenant", "a", 1, 200);
    begin(p);
    expect_limits(p, "tenant/a", 200);
    struct rules *past =
        rules_ref(shard_cache_rules(p->cache, find(p, "tenant/a"), &options, NULL));
    put(p, "tenant", "a", 2, 201);
    place_expect(p, "config(tenant/a) ");
    expect_limits(p, "tenant/a", 201);
    unsigned before = place_metric(p, "cmesh_manager_shards_memory_bytes");
    assert_true(before > 350 * 1024);
    rules_unref(past);
    assert_true(place_metric(p, "cmesh_manager_shards_memory_bytes") < before - 150 * 1024);
    struct rules *other = rules_parse_plain(OTHER, sizeof OTHER - 1, NULL);
    assert_non_null(other);
    shard_cache_count_rules(p->cache, "elsewhere", other);
    shard_cache_count_rules(p->cache, "elsewhere", NULL);
    rules_unref(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_who_takes_most_gives_up, setup, place_teardown),
        cmocka_unit_test_setup_teardown(test_many_give_up, setup, place_teardown),
        cmocka_unit_test_setup_teardown(test_two_give_up_in_turn, setup, place_teardown),
        cmocka_unit_test_setup_teardown(test_a_configmap_and_its_spec_go_before_others, setup,
                                        place_teardown),
        cmocka_unit_test_setup_teardown(test_texts_count, setup, place_teardown),
        cmocka_unit_test_setup_teardown(test_equal_shards, setup, place_teardown),
        cmocka_unit_test_setup_teardown(test_nobody_puts_it_off, setup, place_teardown),
        cmocka_unit_test_setup_teardown(test_room_is_used_again, setup, place_teardown),
        cmocka_unit_test_setup_teardown(test_room_is_given_once, setup, place_teardown),
        cmocka_unit_test_setup_teardown(test_pods_stay, setup, place_teardown),
        cmocka_unit_test_setup_teardown(test_a_large_selector_goes_too, setup, place_teardown),
        cmocka_unit_test_setup_teardown(test_junk_is_not_kept, setup, place_teardown),
        cmocka_unit_test_setup_teardown(test_others_do_not_pay, setup, place_teardown),
        cmocka_unit_test_setup_teardown(test_rules_in_both_places_count_once, setup,
                                        place_teardown),
        cmocka_unit_test_setup_teardown(test_rules_of_configmaps_count, setup, place_teardown),
        cmocka_unit_test_setup_teardown(test_rules_that_others_hold, setup, place_teardown),
        cmocka_unit_test_setup_teardown(test_rules_that_are_kept_elsewhere, setup, place_teardown),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
