/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Definitions and discovery against a scripted API server. With a random number of 0 the pauses
 * after failures are 1, 2, 4, ... s.
 */
#include "run/crd_watch.h"

#include <stdlib.h>

#include "base/log.h"
#include "scripted_api.h"

#define DEFINITIONS "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
#define LIST(items) "{\"metadata\":{\"resourceVersion\":\"10\"},\"items\":[" items "]}"
#define THINGS "{\"metadata\":{\"name\":\"things.example.com\",\"resourceVersion\":\"9\"}}"
#define EVENT(type) "{\"type\":\"" type "\",\"object\":" THINGS "}\n"

struct user {
    struct scripted_api api;
    struct discovery *discovery;
    struct crd_watch *definitions;
    const char *list;
    unsigned rounds;  /* of discovery, that were begun */
    unsigned refused; /* status of lists; 0: they are answered */
};

static bool is_watch(const struct api_request *q)
{
    return strstr(q->target, "watch=true") != NULL;
}

static void serve(struct scripted_api *a, struct api_request *q)
{
    struct user *u = a->data;
    if (strcmp(q->target, "/api") == 0) {
        u->rounds++;
        api_answer(q, 200, NULL, "{\"kind\":\"APIVersions\",\"versions\":[]}");
    } else if (strcmp(q->target, "/apis") == 0) {
        api_answer(q, 200, NULL, "{\"kind\":\"APIGroupList\",\"groups\":[]}");
    } else if (!is_watch(q) && u->refused != 0) {
        api_answer(q, u->refused, NULL, "");
    } else if (!is_watch(q)) {
        api_answer(q, 200, NULL, u->list);
    }
}

static bool begin(struct user *u, struct net_loop *l)
{
    u->api.serve = serve;
    u->api.data = u;
    u->list = LIST("");
    if (!api_open(&u->api, l)) {
        return false;
    }
    const struct discovery_options o = {.client = u->api.client, .clock = &u->api.clock.clock};
    u->discovery = discovery_new(l, &o, NULL, NULL);
    /* Its first round is over before any list, or has failed. */
    fake_clock_pass(&u->api.clock, 0);
    run_for(l, 10);
    u->definitions = crd_watch_new(l, u->api.client, u->discovery, &u->api.clock.clock);
    return true;
}

static int end(struct user *u)
{
    struct net_loop *l = u->api.loop;
    crd_watch_free(u->definitions);
    discovery_free(u->discovery);
    api_close(&u->api);
    return loop_free(l);
}

static int setup(void **state)
{
    struct net_loop *l = NULL;
    struct user *u = calloc(1, sizeof *u);
    *state = u;
    return u != NULL && loop_setup((void **)&l) == 0 && begin(u, l) ? 0 : -1;
}

static int teardown(void **state)
{
    struct user *u = *state;
    int rc = end(u);
    free(u);
    return rc;
}

static void pass(struct user *u, uint64_t ms)
{
    run_for(u->api.loop, 10);
    fake_clock_pass(&u->api.clock, ms);
    run_for(u->api.loop, 10);
}

/* Discovery rests, and would for ten minutes. */
static struct api_request *settle(struct user *u)
{
    struct api_request *q = api_expect_part(&u->api, "watch=true");
    assert_non_null(strstr(q->accept, "PartialObjectMetadata"));
    for (int i = 0; i < 5; i++) {
        pass(u, 5000);
    }
    u->rounds = 0;
    pass(u, 60000);
    assert_int_equal(u->rounds, 0);
    return q;
}

static void test_what_is_listed_at_first_may_be_young(void **state)
{
    struct user *u = *state;
    (void)api_expect_part(&u->api, "watch=true");
    pass(u, 0);
    assert_int_equal(u->rounds, 1);
    pass(u, 5000);
    assert_int_equal(u->rounds, 2);
    pass(u, 3000);
    pass(u, 2000);
    assert_int_equal(u->rounds, 3); /* what was defined right before it is served now */
    pass(u, 60000);
    assert_int_equal(u->rounds, 3);
}

static void test_each_change_is_asked_for(void **state)
{
    static const char *const events[] = {EVENT("ADDED"), EVENT("MODIFIED"), EVENT("DELETED")};
    struct user *u = *state;
    struct api_request *q = settle(u);
    api_begin(q, NULL);
    for (unsigned i = 0; i < 3; i++) {
        api_send(q, events[i]);
        pass(u, 0);
        assert_int_equal(u->rounds, 1); /* at once, */
        pass(u, 8000);
        assert_int_equal(u->rounds, 2); /* and when it is served for sure */
        pass(u, 60000);
        assert_int_equal(u->rounds, 2);
        u->rounds = 0;
    }
    api_end(q);
}

/* Nothing could be watched for a while, as while the manager's account lacks a right. */
static void test_a_list_that_comes_late_is_news(void **state)
{
    struct user *u = *state;
    struct api_request *q = settle(u);
    assert_null(crd_watch_error(u->definitions));
    u->refused = 403;
    api_answer(q, 410, NULL, "");
    for (int i = 0; i < 500 && crd_watch_error(u->definitions) == NULL; i++) {
        pass(u, 0);
    }
    assert_non_null(strstr(crd_watch_error(u->definitions), "403"));
    assert_int_equal(u->rounds, 0);
    u->refused = 0;
    u->list = LIST(THINGS);
    for (int i = 0; i < 500 && u->rounds == 0; i++) { /* the reflector's pauses are real */
        pass(u, 0);
    }
    pass(u, 5000);
    pass(u, 3000);
    pass(u, 2000);
    assert_in_range(u->rounds, 2, 3);
}

static void test_freed_at_any_moment(void **state)
{
    struct user *u = *state;
    crd_watch_free(NULL);
    crd_watch_free(u->definitions); /* before anything */
    u->definitions = crd_watch_new(u->api.loop, u->api.client, u->discovery, &u->api.clock.clock);
    assert_non_null(u->definitions);
    (void)api_expect_part(&u->api, "watch=true"); /* while the timer runs */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_listed_at_first_may_be_young),
        TEST(test_each_change_is_asked_for),
        TEST(test_a_list_that_comes_late_is_news),
        TEST(test_freed_at_any_moment),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
