/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/coverage_report.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define NS "ctrlmesh.kusionstack.io/namespace"

static struct rules *rules_of(const char *name, const char *selector)
{
    char text[1024];
    struct err e = ERR_INIT;
    (void)snprintf(text, sizeof text,
                   "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":"
                   "\"n\",\"name\":\"%s\"},\"generation\":1,\"spec\":{\"limits\":[{\"apiGroups\":["
                   "\"\"],\"resources\":[\"pods\"],\"selector\":\"%s\"}]}}",
                   name, selector);
    struct rules *r = rules_parse(text, strlen(text), &e);
    if (r == NULL) {
        fail_msg("%s", e.msg);
    }
    return r;
}

struct pair {
    struct rules *rules[2];
};

/* Of "gap", "one" and "two". */
static void report_all(const struct pair *p, bool json, struct buf *out)
{
    static const char *const names[] = {"gap", "one", "two"};
    const struct rules *const *shards = (const struct rules *const *)p->rules;
    struct coverage_report r = COVERAGE_REPORT_INIT;
    struct coverage *c = coverage_new(shards, 2, NULL);
    coverage_report_begin(&r, shards, 2);
    for (size_t i = 0; i < 3; i++) {
        size_t a;
        size_t b;
        enum coverage_verdict verdict = coverage_look(c, names[i], &a, &b);
        coverage_report_add(&r, names[i], verdict, c);
    }
    coverage_report_end(&r, true);
    coverage_report_write(&r, json, out);
    assert_int_equal(buf_error(out), 0);
    assert_false(coverage_report_complete(&r));
    coverage_report_deinit(&r);
    coverage_free(c);
}

static void pair_init(struct pair *p)
{
    p->rules[0] = rules_of("a", NS " in (one,two)");
    p->rules[1] = rules_of("b", NS " in (two)");
}

static void pair_deinit(struct pair *p)
{
    rules_unref(p->rules[0]);
    rules_unref(p->rules[1]);
}

static void for_people_and_for_programs(void **state)
{
    struct pair p;
    struct buf out = BUF_INIT(4096);
    (void)state;
    pair_init(&p);
    report_all(&p, false, &out);
    assert_string_equal(
        buf_cstr(&out),
        "OPERATOR                                  SHARDS  COVERED   GAPS  OVERLAPS\n"
        "n                                              2        1      1         1\n"
        "  in no shard: gap\n"
        "  in several shards: two (a, b)\n");
    buf_clear(&out);
    report_all(&p, true, &out);
    assert_string_equal(buf_cstr(&out),
                        "{\"operators\":[{\"byNamespace\":true,\"covered\":1,\"gaps\":[\"gap\"],"
                        "\"leaderElectionName\":\"\",\"namespace\":\"n\",\"overlaps\":[{"
                        "\"namespace\":\"two\",\"shards\":[\"a\",\"b\"]}],\"shards\":[\"a\","
                        "\"b\"]}]}\n");
    buf_reset(&out);
    pair_deinit(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(for_people_and_for_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
