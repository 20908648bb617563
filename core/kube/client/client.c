/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/client.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "kube/access/credentials.h"

enum {
    CONNECT_TIMEOUT_MS = 15000,
    /* kube-apiserver keeps them 90 s, many load balancers 60 s or more: who closes first does not
     * send a write into the other's end. */
    IDLE_TIMEOUT_MS = 60000,
    USER_TIMEOUT_MS = 30000, /* a dead server is found within this */
    HEADERS_MAX = 160,
    TARGET_MAX = 4 * 1024 * 1024,
};

struct kube_client {
    struct http_client *http;
    struct credentials *credentials;
    const struct kube_access *access;
    void (*on_change)(void *data);
    void *data;
    kube_client_close_cb on_closed;
    void *closed_data;
    bool http1_only;
    char host[URL_HOST_PORT_SIZE];
    char server[URL_HOST_PORT_SIZE + URL_PATH_MAX + 16];
};

/* As http_client_options has them; both NULL for plain http. */
struct tls_configs {
    struct tls_config *usual;
    struct tls_config *upgrade; /* NULL: the usual one offers no HTTP/2 either */
};

static const char *const alpn_any[] = {"h2", "http/1.1", NULL};
static const char *const alpn_http1[] = {"http/1.1", NULL};

static void tls_configs_unref(struct tls_configs *t)
{
    tls_config_unref(t->usual);
    tls_config_unref(t->upgrade);
}

/* `trust` NULL: nothing is verified. */
static struct tls_config *make_config(const struct kube_client *c, struct tls_trust *trust,
                                      const char *const *alpn, struct err *e)
{
    const struct kube_access *a = c->access;
    struct tls_client_options o = {
        .trust = trust,
        .cert = credentials_cert(c->credentials),
        .cert_name = a->cert.name != NULL ? a->cert.name : "the credential plugin",
        .key = credentials_key(c->credentials),
        .key_name = a->key.name != NULL ? a->key.name : "the credential plugin",
        .server_name = a->server_name,
        .insecure = a->insecure,
        .alpn = alpn,
    };
    return tls_config_new_client(&o, e);
}

static int make_configs(const struct kube_client *c, struct tls_trust *trust,
                        struct tls_configs *out, struct err *e)
{
    out->usual = make_config(c, trust, c->http1_only ? alpn_http1 : alpn_any, e);
    if (out->usual == NULL) {
        return e->code;
    }
    if (c->http1_only) {
        return 0;
    }
    out->upgrade = make_config(c, trust, alpn_http1, e);
    if (out->upgrade == NULL) {
        tls_configs_unref(out);
        return e->code;
    }
    return 0;
}

/* tls_configs_unref is due. */
static int make_tls(const struct kube_client *c, struct tls_configs *out, struct err *e)
{
    const struct kube_access *a = c->access;
    *out = (struct tls_configs){NULL, NULL};
    if (!a->server.https) {
        return 0;
    }
    if (a->insecure) {
        return make_configs(c, NULL, out, e);
    }
    struct tls_trust *trust = tls_trust_new(credentials_ca(c->credentials), a->ca.name, e);
    if (trust == NULL) {
        return e->code;
    }
    int rc = make_configs(c, trust, out, e);
    tls_trust_unref(trust);
    return rc;
}

static void renew_tls(struct kube_client *c)
{
    struct err e = ERR_INIT;
    struct tls_configs tls;
    if (make_tls(c, &tls, &e) != 0) {
        log_error("the new certificates cannot be used; the old ones stay in use",
                  log_str("error", e.msg));
        return;
    }
    http_client_set_tls(c->http, tls.usual, tls.upgrade);
    tls_configs_unref(&tls);
    log_info("new connections use the new certificates");
}

static void on_credentials(void *data, enum credentials_event event)
{
    struct kube_client *c = data;
    switch (event) {
    case CREDENTIALS_TLS:
        renew_tls(c);
        return;
    case CREDENTIALS_READY:
        log_info("credentials are ready");
        break;
    case CREDENTIALS_FAILED:
        log_error("no usable credentials", log_str("error", credentials_error(c->credentials)));
        break;
    }
    if (c->on_change != NULL) {
        c->on_change(c->data);
    }
}

static int open_http(struct kube_client *c, struct net_loop *l,
                     const struct kube_client_options *given, struct err *e)
{
    struct tls_configs tls;
    if (make_tls(c, &tls, e) != 0) {
        return e->code;
    }
    const struct kube_proxy *via = &c->access->proxy;
    const struct http_proxy proxy = {
        .host = via->address.host,
        .port = via->address.port,
        .authorization = via->authorization,
    };
    struct http_client_options o = {
        .host = c->access->server.host,
        .port = c->access->server.port,
        .proxy = via->url != NULL ? &proxy : NULL,
        .tls = tls.usual,
        .tls_upgrade = tls.upgrade,
        .connect_timeout_ms = CONNECT_TIMEOUT_MS,
        .idle_timeout_ms = IDLE_TIMEOUT_MS,
        .write_timeout_ms = USER_TIMEOUT_MS,
        .user_timeout_ms = given->user_timeout_ms != 0 ? given->user_timeout_ms : USER_TIMEOUT_MS,
        .max_idle = given->max_idle,
        .may_send = given->may_send,
        .data = given->may_data,
    };
    if (o.proxy != NULL) {
        char name[KUBE_PROXY_NAME_SIZE];
        kube_proxy_name(via, name);
        log_info("reaching the API server through a proxy", log_str("server", c->server),
                 log_str("proxy", name));
    }
    c->http = http_client_new(l, &o, e);
    tls_configs_unref(&tls);
    return c->http == NULL ? e->code : 0;
}

static void on_credentials_closed(void *data)
{
    struct kube_client *c = data;
    kube_client_close_cb cb = c->on_closed;
    void *cb_data = c->closed_data;
    free(c);
    if (cb != NULL) {
        cb(cb_data);
    }
}

struct kube_client *kube_client_new(struct net_loop *l, const struct kube_client_options *o,
                                    struct err *e)
{
    struct kube_client *c = calloc(1, sizeof *c);
    if (c == NULL) {
        err_memory(e);
        return NULL;
    }
    c->access = o->access;
    c->on_change = o->on_change;
    c->data = o->data;
    c->http1_only = o->http1_only;
    url_host_port(&o->access->server, c->host);
    (void)snprintf(c->server, sizeof c->server, "%s://%s%s",
                   o->access->server.https ? "https" : "http", c->host, o->access->server.path);
    struct credentials_options co = {.on_event = on_credentials, .data = c};
    c->credentials = credentials_new(l, o->access, &co, e);
    if (c->credentials == NULL) {
        free(c);
        return NULL;
    }
    if (open_http(c, l, o, e) != 0) {
        kube_client_close(c, NULL, NULL);
        return NULL;
    }
    return c;
}

bool kube_client_ready(const struct kube_client *c)
{
    return credentials_ready(c->credentials);
}

const char *kube_client_error(const struct kube_client *c)
{
    return credentials_error(c->credentials);
}

const char *kube_client_server(const struct kube_client *c)
{
    return c->server;
}

const struct http_client_stats *kube_client_stats(const struct kube_client *c)
{
    return http_client_stats(c->http);
}

const char *kube_client_unreachable(const struct kube_client *c)
{
    return http_client_unreachable(c->http);
}

uint64_t kube_client_failing_ms(const struct kube_client *c)
{
    return http_client_failing_ms(c->http);
}

static bool is_impersonation(struct slice name)
{
    const struct slice prefix = SLICE("Impersonate-");
    return name.len > prefix.len && slice_ieq(slice_of(name.ptr, prefix.len), prefix);
}

/* Gathers the headers to send. Returns their number, 0 when there are too many. */
static size_t gather_headers(struct kube_client *c, const struct http_head *head,
                             struct http_header out[HEADERS_MAX])
{
    const struct kube_access *a = c->access;
    size_t n = 0;
    if (head->header_count + a->header_count + 2 > HEADERS_MAX) {
        return 0;
    }
    out[n++] = (struct http_header){SLICE("Host"), slice_str(c->host)};
    const char *authorization = credentials_authorization(c->credentials);
    if (authorization != NULL) {
        out[n++] = (struct http_header){SLICE("Authorization"), slice_str(authorization)};
    }
    for (size_t i = 0; i < a->header_count; i++) {
        out[n++] =
            (struct http_header){slice_str(a->headers[i].name), slice_str(a->headers[i].value)};
    }
    for (size_t i = 0; i < head->header_count; i++) {
        if (a->header_count == 0 || !is_impersonation(head->headers[i].name)) {
            out[n++] = head->headers[i];
        }
    }
    return n;
}

struct http_exchange *kube_client_request(struct kube_client *c, const struct http_head *head,
                                          const struct http_exchange_handlers *handlers, void *data,
                                          struct err *e)
{
    struct http_header headers[HEADERS_MAX];
    struct http_head h = *head;
    h.headers = headers;
    h.header_count = gather_headers(c, head, headers);
    if (h.header_count == 0) {
        err_set(e, UV_E2BIG, "the request has too many headers");
        return NULL;
    }
    if (c->access->server.path[0] == '\0') {
        return http_client_request(c->http, &h, handlers, data, e);
    }
    struct buf target = BUF_INIT(TARGET_MAX);
    struct http_exchange *x = NULL;
    if (buf_append_str(&target, c->access->server.path) != 0 ||
        buf_append(&target, head->target.ptr, head->target.len) != 0) {
        err_memory(e);
    } else {
        h.target = buf_slice(&target);
        x = http_client_request(c->http, &h, handlers, data, e);
    }
    buf_reset(&target);
    return x;
}

static struct http_exchange *request_kube(void *client, const struct http_head *head,
                                          const struct http_exchange_handlers *handlers, void *data,
                                          struct err *e)
{
    return kube_client_request(client, head, handlers, data, e);
}

struct http_requester kube_client_requester(struct kube_client *c)
{
    return (struct http_requester){.request = request_kube, .client = c};
}

void kube_client_set_backlog(struct kube_client *c, struct net_backlog *backlog)
{
    http_client_set_backlog(c->http, backlog);
}

void kube_client_break_off(struct kube_client *c)
{
    http_client_break_off(c->http);
}

void kube_client_rejected(struct kube_client *c)
{
    credentials_rejected(c->credentials);
}

void kube_client_close(struct kube_client *c, kube_client_close_cb cb, void *data)
{
    c->on_closed = cb;
    c->closed_data = data;
    http_client_free(c->http);
    c->http = NULL;
    credentials_close(c->credentials, on_credentials_closed, c);
}
