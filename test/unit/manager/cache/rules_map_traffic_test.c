/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The traffic document in the ConfigMap of a shard.
 */
#include "cache/rules_map.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "json/field.h"

#define PREFIX "ctrlmesh.kusionstack.io"
#define BREAKER                                                                                    \
    "{\"name\":\"guard\",\"spec\":{\"rateLimitings\":[{\"name\":\"r\",\"resourceRules\":[{"        \
    "\"apiGroups\":[\"\"],\"namespaces\":[\"*\"],"                                                 \
    "\"resources\":[\"pods\"],\"verbs\":[\"delete\"]}],\"triggerPolicy\":\"ForceOpened\"}],"       \
    "\"selector\":{}}}"
#define DOCUMENT(shard, generation)                                                                \
    "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardTraffic\",\"shard\":{\"namespace\":\"n\","       \
    "\"name\":\"" shard "\"},\"generation\":" generation ",\"spec\":{\"breakers\":[" BREAKER "]}}"

/* As it would be written. */
static char *canonical(const char *text)
{
    struct buf out = BUF_INIT(65536);
    struct traffic *t = traffic_parse(text, strlen(text), NULL);
    assert_non_null(t);
    assert_int_equal(traffic_to_json(t, &out), 0);
    char *copy = strdup(buf_cstr(&out));
    assert_non_null(copy);
    traffic_unref(t);
    buf_reset(&out);
    return copy;
}

/* A ConfigMap with rules, and this document; NULL: without. */
static cJSON *make_map(const char *traffic)
{
    static const char text[] =
        "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":\"n\","
        "\"name\":\"a\"},\"generation\":3,\"spec\":{\"limits\":[]}}";
    struct rules *rules = rules_parse(text, strlen(text), NULL);
    cJSON *object = NULL;
    enum rules_version version;
    struct err e = ERR_INIT;
    object = rules_map_make(NULL, rules, PREFIX, "u1", &version, &e);
    rules_map_add_traffic(object, NULL, traffic);
    rules_unref(rules);
    cJSON *meta = cJSON_GetObjectItem(object, "metadata");
    assert_non_null(cJSON_AddStringToObject(meta, "uid", "m1"));
    assert_non_null(cJSON_AddStringToObject(meta, "resourceVersion", "42"));
    return object;
}

static struct rules_map *read_map(const cJSON *object)
{
    struct rules_map *m = rules_map_new(object, PREFIX);
    assert_non_null(m);
    return m;
}

static void test_what_stands_there(void **state)
{
    char *text = canonical(DOCUMENT("a", "5"));
    cJSON *object = make_map(text);
    struct rules_map *m = read_map(object);
    (void)state;
    assert_true(m->traffic.present);
    assert_true(m->traffic.intact);
    assert_int_equal(m->traffic.generation, 5);
    assert_int_equal(m->traffic.size, strlen(text));
    assert_int_equal(strlen(m->traffic.checksum), TRAFFIC_CHECKSUM_LEN);
    assert_int_equal(m->foreign_size, 0);
    assert_true(m->intact);
    assert_int_equal(rules_map_room(m), RULES_MAP_MAX - m->rules_size);
    /* Read again, nothing is parsed. */
    struct rules_map *again = rules_map_look(object, PREFIX, m, true);
    assert_memory_equal(&again->traffic, &m->traffic, sizeof m->traffic);
    rules_map_free(again);
    rules_map_free(m);
    cJSON_Delete(object);
    free(text);
}

static void test_what_is_not_as_it_should_be(void **state)
{
    static const char *const texts[] = {"", "nonsense", "{}", DOCUMENT("a", "5")};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        cJSON *object = make_map(texts[i]);
        struct rules_map *m = read_map(object);
        assert_true(m->traffic.present);
        assert_false(m->traffic.intact);
        assert_true(m->intact); /* the rules are */
        rules_map_free(m);
        cJSON_Delete(object);
    }
    char *other = canonical(DOCUMENT("b", "5"));
    cJSON *object = make_map(other);
    struct rules_map *m = read_map(object);
    assert_false(m->traffic.intact);
    assert_int_equal(m->traffic.generation, 5);
    rules_map_free(m);
    cJSON_Delete(object);
    free(other);

    object = make_map(NULL);
    m = read_map(object);
    assert_false(m->traffic.present);
    assert_int_equal(m->traffic.text_hash, 0);
    rules_map_free(m);
    cJSON_Delete(object);
}

static void test_what_nobody_wants_is_not_read(void **state)
{
    char *text = canonical(DOCUMENT("a", "5"));
    cJSON *object = make_map(text);
    struct rules_map *m = NULL;
    (void)state;
    m = rules_map_look(object, PREFIX, NULL, false);
    assert_true(m->unread);
    assert_false(m->traffic.present);
    rules_map_free(m);
    cJSON_Delete(object);
    free(text);
}

static void test_the_key_alone(void **state)
{
    char *text = canonical(DOCUMENT("a", "5"));
    cJSON *object = make_map(text);
    struct rules_map *m = read_map(object);
    (void)state;
    cJSON *patch = rules_map_make_traffic(m, "new");
    const cJSON *data = field_get(patch, "data");
    assert_int_equal(cJSON_GetArraySize(data), 1);
    assert_string_equal(field_text(data, "traffic.json"), "new");
    assert_string_equal(field_meta(patch, "uid"), "m1");
    assert_string_equal(field_meta(patch, "resourceVersion"), "42");
    assert_int_equal(cJSON_GetArraySize(field_get(patch, "metadata")), 2);
    cJSON_Delete(patch);
    patch = rules_map_make_traffic(m, NULL);
    assert_true(
        cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(field_get(patch, "data"), "traffic.json")));
    cJSON_Delete(patch);
    rules_map_free(m);
    cJSON_Delete(object);
    free(text);
}

/* Beside the rules and foreign keys. */
static void test_room(void **state)
{
    cJSON *object = make_map(NULL);
    cJSON *data = cJSON_GetObjectItem(object, "data");
    size_t rules = strlen(field_text(data, "rules.json"));
    (void)state;
    assert_int_equal(rules_map_room_in(NULL, object), RULES_MAP_MAX - rules);
    char *large = calloc(1, RULES_MAP_MAX);
    assert_non_null(large);
    memset(large, 'x', RULES_MAP_MAX - rules - 10);
    assert_non_null(cJSON_AddStringToObject(data, "other", large));
    struct rules_map *m = read_map(object);
    assert_int_equal(rules_map_room(m), 10);
    assert_int_equal(rules_map_room_in(m, object), 10);
    rules_map_free(m);
    memset(large, 'x', RULES_MAP_MAX - 1);
    assert_true(cJSON_ReplaceItemInObject(data, "other", cJSON_CreateString(large)));
    m = read_map(object);
    assert_int_equal(rules_map_room(m), 0);
    rules_map_free(m);
    cJSON_Delete(object);
    free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_stands_there),
        cmocka_unit_test(test_what_is_not_as_it_should_be),
        cmocka_unit_test(test_what_nobody_wants_is_not_read),
        cmocka_unit_test(test_the_key_alone),
        cmocka_unit_test(test_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
