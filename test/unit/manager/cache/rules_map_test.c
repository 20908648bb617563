/* SPDX-License-Identifier: Apache-2.0 */
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
#include "json/json.h"

#define PREFIX "ctrlmesh.kusionstack.io"

static struct rules *make_rules(unsigned generation, const char *selector)
{
    char text[512];
    struct err e = ERR_INIT;
    (void)snprintf(text, sizeof text,
                   "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":"
                   "\"n\",\"name\":\"a\"},\"generation\":%u,\"spec\":{\"limits\":[{\"apiGroups\":["
                   "\"\"],\"resources\":[\"pods\"],\"selector\":\"%s\"}]}}",
                   generation, selector);
    struct rules *r = rules_parse(text, strlen(text), &e);
    if (r == NULL) {
        fail_msg("%s", e.msg);
    }
    return r;
}

/* A ConfigMap as it is written, with what the API server adds. */
static cJSON *written(unsigned generation)
{
    struct rules *rules = make_rules(generation, "app=x");
    cJSON *object = NULL;
    enum rules_version version;
    struct err e = ERR_INIT;
    object = rules_map_make(NULL, rules, PREFIX, "u1", &version, &e);
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

static void test_what_is_written_is_right(void **state)
{
    struct rules *rules = make_rules(3, "app=x");
    cJSON *object = written(3);
    struct rules_map *m = read_map(object);
    (void)state;
    cJSON_Delete(object); /* nothing of it is kept */
    assert_string_equal(m->key, "n/a");
    assert_string_equal(m->name, "cmesh-rules-a");
    assert_string_equal(m->shard, "a");
    assert_string_equal(m->uid, "m1");
    assert_string_equal(m->version, "42");
    assert_string_equal(m->config_uid, "u1");
    assert_int_equal(m->generation, 3);
    assert_string_equal(m->checksum, rules_checksum(rules));
    assert_true(rules_map_ours(m));
    assert_true(rules_map_right(m, "u1", 3, rules_checksum(rules)));
    assert_false(rules_map_right(m, "u2", 3, rules_checksum(rules)));
    assert_false(rules_map_right(m, "u1", 4, rules_checksum(rules)));
    assert_false(rules_map_right(m, "u1", 3, "sha256:other"));
    rules_map_free(m);
    rules_unref(rules);
}

static void test_what_is_void_is_read(void **state)
{
    struct rules *rules = make_rules(3, "app=x");
    struct rules *later = rules_with_generation(rules, 4, 9);
    struct rules_map *m = NULL;
    struct rules_map *known = NULL;
    enum rules_version version;
    struct err e = ERR_INIT;
    cJSON *object = NULL;
    (void)state;
    object = rules_map_make(NULL, later, PREFIX, "u1", &version, &e);
    m = read_map(object);
    assert_int_equal(m->generation, 4);
    assert_int_equal(m->voids, 9);
    assert_true(m->intact);
    known = rules_map_look(object, PREFIX, m, true);
    assert_int_equal(known->voids, 9);
    cJSON_Delete(object);
    rules_map_free(known);
    rules_map_free(m);
    rules_unref(later);
    rules_unref(rules);
}

/* Over the bounds of this release, as that of another one may have written it. */
static void test_what_is_too_large_is_of_others(void **state)
{
    cJSON *object = written(3);
    cJSON *data = cJSON_GetObjectItem(object, "data");
    struct buf text = BUF_INIT(1 << 20);
    (void)state;
    buf_append_str(&text, "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"x\":[0");
    for (unsigned i = 0; i < RULES_VALUES_BESIDE_MAX; i++) {
        buf_append_str(&text, ",0");
    }
    buf_append_str(&text, "]}");
    cJSON_ReplaceItemInObject(data, RULES_MAP_KEY, cJSON_CreateString(buf_cstr(&text)));
    struct rules_map *m = read_map(object);
    assert_null(m->rules);
    assert_true(m->later);
    rules_map_free(m);
    cJSON_ReplaceItemInObject(data, RULES_MAP_KEY, cJSON_CreateString("{}"));
    m = read_map(object);
    assert_null(m->rules);
    assert_false(m->later);
    rules_map_free(m);
    cJSON_Delete(object);
    buf_reset(&text);
}

/* The same rules, of whatever generation, are in memory once. */
static void test_what_is_shared(void **state)
{
    struct rules *same = make_rules(1, "app=x");
    struct rules *other = make_rules(1, "app=y");
    cJSON *object = written(3);
    struct rules_map *m = read_map(object);
    (void)state;
    assert_false(rules_share(m->rules, same));
    rules_map_share(m, other);
    assert_false(rules_share(m->rules, other));
    rules_map_share(m, same);
    assert_true(rules_share(m->rules, same));
    assert_int_equal(rules_generation(m->rules), 3);
    assert_true(rules_map_right(m, "u1", 3, rules_checksum(same)));
    rules_unref(same);
    rules_unref(other);
    assert_string_equal(rules_checksum(m->rules), m->checksum);
    rules_map_free(m);
    cJSON_Delete(object);
}

/* All but the rules is known on, also of another version with the same text; and they are back with
 * the same rules. */
static void test_what_is_given_up(void **state)
{
    cJSON *object = written(3);
    struct rules_map *m = read_map(object);
    struct rules *same = make_rules(1, "app=x");
    struct rules_map *next = NULL;
    char *checksum = strdup(m->checksum);
    (void)state;
    assert_non_null(checksum);
    rules_map_give_up(m);
    size_t bytes = m->given_up;
    rules_map_give_up(m);
    assert_true(m->rules == NULL && m->later && bytes > 0 && m->given_up == bytes);
    next = rules_map_look(object, PREFIX, m, true);
    assert_true(next->rules == NULL && next->later && next->given_up == bytes);
    assert_string_equal(next->checksum, checksum);
    assert_string_equal(next->lock, m->lock);
    assert_int_equal(next->generation, 3);
    rules_map_share(next, same);
    assert_true(rules_share(next->rules, same));
    assert_true(!next->later && next->given_up == 0);
    assert_int_equal(rules_generation(next->rules), 3);
    rules_map_forget(m);
    assert_true(m->unread && !m->later && m->given_up == 0);
    rules_map_share(m, same);
    assert_null(m->rules);
    rules_map_free(next);
    rules_map_free(m);
    rules_unref(same);
    free(checksum);
    cJSON_Delete(object);
}

/* What has been read is not read again; what nobody wants is not read at all. */
static void test_what_is_read(void **state)
{
    cJSON *object = written(3);
    struct rules_map *first = NULL;
    struct rules_map *next = NULL;
    (void)state;
    first = rules_map_look(object, PREFIX, NULL, false);
    assert_true(first->unread && first->rules == NULL && first->generation == 0);
    assert_true(rules_map_ours(first) && rules_map_claims(first));
    next = rules_map_look(object, PREFIX, first, true);
    assert_false(next->unread);
    assert_int_equal(next->generation, 3);
    rules_map_free(first);
    for (int wanted = 0; wanted < 2; wanted++) {
        first = rules_map_look(object, PREFIX, next, wanted != 0);
        assert_ptr_equal(first->rules, next->rules);
        assert_true(rules_map_right(first, "u1", 3, rules_checksum(first->rules)));
        rules_map_free(first);
    }
    cJSON *data = cJSON_GetObjectItem(object, "data");
    cJSON_ReplaceItemInObject(data, RULES_MAP_KEY, cJSON_CreateString("nonsense"));
    first = rules_map_look(object, PREFIX, next, false);
    assert_true(first->unread && first->rules == NULL);
    rules_map_free(first);
    rules_map_free(next);
    cJSON_Delete(object);
}

static cJSON *at(cJSON *object, const char *a, const char *b)
{
    cJSON *item = cJSON_GetObjectItem(cJSON_GetObjectItem(object, a), b);
    assert_non_null(item);
    return item;
}

static void set(cJSON *object, const char *key, const char *value)
{
    cJSON_DeleteItemFromObject(object, key);
    assert_non_null(cJSON_AddStringToObject(object, key, value));
}

/* As an earlier release wrote it, or somebody else. */
static void add_owner(cJSON *o, const char *kind, const char *name)
{
    cJSON *owners = cJSON_AddArrayToObject(cJSON_GetObjectItem(o, "metadata"), "ownerReferences");
    cJSON *owner = cJSON_CreateObject();
    assert_true(cJSON_AddItemToArray(owners, owner));
    set(owner, "apiVersion", PREFIX "/v1alpha1");
    set(owner, "kind", kind);
    set(owner, "name", name);
    set(owner, "uid", "u1");
    assert_non_null(cJSON_AddBoolToObject(owner, "controller", strcmp(kind, "Secret") != 0));
}

static void damage(cJSON *o, int how)
{
    cJSON *annotations = at(o, "metadata", "annotations");
    switch (how) {
    case 0: /* labels */
        add_owner(o, "ShardingConfig", "a");
        cJSON_DeleteItemFromObject(at(o, "metadata", "labels"), PREFIX "/rules");
        break;
    case 1:
        set(at(o, "metadata", "labels"), "app.kubernetes.io/managed-by", "Helm");
        break;
    case 2:
        set(annotations, PREFIX "/rules-generation", "9");
        break;
    case 3: /* whose it is */
        cJSON_DeleteItemFromObject(annotations, PREFIX "/sharding-config-uid");
        break;
    case 4:
        set(annotations, PREFIX "/sharding-config-uid", "u7");
        break;
    case 5:
        add_owner(o, "ShardingConfig", "a");
        break;
    case 6:
        cJSON_DeleteItemFromObject(annotations, PREFIX "/sharding-config-uid");
        add_owner(o, "ShardingConfig", "a");
        break;
    case 7:
        add_owner(o, "Secret", "x");
        break;
    case 8: /* text */
        set(cJSON_GetObjectItem(o, "data"), "rules.json", "nonsense");
        break;
    case 9:
        cJSON_DeleteItemFromObject(o, "data");
        break;
    default: /* the same rules, written otherwise */
        set(cJSON_GetObjectItem(o, "data"), "rules.json",
            "{\"apiVersion\":\"cmesh/v1\", \"kind\":\"ShardRules\",\"shard\":{\"namespace\":\"n\","
            "\"name\":\"a\"},\"generation\":3,\"spec\":{\"limits\":[{\"apiGroups\":[\"\"],"
            "\"resources\":[\"pods\"],\"selector\":\"app=x\"}]}}");
        break;
    }
}

static void test_whatever_is_wrong_is_put_right(void **state)
{
    struct rules *rules = make_rules(3, "app=x");
    (void)state;
    for (int how = 0; how <= 10; how++) {
        cJSON *object = written(3);
        damage(object, how);
        struct rules_map *m = read_map(object);
        assert_false(rules_map_right(m, "u1", 3, rules_checksum(rules)));
        assert_true(rules_map_ours(m));
        cJSON *patch = NULL;
        enum rules_version version;
        struct err e = ERR_INIT;
        patch = rules_map_make(m, rules, PREFIX, "u1", &version, &e);
        /* conditional on what was seen */
        assert_string_equal(cJSON_GetStringValue(at(patch, "metadata", "resourceVersion")), "42");
        assert_string_equal(cJSON_GetStringValue(at(patch, "metadata", "uid")), "m1");
        cJSON *again = written(3);
        assert_true(
            cJSON_Compare(at(patch, "data", "rules.json"), at(again, "data", "rules.json"), true));
        assert_true(
            cJSON_Compare(at(patch, "metadata", "labels"), at(again, "metadata", "labels"), true));
        assert_true(cJSON_Compare(at(patch, "metadata", "annotations"),
                                  at(again, "metadata", "annotations"), true));
        if (cJSON_GetObjectItem(cJSON_GetObjectItem(object, "metadata"), "ownerReferences")) {
            assert_true(cJSON_IsNull(at(patch, "metadata", "ownerReferences")));
        }
        cJSON_Delete(again);
        cJSON_Delete(patch);
        rules_map_free(m);
        cJSON_Delete(object);
    }
    rules_unref(rules);
}

static void test_whose_it_is(void **state)
{
    static const struct {
        const char *metadata;
        bool ours;
    } maps[] = {
        {"", false},
        {",\"labels\":{\"" PREFIX "/rules\":\"true\"}", true},
        {",\"labels\":{\"" PREFIX "/rules\":\"false\"}", false},
        {",\"ownerReferences\":[{\"apiVersion\":\"" PREFIX
         "/v1alpha1\",\"kind\":\"ShardingConfig\","
         "\"name\":\"a\",\"uid\":\"u\",\"controller\":true}]",
         true},
        {",\"ownerReferences\":[{\"apiVersion\":\"" PREFIX
         "/v1alpha1\",\"kind\":\"ShardingConfig\","
         "\"name\":\"b\",\"uid\":\"u\",\"controller\":true}]",
         false},
        {",\"labels\":{\"" PREFIX "/rules\":\"true\"},\"ownerReferences\":[{\"apiVersion\":"
         "\"apps/v1\",\"kind\":\"Deployment\",\"name\":\"a\",\"uid\":\"u\",\"controller\":true}]",
         false},
        {",\"labels\":{\"" PREFIX "/rules\":\"true\"},\"ownerReferences\":[{\"apiVersion\":"
         "\"apps/v1\",\"kind\":\"Deployment\",\"name\":\"a\",\"uid\":\"u\"}]",
         true},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(maps); i++) {
        char text[1024];
        (void)snprintf(text, sizeof text,
                       "{\"metadata\":{\"name\":\"cmesh-rules-a\",\"namespace\":\"n\"%s},"
                       "\"data\":{\"x\":\"12345\"},\"binaryData\":{\"y\":\"AAAA\"}}",
                       maps[i].metadata);
        cJSON *object = cJSON_Parse(text);
        struct rules_map *m = read_map(object);
        assert_int_equal(rules_map_ours(m), maps[i].ours);
        assert_int_equal(m->foreign_size, 8);
        rules_map_free(m);
        cJSON_Delete(object);
    }
    cJSON *object = cJSON_Parse("{\"metadata\":{\"name\":\"other\",\"namespace\":\"n\"}}");
    struct rules_map *m = rules_map_new(object, PREFIX);
    assert_null(m);
    cJSON_Delete(object);
}

static void test_sizes(void **state)
{
    struct rules *rules = make_rules(3, "app=x");
    struct rules_map old = {.uid = "m", .version = "1", .foreign_size = RULES_MAP_MAX};
    enum rules_version version;
    struct err e = ERR_INIT;
    (void)state;
    assert_null(rules_map_make(&old, rules, PREFIX, "u1", &version, &e));
    assert_int_equal(e.code, -E2BIG);
    assert_non_null(strstr(e.msg, "other keys"));
    assert_non_null(strstr(e.msg, "1048576"));
    rules_unref(rules);
}

/* Rules with `limits` limits that all have one selector of so many bytes, more or less. */
static struct rules *make_large(unsigned limits, size_t size)
{
    struct buf text = BUF_INIT(RULES_TEXT_MAX);
    struct err e = ERR_INIT;
    buf_append_str(&text, "{\"apiVersion\":\"cmesh/v2\",\"kind\":\"ShardRules\",\"shard\":{"
                          "\"namespace\":\"n\",\"name\":\"a\"},\"generation\":3,\"spec\":{"
                          "\"selectors\":[\"k in (x");
    for (size_t i = 0; i < size / 10; i++) {
        buf_printf(&text, ",%09zu", i);
    }
    buf_append_str(&text, ")\"],\"limits\":[");
    for (unsigned i = 0; i < limits; i++) {
        buf_printf(&text, "%s{\"apiGroups\":[\"\"],\"resources\":[\"r%u\"],\"selector\":0}",
                   i > 0 ? "," : "", i);
    }
    buf_append_str(&text, "]}}");
    struct rules *rules = rules_parse((const char *)buf_data(&text), text.len, &e);
    buf_reset(&text);
    assert_non_null(rules);
    return rules;
}

static struct rules_map *make_and_check(const struct rules *rules, enum rules_version expected)
{
    cJSON *object = NULL;
    enum rules_version version = RULES_VERSIONS;
    struct err e = ERR_INIT;
    object = rules_map_make(NULL, rules, PREFIX, "u1", &version, &e);
    assert_int_equal(version, expected);
    struct rules_map *m = read_map(object);
    assert_true(m->intact);
    assert_string_equal(m->checksum, rules_checksum(rules));
    assert_int_equal(rules_version(m->rules), expected);
    cJSON_Delete(object);
    return m;
}

/* The oldest version that holds them, so that older pods read them, too. */
static void test_versions(void **state)
{
    struct rules *small = make_large(3, 300000);
    struct rules *large = make_large(3, 400000);
    struct rules *huge = make_large(2, 600000);
    enum rules_version version;
    struct err e = ERR_INIT;
    cJSON *object = NULL;
    (void)state;
    rules_map_free(make_and_check(small, RULES_V1));
    struct rules_map *m = make_and_check(large, RULES_V2);
    /* With less room beside other keys the later one, too, and what stands there is not right. */
    m->foreign_size = RULES_MAP_MAX - 500000;
    object = rules_map_make(m, small, PREFIX, "u1", &version, &e);
    assert_int_equal(version, RULES_V2);
    cJSON_Delete(object);
    m->foreign_size = RULES_MAP_MAX - 300000;
    assert_null(rules_map_make(m, small, PREFIX, "u1", &version, &e));
    assert_int_equal(e.code, -E2BIG);
    rules_map_free(m);
    rules_map_free(make_and_check(huge, RULES_V2));
    rules_unref(small);
    rules_unref(large);
    rules_unref(huge);
}

/* Somebody wrote the later version although the older one would do. */
static void test_a_later_version_without_need(void **state)
{
    struct rules *rules = make_rules(3, "app=x");
    struct buf text = BUF_INIT(4096);
    cJSON *object = cJSON_Parse("{\"metadata\":{\"name\":\"cmesh-rules-a\",\"namespace\":\"n\"},"
                                "\"data\":{}}");
    (void)state;
    assert_int_equal(rules_to_version(rules, RULES_V2, &text), 0);
    cJSON_AddStringToObject(cJSON_GetObjectItem(object, "data"), "rules.json", buf_cstr(&text));
    struct rules_map *m = read_map(object);
    assert_string_equal(m->checksum, rules_checksum(rules));
    assert_false(m->intact);
    rules_map_free(m);
    cJSON_Delete(object);
    buf_reset(&text);
    rules_unref(rules);
}

static void test_data_that_is_no_map(void **state)
{
    struct err e = ERR_INIT;
    static const char text[] =
        "{\"metadata\":{\"name\":\"cmesh-rules-a\",\"namespace\":\"n\"},\"data\":[\"x\"]}";
    cJSON *object = json_parse(text, sizeof text - 1, &e);
    struct rules_map *m = NULL;
    (void)state;
    assert_non_null(object);
    m = rules_map_new(object, PREFIX);
    assert_int_equal(m->foreign_size, 0);
    assert_false(m->intact);
    rules_map_free(m);
    cJSON_Delete(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_right),
        cmocka_unit_test(test_what_is_given_up),
        cmocka_unit_test(test_what_is_read),
        cmocka_unit_test(test_what_is_shared),
        cmocka_unit_test(test_what_is_too_large_is_of_others),
        cmocka_unit_test(test_what_is_void_is_read),
        cmocka_unit_test(test_whatever_is_wrong_is_put_right),
        cmocka_unit_test(test_whose_it_is),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_a_later_version_without_need),
        cmocka_unit_test(test_data_that_is_no_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
