/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/config_spec.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "root/child.h"
#include "json/digest.h"
#include "json/field.h"
#include "json/json.h"

#define LIMIT                                                                                      \
    "{\"relateResources\":[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"]}],\"selector\":{"        \
    "\"matchLabels\":{\"a\":\"b\"}}}"
#define WRONG "{\"relateResources\":[],\"selector\":{}}"

static const struct compile_options options = {
    .generation = 1,
    .labels = {.namespace = "namespace", .shard_hash = "hash", .control = "control"}};

static cJSON *config(const char *limits)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "{\"apiVersion\":\"" COMPILE_API_VERSION "\",\"kind\":\"" COMPILE_KIND
                   "\",\"metadata\":{\"name\":\"a\",\"namespace\":\"n\"},\"spec\":{\"selector\":{"
                   "\"matchLabels\":{\"shard\":\"a\"}}%s%s}}",
                   limits[0] == '\0' ? "" : ",\"limits\":", limits);
    cJSON *root = json_parse(text, strlen(text), NULL);
    assert_non_null(root);
    return root;
}

static cJSON *rest_of(const cJSON *object)
{
    cJSON *rest = config_spec_rest(object, "p.io");
    assert_non_null(rest);
    return rest;
}

static void expect_rest(const cJSON *rest, const char *want)
{
    char *text = cJSON_PrintUnformatted(rest);
    assert_string_equal(text, want);
    free(text);
}

#define HEAD                                                                                       \
    "{\"apiVersion\":\"" COMPILE_API_VERSION "\",\"kind\":\"" COMPILE_KIND "\",\"metadata\":{"
#define REST                                                                                       \
    HEAD "\"name\":\"a\",\"namespace\":\"n\",\"annotations\":{}},\"spec\":{\"selector\":{"         \
         "\"matchLabels\":{\"shard\":\"a\"}}}}"

/* So that who makes the children of a root knows what its canary has. */
static void the_share_of_a_canary_is_kept(void **state)
{
    static const struct {
        const char *name;
        unsigned names;
        bool kept;
    } cases[] = {
        {"op-0-canary", 1, true},     {"op-0-canary", 1000, true}, {"op-1-normal", 1, false},
        {"op-0-canary", 9000, false}, {"-0-canary", 1, false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf names = BUF_INIT(1 << 20);
        struct buf text = BUF_INIT(1 << 20);
        for (unsigned k = 0; k < cases[i].names; k++) {
            (void)buf_printf(&names, "%s\"namespace-%u\"", k == 0 ? "" : ",", k);
        }
        (void)buf_printf(&text,
                         "[{\"selector\":{\"matchExpressions\":[{\"key\":\"a\"},{\"key\":\"b\","
                         "\"values\":[%s]}]}}]",
                         buf_cstr(&names));
        cJSON *object = config("[" LIMIT "]");
        cJSON *spec = cJSON_GetObjectItem(object, "spec");
        cJSON *meta = cJSON_GetObjectItem(object, "metadata");
        (void)cJSON_ReplaceItemInObject(spec, "limits",
                                        json_parse(buf_cstr(&text), text.len, NULL));
        (void)cJSON_ReplaceItemInObject(meta, "name", cJSON_CreateString(cases[i].name));
        cJSON *rest = rest_of(object);
        const cJSON *kept = root_child_share(rest);
        assert_int_equal(kept != NULL, cases[i].kept);
        assert_true(kept == NULL || cJSON_Compare(kept, root_child_share(object), true));
        config_spec_drop_share(rest);
        assert_null(root_child_share(rest));
        cJSON_Delete(rest);
        cJSON_Delete(object);
        buf_reset(&names);
        buf_reset(&text);
    }
}

static void the_spec_is_kept_as_text_until_it_is_compiled(void **state)
{
    struct byte_budget budget = {.max = SIZE_MAX};
    struct config_spec s = {.text = NULL};
    cJSON *object = config("[" LIMIT "]");
    cJSON *rest = rest_of(object);
    (void)state;
    config_spec_set(&s, object);
    assert_false(s.lacks_limits || s.unlimited);
    assert_non_null(strstr(s.text, "[" LIMIT "]"));
    assert_true(config_spec_weight(&s) > strlen(s.text));
    expect_rest(rest, REST);
    const struct rules *r = config_spec_compile(&s, rest, &options, &budget, NULL);
    assert_non_null(r);
    assert_int_equal(rules_limit_count(r), 1);
    expect_rest(rest, REST);
    assert_null(s.text);
    assert_int_equal(config_spec_weight(&s), 0);
    assert_ptr_equal(config_spec_compile(&s, rest, &options, &budget, NULL), r);
    config_spec_forget(&s);
    assert_null(s.rules);
    cJSON_Delete(rest);
    cJSON_Delete(object);
}

/* What is compiled anew when labels of namespaces change needs its text. */
static void what_selects_namespaces(void **state)
{
    static const char limit[] =
        "[{\"relateResources\":[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"]}],"
        "\"namespaceSelector\":{\"matchLabels\":{\"team\":\"red\"}}}]";
    struct byte_budget budget = {.max = SIZE_MAX};
    struct namespace_set set = {.missing = "not yet"};
    struct compile_options o = options;
    struct namespace_entry *before = NULL;
    struct config_spec s = {.text = NULL};
    struct err e = ERR_INIT;
    cJSON *object = config(limit);
    cJSON *rest = rest_of(object);
    cJSON *red = cJSON_Parse("{\"metadata\":{\"name\":\"a\",\"labels\":{\"team\":\"red\"}}}");
    (void)state;
    o.namespaces = &set;
    config_spec_set(&s, object);
    assert_int_equal(s.asks->count, 1);
    assert_null(config_spec_compile(&s, rest, &o, &budget, &e));
    assert_int_equal(e.code, -EAGAIN);
    assert_false(s.compiled); /* it is asked for again */
    set.missing = NULL;
    const struct rules *none = config_spec_compile(&s, rest, &o, &budget, &e);
    assert_non_null(none);
    assert_int_equal(s.namespaces, 0);
    assert_int_equal(namespace_set_put(&set, red, &before), 1);
    assert_ptr_equal(config_spec_compile(&s, rest, &o, &budget, &e), none);
    config_spec_renew(&s);
    assert_non_null(config_spec_compile(&s, rest, &o, &budget, &e));
    assert_int_equal(s.namespaces, 1);
    assert_true(config_spec_weight(&s) > strlen(s.text) + sizeof *s.asks);
    config_spec_give_up(&s, "no memory");
    assert_null(s.asks);
    assert_null(s.text);
    config_spec_forget(&s);
    namespace_set_deinit(&set);
    cJSON_Delete(red);
    cJSON_Delete(rest);
    cJSON_Delete(object);
}

/* Whatever somebody writes beside what the manager looks at takes no memory. */
static void nothing_else_stays(void **state)
{
    static const char text[] =
        "{\"apiVersion\":\"x\",\"kind\":\"y\",\"junk\":[1,2],\"metadata\":{\"name\":\"a\","
        "\"namespace\":\"n\",\"uid\":\"u\",\"resourceVersion\":\"7\",\"generation\":3,"
        "\"creationTimestamp\":\"2026-01-01T00:00:00Z\","
        "\"labels\":{\"l\":\"m\",\"p.io/r\":\"s\"},\"ownerReferences\":[{\"uid\":\"v\"},"
        "{\"uid\":\"w\",\"controller\":true}],\"annotations\":{\"p.io/x\":\"1\",\"p.iox/"
        "y\":\"2\",\"z\":\"3\"},"
        "\"managedFields\":[{}],\"finalizers\":[\"f\"]},\"spec\":{\"root\":{\"junk\":[1],"
        "\"prefix\":\"p\"},"
        "\"controller\":{\"leaderElectionName\":\"op\",\"leaderElectionNamespace\":\"k\","
        "\"junk\":1,\"userAgentOrPrefix\":\"s/"
        "\"},\"leaving\":\"a\",\"webhook\":{\"certDir\":\"/"
        "c\",\"port\":9443,\"duringHandover\":\"Hold\"},"
        "\"junk\":[1],\"limits\":[]},"
        "\"status\":{\"generation\":1}}";
    cJSON *object = json_parse(text, sizeof text - 1, NULL);
    cJSON *rest = rest_of(object);
    (void)state;
    expect_rest(rest, HEAD "\"name\":\"a\",\"namespace\":\"n\",\"uid\":\"u\",\"resourceVersion\":"
                           "\"7\",\"generation\":3,\"finalizers\":[\"f\"],\"annotations\":{"
                           "\"p.io/x\":\"1\"},\"labels\":{\"p.io/r\":\"s\"},"
                           "\"ownerReferences\":[{\"uid\":\"w\",\"controller\":true}],"
                           "\"creationTimestamp\":\"2026-01-01T00:00:00Z\"},\"spec\":{"
                           "\"root\":{\"prefix\":\"p\"},\"controller\":{"
                           "\"leaderElectionName\":\"op\",\"leaderElectionNamespace\":\"k\","
                           "\"userAgentOrPrefix\":\"s/"
                           "\"},\"leaving\":\"a\",\"webhook\":{\"port\":9443,\"duringHandover\":"
                           "\"Hold\"}},\"status\":{\"generation\":1}}");
    cJSON_Delete(rest);
    cJSON_Delete(object);
}

static void the_spec_of_a_root_is_kept(void **state)
{
    static const char text[] = HEAD "\"name\":\"a\",\"namespace\":\"n\",\"annotations\":{}},"
                                    "\"spec\":{\"root\":{\"prefix\":\"x\"},\"limits\":[]}}";
    struct byte_budget budget = {.max = SIZE_MAX};
    struct config_spec s = {.text = NULL};
    cJSON *object = json_parse(text, sizeof text - 1, NULL);
    cJSON *rest = rest_of(object);
    (void)state;
    config_spec_set(&s, object);
    assert_true(s.digest == json_digest(cJSON_GetObjectItem(object, "spec")));
    struct err e = ERR_INIT;
    (void)config_spec_compile(&s, rest, &options, &budget, &e);
    cJSON *whole = config_spec_whole(&s, rest);
    expect_rest(whole, text);
    cJSON_Delete(whole);
    config_spec_give_up(&s, "too large");
    assert_null(config_spec_whole(&s, rest));
    config_spec_forget(&s);
    cJSON_Delete(rest);
    cJSON_Delete(object);
}

/* As if it had been compiled at once: a field that is not kept is refused all the same. */
static void the_whole_spec_is_compiled(void **state)
{
    static const struct {
        const char *limits;
        bool lacks_limits;
        bool unlimited;
        int code;
    } cases[] = {{"", true, false, 0},
                 {"null", true, false, 0},
                 {"[]", false, true, 0},
                 {"5", false, false, -EINVAL},
                 {"{\"x\":1}", false, false, -EINVAL},
                 {"[],\"junk\":[1]", false, true, -EINVAL}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct byte_budget budget = {.max = SIZE_MAX};
        struct config_spec s = {.text = NULL};
        struct err e = ERR_INIT;
        cJSON *object = config(cases[i].limits);
        cJSON *rest = rest_of(object);
        config_spec_set(&s, object);
        assert_int_equal(s.lacks_limits, cases[i].lacks_limits);
        assert_int_equal(s.unlimited, cases[i].unlimited);
        const struct rules *r = config_spec_compile(&s, rest, &options, &budget, &e);
        assert_int_equal(e.code, cases[i].code);
        assert_int_equal(r != NULL, cases[i].code == 0);
        config_spec_forget(&s);
        cJSON_Delete(rest);
        cJSON_Delete(object);
    }
}

static void without_a_spec(void **state)
{
    struct byte_budget budget = {.max = SIZE_MAX};
    struct config_spec s = {.text = NULL};
    struct err e = ERR_INIT;
    cJSON *object = cJSON_Parse("{\"metadata\":{\"name\":\"a\",\"namespace\":\"n\"}}");
    cJSON *rest = rest_of(object);
    (void)state;
    config_spec_set(&s, object);
    assert_true(s.lacks_limits);
    assert_null(config_spec_compile(&s, rest, &options, &budget, &e));
    assert_int_equal(e.code, -EINVAL);
    assert_null(field_get(rest, "spec"));
    config_spec_forget(&s);
    cJSON_Delete(rest);
    cJSON_Delete(object);
}

static void what_is_wrong_is_told_each_time(void **state)
{
    struct byte_budget budget = {.max = SIZE_MAX};
    struct config_spec s = {.text = NULL};
    cJSON *object = config("[" LIMIT "," WRONG "]");
    cJSON *rest = rest_of(object);
    struct err first = ERR_INIT;
    struct err second = ERR_INIT;
    (void)state;
    config_spec_set(&s, object);
    assert_null(config_spec_compile(&s, rest, &options, &budget, &first));
    assert_int_equal(first.code, -EINVAL);
    assert_non_null(strstr(first.msg, "spec.limits[1]"));
    assert_null(s.text);
    expect_rest(rest, REST);
    assert_null(config_spec_compile(&s, rest, &options, &budget, &second));
    assert_int_equal(second.code, first.code);
    assert_string_equal(second.msg, first.msg);
    config_spec_forget(&s);
    cJSON_Delete(rest);
    cJSON_Delete(object);
}

static void what_is_given_up_is_refused(void **state)
{
    struct byte_budget budget = {.max = SIZE_MAX};
    struct config_spec s = {.text = NULL};
    cJSON *object = config("[" LIMIT "]");
    struct err e = ERR_INIT;
    (void)state;
    config_spec_set(&s, object);
    config_spec_give_up(&s, "too much");
    assert_null(config_spec_compile(&s, object, &options, &budget, &e));
    assert_int_equal(e.code, -EDQUOT);
    assert_string_equal(e.msg, "too much");
    assert_null(s.text);
    config_spec_forget(&s);
    cJSON_Delete(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_share_of_a_canary_is_kept),
        cmocka_unit_test(the_spec_is_kept_as_text_until_it_is_compiled),
        cmocka_unit_test(what_selects_namespaces),
        cmocka_unit_test(nothing_else_stays),
        cmocka_unit_test(the_spec_of_a_root_is_kept),
        cmocka_unit_test(the_whole_spec_is_compiled),
        cmocka_unit_test(without_a_spec),
        cmocka_unit_test(what_is_wrong_is_told_each_time),
        cmocka_unit_test(what_is_given_up_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
