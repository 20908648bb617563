/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/write_probe.h"

#include <errno.h>
#include <stdlib.h>

#include "kube/query.h"
#include "net/deadline.h"
#include "rules/rules.h"
#include "rules/selector_difference.h"
#include "watch/probe_stream.h"

struct shown {
    uint64_t version;
    enum watch_frame_type type;
};

struct side {
    struct write_probe *probe;
    struct probe_stream stream;
    struct buf events; /* struct shown, those up to `to` */
    uint64_t reached;  /* all up to it has been shown */
};

enum { COVER, FIRST_REST, SIDES_MAX = FIRST_REST + WRITE_PROBE_RESTS };

struct write_probe {
    struct net_loop *loop;
    uint64_t to;
    write_probe_cb cb;
    void *data;
    struct side sides[SIDES_MAX];
    int count; /* of them */
    struct net_task report;
    struct net_deadline limit;
    int failed; /* a negative error */
};

static void fail(struct write_probe *p, int code)
{
    p->failed = p->failed != 0 ? p->failed : code;
    for (int i = 0; i < p->count; i++) {
        probe_stream_stop(&p->sides[i].stream);
    }
    net_task_queue(p->loop, &p->report);
}

/* ---- what they show ---- */

static const struct shown *shown_of(const struct side *s, size_t *count)
{
    *count = s->events.len / sizeof(struct shown);
    return (const struct shown *)(const void *)buf_data(&s->events);
}

/* Whether a watch of that selector had the object before, and has it after. */
enum { WAS = 1, IS = 2 };

static unsigned meaning(enum watch_frame_type type)
{
    return (type != WATCH_FRAME_ADDED ? WAS : 0) | (type != WATCH_FRAME_DELETED ? IS : 0);
}

/* What the rests together show of a version. `at`: for each, the first event that was not looked at
 * yet. */
static unsigned meaning_of_rests(const struct write_probe *p, uint64_t version,
                                 size_t at[SIDES_MAX])
{
    unsigned sum = 0;
    for (int i = FIRST_REST; i < p->count; i++) {
        size_t count;
        const struct shown *rest = shown_of(&p->sides[i], &count);
        while (at[i] < count && rest[at[i]].version < version) {
            at[i]++;
        }
        sum |= at[i] < count && rest[at[i]].version == version ? meaning(rest[at[i]].type) : 0;
    }
    return sum;
}

/* The last version at which the watch itself shows something; 0: there is none. */
static uint64_t last_of_watch(const struct write_probe *p)
{
    size_t covers;
    const struct shown *cover = shown_of(&p->sides[COVER], &covers);
    size_t at[SIDES_MAX] = {0};
    uint64_t last = 0;
    for (size_t i = 0; i < covers; i++) {
        bool same = meaning_of_rests(p, cover[i].version, at) == meaning(cover[i].type);
        last = same ? last : cover[i].version;
    }
    return last;
}

static bool is_complete(const struct write_probe *p)
{
    for (int i = 0; i < p->count; i++) {
        if (p->sides[i].reached < p->to) {
            return false;
        }
    }
    return true;
}

static void on_report(struct net_task *t)
{
    struct write_probe *p = LIST_ITEM(t, struct write_probe, report);
    struct err e = ERR_INIT;
    net_deadline_clear(&p->limit);
    if (p->failed == 0) {
        p->cb(p->data, last_of_watch(p), NULL);
        return;
    }
    (void)err_set(&e, p->failed, "the API server has not shown the version that was written");
    p->cb(p->data, 0, &e);
}

static void on_event(struct probe_stream *stream, const struct watch_frame *ev)
{
    struct side *s = LIST_ITEM(stream, struct side, stream);
    struct write_probe *p = s->probe;
    const struct shown shown = {.version = ev->resource_version, .type = ev->type};
    if (ev->type == WATCH_FRAME_UNKNOWN || ev->type == WATCH_FRAME_ERROR || shown.version == 0) {
        fail(p, ev->code == 410 ? -ESTALE : -EPROTO);
        return;
    }
    if (ev->type != WATCH_FRAME_BOOKMARK && shown.version <= s->reached) {
        fail(p, -EPROTO); /* see write_probe.h */
        return;
    }
    if (ev->type != WATCH_FRAME_BOOKMARK && shown.version <= p->to &&
        (stream->bytes > WRITE_PROBE_BYTES || buf_append(&s->events, &shown, sizeof shown) != 0)) {
        fail(p, -E2BIG);
        return;
    }
    s->reached = shown.version > s->reached ? shown.version : s->reached;
    if (s->reached >= p->to) {
        probe_stream_stop(stream);
        if (is_complete(p)) {
            net_task_queue(p->loop, &p->report);
        }
    }
}

static void on_over(struct probe_stream *stream)
{
    fail(LIST_ITEM(stream, struct side, stream)->probe, -ENODATA);
}

static const struct probe_stream_handlers handlers = {.on_event = on_event, .on_over = on_over};

static void on_limit(struct net_deadline *d)
{
    fail(LIST_ITEM(d, struct write_probe, limit), -ETIMEDOUT);
}

/* ---- asking ---- */

static int start_side(struct write_probe *p, const struct write_probe_options *o,
                      struct slice selector, struct err *e)
{
    struct side *side = &p->sides[p->count++];
    const struct probe_stream_options s = {.client = o->client,
                                           .target = o->target,
                                           .selector = selector,
                                           .version = o->from,
                                           .budget = o->budget};
    side->probe = p;
    side->reached = o->from;
    buf_init(&side->events, WRITE_PROBE_EVENTS * sizeof(struct shown));
    probe_stream_init(&side->stream, &handlers, o->budget);
    return probe_stream_start(&side->stream, &s, e);
}

static int start_cover(struct write_probe *p, const struct write_probe_options *o,
                       const struct selector *wide, struct err *e)
{
    struct buf text = BUF_INIT(RULES_ESCAPED_MAX);
    struct buf cover = BUF_INIT(RULES_ESCAPED_MAX);
    int rc = selector_print(wide, &text);
    if (rc == 0) {
        rc = query_encode(buf_slice(&text), &cover);
    }
    rc = rc == 0 ? start_side(p, o, buf_slice(&cover), e)
                 : err_set(e, rc == -ENOMEM ? rc : -ENOTSUP, "the selector is too long");
    buf_reset(&text);
    buf_reset(&cover);
    return rc;
}

/* What `wide` selects and `one`, a requirement of ours that the object fails, does not. */
static int start_rest(struct write_probe *p, const struct write_probe_options *o,
                      const struct selector *wide, const struct selector *one, struct err *e)
{
    struct selector_difference rest;
    int rc = selector_difference(wide, one, &rest, e);
    if (rc != 0) {
        return rc == -ENOMEM ? rc : err_set(e, -ENOTSUP, "the rest cannot be selected");
    }
    if (rest.count != 1 || p->count == SIDES_MAX) {
        rc = err_set(e, -ENOTSUP, "the rest is not one to %d selectors", WRITE_PROBE_RESTS);
    } else {
        rc = start_side(p, o, slice_str(rest.escaped[0]), e);
    }
    selector_difference_deinit(&rest);
    return rc;
}

static int start_sides(struct write_probe *p, const struct write_probe_options *o,
                       const struct selector *wide, struct err *e)
{
    size_t required;
    (void)selector_requirements(o->selector, &required);
    int rc = start_cover(p, o, wide, e);
    for (size_t i = 0; i < required && rc == 0; i++) {
        struct selector *one = selector_one(o->selector, i, e);
        if (one == NULL) {
            return e->code;
        }
        if (!selector_matches(one, o->labels, o->label_count)) {
            rc = start_rest(p, o, wide, one, e);
        }
        selector_free(one);
    }
    return rc;
}

static int start(struct write_probe *p, const struct write_probe_options *o, struct err *e)
{
    struct selector *wide = selector_widen(o->selector, o->labels, o->label_count, e);
    if (wide == NULL) {
        return e->code == -ENOMEM ? e->code : err_set(e, -ENOTSUP, "the selector is too large");
    }
    int rc = start_sides(p, o, wide, e);
    selector_free(wide);
    return rc;
}

struct write_probe *write_probe_new(struct net_loop *l, const struct write_probe_options *o,
                                    write_probe_cb cb, void *data, struct err *e)
{
    struct write_probe *p = calloc(1, sizeof *p);
    if (p == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    p->loop = l;
    p->to = o->to;
    p->cb = cb;
    p->data = data;
    net_task_init(&p->report, on_report);
    net_deadline_init(&p->limit, on_limit);
    if (start(p, o, e) != 0) {
        write_probe_free(p);
        return NULL;
    }
    net_deadline_set(l, &p->limit, PROBE_STREAM_MS);
    return p;
}

void write_probe_free(struct write_probe *p)
{
    if (p == NULL) {
        return;
    }
    for (int i = 0; i < p->count; i++) {
        probe_stream_stop(&p->sides[i].stream);
        buf_reset(&p->sides[i].events);
    }
    net_task_cancel(&p->report);
    net_deadline_clear(&p->limit);
    free(p);
}
