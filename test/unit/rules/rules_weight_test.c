/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rules, and the trees that they are compiled from, take of memory, against what the allocator
 * says.
 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "compile/compile.h"
#include "rules/rules.h"
#include "json/json.h"

/* Allocators differ in what they need besides what they are asked for. */
#ifdef CMESH_SANITIZED
enum { AT_LEAST = 100, AT_MOST = 210 }; /* % of the bytes that were asked for */
size_t __sanitizer_get_current_allocated_bytes(void);
static size_t allocated(void)
{
    return __sanitizer_get_current_allocated_bytes();
}
#else
enum { AT_LEAST = 90, AT_MOST = 110 }; /* % of the bytes that it took */
static size_t allocated(void)
{
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}
#endif

static void expect_near(size_t weight, size_t bytes)
{
    assert_in_range(weight * 100 / bytes, AT_LEAST, AT_MOST);
}

/* Limits of which each has `values` values of its own; `same`: they have the same. */
static void write_limits(struct buf *out, unsigned limits, unsigned values, bool same)
{
    for (unsigned i = 0; i < limits; i++) {
        buf_printf(out,
                   "%s{\"relateResources\":[{\"apiGroups\":[\"g%u\"],\"resources\":[\"r\",\"s\"]}],"
                   "\"selector\":{\"matchExpressions\":[{\"key\":\"k%u\",\"operator\":\"In\","
                   "\"values\":[\"v\"",
                   i == 0 ? "" : ",", i, same ? 0 : i);
        for (unsigned v = 0; v < values; v++) {
            buf_printf(out, ",\"value-%u\"", v);
        }
        buf_append_str(out, "]}]}}");
    }
}

static cJSON *make_config(unsigned limits, unsigned values, bool same, const char *wide)
{
    struct buf text = BUF_INIT(8 << 20);
    buf_append_str(&text, "{\"apiVersion\":\"" COMPILE_API_VERSION "\",\"kind\":\"" COMPILE_KIND
                          "\",\"metadata\":{\"name\":\"a\",\"namespace\":\"n\"},"
                          "\"spec\":{\"selector\":{\"matchLabels\":{\"a\":\"b\"}},"
                          "\"limits\":[");
    buf_append_str(&text, wide);
    write_limits(&text, limits, values, same);
    buf_append_str(&text, "]}}");
    assert_int_equal(buf_error(&text), 0);
    cJSON *root = json_parse(buf_cstr(&text), text.len, NULL);
    assert_non_null(root);
    buf_reset(&text);
    return root;
}

static struct rules *compile(const cJSON *config)
{
    static const struct compile_options options = {
        .generation = 1,
        .labels = {.namespace = "namespace", .shard_hash = "hash", .control = "control"}};
    struct err e = ERR_INIT;
    struct rules *r = compile_config(config, &options, &e);
    if (r == NULL) {
        fail_msg("%s", e.msg);
    }
    return r;
}

static struct rules *made(unsigned limits)
{
    cJSON *config = make_config(limits, 0, false, "");
    struct rules *r = compile(config);
    cJSON_Delete(config);
    return r;
}

#define WIDE                                                                                       \
    "{\"relateResources\":[{\"apiGroups\":[\"*\"],\"resources\":[\"*\"]}],\"selector\":{"          \
    "\"matchLabels\":{\"a\":\"1\",\"b\":\"2\",\"c\":\"3\",\"d\":\"4\",\"e\":\"5\"}}},"

static void weight_is_what_they_take(void **state)
{
    static const struct {
        unsigned limits;
        unsigned values;
        bool same;
        const char *wide;
    } cases[] = {{1000, 0, false, ""},
                 {1000, 0, true, ""},
                 {1000, 0, false, WIDE},
                 {10, 5000, false, WIDE},
                 {10, 5000, true, ""}};
    (void)state;
    rules_unref(made(1)); /* what is made once */
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t before = allocated();
        cJSON *config = make_config(cases[i].limits, cases[i].values, cases[i].same, cases[i].wide);
        size_t between = allocated();
        expect_near(json_weight(config), between - before);
        struct rules *r = compile(config);
        expect_near(rules_weight(r), allocated() - between);
        rules_unref(r);
        cJSON_Delete(config);
    }
}

static void what_is_shared_counts_once(void **state)
{
    struct byte_budget one = {.max = SIZE_MAX};
    struct byte_budget other = {.max = SIZE_MAX};
    struct rules *r = made(100);
    struct rules *later = rules_with_generation(r, 7, 0);
    size_t weight = rules_weight(r);
    (void)state;
    assert_non_null(later);
    assert_int_equal(rules_counted(r), 0);
    rules_count_once(later, &one);
    assert_int_equal(one.used, weight);
    assert_int_equal(rules_counted(r), weight);
    assert_int_equal(rules_counted(later), weight);
    rules_count_once(r, &other); /* it counts already */
    assert_int_equal(one.used, weight);
    assert_int_equal(other.used, 0);
    rules_unref(r);
    assert_int_equal(one.used, weight);
    rules_count_in(later, &other);
    assert_int_equal(one.used, 0);
    assert_int_equal(other.used, weight);
    rules_unref(later);
    assert_int_equal(other.used, 0);
}

/* Nothing of theirs is left behind where nothing was counted. */
static void small_ones_count_nowhere(void **state)
{
    struct byte_budget *budget = calloc(1, sizeof *budget);
    struct rules *r = made(0);
    (void)state;
    assert_non_null(budget);
    assert_true(rules_weight(r) < BYTE_SHARE_FREE);
    rules_count_once(r, budget);
    assert_int_equal(budget->used, 0);
    assert_int_equal(rules_counted(r), 0);
    free(budget);
    rules_unref(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weight_is_what_they_take),
        cmocka_unit_test(what_is_shared_counts_once),
        cmocka_unit_test(small_ones_count_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
