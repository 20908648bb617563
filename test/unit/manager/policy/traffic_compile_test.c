/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/traffic_compile.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/file.h"
#include "policy_case.h"
#include "temp_dir.h"
#include "zone_text.h"

#define SPEC(name)                                                                                 \
    " selector: {matchLabels: {app: demo}}\n rateLimitings:\n"                                     \
    " - {name: " name                                                                              \
    ", triggerPolicy: ForceClosed, resourceRules: [{apiGroups: [''], resources: "                  \
    "[pods], verbs: [get], namespaces: [a, b]}]}\n"
#define FAULT_SPEC                                                                                 \
    " selector: {}\n httpFault:\n - {name: f, delay: {fixedDelay: 1s, percent: 5}, match: "        \
    "{resources: [{resources: [pods]}]}}\n"

enum { LIST_MAX = 80 };

/* A namespace with policies. */
struct world {
    struct policy *list[LIST_MAX];
    size_t count;
    enum traffic_outcome outcomes[LIST_MAX];
    struct traffic_compile_result result;
    struct buf text;
    size_t room;
    struct traffic *published;
    uint64_t generation;
};

#define WORLD_INIT                                                                                 \
    {                                                                                              \
        .text = BUF_INIT((size_t)4 * 1024 * 1024), .room = TRAFFIC_TEXT_MAX, .generation = 1       \
    }

static void add_text(struct world *w, const char *text)
{
    assert_true(w->count < LIST_MAX);
    w->list[w->count++] = policy_case_object(text, NULL);
}

static void add(struct world *w, enum traffic_kind kind, const char *name, const char *spec)
{
    add_text(w, policy_case_text(kind, name, spec));
}

/* One that was created at that time of a day, with these fields of metadata besides. */
static void add_aged(struct world *w, const char *name, const char *time, const char *meta,
                     const char *spec)
{
    char text[16384];
    (void)snprintf(text, sizeof text,
                   "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\nkind: CircuitBreaker\n"
                   "metadata: {name: %s, namespace: ns, uid: uid-of-%s, creationTimestamp: "
                   "'2026-01-02T%sZ'%s}\nspec:\n%s",
                   name, name, time, meta, spec);
    add_text(w, text);
}

static void world_deinit(struct world *w)
{
    for (size_t i = 0; i < w->count; i++) {
        policy_unref(w->list[i]);
    }
    traffic_unref(w->published);
    buf_reset(&w->text);
}

static int try_compile(struct world *w, struct err *e)
{
    const struct traffic_source s = {
        .ns = "ns",
        .shard = "shard-a",
        .generation = w->generation,
        .list = (const struct policy *const *)w->list,
        .count = w->count,
        .published = w->published,
        .room = w->room,
    };
    w->result.outcomes = w->outcomes;
    return traffic_compile(&s, &w->text, &w->result, e);
}

/* The document as the proxies read it; NULL: there is none. The caller drops it. */
static struct traffic *compile(struct world *w)
{
    struct err e = ERR_INIT;
    buf_clear(&w->text);
    if (try_compile(w, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    assert_int_equal(w->text.len == 0, w->result.compiled == 0);
    if (w->text.len == 0) {
        assert_string_equal(w->result.checksum, "");
        return NULL;
    }
    assert_true(w->text.len <= w->room);
    struct traffic *t = traffic_parse((const char *)buf_data(&w->text), w->text.len, &e);
    if (t == NULL) {
        fail_msg("%s", e.msg);
    }
    assert_string_equal(traffic_checksum(t), w->result.checksum);
    assert_int_equal(traffic_policy_count(t), w->result.compiled);
    return t;
}

static void expect_outcomes(const struct world *w, const enum traffic_outcome *want)
{
    for (size_t i = 0; i < w->count; i++) {
        if (w->outcomes[i] != want[i]) {
            fail_msg("policy %zu is %s, not %s", i, traffic_outcome_text(w->outcomes[i]),
                     traffic_outcome_text(want[i]));
        }
    }
}

/* ---- the document ---- */

static void test_document(void **state)
{
    (void)state;
    struct world w = WORLD_INIT;
    add(&w, TRAFFIC_FAULT_INJECTION, "z-fault", FAULT_SPEC);
    add(&w, TRAFFIC_BREAKER, "b", SPEC("r"));
    add(&w, TRAFFIC_BREAKER, "a", SPEC("r"));
    w.generation = 42;
    struct traffic *t = compile(&w);
    assert_int_equal(traffic_generation(t), 42);
    assert_string_equal(traffic_shard_namespace(t), "ns");
    assert_string_equal(traffic_shard_name(t), "shard-a");
    assert_int_equal(traffic_limiting_count(t), 2);
    assert_int_equal(traffic_fault_count(t), 1);
    assert_string_equal(traffic_policy_at(t, 0)->name, "a");
    assert_string_equal(traffic_policy_at(t, 0)->uid, "uid-of-a");
    assert_string_equal(traffic_policy_at(t, 0)->spec_hash, policy_spec_hash(w.list[2]));
    assert_string_equal(traffic_policy_at(t, 1)->name, "b");
    assert_true(selector_equal(traffic_policy_at(t, 0)->pods, policy_selector(w.list[2])));
    traffic_unref(t);
    world_deinit(&w);
}

/* Of the same policies the same bytes, in whatever order they are known. */
static void test_order_does_not_matter(void **state)
{
    (void)state;
    struct world w = WORLD_INIT;
    add(&w, TRAFFIC_BREAKER, "a", SPEC("r"));
    add(&w, TRAFFIC_BREAKER, "b", SPEC("r"));
    add(&w, TRAFFIC_FAULT_INJECTION, "a", FAULT_SPEC);
    traffic_unref(compile(&w));
    char *first = buf_take_str(&w.text);
    struct policy *swapped = w.list[0];
    w.list[0] = w.list[2];
    w.list[2] = swapped;
    traffic_unref(compile(&w));
    assert_string_equal(buf_cstr(&w.text), first);
    free(first);
    world_deinit(&w);
}

static void test_nothing(void **state)
{
    (void)state;
    struct world w = WORLD_INIT;
    assert_null(compile(&w));
    add(&w, TRAFFIC_BREAKER, "empty", " selector: {}\n");
    add(&w, TRAFFIC_FAULT_INJECTION, "off", " disabled: true\n" FAULT_SPEC);
    add(&w, TRAFFIC_FAULT_INJECTION, "wrong", " httpFault: 5\n");
    add_aged(&w, "leaving", "00:00:00", ", deletionTimestamp: '2026-01-02T00:00:00Z'", SPEC("r"));
    add_aged(&w, "label", "00:00:00",
             ", labels: {circuitbreaker.ctrlmesh.kusionstack.io/disable: ''}", SPEC("r"));
    assert_null(compile(&w));
    expect_outcomes(&w,
                    (const enum traffic_outcome[]){TRAFFIC_EMPTY, TRAFFIC_DISABLED, TRAFFIC_INVALID,
                                                   TRAFFIC_DISABLED, TRAFFIC_DISABLED});
    world_deinit(&w);
}

/* ---- what has no place ---- */

static void test_room(void **state)
{
    (void)state;
    struct world w = WORLD_INIT;
    add_aged(&w, "b-new", "03:00:00", "", SPEC("r"));
    add_aged(&w, "c-old", "01:00:00", "", SPEC("r"));
    add_aged(
        &w, "a-big", "02:00:00", "",
        SPEC("r") " - {name: aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeee, triggerPolicy: "
                  "ForceOpened, resourceRules: [{apiGroups: ['*'], resources: ['*'], verbs: "
                  "['*'], namespaces: ['*']}]}\n");
    struct traffic *t = compile(&w);
    size_t all = w.text.len;
    traffic_unref(t);
    /* One that does not fit does not keep out the smaller one behind it. */
    w.room = all - 100;
    t = compile(&w);
    expect_outcomes(
        &w, (const enum traffic_outcome[]){TRAFFIC_TOO_LARGE, TRAFFIC_COMPILED, TRAFFIC_COMPILED});
    traffic_unref(t);
    w.room = all - policy_entry(w.list[2])->len + 64; /* what surrounds them is estimated */
    t = compile(&w);
    expect_outcomes(
        &w, (const enum traffic_outcome[]){TRAFFIC_COMPILED, TRAFFIC_COMPILED, TRAFFIC_TOO_LARGE});
    traffic_unref(t);
    for (w.room = 0; w.room < all + 100; w.room += 13) {
        traffic_unref(compile(&w));
    }
    assert_int_equal(w.result.compiled, 3);
    world_deinit(&w);
}

static void test_too_many_policies(void **state)
{
    (void)state;
    struct world w = WORLD_INIT;
    for (unsigned i = 0; i < TRAFFIC_POLICIES_MAX + 1; i++) {
        char name[16];
        char time[16];
        (void)snprintf(name, sizeof name, "p-%u", 100 - i);
        (void)snprintf(time, sizeof time, "01:%02u:%02u", i / 60, i % 60);
        add_aged(&w, name, time, "", SPEC("r"));
    }
    struct traffic *t = compile(&w);
    assert_int_equal(w.result.compiled, TRAFFIC_POLICIES_MAX);
    for (size_t i = 0; i < w.count; i++) {
        assert_int_equal(w.outcomes[i],
                         i < TRAFFIC_POLICIES_MAX ? TRAFFIC_COMPILED : TRAFFIC_TOO_MANY);
    }
    traffic_unref(t);
    world_deinit(&w);
}

/* The head of a breaker, to which resource rules are appended. */
static void begin_rows(struct buf *spec)
{
    (void)buf_append_str(spec, " selector: {}\n rateLimitings:\n - name: r\n   triggerPolicy: "
                               "ForceClosed\n   resourceRules:\n");
}

static void add_rows(struct world *w, const char *name, size_t rows, size_t namespaces)
{
    struct buf spec = BUF_INIT((size_t)1024 * 1024);
    begin_rows(&spec);
    for (size_t i = 0; i < rows; i++) {
        (void)buf_append_str(&spec, "   - {apiGroups: [''], resources: [pods], verbs: [get], "
                                    "namespaces: [");
        for (size_t j = 0; j < namespaces; j++) {
            (void)buf_printf(&spec, "n%zu,", j);
        }
        (void)buf_append_str(&spec, "]}\n");
    }
    char *text = NULL;
    assert_true(asprintf(&text,
                         "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\nkind: CircuitBreaker\n"
                         "metadata: {name: %s, uid: u-%s}\nspec:\n%s",
                         name, name, buf_cstr(&spec)) > 0);
    add_text(w, text);
    free(text);
    buf_reset(&spec);
}

static void test_too_many_rows_and_names(void **state)
{
    (void)state;
    struct world w = WORLD_INIT;
    add_rows(&w, "a", TRAFFIC_ROWS_MAX, 1);
    add_rows(&w, "b", 1, 1);
    add(&w, TRAFFIC_FAULT_INJECTION, "fault", FAULT_SPEC); /* has rows of its own */
    traffic_unref(compile(&w));
    expect_outcomes(
        &w, (const enum traffic_outcome[]){TRAFFIC_COMPILED, TRAFFIC_TOO_MANY, TRAFFIC_COMPILED});
    world_deinit(&w);
    struct world v = WORLD_INIT;
    add_rows(&v, "a", 16, 1000); /* 16,048 names */
    add_rows(&v, "b", 1, 334);
    add_rows(&v, "c", 1, 333);
    add_rows(&v, "d", 1, 1);
    traffic_unref(compile(&v));
    expect_outcomes(&v, (const enum traffic_outcome[]){TRAFFIC_COMPILED, TRAFFIC_TOO_MANY,
                                                       TRAFFIC_COMPILED, TRAFFIC_TOO_MANY});
    world_deinit(&v);
}

#define OFF(name) "{url: 'https://" name ".example/off', method: POST}"
#define EXTERNAL_SPEC                                                                              \
    " selector: {}\n rateLimitings:\n - {name: calls, triggerPolicy: ForceOpened, restRules: "     \
    "[" OFF("a") ", " OFF("b") "]}\n trafficInterceptRules:\n - {name: only, interceptType: "      \
                               "Whitelist, "                                                       \
                               "contentType: Regexp, contents: ['^a$', '^b$'], methods: ['*']}\n"
#define EXTERNAL_FAULT                                                                             \
    " selector: {}\n httpFault:\n - {name: f, delay: {fixedDelay: 1s, percent: 5}, match: "        \
    "{httpMatch: [{host: {regex: '^a'}, path: {regex: b}}, {method: GET}]}}\n"

static void test_external_rules(void **state)
{
    (void)state;
    struct world w = WORLD_INIT;
    add(&w, TRAFFIC_BREAKER, "a", EXTERNAL_SPEC);
    add(&w, TRAFFIC_FAULT_INJECTION, "f", EXTERNAL_FAULT);
    struct traffic *t = compile(&w);
    assert_int_equal(traffic_limiting_count(t), 1);
    assert_int_equal(traffic_intercept_count(t), 1);
    assert_int_equal(traffic_fault_count(t), 1);
    assert_int_equal(traffic_intercept_at(t, 0)->type, TRAFFIC_WHITELIST);
    /* What is kept counts as it did when it was new. */
    struct world next = WORLD_INIT;
    next.published = t;
    add(&next, TRAFFIC_BREAKER, "a", " selector: {}\n rateLimitings: 5\n");
    add(&next, TRAFFIC_FAULT_INJECTION, "f", " httpFault: 5\n");
    struct traffic *kept = compile(&next);
    expect_outcomes(&next, (const enum traffic_outcome[]){TRAFFIC_KEPT, TRAFFIC_KEPT});
    assert_string_equal(traffic_checksum(kept), traffic_checksum(t));
    traffic_unref(kept);
    world_deinit(&next);
    world_deinit(&w);
}

/* One with so many of what is bounded. */
static void add_many(struct world *w, const char *name, const char *head, const char *one,
                     size_t count, const char *tail)
{
    struct buf spec = BUF_INIT((size_t)1024 * 1024);
    (void)buf_printf(&spec,
                     "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\nkind: CircuitBreaker\n"
                     "metadata: {name: %s, uid: u-%s}\nspec:\n selector: {}\n%s",
                     name, name, head);
    for (size_t i = 0; i < count; i++) {
        (void)buf_append_str(&spec, one);
        (void)buf_printf(&spec, "%zu", i);
        (void)buf_append_str(&spec, tail);
    }
    const char *text = buf_cstr(&spec);
    assert_non_null(text);
    add_text(w, text);
    buf_reset(&spec);
}

/* What all policies together have too much of: those that were created first have their place. */
static void test_too_many_external_rules(void **state)
{
    static const char intercepts[] = " trafficInterceptRules:\n";
    static const char forbid[] = " - {interceptType: Blacklist, contentType: Normal, methods: "
                                 "['*'], contents: [a], name: r";
    static const char patterns[] = " trafficInterceptRules:\n - name: r\n   interceptType: "
                                   "Blacklist\n   contentType: Regexp\n   methods: ['*']\n"
                                   "   contents:\n";
    static const char urls[] = " rateLimitings:\n - name: r\n   triggerPolicy: ForceOpened\n"
                               "   restRules:\n";
    static const struct {
        const char *head;
        const char *one;
        const char *tail;
        size_t room; /* in all */
        size_t each;
    } all[] = {
        {intercepts, forbid, "}\n", TRAFFIC_INTERCEPTS_MAX, 200},
        {patterns, "   - a", "\n", TRAFFIC_PATTERNS_MAX, 200},
        {urls, "   - {method: GET, url: 'https://a/", "'}\n", TRAFFIC_EXTERNAL_MAX, 1000},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        size_t left = all[i].room - all[i].each;
        struct world w = WORLD_INIT;
        add_many(&w, "a", all[i].head, all[i].one, all[i].each, all[i].tail);
        add_many(&w, "b", all[i].head, all[i].one, left + 1, all[i].tail);
        add_many(&w, "c", all[i].head, all[i].one, left, all[i].tail);
        add_many(&w, "d", all[i].head, all[i].one, 1, all[i].tail);
        add(&w, TRAFFIC_BREAKER, "e", SPEC("r"));
        traffic_unref(compile(&w));
        expect_outcomes(&w, (const enum traffic_outcome[]){TRAFFIC_COMPILED, TRAFFIC_TOO_MANY,
                                                           TRAFFIC_COMPILED, TRAFFIC_TOO_MANY,
                                                           TRAFFIC_COMPILED});
        world_deinit(&w);
        /* The same beside one that is only kept. */
        struct world first = WORLD_INIT;
        struct world next = WORLD_INIT;
        add_many(&first, "a", all[i].head, all[i].one, all[i].each, all[i].tail);
        next.published = compile(&first);
        add_text(&next, "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\nkind: CircuitBreaker\n"
                        "metadata: {name: a, uid: u-a}\nspec: 5\n");
        add_many(&next, "b", all[i].head, all[i].one, left + 1, all[i].tail);
        add_many(&next, "c", all[i].head, all[i].one, left, all[i].tail);
        traffic_unref(compile(&next));
        expect_outcomes(&next, (const enum traffic_outcome[]){TRAFFIC_KEPT, TRAFFIC_TOO_MANY,
                                                              TRAFFIC_COMPILED});
        world_deinit(&next);
        world_deinit(&first);
    }
}

static void test_one_that_is_too_large_by_itself(void **state)
{
    (void)state;
    struct world w = WORLD_INIT;
    add_rows(&w, "rows", TRAFFIC_ROWS_MAX + 1, 1);
    add_rows(&w, "names", 17, 1000);
    add_rows(&w, "list", 1, TRAFFIC_LIST_MAX + 1);
    for (size_t i = 0; i < w.count; i++) {
        assert_false(policy_valid(w.list[i]));
    }
    assert_null(compile(&w));
    world_deinit(&w);
}

/* ---- what was published before ---- */

static void test_invalid_keeps_what_was_published(void **state)
{
    (void)state;
    struct world w = WORLD_INIT;
    add(&w, TRAFFIC_BREAKER, "a", SPEC("r"));
    add(&w, TRAFFIC_BREAKER, "b", SPEC("r"));
    add(&w, TRAFFIC_FAULT_INJECTION, "a", FAULT_SPEC);
    w.published = compile(&w);
    struct world next = WORLD_INIT;
    next.published = traffic_ref(w.published);
    next.generation = 2;
    add(&next, TRAFFIC_BREAKER, "a", " selector: {}\n rateLimitings: 5\n");
    add(&next, TRAFFIC_BREAKER, "c", " selector: {}\n rateLimitings: 5\n"); /* is new */
    add(&next, TRAFFIC_FAULT_INJECTION, "a", " httpFault: 5\n");
    struct traffic *t = compile(&next);
    expect_outcomes(&next,
                    (const enum traffic_outcome[]){TRAFFIC_KEPT, TRAFFIC_INVALID, TRAFFIC_KEPT});
    assert_int_equal(traffic_policy_count(t), 2);
    assert_string_equal(traffic_policy_at(t, 0)->spec_hash, policy_spec_hash(w.list[0]));
    assert_int_equal(traffic_fault_at(t, 0)->delay_ms, 1000);
    traffic_unref(t);
    world_deinit(&next);
    world_deinit(&w);
}

#define ZONED(zone)                                                                                \
    " selector: {}\n httpFault:\n - {name: f, delay: {fixedDelay: 1s, percent: 5}, match: "        \
    "{resources: [{}]}, effectiveTime: {daysOfWeek: [1], timeZone: " zone "}}\n"

static void write_zone(const struct temp_dir *d, const char *name, const char *rule)
{
    static const int32_t offsets[] = {3600};
    struct buf text = BUF_INIT(65536);
    struct err e = ERR_INIT;
    char path[256];
    zone_text(&text, NULL, 0, offsets, ARRAY_LEN(offsets), rule);
    assert_int_equal(
        file_write_atomic(temp_dir_path(d, name, path), buf_data(&text), text.len, 0644, &e), 0);
    buf_reset(&text);
}

/* The document has the rules of the zones that its policies name, those that are only kept, too;
 * of two rules of one name the newer one. */
static void test_zones(void **state)
{
    struct temp_dir dir;
    struct world w = WORLD_INIT;
    struct world next = WORLD_INIT;
    (void)state;
    temp_dir_init(&dir);
    write_zone(&dir, "Berlin", "CET-1CEST,M3.5.0,M10.5.0/3");
    write_zone(&dir, "Rome", "CET-1");
    write_zone(&dir, "Lima", "<-05>5");
    policy_case_options.zones = dir.path;
    add(&w, TRAFFIC_FAULT_INJECTION, "a", ZONED("Berlin"));
    add(&w, TRAFFIC_FAULT_INJECTION, "b", ZONED("Rome"));
    add(&w, TRAFFIC_FAULT_INJECTION, "c", ZONED("Lima"));
    w.published = compile(&w);
    assert_non_null(strstr(buf_cstr(&w.text),
                           "\"zones\":{\"Berlin\":\"CET-1CEST,M3.5.0,M10.5.0/3\",\"Lima\":"
                           "\"<-05>5\",\"Rome\":\"CET-1\"}"));
    write_zone(&dir, "Rome", "CET-2");
    next.published = traffic_ref(w.published);
    add(&next, TRAFFIC_FAULT_INJECTION, "a", " httpFault: 5\n");
    add(&next, TRAFFIC_FAULT_INJECTION, "b", " httpFault: 5\n");
    add(&next, TRAFFIC_FAULT_INJECTION, "d", ZONED("Rome"));
    struct traffic *t = compile(&next);
    expect_outcomes(&next,
                    (const enum traffic_outcome[]){TRAFFIC_KEPT, TRAFFIC_KEPT, TRAFFIC_COMPILED});
    assert_non_null(strstr(buf_cstr(&next.text),
                           "\"zones\":{\"Berlin\":\"CET-1CEST,M3.5.0,M10.5.0/3\",\"Rome\":"
                           "\"CET-2\"}"));
    traffic_unref(t);
    policy_case_options.zones = "/nonexistent";
    world_deinit(&next);
    world_deinit(&w);
    temp_dir_deinit(&dir);
}

/* One that was deleted and made anew is another object. */
static void test_another_uid_keeps_nothing(void **state)
{
    (void)state;
    struct world w = WORLD_INIT;
    add(&w, TRAFFIC_BREAKER, "a", SPEC("r"));
    w.published = compile(&w);
    struct world next = WORLD_INIT;
    next.published = traffic_ref(w.published);
    add_text(&next, "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\nkind: CircuitBreaker\n"
                    "metadata: {name: a, uid: other}\nspec: 5\n");
    assert_null(compile(&next));
    expect_outcomes(&next, (const enum traffic_outcome[]){TRAFFIC_INVALID});
    world_deinit(&next);
    world_deinit(&w);
}

static void test_kept_counts_like_the_others(void **state)
{
    (void)state;
    struct world w = WORLD_INIT;
    add_rows(&w, "a", TRAFFIC_ROWS_MAX, 1);
    w.published = compile(&w);
    struct world next = WORLD_INIT;
    next.published = traffic_ref(w.published);
    add_text(&next, "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\nkind: CircuitBreaker\n"
                    "metadata: {name: a, uid: u-a}\nspec: 5\n");
    add_rows(&next, "b", 1, 1);
    traffic_unref(compile(&next));
    expect_outcomes(&next, (const enum traffic_outcome[]){TRAFFIC_KEPT, TRAFFIC_TOO_MANY});
    world_deinit(&next);
    world_deinit(&w);
}

/* ---- recovery ---- */

static void test_reset_tokens(void **state)
{
    (void)state;
    struct world w = WORLD_INIT;
    add_aged(&w, "a", "01:00:00",
             ", annotations: {circuitbreaker.ctrlmesh.kusionstack.io/recover: '*=7'}", SPEC("r"));
    struct traffic *t = compile(&w);
    assert_string_equal(traffic_limiting_at(t, 0)->reset, "7");
    traffic_unref(t);
    world_deinit(&w);
}

/* ---- errors ---- */

static void test_a_shard_that_cannot_be(void **state)
{
    (void)state;
    struct world w = WORLD_INIT;
    struct err e = ERR_INIT;
    add(&w, TRAFFIC_BREAKER, "a", SPEC("r"));
    w.generation = 0;
    assert_int_equal(try_compile(&w, &e), -EINVAL);
    assert_int_equal(w.text.len, 0);
    world_deinit(&w);
}

/* ---- which shards ---- */

static void test_concerns(void **state)
{
    (void)state;
    static const struct {
        const char *pods;
        const char *spec;
        bool concerns;
    } all[] = {
        {"app=demo", " selector: {matchLabels: {app: demo}}\n", true},
        {"app=demo", " selector: {matchLabels: {app: other}}\n", false},
        {"app=demo", " selector: {matchLabels: {pod: demo-0}}\n", true},
        {"app=demo", " selector: {}\n", true},
        {"app=demo", " rateLimitings: []\n", false}, /* selects nothing */
        {"app=demo", " selector: {matchExpressions: [{key: a, operator: In, values: []}]}\n",
         false},
        {"app=demo", " selector: {matchLabels: {app: other}}\n rateLimitings: 5\n", true},
        {"app=demo", " selector: 5\n", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct err e = ERR_INIT;
        struct selector *pods = selector_parse(slice_str(all[i].pods), &e);
        struct policy *p =
            policy_case_object(policy_case_text(TRAFFIC_BREAKER, "a", all[i].spec), NULL);
        assert_non_null(pods);
        if (traffic_concerns(pods, p) != all[i].concerns) {
            fail_msg("%s and%s", all[i].pods, all[i].spec);
        }
        selector_free(pods);
        policy_unref(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_document),
        cmocka_unit_test(test_order_does_not_matter),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_too_many_policies),
        cmocka_unit_test(test_too_many_rows_and_names),
        cmocka_unit_test(test_external_rules),
        cmocka_unit_test(test_too_many_external_rules),
        cmocka_unit_test(test_one_that_is_too_large_by_itself),
        cmocka_unit_test(test_invalid_keeps_what_was_published),
        cmocka_unit_test(test_zones),
        cmocka_unit_test(test_another_uid_keeps_nothing),
        cmocka_unit_test(test_kept_counts_like_the_others),
        cmocka_unit_test(test_reset_tokens),
        cmocka_unit_test(test_a_shard_that_cannot_be),
        cmocka_unit_test(test_concerns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
