/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happy path: list_pages_want > on_serve, when there is room > ask_for_page > up_on_body, which
 * makes events of objects > up_on_end > up_on_close > finish_entry > on_tell_wants.
 *
 * What fails for now is asked for again: repeat_or_fail > on_limit > on_serve; what finds no room
 * too: put_back > on_serve. Each other way to fail ends in finish_entry too, with a code; who wants
 * the page is told the same way.
 */
#include "upstream/list_pages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/state_machine.h"
#include "codec/frames.h"
#include "codec/list_items.h"
#include "codec/watch_frame.h"
#include "codec/watch_frame_write.h"
#include "exchange/headers.h"
#include "http/exchange.h"
#include "net/clock.h"
#include "net/deadline.h"
#include "upstream/derived_requests.h"
#include "upstream/derived_retry.h"
#include "upstream/watch_memory.h"

enum { FAILURE_MAX = 256 };

#define TOO_MUCH "too many events of open watches are kept at a time"

/* WAITING -- there is room --> ASKED -- all of the answer came --> WHOLE -- it is closed --> DONE,
 * with a page or an error; with an error from each of them. Gone with the last want.
 *
 * ASKED -- it failed for now --> PAUSED -- some time --> WAITING; ASKED -- no room --> WAITING. */
enum entry_state { ENTRY_WAITING, ENTRY_ASKED, ENTRY_PAUSED, ENTRY_WHOLE, ENTRY_DONE };

static const struct state_machine machine = {
    .object = "list page",
    .states = {[ENTRY_WAITING] = {"Waiting", STATE(ENTRY_ASKED) | STATE(ENTRY_DONE)},
               [ENTRY_ASKED] = {"Asked", STATE(ENTRY_WAITING) | STATE(ENTRY_PAUSED) |
                                             STATE(ENTRY_WHOLE) | STATE(ENTRY_DONE)},
               [ENTRY_PAUSED] = {"Paused", STATE(ENTRY_WAITING) | STATE(ENTRY_DONE)},
               [ENTRY_WHOLE] = {"Whole", STATE(ENTRY_DONE)},
               [ENTRY_DONE] = {"Done", 0}},
};

struct page_entry {
    struct list_pages *pages;
    struct list link;
    struct list wants;
    struct list turn; /* in pages.more or pages.first */
    enum entry_state state;
    uint64_t hash;
    char *target;
    struct page_request request;
    struct http_exchange *up; /* NULL once over */
    struct list_items *items;
    struct page page;
    struct byte_share share; /* of all that it has in memory */
    size_t need;             /* room without which it is not asked for: there was less */
    struct err error;        /* why there is no page; code 0: none */
    struct net_task tell;
    bool begun;                 /* it was asked for, perhaps several times */
    struct derived_retry retry; /* if begun */
    struct net_deadline limit;  /* PAUSED: of the pause */
};

struct list_pages {
    struct net_loop *loop;
    struct kube_client *client;
    struct list entries;
    struct list more;  /* those that wait, for somebody who holds others */
    struct list first; /* for nobody who does */
    struct net_task serve;
    struct byte_budget *memory;
    unsigned coming; /* entries that are ASKED or WHOLE */
};

static void on_serve(struct net_task *t);

struct list_pages *list_pages_new(struct net_loop *l, struct kube_client *client,
                                  struct byte_budget *memory)
{
    struct list_pages *p = calloc(1, sizeof *p);
    if (p != NULL) {
        p->loop = l;
        p->client = client;
        p->memory = memory;
        list_init(&p->entries);
        list_init(&p->more);
        list_init(&p->first);
        net_task_init(&p->serve, on_serve);
    }
    return p;
}

void list_pages_free(struct list_pages *p)
{
    if (p != NULL) {
        net_task_cancel(&p->serve);
        free(p);
    }
}

static bool is_coming(const struct page_entry *n)
{
    return n->state == ENTRY_ASKED || n->state == ENTRY_WHOLE;
}

static void set_state(struct page_entry *n, enum entry_state next)
{
    struct list_pages *p = n->pages;
    p->coming -= is_coming(n) ? 1 : 0;
    n->state = state_change(&machine, n->state, next, n->request.target);
    p->coming += is_coming(n) ? 1 : 0;
    list_remove(&n->turn);
    net_task_queue(p->loop, &p->serve);
}

static void entry_free(struct page_entry *n)
{
    if (n->up != NULL) {
        http_exchange_abort(n->up);
    }
    if (n->state != ENTRY_DONE) {
        set_state(n, ENTRY_DONE);
    }
    byte_share_give_back(&n->share);
    net_task_queue(n->pages->loop, &n->pages->serve);
    list_remove(&n->link);
    net_task_cancel(&n->tell);
    net_deadline_clear(&n->limit);
    list_items_free(n->items);
    buf_reset(&n->page.events);
    free(n->page.token);
    free(n->page.kind);
    free(n->page.api_version);
    free(n->target);
    free(n);
}

/* ---- memory ---- */

static size_t size_of(const struct page_entry *n)
{
    size_t held = n->items != NULL ? list_items_held(n->items) : 0;
    return n->request.target.len + held + n->page.events.len;
}

/* Who holds pages needs the others before it gives back these. */
static size_t bound_of(const struct page_entry *n)
{
    return n->request.first ? WATCH_MEMORY_FIRST : WATCH_MEMORY_MAX;
}

static bool count_entry(struct page_entry *n)
{
    return byte_share_set_within(&n->share, size_of(n), bound_of(n));
}

/* Whether it may be asked for: nobody knows how large it will be, so it is tried. */
static bool has_room(const struct page_entry *n)
{
    const struct list_pages *p = n->pages;
    size_t bound = bound_of(n);
    size_t left = p->memory->used < bound ? bound - p->memory->used : 0;
    return left > 0 && n->need <= left;
}

/* ---- telling those who want it ---- */

static void finish_entry(struct page_entry *n, int code, const char *why)
{
    if (n->state == ENTRY_DONE) {
        return;
    }
    if (n->up != NULL) {
        http_exchange_abort(n->up);
        n->up = NULL;
    }
    net_task_queue(n->pages->loop, &n->tell); /* first, as who is told may want more */
    set_state(n, ENTRY_DONE);
    net_deadline_clear(&n->limit);
    list_items_free(n->items);
    n->items = NULL;
    if (code != 0) {
        (void)err_set(&n->error, code, "%s", why);
        buf_reset(&n->page.events);
    }
    buf_fit(&n->page.events);
    byte_share_force(&n->share, size_of(n));
}

/* Those who were told stay on the list of wants until they let go; an entry that nobody wants any
 * more is gone, so the walk ends when it may be. */
static void on_tell_wants(struct net_task *t)
{
    struct page_entry *n = LIST_ITEM(t, struct page_entry, tell);
    struct list untold;
    list_init(&untold);
    while (!list_empty(&n->wants)) {
        struct list *node = n->wants.next;
        list_remove(node);
        list_append(&untold, node);
    }
    struct page_want guard = {.entry = n}; /* keeps the entry while handlers run */
    list_init(&guard.link);
    list_append(&n->wants, &guard.link);
    while (!list_empty(&untold)) {
        struct page_want *w = LIST_ITEM(untold.next, struct page_want, link);
        list_remove(&w->link);
        list_append(&n->wants, &w->link);
        if (!w->told) {
            w->told = true;
            bool failed = n->error.code != 0;
            w->on_page(w, failed ? NULL : &n->page, failed ? &n->error : NULL);
        }
    }
    list_pages_drop(&guard);
}

/* ---- asking again ---- */

/* What came of the answer is dropped. */
static int drop_answer(struct page_entry *n)
{
    struct list_items *items = list_items_new(n->request.encoding);
    if (items == NULL) {
        return -ENOMEM;
    }
    list_items_free(n->items);
    n->items = items;
    buf_reset(&n->page.events);
    n->page.count = 0;
    n->page.lowest = 0;
    byte_share_force(&n->share, size_of(n));
    return 0;
}

/* The API server answered with `head`, or nothing (NULL). */
static void repeat_or_fail(struct page_entry *n, const struct http_head *head, int code,
                           const char *why)
{
    struct net_loop *l = n->pages->loop;
    uint64_t pause =
        derived_retry_pause(&n->retry, head, net_loop_now(l), net_clock_random(&net_clock_system));
    if (pause == 0 || drop_answer(n) != 0) {
        finish_entry(n, code, why);
        return;
    }
    log_debug("a list of the difference is asked for again", log_str("error", why),
              log_num("pauseMs", (int64_t)pause));
    if (n->up != NULL) {
        http_exchange_abort(n->up);
        n->up = NULL;
    }
    set_state(n, ENTRY_PAUSED);
    net_deadline_set(l, &n->limit, pause);
}

static void await_turn(struct page_entry *n)
{
    struct list_pages *p = n->pages;
    list_append(n->request.first ? &p->first : &p->more, &n->turn);
    net_task_queue(p->loop, &p->serve);
}

static void wait_again(struct page_entry *n)
{
    struct net_loop *l = n->pages->loop;
    set_state(n, ENTRY_WAITING);
    net_deadline_set(l, &n->limit, derived_retry_left(&n->retry, net_loop_now(l)));
    await_turn(n);
}

/* There is no room for the rest of it. */
static void put_back(struct page_entry *n)
{
    size_t need = 2 * size_of(n);
    n->need = need < LIST_PAGES_EVENTS_MAX ? need : LIST_PAGES_EVENTS_MAX;
    if (drop_answer(n) != 0) {
        finish_entry(n, -ENOMEM, "out of memory");
        return;
    }
    http_exchange_abort(n->up);
    n->up = NULL;
    wait_again(n);
}

/* ---- the answer ---- */

static int add_event(struct page_entry *n, struct slice item)
{
    struct page *page = &n->page;
    struct object_type type = list_items_type(n->items);
    size_t before = page->events.len;
    size_t skip = n->request.encoding == ENCODING_PROTOBUF ? FRAMES_HEADER : 0;
    int rc =
        watch_frame_write_item(n->request.encoding, n->request.event, &type, item, &page->events);
    if (rc != 0) {
        return rc;
    }
    struct watch_frame ev;
    const char *event = (const char *)buf_data(&page->events) + before + skip;
    watch_frame_scan(n->request.encoding, slice_of(event, page->events.len - before - skip), &ev);
    if (page->count == 0 || ev.resource_version < page->lowest) {
        page->lowest = ev.resource_version;
    }
    page->count++;
    return 0;
}

static void fail_answer(struct page_entry *n, int code)
{
    if (code == -ENOBUFS) {
        finish_entry(n, -EMSGSIZE, "a page is too large");
    } else {
        finish_entry(n, code == -ENOTSUP ? -EPROTO : code,
                     code == -ENOMEM ? "out of memory" : "the list cannot be read");
    }
}

static void up_on_head(struct http_exchange *x, const struct http_head *head)
{
    struct page_entry *n = x->data;
    char why[FAILURE_MAX];
    if (head->status != 200) {
        (void)snprintf(why, sizeof why, "the API server answered a list with status %u",
                       head->status);
        repeat_or_fail(n, head, head->status == 410 ? -ESTALE : -EIO, why);
    } else if (headers_encoding(head) != n->request.encoding) {
        finish_entry(n, -EPROTO, "the API server answered a list in another encoding");
    }
}

static void up_on_body(struct http_exchange *x, struct slice data)
{
    struct page_entry *n = x->data;
    struct slice item;
    struct err e = ERR_INIT;
    int rc = 0;
    while (n->state == ENTRY_ASKED && (rc = list_items_next(n->items, &data, &item, &e)) > 0) {
        rc = add_event(n, item);
        if (rc != 0) {
            break;
        }
    }
    if (rc < 0) {
        fail_answer(n, rc);
    } else if (n->state == ENTRY_ASKED && !count_entry(n)) {
        put_back(n);
    }
}

static char *copy_text(struct slice text)
{
    return text.len == 0 ? NULL : strndup(text.ptr, text.len);
}

static void up_on_end(struct http_exchange *x)
{
    struct page_entry *n = x->data;
    struct err e = ERR_INIT;
    int rc = list_items_finish(n->items, &e);
    if (rc != 0) {
        fail_answer(n, rc);
        return;
    }
    struct object_type type = list_items_type(n->items);
    struct slice token = list_items_token(n->items);
    n->page.version = list_items_version(n->items);
    n->page.kind = copy_text(type.kind);
    n->page.api_version = copy_text(type.api_version);
    n->page.token = copy_text(token);
    if (token.len > 0 && n->page.token == NULL) {
        finish_entry(n, -ENOMEM, "out of memory");
    } else {
        set_state(n, ENTRY_WHOLE);
    }
}

static void up_on_drain(struct http_exchange *x)
{
    (void)x;
}

/* Only now is it done, so that the connection can be kept. */
static void up_on_close(struct http_exchange *x, const struct err *e)
{
    struct page_entry *n = x->data;
    n->up = NULL;
    if (n->state == ENTRY_WHOLE) {
        finish_entry(n, 0, "");
    } else if (e != NULL && e->code == -ENOMEM) {
        finish_entry(n, -EIO, e->msg);
    } else {
        repeat_or_fail(n, NULL, -EIO, e != NULL ? e->msg : "the answer to a list ended early");
    }
}

static const struct http_exchange_handlers up_handlers = {
    .on_head = up_on_head,
    .on_body = up_on_body,
    .on_end = up_on_end,
    .on_drain = up_on_drain,
    .on_close = up_on_close,
};

static void on_limit(struct net_deadline *d)
{
    struct page_entry *n = LIST_ITEM(d, struct page_entry, limit);
    if (n->state == ENTRY_PAUSED) {
        wait_again(n);
        return;
    }
    bool full = n->state == ENTRY_WAITING && !has_room(n);
    finish_entry(n, full ? -EMSGSIZE : -ETIMEDOUT, full ? TOO_MUCH : "a list takes too long");
}

/* ---- asking ---- */

static struct slice accept_of(const struct page_request *r)
{
    if (r->encoding == ENCODING_JSON) {
        return r->partial
                   ? SLICE("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
                   : SLICE("application/json");
    }
    return r->partial ? SLICE("application/vnd.kubernetes.protobuf;"
                              "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
                      : SLICE("application/vnd.kubernetes.protobuf");
}

static int ask_for_page(struct page_entry *n, struct err *e)
{
    struct derived_request r = {
        .target = n->request.target, .accept = accept_of(&n->request), .budget = n->pages->memory};
    n->up = derived_ask(n->pages->client, &r, &up_handlers, n, e);
    if (n->up == NULL) {
        return e->code;
    }
    set_state(n, ENTRY_ASKED);
    if (!n->begun) {
        n->begun = true;
        derived_retry_init(&n->retry, net_loop_now(n->pages->loop));
        net_deadline_set(n->pages->loop, &n->limit, DERIVED_RETRY_TIME_MS);
    }
    return 0;
}

static struct page_entry *first_with_room(const struct list *turns)
{
    LIST_FOR_EACH(node, turns)
    {
        struct page_entry *n = LIST_ITEM(node, struct page_entry, turn);
        if (has_room(n)) {
            return n;
        }
    }
    return NULL;
}

/* The next whose turn it is; NULL: there is none, or no room. */
static struct page_entry *next_turn(const struct list_pages *p)
{
    if (p->coming >= LIST_PAGES_ASKED_MAX) {
        return NULL;
    }
    struct page_entry *n = first_with_room(&p->more);
    return n != NULL ? n : first_with_room(&p->first);
}

static void on_serve(struct net_task *t)
{
    struct list_pages *p = LIST_ITEM(t, struct list_pages, serve);
    for (struct page_entry *n; (n = next_turn(p)) != NULL;) {
        struct err e = ERR_INIT;
        if (ask_for_page(n, &e) != 0) {
            finish_entry(n, e.code == -EDQUOT ? -EMSGSIZE : e.code, e.msg);
        }
    }
}

bool list_pages_scarce(const struct list_pages *p)
{
    return p->coming < LIST_PAGES_ASKED_MAX && !(list_empty(&p->more) && list_empty(&p->first)) &&
           next_turn(p) == NULL;
}

static uint64_t hash_request(const struct page_request *r)
{
    uint64_t form = (uint64_t)r->event << 8 | (uint64_t)r->encoding << 1 | r->partial;
    return hash_slice(HASH_SEED ^ form, r->target);
}

static struct page_entry *find_entry(struct list_pages *p, const struct page_request *r,
                                     uint64_t hash)
{
    LIST_FOR_EACH(node, &p->entries)
    {
        struct page_entry *n = LIST_ITEM(node, struct page_entry, link);
        if (n->hash == hash && n->error.code == 0 && n->request.encoding == r->encoding &&
            n->request.partial == r->partial && n->request.event == r->event &&
            !(r->fresh && n->state == ENTRY_DONE) && slice_eq(n->request.target, r->target)) {
            return n;
        }
    }
    return NULL;
}

static struct page_entry *entry_new(struct list_pages *p, const struct page_request *r,
                                    uint64_t hash, struct err *e)
{
    struct page_entry *n = calloc(1, sizeof *n);
    if (n == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    n->pages = p;
    n->hash = hash;
    n->request = *r;
    list_init(&n->link);
    list_init(&n->wants);
    list_init(&n->turn);
    net_task_init(&n->tell, on_tell_wants);
    net_deadline_init(&n->limit, on_limit);
    buf_init(&n->page.events, LIST_PAGES_EVENTS_MAX);
    n->items = list_items_new(r->encoding);
    n->target = strndup(r->target.ptr, r->target.len);
    n->request.target = slice_str(n->target);
    byte_share_init(&n->share, p->memory);
    if (n->items == NULL || n->target == NULL) {
        (void)err_memory(e);
        entry_free(n);
        return NULL;
    }
    if (!count_entry(n)) {
        (void)err_set(e, -EMSGSIZE, "%s", TOO_MUCH);
        entry_free(n);
        return NULL;
    }
    list_append(&p->entries, &n->link);
    net_deadline_set(p->loop, &n->limit, LIST_PAGES_TIMEOUT_MS);
    await_turn(n);
    return n;
}

int list_pages_want(struct list_pages *p, const struct page_request *r, struct page_want *w,
                    struct err *e)
{
    uint64_t hash = hash_request(r);
    struct page_entry *n = find_entry(p, r, hash);
    if (n == NULL) {
        n = entry_new(p, r, hash, e);
    }
    if (n == NULL) {
        return e->code;
    }
    w->entry = n;
    w->told = false;
    list_append(&n->wants, &w->link);
    n->request.first = n->request.first && r->first;
    if (!r->first && n->state == ENTRY_WAITING) {
        list_remove(&n->turn);
        list_append(&p->more, &n->turn);
    }
    if (n->state == ENTRY_DONE) {
        net_task_queue(p->loop, &n->tell);
    }
    return 0;
}

void list_pages_drop(struct page_want *w)
{
    struct page_entry *n = w->entry;
    if (n == NULL) {
        return;
    }
    w->entry = NULL;
    list_remove(&w->link);
    if (list_empty(&n->wants)) {
        entry_free(n);
    }
}
