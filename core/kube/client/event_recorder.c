/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/event_recorder.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/due_heap.h"
#include "base/list.h"
#include "base/log.h"
#include "base/state_machine.h"
#include "base/utf8.h"
#include "kube/client/event_body.h"
#include "kube/client/event_correlator.h"
#include "kube/client/object_request.h"
#include "json/field.h"

enum {
    PARALLEL = 2, /* requests at a time */
    ATTEMPTS_MAX = 12,
    RETRY_MIN_MS = 1000,
    RETRY_MAX_MS = 60000,
    PATH_SIZE = 300,
};

/*
 *            recorded              handed out              written
 *   KNOWN -------------> READY --------------> WRITING ---------------> KNOWN, or READY again
 *                         ^  |  no token        |   |
 *                    due  |  v                  |   +---> given up: FORGOTTEN
 *                        WAITING <--------------+
 *                                    failed
 *
 * and each of them --> FORGOTTEN, when there are too many.
 */
enum state { STATE_KNOWN, STATE_READY, STATE_WAITING, STATE_WRITING, STATE_FORGOTTEN };

static const struct state_machine machine = {
    .object = "Event",
    .states = {[STATE_KNOWN] = {"known", STATE(STATE_READY) | STATE(STATE_FORGOTTEN)},
               [STATE_READY] = {"ready", STATE(STATE_WRITING) | STATE(STATE_WAITING) |
                                             STATE(STATE_FORGOTTEN)},
               [STATE_WAITING] = {"waiting", STATE(STATE_READY) | STATE(STATE_FORGOTTEN)},
               [STATE_WRITING] = {"writing", STATE(STATE_KNOWN) | STATE(STATE_READY) |
                                                 STATE(STATE_WAITING) | STATE(STATE_FORGOTTEN)},
               [STATE_FORGOTTEN] = {"forgotten", 0}},
};

struct event {
    struct correlated_event is;
    struct list ready; /* READY */
    struct due due;    /* WAITING */
    struct event_recorder *recorder;
    struct object_request *request; /* WRITING */
    enum state state;
    bool created;     /* the API server has it */
    unsigned sent;    /* of the count: told with the request that is under way */
    unsigned written; /* of the count: told */
    unsigned attempts;
    char name[EVENT_NAME_SIZE];
};

struct event_recorder {
    struct net_loop *loop;
    struct kube_client *client;
    const struct net_clock *clock;
    char *component;
    char *host;
    unsigned calls; /* of ours on the stack that may call the user */
    bool closed;

    struct event_correlator correlator;
    struct list ready;
    struct due_heap waiting; /* with room for all Events */
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

/* ---- what is to be written ---- */

static void schedule_turn(struct event_recorder *r)
{
    net_task_queue(r->loop, &r->turn);
}

/* Who goes to WAITING says until when, too. */
static void set_state(struct event *v, enum state next)
{
    struct event_recorder *r = v->recorder;
    r->writing -= v->state == STATE_WRITING ? 1 : 0;
    r->writing += next == STATE_WRITING ? 1 : 0;
    due_heap_remove(&r->waiting, &v->due);
    list_remove(&v->ready);
    if (next == STATE_READY) {
        list_append(&r->ready, &v->ready);
    }
    if (next == STATE_FORGOTTEN) {
        object_request_cancel(v->request);
    }
    v->state = state_change(&machine, v->state, next, slice_str(v->is.reason));
}

static void on_forget(void *data, struct correlated_event *c)
{
    struct event_recorder *r = data;
    struct event *v = LIST_ITEM(c, struct event, is);
    r->stats.dropped += v->written < v->is.count ? 1 : 0;
    set_state(v, STATE_FORGOTTEN);
}

/* ---- writing ---- */

static int64_t wall_seconds(const struct event_recorder *r)
{
    return net_clock_wall(r->clock) / 1000000;
}

static void wait_for(struct event_recorder *r, struct event *v, uint64_t ms)
{
    set_state(v, STATE_WAITING);
    due_heap_set(&r->waiting, &v->due, net_clock_now(r->clock) + ms);
}

static void drop_event(struct event_recorder *r, struct event *v, const char *why)
{
    log_warn("cannot write an Event", log_str("about", v->is.about->name),
             log_str("reason", v->is.reason), log_str("error", why));
    r->stats.failed++;
    set_state(v, STATE_FORGOTTEN);
    event_correlator_forget(&r->correlator, &v->is);
}

static void write_failed(struct event_recorder *r, struct event *v, const struct api_error *e)
{
    bool again = e->code == 0 || e->code == 401 || e->code == 429 || e->code >= 500;
    struct backoff b;
    uint64_t longest = RETRY_MIN_MS;
    v->attempts++;
    if (!again || v->attempts >= ATTEMPTS_MAX) {
        drop_event(r, v, e->msg);
        return;
    }
    for (unsigned i = 1; i < v->attempts && longest < RETRY_MAX_MS; i++) {
        longest *= 2;
    }
    backoff_init(&b, longest < RETRY_MAX_MS ? longest : RETRY_MAX_MS, RETRY_MAX_MS);
    uint64_t pause = backoff_next(&b, net_clock_random(r->clock));
    uint64_t asked = (uint64_t)e->retry_after * 1000;
    wait_for(r, v, pause > asked ? pause : asked);
}

static void write_succeeded(struct event_recorder *r, struct event *v)
{
    v->created = true;
    v->attempts = 0;
    v->written = v->sent;
    r->stats.written++;
    set_state(v, v->written < v->is.count ? STATE_READY : STATE_KNOWN);
}

static void on_written(void *data, const cJSON *object, const struct api_error *error)
{
    struct event *v = data;
    struct event_recorder *r = v->recorder;
    bool creating = !v->created;
    v->request = NULL;
    if (object != NULL) {
        write_succeeded(r, v);
    } else if (creating && error->exists) {
        v->created = true; /* the answer of an earlier attempt was lost */
        set_state(v, STATE_READY);
    } else if (!creating && error->code == 404) {
        v->created = false; /* the API server forgets Events after an hour */
        set_state(v, STATE_READY);
    } else {
        write_failed(r, v, error);
    }
    schedule_turn(r);
}

static struct event_body body_of(const struct event *v)
{
    return (struct event_body){
        .name = v->name,
        .about = *v->is.about,
        .type = v->is.type,
        .reason = v->is.reason,
        .message = v->is.message,
        .component = v->recorder->component,
        .host = v->recorder->host,
        .count = v->is.count,
        .first = v->is.first,
        .last = v->is.last,
    };
}

/* A name is kept until the Event is there, so that an answer that was lost does not make two. */
static void name_event(struct event_recorder *r, struct event *v)
{
    if (v->attempts == 0) {
        uint64_t unique = (uint64_t)net_clock_wall(r->clock) * 1000 + r->serial++ % 1000;
        event_body_name(v->is.about->name, unique, v->name);
    }
}

static int start_request(struct event_recorder *r, struct event *v, struct err *e)
{
    char path[PATH_SIZE];
    if (!v->created) {
        name_event(r, v);
    }
    struct event_body body = body_of(v);
    cJSON *object = v->created ? event_body_repeat(&body) : event_body_new(&body);
    if (object == NULL) {
        return err_memory(e);
    }
    (void)snprintf(path, sizeof path, "/api/v1/namespaces/%s/events",
                   event_body_namespace(&body.about));
    const struct object_request_options q = {
        .verb = v->created ? OBJECT_REQUEST_MERGE_PATCH : OBJECT_REQUEST_CREATE,
        .path = path,
        .name = v->created ? v->name : NULL,
        .body = object,
    };
    v->request = object_request_start(r->loop, r->client, &q, on_written, v, e);
    cJSON_Delete(object);
    return v->request == NULL ? e->code : 0;
}

static void write_event(struct event_recorder *r, struct event *v)
{
    struct err e = ERR_INIT;
    set_state(v, STATE_WRITING);
    v->sent = v->is.count;
    if (start_request(r, v, &e) == 0) {
        return;
    }
    struct api_error error = {.code = e.code == -EINVAL ? 400 : 0};
    memcpy(error.msg, e.msg, sizeof error.msg);
    write_failed(r, v, &error);
}

/* An object that has no token left waits alone; without a common one all wait. A retry costs the
 * object nothing. */
static uint64_t write_ready(struct event_recorder *r)
{
    while (r->writing < PARALLEL && !list_empty(&r->ready)) {
        struct event *v = LIST_ITEM(r->ready.next, struct event, ready);
        uint64_t now = net_clock_now(r->clock);
        bool all = false;
        uint64_t wait = event_correlator_admit(&r->correlator, &v->is, v->attempts > 0, now, &all);
        if (all) {
            return wait;
        }
        if (wait > 0) {
            wait_for(r, v, wait);
        } else {
            write_event(r, v);
        }
    }
    return UINT64_MAX;
}

/* ---- time ---- */

static void take_due(struct event_recorder *r)
{
    uint64_t now = net_clock_now(r->clock);
    struct due *d;
    while ((d = due_heap_first(&r->waiting)) != NULL && d->at <= now) {
        set_state(LIST_ITEM(d, struct event, due), STATE_READY);
    }
}

static void set_timer(struct event_recorder *r, uint64_t wait)
{
    uint64_t now = net_clock_now(r->clock);
    const struct due *first = due_heap_first(&r->waiting);
    uint64_t at = wait == UINT64_MAX ? UINT64_MAX : now + wait;
    at = first != NULL && first->at < at ? first->at : at;
    at = r->on_flushed != NULL && r->flush_by < at ? r->flush_by : at;
    if (at == UINT64_MAX) {
        net_timer_clear(r->timer);
    } else {
        net_clock_set_timer(r->clock, r->timer, at > now ? at - now : 0);
    }
}

static void tell_flushed(struct event_recorder *r)
{
    bool idle = list_empty(&r->ready) && r->writing == 0 && due_heap_first(&r->waiting) == NULL;
    event_recorder_flush_cb cb = r->on_flushed;
    if (cb != NULL && (idle || net_clock_now(r->clock) >= r->flush_by)) {
        r->on_flushed = NULL;
        cb(r->flush_data);
    }
}

static void destroy_recorder(struct event_recorder *r)
{
    due_heap_deinit(&r->waiting);
    free(r->component);
    free(r->host);
    free(r);
}

static void write_due_events(struct event_recorder *r)
{
    take_due(r);
    uint64_t wait = write_ready(r);
    r->calls++;
    tell_flushed(r);
    r->calls--;
    if (r->closed) {
        destroy_recorder(r);
    } else {
        set_timer(r, wait);
    }
}

static void on_turn(struct net_task *t)
{
    write_due_events(LIST_ITEM(t, struct event_recorder, turn));
}

static void on_timer(void *data)
{
    write_due_events(data);
}

/* ---- what users call ---- */

struct event_recorder *event_recorder_new(struct net_loop *l,
                                          const struct event_recorder_options *o, struct err *e)
{
    struct event_recorder *r = calloc(1, sizeof *r);
    if (r == NULL) {
        err_memory(e);
        return NULL;
    }
    r->component = strdup(o->component);
    r->host = strdup(or_empty(o->host));
    if (r->component != NULL && r->host != NULL &&
        due_heap_reserve(&r->waiting, EVENT_RECORDER_KEPT) == 0) {
        r->timer = net_timer_new(l, on_timer, r);
    }
    if (r->timer == NULL) {
        destroy_recorder(r);
        err_memory(e);
        return NULL;
    }
    event_correlator_init(&r->correlator, EVENT_RECORDER_KEPT, sizeof(struct event), on_forget, r);
    r->loop = l;
    r->client = o->client;
    r->clock = o->clock == NULL ? &net_clock_system : o->clock;
    list_init(&r->ready);
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
    char text[EVENT_MESSAGE_MAX + 1];
    int n = vsnprintf(text, sizeof text, fmt, ap);
    bool cut = n < 0 || (size_t)n >= sizeof text;
    struct slice left = slice_str(n < 0 ? "" : text);
    size_t len = 0;
    while (left.len > 0) {
        uint32_t code_point;
        size_t width = utf8_decode(left, &code_point);
        bool invalid = code_point == UTF8_REPLACEMENT && width == 1;
        if (invalid && cut && left.len < 4) {
            break;
        }
        for (size_t i = 0; i < width; i++) {
            out[len++] = invalid ? '?' : left.ptr[i];
        }
        left = slice_of(left.ptr + width, left.len - width);
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
    r->stats.recorded++;
    if (or_empty(about->kind)[0] == '\0' || or_empty(about->name)[0] == '\0') {
        r->stats.dropped++;
        return;
    }
    struct correlated_event *c =
        event_correlator_count(&r->correlator, about, type, reason, message, wall_seconds(r));
    if (c == NULL) {
        r->stats.dropped++;
        return;
    }
    struct event *v = LIST_ITEM(c, struct event, is);
    if (v->recorder == NULL) {
        v->recorder = r;
        list_init(&v->ready);
    }
    if (v->state == STATE_KNOWN) {
        set_state(v, STATE_READY);
        schedule_turn(r);
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
    if (r == NULL || r->closed) {
        return;
    }
    struct correlated_event *c;
    while ((c = event_correlator_any(&r->correlator)) != NULL) {
        set_state(LIST_ITEM(c, struct event, is), STATE_FORGOTTEN);
        event_correlator_forget(&r->correlator, c);
    }
    net_task_cancel(&r->turn);
    net_timer_free(r->timer);
    r->closed = true;
    if (r->calls == 0) {
        destroy_recorder(r);
    }
}
