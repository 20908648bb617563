/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ensure.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/list.h"

/* How a child ends that calls it: the signal, or 0. */
static int signal_of(void (*call)(void))
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)signal(SIGABRT, SIG_DFL); /* the test runner catches it */
        (void)close(STDERR_FILENO);
        call();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void ensure_true(void)
{
    ensure(1 + 1 == 2);
}

static void ensure_false(void)
{
    ensure(1 + 1 == 3);
}

static void append_twice(void)
{
    struct list head;
    struct list node;
    list_init(&head);
    list_init(&node);
    list_append(&head, &node);
    list_append(&head, &node);
}

static void test_ensure_aborts_when_the_condition_is_false(void **state)
{
    (void)state;
    assert_int_equal(signal_of(ensure_true), 0);
    assert_int_equal(signal_of(ensure_false), SIGABRT);
}

static void test_a_node_cannot_be_in_two_lists(void **state)
{
    (void)state;
    assert_int_equal(signal_of(append_twice), SIGABRT);
}

static void odd_true(void)
{
    _exit(odd(1 + 1 == 2) ? 0 : 1);
}

static void test_odd_is_survived_unless_strict(void **state)
{
    (void)state;
    assert_false(odd(1 + 1 == 3));
#ifdef CMESH_STRICT
    assert_int_equal(signal_of(odd_true), SIGABRT);
#else
    assert_int_equal(signal_of(odd_true), 0);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ensure_aborts_when_the_condition_is_false),
        cmocka_unit_test(test_a_node_cannot_be_in_two_lists),
        cmocka_unit_test(test_odd_is_survived_unless_strict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
