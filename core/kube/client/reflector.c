/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/reflector.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/backoff.h"
#include "base/log.h"
#include "base/state_machine.h"
#include "http/fetch.h"
#include "kube/client/api_error.h"
#include "kube/client/collection.h"
#include "kube/client/list_page.h"
#include "kube/client/watch_event.h"

enum {
    PAGE_SIZE = 500,
    PAGE_MS = 65000,   /* kube-apiserver gives up a request after 60 s */
    OPEN_MS = 65000,   /* until the head of a watch's answer */
    PROVE_MS = 1000,   /* a watch that ends before has not shown that all is well */
    WATCH_MIN_S = 300, /* as client-go: spread, so that not all watches end at once */
    WATCH_SPREAD_S = 301,
    GRACE_MS = 30000, /* a server ends its watches itself: one that is silent for longer is lost */
    CREDENTIALS_MS = 500,
    BACKOFF_MIN_MS = 200,
    BACKOFF_MAX_MS = 30000,
    REFUSALS_MAX = 5, /* so many watches in a row led to nothing: the version may be the reason */
    STARVED_MAX = 2,  /* so many failures in a row for want of memory: it is not a moment */
    ERROR_BODY_MAX = 64 * 1024,
};

/*
 *   new ---> WAITING <--- from all others: a failure, no credentials; a plain end of FOLLOWING
 *             |   |
 *             |   +-- there is a version ----+
 *             v                              v
 *          LISTING --- the last page ---> OPENING -- 200 --> PROVING -- 1 s --> FOLLOWING
 *           |   ^                            |
 *           +---+ next page                  +-- other status --> REFUSED (reading why) -> WAITING
 *
 * A page that the user does not want yet: WAITING or LISTING --> HELD --> WAITING,
 * and each of them --> CLOSED, for the rest of the callback that is on the stack.
 */
enum state {
    STATE_WAITING,
    STATE_HELD,
    STATE_LISTING,
    STATE_OPENING,
    STATE_PROVING,
    STATE_FOLLOWING,
    STATE_REFUSED,
    STATE_CLOSED,
};

static const struct state_machine machine = {
    .object = "reflector",
    .states = {[STATE_WAITING] = {"waiting", STATE(STATE_WAITING) | STATE(STATE_HELD) |
                                                 STATE(STATE_LISTING) | STATE(STATE_OPENING) |
                                                 STATE(STATE_CLOSED)},
               [STATE_HELD] = {"held", STATE(STATE_WAITING) | STATE(STATE_CLOSED)},
               [STATE_LISTING] = {"listing", STATE(STATE_WAITING) | STATE(STATE_HELD) |
                                                 STATE(STATE_LISTING) | STATE(STATE_OPENING) |
                                                 STATE(STATE_CLOSED)},
               [STATE_OPENING] = {"opening", STATE(STATE_WAITING) | STATE(STATE_PROVING) |
                                                 STATE(STATE_REFUSED) | STATE(STATE_CLOSED)},
               [STATE_PROVING] = {"proving", STATE(STATE_WAITING) | STATE(STATE_FOLLOWING) |
                                                 STATE(STATE_CLOSED)},
               [STATE_FOLLOWING] = {"following", STATE(STATE_WAITING) | STATE(STATE_CLOSED)},
               [STATE_REFUSED] = {"refused", STATE(STATE_WAITING) | STATE(STATE_CLOSED)},
               [STATE_CLOSED] = {"closed", 0}},
};

struct reflector {
    struct net_loop *loop;
    struct kube_client *client;
    const struct reflector_handlers *handlers;
    void *data;
    struct reflector_ops ops;
    enum state state;
    unsigned calls; /* of ours on the stack that may call the user */

    bool held;                 /* the user does not want a page now */
    struct net_task turn;      /* WAITING: goes on at once */
    struct net_deadline limit; /* WAITING: of the pause; else of what is awaited */
    struct backoff backoff;
    unsigned failures;    /* since a watch was proved */
    unsigned starved;     /* failures in a row for want of memory */
    unsigned refusals;    /* watches since then that failed without any event */
    struct err error;     /* as told to on_state; code 0: none */
    enum log_level level; /* likewise */

    struct buf base;    /* of request targets */
    unsigned page_most; /* objects of a page */
    unsigned page_size; /* becomes smaller when a page is too large, and larger with each other */
    bool metadata_only; /* until the server says that it cannot */

    enum reflector_reason reason;           /* of the next list */
    char *token;                            /* of the next page; NULL: the first */
    char version[RESOURCE_VERSION_MAX + 1]; /* to watch from; "": a list is needed */

    struct http_fetch *fetch; /* LISTING */

    struct http_exchange *x; /* OPENING, PROVING, FOLLOWING, REFUSED */
    struct watch_lines lines;
    bool fruitful; /* PROVING, FOLLOWING: an event came */
    unsigned watch_seconds;
    unsigned status;      /* REFUSED */
    char retry_after[24]; /* REFUSED: the header */
    struct buf refusal;   /* REFUSED: the body */

    struct reflector_stats stats;
};

/* In place of a reason to list: the same request is made again. */
#define SAME_AGAIN REFLECTOR_REASONS

/* What went wrong, and what follows. */
struct trouble {
    enum reflector_reason relist;
    unsigned retry_after; /* seconds */
    unsigned status;      /* of the answer; 0: there is none, or it is no refusal */
    bool ordinary;        /* no news unless the next attempt fails as well */
    struct err e;
};

static void list_or_watch(struct reflector *r);

static void set_deadline(void *data, struct net_deadline *d, uint64_t ms)
{
    net_deadline_set(data, d, ms);
}

static uint32_t system_random(void *data)
{
    (void)data;
    uint32_t number = UINT32_MAX / 2;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
        log_warn("no random bytes from the system");
    }
    return number;
}

/* ---- the state, and calls of the user ---- */

static void set_state(struct reflector *r, enum state next)
{
    r->state = state_change(&machine, r->state, next, buf_slice(&r->base));
    r->stats.following = next == STATE_PROVING || next == STATE_FOLLOWING;
}

static void destroy_reflector(struct reflector *r)
{
    buf_reset(&r->base);
    free(r);
}

/* Between these two the memory stays, whatever the user does. */
static void enter(struct reflector *r)
{
    r->calls++;
}

static void leave(struct reflector *r)
{
    if (--r->calls == 0 && r->state == STATE_CLOSED) {
        destroy_reflector(r);
    }
}

/* NULL: all is well. The user may close the reflector in it. */
static void report_state(struct reflector *r, const struct err *e, enum log_level level)
{
    if (e == NULL ? r->error.code == 0 : r->error.code != 0 && strcmp(r->error.msg, e->msg) == 0) {
        return;
    }
    r->error = e == NULL ? (struct err)ERR_INIT : *e;
    if (e == NULL) {
        level = r->level == LOG_DEBUG ? LOG_DEBUG : LOG_INFO; /* as its beginning */
    }
    r->level = level;
    if (r->handlers->on_state != NULL) {
        r->handlers->on_state(r->data, e == NULL ? NULL : r->error.msg, level);
    }
}

/* ---- ends ---- */

/* Nothing is under way any more, and nothing more will happen. */
static void cancel_requests(struct reflector *r)
{
    struct http_exchange *x = r->x;
    net_deadline_clear(&r->limit);
    net_task_cancel(&r->turn);
    http_fetch_cancel(r->fetch);
    r->fetch = NULL;
    r->x = NULL;
    if (x != NULL) {
        http_exchange_abort(x);
    }
    watch_lines_deinit(&r->lines);
    buf_reset(&r->refusal);
}

static void forget_token(struct reflector *r)
{
    free(r->token);
    r->token = NULL;
}

static void need_list(struct reflector *r, enum reflector_reason reason)
{
    r->reason = reason;
    r->version[0] = '\0';
    r->refusals = 0;
    forget_token(r);
}

static void pause_for(struct reflector *r, uint64_t ms)
{
    set_state(r, STATE_WAITING);
    r->ops.set_deadline(r->ops.data, &r->limit, ms);
}

static void schedule_turn(struct reflector *r)
{
    set_state(r, STATE_WAITING);
    net_task_queue(r->loop, &r->turn);
}

static uint64_t pause_after(struct reflector *r, const struct trouble *t)
{
    uint64_t pause = backoff_next(&r->backoff, r->ops.random(r->ops.data));
    uint64_t asked = (uint64_t)t->retry_after * 1000;
    return pause > asked ? pause : asked + pause / 2;
}

static void retry_after_failure(struct reflector *r, struct trouble *t)
{
    const char *verb = r->version[0] == '\0' ? "list" : "watch";
    const char *query = memchr(buf_data(&r->base), '?', r->base.len);
    err_prefix(&t->e, "cannot %s %s%.*s", verb, kube_client_server(r->client),
               (int)(query - (const char *)buf_data(&r->base)), (const char *)buf_data(&r->base));
    cancel_requests(r);
    r->stats.failures++;
    r->failures++;
    if (t->relist != SAME_AGAIN) {
        need_list(r, t->relist);
    }
    pause_for(r, pause_after(r, t));
    if (!t->ordinary || r->failures > 1) {
        report_state(r, &t->e, kube_client_failure_level(r->client, t->status));
    }
    r->starved = t->e.code == -ENOMEM ? r->starved + 1 : 0;
    if (r->starved >= STARVED_MAX && r->state != STATE_CLOSED && r->handlers->on_starved != NULL) {
        r->handlers->on_starved(r->data);
    }
}

static void fail_with(struct reflector *r, enum reflector_reason relist, const struct err *e)
{
    struct trouble t = {.relist = relist, .e = *e};
    retry_after_failure(r, &t);
}

/* A watch failed without any event. Perhaps the network's or the server's state is the reason,
 * perhaps what was asked for. */
static enum reflector_reason count_refusal(struct reflector *r)
{
    return ++r->refusals < REFUSALS_MAX ? SAME_AGAIN : REFLECTOR_REFUSED;
}

/* A page or an event cannot be read: out of memory, it is there when it is asked for again. */
static void fail_reading(struct reflector *r, const struct err *e)
{
    fail_with(r, e->code == -ENOMEM ? SAME_AGAIN : REFLECTOR_MALFORMED, e);
}

/* To list, or to watch, is forbidden, as `denied` says; NULL: it is not. Without memory it is not
 * noted this time. */
static void note_permission(struct reflector *r, const char *denied)
{
    bool lists = r->state == STATE_LISTING;
    if (denied == NULL && health_count(kube_client_health(r->client), HEALTH_PERMISSION) == 0) {
        return;
    }
    struct buf target = BUF_INIT(COLLECTION_TARGET_MAX);
    buf_append(&target, buf_data(&r->base), r->base.len);
    buf_append_str(&target, lists ? "limit=1" : "watch=true");
    if (buf_error(&target) == 0 && denied != NULL) {
        (void)kube_client_denied(r->client, SLICE("GET"), buf_slice(&target), denied);
    } else if (buf_error(&target) == 0) {
        kube_client_granted(r->client, SLICE("GET"), buf_slice(&target));
    }
    buf_reset(&target);
}

/* Another answer than 200. */
static void fail_refused(struct reflector *r, unsigned status, const char *retry_after,
                         struct slice body)
{
    struct api_error error;
    struct trouble t = {.relist = SAME_AGAIN, .e = ERR_INIT};
    bool watching = r->state == STATE_REFUSED;
    if (status == 406 && r->metadata_only) {
        r->metadata_only = false;
        cancel_requests(r);
        schedule_turn(r);
        return;
    }
    api_error_from_answer(status, retry_after, body, &error);
    if (status == 403) {
        note_permission(r, error.msg);
    }
    t.status = status;
    err_set(&t.e, status == 403 ? -EACCES : status == 404 ? -ENOENT : -EPROTO, "%s", error.msg);
    t.retry_after = error.retry_after;
    if (error.expired) {
        t.relist = REFLECTOR_EXPIRED;
        t.ordinary = true;
    } else if (status >= 500) {
        t.relist = watching ? count_refusal(r) : SAME_AGAIN;
    } else if (status != 401 && status != 429) {
        t.relist = REFLECTOR_REFUSED;
    }
    retry_after_failure(r, &t);
}

/* ---- lists ---- */

static int begin_list(struct reflector *r)
{
    r->stats.lists[r->reason]++;
    if (r->handlers->on_list != NULL) {
        r->handlers->on_list(r->data);
    }
    return r->state == STATE_CLOSED ? -ECANCELED : 0;
}

/* 0 when all are delivered, -ECANCELED when the user closed the reflector meanwhile. */
static int take_objects(struct reflector *r, struct list_page *p, struct err *e)
{
    cJSON *object;
    int rc;
    while ((rc = list_page_next(p, &object, e)) == 1) {
        r->stats.objects++;
        r->handlers->on_object(r->data, REFLECTOR_LISTED, object);
        cJSON_Delete(object);
        if (r->state == STATE_CLOSED) {
            return -ECANCELED;
        }
    }
    return rc;
}

static int end_page(struct reflector *r, const struct list_page *p, struct err *e)
{
    char *token = p->token == NULL ? NULL : strdup(p->token);
    if (p->token != NULL && token == NULL) {
        return err_memory(e);
    }
    forget_token(r);
    r->token = token;
    r->page_size = 2 * r->page_size < r->page_most ? 2 * r->page_size : r->page_most;
    r->stats.pages++;
    if (token == NULL) {
        memcpy(r->version, p->version, strlen(p->version) + 1);
        r->stats.synced = true;
        if (r->handlers->on_synced != NULL) {
            r->handlers->on_synced(r->data);
        }
    }
    return r->state == STATE_CLOSED ? -ECANCELED : 0;
}

static void take_page(struct reflector *r, struct slice body)
{
    struct list_page p;
    struct err e = ERR_INIT;
    if (list_page_init(&p, body, &e) != 0) {
        fail_reading(r, &e);
        return;
    }
    note_permission(r, NULL);
    int rc = r->token == NULL ? begin_list(r) : 0;
    if (rc == 0) {
        rc = take_objects(r, &p, &e);
    }
    if (rc == 0) {
        rc = end_page(r, &p, &e);
    }
    list_page_deinit(&p);
    if (rc == 0) {
        list_or_watch(r);
    } else if (rc != -ECANCELED) {
        fail_reading(r, &e);
    }
}

static void fail_list(struct reflector *r, const struct err *e)
{
    if (e->code != -EMSGSIZE) {
        fail_with(r, SAME_AGAIN, e);
    } else if (r->page_size == 1) {
        fail_with(r, REFLECTOR_MALFORMED, e);
    } else {
        r->page_size = (r->page_size + 3) / 4;
        schedule_turn(r);
    }
}

static void on_answer(void *data, const struct http_answer *a, const struct err *e)
{
    struct reflector *r = data;
    r->fetch = NULL;
    net_deadline_clear(&r->limit);
    enter(r);
    if (a == NULL) {
        fail_list(r, e);
    } else if (a->status != 200) {
        fail_refused(r, a->status, a->headers[0], a->body);
    } else {
        take_page(r, a->body);
    }
    leave(r);
}

static int ask_for_page(struct reflector *r, struct err *e)
{
    static const char *const wanted[] = {"Retry-After", NULL};
    const struct http_header accept = {
        SLICE("Accept"),
        r->metadata_only ? SLICE("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
                                 "application/json")
                         : SLICE("application/json")};
    struct buf target = BUF_INIT(COLLECTION_TARGET_MAX);
    struct slice base = buf_slice(&r->base);
    int rc = collection_list(base, r->page_size, r->token, &target);
    if (rc == 0) {
        struct http_fetch_options o = {
            .via = kube_client_requester(r->client),
            .method = SLICE("GET"),
            .target = buf_slice(&target),
            .headers = &accept,
            .header_count = 1,
            .answer_max = REFLECTOR_PAGE_MAX,
            .wanted = wanted,
        };
        r->fetch = http_fetch_start(r->loop, &o, on_answer, r, e);
        rc = r->fetch == NULL ? e->code : 0;
    } else {
        err_set(e, rc, "%s", err_text(rc));
    }
    buf_reset(&target);
    return rc;
}

/* ---- watches ---- */

static bool watching(const struct reflector *r)
{
    return r->state == STATE_PROVING || r->state == STATE_FOLLOWING;
}

static void await_bytes(struct reflector *r)
{
    r->ops.set_deadline(r->ops.data, &r->limit, (uint64_t)r->watch_seconds * 1000 + GRACE_MS);
}

/* The watch works: all that was wrong before is history. */
static void watch_proved(struct reflector *r)
{
    set_state(r, STATE_FOLLOWING);
    r->failures = 0;
    r->starved = 0;
    r->refusals = 0;
    backoff_reset(&r->backoff);
    await_bytes(r);
    report_state(r, NULL, LOG_INFO);
}

static void take_error(struct reflector *r, const cJSON *status)
{
    struct api_error error;
    struct trouble t = {.relist = REFLECTOR_REFUSED, .e = ERR_INIT};
    api_error_from_status(status, &error);
    err_set(&t.e, -EPROTO, "%s", error.msg);
    t.retry_after = error.retry_after;
    if (error.expired) {
        t.relist = REFLECTOR_EXPIRED;
        t.ordinary = true;
    }
    retry_after_failure(r, &t);
}

static void take_event(struct reflector *r, const struct watch_event *event)
{
    static const enum reflector_change changes[] = {
        [WATCH_ADDED] = REFLECTOR_ADDED,
        [WATCH_MODIFIED] = REFLECTOR_MODIFIED,
        [WATCH_DELETED] = REFLECTOR_DELETED,
    };
    if (event->type == WATCH_ERROR) {
        take_error(r, event->object);
        return;
    }
    memcpy(r->version, event->version, strlen(event->version) + 1);
    r->fruitful = true;
    if (event->type == WATCH_BOOKMARK) {
        r->stats.bookmarks++;
    } else {
        r->stats.events++;
        r->handlers->on_object(r->data, changes[event->type], event->object);
    }
}

static void take_line(struct reflector *r, struct slice line)
{
    struct watch_event event;
    struct err e = ERR_INIT;
    if (watch_event_parse(line, &event, &e) != 0) {
        fail_reading(r, &e);
        return;
    }
    take_event(r, &event);
    watch_event_deinit(&event);
}

static void take_stream(struct reflector *r, struct slice data)
{
    struct slice line;
    int rc = 0;
    while (watching(r) && (rc = watch_lines_next(&r->lines, &data, &line)) == 1) {
        take_line(r, line);
    }
    if (watching(r) && rc < 0) {
        struct err e = ERR_INIT;
        err_set(&e, rc, rc == -EMSGSIZE ? "an event has more than %zu bytes" : "out of memory",
                REFLECTOR_EVENT_MAX);
        fail_reading(r, &e);
    } else if (r->state == STATE_FOLLOWING) {
        await_bytes(r);
    }
}

static void on_body(struct http_exchange *x, struct slice data)
{
    struct reflector *r = x->data;
    enter(r);
    if (watching(r)) {
        take_stream(r, data);
    } else if (buf_append(&r->refusal, data.ptr, data.len) != 0) {
        buf_reset(&r->refusal); /* the status says enough */
    }
    leave(r);
}

static void on_head(struct http_exchange *x, const struct http_head *head)
{
    struct reflector *r = x->data;
    if (head->status == 200) {
        note_permission(r, NULL);
        set_state(r, STATE_PROVING);
        r->stats.watches++;
        r->fruitful = false;
        r->ops.set_deadline(r->ops.data, &r->limit, PROVE_MS);
        return;
    }
    const struct http_header *h = http_head_find(head, SLICE("Retry-After"));
    size_t len = h != NULL && h->value.len < sizeof r->retry_after ? h->value.len : 0;
    if (len > 0) {
        memcpy(r->retry_after, h->value.ptr, len);
    }
    r->retry_after[len] = '\0';
    r->status = head->status;
    set_state(r, STATE_REFUSED);
}

/* The server ended it in good order: as it does with all its watches, or so soon that it must not
 * go on like this. */
static void end_well(struct reflector *r)
{
    bool soon = r->state == STATE_PROVING;
    cancel_requests(r);
    if (soon) {
        pause_for(r, backoff_next(&r->backoff, r->ops.random(r->ops.data)));
    } else {
        schedule_turn(r);
    }
}

/* `e` NULL: the connection is well. */
static void end_watch(struct reflector *r, const struct err *e)
{
    struct trouble t = {.relist = SAME_AGAIN, .e = ERR_INIT};
    bool torn = watch_lines_pending(&r->lines) > 0;
    if (e == NULL && !torn && (r->state == STATE_FOLLOWING || r->fruitful)) {
        end_well(r);
        return;
    }
    if (e != NULL) {
        t.e = *e;
        t.ordinary = r->state == STATE_FOLLOWING; /* many a connection is cut some time */
    } else {
        err_set(&t.e, -EPROTO,
                torn ? "it ended in the middle of an event" : "it ended immediately");
    }
    if (e == NULL && torn) {
        t.relist = REFLECTOR_MALFORMED;
    } else if (r->state == STATE_PROVING && !r->fruitful) {
        t.relist = count_refusal(r);
    }
    retry_after_failure(r, &t);
}

static void on_close(struct http_exchange *x, const struct err *e)
{
    struct reflector *r = x->data;
    r->x = NULL;
    enter(r);
    if (r->state == STATE_REFUSED) {
        struct slice body = buf_slice(&r->refusal);
        fail_refused(r, r->status, r->retry_after, body);
    } else {
        end_watch(r, e);
    }
    leave(r);
}

static void ignore(struct http_exchange *x)
{
    (void)x;
}

static const struct http_exchange_handlers watch_handlers = {
    .on_head = on_head,
    .on_body = on_body,
    .on_end = ignore,
    .on_drain = ignore,
    .on_close = on_close,
};

static int open_watch(struct reflector *r, struct err *e)
{
    const struct http_header accept = {
        SLICE("Accept"), r->metadata_only
                             ? SLICE("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
                                     "application/json")
                             : SLICE("application/json")};
    struct buf target = BUF_INIT(COLLECTION_TARGET_MAX);
    struct slice base = buf_slice(&r->base);
    r->watch_seconds = WATCH_MIN_S + r->ops.random(r->ops.data) % WATCH_SPREAD_S;
    int rc = collection_watch(base, r->version, r->watch_seconds, &target);
    if (rc == 0) {
        struct http_head head = {
            .method = SLICE("GET"),
            .target = buf_slice(&target),
            .headers = &accept,
            .header_count = 1,
            .framing = HTTP_BODY_NONE,
        };
        r->x = kube_client_request(r->client, &head, &watch_handlers, r, e);
        rc = r->x == NULL ? e->code : 0;
    } else {
        err_set(e, rc, "%s", err_text(rc));
    }
    buf_reset(&target);
    return rc;
}

/* ---- what is next ---- */

static void await_credentials(struct reflector *r)
{
    struct err e = ERR_INIT;
    const char *why = kube_client_error(r->client);
    err_set(&e, -EAGAIN, "waiting for credentials%s%s", why == NULL ? "" : ": ",
            why == NULL ? "" : why);
    pause_for(r, CREDENTIALS_MS);
    report_state(r, &e, kube_client_failure_level(r->client, 0));
}

static void list_or_watch(struct reflector *r)
{
    struct err e = ERR_INIT;
    if (!kube_client_ready(r->client)) {
        await_credentials(r);
        return;
    }
    bool list = r->version[0] == '\0';
    if (list && r->held) {
        set_state(r, STATE_HELD);
        return;
    }
    int rc = list ? ask_for_page(r, &e) : open_watch(r, &e);
    if (rc != 0) {
        fail_with(r, SAME_AGAIN, &e);
        return;
    }
    set_state(r, list ? STATE_LISTING : STATE_OPENING);
    r->ops.set_deadline(r->ops.data, &r->limit, list ? PAGE_MS : OPEN_MS);
}

static void on_turn(struct net_task *task)
{
    struct reflector *r = LIST_ITEM(task, struct reflector, turn);
    enter(r);
    list_or_watch(r);
    leave(r);
}

/* What was awaited did not come. */
static void fail_late(struct reflector *r)
{
    struct err e = ERR_INIT;
    if (r->state == STATE_FOLLOWING) {
        err_set(&e, -ETIMEDOUT, "nothing received for %u s", r->watch_seconds + GRACE_MS / 1000);
    } else {
        err_set(&e, -ETIMEDOUT, "no response for %d s",
                (r->state == STATE_LISTING ? PAGE_MS : OPEN_MS) / 1000);
    }
    fail_with(r, SAME_AGAIN, &e);
}

static void on_limit(struct net_deadline *d)
{
    struct reflector *r = LIST_ITEM(d, struct reflector, limit);
    enter(r);
    if (r->state == STATE_WAITING) {
        list_or_watch(r);
    } else if (r->state == STATE_PROVING) {
        watch_proved(r);
    } else {
        fail_late(r);
    }
    leave(r);
}

/* ---- life ---- */

static int init_base(struct reflector *r, const struct reflector_options *o, struct err *e)
{
    const struct collection c = {
        .path = o->path,
        .name = o->name,
        .label_selector = o->label_selector,
        .field_selector = o->field_selector,
    };
    buf_init(&r->base, COLLECTION_TARGET_MAX);
    return collection_base(&c, &r->base, e);
}

struct reflector *reflector_new(struct net_loop *l, const struct reflector_options *o,
                                const struct reflector_handlers *handlers, void *data,
                                struct err *e)
{
    struct reflector *r = calloc(1, sizeof *r);
    if (r == NULL) {
        err_memory(e);
        return NULL;
    }
    if (init_base(r, o, e) != 0) {
        destroy_reflector(r);
        return NULL;
    }
    const struct reflector_ops ops = {set_deadline, system_random, l};
    r->ops = o->ops == NULL ? ops : *o->ops;
    r->loop = l;
    r->client = o->client;
    r->handlers = handlers;
    r->data = data;
    r->page_most = o->page_size == 0 ? PAGE_SIZE : o->page_size;
    r->page_size = r->page_most;
    r->metadata_only = o->metadata_only;
    r->reason = REFLECTOR_START;
    backoff_init(&r->backoff, BACKOFF_MIN_MS, BACKOFF_MAX_MS);
    net_deadline_init(&r->limit, on_limit);
    net_task_init(&r->turn, on_turn);
    watch_lines_init(&r->lines, REFLECTOR_EVENT_MAX);
    buf_init(&r->refusal, ERROR_BODY_MAX);
    net_task_queue(l, &r->turn);
    return r;
}

void reflector_hold(struct reflector *r)
{
    r->held = true;
}

void reflector_release(struct reflector *r)
{
    r->held = false;
    if (r->state == STATE_HELD) {
        schedule_turn(r);
    }
}

void reflector_list_again(struct reflector *r)
{
    cancel_requests(r);
    need_list(r, REFLECTOR_ASKED);
    schedule_turn(r);
}

const char *reflector_error(const struct reflector *r)
{
    return r->error.code == 0 ? NULL : r->error.msg;
}

bool reflector_not_found(const struct reflector *r)
{
    return r->error.code == -ENOENT;
}

bool reflector_forbidden(const struct reflector *r)
{
    return r->error.code == -EACCES;
}

const char *reflector_version(const struct reflector *r)
{
    return r->version;
}

const struct reflector_stats *reflector_stats(const struct reflector *r)
{
    return &r->stats;
}

void reflector_free(struct reflector *r)
{
    if (r == NULL || r->state == STATE_CLOSED) {
        return;
    }
    cancel_requests(r);
    forget_token(r);
    set_state(r, STATE_CLOSED);
    if (r->calls == 0) {
        destroy_reflector(r);
    }
}
