/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whoever has pods decides what they answer, how late, and how many they are: other namespaces'
 * pods are asked in time all the same. The prober here has 8 questions at a time: 2 for slow pods,
 * and of either part a namespace has 2 and 1.
 */
#include "prober_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MANY = 10000, TENANTS = 20, SLOW = 600 };

/* That the pod of demo enforces new rules is known with its next answer: at once. */
static void expect_demo_in_time(struct fixture *f, unsigned generation)
{
    enforce(&f->proxies[0], "a", generation, 1700000000 + generation);
    prober_expect(f->prober, "demo/pod-0", generation);
    for (int turn = 0; turn < TURNS && result(f)->generation != generation; turn++) {
        fake_clock_pass(&f->clock, 0);
        run_for(f->loop, 1);
    }
    assert_int_equal(result(f)->generation, generation);
}

static void pods_that_never_answer(void **state)
{
    struct fixture *f = *state;
    (void)begin(f, NULL);
    struct sidecar *s = add_proxy(f, 1);
    s->behaviour = IS_SILENT;
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(watch_in(f, "tenant", i, address_of(s)), 0);
    }
    await(f, &s->open, 2);
    for (unsigned generation = 2; generation < 10; generation++) {
        expect_demo_in_time(f, generation);
        pass(f, 100);
    }
    assert_int_equal(s->asked, 2);
    struct sidecar *first = add_proxy(f, 2); /* a pod that is new does not wait either */
    assert_int_equal(watch_in(f, "another", 0, address_of(first)), 0);
    await(f, &first->asked, 1);
}

static void answer_all(struct fixture *f, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        if (f->proxies[i].last != NULL) {
            answer(&f->proxies[i]);
        }
    }
    run_for(f->loop, 20);
}

static unsigned count_open(const struct fixture *f, unsigned from, unsigned to)
{
    unsigned n = 0;
    for (unsigned i = from; i < to; i++) {
        n += f->proxies[i].open;
    }
    return n;
}

/* All are asked and answer late, as often as it takes. */
static void make_slow(struct fixture *f)
{
    for (unsigned i = 1; i <= TENANTS; i++) {
        char ns[16];
        (void)snprintf(ns, sizeof ns, "tenant-%u", i);
        add_proxy(f, i)->behaviour = IS_SILENT;
        assert_int_equal(watch_in(f, ns, i, address_of(&f->proxies[i])), 0);
    }
    for (unsigned i = 1; i <= TENANTS; i++) {
        await(f, &f->proxies[i].asked, 1);
        fake_clock_pass(&f->clock, SLOW);
        answer_all(f, i, TENANTS + 1);
    }
}

/* Even where they are in many namespaces. */
static void pods_that_answer_late(void **state)
{
    struct fixture *f = *state;
    (void)begin(f, NULL);
    make_slow(f);
    fake_clock_pass(&f->clock, 15000); /* all are due, and expected to change */
    for (unsigned i = 1; i <= TENANTS; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "tenant-%u/pod-%u", i, i);
        prober_expect(f->prober, key, 2);
    }
    for (unsigned generation = 2; generation < 10; generation++) {
        expect_demo_in_time(f, generation);
        pass(f, 100);
        assert_int_equal(count_open(f, 1, TENANTS + 1), 2);
    }
}

/* All at once, and while they are asked no time passes. */
static void ask_all_again(struct fixture *f)
{
    unsigned asked[TENANTS + 1];
    for (unsigned i = 1; i <= TENANTS; i++) {
        asked[i] = f->proxies[i].asked;
    }
    fake_clock_jump(&f->clock, 20000);
    for (unsigned i = 1; i <= TENANTS; i++) {
        await(f, &f->proxies[i].asked, asked[i] + 1);
    }
    run_for(f->loop, 20);
}

static void pods_that_are_quick_again(void **state)
{
    enum { QUICK = 6 };
    struct fixture *f = *state;
    make_slow(f);
    for (unsigned i = 1; i <= TENANTS; i++) {
        f->proxies[i].behaviour = ANSWERS;
    }
    ask_all_again(f);
    for (unsigned i = 1; i <= TENANTS; i++) {
        f->proxies[i].behaviour = IS_SILENT;
    }
    fake_clock_jump(&f->clock, 20000);
    fake_clock_pass(&f->clock, 0);
    for (int turn = 0; turn < TURNS && count_open(f, 1, TENANTS + 1) < QUICK; turn++) {
        run_for(f->loop, 1);
    }
    assert_int_equal(count_open(f, 1, TENANTS + 1), QUICK);
}

/* It is given up early once, and has more time when it does not take that of others. */
static void a_pod_that_is_late_once(void **state)
{
    struct fixture *f = *state;
    const struct prober_options o = {.timeout_ms = LONG_MS,
                                     .quick_timeout_ms = SHORT_MS,
                                     .parallel = 8,
                                     .any_address = true,
                                     .clock = &f->clock.clock};
    prober_free(f->prober);
    fake_clock_forget(&f->clock);
    f->prober = prober_new(f->loop, &o);
    struct sidecar *s = begin(f, NULL);
    s->behaviour = IS_SILENT;
    prober_expect(f->prober, "demo/pod-0", 2);
    await(f, &s->open, 1);
    fake_clock_pass(&f->clock, SLOW);
    for (int turn = 0; turn < TURNS && prober_stats(f->prober)->failed == 0; turn++) {
        run_for(f->loop, 1);
    }
    fake_clock_pass(&f->clock, 1000);
    await(f, &s->asked, 3);
    run_for(f->loop, 2 * SHORT_MS);
    assert_int_equal(s->open, 1);
    enforce(s, "a", 2, 1700000500);
    answer(s);
    run_for(f->loop, 20);
    assert_int_equal(result(f)->generation, 2);
    assert_int_equal(result(f)->state, PROBE_ANSWERED);
}

/* ---- answers without end ---- */

/* Sends the text again and again to whoever asks, a piece each turn, until `failed` goes up. */
static void play_endless(struct fixture *f, const char *head, const char *piece)
{
    unsigned port = 0;
    int listener = raw_listen(&port);
    int fd = -1;
    char address[32];
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", port);
    be_impatient(f);
    assert_int_equal(watch(f, 0, "u", address, NULL), 0);
    for (int turn = 0; turn < TURNS && fd < 0; turn++) {
        run_for(f->loop, 1);
        fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    }
    assert_true(fd >= 0);
    (void)!write(fd, head, strlen(head));
    for (int turn = 0; turn < TURNS && prober_stats(f->prober)->failed == 0; turn++) {
        (void)!send(fd, piece, strlen(piece), MSG_NOSIGNAL);
        run_for(f->loop, 1);
    }
    assert_int_equal(prober_stats(f->prober)->failed, 1);
    (void)close(fd);
    (void)close(listener);
}

static void answers_without_end(void **state)
{
    struct fixture *f = *state;
    static char header[1024];
    (void)snprintf(header, sizeof header, "X-%0990d: 1\r\n", 1);
    play_endless(f, "", "H");
    play_endless(f, "HTTP/1.1 200 OK\r\n", "X");
    play_endless(f, "HTTP/1.1 200 OK\r\n", header);
    play_endless(f, "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n", " ");
    play_endless(f, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\n \r\n");
    play_endless(f, "", "HTTP/1.1 100 Continue\r\n\r\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, prober_setup, prober_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pods_that_never_answer),  TEST(pods_that_answer_late), TEST(pods_that_are_quick_again),
        TEST(a_pod_that_is_late_once), TEST(answers_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
