/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/object_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kube/client/watch_event.h"

#define POD                                                                                        \
    "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\",\"generateName\":\"x\"," \
    "\"namespace\":\"demo\",\"uid\":\"u\",\"resourceVersion\":\"17\",\"labels\":{"                 \
    "\"namespace\":\"other\"}},\"spec\":{}}"

static void expect(const char *object, const char *ns, const char *version)
{
    struct object_head h;
    if (!object_head_read(slice_str(object), &h)) {
        fail_msg("nothing is said of %s", object);
    }
    assert_string_equal(h.ns, ns);
    assert_true(slice_eq(h.version, slice_str(version)));
}

static void test_objects(void **state)
{
    (void)state;
    expect(POD, "demo", "17");
    expect(" { \"metadata\" : { \"resourceVersion\" : \"1\" , \"namespace\" : \"n\" } } ", "n",
           "1");
    expect("{\"spec\":{\"metadata\":{\"namespace\":\"x\"}},\"a\":[1,{}],\"metadata\":{\"labels\":{"
           "\"resourceVersion\":\"9\"},\"namespace\":\"n\",\"resourceVersion\":\"2\"}}",
           "n", "2");
    /* What follows is not looked at. */
    expect("{\"metadata\":{\"namespace\":\"n\",\"resourceVersion\":\"3\",\"labels\":{\"a\":", "n",
           "3");
}

static void test_nothing_is_said(void **state)
{
    (void)state;
    static const char *const objects[] = {
        "",
        "null",
        "[]",
        "{}",
        "{\"metadata\":1}",
        "{\"metadata\":[]}",
        "{\"metadata\":{}}",
        "{\"metadata\":{\"namespace\":\"n\"}}",
        "{\"metadata\":{\"resourceVersion\":\"1\"}}",
        "{\"metadata\":{\"namespace\":\"\",\"resourceVersion\":\"1\"}}",
        "{\"metadata\":{\"namespace\":\"n\",\"resourceVersion\":\"\"}}",
        "{\"metadata\":{\"namespace\":\"n\",\"resourceVersion\":1}}",
        "{\"metadata\":{\"namespace\":null,\"resourceVersion\":\"1\"}}",
        "{\"metadata\":{\"namespace\":\"n\\u0061\",\"resourceVersion\":\"1\"}}",
        "{\"metadata\":{\"n\\u0061mespace\":\"n\",\"resourceVersion\":\"1\"}}",
        "{\"m\\u0065tadata\":{\"namespace\":\"n\",\"resourceVersion\":\"1\"}}",
        "{\"Metadata\":{\"namespace\":\"n\",\"resourceVersion\":\"1\"}}",
    };
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        struct object_head h;
        if (object_head_read(slice_str(objects[i]), &h)) {
            fail_msg("something is said of %s", objects[i]);
        }
    }
}

/* However it is cut off: nothing is said, or what is right. */
static void test_cut_off(void **state)
{
    (void)state;
    for (size_t len = 0; len < strlen(POD); len++) {
        struct object_head h;
        char *copy = malloc(len + 1);
        assert_non_null(copy);
        memcpy(copy, POD, len);
        if (object_head_read(slice_of(copy, len), &h)) {
            assert_string_equal(h.ns, "demo");
            assert_true(slice_eq(h.version, SLICE("17")));
        }
        free(copy);
    }
}

static void test_bounds(void **state)
{
    (void)state;
    char ns[OBJECT_NAMESPACE_MAX + 2];
    char version[RESOURCE_VERSION_MAX + 2];
    char object[512];
    for (size_t more = 0; more < 2; more++) {
        for (size_t longer = 0; longer < 2; longer++) {
            struct object_head h;
            (void)snprintf(ns, sizeof ns, "%0*d", (int)(OBJECT_NAMESPACE_MAX + more), 7);
            (void)snprintf(version, sizeof version, "%0*d", (int)(RESOURCE_VERSION_MAX + longer),
                           7);
            (void)snprintf(object, sizeof object,
                           "{\"metadata\":{\"namespace\":\"%s\",\"resourceVersion\":\"%s\"}}", ns,
                           version);
            assert_int_equal(object_head_read(slice_str(object), &h), more + longer == 0);
        }
    }
}

static void test_events(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        bool said;
    } events[] = {
        {"{\"type\":\"ADDED\",\"object\":" POD "}", true},
        {"{\"type\":\"MODIFIED\",\"object\":" POD "}", true},
        {"{ \"type\" : \"DELETED\" , \"object\" : " POD "}", true},
        {"{\"type\":\"BOOKMARK\",\"object\":" POD "}", false},
        {"{\"type\":\"ERROR\",\"object\":" POD "}", false},
        {"{\"type\":\"added\",\"object\":" POD "}", false},
        {"{\"type\":\"\",\"object\":" POD "}", false},
        {"{\"type\":1,\"object\":" POD "}", false},
        {"{\"object\":" POD ",\"type\":\"ADDED\"}", false},
        {"{\"type\":\"ADDED\",\"thing\":" POD "}", false},
        {"{\"type\":\"ADDED\"}", false},
        {POD, false},
        {"", false},
    };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        struct object_head h;
        assert_int_equal(object_head_of_event(slice_str(events[i].line), &h), events[i].said);
        if (events[i].said) {
            assert_string_equal(h.ns, "demo");
            assert_true(slice_eq(h.version, SLICE("17")));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects), cmocka_unit_test(test_nothing_is_said),
        cmocka_unit_test(test_cut_off), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
