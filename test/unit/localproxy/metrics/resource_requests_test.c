/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics/resource_requests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void count(struct resource_requests *r, const char *method, const char *target)
{
    struct request_info ri;
    struct err e = ERR_INIT;
    assert_int_equal(request_info_parse(&ri, slice_str(method), slice_str(target), &e), 0);
    resource_requests_count(r, &ri);
    request_info_deinit(&ri);
}

/* That the page has this line after the metric's name. */
static void expect(const struct resource_requests *r, const char *line)
{
    char whole[1024];
    struct buf out = BUF_INIT(1024 * 1024);
    assert_int_equal(resource_requests_write_metrics(r, &out), 0);
    (void)snprintf(whole, sizeof whole, "\ncmesh_proxy_resource_requests_total%s\n", line);
    assert_non_null(strstr(buf_cstr(&out), whole));
    buf_reset(&out);
}

#define OTHERS "{verb=\"\",scope=\"\",group=\"\",resource=\"\"} "

static void test_rows(void **state)
{
    struct resource_requests r = {.others = 0};
    (void)state;
    expect(&r, OTHERS "0");
    for (int i = 0; i < 3; i++) {
        count(&r, "GET", "/api/v1/namespaces/a/pods?watch=true");
        count(&r, "GET", "/api/v1/namespaces/b/pods?watch=true&limit=4");
    }
    count(&r, "GET", "/api/v1/pods");
    count(&r, "PATCH", "/apis/apps/v1/namespaces/a/deployments/web/status");
    count(&r, "POST", "/apis/example.com/v1beta1/widgets");
    expect(&r, "{verb=\"watch\",scope=\"namespace\",group=\"\",resource=\"pods\"} 6");
    expect(&r, "{verb=\"list\",scope=\"all\",group=\"\",resource=\"pods\"} 1");
    expect(&r, "{verb=\"patch\",scope=\"namespace\",group=\"apps\","
               "resource=\"deployments/status\"} 1");
    expect(&r, "{verb=\"create\",scope=\"all\",group=\"example.com\",resource=\"widgets\"} 1");
    expect(&r, OTHERS "0");
    resource_requests_deinit(&r);
}

/* What would have to be escaped, would look like another row, or is too long. */
static void test_what_has_no_row(void **state)
{
    static const char *const targets[] = {
        "/apis/a%22b/v1/things", "/api/v1/na%0Ame",   "/api/v1/Pods",
        "/apis/a%20b/v1/c",      "/api/v1/caf%C3%A9", "/apis/x/v1/namespaces/a/b/c/d%7D",
    };
    char target[1024] = "/api/v1/";
    struct resource_requests r = {.others = 0};
    (void)state;
    memset(target + strlen(target), 'x', 400);
    count(&r, "GET", target);
    expect(&r, OTHERS "1");
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        char line[512];
        count(&r, "GET", targets[i]);
        (void)snprintf(line, sizeof line, OTHERS "%zu", i + 2);
        expect(&r, line);
    }
    resource_requests_deinit(&r);
}

static void test_no_more_rows_than_there_may_be(void **state)
{
    struct resource_requests r = {.others = 0};
    char target[64];
    (void)state;
    for (unsigned i = 0; i < RESOURCE_REQUESTS_MAX + 10; i++) {
        (void)snprintf(target, sizeof target, "/api/v1/r%u", i);
        count(&r, "GET", target);
    }
    count(&r, "GET", "/api/v1/r0");
    expect(&r, "{verb=\"list\",scope=\"all\",group=\"\",resource=\"r0\"} 2");
    expect(&r, OTHERS "10");
    assert_int_equal(r.rows.count, RESOURCE_REQUESTS_MAX);
    resource_requests_deinit(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_what_has_no_row),
        cmocka_unit_test(test_no_more_rows_than_there_may_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
