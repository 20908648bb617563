/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All of rulesync but its flags: a folder on one side, the control socket on the other.
 */
#include "loop_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "pipeline.h"
#include "rulesync_proxy.h"
#include "source_dir.h"
#include "temp_dir.h"

struct fixture {
    struct net_loop *loop;
    struct temp_dir dir;
    char mount[256];
    char stored[256];
    char socket[256];
    struct pipeline *pipeline;
    struct source_dir *source;
    unsigned changes;
    struct proxy_double proxy;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    if (f == NULL || loop_setup((void **)&f->loop) != 0) {
        return -1;
    }
    log_init("test", LOG_TEXT, LOG_ERROR);
    temp_dir_init(&f->dir);
    assert_int_equal(mkdir(temp_dir_path(&f->dir, "mount", f->mount), 0755), 0);
    (void)temp_dir_path(&f->dir, "stored.json", f->stored);
    (void)temp_dir_path(&f->dir, "control.sock", f->socket);
    f->proxy = (struct proxy_double){.loop = f->loop, .path = f->socket};
    *state = f;
    return 0;
}

static void stop(struct fixture *f)
{
    source_dir_free(f->source);
    pipeline_free(f->pipeline);
    f->source = NULL;
    f->pipeline = NULL;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    stop(f);
    proxy_double_stop(&f->proxy);
    int rc = loop_free(f->loop);
    temp_dir_deinit(&f->dir);
    free(f);
    return rc;
}

static void on_change(void *data)
{
    struct fixture *f = data;
    f->changes++;
}

static struct pipeline_options options(struct fixture *f)
{
    return (struct pipeline_options){
        .to = f->stored,
        .control = f->socket,
        .delivery = {.check_ms = 50, .retry_min_ms = 10, .retry_max_ms = 50, .refused_ms = 300},
        .on_change = on_change,
        .data = f,
    };
}

static void start_with(struct fixture *f, const struct pipeline_options *o)
{
    struct err e = ERR_INIT;
    f->pipeline = pipeline_new(f->loop, o, &e);
    if (f->pipeline == NULL) {
        fail_msg("%s", e.msg);
    }
    struct source_dir_options so = {.path = f->mount, .settle_ms = 5, .retry_ms = 10};
    f->source = source_dir_new(f->loop, &so, &pipeline_handlers, f->pipeline, &e);
    assert_non_null(f->source);
}

static void start(struct fixture *f)
{
    struct pipeline_options o = options(f);
    start_with(f, &o);
}

static void restart(struct fixture *f)
{
    stop(f);
    start(f);
}

/* The folder shows these rules; put in place by a rename. */
static void publish(struct fixture *f, unsigned generation, const char *shard, const char *spare)
{
    struct rules *r = proxy_rules_make(generation, shard, spare);
    struct buf text = BUF_INIT(65536);
    struct err e = ERR_INIT;
    char path[512];
    (void)snprintf(path, sizeof path, "%s/" SOURCE_KEY, f->mount);
    assert_int_equal(rules_to_json(r, &text), 0);
    assert_int_equal(file_write_atomic(path, buf_data(&text), text.len, 0644, &e), 0);
    buf_reset(&text);
    rules_unref(r);
}

static void publish_text(struct fixture *f, const char *text)
{
    struct err e = ERR_INIT;
    char path[512];
    (void)snprintf(path, sizeof path, "%s/" SOURCE_KEY, f->mount);
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0644, &e), 0);
}

static unsigned stored_generation(struct fixture *f)
{
    struct buf text = BUF_INIT(65536);
    struct err e = ERR_INIT;
    unsigned generation = 0;
    if (file_read(f->stored, &text, &e) == 0) {
        struct rules *r = rules_parse((const char *)buf_data(&text), text.len, &e);
        assert_non_null(r); /* at no time half-written */
        generation = (unsigned)rules_generation(r);
        rules_unref(r);
    }
    buf_reset(&text);
    return generation;
}

static bool ready(struct fixture *f)
{
    char why[ERR_MSG_MAX + 64];
    return pipeline_ready(f->pipeline, why, sizeof why);
}

static void wait_enforced(struct fixture *f, unsigned generation)
{
    for (unsigned i = 0; i < 2000 && (!ready(f) || proxy_double_enforced(&f->proxy) != generation);
         i++) {
        run_for(f->loop, 5);
    }
    assert_int_equal(proxy_double_enforced(&f->proxy), generation);
    assert_true(ready(f));
    assert_int_equal(stored_generation(f), generation);
}

static void wait_open(struct fixture *f, const struct condition *c, const char *words)
{
    for (unsigned i = 0; i < 2000 && (!c->open || strstr(c->text, words) == NULL); i++) {
        run_for(f->loop, 5);
    }
    assert_true(c->open);
    assert_non_null(strstr(c->text, words));
}

static const struct pipeline_status *status(struct fixture *f)
{
    return pipeline_status(f->pipeline);
}

/* ---- tests ---- */

static void what_is_published_is_stored_and_enforced(void **state)
{
    struct fixture *f = *state;
    proxy_double_start(&f->proxy);
    publish(f, 7, "a", "b");
    start(f);
    assert_false(ready(f));
    wait_enforced(f, 7);
    publish(f, 8, "a", "c");
    wait_enforced(f, 8);
    assert_int_equal(status(f)->seen.generation, 8);
    assert_int_equal(status(f)->taken, 2);
    assert_true(f->changes > 0);
}

/* Every kind of refusal: what is stored and enforced stays, and it is still ready. */
static void what_is_refused_changes_nothing(void **state)
{
    struct fixture *f = *state;
    proxy_double_start(&f->proxy);
    publish(f, 7, "a", "b");
    start(f);
    wait_enforced(f, 7);
    unsigned puts = f->proxy.puts;

    publish(f, 6, "a", "b");
    wait_open(f, &status(f)->refused, "generation 6 is older than generation 7");
    assert_int_equal(status(f)->seen.generation, 6);
    assert_int_equal(status(f)->seen.refusal, REFUSAL_OLDER);
    publish(f, 7, "a", "c");
    wait_open(f, &status(f)->refused, "need a higher generation");
    publish(f, 8, "z", "b");
    wait_open(f, &status(f)->refused, "rules of shard ns/z");
    publish_text(f, "{\"apiVersion\":\"cmesh/v9\"}");
    wait_open(f, &status(f)->refused, "mount/rules.json: line 1: apiVersion");
    assert_int_equal(status(f)->seen.generation, 0);
    for (enum refusal r = REFUSAL_INVALID; r <= REFUSAL_CONFLICT; r++) {
        assert_int_equal(status(f)->refusals[r], 1);
    }
    assert_int_equal(f->proxy.puts, puts);
    wait_enforced(f, 7);

    publish(f, 7, "a", "b"); /* as it was */
    for (unsigned i = 0; i < 2000 && status(f)->refused.open; i++) {
        run_for(f->loop, 5);
    }
    assert_false(status(f)->refused.open);
    publish(f, 8, "a", "c");
    wait_enforced(f, 8);
}

static void what_is_missing_changes_nothing(void **state)
{
    struct fixture *f = *state;
    proxy_double_start(&f->proxy);
    publish(f, 7, "a", "b");
    start(f);
    wait_enforced(f, 7);
    temp_dir_empty(f->mount);
    wait_open(f, &status(f)->source, "has no key rules.json");
    assert_int_equal(status(f)->troubles[SOURCE_MISSING], 1);
    assert_int_equal(rmdir(f->mount), 0);
    wait_open(f, &status(f)->source, "mount: No such file");
    wait_enforced(f, 7);
}

static void wait_told(struct fixture *f, const char *words)
{
    for (unsigned i = 0; i < 2000 && strstr(f->proxy.trouble, words) == NULL; i++) {
        run_for(f->loop, 5);
    }
    assert_non_null(strstr(f->proxy.trouble, words));
}

static void wait_all_well(struct fixture *f)
{
    unsigned heard = f->proxy.heard;
    for (unsigned i = 0; i < 2000 && (f->proxy.heard == heard || f->proxy.trouble[0] != '\0');
         i++) {
        run_for(f->loop, 5);
    }
    assert_string_equal(f->proxy.trouble, "");
}

/* So that whoever asks localproxy knows it too. */
static void localproxy_is_told_what_is_wrong(void **state)
{
    struct fixture *f = *state;
    proxy_double_start(&f->proxy);
    publish(f, 7, "a", "b");
    start(f);
    wait_enforced(f, 7);
    wait_all_well(f);
    publish(f, 6, "a", "b");
    wait_told(f, "generation 6 is older than generation 7");
    publish(f, 8, "a", "b");
    wait_all_well(f);
    temp_dir_empty(f->mount);
    wait_told(f, "has no key rules.json");
    f->proxy.mood = REFUSE;
    publish(f, 9, "a", "b");
    wait_told(f, "I do not like it");
    f->proxy.mood = OBEY;
    wait_all_well(f);
    /* A single pass has nothing to say. */
    struct pipeline_options o = options(f);
    o.once = true;
    stop(f);
    run_for(f->loop, 20);
    f->proxy.heard = 0;
    start_with(f, &o);
    wait_enforced(f, 9);
    run_for(f->loop, 200);
    assert_int_equal(f->proxy.heard, 0);
}

static void a_restart_without_a_source_knows_the_rules(void **state)
{
    struct fixture *f = *state;
    proxy_double_start(&f->proxy);
    publish(f, 7, "a", "b");
    start(f);
    wait_enforced(f, 7);
    stop(f);
    temp_dir_empty(f->mount);
    proxy_double_restart(&f->proxy, NULL); /* it forgot all */
    start(f);
    wait_enforced(f, 7);
    assert_int_equal(status(f)->used_at, 0);
    publish(f, 6, "a", "b");
    wait_open(f, &status(f)->refused, "is older");
    publish(f, 8, "a", "b");
    wait_enforced(f, 8);
}

static void rules_that_cannot_be_stored_are_enforced(void **state)
{
    struct fixture *f = *state;
    proxy_double_start(&f->proxy);
    publish(f, 7, "a", "b");
    start(f);
    wait_enforced(f, 7);
    assert_int_equal(unlink(f->stored), 0);
    assert_int_equal(mkdir(f->stored, 0755), 0); /* nothing can be written there */
    publish(f, 8, "a", "b");
    wait_open(f, &status(f)->copy->trouble, "not a regular file");
    for (unsigned i = 0; i < 2000 && proxy_double_enforced(&f->proxy) != 8; i++) {
        run_for(f->loop, 5);
    }
    assert_int_equal(proxy_double_enforced(&f->proxy), 8);
    assert_true(status(f)->copy->failures > 0);
    assert_int_equal(rmdir(f->stored), 0);
    pipeline_retry(f->pipeline);
    wait_enforced(f, 8);
    assert_false(status(f)->copy->trouble.open);
}

static void without_a_socket_it_is_ready_when_there_are_rules(void **state)
{
    struct fixture *f = *state;
    struct pipeline_options o = options(f);
    o.control = NULL;
    start_with(f, &o);
    run_for(f->loop, 50);
    assert_false(ready(f));
    publish(f, 7, "a", "b");
    for (unsigned i = 0; i < 2000 && !ready(f); i++) {
        run_for(f->loop, 5);
    }
    assert_int_equal(stored_generation(f), 7);
}

static void without_a_copy_generations_are_known_while_it_runs(void **state)
{
    struct fixture *f = *state;
    struct pipeline_options o = options(f);
    o.to = NULL;
    proxy_double_start(&f->proxy);
    publish(f, 7, "a", "b");
    start_with(f, &o);
    for (unsigned i = 0; i < 2000 && !ready(f); i++) {
        run_for(f->loop, 5);
    }
    publish(f, 6, "a", "b");
    wait_open(f, &status(f)->refused, "is older");
    /* After a restart the proxy still knows. */
    stop(f);
    start_with(f, &o);
    for (unsigned i = 0; i < 2000 && status(f)->delivery->verdict != DELIVERY_AHEAD; i++) {
        run_for(f->loop, 5);
    }
    assert_int_equal(proxy_double_enforced(&f->proxy), 7);
    assert_false(ready(f));
}

static void restarts_in_any_order_lose_nothing(void **state)
{
    struct fixture *f = *state;
    publish(f, 7, "a", "b");
    start(f);
    run_for(f->loop, 30);
    proxy_double_start(&f->proxy);
    wait_enforced(f, 7);
    for (unsigned i = 8; i < 20; i++) {
        if (i % 3 == 0) {
            proxy_double_restart(&f->proxy, i % 2 == 0 ? NULL : proxy_rules_make(1, "a", "b"));
        }
        publish(f, i, "a", "b");
        if (i % 2 == 0) {
            restart(f);
        }
        wait_enforced(f, i);
    }
}

static void a_copy_of_another_shard_stops_everything(void **state)
{
    struct fixture *f = *state;
    struct pipeline_options o = options(f);
    struct err e = ERR_INIT;
    o.control = NULL;
    publish(f, 7, "a", "b");
    start_with(f, &o);
    for (unsigned i = 0; i < 2000 && !ready(f); i++) {
        run_for(f->loop, 5);
    }
    stop(f);
    o.shard = "ns/b";
    assert_null(pipeline_new(f->loop, &o, &e));
    assert_non_null(strstr(e.msg, "must be removed first"));
}

/* ---- a single pass ---- */

static void expect_result(struct fixture *f, enum pipeline_result result, const char *words)
{
    char why[ERR_MSG_MAX + 64] = "";
    for (unsigned i = 0; i < 2000; i++) {
        if (pipeline_result(f->pipeline, why, sizeof why) == result && strstr(why, words) != NULL) {
            return;
        }
        run_for(f->loop, 5);
    }
    fail_msg("wanted \"%s\", got \"%s\"", words, why);
}

static void a_single_pass_ends_when_all_is_done(void **state)
{
    struct fixture *f = *state;
    publish(f, 7, "a", "b");
    start(f);
    expect_result(f, PIPELINE_UNDER_WAY, "");
    run_for(f->loop, 50);
    expect_result(f, PIPELINE_UNDER_WAY, f->socket);
    proxy_double_start(&f->proxy);
    expect_result(f, PIPELINE_DONE, "");
    wait_enforced(f, 7);
}

static void a_single_pass_fails_for_good_reasons(void **state)
{
    struct fixture *f = *state;
    proxy_double_start(&f->proxy);
    start(f);
    expect_result(f, PIPELINE_FAILED, "has no key rules.json");
    publish_text(f, "[]");
    expect_result(f, PIPELINE_FAILED, "mount/rules.json: ");
    f->proxy.mood = REFUSE;
    publish(f, 7, "a", "b");
    expect_result(f, PIPELINE_FAILED, "I do not like it");
    f->proxy.mood = OBEY;
    proxy_double_enforce(&f->proxy, proxy_rules_make(9, "a", "b"));
    expect_result(f, PIPELINE_FAILED, "generation 9");
    stop(f);
    assert_int_equal(unlink(f->stored), 0);
    publish(f, 10, "a", "b");
    start(f);
    assert_int_equal(mkdir(f->stored, 0755), 0);
    expect_result(f, PIPELINE_FAILED, "not a regular file");
    assert_int_equal(proxy_double_enforced(&f->proxy), 10);
}

/* Rules that are stored already do not make up for those that should come. */
static void a_single_pass_is_about_the_source(void **state)
{
    struct fixture *f = *state;
    proxy_double_start(&f->proxy);
    publish(f, 7, "a", "b");
    start(f);
    wait_enforced(f, 7);
    stop(f);
    temp_dir_empty(f->mount);
    start(f);
    expect_result(f, PIPELINE_FAILED, "has no key rules.json");
    publish(f, 7, "a", "b");
    expect_result(f, PIPELINE_DONE, "");
}

/* Before an operator starts, what is there already will do. */
static void a_single_pass_at_the_start_of_a_pod(void **state)
{
    struct fixture *f = *state;
    struct pipeline_options o = options(f);
    o.at_start = true;
    proxy_double_start(&f->proxy);
    start_with(f, &o);
    expect_result(f, PIPELINE_UNDER_WAY, "has no key rules.json");
    publish_text(f, "[]");
    expect_result(f, PIPELINE_FAILED, "mount/rules.json: ");
    publish(f, 7, "a", "b");
    expect_result(f, PIPELINE_DONE, "");
    wait_enforced(f, 7);
    stop(f);
    temp_dir_empty(f->mount);
    start_with(f, &o);
    expect_result(f, PIPELINE_DONE, "");
    publish(f, 6, "a", "b");
    wait_open(f, &status(f)->refused, "is older");
    expect_result(f, PIPELINE_DONE, "");
    proxy_double_enforce(&f->proxy, proxy_rules_make(9, "a", "b"));
    publish(f, 8, "a", "b");
    for (unsigned i = 0; i < 2000 && status(f)->delivery->verdict != DELIVERY_AHEAD; i++) {
        run_for(f->loop, 5);
    }
    expect_result(f, PIPELINE_DONE, "");
    assert_int_equal(proxy_double_enforced(&f->proxy), 9);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_is_published_is_stored_and_enforced),
        TEST(what_is_refused_changes_nothing),
        TEST(what_is_missing_changes_nothing),
        TEST(localproxy_is_told_what_is_wrong),
        TEST(a_restart_without_a_source_knows_the_rules),
        TEST(rules_that_cannot_be_stored_are_enforced),
        TEST(without_a_socket_it_is_ready_when_there_are_rules),
        TEST(without_a_copy_generations_are_known_while_it_runs),
        TEST(restarts_in_any_order_lose_nothing),
        TEST(a_copy_of_another_shard_stops_everything),
        TEST(a_single_pass_ends_when_all_is_done),
        TEST(a_single_pass_fails_for_good_reasons),
        TEST(a_single_pass_is_about_the_source),
        TEST(a_single_pass_at_the_start_of_a_pod),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
