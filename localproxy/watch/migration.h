/* SPDX-License-Identifier: Apache-2.0 */
/*
 * migration.h - takes an open watch from the rules under which it began to those in force.
 *
 *                 the rules changed                 the version is not kept
 *     PASSING ------------------------> LISTING <---------------------------> FINDING_VERSION
 *      |   ^                            |     |       a later one will do
 *      |   | the new watch              |     | the first events
 *      |   | is answered       no event |     v
 *      |   +-------------- REOPENING <--+-- WRITING
 *      |           refused    |   ^         all events
 *      |           for now    v   | some time
 *      |               REOPEN_PAUSED
 *      |
 *      |  from each of them, when it cannot be done or is not wanted:
 *      +-----------------------------> SILENT ---> CUT
 *      +--> LAST_EVENT --------------> SILENT
 *           of PASSING, within an event too large to be held
 *
 * The client sees no end. What it loses and gains is listed as it was at the version R up to which
 * it was told (LISTING), and written into its stream as events (WRITING, difference_writer.h); a
 * new watch from R on follows (REOPENING); what the API server refuses for now is asked for again,
 * within the time of derived_retry.h. While the API server does not keep R, a later version is
 * looked for at which the client sees the same (FINDING_VERSION, version_probe.h). In each other
 * case nothing is passed any more (SILENT), and when its time has come (cut_pacing.h) the client is
 * told 410 Expired, so that it lists again (CUT).
 *
 * It knows nothing of requests: who owns the watch asks the API server for it.
 */
#ifndef LOCALPROXY_WATCH_MIGRATION_H
#define LOCALPROXY_WATCH_MIGRATION_H

#include "base/err.h"
#include "http/exchange.h"
#include "metrics/metrics.h"
#include "net/deadline.h"
#include "upstream/derived_retry.h"
#include "upstream/request_attributes.h"
#include "upstream/upstream.h"
#include "watch/cut_pacing.h"
#include "watch/difference_cache.h"
#include "watch/watch.h"

enum migration_state {
    MIGRATION_PASSING,
    MIGRATION_LISTING,
    MIGRATION_FINDING_VERSION,
    MIGRATION_WRITING,
    MIGRATION_REOPENING,
    MIGRATION_REOPEN_PAUSED,
    MIGRATION_LAST_EVENT,
    MIGRATION_SILENT,
    MIGRATION_CUT
};

/* What all migrations of a proxy share. All zero but for what is the caller's to set. */
struct migration_context {
    struct metrics *metrics;  /* the caller's to set */
    struct cut_pacing pacing; /* likewise */
    bool seamless;            /* likewise; false: watches are only cut */
    struct difference_cache differences;
    unsigned affected;     /* watches that the last change of the rules concerns */
    unsigned cut_index;    /* of the next of them that is cut */
    char why[ERR_MSG_MAX]; /* the last change, for those who must list again */
};

/* No migration is left. */
void migration_context_deinit(struct migration_context *ctx);

/* The rules change: migration_change_rules follows for each of `affected` watches. */
void migration_context_change(struct migration_context *ctx, unsigned affected, const char *why);

struct migration_handlers {
    /* Asks the API server for the watch `target` that is to follow: then migration_answered or
     * migration_unanswered. 0, or an error with `e` set, after which neither is called. */
    int (*reopen)(void *data, struct slice target, struct err *e);
    /* Nothing that the API server still sends of the watch is wanted. */
    void (*end_upstream)(void *data);
    /* The client's stream cannot be ended between two events: breaks it off and ends the
     * migration, which does nothing after that. */
    void (*abort)(void *data);
};

/* All that is pointed to must outlive the migration. */
struct migration_options {
    struct watch *watch;
    struct http_exchange *down;            /* the client's stream */
    struct upstream *upstream;             /* that it is of */
    struct request_attributes *attributes; /* key.selector follows what the client has */
    const struct http_head *head;          /* of the client's request; NULL: the watch cannot be
                                              asked for once more, only cut */
    const struct migration_handlers *handlers;
    void *data;
};

/* Its owner's to embed; no other looks inside. */
struct migration {
    struct migration_context *ctx;
    struct migration_options o;
    enum migration_state state;
    struct rules *from;               /* under which the client saw what it has; NULL: none */
    struct rules *to;                 /* LISTING to REOPENING: and those under which it will */
    struct difference_writer *writer; /* LISTING, WRITING */
    struct version_probe *probe;      /* since FINDING_VERSION */
    uint64_t changed_ns;              /* when `to` was set */
    struct derived_retry retry;       /* REOPENING, REOPEN_PAUSED */
    struct net_deadline due;          /* SILENT: to be cut; LAST_EVENT: the event must have ended;
                                         REOPEN_PAUSED: to be asked for again */
    uint64_t cut_at_ms;               /* when it is to be cut, at the earliest */
};

/* Of a watch that has begun. */
void migration_init(struct migration *m, struct migration_context *ctx,
                    const struct migration_options *o);
/* Before the watch is freed. May be called inside a handler. */
void migration_deinit(struct migration *m);

enum migration_state migration_state(const struct migration *m);
/* As /status and the log have it. */
const char *migration_state_name(const struct migration *m);

/* Whether localproxy can write events of its own into the client's stream, and ask for what the
 * watch shows: PASSING or not. */
bool migration_has_form(const struct migration *m);
/* The same, and the objects are metadata alone. */
bool migration_is_partial(const struct migration *m);

/* Whether the client is on the way to something else than what `now` lets it see. */
bool migration_affected(const struct migration *m, const struct rules *now);

/* The rules `now` are in force instead of `old` (NULL: none), and the watch is affected. Each of
 * the functions below may call all handlers, of which `abort` is the last. */
void migration_change_rules(struct migration *m, struct rules *old, struct rules *now);
/* LAST_EVENT: the event has ended. */
void migration_last_event_ended(struct migration *m);
/* REOPENING: the API server answered with `head`, or will not. */
void migration_answered(struct migration *m, const struct http_head *head);
void migration_unanswered(struct migration *m);
/* The client's stream takes more. */
void migration_drained(struct migration *m);
/* Ends a watch that passes nothing, not waiting until its time has come. */
void migration_cut(struct migration *m);
/* Nothing may be shown any more, and nobody knows when it may: the client is told so at once, with
 * migration_context.why, or its stream is broken off within an event. */
void migration_end_now(struct migration *m);
/* The client's stream has been ended between two events: nothing is asked for any more. */
void migration_ended(struct migration *m);

#endif
