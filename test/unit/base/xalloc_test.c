/* SPDX-License-Identifier: Apache-2.0 */
#include "base/xalloc.h"

#include <setjmp.h>
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

enum { WELL = 7 }; /* how a child ends that has memory */

/* How a child ends whose first allocation fails, after what it has logged. */
static int status_of(void (*call)(void), long left)
{
    static struct log_capture log;
    int status = 0;
    log_capture_begin(&log);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        sweep_left = left;
        call();
        _exit(WELL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    const char *text = log_capture_end(&log);
    assert_true(WIFEXITED(status));
    assert_int_equal(strstr(text, "out of memory") != NULL, WEXITSTATUS(status) != WELL);
    return WEXITSTATUS(status);
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

static void use_asprintf(void)
{
    free(xasprintf("%d", 1));
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
    void (*const calls[])(void) = {use_malloc,   use_calloc, use_realloc, use_strdup, use_strndup,
                                   use_asprintf, use_json,   use_ptr,     use_ok,     use_rc};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        assert_int_equal(status_of(calls[i], -1), WELL);
        assert_int_equal(status_of(calls[i], 0), EXIT_FAILURE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_memory_the_process_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
