/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the prober makes of pods that answer, and in all the ways in which they do not.
 */
#include "prober_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"

#define NO_PROXY "localproxy did not answer as a cmesh sidecar"
#define NO_RULESYNC "rulesync did not answer as a cmesh sidecar"

/* ---- answers ---- */

static void test_says_what_is_enforced(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = begin(f, NULL);
    const struct probe_result *r = result(f);
    assert_string_equal(s->target, "/status");
    assert_string_equal(s->host, address_of(s));
    assert_true(r->asked);
    assert_true(r->enforcing);
    assert_int_equal(r->generation, 1);
    assert_string_equal(r->checksum, SUM);
    assert_string_equal(r->shard, "demo/a");
    assert_true(r->since_ms == INT64_C(1700000000000));
    assert_string_equal(r->message, "");
    assert_int_equal(f->changes, 1);
    assert_string_equal(f->changed, "demo/pod-0");
    assert_null(prober_result(f->prober, "demo/pod-1"));
    assert_int_equal(prober_stats(f->prober)->targets, 1);
}

static void test_asks_again_now_and_then(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = begin(f, NULL);
    pass_and_await(f, 15000, s);
    assert_int_equal(f->changes, 1); /* nothing new */
    enforce(s, "b", 4, 1700000500);
    pass_and_await(f, 15000, s);
    assert_int_equal(f->changes, 2);
    assert_string_equal(result(f)->shard, "demo/b");
    assert_int_equal(result(f)->generation, 4);
    say(s, 200, "{\"program\":\"localproxy\",\"rules\":{\"inForce\":false}}");
    pass_and_await(f, 15000, s);
    assert_int_equal(f->changes, 3);
    assert_false(result(f)->enforcing);
    assert_int_equal(result(f)->generation, 0);
    assert_int_equal(prober_stats(f->prober)->asked, 4);
    assert_int_equal(prober_stats(f->prober)->failed, 0);
    say(s, 200,
        "{\"program\":\"localproxy\",\"version\":\"0.0.1\",\"uptimeSeconds\":9,"
        "\"rules\":{\"inForce\":false},\"clients\":{\"requests\":0}}");
    pass_and_await(f, 15000, s);
    assert_int_equal(f->changes, 4);
    assert_true(result(f)->unused);
    assert_int_equal(prober_stats(f->prober)->other_versions, 1);
    say(s, 200,
        "{\"program\":\"localproxy\",\"version\":\"" CMESH_VERSION
        "\",\"uptimeSeconds\":24,\"rules\":{\"inForce\":false},"
        "\"clients\":{\"requests\":0},\"bypass\":{\"connections\":1}}");
    pass_and_await(f, 15000, s);
    assert_int_equal(f->changes, 5);
    assert_true(result(f)->bypassed);
    assert_int_equal(prober_stats(f->prober)->other_versions, 0);
}

static void test_pods_are_not_asked_in_step(void **state)
{
    struct fixture *f = *state;
    f->clock.random = 0;
    struct sidecar *s = begin(f, NULL);
    pass_and_await(f, 13500, s);
    f->clock.random = UINT32_MAX;
    pass_and_await(f, 13500, s);
    unsigned before = s->asked;
    pass(f, 16000);
    assert_int_equal(s->asked, before);
    pass(f, 500);
    assert_int_equal(s->asked, before + 1);
}

static void test_a_clock_that_is_ahead(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = add_proxy(f, 0);
    const int64_t first = FAKE_CLOCK_WALL / 1000;
    enforce(s, "a", 1, FAKE_CLOCK_WALL / 1000000 + 3600);
    assert_int_equal(watch(f, 0, "u", address_of(s), NULL), 0);
    await_state(f, PROBE_ANSWERED);
    assert_true(result(f)->since_ms == first);
    pass_and_await(f, 15000, s);
    assert_true(result(f)->since_ms == first); /* the same rules, since the same time */
    assert_int_equal(f->changes, 1);
    enforce(s, "a", 2, FAKE_CLOCK_WALL / 1000000 + 3700);
    pass_and_await(f, 15000, s);
    assert_true(result(f)->since_ms == first + 30000);
}

/* ---- what is expected ---- */

static void test_asks_often_until_it_is_enforced(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = begin(f, NULL);
    pass(f, 5000);
    prober_expect(f->prober, "demo/pod-0", 2);
    await(f, &s->asked, 2);
    run_for(f->loop, 10);
    pass_and_await(f, 100, s);
    pass_and_await(f, 100, s);
    prober_expect(f->prober, "demo/pod-0", 2); /* said already */
    pass_and_await(f, 100, s);
    enforce(s, "a", 2, 1700000500);
    pass_and_await(f, 100, s);
    assert_int_equal(result(f)->generation, 2);
    pass_and_await(f, 15000, s);
    /* It forgets: as if it had been started again with old rules. */
    enforce(s, "a", 1, 1700000500);
    pass_and_await(f, 15000, s);
    pass_and_await(f, 100, s);
    prober_expect(f->prober, "demo/pod-0", 0);
    pass_and_await(f, 100, s); /* was due already */
    pass_and_await(f, 15000, s);
}

static void test_asks_ever_more_rarely(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = begin(f, NULL);
    prober_expect(f->prober, "demo/pod-0", 2);
    pass(f, 1000);
    unsigned first = s->asked;
    assert_in_range(first, 8, 13); /* each 100 ms */
    pass(f, 9000);
    assert_in_range(s->asked - first, 15, 30); /* a tenth of the time that passed */
    for (int i = 0; i < 200; i++) {
        fake_clock_pass(&f->clock, 1000);
        run_for(f->loop, 3);
    }
    unsigned before = s->asked;
    pass(f, 30000); /* as usual */
    assert_in_range(s->asked - before, 1, 3);
}

static void test_rulesync_says_why(void **state)
{
    struct fixture *f = *state;
    struct sidecar *sync = &f->rulesyncs[0];
    listen_anywhere(f, sync);
    complain(sync, "line 3: no such operator");
    struct sidecar *s = begin(f, address_of(sync));
    pass(f, 31000);
    assert_int_equal(sync->asked, 0); /* nothing is expected */
    prober_expect(f->prober, "demo/pod-0", 2);
    pass(f, 900);
    assert_int_equal(sync->asked, 0); /* it may be on its way */
    assert_string_equal(result(f)->message, "");
    pass(f, 300);
    assert_true(sync->asked > 0);
    assert_string_equal(result(f)->message, "line 3: no such operator");
    unsigned changes = f->changes;
    pass(f, 2000);
    assert_int_equal(f->changes, changes);
    complain(sync, "");
    pass(f, 1000);
    assert_string_equal(result(f)->message, "");
    complain(sync, "again");
    pass(f, 1000);
    enforce(s, "a", 2, 1700000500);
    pass(f, 1000);
    assert_string_equal(result(f)->message, "");
    unsigned asked = sync->asked;
    pass(f, 31000);
    assert_int_equal(sync->asked, asked);
}

/* rulesync need not be asked when localproxy knows what it says. */
static void test_localproxy_says_why(void **state)
{
    struct fixture *f = *state;
    listen_anywhere(f, &f->rulesyncs[0]);
    complain(&f->rulesyncs[0], "by itself");
    struct sidecar *s = begin(f, address_of(&f->rulesyncs[0]));
    say(s, 200,
        "{\"program\":\"localproxy\",\"rules\":{\"inForce\":false},\"rulesync\":{\"error\":\"no "
        "key\"}}");
    prober_expect(f->prober, "demo/pod-0", 2);
    pass(f, 5000);
    assert_string_equal(result(f)->message, "no key");
    assert_int_equal(f->rulesyncs[0].asked, 0);
    say(s, 200,
        "{\"program\":\"localproxy\",\"rules\":{\"inForce\":false},\"rulesync\":{\"error\":\"\"}}");
    pass(f, 2000); /* it may not know yet */
    assert_string_equal(result(f)->message, "by itself");
    assert_true(f->rulesyncs[0].asked > 0);
}

static void say_none(struct sidecar *s, const char *why)
{
    char text[256];
    (void)snprintf(text, sizeof text,
                   "{\"program\":\"localproxy\",\"rules\":{\"inForce\":false},\"rulesync\":{"
                   "\"error\":\"%s\"}}",
                   why);
    say(s, 200, text);
}

/* That there were no rules is no complaint about the first ones, while these are on their way. */
static void test_what_was_said_before_there_were_rules(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = begin(f, NULL);
    say_none(s, "no rules");
    pass_and_await(f, 15000, s);
    assert_string_equal(result(f)->message, "no rules");
    prober_expect(f->prober, "demo/pod-0", 1);
    assert_string_equal(result(f)->message, "");
    unsigned changes = f->changes;
    pass(f, 800);
    assert_string_equal(result(f)->message, "");
    assert_int_equal(f->changes, changes);
    pass(f, 1000); /* they should have come by now */
    assert_string_equal(result(f)->message, "no rules");
    prober_expect(f->prober, "demo/pod-0", 2);
    pass(f, 200);
    assert_string_equal(result(f)->message, "");
    say_none(s, "line 3: no such operator"); /* which is about them */
    pass(f, 200);
    assert_string_equal(result(f)->message, "line 3: no such operator");
}

static void test_rulesync_does_not_answer(void **state)
{
    struct fixture *f = *state;
    struct sidecar *sync = &f->rulesyncs[0];
    char address[64];
    listen_anywhere(f, sync);
    (void)snprintf(address, sizeof address, "%s", address_of(sync));
    stop(sync);
    (void)begin(f, address);
    prober_expect(f->prober, "demo/pod-0", 2);
    pass(f, 1500);
    assert_string_equal(result(f)->message, NO_RULESYNC);
    assert_int_equal(result(f)->state, PROBE_ANSWERED);
    listen_on(f, sync, address);
    say(sync, 500, "");
    pass(f, 1500);
    assert_string_equal(result(f)->message, NO_RULESYNC);
    say(sync, 200, "{\"program\":\"else\"}");
    pass(f, 1500);
    assert_string_equal(result(f)->message, NO_RULESYNC);
    complain(sync, "why");
    pass(f, 1500);
    assert_string_equal(result(f)->message, "why");
}

/* ---- no answers ---- */

static void test_one_miss_is_no_news(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = begin(f, NULL);
    s->status = 500;
    pass_and_await(f, 15000, s);
    assert_int_equal(result(f)->state, PROBE_ANSWERED);
    s->status = 200;
    pass_and_await(f, 1000, s);
    assert_int_equal(f->changes, 1);
    s->status = 500;
    pass_and_await(f, 15000, s);
    pass_and_await(f, 1000, s);
    assert_int_equal(result(f)->state, PROBE_SILENT);
    assert_int_equal(result(f)->generation, 1); /* as of the last answer */
    assert_string_equal(result(f)->message, NO_PROXY);
    assert_int_equal(f->changes, 2);
    s->status = 200;
    pass_and_await(f, 1000, s);
    assert_int_equal(result(f)->state, PROBE_ANSWERED);
    assert_string_equal(result(f)->message, "");
}

static void test_connection_refused(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = add_proxy(f, 0);
    char address[64];
    (void)snprintf(address, sizeof address, "%s", address_of(s));
    stop(s);
    assert_int_equal(watch(f, 0, "u", address, NULL), 0);
    pass(f, 9000);
    assert_int_equal(result(f)->state, PROBE_WAITING); /* it may be about to start */
    assert_true(result(f)->asked);
    assert_string_equal(result(f)->message, NO_PROXY);
    pass(f, 3000);
    assert_int_equal(result(f)->state, PROBE_SILENT);
    listen_on(f, s, address);
    pass(f, 3000);
    assert_int_equal(result(f)->state, PROBE_ANSWERED);
}

/* A pod that starts is found at once if something is expected of it. */
static void test_a_pod_that_starts(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = add_proxy(f, 0);
    char address[64];
    (void)snprintf(address, sizeof address, "%s", address_of(s));
    stop(s);
    assert_int_equal(watch(f, 0, "u", address, NULL), 0);
    prober_expect(f->prober, "demo/pod-0", 1);
    pass(f, 2000);
    listen_on(f, s, address);
    pass(f, 400);
    assert_int_equal(result(f)->state, PROBE_ANSWERED);
}

static void expect_answered(struct fixture *f)
{
    for (int turn = 0; turn < 200 && result(f)->state != PROBE_ANSWERED; turn++) {
        fake_clock_pass(&f->clock, 500);
        run_for(f->loop, 10);
    }
    assert_int_equal(result(f)->state, PROBE_ANSWERED);
}

/* Whatever is there, or is not: people who may only create pods must not learn it by this. */
static void expect_silent(struct fixture *f, struct sidecar *s)
{
    for (int turn = 0; turn < 200 && result(f)->state != PROBE_SILENT; turn++) {
        fake_clock_pass(&f->clock, 500);
        run_for(f->loop, 10);
    }
    assert_int_equal(result(f)->state, PROBE_SILENT);
    assert_string_equal(result(f)->message, NO_PROXY);
    s->behaviour = ANSWERS;
    enforce(s, "a", 1, 1700000000);
    expect_answered(f);
}

static void test_answers_that_are_none(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = add_proxy(f, 0);
    be_impatient(f);
    assert_int_equal(watch(f, 0, "u", address_of(s), NULL), 0);
    expect_answered(f);
    s->behaviour = IS_SILENT;
    expect_silent(f, s);
    s->behaviour = CUTS;
    expect_silent(f, s);
    say(s, 503, "{\"program\":\"localproxy\",\"rules\":{\"inForce\":false}}");
    expect_silent(f, s);
    say(s, 302, "");
    expect_silent(f, s);
    say(s, 200, "no JSON");
    expect_silent(f, s);
    say(s, 200, "{\"program\":\"nginx\"}");
    expect_silent(f, s);
}

static void test_an_answer_that_is_too_large(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = begin(f, NULL);
    size_t size = 300 * (size_t)1024;
    char *large = malloc(size + 1);
    assert_non_null(large);
    memset(large, ' ', size);
    large[size] = '\0';
    say(s, 200, large);
    free(large);
    expect_silent(f, s);
}

/* What is there does not speak HTTP, or speaks without end. */
static void test_garbage(void **state)
{
    struct fixture *f = *state;
    unsigned port = 0;
    int listener = raw_listen(&port);
    char address[64];
    static const char *const texts[] = {"SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 200 OK\r\nContent-Len",
                                        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}",
                                        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: "
                                         "3\r\n\r\n{}")};
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", port);
    be_impatient(f);
    assert_int_equal(watch(f, 0, "u", address, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        uint64_t failed = prober_stats(f->prober)->failed;
        int fd = -1;
        for (int turn = 0; turn < TURNS && fd < 0; turn++) {
            fake_clock_pass(&f->clock, 500);
            run_for(f->loop, 1);
            fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        }
        assert_true(fd >= 0);
        (void)!write(fd, texts[i], strlen(texts[i])); /* it may have been given up already */
        for (int turn = 0; turn < TURNS && prober_stats(f->prober)->failed == failed; turn++) {
            run_for(f->loop, 1);
        }
        assert_true(prober_stats(f->prober)->failed > failed);
        assert_int_not_equal(result(f)->state, PROBE_ANSWERED);
        assert_string_equal(result(f)->message, NO_PROXY);
        (void)close(fd);
    }
    (void)close(listener);
}

/* ---- many ---- */

static unsigned open_questions(const struct fixture *f, unsigned from, unsigned to)
{
    unsigned n = 0;
    for (unsigned i = from; i < to; i++) {
        n += f->proxies[i].open;
    }
    return n;
}

static void watch_many(struct fixture *f, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(watch(f, i, "u", address_of(&f->proxies[i]), NULL), 0);
    }
}

static void test_so_many_at_a_time(void **state)
{
    enum { PER_NAMESPACE = 2, AT_A_TIME = 6 }; /* of 8: 2 are for slow ones */
    struct fixture *f = *state;
    for (unsigned i = 0; i < 24; i++) {
        add_proxy(f, i)->behaviour = IS_SILENT;
    }
    watch_many(f, 24);
    await(f, &f->proxies[PER_NAMESPACE - 1].asked, 1);
    run_for(f->loop, 20);
    assert_int_equal(prober_stats(f->prober)->asked, PER_NAMESPACE);
    for (unsigned i = 0; i < 12; i++) {
        char ns[16];
        (void)snprintf(ns, sizeof ns, "ns-%u", i);
        assert_int_equal(watch_in(f, ns, i, address_of(&f->proxies[12 + i])), 0);
    }
    for (int turn = 0; turn < TURNS && open_questions(f, 0, 24) < AT_A_TIME; turn++) {
        run_for(f->loop, 1);
    }
    run_for(f->loop, 20);
    assert_int_equal(prober_stats(f->prober)->asked, AT_A_TIME);
    be_impatient(f);
    watch_many(f, 24);
    for (int turn = 0; turn < TURNS && prober_stats(f->prober)->failed < 24; turn++) {
        run_for(f->loop, 1);
        assert_true(open_questions(f, 0, 24) <= PER_NAMESPACE);
    }
    assert_int_equal(prober_stats(f->prober)->asked, 24);
}

static unsigned silent_pods(const struct fixture *f)
{
    unsigned n = 0;
    for (unsigned i = 0; i < PODS; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "demo/pod-%u", i);
        n += prober_result(f->prober, key)->state == PROBE_SILENT ? 1 : 0;
    }
    return n;
}

/* A node that is gone must not hold up what is told of others. */
static void test_silent_pods_do_not_hold_up_others(void **state)
{
    struct fixture *f = *state;
    be_impatient(f);
    for (unsigned i = 0; i < PODS; i++) {
        add_proxy(f, i)->behaviour = i > 0 ? IS_SILENT : ANSWERS;
    }
    watch_many(f, PODS);
    for (int turn = 0; turn < TURNS && silent_pods(f) < PODS - 1; turn++) {
        fake_clock_pass(&f->clock, 1000);
        run_for(f->loop, 6);
    }
    assert_int_equal(silent_pods(f), PODS - 1);
    fake_clock_pass(&f->clock, 15000); /* all of them are due */
    run_for(f->loop, 6);
    assert_int_equal(open_questions(f, 1, PODS), 1);
    enforce(&f->proxies[0], "a", 2, 1700000500);
    prober_expect(f->prober, "demo/pod-0", 2);
    for (int turn = 0; turn < TURNS && result(f)->generation != 2; turn++) {
        fake_clock_pass(&f->clock, 1);
        run_for(f->loop, 1);
        assert_true(open_questions(f, 1, PODS) <= 1);
    }
    assert_int_equal(result(f)->generation, 2);
}

static void test_many_are_found(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = add_proxy(f, 0);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(watch(f, i, "u", address_of(s), NULL), 0);
    }
    await(f, &f->changes, 1000);
    run_for(f->loop, 50);
    assert_int_equal(f->changes, 1000);
    for (unsigned i = 0; i < 1000; i += 2) {
        char key[32];
        (void)snprintf(key, sizeof key, "demo/pod-%u", i);
        prober_forget(f->prober, key);
        prober_forget(f->prober, key);
        assert_null(prober_result(f->prober, key));
    }
    assert_int_equal(prober_stats(f->prober)->targets, 500);
    assert_int_equal(prober_result(f->prober, "demo/pod-999")->state, PROBE_ANSWERED);
}

/* ---- changes of what is asked ---- */

static void test_an_address_that_changes(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = begin(f, NULL);
    struct sidecar *other = add_proxy(f, 1);
    enforce(other, "a", 2, 1700000500);
    assert_int_equal(watch(f, 0, "u", address_of(s), NULL), 0); /* nothing new */
    run_for(f->loop, 20);
    assert_int_equal(s->asked, 1);
    assert_int_equal(watch(f, 0, "u", address_of(other), NULL), 0);
    assert_int_equal(result(f)->generation, 1); /* the same pod: what is known stands */
    await(f, &other->asked, 1);
    run_for(f->loop, 20);
    assert_int_equal(result(f)->generation, 2);
    assert_int_equal(s->asked, 1);
}

static void test_an_address_that_changes_during_a_question(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = add_proxy(f, 0);
    struct sidecar *other = add_proxy(f, 1);
    s->behaviour = IS_SILENT;
    assert_int_equal(watch(f, 0, "u", address_of(s), NULL), 0);
    await(f, &s->open, 1);
    assert_int_equal(watch(f, 0, "u", address_of(other), NULL), 0);
    await_state(f, PROBE_ANSWERED);
    run_for(f->loop, 50);
    assert_int_equal(s->open, 0);
    assert_int_equal(result(f)->state, PROBE_ANSWERED);
    assert_int_equal(prober_stats(f->prober)->failed, 0);
}

static void test_another_pod_of_that_name(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = begin(f, NULL);
    prober_expect(f->prober, "demo/pod-0", 2);
    pass(f, 1000);
    s->behaviour = IS_SILENT;
    assert_int_equal(watch(f, 0, "v", address_of(s), NULL), 0);
    assert_int_equal(result(f)->state, PROBE_WAITING);
    assert_int_equal(result(f)->generation, 0);
    assert_string_equal(result(f)->shard, "");
    unsigned asked = s->asked;
    s->behaviour = ANSWERS;
    await(f, &s->asked, asked + 1);
    run_for(f->loop, 20);
    assert_int_equal(result(f)->state, PROBE_ANSWERED);
    pass_and_await(f, 15000, s); /* nothing is expected of it */
}

static void say_of(struct sidecar *s, const char *pod, unsigned generation)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "{\"program\":\"localproxy\",\"pod\":%s,\"rules\":{\"inForce\":true,\"shard\":{"
                   "\"namespace\":\"demo\",\"name\":\"a\"},\"generation\":%u,\"checksum\":\"" SUM
                   "\",\"since\":1700000000,\"settled\":true}}",
                   pod, generation);
    say(s, 200, text);
}

/* The pod is cut off, and what it confirmed stays; or another one has its name. */
static void test_another_pod_at_its_address(void **state)
{
    static const char *const others[] = {
        "{\"name\":\"pod-1\",\"uid\":\"v\"}",
        "{\"name\":\"pod-0\",\"uid\":\"v\"}",
        "{\"name\":\"pod-1\",\"uid\":\"u\"}",
        "{\"name\":\"pod-1\"}",
        "null", /* an older one, too */
    };
    struct fixture *f = *state;
    struct sidecar *s = begin(f, NULL); /* an older one, which does not say whose it is */
    say_of(s, "{\"name\":\"pod-0\",\"uid\":\"u\"}", 2);
    pass_and_await(f, 15000, s);
    assert_int_equal(result(f)->generation, 2);
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        say_of(s, others[i], 3);
        pass_and_await(f, 15000, s);
        assert_int_equal(result(f)->generation, 2);
        pass_and_await(f, 1000, s);
        assert_int_equal(result(f)->state, PROBE_SILENT);
        assert_string_equal(result(f)->message, NO_PROXY);
        say_of(s, "{\"name\":\"pod-0\",\"uid\":\"u\"}", 2);
        expect_answered(f);
    }
}

static void test_addresses_that_are_none(void **state)
{
    struct fixture *f = *state;
    static const char *const odd[] = {
        "",           "127.0.0.1",   ":5441", "pod.example:5441", "127.0.0.1:0",
        "127.0.0.1:", "127.0.0.1:x", "[::1]", "1.2.3.4.5:1",      "127.0.0.1:70000"};
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        assert_int_equal(watch(f, 0, "u", odd[i], NULL), -EINVAL);
        assert_int_equal(watch(f, 0, "u", "127.0.0.1:1", odd[i]), -EINVAL);
    }
    assert_int_equal(watch(f, 0, "u", NULL, NULL), -EINVAL);
    assert_null(result(f));
    assert_int_equal(watch(f, 0, "u", "[::1]:1", "[fe80::1]:5442"), 0);
    struct sidecar *s = add_proxy(f, 1);
    assert_int_equal(watch(f, 1, "u", address_of(s), NULL), 0);
    assert_int_equal(watch(f, 1, "u", "nonsense", NULL), -EINVAL);
    await(f, &s->asked, 1); /* all is as before */
    prober_forget(f->prober, "demo/nobody");
    prober_expect(f->prober, "demo/nobody", 7);
}

static void open_strict(struct fixture *f)
{
    const struct prober_options o = {.clock = &f->clock.clock};
    prober_free(f->prober);
    fake_clock_forget(&f->clock);
    f->prober = prober_new(f->loop, &o);
    assert_non_null(f->prober);
}

/* The manager must not be made to talk to itself, or to a port of anything else. */
static void test_addresses_where_no_sidecar_is(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = add_proxy(f, 0);
    const char *const odd[] = {address_of(s),          "127.0.0.1:5441", "[::ffff:127.0.0.1]:5441",
                               "169.254.169.254:5441", "10.0.0.1:5442",  "10.0.0.1:80"};
    char text[PROBE_MESSAGE_SIZE];
    open_strict(f);
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        assert_int_equal(watch(f, 0, "u", odd[i], address_of(s)), 0);
        prober_expect(f->prober, "demo/pod-0", 2);
        for (int turn = 0; turn < 12; turn++) {
            fake_clock_pass(&f->clock, 5000);
            run_for(f->loop, 1);
        }
        (void)snprintf(text, sizeof text,
                       "localproxy is not asked: %s is not where a sidecar can be", odd[i]);
        assert_string_equal(result(f)->message, text);
        assert_int_equal(result(f)->state, PROBE_SILENT);
    }
    assert_int_equal(s->asked, 0);
    assert_int_equal(prober_stats(f->prober)->asked, 0);
    assert_int_equal(prober_stats(f->prober)->failed, 0);
    assert_int_equal(watch(f, 0, "u", "10.0.0.1:5441", "10.0.0.1:5442"), 0);
    fake_clock_pass(&f->clock, 0);
    assert_int_equal(prober_stats(f->prober)->asked, 1);
}

/* What rulesync says is not asked for where only its address is odd. */
static void test_rulesync_where_none_is(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = add_proxy(f, 0);
    open_strict(f);
    assert_int_equal(watch(f, 0, "u", "10.0.0.1:5441", address_of(s)), 0);
    prober_told(f->prober, "demo/pod-0",
                SLICE("{\"program\":\"localproxy\",\"pod\":{\"name\":\"pod-0\",\"uid\":\"u\"},"
                      "\"rules\":{\"inForce\":false}}"));
    prober_expect(f->prober, "demo/pod-0", 2);
    assert_int_equal(result(f)->state, PROBE_ANSWERED); /* told, it need not be asked */
    pass(f, 5000);
    assert_int_equal(s->asked, 0);
}

/* ---- the end ---- */

static void test_forgets_during_a_question(void **state)
{
    struct fixture *f = *state;
    struct sidecar *s = add_proxy(f, 0);
    s->behaviour = IS_SILENT;
    assert_int_equal(watch(f, 0, "u", address_of(s), NULL), 0);
    prober_forget(f->prober, "demo/pod-0"); /* while it is connecting */
    assert_int_equal(watch(f, 0, "u", address_of(s), NULL), 0);
    await(f, &s->open, 1);
    prober_forget(f->prober, "demo/pod-0"); /* while it waits for the answer */
    run_for(f->loop, 50);
    assert_int_equal(s->open, 0);
    assert_int_equal(f->changes, 0);
    assert_int_equal(prober_stats(f->prober)->targets, 0);
}

static void test_forgets_while_rulesync_is_asked(void **state)
{
    struct fixture *f = *state;
    struct sidecar *sync = &f->rulesyncs[0];
    listen_anywhere(f, sync);
    sync->behaviour = IS_SILENT;
    (void)begin(f, address_of(sync));
    prober_expect(f->prober, "demo/pod-0", 2);
    pass(f, 1200);
    await(f, &sync->open, 1);
    prober_forget(f->prober, "demo/pod-0");
    run_for(f->loop, 50);
    assert_int_equal(sync->open, 0);
}

static void test_free_during_questions(void **state)
{
    struct fixture *f = *state;
    struct sidecar *sync = &f->rulesyncs[0];
    listen_anywhere(f, sync);
    sync->behaviour = IS_SILENT;
    (void)begin(f, address_of(sync));
    prober_expect(f->prober, "demo/pod-0", 2);
    pass(f, 1200);
    await(f, &sync->open, 1);
    struct sidecar *s = add_proxy(f, 1);
    s->behaviour = IS_SILENT;
    assert_int_equal(watch(f, 1, "u", address_of(s), NULL), 0);
    await(f, &s->open, 1);
    assert_int_equal(watch(f, 2, "u", address_of(s), NULL), 0);
    unsigned changes = f->changes;
    prober_free(f->prober);
    f->prober = NULL;
    fake_clock_forget(&f->clock);
    run_for(f->loop, 50);
    assert_int_equal(s->open + sync->open, 0);
    assert_int_equal(f->changes, changes);
}

static void test_free_when_told(void **state)
{
    struct fixture *f = *state;
    f->whim = FREES;
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(watch(f, i, "u", address_of(add_proxy(f, i)), NULL), 0);
    }
    await(f, &f->changes, 1);
    run_for(f->loop, 50);
    assert_int_equal(f->changes, 1);
}

static void test_forget_all_when_told(void **state)
{
    struct fixture *f = *state;
    f->whim = FORGETS_ALL;
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(watch(f, i, "u", address_of(add_proxy(f, i)), NULL), 0);
    }
    await(f, &f->changes, 1);
    run_for(f->loop, 50);
    assert_int_equal(f->changes, 1);
    assert_int_equal(prober_stats(f->prober)->targets, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, prober_setup, prober_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_says_what_is_enforced),
        TEST(test_asks_again_now_and_then),
        TEST(test_pods_are_not_asked_in_step),
        TEST(test_a_clock_that_is_ahead),
        TEST(test_asks_often_until_it_is_enforced),
        TEST(test_asks_ever_more_rarely),
        TEST(test_rulesync_says_why),
        TEST(test_localproxy_says_why),
        TEST(test_what_was_said_before_there_were_rules),
        TEST(test_rulesync_does_not_answer),
        TEST(test_one_miss_is_no_news),
        TEST(test_connection_refused),
        TEST(test_a_pod_that_starts),
        TEST(test_answers_that_are_none),
        TEST(test_an_answer_that_is_too_large),
        TEST(test_garbage),
        TEST(test_so_many_at_a_time),
        TEST(test_silent_pods_do_not_hold_up_others),
        TEST(test_many_are_found),
        TEST(test_an_address_that_changes),
        TEST(test_an_address_that_changes_during_a_question),
        TEST(test_another_pod_of_that_name),
        TEST(test_another_pod_at_its_address),
        TEST(test_addresses_that_are_none),
        TEST(test_addresses_where_no_sidecar_is),
        TEST(test_rulesync_where_none_is),
        TEST(test_forgets_during_a_question),
        TEST(test_forgets_while_rulesync_is_asked),
        TEST(test_free_during_questions),
        TEST(test_free_when_told),
        TEST(test_forget_all_when_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
