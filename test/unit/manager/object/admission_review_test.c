/* SPDX-License-Identifier: Apache-2.0 */
#include "object/admission_review.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "crypto/digest.h"
#include "json/json.h"

/* As kube-apiserver 1.20 sends it, shortened. */
#define REVIEW(version, request)                                                                   \
    "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/" version                     \
    "\",\"request\":{" request "}}"
#define UID "\"uid\":\"705ab4f5-6393-11e8-b7cc-42010a800002\","
#define PODS "\"resource\":{\"group\":\"\",\"version\":\"v1\",\"resource\":\"pods\"},"
#define CREATE_POD                                                                                 \
    UID "\"kind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"Pod\"}," PODS                      \
        "\"requestKind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"Pod\"},"                    \
        "\"namespace\":\"demo\",\"operation\":\"CREATE\","                                         \
        "\"userInfo\":{\"username\":\"system:serviceaccount:kube-system:statefulset-controller\"," \
        "\"groups\":[\"system:authenticated\"]},"                                                  \
        "\"object\":{\"metadata\":{\"name\":\"op-0\"}},\"oldObject\":null,\"dryRun\":false,"       \
        "\"options\":{\"kind\":\"CreateOptions\",\"apiVersion\":\"meta.k8s.io/v1\"}"

static void read_text(struct admission_request *r, const char *text)
{
    struct err e = ERR_INIT;
    if (admission_request_read(r, slice_str(text), ADMISSION_OBJECTS, &e) != 0) {
        fail_msg("%s", e.msg);
    }
}

static void a_pod_is_created(void **state)
{
    (void)state;
    static const char *const texts[] = {REVIEW("v1", CREATE_POD), REVIEW("v1beta1", CREATE_POD)};
    for (size_t i = 0; i < 2; i++) {
        struct admission_request r;
        read_text(&r, texts[i]);
        assert_string_equal(r.api_version,
                            i == 0 ? "admission.k8s.io/v1" : "admission.k8s.io/v1beta1");
        assert_string_equal(r.uid, "705ab4f5-6393-11e8-b7cc-42010a800002");
        assert_int_equal(r.operation, ADMISSION_CREATE);
        assert_string_equal(admission_operation_name(r.operation), "CREATE");
        assert_string_equal(r.resource.group, "");
        assert_string_equal(r.resource.version, "v1");
        assert_string_equal(r.resource.resource, "pods");
        assert_string_equal(r.resource.subresource, "");
        assert_string_equal(r.kind, "Pod");
        assert_string_equal(r.namespace, "demo");
        assert_string_equal(r.name, "");
        assert_string_equal(r.user, "system:serviceaccount:kube-system:statefulset-controller");
        assert_false(r.dry_run);
        assert_non_null(cJSON_GetObjectItem(r.object, "metadata"));
        assert_null(r.old_object);
        admission_request_deinit(&r);
    }
}

static void other_requests(void **state)
{
    (void)state;
    struct admission_request r;
    read_text(&r, REVIEW("v1", UID PODS "\"operation\":\"DELETE\",\"name\":\"a\",\"dryRun\":true,"
                                        "\"object\":null,\"oldObject\":{\"x\":1}"));
    assert_int_equal(r.operation, ADMISSION_DELETE);
    assert_true(r.dry_run);
    assert_string_equal(r.name, "a");
    assert_null(r.object);
    assert_non_null(r.old_object);
    admission_request_deinit(&r);

    read_text(&r, REVIEW("v1", UID "\"resource\":{\"group\":\"apps\",\"version\":\"v1\","
                                   "\"resource\":\"deployments\"},\"subResource\":\"scale\","
                                   "\"operation\":\"UPDATE\",\"unknown\":[1]"));
    assert_int_equal(r.operation, ADMISSION_UPDATE);
    assert_string_equal(r.resource.group, "apps");
    assert_string_equal(r.resource.subresource, "scale");
    assert_string_equal(r.namespace, "");
    assert_string_equal(r.kind, "");
    assert_false(r.dry_run);
    admission_request_deinit(&r);
}

static void what_cannot_be_answered(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *want;
    } cases[] = {
        {"", "the body is no AdmissionReview: "},
        {"nonsense", "the body is no AdmissionReview: "},
        {"{}", "kind: Required value"},
        {"[]", "Invalid value: must be an object"},
        {"{\"kind\":5}", "kind: Invalid value: must be a string"},
        {"{\"kind\":\"Pod\"}",
         "kind: Unsupported value: \"Pod\": supported values: \"AdmissionReview\""},
        {"{\"kind\":\"AdmissionReview\"}", "apiVersion: Required value"},
        {REVIEW("v2", CREATE_POD),
         "apiVersion: Invalid value: \"admission.k8s.io/v2\": supported are "
         "\"admission.k8s.io/v1\" and \"admission.k8s.io/v1beta1\""},
        {"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\"}",
         "request: Required value"},
        {"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",\"response\":{}}",
         "request: Required value"},
        {"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",\"request\":[]}",
         "request: Invalid value: must be an object"},
        {REVIEW("v1", PODS "\"operation\":\"CREATE\""), "request.uid: Required value"},
        {REVIEW("v1", "\"uid\":\"\""), "request.uid: Required value"},
        {REVIEW("v1", "\"uid\":7"), "request.uid: Invalid value: must be a string"},
        {REVIEW("v1", UID "\"a\":1"), "request.operation: Required value"},
        {REVIEW("v1", UID PODS "\"operation\":\"PATCH\""),
         "request.operation: Unsupported value: \"PATCH\""},
        {REVIEW("v1", UID "\"operation\":\"CREATE\""), "request.resource: Required value"},
        {REVIEW("v1", UID "\"operation\":\"CREATE\",\"resource\":\"pods\""),
         "request.resource: Invalid value: must be an object"},
        {REVIEW("v1", UID PODS "\"operation\":\"CREATE\",\"object\":\"x\""),
         "request.object: Invalid value: must be an object"},
        {REVIEW("v1", UID PODS "\"operation\":\"CREATE\",\"oldObject\":[]"),
         "request.oldObject: Invalid value: must be an object"},
        {REVIEW("v1", UID PODS "\"operation\":\"CREATE\",\"dryRun\":\"true\""),
         "request.dryRun: Invalid value: must be true or false"},
        {REVIEW("v1", UID PODS "\"operation\":\"CREATE\",\"namespace\":{}"),
         "request.namespace: Invalid value: must be a string"},
        {REVIEW("v1", UID PODS "\"operation\":\"CREATE\",\"userInfo\":{\"username\":0}"),
         "request.userInfo.username: Invalid value: must be a string"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct admission_request r;
        struct err e = ERR_INIT;
        assert_int_equal(
            admission_request_read(&r, slice_str(cases[i].text), ADMISSION_OBJECTS, &e), -EINVAL);
        if (strncmp(e.msg, cases[i].want, strlen(cases[i].want)) != 0) {
            fail_msg("wanted \"%s\", got \"%s\"", cases[i].want, e.msg);
        }
    }
}

static void a_huge_review_is_refused(void **state)
{
    (void)state;
    struct admission_request r;
    struct err e = ERR_INIT;
    size_t len = (size_t)ADMISSION_REVIEW_MAX + 1;
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, ' ', len);
    assert_int_equal(admission_request_read(&r, slice_of(text, len), ADMISSION_OBJECTS, &e),
                     -E2BIG);
    free(text);
}

static void expect_answer(const char *review, const struct admission_answer *a, const char *want)
{
    struct admission_request r;
    struct buf out = BUF_INIT(65536);
    read_text(&r, review);
    assert_int_equal(admission_answer_write(&r, a, &out), 0);
    assert_string_equal(buf_cstr(&out), want);
    buf_reset(&out);
    admission_request_deinit(&r);
}

#define ANSWER(version, response)                                                                  \
    "{\"apiVersion\":\"admission.k8s.io/" version                                                  \
    "\",\"kind\":\"AdmissionReview\",\"response\":{" response "}}"
#define ANSWER_UID "\"uid\":\"705ab4f5-6393-11e8-b7cc-42010a800002\""

static void allowed(void **state)
{
    (void)state;
    const struct admission_answer plain = {0};
    cJSON *none = cJSON_CreateArray();
    const struct admission_answer unchanged = {.patch = none};
    expect_answer(REVIEW("v1", CREATE_POD), &plain, ANSWER("v1", "\"allowed\":true," ANSWER_UID));
    expect_answer(REVIEW("v1beta1", CREATE_POD), &unchanged,
                  ANSWER("v1beta1", "\"allowed\":true," ANSWER_UID));
    cJSON_Delete(none);
}

static void refused(void **state)
{
    (void)state;
    cJSON *patch = cJSON_Parse("[{\"op\":\"remove\",\"path\":\"/a\"}]");
    const struct admission_answer a = {
        .refusal = 422, .message = "spec.selector: \"\xc3\" is no\ntext", .patch = patch};
    expect_answer(REVIEW("v1", CREATE_POD), &a,
                  ANSWER("v1", "\"allowed\":false," ANSWER_UID
                               ",\"status\":{\"code\":422,\"message\":\"spec.selector: "
                               "\\\"\xef\xbf\xbd\\\" is no\\u000atext\",\"reason\":\"Invalid\","
                               "\"status\":\"Failure\"}"));
    cJSON_Delete(patch);
}

static void a_patch_is_base64(void **state)
{
    (void)state;
    cJSON *patch = cJSON_Parse("[{\"op\":\"add\",\"path\":\"/metadata/labels\",\"value\":{}}]");
    const struct admission_answer a = {.patch = patch};
    expect_answer(REVIEW("v1beta1", CREATE_POD), &a,
                  ANSWER("v1beta1", "\"allowed\":true," ANSWER_UID
                                    ",\"patch\":\"W3sib3AiOiJhZGQiLCJwYXRoIjoiL21ldGFkYXRhL2xhYmVs"
                                    "cyIsInZhbHVlIjp7fX1d\",\"patchType\":\"JSONPatch\""));
    cJSON_Delete(patch);
}

static void warnings_are_for_v1(void **state)
{
    (void)state;
    struct warnings notes = WARNINGS_INIT;
    warnings_add(&notes, "limit %d is \"empty\"", 3);
    warnings_add(&notes, "second");
    const struct admission_answer a = {.warnings = &notes};
    expect_answer(REVIEW("v1", CREATE_POD), &a,
                  ANSWER("v1", "\"allowed\":true," ANSWER_UID
                               ",\"warnings\":[\"limit 3 is \\\"empty\\\"\",\"second\"]"));
    expect_answer(REVIEW("v1beta1", CREATE_POD), &a,
                  ANSWER("v1beta1", "\"allowed\":true," ANSWER_UID));
    warnings_deinit(&notes);
    expect_answer(REVIEW("v1", CREATE_POD), &a, ANSWER("v1", "\"allowed\":true," ANSWER_UID));
}

/* The API server takes warnings of 256 bytes, and not many. */
static void warnings_are_bounded(void **state)
{
    (void)state;
    struct warnings notes = WARNINGS_INIT;
    struct admission_request r;
    struct buf out = BUF_INIT(65536);
    struct err e = ERR_INIT;
    char longest[400];
    memset(longest, 'x', sizeof longest);
    memcpy(longest + 255, "\xe2\x82\xac", 3);
    longest[sizeof longest - 1] = '\0';
    for (int i = 0; i < WARNINGS_MAX + 3; i++) {
        warnings_add(&notes, "%s", longest);
    }
    const struct admission_answer a = {.warnings = &notes};
    read_text(&r, REVIEW("v1", CREATE_POD));
    assert_int_equal(admission_answer_write(&r, &a, &out), 0);
    cJSON *review = json_parse((const char *)buf_data(&out), out.len, &e);
    const cJSON *list = cJSON_GetObjectItem(cJSON_GetObjectItem(review, "response"), "warnings");
    assert_int_equal(cJSON_GetArraySize(list), WARNINGS_MAX + 1);
    assert_int_equal(strlen(cJSON_GetArrayItem(list, 0)->valuestring), 255);
    assert_string_equal(cJSON_GetArrayItem(list, WARNINGS_MAX)->valuestring, "3 more");
    cJSON_Delete(review);
    warnings_deinit(&notes);
    buf_reset(&out);
    admission_request_deinit(&r);
}

static void an_answer_is_written_whole_or_not_at_all(void **state)
{
    (void)state;
    struct admission_request r;
    const struct admission_answer a = {.refusal = 403, .message = "no"};
    read_text(&r, REVIEW("v1", CREATE_POD));
    for (size_t max = 5; max < 180; max += 7) {
        struct buf out = BUF_INIT(max);
        assert_int_equal(buf_append_str(&out, "head"), 0);
        assert_int_equal(admission_answer_write(&r, &a, &out), -ENOBUFS);
        assert_string_equal(buf_cstr(&out), "head");
        buf_reset(&out);
    }
    admission_request_deinit(&r);
}

/* ---- what of the objects is read ---- */

#define SECRETS "\"resource\":{\"group\":\"\",\"version\":\"v1\",\"resource\":\"secrets\"},"

static void labels_are_read_alone(void **state)
{
    (void)state;
    struct admission_request r;
    struct err e = ERR_INIT;
    static const char text[] =
        REVIEW("v1", UID SECRETS
               "\"operation\":\"UPDATE\",\"oldObject\":{\"data\":{\"p\":\"b2xk\"},"
               "\"metadata\":{\"labels\":{\"l\":\"old\"}}},\"namespace\":\"n\",\"object\":{"
               "\"data\":{\"p\":"
               "\"bmV3\",\"p\":\"dHdpY2U=\"},\"metadata\":{\"annotations\":{\"last\":\"bmV3\"},"
               "\"name\":\"s\",\"deletionTimestamp\":\"t\",\"labels\":{\"l\":\"new\"}}}");
    assert_int_equal(admission_request_read(&r, slice_str(text), ADMISSION_LABELS, &e), 0);
    char *object = cJSON_PrintUnformatted(r.object);
    char *old = cJSON_PrintUnformatted(r.old_object);
    assert_string_equal(object, "{\"metadata\":{\"name\":\"s\",\"labels\":{\"l\":\"new\"},"
                                "\"deletionTimestamp\":\"t\"}}");
    assert_string_equal(old, "{\"metadata\":{\"labels\":{\"l\":\"old\"}}}");
    assert_string_equal(r.namespace, "n");
    free(object);
    free(old);
    admission_request_deinit(&r);
}

/* Of a spec that is new; what is in the template besides is nobody's matter. */
static void the_labels_of_a_template_are_read(void **state)
{
#define TEMPLATE                                                                                   \
    "\"spec\":{\"template\":{\"spec\":{\"x\":1},\"metadata\":{\"annotations\":{\"a\":\"1\"},"      \
    "\"uid\":\"u\"}}}"
#define READ "\"spec\":{\"template\":{\"metadata\":{\"annotations\":{\"a\":\"1\"}}}}"
    static const struct {
        const char *text;
        const char *object;
    } cases[] = {
        {REVIEW("v1", UID SECRETS "\"operation\":\"CREATE\",\"object\":{" TEMPLATE "}"),
         "{" READ "}"},
        {REVIEW("v1", UID SECRETS "\"operation\":\"CREATE\",\"object\":{\"metadata\":{\"name\":"
                                  "\"s\"}," TEMPLATE "}"),
         "{\"metadata\":{\"name\":\"s\"}," READ "}"},
        {REVIEW("v1", UID SECRETS "\"operation\":\"UPDATE\",\"object\":{" TEMPLATE
                                  "},\"oldObject\":{\"spec\":{}}"),
         "{" READ "}"},
        {REVIEW("v1", UID SECRETS "\"operation\":\"UPDATE\",\"object\":{" TEMPLATE
                                  "},\"oldObject\":{" TEMPLATE "}"),
         "{}"},
        {REVIEW("v1", UID SECRETS "\"operation\":\"CREATE\",\"object\":{\"spec\":[1]}"), "{}"},
        {REVIEW("v1", UID SECRETS "\"operation\":\"CREATE\",\"object\":{\"spec\":{\"template\":{"
                                  "\"metadata\":7}}}"),
         "{}"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct admission_request r;
        struct err e = ERR_INIT;
        assert_int_equal(admission_request_read(&r, slice_str(cases[i].text), ADMISSION_LABELS, &e),
                         0);
        char *object = cJSON_PrintUnformatted(r.object);
        assert_string_equal(object, cases[i].object);
        free(object);
        admission_request_deinit(&r);
    }
}

/* Which of two would count cannot be told. */
static void nothing_of_interest_stands_twice(void **state)
{
    (void)state;
    static const char *const texts[] = {
        REVIEW("v1", UID PODS "\"operation\":\"CREATE\",\"object\":{},\"object\":{}"),
        REVIEW("v1", UID PODS "\"operation\":\"CREATE\",\"obj\\u0065ct\":{},\"object\":{}"),
        REVIEW("v1", UID PODS "\"operation\":\"CREATE\",\"uid\":\"other\""),
        REVIEW("v1", UID PODS "\"operation\":\"CREATE\",\"object\":{\"metadata\":{},"
                              "\"metadata\":{}}"),
        REVIEW("v1", UID PODS "\"operation\":\"CREATE\",\"object\":{\"metadata\":{\"labels\":{},"
                              "\"labels\":{}}}"),
        REVIEW("v1", UID PODS "\"operation\":\"CREATE\",\"object\":{\"spec\":1,\"spec\":2},"
                              "\"oldObject\":{\"spec\":1}"),
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct admission_request r;
        struct err e = ERR_INIT;
        assert_int_equal(admission_request_read(&r, slice_str(texts[i]), ADMISSION_LABELS, &e),
                         -EINVAL);
        assert_non_null(strstr(e.msg, "duplicate key"));
        assert_int_equal(admission_request_read(&r, slice_str(texts[i]), ADMISSION_OBJECTS, &e),
                         -EINVAL);
    }
}

static char *review_of(size_t values, size_t old_values, const char *spec)
{
    struct buf text = BUF_INIT(ADMISSION_REVIEW_MAX);
    buf_append_str(&text, "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\","
                          "\"request\":{" UID PODS "\"operation\":\"UPDATE\"");
    for (int old = 0; old < 2; old++) {
        buf_printf(&text, ",\"%s\":{\"metadata\":{\"name\":\"x\"},\"spec\":%s,\"list\":[0",
                   old ? "oldObject" : "object", spec);
        for (size_t i = 1; i < (old ? old_values : values); i++) {
            buf_append_str(&text, ",0");
        }
        buf_append_str(&text, "]}");
    }
    buf_append_str(&text, "}}");
    return buf_take_str(&text);
}

/* It can be decided about by what is left, and who may not have it is told why. */
static void of_too_many_values_the_labels_are_left(void **state)
{
    static const struct {
        size_t values;
        size_t old_values;
        bool cut;
        bool old_whole;
    } cases[] = {
        {1000, 1000, false, true},
        {ADMISSION_VALUES_MAX - 100, 10, false, true},
        {ADMISSION_VALUES_MAX - 100, 1000, false, false},
        {10, ADMISSION_VALUES_MAX, false, false},
        {ADMISSION_VALUES_MAX, 10, true, false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct admission_request r;
        char *text = review_of(cases[i].values, cases[i].old_values, "{\"a\": 1}");
        read_text(&r, text);
        assert_int_equal(r.cut, cases[i].cut);
        assert_true(r.same_spec);
        assert_int_equal(cJSON_HasObjectItem(r.object, "list"), !cases[i].cut);
        assert_int_equal(cJSON_HasObjectItem(r.old_object, "list"), cases[i].old_whole);
        assert_non_null(cJSON_GetObjectItem(r.old_object, "metadata"));
        admission_request_deinit(&r);
        free(text);
    }
}

static void what_stands_besides_is_bounded_too(void **state)
{
    struct buf text = BUF_INIT(ADMISSION_REVIEW_MAX);
    struct admission_request r;
    struct err e = ERR_INIT;
    (void)state;
    buf_append_str(&text, "{\"kind\":\"AdmissionReview\",\"list\":[0");
    for (size_t i = 0; i < ADMISSION_VALUES_MAX; i++) {
        buf_append_str(&text, ",0");
    }
    buf_append_str(&text, "]}");
    assert_int_equal(admission_request_read(&r, buf_slice(&text), ADMISSION_OBJECTS, &e), -E2BIG);
    assert_string_equal(e.msg, "the review has more than 150000 values besides its objects");
    buf_reset(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pod_is_created),
        cmocka_unit_test(other_requests),
        cmocka_unit_test(what_cannot_be_answered),
        cmocka_unit_test(a_huge_review_is_refused),
        cmocka_unit_test(labels_are_read_alone),
        cmocka_unit_test(the_labels_of_a_template_are_read),
        cmocka_unit_test(nothing_of_interest_stands_twice),
        cmocka_unit_test(of_too_many_values_the_labels_are_left),
        cmocka_unit_test(what_stands_besides_is_bounded_too),
        cmocka_unit_test(allowed),
        cmocka_unit_test(refused),
        cmocka_unit_test(a_patch_is_base64),
        cmocka_unit_test(warnings_are_for_v1),
        cmocka_unit_test(warnings_are_bounded),
        cmocka_unit_test(an_answer_is_written_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
