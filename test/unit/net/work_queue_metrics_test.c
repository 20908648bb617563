/* SPDX-License-Identifier: Apache-2.0 */
#include "net/work_queue.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fake_clock.h"

static void on_key(void *data, const char *key)
{
    (void)data;
    (void)key;
}

static void expect_line(const char *text, const char *line)
{
    if (strstr(text, line) == NULL) {
        fail_msg("\"%s\" is not in:\n%s", line, text);
    }
}

static void test_names_of_client_go(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct net_loop *l = net_loop_new(&e);
    struct fake_clock clock;
    fake_clock_init(&clock, l);
    struct work_queue_options o = {.name = "one", .clock = &clock.clock};
    struct work_queue *one = work_queue_new(l, &o, on_key, NULL);
    o.name = "two";
    struct work_queue *two = work_queue_new(l, &o, on_key, NULL);
    work_queue_add(one, "a");
    work_queue_add(one, "b");
    fake_clock_jump(&clock, 50);
    fake_clock_pass(&clock, 1500);

    struct buf out = BUF_INIT(65536);
    const struct work_queue *queues[] = {one, two};
    work_queue_metrics(&out, queues, 2);
    const char *text = buf_cstr(&out);
    assert_non_null(text);
    expect_line(text, "# TYPE workqueue_depth gauge\n"
                      "workqueue_depth{name=\"one\"} 1\n"
                      "workqueue_depth{name=\"two\"} 0\n#");
    expect_line(text, "workqueue_adds_total{name=\"one\"} 2\n");
    expect_line(text, "workqueue_retries_total{name=\"one\"} 0\n");
    expect_line(text, "workqueue_queue_duration_seconds_bucket{name=\"one\",le=\"0.001\"} 0\n"
                      "workqueue_queue_duration_seconds_bucket{name=\"one\",le=\"0.01\"} 0\n"
                      "workqueue_queue_duration_seconds_bucket{name=\"one\",le=\"0.1\"} 1\n"
                      "workqueue_queue_duration_seconds_bucket{name=\"one\",le=\"1\"} 1\n"
                      "workqueue_queue_duration_seconds_bucket{name=\"one\",le=\"10\"} 1\n"
                      "workqueue_queue_duration_seconds_bucket{name=\"one\",le=\"+Inf\"} 1\n"
                      "workqueue_queue_duration_seconds_sum{name=\"one\"} 0.050\n"
                      "workqueue_queue_duration_seconds_count{name=\"one\"} 1\n");
    expect_line(text, "workqueue_work_duration_seconds_count{name=\"one\"} 0\n");
    expect_line(text, "workqueue_longest_running_processor_seconds{name=\"one\"} 1.500\n"
                      "workqueue_longest_running_processor_seconds{name=\"two\"} 0.000\n");
    buf_reset(&out);

    struct buf small = BUF_INIT(100);
    work_queue_metrics(&small, queues, 2);
    assert_int_equal(buf_error(&small), -ENOBUFS);
    buf_reset(&small);
    work_queue_free(one);
    work_queue_free(two);
    assert_int_equal(net_loop_free(l), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_client_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
