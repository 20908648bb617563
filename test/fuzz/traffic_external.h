/* SPDX-License-Identifier: Apache-2.0 */
/*
 * traffic_external.h - what the lists of a traffic document say of requests to other places than
 * the API server, when they are read one by one.
 */
#ifndef TEST_FUZZ_TRAFFIC_EXTERNAL_H
#define TEST_FUZZ_TRAFFIC_EXTERNAL_H

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <cjson/cJSON.h>

#include "base/array.h"
#include "check.h"
#include "traffic/external.h"
#include "traffic/origin_text.h"
#include "traffic/pattern.h"

static const struct http_header external_headers[] = {{SLICE("a"), SLICE("b")},
                                                      {SLICE("X-A"), SLICE("")}};

static const struct traffic_external external_questions[] = {
    {.host = SLICE("a"), .port = 80, .path = SLICE("/"), .method = SLICE("GET")},
    {.https = true,
     .host = SLICE("a"),
     .port = 443,
     .path = SLICE("/a//b/./c/../d%2fe"),
     .query = SLICE("x=1"),
     .method = SLICE("POST"),
     .headers = external_headers,
     .header_count = ARRAY_LEN(external_headers)},
    {.host = SLICE("b.a.example"), .port = 8080, .path = SLICE("/a/b"), .method = SLICE("put")},
    {.https = true, .host = SLICE("c.b.a.example"), .port = 443, .method = SLICE("GET")},
    {.https = true, .host = SLICE("::1"), .port = 8443, .path = SLICE("/a"), .method = SLICE("A")},
    {.tunnel = true, .host = SLICE("a"), .port = 443, .method = SLICE("CONNECT")},
    {.tunnel = true, .host = SLICE("a"), .port = 80, .method = SLICE("CONNECT")},
    {.tunnel = true, .host = SLICE("b.a.example"), .port = 8080, .method = SLICE("CONNECT")},
    {.tunnel = true, .host = SLICE("127.0.0.1"), .port = 22, .method = SLICE("CONNECT")},
};

/* NULL: it is absent, or null. */
static inline const cJSON *external_member(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNull(item) ? NULL : item;
}

/* The same of a text, if it is not empty. */
static inline const char *external_string(const cJSON *object, const char *key)
{
    const cJSON *item = external_member(object, key);
    return item == NULL || item->valuestring[0] == '\0' ? NULL : item->valuestring;
}

static inline bool external_own_port(const struct traffic_external *r)
{
    return r->tunnel ? r->port == 80 || r->port == 443 : r->port == (r->https ? 443 : 80);
}

/* ---- hosts ---- */

static inline bool external_search(const char *expression, struct slice text, bool any_case)
{
    struct pattern *p = NULL;
    struct pattern_scratch *s = pattern_scratch_new();
    uint32_t budget = PATTERN_BUDGET_STEPS;
    CHECK(s != NULL);
    CHECK((any_case ? pattern_compile_any_case(expression, &p, NULL)
                    : pattern_compile(expression, &p, NULL)) == 0);
    bool found = pattern_match(p, s, text, &budget) == PATTERN_MATCHES;
    pattern_free(p);
    pattern_scratch_free(s);
    return found;
}

static inline bool external_host_like(const char *expression, const struct traffic_external *r)
{
    char text[300];
    bool v6 = memchr(r->host.ptr, ':', r->host.len) != NULL;
    (void)snprintf(text, sizeof text, v6 ? "[%.*s]" : "%.*s", (int)r->host.len, r->host.ptr);
    size_t bare = strlen(text);
    (void)snprintf(text + bare, sizeof text - bare, ":%u", r->port);
    return external_search(expression, slice_str(text), true) ||
           (external_own_port(r) && external_search(expression, slice_of(text, bare), true));
}

static inline bool external_host_is(const char *named, const struct traffic_external *r)
{
    struct origin_host h;
    CHECK(origin_host_read(slice_str(named), &h) == NULL);
    return slice_eq(slice_str(h.host), r->host) &&
           (h.port == r->port || (h.port == 0 && external_own_port(r)));
}

/* ---- intercepts ---- */

static inline bool external_names(const cJSON *rule, const struct traffic_external *r)
{
    bool regexp = strcmp(external_string(rule, "contentType"), "Regexp") == 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, external_member(rule, "contents"))
    {
        if (regexp ? external_host_like(item->valuestring, r)
                   : external_host_is(item->valuestring, r)) {
            return true;
        }
    }
    return false;
}

static inline bool external_method_in(const cJSON *rule, const struct traffic_external *r,
                                      bool whitelist)
{
    const cJSON *item;
    if (r->tunnel && !whitelist) {
        return true;
    }
    cJSON_ArrayForEach(item, external_member(rule, "methods"))
    {
        struct slice m = slice_str(item->valuestring);
        if (slice_eq(m, SLICE("*")) ||
            (whitelist ? slice_eq(m, r->method) : slice_ieq(m, r->method))) {
            return true;
        }
    }
    return false;
}

static inline void external_check_judgement(const struct traffic *t, const struct traffic_active *a,
                                            const cJSON *const *rules,
                                            const struct traffic_external *r)
{
    bool forbidden = false;
    bool allowed = false;
    bool listed = false;
    bool other_method = false;
    uint64_t exhausted = traffic_patterns_exhausted(t);
    struct traffic_judgement j = traffic_judge(t, a, r);
    if (traffic_patterns_exhausted(t) != exhausted) {
        CHECK(j.verdict != TRAFFIC_ALLOWED && j.verdict != TRAFFIC_ALLOWED_BY_RULE);
        return;
    }
    for (size_t i = 0; i < traffic_intercept_count(t); i++) {
        const struct traffic_intercept *x = traffic_intercept_at(t, i);
        if (!traffic_policy_selects(x->policy, NULL, 0)) {
            CHECK(j.by != x);
            continue;
        }
        bool white = x->type == TRAFFIC_WHITELIST;
        bool named = external_names(rules[i], r);
        bool method = external_method_in(rules[i], r, white);
        forbidden = forbidden || (!white && named && method);
        allowed = allowed || (white && named && method);
        other_method = other_method || (white && named);
        listed = listed || white;
    }
    enum traffic_verdict want = forbidden      ? TRAFFIC_FORBIDDEN
                                : allowed      ? TRAFFIC_ALLOWED_BY_RULE
                                : !listed      ? TRAFFIC_ALLOWED
                                : other_method ? TRAFFIC_METHOD_NOT_LISTED
                                               : TRAFFIC_NOT_LISTED;
    CHECK(j.verdict == want);
    CHECK((j.by == NULL) == (want == TRAFFIC_ALLOWED));
}

/* Whatever the methods are, as of a tunnel with that port. */
static inline void external_check_address(const struct traffic *t, const struct traffic_active *a,
                                          const cJSON *const *rules,
                                          const struct traffic_external *r)
{
    struct traffic_external tunnel = {.tunnel = true, .host = r->host, .port = r->port};
    bool black = false;
    bool white = false;
    uint64_t exhausted = traffic_patterns_exhausted(t);
    bool named = traffic_names_address(t, a, r->host, r->port);
    for (size_t i = 0; i < traffic_intercept_count(t); i++) {
        const struct traffic_intercept *x = traffic_intercept_at(t, i);
        bool it = traffic_policy_selects(x->policy, NULL, 0) && external_names(rules[i], &tunnel);
        black = black || (it && x->type == TRAFFIC_BLACKLIST);
        white = white || (it && x->type == TRAFFIC_WHITELIST);
    }
    CHECK(named == (white && !black) || (!named && traffic_patterns_exhausted(t) != exhausted));
}

/* ---- urls ---- */

static inline bool external_path_is(const struct plain_path *p, const struct plain_path *q)
{
    return p->len == q->len && memcmp(p->text, q->text, p->len) == 0;
}

/* How specific; empty: it is not met. The greater, the more. */
struct external_rank {
    size_t host;
    size_t path; /* 1: below, 2: whole, 3: with its query */
    size_t length;
    size_t method;
};

static inline struct external_rank external_rank_of(const cJSON *item,
                                                    const struct traffic_external *r)
{
    static struct origin_url u; /* large */
    static struct plain_path path;
    const struct external_rank none = {0};
    const char *method = external_string(item, "method");
    struct external_rank rank = {.method = strcmp(method, "*") != 0};
    CHECK(origin_url_read(slice_str(external_string(item, "url")), &u) == NULL);
    plain_path_read(&path, r->path);
    struct slice host = slice_str(u.at.host);
    bool below = r->host.len > host.len + 1 && r->host.ptr[r->host.len - host.len - 1] == '.' &&
                 slice_eq(slice_of(r->host.ptr + r->host.len - host.len, host.len), host);
    if (u.below_host ? !below : !slice_eq(host, r->host)) {
        return none;
    }
    rank.host = u.below_host ? host.len : 1000;
    if (u.at.port != r->port || (rank.method == 1 && !slice_ieq(slice_str(method), r->method))) {
        return none;
    }
    if (r->tunnel) {
        bool whole = u.below_path && u.path.len == 1;
        rank.path = whole && r->port != (u.https ? 80 : 443) ? 1 : 0;
    } else if (u.https == r->https && u.below_path) {
        rank.length = u.path.len;
        rank.path = path.len >= u.path.len && memcmp(path.text, u.path.text, u.path.len) == 0;
    } else if (u.https == r->https && external_path_is(&path, &u.path)) {
        rank.path = !u.has_query ? 2 : slice_eq(u.query, r->query) ? 3 : 0;
    }
    return rank.path == 0 ? none : rank;
}

static inline int external_compare(const struct external_rank *a, const struct external_rank *b)
{
    const size_t x[] = {a->host, a->path, a->length, a->method};
    const size_t y[] = {b->host, b->path, b->length, b->method};
    for (size_t i = 0; i < ARRAY_LEN(x); i++) {
        if (x[i] != y[i]) {
            return x[i] < y[i] ? -1 : 1;
        }
    }
    return 0;
}

static inline struct external_rank external_best(const cJSON *rule,
                                                 const struct traffic_external *r)
{
    struct external_rank best = {0};
    const cJSON *item;
    cJSON_ArrayForEach(item, external_member(rule, "restRules"))
    {
        struct external_rank rank = external_rank_of(item, r);
        best = external_compare(&best, &rank) < 0 ? rank : best;
    }
    return best;
}

static inline bool external_has(const struct traffic_found *found, size_t i)
{
    bool has = false;
    for (size_t k = 0; k < found->count; k++) {
        CHECK(k == 0 || found->index[k - 1] < found->index[k]);
        has = has || found->index[k] == i;
    }
    return has;
}

static inline void external_check_urls(const struct traffic *t, const struct traffic_active *a,
                                       const cJSON *const *rules, const struct traffic_external *r)
{
    struct external_rank best = {0};
    struct traffic_found found;
    traffic_find_url_limitings(t, a, r, &found);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < traffic_limiting_count(t); i++) {
            bool selects = traffic_policy_selects(traffic_limiting_at(t, i)->policy, NULL, 0);
            struct external_rank rank = {0};
            if (selects) {
                rank = external_best(rules[i], r);
            }
            if (pass == 0) {
                best = external_compare(&best, &rank) < 0 ? rank : best;
            } else {
                CHECK(external_has(&found, i) ==
                      (rank.path > 0 && external_compare(&rank, &best) == 0));
            }
        }
    }
}

/* ---- http matches ---- */

static inline bool external_headers_match(const cJSON *match, const struct traffic_external *r)
{
    const cJSON *header;
    cJSON_ArrayForEach(header, external_member(match, "headers"))
    {
        bool there = false;
        const char *value = external_string(header, "value");
        for (size_t i = 0; i < r->header_count; i++) {
            there = there ||
                    (slice_ieq(slice_str(external_string(header, "name")), r->headers[i].name) &&
                     (value == NULL || slice_eq(slice_str(value), r->headers[i].value)));
        }
        if (!there) {
            return false;
        }
    }
    return true;
}

static inline bool external_http_match(const cJSON *match, const struct traffic_external *r)
{
    static struct plain_path asked;
    static struct plain_path named;
    const cJSON *host = external_member(match, "host");
    const cJSON *path = external_member(match, "path");
    const char *method = external_string(match, "method");
    const char *exact_host = external_string(host, "exact");
    const char *exact_path = external_string(path, "exact");
    const cJSON *headers = external_member(match, "headers");
    if (r->tunnel && (path != NULL || (headers != NULL && headers->child != NULL))) {
        return false;
    }
    if (method != NULL && strcmp(method, "*") != 0 && !slice_ieq(slice_str(method), r->method)) {
        return false;
    }
    if (host != NULL &&
        !(exact_host != NULL ? external_host_is(exact_host, r)
                             : external_host_like(external_string(host, "regex"), r))) {
        return false;
    }
    plain_path_read(&asked, r->path);
    if (exact_path != NULL) {
        plain_path_read(&named, slice_str(exact_path));
        if (!external_path_is(&asked, &named)) {
            return false;
        }
    } else if (path != NULL && !external_search(external_string(path, "regex"),
                                                slice_of(asked.text, asked.len), false)) {
        return false;
    }
    return external_headers_match(match, r);
}

static inline void external_check_http(const struct traffic *t, const struct traffic_active *a,
                                       const cJSON *const *rules, const struct traffic_external *r)
{
    struct traffic_found found;
    uint64_t exhausted = traffic_patterns_exhausted(t);
    traffic_find_http_faults(t, a, r, &found);
    for (size_t i = 0; i < traffic_fault_count(t); i++) {
        bool met = false;
        const cJSON *match;
        cJSON_ArrayForEach(match, external_member(external_member(rules[i], "match"), "httpMatch"))
        {
            met = met || external_http_match(match, r);
        }
        met = met && traffic_policy_selects(traffic_fault_at(t, i)->policy, NULL, 0);
        bool has = external_has(&found, i);
        CHECK(has == met || (!has && traffic_patterns_exhausted(t) != exhausted));
    }
}

#endif
