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

enum { COVER, REST, SIDES };

struct write_probe {
    struct net_loop *loop;
    uint64_t to;
    write_probe_cb cb;
    void *data;
    struct side sides[SIDES];
    struct net_task report;
    struct net_deadline limit;
    int failed; /* a negative error */
};

static void fail(struct write_probe *p, int code)
{
    p->failed = p->failed != 0 ? p->failed : code;
    for (int i = 0; i < SIDES; i++) {
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

/* The last version at which the watch itself shows something; 0: there is none. */
static uint64_t last_of_watch(const struct write_probe *p)
{
    size_t covers;
    size_t rests;
    const struct shown *cover = shown_of(&p->sides[COVER], &covers);
    const struct shown *rest = shown_of(&p->sides[REST], &rests);
    uint64_t last = 0;
    for (size_t i = 0, j = 0; i < covers; i++) {
        while (j < rests && rest[j].version < cover[i].version) {
            j++;
        }
        bool same =
            j < rests && rest[j].version == cover[i].version && rest[j].type == cover[i].type;
        last = same ? last : cover[i].version;
    }
    return last;
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
        if (p->sides[COVER].reached >= p->to && p->sides[REST].reached >= p->to) {
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

static int start_sides(struct write_probe *p, const struct write_probe_options *o,
                       struct slice cover, struct slice rest, struct err *e)
{
    const struct slice selectors[SIDES] = {[COVER] = cover, [REST] = rest};
    int rc = 0;
    for (int i = 0; i < SIDES && rc == 0; i++) {
        const struct probe_stream_options s = {.client = o->client,
                                               .target = o->target,
                                               .selector = selectors[i],
                                               .version = o->from,
                                               .budget = o->budget};
        rc = probe_stream_start(&p->sides[i].stream, &s, e);
    }
    return rc;
}

/* `wide` is the selector of cover. */
static int start_with(struct write_probe *p, const struct write_probe_options *o,
                      const struct selector *wide, struct err *e)
{
    struct buf text = BUF_INIT(RULES_ESCAPED_MAX);
    struct buf cover = BUF_INIT(RULES_ESCAPED_MAX);
    struct selector_difference rest;
    int rc = selector_difference(wide, o->selector, &rest, e);
    if (rc != 0) {
        return rc;
    }
    if (rest.count != 1) {
        rc = err_set(e, -ENOTSUP, "the rest is not one selector");
    } else if (selector_print(wide, &text) != 0 || query_encode(buf_slice(&text), &cover) != 0) {
        rc = err_set(e, -E2BIG, "the selector is too long");
    } else {
        rc = start_sides(p, o, buf_slice(&cover), slice_str(rest.escaped[0]), e);
    }
    buf_reset(&text);
    buf_reset(&cover);
    selector_difference_deinit(&rest);
    return rc;
}

static int start(struct write_probe *p, const struct write_probe_options *o, struct err *e)
{
    struct selector *wide = selector_widen(o->selector, o->labels, o->label_count, e);
    if (wide == NULL) {
        return e->code;
    }
    int rc = start_with(p, o, wide, e);
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
    for (int i = 0; i < SIDES; i++) {
        p->sides[i].probe = p;
        p->sides[i].reached = o->from;
        buf_init(&p->sides[i].events, WRITE_PROBE_EVENTS * sizeof(struct shown));
        probe_stream_init(&p->sides[i].stream, &handlers, o->budget);
    }
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
    for (int i = 0; i < SIDES; i++) {
        probe_stream_stop(&p->sides[i].stream);
        buf_reset(&p->sides[i].events);
    }
    net_task_cancel(&p->report);
    net_deadline_clear(&p->limit);
    free(p);
}
