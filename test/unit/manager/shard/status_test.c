/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "shard/pod_verdict.h"
#include "json/json.h"

#define NOW INT64_C(1767225600000) /* 2026-01-01T00:00:00Z */
#define SINCE INT64_C(1767222000000)
#define SUM "sha256:aaaa"
#define OTHER_SUM "sha256:bbbb"

static cJSON *parse(const char *text)
{
    struct err e = ERR_INIT;
    cJSON *root = json_parse(text, strlen(text), &e);
    if (root == NULL) {
        fail_msg("%s", e.msg);
    }
    return root;
}

#define LIMITS "[{}]" /* what they are, others have looked at */

static cJSON *config_of(const char *limits, const char *status)
{
    char text[4096];
    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"demo\",\"name\":\"a\",\"generation\":5},"
                   "\"spec\":{\"limits\":%s}%s%s}",
                   limits, status[0] != '\0' ? ",\"status\":" : "", status);
    return parse(text);
}

static cJSON *config_with(const char *status)
{
    return config_of(LIMITS, status);
}

/* ---- probes ---- */

static struct probe_result probe(enum probe_state state, uint64_t generation, const char *shard,
                                 const char *message)
{
    struct probe_result r = {
        .state = state, .enforcing = generation != 0, .generation = generation};
    if (generation != 0) {
        r.since_ms = SINCE;
        (void)snprintf(r.checksum, sizeof r.checksum, "%s", SUM);
    }
    (void)snprintf(r.shard, sizeof r.shard, "%s", shard);
    (void)snprintf(r.message, sizeof r.message, "%s", message);
    return r;
}

static struct probe_result enforcing(uint64_t generation)
{
    return probe(PROBE_ANSWERED, generation, "demo/a", "");
}

static struct status_pod ready_pod(const char *name, const struct probe_result *r)
{
    return (struct status_pod){.name = name, .sidecar = true, .ready = true, .probe = r};
}

/* ---- statuses ---- */

struct made {
    cJSON *config;
    cJSON *status;
    struct status_result result;
};

static struct status_facts published(const struct status_pod *pods, size_t count)
{
    return (struct status_facts){.prefix = "mesh.example.com",
                                 .generation = 7,
                                 .checksum = SUM,
                                 .configmap = "cmesh-rules-a",
                                 .pods = pods,
                                 .pod_count = count,
                                 .now_ms = NOW};
}

static struct made make_with(struct status_facts f, const char *old)
{
    struct made m = {.config = config_with(old)};
    f.config = m.config;
    m.status = status_make(&f, &m.result);
    assert_non_null(m.status);
    return m;
}

static struct made make(struct status_facts f)
{
    return make_with(f, "");
}

static void made_free(struct made *m)
{
    cJSON_Delete(m->config);
    cJSON_Delete(m->status);
}

static const char *text_at(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(object, key));
    return text != NULL ? text : "";
}

/* NULL: there is none. */
static const cJSON *find_condition(const struct made *m, const char *type)
{
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(m->status, "conditions"))
    {
        if (strcmp(text_at(item, "type"), type) == 0) {
            return item;
        }
    }
    return NULL;
}

static const cJSON *condition(const struct made *m, const char *type)
{
    const cJSON *found = find_condition(m, type);
    if (found == NULL) {
        fail_msg("no condition %s", type);
    }
    return found;
}

static void expect_condition(const struct made *m, const char *type, const char *status,
                             const char *reason, const char *message)
{
    const cJSON *c = condition(m, type);
    assert_string_equal(text_at(c, "message"), message);
    assert_string_equal(text_at(c, "reason"), reason);
    assert_string_equal(text_at(c, "status"), status);
}

static void expect_row(const struct made *m, int i, const char *text)
{
    struct buf out = BUF_INIT(4096);
    assert_int_equal(
        json_canonical(cJSON_GetArrayItem(cJSON_GetObjectItem(m->status, "pods"), i), &out), 0);
    assert_string_equal(buf_cstr(&out), text);
    buf_reset(&out);
}

/* One pod: its row's message, "n/m", the condition Enforced. */
static void expect_pod(struct status_pod pod, enum status_enforced enforced, const char *count,
                       const char *status, const char *reason, const char *row, const char *message)
{
    struct made m = make(published(&pod, 1));
    expect_condition(&m, "Enforced", status, reason, message);
    assert_string_equal(text_at(m.status, "enforced"), count);
    assert_int_equal(m.result.enforced, enforced);
    assert_string_equal(
        text_at(cJSON_GetArrayItem(cJSON_GetObjectItem(m.status, "pods"), 0), "message"), row);
    made_free(&m);
}

/* ---- tests ---- */

static void test_all_enforced(void **state)
{
    (void)state;
    struct probe_result r = enforcing(7);
    struct status_pod pods[] = {ready_pod("b", &r), ready_pod("a", &r)};
    struct made m = make(published(pods, 2));
    struct buf out = BUF_INIT(4096);
    assert_int_equal(json_canonical(m.status, &out), 0);
    assert_string_equal(
        buf_cstr(&out),
        "{\"checksum\":\"sha256:aaaa\",\"conditions\":["
        "{\"lastTransitionTime\":\"2026-01-01T00:00:00Z\",\"message\":\"The spec is valid.\","
        "\"observedGeneration\":5,\"reason\":\"Valid\",\"status\":\"True\",\"type\":\"Compiled\"},"
        "{\"lastTransitionTime\":\"2026-01-01T00:00:00Z\",\"message\":\"ConfigMap cmesh-rules-a "
        "holds generation 7.\",\"observedGeneration\":5,\"reason\":\"Published\",\"status\":"
        "\"True\",\"type\":\"Published\"},"
        "{\"lastTransitionTime\":\"2026-01-01T00:00:00Z\",\"message\":\"2 of 2 pods enforce "
        "generation "
        "7.\",\"observedGeneration\":5,\"reason\":\"Enforced\",\"status\":\"True\",\"type\":"
        "\"Enforced\"},"
        "{\"lastTransitionTime\":\"2026-01-01T00:00:00Z\",\"message\":\"2 of 2 pods enforce "
        "generation 7.\",\"observedGeneration\":5,\"reason\":\"Enforced\",\"status\":\"True\","
        "\"type\":\"Ready\"}],\"enforced\":\"2/2\",\"generation\":7,\"observedGeneration\":5,"
        "\"podCount\":2,\"pods\":["
        "{\"checksum\":\"sha256:aaaa\",\"generation\":7,\"name\":\"a\",\"since\":"
        "\"2025-12-31T23:00:00Z\"},"
        "{\"checksum\":\"sha256:aaaa\",\"generation\":7,\"name\":\"b\",\"since\":"
        "\"2025-12-31T23:00:00Z\"}]}");
    assert_int_equal(m.result.enforced, STATUS_ENFORCED);
    assert_true(m.result.changed);
    buf_reset(&out);
    made_free(&m);
}

static void test_no_pods(void **state)
{
    (void)state;
    struct made m = make(published(NULL, 0));
    expect_condition(&m, "Enforced", "True", "NoPods", "There are no pods.");
    assert_string_equal(text_at(m.status, "enforced"), "0/0");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(m.status, "pods")), 0);
    assert_int_equal(m.result.enforced, STATUS_NO_PODS);
    made_free(&m);
}

static void test_pods_that_are_late(void **state)
{
    (void)state;
    struct probe_result old = enforcing(6);
    expect_pod(ready_pod("p", &old), STATUS_WAITING, "0/1", "False", "Waiting",
               "still enforces generation 6",
               "0 of 1 pods enforce generation 7. Not confirmed yet: p (still enforces generation "
               "6).");
    struct probe_result none = probe(PROBE_ANSWERED, 0, "", "");
    expect_pod(ready_pod("p", &none), STATUS_WAITING, "0/1", "False", "Waiting",
               "has no rules, and shows nothing until it has some",
               "0 of 1 pods enforce generation 7. Not confirmed yet: p (has no rules, and shows "
               "nothing until it has some).");
    struct status_pod early = ready_pod("p", &none);
    struct status_facts unpublished = published(&early, 1);
    unpublished.generation = 0;
    struct made m = make(unpublished);
    assert_string_equal(
        text_at(cJSON_GetArrayItem(cJSON_GetObjectItem(m.status, "pods"), 0), "message"),
        "has no rules, and shows nothing until it has some");
    made_free(&m);
    struct probe_result busy = enforcing(7);
    busy.enforcing = false;
    expect_pod(ready_pod("p", &busy), STATUS_WAITING, "0/1", "False", "Waiting",
               "is still finishing requests under earlier rules",
               "0 of 1 pods enforce generation 7. Not confirmed yet: p (is still finishing "
               "requests under earlier rules).");
    (void)snprintf(busy.message, sizeof busy.message, "rulesync: connection refused");
    expect_pod(ready_pod("p", &busy), STATUS_WAITING, "0/1", "False", "Waiting",
               "is still finishing requests under earlier rules",
               "0 of 1 pods enforce generation 7. Not confirmed yet: p (is still finishing "
               "requests under earlier rules).");
    struct probe_result never = probe(PROBE_WAITING, 0, "", "connection refused");
    expect_pod(ready_pod("p", &never), STATUS_WAITING, "0/1", "False", "Waiting",
               "has not responded yet: connection refused",
               "0 of 1 pods enforce generation 7. Not confirmed yet: p (has not responded yet: "
               "connection refused).");
    expect_pod(ready_pod("p", NULL), STATUS_WAITING, "0/1", "False", "Waiting",
               "has no address yet",
               "0 of 1 pods enforce generation 7. Not confirmed yet: p (has no address yet).");
}

static void test_pods_that_do_not_answer(void **state)
{
    (void)state;
    struct probe_result r = probe(PROBE_SILENT, 7, "demo/a", "timed out");
    const char *message =
        "0 of 1 pods enforce generation 7. Not responding: p (does not respond: timed out).";
    expect_pod(ready_pod("p", &r), STATUS_SILENT, "0/1", "False", "Silent",
               "does not respond: timed out", message);
    struct status_pod pod = ready_pod("p", &r);
    pod.ready = false; /* it may go on with these rules */
    expect_pod(pod, STATUS_SILENT, "0/1", "False", "Silent", "does not respond: timed out",
               message);
}

static void test_pods_whose_rules_have_expired(void **state)
{
    (void)state;
    struct probe_result r = probe(PROBE_ANSWERED, 7, "demo/a", "");
    r.lease_s = 30;
    r.expired = true;
    expect_pod(ready_pod("p", &r), STATUS_WAITING, "0/1", "False", "Waiting",
               "shows nothing: its rules are not valid, for it could not renew its Lease",
               "0 of 1 pods enforce generation 7. Not confirmed yet: p (shows nothing: its rules "
               "are not valid, for it could not renew its Lease).");
    r = probe(PROBE_SILENT, 6, "demo/a", "timed out");
    r.required = 7;
    expect_pod(ready_pod("p", &r), STATUS_SILENT, "0/1", "False", "Silent",
               "does not respond. Its rules have expired: it enforces none before generation 7",
               "0 of 1 pods enforce generation 7. Not responding: p (does not respond. Its rules "
               "have expired: it enforces none before generation 7).");
}

static void test_pods_that_refuse(void **state)
{
    (void)state;
    struct probe_result r = probe(PROBE_ANSWERED, 6, "demo/a", "line 3: no such operator");
    expect_pod(ready_pod("p", &r), STATUS_REFUSED, "0/1", "False", "Refused",
               "line 3: no such operator",
               "0 of 1 pods enforce generation 7. Refusing the rules: p (line 3: no such "
               "operator).");
    struct probe_result none = probe(PROBE_ANSWERED, 0, "", "no ConfigMap");
    struct status_pod pod = ready_pod("p", &none);
    pod.ready = false;
    expect_pod(pod, STATUS_REFUSED, "0/1", "False", "Refused", "no ConfigMap",
               "0 of 1 pods enforce generation 7. Refusing the rules: p (no ConfigMap).");
}

static void test_other_rules(void **state)
{
    (void)state;
    struct probe_result r = probe(PROBE_ANSWERED, 7, "demo/z", "");
    expect_pod(
        ready_pod("p", &r), STATUS_OTHER_RULES, "0/1", "False", "OtherRules",
        "enforces the rules of shard demo/z: it was started for that one, and must be restarted",
        "0 of 1 pods enforce generation 7. Enforcing other rules: p (enforces the rules of shard "
        "demo/z: it was started for that one, and must be restarted).");
    r = probe(PROBE_ANSWERED, 9, "demo/a", "older ones are refused");
    expect_pod(ready_pod("p", &r), STATUS_OTHER_RULES, "0/1", "False", "OtherRules",
               "enforces generation 9, which is newer than what is published",
               "0 of 1 pods enforce generation 7. Enforcing other rules: p (enforces generation 9, "
               "which is newer than what is published).");
    r = enforcing(7);
    (void)snprintf(r.checksum, sizeof r.checksum, "%s", OTHER_SUM);
    expect_pod(
        ready_pod("p", &r), STATUS_OTHER_RULES, "0/1", "False", "OtherRules",
        "enforces different rules of the same generation 7",
        "0 of 1 pods enforce generation 7. Enforcing other rules: p (enforces different rules "
        "of the same generation 7).");
}

static void test_no_sidecar(void **state)
{
    (void)state;
    struct status_pod pod = {.name = "p"}; /* ready or not */
    expect_pod(pod, STATUS_NO_SIDECAR, "0/1", "False", "NoSidecar",
               "has no sidecar: its operator sees everything",
               "0 of 1 pods enforce generation 7. Without a sidecar, so seeing everything: p. "
               "Label the pods' template mesh.example.com/enable-proxy: \"true\".");
}

/* There the label of the template does nothing. */
static void test_no_sidecar_where_no_webhook_looks(void **state)
{
    (void)state;
    struct status_pod pod = {.name = "p"};
    struct status_facts facts = published(&pod, 1);
    facts.left_out = true;
    struct made m = make(facts);
    expect_condition(&m, "Enforced", "False", "NoSidecar",
                     "0 of 1 pods enforce generation 7. Without a sidecar, so seeing everything: "
                     "p. The webhook for pods leaves this namespace out: use another one, or "
                     "change the namespaceSelector of its MutatingWebhookConfiguration.");
    assert_string_equal(
        text_at(cJSON_GetArrayItem(cJSON_GetObjectItem(m.status, "pods"), 0), "message"),
        "has no sidecar: its operator sees everything. It gets none in this namespace, which the "
        "webhook for pods leaves out");
    made_free(&m);
    facts.generation = 0; /* nothing is published because of that pod, for one */
    m = make(facts);
    expect_condition(&m, "Enforced", "False", "NotPublished",
                     "No rules are published. Without a sidecar, so seeing everything: p. The "
                     "webhook for pods leaves this namespace out: use another one, or change the "
                     "namespaceSelector of its MutatingWebhookConfiguration.");
    made_free(&m);
}

static void test_refused_by_another_version(void **state)
{
    struct probe_result r = probe(PROBE_ANSWERED, 6, "demo/a", "unknown field spec.new");
    (void)state;
    (void)snprintf(r.version, sizeof r.version, "0.0.1");
    expect_pod(ready_pod("p", &r), STATUS_REFUSED, "0/1", "False", "Refused",
               "runs cmesh 0.0.1, the manager " CMESH_VERSION
               ": a restart may help: unknown field spec.new",
               "0 of 1 pods enforce generation 7. Refusing the rules: p (runs cmesh 0.0.1, the "
               "manager " CMESH_VERSION ": a restart may help: unknown field spec.new).");
    (void)snprintf(r.version, sizeof r.version, "%s", CMESH_VERSION);
    expect_pod(ready_pod("p", &r), STATUS_REFUSED, "0/1", "False", "Refused",
               "unknown field spec.new",
               "0 of 1 pods enforce generation 7. Refusing the rules: p (unknown field spec.new).");
}

#define ADVICE                                                                                     \
    ". Lead these operators (docs/manager.md, \"How operators are led\": annotation "              \
    "keep-service-account, KUBECONFIG, lead-by-name), or annotate the pods' template "             \
    "mesh.example.com/allow-bypass: \"true\" if it is on purpose."

static void test_connections_around_the_proxy(void **state)
{
    static const char why[] = "has connections to the API server that are not localproxy's";
    struct probe_result r = enforcing(7);
    (void)state;
    r.bypassed = true;
    expect_pod(ready_pod("p", &r), STATUS_BYPASSED, "0/1", "False", "Bypassed", why,
               "0 of 1 pods enforce generation 7. Bypassing their proxies: p (has connections to "
               "the API server that are not localproxy's)" ADVICE);
    struct status_pod pod = ready_pod("p", &r);
    pod.allow_bypass = true;
    expect_pod(pod, STATUS_ENFORCED, "1/1", "True", "Enforced", "",
               "1 of 1 pods enforce generation 7.");
    pod = ready_pod("p", &r);
    pod.ready = false; /* an init container may have them */
    expect_pod(pod, STATUS_ENFORCED, "1/1", "True", "Enforced", "",
               "1 of 1 pods enforce generation 7.");
    r.generation = 6; /* what is worse is told first, what hinders more as well */
    expect_pod(ready_pod("p", &r), STATUS_WAITING, "0/1", "False", "Waiting",
               "still enforces generation 6",
               "0 of 1 pods enforce generation 7. Not confirmed yet: p (still enforces generation "
               "6).");
}

enum { WAIT_MS = 120000 };

static enum status_enforced judge_unused(int64_t ready_ms, int64_t up_ms, uint64_t wait_ms,
                                         uint64_t patience_ms)
{
    struct probe_result r = enforcing(7);
    struct status_pod pod = ready_pod("p", &r);
    r.unused = true;
    r.up_ms = up_ms;
    pod.ready_since = ready_ms < 0 ? 0 : (NOW - ready_ms) / 1000;
    struct status_facts f = published(&pod, 1);
    f.bypass_wait_ms = wait_ms;
    assert_int_equal(pod_verdict_patience_ms(&f, &pod), patience_ms);
    struct made m = make(f);
    enum status_enforced enforced = m.result.enforced;
    made_free(&m);
    return enforced;
}

static void test_no_client_ever(void **state)
{
    (void)state;
    assert_int_equal(judge_unused(WAIT_MS, WAIT_MS, WAIT_MS, 0), STATUS_BYPASSED);
    assert_int_equal(judge_unused(WAIT_MS - 1000, 900000, WAIT_MS, 1000), STATUS_ENFORCED);
    assert_int_equal(judge_unused(900000, 50000, WAIT_MS, 70000), STATUS_ENFORCED);
    assert_int_equal(judge_unused(900000, 0, WAIT_MS, WAIT_MS), STATUS_ENFORCED);
    assert_int_equal(judge_unused(900000, 900000, 0, 0), STATUS_ENFORCED);
    assert_int_equal(judge_unused(-1, 900000, WAIT_MS, 0), STATUS_ENFORCED);
    struct probe_result r = enforcing(7);
    struct status_pod pod = ready_pod("p", &r);
    struct status_facts f = published(&pod, 1);
    r.unused = true;
    r.up_ms = WAIT_MS;
    pod.ready_since = NOW / 1000 - 900;
    f.bypass_wait_ms = WAIT_MS;
    struct made m = make(f);
    expect_condition(&m, "Enforced", "False", "Bypassed",
                     "0 of 1 pods enforce generation 7. Bypassing their proxies: p (no request has "
                     "come to localproxy since it runs)" ADVICE);
    made_free(&m);
    pod.allow_bypass = true;
    m = make(f);
    assert_int_equal(m.result.enforced, STATUS_ENFORCED);
    made_free(&m);
}

static void test_overlapping(void **state)
{
    (void)state;
    struct probe_result r = probe(PROBE_ANSWERED, 3, "demo/z", "");
    struct status_pod pod = ready_pod("p", &r);
    pod.other_shard = "demo/z";
    expect_pod(pod, STATUS_OVERLAPPING, "0/1", "False", "Overlapping", "is selected by demo/z too",
               "0 of 1 pods enforce generation 7. In two shards: p (is selected by "
               "demo/z too). Change one of the selectors.");
    r = enforcing(7); /* it is ours, for now */
    expect_pod(pod, STATUS_ENFORCED, "1/1", "True", "Enforced", "is selected by demo/z too",
               "1 of 1 pods enforce generation 7. In two shards: p (is selected by "
               "demo/z too). Change one of the selectors.");
}

static void test_pods_that_start(void **state)
{
    (void)state;
    struct probe_result never = probe(PROBE_WAITING, 0, "", "");
    struct probe_result gave_up = probe(PROBE_SILENT, 0, "", "connection refused");
    struct probe_result good = enforcing(7);
    struct status_pod pods[] = {ready_pod("new", NULL), ready_pod("crashing", &gave_up),
                                ready_pod("pulling", &never), ready_pod("good", &good)};
    for (size_t i = 0; i < 3; i++) {
        pods[i].ready = false;
    }
    const char *message =
        " pods enforce generation 7. Not ready yet: crashing (does not respond: "
        "connection refused), new (has no address yet), pulling (has not responded "
        "yet).";
    char text[512];
    struct made m = make(published(pods, 4));
    (void)snprintf(text, sizeof text, "1 of 4%s", message);
    expect_condition(&m, "Enforced", "True", "Enforced", text);
    assert_string_equal(text_at(m.status, "enforced"), "1/4");
    assert_int_equal(m.result.enforced, STATUS_ENFORCED);
    made_free(&m);
    m = make(published(pods, 3)); /* none that enforces them */
    (void)snprintf(text, sizeof text, "0 of 3%s", message);
    expect_condition(&m, "Enforced", "False", "Waiting", text);
    assert_int_equal(m.result.enforced, STATUS_WAITING);
    made_free(&m);
}

static void test_pods_that_end(void **state)
{
    (void)state;
    struct probe_result old = enforcing(6);
    struct probe_result good = enforcing(7);
    struct probe_result silent = probe(PROBE_SILENT, 6, "demo/a", "connection refused");
    struct status_pod pods[] = {ready_pod("a", &good), ready_pod("b", &silent),
                                ready_pod("c", NULL), ready_pod("d", &old)};
    pods[1].ending = true;
    pods[2].ending = true;
    pods[3].over = true;
    struct made m = make(published(pods, 4));
    expect_condition(&m, "Enforced", "True", "Enforced", "1 of 1 pods enforce generation 7.");
    assert_string_equal(text_at(m.status, "enforced"), "1/1");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(m.status, "pods")), 1);
    made_free(&m);
    pods[1].probe = &old; /* it still answers, and shows what it may not */
    m = make(published(pods, 4));
    assert_string_equal(text_at(m.status, "enforced"), "1/2");
    assert_int_equal(m.result.enforced, STATUS_WAITING);
    made_free(&m);
}

static void test_the_worst_is_the_reason(void **state)
{
    (void)state;
    struct probe_result results[] = {
        enforcing(7),
        enforcing(6),
        probe(PROBE_SILENT, 7, "demo/a", "x"),
        probe(PROBE_ANSWERED, 6, "demo/a", "y"),
        enforcing(8),
        enforcing(6),
    };
    struct status_pod pods[7];
    static const enum status_enforced want[] = {
        STATUS_ENFORCED,    STATUS_WAITING,     STATUS_SILENT,    STATUS_REFUSED,
        STATUS_OTHER_RULES, STATUS_OVERLAPPING, STATUS_NO_SIDECAR};
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g"};
    for (size_t i = 0; i < 7; i++) {
        pods[i] = ready_pod(names[i], i < 6 ? &results[i] : NULL);
        pods[i].sidecar = i < 6;
        pods[i].other_shard = i == 5 ? "demo/z" : NULL;
        struct made m = make(published(pods, i + 1));
        assert_int_equal(m.result.enforced, want[i]);
        made_free(&m);
    }
    struct made m = make(published(pods, 7));
    const char *message = text_at(condition(&m, "Enforced"), "message");
    static const char *const parts[] = {"1 of 7",          "Without a sidecar",  "In two shards",
                                        "Enforcing other", "Refusing the rules", "Not responding",
                                        "Not confirmed"};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        const char *found = strstr(message, parts[i]);
        assert_non_null(found);
        message = found;
    }
    expect_row(&m, 6,
               "{\"message\":\"has no sidecar: its operator sees everything\",\"name\":"
               "\"g\"}");
    made_free(&m);
}

static void test_only_a_few_are_named(void **state)
{
    (void)state;
    struct probe_result r = enforcing(7);
    struct probe_result old = enforcing(6);
    struct status_pod pods[5];
    static const char *const names[] = {"e", "d", "c", "b", "a"};
    for (size_t i = 0; i < 5; i++) {
        pods[i] = ready_pod(names[i], i == 4 ? &r : &old);
    }
    struct made m = make(published(pods, 5));
    expect_condition(&m, "Enforced", "False", "Waiting",
                     "1 of 5 pods enforce generation 7. Not confirmed yet: b (still enforces "
                     "generation 6), c (still enforces generation 6), d (still enforces generation "
                     "6) and 1 more.");
    made_free(&m);
}

static void test_only_so_many_rows(void **state)
{
    enum { COUNT = STATUS_ROWS_MAX + 100 };
    static char names[COUNT][16];
    static struct status_pod pods[COUNT];
    struct probe_result good = enforcing(7);
    struct probe_result bad = enforcing(6);
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        (void)snprintf(names[i], sizeof names[i], "pod-%03zu", i);
        pods[i] = ready_pod(names[i], i % 3 == 2 ? &bad : &good);
    }
    struct made m = make(published(pods, COUNT));
    const cJSON *rows = cJSON_GetObjectItem(m.status, "pods");
    assert_int_equal(cJSON_GetArraySize(rows), STATUS_ROWS_MAX);
    assert_string_equal(text_at(cJSON_GetArrayItem(rows, 0), "name"), "pod-002");
    assert_string_equal(text_at(cJSON_GetArrayItem(rows, 99), "name"), "pod-299");
    assert_string_equal(text_at(cJSON_GetArrayItem(rows, 100), "name"), "pod-000");
    assert_string_equal(text_at(m.status, "enforced"), "200/300");
    made_free(&m);
    m = make(published(pods, STATUS_ROWS_MAX)); /* room for all: by name */
    rows = cJSON_GetObjectItem(m.status, "pods");
    for (int i = 0; i < STATUS_ROWS_MAX; i++) {
        assert_string_equal(text_at(cJSON_GetArrayItem(rows, i), "name"), names[i]);
    }
    made_free(&m);
}

static void test_a_spec_that_makes_no_sense(void **state)
{
    (void)state;
    struct probe_result r = enforcing(7);
    struct status_pod pod = ready_pod("p", &r);
    struct status_facts f = published(&pod, 1);
    f.compile_error = "spec.limits: Required\nvalue";
    struct made m = make(f);
    expect_condition(&m, "Compiled", "False", "Invalid", "spec.limits: Required value");
    expect_condition(&m, "Published", "False", "NotCompiled",
                     "ConfigMap cmesh-rules-a still holds generation 7, of an earlier spec.");
    expect_condition(&m, "Enforced", "False", "NotPublished",
                     "1 of 1 pods enforce generation 7, of an earlier spec.");
    assert_string_equal(text_at(m.status, "enforced"), "1/1");
    assert_int_equal(m.result.enforced, STATUS_NO_RULES);
    made_free(&m);
    f.generation = 0;
    f.checksum = NULL;
    m = make(f);
    expect_condition(&m, "Published", "False", "NotCompiled", "There are no rules.");
    expect_condition(&m, "Enforced", "False", "NotPublished", "No rules are published.");
    assert_null(cJSON_GetObjectItem(m.status, "generation"));
    assert_null(cJSON_GetObjectItem(m.status, "checksum"));
    assert_string_equal(text_at(m.status, "enforced"), "0/1");
    expect_row(&m, 0,
               "{\"checksum\":\"sha256:aaaa\",\"generation\":7,\"message\":\"enforces generation "
               "7, which is newer than what is published\",\"name\":\"p\",\"since\":"
               "\"2025-12-31T23:00:00Z\"}");
    made_free(&m);
}

/* Both are valid, and one should know of both. */
static void test_a_spec_without_limits(void **state)
{
    (void)state;
    static const struct {
        bool lacks_limits;
        bool unlimited;
        const char *reason;
        const char *message;
    } cases[] = {
        {false, false, "Valid", "The spec is valid."},
        {false, true, "Valid", "The spec is valid. It has no limits: the shard sees everything."},
        {true, false, "LimitsMissing",
         "spec.limits is missing, so the shard sees nothing. Write limits: [] for a shard that "
         "sees everything."},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct status_facts f = published(NULL, 0);
        f.lacks_limits = cases[i].lacks_limits;
        f.unlimited = cases[i].unlimited;
        struct made m = make(f);
        expect_condition(&m, "Compiled", "True", cases[i].reason, cases[i].message);
        made_free(&m);
    }
}

static void test_rules_that_are_not_published(void **state)
{
    (void)state;
    struct status_facts f = published(NULL, 0);
    f.publish_reason = PUBLISH_OVERSIZED;
    f.publish_message = "the rules would need 1.2 MiB";
    struct made m = make(f);
    expect_condition(&m, "Compiled", "True", "Valid", "The spec is valid.");
    expect_condition(&m, "Published", "False", "TooLarge", "the rules would need 1.2 MiB");
    expect_condition(&m, "Enforced", "False", "NotPublished",
                     "0 of 0 pods enforce generation 7, of an earlier spec.");
    assert_int_equal(m.result.enforced, STATUS_NO_RULES);
    made_free(&m);
    f.publish_reason = PUBLISH_WAITS_FOR_HANDOVER;
    m = make(f);
    assert_int_equal(m.result.enforced, STATUS_HANDOVER);
    made_free(&m);
    f.generation = 0;
    m = make(f);
    expect_condition(&m, "Enforced", "False", "NotPublished", "No rules are published.");
    made_free(&m);
    f.publish_message = NULL;
    for (enum publish_reason i = PUBLISH_OK; i < PUBLISH_WAITS_FOR_LABELS; i++) {
        f.publish_reason = i;
        m = make(f);
        expect_condition(&m, "Published", "False", "Pending", "Publishing is pending.");
        made_free(&m);
    }
}

/* What stands in the ConfigMap may well be of this spec. */
static void test_a_spec_that_is_given_up(void **state)
{
    (void)state;
    struct status_facts f = published(NULL, 0);
    f.given_up = true;
    f.compile_error = "spec.limits: too much";
    struct made m = make(f);
    expect_condition(&m, "Compiled", "False", "OverBudget", "spec.limits: too much");
    expect_condition(&m, "Published", "False", "NotCompiled",
                     "ConfigMap cmesh-rules-a still holds generation 7, which stays in force.");
    made_free(&m);
    f.shows_nothing = true; /* pods without sidecars came before */
    m = make(f);
    expect_condition(
        &m, "Published", "False", "NotCompiled",
        "ConfigMap cmesh-rules-a still holds generation 7, which shows nothing: others "
        "had what the earlier spec named when it was published.");
    made_free(&m);
}

static void test_long_errors_are_cut(void **state)
{
    (void)state;
    char text[9000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    struct status_facts f = published(NULL, 0);
    f.compile_error = text;
    struct made m = make(f);
    assert_in_range(strlen(text_at(condition(&m, "Compiled"), "message")), 4000, 4096);
    made_free(&m);
    f.compile_error = NULL;
    f.publish_reason = PUBLISH_REFUSED;
    f.publish_message = text;
    m = make(f);
    assert_in_range(strlen(text_at(condition(&m, "Published"), "message")), 4000, 4096);
    made_free(&m);
}

/* What kstatus makes of the status: of its rules those that concern us. */
static const char *kstatus(const struct made *m)
{
    const cJSON *generation =
        cJSON_GetObjectItem(cJSON_GetObjectItem(m->config, "metadata"), "generation");
    const char *ready = text_at(condition(m, "Ready"), "status");
    if (!cJSON_Compare(generation, cJSON_GetObjectItem(m->status, "observedGeneration"), true)) {
        return "InProgress";
    }
    if (strcmp(text_at(find_condition(m, "Stalled"), "status"), "True") == 0) {
        return "Failed";
    }
    return strcmp(ready, "True") == 0 ? "Current" : "InProgress";
}

/* Ready and Stalled have reason and message of the condition `of`. */
static void expect_ready(struct status_facts f, const char *want, const char *of,
                         const char *reason)
{
    struct made m = make(f);
    const char *message = text_at(condition(&m, of), "message");
    bool ready = strcmp(want, "Current") == 0;
    assert_string_equal(kstatus(&m), want);
    assert_int_equal(m.result.ready, ready);
    expect_condition(&m, "Ready", ready ? "True" : "False", reason, message);
    if (strcmp(want, "Failed") == 0) {
        expect_condition(&m, "Stalled", "True", reason, message);
        assert_int_equal(
            cJSON_GetObjectItem(condition(&m, "Stalled"), "observedGeneration")->valuedouble, 5);
    } else {
        assert_null(find_condition(&m, "Stalled"));
    }
    made_free(&m);
}

static void test_ready(void **state)
{
    (void)state;
    struct probe_result r = enforcing(7);
    struct probe_result silent = probe(PROBE_SILENT, 7, "demo/a", "timed out");
    struct status_pod pods[] = {ready_pod("a", &r), ready_pod("b", &silent)};
    struct status_facts f = published(pods, 1);
    expect_ready(f, "Current", "Enforced", "Enforced");
    expect_ready(published(NULL, 0), "Current", "Enforced", "NoPods");
    expect_ready(published(pods, 2), "InProgress", "Enforced", "Silent");
    static const struct {
        enum publish_reason reason;
        const char *word;
        const char *want;
    } troubles[] = {{PUBLISH_PENDING, "Pending", "InProgress"},
                    {PUBLISH_WAITS_FOR_LABELS, "WaitingForLabels", "InProgress"},
                    {PUBLISH_WAITS_FOR_HANDOVER, "WaitingForHandover", "InProgress"},
                    {PUBLISH_REFUSED, "Refused", "InProgress"},
                    {PUBLISH_NAME_TAKEN, "NameTaken", "Failed"},
                    {PUBLISH_HELD_BACK, "HeldBack", "Failed"},
                    {PUBLISH_OVERSIZED, "TooLarge", "Failed"}};
    for (size_t i = 0; i < ARRAY_LEN(troubles); i++) {
        f.publish_reason = troubles[i].reason;
        expect_ready(f, troubles[i].want, "Published", troubles[i].word);
    }
    f.publish_reason = PUBLISH_OK;
    f.generation = 0;
    expect_ready(f, "InProgress", "Published", "Pending");
    f.compile_error = "spec: wrong";
    expect_ready(f, "Failed", "Compiled", "Invalid");
}

#define OLD(type, status, time)                                                                    \
    "{\"conditions\":[{\"type\":\"" type "\",\"status\":\"" status                                 \
    "\",\"lastTransitionTime\":\"" time "\"}]}"

static void test_labelled(void **state)
{
    (void)state;
    struct labelling labelling = {LABELLING_UNDER_WAY, "Being labelled: pods."};
    struct status_facts f = published(NULL, 0);
    f.labelling = &labelling;
    struct made m = make(f);
    expect_condition(&m, "Labelled", "False", "Labelling", "Being labelled: pods.");
    expect_condition(&m, "Ready", "True", "NoPods", "There are no pods.");
    made_free(&m);
    labelling = (struct labelling){LABELLING_OFF, "Nobody knows."};
    m = make_with(f, OLD("Labelled", "Unknown", "2025-05-05T00:00:00Z"));
    expect_condition(&m, "Labelled", "Unknown", "NotLabelling", "Nobody knows.");
    assert_string_equal(text_at(condition(&m, "Labelled"), "lastTransitionTime"),
                        "2025-05-05T00:00:00Z");
    made_free(&m);
}

static void test_covered(void **state)
{
    (void)state;
    struct covered covered = {.applies = true, .gaps = 2, .text = "In no shard: x, y."};
    struct status_facts f = published(NULL, 0);
    f.covered = &covered;
    struct made m = make(f);
    expect_condition(&m, "Covered", "False", "Gaps", "In no shard: x, y.");
    expect_condition(&m, "Ready", "True", "NoPods", "There are no pods.");
    made_free(&m);
    covered.overlaps = 1;
    m = make(f);
    expect_condition(&m, "Covered", "False", "Overlaps", "In no shard: x, y.");
    made_free(&m);
    covered = (struct covered){.applies = true, .text = "All."};
    m = make(f);
    expect_condition(&m, "Covered", "True", "Covered", "All.");
    char *text = cJSON_PrintUnformatted(m.status);
    made_free(&m);
    f.covered = NULL; /* not known yet to another leader: nothing changes */
    m = make_with(f, text);
    expect_condition(&m, "Covered", "True", "Covered", "All.");
    assert_false(m.result.changed);
    made_free(&m);
    covered.applies = false;
    f.covered = &covered;
    m = make_with(f, text);
    assert_null(find_condition(&m, "Covered"));
    made_free(&m);
    free(text);
}

static void test_when_a_condition_changed(void **state)
{
    (void)state;
    static const struct {
        const char *old;
        const char *time;
    } cases[] = {
        {"", "2026-01-01T00:00:00Z"},
        {OLD("Enforced", "True", "2025-05-05T00:00:00Z"), "2025-05-05T00:00:00Z"},
        {OLD("Enforced", "False", "2025-05-05T00:00:00Z"), "2026-01-01T00:00:00Z"},
        {OLD("Enforced", "Unknown", "2025-05-05T00:00:00Z"), "2026-01-01T00:00:00Z"},
        {OLD("Published", "True", "2025-05-05T00:00:00Z"), "2026-01-01T00:00:00Z"},
        {OLD("Enforced", "True", "yesterday"), "2026-01-01T00:00:00Z"},
        {"{\"conditions\":[null,7,{}]}", "2026-01-01T00:00:00Z"},
        {"{\"conditions\":\"x\"}", "2026-01-01T00:00:00Z"},
        {"[]", "2026-01-01T00:00:00Z"},
        {"null", "2026-01-01T00:00:00Z"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct made m = make_with(published(NULL, 0), cases[i].old);
        assert_string_equal(text_at(condition(&m, "Enforced"), "lastTransitionTime"),
                            cases[i].time);
        assert_true(m.result.changed);
        made_free(&m);
    }
}

static void test_nothing_new(void **state)
{
    (void)state;
    struct probe_result r = enforcing(7);
    struct probe_result old = enforcing(6);
    struct status_pod pods[] = {ready_pod("a", &r), ready_pod("b", &old)};
    struct status_facts f = published(pods, 2);
    struct made first = make(f);
    char *text = cJSON_PrintUnformatted(first.status);
    f.now_ms += 3600000;
    struct made m = make_with(f, text);
    assert_false(m.result.changed);
    made_free(&m);
    struct status_pod turned[] = {pods[1], pods[0]};
    f.pods = turned;
    m = make_with(f, text);
    assert_false(m.result.changed);
    made_free(&m);
    turned[0].probe = &r; /* the condition turns, the others stay as old as they were */
    m = make_with(f, text);
    assert_true(m.result.changed);
    assert_string_equal(text_at(condition(&m, "Enforced"), "lastTransitionTime"),
                        "2026-01-01T01:00:00Z");
    assert_string_equal(text_at(condition(&m, "Published"), "lastTransitionTime"),
                        "2026-01-01T00:00:00Z");
    made_free(&m);
    free(text);
    made_free(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_enforced),
        cmocka_unit_test(test_no_pods),
        cmocka_unit_test(test_pods_that_are_late),
        cmocka_unit_test(test_pods_that_do_not_answer),
        cmocka_unit_test(test_pods_whose_rules_have_expired),
        cmocka_unit_test(test_pods_that_refuse),
        cmocka_unit_test(test_other_rules),
        cmocka_unit_test(test_no_sidecar),
        cmocka_unit_test(test_no_sidecar_where_no_webhook_looks),
        cmocka_unit_test(test_refused_by_another_version),
        cmocka_unit_test(test_connections_around_the_proxy),
        cmocka_unit_test(test_no_client_ever),
        cmocka_unit_test(test_overlapping),
        cmocka_unit_test(test_pods_that_start),
        cmocka_unit_test(test_pods_that_end),
        cmocka_unit_test(test_the_worst_is_the_reason),
        cmocka_unit_test(test_only_a_few_are_named),
        cmocka_unit_test(test_only_so_many_rows),
        cmocka_unit_test(test_a_spec_that_makes_no_sense),
        cmocka_unit_test(test_a_spec_without_limits),
        cmocka_unit_test(test_rules_that_are_not_published),
        cmocka_unit_test(test_a_spec_that_is_given_up),
        cmocka_unit_test(test_long_errors_are_cut),
        cmocka_unit_test(test_ready),
        cmocka_unit_test(test_labelled),
        cmocka_unit_test(test_covered),
        cmocka_unit_test(test_when_a_condition_changed),
        cmocka_unit_test(test_nothing_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
