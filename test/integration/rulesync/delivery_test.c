/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hand-over to the server's side of localproxy, which does as it is told.
 */
#include "loop_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "delivery.h"
#include "rulesync_proxy.h"
#include "temp_dir.h"

struct fixture {
    struct net_loop *loop;
    struct temp_dir dir;
    char path[256];
    struct delivery *delivery;
    unsigned verdicts;
    struct proxy_double proxy;
};

static void give(struct fixture *f, unsigned generation)
{
    struct rules *r = proxy_rules_make(generation, "a", "b");
    delivery_set(f->delivery, r);
    rules_unref(r);
}

static unsigned enforced(const struct fixture *f)
{
    return proxy_double_enforced(&f->proxy);
}

/* ---- set-up ---- */

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    if (f == NULL || loop_setup((void **)&f->loop) != 0) {
        return -1;
    }
    log_init("test", LOG_TEXT, LOG_ERROR);
    temp_dir_init(&f->dir);
    (void)temp_dir_path(&f->dir, "control.sock", f->path);
    f->proxy = (struct proxy_double){.loop = f->loop, .path = f->path};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    delivery_free(f->delivery);
    proxy_double_stop(&f->proxy);
    int rc = loop_free(f->loop);
    temp_dir_deinit(&f->dir);
    free(f);
    return rc;
}

static void on_verdict(void *data)
{
    struct fixture *f = data;
    f->verdicts++;
}

static void start_with(struct fixture *f, uint64_t call_ms, uint64_t refused_ms)
{
    struct delivery_options o = {
        .socket = f->path,
        .call_ms = call_ms,
        .check_ms = 50,
        .retry_min_ms = 10,
        .retry_max_ms = 50,
        .refused_ms = refused_ms,
        .on_verdict = on_verdict,
        .data = f,
    };
    struct err e = ERR_INIT;
    f->delivery = delivery_new(f->loop, &o, &e);
    assert_non_null(f->delivery);
}

/* It asks often; no call is given up, and it does not insist. */
static void start(struct fixture *f)
{
    start_with(f, 60000, 60000);
}

/* Calls are given up soon. */
static void start_impatient(struct fixture *f)
{
    start_with(f, 300, 60000);
}

static const struct delivery_status *status(struct fixture *f)
{
    return delivery_status(f->delivery);
}

static void wait_verdict(struct fixture *f, enum delivery_verdict verdict)
{
    for (unsigned i = 0; i < 2000 && status(f)->verdict != verdict; i++) {
        run_for(f->loop, 5);
    }
    assert_int_equal(status(f)->verdict, verdict);
}

static void wait_for(struct fixture *f, const unsigned *counter, unsigned value)
{
    for (unsigned i = 0; i < 2000 && *counter < value; i++) {
        run_for(f->loop, 5);
    }
    assert_true(*counter >= value);
}

static void wait_retries(struct fixture *f, unsigned count)
{
    for (unsigned i = 0; i < 2000 && status(f)->retries < count; i++) {
        run_for(f->loop, 5);
    }
    assert_true(status(f)->retries >= count);
}

/* ---- tests ---- */

static void hands_over_and_goes_on_asking(void **state)
{
    struct fixture *f = *state;
    proxy_double_start(&f->proxy);
    start(f);
    give(f, 7);
    assert_int_equal(status(f)->verdict, DELIVERY_PENDING);
    wait_verdict(f, DELIVERY_CONFIRMED);
    assert_int_equal(enforced(f), 7);
    assert_int_equal(status(f)->proxy.generation, 7);
    assert_int_equal(status(f)->confirmations, 1);
    assert_false(status(f)->trouble.open);
    unsigned gets = f->proxy.gets;
    wait_for(f, &f->proxy.gets, gets + 4);
    assert_int_equal(f->proxy.puts, 1);
    assert_int_equal(f->verdicts, 1);
    give(f, 8);
    wait_verdict(f, DELIVERY_CONFIRMED);
    assert_int_equal(enforced(f), 8);
    assert_int_equal(f->proxy.puts, 2);
}

static void asks_before_there_are_rules(void **state)
{
    struct fixture *f = *state;
    proxy_double_start(&f->proxy);
    start(f);
    wait_for(f, &f->proxy.gets, 2);
    assert_true(status(f)->answered);
    assert_false(status(f)->proxy.enforcing);
    assert_string_equal(status(f)->proxy.reason, "none came");
    assert_int_equal(f->proxy.puts, 0);
}

/* Enforced already, as after a restart of rulesync alone. */
static void does_not_hand_over_what_is_enforced(void **state)
{
    struct fixture *f = *state;
    proxy_double_enforce(&f->proxy, proxy_rules_make(7, "a", "b"));
    proxy_double_start(&f->proxy);
    start(f);
    give(f, 7);
    wait_verdict(f, DELIVERY_CONFIRMED);
    assert_int_equal(f->proxy.puts, 0);
}

static void waits_for_a_proxy_that_comes_later(void **state)
{
    struct fixture *f = *state;
    start(f);
    give(f, 7);
    run_for(f->loop, 150);
    assert_true(status(f)->retries <= 40);
    wait_retries(f, 2);
    assert_int_equal(status(f)->verdict, DELIVERY_PENDING);
    assert_true(status(f)->trouble.open);
    assert_non_null(strstr(status(f)->trouble.text, f->path));
    proxy_double_start(&f->proxy);
    wait_verdict(f, DELIVERY_CONFIRMED);
    assert_false(status(f)->trouble.open);
}

static void hands_over_again_after_a_restart(void **state)
{
    struct fixture *f = *state;
    proxy_double_start(&f->proxy);
    start(f);
    give(f, 7);
    wait_verdict(f, DELIVERY_CONFIRMED);
    proxy_double_restart(&f->proxy, NULL);
    wait_for(f, &f->proxy.puts, 2);
    wait_verdict(f, DELIVERY_CONFIRMED);
    assert_int_equal(enforced(f), 7);
    proxy_double_restart(&f->proxy, proxy_rules_make(3, "a", "b")); /* with an older copy */
    wait_for(f, &f->proxy.puts, 3);
    wait_verdict(f, DELIVERY_CONFIRMED);
    assert_int_equal(enforced(f), 7);
    proxy_double_stop(&f->proxy);
    wait_verdict(f, DELIVERY_PENDING);
}

/* Its socket is seen to come: no pause, of whatever length, is waited for. */
static void sees_a_proxy_come(void **state)
{
    struct fixture *f = *state;
    struct delivery_options o = {.socket = f->path, .retry_min_ms = 60000, .retry_max_ms = 60000};
    struct err e = ERR_INIT;
    f->delivery = delivery_new(f->loop, &o, &e);
    assert_non_null(f->delivery);
    give(f, 7);
    run_for(f->loop, 50);
    assert_int_equal(status(f)->verdict, DELIVERY_PENDING);
    proxy_double_start(&f->proxy);
    wait_verdict(f, DELIVERY_CONFIRMED);
    proxy_double_restart(&f->proxy, NULL);
    wait_for(f, &f->proxy.puts, 2);
    run_for(f->loop, 200);
    assert_int_equal(f->proxy.puts, 2);
    assert_true(f->proxy.gets < 12); /* to ask is no reason to ask again */
}

/* Where the socket's folder cannot be watched, here because it is not there, pauses are short. */
static void asks_often_where_it_cannot_watch(void **state)
{
    struct fixture *f = *state;
    char folder[256];
    struct delivery_options o = {
        .socket = f->path, .blind_ms = 30, .retry_min_ms = 60000, .retry_max_ms = 60000};
    struct err e = ERR_INIT;
    (void)temp_dir_path(&f->dir, "later", folder);
    (void)temp_dir_path(&f->dir, "later/control.sock", f->path);
    f->delivery = delivery_new(f->loop, &o, &e);
    assert_non_null(f->delivery);
    give(f, 7);
    wait_retries(f, 5);
    assert_int_equal(mkdir(folder, 0700), 0);
    proxy_double_start(&f->proxy);
    wait_verdict(f, DELIVERY_CONFIRMED);
    unsigned gets = f->proxy.gets;
    run_for(f->loop, 300);
    assert_true(f->proxy.gets <= gets + 1); /* it watches, and asks each 5 s again */
}

static void leaves_a_proxy_that_is_ahead_alone(void **state)
{
    struct fixture *f = *state;
    proxy_double_enforce(&f->proxy, proxy_rules_make(9, "a", "b"));
    proxy_double_start(&f->proxy);
    start(f);
    give(f, 7);
    wait_verdict(f, DELIVERY_AHEAD);
    assert_non_null(strstr(status(f)->trouble.text, "generation 9"));
    run_for(f->loop, 200);
    assert_int_equal(f->proxy.puts, 0);
    give(f, 10);
    wait_verdict(f, DELIVERY_CONFIRMED);
    assert_int_equal(enforced(f), 10);
}

static void sends_what_voids_the_proxys(void **state)
{
    struct fixture *f = *state;
    struct rules *made = proxy_rules_make(7, "a", "b");
    struct rules *rules = rules_with_generation(made, 7, 9);
    proxy_double_enforce(&f->proxy, proxy_rules_make(9, "a", "b"));
    proxy_double_start(&f->proxy);
    start(f);
    delivery_set(f->delivery, rules);
    wait_for(f, &f->proxy.puts, 1);
    wait_verdict(f, DELIVERY_CONFIRMED);
    assert_int_equal(enforced(f), 7);
    rules_unref(rules);
    rules_unref(made);
}

static void does_not_insist_when_refused(void **state)
{
    struct fixture *f = *state;
    f->proxy.mood = REFUSE;
    proxy_double_start(&f->proxy);
    start(f);
    give(f, 7);
    wait_verdict(f, DELIVERY_REFUSED);
    assert_non_null(strstr(status(f)->trouble.text, "I do not like it"));
    run_for(f->loop, 200);
    assert_int_equal(f->proxy.puts, 1);
    assert_int_equal(status(f)->refusals, 1);
    delivery_free(f->delivery);
    start_with(f, 60000, 400);
    give(f, 7);
    wait_for(f, &f->proxy.puts, 3); /* slowly */
    f->proxy.mood = OBEY;
    wait_verdict(f, DELIVERY_CONFIRMED);
}

/* Refused for what the proxy enforced then: that is over with a restart, or with newer rules. */
static void tries_at_once_when_something_changed(void **state)
{
    struct fixture *f = *state;
    proxy_double_enforce(&f->proxy, proxy_rules_make(1, "a", "b"));
    f->proxy.mood = REFUSE;
    proxy_double_start(&f->proxy);
    start(f);
    give(f, 7);
    wait_verdict(f, DELIVERY_REFUSED);
    f->proxy.mood = OBEY;
    proxy_double_restart(&f->proxy, NULL);
    wait_verdict(f, DELIVERY_CONFIRMED);
    f->proxy.mood = REFUSE;
    give(f, 8);
    wait_verdict(f, DELIVERY_REFUSED);
    f->proxy.mood = OBEY;
    give(f, 9);
    wait_verdict(f, DELIVERY_CONFIRMED);
    assert_int_equal(enforced(f), 9);
}

static void tries_soon_when_put_off(void **state)
{
    struct fixture *f = *state;
    f->proxy.mood = DELAY;
    proxy_double_start(&f->proxy);
    start(f);
    give(f, 7);
    wait_for(f, &f->proxy.puts, 4);
    assert_int_equal(status(f)->verdict, DELIVERY_PENDING);
    assert_int_equal(status(f)->refusals, 0);
    f->proxy.mood = OBEY;
    wait_verdict(f, DELIVERY_CONFIRMED);
}

static void believes_only_what_is_said(void **state)
{
    struct fixture *f = *state;
    proxy_double_enforce(
        &f->proxy,
        proxy_rules_make(7, "a", "c")); /* the generation is the same, the rules are not */
    f->proxy.mood = LIE;
    proxy_double_start(&f->proxy);
    start(f);
    give(f, 7);
    wait_for(f, &f->proxy.puts, 3);
    assert_int_equal(status(f)->verdict, DELIVERY_PENDING);
    assert_non_null(strstr(status(f)->trouble.text, "enforces others"));
    proxy_double_enforce(&f->proxy, proxy_rules_make(7, "z", "b"));
    wait_for(f, &f->proxy.puts, f->proxy.puts + 2);
    assert_int_equal(status(f)->verdict, DELIVERY_PENDING);
    assert_int_equal(status(f)->confirmations, 0);
    f->proxy.mood = OBEY;
    wait_verdict(f, DELIVERY_CONFIRMED);
}

static void newer_rules_do_not_wait_for_older_ones(void **state)
{
    struct fixture *f = *state;
    f->proxy.mood = HOLD;
    proxy_double_start(&f->proxy);
    start(f);
    give(f, 7);
    wait_for(f, &f->proxy.puts, 1);
    assert_non_null(f->proxy.held);
    f->proxy.mood = OBEY;
    give(f, 8);
    wait_verdict(f, DELIVERY_CONFIRMED);
    assert_int_equal(enforced(f), 8);
    assert_null(f->proxy.held);
}

static void an_answer_that_comes_late_counts_if_it_comes_in_time(void **state)
{
    struct fixture *f = *state;
    f->proxy.mood = HOLD;
    proxy_double_start(&f->proxy);
    start(f);
    give(f, 7);
    wait_for(f, &f->proxy.puts, 1);
    run_for(f->loop, 100);
    proxy_double_release(&f->proxy);
    wait_verdict(f, DELIVERY_CONFIRMED);
    assert_int_equal(f->proxy.puts, 1);
}

static void gives_up_a_call_that_stalls(void **state)
{
    struct fixture *f = *state;
    f->proxy.mood = HOLD;
    proxy_double_start(&f->proxy);
    start_impatient(f);
    give(f, 7);
    wait_for(f, &f->proxy.puts, 2);
    assert_true(status(f)->trouble.open);
    f->proxy.mood = OBEY;
    wait_verdict(f, DELIVERY_CONFIRMED);
}

/* A socket that takes connections and never says a word. */
static void survives_a_socket_that_stalls(void **state)
{
    struct fixture *f = *state;
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    (void)snprintf(addr.sun_path, sizeof addr.sun_path, "%.100s", f->path);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(listen(fd, 4), 0);
    start_impatient(f);
    give(f, 7);
    run_for(f->loop, 1000);
    assert_true(status(f)->retries <= 6);
    wait_retries(f, 1);
    assert_int_equal(status(f)->verdict, DELIVERY_PENDING);
    assert_true(status(f)->trouble.open);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(f->path), 0);
    proxy_double_start(&f->proxy);
    wait_verdict(f, DELIVERY_CONFIRMED);
}

static void can_be_freed_at_any_time(void **state)
{
    struct fixture *f = *state;
    proxy_double_start(&f->proxy);
    start(f);
    delivery_free(f->delivery);
    start(f);
    give(f, 7);
    delivery_free(f->delivery);
    f->proxy.mood = HOLD;
    start(f);
    give(f, 7);
    wait_for(f, &f->proxy.puts, 1);
    delivery_free(f->delivery);
    f->delivery = NULL;
    run_for(f->loop, 50);
    assert_null(f->proxy.held);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(hands_over_and_goes_on_asking),
        TEST(asks_before_there_are_rules),
        TEST(does_not_hand_over_what_is_enforced),
        TEST(waits_for_a_proxy_that_comes_later),
        TEST(hands_over_again_after_a_restart),
        TEST(sees_a_proxy_come),
        TEST(asks_often_where_it_cannot_watch),
        TEST(leaves_a_proxy_that_is_ahead_alone),
        TEST(sends_what_voids_the_proxys),
        TEST(does_not_insist_when_refused),
        TEST(tries_at_once_when_something_changed),
        TEST(tries_soon_when_put_off),
        TEST(believes_only_what_is_said),
        TEST(newer_rules_do_not_wait_for_older_ones),
        TEST(an_answer_that_comes_late_counts_if_it_comes_in_time),
        TEST(gives_up_a_call_that_stalls),
        TEST(survives_a_socket_that_stalls),
        TEST(can_be_freed_at_any_time),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
