/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/event_recorder.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/due_heap.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "base/token_bucket.h"
#include "base/utf8.h"
#include "kube/client/event_body.h"
#include "kube/client/object_request.h"

enum {
    BUCKETS = 256,
    PARALLEL = 2,       /* requests at a time */
    SUBJECT_BURST = 25, /* of one object at once, and then one every 300 s: as client-go */
    SUBJECT_S = 300,
    TOTAL_BURST = 100,
    TOTAL_PER_SECOND = 20,
    ALIKE_MAX = 10, /* Events that differ in their message only, within 600 s: as client-go */
    ALIKE_S = 600,
    ATTEMPTS_MAX = 12,
    RETRY_MIN_MS = 1000,
    RETRY_MAX_MS = 60000,
    PATH_SIZE = 300,
};

static const char combined_mark[] = "(combined from similar events): ";

/*
 *            recorded              handed out              written
 *   KNOWN -------------> READY --------------> WRITING ---------------> KNOWN, or READY again
 *                         ^  |  no token        |   |
 *                    due  |  v                  |   +---> given up: forgotten
 *                        WAITING <--------------+
 *                                    failed
 */
enum phase { PHASE_KNOWN, PHASE_READY, PHASE_WAITING, PHASE_WRITING };

/* What Events are about. */
struct subject {
    struct subject *next; /* in its bucket */
    struct list link;     /* of all, the one of which nothing was recorded for longest first */
    uint64_t hash;
    struct token_bucket tokens;
    struct list events;
    struct event_object about; /* of the memory behind */
    char text[];
};

struct event {
    struct list link; /* of the subject's */
    struct list ready;
    struct due due; /* WAITING */
    struct event_recorder *recorder;
    struct subject *subject;
    struct object_request *request; /* WRITING */
    enum phase phase;
    enum event_type type;
    bool combined; /* of several that differ in their message */
    bool created;  /* the API server has it */
    unsigned count;
    unsigned sent;    /* of them told with the request that is under way */
    unsigned written; /* of them told */
    unsigned attempts;
    int64_t first; /* seconds since 1970 */
    int64_t last;
    char *message; /* with the mark, if they are combined */
    char name[EVENT_NAME_SIZE];
    char reason[];
};

struct event_recorder {
    struct net_loop *loop;
    struct kube_client *client;
    const struct net_clock *clock;
    char *component;
    char *host;
    unsigned calls; /* of ours on the stack that may call the user */
    bool closed;

    struct subject *buckets[BUCKETS];
    struct list subjects;
    size_t event_count;
    struct list ready;
    struct due_heap waiting; /* with room for all events */
    size_t writing;
    struct token_bucket tokens;
    uint64_t serial;

    struct net_task turn;
    struct net_timer *timer;
    event_recorder_flush_cb on_flushed;
    void *flush_data;
    uint64_t flush_by;
    struct event_recorder_stats stats;
};

/* ---- what is kept ---- */

static const char *or_empty(const char *text)
{
    return text == NULL ? "" : text;
}

static uint64_t hash_of(const struct event_object *o)
{
    uint64_t hash = hash_slice(HASH_SEED, slice_str(o->kind));
    hash = hash_slice(hash, slice_str(or_empty(o->namespace)));
    hash = hash_slice(hash, slice_str(o->name));
    return hash_slice(hash, slice_str(or_empty(o->uid)));
}

static bool same_text(const char *a, const char *b)
{
    return strcmp(or_empty(a), or_empty(b)) == 0;
}

static bool same_object(const struct event_object *a, const struct event_object *b)
{
    return same_text(a->name, b->name) && same_text(a->namespace, b->namespace) &&
           same_text(a->kind, b->kind) && same_text(a->uid, b->uid) &&
           same_text(a->api_version, b->api_version);
}

static struct subject **bucket(struct event_recorder *r, uint64_t hash)
{
    return &r->buckets[hash % BUCKETS];
}

/* Copies `text` to `*at`, which moves on. */
static const char *copy_text(char **at, const char *text)
{
    char *copy = *at;
    size_t size = strlen(or_empty(text)) + 1;
    memcpy(copy, or_empty(text), size);
    *at += size;
    return copy;
}

static struct subject *subject_new(struct event_recorder *r, const struct event_object *o,
                                   uint64_t hash)
{
    size_t size = strlen(or_empty(o->api_version)) + strlen(o->kind) +
                  strlen(or_empty(o->namespace)) + strlen(o->name) + strlen(or_empty(o->uid)) +
                  strlen(or_empty(o->version)) + 6;
    struct subject *s = calloc(1, sizeof *s + size);
    if (s == NULL) {
        return NULL;
    }
    char *at = s->text;
    s->about.api_version = copy_text(&at, o->api_version);
    s->about.kind = copy_text(&at, o->kind);
    s->about.namespace = copy_text(&at, o->namespace);
    s->about.name = copy_text(&at, o->name);
    s->about.uid = copy_text(&at, o->uid);
    s->about.version = copy_text(&at, o->version);
    s->hash = hash;
    token_bucket_init(&s->tokens, 1.0 / SUBJECT_S, SUBJECT_BURST);
    list_init(&s->events);
    list_init(&s->link);
    s->next = *bucket(r, hash);
    *bucket(r, hash) = s;
    return s;
}

/* The one recorded about last goes to the end. */
static struct subject *obtain_subject(struct event_recorder *r, const struct event_object *o)
{
    uint64_t hash = hash_of(o);
    struct subject *s = *bucket(r, hash);
    while (s != NULL && (s->hash != hash || !same_object(&s->about, o))) {
        s = s->next;
    }
    if (s == NULL) {
        s = subject_new(r, o, hash);
    }
    if (s != NULL) {
        list_remove(&s->link);
        list_append(&r->subjects, &s->link);
    }
    return s;
}

static void forget_subject(struct event_recorder *r, struct subject *s)
{
    struct subject **at = bucket(r, s->hash);
    while (*at != s) {
        at = &(*at)->next;
    }
    *at = s->next;
    list_remove(&s->link);
    free(s);
}

static void forget_event(struct event *v)
{
    struct event_recorder *r = v->recorder;
    r->writing -= v->phase == PHASE_WRITING ? 1 : 0;
    r->event_count--;
    object_request_cancel(v->request);
    due_heap_remove(&r->waiting, &v->due);
    list_remove(&v->ready);
    list_remove(&v->link);
    free(v->message);
    free(v);
}

static void make_room(struct event_recorder *r)
{
    while (r->event_count >= EVENT_RECORDER_KEPT) {
        struct subject *s = LIST_ITEM(r->subjects.next, struct subject, link);
        bool last = s->link.next == &r->subjects;
        if (!list_empty(&s->events)) {
            struct event *v = LIST_ITEM(s->events.next, struct event, link);
            r->stats.dropped += v->written < v->count ? 1 : 0;
            forget_event(v);
        }
        if (list_empty(&s->events) && !last) {
            forget_subject(r, s);
        }
    }
}

static struct event *event_new(struct event_recorder *r, struct subject *s, enum event_type type,
                               const char *reason, const char *message)
{
    size_t size = strlen(reason) + 1;
    make_room(r);
    if (due_heap_reserve(&r->waiting, r->event_count + 1) != 0) {
        return NULL;
    }
    struct event *v = calloc(1, sizeof *v + size);
    char *copy = strdup(message);
    if (v == NULL || copy == NULL) {
        free(v);
        free(copy);
        return NULL;
    }
    memcpy(v->reason, reason, size);
    v->message = copy;
    v->recorder = r;
    v->subject = s;
    v->type = type;
    list_init(&v->ready);
    list_append(&s->events, &v->link);
    r->event_count++;
    return v;
}

/* ---- which Event it is ---- */

struct match {
    struct event *same;     /* with that message */
    struct event *combined; /* of several messages */
    unsigned alike;         /* of late, with other messages */
};

static struct match look_for(struct subject *s, enum event_type type, const char *reason,
                             const char *message, int64_t now)
{
    struct match m = {0};
    LIST_FOR_EACH(n, &s->events)
    {
        struct event *v = LIST_ITEM(n, struct event, link);
        if (v->type != type || strcmp(v->reason, reason) != 0) {
            continue;
        }
        if (v->combined) {
            m.combined = v;
        } else if (strcmp(v->message, message) == 0) {
            m.same = v;
        } else if (now - v->last < ALIKE_S) {
            m.alike++;
        }
    }
    return m;
}

/* The Event is the one of its kind whose message changes. Without memory it keeps the one it has.
 */
static struct event *combine(struct event_recorder *r, struct subject *s, struct event *v,
                             enum event_type type, const char *reason, const char *message)
{
    char text[sizeof combined_mark + EVENT_MESSAGE_MAX];
    (void)snprintf(text, sizeof text, "%s%s", combined_mark, message);
    if (v == NULL) {
        v = event_new(r, s, type, reason, text);
        if (v != NULL) {
            v->combined = true;
        }
        return v;
    }
    char *copy = strdup(text);
    if (copy != NULL) {
        free(v->message);
        v->message = copy;
    }
    return v;
}

static void attend(struct event_recorder *r)
{
    net_task_queue(r->loop, &r->turn);
}

static void make_ready(struct event_recorder *r, struct event *v)
{
    v->phase = PHASE_READY;
    list_append(&r->ready, &v->ready);
}

static void count(struct event_recorder *r, struct event *v, int64_t now)
{
    v->first = v->count == 0 ? now : v->first;
    v->last = now;
    v->count++;
    if (v->phase == PHASE_KNOWN) {
        make_ready(r, v);
        attend(r);
    }
}

static struct event *record(struct event_recorder *r, const struct event_object *about,
                            enum event_type type, const char *reason, const char *message,
                            int64_t now)
{
    struct subject *s = obtain_subject(r, about);
    if (s == NULL) {
        return NULL;
    }
    struct match m = look_for(s, type, reason, message, now);
    struct event *v = m.same;
    if (v == NULL && m.alike >= ALIKE_MAX) {
        v = combine(r, s, m.combined, type, reason, message);
    } else if (v == NULL) {
        v = event_new(r, s, type, reason, message);
    }
    if (list_empty(&s->events)) {
        forget_subject(r, s);
    }
    return v;
}

/* ---- writing ---- */

static int64_t wall_seconds(const struct event_recorder *r)
{
    return net_clock_wall(r->clock) / 1000000;
}

static void wait_for(struct event_recorder *r, struct event *v, uint64_t ms)
{
    list_remove(&v->ready);
    v->phase = PHASE_WAITING;
    due_heap_set(&r->waiting, &v->due, net_clock_now(r->clock) + ms);
}

static void give_up(struct event_recorder *r, struct event *v, const char *why)
{
    log_warn("an Event could not be written", log_str("about", v->subject->about.name),
             log_str("reason", v->reason), log_str("error", why));
    r->stats.failed++;
    struct subject *s = v->subject;
    forget_event(v);
    if (list_empty(&s->events)) {
        forget_subject(r, s);
    }
}

static void fail(struct event_recorder *r, struct event *v, const struct api_error *e)
{
    bool again = e->code == 0 || e->code == 401 || e->code == 429 || e->code >= 500;
    struct backoff b;
    uint64_t longest = RETRY_MIN_MS;
    v->attempts++;
    if (!again || v->attempts >= ATTEMPTS_MAX) {
        give_up(r, v, e->msg);
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

static void succeed(struct event_recorder *r, struct event *v)
{
    v->created = true;
    v->attempts = 0;
    v->written = v->sent;
    r->stats.written++;
    v->phase = PHASE_KNOWN;
    if (v->written < v->count) {
        make_ready(r, v);
    }
}

static void on_written(void *data, const cJSON *object, const struct api_error *error)
{
    struct event *v = data;
    struct event_recorder *r = v->recorder;
    bool creating = !v->created;
    v->request = NULL;
    v->phase = PHASE_KNOWN;
    r->writing--;
    if (object != NULL) {
        succeed(r, v);
    } else if (creating && error->exists) {
        v->created = true; /* the answer of an earlier attempt was lost */
        make_ready(r, v);
    } else if (!creating && error->code == 404) {
        v->created = false; /* the API server forgets Events after an hour */
        make_ready(r, v);
    } else {
        fail(r, v, error);
    }
    attend(r);
}

static struct event_body body_of(const struct event *v)
{
    return (struct event_body){
        .name = v->name,
        .about = v->subject->about,
        .type = v->type,
        .reason = v->reason,
        .message = v->message,
        .component = v->recorder->component,
        .host = v->recorder->host,
        .count = v->count,
        .first = v->first,
        .last = v->last,
    };
}

/* A name is kept until the Event is there, so that an answer that was lost does not make two. */
static void name_event(struct event_recorder *r, struct event *v)
{
    if (v->attempts == 0) {
        uint64_t unique = (uint64_t)net_clock_wall(r->clock) * 1000 + r->serial++ % 1000;
        event_body_name(v->subject->about.name, unique, v->name);
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
    list_remove(&v->ready);
    v->phase = PHASE_WRITING;
    v->sent = v->count;
    r->writing++;
    if (start_request(r, v, &e) == 0) {
        return;
    }
    struct api_error error = {.code = e.code == -EINVAL ? 400 : 0};
    memcpy(error.msg, e.msg, sizeof error.msg);
    r->writing--;
    v->phase = PHASE_KNOWN;
    fail(r, v, &error);
}

/* An object that has no token left waits alone; without a common one all wait. A retry costs the
 * object nothing. */
static uint64_t write_ready(struct event_recorder *r)
{
    while (r->writing < PARALLEL && !list_empty(&r->ready)) {
        struct event *v = LIST_ITEM(r->ready.next, struct event, ready);
        uint64_t now = net_clock_now(r->clock);
        struct token_bucket before = v->subject->tokens;
        bool again = v->attempts > 0;
        uint64_t wait = again ? 0 : token_bucket_take(&v->subject->tokens, now);
        if (wait > 0) {
            wait_for(r, v, wait);
            continue;
        }
        wait = token_bucket_take(&r->tokens, now);
        if (wait > 0) {
            v->subject->tokens = before;
            return wait;
        }
        write_event(r, v);
    }
    return UINT64_MAX;
}

/* ---- time ---- */

static void take_due(struct event_recorder *r)
{
    uint64_t now = net_clock_now(r->clock);
    struct due *d;
    while ((d = due_heap_first(&r->waiting)) != NULL && d->at <= now) {
        due_heap_remove(&r->waiting, d);
        make_ready(r, LIST_ITEM(d, struct event, due));
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

static void destroy(struct event_recorder *r)
{
    due_heap_deinit(&r->waiting);
    free(r->component);
    free(r->host);
    free(r);
}

static void work(struct event_recorder *r)
{
    take_due(r);
    uint64_t wait = write_ready(r);
    r->calls++;
    tell_flushed(r);
    r->calls--;
    if (r->closed) {
        destroy(r);
    } else {
        set_timer(r, wait);
    }
}

static void on_turn(struct net_task *t)
{
    work(LIST_ITEM(t, struct event_recorder, turn));
}

static void on_timer(void *data)
{
    work(data);
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
    r->timer = r->component == NULL || r->host == NULL ? NULL : net_timer_new(l, on_timer, r);
    if (r->timer == NULL) {
        destroy(r);
        err_memory(e);
        return NULL;
    }
    r->loop = l;
    r->client = o->client;
    r->clock = o->clock == NULL ? &net_clock_system : o->clock;
    list_init(&r->subjects);
    list_init(&r->ready);
    net_task_init(&r->turn, on_turn);
    token_bucket_init(&r->tokens, TOTAL_PER_SECOND, TOTAL_BURST);
    return r;
}

static const char *text_of(const cJSON *object, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

struct event_object event_object_of(const cJSON *object)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(object, "metadata");
    return (struct event_object){
        .api_version = text_of(object, "apiVersion"),
        .kind = text_of(object, "kind"),
        .namespace = text_of(metadata, "namespace"),
        .name = text_of(metadata, "name"),
        .uid = text_of(metadata, "uid"),
        .version = text_of(metadata, "resourceVersion"),
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
    if (about->kind == NULL || about->name == NULL) {
        r->stats.dropped++;
        return;
    }
    int64_t now = wall_seconds(r);
    struct event *v = record(r, about, type, reason, message, now);
    if (v == NULL) {
        r->stats.dropped++;
    } else {
        count(r, v, now);
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
    attend(r);
}

void event_recorder_free(struct event_recorder *r)
{
    if (r == NULL || r->closed) {
        return;
    }
    while (!list_empty(&r->subjects)) {
        struct subject *s = LIST_ITEM(r->subjects.next, struct subject, link);
        while (!list_empty(&s->events)) {
            forget_event(LIST_ITEM(s->events.next, struct event, link));
        }
        forget_subject(r, s);
    }
    net_task_cancel(&r->turn);
    net_timer_free(r->timer);
    r->closed = true;
    if (r->calls == 0) {
        destroy(r);
    }
}
