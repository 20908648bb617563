/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovery against a scripted API server. With a random number of 0 the pauses after failures are
 * 1, 2, 4, ... s.
 */
#include "kube/client/discovery.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "scripted_api.h"

#define VERSIONS "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"]}"
#define GROUP(name, version)                                                                       \
    "{\"name\":\"" name "\",\"versions\":[{\"version\":\"" version                                 \
    "\"}],\"preferredVersion\":{\"version\":\"" version "\"}}"
#define GROUPS(groups) "{\"kind\":\"APIGroupList\",\"groups\":[" groups "]}"
#define RESOURCES(plural, kind)                                                                    \
    "{\"kind\":\"APIResourceList\",\"resources\":[{\"name\":\"" plural "\",\"kind\":\"" kind       \
    "\",\"namespaced\":true,\"verbs\":[\"list\"]}]}"
#define ALL(group, plural, kind, freshness)                                                        \
    "{\"kind\":\"APIGroupDiscoveryList\",\"items\":[{\"metadata\":{\"name\":\"" group              \
    "\"},\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"" plural                 \
    "\",\"responseKind\":{\"kind\":\"" kind                                                        \
    "\"},\"scope\":\"Namespaced\"}],\"freshness\":\"" freshness "\"}]}]}"

struct user {
    struct scripted_api api;
    struct discovery *discovery;
    unsigned changes;
    unsigned complete; /* rounds, as told */
    char state[ERR_MSG_MAX];
    bool free_on_change;
    bool free_on_state;
    bool free_on_complete;
    bool refresh_on_change;
};

static void forget(struct user *u)
{
    discovery_free(u->discovery);
    discovery_free(NULL);
    u->discovery = NULL;
}

static void on_change(void *data)
{
    struct user *u = data;
    u->changes++;
    if (u->refresh_on_change) {
        discovery_refresh(u->discovery);
    }
    if (u->free_on_change) {
        forget(u);
    }
}

static void on_state(void *data, const char *error, enum log_level level)
{
    (void)level;
    struct user *u = data;
    (void)snprintf(u->state, sizeof u->state, "%s", error == NULL ? "fine" : error);
    if (u->free_on_state) {
        forget(u);
    }
}

static void on_complete(void *data)
{
    struct user *u = data;
    u->complete++;
    if (u->free_on_complete) {
        forget(u);
    }
}

static const struct discovery_handlers handlers = {
    .on_change = on_change, .on_state = on_state, .on_complete = on_complete};

static int setup(void **state)
{
    struct net_loop *l = NULL;
    struct user *u = calloc(1, sizeof *u);
    if (u == NULL || loop_setup((void **)&l) != 0 || !api_open(&u->api, l)) {
        return -1;
    }
    struct discovery_options o = {.client = u->api.client, .clock = &u->api.clock.clock};
    u->discovery = discovery_new(l, &o, &handlers, u);
    *state = u;
    return u->discovery == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    struct user *u = *state;
    struct net_loop *l = u->api.loop;
    discovery_free(u->discovery);
    api_close(&u->api);
    free(u);
    return loop_free(l);
}

/* The request for that target, whichever came first. */
static struct api_request *expect_request(struct user *u, const char *target)
{
    struct scripted_api *a = &u->api;
    for (int turn = 0; turn < 2000; turn++) {
        fake_clock_pass(&a->clock, 0);
        run_for(a->loop, 1);
        LIST_FOR_EACH(n, &a->requests)
        {
            struct api_request *q = LIST_ITEM(n, struct api_request, link);
            if (q->whole && strcmp(q->target, target) == 0) {
                return q;
            }
        }
    }
    fail_msg("nobody asks for %s", target);
    abort();
}

static void answer(struct user *u, const char *target, const char *body)
{
    api_answer(expect_request(u, target), 200, NULL, body);
}

static void refuse(struct user *u, const char *target, unsigned status)
{
    api_answer(expect_request(u, target), status, NULL, "");
}

static void settle(struct user *u)
{
    fake_clock_pass(&u->api.clock, 0);
    run_for(u->api.loop, 10);
    assert_true(list_empty(&u->api.requests));
}

/* It rests for exactly so long. */
static void pass(struct user *u, uint64_t ms)
{
    settle(u);
    fake_clock_pass(&u->api.clock, ms - 1);
    settle(u);
    fake_clock_pass(&u->api.clock, 1);
}

/* The one of that kind in "v1" or "apps/v1"; NULL: there is none. */
static const struct discovery_resource *find_kind(const struct discovery *d,
                                                  const char *group_version, const char *kind)
{
    size_t count;
    const struct discovery_resource *r = discovery_all(d, &count);
    for (; count > 0; count--, r++) {
        char text[256];
        (void)snprintf(text, sizeof text, "%s%s%s", r->group, r->group[0] == '\0' ? "" : "/",
                       r->version);
        if (strcmp(text, group_version) == 0 && strcmp(r->kind, kind) == 0) {
            return r;
        }
    }
    return NULL;
}

static void expect_known(struct user *u, const char *group_version, const char *kind)
{
    for (int turn = 0; turn < 1000 && find_kind(u->discovery, group_version, kind) == NULL;
         turn++) {
        run_for(u->api.loop, 1);
    }
    assert_non_null(find_kind(u->discovery, group_version, kind));
}

/* An old server with pods, deployments and nodes' metrics. */
static void discover(struct user *u)
{
    answer(u, "/api", VERSIONS);
    answer(u, "/apis", GROUPS(GROUP("apps", "v1") "," GROUP("metrics.k8s.io", "v1beta1")));
    answer(u, "/api/v1", RESOURCES("pods", "Pod"));
    answer(u, "/apis/apps/v1", RESOURCES("deployments", "Deployment"));
    answer(u, "/apis/metrics.k8s.io/v1beta1", RESOURCES("nodes", "NodeMetrics"));
    expect_known(u, "v1", "Pod");
}

static void test_asks_group_by_group(void **state)
{
    struct user *u = *state;
    size_t count;
    assert_false(discovery_ready(u->discovery));
    discover(u);
    assert_true(discovery_ready(u->discovery));
    assert_int_equal(u->changes, 1);
    assert_string_equal(u->state, "");
    assert_null(discovery_error(u->discovery));
    assert_string_equal(discovery_all(u->discovery, &count)[0].plural, "pods");
    assert_int_equal(count, 3);
    assert_non_null(find_kind(u->discovery, "apps/v1", "Deployment"));
    assert_non_null(find_kind(u->discovery, "metrics.k8s.io/v1beta1", "NodeMetrics"));
    assert_int_equal(u->api.count, 5);
}

static void test_asks_for_all_at_once(void **state)
{
    struct user *u = *state;
    struct api_request *q = expect_request(u, "/api");
    assert_string_equal(q->accept,
                        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
                        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as="
                        "APIGroupDiscoveryList,application/json");
    api_answer(q, 200, NULL, ALL("", "pods", "Pod", "Current"));
    answer(u, "/apis", ALL("apps", "deployments", "Deployment", "Current"));
    expect_known(u, "v1", "Pod");
    expect_known(u, "apps/v1", "Deployment");
    assert_int_equal(u->api.count, 2);
}

static void test_asks_again(void **state)
{
    struct user *u = *state;
    discover(u);
    pass(u, 600000);
    discover(u);
    pass(u, 600000);
    assert_int_equal(u->changes, 1); /* nothing had */
    answer(u, "/api", VERSIONS);
    answer(u, "/apis", GROUPS(GROUP("batch", "v1")));
    answer(u, "/api/v1", RESOURCES("pods", "Pod"));
    answer(u, "/apis/batch/v1", RESOURCES("jobs", "Job"));
    expect_known(u, "batch/v1", "Job");
    assert_null(find_kind(u->discovery, "apps/v1", "Deployment"));
    assert_int_equal(u->changes, 2);
}

static void test_asks_when_told_to(void **state)
{
    struct user *u = *state;
    discover(u);
    discovery_refresh(u->discovery);
    pass(u, 5000);
    /* Told while it asks: once more. */
    discovery_refresh(u->discovery);
    discovery_refresh(u->discovery);
    discover(u);
    pass(u, 5000);
    discover(u);
    settle(u);
    fake_clock_pass(&u->api.clock, 60000);
    settle(u);
    discovery_refresh(u->discovery);
    discover(u);
}

/* Who wants to know what there is now waits for the next round that is complete. */
static void test_rounds_have_numbers(void **state)
{
    struct user *u = *state;
    uint64_t next = discovery_next_round(u->discovery);
    assert_int_equal(next, 1);
    assert_int_equal(discovery_complete_round(u->discovery), 0);
    discover(u);
    assert_int_equal(discovery_complete_round(u->discovery), next);
    assert_int_equal(u->complete, 1);
    pass(u, 600000);
    answer(u, "/api", VERSIONS);
    next = discovery_next_round(u->discovery); /* not the one that has begun */
    assert_int_equal(next, 3);
    answer(u, "/apis", GROUPS(GROUP("metrics.k8s.io", "v1beta1")));
    answer(u, "/api/v1", RESOURCES("pods", "Pod"));
    refuse(u, "/apis/metrics.k8s.io/v1beta1", 503);
    pass(u, 1000);
    assert_int_equal(discovery_complete_round(u->discovery), 1);
    discover(u);
    settle(u);
    assert_int_equal(discovery_complete_round(u->discovery), next);
    assert_int_equal(u->complete, 2);
    pass(u, 600000);
    discover(u);
    settle(u);
    assert_int_equal(u->complete, 3); /* also when nothing has changed */
}

static void test_keeps_what_does_not_answer(void **state)
{
    struct user *u = *state;
    discover(u);
    pass(u, 600000);
    answer(u, "/api", VERSIONS);
    answer(u, "/apis", GROUPS(GROUP("apps", "v1") "," GROUP("metrics.k8s.io", "v1beta1")));
    refuse(u, "/api/v1", 500);
    answer(u, "/apis/apps/v1", RESOURCES("others", "Other"));
    refuse(u, "/apis/metrics.k8s.io/v1beta1", 503);
    expect_known(u, "apps/v1", "Other");
    assert_null(find_kind(u->discovery, "apps/v1", "Deployment"));
    assert_non_null(find_kind(u->discovery, "metrics.k8s.io/v1beta1", "NodeMetrics"));
    assert_non_null(find_kind(u->discovery, "v1", "Pod"));
    assert_string_equal(u->state,
                        "discovery is incomplete: v1: 500 Internal Server Error (and 1 more)");
    assert_string_equal(discovery_error(u->discovery), u->state);
    pass(u, 1000);
    discover(u);
    settle(u);
    assert_string_equal(u->state, "fine");
}

static void test_keeps_all_when_nothing_answers(void **state)
{
    struct user *u = *state;
    discover(u);
    pass(u, 600000);
    refuse(u, "/api", 500);
    refuse(u, "/apis", 500);
    pass(u, 1000);
    answer(u, "/api", "{\"kind\":\"Other\"}");
    refuse(u, "/apis", 502);
    pass(u, 2000);
    assert_non_null(strstr(u->state, "/api: not a discovery document (and 1 more)"));
    assert_non_null(find_kind(u->discovery, "v1", "Pod"));
    assert_non_null(find_kind(u->discovery, "apps/v1", "Deployment"));
    assert_int_equal(u->changes, 1);
}

static void test_is_not_ready_without_roots(void **state)
{
    struct user *u = *state;
    answer(u, "/api", VERSIONS);
    refuse(u, "/apis", 503);
    answer(u, "/api/v1", RESOURCES("pods", "Pod"));
    expect_known(u, "v1", "Pod");
    assert_false(discovery_ready(u->discovery));
    pass(u, 1000);
    discover(u);
    settle(u);
    assert_true(discovery_ready(u->discovery));
    assert_int_equal(u->changes, 2);
}

static void test_is_ready_without_some_group(void **state)
{
    struct user *u = *state;
    refuse(u, "/api", 404); /* a server without core */
    answer(u, "/apis", GROUPS(GROUP("apps", "v1") "," GROUP("gone", "v1")));
    answer(u, "/apis/apps/v1", RESOURCES("deployments", "Deployment"));
    refuse(u, "/apis/gone/v1", 404);
    expect_known(u, "apps/v1", "Deployment");
    assert_true(discovery_ready(u->discovery));
    assert_string_equal(u->state, "");
}

static void test_stale_groups(void **state)
{
    struct user *u = *state;
    answer(u, "/api", ALL("", "pods", "Pod", "Current"));
    answer(u, "/apis", ALL("metrics.k8s.io", "nodes", "NodeMetrics", "Current"));
    expect_known(u, "metrics.k8s.io/v1", "NodeMetrics");
    pass(u, 600000);
    answer(u, "/api", ALL("", "pods", "Pod", "Current"));
    answer(u, "/apis", ALL("metrics.k8s.io", "", "", "Stale"));
    settle(u);
    assert_non_null(find_kind(u->discovery, "metrics.k8s.io/v1", "NodeMetrics"));
    assert_string_equal(
        u->state, "discovery is incomplete: metrics.k8s.io/v1: its API server does not respond");
}

/* ---- the end ---- */

static void test_free_before_anything(void **state)
{
    struct user *u = *state;
    forget(u);
    fake_clock_forget(&u->api.clock);
    api_expect_quiet(&u->api);
    assert_int_equal(u->api.count, 0);
}

static void test_free_while_asking(void **state)
{
    struct user *u = *state;
    answer(u, "/api", VERSIONS);
    (void)expect_request(u, "/apis");
    (void)expect_request(u, "/api/v1");
    forget(u);
    api_expect_gone(&u->api, 2);
    assert_int_equal(u->changes, 0);
}

static void test_free_with_versions_left(void **state)
{
    struct user *u = *state;
    answer(u, "/apis",
           GROUPS(GROUP("a", "v1") "," GROUP("b", "v1") "," GROUP("c", "v1") "," GROUP(
               "d", "v1") "," GROUP("e", "v1") "," GROUP("f", "v1")));
    (void)expect_request(u, "/apis/c/v1");
    forget(u);
    api_expect_gone(&u->api, 4);
}

static void test_free_on_change(void **state)
{
    struct user *u = *state;
    u->free_on_change = true;
    answer(u, "/api", VERSIONS);
    answer(u, "/apis", GROUPS(""));
    answer(u, "/api/v1", RESOURCES("pods", "Pod"));
    run_for(u->api.loop, 20);
    assert_null(u->discovery);
    fake_clock_forget(&u->api.clock);
}

static void test_free_on_state(void **state)
{
    struct user *u = *state;
    u->free_on_state = true;
    refuse(u, "/api", 500);
    refuse(u, "/apis", 500);
    run_for(u->api.loop, 20);
    assert_null(u->discovery);
    fake_clock_forget(&u->api.clock);
}

static void test_free_on_complete(void **state)
{
    struct user *u = *state;
    u->free_on_complete = true;
    answer(u, "/api", VERSIONS);
    answer(u, "/apis", GROUPS(""));
    answer(u, "/api/v1", RESOURCES("pods", "Pod"));
    run_for(u->api.loop, 20);
    assert_null(u->discovery);
    fake_clock_forget(&u->api.clock);
}

static void test_refresh_on_change(void **state)
{
    struct user *u = *state;
    u->refresh_on_change = true;
    discover(u);
    pass(u, 5000);
    discover(u);
    settle(u);
    fake_clock_pass(&u->api.clock, 60000);
    settle(u);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_asks_group_by_group),
        TEST(test_asks_for_all_at_once),
        TEST(test_asks_again),
        TEST(test_asks_when_told_to),
        TEST(test_rounds_have_numbers),
        TEST(test_keeps_what_does_not_answer),
        TEST(test_keeps_all_when_nothing_answers),
        TEST(test_is_not_ready_without_roots),
        TEST(test_is_ready_without_some_group),
        TEST(test_stale_groups),
        TEST(test_free_before_anything),
        TEST(test_free_while_asking),
        TEST(test_free_with_versions_left),
        TEST(test_free_on_change),
        TEST(test_free_on_state),
        TEST(test_free_on_complete),
        TEST(test_refresh_on_change),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
