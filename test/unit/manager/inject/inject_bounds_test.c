/* SPDX-License-Identifier: Apache-2.0 */
/* Pods that are as large as they may be, and larger: what injection costs is compared with what it
 * costs to read them, both as CPU time of this process. */
#include "inject/inject_bounds.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "inject/inject.h"
#include "json/json.h"

enum { TEXT_MAX = 16 << 20, ANNOTATION = 250 * 1024 };

/* `count` times `text`, in which each %u is the number. */
static void repeat(struct buf *out, unsigned count, const char *text)
{
    for (unsigned i = 0; i < count; i++) {
        for (const char *p = text; *p != '\0'; p++) {
            if (p[0] == '%' && p[1] == 'u') {
                buf_printf(out, "%u", i);
                p++;
            } else {
                buf_append_char(out, *p);
            }
        }
    }
}

/* A list of the spec or of a container: the comma behind the last item is taken off. */
static void add_list(struct buf *out, const char *before, unsigned count, const char *item,
                     const char *after)
{
    buf_append_str(out, before);
    repeat(out, count, item);
    buf_truncate(out, out->len - (count > 0 ? 1 : 0));
    buf_append_str(out, after);
}

static void begin_pod(struct buf *out, const char *annotation, unsigned count, const char *item)
{
    buf_append_str(out, "{\"metadata\":{\"annotations\":{\"");
    add_list(out, annotation, count, item, "\"}},\"spec\":{");
}

/* ---- pods ---- */

#define OPERATOR "\"name\":\"op\",\"command\":[\"/op\"]"

static void make_env_sync(struct buf *out, bool same)
{
    const char *item = same ? "a," : "N%u,";
    begin_pod(out, "m.io/env-sync\":\"", same ? ANNOTATION / 2 : 30000, item);
    add_list(out, "\"containers\":[{" OPERATOR ",\"env\":[", INJECT_VARIABLES_MAX - 10,
             "{\"name\":\"N%u\",\"value\":\"x\"},", "]}]}}");
}

static void env_sync_of_one_name(struct buf *out)
{
    make_env_sync(out, true);
}

static void env_sync_of_many_names(struct buf *out)
{
    make_env_sync(out, false);
}

/* One value that is long, asked for many times. */
static void env_sync_of_a_long_value(struct buf *out)
{
    begin_pod(out, "m.io/env-sync\":\"", ANNOTATION / 6, "A,A=b,");
    buf_append_str(out, "\"containers\":[{" OPERATOR ",\"env\":[{\"name\":\"A\",\"value\":\"");
    repeat(out, 500000, "x");
    buf_append_str(out, "\"}]}]}}");
}

/* JSON within JSON: the quotes are escaped. */
static void env_inject(struct buf *out)
{
    begin_pod(out, "m.io/env-inject\":\"[", 4000,
              "{\\\"name\\\":\\\"op\\\",\\\"env\\\":[{\\\"key\\\":\\\"N%u\\\",\\\"value\\\":"
              "\\\"1\\\"}]},");
    buf_truncate(out, out->len - strlen("\"}},\"spec\":{"));
    buf_append_str(out, "]\"}},\"spec\":{");
    add_list(out, "\"containers\":[{" OPERATOR ",\"env\":[", INJECT_VARIABLES_MAX - 10,
             "{\"name\":\"N%u\"},", "]}]}}");
}

/* Variables of one name, of which the last would count. */
static void env_of_one_name(struct buf *out)
{
    begin_pod(out, "x\":\"", 0, "");
    add_list(out, "\"containers\":[{" OPERATOR ",\"env\":[", INJECT_VARIABLES_MAX - 10,
             "{\"name\":\"KUBECONFIG\"},", "]}]}}");
}

static void default_container(struct buf *out)
{
    begin_pod(out, "kubectl.kubernetes.io/default-container\":\"c1", 0, "");
    add_list(out, "\"containers\":[", INJECT_CONTAINERS_MAX - 10,
             "{\"name\":\"c%u\",\"args\":[\"a\"]},", "]}}");
}

static void operator_containers(struct buf *out)
{
    begin_pod(out, "m.io/operator-containers\":\"", INJECT_CONTAINERS_MAX - 10, "c%u,");
    buf_truncate(out, out->len - strlen("\"}},\"spec\":{"));
    buf_append_str(out, ",");
    repeat(out, ANNOTATION / 4, "c1,");
    add_list(out, "\"}},\"spec\":{\"containers\":[", INJECT_CONTAINERS_MAX - 10,
             "{\"name\":\"c%u\",\"args\":[\"a\"]},", "]}}");
}

static void kubeconfig_arguments(struct buf *out)
{
    begin_pod(out, "x\":\"", 0, "");
    add_list(out, "\"containers\":[{\"name\":\"op\",\"args\":[", INJECT_ARGUMENTS_MAX / 2,
             "\"--kubeconfig=/k/c\",\"%u\",", "],");
    add_list(out, "\"volumeMounts\":[{\"name\":\"k\",\"mountPath\":\"/k\"},",
             INJECT_MOUNTS_MAX - 10, "{\"name\":\"v\",\"mountPath\":\"/k/%u\"},", "]}]}}");
}

/* Half of what a container mounts is to be hidden from it. */
static void hidden_volume(struct buf *out)
{
    begin_pod(out, "m.io/kubeconfig-volume\":\"real/c", 0, "");
    buf_append_str(out, "\"volumes\":[{\"name\":\"real\"}],");
    add_list(out, "\"containers\":[{" OPERATOR ",\"volumeMounts\":[", INJECT_MOUNTS_MAX / 2 - 10,
             "{\"name\":\"v%u\",\"mountPath\":\"/v%u\"},", ",");
    add_list(out, "", INJECT_MOUNTS_MAX / 2 - 10, "{\"name\":\"real\",\"mountPath\":\"/r%u\"},",
             "]}]}}");
}

/* What is set in a long object moves nothing else of it. */
static void a_long_variable(struct buf *out)
{
    begin_pod(out, "x\":\"", 0, "");
    add_list(out,
             "\"containers\":[{" OPERATOR ",\"env\":[{\"name\":\"KUBECONFIG\",\"value\":\"\","
             "\"valueTo\":1,",
             40000, "\"x%u\":1,", "}]}]}}");
}

/* Lists in lists, beside what is changed. */
static void deep_lists(struct buf *out)
{
    enum { DEPTH = 800 };
    begin_pod(out, "x\":\"", 0, "");
    buf_append_str(out, "\"x\":");
    repeat(out, DEPTH, "[");
    add_list(out, "", 60000, "[],", "");
    repeat(out, DEPTH, "]");
    buf_append_str(out, ",\"containers\":[{" OPERATOR "}]}}");
}

/* ---- what it costs ---- */

static cJSON *read_pod(void (*make)(struct buf *out))
{
    struct buf text = BUF_INIT(TEXT_MAX);
    struct err e = ERR_INIT;
    make(&text);
    assert_int_equal(buf_error(&text), 0);
    cJSON *pod = json_parse((const char *)buf_data(&text), text.len, &e);
    if (pod == NULL) {
        fail_msg("the test's own JSON: %s", e.msg);
    }
    buf_reset(&text);
    return pod;
}

static struct inject_settings settings(void)
{
    struct inject_settings s = inject_defaults;
    s.image = "registry.example.com/cmesh/proxy:1.0";
    s.prefix = "m.io";
    return s;
}

/* In turn ordinary and native sidecars. */
static clock_t inject(const cJSON *pod, const char *what, bool native)
{
    struct inject_settings s = settings();
    struct warnings notes = WARNINGS_INIT;
    struct err e = ERR_INIT;
    cJSON *patch = NULL;
    s.native = native;
    clock_t begun = clock();
    int rc = inject_pod(&s, pod, "ns", "shard", &notes, &patch, &e);
    clock_t took = clock() - begun;
    if (rc != 0) {
        fail_msg("%s: %s", what, e.msg);
    }
    cJSON_Delete(patch);
    warnings_deinit(&notes);
    return took;
}

/* What grows by the square takes thousands of times as long as to read the pod. */
static void injection_costs_no_more_than_reading(void **state)
{
    enum { TIMES = 40 };
    (void)state;
    static const struct {
        const char *name;
        void (*make)(struct buf *out);
    } rows[] = {
        {"env-sync of one name", env_sync_of_one_name},
        {"env-sync of many names", env_sync_of_many_names},
        {"env-sync of a long value", env_sync_of_a_long_value},
        {"env-inject", env_inject},
        {"variables of one name", env_of_one_name},
        {"default-container", default_container},
        {"operator-containers", operator_containers},
        {"arguments", kubeconfig_arguments},
        {"a hidden volume", hidden_volume},
        {"a long variable", a_long_variable},
        {"deep lists", deep_lists},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        clock_t begun = clock();
        cJSON *pod = read_pod(rows[i].make);
        clock_t parsed = clock() - begun;
        clock_t took = inject(pod, rows[i].name, false) + inject(pod, rows[i].name, true);
        if (took > TIMES * parsed) {
            fail_msg("%s: %.1f times what it takes to read it", rows[i].name,
                     (double)took / (double)parsed);
        }
        cJSON_Delete(pod);
    }
}

/* ---- what is too much ---- */

static void expect(const char *text, int rc, const char *want)
{
    struct inject_settings s = settings();
    struct err e = ERR_INIT;
    cJSON *patch = NULL;
    cJSON *pod = json_parse(text, strlen(text), &e);
    if (pod == NULL) {
        fail_msg("the test's own JSON: %s", e.msg);
    }
    assert_int_equal(inject_pod(&s, pod, "ns", "shard", NULL, &patch, &e), rc);
    assert_string_equal(e.msg, want);
    cJSON_Delete(patch);
    cJSON_Delete(pod);
}

/* As many as there may be, and one more. */
static void what_is_too_much_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *before;
        unsigned most;
        const char *item;
        const char *after;
        const char *want;
    } rows[] = {
        {"{\"metadata\":{\"labels\":{", INJECT_LABELS_MAX, "\"l%u\":\"\",",
         "}},\"spec\":{\"containers\":[{" OPERATOR "}]}}",
         "metadata.labels: Too many: 251: a pod that gets sidecars may have 250"},
        {"{\"metadata\":{},\"spec\":{\"containers\":[", INJECT_CONTAINERS_MAX,
         "{\"name\":\"c%u\"},", "]}}",
         "spec.containers: Too many: 501: a pod that gets sidecars may have 500"},
        {"{\"metadata\":{},\"spec\":{\"containers\":[{" OPERATOR "}],\"initContainers\":[",
         INJECT_CONTAINERS_MAX - 1, "{\"name\":\"c%u\"},", "]}}",
         "spec.containers: Too many: 501: a pod that gets sidecars may have 500"},
        {"{\"metadata\":{},\"spec\":{\"containers\":[{" OPERATOR "}],\"volumes\":[",
         INJECT_VOLUMES_MAX, "{\"name\":\"v%u\"},", "]}}",
         "spec.volumes: Too many: 1001: a pod that gets sidecars may have 1000"},
        {"{\"metadata\":{},\"spec\":{\"containers\":[{" OPERATOR ",\"envFrom\":[{}],\"env\":[",
         INJECT_VARIABLES_MAX - 1, "{\"name\":\"v%u\"},", "]}]}}",
         "spec.containers: env: Too many: 10001: a pod that gets sidecars may have 10000"},
        {"{\"metadata\":{},\"spec\":{\"containers\":[{" OPERATOR ",\"volumeMounts\":[",
         INJECT_MOUNTS_MAX, "{\"name\":\"v%u\",\"mountPath\":\"/v%u\"},", "]}]}}",
         "spec.containers: volumeMounts: Too many: 10001: a pod that gets sidecars may have "
         "10000"},
        {"{\"metadata\":{},\"spec\":{\"containers\":[{" OPERATOR ",\"args\":[",
         INJECT_ARGUMENTS_MAX - 1, "\"%u\",", "]}]}}",
         "spec.containers: command and args: Too many: 10001: a pod that gets sidecars may have "
         "10000"},
        {"{\"metadata\":{},\"spec\":{\"containers\":[{" OPERATOR ",\"ports\":[", INJECT_PORTS_MAX,
         "{\"containerPort\":1%u},", "]}]}}",
         "spec.containers: ports: Too many: 5001: a pod that gets sidecars may have 5000"},
        /* Of the annotation's name there are three bytes. */
        {"{\"metadata\":{\"annotations\":{\"a.b\":\"", INJECT_ANNOTATIONS_MAX - 3, "x",
         "\"}},\"spec\":{\"containers\":[{" OPERATOR "}]}}",
         "metadata.annotations: Too long: may not be more than 262144 bytes"},
        {"{\"metadata\":{\"labels\":{\"a.b\":\"", INJECT_LABEL_BYTES_MAX - 3, "x",
         "\"}},\"spec\":{\"containers\":[{" OPERATOR "}]}}",
         "metadata.labels: Too long: may not be more than 8192 bytes"},
    };
    for (size_t i = 0; i < 2 * ARRAY_LEN(rows); i++) {
        struct buf text = BUF_INIT(TEXT_MAX);
        unsigned more = i % 2;
        const char *item = rows[i / 2].item;
        buf_append_str(&text, rows[i / 2].before);
        repeat(&text, rows[i / 2].most + more, item);
        buf_truncate(&text, text.len - (item[strlen(item) - 1] == ',' ? 1 : 0));
        buf_append_str(&text, rows[i / 2].after);
        expect(buf_cstr(&text), more == 0 ? 0 : -EINVAL, more == 0 ? "" : rows[i / 2].want);
        buf_reset(&text);
    }
}

/* Before anybody asks which shard it is of. */
static void the_webhook_looks_first(void **state)
{
    (void)state;
    struct inject_settings s = settings();
    struct admission_request r;
    struct err e = ERR_INIT;
    struct buf text = BUF_INIT(TEXT_MAX);
    buf_append_str(&text, "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\","
                          "\"request\":{\"uid\":\"u\",\"operation\":\"CREATE\",\"namespace\":"
                          "\"demo\",\"resource\":{\"resource\":\"pods\"},\"object\":{\"metadata\":"
                          "{\"labels\":{\"m.io/enable-proxy\":\"true\"");
    repeat(&text, INJECT_LABELS_MAX, ",\"l%u\":\"\"");
    buf_append_str(&text, "}},\"spec\":{}}}}");
    assert_int_equal(admission_request_read(&r, slice_str(buf_cstr(&text)), ADMISSION_OBJECTS, &e),
                     0);
    assert_int_equal(inject_asked(&r, &s, NULL, &e), -EINVAL);
    assert_string_equal(e.msg,
                        "metadata.labels: Too many: 251: a pod that gets sidecars may have 250");
    admission_request_deinit(&r);
    buf_reset(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(injection_costs_no_more_than_reading),
        cmocka_unit_test(what_is_too_much_is_refused),
        cmocka_unit_test(the_webhook_looks_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
