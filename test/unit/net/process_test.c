/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
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
#include "temp_dir.h"

struct fixture {
    struct net_loop *loop;
    struct temp_dir dir; /* $1 of the scripts */
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
    temp_dir_init(&f->dir);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    int rc = loop_free(f->loop);
    temp_dir_deinit(&f->dir);
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
    char *argv[] = {"sh", "-c", (char *)script, "sh", f->dir.path, NULL};
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

/* A pipe that all processes inherit that are started from now on. */
static void open_shared_pipe(int ends[2])
{
    assert_int_equal(pipe(ends), 0);
}

/* Waits until nobody has its writing end any more: all that inherited it have ended. */
static void expect_all_gone(int ends[2])
{
    struct pollfd end = {.fd = ends[0], .events = POLLIN};
    char byte;
    assert_int_equal(close(ends[1]), 0);
    assert_int_equal(poll(&end, 1, 20000), 1);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    assert_int_equal(close(ends[0]), 0);
}

static void test_timeout_kills_all_it_started(void **state)
{
    struct fixture *f = *state;
    int ends[2];
    open_shared_pipe(ends);
    start_shell(f, "trap '' TERM INT; sleep 60 & wait", 300, 4096);
    finish(f);
    assert_int_equal(f->code, -ETIMEDOUT);
    assert_int_equal(f->signal, SIGKILL);
    expect_all_gone(ends);
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

/* Ends what a script has left behind: it must be running, and its id is what the script said. */
static void end_what_is_left(const struct fixture *f)
{
    pid_t pid = (pid_t)atol(f->out);
    assert_true(pid > 1); /* 0 would be all of this group */
    assert_int_equal(kill(pid, SIGKILL), 0);
}

static void test_what_it_leaves_behind_is_not_waited_for(void **state)
{
    struct fixture *f = *state;
    run_shell(f, "sleep 600 & echo $!");
    assert_int_equal(f->code, 0);
    end_what_is_left(f);
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

/* Cancels the process when it has been `due` at so many looks. */
struct canceller {
    uv_timer_t timer;
    struct fixture *fixture;
    bool (*due)(const struct fixture *f);
    unsigned looks;
};

static void on_look(uv_timer_t *timer)
{
    struct canceller *c = timer->data;
    bool over = c->fixture->calls > 0;
    c->looks -= !over && c->due(c->fixture);
    if (!over && c->looks == 0) {
        process_cancel(c->fixture->process);
    }
    if (over || c->looks == 0) {
        uv_close((uv_handle_t *)timer, NULL);
    }
}

static void cancel_when(struct canceller *c, struct fixture *f,
                        bool (*due)(const struct fixture *f), unsigned looks)
{
    *c = (struct canceller){.fixture = f, .due = due, .looks = looks};
    assert_int_equal(uv_timer_init(&f->loop->uv, &c->timer), 0);
    c->timer.data = c;
    assert_int_equal(uv_timer_start(&c->timer, on_look, 1, 5), 0);
}

static bool has_begun(const struct fixture *f)
{
    char path[256];
    return access(temp_dir_path(&f->dir, "begun", path), F_OK) == 0;
}

static void test_cancel_while_it_runs(void **state)
{
    struct fixture *f = *state;
    struct canceller c;
    start_shell(f, "echo begun; : >$1/begun; sleep 60", 60000, 4096);
    cancel_when(&c, f, has_begun, 2); /* after a turn in which what it said is read */
    finish(f);
    assert_int_equal(f->code, -ECANCELED);
    assert_string_equal(f->out, "begun\n");
}

/* The shell has said its id and was reaped: the loop knows of its end. */
static bool has_ended(const struct fixture *f)
{
    char path[256];
    long pid = 0;
    FILE *file = fopen(temp_dir_path(&f->dir, "pid", path), "r");
    if (file != NULL) {
        (void)!fscanf(file, "%ld\n", &pid);
        (void)fclose(file);
    }
    return pid > 1 && kill((pid_t)pid, 0) != 0;
}

static void test_cancel_after_it_left_something_behind(void **state)
{
    struct fixture *f = *state;
    struct canceller c;
    start_shell(f, "echo $$ >$1/new; mv $1/new $1/pid; sleep 600 & echo $!", 60000, 4096);
    cancel_when(&c, f, has_ended, 1);
    finish(f);
    assert_int_equal(f->code, -ECANCELED);
    assert_int_equal(f->exit_status, 0);
    assert_int_equal(f->signal, 0);
    end_what_is_left(f);
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
