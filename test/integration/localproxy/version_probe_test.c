/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a version probe is told and tells, in each phase, and what it does without memory; the same
 * of the pages that share lists.
 */
#include "watch/version_probe.h"

#include <errno.h>
#include <string.h>

#include "alloc_sweep.h"
#include "reload_fixture.h"
#include "upstream/list_pages.h"

#define TARGET "/api/v1/pods?watch=1&resourceVersion=20&timeoutSeconds=300&labelSelector=x"

struct told {
    struct version_probe *version_probe;
    unsigned times;
    uint64_t version;
    int code;
    bool frees; /* inside the callback */
};

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

static struct version_probe *open_probe(struct fixture *f, const char *selector, struct told *t,
                                        struct err *e)
{
    struct version_probe_options o = {
        .client = f->api->client,
        .target = SLICE(TARGET),
        .selector = slice_str(selector),
        .version = 20,
    };
    return version_probe_new(f->api->loop, &o, on_version, t, e);
}

/* The two watches, answered. */
static void begin(struct fixture *f, struct told *t, struct api_request **narrow,
                  struct api_request **wide)
{
    struct err e = ERR_INIT;
    *t = (struct told){.version_probe = open_probe(f, "ns%3Da", t, &e)};
    assert_non_null(t->version_probe);
    struct api_request *a = api_expect_part(f->api, "timeoutSeconds=3");
    struct api_request *b = api_expect_part(f->api, "timeoutSeconds=3");
    *narrow = strstr(a->target, "ns%3Da") != NULL ? a : b;
    *wide = *narrow == a ? b : a;
    assert_null(strstr((*wide)->target, "ns%3Da"));
    assert_null(strstr((*wide)->target, "timeoutSeconds=300"));
    assert_non_null(strstr((*wide)->target, "labelSelector=x"));
    api_begin(*narrow, NULL);
    api_begin(*wide, NULL);
}

static void expect_told(struct fixture *f, const struct told *t, unsigned times)
{
    for (int turn = 0; turn < 1000 && t->times < times; turn++) {
        run_for(f->api->loop, 1);
    }
    run_for(f->api->loop, 5);
    assert_int_equal(t->times, times);
}

static void each_is_asked_for(void **state)
{
    struct fixture *f = *state;
    struct told t;
    struct api_request *narrow;
    struct api_request *wide;
    begin(f, &t, &narrow, &wide);
    api_send(wide, pod_event("DELETED", "x", 30));
    expect_told(f, &t, 1);
    assert_int_equal(t.version, 29);
    api_expect_given_up(wide);
    api_send(narrow, pod_event("BOOKMARK", "x", 40));
    api_expect_given_up(narrow);
    assert_int_equal(t.times, 1); /* not before it is wanted */
    version_probe_continue(t.version_probe);
    expect_told(f, &t, 2);
    assert_int_equal(t.version, 40);
    version_probe_continue(t.version_probe);
    expect_told(f, &t, 3);
    assert_int_equal(t.code, -ESTALE);
    version_probe_free(t.version_probe);
}

static void what_is_no_later_is_not_told(void **state)
{
    struct fixture *f = *state;
    struct told t;
    struct api_request *narrow;
    struct api_request *wide;
    begin(f, &t, &narrow, &wide);
    t.frees = true;
    api_send(wide, pod_event("ADDED", "x", 21));
    api_send(narrow, "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}\n");
    expect_told(f, &t, 1);
    assert_int_equal(t.code, -ESTALE);
    assert_null(t.version_probe);
}

static void may_be_freed_in_each_phase(void **state)
{
    struct fixture *f = *state;
    struct told t;
    struct api_request *narrow;
    struct api_request *wide;
    struct err e = ERR_INIT;
    t = (struct told){.version_probe = open_probe(f, "", &t, &e)};
    version_probe_free(t.version_probe);
    begin(f, &t, &narrow, &wide);
    api_send(wide, "{\"type\":");
    run_for(f->api->loop, 5);
    version_probe_free(t.version_probe);
    api_expect_given_up(narrow);
    api_expect_given_up(wide);
    begin(f, &t, &narrow, &wide);
    t.frees = true;
    api_send(narrow, pod_event("BOOKMARK", "x", 40));
    expect_told(f, &t, 1);
    assert_int_equal(t.version, 40);
    api_expect_given_up(wide);
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
    struct fixture *f = data;
    struct err e = ERR_INIT;
    struct page_want want = {.on_page = on_page};
    struct page_request r = {.target = SLICE("/api/v1/pods"), .encoding = ENCODING_JSON};
    list_init(&want.link);
    struct byte_budget memory = {.max = 1 << 20};
    struct list_pages *pages = list_pages_new(f->api->loop, f->api->client, &memory);
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
        cmocka_unit_test_setup_teardown(each_is_asked_for, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(what_is_no_later_is_not_told, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(may_be_freed_in_each_phase, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(memory_runs_out, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
