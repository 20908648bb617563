/* SPDX-License-Identifier: Apache-2.0 */
#include "label/labels.h"

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
#include "patch_apply.h"
#include "yaml/yaml.h"
#include "json/json.h"

static const struct compile_labels defaults = {
    .namespace = "namespace", .shard_hash = "sharding-hash", .control = "control"};

static struct labels_keys keys_of(const struct compile_labels *names)
{
    struct labels_keys k;
    struct err e = ERR_INIT;
    if (labels_keys_init(&k, names, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    return k;
}

static cJSON *parse(const char *text)
{
    struct err e = ERR_INIT;
    cJSON *tree = yaml_parse(text, strlen(text), NULL, &e);
    if (tree == NULL) {
        fail_msg("the test's own YAML: %s: %s", e.msg, text);
    }
    return tree;
}

static char *print(const cJSON *tree)
{
    struct buf out = BUF_INIT(65536);
    assert_int_equal(json_canonical(tree, &out), 0);
    char *text = buf_take_str(&out);
    assert_non_null(text);
    return text;
}

static void expect_tree(cJSON *tree, const char *yaml)
{
    cJSON *wanted = parse(yaml);
    assert_non_null(tree);
    char *got = print(tree);
    char *want = print(wanted);
    assert_string_equal(got, want);
    free(got);
    free(want);
    cJSON_Delete(wanted);
    cJSON_Delete(tree);
}

static void keys(void **state)
{
    (void)state;
    struct labels_keys k = keys_of(&defaults);
    assert_string_equal(k.key[LABELS_NAMESPACE], "ctrlmesh.kusionstack.io/namespace");
    assert_string_equal(k.key[LABELS_SHARD_HASH], "ctrlmesh.kusionstack.io/sharding-hash");
    assert_string_equal(k.key[LABELS_CONTROL], "ctrlmesh.kusionstack.io/control");
    const struct compile_labels kridge = {.prefix = "kridge.kusionstack.io",
                                          .namespace = "namespace",
                                          .shard_hash = "shard-hash",
                                          .control = "mesh.example.com/on"};
    k = keys_of(&kridge);
    assert_string_equal(k.key[LABELS_NAMESPACE], "kridge.kusionstack.io/namespace");
    assert_string_equal(k.key[LABELS_SHARD_HASH], "kridge.kusionstack.io/shard-hash");
    assert_string_equal(k.key[LABELS_CONTROL], "mesh.example.com/on");
}

static void bad_keys(void **state)
{
    (void)state;
    char longest[600];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    const struct {
        struct compile_labels names;
        const char *want;
    } cases[] = {
        {{"a b", "n", "h", "c"}, "--label-prefix: Invalid value: \"a b\""},
        {{"", "n", "h", "c"}, "--label-prefix: Invalid value: \"\""},
        {{NULL, "n", "", "c"}, "--label-shard-hash: Invalid value"},
        {{NULL, "n", "h", "a/b/c"}, "--label-control: Invalid value: \"a/b/c\""},
        {{NULL, "n", "h", longest}, "--label-control: Invalid value"},
        {{longest, "n", "h", "c"}, "--label-prefix: Invalid value"},
        {{NULL, "n", "h", "n"},
         "--label-control: Duplicate value: \"ctrlmesh.kusionstack.io/n\": --label-namespace has"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct labels_keys k;
        struct err e = ERR_INIT;
        assert_int_equal(labels_keys_init(&k, &cases[i].names, &e), -EINVAL);
        if (strncmp(e.msg, cases[i].want, strlen(cases[i].want)) != 0) {
            fail_msg("wanted \"%s\", got \"%s\"", cases[i].want, e.msg);
        }
    }
}

#define P "ctrlmesh.kusionstack.io/"

/* The hash of "ns-a" is 15, as KusionStack has it: ((('n'*33+'s')*33+'-')*33+'a') mod 32. */
#define FULL "{app: x, " P "namespace: ns-a, " P "sharding-hash: '15', " P "control: 'true'}"

/* There the hash is the namespace's name, and what was right before is put right. */
static void shared_namespaces(void **state)
{
    (void)state;
    char *names[] = {"ns-a"};
    const struct sharing_set shared = {.names = names, .count = ARRAY_LEN(names)};
    struct labels_keys k = keys_of(&defaults);
    cJSON *object = parse("{metadata: {labels: " FULL "}}");
    struct labels_plan plan;
    labels_plan_init(&plan, &k, object, "ns-a");
    assert_int_equal(plan.state, LABELS_RIGHT);
    k.shared = &shared;
    labels_plan_init(&plan, &k, object, "ns-a");
    assert_int_equal(plan.state, LABELS_MISSING);
    expect_tree(labels_merge_patch(&plan, &k), "{metadata: {labels: {" P "sharding-hash: ns-a}}}");
    labels_plan_init(&plan, &k, NULL, "ns-b");
    assert_string_equal(plan.value[LABELS_SHARD_HASH], "16");
    cJSON_Delete(object);
}

static void what_is_to_be_done(void **state)
{
    (void)state;
    static const struct {
        const char *labels; /* of an object in ns-a */
        enum labels_state want;
        const char *after; /* NULL: nothing is done */
        const char *merge;
    } cases[] = {
        {"{app: x}", LABELS_MISSING, FULL,
         "{" P "namespace: ns-a, " P "sharding-hash: '15', " P "control: 'true'}"},
        {"{app: x, " P "control: 'true'}", LABELS_MISSING, FULL,
         "{" P "namespace: ns-a, " P "sharding-hash: '15'}"},
        /* Ours, so it is put right. */
        {"{app: x, " P "namespace: ns-b, " P "sharding-hash: '3', " P "control: 'true'}",
         LABELS_MISSING, FULL, "{" P "namespace: ns-a, " P "sharding-hash: '15'}"},
        /* Nobody is contradicted. */
        {"{app: x, " P "namespace: ns-a}", LABELS_MISSING, FULL,
         "{" P "sharding-hash: '15', " P "control: 'true'}"},
        {FULL, LABELS_RIGHT, NULL, NULL},
        {"{" P "namespace: other}", LABELS_FOREIGN, NULL, NULL},
        {"{" P "sharding-hash: '16'}", LABELS_FOREIGN, NULL, NULL},
        {"{" P "namespace: ns-a, " P "sharding-hash: ''}", LABELS_FOREIGN, NULL, NULL},
        {"{" P "control: 'false'}", LABELS_FOREIGN, NULL, NULL},
        {"{" P "control: 'True', " P "namespace: ns-a}", LABELS_FOREIGN, NULL, NULL},
        {"{" P "namespace: [1]}", LABELS_FOREIGN, NULL, NULL},
        {"{" P "ignore-webhook: 'true'}", LABELS_IGNORED, NULL, NULL},
        {"{" P "ignore-webhook: 'true', " P "namespace: other}", LABELS_IGNORED, NULL, NULL},
        {"{app: x, " P "ignore-webhook: 'false'}", LABELS_MISSING,
         "{app: x, " P "ignore-webhook: 'false', " P "namespace: ns-a, " P "sharding-hash: '15', " P
         "control: 'true'}",
         "{" P "namespace: ns-a, " P "sharding-hash: '15', " P "control: 'true'}"},
    };
    struct labels_keys k = keys_of(&defaults);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[512];
        (void)snprintf(text, sizeof text, "{metadata: {name: x, labels: %s}}", cases[i].labels);
        cJSON *object = parse(text);
        struct labels_plan p;
        labels_plan_init(&p, &k, object, "ns-a");
        if (p.state != cases[i].want) {
            fail_msg("%s: state %d", cases[i].labels, (int)p.state);
        }
        if (cases[i].after != NULL) {
            cJSON *patch = labels_json_patch(&p, &k, object);
            assert_non_null(patch);
            (void)snprintf(text, sizeof text, "{metadata: {name: x, labels: %s}}", cases[i].after);
            expect_tree(patch_apply(object, patch), text);
            cJSON_Delete(patch);
            (void)snprintf(text, sizeof text, "{metadata: {labels: %s}}", cases[i].merge);
            expect_tree(labels_merge_patch(&p, &k), text);
        }
        cJSON_Delete(object);
    }
}

static void foreign_values_are_taken(void **state)
{
    (void)state;
    static const char *const labels[] = {
        "{app: x, " P "namespace: other}",
        "{app: x, " P "sharding-hash: ''}",
        "{app: x, " P "control: 'false', " P "namespace: ns-a}",
    };
    struct labels_keys k = keys_of(&defaults);
    k.policy = LABELS_TAKE;
    for (size_t i = 0; i < ARRAY_LEN(labels); i++) {
        char text[512];
        struct labels_plan p;
        (void)snprintf(text, sizeof text, "{metadata: {labels: %s}}", labels[i]);
        cJSON *object = parse(text);
        labels_plan_init(&p, &k, object, "ns-a");
        assert_int_equal(p.state, LABELS_MISSING);
        cJSON *patch = labels_json_patch(&p, &k, object);
        expect_tree(patch_apply(object, patch), "{metadata: {labels: " FULL "}}");
        cJSON_Delete(patch);
        cJSON_Delete(object);
    }
}

static void objects_without_labels(void **state)
{
    (void)state;
    static const char *const objects[] = {
        "{metadata: {name: x}}",
        "{metadata: {name: x, labels: {}}}",
        "{metadata: {name: x, labels: null}}",
        "{metadata: {name: x, labels: {" P "namespace: null}}}",
    };
    struct labels_keys k = keys_of(&defaults);
    struct labels_plan p;
    for (size_t i = 0; i < ARRAY_LEN(objects); i++) {
        cJSON *object = parse(objects[i]);
        labels_plan_init(&p, &k, object, "a");
        assert_int_equal(p.state, LABELS_MISSING);
        cJSON *patch = labels_json_patch(&p, &k, object);
        expect_tree(patch_apply(object, patch),
                    "{metadata: {name: x, labels: {" P "namespace: a, " P "sharding-hash: '1', " P
                    "control: 'true'}}}");
        cJSON_Delete(patch);
        cJSON_Delete(object);
    }
    cJSON *object = parse("{}");
    labels_plan_init(&p, &k, object, "a");
    cJSON *patch = labels_json_patch(&p, &k, object);
    expect_tree(patch_apply(object, patch), "{metadata: {labels: {" P "namespace: a, " P
                                            "sharding-hash: '1', " P "control: 'true'}}}");
    cJSON_Delete(patch);
    cJSON_Delete(object);
}

static void what_is_taken_away(void **state)
{
    (void)state;
    static const struct {
        const char *labels;
        bool ours;
    } cases[] = {
        {FULL, true},
        {"{" P "control: 'true', " P "namespace: wrong}", true},
        {"{" P "control: 'false', " P "namespace: ns-a}", false},
        {"{" P "namespace: ns-a, " P "sharding-hash: '15'}", false},
        {"{" P "control: true}", false},
        {"{}", false},
        {"null", false},
    };
    struct labels_keys k = keys_of(&defaults);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[512];
        (void)snprintf(text, sizeof text, "{metadata: {labels: %s}}", cases[i].labels);
        cJSON *object = parse(text);
        assert_int_equal(labels_are_ours(&k, object), cases[i].ours);
        cJSON_Delete(object);
    }
    expect_tree(labels_removal_patch(&k), "{metadata: {labels: {" P "namespace: null, " P
                                          "sharding-hash: null, " P "control: null}}}");
}

#define NAMESPACE "group: '', resource: namespaces"
#define PODS "group: '', resource: pods"

/* A request as YAML; the caller frees what it holds. */
static struct admission_request request_of(const char *yaml)
{
    char text[1024];
    struct admission_request r;
    struct err e = ERR_INIT;
    (void)snprintf(
        text, sizeof text,
        "{kind: AdmissionReview, apiVersion: admission.k8s.io/v1, request: {uid: u, %s}}", yaml);
    cJSON *review = parse(text);
    char *json = print(review);
    if (admission_request_read(&r, slice_str(json), ADMISSION_OBJECTS, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    free(json);
    cJSON_Delete(review);
    return r;
}

static void what_the_webhook_does(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        const char *namespace; /* that the object is labelled with; NULL: it is not */
        const char *note;
    } cases[] = {
        {"operation: CREATE, resource: {" PODS "}, namespace: b, object: {metadata: {name: p}}",
         "b", NULL},
        {"operation: UPDATE, resource: {" PODS "}, namespace: b, object: {metadata: {}}", "b",
         NULL},
        {"operation: CREATE, resource: {group: apps, resource: deployments}, namespace: b, "
         "object: {metadata: {generateName: d-}}",
         "b", NULL},
        {"operation: CREATE, resource: {" NAMESPACE "}, namespace: c, name: c, "
         "object: {metadata: {name: c}}",
         "c", NULL},
        {"operation: UPDATE, resource: {" NAMESPACE "}, name: d, object: {metadata: {}}", "d",
         NULL},
        /* The name is made up after the webhooks. */
        {"operation: CREATE, resource: {" NAMESPACE "}, object: {metadata: {generateName: n-}}",
         NULL, NULL},
        {"operation: DELETE, resource: {" PODS "}, namespace: b, oldObject: {metadata: {}}", NULL,
         NULL},
        {"operation: CONNECT, resource: {" PODS "}, subResource: exec, namespace: b, object: {}",
         NULL, NULL},
        {"operation: UPDATE, resource: {" PODS "}, subResource: status, namespace: b, "
         "object: {metadata: {}}",
         NULL, NULL},
        {"operation: CREATE, resource: {group: '', resource: nodes}, object: {metadata: {}}", NULL,
         NULL},
        {"operation: UPDATE, resource: {" PODS "}, namespace: b, "
         "object: {metadata: {labels: {" P "namespace: z}}}",
         NULL,
         "metadata.labels[" P "namespace]: \"z\" is not \"b\", and is left as it is without " P
         "control: \"true\""},
        {"operation: UPDATE, resource: {" NAMESPACE "}, name: b, "
         "object: {metadata: {labels: {" P "control: x}}}",
         NULL, "metadata.labels[" P "control]: \"x\" is not \"true\""},
        /* What somebody took off comes back. */
        {"operation: UPDATE, resource: {" NAMESPACE "}, name: b, object: {metadata: {labels: {" P
         "control: 'true'}}}",
         "b", NULL},
    };
    struct labels_keys k = keys_of(&defaults);
    k.policy = LABELS_LEAVE;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct admission_request r = request_of(cases[i].request);
        struct warnings notes = WARNINGS_INIT;
        struct err e = ERR_INIT;
        cJSON *patch = NULL;
        assert_int_equal(labels_admit(&k, &r, &patch, &notes, &e), 0);
        if (cases[i].namespace != NULL) {
            assert_non_null(patch);
            cJSON *made = patch_apply(r.object, patch);
            const cJSON *labels =
                cJSON_GetObjectItem(cJSON_GetObjectItem(made, "metadata"), "labels");
            assert_string_equal(cJSON_GetObjectItem(labels, P "namespace")->valuestring,
                                cases[i].namespace);
            assert_string_equal(cJSON_GetObjectItem(labels, P "control")->valuestring, "true");
            cJSON_Delete(made);
        } else {
            assert_null(patch);
        }
        assert_int_equal(notes.count, cases[i].note != NULL);
        if (cases[i].note != NULL && strstr(notes.items[0], cases[i].note) == NULL) {
            fail_msg("wanted \"%s\", got \"%s\"", cases[i].note, notes.items[0]);
        }
        cJSON_Delete(patch);
        warnings_deinit(&notes);
        admission_request_deinit(&r);
    }
}

#define IGNORED P "ignore-webhook: 'true'"
#define UPDATED(old, new)                                                                          \
    "operation: UPDATE, resource: {" PODS "}, namespace: b, oldObject: {metadata: {labels: {" old  \
    "}}}, object: {metadata: {labels: {" new "}}}"

static void what_the_webhook_refuses(void **state)
{
    (void)state;
    /* The hash of "b" is 2. */
    static const struct {
        const char *request;
        const char *want; /* the beginning of the message; NULL: it is let through */
        bool noted;
        bool patched;
    } cases[] = {
        {"operation: CREATE, resource: {" PODS "}, namespace: b, "
         "object: {metadata: {labels: {" P "namespace: z}}}",
         "metadata.labels[" P
         "namespace]: Invalid value: \"z\": must be \"b\", as the manager sets "
         "it: leave this label out, or add " P "control: \"true\" to have it corrected",
         false, false},
        {"operation: CREATE, resource: {" NAMESPACE "}, name: b, "
         "object: {metadata: {name: b, labels: {" P "sharding-hash: '31'}}}",
         "metadata.labels[" P "sharding-hash]: Invalid value: \"31\": must be \"2\"", false, false},
        {"operation: CREATE, resource: {" PODS "}, namespace: b, "
         "object: {metadata: {labels: {" P "control: 'false'}}}",
         "metadata.labels[" P "control]: Invalid value: \"false\": must be \"true\"", false, false},
        {UPDATED("", P "namespace: z"), "metadata.labels[" P "namespace]", false, false},
        {UPDATED(P "namespace: y", P "namespace: z"), "metadata.labels[" P "namespace]", false,
         false},
        {UPDATED(P "namespace: z", P "namespace: z, " P "sharding-hash: '31'"),
         "metadata.labels[" P "sharding-hash]", false, false},
        /* It was ours, and would have been put right. */
        {UPDATED(P "namespace: z, " P "control: 'true'", P "namespace: z"),
         "metadata.labels[" P "namespace]", false, false},
        {UPDATED(P "namespace: b, " P "control: 'true'", P "namespace: b, " P "control: 'no'"),
         "metadata.labels[" P "control]", false, false},
        /* As it was. */
        {UPDATED(P "namespace: z", P "namespace: z, app: x"), NULL, true, false},
        {UPDATED(P "namespace: z, " P "control: 'no'", P "namespace: z, " P "control: 'no'"), NULL,
         true, false},
        {UPDATED(P "namespace: z, " P "control: 'no'", P "namespace: z"), NULL, true, false},
        /* Better than it was. */
        {UPDATED(P "namespace: z", ""), NULL, false, true},
        {UPDATED(P "namespace: z", P "namespace: z, " P "control: 'true'"), NULL, false, true},
        {UPDATED(P "namespace: z", P "namespace: b"), NULL, false, true},
        /* Ignored: nothing wrong is set there, and nothing is put right. */
        {"operation: CREATE, resource: {" PODS "}, namespace: b, "
         "object: {metadata: {labels: {" IGNORED ", " P "namespace: z, " P "control: 'true'}}}",
         "metadata.labels[" P "namespace]: Invalid value: \"z\": must be \"b\", and is not "
         "corrected because of " P "ignore-webhook: leave this label out",
         true, false},
        {UPDATED(IGNORED, IGNORED ", " P "sharding-hash: '31'"),
         "metadata.labels[" P "sharding-hash]: Invalid value", false, false},
        {UPDATED(P "namespace: z", IGNORED ", " P "namespace: z"), NULL, true, false},
        {UPDATED(IGNORED ", " P "namespace: z", IGNORED ", " P "namespace: z"), NULL, false, false},
        {UPDATED(IGNORED ", " P "namespace: b", IGNORED), NULL, false, false},
        {UPDATED(IGNORED, ""), NULL, false, true},
        {UPDATED("", IGNORED), NULL, true, false},
        {"operation: CREATE, resource: {" PODS "}, namespace: b, "
         "object: {metadata: {labels: {" IGNORED "}}}",
         NULL, true, false},
        {"operation: CREATE, resource: {" PODS
         "}, namespace: b, object: {metadata: {labels: {" IGNORED ", " P "namespace: b, " P
         "sharding-hash: '2', " P "control: 'true'}}}",
         NULL, false, false},
        /* Nobody's value is contradicted. */
        {"operation: CREATE, resource: {" PODS "}, namespace: b, "
         "object: {metadata: {labels: {" P "namespace: b, " P "sharding-hash: '2'}}}",
         NULL, false, true},
        {"operation: CREATE, resource: {" PODS "}, namespace: b, "
         "object: {metadata: {labels: {" P "namespace: z, " P "control: 'true'}}}",
         NULL, false, true},
        {"operation: UPDATE, resource: {" PODS "}, subResource: status, namespace: b, "
         "object: {metadata: {labels: {" P "namespace: z}}}",
         NULL, false, false},
    };
    struct labels_keys k = keys_of(&defaults);
    assert_int_equal(k.policy, LABELS_REFUSE);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct admission_request r = request_of(cases[i].request);
        struct warnings notes = WARNINGS_INIT;
        struct err e = ERR_INIT;
        cJSON *patch = NULL;
        const char *want = cases[i].want != NULL ? cases[i].want : "";
        int rc = labels_admit(&k, &r, &patch, &notes, &e);
        if (rc != (cases[i].want == NULL ? 0 : -EINVAL) ||
            strncmp(e.msg, want, strlen(want)) != 0 || (patch != NULL) != cases[i].patched ||
            (notes.count == 1) != cases[i].noted) {
            fail_msg("%s: %d \"%s\"", cases[i].request, rc, e.msg);
        }
        cJSON_Delete(patch);
        warnings_deinit(&notes);
        admission_request_deinit(&r);
    }
}

/* As long as it is not known whether the namespace is shared, neither value is overwritten, or
 * given. */
static void not_known_yet(void **state)
{
    (void)state;
    static const struct {
        const char *labels;
        int want;
    } cases[] = {
        {FULL, 0},
        {"{" P "ignore-webhook: 'true'}", 0},
        {"{app: x}", -EAGAIN},
        {"{" P "namespace: ns-a, " P "sharding-hash: ns-a, " P "control: 'true'}", -EAGAIN},
    };
    const struct sharing_set shared = {.unknown = true};
    struct labels_keys k = keys_of(&defaults);
    k.shared = &shared;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[512];
        struct warnings notes = WARNINGS_INIT;
        struct err e = ERR_INIT;
        cJSON *patch = NULL;
        (void)snprintf(text, sizeof text,
                       "operation: CREATE, resource: {" PODS "}, namespace: ns-a, "
                       "object: {metadata: {labels: %s}}",
                       cases[i].labels);
        struct admission_request r = request_of(text);
        assert_int_equal(labels_admit(&k, &r, &patch, &notes, &e), cases[i].want);
        assert_null(patch);
        warnings_deinit(&notes);
        admission_request_deinit(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys),
        cmocka_unit_test(bad_keys),
        cmocka_unit_test(shared_namespaces),
        cmocka_unit_test(not_known_yet),
        cmocka_unit_test(what_is_to_be_done),
        cmocka_unit_test(foreign_values_are_taken),
        cmocka_unit_test(objects_without_labels),
        cmocka_unit_test(what_is_taken_away),
        cmocka_unit_test(what_the_webhook_does),
        cmocka_unit_test(what_the_webhook_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
