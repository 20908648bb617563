/* SPDX-License-Identifier: Apache-2.0 */
#include "admin.h"

#include <stdlib.h>

#include <cjson/cJSON.h>

#include "kube/status.h"

enum { BODY_MAX = 256 * 1024, TIMEOUT_MS = 10000, CONNECTIONS_MAX = 64 };

struct admin {
    struct admin_options o;
    struct http_server *server;
    uint64_t started_ms;
    struct net_loop *loop;
};

static void respond(struct http_exchange *x, unsigned code, struct slice type, struct slice body)
{
    if (http_respond(x, code, type, body, NULL, 0) != 0) {
        http_exchange_abort(x);
    }
}

static void respond_text(struct http_exchange *x, unsigned code, const char *text)
{
    struct buf body = BUF_INIT(BODY_MAX);
    if (buf_printf(&body, "%s\n", text) != 0) {
        http_exchange_abort(x);
    } else {
        respond(x, code, SLICE("text/plain; charset=utf-8"),
                slice_of((const char *)buf_data(&body), body.len));
    }
    buf_reset(&body);
}

static void serve_health(struct admin *a, struct http_exchange *x)
{
    (void)a;
    respond_text(x, 200, "ok");
}

static void serve_ready(struct admin *a, struct http_exchange *x)
{
    char why[ERR_MSG_MAX + 64];
    bool ready = proxy_ready(a->o.proxy, why, sizeof why);
    respond_text(x, ready ? 200 : 503, why);
}

static void serve_metrics(struct admin *a, struct http_exchange *x)
{
    struct buf body = BUF_INIT(BODY_MAX);
    char why[ERR_MSG_MAX + 64];
    struct metrics_sources s = {
        .server = proxy_stats(a->o.proxy),
        .client = kube_client_stats(a->o.upstream),
        .rules = proxy_rules(a->o.proxy),
        .ready = proxy_ready(a->o.proxy, why, sizeof why),
    };
    if (metrics_write(a->o.metrics, &s, &body) != 0) {
        http_exchange_abort(x);
    } else {
        respond(x, 200, SLICE("text/plain; version=0.0.4; charset=utf-8"),
                slice_of((const char *)buf_data(&body), body.len));
    }
    buf_reset(&body);
}

static void add_rules(const struct admin *a, cJSON *root)
{
    const struct rules *r = proxy_rules(a->o.proxy);
    cJSON *rules = cJSON_AddObjectToObject(root, "rules");
    cJSON_AddStringToObject(rules, "path", a->o.config->rules != NULL ? a->o.config->rules : "");
    cJSON_AddBoolToObject(rules, "inForce", r != NULL);
    if (r == NULL) {
        return;
    }
    cJSON *shard = cJSON_AddObjectToObject(rules, "shard");
    cJSON_AddStringToObject(shard, "namespace", rules_shard_namespace(r));
    cJSON_AddStringToObject(shard, "name", rules_shard_name(r));
    cJSON_AddNumberToObject(rules, "generation", (double)rules_generation(r));
    cJSON_AddStringToObject(rules, "checksum", rules_checksum(r));
    cJSON_AddNumberToObject(rules, "limits", (double)rules_limit_count(r));
}

static void add_upstream(const struct admin *a, cJSON *root)
{
    const struct http_client_stats *s = kube_client_stats(a->o.upstream);
    const char *error = kube_client_error(a->o.upstream);
    cJSON *up = cJSON_AddObjectToObject(root, "upstream");
    cJSON_AddStringToObject(up, "server", kube_client_server(a->o.upstream));
    cJSON_AddBoolToObject(up, "credentials", kube_client_ready(a->o.upstream));
    if (error != NULL) {
        cJSON_AddStringToObject(up, "credentialsError", error);
    }
    cJSON_AddNumberToObject(up, "connections", s->open);
    cJSON_AddNumberToObject(up, "dialFailures", (double)s->failed);
}

static char *status_text(const struct admin *a)
{
    char why[ERR_MSG_MAX + 64];
    cJSON *root = cJSON_CreateObject();
    bool ready = proxy_ready(a->o.proxy, why, sizeof why);
    cJSON_AddStringToObject(root, "program", "localproxy");
    cJSON_AddStringToObject(root, "version", CMESH_VERSION);
    cJSON_AddBoolToObject(root, "ready", ready);
    cJSON_AddStringToObject(root, "message", why);
    cJSON_AddNumberToObject(root, "uptimeSeconds",
                            (double)((net_loop_now(a->loop) - a->started_ms) / 1000));
    cJSON_AddStringToObject(root, "listen", proxy_address(a->o.proxy));
    add_rules(a, root);
    add_upstream(a, root);
    cJSON_AddNumberToObject(root, "requestsInFlight", proxy_stats(a->o.proxy)->busy);
    cJSON_AddNumberToObject(root, "openWatches", (double)a->o.metrics->open_watches);
    char *text = cJSON_Print(root);
    cJSON_Delete(root);
    return text;
}

static void serve_status(struct admin *a, struct http_exchange *x)
{
    char *text = status_text(a);
    if (text == NULL) {
        http_exchange_abort(x);
        return;
    }
    respond(x, 200, SLICE("application/json"), slice_str(text));
    cJSON_free(text);
}

static const struct {
    struct slice path;
    void (*serve)(struct admin *a, struct http_exchange *x);
} pages[] = {
    {{"/healthz", 8}, serve_health},
    {{"/readyz", 7}, serve_ready},
    {{"/metrics", 8}, serve_metrics},
    {{"/status", 7}, serve_status},
};

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct admin *a = data;
    const char *mark = memchr(head->target.ptr, '?', head->target.len);
    struct slice path = slice_of(head->target.ptr, mark != NULL ? (size_t)(mark - head->target.ptr)
                                                                : head->target.len);
    if (!slice_eq(head->method, SLICE("GET")) && !slice_eq(head->method, SLICE("HEAD"))) {
        respond_text(x, 405, "only GET and HEAD are served here");
        return;
    }
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        if (slice_eq(path, pages[i].path)) {
            pages[i].serve(a, x);
            return;
        }
    }
    respond_text(x, 404, "not found; there are /healthz, /readyz, /metrics and /status");
}

static void on_refuse(void *data, unsigned status, const char *why, struct buf *body)
{
    (void)data;
    if (status_write(body, status, NULL, 0, "%s", why) != 0) {
        buf_clear(body);
    }
}

static const struct http_server_handlers handlers = {
    .on_request = on_request,
    .on_refuse = on_refuse,
};

struct admin *admin_new(struct net_loop *l, const struct admin_options *o, struct err *e)
{
    struct admin *a = calloc(1, sizeof *a);
    if (a == NULL) {
        err_set(e, UV_ENOMEM, "out of memory");
        return NULL;
    }
    a->o = *o;
    a->loop = l;
    a->started_ms = net_loop_now(l);
    struct http_server_options so = {
        .address = o->config->admin,
        .head_timeout_ms = TIMEOUT_MS,
        .idle_timeout_ms = 6 * TIMEOUT_MS,
        .write_timeout_ms = TIMEOUT_MS,
        .max_connections = CONNECTIONS_MAX,
    };
    a->server = http_server_new(l, &so, &handlers, a, e);
    if (a->server == NULL) {
        err_prefix(e, "--admin");
        free(a);
        return NULL;
    }
    return a;
}

const char *admin_address(const struct admin *a)
{
    return http_server_address(a->server);
}

void admin_free(struct admin *a)
{
    if (a != NULL) {
        http_server_free(a->server);
        free(a);
    }
}
