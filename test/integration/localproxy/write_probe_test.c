/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a write probe asks and what it makes of the two watches that it gets: which version the
 * watch has to deliver first, in each order in which the events may come.
 */
#include "watch/write_probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "reload_fixture.h"

#define TARGET "/api/v1/pods?watch=1&resourceVersion=20&timeoutSeconds=300&labelSelector=x"

struct told {
    struct write_probe *probe;
    unsigned times;
    uint64_t version;
    int code;
};

static void on_probe(void *data, uint64_t version, const struct err *e)
{
    struct told *t = data;
    t->times++;
    t->version = version;
    t->code = e != NULL ? e->code : 0;
    write_probe_free(t->probe);
    t->probe = NULL;
}

/* From 20 to 30, of a watch that selects ns in (a,b), after a write to c. */
static struct write_probe *open_selected(struct fixture *f, const char *selector, const char *value,
                                         struct told *t, struct err *e)
{
    struct selector *s = selector_parse(slice_str(selector), e);
    const struct selector_label label = {SLICE("ns"), slice_str(value)};
    if (s == NULL) {
        return NULL;
    }
    struct write_probe_options o = {
        .client = f->api->client,
        .target = SLICE(TARGET),
        .selector = s,
        .labels = &label,
        .label_count = 1,
        .from = 20,
        .to = 30,
    };
    struct write_probe *p = write_probe_new(f->api->loop, &o, on_probe, t, e);
    selector_free(s);
    return p;
}

static struct write_probe *open_probe(struct fixture *f, struct told *t, struct err *e)
{
    return open_selected(f, "ns in (a,b)", "c", t, e);
}

/* The two watches. */
static void begin(struct fixture *f, struct told *t, struct api_request **cover,
                  struct api_request **rest)
{
    struct err e = ERR_INIT;
    *t = (struct told){.probe = open_probe(f, t, &e)};
    assert_non_null(t->probe);
    struct api_request *one = api_expect_part(f->api, "timeoutSeconds=3");
    struct api_request *two = api_expect_part(f->api, "timeoutSeconds=3");
    *cover = strstr(one->target, "ns%20in%20%28a%2Cb%2Cc%29") != NULL ? one : two;
    *rest = *cover == one ? two : one;
    assert_non_null(strstr((*cover)->target, "labelSelector=ns%20in%20%28a%2Cb%2Cc%29%2Cx"));
    assert_non_null(strstr((*rest)->target, "labelSelector=ns%20in%20%28c%29%2Cx"));
    assert_non_null(strstr((*rest)->target, "resourceVersion=20"));
    assert_null(strstr((*rest)->target, "timeoutSeconds=300"));
}

static void expect_told(struct fixture *f, const struct told *t)
{
    for (int turn = 0; turn < 10000 && t->times == 0; turn++) {
        run_for(f->api->loop, 1);
    }
    run_for(f->api->loop, 5);
    assert_int_equal(t->times, 1);
    assert_null(t->probe);
}

struct row {
    const char *cover; /* A for ADDED and so on, and the version: "A25 M30" */
    const char *rest;
    uint64_t version;
};

static void send_events(struct api_request *to, const char *events)
{
    static const struct {
        char letter;
        const char *name;
    } types[] = {{'A', "ADDED"}, {'M', "MODIFIED"}, {'D', "DELETED"}, {'B', "BOOKMARK"}};
    for (const char *at = events; *at != '\0'; at += strcspn(at, " "), at += strspn(at, " ")) {
        for (size_t i = 0; i < ARRAY_LEN(types); i++) {
            if (types[i].letter == *at) {
                api_send(to, pod_event(types[i].name, "x", (unsigned)strtoul(at + 1, NULL, 10)));
            }
        }
    }
}

static const struct row rows[] = {
    /* The object that was written alone. */
    {"A30", "A30", 0},
    {"M30", "M30", 0},
    {"D30", "D30", 0},
    /* It has left the watch, or come into it. */
    {"M30", "A30", 30},
    {"M30", "D30", 30},
    /* Others of the rest before it. */
    {"A21 M22 D23 M30", "A21 M22 D23 M30", 0},
    /* Events of the watch before it. */
    {"A25 M30", "M30", 25},
    {"A22 M25 M27 M30", "M27 M30", 25},
    {"D25 M26 M30", "M26 M30", 25},
    {"M24 M25 M30", "A24 M25 M30", 24},
    /* What is later does not matter. */
    {"M30 M31", "M30 M31", 0},
    {"A25 A31", "A32", 25},
    /* The client's own selector does not show it. */
    {"B30", "B31", 0},
    {"M27 B40", "M27 B35", 0},
    {"M27 B40", "B35", 27},
    {"M30", "M30 B30", 0},
};

static void what_is_to_be_delivered_first(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < 2 * ARRAY_LEN(rows); i++) {
        const struct row *r = &rows[i / 2];
        struct told t;
        struct api_request *cover;
        struct api_request *rest;
        begin(f, &t, &cover, &rest);
        api_begin(cover, NULL);
        api_begin(rest, NULL);
        send_events(i % 2 == 0 ? cover : rest, i % 2 == 0 ? r->cover : r->rest);
        run_for(f->api->loop, 5);
        assert_int_equal(t.times, 0); /* not by one of them */
        send_events(i % 2 == 0 ? rest : cover, i % 2 == 0 ? r->rest : r->cover);
        expect_told(f, &t);
        assert_int_equal(t.code, 0);
        assert_int_equal(t.version, r->version);
        api_expect_given_up(cover);
        api_expect_given_up(rest);
    }
}

static const char gone[] = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}\n";

static void what_fails(void **state)
{
    struct fixture *f = *state;
    struct told t;
    struct api_request *cover;
    struct api_request *rest;
    begin(f, &t, &cover, &rest);
    api_begin(cover, NULL);
    api_send(cover, gone);
    expect_told(f, &t);
    assert_int_equal(t.code, -ESTALE);
    api_expect_given_up(rest);
    begin(f, &t, &cover, &rest);
    api_begin(cover, NULL);
    send_events(cover, "M30");
    api_answer(rest, 403, NULL, "{}");
    expect_told(f, &t);
    assert_int_equal(t.code, -ENODATA);
    /* Objects that are gone with their etcd lease, as Events are, have one version: how many of
     * them have been delivered cannot be told. Nor can anything after versions that go back. */
    static const char *const out_of_order[] = {"D25 D25 M30", "M25 M24 M30", "M20 M30", "B27 M26"};
    for (size_t i = 0; i < ARRAY_LEN(out_of_order); i++) {
        begin(f, &t, &cover, &rest);
        api_begin(cover, NULL);
        api_begin(rest, NULL);
        send_events(rest, "D25 M30");
        send_events(cover, out_of_order[i]);
        expect_told(f, &t);
        assert_int_equal(t.code, -EPROTO);
    }
    begin(f, &t, &cover, &rest);
    api_begin(rest, NULL);
    send_events(rest, "M29");
    api_end(rest); /* before it has shown the version */
    expect_told(f, &t);
    assert_int_equal(t.code, -ENODATA);
    api_expect_given_up(cover);
}

static void selectors_that_are_not_to_be_had(void **state)
{
    struct fixture *f = *state;
    struct told t = {0};
    struct err e = ERR_INIT;
    assert_null(open_selected(f, "ns>5", "4", &t, &e));
    assert_int_equal(e.code, -ENOTSUP);
    err_clear(&e);
    assert_null(open_selected(f, "ns in (a)", "not a value", &t, &e));
    assert_int_equal(e.code, -ENOTSUP);
    assert_int_equal(t.times, 0);
}

static void may_be_freed_in_each_phase(void **state)
{
    struct fixture *f = *state;
    struct told t;
    struct api_request *cover;
    struct api_request *rest;
    begin(f, &t, &cover, &rest);
    write_probe_free(t.probe);
    api_expect_given_up(cover);
    begin(f, &t, &cover, &rest);
    api_begin(cover, NULL);
    send_events(cover, "M30");
    run_for(f->api->loop, 5);
    write_probe_free(t.probe);
    api_expect_given_up(rest);
    write_probe_free(NULL);
    assert_int_equal(t.times, 0);
}

static bool probe_once(void *data)
{
    struct told t = {0};
    struct err e = ERR_INIT;
    struct write_probe *p = open_probe(data, &t, &e);
    assert_true(p != NULL || e.code != 0);
    write_probe_free(p);
    return p != NULL;
}

static void memory_runs_out(void **state)
{
    assert_true(sweep_allocations(probe_once, *state) > 5);
}

/* ---- a write by way of localproxy ---- */

/* Of a world in which nothing but that write happens, at `data`. */
static void answer_all(struct scripted_api *a, struct api_request *q)
{
    const unsigned *version = a->data;
    char text[256];
    if (strstr(q->target, "timeoutSeconds=3&") != NULL) {
        api_begin(q, NULL);
        api_send(q, pod_event("MODIFIED", "x", *version));
    } else if (strstr(q->target, "watch=1") != NULL) {
        api_begin(q, NULL);
    } else if (strstr(q->target, "/pods/x") != NULL) {
        (void)snprintf(text, sizeof text,
                       "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"labels\":"
                       "{\"ns\":\"c\"},\"resourceVersion\":\"%u\"}}",
                       *version);
        api_answer(q, 200, NULL, text);
    } else {
        api_answer(q, 200, NULL, pod_list(*version - 1, NULL, (const char *const[]){NULL}));
    }
}

static void open_watch(struct fixture *f, struct client *watch, unsigned after)
{
    struct client list;
    char target[128];
    fixture_get(f, &list, "/api/v1/pods");
    fixture_expect(f, &list, "200 OK");
    client_close(&list);
    (void)snprintf(target, sizeof target,
                   "/api/v1/pods?watch=1&resourceVersion=%u&allowWatchBookmarks=true", after);
    fixture_get(f, watch, target);
    fixture_expect(f, watch, "200 OK");
}

/* The watch gets its bookmark, unless what failed was needed for it, or for the write. */
static bool write_once(void *data)
{
    struct fixture *f = data;
    struct client watch;
    struct client writer;
    char text[32];
    long paused = alloc_sweep_pause();
    unsigned *version = f->api->data;
    *version += 10;
    (void)snprintf(text, sizeof text, "\"%u\"", *version);
    open_watch(f, &watch, *version - 1);
    client_open(f, &writer);
    alloc_sweep_resume(paused);
    client_send(&writer, "PUT /api/v1/namespaces/c/pods/x HTTP/1.1\r\nHost: localhost\r\n"
                         "Accept: application/json\r\nContent-Length: 2\r\n\r\n{}");
    run_for(f->api->loop, 20);
    paused = alloc_sweep_pause();
    bool told = false;
    for (int turn = 0; turn < 150 && !told && !watch.ended && !writer.ended; turn++) {
        run_for(f->api->loop, 1);
        client_read(&writer);
        told = client_has(&watch, text);
    }
    client_close(&writer);
    client_close(&watch);
    fixture_expect_number(f, &f->metrics.open_watches, 0);
    alloc_sweep_resume(paused);
    return told;
}

static void a_bookmark_without_memory(void **state)
{
    struct fixture *f = *state;
    unsigned version = 100;
    f->api->data = &version;
    f->api->serve = answer_all;
    f->flags.write_bookmarks = 1;
    fixture_restart(f);
    fixture_limit(f, "ns in (a)");
    assert_true(sweep_allocations(write_once, f) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_to_be_delivered_first, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(what_fails, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(selectors_that_are_not_to_be_had, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(may_be_freed_in_each_phase, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(memory_runs_out, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_bookmark_without_memory, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
