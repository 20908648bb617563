/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/config_spec.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_sweep.h"
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

static const cJSON *limits_of(const cJSON *object)
{
    return field_get(field_get(object, "spec"), "limits");
}

static void limits_are_kept_as_text_until_they_are_compiled(void **state)
{
    struct byte_budget budget = {.max = SIZE_MAX};
    struct config_spec s = {.limits = NULL};
    cJSON *object = config("[" LIMIT "]");
    (void)state;
    assert_int_equal(config_spec_set(&s, object), 0);
    assert_null(limits_of(object));
    assert_false(s.lacks_limits || s.unlimited);
    assert_string_equal(s.limits, "[" LIMIT "]");
    assert_true(config_spec_weight(&s) > strlen(s.limits));
    const struct rules *r = config_spec_compile(&s, object, &options, &budget, NULL);
    assert_non_null(r);
    assert_int_equal(rules_limit_count(r), 1);
    assert_null(limits_of(object));
    assert_null(s.limits);
    assert_int_equal(config_spec_weight(&s), 0);
    assert_ptr_equal(config_spec_compile(&s, object, &options, &budget, NULL), r);
    cJSON_Delete(object);
    object = config("[" LIMIT "]");
    config_spec_strip(object);
    assert_null(limits_of(object));
    config_spec_forget(&s);
    assert_null(s.rules);
    cJSON_Delete(object);
}

static void what_is_no_list_of_limits_stays(void **state)
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
                 {"{\"x\":1}", false, false, -EINVAL}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct byte_budget budget = {.max = SIZE_MAX};
        struct config_spec s = {.limits = NULL};
        struct err e = ERR_INIT;
        cJSON *object = config(cases[i].limits);
        assert_int_equal(config_spec_set(&s, object), 0);
        assert_null(s.limits);
        assert_int_equal(s.lacks_limits, cases[i].lacks_limits);
        assert_int_equal(s.unlimited, cases[i].unlimited);
        const struct rules *r = config_spec_compile(&s, object, &options, &budget, &e);
        assert_int_equal(e.code, cases[i].code);
        assert_int_equal(r != NULL, cases[i].code == 0);
        config_spec_forget(&s);
        cJSON_Delete(object);
    }
}

static void what_is_wrong_is_told_each_time(void **state)
{
    struct byte_budget budget = {.max = SIZE_MAX};
    struct config_spec s = {.limits = NULL};
    cJSON *object = config("[" LIMIT "," WRONG "]");
    struct err first = ERR_INIT;
    struct err second = ERR_INIT;
    (void)state;
    assert_int_equal(config_spec_set(&s, object), 0);
    assert_null(config_spec_compile(&s, object, &options, &budget, &first));
    assert_int_equal(first.code, -EINVAL);
    assert_non_null(strstr(first.msg, "spec.limits[1]"));
    assert_null(s.limits);
    assert_null(limits_of(object));
    assert_null(config_spec_compile(&s, object, &options, &budget, &second));
    assert_int_equal(second.code, first.code);
    assert_string_equal(second.msg, first.msg);
    config_spec_forget(&s);
    cJSON_Delete(object);
}

static void what_is_given_up_is_refused(void **state)
{
    struct byte_budget budget = {.max = SIZE_MAX};
    struct config_spec s = {.limits = NULL};
    cJSON *object = config("[" LIMIT "]");
    struct err e = ERR_INIT;
    (void)state;
    assert_int_equal(config_spec_set(&s, object), 0);
    config_spec_give_up(&s, "too much");
    assert_null(config_spec_compile(&s, object, &options, &budget, &e));
    assert_int_equal(e.code, -EDQUOT);
    assert_string_equal(e.msg, "too much");
    assert_null(s.limits);
    config_spec_forget(&s);
    cJSON_Delete(object);
}

static bool set_and_compile(void *data)
{
    struct byte_budget budget = {.max = SIZE_MAX};
    struct config_spec s = {.limits = NULL};
    long left = sweep_left;
    sweep_left = -1;
    cJSON *object = config(data);
    sweep_left = left;
    struct err e = ERR_INIT;
    bool set = config_spec_set(&s, object) == 0;
    const struct rules *r = set ? config_spec_compile(&s, object, &options, &budget, &e) : NULL;
    bool done = set && (r != NULL || e.code == -EINVAL);
    if (set && !done) { /* once more: nothing was lost */
        assert_int_equal(e.code, -ENOMEM);
        sweep_left = -1;
        r = config_spec_compile(&s, object, &options, &budget, NULL);
        assert_int_equal(r != NULL, strstr(data, WRONG) == NULL);
    }
    sweep_left = -1;
    assert_null(limits_of(object));
    config_spec_forget(&s);
    cJSON_Delete(object);
    return done;
}

static void without_memory(void **state)
{
    static char right[] = "[" LIMIT "]";
    static char wrong[] = "[" LIMIT "," WRONG "]";
    (void)state;
    assert_true(sweep_allocations(set_and_compile, right) > 10);
    assert_true(sweep_allocations(set_and_compile, wrong) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_kept_as_text_until_they_are_compiled),
        cmocka_unit_test(what_is_no_list_of_limits_stays),
        cmocka_unit_test(what_is_wrong_is_told_each_time),
        cmocka_unit_test(what_is_given_up_is_refused),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
