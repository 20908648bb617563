/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/traffic_request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"

static void test_what_is_looked_at(void **state)
{
    struct request_info ri;
    struct traffic_request r;
    (void)state;
    assert_int_equal(request_info_parse(&ri, SLICE("POST"),
                                        SLICE("/api/v1/namespaces/demo/pods/web-0/eviction"), NULL),
                     0);
    traffic_request_of(&ri, false, &r);
    assert_true(slice_eq(r.namespace, SLICE("demo")));
    assert_true(slice_eq(r.group, SLICE("")));
    assert_true(slice_eq(r.resource, SLICE("pods")));
    assert_true(slice_eq(r.subresource, SLICE("eviction")));
    assert_true(slice_eq(r.verb, SLICE("create")));
    assert_false(r.named_only);
    request_info_deinit(&ri);
}

static void test_what_only_names_are_for(void **state)
{
    static const struct {
        const char *method;
        const char *target;
        bool is_lock;
        bool named_only;
    } cases[] = {
        {"PUT", "/apis/coordination.k8s.io/v1/namespaces/demo/leases/lock", false, true},
        {"GET", "/apis/coordination.k8s.io/v1/leases", false, true},
        {"GET", "/apis/example.com/v1/leases", false, false},
        {"PUT", "/api/v1/namespaces/demo/configmaps/lock", true, true},
        {"PUT", "/api/v1/namespaces/demo/configmaps/lock", false, false},
        {"POST", "/apis/authentication.k8s.io/v1/tokenreviews", false, true},
        {"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", false, true},
        {"POST", "/apis/authorization.k8s.io/v1/namespaces/demo/localsubjectaccessreviews", false,
         true},
        {"DELETE", "/api/v1/namespaces/demo/pods/web-0", false, false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct request_info ri;
        struct traffic_request r;
        assert_int_equal(
            request_info_parse(&ri, slice_str(cases[i].method), slice_str(cases[i].target), NULL),
            0);
        traffic_request_of(&ri, cases[i].is_lock, &r);
        if (r.named_only != cases[i].named_only) {
            fail_msg("%s", cases[i].target);
        }
        request_info_deinit(&ri);
    }
}

/* What is one thing to the user is one thing to a policy, by whatever method a client asks for it.
 */
static void test_sessions_have_both_verbs(void **state)
{
    static const struct {
        const char *method;
        const char *subresource;
        const char *verb;
        const char *or_verb;
    } cases[] = {
        {"GET", "exec", "get", "create"},
        {"POST", "exec", "create", "get"},
        {"GET", "attach", "get", "create"},
        {"POST", "attach", "create", "get"},
        {"GET", "portforward", "get", "create"},
        {"POST", "portforward", "create", "get"},
        {"GET", "proxy", "get", ""},
        {"POST", "proxy", "create", ""},
        {"GET", "log", "get", ""},
        {"POST", "eviction", "create", ""},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct request_info ri;
        struct traffic_request r;
        char target[128];
        (void)snprintf(target, sizeof target, "/api/v1/namespaces/demo/pods/web-0/%s?command=id",
                       cases[i].subresource);
        assert_int_equal(
            request_info_parse(&ri, slice_str(cases[i].method), slice_str(target), NULL), 0);
        traffic_request_of(&ri, false, &r);
        if (!slice_eq(r.verb, slice_str(cases[i].verb)) ||
            !slice_eq(r.or_verb, slice_str(cases[i].or_verb))) {
            fail_msg("%s %s", cases[i].method, cases[i].subresource);
        }
        request_info_deinit(&ri);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_looked_at),
        cmocka_unit_test(test_what_only_names_are_for),
        cmocka_unit_test(test_sessions_have_both_verbs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
