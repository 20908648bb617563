/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/watch_event.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_lines_however_they_arrive(void **state)
{
    (void)state;
    const char stream[] = "first\nsecond\n\n\nthird line\nrest";
    static const char *const expected[] = {"first", "second", "third line"};
    for (size_t piece = 1; piece <= sizeof stream; piece++) {
        struct watch_lines w;
        size_t found = 0;
        watch_lines_init(&w, 100);
        for (size_t at = 0; at < strlen(stream); at += piece) {
            size_t left = strlen(stream) - at;
            struct slice data = slice_of(stream + at, left < piece ? left : piece);
            struct slice line;
            int rc;
            while ((rc = watch_lines_next(&w, &data, &line)) == 1) {
                assert_true(found < 3);
                assert_true(slice_eq(line, slice_str(expected[found++])));
            }
            assert_int_equal(rc, 0);
            assert_int_equal(data.len, 0);
        }
        assert_int_equal(found, 3);
        assert_int_equal(watch_lines_pending(&w), 4);
        watch_lines_deinit(&w);
        assert_int_equal(watch_lines_pending(&w), 0);
    }
}

static int feed(struct watch_lines *w, const char *text)
{
    struct slice data = slice_str(text);
    struct slice line;
    int rc;
    while ((rc = watch_lines_next(w, &data, &line)) == 1) {
    }
    return rc;
}

static void test_lines_are_bounded(void **state)
{
    (void)state;
    struct watch_lines w;
    watch_lines_init(&w, 5);
    assert_int_equal(feed(&w, "12345\n12"), 0);
    assert_int_equal(feed(&w, "345"), 0);
    assert_int_equal(feed(&w, "6"), -EMSGSIZE);
    watch_lines_deinit(&w);
    assert_int_equal(feed(&w, "123456\n"), -EMSGSIZE);
    watch_lines_deinit(&w);
    assert_int_equal(feed(&w, "123"), 0);
    assert_int_equal(feed(&w, "456\n"), -EMSGSIZE);
    watch_lines_deinit(&w);
}

static void test_events(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        enum watch_event_type type;
        const char *version;
    } table[] = {
        {"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"}}"
         "}",
         WATCH_ADDED, "1"},
        {"{\"object\":{\"metadata\":{\"resourceVersion\":\"x "
         "y\",\"name\":\"a\"}},\"type\":\"MODIFIED\"}",
         WATCH_MODIFIED, "x y"},
        {" {\"type\" : "
         "\"DELETED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"3\"}}}\r",
         WATCH_DELETED, "3"},
        {"{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":"
         "\"4\"}}}",
         WATCH_BOOKMARK, "4"},
        {"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}", WATCH_ERROR, NULL},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct watch_event event;
        struct err e = ERR_INIT;
        assert_int_equal(watch_event_parse(slice_str(table[i].line), &event, &e), 0);
        assert_int_equal(event.type, table[i].type);
        assert_true(cJSON_IsObject(event.object));
        if (table[i].version != NULL) {
            assert_string_equal(event.version, table[i].version);
        } else {
            assert_null(event.version);
        }
        watch_event_deinit(&event);
    }
}

static void test_refuses_what_is_no_event(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "x",
        "{",
        "[]",
        "\"ADDED\"",
        "{}",
        "{\"type\":1,\"object\":{}}",
        "{\"type\":\"ADDED\"}",
        "{\"type\":\"ADDED\",\"object\":null}",
        "{\"type\":\"ADDED\",\"object\":[]}",
        "{\"type\":\"ADDED\",\"object\":{}}",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":\"x\"}}",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"1\"}}}",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"\",\"resourceVersion\":\"1\"}}}",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":1}}}",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"\"}}}",
        "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{}}}",
        "{\"type\":\"added\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"}}}",
        "{\"type\":\"SOON\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"}}}",
        "{\"type\":\"ERROR\",\"object\":7}",
        "{\"type\":\"ERROR\",\"object\":{}} {}",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct watch_event event;
        struct err e = ERR_INIT;
        assert_int_equal(watch_event_parse(slice_str(lines[i]), &event, &e), -EINVAL);
        assert_true(e.msg[0] != '\0');
    }
}

/* What a stranger may write into managedFields keeps no event from being read. */
static void test_objects_of_strangers(void **state)
{
    (void)state;
    enum { DEPTH = 1001 };
    static const char start[] = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\","
                                "\"resourceVersion\":\"1\",\"x\xff\":";
    char line[sizeof start + 2 * DEPTH + 3];
    struct watch_event event;
    (void)snprintf(line, sizeof line, "%s%0*d%0*d}}}", start, DEPTH, 0, DEPTH, 0);
    memset(line + strlen(start), '[', DEPTH);
    memset(line + strlen(start) + DEPTH, ']', DEPTH);
    assert_int_equal(watch_event_parse(slice_str(line), &event, NULL), 0);
    assert_string_equal(event.version, "1");
    assert_string_equal(object_name(event.object), "a");
    watch_event_deinit(&event);
}

static void test_versions_are_bounded(void **state)
{
    (void)state;
    char version[RESOURCE_VERSION_MAX + 2];
    char line[512];
    struct watch_event event;
    for (size_t len = RESOURCE_VERSION_MAX; len <= RESOURCE_VERSION_MAX + 1; len++) {
        memset(version, '9', len);
        version[len] = '\0';
        (void)snprintf(
            line, sizeof line,
            "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"%s\"}}}",
            version);
        int rc = watch_event_parse(slice_str(line), &event, NULL);
        assert_int_equal(rc, len <= RESOURCE_VERSION_MAX ? 0 : -EINVAL);
        if (rc == 0) {
            watch_event_deinit(&event);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_however_they_arrive),
        cmocka_unit_test(test_lines_are_bounded),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_refuses_what_is_no_event),
        cmocka_unit_test(test_objects_of_strangers),
        cmocka_unit_test(test_versions_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
