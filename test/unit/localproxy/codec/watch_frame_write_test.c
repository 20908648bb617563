/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "capture.h"
#include "codec/list_items.h"
#include "codec/watch_frame.h"
#include "codec/watch_frame_write.h"

static void assert_content(const struct buf *b, struct slice expected)
{
    assert_int_equal(b->len, expected.len);
    assert_memory_equal(buf_data(b), expected.ptr, expected.len);
}

static void test_expired_json(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(4096);
    assert_int_equal(watch_frame_write_expired(ENCODING_JSON, "rules of \"a\" changed\n", &b), 0);
    assert_content(&b, SLICE("{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\","
                             "\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
                             "\"message\":\"cmesh: rules of \\\"a\\\" changed\\u000a\","
                             "\"reason\":\"Expired\",\"code\":410}}\n"));
    buf_reset(&b);
}

/* The bytes as kube-apiserver 1.20 sends them. */
static void test_expired_protobuf(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(4096);
    assert_int_equal(watch_frame_write_expired(ENCODING_PROTOBUF, "rules changed", &b), 0);
    assert_content(&b, SLICE("\x00\x00\x00\x50"
                             "\x0a\x05"
                             "ERROR"
                             "\x12\x47\x0a\x45k8s\x00"
                             "\x0a\x0c\x0a\x02v1\x12\x06Status"
                             "\x12\x2d\x0a\x00\x12\x07"
                             "Failure\x1a\x14"
                             "cmesh: rules changed\x22\x07"
                             "Expired\x30\x9a\x03\x1a\x00\x22\x00"));
    buf_reset(&b);
}

static void test_expired_takes_any_message(void **state)
{
    (void)state;
    char message[5000];
    memset(message, '\xff', sizeof message - 1);
    message[sizeof message - 1] = '\0';
    for (enum encoding encoding = ENCODING_JSON; encoding <= ENCODING_PROTOBUF; encoding++) {
        struct buf b = BUF_INIT(8192);
        assert_int_equal(buf_append_str(&b, "before"), 0);
        assert_int_equal(watch_frame_write_expired(encoding, message, &b), 0);
        assert_memory_equal(buf_data(&b), "before", 6);
        assert_null(memchr(buf_data(&b), 0xff, b.len));
        buf_reset(&b);
    }
}

static void test_expired_refused(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(100);
    assert_int_equal(buf_append_str(&b, "before"), 0);
    assert_int_equal(watch_frame_write_expired(ENCODING_OTHER, "x", &b), -ENOTSUP);
    for (b.max = 6; b.max < 70; b.max++) {
        assert_int_equal(watch_frame_write_expired(ENCODING_JSON, "x", &b), -ENOBUFS);
        assert_content(&b, SLICE("before"));
        assert_int_equal(watch_frame_write_expired(ENCODING_PROTOBUF, "x", &b), -ENOBUFS);
        assert_content(&b, SLICE("before"));
    }
    buf_reset(&b);
}

/* ---- items ---- */

/* All items of a captured list as ADDED events. */
static struct buf list_as_events(const char *name)
{
    enum encoding encoding = capture_encoding(name);
    struct buf list = capture_read(name);
    struct buf events = BUF_INIT(1 << 20);
    struct list_items *l = list_items_new(encoding);
    struct slice piece = capture_slice(&list);
    struct slice item;
    while (list_items_next(l, &piece, &item, NULL) > 0) {
        struct object_type type = list_items_type(l);
        assert_int_equal(watch_frame_write_item(encoding, WATCH_FRAME_ADDED, &type, item, &events),
                         0);
    }
    assert_int_equal(list_items_finish(l, NULL), 0);
    list_items_free(l);
    buf_reset(&list);
    return events;
}

/* The server sent the same objects as a list and as events: what is made of the list are the very
 * bytes of the events. */
static void test_items_as_the_server_writes_them(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        const char *watch;
    } captures[] = {
        {"list_pods_all.json", "watch_pods.json"},
        {"list_pods_all.protobuf", "watch_pods.protobuf"},
        {"list_pods.partial.json", "watch_pods.partial.json"},
        {"list_pods.partial.protobuf", "watch_pods.partial.protobuf"},
        {"list_widgets_all.json", "watch_widgets.json"},
    };
    for (size_t i = 0; i < sizeof captures / sizeof *captures; i++) {
        struct buf events = list_as_events(captures[i].list);
        struct buf watch = capture_read(captures[i].watch);
        enum encoding encoding = capture_encoding(captures[i].list);
        struct slice rest = capture_slice(&watch);
        struct slice added = {NULL, 0};
        struct slice frame = {NULL, 0};
        assert_true(capture_next_frame(encoding, &rest, &added)); /* the ADDED event */
        int same = 0;
        int count = 0;
        for (rest = capture_slice(&events); capture_next_frame(encoding, &rest, &frame); count++) {
            same += slice_eq(frame, added);
        }
        assert_int_equal(count, 3);
        assert_int_equal(same, 1);
        buf_reset(&events);
        buf_reset(&watch);
    }
}

static const struct object_type pod = {.kind = {"Pod", 3}, .api_version = {"v1", 2}};

static int write_added(enum encoding encoding, const char *api_version, const char *kind,
                       struct slice item, struct buf *out)
{
    struct object_type type = {.kind = slice_str(kind), .api_version = slice_str(api_version)};
    return watch_frame_write_item(encoding, WATCH_FRAME_ADDED, &type, item, out);
}

static int write_bookmark(enum encoding encoding, const char *api_version, const char *kind,
                          uint64_t version, struct buf *out)
{
    struct object_type type = {.kind = slice_str(kind), .api_version = slice_str(api_version)};
    return watch_frame_write_bookmark(encoding, &type, version, out);
}

static void assert_item(const char *item, const char *expected)
{
    struct buf b = BUF_INIT(4096);
    int rc = watch_frame_write_item(ENCODING_JSON, WATCH_FRAME_DELETED, &pod, slice_str(item), &b);
    assert_int_equal(rc, 0);
    assert_content(&b, slice_str(expected));
    buf_reset(&b);
}

static void test_items_json(void **state)
{
    (void)state;
    assert_item("{\"a\":1}", "{\"type\":\"DELETED\",\"object\":{\"kind\":\"Pod\","
                             "\"apiVersion\":\"v1\",\"a\":1}}\n");
    assert_item("{}",
                "{\"type\":\"DELETED\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}}\n");
    assert_item("{\"x\":{\"kind\":1},\"kind\":\"A\",\"apiVersion\":\"b/v1\"}",
                "{\"type\":\"DELETED\",\"object\":{\"x\":{\"kind\":1},\"kind\":\"A\","
                "\"apiVersion\":\"b/v1\"}}\n");
    assert_item("{\"a\":1,\"kind\":\"A\"}",
                "{\"type\":\"DELETED\",\"object\":{\"apiVersion\":\"v1\","
                "\"a\":1,\"kind\":\"A\"}}\n");
    assert_item("{\"apiVersion\":\"b/v1\"}",
                "{\"type\":\"DELETED\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"b/v1\"}}\n");
    /* An event is one line. */
    assert_item("{\n \"a\": \"\\n\",\r\n \"b\": [\n]\n}",
                "{\"type\":\"DELETED\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",  \"a\": "
                "\"\\n\",\r  \"b\": [ ] }}\n");
}

static void test_items_refused(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(60);
    const struct slice whole = SLICE("{\"kind\":\"A\",\"apiVersion\":\"v1\"}");
    assert_int_equal(buf_append_str(&b, "before"), 0);
    assert_int_equal(write_added(ENCODING_JSON, "v1", "", SLICE("{}"), &b), -EINVAL);
    assert_int_equal(write_added(ENCODING_JSON, "", "A", SLICE("{}"), &b), -EINVAL);
    assert_int_equal(write_added(ENCODING_JSON, "v1", "A", SLICE("[]"), &b), -EINVAL);
    assert_int_equal(write_added(ENCODING_JSON, "v1", "A", SLICE(""), &b), -EINVAL);
    assert_int_equal(write_added(ENCODING_PROTOBUF, "v1", "", SLICE("x"), &b), -EINVAL);
    assert_int_equal(write_added(ENCODING_PROTOBUF, "", "A", SLICE("x"), &b), -EINVAL);
    assert_int_equal(write_added(ENCODING_OTHER, "v1", "A", whole, &b), -ENOTSUP);
    assert_int_equal(write_added(ENCODING_JSON, "", "", whole, &b), -ENOBUFS);
    assert_content(&b, SLICE("before"));
    b.max = 100;
    assert_int_equal(write_added(ENCODING_JSON, "", "", whole, &b), 0);
    buf_reset(&b);
}

/* ---- bookmarks ---- */

static void test_bookmark_json(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(4096);
    assert_int_equal(write_bookmark(ENCODING_JSON, "v1", "ConfigMap", 425, &b), 0);
    assert_content(&b, SLICE("{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"ConfigMap\","
                             "\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"425\","
                             "\"creationTimestamp\":null}}}\n"));
    buf_reset(&b);
}

static void test_bookmark_protobuf(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(4096);
    assert_int_equal(write_bookmark(ENCODING_PROTOBUF, "v1", "Pod", 425, &b), 0);
    assert_content(&b, SLICE("\x00\x00\x00\x2a\x0a\x08"
                             "BOOKMARK\x12\x1e\x0a\x1ck8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod"
                             "\x12\x07\x0a\x05\x32\x03"
                             "425\x1a\x00\x22\x00"));
    buf_reset(&b);
}

static void test_bookmarks_are_read_back(void **state)
{
    (void)state;
    for (enum encoding encoding = ENCODING_JSON; encoding <= ENCODING_PROTOBUF; encoding++) {
        struct buf b = BUF_INIT(4096);
        int rc = write_bookmark(encoding, "example.com/v1", "Widget", UINT64_MAX, &b);
        assert_int_equal(rc, 0);
        struct slice rest = capture_slice(&b);
        struct slice event = {NULL, 0};
        struct watch_frame e;
        assert_true(capture_next_event(encoding, &rest, &event));
        watch_frame_scan(encoding, event, &e);
        assert_int_equal(e.type, WATCH_FRAME_BOOKMARK);
        assert_true(e.resource_version == UINT64_MAX);
        assert_int_equal(write_bookmark(encoding, "v1", "", 1, &b), -EINVAL);
        assert_int_equal(write_bookmark(encoding, "", "Pod", 1, &b), -EINVAL);
        buf_reset(&b);
    }
    struct buf b = BUF_INIT(4096);
    assert_int_equal(write_bookmark(ENCODING_OTHER, "v1", "Pod", 1, &b), -ENOTSUP);
    assert_int_equal(b.len, 0);
}

static bool write_without_memory(void *data)
{
    enum encoding encoding = *(enum encoding *)data;
    struct buf b = BUF_INIT(4096);
    int rc = watch_frame_write_expired(encoding, "rules changed", &b);
    rc = rc != 0 ? rc : write_bookmark(encoding, "v1", "Pod", 7, &b);
    assert_true(rc == 0 || rc == -ENOMEM);
    buf_reset(&b);
    return rc == 0;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    for (enum encoding encoding = ENCODING_JSON; encoding <= ENCODING_PROTOBUF; encoding++) {
        assert_true(sweep_allocations(write_without_memory, &encoding) > 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expired_json),
        cmocka_unit_test(test_expired_protobuf),
        cmocka_unit_test(test_expired_takes_any_message),
        cmocka_unit_test(test_expired_refused),
        cmocka_unit_test(test_items_as_the_server_writes_them),
        cmocka_unit_test(test_items_json),
        cmocka_unit_test(test_items_refused),
        cmocka_unit_test(test_bookmark_json),
        cmocka_unit_test(test_bookmark_protobuf),
        cmocka_unit_test(test_bookmarks_are_read_back),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
