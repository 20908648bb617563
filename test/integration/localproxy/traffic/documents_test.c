/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where traffic documents and the pod's labels come from, and what is told of them.
 */
#include "control/documents.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "localproxy/reload_fixture.h"
#include "temp_dir.h"
#include "traffic_document.h"
#include "json/json.h"

#define OWN "app"
#define OPEN "\"triggerPolicy\":\"ForceOpened\""
#define ONE(name, pods, rest)                                                                      \
    "{\"breakers\":[{\"name\":\"" name "\",\"uid\":\"u\",\"spec\":{\"selector\":{" pods            \
    "},\"rateLimitings\":[" TRAFFIC_LIMITING("a", TRAFFIC_RESOURCES("pods", "delete"),             \
                                             rest) "]}}]}"
#define WEB "\"matchLabels\":{\"app\":\"web\"}"
#define NO_APP "\"matchExpressions\":[{\"key\":\"app\",\"operator\":\"DoesNotExist\"}]"

static struct temp_dir dir;
static struct documents *documents;
static char rules_path[256];
static char labels_path[256];

static void write_traffic(unsigned generation, const char *spec)
{
    char *text = traffic_document_text(generation, spec);
    temp_dir_write(&dir, "traffic.json", text, 0600);
    free(text);
}

static void remove_traffic(void)
{
    char path[256];
    (void)unlink(temp_dir_path(&dir, "traffic.json", path));
}

static int setup(void **state)
{
    temp_dir_init(&dir);
    if (fixture_setup_with_policies(state) != 0) {
        return -1;
    }
    struct fixture *f = *state;
    f->flags.rules = temp_dir_path(&dir, "rules.json", rules_path);
    return 0;
}

static void open_documents(struct fixture *f)
{
    struct err e = ERR_INIT;
    documents = documents_new(&f->flags, f->proxy, f->policies, &e);
    assert_non_null(documents);
}

static int teardown(void **state)
{
    documents_free(documents);
    documents = NULL;
    int rc = fixture_teardown(state);
    temp_dir_deinit(&dir);
    return rc;
}

/* What stands at "traffic"; until the next call. */
static const char *describe(struct fixture *f, size_t rules, size_t bytes, bool rough)
{
    static char text[65536];
    const struct policies_view view = {.rules = rules, .bytes = bytes, .rough = rough};
    cJSON *root = cJSON_CreateObject();
    policies_describe(f->policies, &view, root);
    assert_true(cJSON_PrintPreallocated(root, text, sizeof text, false));
    cJSON_Delete(root);
    return text;
}

static void expect_told(struct fixture *f, const char *part)
{
    const char *text = describe(f, 256, SIZE_MAX, false);
    if (strstr(text, part) == NULL) {
        fail_msg("no \"%s\" in %s", part, text);
    }
}

static void test_the_file_beside_the_rules(void **state)
{
    struct fixture *f = *state;
    write_traffic(3, ONE("guard", "", OPEN));
    open_documents(f);
    assert_int_equal(traffic_generation(policies_document(f->policies)), 3);
    expect_told(f, "\"reads\":\"cmesh/v1\",\"shard\":{\"namespace\":\"ns\",\"name\":\"shard\"},"
                   "\"generation\":3,\"checksum\":\"sha256:");
    expect_told(f, "\"breakers\":[{\"policy\":\"guard\",\"uid\":\"u\",\"rule\":\"a\",\"state\":"
                   "\"Opened\",\"since\":\"2026-01-01T00:00:0");
    expect_told(f, "\"why\":\"ForceOpened\",\"refused\":0}],\"faults\":[],"
                   "\"intercepts\":[],\"leftOut\":0}");
    write_traffic(2, ONE("other", "", OPEN)); /* they have no order */
    documents_read_again(documents);
    expect_told(f, "\"policy\":\"other\"");
    remove_traffic();
    documents_read_again(documents);
    assert_null(policies_document(f->policies));
    expect_told(f, "\"inForce\":false,\"reads\":\"cmesh/v1\",\"breakers\":[]");
}

static void test_a_bad_document_changes_nothing(void **state)
{
    struct fixture *f = *state;
    write_traffic(3, ONE("guard", "", OPEN));
    open_documents(f);
    write_traffic(4, "{\"breakers\":[{}]}");
    documents_read_again(documents);
    assert_int_equal(traffic_generation(policies_document(f->policies)), 3);
    expect_told(f, "\"error\":\"");
    expect_told(f, "traffic.json: ");
    write_traffic(3, ONE("guard", "", OPEN));
    documents_read_again(documents);
    assert_null(strstr(describe(f, 256, SIZE_MAX, false), "\"error\""));
}

/* What a newer manager may write, with what is not known here. */
static void test_a_newer_document_changes_nothing(void **state)
{
    struct fixture *f = *state;
    write_traffic(3, ONE("guard", "", OPEN));
    open_documents(f);
    temp_dir_write(&dir, "traffic.json", "{\"apiVersion\":\"cmesh/v2\",\"spec\":{}}", 0600);
    documents_read_again(documents);
    assert_int_equal(traffic_generation(policies_document(f->policies)), 3);
    expect_told(f, "apiVersion: Unsupported value: \\\"cmesh/v2\\\": supported values: "
                   "\\\"cmesh/v1\\\"");
    write_traffic(4, ONE("guard", "", OPEN ",\"queue\":{}"));
    documents_read_again(documents);
    assert_int_equal(traffic_generation(policies_document(f->policies)), 3);
    expect_told(f, "rateLimitings[0].queue: Forbidden: unknown field");
    expect_told(f, "\"inForce\":true");
}

static void test_none_at_the_start(void **state)
{
    struct fixture *f = *state;
    open_documents(f);
    assert_null(policies_document(f->policies));
    assert_null(strstr(describe(f, 256, SIZE_MAX, false), "\"error\""));
}

static void test_a_bad_one_at_the_start(void **state)
{
    struct fixture *f = *state;
    temp_dir_write(&dir, "traffic.json", "{", 0600);
    open_documents(f);
    assert_null(policies_document(f->policies));
    expect_told(f, "\"inForce\":false,\"reads\":\"cmesh/v1\",\"error\":\"");
}

static void test_of_another_shard(void **state)
{
    struct fixture *f = *state;
    static const char other[] =
        "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardTraffic\",\"shard\":{\"namespace\":\"ns\","
        "\"name\":\"other\"},\"generation\":3,\"spec\":{}}";
    struct err e = ERR_INIT;
    struct control_call call;
    open_documents(f);
    fixture_limit(f, OWN);
    assert_int_equal(documents_handlers.reload(documents, slice_str(other), &call, &e), -ESTALE);
    assert_string_equal(e.msg, "these are traffic policies of shard ns/other, but the rules of "
                               "shard ns/shard are in force");
    expect_told(f, "\"error\":\"these are");
    assert_int_equal(documents_handlers.reload(documents, SLICE("{"), &call, &e), -EINVAL);
    proxy_drain(f->proxy);
    assert_int_equal(documents_handlers.reload(documents, slice_str(other), &call, &e), -ESHUTDOWN);
    assert_int_equal(documents_handlers.remove(documents, &e), -ESHUTDOWN);
}

static void test_they_are_taken_away(void **state)
{
    struct fixture *f = *state;
    struct control_state now;
    struct err e = ERR_INIT;
    write_traffic(3, ONE("guard", "", OPEN));
    open_documents(f);
    documents_handlers.describe(documents, &now);
    assert_true(now.enforcing);
    assert_int_equal(now.generation, 3);
    assert_int_equal(documents_handlers.remove(documents, &e), 0);
    documents_handlers.describe(documents, &now);
    assert_false(now.enforcing);
    assert_null(policies_document(f->policies));
}

/* One that rulesync does not take, as of a later format, never comes here. */
static void test_what_rulesync_says_is_told(void **state)
{
    struct fixture *f = *state;
    write_traffic(3, ONE("guard", "", OPEN));
    open_documents(f);
    documents_handlers.heard(documents, "spec.breakers[0]: unknown field \"\xff\"");
    expect_told(f, "\"error\":\"spec.breakers[0]: unknown field ");
    assert_int_equal(traffic_generation(policies_document(f->policies)), 3);
    documents_handlers.heard(documents, "");
    assert_null(strstr(describe(f, 256, SIZE_MAX, false), "\"error\""));
}

/* ---- which pods ---- */

static void expect_labels(struct fixture *f, const char *part)
{
    for (int i = 0; i < 2000; i++) {
        if (strstr(describe(f, 256, SIZE_MAX, false), part) != NULL) {
            return;
        }
        run_for(f->api->loop, 1);
    }
    fail_msg("no \"%s\" in %s", part, describe(f, 256, SIZE_MAX, false));
}

/* As the kubelet does. */
static void write_labels(const char *text)
{
    char path[256];
    char at[256];
    temp_dir_write(&dir, "labels.new", text, 0600);
    assert_int_equal(
        rename(temp_dir_path(&dir, "labels.new", path), temp_dir_path(&dir, "labels", at)), 0);
}

static void test_the_labels_decide(void **state)
{
    struct fixture *f = *state;
    write_labels("app=\"web\"\n");
    f->flags.pod_labels = temp_dir_path(&dir, "labels", labels_path);
    fixture_restart(f);
    open_documents(f);
    fixture_traffic(f, ONE("guard", WEB, OPEN));
    assert_true(policies_have_breakers(f->policies));
    expect_told(f, "\"policy\":\"guard\"");
    write_labels("app=\"other\"\n");
    expect_labels(f, "\"breakers\":[]");
    assert_false(policies_have_breakers(f->policies));
    write_labels("app=other\n");
    expect_labels(f, "\"error\":\"");
    expect_told(f, "labels: line 1: the value is not in quotes");
    write_labels("app=\"web\"\n");
    expect_labels(f, "\"policy\":\"guard\"");
    assert_null(strstr(describe(f, 256, SIZE_MAX, false), "\"error\""));
}

static void test_without_labels(void **state)
{
    struct fixture *f = *state;
    open_documents(f);
    fixture_traffic(f, ONE("guard", WEB, OPEN));
    assert_false(policies_have_breakers(f->policies));
    expect_told(f,
                "\"error\":\"the pod's labels are not known (--pod-labels): 1 of the policies do "
                "not select it\"");
    fixture_traffic(f, ONE("guard", NO_APP, OPEN));
    assert_true(policies_have_breakers(f->policies));
    assert_null(strstr(describe(f, 256, SIZE_MAX, false), "\"error\""));
    f->flags.pod_labels = temp_dir_path(&dir, "nothing", labels_path);
    fixture_restart(f);
    expect_told(f, "nothing");
}

/* ---- what is told ---- */

/* The last one is open. The caller frees. */
static char *many(int rules)
{
    struct buf spec = BUF_INIT(TRAFFIC_TEXT_MAX);
    buf_append_str(
        &spec, "{\"breakers\":[{\"name\":\"guard\",\"spec\":{\"selector\":{},\"rateLimitings\":[");
    for (int i = 0; i < rules; i++) {
        buf_printf(&spec, "%s{\"name\":\"rule-%d\"," TRAFFIC_RESOURCES("pods", "delete") ",%s}",
                   i > 0 ? "," : "", i, i == rules - 1 ? OPEN : TRAFFIC_LIMITER(1, 1, 1000));
    }
    buf_append_str(&spec, "]}}]}");
    return buf_take_str(&spec);
}

static void test_bounds_of_what_is_told(void **state)
{
    struct fixture *f = *state;
    struct buf metrics = BUF_INIT(1024 * 1024);
    char *spec = many(300);
    fixture_traffic(f, spec);
    free(spec);
    const char *text = describe(f, 256, SIZE_MAX, false);
    assert_non_null(strstr(text, "\"leftOut\":44"));
    assert_non_null(strstr(text, "\"breakers\":[{\"policy\":\"guard\",\"rule\":\"rule-299\","));
    text = describe(f, 256, 2000, true);
    assert_true(strlen(text) <= 2000);
    assert_true(strlen(text) > 1800);
    assert_non_null(strstr(text, "\"breakers\":[{\"policy\":\"guard\",\"rule\":\"rule-299\","));
    text = describe(f, 256, 0, true);
    assert_non_null(
        strstr(text, "\"breakers\":[],\"faults\":[],\"intercepts\":[],\"leftOut\":300"));
    assert_int_equal(policies_write_metrics(f->policies, 0, 0, &metrics), 0);
    text = buf_cstr(&metrics);
    assert_non_null(
        strstr(text, "cmesh_proxy_breaker_state{policy=\"guard\",rule=\"rule-254\"} 0\n"));
    assert_null(strstr(text, "cmesh_proxy_breaker_state{policy=\"guard\",rule=\"rule-255\"}"));
    assert_non_null(
        strstr(text, "cmesh_proxy_breaker_state{policy=\"guard\",rule=\"rule-299\"} 1\n"));
    assert_non_null(strstr(text, "rule-255\""));
    assert_null(strstr(text, "rule-256"));
    buf_reset(&metrics);
}

/* Behind the limitings of a breaker. */
static void append_intercepts(struct buf *spec, const char *rule)
{
    buf_append_str(spec, "],\"trafficInterceptRules\":[");
    for (int k = 0; k < 8; k++) {
        buf_printf(
            spec,
            "%s{\"name\":\"%s%d\",\"interceptType\":\"Blacklist\",\"contentType\":\"Normal\","
            "\"contents\":[\"a\"],\"methods\":[\"*\"]}",
            k > 0 ? "," : "", rule, k);
    }
}

/* However many others there are, and however little room. */
static void test_refused_requests_are_told_first(void **state)
{
    struct fixture *f = *state;
    struct buf why = BUF_INIT(ERR_MSG_MAX);
    const struct traffic_external r = {
        .tunnel = true, .host = SLICE("last.example"), .port = 443, .method = SLICE("CONNECT")};
    char *spec = many(300);
    struct buf all = BUF_INIT(TRAFFIC_TEXT_MAX);
    buf_append(&all, spec, strlen(spec) - 5); /* without the ends of breakers */
    buf_append_str(&all, "],\"trafficInterceptRules\":[");
    for (int i = 0; i < 100; i++) {
        buf_printf(
            &all,
            "{\"name\":\"host-%d\",\"interceptType\":\"Blacklist\",\"contentType\":\"Normal\","
            "\"contents\":[\"%s\"],\"methods\":[\"*\"]}%s",
            i, i == 99 ? "last.example" : "other.example", i == 99 ? "]}}]}" : ",");
    }
    fixture_traffic(f, buf_cstr(&all));
    assert_false(policies_allow_external(f->policies, &r, &why));
    static const char told[] = "\"intercepts\":[{\"policy\":\"guard\",\"rule\":\"host-99\","
                               "\"refused\":1}";
    expect_told(f, told);
    assert_non_null(strstr(describe(f, 256, 1000, true), told));
    buf_reset(&why);
    buf_reset(&all);
    free(spec);
}

/* With the longest names that there may be: all the rest of the page must find its place, too. */
static void test_long_names_do_not_burst_the_page(void **state)
{
    struct fixture *f = *state;
    struct buf spec = BUF_INIT(TRAFFIC_TEXT_MAX);
    struct buf metrics = BUF_INIT(POLICIES_METRICS_MAX);
    char rule[2 * 63 + 1];
    for (size_t i = 0; i < sizeof rule - 1; i++) {
        rule[i] = '\\'; /* two of them are one character, of which a metric makes two */
    }
    rule[sizeof rule - 7] = '\0';
    for (int faults = 0; faults < 2; faults++) {
        buf_printf(&spec, "%s\"%s\":[", faults == 0 ? "{" : "],",
                   faults == 0 ? "breakers" : "faults");
        for (int i = 0; i < 32; i++) {
            buf_printf(
                &spec,
                "%s{\"name\":\"p%02d.%062d.%062d.%062d.%058d\",\"spec\":{\"selector\":{},\"%s\":[",
                i > 0 ? "," : "", i, 0, 0, 0, 0, faults == 0 ? "rateLimitings" : "httpFault");
            for (int k = 0; k < 8; k++) {
                buf_printf(&spec, "%s{\"name\":\"%s%d\",%s}", k > 0 ? "," : "", rule, k,
                           faults == 0 ? TRAFFIC_RESOURCES("pods", "delete") "," OPEN
                                       : "\"match\":{" TRAFFIC_MATCH(
                                             "pods", "delete") "}," TRAFFIC_ABORT(500, 100));
            }
            if (faults == 0) {
                append_intercepts(&spec, rule);
            }
            buf_append_str(&spec, "]}}");
        }
    }
    buf_append_str(&spec, "]}");
    fixture_traffic(f, buf_cstr(&spec));
    buf_reset(&spec);
    assert_int_equal(policies_write_metrics(f->policies, 0, 0, &metrics), 0);
    assert_true(metrics.len > POLICIES_METRICS_MAX / 2);
    assert_non_null(strstr(buf_cstr(&metrics), "\ncmesh_proxy_breaker_refused_total{"));
    assert_non_null(strstr(buf_cstr(&metrics), "\ncmesh_proxy_faults_total{"));
    assert_non_null(strstr(buf_cstr(&metrics), "\ncmesh_proxy_intercepts_refused_total{"));
    assert_non_null(strstr(buf_cstr(&metrics), "\ncmesh_proxy_traffic_generation 1\n"));
    buf_reset(&metrics);
}

static void test_metrics(void **state)
{
    struct fixture *f = *state;
    struct buf metrics = BUF_INIT(1024 * 1024);
    struct client c;
    fixture_limit(f, OWN);
    fixture_traffic(
        f, TRAFFIC_SPEC(
               TRAFFIC_BREAKER("guard",
                               TRAFFIC_LIMITING("a", TRAFFIC_RESOURCES("pods", "delete"), OPEN)),
               TRAFFIC_FAULTS("slow", TRAFFIC_FAULT("b", "\"resources\":[{\"verbs\":[\"get\"]}]",
                                                    TRAFFIC_ABORT(500, 100)))));
    client_open(f, &c);
    client_send(&c, "DELETE /api/v1/namespaces/a/pods/x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    fixture_expect(f, &c, "429");
    client_close(&c);
    fixture_get(f, &c, "/api/v1/namespaces/a/pods/x");
    fixture_expect(f, &c, "500");
    client_close(&c);
    assert_int_equal(policies_write_metrics(f->policies, 4, 5, &metrics), 0);
    static const char *const lines[] = {
        "cmesh_proxy_breaker_state{policy=\"guard\",rule=\"a\"} 1\n",
        "cmesh_proxy_breaker_refused_total{policy=\"guard\",rule=\"a\",why=\"over_limit\"} 0\n",
        "cmesh_proxy_breaker_refused_total{policy=\"guard\",rule=\"a\",why=\"too_many\"} 0\n",
        "cmesh_proxy_breaker_refused_total{policy=\"guard\",rule=\"a\",why=\"open\"} 1\n",
        "cmesh_proxy_faults_total{policy=\"slow\",rule=\"b\",kind=\"delay\"} 0\n",
        "cmesh_proxy_faults_total{policy=\"slow\",rule=\"b\",kind=\"abort\"} 1\n",
        "cmesh_proxy_delayed_requests 4\n",
        "cmesh_proxy_delays_skipped_total 5\n",
        "cmesh_proxy_traffic_generation 1\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (strstr(buf_cstr(&metrics), lines[i]) == NULL) {
            fail_msg("no %s in %s", lines[i], buf_cstr(&metrics));
        }
    }
    buf_reset(&metrics);
    expect_told(f, "\"refused\":1}");
    expect_told(f, "\"delayed\":0,\"aborted\":1}");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_file_beside_the_rules),
        TEST(test_a_bad_document_changes_nothing),
        TEST(test_a_newer_document_changes_nothing),
        TEST(test_none_at_the_start),
        TEST(test_a_bad_one_at_the_start),
        TEST(test_of_another_shard),
        TEST(test_they_are_taken_away),
        TEST(test_what_rulesync_says_is_told),
        TEST(test_the_labels_decide),
        TEST(test_without_labels),
        TEST(test_bounds_of_what_is_told),
        TEST(test_refused_requests_are_told_first),
        TEST(test_metrics),
        TEST(test_long_names_do_not_burst_the_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
