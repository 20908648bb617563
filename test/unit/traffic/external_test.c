/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/external.h"
#include "traffic/plain_path.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "traffic/pattern.h"

#define HEAD                                                                                       \
    "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardTraffic\",\"shard\":{\"namespace\":\"ns\","      \
    "\"name\":\"s\"},\"generation\":1,\"spec\":{"
#define BREAKER(member, list)                                                                      \
    HEAD "\"breakers\":[{\"name\":\"p\",\"spec\":{\"selector\":{},\"" member "\":[" list "]}}]}}"
#define INTERCEPTS(list) BREAKER("trafficInterceptRules", list)
#define WHITE(name, content, contents, methods)                                                    \
    "{\"name\":\"" name "\",\"interceptType\":\"Whitelist\",\"contentType\":\"" content            \
    "\",\"contents\":[" contents "],\"methods\":[" methods "]}"
#define BLACK(name, content, contents, methods)                                                    \
    "{\"name\":\"" name "\",\"interceptType\":\"Blacklist\",\"contentType\":\"" content            \
    "\",\"contents\":[" contents "],\"methods\":[" methods "]}"
#define LIMIT(name, list)                                                                          \
    "{\"name\":\"" name "\",\"triggerPolicy\":\"ForceOpened\",\"restRules\":[" list "]}"
#define URL(url, method) "{\"url\":\"" url "\",\"method\":\"" method "\"}"
#define LIMITS(list) BREAKER("rateLimitings", list)
#define FAULT(name, list)                                                                          \
    "{\"name\":\"" name                                                                            \
    "\",\"abort\":{\"httpStatus\":503,\"percent\":\"0.0001\"},\"match\":{\"httpMatch\":[" list     \
    "]}}"
#define FAULTS(list)                                                                               \
    HEAD "\"faults\":[{\"name\":\"p\",\"spec\":{\"selector\":{},\"httpFault\":[" list "]}}]}}"
#define BOMB "\"(a+)+$\""

static struct traffic *parse(const char *text)
{
    struct err e = ERR_INIT;
    struct traffic *t = traffic_parse(text, strlen(text), &e);
    if (t == NULL) {
        fail_msg("%s: %s", text, e.msg);
    }
    return t;
}

/* ---- requests, as "GET https://host:port/path?query" or "CONNECT host:port" ---- */

static struct slice take(struct slice *rest, char stop)
{
    const char *at = rest->len == 0 ? NULL : memchr(rest->ptr, stop, rest->len);
    struct slice out = slice_of(rest->ptr, at == NULL ? rest->len : (size_t)(at - rest->ptr));
    size_t taken = out.len + (at == NULL ? 0 : 1);
    *rest = slice_of(rest->ptr + taken, rest->len - taken);
    return out;
}

static struct traffic_external ask(const char *text)
{
    struct traffic_external r = {.path = slice_of("", 0)};
    struct slice rest = slice_str(text);
    r.method = take(&rest, ' ');
    r.tunnel = slice_eq(r.method, SLICE("CONNECT"));
    if (!r.tunnel) {
        r.https = slice_eq(take(&rest, ':'), SLICE("https"));
        rest = slice_of(rest.ptr + 2, rest.len - 2);
    }
    struct slice authority = rest;
    size_t end = 0;
    while (end < rest.len && rest.ptr[end] != '/' && rest.ptr[end] != '?') {
        end++;
    }
    authority.len = end;
    r.query = slice_of(rest.ptr + end, rest.len - end);
    r.path = take(&r.query, '?');
    if (authority.len > 0 && authority.ptr[0] == '[') {
        authority = slice_of(authority.ptr + 1, authority.len - 1);
        r.host = take(&authority, ']');
        (void)take(&authority, ':');
    } else {
        r.host = take(&authority, ':');
    }
    r.port = r.https ? 443 : 80;
    for (size_t i = 0; i < authority.len; i++) {
        r.port = (i == 0 ? 0 : r.port * 10) + (unsigned)(authority.ptr[i] - '0');
    }
    return r;
}

/* ---- what is allowed ---- */

static const char *verdict_text(enum traffic_verdict v)
{
    static const char *const texts[] = {
        [TRAFFIC_ALLOWED] = "allowed",          [TRAFFIC_ALLOWED_BY_RULE] = "by rule",
        [TRAFFIC_FORBIDDEN] = "forbidden",      [TRAFFIC_NOT_LISTED] = "not listed",
        [TRAFFIC_METHOD_NOT_LISTED] = "method", [TRAFFIC_PATTERN_EXHAUSTED] = "exhausted",
    };
    return texts[v];
}

struct judge_case {
    const char *request;
    const char *verdict; /* and behind ": " the rule's name, if there is one */
};

static void check_judgements(const char *document, const struct judge_case *cases, size_t count)
{
    struct traffic *t = parse(document);
    struct traffic_active a;
    traffic_active_set(&a, t, NULL, 0);
    for (size_t i = 0; i < count; i++) {
        char is[128];
        struct traffic_external r = ask(cases[i].request);
        struct traffic_judgement j = traffic_judge(t, &a, &r);
        (void)snprintf(is, sizeof is, "%s%s%s", verdict_text(j.verdict), j.by != NULL ? ": " : "",
                       j.by != NULL ? j.by->name : "");
        if (strcmp(is, cases[i].verdict) != 0) {
            fail_msg("%s\n%s\nis %s, not %s", document, cases[i].request, is, cases[i].verdict);
        }
    }
    traffic_unref(t);
}

#define JUDGE(document, ...)                                                                       \
    do {                                                                                           \
        static const struct judge_case cases[] = {__VA_ARGS__};                                    \
        check_judgements(document, cases, ARRAY_LEN(cases));                                       \
    } while (0)

static void test_without_rules(void **state)
{
    (void)state;
    JUDGE(HEAD "}}", {"GET http://example.com/", "allowed"},
          {"CONNECT example.com:443", "allowed"});
    JUDGE(INTERCEPTS(BLACK("b", "Normal", "\"example.com\"", "\"*\"")),
          {"GET http://example.org/", "allowed"}, {"CONNECT example.org:443", "allowed"});
}

static void test_normal_contents(void **state)
{
    (void)state;
    JUDGE(INTERCEPTS(WHITE(
              "w", "Normal",
              "\"Example.COM.\",\"a:8080\",\"b:443\",\"[::0001]:8443\",\"2001:db8::1\"", "\"*\"")),
          {"GET http://example.com/", "by rule: w"}, {"GET https://example.com/", "by rule: w"},
          {"GET http://example.com:80/", "by rule: w"},
          {"GET https://example.com:443/x", "by rule: w"},
          {"GET http://example.com:443/", "not listed: w"}, /* not the scheme's own */
          {"GET https://example.com:80/", "not listed: w"},
          {"GET http://example.com:8080/", "not listed: w"},
          {"CONNECT example.com:443", "by rule: w"}, {"CONNECT example.com:80", "by rule: w"},
          {"CONNECT example.com:8443", "not listed: w"}, {"GET http://a:8080/", "by rule: w"},
          {"GET http://a/", "not listed: w"}, {"CONNECT a:8080", "by rule: w"},
          {"GET https://b/", "by rule: w"}, {"GET http://b/", "not listed: w"},
          {"CONNECT b:443", "by rule: w"}, {"GET https://[::1]:8443/", "by rule: w"},
          {"GET https://[::1]/", "not listed: w"}, {"GET http://[2001:db8::1]/", "by rule: w"},
          {"GET http://sub.example.com/", "not listed: w"},
          {"GET http://example.co/", "not listed: w"},
          {"GET http://example.com.org/", "not listed: w"},
          {"GET http://xample.com/", "not listed: w"});
}

static void test_expressions(void **state)
{
    (void)state;
    JUDGE(INTERCEPTS(WHITE("w", "Regexp", "\"^[a-z]+\\\\.Example(:443)?$\",\":9[0-9]$\"", "\"*\"")),
          {"GET https://a.example/", "by rule: w"}, {"GET http://a.example/", "by rule: w"},
          {"GET http://a.example:443/", "by rule: w"}, {"GET http://a.example:8/", "not listed: w"},
          {"GET http://b.a.example/", "not listed: w"}, {"GET http://x:91/", "by rule: w"},
          {"GET http://x:919/", "not listed: w"}, {"CONNECT x:91", "by rule: w"});
    /* somewhere in it, and with the port always */
    JUDGE(INTERCEPTS(BLACK("b", "Regexp", "\"xampl\",\"z:80$\",\"^\\\\[::1\\\\]$\"", "\"*\"")),
          {"GET http://example.com/", "forbidden: b"}, {"GET http://z/", "forbidden: b"},
          {"GET https://z/", "allowed"}, {"GET https://[::1]/", "forbidden: b"},
          {"GET https://[::1]:8443/", "allowed"});
}

static void test_methods(void **state)
{
    (void)state;
    JUDGE(INTERCEPTS(WHITE("w", "Normal", "\"a\"", "\"GET\",\"POST\"")),
          {"GET http://a/", "by rule: w"}, {"POST http://a/", "by rule: w"},
          {"PUT http://a/", "method: w"}, {"get http://a/", "method: w"},
          {"GET http://b/", "not listed: w"}, {"CONNECT a:443", "method: w"},
          {"CONNECT b:443", "not listed: w"});
    JUDGE(INTERCEPTS(WHITE("w", "Regexp", "\"^a$\"", "\"CONNECT\"")),
          {"CONNECT a:443", "by rule: w"}, {"GET http://a/", "method: w"});
    JUDGE(INTERCEPTS(BLACK("b", "Normal", "\"a\"", "\"POST\"")), {"POST http://a/", "forbidden: b"},
          {"post http://a/", "forbidden: b"}, /* servers may take it for POST */
          {"GET http://a/", "allowed"},
          {"CONNECT a:443", "forbidden: b"}, /* it might carry a POST */
          {"CONNECT c:443", "allowed"});
}

static void test_order_is_of_no_meaning(void **state)
{
    (void)state;
#define W1 WHITE("w1", "Normal", "\"a\",\"b\"", "\"*\"")
#define W2 WHITE("w2", "Regexp", "\"^c\"", "\"GET\"")
#define B1 BLACK("b1", "Normal", "\"b\"", "\"*\"")
#define B2 BLACK("b2", "Regexp", "\"^cx\"", "\"*\"")
    static const char *const orders[] = {
        INTERCEPTS(W1 "," W2 "," B1 "," B2), INTERCEPTS(B2 "," B1 "," W2 "," W1),
        INTERCEPTS(B1 "," W1 "," B2 "," W2), INTERCEPTS(W2 "," B2 "," W1 "," B1)};
    static const struct judge_case same[] = {
        {"GET http://a/", "by rule: w1"},   {"GET http://b/", "forbidden: b1"},
        {"GET http://c/", "by rule: w2"},   {"GET http://cx/", "forbidden: b2"},
        {"PUT http://c/", "method: w2"},    {"CONNECT b:443", "forbidden: b1"},
        {"CONNECT cx:443", "forbidden: b2"}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
        check_judgements(orders[i], same, ARRAY_LEN(same));
    }
    JUDGE(INTERCEPTS(W1 "," W2), {"GET http://x/", "not listed: w1"});
    JUDGE(INTERCEPTS(W2 "," W1), {"GET http://x/", "not listed: w2"});
}

/* Of policies that do not select the pod no rule counts, and no Whitelist makes others forbidden.
 */
static void test_only_what_selects(void **state)
{
    static const struct selector_label blue[] = {{SLICE("app"), SLICE("blue")}};
    struct traffic *t = parse(
        HEAD "\"breakers\":[{\"name\":\"p\",\"spec\":{\"selector\":{\"matchLabels\":{\"app\":"
             "\"blue\"}},\"trafficInterceptRules\":[" WHITE(
                 "w", "Regexp", "\"^a$\"", "\"*\"") "]}},{\"name\":\"q\",\"spec\":{\"selector\":{"
                                                    "\"matchLabels\":{\"app\":\"red\"}},"
                                                    "\"trafficInterceptRules\":[" BLACK(
                                                        "b", "Normal", "\"a\"", "\"*\"") "]}}]}}");
    struct traffic_external a = ask("GET http://a/");
    struct traffic_external c = ask("GET http://c/");
    struct traffic_active active;
    (void)state;
    traffic_active_set(&active, t, NULL, 0);
    assert_false(active.any_external);
    assert_false(active.any_limiting);
    assert_int_equal(traffic_judge(t, &active, &c).verdict, TRAFFIC_ALLOWED);
    traffic_active_set(&active, t, blue, 1);
    assert_true(active.any_external);
    assert_int_equal(traffic_judge(t, &active, &a).verdict, TRAFFIC_ALLOWED_BY_RULE);
    assert_int_equal(traffic_judge(t, &active, &c).verdict, TRAFFIC_NOT_LISTED);
    traffic_unref(t);
}

/* What cannot be read is forbidden where anything may be. */
static void test_no_host(void **state)
{
    (void)state;
    JUDGE(INTERCEPTS(BLACK("b", "Normal", "\"a\"", "\"*\"")), {"CONNECT :443", "not listed"},
          {"CONNECT c:443", "allowed"});
    JUDGE(LIMITS(LIMIT("l", URL("https://a", "*"))), {"CONNECT :443", "allowed"});
}

static const char *bomb_host(void)
{
    static char host[300];
    (void)snprintf(host, sizeof host, "GET http://%0250d/", 0);
    memset(host + 11, 'a', 249);
    host[11 + 249] = '-';
    return host;
}

static void test_exhausted(void **state)
{
    const char *host = bomb_host();
    (void)state;
    JUDGE(INTERCEPTS(WHITE("w", "Regexp", BOMB, "\"*\"")), {"GET http://b/", "not listed: w"});
    const struct judge_case white[] = {{host, "exhausted: w"}};
    check_judgements(INTERCEPTS(WHITE("w", "Regexp", BOMB, "\"*\"")), white, 1);
    check_judgements(INTERCEPTS(BLACK("w", "Regexp", BOMB, "\"*\"")), white, 1);
    /* at once: what stands behind is not asked */
    check_judgements(
        INTERCEPTS(WHITE("w", "Regexp", BOMB, "\"*\"") "," WHITE("x", "Regexp", "\"a\"", "\"*\"")),
        white, 1);
    /* but a Blacklist rule that names it is the one to tell of */
    const struct judge_case black[] = {{host, "forbidden: b"}};
    check_judgements(
        INTERCEPTS(WHITE("w", "Regexp", BOMB, "\"*\"") "," BLACK("b", "Regexp", "\"a\"", "\"*\"")),
        black, 1);
    struct traffic *t = parse(INTERCEPTS(WHITE("w", "Regexp", BOMB, "\"*\"")));
    struct traffic_active a;
    struct traffic_external r = ask(host);
    traffic_active_set(&a, t, NULL, 0);
    assert_int_equal(traffic_patterns_exhausted(t), 0);
    (void)traffic_judge(t, &a, &r);
    (void)traffic_judge(t, &a, &r);
    assert_int_equal(traffic_patterns_exhausted(t), 2);
    traffic_unref(t);
}

/* Each of many expressions may take many steps, all of them together not so many. */
static void test_one_budget(void **state)
{
    struct buf text = BUF_INIT(1 << 20);
    struct traffic_active a;
    struct traffic_external r = ask(bomb_host());
    (void)state;
    buf_append_str(
        &text,
        HEAD "\"breakers\":[{\"name\":\"p\",\"spec\":{\"selector\":{},\"trafficInterceptRules\":[");
    for (int i = 0; i < TRAFFIC_INTERCEPTS_MAX; i++) {
        buf_printf(&text, "%s" WHITE("r%d", "Regexp", "\"a.*a.*[^b]b%d\"", "\"*\""),
                   i == 0 ? "" : ",", i, i);
    }
    buf_append_str(&text, "]}}]}}");
    struct traffic *t = parse(buf_cstr(&text));
    traffic_active_set(&a, t, NULL, 0);
    struct traffic_judgement j = traffic_judge(t, &a, &r);
    assert_int_equal(j.verdict, TRAFFIC_PATTERN_EXHAUSTED);
    assert_int_equal(traffic_patterns_exhausted(t), 1);
    traffic_unref(t);
    buf_reset(&text);
}

static void test_addresses(void **state)
{
    static const struct {
        const char *address;
        unsigned port;
        bool named;
    } cases[] = {
        {"127.0.0.1", 8080, true}, {"127.0.0.1", 80, false},     {"::1", 80, true},
        {"::1", 443, true},        {"::1", 8443, false},         {"169.254.169.254", 80, true},
        {"169.254.1.1", 80, true}, {"169.254.169.254", 8, true}, {"169.254.9.9", 80, false},
        {"10.0.0.1", 80, false},
    };
    struct traffic *t =
        parse(INTERCEPTS(WHITE("n", "Normal", "\"127.0.0.1:8080\",\"::1\"", "\"GET\"") "," WHITE(
            "r", "Regexp", "\"^169\\\\.254\\\\.\"",
            "\"GET\"") "," BLACK("b", "Normal", "\"169.254.9.9\"", "\"PUT\"")));
    struct traffic_active a;
    (void)state;
    traffic_active_set(&a, t, NULL, 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        if (traffic_names_address(t, &a, slice_str(cases[i].address), cases[i].port) !=
            cases[i].named) {
            fail_msg("%s:%u", cases[i].address, cases[i].port);
        }
    }
    traffic_unref(t);
    /* Without a Whitelist rule everything is allowed, but no such address is named. */
    t = parse(INTERCEPTS(BLACK("b", "Normal", "\"a\"", "\"*\"")));
    traffic_active_set(&a, t, NULL, 0);
    assert_false(traffic_names_address(t, &a, SLICE("127.0.0.1"), 80));
    traffic_unref(t);
    t = parse(INTERCEPTS(
        WHITE("w", "Regexp", "\".\"", "\"*\"") "," BLACK("b", "Regexp", "\"(1+)+$\"", "\"*\"")));
    traffic_active_set(&a, t, NULL, 0);
    assert_true(traffic_names_address(t, &a, SLICE("127.0.0.9"), 9));
    assert_false(traffic_names_address(t, &a, SLICE("1111111111111111111111111111111111x"), 9));
    traffic_unref(t);
}

/* ---- limitings and faults ---- */

struct found_case {
    const char *request;
    const char *rules; /* their names, with spaces between */
};

static void check_found(const char *document, bool faults, const struct found_case *cases,
                        size_t count)
{
    struct traffic *t = parse(document);
    struct traffic_active a;
    traffic_active_set(&a, t, NULL, 0);
    for (size_t i = 0; i < count; i++) {
        char is[256] = "";
        struct traffic_found found;
        struct traffic_external r = ask(cases[i].request);
        if (faults) {
            traffic_find_http_faults(t, &a, &r, &found);
        } else {
            traffic_find_url_limitings(t, &a, &r, &found);
        }
        for (size_t k = 0; k < found.count; k++) {
            size_t len = strlen(is);
            (void)snprintf(is + len, sizeof is - len, "%s%s", k == 0 ? "" : " ",
                           faults ? traffic_fault_at(t, found.index[k])->name
                                  : traffic_limiting_at(t, found.index[k])->name);
        }
        if (strcmp(is, cases[i].rules) != 0) {
            fail_msg("%s: \"%s\", not \"%s\"", cases[i].request, is, cases[i].rules);
        }
    }
    traffic_unref(t);
}

#define FIND(document, faults, ...)                                                                \
    do {                                                                                           \
        static const struct found_case cases[] = {__VA_ARGS__};                                    \
        check_found(document, faults, cases, ARRAY_LEN(cases));                                    \
    } while (0)

static void test_most_specific_url(void **state)
{
    (void)state;
    FIND(
        LIMITS(LIMIT("query", URL("http://h/a/b?x=1", "*")) "," LIMIT("exact", URL("http://h/a/b", "*")) "," LIMIT(
            "below",
            URL("http://h/a/*",
                "GET")) "," LIMIT("all",
                                  URL("http://h/*",
                                      "*")) "," LIMIT("any",
                                                      URL("http://*.h/a/b",
                                                          "*")) "," LIMIT("post",
                                                                          URL("http://h/a/b",
                                                                              "POST")) "," LIMIT("a"
                                                                                                 "l"
                                                                                                 "s"
                                                                                                 "o",
                                                                                                 URL("http://h/a/b", "*") "," URL(
                                                                                                     "http://h/c",
                                                                                                     "*")) "," LIMIT("deep",
                                                                                                                     URL("http://*.g.h/*",
                                                                                                                         "*"))),
        false, {"GET http://h/a/b?x=1", "query"}, {"GET http://h/a/b?x=2", "exact also"},
        {"GET http://h/a/b", "exact also"}, {"POST http://h/a/b", "post"},
        {"POST http://h/a/b?x=1", "query"}, {"GET http://h/a/c", "below"},
        {"GET http://h/a/", "below"}, {"GET http://h/a", "all"}, {"PUT http://h/a/c", "all"},
        {"GET http://h", "all"}, {"GET http://h/c", "also"}, {"GET http://h/c/", "all"},
        {"GET http://x.h/a/b", "any"}, {"GET http://y.x.h/a/b", "any"}, {"GET http://x.h/a", ""},
        {"GET http://x.g.h/a/b", "deep"}, {"GET http://g.h/a/b", "any"}, {"GET http://xh/a/b", ""},
        {"GET https://h/a/b", ""}, {"GET http://h:8080/a/b", ""}, {"get http://h/a/c", "below"});
    /* The host itself is more specific than a wildcard, whatever its path. */
    FIND(LIMITS(
             LIMIT("host", URL("http://a.h/*", "*")) "," LIMIT("any", URL("http://*.h/x", "GET"))),
         false, {"GET http://a.h/x", "host"}, {"GET http://b.h/x", "any"});
    /* But where that host's rule is not for the request, the wildcard's is asked. */
    FIND(LIMITS(LIMIT("host", URL("http://a.h/*", "POST")) "," LIMIT("any",
                                                                     URL("http://*.h/x", "GET"))),
         false, {"GET http://a.h/x", "any"});
}

static void test_hosts_and_ports_of_urls(void **state)
{
    (void)state;
    FIND(
        LIMITS(LIMIT("a", URL("HTTPS://Example.COM.:443/*", "*")) "," LIMIT(
            "b", URL("http://example.com:8080/*", "*")) "," LIMIT("c", URL("http://[::1]/*", "*"))),
        false, {"GET https://example.com/", "a"}, {"GET https://example.com:443/x", "a"},
        {"GET http://example.com:443/x", ""}, {"GET http://example.com:8080/x", "b"},
        {"GET https://example.com:8080/x", ""}, {"GET http://[::1]/", "c"},
        {"GET http://[::1]:81/", ""});
}

/* However a path is written, it is limited. */
static void test_paths_of_urls(void **state)
{
    (void)state;
    FIND(LIMITS(LIMIT("a", URL("http://h/api/off", "*")) "," LIMIT(
             "b", URL("http://h/x/%2e%2e/b/*", "*"))),
         false, {"GET http://h/api/off", "a"}, {"GET http://h//api/off", "a"},
         {"GET http://h/api/./off", "a"}, {"GET http://h/x/../api/off", "a"},
         {"GET http://h/%61pi/%6Fff", "a"}, {"GET http://h/api%2foff", "a"},
         {"GET http://h/api/x%2f%2e%2e%2foff", "a"}, {"GET http://h/API/off", ""},
         {"GET http://h/api/off/", ""}, {"GET http://h/api/%2561off", ""},
         {"GET http://h/b/c", "b"}, {"GET http://h/b/../c", ""}, {"GET http://h/c/..//b/c", "b"});
}

/* Of a path of which only the beginning is kept no expression is asked. */
static void test_long_paths(void **state)
{
    static char path[PLAIN_PATH_MAX + 100];
    struct traffic *t = parse(FAULTS(FAULT("f", "{\"path\":{\"regex\":\"^/a\"}}")));
    struct traffic_active a;
    struct traffic_found found;
    struct traffic_external r = ask("GET https://h/");
    (void)state;
    traffic_active_set(&a, t, NULL, 0);
    memset(path, 'a', sizeof path);
    path[0] = '/';
    r.path = slice_of(path, PLAIN_PATH_MAX);
    traffic_find_http_faults(t, &a, &r, &found);
    assert_int_equal(found.count, 1);
    r.path = slice_of(path, sizeof path);
    traffic_find_http_faults(t, &a, &r, &found);
    assert_int_equal(found.count, 0);
    traffic_unref(t);
}

static void test_whole_hosts(void **state)
{
    (void)state;
    FIND(LIMITS(LIMIT("whole", URL("https://h", "*")) "," LIMIT("root", URL("https://h/", "*"))),
         false, {"GET https://h/x/y?z", "whole"}, {"GET https://h/", "root"},
         {"GET https://h", "root"}, {"GET https://h?x", "root"});
}

static void test_tunnels_meet_urls(void **state)
{
    (void)state;
    FIND(
        LIMITS(LIMIT("s", URL("https://h/*", "*")) "," LIMIT("p", URL("http://h", "CONNECT")) "," LIMIT(
            "path",
            URL("https://h/a/*", "*") "," URL(
                "https://h/",
                "*")) "," LIMIT("get",
                                URL("https://g",
                                    "GET")) "," LIMIT("any",
                                                      URL("https://*.h",
                                                          "*")) "," LIMIT("s8",
                                                                          URL("https://h:8/*",
                                                                              "*")) "," LIMIT("p8",
                                                                                              URL("http://h:8/*",
                                                                                                  "*")) "," LIMIT("c8",
                                                                                                                  URL("http://g:8/*", "CONNECT") "," URL(
                                                                                                                      "https://g:8/*",
                                                                                                                      "*")) "," LIMIT("odd",
                                                                                                                                      URL("http://h:443/*", "*") "," URL(
                                                                                                                                          "https://h:80/*",
                                                                                                                                          "*"))),
        false, {"CONNECT h:443", "s"}, {"CONNECT h:80", "p"}, {"CONNECT g:443", ""},
        {"CONNECT x.h:443", "any"}, {"CONNECT x.h:80", ""}, {"CONNECT h:8", "s8 p8"},
        {"CONNECT g:8", "c8"}, {"CONNECT h:9", ""}, {"GET http://h:443/", "odd"});
}

static void test_http_faults(void **state)
{
    (void)state;
    FIND(
        FAULTS(FAULT("host", "{\"host\":{\"exact\":\"A.b.\"}}") "," FAULT(
            "regex",
            "{\"host\":{"
            "\"regex\":\"^"
            "A\\\\.\"}},{"
            "\"method\":"
            "\"PUT\"}") "," FAULT("path",
                                  "{\"path\":{\"exact\":\"/x/../"
                                  "y\"},\"method\":\"*\"}") "," FAULT("paths",
                                                                      "{\"path\":{"
                                                                      "\"regex\":"
                                                                      "\"^/Y/"
                                                                      "[0-9]+$\"}"
                                                                      "}") "," FAULT("both",
                                                                                     "{\"host\":{"
                                                                                     "\"exact\":"
                                                                                     "\"a.b:8080\"}"
                                                                                     ",\"path\":{"
                                                                                     "\"regex\":\"/"
                                                                                     "y\"},"
                                                                                     "\"method\":"
                                                                                     "\"POST\"}")),
        true, {"GET http://a.b/", "host regex"}, {"GET https://a.b/", "host regex"},
        {"GET http://a.b:8080/", "regex"}, {"GET http://c/y", "path"},
        {"GET http://c//%79", "path"}, {"GET http://c/y?x", "path"}, {"GET http://c/y/", ""},
        {"GET http://c/Y/12", "paths"}, {"GET http://c/Y/1/../12?34", "paths"},
        {"GET http://c/y/12", ""}, {"PUT http://c/", "regex"}, {"put http://c/", "regex"},
        {"POST http://a.b:8080/x/y", "regex both"}, {"GET http://a.b:8080/x/y", "regex"},
        {"CONNECT a.b:443", "host regex"}, {"CONNECT a.b:8080", "regex"}, {"CONNECT c:443", ""});
    FIND(
        FAULTS(FAULT("any", "{\"host\":{\"exact\":\"a\"},\"method\":\"*\"}") "," FAULT(
            "connect",
            "{\""
            "hos"
            "t\""
            ":{"
            "\"e"
            "xac"
            "t\""
            ":\""
            "a\""
            "},"
            "\"m"
            "eth"
            "od"
            "\":"
            "\"C"
            "ONN"
            "ECT"
            "\""
            "}") "," FAULT("get",
                           "{\"host\":{\"exact\":\"a\"},\"method\":\"GET\"}") "," FAULT("tunnels",
                                                                                        "{\"method"
                                                                                        "\":"
                                                                                        "\"CONNECT"
                                                                                        "\"}") "," FAULT("path",
                                                                                                         "{\"host\":{\"exact\":\"a\"},\"path\":{\"regex\":\".\"}}")),
        true, {"CONNECT a:443", "any connect tunnels"}, {"CONNECT b:443", "tunnels"},
        {"GET http://a/", "any get path"});
}

static void test_headers(void **state)
{
    static const struct http_header headers[] = {{SLICE("x-tenant"), SLICE("green")},
                                                 {SLICE("X-Tenant"), SLICE("blue")},
                                                 {SLICE("x-other"), SLICE("")}};
    struct traffic *t = parse(FAULTS(FAULT("there", "{\"headers\":[{\"name\":\"X-OTHER\"}]}") "," FAULT(
        "blue",
        "{\"headers\":[{\"name\":\"X-Tenant\",\"value\":\"blue\"},"
        "{\"name\":\"x-other\",\"value\":\"\"}]}") "," FAULT("case",
                                                             "{\"headers\":[{\"name\":\"X-"
                                                             "Tenant\",\"value\":\"Blue\"}]"
                                                             "}") "," FAULT("part",
                                                                            "{\"headers\":["
                                                                            "{\"name\":\"X-"
                                                                            "Tenant\","
                                                                            "\"value\":"
                                                                            "\"blu\"}]}") "," FAULT("missing",
                                                                                                    "{\"headers\":[{\"name\":\"X-Tenant\"},{\"name\":\"x-none\"}]}")));
    struct traffic_active a;
    struct traffic_found found;
    struct traffic_external r = ask("GET http://a/");
    (void)state;
    traffic_active_set(&a, t, NULL, 0);
    traffic_find_http_faults(t, &a, &r, &found);
    assert_int_equal(found.count, 0);
    r.headers = headers;
    r.header_count = ARRAY_LEN(headers);
    traffic_find_http_faults(t, &a, &r, &found);
    assert_int_equal(found.count, 2);
    assert_string_equal(traffic_fault_at(t, found.index[0])->name, "there");
    assert_string_equal(traffic_fault_at(t, found.index[1])->name, "blue");
    traffic_unref(t);
}

/* A fault whose expression is exhausted is not met, and others are. */
static void test_faults_exhausted(void **state)
{
    const struct found_case cases[] = {{bomb_host(), "b"}, {"GET http://aa/", "a b"}};
    (void)state;
    check_found(FAULTS(FAULT("a", "{\"host\":{\"regex\":" BOMB
                                  "}}") "," FAULT("b", "{\"method\":\"GET\"}")),
                true, cases, ARRAY_LEN(cases));
}

/* Rules of both kinds: neither is met by what the other is for. */
static void test_both_kinds(void **state)
{
    struct traffic *t = parse(
        HEAD
        "\"breakers\":[{\"name\":\"p\",\"spec\":{\"selector\":{},\"rateLimitings\":[{\"name\":"
        "\"r\",\"triggerPolicy\":"
        "\"ForceOpened\",\"restRules\":[" URL(
            "http://a/*",
            "*") "],\"resourceRules\":[{\"apiGroups\":"
                 "[\"*\"],\"resources\":[\"pods\"],\"verbs\":[\"*\"],\"namespaces\":[\"*\"]}]}]}}],"
                 "\"faults\":[{\"name\":\"p\",\"spec\":{\"selector\":{},\"httpFault\":[{\"name\":"
                 "\"f\","
                 "\"match\":{\"resources\":[{}],"
                 "\"httpMatch\":[{\"method\":\"*\"}]},\"abort\":{\"httpStatus\":503,\"percent\":"
                 "\"0.0001\"}}]}}]}}");
    struct traffic_request pods = {.resource = SLICE("pods"),
                                   .verb = SLICE("get"),
                                   .namespace = SLICE("n"),
                                   .group = SLICE("")};
    struct traffic_external r = ask("GET http://a/");
    struct traffic_active a;
    struct traffic_found found;
    (void)state;
    traffic_active_set(&a, t, NULL, 0);
    assert_true(a.any_limiting && a.any_fault && a.any_external);
    traffic_find_limitings(t, &a, &pods, &found);
    assert_int_equal(found.count, 1);
    traffic_find_url_limitings(t, &a, &r, &found);
    assert_int_equal(found.count, 1);
    traffic_find_faults(t, &a, &pods, &found);
    assert_int_equal(found.count, 1);
    traffic_find_http_faults(t, &a, &r, &found);
    assert_int_equal(found.count, 1);
    assert_int_equal(traffic_judge(t, &a, &r).verdict, TRAFFIC_ALLOWED);
    traffic_unref(t);
}

/* An IPv4 address by any of its names in IPv6, in requests and in rules. */
static void test_ipv4_in_ipv6(void **state)
{
#define EMBEDDED(verdict)                                                                          \
    {"GET http://192.0.2.2/", verdict}, {"GET http://[::ffff:192.0.2.2]/", verdict},               \
        {"GET http://[::ffff:0:192.0.2.2]/", verdict}, {"GET http://[::192.0.2.2]/", verdict},     \
        {"GET http://[64:ff9b::c000:202]/", verdict}, {"GET http://[2002:c000:202::]/", verdict},  \
        {"GET https://[2002:c000:202:1::9]/", verdict},                                            \
        {"CONNECT [64:ff9b::c000:202]:443", verdict}
    (void)state;
    JUDGE(INTERCEPTS(BLACK("b", "Normal", "\"192.0.2.2\"", "\"*\"")), EMBEDDED("forbidden: b"),
          {"GET http://[64:ff9b::c000:203]/", "allowed"});
    JUDGE(INTERCEPTS(BLACK("b", "Normal", "\"64:ff9b::c000:202\"", "\"*\"")),
          EMBEDDED("forbidden: b"));
    JUDGE(INTERCEPTS(BLACK("b", "Regexp", "\"^192\\\\.0\\\\.2\\\\.\"", "\"*\"")),
          EMBEDDED("forbidden: b"), {"GET http://[64:ff9b::c000:301]/", "allowed"});
    JUDGE(INTERCEPTS(WHITE("w", "Normal", "\"192.0.2.2\"", "\"*\"")), EMBEDDED("by rule: w"),
          {"GET http://[64:ff9b::c000:203]/", "not listed: w"});
    /* An expression sees it as it was written, too. */
    JUDGE(INTERCEPTS(BLACK("b", "Regexp", "\"^\\\\[64:ff9b:.*:443$\"", "\"*\"")),
          {"GET https://[64:ff9b::c000:202]/", "forbidden: b"},
          {"GET http://[64:ff9b::c000:202]/", "allowed"}, {"GET https://192.0.2.2/", "allowed"});
    FIND(LIMITS(LIMIT("l", URL("http://192.0.2.2/*", "*"))), false,
         {"GET http://[64:ff9b::c000:202]/", "l"}, {"GET http://[::192.0.2.2]/x", "l"},
         {"GET http://[64:ff9b::c000:203]/", ""});
    FIND(FAULTS(FAULT("f", "{\"host\":{\"exact\":\"192.0.2.2\"}}")), true,
         {"GET http://[64:ff9b::c000:202]/", "f"}, {"GET http://[2002:c000:202::1]/x", "f"},
         {"GET http://[64:ff9b::c000:203]/", ""});
}

/* ---- memory ---- */

static const char everything[] =
    HEAD "\"breakers\":[{\"name\":\"p\",\"spec\":{\"selector\":{},\"rateLimitings\":[" LIMIT(
        "l",
        URL("http://*.h/a/b?x", "POST") "," URL(
            "https://h",
            "*")) "],\"trafficInterceptRules\":[" WHITE("w", "Regexp", "\"^a\",\"(a|b)+$\"",
                                                        "\"GET\"") "," BLACK("b", "Normal",
                                                                             "\"c\",\"d:8\"",
                                                                             "\"*\"") "]}}],"
                                                                                      "\"faults\":["
                                                                                      "{"
                                                                                      "\"name\":"
                                                                                      "\"p\","
                                                                                      "\"spec\":{"
                                                                                      "\"selector\""
                                                                                      ":{},"
                                                                                      "\"httpFault"
                                                                                      "\":[" FAULT(
                                                                                          "f",
                                                                                          "{\"host"
                                                                                          "\":{"
                                                                                          "\"regex"
                                                                                          "\":"
                                                                                          "\"a\"},"
                                                                                          "\"path\""
                                                                                          ":{"
                                                                                          "\"exact"
                                                                                          "\":\"/"
                                                                                          "\"},"
                                                                                          "\"method"
                                                                                          "\":"
                                                                                          "\"*\"},"
                                                                                          "{\"host"
                                                                                          "\":{"
                                                                                          "\"exact"
                                                                                          "\":"
                                                                                          "\"a\"},"
                                                                                          "\"path\""
                                                                                          ":{"
                                                                                          "\"regex"
                                                                                          "\":\"/"
                                                                                          "$\"},"
                                                                                          "\"header"
                                                                                          "s\":["
                                                                                          "{\"name"
                                                                                          "\":"
                                                                                          "\"x\","
                                                                                          "\"value"
                                                                                          "\":"
                                                                                          "\"y\"}]"
                                                                                          "}") "]}}"
                                                                                               "]"
                                                                                               "}}";

static void test_nothing_is_allocated(void **state)
{
    static const char *const requests[] = {"GET https://h/", "GET http://a/x//..", "CONNECT a:443",
                                           "POST http://x.h/a/b?x", "GET http://d:8/"};
    struct traffic *t = parse(everything);
    struct traffic_active a;
    struct traffic_found found;
    (void)state;
    sweep_failed = false;
    sweep_left = 0;
    traffic_active_set(&a, t, NULL, 0);
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        struct traffic_external r = ask(requests[i]);
        (void)traffic_judge(t, &a, &r);
        (void)traffic_names_address(t, &a, r.host, r.port);
        traffic_find_url_limitings(t, &a, &r, &found);
        traffic_find_http_faults(t, &a, &r, &found);
    }
    sweep_left = -1;
    assert_false(sweep_failed);
    traffic_unref(t);
}

static bool parse_everything(void *data)
{
    struct err e = ERR_INIT;
    (void)data;
    struct traffic *t = traffic_parse(everything, sizeof everything - 1, &e);
    if (t == NULL) {
        assert_int_equal(e.code, -ENOMEM);
    }
    bool made = t != NULL;
    traffic_unref(t);
    return made;
}

static void test_memory(void **state)
{
    (void)state;
    assert_true(sweep_allocations(parse_everything, NULL) > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_rules),
        cmocka_unit_test(test_normal_contents),
        cmocka_unit_test(test_expressions),
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_order_is_of_no_meaning),
        cmocka_unit_test(test_only_what_selects),
        cmocka_unit_test(test_no_host),
        cmocka_unit_test(test_exhausted),
        cmocka_unit_test(test_one_budget),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_ipv4_in_ipv6),
        cmocka_unit_test(test_most_specific_url),
        cmocka_unit_test(test_hosts_and_ports_of_urls),
        cmocka_unit_test(test_paths_of_urls),
        cmocka_unit_test(test_long_paths),
        cmocka_unit_test(test_whole_hosts),
        cmocka_unit_test(test_tunnels_meet_urls),
        cmocka_unit_test(test_http_faults),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_faults_exhausted),
        cmocka_unit_test(test_both_kinds),
        cmocka_unit_test(test_nothing_is_allocated),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
