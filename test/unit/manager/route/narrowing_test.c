/* SPDX-License-Identifier: Apache-2.0 */
#include "route/narrowing.h"

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
#include "json/json.h"

static const struct labels_keys keys = {.key = {[LABELS_CONTROL] = "x/control"}};

#define ANNOTATION "x/narrowed"

static cJSON *parse(const char *text)
{
    struct err e = ERR_INIT;
    cJSON *json = json_parse(text, strlen(text), &e);
    if (json == NULL) {
        fail_msg("%s: %s", e.msg, text);
    }
    return json;
}

#define HEAD "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"7\""
#define CONSTANT "{\"key\":\"x/control\",\"operator\":\"DoesNotExist\"}"
#define OWN "{\"key\":\"team\",\"operator\":\"In\",\"values\":[\"a\"]}"

/* The names of webhooks that are concerned, in a text. */
static bool pick(void *data, const cJSON *webhook)
{
    return strstr(data, field_text(webhook, "name")) != NULL;
}

/* `to` NULL: nothing is to be done. */
static void expect(const char *from, bool undo, char *names, const char *to)
{
    cJSON *configuration = parse(from);
    cJSON *wanted = to == NULL ? NULL : parse(to);
    cJSON *patch = undo ? narrowing_undo_patch(&keys, configuration, ANNOTATION, pick, names)
                        : narrowing_patch(&keys, configuration, ANNOTATION, pick, names);
    char *text = patch == NULL ? NULL : cJSON_PrintUnformatted(patch);
    if (to == NULL ? patch != NULL : !cJSON_Compare(patch, wanted, true)) {
        fail_msg("%s", text);
    }
    cJSON_free(text);
    cJSON_Delete(patch);
    cJSON_Delete(wanted);
    cJSON_Delete(configuration);
}

static void what_is_narrowed(void **state)
{
    (void)state;
    static const struct {
        const char *selector;
        bool is;
    } cases[] = {
        {"{\"matchExpressions\":[" OWN "," CONSTANT "]}", true},
        {"{\"matchExpressions\":[" OWN "]}", false},
        {"{\"matchExpressions\":[{\"key\":\"x/control\",\"operator\":\"Exists\"}]}", false},
        {"{}", false},
        {"null", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cJSON *webhook = cJSON_CreateObject();
        cJSON_AddItemToObject(webhook, "namespaceSelector", parse(cases[i].selector));
        assert_int_equal(narrowing_is(&keys, webhook), cases[i].is);
        cJSON_Delete(webhook);
    }
}

static void narrowing_keeps_what_is_there_and_tells_it(void **state)
{
    (void)state;
    expect(HEAD "},\"webhooks\":["
                "{\"name\":\"a\",\"namespaceSelector\":{\"matchExpressions\":[" OWN "]}},"
                "{\"name\":\"b\",\"rules\":[1]},{\"name\":\"c\"}]}",
           false, "a c",
           HEAD ",\"annotations\":{\"x/narrowed\":"
                "\"{\\\"a\\\":{\\\"matchExpressions\\\":[{\\\"key\\\":\\\"team\\\","
                "\\\"operator\\\":\\\"In\\\",\\\"values\\\":[\\\"a\\\"]}]},\\\"c\\\":{}}\"}},"
                "\"webhooks\":["
                "{\"name\":\"a\",\"namespaceSelector\":{\"matchExpressions\":[" OWN "," CONSTANT
                "]}},{\"name\":\"b\",\"rules\":[1]},"
                "{\"name\":\"c\",\"namespaceSelector\":{\"matchExpressions\":[" CONSTANT "]}}]}");
}

static void putting_back_takes_the_expression_away(void **state)
{
    (void)state;
    expect(HEAD ",\"annotations\":{\"x/narrowed\":\"{\\\"a\\\":{},\\\"b\\\":{},\\\"c\\\":{},"
                "\\\"gone\\\":{}}\"}},\"webhooks\":["
                "{\"name\":\"a\",\"namespaceSelector\":{\"matchLabels\":{\"l\":\"v\"},"
                "\"matchExpressions\":[" CONSTANT "]}},"
                "{\"name\":\"b\",\"namespaceSelector\":{\"matchExpressions\":[" OWN "]}},"
                "{\"name\":\"c\",\"namespaceSelector\":{\"matchExpressions\":[" CONSTANT "]}}]}",
           true, "a b",
           HEAD ",\"annotations\":{\"x/narrowed\":\"{\\\"c\\\":{}}\"}},\"webhooks\":["
                "{\"name\":\"a\",\"namespaceSelector\":{\"matchLabels\":{\"l\":\"v\"}}},"
                "{\"name\":\"b\",\"namespaceSelector\":{\"matchExpressions\":[" OWN "]}},"
                "{\"name\":\"c\",\"namespaceSelector\":{\"matchExpressions\":[" CONSTANT "]}}]}");
    /* The last one takes the annotation with it. */
    expect(HEAD ",\"annotations\":{\"x/narrowed\":\"{\\\"a\\\":{}}\"}},\"webhooks\":["
                "{\"name\":\"a\",\"namespaceSelector\":{\"matchExpressions\":[" CONSTANT "]}}]}",
           true, "a",
           HEAD ",\"annotations\":{\"x/narrowed\":null}},\"webhooks\":["
                "{\"name\":\"a\",\"namespaceSelector\":{}}]}");
}

static void whose_it_is(void **state)
{
    (void)state;
    cJSON *o = parse(HEAD ",\"annotations\":{\"x/narrowed\":\"{\\\"a\\\":{}}\"}}}");
    assert_true(narrowing_is_ours(o, ANNOTATION, "a"));
    assert_true(narrowing_is_ours(o, ANNOTATION, NULL));
    assert_false(narrowing_is_ours(o, ANNOTATION, "b"));
    assert_false(narrowing_is_ours(o, "other", "a"));
    cJSON_Delete(o);
}

static void what_is_right_is_left_alone(void **state)
{
    (void)state;
    static const char narrowed[] = HEAD
        "},\"webhooks\":[{\"name\":\"a\",\"namespaceSelector\":{\"matchExpressions\":[" CONSTANT
        "]}}]}";
    expect(narrowed, false, "a", NULL);
    expect(narrowed, true, "a", NULL); /* by its owner */
    expect(HEAD "},\"webhooks\":[{\"name\":\"a\"}]}", false, "b", NULL);
    expect(HEAD "},\"webhooks\":[{\"name\":\"a\"}]}", true, "a", NULL);
    expect(HEAD "}}", false, "a", NULL);
}

static void an_annotation_that_makes_no_sense_is_none(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "x", "[]", "{"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        cJSON *o = cJSON_CreateObject();
        cJSON *metadata = cJSON_AddObjectToObject(o, "metadata");
        cJSON *annotations = cJSON_AddObjectToObject(metadata, "annotations");
        cJSON_AddStringToObject(annotations, ANNOTATION, texts[i]);
        assert_false(narrowing_is_ours(o, ANNOTATION, NULL));
        cJSON_Delete(o);
    }
}

/* The API server takes 256 KiB of annotations. */
static void what_is_too_long_for_an_annotation_is_left_out(void **state)
{
    enum { LONG = 200 * 1024 };
    char *filling = calloc(1, LONG + 1);
    char *text = calloc(2, LONG + 1024);
    (void)state;
    (void)memset(filling, 'x', LONG);
    for (int others = 0; others < 2; others++) {
        (void)sprintf(text,
                      HEAD ",\"annotations\":{\"other\":\"%s\"}},\"webhooks\":[{\"name\":\"a\","
                           "\"namespaceSelector\":{\"matchLabels\":{\"k\":\"%s\"}}}]}",
                      others > 0 ? filling : "", filling);
        cJSON *configuration = parse(text);
        cJSON *patch = narrowing_patch(&keys, configuration, ANNOTATION, NULL, NULL);
        const cJSON *annotations = field_get(field_get(patch, "metadata"), "annotations");
        const char *told = field_text(annotations, ANNOTATION);
        assert_true(others > 0 ? strcmp(told, "{\"a\":true}") == 0 : strlen(told) > LONG);
        cJSON *narrowed = cJSON_Duplicate(configuration, true);
        cJSON_ReplaceItemInObject(narrowed, "webhooks",
                                  cJSON_Duplicate(field_get(patch, "webhooks"), true));
        cJSON_AddStringToObject(
            cJSON_GetObjectItem(cJSON_GetObjectItem(narrowed, "metadata"), "annotations"),
            ANNOTATION, told);
        assert_true(narrowing_is_ours(narrowed, ANNOTATION, "a"));
        cJSON *back = narrowing_undo_patch(&keys, narrowed, ANNOTATION, NULL, NULL);
        assert_true(
            cJSON_Compare(field_get(back, "webhooks"), field_get(configuration, "webhooks"), true));
        cJSON_Delete(back);
        cJSON_Delete(narrowed);
        cJSON_Delete(patch);
        cJSON_Delete(configuration);
    }
    free(text);
    free(filling);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_too_long_for_an_annotation_is_left_out),
        cmocka_unit_test(what_is_narrowed),
        cmocka_unit_test(narrowing_keeps_what_is_there_and_tells_it),
        cmocka_unit_test(putting_back_takes_the_expression_away),
        cmocka_unit_test(whose_it_is),
        cmocka_unit_test(what_is_right_is_left_alone),
        cmocka_unit_test(an_annotation_that_makes_no_sense_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
