/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An Event is in the list `pending` until it is written or given up, then in none; `request` says
 * that it is being written. It becomes pending again when it repeats, and after a failure, with a
 * later `due`. One that repeats while it is being written becomes pending once the answer has come.
 */
#include "kube/client/event_recorder.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/backoff.h"
#include "base/list.h"
#include "base/log.h"
#include "base/table.h"
#include "base/token_bucket.h"
#include "base/utf8.h"
#include "base/xalloc.h"
#include "kube/client/event_body.h"
#include "kube/client/object_request.h"
#include "json/field.h"

enum {
    PARALLEL = 2, /* requests at a time */
    ATTEMPTS_MAX = 12,
    RETRY_MIN_MS = 1000,
    RETRY_MAX_MS = 60000,
    PATH_SIZE = 300,
    OBJECT_SIZE = 1024,
    SUBJECT_BURST = 25, /* of one object at once, and then one every 300 s: as client-go */
    SUBJECT_S = 300,
    TOTAL_BURST = 100,
    TOTAL_PER_SECOND = 20,
    ALIKE_MAX = 10, /* Events that differ in their message only, within 600 s: as client-go */
    ALIKE_S = 600,
};

static const char combined_mark[] = "(combined from similar events): ";

/* What Events are about. */
struct subject {
    struct table_node node;
    struct token_bucket tokens;
    size_t events; /* at least one */
    char key[];
};

struct event {
    struct list link; /* in the recorder's */
    struct list pending;
    struct subject *subject;
    struct event_recorder *recorder;
    struct object_request *request; /* NULL: none is under way */
    struct event_body body;         /* all but its name */
    uint64_t unique;                /* of its name; 0: it has none yet */
    uint64_t due;                   /* pending: not to be written before; ms */
    bool combined;                  /* of several that differ in their message */
    bool created;                   /* the API server has it */
    unsigned sent;                  /* of the count: with the request that is under way */
    unsigned written;               /* of the count: confirmed */
    unsigned attempts;
    struct backoff pause;
    char *message; /* the body's: after a mark, if it is combined */
    char text[];   /* of the body */
};

struct event_recorder {
    struct net_loop *loop;
    struct kube_client *client;
    const struct net_clock *clock;
    char *component;
    char *host;

    struct table subjects;
    struct list events; /* the one that was recorded last at the end */
    struct list pending;
    struct token_bucket tokens; /* of all */
    size_t count;               /* of Events */
    size_t writing;
    uint64_t serial;

    struct net_task turn;
    struct net_timer *timer;
    event_recorder_flush_cb on_flushed;
    void *flush_data;
    uint64_t flush_by;
    struct event_recorder_stats stats;
};

static const char *or_empty(const char *text)
{
    return text == NULL ? "" : text;
}

static int64_t wall_seconds(const struct event_recorder *r)
{
    return net_clock_wall(r->clock) / 1000000;
}

/* ---- what is kept ---- */

/* All of an object, one line each; the version, which does not tell objects apart, comes last.
 * Returns whether it fits. */
static bool write_object(const struct event_object *o, char text[OBJECT_SIZE])
{
    int n = snprintf(text, OBJECT_SIZE, "%s\n%s\n%s\n%s\n%s\n%s", or_empty(o->api_version),
                     or_empty(o->kind), or_empty(o->namespace), or_empty(o->name), or_empty(o->uid),
                     or_empty(o->version));
    return n > 0 && n < OBJECT_SIZE;
}

/* The object of that text, which is cut up. */
static struct event_object read_object(char *text)
{
    struct event_object o = {.name = NULL};
    const char **const lines[] = {&o.api_version, &o.kind, &o.namespace,
                                  &o.name,        &o.uid,  &o.version};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        *lines[i] = strsep(&text, "\n");
    }
    return o;
}

static void forget_event(struct event *v)
{
    struct event_recorder *r = v->recorder;
    r->count--;
    r->writing -= v->request != NULL ? 1 : 0;
    object_request_cancel(v->request);
    list_remove(&v->pending);
    list_remove(&v->link);
    if (--v->subject->events == 0) {
        table_remove(&r->subjects, &v->subject->node);
        free(v->subject);
    }
    free(v);
}

/* With room for so many bytes of messages. */
static struct event *event_new(struct event_recorder *r, struct subject *s, const char *object,
                               enum event_type type, const char *reason, size_t room)
{
    struct event *v = xcalloc(1, sizeof *v + strlen(object) + strlen(reason) + 2 + room);
    char *word = stpcpy(v->text, object) + 1;
    v->message = stpcpy(word, reason) + 1;
    v->body = (struct event_body){
        .about = read_object(v->text),
        .type = type,
        .reason = word,
        .message = v->message,
        .component = r->component,
        .host = r->host,
        .first = wall_seconds(r),
    };
    v->recorder = r;
    v->subject = s;
    if (s->events++ == 0) {
        token_bucket_init(&s->tokens, 1.0 / SUBJECT_S, SUBJECT_BURST);
    }
    backoff_init(&v->pause, RETRY_MIN_MS, RETRY_MAX_MS);
    list_init(&v->pending);
    list_append(&r->events, &v->link);
    if (++r->count > EVENT_RECORDER_KEPT) {
        struct event *oldest = LIST_ITEM(r->events.next, struct event, link);
        r->stats.dropped += oldest->written < oldest->body.count ? 1 : 0;
        forget_event(oldest);
    }
    return v;
}

/* The Event that counts this one; NULL: none yet. *combine: it is of several messages. */
static struct event *find_event(const struct event_recorder *r, const struct subject *s,
                                enum event_type type, const char *reason, const char *message,
                                bool *combine)
{
    struct event *combined = NULL;
    unsigned alike = 0;
    *combine = false;
    LIST_FOR_EACH(n, &r->events)
    {
        struct event *v = LIST_ITEM(n, struct event, link);
        if (v->subject != s || v->body.type != type || strcmp(v->body.reason, reason) != 0) {
            continue;
        }
        if (v->combined) {
            combined = v;
        } else if (strcmp(v->message, message) == 0) {
            return v;
        } else {
            alike += wall_seconds(r) - v->body.last < ALIKE_S ? 1 : 0;
        }
    }
    *combine = alike >= ALIKE_MAX;
    return *combine ? combined : NULL;
}

/* NULL: what it is about is too long. */
static struct event *count_event(struct event_recorder *r, const struct event_object *about,
                                 enum event_type type, const char *reason, const char *message)
{
    char object[OBJECT_SIZE];
    bool combine;
    if (!write_object(about, object)) {
        return NULL;
    }
    struct slice key = slice_of(object, strlen(object) - strlen(or_empty(about->version)));
    struct subject *s = xptr(TABLE_PROVIDE(&r->subjects, key, struct subject, key));
    struct event *v = find_event(r, s, type, reason, message, &combine);
    size_t room = combine ? sizeof combined_mark + EVENT_MESSAGE_MAX : strlen(message) + 1;
    if (v == NULL) {
        v = event_new(r, s, object, type, reason, room);
    }
    v->combined = combine;
    (void)snprintf(v->message, room, "%s%s", combine ? combined_mark : "", message);
    v->body.last = wall_seconds(r);
    v->body.count++;
    list_remove(&v->link);
    list_append(&r->events, &v->link);
    return v;
}

/* ---- writing ---- */

static void schedule_turn(struct event_recorder *r)
{
    net_task_queue(r->loop, &r->turn);
}

static void write_after(struct event *v, uint64_t ms)
{
    v->due = net_clock_now(v->recorder->clock) + ms;
    list_remove(&v->pending);
    list_append(&v->recorder->pending, &v->pending);
    schedule_turn(v->recorder);
}

/* It is kept, and tried again when it repeats: its object's share is used up all the same. */
static void give_up_event(struct event *v, const char *why)
{
    log_warn("cannot write an Event", log_str("about", v->body.about.name),
             log_str("reason", v->body.reason), log_str("error", why));
    v->recorder->stats.failed++;
    v->unique = v->created ? v->unique : 0;
    v->attempts = 0;
    backoff_reset(&v->pause);
}

static void write_failed(struct event *v, const struct api_error *e)
{
    struct event_recorder *r = v->recorder;
    bool again = e->code == 0 || e->code == 401 || e->code == 429 || e->code >= 500;
    v->attempts++;
    if (!again || v->attempts >= ATTEMPTS_MAX) {
        give_up_event(v, e->msg);
        return;
    }
    uint64_t pause = backoff_next(&v->pause, net_clock_random(r->clock));
    uint64_t asked = (uint64_t)e->retry_after * 1000;
    write_after(v, pause > asked ? pause : asked);
}

static void on_written(void *data, const cJSON *object, const struct api_error *error)
{
    struct event *v = data;
    struct event_recorder *r = v->recorder;
    v->request = NULL;
    r->writing--;
    schedule_turn(r);
    if (object != NULL) {
        v->created = true;
        v->attempts = 0;
        backoff_reset(&v->pause);
        v->written = v->sent;
        r->stats.written++;
        if (v->written < v->body.count) {
            write_after(v, 0);
        }
    } else if (v->attempts + 1 < ATTEMPTS_MAX &&
               (v->created ? error->code == 404 : error->exists)) {
        v->unique = v->created ? 0 : v->unique; /* the API server forgets Events after an hour */
        v->created = !v->created;               /* else the answer of an earlier attempt was lost */
        v->attempts++;
        write_after(v, 0);
    } else {
        write_failed(v, error);
    }
}

/* A name is kept until the Event is there, so that an answer that was lost does not make two. */
static int start_request(struct event_recorder *r, struct event *v, struct err *e)
{
    char name[EVENT_NAME_SIZE];
    char path[PATH_SIZE];
    if (v->unique == 0) {
        v->unique = (uint64_t)net_clock_wall(r->clock) * 1000 + r->serial++ % 1000;
    }
    event_body_name(v->body.about.name, v->unique, name);
    v->body.name = name;
    cJSON *object = event_body(&v->body, v->created);
    v->body.name = NULL;
    (void)snprintf(path, sizeof path, "/api/v1/namespaces/%s/events",
                   event_body_namespace(&v->body.about));
    const struct object_request_options q = {
        .verb = v->created ? OBJECT_REQUEST_MERGE_PATCH : OBJECT_REQUEST_CREATE,
        .path = path,
        .name = v->created ? name : NULL,
        .body = object,
    };
    v->request = object_request_start(r->loop, r->client, &q, on_written, v, e);
    cJSON_Delete(object);
    return v->request == NULL ? e->code : 0;
}

static void write_event(struct event_recorder *r, struct event *v)
{
    struct err e = ERR_INIT;
    list_remove(&v->pending);
    v->sent = v->body.count;
    if (start_request(r, v, &e) == 0) {
        r->writing++;
        return;
    }
    struct api_error error = {.code = e.code == -EINVAL ? 400 : 0};
    memcpy(error.msg, e.msg, sizeof error.msg);
    write_failed(v, &error);
}

/* In how many milliseconds the Event may be written; 0: now, and it counts as written. A retry
 * costs its object nothing. */
static uint64_t admit_event(struct event_recorder *r, struct event *v, uint64_t now)
{
    struct token_bucket *own = v->attempts > 0 ? NULL : &v->subject->tokens;
    uint64_t wait = own == NULL ? 0 : token_bucket_look(own, now);
    wait = wait > 0 ? wait : token_bucket_take(&r->tokens, now);
    if (wait == 0 && own != NULL) {
        (void)token_bucket_take(own, now);
    }
    return wait;
}

/* Returns when to look again, unless something happens before. */
static uint64_t write_due_events(struct event_recorder *r, uint64_t now)
{
    uint64_t next = UINT64_MAX;
    LIST_FOR_EACH_SAFE(n, after, &r->pending)
    {
        struct event *v = LIST_ITEM(n, struct event, pending);
        if (r->writing == PARALLEL) {
            break;
        }
        if (v->due <= now) {
            v->due = now + admit_event(r, v, now);
        }
        if (v->due <= now) {
            write_event(r, v);
        } else {
            next = v->due < next ? v->due : next;
        }
    }
    return next;
}

static void on_timer(void *data)
{
    struct event_recorder *r = data;
    uint64_t now = net_clock_now(r->clock);
    uint64_t at = write_due_events(r, now);
    event_recorder_flush_cb cb = r->on_flushed;
    bool idle = list_empty(&r->pending) && r->writing == 0;
    if (cb != NULL && !idle && now < r->flush_by) {
        at = r->flush_by < at ? r->flush_by : at;
        cb = NULL;
    }
    if (at == UINT64_MAX) {
        net_timer_clear(r->timer);
    } else {
        net_clock_set_timer(r->clock, r->timer, at > now ? at - now : 0);
    }
    if (cb != NULL) {
        r->on_flushed = NULL;
        cb(r->flush_data); /* which may free the recorder */
    }
}

static void on_turn(struct net_task *t)
{
    on_timer(LIST_ITEM(t, struct event_recorder, turn));
}

/* ---- what users call ---- */

struct event_recorder *event_recorder_new(struct net_loop *l,
                                          const struct event_recorder_options *o)
{
    struct event_recorder *r = xcalloc(1, sizeof *r);
    r->loop = l;
    r->client = o->client;
    r->clock = o->clock == NULL ? &net_clock_system : o->clock;
    r->component = xstrdup(o->component);
    r->host = xstrdup(or_empty(o->host));
    r->timer = xptr(net_timer_new(l, on_timer, r));
    list_init(&r->events);
    list_init(&r->pending);
    token_bucket_init(&r->tokens, TOTAL_PER_SECOND, TOTAL_BURST);
    net_task_init(&r->turn, on_turn);
    return r;
}

struct event_object event_object_of(const cJSON *object)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(object, "metadata");
    return (struct event_object){
        .api_version = field_text(object, "apiVersion"),
        .kind = field_text(object, "kind"),
        .namespace = field_text(metadata, "namespace"),
        .name = field_text(metadata, "name"),
        .uid = field_text(metadata, "uid"),
        .version = field_text(metadata, "resourceVersion"),
    };
}

/* Valid UTF-8 of at most EVENT_MESSAGE_MAX bytes. */
static void write_message(char out[EVENT_MESSAGE_MAX + 1], const char *fmt, va_list ap)
{
    char text[EVENT_MESSAGE_MAX + 4]; /* with all of a character that begins in time */
    size_t len = 0;
    size_t width;
    int n = vsnprintf(text, sizeof text, fmt, ap);
    for (struct slice left = slice_str(n < 0 ? "" : text); left.len > 0;
         left = slice_of(left.ptr + width, left.len - width)) {
        uint32_t code_point;
        width = utf8_decode(left, &code_point);
        if (len + width > EVENT_MESSAGE_MAX) {
            break;
        }
        bool invalid = code_point == UTF8_REPLACEMENT && width == 1;
        memcpy(&out[len], invalid ? "?" : left.ptr, width);
        len += width;
    }
    out[len] = '\0';
}

void event_record(struct event_recorder *r, const struct event_object *about, enum event_type type,
                  const char *reason, const char *fmt, ...)
{
    char message[EVENT_MESSAGE_MAX + 1];
    va_list ap;
    va_start(ap, fmt);
    write_message(message, fmt, ap);
    va_end(ap);
    bool named = or_empty(about->kind)[0] != '\0' && or_empty(about->name)[0] != '\0';
    struct event *v = named ? count_event(r, about, type, reason, message) : NULL;
    r->stats.recorded++;
    if (v == NULL) {
        r->stats.dropped++;
    } else if (v->request == NULL && !list_linked(&v->pending)) {
        write_after(v, 0);
    }
}

const struct event_recorder_stats *event_recorder_stats(const struct event_recorder *r)
{
    return &r->stats;
}

void event_recorder_flush(struct event_recorder *r, uint64_t ms, event_recorder_flush_cb cb,
                          void *data)
{
    r->on_flushed = cb;
    r->flush_data = data;
    r->flush_by = net_clock_now(r->clock) + ms;
    schedule_turn(r);
}

void event_recorder_free(struct event_recorder *r)
{
    if (r == NULL) {
        return;
    }
    LIST_FOR_EACH_SAFE(n, after, &r->events)
    {
        forget_event(LIST_ITEM(n, struct event, link));
    }
    table_deinit(&r->subjects);
    net_task_cancel(&r->turn);
    net_timer_free(r->timer);
    free(r->component);
    free(r->host);
    free(r);
}
