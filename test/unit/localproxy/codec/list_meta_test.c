/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "capture.h"
#include "codec/list_meta.h"
#include "random_json.h"

static const char json_type[] = "application/json";
static const char protobuf_type[] = "application/vnd.kubernetes.protobuf";

/* Feeds copies of exactly the piece's size; `piece` 0: random sizes. */
static struct list_meta_result learn(const char *type, const char *encoding, struct slice body,
                                     size_t piece)
{
    struct list_meta *m = list_meta_new(slice_str(type), slice_str(encoding));
    assert_non_null(m);
    for (size_t at = 0; at < body.len;) {
        size_t n = piece == 0 ? 1 + random_below(3000) : piece;
        n = n < body.len - at ? n : body.len - at;
        struct slice copy = exact_copy(slice_of(body.ptr + at, n));
        list_meta_feed(m, copy);
        free((void *)copy.ptr);
        at += n;
    }
    struct list_meta_result r = {.resource_version = 99, .token = 99};
    list_meta_end(m, &r);
    list_meta_free(m);
    return r;
}

static void assert_learns(const char *type, const char *encoding, struct slice body,
                          uint64_t version, const char *token)
{
    static const size_t pieces[] = {SIZE_MAX, 1, 2, 1000, 16384, 0};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct list_meta_result r = learn(type, encoding, body, pieces[i]);
        assert_int_equal(r.resource_version, version);
        assert_int_equal(r.token, token == NULL ? 0 : list_meta_hash(slice_str(token)));
    }
}

static void assert_learns_nothing(const char *type, const char *encoding, struct slice body)
{
    static const size_t pieces[] = {SIZE_MAX, 1, 1000};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct list_meta_result r = learn(type, encoding, body, pieces[i]);
        assert_int_equal(r.resource_version, 0);
        assert_int_equal(r.token, 0);
    }
}

static void test_captures(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t version;
        const char *token;
    } lists[] = {
        {"list_pods.json", 409,
         "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NDA5LCJzdGFydCI6InAtMFx1MDAwMCJ9"},
        {"list_pods.protobuf", 409,
         "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NDA5LCJzdGFydCI6InAtMFx1MDAwMCJ9"},
        {"list_widgets.json", 409,
         "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NDA5LCJzdGFydCI6InctMFx1MDAwMCJ9"},
        {"list_pods_all.json", 409, NULL},
        {"list_pods_all.protobuf", 409, NULL},
        {"list_widgets_all.json", 409, NULL},
        {"list_empty.json", 409, NULL},
        {"list_empty.protobuf", 409, NULL},
        {"list_widgets_empty.json", 409, NULL},
        {"list_widgets.table.json", 409, NULL},
        {"list_widgets.partial.json", 409, NULL},
        {"list_pods.partial.json", 409, NULL},
        {"list_pods.partial.protobuf", 409, NULL},
        {"list_configmaps.json.gz", 734, NULL},
        {"list_configmaps.protobuf.gz", 734, NULL},
        {"list_widgets.json.gz", 734,
         "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NzM0LCJzdGFydCI6ImItOThcdTAwMDAifQ"},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct buf b = capture_read(lists[i].name);
        bool protobuf = capture_encoding(lists[i].name) == ENCODING_PROTOBUF;
        bool gzip = strstr(lists[i].name, ".gz") != NULL;
        assert_learns(protobuf ? protobuf_type : json_type, gzip ? "gzip" : "", capture_slice(&b),
                      lists[i].version, lists[i].token);
        buf_reset(&b);
    }
}

/* Of a body that breaks off anything may be unknown, but nothing is wrong. */
static void test_broken_off(void **state)
{
    (void)state;
    static const char *const names[] = {"list_pods.json", "list_pods.protobuf",
                                        "list_widgets.json"};
    for (size_t i = 0; i < 3; i++) {
        struct buf b = capture_read(names[i]);
        bool protobuf = capture_encoding(names[i]) == ENCODING_PROTOBUF;
        for (size_t len = 0; len < b.len; len++) {
            struct list_meta_result r = learn(protobuf ? protobuf_type : json_type, "",
                                              slice_of((const char *)buf_data(&b), len), SIZE_MAX);
            assert_true(r.resource_version == 0 || r.resource_version == 409);
            assert_true((r.token != 0) == (r.resource_version != 0));
        }
        buf_reset(&b);
    }
}

/* ---- long lists ---- */

static void put_items(struct buf *b, size_t bytes)
{
    size_t until = b->len + bytes;
    put_text(b, "{}");
    for (unsigned i = 0; b->len < until; i++) {
        assert_int_equal(
            buf_printf(b,
                       ",{\"apiVersion\":\"example.com/v1\",\"data\":\"\\\"metadata\\\":{\\\"\","
                       "\"kind\":\"Widget\",\"metadata\":{\"name\":\"w-%u\","
                       "\"resourceVersion\":\"%u\",\"continue\":\"no\"}}",
                       i, i + 1),
            0);
    }
}

static struct buf long_list(size_t bytes, const char *end)
{
    struct buf b = BUF_INIT(1 << 20);
    put_text(&b, "{\"apiVersion\":\"example.com/v1\",\"items\":[");
    put_items(&b, bytes);
    put_text(&b, end);
    return b;
}

static void test_metadata_at_the_end(void **state)
{
    (void)state;
    static const char end[] = "],\"kind\":\"WidgetList\",\"metadata\":{\"continue\":\"abc\","
                              "\"remainingItemCount\":7,\"resourceVersion\":\"77\"}}\n";
    /* Around what is looked at first, and around what is kept. */
    for (size_t bytes = 16000; bytes < 17000; bytes += 7) {
        struct buf b = long_list(bytes, end);
        struct list_meta_result r = learn(json_type, "", capture_slice(&b), 0);
        assert_int_equal(r.resource_version, 77);
        assert_int_equal(r.token, list_meta_hash(SLICE("abc")));
        buf_reset(&b);
    }
    for (size_t bytes = 30000; bytes < 200000; bytes += 50000) {
        struct buf b = long_list(bytes, end);
        assert_learns(json_type, "", capture_slice(&b), 77, "abc");
        buf_reset(&b);
    }
    struct buf b =
        long_list(50000, "] , \"kind\" : \"WidgetList\",\r\n\t \"metadata\" : {\n \"continue\" "
                         ": \"abc\" , \"resourceVersion\" : \"77\" } , \"x\":[{}], "
                         "\"y\":true } \n ");
    assert_learns(json_type, "", capture_slice(&b), 77, "abc");
    buf_reset(&b);
}

static void test_long_token(void **state)
{
    (void)state;
    char token[8193];
    memset(token, 'A', 8192);
    token[8192] = '\0';
    char end[8400];
    (void)snprintf(
        end, sizeof end,
        "],\"kind\":\"WidgetList\",\"metadata\":{\"continue\":\"%s\",\"resourceVersion\":\"77\"}}",
        token);
    struct buf b = long_list(50000, end);
    assert_learns(json_type, "", capture_slice(&b), 77, token);
    buf_reset(&b);
    put_text(&b, "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":"
                 "\"77\",\"continue\":\"");
    put_text(&b, token);
    put_text(&b, "\"},\"items\":[");
    put_items(&b, 30000);
    put_text(&b, "]}");
    assert_learns(json_type, "", capture_slice(&b), 77, token);
    buf_reset(&b);
}

/* What is not certainly the list's own metadata is not taken. */
static void test_other_ends(void **state)
{
    (void)state;
    static const char *const ends[] = {
        "]}",
        "],\"kind\":\"WidgetList\"}",
        "],\"metadata\":7}",
        "],\"metadata\":{\"resourceVersion\":\"77\"",
        "],\"metadata\":{\"resourceVersion\":\"77\"}",
        "],\"metadata\":{\"resourceVersion\":\"77\"}}}",
        "],\"metadata\":{\"resourceVersion\":\"77\"}}x",
        "],\"metadata\":{\"resourceVersion\":\"77\"},",
        "],\"x\\\"metadata\":{\"resourceVersion\":\"77\"}}",
        "],\"x,\\\"metadata\":{\"resourceVersion\":\"77\"}}",
        "],\"x\":{\"metadata\":{\"resourceVersion\":\"77\"}}}",
        "],\"metadata\":{\"continue\":\"a\\u003c\",\"resourceVersion\":\"77\"}}",
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct buf b = long_list(40000, ends[i]);
        assert_learns_nothing(json_type, "", capture_slice(&b));
        buf_reset(&b);
    }
}

/* ---- what cannot be read ---- */

static void test_not_learnable(void **state)
{
    (void)state;
    struct slice list = SLICE("{\"metadata\":{\"resourceVersion\":\"7\"}}");
    assert_learns(json_type, "", list, 7, NULL);
    assert_learns(json_type, "Identity", list, 7, NULL);
    assert_learns_nothing(json_type, "br", list);
    assert_learns_nothing(json_type, "gzip", list);
    assert_learns_nothing("application/yaml", "", list);
    assert_learns_nothing("", "", list);
    assert_learns_nothing(protobuf_type, "", list);
    assert_learns_nothing(json_type, "", SLICE(""));
    assert_learns_nothing(json_type, "", SLICE("[]"));
    assert_learns_nothing(json_type, "", SLICE("null"));
    assert_learns_nothing(json_type, "",
                          SLICE("{\"items\":[{\"metadata\":{\"resourceVersion\":\"7\"}}]}"));
    assert_learns(json_type, "", SLICE("{\"metadata\":{}}"), 0, NULL);
    assert_learns(json_type, "",
                  SLICE("{\"metadata\":{\"resourceVersion\":\"x\",\"continue\":\"\"}}"), 0, NULL);
}

#define ENVELOPE "k8s\0\x0a\x0d\x0a\x02v1\x12\x07PodList"

static void test_odd_protobuf(void **state)
{
    (void)state;
    assert_learns(protobuf_type, "",
                  SLICE(ENVELOPE "\x12\x07\x0a\x05\x12\x01"
                                 "7\x20\x01"),
                  7, NULL);
    assert_learns(protobuf_type, "", SLICE(ENVELOPE "\x12\x02\x0a\x00"), 0, NULL);
    /* Fields that are not known: shardInfo (5), and one of a number. */
    assert_learns(protobuf_type, "",
                  SLICE(ENVELOPE "\x12\x09\x0a\x07\x2a\x02\x0a\x00\x12\x01"
                                 "7"),
                  7, NULL);
    assert_learns(protobuf_type, "",
                  SLICE(ENVELOPE "\x12\x07\x0a\x05\x12\x01"
                                 "7\x28\x01"),
                  7, NULL);
    static const struct slice odd[] = {
        /* Metadata with what it has not, items first, an object, an empty list. */
        {ENVELOPE "\x12\x07\x0a\x05\x12\x01"
                  "7\x22\x00",
         28},
        {ENVELOPE "\x12\x07\x12\x05\x12\x01"
                  "7\x20\x01",
         28},
        {"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x07\x0a\x05\x12\x01"
         "7\x20\x01",
         24},
        {ENVELOPE "\x12\x00", 21},
        /* Longer than the list, or than all. */
        {ENVELOPE "\x12\x04\x0a\x05\x12\x01"
                  "7\x20\x01",
         28},
        {ENVELOPE "\x12\xff\x01\x0a\xf0\x01\x12\x01"
                  "7\x20\x01",
         30},
        {ENVELOPE "\x12\x07\x0a\x05\x12\x7f"
                  "7\x20\x01",
         28},
        {ENVELOPE "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 29},
        {"k8s\0", 4},
        {"k8", 2},
        {"k9s\0\x0a", 5},
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        assert_learns_nothing(protobuf_type, "", odd[i]);
    }
}

static void test_broken_gzip(void **state)
{
    (void)state;
    struct buf b = capture_read("list_widgets.json.gz");
    /* Broken off, then with wrong bytes in the middle. */
    assert_learns_nothing(json_type, "gzip", slice_of((const char *)buf_data(&b), b.len - 100));
    memset(buf_data(&b) + b.len / 2, 0xff, 100);
    assert_learns_nothing(json_type, "gzip", capture_slice(&b));
    buf_reset(&b);
}

/* The sum and the length at the end are the client's to look at. */
static void test_wrong_sum(void **state)
{
    enum { TRAILER = 8 };
    (void)state;
    struct buf b = capture_read("list_widgets.json.gz");
    memset(buf_data(&b) + b.len - TRAILER, 0, TRAILER);
    assert_learns(json_type, "gzip", capture_slice(&b), 734,
                  "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NzM0LCJzdGFydCI6ImItOThcdTAwMDAifQ");
    buf_reset(&b);
}

/* Random values before and in the metadata, cut anywhere. */
static void test_random_lists(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 600; seed++) {
        random_state = seed * 40503;
        bool head = random_below(2) == 0;
        unsigned version = 1 + random_below(100000);
        struct buf b = BUF_INIT(1 << 22);
        put_text(&b, "{");
        if (!head) {
            put_text(&b, "\"items\":[");
            for (unsigned n = random_below(40); n > 0; n--) {
                put_random_value(&b, 0);
                put_text(&b, ",");
            }
            put_text(&b, "0],");
        }
        put_text(&b, "\"kind\":\"List\",\"metadata\":{");
        assert_int_equal(
            buf_printf(&b, "\"continue\":\"c%u\",\"resourceVersion\":\"%u\"}", version, version),
            0);
        if (head) {
            put_text(&b, ",\"items\":");
            put_random_value(&b, 0);
        }
        put_text(&b, "}");
        struct list_meta_result r = learn(json_type, "", capture_slice(&b), 0);
        char token[20];
        (void)snprintf(token, sizeof token, "c%u", version);
        assert_int_equal(r.resource_version, version);
        assert_int_equal(r.token, list_meta_hash(slice_str(token)));
        buf_reset(&b);
    }
}

static void test_hash(void **state)
{
    (void)state;
    /* The first 8 bytes of FIPS 180-4's example. */
    assert_int_equal(list_meta_hash(SLICE("abc")), 0xba7816bf8f01cfea);
    assert_int_not_equal(list_meta_hash(SLICE("abd")), list_meta_hash(SLICE("abc")));
    list_meta_free(NULL);
}

/* ---- objects beside it ---- */

static void on_object(void *data, struct slice ns)
{
    assert_int_equal(buf_printf(data, "%.*s\n", (int)ns.len, ns.ptr), 0);
}

struct counted {
    bool counts; /* from the beginning */
    bool still;  /* at the end */
    struct buf said;
    struct list_meta_result result;
};

static struct counted count(const char *type, const char *encoding, struct slice body, size_t piece)
{
    struct counted c = {.said = BUF_INIT(SIZE_MAX / 2)};
    struct list_meta *m =
        list_meta_new_counting(slice_str(type), slice_str(encoding), true, on_object, &c.said);
    assert_non_null(m);
    c.counts = list_meta_counts(m);
    for (size_t at = 0; at < body.len; at += piece) {
        size_t n = piece < body.len - at ? piece : body.len - at;
        struct slice copy = exact_copy(slice_of(body.ptr + at, n));
        list_meta_feed(m, copy);
        free((void *)copy.ptr);
    }
    list_meta_end(m, &c.result);
    c.still = list_meta_counts(m);
    list_meta_free(m);
    return c;
}

static size_t lines_of(struct buf *said)
{
    size_t lines = 0;
    for (const char *p = buf_cstr(said); (p = strchr(p, '\n')) != NULL; p++) {
        lines++;
    }
    return lines;
}

static void test_objects(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *encoding;
        size_t objects;
    } lists[] = {
        {"list_pods_all.json", "", 3},
        {"list_pods_all.protobuf", "identity", 3},
        {"list_widgets.table.json", "", 3},
        {"list_widgets_all.json", "", 3},
        {"list_widgets.json.gz", "gzip", 119},
        {"list_configmaps.json.gz", "gzip", 123},
        {"list_configmaps.protobuf.gz", "gzip", 123},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct buf b = capture_read(lists[i].name);
        struct slice body = capture_slice(&b);
        bool protobuf = capture_encoding(lists[i].name) == ENCODING_PROTOBUF;
        const char *type = protobuf ? protobuf_type : json_type;
        struct list_meta_result r = learn(type, lists[i].encoding, body, SIZE_MAX);
        static const size_t pieces[] = {1, 100, 5000, 1000000};
        for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++) {
            struct counted c = count(type, lists[i].encoding, body, pieces[k]);
            assert_true(c.counts && c.still);
            assert_int_equal(lines_of(&c.said), lists[i].objects);
            assert_memory_equal(buf_cstr(&c.said), "scan\n", 5);
            assert_int_equal(c.result.resource_version, r.resource_version);
            assert_int_equal(c.result.token, r.token);
            buf_reset(&c.said);
        }
        buf_reset(&b);
    }
}

static void test_objects_that_cannot_be_counted(void **state)
{
    (void)state;
    struct buf b = capture_read("list_pods_all.json");
    static const char *const not_read[][2] = {
        {"application/json", "br"}, {"application/cbor", ""}, {"", ""}};
    for (size_t i = 0; i < 3; i++) {
        struct counted c = count(not_read[i][0], not_read[i][1], capture_slice(&b), 1000);
        assert_false(c.counts || c.still);
        assert_int_equal(c.said.len, 0);
        buf_reset(&c.said);
    }
    buf_reset(&b);
    /* Broken in the middle, so that it cannot be inflated: what came before was told. */
    b = capture_read("list_configmaps.json.gz");
    memset((char *)(uintptr_t)buf_data(&b) + b.len * 7 / 16, 0xff, b.len / 4);
    struct counted c = count(json_type, "gzip", capture_slice(&b), 1000);
    assert_true(c.counts);
    assert_false(c.still);
    buf_reset(&c.said);
    buf_reset(&b);
}

/* ---- memory ---- */

static bool learn_without_memory(void *data)
{
    const struct slice *body = data;
    struct list_meta *m = list_meta_new(slice_str(json_type), SLICE(""));
    if (m == NULL) {
        return false;
    }
    struct list_meta_result r;
    list_meta_feed(m, slice_of(body->ptr, 100));
    list_meta_feed(m, slice_of(body->ptr + 100, body->len - 100));
    list_meta_end(m, &r);
    list_meta_free(m);
    return r.resource_version == 77;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    struct buf b = long_list(40000, "],\"metadata\":{\"resourceVersion\":\"77\"}}");
    struct slice body = capture_slice(&b);
    assert_int_equal(sweep_allocations(learn_without_memory, &body), 2);
    buf_reset(&b);
    /* What has all in its first piece needs nothing but itself. */
    b = capture_read("list_pods_all.json");
    struct list_meta *m = list_meta_new(slice_str(json_type), SLICE(""));
    struct list_meta_result r;
    sweep_left = 0;
    list_meta_feed(m, capture_slice(&b));
    list_meta_end(m, &r);
    sweep_left = -1;
    list_meta_free(m);
    assert_int_equal(r.resource_version, 409);
    buf_reset(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_captures),
        cmocka_unit_test(test_broken_off),
        cmocka_unit_test(test_metadata_at_the_end),
        cmocka_unit_test(test_long_token),
        cmocka_unit_test(test_other_ends),
        cmocka_unit_test(test_not_learnable),
        cmocka_unit_test(test_odd_protobuf),
        cmocka_unit_test(test_broken_gzip),
        cmocka_unit_test(test_wrong_sum),
        cmocka_unit_test(test_random_lists),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_objects_that_cannot_be_counted),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
