/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/coverage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"

#define NS "ctrlmesh.kusionstack.io/namespace"
#define HASH "ctrlmesh.kusionstack.io/hash"

enum { SHARDS_MAX = 4 };

struct group {
    struct rules *rules[SHARDS_MAX];
    struct coverage *coverage;
    size_t count;
};

static struct rules *rules_of(const char *resource, const char *selector)
{
    char text[1024];
    struct err e = ERR_INIT;
    (void)snprintf(text, sizeof text,
                   "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":"
                   "\"n\",\"name\":\"a\"},\"generation\":1,\"spec\":{\"limits\":[{\"apiGroups\":["
                   "\"\"],\"resources\":[\"%s\"],\"selector\":\"%s\"}],\"labels\":{"
                   "\"namespace\":\"" NS "\",\"shardHash\":\"" HASH "\"}}}",
                   resource, selector);
    struct rules *r = rules_parse(text, strlen(text), &e);
    if (r == NULL) {
        fail_msg("%s", e.msg);
    }
    return r;
}

/* Selectors of limits on pods, or "RESOURCE:SELECTOR"; NULL ends. */
static void group_init(struct group *g, const char *const *selectors)
{
    for (g->count = 0; selectors[g->count] != NULL; g->count++) {
        const char *text = selectors[g->count];
        const char *colon = strchr(text, ':');
        char resource[32] = "pods";
        if (colon != NULL) {
            (void)snprintf(resource, sizeof resource, "%.*s", (int)(colon - text), text);
        }
        g->rules[g->count] = rules_of(resource, colon == NULL ? text : colon + 1);
    }
    g->coverage = coverage_new((const struct rules *const *)g->rules, g->count, NULL);
    assert_non_null(g->coverage);
}

static void group_deinit(struct group *g)
{
    coverage_free(g->coverage);
    for (size_t i = 0; i < g->count; i++) {
        rules_unref(g->rules[i]);
    }
}

#define GROUP(...)                                                                                 \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static void expect(const char *const *selectors, const char *ns, enum coverage_verdict want)
{
    struct group g;
    size_t a = 9;
    size_t b = 9;
    group_init(&g, selectors);
    assert_true(coverage_by_namespace(g.coverage));
    assert_int_equal(coverage_look(g.coverage, ns, &a, &b), want);
    if (want == COVERAGE_OVERLAP) {
        assert_true(a < b && b < g.count);
        assert_true(coverage_has(g.coverage, a) && coverage_has(g.coverage, b));
    }
    group_deinit(&g);
}

static void test_shared(void **state)
{
    (void)state;
    char *names[] = {"ops"};
    const struct sharing_set shared = {.names = names, .count = ARRAY_LEN(names)};
    struct group g;
    size_t a = 9;
    size_t b = 9;
    group_init(&g, GROUP(HASH " in (0,1,ops)", HASH " in (1,2,ops)"));
    assert_int_equal(coverage_look(g.coverage, "ops", &a, &b), COVERAGE_OVERLAP);
    coverage_set_shared(g.coverage, &shared);
    assert_int_equal(coverage_look(g.coverage, "ops", &a, &b), COVERAGE_ONE);
    assert_true(coverage_has(g.coverage, 0) && coverage_has(g.coverage, 1));
    assert_int_equal(coverage_look(g.coverage, "a", &a, &b), COVERAGE_OVERLAP); /* of hash 1 */
    group_deinit(&g);
    group_init(&g, GROUP(NS " in (a)", NS " in (b)"));
    coverage_set_shared(g.coverage, &shared);
    assert_int_equal(coverage_look(g.coverage, "ops", &a, &b), COVERAGE_GAP);
    group_deinit(&g);
}

static void test_by_name(void **state)
{
    (void)state;
    const char *const *two = GROUP(NS " in (x,y)", NS "," NS " notin (x,y)");
    expect(two, "x", COVERAGE_ONE);
    expect(two, "z", COVERAGE_ONE);
    const char *const *bad = GROUP(NS " in (x,y)", NS " in (y,z)");
    expect(bad, "x", COVERAGE_ONE);
    expect(bad, "y", COVERAGE_OVERLAP);
    expect(bad, "w", COVERAGE_GAP);
    expect(GROUP(NS " in (x)"), "y", COVERAGE_GAP); /* alone */
    expect(GROUP(NS " in (x)", "k,!k," NS " in (y)"), "y", COVERAGE_ONE);
}

static void test_by_hash(void **state)
{
    (void)state; /* of "a": 97 mod 32 is 1; of "b": 2 */
    const char *const *two = GROUP(HASH " in (0,1)", HASH " in (1,3)");
    expect(two, "a", COVERAGE_OVERLAP);
    expect(two, "b", COVERAGE_GAP);
    expect(two, "c", COVERAGE_ONE);
}

static void test_other_labels_keep_them_apart(void **state)
{
    (void)state;
    expect(GROUP(NS " in (x),app in (one)", NS " in (x),app in (two)"), "x", COVERAGE_ONE);
    expect(GROUP(NS " in (x),app in (one)", NS " in (x),color in (red)"), "x", COVERAGE_OVERLAP);
    expect(GROUP("pods:" NS " in (x)", "secrets:" NS " in (x)"), "x", COVERAGE_ONE);
    expect(GROUP("*:" NS " in (x)", "secrets:" NS " in (x)"), "x", COVERAGE_OVERLAP);
    expect(GROUP("secrets:" NS " in (x)", "*:" NS " in (x)"), "x", COVERAGE_OVERLAP);
}

static void test_which_shards(void **state)
{
    struct group g;
    size_t a = 0;
    size_t b = 0;
    (void)state;
    group_init(&g, GROUP(NS " in (w)", NS " in (x)", NS " in (x,y)"));
    assert_int_equal(coverage_look(g.coverage, "x", &a, &b), COVERAGE_OVERLAP);
    assert_int_equal(a, 1);
    assert_int_equal(b, 2);
    assert_int_equal(coverage_look(g.coverage, "y", &a, &b), COVERAGE_ONE);
    assert_false(coverage_has(g.coverage, 1));
    assert_true(coverage_has(g.coverage, 2));
    group_deinit(&g);
    group_init(&g, GROUP(NS " in (x)", "app in (y)"));
    assert_false(coverage_by_namespace(g.coverage));
    group_deinit(&g);
}

/* One that is looked at with so few steps is not known any more; nor is what comes after. */
static void test_too_many_steps(void **state)
{
    struct group g;
    size_t a;
    size_t b;
    enum coverage_verdict last = COVERAGE_UNKNOWN;
    (void)state;
    group_init(&g, GROUP(NS ",part=a", NS ",part=b", NS ",part=c"));
    for (size_t steps = 1; steps < 100; steps++) {
        const struct coverage_bounds bounds = {.steps = steps};
        struct coverage *c = coverage_new((const struct rules *const *)g.rules, g.count, &bounds);
        enum coverage_verdict verdict = coverage_look(c, "x", &a, &b);
        assert_true(verdict == COVERAGE_UNKNOWN || verdict == COVERAGE_ONE);
        assert_true(last == COVERAGE_UNKNOWN || verdict == COVERAGE_ONE);
        for (unsigned i = 0; i < 100; i++) {
            last = coverage_look(c, "x", &a, &b);
        }
        assert_int_equal(last, COVERAGE_UNKNOWN);
        last = verdict;
        coverage_free(c);
    }
    assert_int_equal(last, COVERAGE_ONE);
    group_deinit(&g);
}

static void test_stopped(void **state)
{
    struct group g;
    size_t a;
    size_t b;
    atomic_bool stop = false;
    const struct coverage_bounds bounds = {.steps = SIZE_MAX, .stop = &stop};
    (void)state;
    group_init(&g, GROUP(NS " in (x)", NS " in (y)"));
    struct coverage *c = coverage_new((const struct rules *const *)g.rules, g.count, &bounds);
    assert_int_equal(coverage_look(c, "x", &a, &b), COVERAGE_ONE);
    stop = true;
    assert_int_equal(coverage_look(c, "y", &a, &b), COVERAGE_UNKNOWN);
    coverage_free(c);
    group_deinit(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared),       cmocka_unit_test(test_by_name),
        cmocka_unit_test(test_by_hash),      cmocka_unit_test(test_other_labels_keep_them_apart),
        cmocka_unit_test(test_which_shards), cmocka_unit_test(test_too_many_steps),
        cmocka_unit_test(test_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
