/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/configuration.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "crypto/digest.h"
#include "label/labels_condition.h"
#include "patch_apply.h"
#include "webhook/certificate_set.h"
#include "json/json.h"

#define NOW INT64_C(1767225600)

enum { OLD, CURRENT, NEXT, FOREIGN, EXPIRED, AUTHORITIES };

static struct certificate_pair authorities[AUTHORITIES];

static const char *const hosts[] = {"127.0.0.1", "manager.test"};
static const struct configuration_target target = {
    .namespace = "cmesh-system", .service = "cmesh-webhook", .hosts = hosts, .host_count = 2};

static int make(void **state)
{
    static const struct {
        const char *name;
        int64_t born;
        int64_t ends;
    } specs[AUTHORITIES] = {
        [OLD] = {CERTIFICATE_SET_AUTHORITY "1", NOW - 2000, NOW + 1000},
        [CURRENT] = {CERTIFICATE_SET_AUTHORITY "2", NOW - 1000, NOW + 2000},
        [NEXT] = {CERTIFICATE_SET_AUTHORITY "3", NOW - 10, NOW + 3000},
        [FOREIGN] = {"somebody else", NOW - 5, NOW + 3000},
        [EXPIRED] = {CERTIFICATE_SET_AUTHORITY "4", NOW - 9, NOW - 1},
    };
    (void)state;
    for (size_t i = 0; i < AUTHORITIES; i++) {
        const struct certificate_spec spec = {
            .common_name = specs[i].name, .not_before = specs[i].born, .not_after = specs[i].ends};
        if (certificate_make_authority(&spec, &authorities[i], NULL) != 0) {
            return -1;
        }
    }
    return 0;
}

static int drop(void **state)
{
    (void)state;
    for (size_t i = 0; i < AUTHORITIES; i++) {
        certificate_pair_deinit(&authorities[i]);
    }
    return 0;
}

/* The text of several, which the caller frees. */
static char *bundle(size_t count, const int *which)
{
    struct buf text = BUF_INIT(65536);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(buf_append_str(&text, authorities[which[i]].cert), 0);
    }
    char *out = buf_take_str(&text);
    buf_reset(&text);
    return out;
}

#define BUNDLE(...) bundle(sizeof((int[]){__VA_ARGS__}) / sizeof(int), (int[]){__VA_ARGS__})

static char *coded(const char *text)
{
    struct buf out = BUF_INIT(65536);
    assert_int_equal(base64_encode(slice_str(text), &out), 0);
    char *str = buf_take_str(&out);
    buf_reset(&out);
    return str;
}

/* A configuration of one webhook with that clientConfig; the caller frees. */
static cJSON *configuration(const char *client, const char *ca)
{
    struct err e = ERR_INIT;
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"name\":\"cmesh\",\"resourceVersion\":\"7\"},\"webhooks\":["
                   "{\"name\":\"a\",\"clientConfig\":%s}]}",
                   client);
    cJSON *root = json_parse(text, strlen(text), &e);
    if (root == NULL) {
        fail_msg("%s", e.msg);
    }
    if (ca != NULL) {
        char *value = coded(ca);
        cJSON *webhook = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "webhooks"), 0);
        cJSON_AddStringToObject(cJSON_GetObjectItem(webhook, "clientConfig"), "caBundle", value);
        free(value);
    }
    return root;
}

#define SERVICE(path)                                                                              \
    "{\"service\":{\"namespace\":\"cmesh-system\",\"name\":\"cmesh-webhook\",\"path\":\"" path     \
    "\"}}"

static cJSON *patch_for(const cJSON *object, const char *wanted, const cJSON *rules)
{
    const struct configuration_wanted w = {.bundle = slice_str(wanted), .rules = rules, .now = NOW};
    return configuration_patch(&target, &w, object);
}

/* The bundle is `before`, should be `wanted`, and becomes `after`; NULL: it is left alone. All are
 * freed. */
static void expect(char *before, char *wanted, char *after)
{
    cJSON *object = configuration(SERVICE("/mutate/pods"), before);
    cJSON *patch = patch_for(object, wanted, NULL);
    if (after == NULL) {
        assert_null(patch);
    } else {
        assert_non_null(patch);
        assert_int_equal(cJSON_GetArraySize(patch), 2);
        const cJSON *test = cJSON_GetArrayItem(patch, 0);
        assert_string_equal(cJSON_GetObjectItem(test, "op")->valuestring, "test");
        assert_string_equal(cJSON_GetObjectItem(test, "path")->valuestring,
                            "/metadata/resourceVersion");
        assert_string_equal(cJSON_GetObjectItem(test, "value")->valuestring, "7");
        cJSON_DeleteItemFromArray(patch, 0);
        cJSON *now = patch_apply(object, patch);
        assert_non_null(now);
        char *value = coded(after);
        const cJSON *webhook = cJSON_GetArrayItem(cJSON_GetObjectItem(now, "webhooks"), 0);
        const cJSON *client = cJSON_GetObjectItem(webhook, "clientConfig");
        assert_string_equal(cJSON_GetObjectItem(client, "caBundle")->valuestring, value);
        cJSON *more = patch_for(now, wanted, NULL);
        assert_null(more); /* once is enough */
        free(value);
        cJSON_Delete(now);
    }
    cJSON_Delete(patch);
    cJSON_Delete(object);
    free(before);
    free(wanted);
    free(after);
}

static void test_bundles(void **state)
{
    (void)state;
    expect(NULL, BUNDLE(CURRENT), BUNDLE(CURRENT));
    expect(BUNDLE(CURRENT), BUNDLE(CURRENT), NULL);
    expect(strdup("garbage"), BUNDLE(CURRENT), BUNDLE(CURRENT));
    expect(strdup("\n"), BUNDLE(CURRENT), BUNDLE(CURRENT));
    expect(BUNDLE(FOREIGN), BUNDLE(CURRENT), BUNDLE(CURRENT));
    expect(BUNDLE(CURRENT, FOREIGN), BUNDLE(CURRENT), BUNDLE(CURRENT));
    expect(BUNDLE(OLD), BUNDLE(CURRENT, OLD), BUNDLE(CURRENT, OLD));
    expect(BUNDLE(CURRENT, OLD), BUNDLE(CURRENT), BUNDLE(CURRENT));
    expect(BUNDLE(OLD, CURRENT), BUNDLE(CURRENT, OLD), BUNDLE(CURRENT, OLD));
    expect(BUNDLE(CURRENT), strdup(""), NULL); /* nothing is known yet */
}

/* Another replica has seen a Secret that we have not seen yet. */
static void test_what_another_replica_knows_stays(void **state)
{
    (void)state;
    expect(BUNDLE(CURRENT, NEXT), BUNDLE(CURRENT), NULL);
    expect(BUNDLE(NEXT, CURRENT), BUNDLE(CURRENT), NULL);
    expect(BUNDLE(NEXT), BUNDLE(CURRENT), BUNDLE(CURRENT, NEXT));
    expect(BUNDLE(CURRENT, NEXT), BUNDLE(CURRENT, OLD), BUNDLE(CURRENT, OLD, NEXT));
    /* But neither what was before ours, nor what is over, nor what is not ours. */
    expect(BUNDLE(CURRENT, NEXT), BUNDLE(NEXT), BUNDLE(NEXT));
    expect(BUNDLE(CURRENT, EXPIRED), BUNDLE(CURRENT), BUNDLE(CURRENT));
    expect(BUNDLE(CURRENT, FOREIGN), BUNDLE(CURRENT), BUNDLE(CURRENT));
}

static void expect_ours(const char *client, bool ours)
{
    cJSON *object = configuration(client, NULL);
    char *wanted = BUNDLE(CURRENT);
    cJSON *patch = patch_for(object, wanted, NULL);
    if ((patch != NULL) != ours) {
        fail_msg("%s is%s taken for ours", client, ours ? " not" : "");
    }
    assert_int_equal(configuration_count(&target, object), ours ? 1 : 0);
    cJSON_Delete(patch);
    cJSON_Delete(object);
    free(wanted);
}

static void test_only_ours_are_changed(void **state)
{
    (void)state;
    expect_ours(SERVICE("/mutate/pods"), true);
    expect_ours("{\"service\":{\"namespace\":\"cmesh-system\",\"name\":\"cmesh-webhook\"}}", true);
    expect_ours("{\"service\":{\"namespace\":\"other\",\"name\":\"cmesh-webhook\"}}", false);
    expect_ours("{\"service\":{\"namespace\":\"cmesh-system\",\"name\":\"other\"}}", false);
    expect_ours("{\"service\":{}}", false);
    expect_ours("{\"url\":\"https://127.0.0.1:9443/mutate/pods\"}", true);
    expect_ours("{\"url\":\"https://Manager.test/mutate/pods\"}", true);
    expect_ours("{\"url\":\"https://manager.test\"}", true);
    expect_ours("{\"url\":\"https://127.0.0.2:9443/mutate/pods\"}", false);
    expect_ours("{\"url\":\"garbage\"}", false);
    expect_ours("{\"url\":5}", false);
    expect_ours("{}", false);
}

static const struct sharding_resource resources[] = {
    {"", "v1", "configmaps", "ConfigMap"},
    {"", "v1", "pods", "Pod"},
    {"apps", "v1", "deployments", "Deployment"},
    {"apps", "v1beta1", "deployments", "Deployment"},
};

#define RULE(group, version, names)                                                                \
    "{\"apiGroups\":[\"" group "\"],\"apiVersions\":[\"" version "\"],\"operations\":["            \
    "\"CREATE\",\"UPDATE\"],\"resources\":[" names "],\"scope\":\"Namespaced\"}"

static void test_rules(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(65536);
    cJSON *rules = configuration_rules(resources, 4);
    assert_non_null(rules);
    assert_int_equal(json_canonical(rules, &text), 0);
    assert_string_equal(
        buf_cstr(&text),
        "[" RULE("", "v1", "\"configmaps\",\"pods\"") "," RULE(
            "apps", "v1", "\"deployments\"") "," RULE("apps", "v1beta1", "\"deployments\"") "]");
    buf_reset(&text);
    cJSON_Delete(rules);
    rules = configuration_rules(NULL, 0);
    assert_int_equal(cJSON_GetArraySize(rules), 0);
    cJSON_Delete(rules);
}

/* How many operations a patch has, besides the test. */
static int changes(const char *client, const char *present, const cJSON *rules)
{
    cJSON *object = configuration(client, NULL);
    if (present != NULL) {
        cJSON *webhook = cJSON_GetArrayItem(cJSON_GetObjectItem(object, "webhooks"), 0);
        cJSON_AddItemToObject(webhook, "rules", cJSON_Parse(present));
    }
    cJSON *patch = patch_for(object, "", rules);
    int n = patch == NULL ? 0 : cJSON_GetArraySize(patch) - 1;
    if (n > 0) {
        cJSON_DeleteItemFromArray(patch, 0);
        cJSON *now = patch_apply(object, patch);
        const cJSON *webhook = cJSON_GetArrayItem(cJSON_GetObjectItem(now, "webhooks"), 0);
        assert_true(cJSON_Compare(cJSON_GetObjectItem(webhook, "rules"), rules, true));
        cJSON_Delete(now);
    }
    cJSON_Delete(patch);
    cJSON_Delete(object);
    return n;
}

static void test_rules_of_the_webhook_for_labels_alone(void **state)
{
    (void)state;
    cJSON *rules = configuration_rules(resources, 2);
    cJSON *none = configuration_rules(NULL, 0);
    const char *good = "[" RULE("", "v1", "\"configmaps\",\"pods\"") "]";
    assert_int_equal(changes(SERVICE("/mutate/resources"), NULL, rules), 1);
    assert_int_equal(changes(SERVICE("/mutate/resources"), "[]", rules), 1);
    assert_int_equal(changes(SERVICE("/mutate/resources"), good, rules), 0);
    assert_int_equal(changes(SERVICE("/mutate/resources"), good, none), 1);
    assert_int_equal(changes(SERVICE("/mutate/resources"), NULL, none), 0);
    assert_int_equal(changes(SERVICE("/mutate/resources"), good, NULL), 0);
    assert_int_equal(changes(SERVICE("/mutate/pods"), NULL, rules), 0);
    assert_int_equal(changes("{\"url\":\"https://127.0.0.1:1/mutate/resources\"}", NULL, rules), 1);
    assert_int_equal(changes("{\"url\":\"https://127.0.0.3:1/mutate/resources\"}", NULL, rules), 0);
    cJSON_Delete(rules);
    cJSON_Delete(none);
}

/* The rules that one which knows only `wanted` leaves of `present`; NULL: it changes nothing. */
static char *rules_left(const char *present, const char *wanted)
{
    cJSON *object = configuration(SERVICE("/mutate/resources"), NULL);
    cJSON *webhook = cJSON_GetArrayItem(cJSON_GetObjectItem(object, "webhooks"), 0);
    cJSON_AddItemToObject(webhook, "rules", cJSON_Parse(present));
    cJSON *rules = cJSON_Parse(wanted);
    const struct configuration_wanted w = {.rules = rules, .other_rules = true, .now = NOW};
    char *left = NULL;
    cJSON *patch = configuration_patch(&target, &w, object);
    if (patch != NULL) {
        cJSON_DeleteItemFromArray(patch, 0);
        cJSON *now = patch_apply(object, patch);
        assert_non_null(now);
        webhook = cJSON_GetArrayItem(cJSON_GetObjectItem(now, "webhooks"), 0);
        left = cJSON_PrintUnformatted(cJSON_GetObjectItem(webhook, "rules"));
        cJSON *more = configuration_patch(&target, &w, now);
        assert_null(more); /* once is enough */
        cJSON_Delete(now);
    }
    cJSON_Delete(patch);
    cJSON_Delete(rules);
    cJSON_Delete(object);
    return left;
}

static void expect_left(const char *present, const char *wanted, const char *want)
{
    char *left = rules_left(present, wanted);
    if (want == NULL) {
        assert_null(left);
    } else {
        assert_non_null(left);
        assert_string_equal(left, want);
    }
    free(left);
}

#define PODS_RULE RULE("", "v1", "\"pods\"")
#define BOTH_RULE RULE("", "v1", "\"configmaps\",\"pods\"")
#define APPS_RULE RULE("apps", "v1", "\"deployments\"")

/* A leader that does not know yet all that there is. */
static void test_rules_are_only_added(void **state)
{
    (void)state;
    expect_left("[" PODS_RULE "]", "[" PODS_RULE "]", NULL);
    expect_left("[" APPS_RULE "," PODS_RULE "]", "[" PODS_RULE "]", NULL);
    expect_left("[" BOTH_RULE "]", "[" PODS_RULE "]", NULL);
    expect_left("[" BOTH_RULE "]", "[]", NULL);
    expect_left("[]", "[" PODS_RULE "]", "[" PODS_RULE "]");
    expect_left("null", "[" PODS_RULE "]", "[" PODS_RULE "]");
    expect_left("[" PODS_RULE "]", "[" BOTH_RULE "]", "[" BOTH_RULE "]");
    expect_left("[" PODS_RULE "," APPS_RULE "]", "[" BOTH_RULE "]",
                "[" BOTH_RULE "," APPS_RULE "]");
    expect_left("[" BOTH_RULE "]", "[" PODS_RULE "," APPS_RULE "]",
                "[" PODS_RULE "," APPS_RULE "," BOTH_RULE "]");
    /* Of cluster scope, and of creation alone, it is another rule. */
    expect_left("[{\"apiGroups\":[\"\"],\"apiVersions\":[\"v1\"],\"operations\":[\"CREATE\"],"
                "\"resources\":[\"pods\"],\"scope\":\"Namespaced\"}]",
                "[" PODS_RULE "]", "[" PODS_RULE "]");
    expect_left("[{\"resources\":[\"pods\"],\"scope\":\"*\"},5]", "[" PODS_RULE "]",
                "[" PODS_RULE ",{\"resources\":[\"pods\"],\"scope\":\"*\"},5]");
}

static void expect_pods(const char *client, const char *selector, unsigned count)
{
    const cJSON *found = NULL;
    cJSON *object = configuration(client, NULL);
    cJSON *webhook = cJSON_GetArrayItem(cJSON_GetObjectItem(object, "webhooks"), 0);
    cJSON *wanted = cJSON_Parse(selector);
    cJSON_AddItemToObject(webhook, "namespaceSelector", cJSON_Parse(selector));
    assert_int_equal(configuration_pods(&target, object, &found), count);
    assert_true(count == 0 ? found == NULL : cJSON_Compare(found, wanted, true));
    cJSON_Delete(wanted);
    cJSON_Delete(object);
}

static void test_namespaces_of_the_webhook_for_pods(void **state)
{
    (void)state;
    const char *selector = "{\"matchLabels\":{\"a\":\"b\"}}";
    expect_pods(SERVICE("/mutate/pods"), selector, 1);
    expect_pods("{\"url\":\"https://127.0.0.1:1/mutate/pods\"}", selector, 1);
    expect_pods("{\"url\":\"https://127.0.0.3:1/mutate/pods\"}", selector, 0);
    expect_pods(SERVICE("/mutate/resources"), selector, 0);
    const cJSON *found = NULL;
    cJSON *object = configuration(SERVICE("/mutate/pods"), NULL);
    assert_int_equal(configuration_pods(&target, object, &found), 1);
    assert_null(found); /* it looks at all */
    cJSON_Delete(object);
}

/* ---- match conditions ---- */

static const struct compile_labels label_names = {
    .namespace = "namespace", .shard_hash = "sharding-hash", .control = "control"};
static const struct compile_labels other_names = {
    .prefix = "example.com", .namespace = "ns", .shard_hash = "hash", .control = "control"};

static struct labels_keys keys_of(const struct compile_labels *names)
{
    struct labels_keys keys;
    assert_int_equal(labels_keys_init(&keys, names, NULL), 0);
    return keys;
}

/* The caller frees. */
static cJSON *condition(const char *name, const char *expression)
{
    cJSON *object = cJSON_CreateObject();
    assert_non_null(cJSON_AddStringToObject(object, "name", name));
    assert_non_null(cJSON_AddStringToObject(object, "expression", expression));
    return object;
}

/* Ours for these names; the caller frees. */
static cJSON *our_condition(const struct compile_labels *names, enum labels_condition_of of)
{
    const struct labels_keys keys = keys_of(names);
    struct buf text = BUF_INIT(LABELS_CONDITION_MAX);
    labels_condition_write(&keys, of, &text);
    assert_int_equal(buf_error(&text), 0);
    cJSON *object = condition(CONFIGURATION_CONDITION, buf_cstr(&text));
    buf_reset(&text);
    return object;
}

/* A list of these, which are taken; NULL ends it. */
static cJSON *list_of(cJSON *first, cJSON *second)
{
    cJSON *list = cJSON_CreateArray();
    if (first != NULL) {
        cJSON_AddItemToArray(list, first);
    }
    if (second != NULL) {
        cJSON_AddItemToArray(list, second);
    }
    return list;
}

static cJSON *right(void)
{
    return our_condition(&label_names, LABELS_CONDITION_RESOURCES);
}

static cJSON *wrong(void)
{
    return our_condition(&other_names, LABELS_CONDITION_RESOURCES);
}

static cJSON *theirs(void)
{
    return condition("no-nodes", "!('system:nodes' in request.userInfo.groups)");
}

/* A webhook of that client has the conditions `present`, should have ours as `what` says, and has
 * `after` then; NULL: it is left alone. The lists are taken. */
static void expect_conditions(const char *client, cJSON *present, enum configuration_condition what,
                              cJSON *after)
{
    const struct labels_keys keys = keys_of(&label_names);
    const struct configuration_wanted w = {.condition = what, .keys = &keys, .now = NOW};
    cJSON *object = configuration(client, NULL);
    cJSON *webhook = cJSON_GetArrayItem(cJSON_GetObjectItem(object, "webhooks"), 0);
    cJSON_AddItemToObject(webhook, "matchConditions", present);
    cJSON *patch = configuration_patch(&target, &w, object);
    assert_int_equal(patch != NULL, after != NULL);
    if (patch != NULL) {
        assert_int_equal(cJSON_GetArraySize(patch), 2);
        cJSON_DeleteItemFromArray(patch, 0); /* the test of the version */
        cJSON *now = patch_apply(object, patch);
        webhook = cJSON_GetArrayItem(cJSON_GetObjectItem(now, "webhooks"), 0);
        assert_true(cJSON_Compare(cJSON_GetObjectItem(webhook, "matchConditions"), after, true));
        cJSON *more = configuration_patch(&target, &w, now);
        assert_null(more); /* once is enough */
        cJSON_Delete(now);
    }
    cJSON_Delete(patch);
    cJSON_Delete(object);
    cJSON_Delete(after);
}

static void test_a_match_condition_is_set(void **state)
{
    const char *client = SERVICE("/mutate/resources");
    const enum configuration_condition set = CONFIGURATION_CONDITION_SET;
    (void)state;
    expect_conditions(client, cJSON_CreateNull(), set, list_of(right(), NULL));
    expect_conditions(client, list_of(NULL, NULL), set, list_of(right(), NULL));
    expect_conditions(client, list_of(right(), NULL), set, NULL);
    expect_conditions(client, list_of(wrong(), NULL), set, list_of(right(), NULL));
    expect_conditions(client, list_of(right(), wrong()), set, list_of(right(), NULL));
    /* Conditions of others stay, and each of them may keep a request from us. */
    expect_conditions(client, list_of(theirs(), NULL), set, list_of(theirs(), right()));
    expect_conditions(client, list_of(right(), theirs()), set, NULL);
    expect_conditions(client, list_of(wrong(), theirs()), set, list_of(theirs(), right()));
}

static void test_a_match_condition_goes(void **state)
{
    const char *client = SERVICE("/mutate/resources");
    const enum configuration_condition none = CONFIGURATION_CONDITION_NONE;
    (void)state;
    expect_conditions(client, cJSON_CreateNull(), none, NULL);
    expect_conditions(client, list_of(theirs(), NULL), none, NULL);
    expect_conditions(client, list_of(right(), NULL), none, list_of(NULL, NULL));
    expect_conditions(client, list_of(wrong(), theirs()), none, list_of(theirs(), NULL));
}

/* Whoever does not know whether the API server evaluates it, and before something else is written.
 */
static void test_only_a_right_match_condition_stays(void **state)
{
    const char *client = SERVICE("/mutate/resources");
    const enum configuration_condition kept = CONFIGURATION_CONDITION_KEPT;
    (void)state;
    expect_conditions(client, cJSON_CreateNull(), kept, NULL);
    expect_conditions(client, list_of(right(), theirs()), kept, NULL);
    expect_conditions(client, list_of(wrong(), NULL), kept, list_of(NULL, NULL));
    expect_conditions(client, list_of(right(), wrong()), kept, list_of(NULL, NULL));
    expect_conditions(client, list_of(wrong(), NULL), CONFIGURATION_CONDITION_LEFT, NULL);
}

static void test_match_conditions_of_the_webhooks_for_labels_alone(void **state)
{
    const enum configuration_condition set = CONFIGURATION_CONDITION_SET;
    (void)state;
    expect_conditions(SERVICE("/mutate/namespaces"), cJSON_CreateNull(), set,
                      list_of(our_condition(&label_names, LABELS_CONDITION_NAMESPACES), NULL));
    expect_conditions(SERVICE("/mutate/namespaces"), list_of(right(), NULL), set,
                      list_of(our_condition(&label_names, LABELS_CONDITION_NAMESPACES), NULL));
    expect_conditions(SERVICE("/mutate/pods"), cJSON_CreateNull(), set, NULL);
    expect_conditions(SERVICE("/validate/shardingconfigs"), cJSON_CreateNull(), set, NULL);
    expect_conditions("{\"url\":\"https://127.0.0.3:1/mutate/resources\"}", list_of(wrong(), NULL),
                      set, NULL);
}

static void test_trust(void **state)
{
    (void)state;
    char *text = BUNDLE(CURRENT, NEXT);
    cJSON *object = configuration(SERVICE("/mutate/pods"), text);
    struct certificate *next = certificate_read(slice_str(authorities[NEXT].cert), NULL, NULL);
    struct certificate *old = certificate_read(slice_str(authorities[OLD].cert), NULL, NULL);
    assert_true(configuration_trusts(&target, object, next));
    assert_false(configuration_trusts(&target, object, old));
    /* One webhook that does not is enough; one that is not ours does not count. */
    cJSON *webhooks = cJSON_GetObjectItem(object, "webhooks");
    cJSON_AddItemToArray(webhooks, cJSON_Parse("{\"clientConfig\":{\"url\":\"https://x/\"}}"));
    assert_true(configuration_trusts(&target, object, next));
    cJSON_AddItemToArray(webhooks,
                         cJSON_Parse("{\"clientConfig\":{\"url\":\"https://127.0.0.1/\"}}"));
    assert_false(configuration_trusts(&target, object, next));
    cJSON *empty = cJSON_CreateObject();
    assert_true(configuration_trusts(&target, empty, next));
    cJSON_Delete(empty);
    certificate_free(next);
    certificate_free(old);
    cJSON_Delete(object);
    free(text);
}

static void test_strange_objects(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}", "{\"webhooks\":5}", "{\"webhooks\":[5,null,{\"clientConfig\":[]}]}",
        "{\"webhooks\":{\"a\":{\"clientConfig\":5}}}",
        "{\"metadata\":{\"resourceVersion\":5},\"webhooks\":[{\"clientConfig\":{\"service\":5}}]}"};
    char *wanted = BUNDLE(CURRENT);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        cJSON *object = cJSON_Parse(texts[i]);
        assert_null(patch_for(object, wanted, NULL));
        assert_int_equal(configuration_count(&target, object), 0);
        cJSON_Delete(object);
    }
    free(wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bundles),
        cmocka_unit_test(test_what_another_replica_knows_stays),
        cmocka_unit_test(test_only_ours_are_changed),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_rules_of_the_webhook_for_labels_alone),
        cmocka_unit_test(test_rules_are_only_added),
        cmocka_unit_test(test_namespaces_of_the_webhook_for_pods),
        cmocka_unit_test(test_a_match_condition_is_set),
        cmocka_unit_test(test_a_match_condition_goes),
        cmocka_unit_test(test_only_a_right_match_condition_stays),
        cmocka_unit_test(test_match_conditions_of_the_webhooks_for_labels_alone),
        cmocka_unit_test(test_trust),
        cmocka_unit_test(test_strange_objects),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
