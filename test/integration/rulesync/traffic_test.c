/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traffic policies on their way from a folder to localproxy, beside rules that go theirs.
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
    char from[256]; /* the mounted folder, or a file */
    char stored[256];
    char stored_traffic[256];
    char socket[256];
    struct pipeline *rules;
    struct pipeline *traffic;
    struct source_dir *source;
    struct proxy_double proxy;
    bool no_socket;
    bool once;
    const char *shard;
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
    memcpy(f->from, f->mount, sizeof f->from);
    (void)temp_dir_path(&f->dir, "stored.json", f->stored);
    (void)temp_dir_path(&f->dir, SOURCE_TRAFFIC_KEY, f->stored_traffic);
    (void)temp_dir_path(&f->dir, "control.sock", f->socket);
    f->proxy = (struct proxy_double){.loop = f->loop, .path = f->socket};
    f->proxy.traffic.known = true;
    *state = f;
    return 0;
}

static void stop(struct fixture *f)
{
    source_dir_free(f->source);
    pipeline_free(f->traffic);
    pipeline_free(f->rules);
    f->source = NULL;
    f->traffic = NULL;
    f->rules = NULL;
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

static struct pipeline *open_pipeline(struct fixture *f, struct pipeline_options *o)
{
    struct err e = ERR_INIT;
    struct pipeline *s = pipeline_new(f->loop, o, &e);
    if (s == NULL) {
        fail_msg("%s", e.msg);
    }
    return s;
}

static void start(struct fixture *f)
{
    struct err e = ERR_INIT;
    struct pipeline_options o = {
        .document = CONTROL_RULES,
        .to = f->stored,
        .control = f->no_socket ? NULL : f->socket,
        .shard = f->shard,
        .once = f->once,
        .delivery = {.check_ms = 50, .retry_min_ms = 10, .retry_max_ms = 50, .refused_ms = 300},
    };
    f->rules = open_pipeline(f, &o);
    o.document = CONTROL_TRAFFIC;
    o.to = f->stored_traffic;
    o.rules = f->rules;
    f->traffic = open_pipeline(f, &o);
    struct source_dir_options so = {
        .path = f->from,
        .settle_ms = 5,
        .retry_ms = 10,
        .traffic = {.handlers = &pipeline_handlers, .data = f->traffic},
    };
    f->source = source_dir_new(f->loop, &so, &pipeline_handlers, f->rules, &e);
    assert_non_null(f->source);
}

static void restart(struct fixture *f)
{
    stop(f);
    start(f);
}

/* ---- what is there ---- */

static void put_text(struct fixture *f, const char *key, const void *text, size_t len)
{
    struct err e = ERR_INIT;
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", f->mount, key);
    assert_int_equal(file_write_atomic(path, text, len, 0644, &e), 0);
}

static void publish_rules(struct fixture *f, unsigned generation)
{
    struct rules *r = proxy_rules_make(generation, "a", "b");
    struct buf text = BUF_INIT(65536);
    assert_int_equal(rules_to_json(r, &text), 0);
    put_text(f, SOURCE_KEY, buf_data(&text), text.len);
    buf_reset(&text);
    rules_unref(r);
}

static void publish(struct fixture *f, unsigned generation, const char *shard, const char *name)
{
    struct traffic *t = proxy_traffic_make(generation, shard, name);
    struct buf text = BUF_INIT(65536);
    assert_int_equal(traffic_to_json(t, &text), 0);
    put_text(f, SOURCE_TRAFFIC_KEY, buf_data(&text), text.len);
    buf_reset(&text);
    traffic_unref(t);
}

static void unpublish(struct fixture *f, const char *key)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", f->mount, key);
    assert_int_equal(unlink(path), 0);
}

/* 0: there is no copy. */
static unsigned stored_generation(struct fixture *f)
{
    struct buf text = BUF_INIT(TRAFFIC_TEXT_MAX);
    struct err e = ERR_INIT;
    unsigned generation = 0;
    if (access(f->stored_traffic, F_OK) == 0 && file_read(f->stored_traffic, &text, &e) == 0) {
        struct traffic *t = traffic_parse((const char *)buf_data(&text), text.len, &e);
        assert_non_null(t); /* at no time half-written */
        generation = (unsigned)traffic_generation(t);
        traffic_unref(t);
    }
    buf_reset(&text);
    return generation;
}

/* ---- what becomes of it ---- */

static const struct pipeline_status *status(struct fixture *f)
{
    return pipeline_status(f->traffic);
}

static void wait_verdict(struct fixture *f, enum delivery_verdict verdict)
{
    for (unsigned i = 0; i < 2000 && status(f)->delivery->verdict != verdict; i++) {
        run_for(f->loop, 5);
    }
    assert_int_equal(status(f)->delivery->verdict, verdict);
}

/* 0: none is in force, and localproxy said so. */
static void wait_in_force(struct fixture *f, unsigned generation)
{
    for (unsigned i = 0; i < 2000 && (proxy_double_traffic(&f->proxy) != generation ||
                                      status(f)->delivery->verdict != DELIVERY_CONFIRMED ||
                                      (generation == 0 && !status(f)->none));
         i++) {
        run_for(f->loop, 5);
    }
    assert_int_equal(proxy_double_traffic(&f->proxy), generation);
    assert_int_equal(status(f)->delivery->verdict, DELIVERY_CONFIRMED);
    assert_int_equal(stored_generation(f), generation);
    assert_int_equal(status(f)->copy->generation, generation);
}

static void wait_rules(struct fixture *f, unsigned generation)
{
    char why[ERR_MSG_MAX + 64];
    for (unsigned i = 0; i < 2000 && (proxy_double_enforced(&f->proxy) != generation ||
                                      !pipeline_ready(f->rules, why, sizeof why));
         i++) {
        run_for(f->loop, 5);
    }
    assert_int_equal(proxy_double_enforced(&f->proxy), generation);
    assert_true(pipeline_ready(f->rules, why, sizeof why));
}

static void wait_open(struct fixture *f, const struct condition *c, const char *words)
{
    for (unsigned i = 0; i < 2000 && (!c->open || strstr(c->text, words) == NULL); i++) {
        run_for(f->loop, 5);
    }
    assert_true(c->open);
    assert_non_null(strstr(c->text, words));
}

static void wait_told(struct fixture *f, const char *words)
{
    for (unsigned i = 0; i < 2000 && strstr(f->proxy.traffic.trouble, words) == NULL; i++) {
        run_for(f->loop, 5);
    }
    assert_non_null(strstr(f->proxy.traffic.trouble, words));
}

static void wait_untold(struct fixture *f)
{
    for (unsigned i = 0; i < 2000 && f->proxy.traffic.trouble[0] != '\0'; i++) {
        run_for(f->loop, 5);
    }
    assert_string_equal(f->proxy.traffic.trouble, "");
}

/* Rules 7 and policies 3 are in force. */
static void start_with_both(struct fixture *f)
{
    proxy_double_start(&f->proxy);
    publish_rules(f, 7);
    publish(f, 3, "a", "x");
    start(f);
    wait_in_force(f, 3);
    wait_rules(f, 7);
}

/* ---- a change ---- */

static void policies_come_change_and_go(void **state)
{
    struct fixture *f = *state;
    proxy_double_start(&f->proxy);
    publish_rules(f, 7);
    start(f);
    wait_in_force(f, 0);
    assert_false(status(f)->source.open);
    assert_int_equal(f->proxy.traffic.puts + f->proxy.traffic.removals, 0);
    publish(f, 3, "a", "x");
    wait_in_force(f, 3);
    publish(f, 4, "a", "y");
    wait_in_force(f, 4);
    unpublish(f, SOURCE_TRAFFIC_KEY);
    wait_in_force(f, 0);
    assert_int_not_equal(access(f->stored_traffic, F_OK), 0);
    assert_int_equal(f->proxy.traffic.removals, 1);
    assert_int_equal(status(f)->seen.at, 0);
    publish(f, 1, "a", "x");
    wait_in_force(f, 1);
    wait_rules(f, 7);
    assert_int_equal(f->proxy.puts, 1);
}

/* What the source shows is in force, whatever its generation. */
static void there_is_no_order(void **state)
{
    struct fixture *f = *state;
    start_with_both(f);
    publish(f, 2, "a", "y");
    wait_in_force(f, 2);
    publish(f, 2, "a", "z");
    for (unsigned i = 0; i < 2000 && f->proxy.traffic.puts < 3; i++) {
        run_for(f->loop, 5);
    }
    wait_in_force(f, 2);
    assert_string_equal(traffic_policy_at(f->proxy.traffic.enforced, 0)->name, "z");
}

static void both_change_at_once(void **state)
{
    struct fixture *f = *state;
    start_with_both(f);
    for (unsigned i = 0; i < 5; i++) {
        publish_rules(f, 10 + i);
        publish(f, 20 + i, "a", i % 2 == 0 ? "x" : "y");
        wait_rules(f, 10 + i);
        wait_in_force(f, 20 + i);
    }
}

/* ---- what changes nothing ---- */

static void a_bad_document_changes_nothing_and_is_told(void **state)
{
    struct fixture *f = *state;
    start_with_both(f);
    put_text(f, SOURCE_TRAFFIC_KEY, "{\"kind\":\"ShardTraffic\"}", 23);
    wait_open(f, &status(f)->refused, "mount/traffic.json: ");
    assert_int_equal(status(f)->seen.refusal, REFUSAL_INVALID);
    assert_int_equal(status(f)->refusals[REFUSAL_INVALID], 1);
    wait_told(f, "mount/traffic.json: ");
    wait_in_force(f, 3);
    assert_string_equal(f->proxy.trouble, "");
    publish_rules(f, 8);
    wait_rules(f, 8);
    publish(f, 4, "a", "y");
    wait_in_force(f, 4);
    assert_false(status(f)->refused.open);
    wait_untold(f);
}

/* What a newer manager may write. */
static void a_newer_document_changes_nothing_and_is_told(void **state)
{
    static const char version[] = "{\"apiVersion\":\"cmesh/v2\",\"kind\":\"ShardTraffic\",\"spec\":"
                                  "{\"breakers\":[]}}";
    static const char field[] =
        "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardTraffic\",\"shard\":{\"namespace\":\"ns\","
        "\"name\":\"a\"},\"generation\":4,\"spec\":{\"breakers\":[{\"name\":\"p\",\"spec\":{"
        "\"queues\":[]}}]}}";
    struct fixture *f = *state;
    start_with_both(f);
    put_text(f, SOURCE_TRAFFIC_KEY, version, sizeof version - 1);
    wait_told(f, "apiVersion: Unsupported value: \"cmesh/v2\": supported values: \"cmesh/v1\"");
    wait_in_force(f, 3);
    put_text(f, SOURCE_TRAFFIC_KEY, field, sizeof field - 1);
    wait_told(f, "spec.breakers[0].spec.queues: Forbidden: unknown field");
    wait_in_force(f, 3);
    publish(f, 5, "a", "y");
    wait_in_force(f, 5);
    wait_untold(f);
}

static void policies_of_another_shard_change_nothing(void **state)
{
    struct fixture *f = *state;
    start_with_both(f);
    publish(f, 4, "b", "y");
    wait_open(f, &status(f)->refused, "these are the traffic policies of shard ns/b, not of ns/a");
    assert_int_equal(status(f)->refusals[REFUSAL_SHARD], 1);
    wait_in_force(f, 3);
    stop(f);
    assert_int_equal(unlink(f->stored_traffic), 0);
    f->shard = "ns/a";
    start(f);
    wait_open(f, &status(f)->refused, "not of ns/a");
    assert_true(shard_document_is_none(status(f)->used));
}

static void what_is_too_long_changes_nothing(void **state)
{
    struct fixture *f = *state;
    start_with_both(f);
    size_t len = TRAFFIC_TEXT_MAX + 1;
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, ' ', len);
    put_text(f, SOURCE_TRAFFIC_KEY, text, len);
    wait_open(f, &status(f)->source, "mount/traffic.json: ");
    assert_int_equal(status(f)->trouble, SOURCE_UNREADABLE);
    wait_in_force(f, 3);
    free(text);
    publish_rules(f, 8);
    wait_rules(f, 8);
}

/* The kubelet shows a ConfigMap that was deleted as an empty folder. */
static void a_folder_that_is_gone_or_empty_changes_nothing(void **state)
{
    struct fixture *f = *state;
    char other[300];
    start_with_both(f);
    (void)snprintf(other, sizeof other, "%s.gone", f->mount);
    assert_int_equal(rename(f->mount, other), 0);
    wait_open(f, &status(f)->source, "mount: No such file");
    wait_told(f, "mount: No such file");
    wait_in_force(f, 3);
    assert_int_equal(rename(other, f->mount), 0);
    wait_untold(f);
    unpublish(f, SOURCE_KEY);
    unpublish(f, SOURCE_TRAFFIC_KEY);
    wait_open(f, &status(f)->source, "has neither key rules.json nor traffic.json");
    wait_in_force(f, 3);
    publish_rules(f, 7);
    wait_in_force(f, 0);
}

/* ---- restarts ---- */

static void a_restart_begins_with_the_copy(void **state)
{
    struct fixture *f = *state;
    start_with_both(f);
    stop(f);
    temp_dir_empty(f->mount);
    proxy_double_restart(&f->proxy, NULL);
    start(f);
    wait_in_force(f, 3);
    assert_int_equal(status(f)->used_at, 0);
    wait_told(f, "has neither key");
    publish_rules(f, 7);
    wait_in_force(f, 0);
    restart(f);
    wait_in_force(f, 0);
}

static void a_copy_that_cannot_be_used_stops_nothing(void **state)
{
    struct fixture *f = *state;
    struct err e = ERR_INIT;
    proxy_double_start(&f->proxy);
    publish_rules(f, 7);
    f->shard = "ns/a";
    assert_int_equal(file_write_atomic(f->stored_traffic, "half of", 7, 0644, &e), 0);
    start(f);
    wait_rules(f, 7);
    wait_in_force(f, 0);
    assert_int_not_equal(access(f->stored_traffic, F_OK), 0);
    stop(f);
    struct traffic *t = proxy_traffic_make(3, "b", "x");
    struct buf text = BUF_INIT(65536);
    assert_int_equal(traffic_to_json(t, &text), 0);
    assert_int_equal(file_write_atomic(f->stored_traffic, buf_data(&text), text.len, 0644, &e), 0);
    buf_reset(&text);
    traffic_unref(t);
    publish(f, 3, "a", "x"); /* the same generation and checksum */
    start(f);
    wait_in_force(f, 3);
    assert_int_equal(f->proxy.traffic.puts, 1);
    assert_int_equal(status(f)->copy->stores, 1);
}

static void a_proxy_that_was_restarted_gets_them_again(void **state)
{
    struct fixture *f = *state;
    start_with_both(f);
    proxy_double_restart(&f->proxy, NULL);
    wait_in_force(f, 3);
    wait_rules(f, 7);
    proxy_double_restart(&f->proxy, NULL);
    proxy_double_enforce_traffic(&f->proxy, proxy_traffic_make(9, "a", "z"));
    wait_in_force(f, 3);
    unpublish(f, SOURCE_TRAFFIC_KEY);
    wait_in_force(f, 0);
    proxy_double_restart(&f->proxy, NULL);
    proxy_double_enforce_traffic(&f->proxy, proxy_traffic_make(3, "a", "x"));
    wait_in_force(f, 0);
}

/* ---- a proxy that does not take them ---- */

static void a_proxy_that_is_too_old_gets_rules(void **state)
{
    struct fixture *f = *state;
    f->proxy.traffic.known = false;
    proxy_double_start(&f->proxy);
    publish_rules(f, 7);
    start(f);
    wait_rules(f, 7);
    wait_verdict(f, DELIVERY_UNSUPPORTED);
    assert_false(status(f)->delivery->outdated);
    publish(f, 3, "a", "x");
    for (unsigned i = 0; i < 2000 && !status(f)->delivery->outdated; i++) {
        run_for(f->loop, 5);
    }
    wait_verdict(f, DELIVERY_UNSUPPORTED);
    assert_true(status(f)->delivery->outdated);
    assert_false(status(f)->delivery->trouble.open);
    assert_int_equal(status(f)->delivery->offers, 0); /* it is asked alone */
    assert_int_equal(stored_generation(f), 3);
    publish_rules(f, 8);
    wait_rules(f, 8);
    f->proxy.traffic.known = true; /* the next one is of this version */
    proxy_double_restart(&f->proxy, NULL);
    wait_in_force(f, 3);
    assert_false(status(f)->delivery->outdated);
    wait_rules(f, 8);
}

static void a_proxy_that_refuses_them_gets_rules(void **state)
{
    struct fixture *f = *state;
    f->proxy.traffic.mood = REFUSE;
    proxy_double_start(&f->proxy);
    publish_rules(f, 7);
    publish(f, 3, "a", "x");
    start(f);
    wait_rules(f, 7);
    wait_verdict(f, DELIVERY_REFUSED);
    wait_told(f, "of another shard");
    assert_string_equal(f->proxy.trouble, "");
    f->proxy.traffic.mood = DELAY;
    publish(f, 4, "a", "x");
    wait_open(f, &status(f)->delivery->trouble, "later");
    publish_rules(f, 8);
    wait_rules(f, 8);
    f->proxy.traffic.mood = OBEY;
    wait_in_force(f, 4);
    f->proxy.traffic.mood = DELAY;
    unpublish(f, SOURCE_TRAFFIC_KEY);
    wait_open(f, &status(f)->delivery->trouble, "later");
    assert_int_equal(proxy_double_traffic(&f->proxy), 4);
    f->proxy.traffic.mood = OBEY;
    wait_in_force(f, 0);
}

/* It keeps its complaint until it is told that there are none. */
static void what_is_refused_and_taken_back_is_told(void **state)
{
    struct fixture *f = *state;
    f->proxy.traffic.mood = REFUSE;
    proxy_double_start(&f->proxy);
    publish_rules(f, 7);
    publish(f, 3, "a", "x");
    start(f);
    wait_verdict(f, DELIVERY_REFUSED);
    assert_int_equal(f->proxy.traffic.removals, 0);
    f->proxy.traffic.mood = OBEY;
    unpublish(f, SOURCE_TRAFFIC_KEY);
    wait_verdict(f, DELIVERY_CONFIRMED);
    assert_int_equal(f->proxy.traffic.removals, 1);
    assert_int_equal(proxy_double_traffic(&f->proxy), 0);
}

static void a_proxy_that_refuses_rules_gets_policies(void **state)
{
    struct fixture *f = *state;
    f->proxy.mood = REFUSE;
    proxy_double_start(&f->proxy);
    publish_rules(f, 7);
    publish(f, 3, "a", "x");
    start(f);
    wait_in_force(f, 3);
    publish(f, 4, "a", "y");
    wait_in_force(f, 4);
    assert_int_equal(proxy_double_enforced(&f->proxy), 0);
    put_text(f, SOURCE_KEY, "[]", 2);
    publish(f, 5, "a", "y");
    wait_in_force(f, 5);
}

/* ---- a disk that is full ---- */

static void what_cannot_be_stored_is_in_force(void **state)
{
    struct fixture *f = *state;
    char inside[512];
    proxy_double_start(&f->proxy);
    publish_rules(f, 7);
    publish(f, 3, "a", "x");
    assert_int_equal(mkdir(f->stored_traffic, 0755), 0);
    (void)snprintf(inside, sizeof inside, "%s/x", f->stored_traffic);
    assert_int_equal(mkdir(inside, 0755), 0);
    start(f);
    wait_rules(f, 7);
    wait_open(f, &status(f)->copy->trouble, "traffic.json");
    for (unsigned i = 0; i < 2000 && proxy_double_traffic(&f->proxy) != 3; i++) {
        run_for(f->loop, 5);
    }
    assert_int_equal(proxy_double_traffic(&f->proxy), 3);
    assert_false(pipeline_status(f->rules)->copy->trouble.open);
    unpublish(f, SOURCE_TRAFFIC_KEY);
    wait_open(f, &status(f)->copy->trouble, "cannot remove");
    assert_int_equal(rmdir(inside), 0);
    assert_int_equal(rmdir(f->stored_traffic), 0);
    pipeline_retry(f->traffic);
    assert_false(status(f)->copy->trouble.open);
    publish(f, 4, "a", "x");
    wait_in_force(f, 4);
}

/* ---- a single file ---- */

static void a_single_file_says_nothing_of_policies(void **state)
{
    struct fixture *f = *state;
    (void)snprintf(f->from, sizeof f->from, "%.200s/" SOURCE_KEY, f->mount);
    proxy_double_start(&f->proxy);
    proxy_double_enforce_traffic(&f->proxy, proxy_traffic_make(9, "a", "z"));
    publish_rules(f, 7);
    publish(f, 3, "a", "x"); /* beside it */
    start(f);
    wait_rules(f, 7);
    assert_true(status(f)->silent);
    pipeline_retry(f->traffic);
    run_for(f->loop, 150);
    assert_int_equal(proxy_double_traffic(&f->proxy), 9);
    proxy_double_restart(&f->proxy, NULL); /* its socket comes anew */
    proxy_double_enforce_traffic(&f->proxy, proxy_traffic_make(9, "a", "z"));
    wait_rules(f, 7);
    run_for(f->loop, 50);
    assert_int_equal(proxy_double_traffic(&f->proxy), 9);
    assert_int_equal(f->proxy.traffic.gets, 0);
    assert_int_equal(stored_generation(f), 0);
    assert_true(pipeline_settled(f->traffic));
}

/* ---- a single pass ---- */

static void wait_settled(struct fixture *f)
{
    for (unsigned i = 0; i < 2000 && !pipeline_settled(f->traffic); i++) {
        run_for(f->loop, 5);
    }
    assert_true(pipeline_settled(f->traffic));
}

static void a_single_pass_stores_them(void **state)
{
    struct fixture *f = *state;
    f->once = true;
    f->no_socket = true;
    publish_rules(f, 7);
    publish(f, 3, "a", "x");
    start(f);
    assert_false(pipeline_settled(f->traffic));
    wait_settled(f);
    assert_int_equal(stored_generation(f), 3);
    unpublish(f, SOURCE_TRAFFIC_KEY);
    restart(f);
    wait_settled(f);
    assert_int_equal(stored_generation(f), 0);
}

/* Bad policies never keep a pod from starting. */
static void a_single_pass_ends_whatever_they_are(void **state)
{
    struct fixture *f = *state;
    char why[ERR_MSG_MAX + 64];
    f->once = true;
    f->no_socket = true;
    publish_rules(f, 7);
    publish(f, 3, "a", "x");
    start(f);
    wait_settled(f);
    put_text(f, SOURCE_TRAFFIC_KEY, "[]", 2);
    restart(f);
    wait_settled(f);
    assert_true(status(f)->refused.open);
    assert_int_equal(stored_generation(f), 3);
    assert_int_equal(pipeline_result(f->rules, why, sizeof why), PIPELINE_DONE);
    stop(f);
    f->no_socket = false;
    f->proxy.traffic.mood = DELAY;
    proxy_double_start(&f->proxy);
    publish(f, 4, "a", "x");
    start(f);
    wait_settled(f);
    assert_true(status(f)->delivery->trouble.open);
    wait_rules(f, 7);
    assert_int_equal(pipeline_result(f->rules, why, sizeof why), PIPELINE_DONE);
    stop(f);
    f->proxy.traffic.known = false;
    proxy_double_restart(&f->proxy, NULL);
    start(f);
    wait_settled(f);
    assert_int_equal(status(f)->delivery->verdict, DELIVERY_UNSUPPORTED);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(policies_come_change_and_go),
        TEST(there_is_no_order),
        TEST(both_change_at_once),
        TEST(a_bad_document_changes_nothing_and_is_told),
        TEST(a_newer_document_changes_nothing_and_is_told),
        TEST(policies_of_another_shard_change_nothing),
        TEST(what_is_too_long_changes_nothing),
        TEST(a_folder_that_is_gone_or_empty_changes_nothing),
        TEST(a_restart_begins_with_the_copy),
        TEST(a_copy_that_cannot_be_used_stops_nothing),
        TEST(a_proxy_that_was_restarted_gets_them_again),
        TEST(a_proxy_that_is_too_old_gets_rules),
        TEST(a_proxy_that_refuses_them_gets_rules),
        TEST(what_is_refused_and_taken_back_is_told),
        TEST(a_proxy_that_refuses_rules_gets_policies),
        TEST(what_cannot_be_stored_is_in_force),
        TEST(a_single_file_says_nothing_of_policies),
        TEST(a_single_pass_stores_them),
        TEST(a_single_pass_ends_whatever_they_are),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
