/* SPDX-License-Identifier: Apache-2.0 */
#include "ownership/incompatible_pods.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"

static const struct probe_result silent = {.state = PROBE_SILENT, .asked = true};
static const struct probe_result old = {.version = "0.1.0", .reads = RULES_V1};
static const struct probe_result new = {.version = "0.2.0", .reads = RULES_V2};

static void test_one_pod(void **state)
{
    static const struct {
        const char *name;
        struct pod pod;
        const struct probe_result *probe;
        bool first;
        size_t found;
    } rows[] = {
        {"reads it", {.ip = "1.1.1.1"}, &new, false, 0},
        {"does not read it", {.ip = "1.1.1.1"}, &old, false, 1},
        {"does not read the first rules either", {.ip = "1.1.1.1"}, &old, true, 1},
        {"was never asked", {.ip = "1.1.1.1"}, NULL, false, 1},
        {"has never answered", {.ip = "1.1.1.1"}, &silent, false, 1},
        {"waits for the first rules in its init container", {.ip = "1.1.1.1"}, &silent, true, 0},
        {"was told of rules that are gone", {.ip = "1.1.1.1", .told = true}, &silent, true, 1},
        {"was told, and reads it", {.ip = "1.1.1.1", .told = true}, &new, true, 0},
        {"has not started: there is no node for it", {.ip = ""}, NULL, false, 0},
        {"is let go", {.ip = "1.1.1.1", .let_go = true}, &old, false, 0},
        {"is over", {.ip = "1.1.1.1", .over = true}, &old, false, 0},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf names = BUF_INIT(100);
        struct pod pod = rows[i].pod;
        pod.name = "p";
        const struct ownership_pod one = {&pod, rows[i].probe};
        size_t found = incompatible_pods(&one, 1, RULES_V2, rows[i].first, &names);
        if (found != rows[i].found || (names.len > 0) != (found > 0)) {
            fail_msg("a pod that %s: %zu, not %zu", rows[i].name, found, rows[i].found);
        }
        buf_reset(&names);
    }
}

static void test_names(void **state)
{
    struct pod pods[5];
    struct ownership_pod all[ARRAY_LEN(pods)];
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    struct buf out = BUF_INIT(200);
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pods); i++) {
        pods[i] = (struct pod){.name = names[i], .ip = "1.1.1.1"};
        all[i] = (struct ownership_pod){&pods[i], i == 1 ? NULL : i == 3 ? &new : &old};
    }
    assert_int_equal(incompatible_pods(all, ARRAY_LEN(pods), RULES_V2, false, &out), 4);
    assert_string_equal(buf_cstr(&out), "a (cmesh 0.1.0), b (not heard of yet), c (cmesh 0.1.0) "
                                        "and 1 more");
    buf_clear(&out);
    assert_int_equal(incompatible_pods(all, 3, RULES_V2, false, &out), 3);
    assert_string_equal(buf_cstr(&out), "a (cmesh 0.1.0), b (not heard of yet), c (cmesh 0.1.0)");
    buf_reset(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_pod),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
