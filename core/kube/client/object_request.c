/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/object_request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "http/fetch.h"
#include "kube/client/object_target.h"
#include "json/json.h"

enum { TARGET_MAX = 64 * 1024, HEADERS_MAX = 3 };

struct object_request {
    struct kube_client *client;
    struct http_fetch *fetch;
    object_request_cb cb;
    void *data;
    struct slice method;
    size_t target_len;
    char target[];
};

enum body {
    BODY_NONE,
    BODY_MAY, /* an object */
    BODY_OBJECT,
    BODY_ARRAY,
};

static const struct {
    struct slice method;
    const char *content_type;
    enum body body;
} verbs[] = {
    [OBJECT_REQUEST_GET] = {{"GET", 3}, NULL, BODY_NONE},
    [OBJECT_REQUEST_CREATE] = {{"POST", 4}, "application/json", BODY_OBJECT},
    [OBJECT_REQUEST_UPDATE] = {{"PUT", 3}, "application/json", BODY_OBJECT},
    [OBJECT_REQUEST_DELETE] = {{"DELETE", 6}, "application/json", BODY_MAY},
    [OBJECT_REQUEST_MERGE_PATCH] = {{"PATCH", 5}, "application/merge-patch+json", BODY_OBJECT},
    [OBJECT_REQUEST_JSON_PATCH] = {{"PATCH", 5}, "application/json-patch+json", BODY_ARRAY},
    [OBJECT_REQUEST_STRATEGIC_PATCH] = {{"PATCH", 5},
                                        "application/strategic-merge-patch+json",
                                        BODY_OBJECT},
    /* YAML, of which JSON is a part. */
    [OBJECT_REQUEST_APPLY] = {{"PATCH", 5}, "application/apply-patch+yaml", BODY_OBJECT},
};

/* ---- the answer ---- */

static void set_error(struct api_error *out, const struct err *e)
{
    *out = (struct api_error){.level = LOG_WARN};
    memcpy(out->msg, e->msg, sizeof out->msg);
}

/* The object; NULL with `error` set. */
static cJSON *read_answer(const struct object_request *w, const struct http_answer *a,
                          struct api_error *error)
{
    struct err e = ERR_INIT;
    if (a->status < 200 || a->status > 299) {
        api_error_from_answer(a->status, a->headers[0], a->body, error);
        return NULL;
    }
    cJSON *object = json_parse_foreign(a->body.ptr, a->body.len, &e);
    if (object != NULL && !cJSON_IsObject(object)) {
        cJSON_Delete(object);
        object = NULL;
        err_set(&e, -EPROTO, "not a JSON object");
    }
    if (object == NULL) {
        err_prefix(&e, "cannot parse the response of %s", kube_client_server(w->client));
        set_error(error, &e);
    }
    return object;
}

/* At which level to log it. */
static enum log_level judge_failure(const struct object_request *w, const struct http_answer *a,
                                    const struct api_error *error)
{
    struct slice target = slice_of(w->target, w->target_len);
    if (a != NULL && a->status == 403 &&
        !kube_client_denied(w->client, w->method, target, error->msg)) {
        return LOG_WARN;
    }
    return kube_client_failure_level(w->client, a == NULL ? 0 : a->status);
}

static void on_answer(void *data, const struct http_answer *a, const struct err *e)
{
    struct object_request *w = data;
    struct api_error error;
    cJSON *object = NULL;
    if (a != NULL) {
        object = read_answer(w, a, &error);
    } else {
        struct err why = *e;
        err_prefix(&why, "request to %s failed", kube_client_server(w->client));
        set_error(&error, &why);
    }
    if (object == NULL) {
        error.level = judge_failure(w, a, &error);
    }
    if (a != NULL && a->status != 401 && a->status != 403) {
        kube_client_granted(w->client, w->method, slice_of(w->target, w->target_len));
    }
    w->cb(w->data, object, object == NULL ? &error : NULL);
    cJSON_Delete(object);
    free(w);
}

/* ---- the request ---- */

static int check_body(const struct object_request_options *q, struct err *e)
{
    enum body wanted = verbs[q->verb].body;
    if (q->body == NULL ? wanted == BODY_OBJECT || wanted == BODY_ARRAY : wanted == BODY_NONE) {
        return err_set(e, -EINVAL, "this request %s body",
                       q->body == NULL ? "must have a" : "must not have a");
    }
    bool array = wanted == BODY_ARRAY;
    if (q->body != NULL && !(array ? cJSON_IsArray(q->body) : cJSON_IsObject(q->body))) {
        return err_set(e, -EINVAL, "the body of this request must be %s",
                       array ? "a list" : "an object");
    }
    return 0;
}

static int check_options(const struct object_request_options *q, struct err *e)
{
    bool named = q->name != NULL;
    if (q->verb == OBJECT_REQUEST_CREATE ? named != (q->subresource != NULL)
                                         : !named && q->verb != OBJECT_REQUEST_GET) {
        return err_set(e, -EINVAL, "the name of the object is %s",
                       named ? "part of its body" : "missing");
    }
    if (q->force && q->verb != OBJECT_REQUEST_APPLY) {
        return err_set(e, -EINVAL, "force is only allowed with apply");
    }
    if (q->verb == OBJECT_REQUEST_APPLY &&
        (q->field_manager == NULL || q->field_manager[0] == '\0')) {
        return err_set(e, -EINVAL, "the field manager is missing");
    }
    return check_body(q, e);
}

static int write_request(const struct object_request_options *q, struct buf *target,
                         struct buf *body, struct err *e)
{
    const struct object_target t = {
        .path = q->path,
        .name = q->name,
        .subresource = q->subresource,
        .field_manager = q->field_manager,
        .force = q->force,
        .dry_run = q->dry_run,
    };
    int rc = object_target_write(&t, target, e);
    if (rc != 0 || q->body == NULL) {
        return rc;
    }
    rc = json_canonical(q->body, body);
    return rc != 0 ? err_set(e, rc, "the body of the request: %s", err_text(rc)) : 0;
}

static struct slice accepted(const struct object_request_options *q)
{
    if (q->accept != NULL) {
        return slice_str(q->accept);
    }
    return q->metadata_only ? SLICE("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
                                    "application/json")
                            : SLICE("application/json");
}

static struct http_fetch *start_fetch(struct net_loop *l, struct object_request *w,
                                      const struct object_request_options *q, struct slice target,
                                      struct slice body, struct err *e)
{
    static const char *const wanted[] = {"Retry-After", NULL};
    const struct http_header headers[HEADERS_MAX] = {
        {SLICE("Accept"), accepted(q)},
        {SLICE("User-Agent"), SLICE("cmesh/" CMESH_VERSION)},
        {SLICE("Content-Type"), slice_str(verbs[q->verb].content_type)},
    };
    const struct http_fetch_options o = {
        .via = kube_client_requester(w->client),
        .method = verbs[q->verb].method,
        .target = target,
        .headers = headers,
        .header_count = body.ptr == NULL ? HEADERS_MAX - 1 : HEADERS_MAX,
        .body = body,
        .answer_max = OBJECT_REQUEST_ANSWER_MAX,
        .timeout_ms = q->timeout_ms == 0 ? OBJECT_REQUEST_TIMEOUT_MS : q->timeout_ms,
        .wanted = wanted,
    };
    return http_fetch_start(l, &o, on_answer, w, e);
}

static struct object_request *start_request(struct net_loop *l, const struct object_request *model,
                                            const struct object_request_options *q, struct err *e)
{
    struct buf target = BUF_INIT(TARGET_MAX);
    struct buf body = BUF_INIT(OBJECT_REQUEST_BODY_MAX);
    struct object_request *w = NULL;
    if (write_request(q, &target, &body, e) != 0) {
        goto out;
    }
    w = malloc(sizeof *w + target.len);
    if (w == NULL) {
        err_memory(e);
        goto out;
    }
    *w = *model;
    w->method = verbs[q->verb].method;
    w->target_len = target.len;
    memcpy(w->target, buf_data(&target), target.len);
    w->fetch = start_fetch(l, w, q, buf_slice(&target), buf_slice(&body), e);
    if (w->fetch == NULL) {
        free(w);
        w = NULL;
    }
out:
    buf_reset(&target);
    buf_reset(&body);
    return w;
}

struct object_request *object_request_start(struct net_loop *l, struct kube_client *c,
                                            const struct object_request_options *q,
                                            object_request_cb cb, void *data, struct err *e)
{
    const struct object_request model = {.client = c, .cb = cb, .data = data};
    if (check_options(q, e) != 0) {
        return NULL;
    }
    if (!kube_client_ready(c)) {
        const char *why = kube_client_error(c);
        err_set(e, -EAGAIN, "waiting for credentials%s%s", why == NULL ? "" : ": ",
                why == NULL ? "" : why);
        return NULL;
    }
    return start_request(l, &model, q, e);
}

void object_request_cancel(struct object_request *w)
{
    if (w != NULL) {
        http_fetch_cancel(w->fetch);
        free(w);
    }
}
