/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "label/relabel_backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static int setup(void **state)
{
    *state = calloc(1, sizeof(struct relabel_backoff));
    return *state == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static void pauses_double(void **state)
{
    struct relabel_backoff *c = *state;
    static const uint64_t wanted[] = {0, 0, 0, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};
    uint64_t now = 5000;
    bool begins;
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        assert_int_equal(relabel_backoff_pause(c, 1, "ns", "x", now, &begins), wanted[i]);
        assert_int_equal(begins, i == RELABEL_BACKOFF_FREE);
        now += wanted[i];
        relabel_backoff_labelled(c, 1, "ns", "x", now);
        now += 10;
    }
}

static void is_forgotten(void **state)
{
    struct relabel_backoff *c = *state;
    bool begins;
    for (int i = 0; i < 5; i++) {
        relabel_backoff_labelled(c, 1, "ns", "x", 1000);
    }
    assert_int_equal(relabel_backoff_pause(c, 1, "ns", "x", 120999, &begins), 4000);
    assert_int_equal(relabel_backoff_pause(c, 1, "ns", "x", 121000, &begins), 0);
    relabel_backoff_labelled(c, 1, "ns", "x", 121000);
    assert_int_equal(relabel_backoff_pause(c, 1, "ns", "x", 121000, &begins), 0);
}

static void others_are_not_meant(void **state)
{
    struct relabel_backoff *c = *state;
    bool begins;
    char name[32];
    for (int i = 0; i < 4; i++) {
        relabel_backoff_labelled(c, 1, "ns", "x", 1000);
    }
    assert_int_equal(relabel_backoff_pause(c, 2, "ns", "x", 1000, &begins), 0);
    assert_int_equal(relabel_backoff_pause(c, 1, "ns", "y", 1000, &begins), 0);
    assert_int_equal(relabel_backoff_pause(c, 1, "nsx", "", 1000, &begins), 0);
    for (int i = 0; i < 100000; i++) { /* each for the first time */
        (void)snprintf(name, sizeof name, "other-%d", i);
        relabel_backoff_labelled(c, 1, "ns", name, 1000);
        assert_int_equal(relabel_backoff_pause(c, 1, "ns", name, 1000, &begins), 0);
    }
    assert_int_equal(relabel_backoff_pause(c, 1, "ns", "x", 1000, &begins), 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pauses_double, setup, teardown),
        cmocka_unit_test_setup_teardown(is_forgotten, setup, teardown),
        cmocka_unit_test_setup_teardown(others_are_not_meant, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
