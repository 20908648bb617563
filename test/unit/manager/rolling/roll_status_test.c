/* SPDX-License-Identifier: Apache-2.0 */
#include "rolling/roll_status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"

static void expect_printed(const struct roll_status *s, const char *text)
{
    char out[ROLL_STATUS_SIZE];
    struct roll_status read;
    roll_status_print(s, out);
    assert_string_equal(out, text);
    roll_status_parse(out, &read);
    assert_int_equal(read.done, s->done);
    assert_int_equal(read.total, s->total);
    assert_string_equal(read.shard, s->shard);
    assert_string_equal(read.pod, s->pod);
    assert_int_equal(read.state, s->state);
    assert_string_equal(read.message, "");
}

static void test_texts(void **state)
{
    (void)state;
    expect_printed(&(struct roll_status){.done = 6, .total = 6, .state = ROLL_STATE_DONE},
                   "6/6 state=Done");
    expect_printed(&(struct roll_status){.done = 2,
                                         .total = 6,
                                         .shard = "demo-1-normal",
                                         .pod = "op-3",
                                         .state = ROLL_STATE_WAITING,
                                         .message = "op-2 is not Ready: state=Done"},
                   "2/6 shard=demo-1-normal pod=op-3 state=Waiting: op-2 is not Ready: state=Done");
    expect_printed(&(struct roll_status){.total = 6, .pod = "op-3", .state = ROLL_STATE_EVICTING},
                   "0/6 pod=op-3 state=Evicting");
}

static void test_labels(void **state)
{
    char out[ROLL_STATUS_LABEL_SIZE];
    (void)state;
    for (int i = ROLL_STATE_REFUSED; i < ROLL_STATES; i++) {
        const struct roll_status s = {
            .done = SIZE_MAX, .total = SIZE_MAX, .state = (enum roll_state)i};
        roll_status_label(&s, out);
        assert_null(name_check_value(slice_str(out)));
    }
    const struct roll_status s = {.done = 2, .total = 6, .state = ROLL_STATE_WAITING};
    roll_status_label(&s, out);
    assert_string_equal(out, "Waiting-2-of-6");
}

static void test_what_says_nothing(void **state)
{
    static const char *const texts[] = {
        "",
        "done",
        "1/",
        "1/2",
        "1/2 state=",
        "1/2 state=Donne",
        "1/2 state=done",
        "-1/2 state=Done",
        "1/99999999999999999999 state=Done",
        "1/2 pod= state=Done",
        "1/2 pod=A state=Done",
        "1/2 shard=a/b state=Done",
        "1/2 pod=a shard=b state=Done",
        "1/2  state=Done",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct roll_status s;
        memset(&s, 0xff, sizeof s);
        roll_status_parse(texts[i], &s);
        assert_int_equal(s.state, ROLL_STATE_NONE);
        assert_int_equal(s.total, 0);
        assert_string_equal(s.pod, "");
        assert_string_equal(s.shard, "");
    }
}

static void test_what_is_said_of_a_stuck_roll(void **state)
{
#define UNTIL(what) "why. No further pod is evicted until " what " or the label is taken away."
    static const struct {
        enum roll_what what;
        enum roll_gate gate;
        const char *pod;
        const char *text;
    } cases[] = {
        {ROLL_WAIT, ROLL_NOT_READY, "op-1",
         "Pod op-1 of the new revision: " UNTIL(
             "that is mended, the template is changed or rolled back,")},
        {ROLL_WAIT, ROLL_ENDING, "op-1", "Pod op-1: " UNTIL("it is gone,")},
        {ROLL_WAIT, ROLL_MISSING, "op-1", "Pod op-1: " UNTIL("that is mended,")},
        {ROLL_WAIT, ROLL_UNSEEN, "op-1", "Pod op-1: " UNTIL("that is mended,")},
        {ROLL_WAIT, ROLL_UNSEEN, "", "The roll waits: " UNTIL("that is mended,")},
        {ROLL_WAIT, ROLL_NO_PODS, "", "The roll waits: " UNTIL("that is mended,")},
        {ROLL_WAIT, ROLL_LEADERLESS, "", "The roll waits: " UNTIL("that is mended,")},
        {ROLL_EVICT, ROLL_OPEN, "op-1", "Pod op-1: " UNTIL("that is mended,")},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char out[ROLL_STUCK_SIZE];
        struct roll_status s = {.message = "why"};
        const struct roll_step step = {.what = cases[i].what, .gate = cases[i].gate};
        (void)snprintf(s.pod, sizeof s.pod, "%s", cases[i].pod);
        roll_stuck_print(&s, &step, out);
        assert_string_equal(out, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_what_says_nothing),
        cmocka_unit_test(test_what_is_said_of_a_stuck_roll),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
