/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/start_version.h"

#include <stdlib.h>

#include "base/log.h"
#include "codec/list_meta.h"
#include "headers.h"
#include "net/deadline.h"
#include "watch/derived_requests.h"

enum {
    TARGET_MAX = 1024 * 1024,
    LIMIT_MS = 5000,
    AGAIN_MS = 10000, /* after a failure that may pass */
};

struct start_version {
    struct start_versions *all;
    struct list link;
    uint64_t resource;
    struct http_exchange *up; /* NULL: it was answered, in vain */
    unsigned status;
    struct list_meta *list;  /* the answer, if it is one */
    struct net_deadline due; /* of the answer; after a failure, when it is forgotten */
    struct list waiting;
};

void start_versions_init(struct start_versions *s, struct net_loop *l, struct kube_client *upstream,
                         struct delivered_versions *points)
{
    *s = (struct start_versions){.loop = l, .upstream = upstream, .points = points};
    list_init(&s->all);
}

static void start_version_free(struct start_version *v)
{
    if (v->up != NULL) {
        http_exchange_abort(v->up);
    }
    net_deadline_clear(&v->due);
    list_meta_free(v->list);
    list_remove(&v->link);
    v->all->count--;
    free(v);
}

void start_versions_deinit(struct start_versions *s)
{
    while (!list_empty(&s->all)) {
        start_version_free(LIST_ITEM(s->all.next, struct start_version, link));
    }
}

static struct start_version *find(const struct start_versions *s, uint64_t resource)
{
    LIST_FOR_EACH(node, &s->all)
    {
        struct start_version *v = LIST_ITEM(node, struct start_version, link);
        if (v->resource == resource) {
            return v;
        }
    }
    return NULL;
}

static bool may_tell_a_version(const struct request_attributes *a)
{
    return (a->verb == VERB_CREATE && a->name.len == 0) || a->verb == VERB_UPDATE ||
           a->verb == VERB_PATCH ||
           (a->verb == VERB_WATCH && a->version == 0 && !a->initial_events);
}

bool start_versions_wanted(const struct start_versions *s, const struct request_attributes *a)
{
    if (!may_tell_a_version(a) || !delivered_is_doubted(s->points, a->key.resource)) {
        return false;
    }
    const struct start_version *v = find(s, a->key.resource);
    return v == NULL || v->up != NULL;
}

/* ---- the answer ---- */

/* A refusal will be one again. */
static bool may_pass(unsigned status)
{
    return status == 0 || status == 401 || status == 429 || status >= 500;
}

static void conclude(struct start_version *v, uint64_t version)
{
    net_deadline_clear(&v->due);
    log_debug("where a resource is", log_num("version", (int64_t)version),
              log_num("code", v->status));
    if (version != 0) {
        delivered_started(v->all->points, v->resource, version);
    } else if (may_pass(v->status)) {
        net_deadline_set(v->all->loop, &v->due, AGAIN_MS);
    }
    paused_requests_continue(&v->waiting);
    if (version != 0) {
        start_version_free(v);
    }
}

static void up_on_head(struct http_exchange *x, const struct http_head *head)
{
    struct start_version *v = x->data;
    v->status = head->status;
    if (head->status == 401) {
        kube_client_rejected(v->all->upstream);
    }
    if (head->status == 200) {
        v->list = list_meta_new(headers_value(head, SLICE("Content-Type")),
                                headers_value(head, SLICE("Content-Encoding")));
    }
}

static void up_on_body(struct http_exchange *x, struct slice data)
{
    struct start_version *v = x->data;
    if (v->list != NULL) {
        list_meta_feed(v->list, data);
    }
}

static void up_on_end_or_drain(struct http_exchange *x)
{
    (void)x;
}

static void up_on_close(struct http_exchange *x, const struct err *e)
{
    struct start_version *v = x->data;
    struct list_meta_result found = {0};
    v->up = NULL;
    if (e != NULL) {
        v->status = 0;
    } else if (v->list != NULL) {
        list_meta_end(v->list, &found);
    }
    list_meta_free(v->list);
    v->list = NULL;
    conclude(v, found.resource_version);
}

static const struct http_exchange_handlers up_handlers = {
    .on_head = up_on_head,
    .on_body = up_on_body,
    .on_end = up_on_end_or_drain,
    .on_drain = up_on_end_or_drain,
    .on_close = up_on_close,
};

static void on_due(struct net_deadline *d)
{
    struct start_version *v = LIST_ITEM(d, struct start_version, due);
    if (v->up == NULL) {
        start_version_free(v);
        return;
    }
    http_exchange_abort(v->up);
    v->up = NULL;
    v->status = 0;
    list_meta_free(v->list);
    v->list = NULL;
    conclude(v, 0);
}

/* ---- asking ---- */

/* One object: the version is that of all. Without our selector, by which the API server might look
 * at many before it finds one; nobody is shown it. */
static bool ask(struct start_version *v, const struct request_info *ri)
{
    const struct slice accept =
        SLICE("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json");
    struct err e = ERR_INIT;
    struct buf target = BUF_INIT(TARGET_MAX);
    derived_collection(ri, &target);
    buf_append_str(&target, "?limit=1");
    if (buf_error(&target) == 0) {
        v->status = 0;
        v->up =
            derived_ask(v->all->upstream, buf_slice(&target), accept, false, &up_handlers, v, &e);
    }
    buf_reset(&target);
    if (v->up != NULL) {
        net_deadline_set(v->all->loop, &v->due, LIMIT_MS);
    }
    return v->up != NULL;
}

static struct start_version *start_version_new(struct start_versions *s, uint64_t resource)
{
    struct start_version *v = s->count < DELIVERED_RESOURCES_MAX ? calloc(1, sizeof *v) : NULL;
    if (v == NULL) {
        return NULL;
    }
    v->all = s;
    v->resource = resource;
    list_init(&v->waiting);
    net_deadline_init(&v->due, on_due);
    list_append(&s->all, &v->link);
    s->count++;
    return v;
}

bool start_versions_await(struct start_versions *s, const struct request_info *ri,
                          const struct request_attributes *a, struct http_exchange *x,
                          const struct http_head *head, paused_request_cb cb, void *data)
{
    struct start_version *v = find(s, a->key.resource);
    if (v == NULL) {
        v = start_version_new(s, a->key.resource);
    }
    if (v == NULL || (v->up == NULL && !ask(v, ri))) {
        return false;
    }
    return paused_request_start(s->loop, &v->waiting, x, head, PAUSED_UNTIL_CONTINUED, cb, data);
}
