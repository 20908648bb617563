/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/admin_server.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/prometheus.h"
#include "http/server.h"
#include "kube/query.h"
#include "kube/status.h"

enum {
    BODY_MAX = 2 * 1024 * 1024,
    TIMEOUT_MS = 10000,
    FIRST_BYTE_MS = 5000,
    CONNECTIONS_MAX = 64,
    REQUEST_BYTES_MAX = 1024 * 1024,    /* of heads that are not those of a probe */
    UNREAD_BYTES_MAX = 8 * 1024 * 1024, /* of pages; more than one can have */
    KERNEL_BYTES = 128 * 1024,          /* that it has of a connection each way */
};

struct admin_server {
    struct admin_server_options o;
    struct http_server *server;
    struct byte_budget budget;
    struct net_backlog *backlog;
    struct net_loop *loop;
    uint64_t started_ms;
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
        respond(x, code, SLICE("text/plain; charset=utf-8"), buf_slice(&body));
    }
    buf_reset(&body);
}

static void serve_health(struct admin_server *a, struct http_exchange *x,
                         const struct http_head *head)
{
    (void)head;
    (void)a;
    respond_text(x, 200, "ok");
}

static void serve_ready(struct admin_server *a, struct http_exchange *x,
                        const struct http_head *head)
{
    struct slice value;
    struct admin_checks checks;
    struct buf text = BUF_INIT(BODY_MAX);
    bool verbose = query_find(query_of(head->target), SLICE("verbose"), &value);
    admin_checks_init(&checks, &text);
    a->o.ops->check(a->o.data, &checks);
    buf_printf(&text, "readyz check %s", checks.ready ? "passed" : "failed");
    const char *all = verbose ? buf_cstr(&text) : NULL;
    respond_text(x, checks.ready ? 200 : 503, all != NULL ? all : checks.why);
    buf_reset(&text);
}

/* The dashboard joins on it, to show the processes of cmesh alone. */
static int write_build(const struct admin_server *a, struct buf *out)
{
    static const char name[] = "cmesh_build_info";
    prometheus_head(out, name, "gauge", "Program and version of this process; always 1.");
    return buf_printf(out, "%s{program=\"%s\",version=\"%s\"} 1\n", name, a->o.program,
                      CMESH_VERSION);
}

static void serve_metrics(struct admin_server *a, struct http_exchange *x,
                          const struct http_head *head)
{
    (void)head;
    struct buf body = BUF_INIT(BODY_MAX);
    if (a->o.ops->metrics(a->o.data, &body) != 0 || write_build(a, &body) != 0 ||
        prometheus_process(&body) != 0) {
        http_exchange_abort(x);
    } else {
        respond(x, 200, SLICE(PROMETHEUS_CONTENT_TYPE), buf_slice(&body));
    }
    buf_reset(&body);
}

static char *status_text(struct admin_server *a)
{
    struct admin_checks checks;
    admin_checks_init(&checks, NULL);
    a->o.ops->check(a->o.data, &checks);
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "program", a->o.program);
    cJSON_AddStringToObject(root, "version", CMESH_VERSION);
    cJSON_AddBoolToObject(root, "ready", checks.ready);
    cJSON_AddStringToObject(root, "message", checks.why);
    cJSON_AddNumberToObject(root, "uptimeSeconds",
                            (double)((net_loop_now(a->loop) - a->started_ms) / 1000));
    a->o.ops->status(a->o.data, root);
    char *text = cJSON_Print(root);
    cJSON_Delete(root);
    return text;
}

static void serve_status(struct admin_server *a, struct http_exchange *x,
                         const struct http_head *head)
{
    const struct http_header *agent = http_head_find(head, SLICE("User-Agent"));
    if (a->o.ops->asked != NULL) {
        a->o.ops->asked(a->o.data, agent == NULL ? SLICE("") : agent->value);
    }
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
    void (*serve)(struct admin_server *a, struct http_exchange *x, const struct http_head *head);
} pages[] = {
    {{"/healthz", 8}, serve_health},
    {{"/readyz", 7}, serve_ready},
    {{"/metrics", 8}, serve_metrics},
    {{"/status", 7}, serve_status},
};

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct admin_server *a = data;
    const char *mark = memchr(head->target.ptr, '?', head->target.len);
    struct slice path = slice_of(head->target.ptr, mark != NULL ? (size_t)(mark - head->target.ptr)
                                                                : head->target.len);
    if (!slice_eq(head->method, SLICE("GET")) && !slice_eq(head->method, SLICE("HEAD"))) {
        respond_text(x, 405, "only GET and HEAD are served here");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
        if (slice_eq(path, pages[i].path)) {
            pages[i].serve(a, x, head);
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

struct admin_server *admin_server_new(struct net_loop *l, const struct admin_server_options *o,
                                      struct err *e)
{
    struct admin_server *a = calloc(1, sizeof *a);
    if (a == NULL) {
        err_memory(e);
        return NULL;
    }
    a->o = *o;
    a->loop = l;
    a->started_ms = net_loop_now(l);
    a->budget.max = REQUEST_BYTES_MAX;
    a->backlog = net_backlog_new(l, UNREAD_BYTES_MAX);
    if (a->backlog == NULL) {
        err_memory(e);
        free(a);
        return NULL;
    }
    struct http_server_options so = {
        .address = o->address,
        .head_timeout_ms = TIMEOUT_MS,
        .first_timeout_ms = FIRST_BYTE_MS,
        .idle_timeout_ms = 6 * TIMEOUT_MS,
        .write_timeout_ms = TIMEOUT_MS,
        .max_connections = CONNECTIONS_MAX,
        .replace_idle = true,
        .budget = &a->budget,
        .backlog = a->backlog,
        .kernel_bytes = KERNEL_BYTES,
    };
    a->server = http_server_new(l, &so, &handlers, a, e);
    if (a->server == NULL) {
        err_prefix(e, "--admin");
        net_backlog_unref(a->backlog);
        free(a);
        return NULL;
    }
    return a;
}

const char *admin_server_address(const struct admin_server *a)
{
    return http_server_address(a->server);
}

void admin_server_free(struct admin_server *a)
{
    if (a != NULL) {
        http_server_free(a->server);
        net_backlog_unref(a->backlog);
        free(a);
    }
}
