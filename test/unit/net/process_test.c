/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "loop_fixture.h"
#include "net/process.h"

struct fixture {
    struct net_loop *loop;
    struct process *process;
    int calls;
    int code;
    int exit_status;
    int signal;
    char out[8192];
    char err[8192];
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_int_equal(loop_setup((void **)&f->loop), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    int rc = loop_free(f->loop);
    free(f);
    return rc;
}

static void on_done(void *data, const struct process_result *r)
{
    struct fixture *f = data;
    f->calls++;
    f->code = r->code;
    f->exit_status = r->exit_status;
    f->signal = r->signal;
    (void)snprintf(f->out, sizeof f->out, "%.*s", (int)r->out.len, r->out.ptr);
    (void)snprintf(f->err, sizeof f->err, "%.*s", (int)r->err.len, r->err.ptr);
    process_cancel(f->process); /* too late: must do nothing */
}

static void start_shell(struct fixture *f, const char *script, uint64_t timeout_ms,
                        size_t output_max)
{
    struct err e = ERR_INIT;
    char *argv[] = {"sh", "-c", (char *)script, NULL};
    struct process_options o = {.argv = argv, .timeout_ms = timeout_ms, .output_max = output_max};
    if (process_run(&f->loop->uv, &o, on_done, f, &f->process, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    assert_int_equal(f->calls, 0);
}

static void finish(struct fixture *f)
{
    run_to_end(f->loop);
    assert_int_equal(f->calls, 1);
}

static void run_shell(struct fixture *f, const char *script)
{
    start_shell(f, script, 10000, 4096);
    finish(f);
}

static void test_success(void **state)
{
    struct fixture *f = *state;
    run_shell(f, "echo out; echo err >&2; sleep 0.05; echo more");
    assert_int_equal(f->code, 0);
    assert_int_equal(f->exit_status, 0);
    assert_string_equal(f->out, "out\nmore\n");
    assert_string_equal(f->err, "err\n");
}

static void test_stdin_is_empty(void **state)
{
    struct fixture *f = *state;
    run_shell(f, "read x || echo nothing");
    assert_string_equal(f->out, "nothing\n");
}

static void test_failure(void **state)
{
    struct fixture *f = *state;
    run_shell(f, "echo why >&2; exit 7");
    assert_int_equal(f->code, 0);
    assert_int_equal(f->exit_status, 7);
    assert_string_equal(f->err, "why\n");
}

static void test_signal(void **state)
{
    struct fixture *f = *state;
    run_shell(f, "kill -TERM $$");
    assert_int_equal(f->code, 0);
    assert_int_equal(f->signal, SIGTERM);
}

static void test_environment(void **state)
{
    struct fixture *f = *state;
    struct err e = ERR_INIT;
    char *argv[] = {"/usr/bin/env", NULL};
    char *env[] = {"A=1", "B=two words", NULL};
    struct process_options o = {.argv = argv, .env = env, .timeout_ms = 10000, .output_max = 4096};
    assert_int_equal(process_run(&f->loop->uv, &o, on_done, f, &f->process, &e), 0);
    finish(f);
    assert_string_equal(f->out, "A=1\nB=two words\n");
}

static void test_missing_command(void **state)
{
    struct fixture *f = *state;
    struct err e = ERR_INIT;
    char *argv[] = {"cmesh-no-such-program", NULL};
    struct process_options o = {.argv = argv, .timeout_ms = 10000, .output_max = 4096};
    assert_int_equal(process_run(&f->loop->uv, &o, on_done, f, &f->process, &e), -ENOENT);
    assert_non_null(strstr(e.msg, "cannot run cmesh-no-such-program: no such file"));
    run_to_end(f->loop);
    assert_int_equal(f->calls, 0);
}

static void test_not_executable(void **state)
{
    struct fixture *f = *state;
    struct err e = ERR_INIT;
    char *argv[] = {"/etc/passwd", NULL};
    struct process_options o = {.argv = argv, .timeout_ms = 10000, .output_max = 4096};
    assert_int_equal(process_run(&f->loop->uv, &o, on_done, f, &f->process, &e), -EACCES);
    run_to_end(f->loop);
}

static bool is_gone(const char *pid_text)
{
    pid_t pid = (pid_t)atol(pid_text);
    assert_true(pid > 1);
    for (int i = 0; i < 100; i++) {
        char stat[64];
        char state_letter = 'Z';
        (void)snprintf(stat, sizeof stat, "/proc/%d/stat", (int)pid);
        FILE *file = fopen(stat, "r");
        if (file == NULL) {
            return true;
        }
        (void)!fscanf(file, "%*d (%*[^)]) %c", &state_letter);
        (void)fclose(file);
        if (state_letter == 'Z') { /* dead; whoever adopted it reaps it in its own time */
            return true;
        }
        (void)usleep(20000);
    }
    return false;
}

static void test_timeout_kills_all_it_started(void **state)
{
    struct fixture *f = *state;
    start_shell(f, "trap '' TERM INT; sleep 60 & echo $!; wait", 300, 4096);
    finish(f);
    assert_int_equal(f->code, -ETIMEDOUT);
    assert_int_equal(f->signal, SIGKILL);
    assert_true(is_gone(f->out));
}

static void test_too_much_output(void **state)
{
    struct fixture *f = *state;
    start_shell(f, "while :; do echo 0123456789; done", 10000, 1000);
    finish(f);
    assert_int_equal(f->code, -ENOBUFS);
    assert_int_equal(f->signal, SIGKILL);
}

static void test_output_up_to_the_limit(void **state)
{
    struct fixture *f = *state;
    start_shell(f, "printf 0123456789", 10000, 10);
    finish(f);
    assert_int_equal(f->code, 0);
    assert_string_equal(f->out, "0123456789");
}

static void test_diagnostics_are_cut_not_refused(void **state)
{
    struct fixture *f = *state;
    run_shell(f, "head -c 100000 /dev/zero | tr '\\0' x >&2; echo ok");
    assert_int_equal(f->code, 0);
    assert_string_equal(f->out, "ok\n");
    assert_int_equal(strlen(f->err), PROCESS_STDERR_MAX);
}

static void test_what_it_leaves_behind_is_not_waited_for(void **state)
{
    struct fixture *f = *state;
    uint64_t begin = uv_hrtime();
    run_shell(f, "sleep 5 & echo $!");
    assert_int_equal(f->code, 0);
    assert_true(uv_hrtime() - begin < 3000000000u);
    (void)kill((pid_t)atol(f->out), SIGKILL);
}

static void test_cancel_at_once(void **state)
{
    struct fixture *f = *state;
    start_shell(f, "sleep 60", 10000, 4096);
    process_cancel(f->process);
    process_cancel(f->process);
    finish(f);
    assert_int_equal(f->code, -ECANCELED);
}

static void on_cancel_timer(uv_timer_t *timer)
{
    struct fixture *f = timer->data;
    if (f->calls == 0) {
        process_cancel(f->process);
    }
    uv_close((uv_handle_t *)timer, NULL);
}

static void cancel_after(struct fixture *f, uv_timer_t *timer, uint64_t ms)
{
    assert_int_equal(uv_timer_init(&f->loop->uv, timer), 0);
    timer->data = f;
    assert_int_equal(uv_timer_start(timer, on_cancel_timer, ms, 0), 0);
}

static void test_cancel_while_it_runs(void **state)
{
    struct fixture *f = *state;
    uv_timer_t timer;
    start_shell(f, "echo begun; sleep 60", 10000, 4096);
    cancel_after(f, &timer, 200);
    finish(f);
    assert_int_equal(f->code, -ECANCELED);
    assert_string_equal(f->out, "begun\n");
}

static void test_cancel_after_it_left_something_behind(void **state)
{
    struct fixture *f = *state;
    uv_timer_t timer;
    start_shell(f, "sleep 5 & echo $!", 10000, 4096);
    cancel_after(f, &timer, 200);
    finish(f);
    assert_int_equal(f->code, -ECANCELED);
    (void)kill((pid_t)atol(f->out), SIGKILL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_success, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stdin_is_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failure, setup, teardown),
        cmocka_unit_test_setup_teardown(test_signal, setup, teardown),
        cmocka_unit_test_setup_teardown(test_environment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_missing_command, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_executable, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timeout_kills_all_it_started, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_much_output, setup, teardown),
        cmocka_unit_test_setup_teardown(test_output_up_to_the_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_diagnostics_are_cut_not_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_it_leaves_behind_is_not_waited_for, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_cancel_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancel_while_it_runs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancel_after_it_left_something_behind, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
