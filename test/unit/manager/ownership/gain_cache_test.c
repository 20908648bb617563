/* SPDX-License-Identifier: Apache-2.0 */
#include "ownership/gain_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "compile/rules_gain.h"

/* So many resources, by one selector. */
static struct rules *make(const char *selector, unsigned resources)
{
    struct buf text = BUF_INIT(1 << 20);
    struct err e = ERR_INIT;
    buf_append_str(&text, "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{"
                          "\"namespace\":\"n\",\"name\":\"a\"},\"generation\":1,"
                          "\"spec\":{\"limits\":[{\"apiGroups\":[\"\"],\"resources\":[\"r\"");
    for (unsigned i = 1; i < resources; i++) {
        buf_printf(&text, ",\"r%u\"", i);
    }
    buf_printf(&text, "],\"selector\":\"%s\"}]}}", selector);
    assert_int_equal(buf_error(&text), 0);
    struct rules *r = rules_parse(buf_cstr(&text), text.len, &e);
    if (r == NULL) {
        fail_msg("%s", e.msg);
    }
    buf_reset(&text);
    return r;
}

/* Whatever was asked before, all answers are those of rules_gain. */
static void answers_as_rules_do(void **state)
{
    static const char *const selectors[] = {"k=1", "k=2", "k in (1,2)", "k=3", "k in (2,3)"};
    enum { COUNT = ARRAY_LEN(selectors), TURNS = 3 };
    struct rules *rules[COUNT + 1] = {NULL};
    struct gain_cache *c = gain_cache_new();
    (void)state;
    assert_non_null(c);
    for (size_t i = 0; i < COUNT; i++) {
        rules[i + 1] = make(selectors[i], 200);
    }
    for (size_t i = 0; i < TURNS * (COUNT + 1) * COUNT * (COUNT + 1); i++) {
        const struct rules *from = rules[i % (COUNT + 1)];
        const struct rules *to = rules[1 + i / (COUNT + 1) % COUNT];
        const struct rules *others = rules[i / (COUNT + 1) / COUNT % (COUNT + 1)];
        assert_int_equal(gain_cache_ask(c, from, to, others), rules_gain(from, to, others));
    }
    assert_true(gain_cache_hits(c) > 0);
    for (size_t i = 1; i <= COUNT; i++) {
        rules_unref(rules[i]);
    }
    gain_cache_free(c);
}

static void remembers_what_costs(void **state)
{
    struct rules *a = make("k=1", 200);
    struct rules *b = make("k=2", 200);
    struct rules *again = make("k=2", 200);
    struct rules *small = make("k=1", 2);
    struct gain_cache *c = gain_cache_new();
    (void)state;
    assert_non_null(c);
    assert_false(gain_cache_ask(c, NULL, a, b));
    assert_int_equal(gain_cache_hits(c), 0);
    assert_false(gain_cache_ask(c, NULL, a, again)); /* the same rules */
    assert_int_equal(gain_cache_hits(c), 1);
    assert_false(gain_cache_ask(c, NULL, b, a)); /* the same question */
    assert_int_equal(gain_cache_hits(c), 2);
    assert_true(gain_cache_ask(c, a, b, NULL)); /* which is found soon */
    assert_true(gain_cache_ask(c, a, b, NULL));
    assert_false(gain_cache_ask(c, small, small, small));
    assert_false(gain_cache_ask(c, small, small, small));
    assert_int_equal(gain_cache_hits(c), 2);
    rules_unref(a);
    rules_unref(b);
    rules_unref(again);
    rules_unref(small);
    gain_cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_as_rules_do),
        cmocka_unit_test(remembers_what_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
