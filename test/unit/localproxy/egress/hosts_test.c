/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/hosts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "alloc_sweep.h"

#define METRIC "cmesh_proxy_egress_requests_total"

static int setup(void **state)
{
    static struct hosts all;
    hosts_init(&all);
    *state = &all;
    return 0;
}

static int teardown(void **state)
{
    hosts_deinit(*state);
    return 0;
}

static void expect(const struct hosts *all, const char *line)
{
    struct buf out = BUF_INIT(1024 * 1024);
    assert_int_equal(hosts_write_metrics(all, &out), 0);
    if (strstr(buf_cstr(&out), line) == NULL) {
        fail_msg("\"%s\" is not in:\n%s", line, buf_cstr(&out));
    }
    buf_reset(&out);
}

static void each_host_has_its_results(void **state)
{
    struct hosts *all = *state;
    hosts_count(all, SLICE("a.example"), HOST_ANSWERED);
    hosts_count(all, SLICE("a.example"), HOST_ANSWERED);
    hosts_count(all, SLICE("a.example"), HOST_REFUSED);
    hosts_count(all, SLICE("::1"), HOST_FAILED);
    hosts_count(all, SLICE("b.example"), HOST_LIMITED);
    hosts_count(all, SLICE("b.example"), HOST_ABORTED);
    expect(all, METRIC "{host=\"a.example\",result=\"answered\"} 2\n");
    expect(all, METRIC "{host=\"a.example\",result=\"refused\"} 1\n");
    expect(all, METRIC "{host=\"::1\",result=\"failed\"} 1\n");
    expect(all, METRIC "{host=\"b.example\",result=\"limited\"} 1\n");
    expect(all, METRIC "{host=\"b.example\",result=\"aborted\"} 1\n");
    assert_int_equal(all->by_name.count, 3);
}

static void what_was_only_refused_has_no_name(void **state)
{
    struct hosts *all = *state;
    char name[32];
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof name, "h%d.example", i);
        hosts_count(all, slice_str(name), HOST_REFUSED);
    }
    assert_int_equal(all->by_name.count, 0);
    expect(all, METRIC "{host=\"(other)\",result=\"refused\"} 1000\n");
}

static void there_are_so_many_and_the_others(void **state)
{
    struct hosts *all = *state;
    char name[32];
    for (int i = 0; i < HOSTS_MAX + 20; i++) {
        (void)snprintf(name, sizeof name, "h%d.example", i);
        hosts_count(all, slice_str(name), HOST_ANSWERED);
    }
    hosts_count(all, SLICE("h0.example"), HOST_REFUSED);
    assert_int_equal(all->by_name.count, HOSTS_MAX);
    expect(all, METRIC "{host=\"(other)\",result=\"answered\"} 20\n");
    expect(all, METRIC "{host=\"h0.example\",result=\"refused\"} 1\n");
}

static void names_are_escaped(void **state)
{
    struct hosts *all = *state;
    char longest[300];
    memset(longest, 'a', sizeof longest);
    hosts_count(all, SLICE("a\"b\\c\nd\x80"), HOST_ANSWERED);
    hosts_count(all, slice_of("a\0b", 3), HOST_ANSWERED);
    hosts_count(all, slice_of(longest, 256), HOST_ANSWERED);
    hosts_count(all, SLICE(""), HOST_ANSWERED);
    expect(all, METRIC "{host=\"a\\\"b\\\\c?d?\",result=\"answered\"} 1\n");
    expect(all, METRIC "{host=\"(other)\",result=\"answered\"} 3\n");
    hosts_count(all, slice_of(longest, 255), HOST_ANSWERED);
    assert_int_equal(all->by_name.count, 2);
}

/* What there is no memory for is counted among the others. */
static bool count_scenario(void *data)
{
    struct hosts all;
    (void)data;
    hosts_init(&all);
    hosts_count(&all, SLICE("a.example"), HOST_ANSWERED);
    hosts_count(&all, SLICE("b.example"), HOST_ANSWERED);
    bool whole = all.by_name.count + all.others[HOST_ANSWERED] == 2;
    hosts_deinit(&all);
    return whole;
}

static void nothing_is_lost_without_memory(void **state)
{
    (void)state;
    assert_true(sweep_allocations(count_scenario, NULL) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_host_has_its_results, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_only_refused_has_no_name, setup, teardown),
        cmocka_unit_test_setup_teardown(there_are_so_many_and_the_others, setup, teardown),
        cmocka_unit_test_setup_teardown(names_are_escaped, setup, teardown),
        cmocka_unit_test(nothing_is_lost_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
