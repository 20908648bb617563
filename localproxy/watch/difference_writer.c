/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happy path: on_resume > advance_writer > fetch_page > on_page > advance_writer, for each page of
 * each selector; then write_parts as far as the client takes it, and finish_writer.
 *
 * Ways to fail: no page (on_no_page), one of another version (on_other_version), pages without end
 * (note_page), no memory, the client's stream. Where nothing was written yet and the version is not
 * kept, all begins again with what the API server has in memory (restart_from_memory); else
 * fail_writer.
 */
#include "watch/difference_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/state_machine.h"
#include "codec/frames.h"
#include "codec/watch_frame_write.h"
#include "net/deadline.h"
#include "upstream/derived_requests.h"
#include "upstream/derived_retry.h"

enum {
    TARGET_MAX = 4 * 1024 * 1024,
    BOOKMARK_MAX = 4096,
    PIECE_MAX = 3 * 1024 * 1024, /* beside what may be queued, below NET_WRITE_MAX */
    QUERIES_MAX = 2 * SELECTOR_DIFFERENCE_MAX,
    STUCK_MS = 2500, /* in which a client takes something, or may be cut */
};

/* A page, wanted, fetched, or being written. */
struct part {
    struct page_want want;
    struct list link; /* in writer.parts, in the order in which they are written */
    struct difference_writer *writer;
    const struct page *page; /* NULL: it is being fetched */
    size_t written;
};

struct query {
    const char *selector; /* encoded */
    enum watch_frame_type event;
};

enum writer_state { WRITER_LISTING, WRITER_WRITING, WRITER_OVER };

enum source {
    SOURCE_EXACT, /* what was there at the version */
    SOURCE_MEMORY /* what the API server has in memory, which must be of that version */
};

struct difference_writer {
    struct net_loop *loop;
    struct difference_writer_options o;
    const struct difference_writer_handlers *handlers;
    void *data;
    enum writer_state state;
    enum source source;
    struct query queries[QUERIES_MAX];
    size_t query_count;
    size_t query;      /* the one that is listed; query_count: all were */
    char *token;       /* where its next page begins; NULL: at the start */
    char *mark;        /* one of the tokens before: should it come again, they go round */
    uint64_t pages;    /* of the query so far */
    uint64_t empty_ms; /* since when they have been empty; 0: the last one was not */
    struct list parts; /* in the order in which they are written */
    size_t ahead;      /* bytes of them that are not written */
    uint64_t written;  /* bytes */
    uint64_t seen;     /* of them, when on_stuck looked last */
    struct net_deadline stuck;
    uint64_t events;
    uint64_t lowest;
    char *kind;
    char *api_version;
    struct net_task resume;
};

static const struct state_machine machine = {
    .object = "difference writer",
    .states = {[WRITER_LISTING] = {"Listing", STATE(WRITER_WRITING) | STATE(WRITER_OVER)},
               [WRITER_WRITING] = {"Writing", STATE(WRITER_OVER)},
               [WRITER_OVER] = {"Over", 0}}};

static void set_state(struct difference_writer *s, enum writer_state next)
{
    s->state = state_change(&machine, s->state, next, (struct slice){0});
}

/* ---- ends ---- */

static void fail_writer(struct difference_writer *s, const struct err *e)
{
    struct err copy = *e;
    if (s->state != WRITER_OVER) {
        set_state(s, WRITER_OVER);
        s->handlers->on_failed(s->data, &copy);
    }
}

static void fail_writer_with(struct difference_writer *s, int code, const char *what)
{
    struct err e = ERR_INIT;
    (void)err_set(&e, code, "%s: %s", what, err_text(code));
    fail_writer(s, &e);
}

/* So that the client, should it go on from the last version it saw, does not go back: what it
 * gained may have changed last long ago. */
static int write_bookmark(struct difference_writer *s)
{
    struct buf event = BUF_INIT(BOOKMARK_MAX);
    if (!s->o.bookmarks || s->kind == NULL || s->api_version == NULL) {
        return 0;
    }
    struct object_type type = {slice_str(s->kind), slice_str(s->api_version)};
    int rc = watch_frame_write_bookmark(s->o.encoding, &type, s->o.version, &event);
    if (rc == 0) {
        rc = http_exchange_send_body(s->o.down, buf_slice(&event));
    }
    buf_reset(&event);
    return rc;
}

static void finish_writer(struct difference_writer *s)
{
    int rc = write_bookmark(s);
    if (rc != 0) {
        fail_writer_with(s, rc, "cannot write a bookmark");
    } else {
        set_state(s, WRITER_OVER);
        s->handlers->on_done(s->data);
    }
}

/* ---- writing ---- */

static void part_free(struct part *p)
{
    list_pages_drop(&p->want);
    list_remove(&p->link);
    free(p);
}

/* Bytes of the next events, about as many as one read gives. */
static size_t next_piece(const struct difference_writer *s, struct slice events)
{
    struct frames frames;
    size_t size = 0;
    frames_init(&frames, s->o.encoding);
    while (size < events.len && size < NET_READ_SIZE) {
        size_t n = frames_next(&frames, slice_of(events.ptr + size, events.len - size));
        size = n > 0 ? size + n : events.len;
    }
    return size;
}

static void note_written(struct difference_writer *s)
{
    if (s->state == WRITER_LISTING) {
        set_state(s, WRITER_WRITING);
        s->handlers->on_first_event(s->data);
    }
}

/* In pieces, so that a slow client is noticed in between; of whole events, so that the watch can be
 * ended after each. */
static int write_part(struct difference_writer *s, struct part *p)
{
    const struct buf *events = &p->page->events;
    while (p->written < events->len && !http_exchange_blocked(s->o.down)) {
        const char *from = (const char *)buf_data(events) + p->written;
        size_t step = next_piece(s, slice_of(from, events->len - p->written));
        int rc = step <= PIECE_MAX ? http_exchange_send_body(s->o.down, slice_of(from, step))
                                   : -EMSGSIZE;
        if (rc != 0) {
            return rc;
        }
        p->written += step;
        s->ahead -= step;
        s->written += step;
        note_written(s);
    }
    return 0;
}

/* Memory that a client keeps by not reading is not kept from those who read. */
static void on_stuck(struct net_deadline *d)
{
    struct difference_writer *s = LIST_ITEM(d, struct difference_writer, stuck);
    bool moved = s->written != s->seen || !http_exchange_blocked(s->o.down);
    if (!moved && list_pages_scarce(s->o.pages)) {
        fail_writer_with(s, -EMSGSIZE, "the client does not read, and others wait for its memory");
        return;
    }
    s->seen = s->written;
    net_deadline_set(s->loop, d, STUCK_MS);
}

static int write_parts(struct difference_writer *s)
{
    int rc = 0;
    while (rc == 0 && !list_empty(&s->parts)) {
        struct part *p = LIST_ITEM(s->parts.next, struct part, link);
        if (p->page == NULL) {
            break;
        }
        rc = write_part(s, p);
        if (rc != 0 || p->written < p->page->events.len) {
            break; /* difference_writer_drained goes on */
        }
        part_free(p);
    }
    return rc;
}

/* ---- fetching ---- */

static void advance_writer(struct difference_writer *s);

/* Whether the last of the parts has no page yet. */
static bool is_fetching(const struct difference_writer *s)
{
    return !list_empty(&s->parts) && LIST_ITEM(s->parts.prev, struct part, link)->page == NULL;
}

static void forget_token(struct difference_writer *s)
{
    free(s->token);
    free(s->mark);
    s->token = NULL;
    s->mark = NULL;
    s->pages = 0;
    s->empty_ms = 0;
}

/* The mark is the token of page 1, 2, 4, 8, ...: of tokens that go round, it comes again (R. Brent,
 * An improved Monte Carlo factorization algorithm, section 2). */
static int note_token(struct difference_writer *s, const char *token)
{
    s->pages++;
    if (s->mark != NULL && strcmp(s->mark, token) == 0) {
        return -EPROTO;
    }
    free(s->token);
    s->token = strdup(token);
    if ((s->pages & (s->pages - 1)) == 0) {
        free(s->mark);
        s->mark = strdup(token);
    }
    return s->token != NULL && s->mark != NULL ? 0 : -ENOMEM;
}

/* A page may be empty and not be the last; but not for long. */
static int note_progress(struct difference_writer *s, const struct page *page)
{
    uint64_t now = net_loop_now(s->loop);
    if (page->count > 0) {
        s->empty_ms = 0;
    } else if (s->empty_ms == 0) {
        s->empty_ms = now;
    }
    return s->empty_ms != 0 && now - s->empty_ms > DERIVED_RETRY_TIME_MS ? -ETIMEDOUT : 0;
}

/* What the client is told of lies in the page; what is asked next is kept. */
static int note_page(struct difference_writer *s, const struct page *page)
{
    if (page->token == NULL) {
        forget_token(s);
        s->query++;
    } else {
        int rc = note_progress(s, page);
        rc = rc == 0 ? note_token(s, page->token) : rc;
        if (rc != 0) {
            return rc;
        }
    }
    if (s->kind == NULL && page->kind != NULL && page->api_version != NULL) {
        s->kind = strdup(page->kind);
        s->api_version = s->kind != NULL ? strdup(page->api_version) : NULL;
    }
    return 0;
}

/* Nothing was written: from the beginning, out of the API server's memory. */
static void restart_from_memory(struct difference_writer *s)
{
    while (!list_empty(&s->parts)) {
        part_free(LIST_ITEM(s->parts.next, struct part, link));
    }
    forget_token(s);
    s->source = SOURCE_MEMORY;
    s->query = 0;
    s->ahead = 0;
    s->events = 0;
    s->lowest = 0;
    advance_writer(s);
}

static void on_no_page(struct difference_writer *s, const struct err *e)
{
    if (e->code == -ESTALE && s->source == SOURCE_EXACT && s->state == WRITER_LISTING) {
        restart_from_memory(s);
    } else {
        fail_writer(s, e);
    }
}

static void on_other_version(struct difference_writer *s, const struct page *page)
{
    if (s->source == SOURCE_EXACT) {
        /* A server that does not know resourceVersionMatch shows what there is now. */
        fail_writer_with(s, -EPROTO,
                         "the list is of another version than the one that was asked for");
    } else {
        fail_writer_with(s, page->version > s->o.version ? -ESTALE : -ENODATA,
                         "the API server does not keep the version any more");
    }
}

static void on_page(struct page_want *w, const struct page *page, const struct err *e)
{
    struct part *p = LIST_ITEM(w, struct part, want);
    struct difference_writer *s = p->writer;
    if (e != NULL) {
        on_no_page(s, e);
        return;
    }
    if (page->version != s->o.version) {
        on_other_version(s, page);
        return;
    }
    p->page = page;
    s->ahead += page->events.len;
    s->events += page->count;
    if (page->lowest != 0 && (s->lowest == 0 || page->lowest < s->lowest)) {
        s->lowest = page->lowest;
    }
    int rc = note_page(s, page);
    if (rc != 0) {
        fail_writer_with(s, rc, rc == -ENOMEM ? "cannot keep a page" : "a list's pages do not end");
        return;
    }
    if (page->count == 0) {
        part_free(p);
    }
    advance_writer(s);
}

static int want_page(struct difference_writer *s, struct part *p, struct err *e)
{
    struct buf target = BUF_INIT(TARGET_MAX);
    const struct query *q = &s->queries[s->query];
    uint64_t version = s->source == SOURCE_EXACT ? s->o.version : 0;
    int rc = derived_list(s->o.target, slice_str(q->selector), version,
                          slice_str(s->token != NULL ? s->token : ""), &target, e);
    if (rc == 0) {
        struct page_request r = {
            .target = buf_slice(&target),
            .encoding = s->o.encoding,
            .partial = s->o.partial,
            .event = q->event,
            .first = s->state == WRITER_LISTING && list_empty(&s->parts),
            .fresh = s->source == SOURCE_MEMORY,
        };
        rc = list_pages_want(s->o.pages, &r, &p->want, e);
    }
    buf_reset(&target);
    return rc;
}

static int fetch_page(struct difference_writer *s, struct err *e)
{
    struct part *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return err_memory(e);
    }
    p->writer = s;
    p->want.on_page = on_page;
    list_init(&p->want.link);
    int rc = want_page(s, p, e);
    if (rc != 0) {
        free(p);
        return rc;
    }
    list_append(&s->parts, &p->link);
    return 0;
}

/* ---- the course of things ---- */

static void advance_writer(struct difference_writer *s)
{
    struct err e = ERR_INIT;
    bool fetching = is_fetching(s);
    bool all = !fetching && s->query == s->query_count;
    int rc = 0;
    if (s->state == WRITER_WRITING || all || s->ahead > DIFFERENCE_WRITER_AHEAD) {
        rc = write_parts(s);
    }
    if (rc != 0) {
        fail_writer_with(s, rc, "cannot write an event");
    } else if (all && list_empty(&s->parts)) {
        finish_writer(s);
    } else if (!all && !fetching && s->ahead <= DIFFERENCE_WRITER_AHEAD && fetch_page(s, &e) != 0) {
        fail_writer(s, &e);
    }
}

static void on_resume(struct net_task *t)
{
    struct difference_writer *s = LIST_ITEM(t, struct difference_writer, resume);
    if (s->state != WRITER_OVER) {
        advance_writer(s);
    }
}

void difference_writer_drained(struct difference_writer *s)
{
    net_task_queue(s->loop, &s->resume);
}

uint64_t difference_writer_events(const struct difference_writer *s)
{
    return s->events;
}

uint64_t difference_writer_lowest(const struct difference_writer *s)
{
    return s->lowest;
}

static void add_queries(struct difference_writer *s, const struct selector_difference *d,
                        enum watch_frame_type event)
{
    for (size_t i = 0; i < d->count; i++) {
        s->queries[s->query_count++] = (struct query){d->escaped[i], event};
    }
}

struct difference_writer *difference_writer_new(struct net_loop *l,
                                                const struct difference_writer_options *o,
                                                const struct difference_writer_handlers *handlers,
                                                void *data, struct err *e)
{
    struct difference_writer *s = calloc(1, sizeof *s);
    if (s == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    s->loop = l;
    s->o = *o;
    s->handlers = handlers;
    s->data = data;
    list_init(&s->parts);
    net_task_init(&s->resume, on_resume);
    net_deadline_init(&s->stuck, on_stuck);
    net_deadline_set(l, &s->stuck, STUCK_MS);
    s->o.difference->refs++;
    add_queries(s, &s->o.difference->lost, WATCH_FRAME_DELETED);
    add_queries(s, &s->o.difference->gained, WATCH_FRAME_ADDED);
    net_task_queue(l, &s->resume);
    return s;
}

void difference_writer_free(struct difference_writer *s)
{
    if (s == NULL) {
        return;
    }
    net_task_cancel(&s->resume);
    net_deadline_clear(&s->stuck);
    while (!list_empty(&s->parts)) {
        part_free(LIST_ITEM(s->parts.next, struct part, link));
    }
    difference_unref(s->o.difference);
    forget_token(s);
    free(s->kind);
    free(s->api_version);
    free(s);
}
