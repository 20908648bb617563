/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies for requests to other places than the API server: what is in force, who is told, and
 * what is said of them.
 */
#include "traffic/policies.h"

#include <string.h>

#include "fake_clock.h"
#include "loop_fixture.h"
#include "temp_dir.h"
#include "traffic_document.h"

#define WHITE(name, contents)                                                                      \
    "{\"name\":\"" name                                                                            \
    "\",\"interceptType\":\"Whitelist\",\"contentType\":\"Regexp\",\"contents\":[" contents        \
    "],\"methods\":[\"*\"]}"
#define INTERCEPTS(pods, rules)                                                                    \
    "{\"breakers\":[{\"name\":\"guard\",\"uid\":\"u\",\"spec\":{\"selector\":{" pods               \
    "},\"trafficInterceptRules\":[" rules "]}}]}"
#define URLS(url) "\"restRules\":[{\"url\":\"" url "\",\"method\":\"*\"}]"

struct scene {
    struct net_loop *loop;
    struct fake_clock clock;
    struct temp_dir dir;
    struct policies *policies;
    unsigned told;       /* by policies_on_intercepts */
    bool allowed;        /* then */
    bool names_loopback; /* then */
    bool changed;        /* by policies_on_changed */
};

static const struct traffic_external get_a = {
    .host = SLICE("a"), .port = 80, .path = SLICE("/x/y"), .method = SLICE("GET")};
static const struct traffic_external tunnel_a = {
    .tunnel = true, .host = SLICE("a"), .port = 443, .method = SLICE("CONNECT")};

static bool allows(struct scene *s, const struct traffic_external *r)
{
    struct buf why = BUF_INIT(1024);
    bool allowed = policies_allow_external(s->policies, r, &why);
    assert_int_equal(allowed, why.len == 0);
    buf_reset(&why);
    return allowed;
}

static void on_intercepts(void *data)
{
    struct scene *s = data;
    s->told++;
    s->allowed = allows(s, &get_a);
    s->names_loopback = policies_name_address(s->policies, SLICE("127.0.0.1"), 80);
}

static void on_changed(void *data)
{
    ((struct scene *)data)->changed = true;
}

static int setup(void **state)
{
    static struct scene s;
    void *loop;
    if (loop_setup(&loop) != 0) {
        return -1;
    }
    memset(&s, 0, sizeof s);
    s.loop = loop;
    temp_dir_init(&s.dir);
    fake_clock_init(&s.clock, s.loop);
    *state = &s;
    return 0;
}

static int teardown(void **state)
{
    struct scene *s = *state;
    void *loop = s->loop;
    policies_free(s->policies);
    fake_clock_forget(&s->clock);
    temp_dir_deinit(&s->dir);
    return loop_teardown(&loop);
}

static void begin(struct scene *s, const char *labels)
{
    struct err e = ERR_INIT;
    const struct policies_options o = {.clock = &s->clock.clock, .pod_labels = labels, .seed = 1};
    s->policies = policies_new(s->loop, &o, &e);
    assert_non_null(s->policies);
    policies_on_intercepts(s->policies, on_intercepts, s);
    policies_on_changed(s->policies, on_changed, s);
}

/* NULL: none. */
static void put_in_force(struct scene *s, const char *spec)
{
    struct traffic *t = spec != NULL ? traffic_document(1, spec) : NULL;
    assert_int_equal(policies_set(s->policies, t), 0);
    traffic_unref(t);
}

static void test_documents(void **state)
{
    struct scene *s = *state;
    begin(s, NULL);
    assert_false(policies_have_external(s->policies));
    assert_true(allows(s, &get_a));
    assert_false(policies_name_address(s->policies, SLICE("127.0.0.1"), 80));
    put_in_force(s, INTERCEPTS("", WHITE("w", "\"^a\",\"^127\\\\.\"")));
    assert_int_equal(s->told, 1);
    assert_true(s->allowed);
    assert_true(s->names_loopback);
    assert_true(policies_have_external(s->policies));
    assert_false(policies_have_breakers(s->policies));
    put_in_force(s, INTERCEPTS("", WHITE("w", "\"^b\"")));
    assert_int_equal(s->told, 2);
    assert_false(s->allowed);
    assert_false(s->names_loopback);
    /* After the last Whitelist rule everything is allowed again. */
    put_in_force(s, "{}");
    assert_int_equal(s->told, 3);
    assert_true(s->allowed);
    assert_false(policies_have_external(s->policies));
    put_in_force(s, NULL);
    assert_int_equal(s->told, 4);
    assert_true(s->allowed);
}

static void test_labels(void **state)
{
    struct scene *s = *state;
    char path[256];
    temp_dir_write(&s->dir, "labels", "app=\"red\"\n", 0600);
    begin(s, temp_dir_path(&s->dir, "labels", path));
    put_in_force(s, INTERCEPTS("\"matchLabels\":{\"app\":\"blue\"}", WHITE("w", "\"^b\"")));
    assert_int_equal(s->told, 1);
    assert_true(s->allowed);
    assert_false(policies_have_external(s->policies));
    s->changed = false;
    temp_dir_write(&s->dir, "labels", "app=\"blue\"\n", 0600);
    run_until(s->loop, &s->changed);
    assert_int_equal(s->told, 2);
    assert_false(s->allowed);
    assert_true(policies_have_external(s->policies));
}

/* ---- limitings and faults ---- */

static bool admit(struct scene *s, const struct traffic_external *r, char *text, size_t size)
{
    struct passage passage = {.faulted = false};
    struct buf why = BUF_INIT(1024);
    unsigned retry_after = 0;
    bool admitted = policies_admit_external(s->policies, r, &passage, &why, &retry_after);
    assert_int_equal(admitted, passage.charged);
    (void)snprintf(text, size, "%s", why.len > 0 ? buf_cstr(&why) : "");
    passage_end(&passage);
    buf_reset(&why);
    return admitted;
}

/* One bucket for what goes to the API server and elsewhere. */
static void test_one_state_for_both(void **state)
{
    struct scene *s = *state;
    struct passage passage = {.faulted = false};
    struct buf why = BUF_INIT(1024);
    char text[256];
    unsigned retry_after;
    const struct traffic_request pods = {
        .namespace = SLICE("n"), .resource = SLICE("pods"), .verb = SLICE("get")};
    begin(s, NULL);
    assert_true(admit(s, &get_a, text, sizeof text));
    put_in_force(
        s,
        TRAFFIC_SPEC(TRAFFIC_BREAKER(
                         "guard", TRAFFIC_LIMITING("r", TRAFFIC_EVERYTHING "," URLS("http://a/x/*"),
                                                   TRAFFIC_LIMITER(2, 0, 1000))),
                     ""));
    assert_true(policies_have_external(s->policies) && policies_have_breakers(s->policies));
    assert_true(admit(s, &tunnel_a, text, sizeof text)); /* is not for it */
    assert_true(admit(s, &get_a, text, sizeof text));
    assert_true(policies_admit(s->policies, &pods, &passage, &why, &retry_after));
    assert_false(admit(s, &get_a, text, sizeof text));
    assert_string_equal(text, "circuitbreaker \"ns/guard\" rule \"r\": over the limit of 0 in 1s");
    passage_end(&passage);
    buf_reset(&why);
}

static void test_faults(void **state)
{
    struct scene *s = *state;
    struct fault_drawn drawn;
    begin(s, NULL);
    policies_draw_external(s->policies, &get_a, &drawn);
    assert_null(drawn.set);
    put_in_force(
        s, TRAFFIC_SPEC(
               "", TRAFFIC_FAULTS(
                       "slow", TRAFFIC_FAULT("r", "\"httpMatch\":[{\"path\":{\"regex\":\"^/x\"}}]",
                                             TRAFFIC_ABORT(418, 100)))));
    assert_true(policies_have_external(s->policies));
    assert_false(policies_have_faults(s->policies));
    policies_draw_external(s->policies, &tunnel_a, &drawn);
    assert_null(fault_drawn_abort(&drawn));
    policies_draw_external(s->policies, &get_a, &drawn);
    assert_non_null(fault_drawn_abort(&drawn));
    assert_int_equal(fault_drawn_abort(&drawn)->rule->abort_status, 418);
    /* Not when the rule is gone in between. */
    put_in_force(s, NULL);
    assert_null(fault_drawn_abort(&drawn));
    fault_drawn_release(&drawn);
}

/* ---- what is said ---- */

static const char *describe(struct scene *s, const struct policies_view *view)
{
    static char text[65536];
    cJSON *root = cJSON_CreateObject();
    policies_describe(s->policies, view, root);
    assert_true(cJSON_PrintPreallocated(root, text, sizeof text, false));
    cJSON_Delete(root);
    return text;
}

static void expect(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("no %s in %s", part, text);
    }
}

static void test_what_is_told(void **state)
{
    struct scene *s = *state;
    const struct policies_view all = {.rules = 256, .bytes = SIZE_MAX};
    const struct policies_view rough = {.rules = 256, .bytes = SIZE_MAX, .rough = true};
    const struct policies_view one = {.rules = 1, .bytes = SIZE_MAX};
    struct buf metrics = BUF_INIT(1 << 20);
    begin(s, NULL);
    put_in_force(s, INTERCEPTS("", WHITE("w", "\"^b\"") "," WHITE("v", "\"(c+)+$\"")));
    s->told = 0;
    expect(describe(s, &all), "\"intercepts\":[{\"policy\":\"guard\",\"uid\":\"u\",\"rule\":\"w\","
                              "\"refused\":1},{\"policy\"");
    (void)allows(s, &get_a);
    expect(describe(s, &all), "\"rule\":\"w\",\"refused\":2}");
    expect(describe(s, &rough), "\"rule\":\"w\",\"refused\":1}");
    expect(describe(s, &one), "\"refused\":2}],\"leftOut\":1}");
    assert_int_equal(policies_write_metrics(s->policies, 0, 0, &metrics), 0);
    expect(buf_cstr(&metrics),
           "\ncmesh_proxy_intercepts_refused_total{policy=\"guard\",rule=\"w\"} 2\n");
    expect(buf_cstr(&metrics), "\ncmesh_proxy_patterns_exhausted_total 0\n");
    buf_reset(&metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_documents, setup, teardown),
        cmocka_unit_test_setup_teardown(test_labels, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_state_for_both, setup, teardown),
        cmocka_unit_test_setup_teardown(test_faults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_told, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
