/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/sharing.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/xalloc.h"
#include "compile/rules_gain.h"
#include "entry_text.h"
#include "json/json.h"

#define NS "ctrlmesh.kusionstack.io/namespace"
#define HASH "ctrlmesh.kusionstack.io/sharding-hash"

static struct rules *limit_pods(const char *selector)
{
    struct err e = ERR_INIT;
    char *text =
        xasprintf("{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":"
                  "\"n\",\"name\":\"a\"},\"generation\":7,\"spec\":{\"limits\":[{\"apiGroups\":["
                  "\"\"],\"resources\":[\"pods\"],\"selector\":\"%s\"}]}}",
                  selector);
    struct rules *r = rules_parse(text, strlen(text), &e);
    if (r == NULL) {
        fail_msg("%.1000s: %s", selector, e.msg);
    }
    free(text);
    return r;
}

static cJSON *parse(const char *text)
{
    struct err e = ERR_INIT;
    cJSON *tree = json_parse(text, strlen(text), &e);
    assert_non_null(tree);
    return tree;
}

static char *names[] = {"logs", "ops"};
static const struct sharing_set all = {.names = names, .count = ARRAY_LEN(names)};

/* Whether a shard that has the one and gets the other gains anything that a third one sees; its
 * config shares ops. */
static bool waits(const char *from, const char *to, const char *others)
{
    cJSON *own = parse("[\"ops\"]");
    struct rules *old = from == NULL ? NULL : limit_pods(from);
    struct rules *new = limit_pods(to);
    struct rules *theirs = limit_pods(others);
    struct rules *alone = sharing_leave_out(new, own, &all);
    assert_non_null(alone);
    assert_int_equal(rules_generation(alone), 7);
    bool gain = rules_gain(old, alone, theirs);
    rules_unref(alone);
    rules_unref(theirs);
    rules_unref(new);
    rules_unref(old);
    cJSON_Delete(own);
    return gain;
}

static void what_is_shared_is_not_waited_for(void **state)
{
    (void)state;
    assert_false(waits(HASH " in (0)", HASH " in (0,ops)", HASH " in (1,ops)"));
    assert_false(waits(NULL, HASH " in (0,ops)", HASH " in (1,ops)"));
    assert_false(waits(NS " in (a)", NS " in (a,ops)", NS " in (b,ops)"));
    assert_false(waits(NS " in (a)", NS " in (a,ops)", NS " in (ops)"));
    assert_false(waits(HASH " in (0)," NS " notin (c)", HASH " in (0,ops)," NS " notin (c)",
                       NS " in (c,ops)"));
    /* another config shares logs, whose hash, 21, is this shard's */
    assert_false(waits(HASH " in (21)", HASH " in (21,logs,ops)", HASH " in (22,logs)"));
}

static void what_is_not_shared_is_waited_for(void **state)
{
    (void)state;
    assert_true(waits(HASH " in (0,ops)", HASH " in (0,1,ops)", HASH " in (1,ops)"));
    assert_true(waits(NS " in (ops)", NS " in (b,ops)", NS " in (b,ops)"));
    assert_true(waits("app=x", "app=y", "app=y"));
    assert_true(waits(HASH " in (0,ops)", HASH " in (0,21,logs,ops)", HASH " in (21,logs,ops)"));
}

static void nothing_is_shared(void **state)
{
    (void)state;
    struct rules *rules = limit_pods(NS " in (a,ops)");
    struct rules *same = sharing_leave_out(rules, NULL, &all);
    assert_ptr_equal(same, rules);
    rules_unref(same);
    same = sharing_leave_out(rules, NULL, NULL);
    assert_ptr_equal(same, rules);
    rules_unref(same);
    rules_unref(rules);
}

/* What `text` becomes when only what is shared is shown. */
static void expect_shared_alone(const char *text, const char *shared, const char *expected)
{
    cJSON *own = shared == NULL ? NULL : parse(shared);
    struct rules *rules = limit_pods(text);
    struct rules *made = sharing_only_shared(rules, own);
    struct rules *right = limit_pods(expected);
    assert_non_null(made);
    assert_string_equal(rules_checksum(made), rules_checksum(right));
    rules_unref(right);
    rules_unref(made);
    rules_unref(rules);
    cJSON_Delete(own);
}

static void what_is_shared_alone_is_shown(void **state)
{
    (void)state;
    expect_shared_alone(NS " in (a,ops)", "[\"ops\"]", NS " in (a,ops)," NS " in (ops)");
    expect_shared_alone(HASH " in (0,ops),app=foo", "[\"ops\"]",
                        HASH " in (0,ops),app=foo," NS " in (ops)");
    expect_shared_alone(NS " in (a)", NULL, SELECTOR_NOTHING);
    expect_shared_alone("app=foo", "[\"ops\"]", SELECTOR_NOTHING);
}

static void rules_without_limits_are_hidden_whole(void **state)
{
    static const char text[] =
        "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":\"n\","
        "\"name\":\"a\"},\"generation\":1,\"spec\":{\"limits\":[]}}";
    struct err e = ERR_INIT;
    (void)state;
    struct rules *rules = rules_parse_plain(text, strlen(text), &e);
    assert_non_null(rules);
    struct rules *made = sharing_only_shared(rules, NULL);
    assert_non_null(made);
    assert_true(rules_gain(made, rules, NULL));
    assert_false(rules_gain(NULL, made, NULL));
    assert_int_equal(rules_limit_count(made), 1);
    rules_unref(made);
    rules_unref(rules);
}

/* The same requirement again and again, whose canonical text has a blank more. */
static void a_selector_at_the_bound(void **state)
{
    enum { LENGTH = SELECTOR_TEXT_MAX / SELECTOR_REQUIREMENTS_MAX - 1 };
    struct buf one = BUF_INIT(LENGTH);
    struct buf text = BUF_INIT(SELECTOR_TEXT_MAX);
    (void)state;
    buf_printf(&one, HASH " in(0");
    for (unsigned i = 1; one.len + 65 < LENGTH; i++) {
        buf_printf(&one, ",%062u", i);
    }
    buf_printf(&one, ",%0*u)", (int)(LENGTH - one.len) - 2, 0U);
    for (size_t i = 0; i < SELECTOR_REQUIREMENTS_MAX; i++) {
        buf_printf(&text, "%s%s", i == 0 ? "" : ",", buf_cstr(&one));
    }
    assert_int_equal(buf_error(&text), 0);
    struct rules *rules = limit_pods(buf_cstr(&text));
    assert_null(sharing_leave_out(rules, NULL, &all));
    rules_unref(rules);
    buf_reset(&one);
    buf_reset(&text);
}

static const struct flag_list shareable = {.items = {"ops", "a", "b", "c"}, .count = 4};
static const struct sharing_consent any = {.any = &shareable};

/* A namespace is shared by a config of its own, or where the manager was told so. */
static void consent(void **state)
{
    (void)state;
    const struct flag_list some = {.items = {"b"}, .count = 1};
    struct sharing_set s = {.count = 0};
    struct sharing_set listed = {.count = 0};
    cJSON *config = parse("{\"spec\":{\"sharedNamespaces\":[\"ops\",\"a\",\"b\"]}}");
    sharing_set_add(&s, config, &(struct sharing_consent){.ns = "evil"});
    assert_int_equal(s.count, 0);
    sharing_set_add(&s, config, &(struct sharing_consent){.ns = "ops", .any = &some});
    assert_int_equal(s.count, 2);
    assert_true(sharing_set_has(&s, "ops") && sharing_set_has(&s, "b"));
    sharing_set_add(&listed, config, &(struct sharing_consent){.known = &s});
    assert_true(sharing_set_equal(&s, &listed));
    sharing_set_deinit(&s);
    sharing_set_deinit(&listed);
    cJSON_Delete(config);
}

static void sets(void **state)
{
    (void)state;
    struct sharing_set s = {.count = 0};
    struct sharing_set other = {.count = 0};
    cJSON *a = parse("{\"spec\":{\"sharedNamespaces\":[\"ops\",\"a\",\"ops\"]}}");
    cJSON *b = parse("{\"spec\":{\"sharedNamespaces\":[\"b\",\"a\"]}}");
    cJSON *wrong = parse("{\"spec\":{\"sharedNamespaces\":[\"c\",7]}}");
    assert_false(sharing_set_has(NULL, "a"));
    assert_false(sharing_set_has(&s, "a"));
    sharing_set_add(&s, a, &any);
    sharing_set_add(&s, b, &any);
    sharing_set_add(&s, wrong, &any);
    assert_int_equal(s.count, 3);
    assert_true(sharing_set_has(&s, "a"));
    assert_true(sharing_set_has(&s, "ops"));
    assert_false(sharing_set_has(&s, "c"));
    sharing_set_add(&other, b, &any);
    assert_false(sharing_set_equal(&s, &other));
    sharing_set_add(&other, a, &any);
    assert_true(sharing_set_equal(&s, &other));
    other.unknown = true;
    assert_false(sharing_set_equal(&s, &other));
    sharing_set_deinit(&s);
    sharing_set_deinit(&other);
    cJSON_Delete(a);
    cJSON_Delete(b);
    cJSON_Delete(wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_shared_is_not_waited_for),
        cmocka_unit_test(what_is_not_shared_is_waited_for),
        cmocka_unit_test(nothing_is_shared),
        cmocka_unit_test(what_is_shared_alone_is_shown),
        cmocka_unit_test(rules_without_limits_are_hidden_whole),
        cmocka_unit_test(a_selector_at_the_bound),
        cmocka_unit_test(consent),
        cmocka_unit_test(sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
