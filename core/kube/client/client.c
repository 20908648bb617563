/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/client.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "kube/access/credentials.h"
#include "kube/client/credential_check.h"
#include "kube/client/expiry.h"
#include "kube/client/permission.h"
#include "net/deadline.h"

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
    struct net_loop *loop;
    const struct net_clock *clock;
    struct http_client *http;
    struct tls_config *tls; /* NULL for plain http */
    struct credentials *credentials;
    struct credential_check *check;
    struct health *health;
    const char *(*granted_by)(const struct request_info *ri);
    struct health own_health;   /* where nobody gave one */
    struct net_deadline expiry; /* when certificates are looked at again */
    unsigned expiry_look_ms;
    const struct kube_access *access;
    void (*on_change)(void *data);
    void *data;
    kube_client_close_cb on_closed;
    void *closed_data;
    bool http1_only;
    bool connected; /* with `tls` */
    bool judged;    /* the certificate that the server showed, with `tls` */
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

/* ---- what ends soon ---- */

static const char server_remedy[] =
    "renew the certificate of the API server or of the authority that signed it (kubeadm certs "
    "check-expiration, where kubeadm made them)";

static void keep_tls(struct kube_client *c, struct tls_config *tls)
{
    struct tls_config *before = c->tls;
    c->tls = tls_config_ref(tls);
    c->connected = false;
    c->judged = false;
    tls_config_unref(before);
}

/* The next connections are without what those before know of the server. */
static int renew_tls(struct kube_client *c, struct err *e)
{
    struct tls_configs tls;
    if (make_tls(c, &tls, e) != 0) {
        return e->code;
    }
    http_client_set_tls(c->http, tls.usual, tls.upgrade);
    keep_tls(c, tls.usual);
    tls_configs_unref(&tls);
    return 0;
}

/* The server may have another certificate by now: connections that are kept, and sessions that are
 * resumed, do not show it. So it counts once, and then the next request's connection has to show
 * what the server has. Once it has expired, kept connections may be all that works. */
static void look_at_server(struct kube_client *c, int64_t now)
{
    char subject[CREDENTIAL_SUBJECT_SIZE];
    struct validity server;
    struct err e = ERR_INIT;
    if (c->tls == NULL || !tls_config_peer_validity(c->tls, &server.from, &server.until)) {
        return;
    }
    bool may_be_another = c->judged && validity_ends_soon(&server, now) && server.until > now;
    if (may_be_another && renew_tls(c, &e) == 0) {
        return;
    }
    (void)snprintf(subject, sizeof subject, "the certificate of %.250s", c->server);
    expiry_judge(c->health, subject, &server, now, server_remedy);
    c->judged = true;
}

/* A plugin's credential is fetched anew before it ends. Who sends no requests has not looked at the
 * files, which may have new ones. */
static void look_at_expiry(struct kube_client *c)
{
    enum { US_PER_SECOND = 1000000 };
    int64_t now = net_clock_wall(c->clock) / US_PER_SECOND;
    struct credential_text text;
    credentials_refresh(c->credentials);
    credentials_describe(c->credentials, &text);
    if (c->access->exec == NULL) {
        expiry_judge(c->health, text.subject, &text.valid, now, text.remedy);
    }
    look_at_server(c, now);
}

static void on_expiry(struct net_deadline *d)
{
    struct kube_client *c = LIST_ITEM(d, struct kube_client, expiry);
    look_at_expiry(c);
    net_deadline_set(c->loop, &c->expiry, c->expiry_look_ms);
}

static void look_at_expiry_soon(struct kube_client *c)
{
    enum { SOON_MS = 1000 };
    net_deadline_set(c->loop, &c->expiry, SOON_MS);
}

/* ---- what the HTTP client and the credentials tell ---- */

static void use_new_certificates(struct kube_client *c)
{
    struct err e = ERR_INIT;
    if (renew_tls(c, &e) != 0) {
        log_error("the new certificates cannot be used; the old ones stay in use",
                  log_str("error", e.msg));
        return;
    }
    look_at_expiry_soon(c);
    log_info("new connections use the new certificates");
}

static void on_credentials(void *data, enum credentials_event event)
{
    struct kube_client *c = data;
    switch (event) {
    case CREDENTIALS_TLS:
        use_new_certificates(c);
        return;
    case CREDENTIALS_READY:
        log_info("credentials are ready");
        credential_check_found(c->check);
        break;
    case CREDENTIALS_FAILED:
        credential_check_lost(c->check);
        break;
    }
    if (c->on_change != NULL) {
        c->on_change(c->data);
    }
}

static void on_status(void *data, const struct http_head *request, unsigned status)
{
    struct kube_client *c = data;
    if (!c->connected) {
        c->connected = true;
        look_at_expiry_soon(c); /* the server has shown its certificate */
    }
    credential_check_status(c->check, request, status);
}

static void on_reach(void *data, const struct err *why)
{
    const struct kube_client *c = data;
    if (why == NULL) {
        health_clear(c->health, HEALTH_UNREACHABLE, c->server);
        return;
    }
    const struct health_report r = {
        .cause = HEALTH_UNREACHABLE,
        .subject = c->server,
        .message = why->msg,
        .remedy = "see that this address is the API server's, that it runs, and that nothing "
                  "between here and there (a NetworkPolicy, a firewall, a proxy) keeps connections "
                  "away",
    };
    health_raise(c->health, &r);
}

static void probe(void *data, struct http_probe *p);

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
        .probe = probe,
        .probe_data = c,
        .on_status = on_status,
        .on_reach = on_reach,
        .notice_data = c,
    };
    if (o.proxy != NULL) {
        char name[KUBE_PROXY_NAME_SIZE];
        kube_proxy_name(via, name);
        log_info("reaching the API server through a proxy", log_str("server", c->server),
                 log_str("proxy", name));
    }
    c->http = http_client_new(l, &o, e);
    keep_tls(c, tls.usual);
    tls_configs_unref(&tls);
    return c->http == NULL ? e->code : 0;
}

static int open_check(struct kube_client *c, struct net_loop *l, struct err *e)
{
    const struct credential_check_options o = {
        .via = kube_client_requester(c),
        .credentials = c->credentials,
        .health = c->health,
        .clock = c->clock,
        .server = c->server,
    };
    c->check = credential_check_new(l, &o, e);
    return c->check == NULL ? e->code : 0;
}

static void on_credentials_closed(void *data)
{
    struct kube_client *c = data;
    kube_client_close_cb cb = c->on_closed;
    void *cb_data = c->closed_data;
    health_deinit(&c->own_health);
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
    c->loop = l;
    c->clock = o->clock != NULL ? o->clock : &net_clock_system;
    health_init(&c->own_health, c->clock);
    c->health = o->health != NULL ? o->health : &c->own_health;
    c->granted_by = o->granted_by;
    net_deadline_init(&c->expiry, on_expiry);
    c->expiry_look_ms = o->expiry_look_ms != 0 ? o->expiry_look_ms : EXPIRY_LOOK_MS;
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
    if (open_check(c, l, e) != 0 || open_http(c, l, o, e) != 0) {
        kube_client_close(c, NULL, NULL);
        return NULL;
    }
    look_at_expiry_soon(c);
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

/* The head with what the kubeconfig adds to it; `target` has its path then. 0, or a code. */
static int complete_head(struct kube_client *c, struct http_head *head,
                         struct http_header headers[HEADERS_MAX], struct buf *target, struct err *e)
{
    size_t count = gather_headers(c, head, headers);
    if (count == 0) {
        return err_set(e, UV_E2BIG, "the request has too many headers");
    }
    head->headers = headers;
    head->header_count = count;
    if (c->access->server.path[0] == '\0') {
        return 0;
    }
    if (buf_append_str(target, c->access->server.path) != 0 ||
        buf_append(target, head->target.ptr, head->target.len) != 0) {
        return err_memory(e);
    }
    head->target = buf_slice(target);
    return 0;
}

struct http_exchange *kube_client_request(struct kube_client *c, const struct http_head *head,
                                          const struct http_exchange_handlers *handlers, void *data,
                                          struct err *e)
{
    struct http_header headers[HEADERS_MAX];
    struct http_head h = *head;
    struct buf target = BUF_INIT(TARGET_MAX);
    struct http_exchange *x = NULL;
    if (complete_head(c, &h, headers, &target, e) == 0) {
        x = http_client_request(c->http, &h, handlers, data, e);
    }
    buf_reset(&target);
    return x;
}

/* What asks whether it lives is answered whatever else waits (the FlowSchema "probes"), and whoever
 * asks. */
static void probe(void *data, struct http_probe *p)
{
    struct kube_client *c = data;
    const struct http_header agent = {SLICE("User-Agent"), SLICE("cmesh/" CMESH_VERSION)};
    struct http_head h = {.method = SLICE("GET"),
                          .target = SLICE("/livez"),
                          .headers = &agent,
                          .header_count = 1,
                          .framing = HTTP_BODY_NONE};
    struct http_header headers[HEADERS_MAX];
    struct buf target = BUF_INIT(TARGET_MAX);
    struct err e = ERR_INIT;
    if (complete_head(c, &h, headers, &target, &e) == 0) {
        http_probe_send(p, &h);
    }
    buf_reset(&target);
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

struct health *kube_client_health(const struct kube_client *c)
{
    return c->health;
}

uint64_t kube_client_refused_ms(const struct kube_client *c)
{
    return credential_check_refused_ms(c->check);
}

void kube_client_describe(const struct kube_client *c, struct credential_text *out)
{
    credentials_describe(c->credentials, out);
}

bool kube_client_denied(struct kube_client *c, struct slice method, struct slice target,
                        const char *message)
{
    return permission_denied(c->health, c->granted_by, method, target, message);
}

void kube_client_granted(struct kube_client *c, struct slice method, struct slice target)
{
    permission_granted(c->health, method, target);
}

enum log_level kube_client_failure_level(const struct kube_client *c, unsigned status)
{
    bool told = false;
    if (status == 0) {
        told = http_client_in_doubt(c->http) || !kube_client_ready(c);
    } else if (status == 401) {
        told = credential_check_doubted(c->check);
    }
    return told ? LOG_DEBUG : status == 403 ? LOG_INFO : LOG_WARN;
}

void kube_client_close(struct kube_client *c, kube_client_close_cb cb, void *data)
{
    c->on_closed = cb;
    c->closed_data = data;
    net_deadline_clear(&c->expiry);
    credential_check_free(c->check);
    c->check = NULL;
    http_client_free(c->http);
    c->http = NULL;
    tls_config_unref(c->tls);
    c->tls = NULL;
    credentials_close(c->credentials, on_credentials_closed, c);
}
