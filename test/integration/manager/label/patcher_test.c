/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control labels on single objects, against a scripted API server. With a random number of 0 the
 * pauses after failures are 100, 200, 400, ... ms.
 */
#include "label/patcher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/log.h"
#include "scripted_api.h"

#define P "ctrlmesh.kusionstack.io/"
#define MAPS "/api/v1/namespaces/ns-a/configmaps"
#define MANAGER "?fieldManager=cmesh-manager"

/* The hash of "ns-a" is 15. */
#define LABELS                                                                                     \
    "\"labels\":{\"" P "control\":\"true\",\"" P "namespace\":\"ns-a\",\"" P                       \
    "sharding-hash\":\"15\"}"
#define PATCH(version) "{\"metadata\":{" LABELS ",\"resourceVersion\":\"" version "\"}}"
#define REMOVAL(version)                                                                           \
    "{\"metadata\":{\"labels\":{\"" P "control\":null,\"" P "namespace\":null,\"" P                \
    "sharding-hash\":null},\"resourceVersion\":\"" version "\"}}"
#define LABELLED "{\"metadata\":{\"name\":\"x\",\"resourceVersion\":\"9\"," LABELS "}}"
#define PLAIN(version) "{\"metadata\":{\"name\":\"x\",\"resourceVersion\":\"" version "\"}}"
#define FOREIGN                                                                                    \
    "{\"metadata\":{\"name\":\"x\",\"resourceVersion\":\"9\",\"labels\":{\"" P                     \
    "namespace\":\"other\"}}}"

struct user {
    struct scripted_api api;
    struct labels_keys keys;
    struct patcher *patcher;
    struct patcher_options options;
    bool lost; /* may not write */
    bool unwanted;
    unsigned done;
    unsigned level;
    unsigned resource;
    char object[64]; /* the last: NAMESPACE/NAME */
    enum patcher_outcome outcome;
    char error[ERR_MSG_MAX];
};

static int path_of(void *data, unsigned resource, const char *ns, struct buf *out)
{
    const struct user *u = data;
    (void)resource;
    if (u->unwanted) {
        return -ENOENT;
    }
    return ns[0] == '\0' ? buf_append_str(out, "/api/v1/namespaces")
                         : buf_printf(out, "/api/v1/namespaces/%s/configmaps", ns);
}

static void on_done(void *data, unsigned resource, const char *ns, const char *name,
                    enum patcher_outcome outcome, const struct api_error *error)
{
    struct user *u = data;
    u->done++;
    u->resource = resource;
    u->outcome = outcome;
    (void)snprintf(u->object, sizeof u->object, "%s/%s", ns, name);
    (void)snprintf(u->error, sizeof u->error, "%s", error == NULL ? "" : error->msg);
}

static void on_level(void *data, unsigned resource, bool more)
{
    struct user *u = data;
    (void)resource;
    assert_true(more || u->level > 0);
    u->level += more ? 1 : (unsigned)-1;
}

static const struct patcher_handlers handlers = {
    .path = path_of, .on_done = on_done, .on_level = on_level};

static bool may_write(void *data)
{
    const struct user *u = data;
    return !u->lost;
}

static bool open_user(struct user *u, struct net_loop *l)
{
    const struct compile_labels names = {
        .namespace = "namespace", .shard_hash = "sharding-hash", .control = "control"};
    if (!api_open(&u->api, l) || labels_keys_init(&u->keys, &names, NULL) != 0) {
        return false;
    }
    u->options = (struct patcher_options){
        .client = u->api.client,
        .keys = &u->keys,
        .qps = 1000,
        .parallel = 2,
        .may_write = may_write,
        .may_write_data = u,
        .clock = &u->api.clock.clock,
    };
    return true;
}

static int setup(void **state)
{
    struct net_loop *l = NULL;
    struct user *u = calloc(1, sizeof *u);
    if (u == NULL || loop_setup((void **)&l) != 0 || !open_user(u, l)) {
        return -1;
    }
    u->patcher = patcher_new(l, &u->options, &handlers, u);
    *state = u;
    return 0;
}

static int teardown(void **state)
{
    struct user *u = *state;
    struct net_loop *l = u->api.loop;
    bool counted = u->level == patcher_level(u->patcher) - patcher_later(u->patcher);
    patcher_free(u->patcher);
    api_close(&u->api);
    free(u);
    return loop_free(l) == 0 && counted ? 0 : -1;
}

/* Another one in its place. */
static void renew(struct user *u)
{
    patcher_free(u->patcher);
    fake_clock_forget(&u->api.clock);
    u->level = 0;
    u->patcher = patcher_new(u->api.loop, &u->options, &handlers, u);
}

static void add(struct user *u, const char *name, const char *version)
{
    assert_true(patcher_add(u->patcher, 7, "ns-a", name, version, 0));
}

static void pass(struct user *u, uint64_t ms)
{
    fake_clock_pass(&u->api.clock, ms);
    run_for(u->api.loop, 2);
}

static struct api_request *expect(struct user *u, const char *method, const char *target)
{
    pass(u, 0);
    return api_expect(&u->api, method, target);
}

static void expect_quiet(struct user *u)
{
    pass(u, 0);
    api_expect_quiet(&u->api);
}

/* So many are done in all. */
static void expect_done(struct user *u, unsigned done, enum patcher_outcome outcome)
{
    for (int turn = 0; turn < 2000 && u->done < done; turn++) {
        pass(u, 0);
    }
    assert_int_equal(u->done, done);
    assert_int_equal(u->outcome, outcome);
}

static void answer(struct user *u, const char *method, const char *target, unsigned status,
                   const char *body)
{
    api_answer(expect(u, method, target), status, NULL, body);
}

/* ---- one object ---- */

static void test_labels(void **state)
{
    struct user *u = *state;
    add(u, "x", "8");
    assert_int_equal(patcher_level(u->patcher), 1);
    struct api_request *q = expect(u, "PATCH", MAPS "/x" MANAGER);
    assert_string_equal(q->content_type, "application/merge-patch+json");
    assert_non_null(strstr(q->accept, "as=PartialObjectMetadata"));
    assert_string_equal(q->body, PATCH("8"));
    api_answer(q, 200, NULL, LABELLED);
    expect_done(u, 1, PATCHER_CHANGED);
    assert_string_equal(u->object, "ns-a/x");
    assert_int_equal(u->resource, 7);
    assert_int_equal(patcher_level(u->patcher), 0);
    assert_int_equal(patcher_stats(u->patcher)->patches, 1);
}

static void test_labels_a_namespace_by_its_own_name(void **state)
{
    struct user *u = *state;
    assert_true(patcher_add(u->patcher, 0, "", "ns-a", "8", 0));
    struct api_request *q = expect(u, "PATCH", "/api/v1/namespaces/ns-a" MANAGER);
    assert_string_equal(q->body, PATCH("8"));
    api_answer(q, 200, NULL, LABELLED);
    expect_done(u, 1, PATCHER_CHANGED);
    assert_string_equal(u->object, "/ns-a");
}

static void test_what_is_gone_is_no_failure(void **state)
{
    struct user *u = *state;
    add(u, "x", "8");
    answer(u, "PATCH", MAPS "/x" MANAGER, 404, "");
    expect_done(u, 1, PATCHER_GONE);
}

static void test_looks_at_what_was_changed_meanwhile(void **state)
{
    struct user *u = *state;
    static const struct {
        unsigned status;
        const char *found;
        enum patcher_outcome outcome;
    } cases[] = {
        {200, LABELLED, PATCHER_NEEDLESS}, {200, FOREIGN, PATCHER_FOREIGN},
        {404, "", PATCHER_GONE},           {200, "{\"metadata\":{}}", PATCHER_GONE},
        {403, "", PATCHER_REFUSED},
    };
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        add(u, "x", "8");
        answer(u, "PATCH", NULL, 409, "");
        answer(u, "GET", MAPS "/x", cases[i].status, cases[i].found);
        expect_done(u, i + 1, cases[i].outcome);
    }
    assert_int_equal(patcher_stats(u->patcher)->looks, 5);
}

static void test_patches_the_version_that_it_found(void **state)
{
    struct user *u = *state;
    add(u, "x", "8");
    answer(u, "PATCH", NULL, 409, "");
    answer(u, "GET", MAPS "/x", 200, PLAIN("11"));
    struct api_request *q = expect(u, "PATCH", MAPS "/x" MANAGER);
    assert_string_equal(q->body, PATCH("11"));
    api_answer(q, 200, NULL, LABELLED);
    expect_done(u, 1, PATCHER_CHANGED);
}

/* No API server of Kubernetes itself hands out such. */
static void test_looks_first_at_what_has_no_version(void **state)
{
    struct user *u = *state;
    assert_true(patcher_add(u->patcher, 7, "ns-a", "x", NULL, 0));
    answer(u, "GET", MAPS "/x", 503, "");
    pass(u, 1000);
    answer(u, "GET", MAPS "/x", 200, PLAIN("11"));
    struct api_request *q = expect(u, "PATCH", MAPS "/x" MANAGER);
    assert_string_equal(q->body, PATCH("11"));
    assert_true(patcher_add(u->patcher, 7, "ns-a", "x", NULL, 0));
    api_answer(q, 200, NULL, LABELLED);
    answer(u, "GET", MAPS "/x", 200, "{\"metadata\":{\"name\":\"x\"}}");
    expect_done(u, 2, PATCHER_GONE);
    assert_int_equal(patcher_stats(u->patcher)->patches, 1);
}

static void test_what_changes_all_the_time_comes_later(void **state)
{
    struct user *u = *state;
    add(u, "x", "8");
    for (int round = 0; round < 4; round++) {
        answer(u, "PATCH", NULL, 409, "");
        answer(u, "GET", NULL, 200, PLAIN("11"));
    }
    answer(u, "PATCH", NULL, 409, "");
    expect_quiet(u);
    assert_int_equal(patcher_stats(u->patcher)->retries, 1);
    assert_int_equal(patcher_level(u->patcher), 1);
    pass(u, 100);
    answer(u, "PATCH", NULL, 200, LABELLED);
    expect_done(u, 1, PATCHER_CHANGED);
}

static void test_a_webhook_puts_it_back(void **state)
{
    struct user *u = *state;
    add(u, "x", "8");
    answer(u, "PATCH", NULL, 200, PLAIN("12"));
    expect_done(u, 1, PATCHER_UNDONE);
}

static void test_unwanted_resources(void **state)
{
    struct user *u = *state;
    u->unwanted = true;
    add(u, "x", "8");
    expect_done(u, 1, PATCHER_GONE);
    assert_int_equal(u->api.count, 0);
}

/* ---- removal ---- */

static void test_takes_labels_away(void **state)
{
    struct user *u = *state;
    u->options.remove = true;
    renew(u);
    add(u, "x", "8");
    struct api_request *q = expect(u, "PATCH", MAPS "/x" MANAGER);
    assert_string_equal(q->body, REMOVAL("8"));
    api_answer(q, 409, NULL, "");
    answer(u, "GET", MAPS "/x", 200, LABELLED);
    q = expect(u, "PATCH", MAPS "/x" MANAGER);
    assert_string_equal(q->body, REMOVAL("9"));
    api_answer(q, 200, NULL, PLAIN("10"));
    expect_done(u, 1, PATCHER_CHANGED);

    add(u, "x", "8");
    answer(u, "PATCH", NULL, 409, "");
    answer(u, "GET", MAPS "/x", 200, FOREIGN);
    expect_done(u, 2, PATCHER_NEEDLESS);

    add(u, "x", "8");
    answer(u, "PATCH", NULL, 200, LABELLED);
    expect_done(u, 3, PATCHER_UNDONE);
}

/* ---- refusals ---- */

static void test_says_why_it_is_refused(void **state)
{
    struct user *u = *state;
    static const unsigned codes[] = {400, 403, 405, 415, 422};
    for (unsigned i = 0; i < ARRAY_LEN(codes); i++) {
        add(u, "x", "8");
        answer(u, "PATCH", NULL, codes[i],
               "{\"kind\":\"Status\",\"status\":\"Failure\",\"message\":\"no, never\"}");
        expect_done(u, i + 1, PATCHER_REFUSED);
        assert_non_null(strstr(u->error, "no, never"));
    }
    assert_true(patcher_add(u->patcher, 7, "ns-a", "..", "1", 0));
    expect_done(u, 6, PATCHER_REFUSED);
    assert_non_null(strstr(u->error, ".."));
}

static void test_gives_up_what_fails_again_and_again(void **state)
{
    struct user *u = *state;
    add(u, "x", "8");
    for (uint64_t pause = 100; pause <= 3200; pause *= 2) {
        answer(u, "PATCH", NULL, 500, "");
        expect_quiet(u);
        pass(u, pause - 1);
        api_expect_quiet(&u->api);
        pass(u, 1);
    }
    assert_int_equal(u->done, 0);
    answer(u, "PATCH", NULL, 500, "");
    expect_done(u, 1, PATCHER_REFUSED);
    assert_non_null(strstr(u->error, "500"));
    assert_int_equal(patcher_level(u->patcher), 0);
}

static void test_never_gives_up_a_server_that_is_away(void **state)
{
    struct user *u = *state;
    add(u, "x", "8");
    for (int i = 0; i < 12; i++) {
        api_cut(expect(u, "PATCH", NULL));
        run_for(u->api.loop, 5);
        pass(u, 60000);
    }
    answer(u, "PATCH", NULL, 200, LABELLED);
    expect_done(u, 1, PATCHER_CHANGED);
}

static void test_429_holds_all_back(void **state)
{
    struct user *u = *state;
    add(u, "x", "8");
    add(u, "y", "8");
    add(u, "z", "8");
    struct api_request *first = expect(u, "PATCH", MAPS "/x" MANAGER);
    api_answer(first, 429, "3", "");
    answer(u, "PATCH", MAPS "/y" MANAGER, 200, LABELLED); /* was on its way */
    expect_done(u, 1, PATCHER_CHANGED);
    pass(u, 2990);
    api_expect_quiet(&u->api);
    pass(u, 20);
    answer(u, "PATCH", MAPS "/z" MANAGER, 200, LABELLED);
    pass(u, 200);
    answer(u, "PATCH", MAPS "/x" MANAGER, 200, LABELLED);
    expect_done(u, 3, PATCHER_CHANGED);
    assert_int_equal(patcher_stats(u->patcher)->throttled, 1);
    add(u, "x", "9");
    answer(u, "PATCH", NULL, 429, "");
    pass(u, 990);
    api_expect_quiet(&u->api);
    pass(u, 20);
    answer(u, "PATCH", NULL, 200, LABELLED);
    expect_done(u, 4, PATCHER_CHANGED);
}

/* ---- how many ---- */

static void test_keeps_the_rate(void **state)
{
    struct user *u = *state;
    u->options.qps = 2;
    u->options.parallel = 8;
    renew(u);
    add(u, "x", "8");
    add(u, "y", "8");
    add(u, "z", "8");
    answer(u, "PATCH", MAPS "/x" MANAGER, 200, LABELLED);
    expect_quiet(u);
    pass(u, 499);
    api_expect_quiet(&u->api);
    pass(u, 1);
    answer(u, "PATCH", MAPS "/y" MANAGER, 409, "");
    expect_quiet(u);
    pass(u, 500);
    answer(u, "PATCH", MAPS "/z" MANAGER, 200, LABELLED); /* what waits longer comes first */
    expect_quiet(u);
    pass(u, 500);
    answer(u, "GET", MAPS "/y", 200, LABELLED);
    expect_done(u, 3, PATCHER_NEEDLESS);
}

/* Else it would have changed again before its turn comes. */
static void test_what_was_looked_at_is_patched_first(void **state)
{
    struct user *u = *state;
    add(u, "x", "8");
    answer(u, "PATCH", MAPS "/x" MANAGER, 409, "");
    struct api_request *x = expect(u, "GET", MAPS "/x");
    add(u, "y", "8");
    pass(u, 0);
    struct api_request *y = api_expect_part(&u->api, MAPS "/y");
    add(u, "z", "8");
    api_answer(x, 200, NULL, PLAIN("11"));
    pass(u, 0);
    x = api_expect_part(&u->api, MAPS "/x");
    assert_string_equal(x->body, PATCH("11"));
    api_answer(x, 200, NULL, LABELLED);
    api_answer(y, 200, NULL, LABELLED);
    answer(u, "PATCH", MAPS "/z" MANAGER, 200, LABELLED);
    expect_done(u, 3, PATCHER_CHANGED);
}

static void test_so_many_at_a_time(void **state)
{
    struct user *u = *state;
    add(u, "x", "8");
    add(u, "y", "8");
    add(u, "z", "8");
    pass(u, 0);
    run_for(u->api.loop, 10);
    assert_int_equal(u->api.count, 2);
    answer(u, "PATCH", MAPS "/x" MANAGER, 200, LABELLED);
    expect_done(u, 1, PATCHER_CHANGED);
    answer(u, "PATCH", MAPS "/y" MANAGER, 200, LABELLED);
    answer(u, "PATCH", MAPS "/z" MANAGER, 200, LABELLED);
    expect_done(u, 3, PATCHER_CHANGED);
}

static void test_the_same_is_done_once(void **state)
{
    struct user *u = *state;
    add(u, "x", "8");
    add(u, "x", "9");
    assert_int_equal(patcher_level(u->patcher), 1);
    assert_string_equal(expect(u, "PATCH", NULL)->body, PATCH("8"));
    answer(u, "PATCH", MAPS "/x" MANAGER, 200, LABELLED);
    expect_done(u, 1, PATCHER_CHANGED);
    expect_quiet(u);
}

static void test_what_is_seen_meanwhile_is_looked_at_once_more(void **state)
{
    struct user *u = *state;
    add(u, "x", "8");
    (void)expect(u, "PATCH", MAPS "/x" MANAGER);
    add(u, "x", "10");
    add(u, "x", "11");
    answer(u, "PATCH", MAPS "/x" MANAGER, 200, LABELLED);
    expect_done(u, 1, PATCHER_CHANGED);
    assert_string_equal(expect(u, "PATCH", NULL)->body, PATCH("11"));
    answer(u, "PATCH", NULL, 200, LABELLED);
    expect_done(u, 2, PATCHER_CHANGED);
    add(u, "x", "12");
    answer(u, "PATCH", NULL, 200, LABELLED);
    expect_done(u, 3, PATCHER_CHANGED);
}

static void test_some_time_later(void **state)
{
    struct user *u = *state;
    assert_true(patcher_add(u->patcher, 7, "ns-a", "x", "8", 3000));
    add(u, "x", "9");
    assert_int_equal(patcher_level(u->patcher), 1);
    assert_int_equal(patcher_later(u->patcher), 1);
    expect_quiet(u);
    pass(u, 2999);
    api_expect_quiet(&u->api);
    pass(u, 1);
    (void)expect(u, "PATCH", NULL);
    assert_int_equal(patcher_later(u->patcher), 0);
    answer(u, "PATCH", NULL, 200, LABELLED);
    expect_done(u, 1, PATCHER_CHANGED);
    assert_int_equal(patcher_level(u->patcher), 0);
}

static void test_writes_only_while_it_may(void **state)
{
    struct user *u = *state;
    u->lost = true;
    add(u, "x", "8");
    expect_quiet(u);
    pass(u, 5000);
    api_expect_quiet(&u->api);
    assert_int_equal(u->api.count, 0);
    u->lost = false;
    pass(u, 60000);
    answer(u, "PATCH", NULL, 200, LABELLED);
    expect_done(u, 1, PATCHER_CHANGED);
}

/* ---- the end ---- */

static void test_freed_in_each_phase(void **state)
{
    struct user *u = *state;
    renew(u); /* before anything */
    add(u, "x", "8");
    renew(u); /* queued */
    u->options.qps = 1;
    renew(u);
    add(u, "x", "8");
    add(u, "y", "8");
    (void)expect(u, "PATCH", MAPS "/x" MANAGER); /* one is sent, one waits for its token */
    renew(u);
    api_expect_gone(&u->api, 1);
    u->options.qps = 1000;
    renew(u);
    add(u, "x", "8");
    answer(u, "PATCH", NULL, 409, "");
    (void)expect(u, "GET", NULL);
    renew(u); /* looking */
    api_expect_gone(&u->api, 2);
    add(u, "x", "8");
    answer(u, "PATCH", NULL, 429, "");
    pass(u, 0);
    run_for(u->api.loop, 5);
    renew(u); /* pausing */
    assert_int_equal(u->done, 0);
    expect_quiet(u);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_labels),
        TEST(test_labels_a_namespace_by_its_own_name),
        TEST(test_what_is_gone_is_no_failure),
        TEST(test_looks_at_what_was_changed_meanwhile),
        TEST(test_patches_the_version_that_it_found),
        TEST(test_looks_first_at_what_has_no_version),
        TEST(test_what_changes_all_the_time_comes_later),
        TEST(test_a_webhook_puts_it_back),
        TEST(test_unwanted_resources),
        TEST(test_takes_labels_away),
        TEST(test_says_why_it_is_refused),
        TEST(test_gives_up_what_fails_again_and_again),
        TEST(test_never_gives_up_a_server_that_is_away),
        TEST(test_429_holds_all_back),
        TEST(test_keeps_the_rate),
        TEST(test_what_was_looked_at_is_patched_first),
        TEST(test_so_many_at_a_time),
        TEST(test_the_same_is_done_once),
        TEST(test_what_is_seen_meanwhile_is_looked_at_once_more),
        TEST(test_some_time_later),
        TEST(test_writes_only_while_it_may),
        TEST(test_freed_in_each_phase),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
