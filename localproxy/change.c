/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change.c - what a change of the rules does to the requests that run.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "forward_internal.h"
#include "guard/fence.h"
#include "watch/derived_requests.h"

enum {
    LOST_WRITE_MS = 5000, /* how long a write to what was lost may still take */
    LAST_EVENT_MS = 5000, /* how long the event may take that a silenced watch is within */
    TARGET_MAX = 4 * 1024 * 1024,
};

/* ---- a watch is cut ---- */

void change_cut(struct forward *f)
{
    struct forward_context *ctx = f->ctx;
    change_forget(f);
    forward_abort_up(f);
    ctx->metrics->watches_cut++;
    cut_pacing_note(&ctx->pace, f->attributes.key.view, net_loop_now(ctx->loop));
    if (watch_cut(f->watch, ctx->why_cut, f->down) != 0) {
        forward_abort(f);
    }
}

/* Now or later; until then it is silent. Not before the end of an event that it is within. */
static void cut_in(struct forward *f, uint64_t delay_ms)
{
    struct forward_context *ctx = f->ctx;
    f->cut_at_ms = net_loop_now(ctx->loop) + delay_ms;
    if (watch_state(f->watch) == WATCH_LAST) {
        net_deadline_set(ctx->loop, &f->due, LAST_EVENT_MS);
    } else if (delay_ms == 0) {
        change_cut(f);
    } else {
        ctx->metrics->watches_silenced++;
        net_deadline_set(ctx->loop, &f->due, delay_ms);
    }
}

void change_last_passed(struct forward *f)
{
    uint64_t now = net_loop_now(f->ctx->loop);
    cut_in(f, f->cut_at_ms > now && !f->ctx->draining ? f->cut_at_ms - now : 0);
}

static uint64_t delay_of(const struct forward *f)
{
    struct forward_context *ctx = f->ctx;
    return cut_pacing_delay(&ctx->pace, f->attributes.key.view, net_loop_now(ctx->loop),
                            ctx->cut_index++, ctx->affected);
}

static void on_due(struct net_deadline *d)
{
    struct forward *f = LIST_ITEM(d, struct forward, due);
    if (f->lost) {
        log_warn("breaking off a write to what the shard has lost: it takes too long",
                 log_strn("namespace", f->attributes.namespace.ptr, f->attributes.namespace.len),
                 log_strn("resource", f->attributes.resource.ptr, f->attributes.resource.len));
        forward_abort(f);
    } else if (watch_state(f->watch) == WATCH_LAST) {
        forward_abort(f); /* its last event does not end */
    } else {
        change_cut(f);
    }
}

/* ---- a watch goes over to the new rules ---- */

static struct difference_side side_of(const struct rules *rules, const struct forward *f)
{
    const struct rules_entry *entry =
        rules != NULL ? rules_match(rules, f->attributes.group, f->attributes.resource) : NULL;
    return entry != NULL ? (struct difference_side){entry->id, entry->compiled}
                         : (struct difference_side){0};
}

static struct slice escaped_of(const struct rules *rules, const struct forward *f)
{
    const struct rules_entry *entry =
        rules != NULL ? rules_match(rules, f->attributes.group, f->attributes.resource) : NULL;
    return entry != NULL ? entry->escaped : (struct slice){0};
}

/* The transition cannot be done: the client has to list again. */
static void fall_back(struct forward *f, enum fallback why, const char *text)
{
    struct forward_context *ctx = f->ctx;
    ctx->metrics->fallbacks[why]++;
    log_info("a watch is ended because it cannot be carried over to the new rules",
             log_str("reason", metrics_fallback_name(why)), log_str("error", text),
             log_strn("resource", f->attributes.resource.ptr, f->attributes.resource.len));
    change_forget(f);
    cut_in(f, delay_of(f));
}

static enum fallback fallback_of(const struct err *e)
{
    switch (e->code) {
    case -ESTALE:
    case -ENODATA:
        return FALLBACK_EXPIRED;
    case -ENOTSUP:
    case -E2BIG:
        return FALLBACK_SELECTOR;
    case -EMSGSIZE:
        return FALLBACK_SIZE;
    default:
        return FALLBACK_UPSTREAM;
    }
}

static void begin_transition(struct forward *f);

static void on_reach(void *data, uint64_t version, const struct err *e)
{
    struct forward *f = data;
    if (e != NULL) {
        fall_back(f, fallback_of(e), e->msg);
        return;
    }
    watch_stands(f->watch, version);
    begin_transition(f);
}

/* The API server does not keep the version that the client has, but perhaps a later one at which
 * the client's view is the same. */
static void find_version(struct forward *f)
{
    struct err e = ERR_INIT;
    struct version_probe_options o = {
        .upstream = f->ctx->upstream,
        .target = f->head->target,
        .selector = escaped_of(f->view, f),
        .version = watch_version(f->watch),
    };
    difference_writer_free(f->writer);
    f->writer = NULL;
    if (f->version_probe != NULL) {
        version_probe_continue(f->version_probe);
        return;
    }
    f->version_probe = version_probe_new(f->ctx->loop, &o, on_reach, f, &e);
    if (f->version_probe == NULL) {
        fall_back(f, FALLBACK_EXPIRED, e.msg);
    }
}

static void on_transition_failed(void *data, const struct err *e)
{
    struct forward *f = data;
    if (e->code == -ESTALE && !difference_writer_has_written(f->writer)) {
        find_version(f);
    } else {
        fall_back(f, fallback_of(e), e->msg);
    }
}

/* Watches on from where the client is now. */
static void reopen(struct forward *f)
{
    struct err e = ERR_INIT;
    struct buf target = BUF_INIT(TARGET_MAX);
    int rc = derived_watch(f->head->target, escaped_of(f->goal, f), watch_version(f->watch),
                           &target, &e);
    if (rc == 0) {
        struct slice text = buf_slice(&target);
        f->response_ended = false;
        f->request_passed = false;
        f->up = forward_ask(f, f->head, text, NULL, &e);
    }
    buf_reset(&target);
    f->reopening = f->up != NULL;
    if (f->up == NULL) {
        change_not_reopened(f);
    }
}

static void end_transition(struct forward *f)
{
    difference_writer_free(f->writer);
    version_probe_free(f->version_probe);
    f->writer = NULL;
    f->version_probe = NULL;
}

static void on_transition_done(void *data)
{
    struct forward *f = data;
    struct metrics *m = f->ctx->metrics;
    f->attributes.key.selector = request_attributes_selector(&f->attributes, f->goal);
    m->transitions++;
    m->spliced_events += difference_writer_events(f->writer);
    metrics_count_duration(&m->migration, (uv_hrtime() - f->changed_ns) / 1000);
    watch_carry_over(f->watch, &f->attributes.key, difference_writer_lowest(f->writer));
    end_transition(f);
    rules_unref(f->view);
    f->view = NULL;
    reopen(f);
}

static const struct difference_writer_handlers difference_writer_handlers = {
    .on_done = on_transition_done,
    .on_failed = on_transition_failed,
};

void change_reopened(struct forward *f, const struct http_head *head)
{
    const struct http_header *type = http_head_find(head, SLICE("Content-Type"));
    bool same = type != NULL && encoding_of(type->value) == watch_encoding(f->watch);
    if (head->status != 200 || !same || http_head_find(head, SLICE("Content-Encoding")) != NULL) {
        forward_abort_up(f);
        change_not_reopened(f);
        return;
    }
    f->reopening = false;
    rules_unref(f->goal);
    f->goal = NULL;
}

void change_not_reopened(struct forward *f)
{
    watch_silence(f->watch);
    fall_back(f, FALLBACK_REOPEN, "the watch that is to follow cannot be had");
}

void change_forget(struct forward *f)
{
    net_deadline_clear(&f->due);
    if (f->writer != NULL && difference_writer_has_written(f->writer)) {
        watch_mix(f->watch, difference_writer_lowest(f->writer));
    }
    end_transition(f);
    rules_unref(f->view);
    rules_unref(f->goal);
    f->view = NULL;
    f->goal = NULL;
    f->reopening = false;
}

static bool contains(struct slice text, struct slice part)
{
    return text.len >= part.len && memmem(text.ptr, text.len, part.ptr, part.len) != NULL;
}

/* Why a watch cannot be carried over, as far as it shows; FALLBACKS: it can. */
static enum fallback obstacle(const struct forward *f)
{
    bool impersonates = false;
    struct slice accept = {0};
    if (f->head == NULL || !derived_possible(f->head->target)) {
        return FALLBACK_FORM;
    }
    for (size_t i = 0; i < f->head->header_count; i++) {
        const struct http_header *h = &f->head->headers[i];
        accept = slice_ieq(h->name, SLICE("Accept")) ? h->value : accept;
        impersonates = impersonates || (h->name.len >= 11 &&
                                        slice_ieq(slice_of(h->name.ptr, 11), SLICE("Impersonate")));
    }
    if (impersonates || contains(accept, SLICE("as=Table")) ||
        watch_encoding(f->watch) == ENCODING_OTHER) {
        return FALLBACK_FORM;
    }
    return watch_version(f->watch) == 0 ? FALLBACK_VERSION : FALLBACKS;
}

static bool wants_partial(const struct forward *f)
{
    const struct http_header *accept = http_head_find(f->head, SLICE("Accept"));
    return accept != NULL && contains(accept->value, SLICE("as=PartialObjectMetadata"));
}

/* From f->view to f->goal. */
static void begin_transition(struct forward *f)
{
    struct forward_context *ctx = f->ctx;
    struct err e = ERR_INIT;
    enum fallback why = obstacle(f);
    if (why != FALLBACKS) {
        fall_back(f, why, "");
        return;
    }
    struct difference_writer_options o = {
        .pages = ctx->pages,
        .down = f->down,
        .target = f->head->target,
        .encoding = watch_encoding(f->watch),
        .partial = wants_partial(f),
        .bookmarks = f->attributes.bookmarks,
        .version = watch_version(f->watch),
        .difference =
            difference_cache_get(&ctx->differences, side_of(f->view, f), side_of(f->goal, f), &e),
    };
    if (o.difference != NULL) {
        f->writer = difference_writer_new(ctx->loop, &o, &difference_writer_handlers, f, &e);
        difference_unref(o.difference);
    }
    if (f->writer == NULL) {
        fall_back(f, fallback_of(&e), e.msg);
    }
}

/* A watch that passes events, or waits for the one that is to follow a transition. */
static void carry_over(struct forward *f, struct rules *old, struct rules *now)
{
    watch_silence(f->watch);
    if (watch_state(f->watch) == WATCH_LAST) {
        fall_back(f, FALLBACK_SIZE, "within a large event");
        return;
    }
    forward_abort_up(f);
    change_forget(f);
    f->view = old != NULL ? rules_ref(old) : NULL;
    f->goal = rules_ref(now);
    f->changed_ns = uv_hrtime();
    begin_transition(f);
}

/* The rules change while it is in transition. */
static void redirect(struct forward *f, struct rules *now)
{
    uint64_t goal = request_attributes_selector(&f->attributes, f->goal);
    if (goal == request_attributes_selector(&f->attributes, now)) {
        return; /* nothing new for it */
    }
    if (f->writer != NULL && difference_writer_has_written(f->writer)) {
        fall_back(f, FALLBACK_SUPERSEDED, "");
        return;
    }
    rules_unref(f->goal);
    f->goal = rules_ref(now);
    f->changed_ns = uv_hrtime();
    if (f->writer != NULL) {
        difference_writer_free(f->writer);
        f->writer = NULL;
        begin_transition(f);
    } /* else when a version was found */
}

/* ---- each kind of request ---- */

/* Not answered yet: asked again under the new rules, the operator does not notice. */
static void ask_again(struct forward *f)
{
    struct forward_context *ctx = f->ctx;
    struct http_exchange *down = f->down;
    struct http_head *head = f->head;
    bool request_ended = f->request_ended;
    f->down = NULL;
    f->head = NULL;
    forward_give_back(f);
    forward_abort_up(f);
    http_exchange_resume(down);
    forward_destroy(f);
    ctx->metrics->requests_repeated++;
    ctx->again(ctx->data, down, head, request_ended);
    free(head);
}

static bool in_transition(const struct forward *f)
{
    return f->writer != NULL || f->version_probe != NULL;
}

static void change_watch(struct forward *f, struct rules *old, struct rules *now)
{
    if (in_transition(f)) {
        redirect(f, now);
    } else if (watch_state(f->watch) != WATCH_PASSING) {
        return; /* its time is set already */
    } else if (f->ctx->seamless) {
        carry_over(f, old, now);
    } else {
        watch_silence(f->watch);
        cut_in(f, delay_of(f));
    }
}

static void change_one(struct forward *f, struct rules *old, struct rules *now)
{
    if (f->down == NULL) {
        return; /* over already */
    }
    if (f->watch != NULL && watch_state(f->watch) == WATCH_PASSING && f->response_ended) {
        return; /* its end is on the way to the operator */
    }
    if (f->watch != NULL) {
        change_watch(f, old, now);
    } else if (f->head != NULL && !f->responded) {
        ask_again(f);
    } else if (!f->responded || f->tunnel || (f->list != NULL && !f->response_ended)) {
        f->ctx->metrics->lists_broken_off++;
        forward_abort(f);
    }
}

static bool sees_otherwise(const struct forward *f, const struct rules *now)
{
    return f->scoped && (f->verb == VERB_LIST || f->verb == VERB_WATCH) &&
           (in_transition(f) ||
            request_attributes_selector(&f->attributes, now) != f->attributes.key.selector);
}

/* A write that was sent and not answered, and would be refused now. */
static bool is_lost(const struct forward *f, const struct rules *now)
{
    struct request_info ri;
    if (!f->scoped || !request_attributes_is_write(&f->attributes) || f->response_ended ||
        f->tunnel || f->up == NULL) {
        return false;
    }
    request_attributes_to_request_info(&f->attributes, &ri);
    return fence_applies(now, &ri) ||
           (f->verb == VERB_DELETECOLLECTION &&
            request_attributes_selector(&f->attributes, now) != f->attributes.key.selector);
}

/* ---- all of them ---- */

void change_context_init(struct forward_context *ctx)
{
    ctx->on_due = on_due;
}

void change_context_deinit(struct forward_context *ctx)
{
    difference_cache_deinit(&ctx->differences);
}

static unsigned mark(struct forward_context *ctx, const struct rules *now)
{
    unsigned watches = 0;
    LIST_FOR_EACH(node, &ctx->running)
    {
        struct forward *f = LIST_ITEM(node, struct forward, link);
        if (!f->lost && is_lost(f, now)) {
            f->lost = true;
            ctx->lost++;
            net_deadline_set(ctx->loop, &f->due, LOST_WRITE_MS);
        }
        watches += f->watch != NULL && sees_otherwise(f, now) ? 1 : 0;
    }
    return watches;
}

void forward_change(struct forward_context *ctx, struct rules *old, struct rules *now,
                    const char *why)
{
    struct list all;
    (void)snprintf(ctx->why_cut, sizeof ctx->why_cut, "%s", why);
    ctx->affected = mark(ctx, now);
    ctx->cut_index = 0;
    list_init(&all); /* what is asked again joins ctx->running anew */
    while (!list_empty(&ctx->running)) {
        struct list *node = ctx->running.next;
        list_remove(node);
        list_append(&all, node);
    }
    while (!list_empty(&all)) {
        struct forward *f = LIST_ITEM(all.next, struct forward, link);
        list_remove(&f->link);
        list_append(&ctx->running, &f->link);
        if (sees_otherwise(f, now)) {
            change_one(f, old, now);
        }
    }
    if (ctx->lost == 0) {
        ctx->on_settled(ctx->data);
    }
}
