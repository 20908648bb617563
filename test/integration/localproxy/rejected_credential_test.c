/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the API server rejects localproxy's credential it is read anew, whatever was asked for.
 */
#include "reload_fixture.h"

#include <stdlib.h>

#include "temp_dir.h"

#define PODS "/api/v1/pods"

enum { READ_AGAIN_MS = 1000 }; /* not more often */

static struct temp_dir dir;
static char token_file[256];

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct net_loop *l = NULL;
    assert_non_null(f);
    temp_dir_init(&dir);
    temp_dir_write(&dir, "token", "old", 0600);
    (void)temp_dir_path(&dir, "token", token_file);
    f->scripted.access.token_file = token_file;
    *state = f;
    return loop_setup((void **)&l) == 0 && api_open(&f->scripted, l) &&
                   fixture_open(f, &f->scripted)
               ? 0
               : -1;
}

static int teardown(void **state)
{
    temp_dir_deinit(&dir);
    return fixture_teardown(state);
}

/* `q` is answered with 401; whoever asked for it leaves. */
static void expect_read_anew(struct fixture *f, struct client *c, struct api_request *q)
{
    assert_string_equal(q->authorization, "Bearer old");
    temp_dir_write(&dir, "token", "new", 0600);
    run_for(f->api->loop, READ_AGAIN_MS);
    api_answer(q, 401, NULL, "{}");
    run_for(f->api->loop, 20);
    client_close(c);
    /* localproxy asks whether it is known now. */
    q = api_expect_part(f->api, "/version");
    assert_string_equal(q->authorization, "Bearer new");
    api_answer(q, 200, NULL, "{}");
    fixture_get(f, c, "/healthz");
    assert_string_equal(api_expect_part(f->api, "/healthz")->authorization, "Bearer new");
    client_close(c);
}

static void after_a_request_of_a_client(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "a");
    fixture_get(f, &c, PODS);
    expect_read_anew(f, &c, api_expect_part(f->api, PODS));
}

static void after_the_question_where_a_resource_is(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "a");
    client_open(f, &c);
    proxy_ask_start_version(f->proxy);
    expect_read_anew(f, &c, api_expect_part(f->api, "?limit=1"));
}

/* The rules change under an open watch; returns the first list. */
static struct api_request *change_rules(struct fixture *f, struct client *c)
{
    fixture_limit(f, "a");
    fixture_get(f, c, PODS);
    api_answer(api_expect_part(f->api, PODS), 200, NULL, pod_list(100, NULL, NULL));
    fixture_expect(f, c, "PodList");
    client_close(c);
    fixture_get(f, c, PODS "?watch=1&resourceVersion=100");
    api_begin(api_expect_part(f->api, "watch=1"), NULL);
    fixture_expect(f, c, "200 OK");
    fixture_limit(f, "b");
    return api_expect_part(f->api, "resourceVersionMatch=Exact");
}

static void after_a_list_of_the_difference(void **state)
{
    struct fixture *f = *state;
    struct client c;
    expect_read_anew(f, &c, change_rules(f, &c));
}

static void after_a_probe_for_a_later_version(void **state)
{
    struct fixture *f = *state;
    struct client c;
    api_answer(change_rules(f, &c), 410, NULL, "{}");
    api_answer(api_expect_part(f->api, "&resourceVersion=0"), 200, NULL, pod_list(150, NULL, NULL));
    expect_read_anew(f, &c, api_expect_part(f->api, "timeoutSeconds=3"));
}

static void after_the_watch_that_follows(void **state)
{
    struct fixture *f = *state;
    struct client c;
    api_answer(change_rules(f, &c), 200, NULL, pod_list(100, NULL, NULL));
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
               pod_list(100, NULL, NULL));
    expect_read_anew(f, &c, api_expect_part(f->api, "watch=1"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(after_a_request_of_a_client),    TEST(after_the_question_where_a_resource_is),
        TEST(after_a_list_of_the_difference), TEST(after_a_probe_for_a_later_version),
        TEST(after_the_watch_that_follows),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
