/* SPDX-License-Identifier: Apache-2.0 */
#include "base/xalloc.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "log_capture.h"

static int expected_code = EXIT_FAILURE;

/* Whether a process ends as one does without memory that makes the call, whose allocations fail
 * after `left` others. */
static bool ends(void (*call)(void), long left)
{
    static struct log_capture log;
    int status = 0;
    log_capture_begin(&log);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)signal(SIGABRT, SIG_DFL); /* the test runner catches it */
        sweep_left = left;
        call();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    bool logged = strstr(log_capture_end(&log), "out of memory") != NULL;
#ifdef CMESH_STRICT
    bool ended = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
#else
    bool ended = WIFEXITED(status) && WEXITSTATUS(status) == expected_code;
#endif
    assert_int_equal(logged, ended);
    assert_true(ended || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    return ended;
}

static void use_malloc(void)
{
    free(xmalloc(1));
}

static void use_calloc(void)
{
    free(xcalloc(1, 1));
}

static void use_realloc(void)
{
    free(xrealloc(NULL, 1));
}

static void use_strdup(void)
{
    free(xstrdup("a"));
}

static void use_strndup(void)
{
    free(xstrndup("ab", 1));
}

static void use_json(void)
{
    xalloc_use_for_json();
    cJSON_Delete(cJSON_CreateObject());
}

static void use_ptr(void)
{
    free(xptr(malloc(1)));
}

static void use_ok(void)
{
    xok(sweep_left == 0 ? -ENOMEM : 0);
}

static void use_rc(void)
{
    if (xrc(sweep_left == 0 ? -ENOMEM : -EINVAL) != -EINVAL) {
        abort();
    }
}

static void test_without_memory_the_process_ends(void **state)
{
    void (*const calls[])(void) = {use_malloc, use_calloc, use_realloc, use_strdup, use_strndup,
                                   use_json,   use_ptr,    use_ok,      use_rc};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        assert_false(ends(calls[i], -1));
        assert_true(ends(calls[i], 0));
    }
}

static void test_a_command_chooses_the_exit_code(void **state)
{
    (void)state;
    expected_code = 2;
    xalloc_set_exit_code(2);
    assert_true(ends(use_malloc, 0));
    expected_code = EXIT_FAILURE;
    xalloc_set_exit_code(EXIT_FAILURE);
    assert_true(ends(use_malloc, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_memory_the_process_ends),
        cmocka_unit_test(test_a_command_chooses_the_exit_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
