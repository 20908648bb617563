/* SPDX-License-Identifier: Apache-2.0 */
#include "base/state_machine.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/array.h"

enum state { IDLE, ASKING, DONE };

static const struct state_machine machine = {
    .object = "question",
    .states = {[IDLE] = {"Idle", STATE(ASKING)},
               [ASKING] = {"Asking", STATE(IDLE) | STATE(DONE)},
               [DONE] = {"Done", 0}},
};

static void test_states_have_names(void **state)
{
    (void)state;
    assert_string_equal(state_name(&machine, ASKING), "Asking");
    assert_string_equal(state_name(&machine, DONE + 1), "?");
    assert_string_equal(state_name(&machine, STATE_MAX), "?");
}

static void test_an_edge_of_the_table_is_taken(void **state)
{
    (void)state;
    assert_int_equal(state_change(&machine, IDLE, ASKING, SLICE("one")), ASKING);
    assert_int_equal(state_change(&machine, ASKING, IDLE, SLICE("")), IDLE);
    assert_int_equal(state_step(&machine, ASKING, DONE, SLICE("")), DONE);
}

typedef uint32_t change_cb(const struct state_machine *m, uint32_t from, uint32_t to,
                           struct slice which);

/* Exits with the state that is reached. */
static int child_changes(change_cb *change, uint32_t from, uint32_t to)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)signal(SIGABRT, SIG_DFL); /* the test runner catches it */
        (void)close(STDERR_FILENO);
        _exit((int)change(&machine, from, to, SLICE("")));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void test_another_edge_is_odd(void **state)
{
    (void)state;
    change_cb *const ways[] = {state_change, state_step};
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        int status = child_changes(ways[i], DONE, ASKING);
#ifdef CMESH_STRICT
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#else
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == ASKING);
#endif
    }
}

static void test_a_number_that_is_no_state_is_never_survived(void **state)
{
    (void)state;
    int status = child_changes(state_change, STATE_MAX, IDLE);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    status = child_changes(state_step, IDLE, STATE_MAX);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states_have_names),
        cmocka_unit_test(test_an_edge_of_the_table_is_taken),
        cmocka_unit_test(test_another_edge_is_odd),
        cmocka_unit_test(test_a_number_that_is_no_state_is_never_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
