/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "validate.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SPEC_A "{\"limits\":[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],\"selector\":\"a=b\"}]}"
#define SPEC_B "{\"limits\":[]}"
#define PLACE "/etc/cmesh/rules.json"

static struct rules *current;

static int teardown(void **state)
{
    (void)state;
    rules_unref(current);
    current = NULL;
    return 0;
}

static const char *document(const char *shard, uint64_t generation, const char *spec)
{
    static char text[1024];
    (void)snprintf(text, sizeof text,
                   "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":"
                   "\"ns\",\"name\":\"%s\"},\n\"generation\":%" PRIu64 ",\"spec\":%s}",
                   shard, generation, spec);
    return text;
}

static void use(const char *text, const char *shard)
{
    struct offer offer;
    struct err e = ERR_INIT;
    if (validate_rules(slice_str(text), PLACE, shard, current, &offer, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    assert_int_equal(offer.refusal, REFUSAL_NONE);
    rules_unref(current);
    current = offer.rules;
}

static void refused(const char *text, const char *shard, int code, enum refusal refusal,
                    const char *words)
{
    struct offer offer;
    struct err e = ERR_INIT;
    assert_int_equal(validate_rules(slice_str(text), PLACE, shard, current, &offer, &e), code);
    assert_int_equal(offer.refusal, refusal);
    if (strstr(e.msg, words) == NULL || strstr(e.msg, PLACE ": ") != e.msg) {
        fail_msg("wanted \"%s\", got \"%s\"", words, e.msg);
    }
    assert_int_equal(offer.rules == NULL, refusal == REFUSAL_INVALID);
    rules_unref(offer.rules);
}

static void takes_the_first_newer_ones_and_the_same(void **state)
{
    (void)state;
    use(document("a", 7, SPEC_A), NULL);
    use(document("a", 7, SPEC_A), "ns/a");
    use(document("a", 8, SPEC_B), "ns/a");
    use(document("a", 100, SPEC_B), NULL); /* the same rules under a newer generation */
    assert_int_equal(rules_generation(current), 100);
}

static void refuses_older(void **state)
{
    (void)state;
    use(document("a", 7, SPEC_A), NULL);
    refused(document("a", 6, SPEC_A), NULL, -ESTALE, REFUSAL_OLDER,
            "generation 6 is older than generation 7, which is in use");
    refused(document("a", 7, SPEC_B), NULL, -EINVAL, REFUSAL_CONFLICT,
            "rules that change need a higher generation");
}

/* Who wrote rules of the largest generation there is does not have the last word. */
static void takes_the_place_of_void_ones(void **state)
{
    static const char spec[] = SPEC_B ",\"voids\":4503599627370496";
    (void)state;
    use(document("a", 7, SPEC_A), NULL);
    use(document("a", RULES_GENERATION_MAX, SPEC_A), NULL);
    refused(document("a", 8, SPEC_B), NULL, -ESTALE, REFUSAL_OLDER, "which is in use");
    use(document("a", 8, spec), NULL);
    assert_int_equal(rules_generation(current), 8);
    use(document("a", 8, SPEC_B), NULL);
    refused(document("a", 7, spec), NULL, -ESTALE, REFUSAL_OLDER, "generation 7 is older");
    use(document("a", RULES_GENERATION_MAX - 1, SPEC_A), NULL);
    refused(document("a", 9, spec), NULL, -ESTALE, REFUSAL_OLDER, "generation 9 is older");
}

static void refuses_another_shard(void **state)
{
    (void)state;
    refused(document("a", 7, SPEC_A), "ns/b", -EINVAL, REFUSAL_SHARD,
            "these are the rules of shard ns/a, not of ns/b");
    refused(document("a", 7, SPEC_A), "n/a", -EINVAL, REFUSAL_SHARD, "not of n/a");
    refused(document("a", 7, SPEC_A), "ns/aa", -EINVAL, REFUSAL_SHARD, "not of ns/aa");
    refused(document("aa", 7, SPEC_A), "ns/a", -EINVAL, REFUSAL_SHARD, "not of ns/a");
    use(document("a", 7, SPEC_A), NULL);
    refused(document("b", 8, SPEC_A), NULL, -EINVAL, REFUSAL_SHARD,
            "shard ns/b, but those in use are of shard ns/a");
}

static void refuses_what_is_not_valid(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *words;
    } cases[] = {
        {"", "line 1"},
        {"{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",", "line 1"},
        {"{\"apiVersion\":\"cmesh/v9\"}", "apiVersion: Unsupported value"},
        {"{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":\"ns\","
         "\"name\":\"a\"},\"generation\":9,\"checksum\":\"sha256:"
         "0000000000000000000000000000000000000000000000000000000000000000\",\"spec\":" SPEC_A "}",
         "checksum: Invalid value"},
        {"{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":\"ns\","
         "\"name\":\"a\"},\"generation\":9,\"spec\":{\"limits\":[],\"faults\":[]}}",
         "spec.faults: Forbidden: unknown field"},
        {"{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":\"ns\","
         "\"name\":\"a\"},\"generation\":9,\n\"spec\":{\"limits\":[{\"apiGroups\":[\"\"],"
         "\"resources\":[\"pods\"],\"selector\":\"a in\"}]}}",
         "line 2: spec.limits[0].selector"},
    };
    use(document("a", 7, SPEC_A), NULL);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        refused(cases[i].text, NULL, -EINVAL, REFUSAL_INVALID, cases[i].words);
    }
}

static void names_every_reason(void **state)
{
    (void)state;
    for (unsigned i = 0; i < REFUSALS; i++) {
        assert_non_null(refusal_text(i));
        for (unsigned j = 0; j < i; j++) {
            assert_string_not_equal(refusal_text(i), refusal_text(j));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(takes_the_first_newer_ones_and_the_same, teardown),
        cmocka_unit_test_teardown(refuses_older, teardown),
        cmocka_unit_test_teardown(takes_the_place_of_void_ones, teardown),
        cmocka_unit_test_teardown(refuses_another_shard, teardown),
        cmocka_unit_test_teardown(refuses_what_is_not_valid, teardown),
        cmocka_unit_test(names_every_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
