/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happy path: migration_change_rules > list_difference > on_first_event > on_written > reopen_watch
 * > migration_answered.
 *
 * What the API server refuses for now is repeated (list_pages.c; repeat_reopen > on_due).
 *
 * Ways to fail: fall_back counts why, and cut_after takes the watch to its end. on_failed tells
 * a version that is not kept, which find_version may mend, from the rest. Only where not even the
 * end can be written the stream is broken off.
 */
#include "watch/migration.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/state_machine.h"
#include "exchange/headers.h"
#include "net/clock.h"
#include "upstream/derived_requests.h"
#include "watch/difference_writer.h"
#include "watch/version_probe.h"

enum {
    LAST_EVENT_MS = 5000, /* how long the event may take that the watch is within */
    TARGET_MAX = 4 * 1024 * 1024,
    REASON_MAX = 128,
};

static const struct state_machine machine = {
    .object = "migration",
    .states = {
        [MIGRATION_PASSING] = {"Passing", STATE(MIGRATION_LISTING) | STATE(MIGRATION_LAST_EVENT) |
                                              STATE(MIGRATION_SILENT)},
        [MIGRATION_LISTING] = {"ListingDifference",
                               STATE(MIGRATION_LISTING) | STATE(MIGRATION_FINDING_VERSION) |
                                   STATE(MIGRATION_WRITING) | STATE(MIGRATION_REOPENING) |
                                   STATE(MIGRATION_SILENT)},
        [MIGRATION_FINDING_VERSION] = {"FindingVersion",
                                       STATE(MIGRATION_LISTING) | STATE(MIGRATION_SILENT)},
        [MIGRATION_WRITING] = {"WritingDifference",
                               STATE(MIGRATION_REOPENING) | STATE(MIGRATION_SILENT)},
        [MIGRATION_REOPENING] = {"Reopening", STATE(MIGRATION_PASSING) | STATE(MIGRATION_LISTING) |
                                                  STATE(MIGRATION_REOPEN_PAUSED) |
                                                  STATE(MIGRATION_SILENT)},
        [MIGRATION_REOPEN_PAUSED] = {"ReopenPaused", STATE(MIGRATION_REOPENING) |
                                                         STATE(MIGRATION_LISTING) |
                                                         STATE(MIGRATION_SILENT)},
        [MIGRATION_LAST_EVENT] = {"LastEvent", STATE(MIGRATION_SILENT)},
        [MIGRATION_SILENT] = {"Silenced", STATE(MIGRATION_CUT)},
        [MIGRATION_CUT] = {"Ended", 0},
    }};

enum migration_state migration_state(const struct migration *m)
{
    return m->state;
}

const char *migration_state_name(const struct migration *m)
{
    return state_name(&machine, m->state);
}

static void set_state(struct migration *m, enum migration_state next)
{
    m->state = state_change(&machine, m->state, next, m->o.attributes->resource);
}

/* ---- what all share ---- */

void migration_context_deinit(struct migration_context *ctx)
{
    difference_cache_deinit(&ctx->differences);
}

void migration_context_change(struct migration_context *ctx, unsigned affected, const char *why)
{
    ctx->affected = affected;
    ctx->cut_index = 0;
    (void)snprintf(ctx->why, sizeof ctx->why, "%s", why);
}

/* ---- the watch is cut ---- */

static void release_work(struct migration *m)
{
    net_deadline_clear(&m->due);
    difference_writer_free(m->writer);
    version_probe_free(m->probe);
    rules_unref(m->from);
    rules_unref(m->to);
    m->writer = NULL;
    m->probe = NULL;
    m->from = NULL;
    m->to = NULL;
}

/* Of what was written in part the client cannot go on. */
static void note_unfinished(struct migration *m)
{
    if (m->state == MIGRATION_WRITING) {
        watch_mix(m->o.watch, difference_writer_lowest(m->writer));
    }
}

/* Gives up what is under way. */
static void fall_silent(struct migration *m)
{
    note_unfinished(m);
    release_work(m);
    if (m->state != MIGRATION_SILENT) {
        set_state(m, MIGRATION_SILENT);
    }
}

void migration_cut(struct migration *m)
{
    struct migration_context *ctx = m->ctx;
    fall_silent(m);
    m->o.handlers->end_upstream(m->o.data);
    ctx->metrics->watches_cut++;
    cut_pacing_note(&ctx->pacing, m->o.attributes->key.view, net_loop_now(m->o.upstream->loop));
    if (watch_cut(m->o.watch, ctx->why, m->o.down) != 0) {
        m->o.handlers->abort(m->o.data);
        return;
    }
    set_state(m, MIGRATION_CUT);
}

void migration_end_now(struct migration *m)
{
    if (m->state == MIGRATION_CUT) {
        return;
    }
    watch_silence(m->o.watch);
    if (watch_state(m->o.watch) == WATCH_LAST) {
        m->o.handlers->abort(m->o.data);
    } else {
        migration_cut(m);
    }
}

/* Not before the end of an event that the watch is within. */
static void cut_after(struct migration *m, uint64_t delay_ms)
{
    struct migration_context *ctx = m->ctx;
    if (watch_state(m->o.watch) == WATCH_LAST) {
        set_state(m, MIGRATION_LAST_EVENT);
        m->cut_at_ms = net_loop_now(m->o.upstream->loop) + delay_ms;
        net_deadline_set(m->o.upstream->loop, &m->due, LAST_EVENT_MS);
        return;
    }
    fall_silent(m);
    if (delay_ms == 0) {
        migration_cut(m);
        return;
    }
    ctx->metrics->watches_silenced++;
    net_deadline_set(m->o.upstream->loop, &m->due, delay_ms);
}

void migration_last_event_ended(struct migration *m)
{
    uint64_t now = net_loop_now(m->o.upstream->loop);
    cut_after(m, m->cut_at_ms > now ? m->cut_at_ms - now : 0);
}

static void reopen_watch(struct migration *m);

static void on_due(struct net_deadline *d)
{
    struct migration *m = LIST_ITEM(d, struct migration, due);
    switch (m->state) {
    case MIGRATION_LAST_EVENT:
        m->o.handlers->abort(m->o.data);
        break;
    case MIGRATION_REOPEN_PAUSED:
        reopen_watch(m);
        break;
    default:
        migration_cut(m);
        break;
    }
}

/* When the pacing allows it. */
static void cut_when_paced(struct migration *m)
{
    struct migration_context *ctx = m->ctx;
    cut_after(m,
              cut_pacing_delay(&ctx->pacing, m->o.attributes->key.view,
                               net_loop_now(m->o.upstream->loop), ctx->cut_index++, ctx->affected));
}

static void fall_back(struct migration *m, enum fallback why, const char *text)
{
    const struct request_attributes *a = m->o.attributes;
    m->ctx->metrics->fallbacks[why]++;
    log_info("an open watch cannot be migrated to the new rules and is ended",
             log_str("reason", metrics_fallback_name(why)),
             log_strn("resource", a->resource.ptr, a->resource.len),
             text[0] != '\0' ? log_str("error", text) : (struct log_field){0});
    cut_when_paced(m);
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

/* ---- whether it can be done ---- */

static enum object_form form_of(const struct migration *m)
{
    return encoding_form(headers_value(m->o.head, SLICE("Accept")), watch_encoding(m->o.watch));
}

static bool impersonates(const struct http_head *head)
{
    const struct slice prefix = SLICE("Impersonate");
    for (size_t i = 0; i < head->header_count; i++) {
        struct slice name = head->headers[i].name;
        if (name.len >= prefix.len && slice_ieq(slice_of(name.ptr, prefix.len), prefix)) {
            return true;
        }
    }
    return false;
}

bool migration_has_form(const struct migration *m)
{
    const struct http_head *head = m->o.head;
    return head != NULL && derived_possible(head->target) && !impersonates(head) &&
           watch_encoding(m->o.watch) != ENCODING_OTHER && form_of(m) != OBJECT_FORM_TABLE;
}

bool migration_is_partial(const struct migration *m)
{
    return migration_has_form(m) && form_of(m) == OBJECT_FORM_PARTIAL;
}

/* ---- the difference is listed and written ---- */

static void find_version(struct migration *m);

static void free_writer(struct migration *m)
{
    difference_writer_free(m->writer);
    m->writer = NULL;
}

static void on_first_event(void *data)
{
    struct migration *m = data;
    set_state(m, MIGRATION_WRITING);
}

static void on_written(void *data)
{
    struct migration *m = data;
    struct metrics *metrics = m->ctx->metrics;
    struct request_attributes *a = m->o.attributes;
    a->key.selector = request_attributes_selector(a, m->to);
    metrics->migrated++;
    metrics->spliced_events += difference_writer_events(m->writer);
    metrics_count_duration(&metrics->migration, (net_clock_ns() - m->changed_ns) / 1000);
    watch_migrated(m->o.watch, &a->key, difference_writer_lowest(m->writer));
    free_writer(m);
    version_probe_free(m->probe);
    m->probe = NULL;
    derived_retry_init(&m->retry, net_loop_now(m->o.upstream->loop));
    reopen_watch(m);
}

static void on_failed(void *data, const struct err *e)
{
    struct migration *m = data;
    if (e->code == -ESTALE && m->state == MIGRATION_LISTING) {
        find_version(m);
    } else {
        fall_back(m, fallback_of(e), e->msg);
    }
}

static const struct difference_writer_handlers writer_handlers = {
    .on_first_event = on_first_event,
    .on_done = on_written,
    .on_failed = on_failed,
};

static struct difference_side side_of(const struct migration *m, const struct rules *rules)
{
    const struct rules_entry *entry = request_attributes_entry(m->o.attributes, rules);
    return entry != NULL ? (struct difference_side){entry->id, entry->compiled}
                         : (struct difference_side){0};
}

static int start_writer(struct migration *m, struct err *e)
{
    struct migration_context *ctx = m->ctx;
    struct difference_writer_options o = {
        .pages = m->o.upstream->pages,
        .down = m->o.down,
        .target = m->o.head->target,
        .encoding = watch_encoding(m->o.watch),
        .partial = form_of(m) == OBJECT_FORM_PARTIAL,
        .bookmarks = m->o.attributes->bookmarks,
        .version = watch_version(m->o.watch),
        .difference =
            difference_cache_get(&ctx->differences, side_of(m, m->from), side_of(m, m->to), e),
    };
    if (o.difference == NULL) {
        return e->code;
    }
    m->writer = difference_writer_new(m->o.upstream->loop, &o, &writer_handlers, m, e);
    difference_unref(o.difference);
    return m->writer != NULL ? 0 : e->code;
}

/* From m->from to m->to, as it was at the version that the client has. */
static void list_difference(struct migration *m)
{
    struct err e = ERR_INIT;
    if (!migration_has_form(m)) {
        fall_back(m, FALLBACK_FORM, "");
    } else if (watch_version(m->o.watch) == 0) {
        fall_back(m, FALLBACK_VERSION, "");
    } else if (start_writer(m, &e) != 0) {
        fall_back(m, fallback_of(&e), e.msg);
    } else {
        set_state(m, MIGRATION_LISTING);
    }
}

/* ---- the API server does not keep the version ---- */

static void on_version(void *data, uint64_t version, const struct err *e)
{
    struct migration *m = data;
    if (e != NULL) {
        fall_back(m, fallback_of(e), e->msg);
        return;
    }
    watch_stands(m->o.watch, version);
    list_difference(m);
}

static struct slice selector_under(const struct migration *m, const struct rules *rules)
{
    const struct rules_entry *entry = request_attributes_entry(m->o.attributes, rules);
    return entry != NULL ? entry->escaped : (struct slice){0};
}

static void find_version(struct migration *m)
{
    struct err e = ERR_INIT;
    struct version_probe_options o = {
        .client = m->o.upstream->client,
        .target = m->o.head->target,
        .selector = selector_under(m, m->from),
        .version = watch_version(m->o.watch),
        .budget = &m->o.upstream->memory,
    };
    free_writer(m);
    if (m->probe != NULL) {
        version_probe_continue(m->probe);
    } else {
        m->probe = version_probe_new(m->o.upstream->loop, &o, on_version, m, &e);
    }
    if (m->probe == NULL) {
        fall_back(m, FALLBACK_EXPIRED, e.msg);
        return;
    }
    set_state(m, MIGRATION_FINDING_VERSION);
}

/* ---- the watch that is to follow ---- */

static int ask_for_watch(struct migration *m, struct err *e)
{
    struct buf target = BUF_INIT(TARGET_MAX);
    int rc = derived_watch(m->o.head->target, selector_under(m, m->to), watch_version(m->o.watch),
                           &target, e);
    if (rc == 0) {
        struct slice text = buf_slice(&target);
        rc = m->o.handlers->reopen(m->o.data, text, e);
    }
    buf_reset(&target);
    return rc;
}

static void fail_reopen(struct migration *m, const char *why)
{
    watch_silence(m->o.watch);
    fall_back(m, FALLBACK_REOPEN, why);
}

static void repeat_reopen(struct migration *m, const struct http_head *head, const char *why);

/* Watches on from where the client is now. */
static void reopen_watch(struct migration *m)
{
    struct err e = ERR_INIT;
    set_state(m, MIGRATION_REOPENING);
    int rc = ask_for_watch(m, &e);
    if (rc == -EDQUOT) {
        repeat_reopen(m, NULL, e.msg); /* there is no room for now */
    } else if (rc != 0) {
        fail_reopen(m, e.msg);
    }
}

/* The API server answered with `head`, or nothing (NULL). */
static void repeat_reopen(struct migration *m, const struct http_head *head, const char *why)
{
    struct net_loop *l = m->o.upstream->loop;
    uint64_t pause =
        derived_retry_pause(&m->retry, head, net_loop_now(l), net_clock_random(&net_clock_system));
    if (pause == 0) {
        fail_reopen(m, why);
        return;
    }
    log_debug("a watch that continues is asked for again", log_str("error", why),
              log_num("pauseMs", (int64_t)pause));
    set_state(m, MIGRATION_REOPEN_PAUSED);
    net_deadline_set(l, &m->due, pause);
}

void migration_answered(struct migration *m, const struct http_head *head)
{
    char why[REASON_MAX];
    if (head->status == 200 && headers_encoding(head) == watch_encoding(m->o.watch)) {
        release_work(m);
        set_state(m, MIGRATION_PASSING);
        return;
    }
    (void)snprintf(why, sizeof why, "the new watch was answered with status %u%s", head->status,
                   head->status == 200 ? " in another encoding" : "");
    m->o.handlers->end_upstream(m->o.data);
    repeat_reopen(m, head, why);
}

void migration_unanswered(struct migration *m)
{
    repeat_reopen(m, NULL, "the new watch was not answered");
}

void migration_ended(struct migration *m)
{
    release_work(m);
}

/* ---- the rules change ---- */

static void set_target_rules(struct migration *m, struct rules *rules)
{
    rules_unref(m->to);
    m->to = rules_ref(rules);
    m->changed_ns = net_clock_ns();
}

static void start_migration(struct migration *m, struct rules *old, struct rules *now)
{
    watch_silence(m->o.watch);
    if (!m->ctx->seamless) {
        cut_when_paced(m);
    } else if (watch_state(m->o.watch) == WATCH_LAST) {
        fall_back(m, FALLBACK_SIZE, "within a large event");
    } else {
        m->o.handlers->end_upstream(m->o.data);
        net_deadline_clear(&m->due);
        rules_unref(m->from);
        m->from = old != NULL ? rules_ref(old) : NULL;
        set_target_rules(m, now);
        list_difference(m);
    }
}

bool migration_affected(const struct migration *m, const struct rules *now)
{
    const struct request_attributes *a = m->o.attributes;
    uint64_t selector = m->to != NULL ? request_attributes_selector(a, m->to) : a->key.selector;
    return selector != request_attributes_selector(a, now);
}

void migration_change_rules(struct migration *m, struct rules *old, struct rules *now)
{
    switch (m->state) {
    case MIGRATION_PASSING:
    case MIGRATION_REOPENING:
    case MIGRATION_REOPEN_PAUSED:
        start_migration(m, old, now);
        break;
    case MIGRATION_LISTING:
        free_writer(m);
        set_target_rules(m, now);
        list_difference(m);
        break;
    case MIGRATION_FINDING_VERSION:
        set_target_rules(m, now);
        break;
    case MIGRATION_WRITING:
        fall_back(m, FALLBACK_SUPERSEDED, "");
        break;
    default:
        break; /* the time of its end is set */
    }
}

void migration_drained(struct migration *m)
{
    if (m->writer != NULL) {
        difference_writer_drained(m->writer);
    }
}

/* ---- life ---- */

void migration_init(struct migration *m, struct migration_context *ctx,
                    const struct migration_options *o)
{
    *m = (struct migration){.ctx = ctx, .o = *o};
    net_deadline_init(&m->due, on_due);
}

void migration_deinit(struct migration *m)
{
    note_unfinished(m);
    release_work(m);
}
