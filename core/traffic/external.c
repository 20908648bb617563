/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/external.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/ensure.h"
#include "net/address.h"
#include "traffic/plain_path.h"
#include "traffic/traffic_internal.h"

#define HTTP_PORT 80
#define HTTPS_PORT 443

uint64_t traffic_patterns_exhausted(const struct traffic *t)
{
    return t->external.exhausted;
}

static bool has_bit(const uint64_t *set, size_t i)
{
    return (set[i / 64] >> (i % 64) & 1) != 0;
}

static void set_bit(uint64_t *set, size_t i)
{
    set[i / 64] |= UINT64_C(1) << i % 64;
}

/* ---- hosts ---- */

/* As expressions see it. */
struct host_text {
    struct slice full; /* "host:port", in `text` */
    struct slice bare; /* "host" */
    char text[TRAFFIC_HOST_MAX + 1];
};

/* What rules compare with their hosts. */
struct asked_host {
    struct slice host; /* an IPv4 address that was written in IPv6 as such, in `plain` */
    unsigned port;
    bool own;              /* it is the scheme's own */
    struct host_text text; /* of `host` */
    struct host_text written;
    bool rewritten; /* they differ */
    char plain[INET_ADDRSTRLEN];
};

static bool write_host(struct host_text *t, struct slice host, unsigned port)
{
    bool brackets = host.len > 0 && memchr(host.ptr, ':', host.len) != NULL;
    int n = snprintf(t->text, sizeof t->text, brackets ? "[%.*s]:%u" : "%.*s:%u", (int)host.len,
                     host.ptr, port);
    if (host.len == 0 || odd(n < 0 || (size_t)n >= sizeof t->text)) {
        return false;
    }
    t->full = slice_of(t->text, (size_t)n);
    t->bare = slice_of(t->text, host.len + (brackets ? 2 : 0));
    return true;
}

static bool read_host(struct asked_host *h, struct slice host, unsigned port, bool own)
{
    h->host = net_address_plain_host(host, h->plain);
    h->port = port;
    h->own = own;
    h->rewritten = h->host.ptr != host.ptr;
    return write_host(&h->text, h->host, port) &&
           (!h->rewritten || write_host(&h->written, host, port));
}

static bool read_request_host(struct asked_host *h, const struct traffic_external *r)
{
    bool http = r->tunnel || !r->https;
    bool https = r->tunnel || r->https;
    bool own = (http && r->port == HTTP_PORT) || (https && r->port == HTTPS_PORT);
    return read_host(h, r->host, r->port, own);
}

static bool port_matches(unsigned named, const struct asked_host *h)
{
    return named == h->port || (named == 0 && h->own);
}

static int compare_host(struct slice host, const char *named)
{
    int order = strncmp(host.ptr, named, host.len);
    return order != 0 || named[host.len] == '\0' ? order : -1;
}

/* ---- expressions ---- */

struct search {
    struct external_table *table;
    uint32_t budget;
};

/* The scratch is the table's, which is written when it is asked. */
static struct search begin_search(const struct traffic *t)
{
    return (struct search){(struct external_table *)&t->external, PATTERN_BUDGET_STEPS};
}

static enum pattern_result search_text(struct search *s, const struct pattern *p, struct slice text)
{
    enum pattern_result r = pattern_match(p, s->table->scratch, text, &s->budget);
    s->table->exhausted += r == PATTERN_EXHAUSTED ? 1 : 0;
    return r;
}

static enum pattern_result search_host_text(struct search *s, const struct pattern *p,
                                            const struct host_text *t, bool own)
{
    enum pattern_result r = search_text(s, p, t->full);
    return r == PATTERN_DIFFERS && own ? search_text(s, p, t->bare) : r;
}

static enum pattern_result search_host(struct search *s, const struct pattern *p,
                                       const struct asked_host *h)
{
    enum pattern_result r = search_host_text(s, p, &h->text, h->own);
    return r == PATTERN_DIFFERS && h->rewritten ? search_host_text(s, p, &h->written, h->own) : r;
}

/* ---- what is allowed ---- */

/* Those that have a Normal content with the host. */
static void find_named(const struct external_table *x, const struct asked_host *h, uint64_t *named)
{
    size_t low = 0;
    size_t high = x->name_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare_host(h->host, x->names[middle].host) <= 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    for (; low < x->name_count && compare_host(h->host, x->names[low].host) == 0; low++) {
        if (port_matches(x->names[low].port, h)) {
            set_bit(named, x->names[low].intercept);
        }
    }
}

/* Whether an intercept has the host. */
static enum pattern_result intercept_has(struct search *s, const struct traffic_intercept *x,
                                         size_t i, const uint64_t *named,
                                         const struct asked_host *h)
{
    if (has_bit(named, i)) {
        return PATTERN_MATCHES;
    }
    for (size_t k = 0; x->content == TRAFFIC_EXPRESSIONS && k < x->contents.count; k++) {
        enum pattern_result r = search_host(s, x->patterns[k], h);
        if (r != PATTERN_DIFFERS) {
            return r;
        }
    }
    return PATTERN_DIFFERS;
}

static bool is_whitelist(const struct traffic_intercept *x)
{
    return x->type == TRAFFIC_WHITELIST;
}

/* Servers may take a method for one that is written in other letters: forbidden is that, too. */
static bool methods_have(const struct traffic_intercept *x, struct slice method)
{
    if (x->any_method) {
        return true;
    }
    for (size_t i = 0; i < x->methods.count; i++) {
        struct slice name = slice_str(x->methods.items[i]);
        if (is_whitelist(x) ? slice_eq(name, method) : slice_ieq(name, method)) {
            return true;
        }
    }
    return false;
}

/* Which rules are asked. */
enum asked_methods {
    METHODS_FIT,  /* those that are for the request's method */
    METHODS_ANY,  /* all */
    METHODS_OTHER /* those that are not */
};

/* What is asked of the intercepts. */
struct judged {
    const struct traffic *t;
    const struct traffic_active *a;
    struct asked_host host;
    bool tunnel;
    enum asked_methods methods;
    struct slice method;
    uint64_t named[TRAFFIC_INTERCEPTS_MAX / 64];
};

static bool is_asked(const struct judged *j, size_t i)
{
    const struct traffic_intercept *x = j->t->intercepts[i];
    if (j->methods == METHODS_ANY || (j->tunnel && !is_whitelist(x))) {
        return true;
    }
    return methods_have(x, j->method) == (j->methods == METHODS_FIT);
}

/* The first of one kind that names the request. PATTERN_DIFFERS: none does. */
static enum pattern_result find_first(struct search *s, const struct judged *j, bool whitelist,
                                      const struct traffic_intercept **by)
{
    for (size_t i = 0; i < j->t->intercept_count; i++) {
        if (is_whitelist(j->t->intercepts[i]) != whitelist || !has_bit(j->a->intercepts, i) ||
            !is_asked(j, i)) {
            continue;
        }
        enum pattern_result r = intercept_has(s, j->t->intercepts[i], i, j->named, &j->host);
        if (r != PATTERN_DIFFERS) {
            *by = j->t->intercepts[i];
            return r;
        }
    }
    return PATTERN_DIFFERS;
}

static bool has_intercepts(const struct traffic_active *a)
{
    uint64_t any = 0;
    for (size_t w = 0; w < ARRAY_LEN(a->intercepts); w++) {
        any |= a->intercepts[w];
    }
    return any != 0;
}

static const struct traffic_intercept *first_whitelist(const struct judged *j)
{
    for (size_t i = 0; i < j->t->intercept_count; i++) {
        if (is_whitelist(j->t->intercepts[i]) && has_bit(j->a->intercepts, i)) {
            return j->t->intercepts[i];
        }
    }
    return NULL;
}

static struct traffic_judgement judgement(enum traffic_verdict v,
                                          const struct traffic_intercept *by)
{
    return (struct traffic_judgement){v, by};
}

/* No rule names it. */
static struct traffic_judgement judge_unnamed(struct search *s, struct judged *j)
{
    const struct traffic_intercept *first = first_whitelist(j);
    const struct traffic_intercept *other = NULL;
    if (first == NULL) {
        return judgement(TRAFFIC_ALLOWED, NULL);
    }
    j->methods = METHODS_OTHER;
    return find_first(s, j, true, &other) == PATTERN_MATCHES
               ? judgement(TRAFFIC_METHOD_NOT_LISTED, other)
               : judgement(TRAFFIC_NOT_LISTED, first);
}

struct traffic_judgement traffic_judge(const struct traffic *t, const struct traffic_active *a,
                                       const struct traffic_external *r)
{
    struct search s = begin_search(t);
    struct judged j = {.t = t, .a = a, .tunnel = r->tunnel, .method = r->method};
    const struct traffic_intercept *by = NULL;
    if (t->intercept_count == 0) {
        return judgement(TRAFFIC_ALLOWED, NULL);
    }
    if (!read_request_host(&j.host, r)) {
        return judgement(has_intercepts(a) ? TRAFFIC_NOT_LISTED : TRAFFIC_ALLOWED, NULL);
    }
    find_named(&t->external, &j.host, j.named);
    enum pattern_result found = find_first(&s, &j, false, &by);
    if (found == PATTERN_MATCHES) {
        return judgement(TRAFFIC_FORBIDDEN, by);
    }
    bool white = found == PATTERN_DIFFERS;
    found = white ? find_first(&s, &j, true, &by) : found;
    if (found == PATTERN_EXHAUSTED) {
        return judgement(TRAFFIC_PATTERN_EXHAUSTED, by);
    }
    return found == PATTERN_MATCHES ? judgement(TRAFFIC_ALLOWED_BY_RULE, by)
                                    : judge_unnamed(&s, &j);
}

bool traffic_names_address(const struct traffic *t, const struct traffic_active *a,
                           struct slice address, unsigned port)
{
    struct search s = begin_search(t);
    struct judged j = {.t = t, .a = a, .methods = METHODS_ANY};
    const struct traffic_intercept *by = NULL;
    if (!read_host(&j.host, address, port, port == HTTP_PORT || port == HTTPS_PORT)) {
        return false;
    }
    find_named(&t->external, &j.host, j.named);
    return find_first(&s, &j, false, &by) == PATTERN_DIFFERS &&
           find_first(&s, &j, true, &by) == PATTERN_MATCHES;
}

/* ---- limitings ---- */

/* The best that was found so far, and the rows that have it. */
struct best {
    uint64_t rank; /* 0: none */
    uint64_t rows[TRAFFIC_SET_WORDS];
};

static bool is_method(const char *named, struct slice method)
{
    return slice_ieq(slice_str(named), method);
}

static bool begins_with(const struct plain_path *path, struct slice start)
{
    return path->len >= start.len && memcmp(path->text, start.ptr, start.len) == 0;
}

static bool is_path(const struct plain_path *path, struct slice other)
{
    return path->whole && path->len == other.len && begins_with(path, other);
}

/* How specific a URL is that the request has; 0: it has not. */
static uint64_t rank_url(const struct external_url *u, const struct traffic_external *r,
                         const struct plain_path *path)
{
    enum { BELOW = 1 << 16, WHOLE = 2 << 16, WITH_QUERY = 3 << 16 };
    uint64_t named = u->method != NULL ? 1 : 0;
    if (u->port != r->port || (u->method != NULL && !is_method(u->method, r->method))) {
        return 0;
    }
    if (r->tunnel) {
        bool other_scheme = r->port == (u->https ? HTTP_PORT : HTTPS_PORT);
        return u->below_path && u->path.len == 1 && !other_scheme ? BELOW + named : 0;
    }
    if (u->https != r->https) {
        return 0;
    }
    if (u->below_path) {
        return begins_with(path, u->path) ? (BELOW + u->path.len) * 2 + named : 0;
    }
    if (!is_path(path, u->path) || (u->has_query && !slice_eq(u->query, r->query))) {
        return 0;
    }
    return (u->has_query ? WITH_QUERY : WHOLE) * UINT64_C(2) + named;
}

static void consider(struct best *best, uint64_t rank, size_t row)
{
    if (rank > best->rank) {
        memset(best->rows, 0, sizeof best->rows);
        best->rank = rank;
    }
    if (rank > 0 && rank == best->rank) {
        set_bit(best->rows, row);
    }
}

/* Of the URLs that have this host, or are below it. */
static void find_best(const struct external_table *x, const struct traffic_active *a,
                      const struct traffic_external *r, const struct plain_path *path,
                      struct slice host, bool below, struct best *best)
{
    size_t low = 0;
    size_t high = x->url_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare_host(host, x->urls[middle].host) <= 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    for (; low < x->url_count && compare_host(host, x->urls[low].host) == 0; low++) {
        const struct external_url *u = &x->urls[low];
        if (u->below_host == below && has_bit(a->urls, u->row)) {
            consider(best, rank_url(u, r, path), u->row);
        }
    }
}

/* Behind the first dot; nothing if there is none. */
static struct slice parent_of(struct slice host)
{
    const char *dot = host.len == 0 ? NULL : memchr(host.ptr, '.', host.len);
    size_t taken = dot == NULL ? host.len : (size_t)(dot - host.ptr) + 1;
    return slice_of(host.ptr + taken, host.len - taken);
}

static void rules_of(const uint16_t *rule, const uint64_t *rows, struct traffic_found *out)
{
    for (size_t w = 0; w < TRAFFIC_SET_WORDS; w++) {
        for (uint64_t bits = rows[w]; bits != 0; bits &= bits - 1) {
            uint16_t index = rule[w * 64 + (size_t)__builtin_ctzll(bits)];
            if (out->count == 0 || out->index[out->count - 1] != index) {
                out->index[out->count++] = index;
            }
        }
    }
}

void traffic_find_url_limitings(const struct traffic *t, const struct traffic_active *a,
                                const struct traffic_external *r, struct traffic_found *out)
{
    struct plain_path path;
    struct best best = {.rank = 0};
    char plain[INET_ADDRSTRLEN];
    struct slice asked = net_address_plain_host(r->host, plain);
    out->count = 0;
    if (t->external.url_count == 0 || !a->any_external) {
        return;
    }
    plain_path_read(&path, r->path);
    find_best(&t->external, a, r, &path, asked, false, &best);
    for (struct slice host = parent_of(asked); host.len > 0 && best.rank == 0;
         host = parent_of(host)) {
        find_best(&t->external, a, r, &path, host, true, &best);
    }
    rules_of(t->external.url_rule, best.rows, out);
}

/* ---- faults ---- */

static bool has_header(const struct traffic_header *h, const struct traffic_external *r)
{
    struct slice name = slice_str(h->name);
    struct slice value = slice_str(h->value);
    for (size_t i = 0; i < r->header_count; i++) {
        if (slice_ieq(r->headers[i].name, name) &&
            (value.len == 0 || slice_eq(r->headers[i].value, value))) {
            return true;
        }
    }
    return false;
}

static bool has_headers(const struct traffic_http *m, const struct traffic_external *r)
{
    const struct traffic_header *headers = m->headers.items;
    for (size_t i = 0; i < m->headers.count; i++) {
        if (!has_header(&headers[i], r)) {
            return false;
        }
    }
    return true;
}

/* All but the expressions. */
static bool http_may_match(const struct external_http *m, const struct traffic_external *r,
                           const struct asked_host *h, const struct plain_path *path)
{
    bool has_path = m->path.ptr != NULL || m->match->path.pattern != NULL;
    if (r->tunnel && (has_path || m->match->headers.count > 0)) {
        return false;
    }
    if (m->host[0] != '\0' && (compare_host(h->host, m->host) != 0 || !port_matches(m->port, h))) {
        return false;
    }
    return (m->method == NULL || is_method(m->method, r->method)) &&
           (m->path.ptr == NULL || is_path(path, m->path)) &&
           (m->match->path.pattern == NULL || path->whole) && has_headers(m->match, r);
}

static bool http_matches(struct search *s, const struct external_http *m,
                         const struct traffic_external *r, const struct asked_host *h,
                         const struct plain_path *path)
{
    const struct pattern *host = m->match->host.pattern;
    const struct pattern *way = m->match->path.pattern;
    return http_may_match(m, r, h, path) &&
           (host == NULL || search_host(s, host, h) == PATTERN_MATCHES) &&
           (way == NULL || search_text(s, way, slice_of(path->text, path->len)) == PATTERN_MATCHES);
}

void traffic_find_http_faults(const struct traffic *t, const struct traffic_active *a,
                              const struct traffic_external *r, struct traffic_found *out)
{
    struct plain_path path;
    struct asked_host host;
    struct search s = begin_search(t);
    out->count = 0;
    if (t->external.http_count == 0 || !a->any_external || !read_request_host(&host, r)) {
        return;
    }
    plain_path_read(&path, r->path);
    for (size_t i = 0; i < t->external.http_count; i++) {
        const struct external_http *m = &t->external.http[i];
        uint16_t rule = t->external.http_rule[i];
        bool found = out->count > 0 && out->index[out->count - 1] == rule;
        if (!found && has_bit(a->http, i) && http_matches(&s, m, r, &host, &path)) {
            out->index[out->count++] = rule;
        }
    }
}
