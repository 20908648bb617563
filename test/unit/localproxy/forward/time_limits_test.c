/* SPDX-License-Identifier: Apache-2.0 */
#include "forward/time_limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static struct time_limits limits_of(const char *method, const char *target)
{
    static const char *const named[] = {"/apis/g/v1/clusterextensions/*/proxy"};
    const struct api_prefixes prefixes = {named, 1};
    struct request_info ri;
    struct err e = ERR_INIT;
    assert_int_equal(
        request_info_parse_behind(&ri, &prefixes, slice_str(method), slice_str(target), &e), 0);
    struct time_limits limits = time_limits_of(&ri);
    request_info_deinit(&ri);
    return limits;
}

static void check_answer(const char *method, const char *target)
{
    struct time_limits l = limits_of(method, target);
    assert_int_equal(l.answer_ms, 65000);
    assert_int_equal(l.watch_ms, 0);
    assert_false(l.unhurried);
}

static void check_watch(const char *target, uint64_t ms)
{
    struct time_limits l = limits_of("GET", target);
    assert_int_equal(l.answer_ms, 0);
    assert_int_equal(l.watch_ms, ms);
    assert_false(l.unhurried);
}

static void check_stream(const char *method, const char *target)
{
    struct time_limits l = limits_of(method, target);
    assert_int_equal(l.answer_ms, 0);
    assert_int_equal(l.watch_ms, 0);
    assert_true(l.unhurried);
}

#define GATEWAY "/apis/g/v1/clusterextensions/c/proxy"
#define POD "/api/v1/namespaces/n/pods/p"

static void test_most_requests_are_answered_soon(void **state)
{
    (void)state;
    check_answer("GET", "/api/v1/pods?timeoutSeconds=5");
    check_answer("GET", POD);
    check_answer("POST", "/api/v1/namespaces/n/pods");
    check_answer("DELETE", "/api/v1/namespaces/n/pods");
    check_answer("PUT", POD "/status");
    check_answer("POST", POD "/eviction");
    check_answer("GET", "/api/v1/namespaces/n/pods/log"); /* its name */
    check_answer("GET", "/apis");
    check_answer("GET", "/debug/pprof/");
    check_answer("GET", "/debug/pprofile/exec");
}

static void test_watches_end_soon_after_their_time(void **state)
{
    (void)state;
    check_watch("/api/v1/pods?watch=true&timeoutSeconds=300", 330000);
    check_watch("/api/v1/watch/pods?timeoutSeconds=1", 31000);
    check_watch("/api/v1/pods?watch=1&timeoutSeconds=%32&timeoutSeconds=9", 32000);
    check_watch("/api/v1/pods?watch=1&timeoutSeconds=99999999999999999", UINT64_C(31536030000));
}

static void test_watches_without_a_time_end_too(void **state)
{
    (void)state;
    check_watch("/api/v1/pods?watch=true", 3630000);
    check_watch("/api/v1/pods?watch=true&timeoutSeconds=0", 3630000);
    check_watch("/api/v1/pods?watch=true&timeoutSeconds=", 3630000);
    check_watch("/api/v1/pods?watch=true&timeoutSeconds", 3630000);
}

static void test_streams_have_no_limit(void **state)
{
    (void)state;
    check_stream("GET", POD "/log?follow=true");
    check_stream("POST", POD "/exec?command=sh");
    check_stream("GET", POD "/attach");
    check_stream("POST", POD "/portforward");
    check_stream("GET", POD "/proxy/long/way");
    check_stream("GET", "/api/v1/namespaces/n/services/s/proxy");
    check_stream("GET", "/api/v1/proxy/nodes/n");
    check_stream("GET", "/debug/pprof/profile?seconds=90");
}

static void test_behind_a_gateway_it_is_the_same(void **state)
{
    (void)state;
    check_answer("GET", GATEWAY POD);
    check_answer("GET", GATEWAY "/version");
    check_answer("POST", GATEWAY "/api/v1/namespaces/n/pods");
    check_watch(GATEWAY "/api/v1/pods?watch=true&timeoutSeconds=300", 330000);
    check_stream("GET", GATEWAY POD "/log?follow=true");
    check_stream("GET", GATEWAY "/debug/pprof/profile?seconds=90");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_most_requests_are_answered_soon),
        cmocka_unit_test(test_watches_end_soon_after_their_time),
        cmocka_unit_test(test_watches_without_a_time_end_too),
        cmocka_unit_test(test_streams_have_no_limit),
        cmocka_unit_test(test_behind_a_gateway_it_is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
