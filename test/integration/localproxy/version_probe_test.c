/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a version probe is told and tells, in each phase, and what it does without memory; the same
 * of the pages that share lists.
 */
#include "watch/version_probe.h"

#include <errno.h>
#include <string.h>

#include "alloc_sweep.h"
#include "reload_scene.h"
#include "watch/list_pages.h"

#define TARGET "/api/v1/pods?watch=1&resourceVersion=20&timeoutSeconds=300&labelSelector=x"

struct told {
    struct version_probe *version_probe;
    unsigned times;
    uint64_t version;
    int code;
    bool frees; /* inside the callback */
};

static int setup(void **state)
{
    struct scene *s = calloc(1, sizeof *s);
    void *loop;
    if (s == NULL || loop_setup(&loop) != 0 || !scene_open(s, loop)) {
        return -1;
    }
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    struct scene *s = *state;
    void *loop = s->loop;
    scene_close(s);
    free(s);
    return loop_teardown(&loop);
}

static void on_version(void *data, uint64_t version, const struct err *e)
{
    struct told *t = data;
    t->times++;
    t->version = version;
    t->code = e != NULL ? e->code : 0;
    if (t->frees) {
        version_probe_free(t->version_probe);
        t->version_probe = NULL;
    }
}

static struct version_probe *open_probe(struct scene *s, const char *selector, struct told *t,
                                        struct err *e)
{
    struct version_probe_options o = {
        .upstream = s->upstream,
        .target = SLICE(TARGET),
        .selector = slice_str(selector),
        .version = 20,
    };
    return version_probe_new(s->loop, &o, on_version, t, e);
}

/* The two watches, answered. */
static void begin(struct scene *s, struct told *t, struct asked **narrow, struct asked **wide)
{
    struct err e = ERR_INIT;
    *t = (struct told){.version_probe = open_probe(s, "ns%3Da", t, &e)};
    assert_non_null(t->version_probe);
    struct asked *a = scene_asked(s, "timeoutSeconds=3");
    struct asked *b = scene_asked(s, "timeoutSeconds=3");
    *narrow = strstr(a->target, "ns%3Da") != NULL ? a : b;
    *wide = *narrow == a ? b : a;
    assert_null(strstr((*wide)->target, "ns%3Da"));
    assert_null(strstr((*wide)->target, "timeoutSeconds=300"));
    assert_non_null(strstr((*wide)->target, "labelSelector=x"));
    asked_begin(*narrow, NULL);
    asked_begin(*wide, NULL);
}

static void expect_told(struct scene *s, const struct told *t, unsigned times)
{
    for (int turn = 0; turn < 1000 && t->times < times; turn++) {
        run_for(s->loop, 1);
    }
    run_for(s->loop, 5);
    assert_int_equal(t->times, times);
}

static void each_is_asked_for(void **state)
{
    struct scene *s = *state;
    struct told t;
    struct asked *narrow;
    struct asked *wide;
    begin(s, &t, &narrow, &wide);
    asked_send(wide, pod_event("DELETED", "x", 30));
    expect_told(s, &t, 1);
    assert_int_equal(t.version, 29);
    scene_expect_gone(s, wide);
    asked_send(narrow, pod_event("BOOKMARK", "x", 40));
    scene_expect_gone(s, narrow);
    assert_int_equal(t.times, 1); /* not before it is wanted */
    version_probe_continue(t.version_probe);
    expect_told(s, &t, 2);
    assert_int_equal(t.version, 40);
    version_probe_continue(t.version_probe);
    expect_told(s, &t, 3);
    assert_int_equal(t.code, -ESTALE);
    version_probe_free(t.version_probe);
}

static void what_is_no_later_is_not_told(void **state)
{
    struct scene *s = *state;
    struct told t;
    struct asked *narrow;
    struct asked *wide;
    begin(s, &t, &narrow, &wide);
    t.frees = true;
    asked_send(wide, pod_event("ADDED", "x", 21));
    asked_send(narrow, "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}\n");
    expect_told(s, &t, 1);
    assert_int_equal(t.code, -ESTALE);
    assert_null(t.version_probe);
}

static void may_be_freed_in_each_phase(void **state)
{
    struct scene *s = *state;
    struct told t;
    struct asked *narrow;
    struct asked *wide;
    struct err e = ERR_INIT;
    t = (struct told){.version_probe = open_probe(s, "", &t, &e)};
    version_probe_free(t.version_probe);
    begin(s, &t, &narrow, &wide);
    asked_send(wide, "{\"type\":");
    run_for(s->loop, 5);
    version_probe_free(t.version_probe);
    scene_expect_gone(s, narrow);
    scene_expect_gone(s, wide);
    begin(s, &t, &narrow, &wide);
    t.frees = true;
    asked_send(narrow, pod_event("BOOKMARK", "x", 40));
    expect_told(s, &t, 1);
    assert_int_equal(t.version, 40);
    scene_expect_gone(s, wide);
}

static bool probe_once(void *data)
{
    struct told t = {0};
    struct err e = ERR_INIT;
    struct version_probe *r = open_probe(data, "ns%3Da", &t, &e);
    assert_true(r != NULL || e.code != 0);
    version_probe_free(r);
    return r != NULL;
}

static void on_page(struct page_want *w, const struct page *page, const struct err *e)
{
    (void)w;
    (void)page;
    (void)e;
    fail();
}

static bool want_once(void *data)
{
    struct scene *s = data;
    struct err e = ERR_INIT;
    struct page_want want = {.on_page = on_page};
    struct page_request r = {.target = SLICE("/api/v1/pods"), .encoding = ENCODING_JSON};
    list_init(&want.link);
    struct list_pages *pages = list_pages_new(s->loop, s->upstream);
    int rc = pages != NULL ? list_pages_want(pages, &r, &want, &e) : -ENOMEM;
    assert_int_equal(rc != 0, want.entry == NULL);
    list_pages_drop(&want);
    list_pages_free(pages);
    return rc == 0;
}

static void memory_runs_out(void **state)
{
    assert_true(sweep_allocations(probe_once, *state) > 3);
    assert_true(sweep_allocations(want_once, *state) > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_is_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_later_is_not_told, setup, teardown),
        cmocka_unit_test_setup_teardown(may_be_freed_in_each_phase, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_runs_out, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
