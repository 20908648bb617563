/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of a request to a proxy, and any bytes in each of the three places where a target can
 * stand. A target that is taken has a host that the resolver takes for an address only if it is
 * known to be one, and for the same; its parts, put together again, are taken as the same target;
 * and nothing of what may be a password is in it or in messages.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "check.h"
#include "egress/destination.h"
#include "egress/reach.h"
#include "egress/via.h"
#include "http/h1_parser.h"

static struct reach *reach;
static struct via *via;

static void set_up(void)
{
    static const struct url server = {.https = true, .host = "api.example", .port = 6443};
    const struct reach_options o = {.server = &server, .own = {"127.0.0.1:5443", "[::]:5441"}};
    if (reach == NULL) {
        reach = reach_new(&o, NULL);
        via = via_new("http://user:secret@proxy.example:3128", "10.0.0.0/8,.svc,a:80", NULL);
        CHECK(reach != NULL && via != NULL);
    }
}

static bool is_host(const char *host)
{
    size_t len = strlen(host);
    return len > 0 && len <= 253 && strspn(host, "abcdefghijklmnopqrstuvwxyz0123456789-._:") == len;
}

static void check_host(const struct destination *t)
{
    struct in_addr loose;
    struct in_addr strict;
    struct in6_addr v6;
    bool is_v4 = inet_pton(AF_INET, t->host, &strict) == 1;
    bool is_v6 = inet_pton(AF_INET6, t->host, &v6) == 1;
    CHECK(is_host(t->host));
    CHECK(t->literal == (is_v4 || is_v6));
    CHECK(is_v6 || strchr(t->host, ':') == NULL);
    if (inet_aton(t->host, &loose) != 0) {
        CHECK(is_v4 && loose.s_addr == strict.s_addr);
    }
    CHECK(!is_v6 || !IN6_IS_ADDR_V4MAPPED(&v6));
}

static void check_parts(const struct destination *t)
{
    bool tunnel = t->way == DESTINATION_TUNNEL;
    CHECK(t->port >= 1 && t->port <= 65535);
    CHECK(!tunnel || (!t->https && t->path.len == 0 && t->query.len == 0 && t->origin.len == 0));
    CHECK(tunnel || (t->path.len > 0 && t->path.ptr[0] == '/'));
    CHECK(t->path.len == 0 || memchr(t->path.ptr, '?', t->path.len) == NULL);
    CHECK(t->origin.len == 0 || t->origin.ptr[0] == '/');
    CHECK(t->origin.len == 0 || memchr(t->origin.ptr, '#', t->origin.len) == NULL);
    CHECK(t->origin.len == 0 || memchr(t->origin.ptr, ' ', t->origin.len) == NULL);
}

static void check_same(struct slice a, struct slice b)
{
    CHECK(slice_eq(a, b));
}

/* What is written of it is read as the same. */
static void check_again(const struct destination *t, bool brief)
{
    char at[DESTINATION_HOST_PORT_SIZE];
    struct buf text = BUF_INIT(SIZE_MAX);
    struct destination again;
    destination_host_port(t, brief, at);
    if (t->way == DESTINATION_TUNNEL) {
        CHECK(buf_append_str(&text, at) == 0);
    } else {
        CHECK(buf_printf(&text, "http%s://%s", t->https ? "s" : "", at) == 0);
        CHECK(buf_append(&text, t->origin.ptr, t->origin.len) == 0);
    }
    if (t->origin.len == 0 && t->query.len > 0) {
        CHECK(buf_append_char(&text, '?') == 0);
        CHECK(buf_append(&text, t->query.ptr, t->query.len) == 0);
    }
    struct http_head head = {.method = SLICE("GET"),
                             .target = buf_slice(&text),
                             .connect = t->way == DESTINATION_TUNNEL};
    CHECK(destination_read(&head, &again, NULL) == 0);
    CHECK(again.https == t->https && again.port == t->port && again.literal == t->literal);
    CHECK(strcmp(again.host, t->host) == 0);
    check_same(again.path, t->path);
    check_same(again.query, t->query);
    check_same(again.origin, t->origin);
    buf_reset(&text);
}

/* Without rules that name an address, what this machine alone reaches is not reached. */
static void check_reach(const struct destination *t, const struct traffic_external *q)
{
    struct err e = ERR_INIT;
    int rc = reach_check(reach, t, q, &e);
    CHECK(rc == 0 || (rc == -EACCES && e.msg[0] != '\0'));
    CHECK(rc != 0 || !t->literal || strncmp(t->host, "127.", 4) != 0);
    CHECK(rc != 0 || strcmp(t->host, "kubernetes.default.svc") != 0);
    const struct http_proxy *proxy = via_of(via, t);
    CHECK(proxy == NULL || strcmp(proxy->host, "proxy.example") == 0);
    CHECK(proxy == NULL || strncmp(t->host, "127.", 4) != 0 || !t->literal);
}

static void check(const struct http_head *head)
{
    struct destination t;
    struct traffic_external q;
    struct err e = ERR_INIT;
    int rc = destination_read(head, &t, &e);
    if (rc != 0) {
        CHECK((rc == -EINVAL || rc == -ENOENT) && e.code == rc && e.msg[0] != '\0');
        CHECK(strstr(e.msg, "secret") == NULL);
        return;
    }
    check_host(&t);
    check_parts(&t);
    check_again(&t, true);
    check_again(&t, false);
    destination_describe(&t, head, &q);
    CHECK(q.tunnel == (t.way == DESTINATION_TUNNEL) && q.port == t.port);
    check_reach(&t, &q);
}

static void check_everywhere(struct slice text)
{
    const struct http_header endpoint = {SLICE(DESTINATION_HEADER), text};
    struct http_head url = {.method = SLICE("GET"), .target = text};
    struct http_head tunnel = {.method = SLICE("CONNECT"), .target = text, .connect = true};
    struct http_head header = {
        .method = SLICE("GET"), .target = SLICE("/"), .headers = &endpoint, .header_count = 1};
    check(&url);
    check(&tunnel);
    check(&header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct h1_parser *p = h1_parser_new(H1_PROXY_REQUESTS, &h1_limits_default);
    struct slice rest = slice_of((const char *)data, size);
    const struct http_head *head = NULL;
    struct slice body = {0};
    struct err e = ERR_INIT;
    CHECK(p != NULL);
    set_up();
    check_everywhere(rest);
    if (h1_parser_next(p, &rest, &head, &body, &e) == H1_HEAD) {
        check(head);
    }
    h1_parser_free(p);
    return 0;
}
