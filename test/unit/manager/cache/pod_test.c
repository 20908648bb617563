/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/pod.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "inject/inject_bounds.h"
#include "kube/name.h"
#include "rules/rules.h"
#include "yaml/yaml.h"
#include "json/json.h"

static const struct pod_keys keys = {.generation = "p/rules-generation",
                                     .traffic = "p/traffic-generation",
                                     .injected = "p/sharding-config-injected",
                                     .allow_bypass = "p/allow-bypass",
                                     .let_go = "p/let-go"};

static const char whole[] =
    "metadata: {name: a-0, namespace: \"n\", uid: u1, resourceVersion: \"7\",\n"
    "  creationTimestamp: \"2001-09-09T01:40:00Z\",\n"
    "  ownerReferences: [{uid: u8}, {uid: u9, controller: true}],\n"
    "  labels: {shard: a, app: op},\n"
    "  annotations: {p/rules-generation: \"12\", p/allow-bypass: \"true\", "
    "p/sharding-config-injected: a}}\n"
    "spec:\n"
    "  initContainers: [{name: cmesh-kubeconfig}]\n"
    "  containers:\n"
    "  - {name: cmesh-localproxy, ports: [{name: cmesh-api, containerPort: 1},\n"
    "     {name: cmesh-admin, containerPort: 9441}]}\n"
    "  - {name: cmesh-rulesync}\n"
    "  - {name: operator, ports: [{name: cmesh-admin, containerPort: 5}]}\n"
    "status: {phase: Running, podIP: 10.0.0.1, conditions: [{type: Initialized, status: "
    "\"True\"},\n"
    "  {type: Ready, status: \"True\", lastTransitionTime: 2001-09-09T01:46:40Z}]}\n";

static cJSON *parse(const char *text)
{
    struct err e = ERR_INIT;
    cJSON *tree = yaml_parse(text, strlen(text), NULL, &e);
    if (tree == NULL) {
        fail_msg("the test's own YAML: %s", e.msg);
    }
    return tree;
}

static struct pod *make(const char *text)
{
    cJSON *tree = parse(text);
    struct pod *p = pod_new(0, tree, &keys);
    assert_non_null(p);
    cJSON_Delete(tree); /* nothing of it is kept */
    return p;
}

static void test_facts(void **state)
{
    struct pod *p = make(whole);
    char address[POD_ADDRESS_SIZE];
    (void)state;
    assert_string_equal(p->key, "n/a-0");
    assert_string_equal(p->ns, "n");
    assert_string_equal(p->name, "a-0");
    assert_string_equal(p->uid, "u1");
    assert_string_equal(p->injected, "a");
    assert_string_equal(p->shard, "n/a");
    assert_false(p->let_go);
    assert_int_equal(p->generation, 12);
    assert_int_equal(p->proxy_port, 9441);
    assert_int_equal(p->sync_port, 5442);
    assert_true(p->ready && p->allow_bypass);
    assert_true(p->ready_since == 1000000000 && p->unready_since == 0);
    assert_string_equal(p->owner, "u9");
    assert_null(p->failing);
    assert_false(p->ending || p->over);
    assert_string_equal(pod_label(p, "app"), "op");
    assert_null(pod_label(p, "ap"));
    pod_address(p, p->proxy_port, address);
    assert_string_equal(address, "10.0.0.1:9441");
    free(p);
}

static void test_little_is_known(void **state)
{
    struct pod *p = make("metadata: {name: a, namespace: \"n\"}");
    char address[POD_ADDRESS_SIZE];
    (void)state;
    assert_string_equal(p->uid, "");
    assert_string_equal(p->injected, "");
    assert_string_equal(p->shard, "");
    assert_int_equal(p->generation, 0);
    assert_int_equal(p->proxy_port, 0);
    assert_false(p->ready || p->allow_bypass);
    assert_true(p->ready_since == 0);
    pod_address(p, 5441, address);
    assert_string_equal(address, "");
    free(p);
    p = make("metadata: {name: a, namespace: \"n\", labels: [x, {y: z}]}"); /* no map */
    assert_int_equal(p->label_count, 0);
    free(p);
    p = make("metadata: {name: a, namespace: \"n\", deletionTimestamp: \"2026-01-01T00:00:00Z\"}\n"
             "spec: {initContainers: [{name: cmesh-localproxy}]}\n"
             "status: {phase: Failed, podIP: \"fd00::1\"}");
    assert_true(p->ending && p->over);
    assert_int_equal(p->proxy_port, 5441); /* a native sidecar */
    pod_address(p, p->proxy_port, address);
    assert_string_equal(address, "[fd00::1]:5441");
    free(p);
}

/* Another shard's, and one of a sidecar that Services do not look at, are not it. */
static void test_the_port_for_webhooks(void **state)
{
    static const struct {
        const char *spec;
        bool has;
    } cases[] = {
        {"containers: [{name: o, ports: [{name: w}, {name: wh-a683c5c5, containerPort: 1}]}]",
         true},
        {"containers: [{name: p}, {name: o, ports: [{name: wh-a683c5c5}]}]", true},
        {"containers: [{name: o, ports: [{name: wh-00000000}]}]", false},
        {"initContainers: [{name: o, ports: [{name: wh-a683c5c5}]}]", false},
        {"containers: []", false},
    };
    (void)state;
    for (size_t i = 0; i < 2 * ARRAY_LEN(cases); i++) {
        char text[512];
        bool injected = i % 2 == 0;
        (void)snprintf(
            text, sizeof text,
            "{metadata: {name: a-0, namespace: \"n\", annotations: {%s: a}}, spec: {%s}}",
            injected ? keys.injected : "x", cases[i / 2].spec);
        struct pod *p = make(text);
        assert_int_equal(p->webhook_port, injected && cases[i / 2].has);
        free(p);
    }
}

static void test_what_is_not_ready(void **state)
{
    static const char meta[] = "metadata: {name: a, namespace: \"n\", "
                               "creationTimestamp: \"2001-09-09T01:46:40Z\"}\n";
    static const struct {
        const char *status;
        int64_t since;
        const char *failing;
    } cases[] = {
        {"status: {phase: Pending}", 1000000000, NULL},
        {"status: {conditions: [{type: Ready, status: \"False\", "
         "lastTransitionTime: \"2001-09-09T01:46:41Z\"}]}",
         1000000001, NULL},
        {"status: {conditions: [{type: Ready, status: \"False\", "
         "lastTransitionTime: \"2001-09-09T01:46:39Z\"}]}",
         1000000000, NULL},
        {"status: {containerStatuses: [{state: {running: {}}}, "
         "{state: {waiting: {reason: ContainerCreating}}}]}",
         1000000000, NULL},
        {"status: {containerStatuses: [{state: {waiting: {reason: ContainerCreating}}}, "
         "{state: {waiting: {reason: ErrImagePull}}}]}",
         1000000000, "ErrImagePull"},
        {"status: {initContainerStatuses: [{state: {waiting: {reason: CrashLoopBackOff}}}], "
         "containerStatuses: [{state: {waiting: {reason: PodInitializing}}}]}",
         1000000000, "CrashLoopBackOff"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[512];
        (void)snprintf(text, sizeof text, "%s%s", meta, cases[i].status);
        struct pod *p = make(text);
        assert_false(p->ready);
        assert_true(p->unready_since == cases[i].since);
        assert_true(cases[i].failing == NULL ? p->failing == NULL
                                             : strcmp(p->failing, cases[i].failing) == 0);
        assert_string_equal(p->owner, "");
        free(p);
    }
}

/* As kubelets before 1.24 report a pod that they evict, or that is past its deadline. */
static void test_an_ended_pod_whose_containers_may_run(void **state)
{
    static const struct {
        const char *status;
        bool over;
        bool ending;
    } cases[] = {
        {"phase: Running, containerStatuses: [{state: {terminated: {exitCode: 1}}}]", false, false},
        {"phase: Failed, containerStatuses: [{state: {running: {}}}]", false, true},
        {"phase: Succeeded, containerStatuses: [{state: {running: {}}}]", false, true},
        {"phase: Failed, containerStatuses: [{state: {terminated: {}}}, {state: {running: {}}}]",
         false, true},
        {"phase: Failed, initContainerStatuses: [{state: {running: {}}}],"
         " containerStatuses: [{state: {terminated: {}}}]",
         false, true},
        {"phase: Failed, ephemeralContainerStatuses: [{state: {running: {}}}]", false, true},
        {"phase: Failed, initContainerStatuses: [{state: {terminated: {}}}],"
         " containerStatuses: [{state: {waiting: {reason: PodInitializing}}}]",
         true, false},
        {"phase: Failed, containerStatuses: [{state: {}}, {lastState: {running: {}}}]", true,
         false},
        {"phase: Failed, reason: Evicted", true, false}, /* never started, or not known */
        {"phase: Failed, containerStatuses: []", true, false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[512];
        (void)snprintf(text, sizeof text, "metadata: {name: a, namespace: \"n\"}\nstatus: {%s}",
                       cases[i].status);
        struct pod *p = make(text);
        assert_int_equal(p->over, cases[i].over);
        assert_int_equal(p->ending, cases[i].ending);
        free(p);
    }
}

static void test_annotations_that_are_no_generation(void **state)
{
    static const char *const values[] = {
        "", "x", "-1", "+1", " 1", "1 ", "1.0", "0", "4503599627370497", "99999999999999999999999"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        char text[256];
        (void)snprintf(
            text, sizeof text,
            "metadata: {name: a, namespace: \"n\", annotations: {p/rules-generation: \"%s\"}}",
            values[i]);
        struct pod *p = make(text);
        assert_int_equal(p->generation, 0);
        assert_int_equal(p->told, values[i][0] != '\0');
        free(p);
    }
}

/* A manager wrote it; to count on from there is another matter. */
static void test_the_largest_generation(void **state)
{
    (void)state;
    struct pod *p = make("metadata: {name: a, namespace: \"n\", annotations: "
                         "{p/rules-generation: \"4503599627370496\"}}");
    assert_true(p->told && p->generation == RULES_GENERATION_MAX);
    free(p);
}

static void test_same(void **state)
{
    static const char *const others[][2] = {
        {"uid: u1", "uid: u2"},
        {"app: op", "app: oq"},
        {"app: op", "bpp: op"},
        {"app: op", "app: op, x: y"},
        {"\"12\"", "\"13\""},
        {"10.0.0.1", "10.0.0.2"},
        {"9441", "9442"},
        {"cmesh-rulesync", "other"},
        {"injected: a", "injected: b"},
        {"injected: a", "injected: a, p/let-go: \"true\""},
        {"phase: Running", "phase: Succeeded"},
        {"type: Ready", "type: Unready"},
        {"01:46:40", "01:46:41"},
        {"01:46:40", "soon"},
        {"allow-bypass: \"true\"", "allow-bypass: \"yes\""},
        {"name: a-0", "name: a-1"},
        {"uid: u9", "uid: u8"},
        {"name: cmesh-admin, containerPort: 5", "name: wh-a683c5c5, containerPort: 5"},
        {"{phase:", "{containerStatuses: [{state: {waiting: {reason: CrashLoopBackOff}}}], phase:"},
    };
    struct pod *p = make(whole);
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        const char *at = strstr(whole, others[i][0]);
        char *text = NULL;
        assert_true(asprintf(&text, "%.*s%s%s", (int)(at - whole), whole, others[i][1],
                             at + strlen(others[i][0])) > 0);
        struct pod *q = make(text);
        assert_false(pod_same(p, q));
        free(q);
        free(text);
    }
    const char *at = strstr(whole, "\"7\"");
    char *text = NULL;
    assert_true(asprintf(&text, "%.*s\"8\"%s", (int)(at - whole), whole, at + 3) > 0);
    struct pod *q = make(text);
    assert_true(pod_same(p, q)); /* a version alone says nothing */
    assert_true(pod_take_version(p, q->version));
    assert_string_equal(p->version, q->version);
    free(q);
    free(text);
    free(p);
}

static void test_selected(void **state)
{
    struct pod *p = make(whole);
    static const struct {
        const char *text;
        bool selected;
    } selectors[] = {
        {"app=op", true},    {"app=op,shard in (a,b)", true}, {"app=op,x", false},
        {"app=op,!x", true}, {"shard notin (a)", false},      {"shard!=b", true},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(selectors); i++) {
        struct selector *s = selector_parse(slice_str(selectors[i].text), NULL);
        assert_int_equal(pod_selected(p, s), selectors[i].selected);
        selector_free(s);
    }
    free(p);
}

/* As many as a pod may have that gets sidecars, and one more: each takes room of its own. */
static void test_many_labels_are_not_kept(void **state)
{
    (void)state;
    for (size_t more = 0; more < 2; more++) {
        struct buf text = BUF_INIT(65536);
        buf_append_str(&text,
                       "{\"metadata\":{\"namespace\":\"n\",\"name\":\"p\",\"labels\":{\"k\":\"\"");
        for (size_t i = 1; i < INJECT_LABELS_MAX + more; i++) {
            buf_printf(&text, ",\"l%zu\":\"\"", i);
        }
        buf_append_str(&text, "}}}");
        assert_int_equal(buf_error(&text), 0);
        struct pod *p = make(buf_cstr(&text));
        assert_int_equal(p->label_count, more == 0 ? INJECT_LABELS_MAX : 0);
        free(p);
        buf_reset(&text);
    }
}

/* The same of their bytes. */
static void test_large_labels_are_not_kept(void **state)
{
    (void)state;
    for (size_t more = 0; more < 2; more++) {
        size_t size = INJECT_LABEL_BYTES_MAX - 2 + more;
        char *text = NULL;
        char *value = calloc(1, size + 1);
        assert_non_null(value);
        memset(value, 'v', size);
        assert_true(asprintf(&text,
                             "{\"metadata\":{\"namespace\":\"n\",\"name\":\"p\",\"labels\":{"
                             "\"k\":\"%s\",\"l\":\"\"}}}",
                             value) > 0);
        struct pod *p = make(text);
        assert_int_equal(p->label_count, more == 0 ? 2 : 0);
        assert_string_equal(p->key, "n/p");
        free(p);
        free(text);
        free(value);
    }
}

/* Of names that no object can have nothing is kept: anybody may make pods. */
static void test_long_names_are_not_kept(void **state)
{
    (void)state;
    for (int size = NAME_SUBDOMAIN_MAX; size <= NAME_SUBDOMAIN_MAX + 1; size++) {
        char *text = NULL;
        assert_true(asprintf(&text,
                             "metadata: {namespace: \"n\", name: p, annotations: "
                             "{p/sharding-config-injected: \"%0*d\"}, ownerReferences: "
                             "[{uid: \"%0*d\", controller: true}]}",
                             size, 0, size, 0) > 0);
        struct pod *p = make(text);
        bool kept = size == NAME_SUBDOMAIN_MAX;
        assert_int_equal(strlen(p->owner), kept ? size : 0);
        assert_int_equal(strlen(p->injected), kept ? size : 0);
        assert_int_equal(strlen(p->shard), kept ? size + 2 : 0);
        free(p);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_little_is_known),
        cmocka_unit_test(test_the_port_for_webhooks),
        cmocka_unit_test(test_what_is_not_ready),
        cmocka_unit_test(test_an_ended_pod_whose_containers_may_run),
        cmocka_unit_test(test_annotations_that_are_no_generation),
        cmocka_unit_test(test_the_largest_generation),
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_selected),
        cmocka_unit_test(test_many_labels_are_not_kept),
        cmocka_unit_test(test_large_labels_are_not_kept),
        cmocka_unit_test(test_long_names_are_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
