/* SPDX-License-Identifier: Apache-2.0 */
#include "control/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "http/client.h"
#include "http/fetch.h"
#include "kube/query.h"
#include "net/socket_file.h"

enum { TARGET_MAX = 4 * ERR_MSG_MAX };

struct control_client {
    struct net_loop *loop;
    struct http_client *http;
    struct http_fetch *fetch; /* NULL: no call is under way */
    uint64_t timeout_ms;
    enum control_document document; /* of the call under way */
    control_client_cb cb;
    void *data;
    char path[SOCKET_FILE_PATH_SIZE];
};

struct control_client *control_client_new(struct net_loop *l,
                                          const struct control_client_options *o, struct err *e)
{
    struct sockaddr_un checked;
    if (socket_file_address(o->path, &checked, e) != 0) {
        return NULL;
    }
    struct control_client *c = calloc(1, sizeof *c);
    if (c == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    struct http_client_options ho = {
        .path = o->path,
        .connect_timeout_ms = o->timeout_ms,
        .write_timeout_ms = o->timeout_ms,
        .max_idle = 0,
    };
    c->http = http_client_new(l, &ho, e);
    if (c->http == NULL) {
        free(c);
        return NULL;
    }
    c->loop = l;
    c->timeout_ms = o->timeout_ms;
    memcpy(c->path, checked.sun_path, sizeof c->path);
    return c;
}

/* What a status other than 200 means to the caller. Rules are known by all versions. */
static int code_of(unsigned status, enum control_document d)
{
    switch (status) {
    case 404:
        return d == CONTROL_RULES ? -EPROTO : -ENOSYS;
    case 400:
    case 413:
        return -EINVAL;
    case 409:
        return -ESTALE;
    case 503:
        return -EAGAIN;
    default:
        return -EPROTO;
    }
}

static void explain(const struct control_client *c, const struct http_answer *a, struct err *e)
{
    char why[ERR_MSG_MAX];
    int code = code_of(a->status, c->document);
    control_error_decode(a->body, why);
    if (code == -EPROTO || code == -ENOSYS || why[0] == '\0') {
        (void)err_set(e, code, "%s answered with status %u%s%s", c->path, a->status,
                      why[0] != '\0' ? ": " : "", why);
    } else {
        (void)err_set(e, code, "%s", why);
    }
}

/* A connection that cannot be made is reported with its path already. */
static void name_socket(const struct control_client *c, struct err *e)
{
    if (strstr(e->msg, c->path) == NULL) {
        err_prefix(e, "%s", c->path);
    }
}

static void on_answer(void *data, const struct http_answer *a, const struct err *e)
{
    struct control_client *c = data;
    struct control_state state;
    struct err why = ERR_INIT;
    bool changed = false;
    int rc;
    c->fetch = NULL;
    if (a == NULL) {
        why = *e;
        rc = why.code;
        name_socket(c, &why);
    } else if (a->status != 200) {
        explain(c, a, &why);
        rc = why.code;
    } else {
        rc = control_state_decode(a->body, &state, &changed, &why);
        if (rc != 0) {
            err_prefix(&why, "%s: cannot parse the response", c->path);
        }
    }
    c->cb(c->data, rc == 0 ? &state : NULL, rc == 0 && changed, rc == 0 ? NULL : &why);
}

/* `to`: the target with its query. */
struct request {
    struct slice method;
    struct slice to;
    struct slice body;
    enum control_document document;
};

static int begin_call(struct control_client *c, const struct request *r, control_client_cb cb,
                      void *data, struct err *e)
{
    if (c->fetch != NULL) {
        return err_set(e, -EBUSY, "%s: another call is in progress", c->path);
    }
    const struct http_header headers[] = {
        {SLICE("Host"), SLICE("localhost")},
        {SLICE("Content-Type"), SLICE("application/json")},
    };
    struct http_fetch_options o = {
        .via = http_client_requester(c->http),
        .method = r->method,
        .target = r->to,
        .headers = headers,
        .header_count = r->body.ptr != NULL ? 2 : 1,
        .body = r->body,
        .answer_max = CONTROL_BODY_MAX,
        .timeout_ms = c->timeout_ms,
    };
    struct err why = ERR_INIT;
    c->document = r->document;
    c->cb = cb;
    c->data = data;
    c->fetch = http_fetch_start(c->loop, &o, on_answer, c, &why);
    if (c->fetch == NULL) {
        name_socket(c, &why);
        return err_set(e, why.code, "%s", why.msg);
    }
    return 0;
}

int control_client_put(struct control_client *c, enum control_document d, struct slice text,
                       control_client_cb cb, void *data, struct err *e)
{
    size_t max = control_document_max(d);
    if (text.len > max) {
        return err_set(e, -EMSGSIZE, "the document has more than %zu bytes", max);
    }
    const struct request r = {
        .method = SLICE("PUT"),
        .to = slice_str(control_target(d)),
        .body = text.ptr != NULL ? text : SLICE(""),
        .document = d,
    };
    return begin_call(c, &r, cb, data, e);
}

int control_client_delete(struct control_client *c, enum control_document d, control_client_cb cb,
                          void *data, struct err *e)
{
    const struct request r = {
        .method = SLICE("DELETE"),
        .to = slice_str(control_target(d)),
        .document = d,
    };
    return begin_call(c, &r, cb, data, e);
}

int control_client_get(struct control_client *c, enum control_document d, const char *trouble,
                       control_client_cb cb, void *data, struct err *e)
{
    struct buf target = BUF_INIT(TARGET_MAX);
    buf_append_str(&target, control_target(d));
    if (trouble != NULL) {
        buf_append_str(&target, "?" CONTROL_TROUBLE "=");
        query_encode(slice_str(trouble), &target);
    }
    int rc = buf_error(&target);
    if (rc == 0) {
        const struct request r = {
            .method = SLICE("GET"),
            .to = buf_slice(&target),
            .document = d,
        };
        rc = begin_call(c, &r, cb, data, e);
    } else {
        (void)err_set(e, rc, "%s", err_text(rc));
    }
    buf_reset(&target);
    return rc;
}

void control_client_cancel(struct control_client *c)
{
    http_fetch_cancel(c->fetch);
    c->fetch = NULL;
}

void control_client_free(struct control_client *c)
{
    if (c == NULL) {
        return;
    }
    control_client_cancel(c);
    http_client_free(c->http);
    free(c);
}
