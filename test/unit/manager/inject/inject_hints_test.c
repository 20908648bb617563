/* SPDX-License-Identifier: Apache-2.0 */
/* What a pod's author should know, word for word as far as it says what to do. */
#include "inject/inject_hints.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"
#include "pod_case.h"

static void make_keys(struct labels_keys *keys)
{
    const struct compile_labels names = {.prefix = "m.io",
                                         .namespace = "namespace",
                                         .shard_hash = "x.io/hash",
                                         .control = "control"};
    assert_int_equal(labels_keys_init(keys, &names, NULL), 0);
}

/* The notes of a pod with that metadata, in lines; the caller frees. */
static char *names_in(const char *metadata, bool all)
{
    struct labels_keys keys;
    struct warnings notes = WARNINGS_INIT;
    struct buf text = BUF_INIT(65536);
    make_keys(&keys);
    cJSON *pod = parse(metadata);
    inject_hints_names("m.io", &keys, pod, all, &notes);
    for (size_t i = 0; i < notes.count; i++) {
        assert_true(strlen(notes.items[i]) <= ADMISSION_WARNING_MAX);
        assert_int_equal(buf_printf(&text, "%s\n", notes.items[i]), 0);
    }
    assert_int_equal(buf_append_char(&text, '\0'), 0);
    warnings_deinit(&notes);
    cJSON_Delete(pod);
    return buf_take_str(&text);
}

static void names_that_are_misspelt(void **state)
{
    static const struct {
        const char *metadata;
        const char *notes; /* of a pod that asks for sidecars, */
        const char *near;  /* and of another one; NULL: the same */
    } rows[] = {
        {"metadata: {}", "", NULL},
        {"metadata: {labels: {m.io/enable-proxy: 'true', app: x, m.io/namespace: n, x.io/hash: '1',"
         " m.io/watching: 'true', other.io/keep-serviceaccount: 'true'}, annotations: "
         "{m.io/keep-service-account: 'true', m.io/env-sync: A}}",
         "", NULL},
        {"metadata: {annotations: {m.io/keep-serviceaccount: 'true'}}",
         "metadata.annotations[m.io/keep-serviceaccount]: unknown, so it has no effect; is "
         "m.io/keep-service-account meant?\n",
         NULL},
        {"metadata: {labels: {m.io/enable-proxi: 'true'}}",
         "metadata.labels[m.io/enable-proxi]: unknown, so it has no effect; is m.io/enable-proxy "
         "meant?\n",
         NULL},
        {"metadata: {labels: {m.io/colour: blue}}",
         "metadata.labels[m.io/colour]: unknown, so it has no effect\n", ""},
        {"metadata: {labels: {m.io/enable-proxy: 'True'}}",
         "metadata.labels[m.io/enable-proxy]: \"True\" is not \"true\": this pod gets no sidecars, "
         "and its operator sees the objects of all shards\n",
         NULL},
        {"metadata: {labels: {m.io/enable-proxy: 'yes'}}",
         "metadata.labels[m.io/enable-proxy]: \"yes\" is not \"true\": this pod gets no sidecars, "
         "and its operator sees the objects of all shards\n",
         NULL},
        {"metadata: {annotations: {m.io/enable-proxy: 'true'}}",
         "metadata.annotations[m.io/enable-proxy]: has no effect, since it is a label: this pod "
         "gets no sidecars, and its operator sees the objects of all shards\n",
         NULL},
        {"metadata: {labels: {m.io/enable-proxy: 'true'}, annotations: {m.io/enable-proxy: "
         "'true'}}",
         "", NULL},
        {"metadata: {labels: {m.io/enable-proxy: 'false'}}", "", NULL},
        {"metadata: {labels: {m.io/enable-proxy: ''}}", "", NULL},
        {"metadata: {labels: 7, annotations: [1]}", "", NULL},
        {"[]", "", NULL},
    };
    (void)state;
    for (size_t i = 0; i < 2 * ARRAY_LEN(rows); i++) {
        bool all = i % 2 == 0;
        const char *wanted = rows[i / 2].notes;
        if (!all && rows[i / 2].near != NULL) {
            wanted = rows[i / 2].near;
        }
        char *found = names_in(rows[i / 2].metadata, all);
        assert_string_equal(found, wanted);
        free(found);
    }
}

/* A pod with thousands of names is not looked at for long. */
static void many_names(void **state)
{
    struct buf text = BUF_INIT(1 << 20);
    (void)state;
    buf_append_str(&text, "metadata: {annotations: {");
    for (unsigned i = 0; i < 5000; i++) {
        buf_printf(&text, "m.io/keep-service-accoun%u: x, ", i);
    }
    assert_int_equal(buf_append_str(&text, "a: b}}"), 0);
    char *found = names_in(buf_cstr(&text), true);
    size_t lines = 0;
    for (const char *p = found; (p = strchr(p, '\n')) != NULL; p++) {
        lines++;
    }
    assert_int_equal(lines, 8);
    free(found);
    buf_reset(&text);
}

#define TOLD(args, env) "containers: [{name: op, command: [/op], args: " args ", env: " env "}]"

/* What the operator is told; NULL: nothing is noted of it. */
static void arguments_that_lead_past_localproxy(void **state)
{
    static const char kubeconfig[] =
        "spec.containers[op]: --kubeconfig within an argument stays as it is";
    static const char variable[] =
        "spec.containers[op]: KUBECONFIG within an argument stays as it is";
    static const char master[] = "spec.containers[op]: --master leads the operator past localproxy";
    static const struct {
        const char *spec;
        const char *note;
    } rows[] = {
        {TOLD("[-c, 'op --kubeconfig=/etc/kc/config']", "[]"), kubeconfig},
        {TOLD("[-c, \"exec /op -kubeconfig '/etc/kc/config' -v\"]", "[]"), kubeconfig},
        {TOLD("[-c, 'op --kubeconfig $KUBECONFIG']", "[]"), NULL},
        {TOLD("[-c, 'op --kubeconfig=\"${KUBECONFIG}\" -v']", "[]"), NULL},
        {TOLD("[-c, 'op --kubeconfig=$(KUBECONFIG)']", "[]"), NULL},
        {TOLD("[-c, 'op --kubeconfig=$KUBECONFIG_OLD']", "[]"), kubeconfig},
        {TOLD("[-c, 'op --no-kubeconfig --kubeconfig-folder=/x']", "[]"), NULL},
        {TOLD("[-c, 'op --kubeconfig=$KUBECONFIG && op --kubeconfig=/etc/kc/config']", "[]"),
         kubeconfig},
        {TOLD("[-c, 'KUBECONFIG=/etc/kc/config op']", "[]"), variable},
        {TOLD("[-c, 'export KUBECONFIG=\"/etc/kc/config\"; op']", "[]"), variable},
        {"containers: [{name: op, command: [env, KUBECONFIG=/etc/kc/config, op]}]", variable},
        {TOLD("[-c, 'KUBECONFIG=${KUBECONFIG} OTHER_KUBECONFIG=/x op; KUBECONFIG= op']", "[]"),
         NULL},
        {TOLD("[-c, 'test x$KUBECONFIG=x || test ${KUBECONFIG}=y || op']", "[]"), NULL},
        {TOLD("['--kubeconfig=/etc/kc/config']", "[]"), NULL}, /* it is replaced */
        {TOLD("['--master=https://10.0.0.1']", "[]"), master},
        {TOLD("['-master', 'https://10.0.0.1']", "[]"), master},
        {TOLD("[-c, 'op --master https://10.0.0.1']", "[]"), master},
        {TOLD("['--master-count=3', '--webmaster=x', 'x --remaster y']", "[]"), NULL},
        {TOLD("[]", "[{name: DISABLE_CIRCUIT_BREAKER, value: 'true'}]"),
         "spec.containers[op].env[DISABLE_CIRCUIT_BREAKER]: has no effect: label the "
         "CircuitBreaker circuitbreaker.ctrlmesh.kusionstack.io/disable"},
        {TOLD("[]", "[{name: DISABLE_CIRCUIT_BREAKER, value: 'false'}]"), NULL},
        {"containers: [{name: op, command: [sh, -c, 'op --master=x']}]", master},
        {"containers: [{name: op, args: [7, {a: b}]}]", NULL},
    };
    struct inject_options o = {.prefix = "m.io"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct warnings notes = WARNINGS_INIT;
        cJSON *spec = parse(rows[i].spec);
        inject_hints_containers(&o, spec, &notes);
        if (notes.count != (rows[i].note != NULL ? 1 : 0) ||
            (rows[i].note != NULL &&
             strncmp(notes.items[0], rows[i].note, strlen(rows[i].note)) != 0)) {
            fail_msg("%s: %zu notes: %s", rows[i].spec, notes.count,
                     notes.count > 0 ? notes.items[0] : "");
        }
        warnings_deinit(&notes);
        cJSON_Delete(spec);
    }
    struct warnings notes = WARNINGS_INIT;
    cJSON *spec = parse(TOLD("['--master=https://10.0.0.1']", "[]"));
    o.nat = true; /* the kernel leads it back */
    inject_hints_containers(&o, spec, &notes);
    assert_int_equal(notes.count, 0);
    cJSON_Delete(spec);
}

/* They reach whoever creates the pod. */
static void what_injection_says(void **state)
{
    struct inject_settings s = settings_of(true);
    s.prefix = "m.io";
    (void)state;
    expect_note(&s, pod_of("", "", TOLD("['--master=https://10.0.0.1']", "[]")), "--master leads");
    expect_note(&s,
                pod_of("m.io/env-inject: '[{\"name\": \"op\", \"env\": [{\"key\": "
                       "\"DISABLE_CIRCUIT_BREAKER\", \"value\": \"true\"}]}]'",
                       "", TOLD("[]", "[]")),
                "DISABLE_CIRCUIT_BREAKER]: has no effect");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_are_misspelt),
        cmocka_unit_test(many_names),
        cmocka_unit_test(arguments_that_lead_past_localproxy),
        cmocka_unit_test(what_injection_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
