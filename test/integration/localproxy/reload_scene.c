/* SPDX-License-Identifier: Apache-2.0 */
#include "reload_scene.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/address.h"

enum { TURNS = 1000, TURN_MS = 5, QUIET_MS = 50, TEXTS = 16, TEXT_SIZE = 4096 };

/* ---- the API server ---- */

static void on_body(struct http_exchange *x, struct slice data)
{
    (void)x;
    (void)data;
}

static void on_end(struct http_exchange *x)
{
    struct asked *a = x->data;
    a->ended = true;
}

static void on_drain(struct http_exchange *x)
{
    (void)x;
}

static void on_close(struct http_exchange *x, const struct err *e)
{
    struct asked *a = x->data;
    a->gone = e != NULL;
    a->x = NULL;
}

static const struct http_exchange_handlers handlers = {
    .on_body = on_body,
    .on_end = on_end,
    .on_drain = on_drain,
    .on_close = on_close,
};

static char *copy(struct slice text)
{
    return strndup(text.len > 0 ? text.ptr : "", text.len);
}

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct scene *s = data;
    struct asked *a = calloc(1, sizeof *a);
    const struct http_header *accept = http_head_find(head, SLICE("Accept"));
    assert_non_null(a);
    a->x = x;
    a->method = copy(head->method);
    a->target = copy(head->target);
    a->accept = copy(accept != NULL ? accept->value : (struct slice){0});
    x->handlers = &handlers;
    x->data = a;
    list_append(&s->asked, &a->link);
    s->count++;
}

static void on_refuse(void *data, unsigned status, const char *why, struct buf *body)
{
    (void)data;
    (void)status;
    (void)why;
    buf_clear(body);
}

static const struct http_server_handlers server_handlers = {
    .on_request = on_request,
    .on_refuse = on_refuse,
};

void asked_begin(struct asked *a, const char *type)
{
    struct http_header header = {SLICE("Content-Type"),
                                 slice_str(type != NULL ? type : "application/json")};
    struct http_head head = {
        .status = 200, .headers = &header, .header_count = 1, .framing = HTTP_BODY_CHUNKED};
    assert_non_null(a->x);
    assert_int_equal(http_exchange_send_head(a->x, &head), 0);
}

void asked_send_bytes(struct asked *a, struct slice bytes)
{
    assert_non_null(a->x);
    assert_int_equal(http_exchange_send_body(a->x, bytes), 0);
}

void asked_send(struct asked *a, const char *text)
{
    asked_send_bytes(a, slice_str(text));
}

void asked_end(struct asked *a)
{
    assert_non_null(a->x);
    a->answered = true;
    assert_int_equal(http_exchange_send_end(a->x), 0);
}

void asked_cut(struct asked *a)
{
    struct http_exchange *x = a->x;
    assert_non_null(x);
    a->x = NULL;
    http_exchange_abort(x);
}

void asked_answer(struct asked *a, unsigned status, const char *body)
{
    assert_non_null(a->x);
    a->answered = true;
    assert_int_equal(
        http_respond(a->x, status, SLICE("application/json"), slice_str(body), NULL, 0), 0);
}

/* ---- the proxy ---- */

static void on_settled(void *data)
{
    struct scene *s = data;
    s->settled++;
}

static void on_drained(void *data)
{
    (void)data;
}

static bool start_proxy(struct scene *s)
{
    struct err e = ERR_INIT;
    struct proxy_options o = {
        .flags = &s->flags,
        .upstream = s->upstream,
        .metrics = &s->metrics,
        .on_drained = on_drained,
        .data = s,
    };
    s->proxy = proxy_new(s->loop, &o, &e);
    if (s->proxy != NULL) {
        proxy_on_settled(s->proxy, on_settled, s);
    }
    return s->proxy != NULL;
}

static bool start_server(struct scene *s)
{
    struct http_server_options o = {.address = "127.0.0.1:0",
                                    .head_timeout_ms = 20000,
                                    .idle_timeout_ms = 20000,
                                    .write_timeout_ms = 20000};
    s->server = http_server_new(s->loop, &o, &server_handlers, s, NULL);
    if (s->server == NULL) {
        return false;
    }
    s->access.user = "me";
    strcpy(s->access.server.host, "127.0.0.1");
    s->access.server.port =
        (uint16_t)strtoul(strrchr(http_server_address(s->server), ':') + 1, NULL, 10);
    return true;
}

bool scene_open(struct scene *s, struct net_loop *l)
{
    struct kube_client_options o = {.access = &s->access, .max_idle = 16};
    struct err e = ERR_INIT;
    s->loop = l;
    s->flags.listen = "127.0.0.1:0";
    s->flags.resume_doubt_s = 60;
    list_init(&s->asked);
    if (!start_server(s)) {
        return false;
    }
    s->upstream = kube_client_new(l, &o, &e);
    return s->upstream != NULL && start_proxy(s);
}

void scene_restart(struct scene *s)
{
    proxy_free(s->proxy);
    assert_int_equal(s->metrics.open_watches, 0);
    assert_int_equal(s->metrics.tunnels, 0);
    assert_true(start_proxy(s));
}

static void asked_free(struct asked *a)
{
    list_remove(&a->link);
    free(a->method);
    free(a->target);
    free(a->accept);
    free(a->data);
    free(a);
}

void scene_close(struct scene *s)
{
    proxy_free(s->proxy);
    assert_int_equal(s->metrics.open_watches, 0);
    assert_int_equal(s->metrics.tunnels, 0);
    if (s->upstream != NULL) {
        kube_client_close(s->upstream, NULL, NULL);
    }
    http_server_free(s->server);
    while (!list_empty(&s->asked)) {
        asked_free(LIST_ITEM(s->asked.next, struct asked, link));
    }
}

void scene_forget(struct scene *s)
{
    for (struct list *node = s->asked.next, *next; node != &s->asked; node = next) {
        struct asked *a = LIST_ITEM(node, struct asked, link);
        next = node->next;
        if (a->seen && a->x == NULL) {
            asked_free(a);
        }
    }
}

void scene_rules(struct scene *s, const char *spec)
{
    struct buf text = BUF_INIT(RULES_TEXT_MAX);
    struct err e = ERR_INIT;
    assert_int_equal(buf_printf(&text,
                                "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":"
                                "{\"namespace\":\"ns\",\"name\":\"shard\"},\"generation\":%u,"
                                "\"spec\":%s}",
                                ++s->generation, spec),
                     0);
    struct rules *r = rules_parse((const char *)buf_data(&text), text.len, &e);
    buf_reset(&text);
    if (r == NULL) {
        fail_msg("%s", e.msg);
    }
    proxy_set_rules(s->proxy, r);
    rules_unref(r);
}

void scene_limit(struct scene *s, const char *selector)
{
    struct buf spec = BUF_INIT(RULES_TEXT_MAX);
    int rc = selector == NULL ? buf_append_str(&spec, "{\"limits\":[]}")
                              : buf_printf(&spec,
                                           "{\"limits\":[{\"apiGroups\":[\"\"],\"resources\":"
                                           "[\"pods\"],\"selector\":\"%s\"}]}",
                                           selector);
    assert_int_equal(rc, 0);
    scene_rules(s, buf_cstr(&spec));
    buf_reset(&spec);
}

/* ---- clients ---- */

void client_open(struct scene *s, struct client *c)
{
    struct sockaddr_storage addr;
    assert_int_equal(net_address_parse(proxy_address(s->proxy), &addr, NULL), 0);
    memset(c, 0, sizeof *c);
    buf_init(&c->text, SIZE_MAX / 2);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(c->fd >= 0);
    assert_int_equal(connect(c->fd, (struct sockaddr *)&addr, sizeof(struct sockaddr_in)), 0);
    assert_int_equal(fcntl(c->fd, F_SETFL, O_NONBLOCK), 0);
}

void client_send(struct client *c, const char *text)
{
    size_t len = strlen(text);
    assert_int_equal(send(c->fd, text, len, MSG_NOSIGNAL), len);
}

void scene_get(struct scene *s, struct client *c, const char *target)
{
    char text[2048];
    client_open(s, c);
    (void)snprintf(text, sizeof text,
                   "GET %s HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n", target);
    client_send(c, text);
}

void client_read(struct client *c)
{
    char piece[65536];
    while (!c->ended) {
        ssize_t n = recv(c->fd, piece, sizeof piece, 0);
        if (n <= 0) {
            c->ended = n == 0 || errno != EAGAIN;
            return;
        }
        assert_int_equal(buf_append(&c->text, piece, (size_t)n), 0);
    }
}

static const char *text_of(struct client *c)
{
    return buf_cstr(&c->text);
}

bool client_has(struct client *c, const char *text)
{
    client_read(c);
    return strstr(text_of(c), text) != NULL;
}

void client_close(struct client *c)
{
    (void)close(c->fd);
    c->fd = -1;
    buf_reset(&c->text);
}

/* ---- expectations ---- */

void scene_expect(struct scene *s, struct client *c, const char *text)
{
    scene_expect_times(s, c, text, 1);
}

static bool has_times(struct client *c, const char *text, unsigned times)
{
    size_t len = strlen(text);
    struct slice rest = buf_slice(&c->text);
    unsigned n = 0;
    for (const char *at;
         n < times && rest.len > 0 && (at = memmem(rest.ptr, rest.len, text, len)) != NULL; n++) {
        size_t taken = (size_t)(at - rest.ptr) + len;
        rest = slice_of(at + len, rest.len - taken);
    }
    return n == times;
}

void scene_expect_times(struct scene *s, struct client *c, const char *text, unsigned times)
{
    size_t seen = SIZE_MAX;
    for (int turn = 0; turn < TURNS; turn++) {
        client_read(c);
        bool news = c->text.len != seen;
        seen = c->text.len;
        if (text == NULL ? c->ended : news && has_times(c, text, times)) {
            return;
        }
        run_for(s->loop, TURN_MS);
    }
    fail_msg("expected \"%s\", got \"%.4000s\"", text != NULL ? text : "<end>", text_of(c));
}

static struct asked *find(struct scene *s, const char *part)
{
    LIST_FOR_EACH(node, &s->asked)
    {
        struct asked *a = LIST_ITEM(node, struct asked, link);
        if (!a->seen && strstr(a->target, part) != NULL) {
            a->seen = true;
            return a;
        }
    }
    return NULL;
}

struct asked *scene_asked(struct scene *s, const char *part)
{
    struct asked *a = find(s, part);
    for (int turn = 0; turn < TURNS && a == NULL; turn++) {
        run_for(s->loop, TURN_MS);
        a = find(s, part);
    }
    if (a == NULL) {
        fail_msg("the API server was not asked for \"%s\"", part);
    }
    return a;
}

void scene_expect_gone(struct scene *s, struct asked *a)
{
    for (int turn = 0; turn < TURNS && !a->gone; turn++) {
        run_for(s->loop, TURN_MS);
    }
    assert_true(a->gone);
}

void scene_expect_quiet(struct scene *s)
{
    unsigned before = s->count;
    run_for(s->loop, QUIET_MS);
    assert_int_equal(s->count, before);
}

void scene_expect_number(struct scene *s, const uint64_t *number, uint64_t value)
{
    for (int turn = 0; turn < TURNS && *number != value; turn++) {
        run_for(s->loop, TURN_MS);
    }
    assert_int_equal(*number, value);
}

/* ---- texts ---- */

static char *next_text(void)
{
    static char texts[TEXTS][TEXT_SIZE];
    static unsigned next;
    return texts[next++ % TEXTS];
}

const char *pod_event(const char *type, const char *name, unsigned version)
{
    char *text = next_text();
    (void)snprintf(text, TEXT_SIZE,
                   "{\"type\":\"%s\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\","
                   "\"metadata\":{\"name\":\"%s\",\"resourceVersion\":\"%u\"}}}\n",
                   type, name, version);
    return text;
}

const char *pod_list(unsigned version, const char *token, const char *const *names)
{
    char *text = next_text();
    int len = snprintf(text, TEXT_SIZE,
                       "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{"
                       "\"resourceVersion\":\"%u\",\"continue\":\"%s\"},\"items\":[",
                       version, token != NULL ? token : "");
    for (size_t i = 0; names != NULL && names[i] != NULL; i++) {
        len += snprintf(text + len, TEXT_SIZE - (size_t)len,
                        "%s{\"metadata\":{\"name\":\"%s\",\"resourceVersion\":\"%zu\"}}",
                        i > 0 ? "," : "", names[i], 10 + i);
    }
    (void)snprintf(text + len, TEXT_SIZE - (size_t)len, "]}");
    return text;
}
