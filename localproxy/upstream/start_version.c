/* SPDX-License-Identifier: Apache-2.0 */
#include "upstream/start_version.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "codec/list_meta.h"
#include "exchange/headers.h"
#include "net/clock.h"
#include "upstream/derived_requests.h"
#include "upstream/upstream_failure.h"

#define NAMESPACES "/api/v1/namespaces"

enum {
    TARGET_MAX = 1024 * 1024,
    LIMIT_MS = 5000,
    AGAIN_MS = 5000, /* after a failure that may pass */
};

/* ---- asking for a version ---- */

static void drop_answer(struct version_ask *k)
{
    net_deadline_clear(&k->due);
    list_meta_free(k->list);
    k->list = NULL;
}

/* Ends it without telling anything. */
static void version_ask_end(struct version_ask *k)
{
    if (k->up != NULL) {
        http_exchange_abort(k->up);
        k->up = NULL;
    }
    drop_answer(k);
    k->asking = false;
}

static void tell(struct version_ask *k, uint64_t version)
{
    version_ask_end(k);
    log_debug("where a resource is", log_num("version", (int64_t)version),
              log_num("code", k->status));
    k->on_version(k, version);
}

/* NULL: the connection broke, or there was none. */
static uint64_t pause_after(struct version_ask *k, const struct http_head *head)
{
    return derived_retry_pause(&k->retry, head, net_loop_now(k->all->loop),
                               net_clock_random(&net_clock_system));
}

/* While the API server is away for a moment nothing is given up. */
static uint64_t pause_unanswered(struct version_ask *k, const struct err *e)
{
    uint64_t away_ms = kube_client_failing_ms(k->all->client);
    if (!upstream_failure_is_outage(e)) {
        return 0;
    }
    if (away_ms == 0) {
        return pause_after(k, NULL);
    }
    return away_ms < OUTAGE_MS ? OUTAGE_RETRY_MS : 0;
}

/* A refusal that will be one again; or an answer without a version that can be compared. */
static bool is_final(const struct version_ask *k)
{
    return k->status != 0 && k->status != 401 && k->status != 429 && k->status < 500;
}

static void up_on_head(struct http_exchange *x, const struct http_head *head)
{
    struct version_ask *k = x->data;
    k->status = head->status;
    k->pause_ms = pause_after(k, head);
    if (head->status == 200) {
        k->list = list_meta_new(headers_value(head, SLICE("Content-Type")),
                                headers_value(head, SLICE("Content-Encoding")));
    }
}

static void up_on_body(struct http_exchange *x, struct slice data)
{
    struct version_ask *k = x->data;
    if (k->list != NULL) {
        list_meta_feed(k->list, data);
    }
}

static void up_on_end_or_drain(struct http_exchange *x)
{
    (void)x;
}

static void up_on_close(struct http_exchange *x, const struct err *e)
{
    struct version_ask *k = x->data;
    struct list_meta_result found = {0};
    k->up = NULL;
    if (e != NULL) {
        k->status = 0;
        k->pause_ms = pause_unanswered(k, e);
    } else if (k->list != NULL) {
        list_meta_end(k->list, &found);
    }
    if (k->pause_ms == 0) {
        tell(k, found.resource_version);
        return;
    }
    drop_answer(k);
    net_deadline_set(k->all->loop, &k->due, k->pause_ms);
}

static const struct http_exchange_handlers up_handlers = {
    .on_head = up_on_head,
    .on_body = up_on_body,
    .on_end = up_on_end_or_drain,
    .on_drain = up_on_end_or_drain,
    .on_close = up_on_close,
};

/* One object: the version is that of all. Without our selector, by which the API server might look
 * at many before it finds one; nobody is shown it. */
static void send_ask(struct version_ask *k)
{
    const struct slice accept =
        SLICE("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json");
    struct err e = ERR_INIT;
    struct buf target = BUF_INIT(TARGET_MAX);
    k->status = 0;
    k->pause_ms = 0;
    buf_append(&target, k->collection.ptr, k->collection.len);
    buf_append_str(&target, "?limit=1");
    if (buf_error(&target) == 0) {
        struct derived_request r = {.target = buf_slice(&target), .accept = accept};
        k->up = derived_ask(k->all->client, &r, &up_handlers, k, &e);
    }
    buf_reset(&target);
    if (k->up != NULL) {
        net_deadline_set(k->all->loop, &k->due, LIMIT_MS);
    }
}

/* Of the answer, or of the pause before the request is repeated. */
static void on_due(struct net_deadline *d)
{
    struct version_ask *k = LIST_ITEM(d, struct version_ask, due);
    if (k->up == NULL) {
        send_ask(k);
    } else {
        k->status = 0;
        version_ask_end(k);
    }
    if (k->up == NULL) {
        tell(k, 0);
    }
}

static void version_ask_init(struct version_ask *k, struct start_versions *all,
                             void (*on_version)(struct version_ask *k, uint64_t version))
{
    *k = (struct version_ask){.all = all, .on_version = on_version};
    net_deadline_init(&k->due, on_due);
}

/* `on_version` follows. `collection` stays until then. */
static bool version_ask_start(struct version_ask *k, struct slice collection)
{
    k->collection = collection;
    derived_retry_init(&k->retry, net_loop_now(k->all->loop));
    send_ask(k);
    k->asking = k->up != NULL;
    return k->asking;
}

/* ---- the start ---- */

static void conclude_places(struct start_versions *s);

static void on_start_version(struct version_ask *k, uint64_t version)
{
    struct start_versions *s = k->all;
    s->version = version;
    if (version == 0 && !is_final(k)) {
        net_deadline_set(s->loop, &s->again, AGAIN_MS);
    } else if (version == 0) {
        log_info("the API server does not tell where it is (" NAMESPACES "): watches from the "
                 "versions of writes are refused for a while",
                 log_num("code", k->status));
    }
    conclude_places(s);
}

static void on_again(struct net_deadline *d)
{
    start_versions_begin(LIST_ITEM(d, struct start_versions, again));
}

void start_versions_init(struct start_versions *s, struct net_loop *l, struct kube_client *client,
                         struct delivered_versions *points)
{
    *s = (struct start_versions){.loop = l, .client = client, .points = points};
    list_init(&s->resources);
    version_ask_init(&s->start, s, on_start_version);
    net_deadline_init(&s->again, on_again);
}

void start_versions_begin(struct start_versions *s)
{
    if (s->version != 0 || s->start.asking || is_final(&s->start) ||
        delivered_past_is_known(s->points) || !kube_client_ready(s->client)) {
        return;
    }
    if (!version_ask_start(&s->start, SLICE(NAMESPACES))) {
        net_deadline_set(s->loop, &s->again, AGAIN_MS);
    }
}

/* ---- a resource ---- */

/* Namespaces before, the resource, namespaces after; then nothing is asked. */
enum { BEFORE, THERE, AFTER, STEPS };

struct resource_place {
    struct version_ask ask;
    struct list link;
    uint64_t resource;
    struct buf collection;
    unsigned step;
    uint64_t versions[STEPS];
    bool concluded;
    struct list waiting;
    struct net_deadline forget; /* after a failure that may pass */
};

static void resource_place_free(struct resource_place *p)
{
    version_ask_end(&p->ask);
    net_deadline_clear(&p->forget);
    buf_reset(&p->collection);
    list_remove(&p->link);
    p->ask.all->count--;
    free(p);
}

void start_versions_deinit(struct start_versions *s)
{
    version_ask_end(&s->start);
    net_deadline_clear(&s->again);
    while (!list_empty(&s->resources)) {
        resource_place_free(LIST_ITEM(s->resources.next, struct resource_place, link));
    }
}

static void on_forget(struct net_deadline *d)
{
    resource_place_free(LIST_ITEM(d, struct resource_place, forget));
}

static bool ask_next(struct resource_place *p)
{
    return version_ask_start(&p->ask,
                             p->step == THERE ? buf_slice(&p->collection) : SLICE(NAMESPACES));
}

static void conclude(struct resource_place *p)
{
    struct start_versions *s = p->ask.all;
    const uint64_t *v = p->versions;
    bool all = p->step == STEPS && s->version != 0;
    bool same = all && v[BEFORE] <= v[THERE] && v[THERE] <= v[AFTER];
    p->concluded = true;
    if (same) {
        delivered_started(s->points, p->resource, s->version);
    } else if (!all && (s->version == 0 || !is_final(&p->ask))) {
        net_deadline_set(s->loop, &p->forget, AGAIN_MS);
    }
    paused_requests_continue(&p->waiting);
    if (same) {
        resource_place_free(p);
    }
}

/* The answer at the start may come later than those of the resource. */
static bool awaits_start(const struct resource_place *p)
{
    return p->step == STEPS && !p->concluded && p->ask.all->start.asking;
}

static void conclude_places(struct start_versions *s)
{
    LIST_FOR_EACH_SAFE(node, after, &s->resources)
    {
        struct resource_place *p = LIST_ITEM(node, struct resource_place, link);
        if (p->step == STEPS && !p->concluded) {
            conclude(p);
        }
    }
}

static void on_place_version(struct version_ask *k, uint64_t version)
{
    struct resource_place *p = LIST_ITEM(k, struct resource_place, ask);
    p->versions[p->step] = version;
    if (version != 0) {
        p->step++;
    }
    if (awaits_start(p)) {
        return; /* conclude_places */
    }
    if (version == 0 || p->step == STEPS || !ask_next(p)) {
        conclude(p);
    }
}

static struct resource_place *find(const struct start_versions *s, uint64_t resource)
{
    LIST_FOR_EACH(node, &s->resources)
    {
        struct resource_place *p = LIST_ITEM(node, struct resource_place, link);
        if (p->resource == resource) {
            return p;
        }
    }
    return NULL;
}

static struct resource_place *resource_place_new(struct start_versions *s, uint64_t resource,
                                                 const struct request_info *ri)
{
    struct resource_place *p = s->count < DELIVERED_RESOURCES_MAX ? calloc(1, sizeof *p) : NULL;
    if (p == NULL) {
        return NULL;
    }
    p->resource = resource;
    version_ask_init(&p->ask, s, on_place_version);
    net_deadline_init(&p->forget, on_forget);
    list_init(&p->waiting);
    list_append(&s->resources, &p->link);
    s->count++;
    buf_init(&p->collection, TARGET_MAX);
    derived_collection(ri, &p->collection);
    if (buf_error(&p->collection) != 0 || !ask_next(p)) {
        resource_place_free(p);
        return NULL;
    }
    return p;
}

/* ---- the watch ---- */

/* Of the versions of another API server, behind a gateway, ours say nothing. */
bool start_versions_wanted(const struct start_versions *s, const struct request_attributes *a)
{
    bool younger = s->version != 0 ? a->version > s->version : s->start.asking;
    if (!younger || a->gateway.len > 0 || !delivered_is_doubted(s->points, &a->key, a->version)) {
        return false;
    }
    const struct resource_place *p = find(s, a->key.resource);
    return p == NULL || !p->concluded;
}

bool start_versions_await(struct start_versions *s, const struct request_info *ri,
                          const struct request_attributes *a, struct http_exchange *x,
                          const struct http_head *head, const struct paused_request_end *end)
{
    struct resource_place *p = find(s, a->key.resource);
    if (p == NULL) {
        p = resource_place_new(s, a->key.resource, ri);
    }
    return p != NULL &&
           paused_request_start(s->loop, &p->waiting, x, head, PAUSED_UNTIL_CONTINUED, end);
}
