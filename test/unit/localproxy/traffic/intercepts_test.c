/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/intercepts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "traffic_document.h"

#define RULE(name, type, content, contents, methods)                                               \
    "{\"name\":\"" name "\",\"interceptType\":\"" type "\",\"contentType\":\"" content             \
    "\",\"contents\":[" contents "],\"methods\":[" methods "]}"
#define WHITE(name, contents, methods) RULE(name, "Whitelist", "Normal", contents, methods)
#define BLACK(name, contents, methods) RULE(name, "Blacklist", "Normal", contents, methods)
#define POLICY(name, uid, rules)                                                                   \
    "{\"name\":\"" name "\",\"uid\":\"" uid                                                        \
    "\",\"spec\":{\"selector\":{},\"trafficInterceptRules\":[" rules "]}}"
#define SPEC(policies) "{\"breakers\":[" policies "]}"

static struct traffic_active active;

/* NULL: none. */
static void put_in_force(struct intercepts *all, const char *spec)
{
    struct intercept_set *set = NULL;
    struct traffic *t = spec != NULL ? traffic_document(1, spec) : NULL;
    memset(&active, 0, sizeof active);
    if (t != NULL) {
        assert_int_equal(intercepts_prepare(t, &set), 0);
        traffic_active_set(&active, t, NULL, 0);
    }
    intercepts_put_in_force(all, set);
    intercepts_activate(all, NULL, 0);
    traffic_unref(t);
}

static const struct traffic_external tunnel = {
    .tunnel = true, .host = SLICE("a.example"), .port = 443, .method = SLICE("CONNECT")};
static const struct traffic_external get = {
    .host = SLICE("a.example"), .port = 8080, .path = SLICE("/"), .method = SLICE("GET")};

/* What is told; "": it is allowed. Until the next call. */
static const char *ask(struct intercepts *all, const struct traffic_external *r)
{
    static char text[1024];
    struct buf why = BUF_INIT(sizeof text);
    bool allowed = intercepts_allow(all, &active, r, &why);
    assert_int_equal(allowed, why.len == 0);
    assert_int_equal(buf_error(&why), 0);
    (void)snprintf(text, sizeof text, "%s", allowed ? "" : buf_cstr(&why));
    buf_reset(&why);
    return text;
}

static void test_messages(void **state)
{
    struct intercepts all = {.now = NULL};
    (void)state;
    assert_string_equal(ask(&all, &tunnel), "");
    put_in_force(&all, SPEC(POLICY("guard", "", WHITE("x", "\"b\"", "\"*\""))));
    assert_string_equal(ask(&all, &tunnel),
                        "CircuitBreaker \"guard\" does not allow requests to a.example:443: no "
                        "Whitelist rule names it");
    assert_string_equal(ask(&all, &get),
                        "CircuitBreaker \"guard\" does not allow requests to a.example:8080: no "
                        "Whitelist rule names it");
    struct traffic_external v6 = get;
    v6.host = SLICE("::1");
    assert_string_equal(ask(&all, &v6), "CircuitBreaker \"guard\" does not allow requests to "
                                        "[::1]:8080: no Whitelist rule names it");
    put_in_force(&all, SPEC(POLICY("guard", "", BLACK("x", "\"a.example\"", "\"PUT\""))));
    assert_string_equal(ask(&all, &tunnel),
                        "CircuitBreaker \"guard\" does not allow requests to a.example:443: "
                        "Blacklist rule \"x\" names it");
    put_in_force(&all,
                 SPEC(POLICY("guard", "",
                             WHITE("x", "\"a.example\",\"a.example:8080\"", "\"PUT\",\"POST\""))));
    assert_string_equal(ask(&all, &tunnel),
                        "CircuitBreaker \"guard\" does not allow requests to a.example:443: rule "
                        "\"x\" allows it for PUT, POST only, which nobody can see in a tunnel: add "
                        "CONNECT or * to its methods");
    assert_string_equal(ask(&all, &get), "CircuitBreaker \"guard\" does not allow requests to "
                                         "a.example:8080: rule \"x\" allows it for PUT, POST only");
    intercepts_deinit(&all);
}

static void test_many_methods_are_cut(void **state)
{
    struct intercepts all = {.now = NULL};
    (void)state;
    put_in_force(&all, SPEC(POLICY("guard", "",
                                   WHITE("x", "\"a.example:8080\"",
                                         "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\","
                                         "\"BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB\","
                                         "\"CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC\","
                                         "\"DDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD\""))));
    const char *text = ask(&all, &get);
    assert_non_null(strstr(text, "allows it for AAAA"));
    assert_non_null(strstr(text, "CCCC... only"));
    assert_true(strlen(text) < 300);
    intercepts_deinit(&all);
}

static struct traffic_external bomb(void)
{
    static char host[250];
    memset(host, 'a', sizeof host - 1);
    host[sizeof host - 1] = '-';
    struct traffic_external r = get;
    r.host = slice_of(host, sizeof host);
    return r;
}

/* Refused, and counted though documents come and go. */
static void test_exhausted(void **state)
{
    static const char spec[] =
        SPEC(POLICY("guard", "", RULE("x", "Whitelist", "Regexp", "\"(a+)+$\"", "\"*\"")));
    struct intercepts all = {.now = NULL};
    struct traffic_external r = bomb();
    (void)state;
    assert_int_equal(intercepts_exhausted(&all), 0);
    put_in_force(&all, spec);
    assert_non_null(strstr(ask(&all, &r), "an expression of rule \"x\" takes too long with it"));
    assert_int_equal(all.now->at[0].refused, 1);
    assert_int_equal(intercepts_exhausted(&all), 1);
    put_in_force(&all, spec);
    assert_int_equal(intercepts_exhausted(&all), 1);
    (void)ask(&all, &r);
    assert_int_equal(intercepts_exhausted(&all), 2);
    put_in_force(&all, NULL);
    assert_int_equal(intercepts_exhausted(&all), 2);
    intercepts_deinit(&all);
}

/* The same document put in force again is counted once. */
static void test_exhausted_of_one_document(void **state)
{
    struct intercepts all = {.now = NULL};
    struct traffic_external r = bomb();
    struct traffic *t = traffic_document(
        1, SPEC(POLICY("guard", "", RULE("x", "Whitelist", "Regexp", "\"(a+)+$\"", "\"*\""))));
    (void)state;
    traffic_active_set(&active, t, NULL, 0);
    for (unsigned i = 0; i < 3; i++) {
        struct intercept_set *set = NULL;
        assert_int_equal(intercepts_prepare(t, &set), 0);
        intercepts_put_in_force(&all, set);
        assert_int_equal(intercepts_exhausted(&all), i);
        (void)ask(&all, &r);
        assert_int_equal(intercepts_exhausted(&all), i + 1);
    }
    intercepts_deinit(&all);
    traffic_unref(t);
}

static uint64_t refused(const struct intercepts *all, size_t i)
{
    struct control_intercept row;
    intercept_describe(&all->now->at[i], &row);
    return row.refused;
}

static void test_counts_go_on(void **state)
{
    struct intercepts all = {.now = NULL};
    struct control_intercept row;
    (void)state;
    put_in_force(&all, SPEC(POLICY("guard", "1", BLACK("x", "\"a.example\"", "\"*\""))));
    (void)ask(&all, &tunnel);
    (void)ask(&all, &tunnel);
    intercept_describe(&all.now->at[0], &row);
    assert_string_equal(row.policy, "guard");
    assert_string_equal(row.uid, "1");
    assert_string_equal(row.rule, "x");
    assert_int_equal(row.refused, 2);
    /* elsewhere in the document, and for other hosts */
    put_in_force(&all,
                 SPEC(POLICY("a", "1", BLACK("x", "\"b\"", "\"*\"")) "," POLICY(
                     "guard", "1", BLACK("w", "\"b\"", "\"*\"") "," WHITE("x", "\"c\"", "\"*\""))));
    assert_int_equal(refused(&all, 0), 0);
    assert_int_equal(refused(&all, 1), 0);
    assert_int_equal(refused(&all, 2), 2);
    (void)ask(&all, &tunnel);
    assert_int_equal(refused(&all, 2), 3);
    /* another object of the same name */
    put_in_force(&all, SPEC(POLICY("guard", "2", BLACK("x", "\"a.example\"", "\"*\""))));
    assert_int_equal(refused(&all, 0), 0);
    intercepts_deinit(&all);
}

static void test_only_what_selects_is_in_force(void **state)
{
    static const struct selector_label blue[] = {{SLICE("app"), SLICE("blue")}};
    struct intercepts all = {.now = NULL};
    (void)state;
    put_in_force(&all,
                 SPEC("{\"name\":\"p\",\"spec\":{\"selector\":{\"matchLabels\":{\"app\":\"blue\"}},"
                      "\"trafficInterceptRules\":[" WHITE("x", "\"b\"", "\"*\"") "]}}"));
    assert_false(all.now->at[0].in_force);
    assert_string_equal(ask(&all, &tunnel), "");
    intercepts_activate(&all, blue, ARRAY_LEN(blue));
    assert_true(all.now->at[0].in_force);
    traffic_active_set(&active, all.now->document, blue, ARRAY_LEN(blue));
    assert_string_not_equal(ask(&all, &tunnel), "");
    intercepts_deinit(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),     cmocka_unit_test(test_many_methods_are_cut),
        cmocka_unit_test(test_exhausted),    cmocka_unit_test(test_exhausted_of_one_document),
        cmocka_unit_test(test_counts_go_on), cmocka_unit_test(test_only_what_selects_is_in_force),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
