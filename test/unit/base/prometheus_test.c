/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "base/prometheus.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct prometheus_metric two[] = {
    {"a_total", "counter", "What a is.", 3},
    {"b", "gauge", "What b is.", UINT64_MAX},
};

static void writes_heads_and_samples(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1024);
    assert_int_equal(prometheus_write(&out, two, 2), 0);
    assert_int_equal(prometheus_seconds(&out, "c_seconds", "gauge", "What c is.", 1.5), 0);
    assert_string_equal(buf_cstr(&out), "# HELP a_total What a is.\n"
                                        "# TYPE a_total counter\n"
                                        "a_total 3\n"
                                        "# HELP b What b is.\n"
                                        "# TYPE b gauge\n"
                                        "b 18446744073709551615\n"
                                        "# HELP c_seconds What c is.\n"
                                        "# TYPE c_seconds gauge\n"
                                        "c_seconds 1.500000\n");
    buf_reset(&out);
}

static void says_when_there_is_no_room(void **state)
{
    (void)state;
    struct buf whole = BUF_INIT(1024);
    assert_int_equal(prometheus_write(&whole, two, 2), 0);
    for (size_t room = 0; room < whole.len; room++) {
        struct buf out = BUF_INIT(room);
        assert_int_equal(prometheus_write(&out, two, 2), -ENOBUFS);
        buf_reset(&out);
    }
    buf_reset(&whole);
}

static void writes_histograms(void **state)
{
    (void)state;
    static const struct prometheus_bounds ms = {1000, 2, {5, 1000}};
    static const struct prometheus_bounds us = {1000000, 1, {2500}};
    struct prometheus_histogram h = {.sum = 0};
    struct buf out = BUF_INIT(1024);
    static const uint64_t values[] = {0, 5, 6, 1001};
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        prometheus_observe(&h, &ms, values[i]);
    }
    assert_int_equal(prometheus_histogram(&out, "a_seconds", "name=\"x\"", &h, &ms), 0);
    assert_string_equal(buf_cstr(&out), "a_seconds_bucket{name=\"x\",le=\"0.005\"} 2\n"
                                        "a_seconds_bucket{name=\"x\",le=\"1\"} 3\n"
                                        "a_seconds_bucket{name=\"x\",le=\"+Inf\"} 4\n"
                                        "a_seconds_sum{name=\"x\"} 1.012\n"
                                        "a_seconds_count{name=\"x\"} 4\n");
    buf_clear(&out);
    h = (struct prometheus_histogram){.sum = 0};
    prometheus_observe(&h, &us, 2500);
    assert_int_equal(prometheus_histogram(&out, "b_seconds", NULL, &h, &us), 0);
    assert_string_equal(buf_cstr(&out), "b_seconds_bucket{le=\"0.0025\"} 1\n"
                                        "b_seconds_bucket{le=\"+Inf\"} 1\n"
                                        "b_seconds_sum 0.002500\n"
                                        "b_seconds_count 1\n");
    buf_reset(&out);
}

static double value_of(const char *text, const char *name)
{
    char line[128];
    (void)snprintf(line, sizeof line, "\n%s ", name);
    const char *at = strstr(text, line);
    assert_non_null(at);
    return strtod(at + strlen(line), NULL);
}

static void tells_what_the_process_uses(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(4096);
    assert_int_equal(prometheus_process(&out), 0);
    const char *text = buf_cstr(&out);
    assert_true(value_of(text, "process_resident_memory_bytes") > 100000);
    assert_true(value_of(text, "process_cpu_seconds_total") >= 0);
    buf_reset(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_heads_and_samples),
        cmocka_unit_test(says_when_there_is_no_room),
        cmocka_unit_test(writes_histograms),
        cmocka_unit_test(tells_what_the_process_uses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
