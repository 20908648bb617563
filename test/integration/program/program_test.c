/* SPDX-License-Identifier: Apache-2.0 */
/* A program of one timer, which sends the process the signals that a test is about. */
#include "program/program.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/file.h"
#include "base/flags.h"
#include "loop_fixture.h"
#include "net/timer.h"
#include "temp_dir.h"

enum { SIGNALS_MAX = 4 };

struct app {
    struct program program;
    struct net_timer *timer;
    int signals[SIGNALS_MAX]; /* one after the other; 0: no more */
    int sent;
    bool cannot_open;
    bool stops; /* on_shutdown stops it with EXIT_FAILED */
    int shutdowns;
    int reloads;
    int closes;
};

static void on_timer(void *data)
{
    struct app *a = data;
    if (a->sent < SIGNALS_MAX && a->signals[a->sent] != 0) {
        (void)raise(a->signals[a->sent++]);
        net_timer_set(a->timer, 1);
    }
}

static int open_app(void *data, struct err *e)
{
    struct app *a = data;
    assert_non_null(a->program.loop);
    if (a->cannot_open) {
        return err_set(e, -EINVAL, "as the test wants it");
    }
    a->timer = net_timer_new(a->program.loop, on_timer, a);
    assert_non_null(a->timer);
    net_timer_set(a->timer, 1);
    return 0;
}

static void on_shutdown(void *data)
{
    struct app *a = data;
    a->shutdowns++;
    if (a->stops) {
        program_stop(&a->program, EXIT_FAILED);
    }
}

static void on_reload(void *data)
{
    struct app *a = data;
    a->reloads++;
}

static void close_app(void *data)
{
    struct app *a = data;
    a->closes++;
    net_timer_free(a->timer);
}

static const struct program_ops ops = {
    .open = open_app,
    .on_shutdown = on_shutdown,
    .on_reload = on_reload,
    .close = close_app,
};

static void the_first_signal_shuts_it_down(void **state)
{
    static const int numbers[] = {SIGTERM, SIGINT};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        struct app a = {.signals = {SIGPIPE, numbers[i]}, .stops = true};
        assert_int_equal(program_run(&a.program, &ops, &a), EXIT_FAILED);
        assert_int_equal(a.shutdowns, 1);
        assert_int_equal(a.closes, 1);
    }
}

static void a_second_signal_stops_it(void **state)
{
    (void)state;
    struct app a = {.signals = {SIGTERM, SIGINT}};
    assert_int_equal(program_run(&a.program, &ops, &a), EXIT_DONE);
    assert_int_equal(a.shutdowns, 1);
    assert_int_equal(a.closes, 1);
}

static void sighup_reloads(void **state)
{
    (void)state;
    struct app a = {.signals = {SIGHUP, SIGHUP, SIGTERM}, .stops = true};
    assert_int_equal(program_run(&a.program, &ops, &a), EXIT_FAILED);
    assert_int_equal(a.reloads, 2);
    assert_int_equal(a.shutdowns, 1);
}

static void what_cannot_start_fails(void **state)
{
    (void)state;
    struct app a = {.cannot_open = true};
    assert_int_equal(program_run(&a.program, &ops, &a), EXIT_FAILED);
    assert_int_equal(a.shutdowns, 0);
    assert_int_equal(a.closes, 1);
}

static void writes_the_ready_file(void **state)
{
    (void)state;
    static const struct program_address addresses[] = {{"admin", "[::1]:80"}, {"webhook", ""}};
    char path[256];
    struct temp_dir dir;
    struct err e = ERR_INIT;
    struct buf text = BUF_INIT(1000);
    temp_dir_init(&dir);
    (void)temp_dir_path(&dir, "ready.json", path);
    assert_int_equal(program_write_ready_file(NULL, addresses, 2, &e), 0);
    assert_int_equal(program_write_ready_file(path, addresses, 2, &e), 0);
    assert_int_equal(file_read(path, &text, &e), 0);
    assert_string_equal(buf_cstr(&text), "{\"admin\":\"[::1]:80\",\"webhook\":\"\"}\n");
    buf_reset(&text);
    (void)temp_dir_path(&dir, "none/ready.json", path);
    assert_int_equal(program_check_ready_file(path, &e), -ENOENT);
    assert_int_equal(program_write_ready_file(path, addresses, 2, &e), -ENOENT);
    assert_int_equal(strncmp(e.msg, "--ready-file: /", strlen("--ready-file: /")), 0);
    assert_int_equal(program_check_ready_file(NULL, &e), 0);
    assert_int_equal(program_check_ready_file(dir.path, &e), -EISDIR);
    temp_dir_deinit(&dir);
}

/* Where kubelet and manager ask for the pages they have to be on the pod's address. */
static void pages_are_for_this_machine_outside_of_pods(void **state)
{
    (void)state;
    assert_int_equal(unsetenv("KUBERNETES_SERVICE_HOST"), 0);
    assert_string_equal(PROGRAM_ADMIN("5441"), "127.0.0.1:5441");
    assert_int_equal(setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1), 0);
    assert_string_equal(PROGRAM_ADMIN("5441"), "[::]:5441");
    assert_int_equal(unsetenv("KUBERNETES_SERVICE_HOST"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_signal_shuts_it_down),
        cmocka_unit_test(a_second_signal_stops_it),
        cmocka_unit_test(sighup_reloads),
        cmocka_unit_test(what_cannot_start_fails),
        cmocka_unit_test(writes_the_ready_file),
        cmocka_unit_test(pages_are_for_this_machine_outside_of_pods),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
