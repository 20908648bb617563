/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "capture.h"
#include "codec/watch_frame.h"
#include "random_json.h"

static struct watch_frame scan(enum encoding encoding, struct slice text)
{
    struct slice copy = exact_copy(text);
    struct watch_frame e;
    watch_frame_scan(encoding, copy, &e);
    free((void *)copy.ptr);
    return e;
}

static struct watch_frame scan_json(const char *text)
{
    return scan(ENCODING_JSON, slice_str(text));
}

/* ---- what a real server sends ---- */

struct expected {
    enum watch_frame_type type;
    uint64_t version;
};

static const struct expected of_pods[] = {{WATCH_FRAME_ADDED, 403},
                                          {WATCH_FRAME_MODIFIED, 413},
                                          {WATCH_FRAME_DELETED, 424},
                                          {WATCH_FRAME_BOOKMARK, 424},
                                          {WATCH_FRAME_UNKNOWN, 0}};
static const struct expected of_widgets[] = {{WATCH_FRAME_ADDED, 404},
                                             {WATCH_FRAME_MODIFIED, 420},
                                             {WATCH_FRAME_DELETED, 426},
                                             {WATCH_FRAME_UNKNOWN, 0}};

static void check_event(enum encoding encoding, struct slice event, const struct expected *x)
{
    struct watch_frame e = scan(encoding, event);
    assert_int_equal(e.type, x->type);
    assert_int_equal(e.resource_version, x->version);
    assert_false(e.initial_events_end);
    assert_int_equal(e.code, 0);
    /* Of an event that is cut off anything may be unknown, but nothing is wrong. */
    for (size_t len = 0; len < event.len; len += len < 700 ? 1 : 37) {
        e = scan(encoding, slice_of(event.ptr, len));
        assert_true(e.type == x->type || e.type == WATCH_FRAME_UNKNOWN);
        assert_true(e.resource_version == x->version || e.resource_version == 0);
    }
}

static void test_captures(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const struct expected *events;
    } captures[] = {
        {"watch_pods.json", of_pods},
        {"watch_pods.protobuf", of_pods},
        {"watch_pods.table.json", of_pods},
        {"watch_pods.partial.json", of_pods},
        {"watch_pods.partial.protobuf", of_pods},
        {"watch_widgets.json", of_widgets},
    };
    for (size_t i = 0; i < sizeof captures / sizeof *captures; i++) {
        struct buf b = capture_read(captures[i].name);
        enum encoding encoding = capture_encoding(captures[i].name);
        struct slice rest = capture_slice(&b);
        struct slice event;
        const struct expected *x = captures[i].events;
        for (; capture_next_event(encoding, &rest, &event); x++) {
            check_event(encoding, event, x);
        }
        assert_int_equal(x->type, WATCH_FRAME_UNKNOWN);
        buf_reset(&b);
    }
}

static void test_captured_expiry(void **state)
{
    (void)state;
    static const char *const names[] = {"watch_expired.json", "watch_expired.protobuf"};
    for (size_t i = 0; i < 2; i++) {
        struct buf b = capture_read(names[i]);
        enum encoding encoding = capture_encoding(names[i]);
        struct slice rest = capture_slice(&b);
        struct slice event;
        assert_true(capture_next_event(encoding, &rest, &event));
        struct watch_frame e = scan(encoding, event);
        assert_int_equal(e.type, WATCH_FRAME_ERROR);
        assert_int_equal(e.code, 410);
        assert_int_equal(e.resource_version, 0);
        buf_reset(&b);
    }
}

/* ---- JSON by hand ---- */

static void test_types(void **state)
{
    (void)state;
    for (enum watch_frame_type type = WATCH_FRAME_ADDED; type <= WATCH_FRAME_BOOKMARK; type++) {
        char text[200];
        (void)snprintf(text, sizeof text,
                       "{\"type\":\"%s\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\"}}}",
                       watch_frame_type_name(type));
        assert_int_equal(scan_json(text).type, type);
        assert_int_equal(scan_json(text).resource_version, 7);
    }
    assert_string_equal(watch_frame_type_name(WATCH_FRAME_UNKNOWN), "");
    static const char *const others[] = {
        "",
        "\n",
        "{}",
        "{\"type\":\"added\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\"}}}",
        "{\"type\":7,\"object\":{\"metadata\":{\"resourceVersion\":\"7\"}}}",
        "{\"object\":{\"metadata\":{\"resourceVersion\":\"7\"}}}",
        "[{\"type\":\"ADDED\"}]",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(scan_json(others[i]).type, WATCH_FRAME_UNKNOWN);
        assert_int_equal(scan_json(others[i]).resource_version, 0);
    }
    assert_int_equal(scan(ENCODING_OTHER, SLICE("{\"type\":\"ADDED\"}")).type, WATCH_FRAME_UNKNOWN);
    assert_int_equal(scan(ENCODING_PROTOBUF, SLICE("{\"type\":\"ADDED\"}")).type,
                     WATCH_FRAME_UNKNOWN);
}

/* ---- namespaces ---- */

static void check_namespace(enum encoding encoding, struct slice event, const char *expected)
{
    struct slice copy = exact_copy(event);
    struct watch_frame plain;
    struct watch_frame e;
    watch_frame_scan(encoding, copy, &plain);
    watch_frame_scan_namespace(encoding, copy, &e);
    assert_null(plain.namespace.ptr);
    assert_non_null(e.namespace.ptr);
    assert_int_equal(e.namespace.len, strlen(expected));
    assert_memory_equal(e.namespace.ptr, expected, e.namespace.len);
    /* All else is as without it. */
    assert_int_equal(e.type, plain.type);
    assert_int_equal(e.resource_version, plain.resource_version);
    assert_int_equal(e.initial_events_end, plain.initial_events_end);
    assert_int_equal(e.code, plain.code);
    free((void *)copy.ptr);
}

static void test_captured_namespaces(void **state)
{
    (void)state;
    static const char *const names[] = {
        "watch_pods.json",         "watch_pods.protobuf",         "watch_pods.table.json",
        "watch_pods.partial.json", "watch_pods.partial.protobuf", "watch_widgets.json",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct buf b = capture_read(names[i]);
        enum encoding encoding = capture_encoding(names[i]);
        struct slice rest = capture_slice(&b);
        struct slice event;
        unsigned objects = 0;
        while (capture_next_event(encoding, &rest, &event)) {
            struct watch_frame e = scan(encoding, event);
            bool bookmark = e.type == WATCH_FRAME_BOOKMARK;
            check_namespace(encoding, event, bookmark ? "" : "scan");
            objects += !bookmark;
        }
        assert_int_equal(objects, 3);
        buf_reset(&b);
    }
}

#define OF_OBJECT(object) "{\"type\":\"ADDED\",\"object\":" object "}\n"

static void test_namespaces(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *namespace;
    } cases[] = {
        {"", ""},
        {OF_OBJECT("{}"), ""},
        {OF_OBJECT("{\"metadata\":{\"resourceVersion\":\"1\"}}"), ""},
        {OF_OBJECT("{\"metadata\":{\"namespace\":\"a\",\"resourceVersion\":\"1\"}}"), "a"},
        {OF_OBJECT("{\"metadata\":{\"namespace\":7,\"resourceVersion\":\"1\"}}"), ""},
        {OF_OBJECT("{\"spec\":{\"namespace\":\"x\"},\"namespace\":\"x\",\"metadata\":{\"labels\":{"
                   "\"namespace\":\"x\"},\"name\":\"namespace\",\"resourceVersion\":\"1\"}}"),
         ""},
        {OF_OBJECT("{\"kind\":\"Table\",\"metadata\":{\"resourceVersion\":\"1\"},\"rows\":[{"
                   "\"cells\":[],\"object\":{\"metadata\":{\"namespace\":\"b\"}}},{\"object\":{"
                   "\"metadata\":{\"namespace\":\"x\"}}}]}"),
         "b"},
        {OF_OBJECT("{\"kind\":\"Table\",\"metadata\":{\"resourceVersion\":\"1\"},\"rows\":[]}"),
         ""},
        {"{\"type\":\"ERROR\",\"object\":{\"metadata\":{\"namespace\":\"x\"},\"code\":410}}", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_namespace(ENCODING_JSON, slice_str(cases[i].text), cases[i].namespace);
    }
}

static void test_versions(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t version;
    } cases[] = {
        {"\"1\"", 1},
        {"\"0\"", 0},
        {"\"18446744073709551615\"", UINT64_MAX},
        {"\"18446744073709551616\"", 0},
        {"\"99999999999999999999999\"", 0},
        {"\"\"", 0},
        {"\"-1\"", 0},
        {"\"+1\"", 0},
        {"\"12a\"", 0},
        {"\" 12\"", 0},
        {"\"1\\u0032\"", 0},
        {"12", 0},
        {"null", 0},
        {"{\"resourceVersion\":\"9\"}", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[300];
        (void)snprintf(text, sizeof text,
                       "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":%s}}}\n",
                       cases[i].text);
        assert_int_equal(scan_json(text).resource_version, cases[i].version);
    }
}

static void test_only_the_objects_own_version_counts(void **state)
{
    (void)state;
    static const char *const right[] = {
        "{\"type\":\"ADDED\",\"object\":{\"involvedObject\":{\"metadata\":{\"resourceVersion\":"
        "\"1\"},"
        "\"resourceVersion\":\"2\"},\"metadata\":{\"annotations\":{\"resourceVersion\":\"3\","
        "\"a\":\"\\\"},\\\"resourceVersion\\\":\\\"4\\\"\"},\"resourceVersion\":\"7\"}}}",
        "{\"object\":{\"metadata\":{\"resourceVersion\":\"7\"}},\"type\":\"ADDED\"}",
        "{\"metadata\":{\"resourceVersion\":\"1\"},\"type\":\"ADDED\",\"x\":{\"object\":{}},"
        "\"object\":{\"resourceVersion\":\"2\",\"metadata\":{\"resourceVersion\":\"7\"}}}",
        " { \"type\" : \"ADDED\" , \"object\" : { \"metadata\" : { \"resourceVersion\" : \"7\" } } "
        "} ",
        "{\"type\":\"ADDED\",\"object\":{\"rows\":[{\"object\":{\"metadata\":{\"resourceVersion\":"
        "\"1\"}}}],\"kind\":\"Timetable\",\"metadata\":{\"resourceVersion\":\"7\"}}}",
    };
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        assert_int_equal(scan_json(right[i]).type, WATCH_FRAME_ADDED);
        assert_int_equal(scan_json(right[i]).resource_version, 7);
    }
    assert_int_equal(
        scan_json("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"a\":{"
                  "\"resourceVersion\":\"7\"}},\"spec\":{\"resourceVersion\":\"8\"},"
                  "\"rows\":[{\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}]}}")
            .resource_version,
        0);
}

static void test_initial_events_end(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool end;
    } cases[] = {
        {"{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{"
         "\"resourceVersion\":\"7\",\"creationTimestamp\":null,\"annotations\":{"
         "\"k8s.io/initial-events-end\":\"true\"}},\"spec\":{\"containers\":null}}}",
         true},
        {"{\"type\":\"BOOKMARK\",\"object\":{\"apiVersion\":\"example.com/v1\",\"kind\":\"Widget\","
         "\"metadata\":{\"annotations\":{\"a\":\"b\",\"k8s.io/initial-events-end\":\"true\"},"
         "\"creationTimestamp\":null,\"resourceVersion\":\"7\"}}}",
         true},
        {"{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\","
         "\"metadata\":{\"resourceVersion\":\"7\"},\"columnDefinitions\":null,\"rows\":[{\"cells\":"
         "[\"\"],\"object\":{\"kind\":\"PartialObjectMetadata\",\"metadata\":{\"resourceVersion\":"
         "\"8\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}]}}",
         true},
        {"{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\","
         "\"annotations\":{\"k8s.io/initial-events-end\":\"false\"}}}}",
         false},
        {"{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\"},"
         "\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}",
         false},
        {"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"annotations\":{"
         "\"k8s.io/initial-events-end\":\"true\"},\"resourceVersion\":\"7\"}}}",
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(scan_json(cases[i].text).resource_version, 7);
        assert_int_equal(scan_json(cases[i].text).initial_events_end, cases[i].end);
    }
}

static void test_tables(void **state)
{
    (void)state;
    const char *of_row = "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Table\",\"metadata\":{},"
                         "\"columnDefinitions\":[{\"metadata\":{}}],\"rows\":[{\"cells\":[\"]\"],"
                         "\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"7\"}}},"
                         "{\"object\":{\"metadata\":{\"resourceVersion\":\"8\"}}}]}}";
    assert_int_equal(scan_json(of_row).resource_version, 7);
    static const char *const without[] = {
        "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Table\",\"metadata\":{},\"rows\":[]}}",
        "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Table\",\"metadata\":{},\"rows\":null}}",
        "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Table\",\"rows\":[{\"object\":null}]}}",
        ("{\"type\":\"ADDED\",\"object\":{\"kind\":\"Table\",\"rows\":[{\"cells\":[]},{\"object\":{"
         "\"metadata\":{\"resourceVersion\":\"8\"}}}]}}"),
    };
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        assert_int_equal(scan_json(without[i]).type, WATCH_FRAME_ADDED);
        assert_int_equal(scan_json(without[i]).resource_version, 0);
    }
}

static void test_codes(void **state)
{
    (void)state;
    static const struct {
        const char *object;
        unsigned code;
    } cases[] = {
        {"{\"kind\":\"Status\",\"metadata\":{},\"details\":{\"code\":1},\"code\":410}", 410},
        {"{\"code\": 500 ,\"kind\":\"Status\"}", 500},
        {"{\"code\":\"410\"}", 0},
        {"{\"code\":-1}", 0},
        {"{\"code\":4100}", 0},
        {"{}", 0},
        {"null", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[300];
        (void)snprintf(text, sizeof text, "{\"type\":\"ERROR\",\"object\":%s}", cases[i].object);
        assert_int_equal(scan_json(text).type, WATCH_FRAME_ERROR);
        assert_int_equal(scan_json(text).code, cases[i].code);
    }
}

/* ---- JSON against a parser ---- */

static void put_version(struct buf *b)
{
    static const char *const odd[] = {"\"\"", "5", "null", "\"1x\"", "{}"};
    if (random_below(8) == 0) {
        put_text(b, odd[random_below(5)]);
    } else if (buf_printf(b, "\"%u\"", random_below(1u << 20)) != 0) {
        abort();
    }
}

static void put_random_metadata(struct buf *b)
{
    unsigned before = random_below(4);
    put_text(b, "{");
    put_random_members(b, 0, before);
    put_text(b, before > 0 ? "," : "");
    put_text(b, "\"annotations\":{");
    if (random_below(3) == 0) {
        put_text(b, "\"k8s.io/initial-events-end\":\"true\"");
    } else {
        put_random_members(b, 1, random_below(4));
    }
    put_text(b, "}");
    if (random_below(8) != 0) {
        put_text(b, ",\"resourceVersion\":");
        put_version(b);
    }
    put_text(b, ",\"z\":");
    put_random_value(b, 0);
    put_text(b, "}");
}

static void put_random_object(struct buf *b)
{
    bool table = random_below(4) == 0;
    put_text(b, table ? "{\"kind\":\"Table\"," : "{");
    unsigned before = random_below(5);
    put_random_members(b, 0, before);
    put_text(b, before > 0 ? ",\"metadata\":" : "\"metadata\":");
    put_random_metadata(b);
    if (table) {
        put_text(b, ",\"rows\":[{\"cells\":");
        put_random_value(b, 0);
        put_text(b, ",\"object\":{\"metadata\":");
        put_random_metadata(b);
        put_text(b, "}},{}]");
    }
    put_text(b, ",\"z\":");
    put_random_value(b, 0);
    put_text(b, "}");
}

static const char *string_at(const cJSON *object, const char *key)
{
    const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return s == NULL ? "" : s;
}

static uint64_t plain_number(const char *s)
{
    return strspn(s, "0123456789") == strlen(s) ? strtoull(s, NULL, 10) : 0;
}

static struct watch_frame plain_scan(const char *text)
{
    struct watch_frame e = {0};
    cJSON *root = cJSON_Parse(text);
    assert_non_null(root);
    const char *name = string_at(root, "type");
    for (enum watch_frame_type type = WATCH_FRAME_ADDED; type <= WATCH_FRAME_ERROR; type++) {
        e.type = strcmp(name, watch_frame_type_name(type)) == 0 ? type : e.type;
    }
    const cJSON *object = cJSON_GetObjectItemCaseSensitive(root, "object");
    const cJSON *metas[2] = {cJSON_GetObjectItemCaseSensitive(object, "metadata"), NULL};
    if (strcmp(string_at(object, "kind"), "Table") == 0) {
        const cJSON *row = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(object, "rows"), 0);
        metas[1] = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(row, "object"),
                                                    "metadata");
    }
    for (int i = 0; i < 2 && e.type != WATCH_FRAME_ERROR && e.type != WATCH_FRAME_UNKNOWN; i++) {
        uint64_t version = plain_number(string_at(metas[i], "resourceVersion"));
        e.resource_version = e.resource_version != 0 ? e.resource_version : version;
        const cJSON *notes = cJSON_GetObjectItemCaseSensitive(metas[i], "annotations");
        e.initial_events_end = e.initial_events_end ||
                               (e.type == WATCH_FRAME_BOOKMARK &&
                                strcmp(string_at(notes, "k8s.io/initial-events-end"), "true") == 0);
    }
    cJSON_Delete(root);
    return e;
}

static void put_random_event(struct buf *b)
{
    static const char *const names[] = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "?"};
    bool object_first = random_below(8) == 0;
    const char *type = names[random_below(6)];
    put_text(b, "{");
    if (!object_first && buf_printf(b, "\"type\":\"%s\",", type) != 0) {
        abort();
    }
    put_blank(b);
    put_text(b, "\"object\":");
    put_random_object(b);
    if (object_first && buf_printf(b, ",\"type\":\"%s\"", type) != 0) {
        abort();
    }
    put_text(b, random_below(2) == 0 ? "}\n" : "}");
}

static void test_against_a_parser(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 5000; seed++) {
        random_state = seed * 2654435761u;
        struct buf b = BUF_INIT(1 << 22);
        put_random_event(&b);
        struct watch_frame e = scan(ENCODING_JSON, capture_slice(&b));
        struct watch_frame plain = plain_scan(buf_cstr(&b));
        if (e.type != plain.type || e.resource_version != plain.resource_version ||
            e.initial_events_end != plain.initial_events_end) {
            print_message("seed %u: %s\n", seed, buf_cstr(&b));
        }
        assert_int_equal(e.type, plain.type);
        assert_int_equal(e.resource_version, plain.resource_version);
        assert_int_equal(e.initial_events_end, plain.initial_events_end);
        buf_reset(&b);
    }
}

/* ---- protobuf by hand ---- */

/* A field of up to 127 bytes around what is in `b`. */
static void wrap(struct buf *b, unsigned field, struct slice before)
{
    struct buf out = BUF_INIT(4096);
    assert_int_equal(buf_append_char(&out, (char)(field << 3 | 2)), 0);
    size_t len = before.len + b->len;
    if (len >= 128) {
        assert_int_equal(buf_append_char(&out, (char)(len | 128)), 0);
    }
    assert_int_equal(buf_append_char(&out, (char)(len >= 128 ? len >> 7 : len)), 0);
    assert_int_equal(buf_append(&out, before.ptr, before.len), 0);
    assert_int_equal(buf_append(&out, buf_data(b), b->len), 0);
    buf_reset(b);
    *b = out;
}

/* {type, {"k8s\0" {{}, object, tail}}} */
static struct buf make_event(struct slice type, struct slice object, struct slice tail)
{
    struct buf b = BUF_INIT(4096);
    struct buf t = BUF_INIT(4096);
    assert_int_equal(buf_append(&b, object.ptr, object.len), 0);
    wrap(&b, 2, SLICE(""));
    assert_int_equal(buf_append(&b, tail.ptr, tail.len), 0);
    wrap(&b, 1, SLICE("k8s\0\x0a\0"));
    wrap(&b, 2, SLICE(""));
    wrap(&t, 1, type);
    assert_int_equal(buf_append(&t, buf_data(&b), b.len), 0);
    buf_reset(&b);
    return t;
}

static struct watch_frame scan_made(struct slice type, struct slice object, struct slice tail)
{
    struct buf b = make_event(type, object, tail);
    struct watch_frame e = scan(ENCODING_PROTOBUF, capture_slice(&b));
    buf_reset(&b);
    return e;
}

static void test_protobuf_metadata(void **state)
{
    (void)state;
    static const struct {
        struct slice object;
        uint64_t version;
    } cases[] = {
        {{"\x0a\x03\x32\x01"
          "7",
          5},
         7},
        {{"\x0a\x0a\x0a\x01"
          "a\x1a\x02"
          "ns\x32\x01"
          "7",
          12},
         7},
        /* Not the first field of the object, or of another type. */
        {{"\x12\x03\x32\x01"
          "7",
          5},
         0},
        {{"\x08\x07", 2}, 0},
        /* A field before it that ObjectMeta has not, has in another order or with another type. */
        {{"\x0a\x05\x08\x01\x32\x01"
          "7",
          7},
         0},
        {{"\x0a\x06\x3a\x01"
          "a\x32\x01"
          "7",
          8},
         0},
        {{"\x0a\x06\x42\x01"
          "a\x32\x01"
          "7",
          8},
         0},
        {{"\x0a\x09\x0a\x01"
          "a\x0a\x01"
          "a\x32\x01"
          "7",
          11},
         0},
        {{"\x0a\x06\x32\x01"
          "a\x32\x01"
          "7",
          8},
         0},
        {{"\x0a\x07\x9a\x06\x01"
          "a\x32\x01"
          "7",
          9},
         0},
        /* No number, no text. */
        {{"\x0a\x02\x30\x07", 4}, 0},
        {{"\x0a\x04\x32\x02"
          "7a",
          6},
         0},
        /* Lengths beyond the end. */
        {{"\x0a\x03\x32\x02"
          "7",
          5},
         0},
        {{"\x0a\x7f\x32\x01"
          "7",
          5},
         0},
        {{"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x32\x01"
          "7",
          14},
         0},
        {{"\x0a", 1}, 0},
        {{"", 0}, 0},
        /* A list: its metadata has the version elsewhere. */
        {{"\x0a\x05\x0a\x00\x12\x01"
          "7",
          7},
         0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct watch_frame e = scan_made(SLICE("ADDED"), cases[i].object, SLICE("\x1a\0\x22\0"));
        assert_int_equal(e.type, WATCH_FRAME_ADDED);
        assert_int_equal(e.resource_version, cases[i].version);
    }
}

static void test_protobuf_envelope(void **state)
{
    (void)state;
    const struct slice object = {"\x0a\x03\x32\x01"
                                 "7",
                                 5};
    assert_int_equal(scan_made(SLICE("ADDED"), object, SLICE("")).resource_version, 7);
    /* A number is no object. */
    assert_int_equal(scan_made(SLICE("ADDED"), object, SLICE("\x1a\0\x10\7")).resource_version, 7);
    /* An encoding or type of its own, or rubbish behind. */
    assert_int_equal(scan_made(SLICE("ADDED"), object, SLICE("\x1a\x01x")).resource_version, 0);
    assert_int_equal(scan_made(SLICE("ADDED"), object, SLICE("\x22\x01x")).resource_version, 0);
    assert_int_equal(scan_made(SLICE("ADDED"), object, SLICE("\x1a\x02x")).resource_version, 0);
    assert_int_equal(scan_made(SLICE("added"), object, SLICE("")).type, WATCH_FRAME_UNKNOWN);
    assert_int_equal(scan_made(SLICE("added"), object, SLICE("")).resource_version, 0);
    /* An event around which there is an envelope is none. */
    assert_int_equal(scan(ENCODING_PROTOBUF, SLICE("k8s\0\x0a\x05"
                                                   "ADDED"))
                         .type,
                     WATCH_FRAME_UNKNOWN);
    /* An object without the magic number. */
    struct watch_frame e =
        scan(ENCODING_PROTOBUF, SLICE("\x0a\x05"
                                      "ADDED\x12\x09\x0a\x07\x12\x05\x0a\x03\x32\x01"
                                      "7"));
    assert_int_equal(e.type, WATCH_FRAME_ADDED);
    assert_int_equal(e.resource_version, 0);
}

/* An object of version 7 with the annotation, before which its metadata has `between`. */
static struct buf make_initial_events_end(struct slice between)
{
    struct buf value = BUF_INIT(4096);
    struct buf b = BUF_INIT(4096);
    wrap(&value, 2, SLICE("true"));
    wrap(&b, 1, SLICE("k8s.io/initial-events-end"));
    assert_int_equal(buf_append(&b, buf_data(&value), value.len), 0);
    wrap(&b, 12, SLICE(""));
    wrap(&b, 1, between);
    buf_reset(&value);
    return b;
}

static void test_protobuf_initial_events_end(void **state)
{
    (void)state;
    static const struct {
        struct slice between; /* fields of ObjectMeta by their numbers */
        bool end;
    } cases[] = {
        {{"\x32\x01"
          "7\x38\x01\x62\x08\x0a\x01"
          "a\x12\x03"
          "bcd",
          15},
         true},
        {{"\x32\x01"
          "7\x38\x01\x42\0\x50\x1e\x5a\0\x5a\0",
          13},
         true},
        /* No metadata: twice what is there once, or of another type. */
        {{"\x32\x01"
          "7\x42\0\x42\0",
          7},
         false},
        {{"\x32\x01"
          "7\x50\x1e\x50\x1e",
          7},
         false},
        {{"\x32\x01"
          "7\x52\0",
          5},
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf b = make_initial_events_end(cases[i].between);
        struct watch_frame e = scan_made(SLICE("BOOKMARK"), capture_slice(&b), SLICE(""));
        assert_int_equal(e.type, WATCH_FRAME_BOOKMARK);
        assert_int_equal(e.resource_version, 7);
        assert_int_equal(e.initial_events_end, cases[i].end);
        e = scan_made(SLICE("ADDED"), capture_slice(&b), SLICE(""));
        assert_int_equal(e.resource_version, 7);
        assert_false(e.initial_events_end);
        buf_reset(&b);
    }
}

static void test_protobuf_codes(void **state)
{
    (void)state;
    assert_int_equal(scan_made(SLICE("ERROR"), SLICE("\x0a\0\x30\x9a\x03"), SLICE("")).code, 410);
    assert_int_equal(scan_made(SLICE("ERROR"), SLICE("\x0a\0\x30\xff\xff\x03"), SLICE("")).code, 0);
    assert_int_equal(scan_made(SLICE("ERROR"), SLICE("\x0a\0\x32\x01x"), SLICE("")).code, 0);
    assert_int_equal(scan_made(SLICE("ERROR"), SLICE(""), SLICE("")).code, 0);
}

/* One byte of a real event is another: nothing is read beyond its end. */
static void test_protobuf_with_wrong_bytes(void **state)
{
    (void)state;
    struct buf b = capture_read("watch_pods.partial.protobuf");
    struct slice rest = capture_slice(&b);
    struct slice event = {.ptr = NULL};
    assert_true(capture_next_event(ENCODING_PROTOBUF, &rest, &event));
    for (size_t i = 0; i < event.len; i++) {
        static const int wrong[] = {0, 1, 0x7f, 0x80, 0xff};
        for (int k = 0; k < 5; k++) {
            struct slice copy = exact_copy(event);
            struct watch_frame e;
            ((char *)copy.ptr)[i] = (char)wrong[k];
            watch_frame_scan(ENCODING_PROTOBUF, copy, &e);
            free((void *)copy.ptr);
        }
    }
    buf_reset(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_captures),
        cmocka_unit_test(test_captured_expiry),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_captured_namespaces),
        cmocka_unit_test(test_namespaces),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_only_the_objects_own_version_counts),
        cmocka_unit_test(test_initial_events_end),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_codes),
        cmocka_unit_test(test_against_a_parser),
        cmocka_unit_test(test_protobuf_metadata),
        cmocka_unit_test(test_protobuf_envelope),
        cmocka_unit_test(test_protobuf_initial_events_end),
        cmocka_unit_test(test_protobuf_codes),
        cmocka_unit_test(test_protobuf_with_wrong_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
