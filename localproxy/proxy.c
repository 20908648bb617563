/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/secret.h"
#include "crypto/digest.h"
#include "kube/query.h"
#include "kube/status.h"

enum {
    HEAD_TIMEOUT_MS = 10000,
    IDLE_TIMEOUT_MS = 300000,
    WRITE_TIMEOUT_MS = 60000,
    TARGET_MAX = 4 * 1024 * 1024,
    BASIC_MAX = 64 * 1024,
    RETRY_AFTER_S = 1,
};

struct proxy {
    struct net_loop *loop;
    const struct config *config;
    struct kube_client *upstream;
    struct metrics *metrics;
    struct slice token;
    void (*on_drained)(void *data);
    void *data;
    struct http_server *server;
    struct forward_context forward;
    struct rules *rules;
    char why_none[ERR_MSG_MAX];
    struct buf target; /* of the request at hand, with the selector */
};

static void refuse(struct proxy *p, struct http_exchange *x, const struct request_info *ri,
                   unsigned code, unsigned retry_after, const char *message)
{
    log_info("refused a request", log_num("code", code), log_str("reason", message));
    (void)forward_refuse(p->metrics, x, ri != NULL ? ri->verb : VERB_OTHER, code, retry_after,
                         message);
}

static bool take_scheme(struct slice *value, struct slice scheme)
{
    if (value->len < scheme.len || !slice_ieq(slice_of(value->ptr, scheme.len), scheme)) {
        return false;
    }
    *value = slice_of(value->ptr + scheme.len, value->len - scheme.len);
    return true;
}

/* The password of Basic credentials: client-go sends no bearer token over plain HTTP, but what
 * stands in the server's URL (RFC 7617). */
static bool has_password(const struct proxy *p, struct slice encoded)
{
    struct buf text = BUF_INIT(BASIC_MAX);
    bool right = false;
    if (buf_reserve(&text, encoded.len) != NULL && base64_decode(encoded, &text) == 0 &&
        text.len > 0) {
        const char *user = (const char *)buf_data(&text);
        const char *colon = memchr(user, ':', text.len);
        size_t skip = colon != NULL ? (size_t)(colon - user) + 1 : text.len;
        right = secret_equal(slice_of(user + skip, text.len - skip), p->token);
    }
    secret_buf_reset(&text);
    return right;
}

static bool has_token(const struct proxy *p, const struct http_head *head)
{
    const struct http_header *h = http_head_find(head, SLICE("Authorization"));
    if (h == NULL) {
        return false;
    }
    struct slice value = h->value;
    if (take_scheme(&value, SLICE("Bearer "))) {
        return secret_equal(value, p->token);
    }
    return take_scheme(&value, SLICE("Basic ")) && has_password(p, value);
}

static bool is_limited_verb(enum request_verb verb)
{
    return verb == VERB_LIST || verb == VERB_WATCH || verb == VERB_DELETECOLLECTION;
}

/* Puts the shard's selector into *target where the rules limit what is asked for. False: the
 * request was refused. */
static bool apply_rules(struct proxy *p, struct http_exchange *x, const struct request_info *ri,
                        struct slice *target)
{
    struct err e = ERR_INIT;
    if (ri->ambiguous) {
        refuse(p, x, ri, 400, 0,
               "the path has empty, \".\" or \"..\" segments, so that it is not "
               "certain which resource is meant");
        return false;
    }
    if (!ri->is_resource) {
        return true;
    }
    if (p->rules == NULL) {
        if (p->config->no_rules == NO_RULES_PASSTHROUGH) {
            return true;
        }
        char message[ERR_MSG_MAX + 64];
        (void)snprintf(message, sizeof message, "no valid rules are in force: %s", p->why_none);
        refuse(p, x, ri, 503, RETRY_AFTER_S, message);
        return false;
    }
    if (!is_limited_verb(ri->verb)) {
        return true;
    }
    const struct rules_entry *entry = rules_match(p->rules, ri->group, ri->resource);
    if (entry == NULL) {
        return true;
    }
    buf_clear(&p->target);
    if (query_inject_selector(*target, entry->escaped, &p->target, &e) != 0) {
        refuse(p, x, ri, 400, 0, e.msg);
        return false;
    }
    p->metrics->limited++;
    *target = slice_of((const char *)buf_data(&p->target), p->target.len);
    return true;
}

static void log_request(const struct http_head *head, const struct request_info *ri, bool limited)
{
    log_debug("request", log_strn("method", head->method.ptr, head->method.len),
              log_strn("path", ri->path.ptr, ri->path.len),
              log_strn("verb", ri->verb_name.ptr, ri->verb_name.len), log_num("limited", limited));
}

static void handle(struct proxy *p, struct http_exchange *x, const struct http_head *head,
                   const struct request_info *ri)
{
    struct http_head h = *head;
    if (!apply_rules(p, x, ri, &h.target)) {
        return;
    }
    log_request(head, ri, h.target.ptr != head->target.ptr);
    if (!kube_client_ready(p->upstream)) {
        const char *why = kube_client_error(p->upstream);
        char message[ERR_MSG_MAX + 64];
        (void)snprintf(message, sizeof message, "no credentials for the API server: %s",
                       why != NULL ? why : "they are being fetched");
        refuse(p, x, ri, 503, RETRY_AFTER_S, message);
        return;
    }
    forward_start(&p->forward, x, &h, ri->verb);
}

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct proxy *p = data;
    struct request_info ri;
    struct err e = ERR_INIT;
    if (p->token.len > 0 && !has_token(p, head)) {
        refuse(p, x, NULL, 401, 0,
               "the token of --token-file is missing or wrong; "
               "use the kubeconfig that kubeconfig-gen wrote with it");
        return;
    }
    if (request_info_parse(&ri, head->method, head->target, &e) != 0) {
        refuse(p, x, NULL, e.code == UV_ENOMEM ? 503 : 400, 0, e.msg);
        return;
    }
    handle(p, x, head, &ri);
    request_info_deinit(&ri);
}

static void on_refuse(void *data, unsigned status, const char *why, struct buf *body)
{
    (void)data;
    log_info("refused a request that is not well-formed HTTP", log_num("code", status),
             log_str("reason", why));
    if (status_write(body, status, NULL, 0, "%s", why) != 0) {
        buf_clear(body);
    }
}

static void on_drained(void *data)
{
    struct proxy *p = data;
    p->on_drained(p->data);
}

static const struct http_server_handlers server_handlers = {
    .on_request = on_request,
    .on_refuse = on_refuse,
    .on_drained = on_drained,
};

struct proxy *proxy_new(struct net_loop *l, const struct proxy_options *o, struct err *e)
{
    struct proxy *p = calloc(1, sizeof *p);
    if (p == NULL) {
        err_set(e, UV_ENOMEM, "out of memory");
        return NULL;
    }
    p->loop = l;
    p->config = o->config;
    p->upstream = o->upstream;
    p->metrics = o->metrics;
    p->token = o->token;
    p->on_drained = o->on_drained;
    p->data = o->data;
    buf_init(&p->target, TARGET_MAX);
    forward_context_init(&p->forward, l, o->upstream, o->metrics);
    struct http_server_options so = {
        .address = o->config->listen,
        .tls = o->tls,
        .head_timeout_ms = HEAD_TIMEOUT_MS,
        .idle_timeout_ms = IDLE_TIMEOUT_MS,
        .write_timeout_ms = WRITE_TIMEOUT_MS,
        .max_connections = (unsigned)o->config->max_connections,
    };
    p->server = http_server_new(l, &so, &server_handlers, p, e);
    if (p->server == NULL) {
        err_prefix(e, "--listen");
        free(p);
        return NULL;
    }
    return p;
}

void proxy_set_rules(struct proxy *p, struct rules *rules, const char *why_none)
{
    struct rules *old = p->rules;
    p->rules = rules != NULL ? rules_ref(rules) : NULL;
    rules_unref(old);
    (void)snprintf(p->why_none, sizeof p->why_none, "%s", why_none != NULL ? why_none : "");
}

const struct rules *proxy_rules(const struct proxy *p)
{
    return p->rules;
}

const char *proxy_address(const struct proxy *p)
{
    return http_server_address(p->server);
}

const struct http_server_stats *proxy_stats(const struct proxy *p)
{
    return http_server_stats(p->server);
}

bool proxy_ready(const struct proxy *p, char *why, size_t size)
{
    if (p->forward.draining) {
        (void)snprintf(why, size, "shutting down");
        return false;
    }
    if (p->rules == NULL && p->config->no_rules == NO_RULES_BLOCK) {
        (void)snprintf(why, size, "no valid rules: %s", p->why_none);
        return false;
    }
    if (!kube_client_ready(p->upstream)) {
        const char *error = kube_client_error(p->upstream);
        (void)snprintf(why, size, "no credentials: %s",
                       error != NULL ? error : "they are being fetched");
        return false;
    }
    (void)snprintf(why, size, "ok");
    return true;
}

void proxy_drain(struct proxy *p)
{
    http_server_drain(p->server);
    forward_drain(&p->forward);
}

void proxy_free(struct proxy *p)
{
    if (p == NULL) {
        return;
    }
    http_server_free(p->server);
    rules_unref(p->rules);
    buf_reset(&p->target);
    free(p);
}
