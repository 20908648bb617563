/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "exchange/headers.h"
#include "forward/forward_internal.h"

bool forward_is_silent(const struct forward *f)
{
    return f->watch != NULL && watch_state(f->watch) == WATCH_SILENT;
}

bool forward_is_reopening(const struct forward *f)
{
    return f->watch != NULL && migration_state(&f->migration) == MIGRATION_REOPENING;
}

/* ---- what its migration asks for ---- */

static int on_reopen(void *data, struct slice target, struct err *e)
{
    struct forward *f = data;
    pump_set_request(&f->pump, REQUEST_WHOLE);
    int rc = forward_ask(f, f->head, target, NULL, e);
    if (rc == 0) { /* the client stands still */
        bool queued = http_exchange_blocked(f->pump.up);
        net_deadline_set(f->ctx->loop, &f->overdue,
                         queued ? REQUEST_ANSWER_MS : DERIVED_RETRY_TIME_MS);
    }
    return rc;
}

static void on_end_upstream(void *data)
{
    struct forward *f = data;
    pump_abort_up(&f->pump);
}

static void on_abort(void *data)
{
    forward_abort(data);
}

static const struct migration_handlers migration_handlers = {
    .reopen = on_reopen,
    .end_upstream = on_end_upstream,
    .abort = on_abort,
};

/* ---- the beginning ---- */

static struct watch *watch_of(const struct forward *f, const struct http_head *head)
{
    struct watch_options o = {
        .encoding = headers_encoding(head),
        .points = f->upstream->delivered,
        .account = f->asking->account,
        .version = f->attributes.version,
        .initial_events = f->attributes.initial_events,
        .newest = f->attributes.newest,
        .budget = &f->upstream->memory,
        .load = f->ctx->load,
        .namespace = f->attributes.namespace,
    };
    return watch_new(&o);
}

/* As much as is needed to ask for it again after a migration. False: no memory. */
static bool keep_head(struct forward *f)
{
    struct http_head *kept = NULL;
    if (f->ctx->migrations.seamless && f->head != NULL) {
        kept = headers_copy_of_watch(f->head);
        if (kept == NULL) {
            return false;
        }
    }
    free(f->head);
    f->head = kept;
    return true;
}

bool forward_open_watch(struct forward *f, const struct http_head *head)
{
    struct migration_options o = {
        .down = f->pump.down,
        .upstream = f->upstream,
        .attributes = &f->attributes,
        .handlers = &migration_handlers,
        .data = f,
    };
    if (!keep_head(f)) {
        return false;
    }
    o.watch = watch_of(f, head);
    if (o.watch == NULL) {
        return false;
    }
    f->asking->account = NULL;
    forward_end_asking(f);
    f->watch = o.watch;
    f->ctx->metrics->open_watches++;
    o.head = f->head;
    migration_init(&f->migration, &f->ctx->migrations, &o);
    return true;
}

/* ---- its events, and the end ---- */

void forward_end_watch(struct forward *f)
{
    forward_stop_bookmark(f);
    pump_abort_up(&f->pump);
    if (f->watch != NULL) {
        migration_ended(&f->migration);
    }
    pump_answer_end(&f->pump);
}

void forward_pass_events(struct forward *f, struct slice data)
{
    bool last = migration_state(&f->migration) == MIGRATION_LAST_EVENT;
    if (watch_feed(f->watch, data, f->pump.down) != 0) {
        forward_abort(f);
    } else if (last && watch_state(f->watch) == WATCH_SILENT) {
        if (f->ctx->draining) {
            migration_cut(&f->migration);
        } else {
            migration_last_event_ended(&f->migration);
        }
    } else if (f->ctx->draining && watch_at_boundary(f->watch)) {
        forward_end_watch(f);
    } else {
        if (http_exchange_blocked(f->pump.down)) {
            http_exchange_pause(f->pump.up);
        }
        if (f->bookmark != NULL) {
            forward_advance_bookmark(f);
        }
    }
}
