/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/event_body.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kube/name.h"
#include "json/json.h"

static const struct event_body full = {
    .name = "x.1",
    .about = {.api_version = "a/v1",
              .kind = "K",
              .namespace = "ns",
              .name = "x",
              .uid = "u",
              .version = "7"},
    .type = EVENT_WARNING,
    .reason = "Failed",
    .message = "it \"failed\"",
    .component = "c",
    .host = "h",
    .count = 3,
    .first = 1767225600,
    .last = 1767225700,
};

static void expect(cJSON *object, const char *text)
{
    struct buf out = BUF_INIT(4096);
    assert_non_null(object);
    assert_int_equal(json_canonical(object, &out), 0);
    assert_string_equal(buf_cstr(&out), text);
    buf_reset(&out);
    cJSON_Delete(object);
}

static void test_writes_events(void **state)
{
    (void)state;
    expect(event_body(&full, false),
           "{\"apiVersion\":\"v1\",\"count\":3,\"firstTimestamp\":\"2026-01-01T00:00:00Z\","
           "\"involvedObject\":{\"apiVersion\":\"a/v1\",\"kind\":\"K\",\"name\":\"x\","
           "\"namespace\":\"ns\",\"resourceVersion\":\"7\",\"uid\":\"u\"},\"kind\":\"Event\","
           "\"lastTimestamp\":\"2026-01-01T00:01:40Z\",\"message\":\"it \\\"failed\\\"\","
           "\"metadata\":{\"name\":\"x.1\",\"namespace\":\"ns\"},\"reason\":\"Failed\","
           "\"reportingComponent\":\"c\",\"reportingInstance\":\"h\",\"source\":{\"component\":"
           "\"c\",\"host\":\"h\"},\"type\":\"Warning\"}");
    const struct event_body least = {
        .name = "x.1",
        .about = {.kind = "Namespace", .name = "x"},
        .reason = "R",
        .message = "",
        .component = "c",
        .count = 1,
    };
    expect(event_body(&least, false),
           "{\"apiVersion\":\"v1\",\"count\":1,\"firstTimestamp\":\"1970-01-01T00:00:00Z\","
           "\"involvedObject\":{\"kind\":\"Namespace\",\"name\":\"x\"},\"kind\":\"Event\","
           "\"lastTimestamp\":\"1970-01-01T00:00:00Z\",\"metadata\":{\"name\":\"x.1\","
           "\"namespace\":\"default\"},\"reason\":\"R\",\"reportingComponent\":\"c\","
           "\"source\":{\"component\":\"c\"},\"type\":\"Normal\"}");
}

static void test_writes_repeats(void **state)
{
    (void)state;
    expect(event_body(&full, true), "{\"count\":3,\"lastTimestamp\":\"2026-01-01T00:01:40Z\","
                                    "\"message\":\"it \\\"failed\\\"\"}");
}

static void expect_name(const char *about, const char *expected)
{
    char name[EVENT_NAME_SIZE];
    event_body_name(about, 0x18845f0c2a3b4c5dULL, name);
    assert_string_equal(name, expected);
    assert_null(name_check_subdomain(slice_str(name)));
}

static void test_names(void **state)
{
    (void)state;
    expect_name("x", "x.18845f0c2a3b4c5d");
    expect_name("a.b--c", "a.b--c.18845f0c2a3b4c5d");
    char name[EVENT_NAME_SIZE];
    event_body_name("x", 1, name);
    assert_string_equal(name, "x.0000000000000001");
    char longest[254] = "";
    memset(longest, 'a', 253);
    event_body_name(longest, 1, name);
    assert_int_equal(strlen(name), 253);
    assert_null(name_check_subdomain(slice_str(name)));
    memcpy(&longest[233], ".--", 3); /* what is left must not end with these */
    event_body_name(longest, 1, name);
    assert_int_equal(strlen(name), 250);
    assert_null(name_check_subdomain(slice_str(name)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writes_events),
        cmocka_unit_test(test_writes_repeats),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
