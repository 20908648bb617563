/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/file.h"
#include "capture.h"
#include "temp_dir.h"
#include "upstream/watch_memory.h"
#include "watch/watch.h"

/* The operator's side, which remembers what it got. */
struct sink {
    struct http_exchange x;
    struct buf got;
    bool ended;
    int answer; /* of the next send */
};

static int sink_send(struct http_exchange *x, struct slice data)
{
    struct sink *s = (struct sink *)x;
    return s->answer != 0 ? s->answer : buf_append(&s->got, data.ptr, data.len);
}

static int sink_end(struct http_exchange *x)
{
    ((struct sink *)x)->ended = true;
    return 0;
}

static const struct http_exchange_ops sink_ops = {.send_body = sink_send, .send_end = sink_end};

struct fixture {
    struct sink sink;
    struct bucket_load *load; /* NULL: nothing is counted */
    const char *ns;           /* of the path; NULL: none */
    struct delivered_versions *points;
    struct watch *watch;
    struct delivered_key key;
};

static void open_any_watch(struct fixture *f, enum encoding encoding, uint64_t version,
                           bool initial, struct byte_budget *budget)
{
    f->sink = (struct sink){.x = {.ops = &sink_ops}, .got = BUF_INIT((size_t)64 * 1024 * 1024)};
    f->points = delivered_new(0);
    assert_non_null(f->points);
    f->key = (struct delivered_key){.resource = 1, .view = 2, .selector = 3};
    /* The resource is known, and another selector saw all up to 1,000,000. */
    struct delivered_key other = {.resource = 1, .view = 9, .selector = 4};
    delivered_started(f->points, other.resource, 1);
    delivered_give(f->points, &other, (struct delivered_range){1000000, 1000000});
    struct watch_options o = {
        .encoding = encoding,
        .points = f->points,
        .account = delivered_account_open(f->points, &f->key, initial ? 0 : version),
        .version = version,
        .initial_events = initial,
        .budget = budget,
        .load = f->load,
        .namespace = slice_str(f->ns),
    };
    f->watch = watch_new(&o);
    assert_non_null(f->watch);
}

static void open_watch(struct fixture *f, enum encoding encoding, uint64_t version, bool initial)
{
    open_any_watch(f, encoding, version, initial, NULL);
}

static void open_watch_within(struct fixture *f, enum encoding encoding, uint64_t version,
                              struct byte_budget *budget)
{
    open_any_watch(f, encoding, version, false, budget);
}

static void close_watch(struct fixture *f)
{
    watch_free(f->watch, 1);
    delivered_free(f->points);
    buf_reset(&f->sink.got);
}

static void feed(struct fixture *f, struct slice data)
{
    assert_int_equal(watch_feed(f->watch, data, &f->sink.x), 0);
}

static void assert_got(struct fixture *f, const char *expected)
{
    assert_int_equal(f->sink.got.len, strlen(expected));
    if (f->sink.got.len > 0) {
        assert_memory_equal(buf_data(&f->sink.got), expected, f->sink.got.len);
    }
}

#define EVENT(version)                                                                             \
    "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"" version "\"}}}\n"

static void test_only_whole_events_pass(void **state)
{
    (void)state;
    struct fixture f = {.load = NULL};
    open_watch(&f, ENCODING_JSON, 5, false);
    feed(&f, SLICE(EVENT("6") "{\"type\":"));
    assert_got(&f, EVENT("6"));
    assert_true(watch_at_boundary(f.watch));
    feed(&f, SLICE("\"ADDED\",\"object\":{}}"));
    assert_got(&f, EVENT("6"));
    feed(&f, SLICE("\n" EVENT("7")));
    assert_got(&f, EVENT("6") "{\"type\":\"ADDED\",\"object\":{}}\n" EVENT("7"));
    close_watch(&f);
}

static void test_a_silenced_watch_lets_nothing_through_and_is_cut(void **state)
{
    (void)state;
    struct fixture f = {.load = NULL};
    open_watch(&f, ENCODING_JSON, 5, false);
    feed(&f, SLICE(EVENT("6") "{\"type\":"));
    watch_silence(f.watch);
    assert_int_equal(watch_state(f.watch), WATCH_SILENT);
    feed(&f, SLICE("\"ADDED\"}\n" EVENT("7")));
    assert_got(&f, EVENT("6"));
    assert_int_equal(watch_cut(f.watch, "why", &f.sink.x), 0);
    assert_int_equal(watch_state(f.watch), WATCH_CUT);
    assert_true(f.sink.ended);
    buf_consume(&f.sink.got, strlen(EVENT("6")));
    const char *text = buf_cstr(&f.sink.got);
    assert_non_null(strstr(text, "\"type\":\"ERROR\""));
    assert_non_null(strstr(text, "\"reason\":\"Expired\""));
    assert_ptr_equal(strchr(text, '\n'), text + f.sink.got.len - 1);
    close_watch(&f);
}

/* Versions up to the ceiling may be gone on from only if this watch gave them out. */
static void test_the_end_of_a_watch_is_a_point_to_go_on_from(void **state)
{
    (void)state;
    static const uint64_t good[] = {5, 6, 8, 9};
    for (size_t i = 0; i < 4; i++) {
        struct fixture f = {.load = NULL};
        open_watch(&f, ENCODING_JSON, 5, false);
        feed(&f, SLICE(EVENT("6") EVENT("9")));
        watch_free(f.watch, 1);
        f.watch = NULL;
        assert_false(delivered_watch(f.points, &f.key, 10));
        assert_false(delivered_watch(f.points, &f.key, 4));
        assert_true(delivered_watch(f.points, &f.key, good[i]));
        close_watch(&f);
    }
}

static void test_a_watch_that_was_cut_is_none(void **state)
{
    (void)state;
    struct fixture f = {.load = NULL};
    open_watch(&f, ENCODING_JSON, 5, false);
    feed(&f, SLICE(EVENT("6")));
    watch_silence(f.watch);
    assert_int_equal(watch_cut(f.watch, "why", &f.sink.x), 0);
    watch_free(f.watch, 1);
    f.watch = NULL;
    assert_false(delivered_watch(f.points, &f.key, 6));
    close_watch(&f);
}

/* Silenced and then left by its client: what it had was seen under the old selector. */
static void test_a_silenced_watch_that_was_not_cut_leaves_a_stale_point(void **state)
{
    (void)state;
    struct fixture f = {.load = NULL};
    open_watch(&f, ENCODING_JSON, 5, false);
    feed(&f, SLICE(EVENT("6")));
    watch_silence(f.watch);
    watch_free(f.watch, 1);
    f.watch = NULL;
    struct delivered_key now = f.key;
    now.selector = 7;
    delivered_give(f.points, &now, (struct delivered_range){6, 6});
    assert_false(delivered_watch(f.points, &now, 6)); /* whose 6 this is cannot be told */
    close_watch(&f);
}

static void test_initial_events_are_no_points_until_they_ended(void **state)
{
    (void)state;
    struct fixture f = {.load = NULL};
    open_watch(&f, ENCODING_JSON, 0, true);
    feed(&f, SLICE(EVENT("6")));
    watch_free(f.watch, 1);
    f.watch = NULL;
    assert_false(delivered_watch(f.points, &f.key, 6));
    close_watch(&f);

    open_watch(&f, ENCODING_JSON, 0, true);
    feed(&f,
         SLICE(EVENT("6") "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":"
                          "\"40\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n"));
    watch_free(f.watch, 1);
    f.watch = NULL;
    assert_false(delivered_watch(f.points, &f.key, 6));
    assert_true(delivered_watch(f.points, &f.key, 40));
    close_watch(&f);
}

/* Between what was shown before and what came after, a client may have read any part of the events
 * of its migration. */
static void test_a_watch_that_migrated_goes_on_only_from_what_came_after(void **state)
{
    (void)state;
    static const struct {
        uint64_t version;
        bool good;
    } rows[] = {{3, false}, {5, false}, {6, false}, {7, true}, {8, true}, {9, false}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct fixture f = {.load = NULL};
        open_watch(&f, ENCODING_JSON, 5, false);
        feed(&f, SLICE(EVENT("6")));
        watch_silence(f.watch);
        feed(&f, SLICE(EVENT("7")));
        assert_int_equal(watch_version(f.watch), 6);
        struct delivered_key now = f.key;
        now.selector = 7;
        watch_migrated(f.watch, &now, 3);
        assert_int_equal(watch_state(f.watch), WATCH_PASSING);
        feed(&f, SLICE(EVENT("7") EVENT("8")));
        assert_got(&f, EVENT("6") EVENT("7") EVENT("8"));
        watch_free(f.watch, 1);
        f.watch = NULL;
        /* Another client lists at the same version: whose it is cannot be told. */
        delivered_give(f.points, &now, (struct delivered_range){6, 6});
        assert_int_equal(delivered_watch(f.points, &now, rows[i].version), rows[i].good);
        close_watch(&f);
    }
}

/* The client may have read a bookmark of the later version, or objects as new as that. */
static void test_a_later_version_at_which_it_stands(void **state)
{
    (void)state;
    static const struct {
        uint64_t version;
        bool good;
    } rows[] = {{5, false}, {6, false}, {7, false}, {40, false}, {41, true}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct fixture f = {.load = NULL};
        open_watch(&f, ENCODING_JSON, 5, false);
        feed(&f, SLICE(EVENT("6")));
        watch_silence(f.watch);
        watch_stands(f.watch, 40);
        assert_int_equal(watch_version(f.watch), 40);
        struct delivered_key now = f.key;
        now.selector = 7;
        watch_migrated(f.watch, &now, 38);
        feed(&f, SLICE(EVENT("41")));
        assert_got(&f, EVENT("6") EVENT("41"));
        watch_free(f.watch, 1);
        f.watch = NULL;
        assert_int_equal(delivered_watch(f.points, &now, rows[i].version), rows[i].good);
        close_watch(&f);
    }
}

/* The events of a migration are as old as their objects: a client may have read any of them. */
static void test_versions_down_to_the_oldest_object_written_are_no_points(void **state)
{
    (void)state;
    for (uint64_t version = 2; version <= 4; version++) {
        struct fixture f = {.load = NULL};
        open_watch(&f, ENCODING_JSON, 5, false);
        watch_silence(f.watch);
        struct delivered_key now = f.key;
        now.selector = 7;
        watch_migrated(f.watch, &now, 3);
        watch_free(f.watch, 1);
        f.watch = NULL;
        delivered_give(f.points, &now, (struct delivered_range){version, version});
        assert_int_equal(delivered_watch(f.points, &now, version), version < 3);
        close_watch(&f);
    }
}

static void test_an_unread_version_is_of_no_matter_after_a_migration(void **state)
{
    (void)state;
    struct fixture f = {.load = NULL};
    open_watch(&f, ENCODING_JSON, 5, false);
    feed(&f, SLICE(EVENT("x")));
    feed(&f,
         SLICE("{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}\n"));
    watch_silence(f.watch);
    struct delivered_key now = f.key;
    now.selector = 7;
    watch_migrated(f.watch, &now, 0);
    feed(&f, SLICE(EVENT("10")));
    watch_free(f.watch, 1);
    f.watch = NULL;
    assert_false(delivered_watch(f.points, &now, 8));
    assert_false(delivered_watch(f.points, &now, 500)); /* not any version is the client's */
    assert_true(delivered_watch(f.points, &now, 10));
    close_watch(&f);
}

/* Also before the new watch has told anything. */
static void test_a_migration_delivers_the_version_at_which_it_stands(void **state)
{
    (void)state;
    struct fixture f = {.key = {.resource = 1, .view = 2, .selector = 3}};
    f.points = delivered_new(0);
    assert_non_null(f.points);
    delivered_newest(f.points, &f.key, 5);
    struct watch_options o = {.points = f.points, .version = 5};
    o.account = delivered_account_open(f.points, &f.key, 5);
    assert_non_null(o.account);
    o.encoding = ENCODING_JSON;
    f.watch = watch_new(&o);
    assert_non_null(f.watch);
    watch_silence(f.watch);
    watch_stands(f.watch, 40);
    f.key.selector = 7;
    watch_migrated(f.watch, &f.key, 0);
    struct delivered_key other = {.resource = 1, .view = 9, .selector = 8};
    assert_false(delivered_watch(f.points, &other, 40));
    assert_true(delivered_watch(f.points, &other, 41));
    close_watch(&f);
}

/* What the next process finds if this one is killed now. */
static struct delivered_versions *open_copy(const char *path, const char *copy)
{
    struct buf content = BUF_INIT((size_t)4 * 1024 * 1024);
    struct err e = ERR_INIT;
    assert_int_equal(file_read(path, &content, &e), 0);
    assert_int_equal(file_write_atomic(copy, buf_data(&content), content.len, 0600, &e), 0);
    buf_reset(&content);
    struct delivered_versions *r = delivered_open(copy, "home", 0, &e);
    assert_non_null(r);
    return r;
}

/* Events of a migration may have been written: its client goes on from nowhere. */
static void test_a_crash_while_it_is_silenced_leaves_no_point(void **state)
{
    (void)state;
    for (int silenced = 0; silenced < 2; silenced++) {
        struct fixture f = {.key = {.resource = 1, .view = 2, .selector = 3}};
        struct temp_dir dir;
        char path[256];
        char copy[256];
        struct err e = ERR_INIT;
        temp_dir_init(&dir);
        (void)temp_dir_path(&dir, "state", path);
        (void)temp_dir_path(&dir, "copy", copy);
        f.points = delivered_open(path, "home", 0, &e);
        assert_non_null(f.points);
        struct watch_options o = {.points = f.points, .version = 5};
        o.account = delivered_account_open(f.points, &f.key, 5);
        assert_non_null(o.account);
        o.encoding = ENCODING_JSON;
        f.watch = watch_new(&o);
        assert_non_null(f.watch);
        if (silenced) {
            watch_silence(f.watch);
        }
        struct delivered_versions *next = open_copy(path, copy);
        assert_int_equal(delivered_watch(next, &f.key, 5), !silenced);
        delivered_free(next);
        close_watch(&f);
        temp_dir_deinit(&dir);
    }
}

static void test_the_version_is_known_from_the_start_or_a_bookmark(void **state)
{
    (void)state;
    struct fixture f = {.load = NULL};
    open_watch(&f, ENCODING_JSON, 0, false);
    feed(&f, SLICE(EVENT("6")));
    assert_int_equal(watch_version(f.watch), 0); /* an old object perhaps */
    feed(&f,
         SLICE("{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}\n"));
    assert_int_equal(watch_version(f.watch), 9);
    feed(&f, SLICE(EVENT("10") EVENT("x")));
    assert_int_equal(watch_version(f.watch), 0);
    close_watch(&f);
}

/* A frame of `len` bytes that holds no event. */
static struct slice frame(char *memory, size_t len)
{
    memory[0] = (char)(len >> 24);
    memory[1] = (char)(len >> 16);
    memory[2] = (char)(len >> 8);
    memory[3] = (char)len;
    memset(memory + 4, 'x', len);
    return slice_of(memory, len + 4);
}

static void test_an_event_too_large_to_hold_is_finished(void **state)
{
    (void)state;
    enum { SIZE = 3 * 1024 * 1024 };
    struct fixture f = {.load = NULL};
    char *memory = malloc(SIZE + 4);
    assert_non_null(memory);
    struct slice whole = frame(memory, SIZE);
    open_watch(&f, ENCODING_PROTOBUF, 5, false);
    feed(&f, slice_of(whole.ptr, SIZE / 2));
    assert_int_equal(f.sink.got.len, SIZE / 2); /* over WATCH_HELD_MAX: passed on */
    assert_false(watch_at_boundary(f.watch));
    watch_silence(f.watch);
    assert_int_equal(watch_state(f.watch), WATCH_LAST);
    feed(&f, slice_of(whole.ptr + SIZE / 2, whole.len - SIZE / 2));
    assert_int_equal(watch_state(f.watch), WATCH_SILENT);
    feed(&f, SLICE("\0\0\0\1x"));
    assert_int_equal(f.sink.got.len, whole.len);
    assert_memory_equal(buf_data(&f.sink.got), memory, whole.len);
    assert_int_equal(watch_cut(f.watch, "why", &f.sink.x), 0);
    close_watch(&f);
    free(memory);
}

/* What cannot be held because others hold too much is not lost. */
static void test_an_event_for_which_there_is_no_room_is_passed_on(void **state)
{
    (void)state;
    struct fixture f = {.load = NULL};
    struct byte_share others;
    static char begun[20000] = "{\"type\":\"MODIFIED\",";
    static struct byte_budget budget = {.max = WATCH_MEMORY_MAX};
    memset(begun + strlen(begun), ' ', sizeof begun - strlen(begun));
    byte_share_init(&others, &budget);
    open_watch_within(&f, ENCODING_JSON, 5, &budget);
    feed(&f, SLICE(EVENT("6")));
    size_t before = f.sink.got.len;
    feed(&f, slice_of(begun, sizeof begun));
    assert_int_equal(f.sink.got.len, before); /* held */
    assert_in_range(budget.used, sizeof begun, 2 * sizeof begun);
    byte_share_force(&others, WATCH_MEMORY_EVENTS);
    feed(&f, slice_of(begun + 5000, 15000));
    assert_int_equal(f.sink.got.len, before + sizeof begun + 15000);
    assert_int_equal(budget.used, WATCH_MEMORY_EVENTS);
    assert_false(watch_at_boundary(f.watch));
    assert_int_equal(watch_version(f.watch), 0); /* it was not read */
    feed(&f, SLICE("}\n"));
    assert_true(watch_at_boundary(f.watch));
    assert_int_equal(f.sink.got.len, before + sizeof begun + 15002);
    close_watch(&f);
    assert_int_equal(budget.used, WATCH_MEMORY_EVENTS);
}

static void test_what_is_no_known_encoding_passes_and_cannot_be_cut(void **state)
{
    (void)state;
    struct fixture f = {.load = NULL};
    open_watch(&f, ENCODING_OTHER, 5, false);
    feed(&f, SLICE("half an ev"));
    assert_got(&f, "half an ev");
    assert_false(watch_at_boundary(f.watch));
    watch_silence(f.watch);
    feed(&f, SLICE("ent"));
    assert_got(&f, "half an ev");
    assert_int_equal(watch_cut(f.watch, "why", &f.sink.x), -ENOTSUP);
    assert_false(f.sink.ended);
    close_watch(&f);
}

/* Whatever the pieces, what passes is the same, and never more than whole events. */
static void test_any_split_passes_the_same(void **state)
{
    (void)state;
    srand(11);
    for (int round = 0; round < 200; round++) {
        struct fixture f = {.load = NULL};
        char stream[8192];
        size_t len = 0;
        open_watch(&f, round % 2 == 0 ? ENCODING_PROTOBUF : ENCODING_JSON, 5, false);
        while (len < 7000) {
            size_t n = (size_t)(rand() % 700);
            if (round % 2 == 0) {
                len += frame(stream + len, n).len;
            } else {
                memset(stream + len, 'y', n);
                stream[len + n] = '\n';
                len += n + 1;
            }
        }
        for (size_t at = 0; at < len;) {
            size_t step = 1 + (size_t)rand() % 2000;
            step = step > len - at ? len - at : step;
            feed(&f, slice_of(stream + at, step));
            at += step;
            assert_true(f.sink.got.len <= at);
        }
        assert_int_equal(f.sink.got.len, len);
        assert_memory_equal(buf_data(&f.sink.got), stream, len);
        close_watch(&f);
    }
}

static void test_an_operator_that_takes_no_more_is_told(void **state)
{
    (void)state;
    struct fixture f = {.load = NULL};
    open_watch(&f, ENCODING_JSON, 5, false);
    f.sink.answer = -ENOBUFS;
    assert_int_equal(watch_feed(f.watch, SLICE(EVENT("6")), &f.sink.x), -ENOBUFS);
    watch_silence(f.watch);
    assert_int_equal(watch_cut(f.watch, "why", &f.sink.x), -ENOBUFS);
    assert_int_equal(watch_state(f.watch), WATCH_SILENT);
    close_watch(&f);
}

/* ---- what is counted ---- */

#define OF(type, namespace)                                                                        \
    "{\"type\":\"" type                                                                            \
    "\",\"object\":{\"metadata\":{\"name\":\"n\",\"namespace\":\"" namespace "\","                 \
                                                                             "\"resourceVersion\"" \
                                                                             ":\"6\"}}}\n"

static uint64_t all_events(const struct bucket_load *l)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < ARRAY_LEN(l->counts.of); i++) {
        sum += l->counts.of[i].events;
        assert_int_equal(l->counts.of[i].requests, 0);
        assert_int_equal(l->counts.of[i].objects, 0);
    }
    return sum;
}

static uint64_t events_of(const struct bucket_load *l, const char *ns)
{
    return l->counts.of[bucket_load_place(slice_str(ns))].events;
}

static const char counted_events[] =
    OF("ADDED", "ns-a") OF("MODIFIED", "ns-b") OF("DELETED", "ns-a")
        OF("BOOKMARK",
           "ns-a") "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"6\"}}}\n"
                   "{\"type\":\"ERROR\",\"object\":{\"metadata\":{\"namespace\":\"ns-a\"},\"code\":"
                   "410}}\n"
                   "nonsense\n";

/* Wherever the pieces end. */
static void test_events_are_counted(void **state)
{
    (void)state;
    struct slice all = slice_str(counted_events);
    for (size_t piece = 1; piece <= all.len; piece += piece < 200 ? 1 : 97) {
        struct bucket_load load;
        struct fixture f = {.load = &load};
        bucket_load_init(&load, &net_clock_system);
        open_watch(&f, ENCODING_JSON, 5, false);
        for (size_t at = 0; at < all.len; at += piece) {
            feed(&f, slice_of(all.ptr + at, piece < all.len - at ? piece : all.len - at));
        }
        assert_int_equal(events_of(&load, "ns-a"), 2);
        assert_int_equal(events_of(&load, "ns-b"), 1);
        assert_int_equal(load.counts.of[CONTROL_LOAD_OTHERS].events, 1);
        assert_int_equal(all_events(&load), 4);
        close_watch(&f);
    }
}

static void test_events_of_one_namespace(void **state)
{
    (void)state;
    struct bucket_load load;
    struct fixture f = {.load = &load, .ns = "ns-c"};
    bucket_load_init(&load, &net_clock_system);
    open_watch(&f, ENCODING_JSON, 5, false);
    feed(&f, slice_str(counted_events));
    assert_int_equal(events_of(&load, "ns-c"), 4);
    assert_int_equal(all_events(&load), 4);
    close_watch(&f);
}

static void test_captured_events_are_counted(void **state)
{
    (void)state;
    static const char *const names[] = {
        "watch_pods.json",         "watch_pods.protobuf",         "watch_pods.table.json",
        "watch_pods.partial.json", "watch_pods.partial.protobuf", "watch_widgets.json",
    };
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct buf b = capture_read(names[i]);
        struct slice all = capture_slice(&b);
        for (size_t piece = 1; piece < 5000; piece = piece * 3 + 1) {
            struct bucket_load load;
            struct fixture f = {.load = &load};
            bucket_load_init(&load, &net_clock_system);
            open_watch(&f, capture_encoding(names[i]), 5, false);
            for (size_t at = 0; at < all.len; at += piece) {
                feed(&f, slice_of(all.ptr + at, piece < all.len - at ? piece : all.len - at));
            }
            assert_int_equal(events_of(&load, "scan"), 3);
            assert_int_equal(all_events(&load), 3);
            close_watch(&f);
        }
        buf_reset(&b);
    }
}

/* One that is not held is counted by its beginning, once. */
static void test_a_huge_event_is_counted(void **state)
{
    (void)state;
    static char filling[2 * WATCH_HELD_MAX];
    struct bucket_load load;
    struct fixture f = {.load = &load};
    bucket_load_init(&load, &net_clock_system);
    open_watch(&f, ENCODING_JSON, 5, false);
    memset(filling, 'x', sizeof filling);
    feed(&f, SLICE("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"namespace\":\"ns-a\","
                   "\"resourceVersion\":\"6\"},\"x\":\""));
    feed(&f, slice_of(filling, sizeof filling));
    feed(&f, slice_of(filling, sizeof filling));
    feed(&f, SLICE("\"}}\n" OF("ADDED", "ns-b")));
    assert_int_equal(events_of(&load, "ns-a"), 1);
    assert_int_equal(events_of(&load, "ns-b"), 1);
    assert_int_equal(all_events(&load), 2);
    close_watch(&f);
}

static void test_silent_events_are_not_counted(void **state)
{
    (void)state;
    struct bucket_load load;
    struct fixture f = {.load = &load};
    bucket_load_init(&load, &net_clock_system);
    open_watch(&f, ENCODING_JSON, 5, false);
    feed(&f, SLICE(OF("ADDED", "ns-a")));
    watch_silence(f.watch);
    feed(&f, SLICE(OF("ADDED", "ns-a")));
    assert_int_equal(all_events(&load), 1);
    close_watch(&f);
}

static void test_unread_watches_are_counted(void **state)
{
    (void)state;
    struct bucket_load load;
    struct fixture f = {.load = &load};
    bucket_load_init(&load, &net_clock_system);
    open_watch(&f, ENCODING_OTHER, 5, false);
    feed(&f, SLICE(OF("ADDED", "ns-a")));
    assert_int_equal(all_events(&load), 0);
    assert_int_equal(load.counts.unread, 1);
    close_watch(&f);
}

#define BOOKMARK(version)                                                                          \
    "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"" version "\"}}}\n"
#define OURS(version)                                                                              \
    "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{"     \
    "\"resourceVersion\":\"" version "\",\"creationTimestamp\":null}}}\n"

static const struct object_type pod = {{"Pod", 3}, {"v1", 2}};

/* It is a point to go on from, as one of the API server's is. */
static void test_a_bookmark_of_its_own(void **state)
{
    (void)state;
    struct fixture f = {.load = NULL};
    open_watch(&f, ENCODING_JSON, 5, false);
    feed(&f, SLICE(EVENT("6") "{\"type\":")); /* what has not come to its end does not matter */
    assert_int_equal(watch_bookmark(f.watch, &pod, 9, &f.sink.x), 0);
    assert_got(&f, EVENT("6") OURS("9"));
    assert_int_equal(watch_version(f.watch), 9);
    watch_free(f.watch, 1);
    f.watch = NULL;
    assert_true(delivered_watch(f.points, &f.key, 9));
    close_watch(&f);
}

static void test_a_bookmark_that_cannot_be_written(void **state)
{
    (void)state;
    struct fixture f = {.load = NULL};
    const struct object_type none = {{NULL, 0}, {NULL, 0}};
    open_watch(&f, ENCODING_JSON, 5, false);
    assert_int_equal(watch_bookmark(f.watch, &none, 9, &f.sink.x), -EINVAL);
    assert_int_equal(watch_version(f.watch), 5);
    f.sink.answer = -EPIPE;
    assert_int_equal(watch_bookmark(f.watch, &pod, 9, &f.sink.x), -EPIPE);
    assert_got(&f, "");
    close_watch(&f);
}

/* An API server that lags behind takes nobody back; its events pass. */
static void test_an_older_bookmark_is_left_out(void **state)
{
    (void)state;
    static const char stream[] =
        BOOKMARK("8") EVENT("10") BOOKMARK("9") BOOKMARK("10") EVENT("11") BOOKMARK("12");
    for (size_t cut = 0; cut < sizeof stream; cut++) {
        struct fixture f = {.load = NULL};
        open_watch(&f, ENCODING_JSON, 5, false);
        assert_int_equal(watch_bookmark(f.watch, &pod, 9, &f.sink.x), 0);
        feed(&f, slice_of(stream, cut));
        feed(&f, slice_of(stream + cut, sizeof stream - 1 > cut ? sizeof stream - 1 - cut : 0));
        assert_got(&f, OURS("9") EVENT("10") BOOKMARK("10") EVENT("11") BOOKMARK("12"));
        assert_int_equal(watch_version(f.watch), 12);
        close_watch(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_whole_events_pass),
        cmocka_unit_test(test_a_silenced_watch_lets_nothing_through_and_is_cut),
        cmocka_unit_test(test_the_end_of_a_watch_is_a_point_to_go_on_from),
        cmocka_unit_test(test_a_watch_that_was_cut_is_none),
        cmocka_unit_test(test_a_silenced_watch_that_was_not_cut_leaves_a_stale_point),
        cmocka_unit_test(test_initial_events_are_no_points_until_they_ended),
        cmocka_unit_test(test_a_watch_that_migrated_goes_on_only_from_what_came_after),
        cmocka_unit_test(test_a_later_version_at_which_it_stands),
        cmocka_unit_test(test_versions_down_to_the_oldest_object_written_are_no_points),
        cmocka_unit_test(test_an_unread_version_is_of_no_matter_after_a_migration),
        cmocka_unit_test(test_a_migration_delivers_the_version_at_which_it_stands),
        cmocka_unit_test(test_a_crash_while_it_is_silenced_leaves_no_point),
        cmocka_unit_test(test_the_version_is_known_from_the_start_or_a_bookmark),
        cmocka_unit_test(test_a_bookmark_of_its_own),
        cmocka_unit_test(test_a_bookmark_that_cannot_be_written),
        cmocka_unit_test(test_an_older_bookmark_is_left_out),
        cmocka_unit_test(test_an_event_too_large_to_hold_is_finished),
        cmocka_unit_test(test_an_event_for_which_there_is_no_room_is_passed_on),
        cmocka_unit_test(test_what_is_no_known_encoding_passes_and_cannot_be_cut),
        cmocka_unit_test(test_any_split_passes_the_same),
        cmocka_unit_test(test_an_operator_that_takes_no_more_is_told),
        cmocka_unit_test(test_events_are_counted),
        cmocka_unit_test(test_events_of_one_namespace),
        cmocka_unit_test(test_captured_events_are_counted),
        cmocka_unit_test(test_a_huge_event_is_counted),
        cmocka_unit_test(test_silent_events_are_not_counted),
        cmocka_unit_test(test_unread_watches_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
