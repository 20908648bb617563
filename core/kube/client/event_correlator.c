/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/event_correlator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/slice.h"

enum {
    SUBJECT_BURST = 25, /* of one object at once, and then one every 300 s: as client-go */
    SUBJECT_S = 300,
    TOTAL_BURST = 100,
    TOTAL_PER_SECOND = 20,
    ALIKE_MAX = 10, /* Events that differ in their message only, within 600 s: as client-go */
    ALIKE_S = 600,
};

static const char combined_mark[] = "(combined from similar events): ";

/* What Events are about. */
struct event_subject {
    struct event_subject *next; /* in its bucket */
    struct list link;           /* of all */
    uint64_t hash;
    struct token_bucket tokens;
    struct list events;
    struct event_object about; /* of the memory behind */
    char text[];
};

void event_correlator_init(struct event_correlator *c, size_t max, size_t event_size,
                           void (*on_forget)(void *data, struct correlated_event *v), void *data)
{
    *c = (struct event_correlator){
        .max = max, .event_size = event_size, .on_forget = on_forget, .data = data};
    list_init(&c->subjects);
    token_bucket_init(&c->tokens, TOTAL_PER_SECOND, TOTAL_BURST);
}

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

static struct event_subject **bucket(struct event_correlator *c, uint64_t hash)
{
    return &c->buckets[hash % EVENT_CORRELATOR_BUCKETS];
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

static struct event_subject *subject_new(struct event_correlator *c, const struct event_object *o,
                                         uint64_t hash)
{
    size_t size = strlen(or_empty(o->api_version)) + strlen(o->kind) +
                  strlen(or_empty(o->namespace)) + strlen(o->name) + strlen(or_empty(o->uid)) +
                  strlen(or_empty(o->version)) + 6;
    struct event_subject *s = calloc(1, sizeof *s + size);
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
    s->next = *bucket(c, hash);
    *bucket(c, hash) = s;
    return s;
}

/* The one recorded about last goes to the end. */
static struct event_subject *obtain_subject(struct event_correlator *c,
                                            const struct event_object *o)
{
    uint64_t hash = hash_of(o);
    struct event_subject *s = *bucket(c, hash);
    while (s != NULL && (s->hash != hash || !same_object(&s->about, o))) {
        s = s->next;
    }
    if (s == NULL) {
        s = subject_new(c, o, hash);
    }
    if (s != NULL) {
        list_remove(&s->link);
        list_append(&c->subjects, &s->link);
    }
    return s;
}

static void forget_subject(struct event_correlator *c, struct event_subject *s)
{
    struct event_subject **at = bucket(c, s->hash);
    while (*at != s) {
        at = &(*at)->next;
    }
    *at = s->next;
    list_remove(&s->link);
    free(s);
}

/* The subject stays, also without Events. */
static void free_event(struct event_correlator *c, struct correlated_event *v)
{
    c->count--;
    list_remove(&v->link);
    free(v->message);
    free(v);
}

static void make_room(struct event_correlator *c)
{
    while (c->count >= c->max) {
        struct event_subject *s = LIST_ITEM(c->subjects.next, struct event_subject, link);
        bool last = s->link.next == &c->subjects;
        if (!list_empty(&s->events)) {
            struct correlated_event *v = LIST_ITEM(s->events.next, struct correlated_event, link);
            c->on_forget(c->data, v);
            free_event(c, v);
        }
        if (list_empty(&s->events) && !last) {
            forget_subject(c, s);
        }
    }
}

static struct correlated_event *event_new(struct event_correlator *c, struct event_subject *s,
                                          enum event_type type, const char *reason,
                                          const char *message)
{
    make_room(c);
    struct correlated_event *v = calloc(1, c->event_size + strlen(reason) + 1);
    char *copy = strdup(message);
    if (v == NULL || copy == NULL) {
        free(v);
        free(copy);
        return NULL;
    }
    v->reason = memcpy((char *)v + c->event_size, reason, strlen(reason) + 1);
    v->message = copy;
    v->subject = s;
    v->about = &s->about;
    v->type = type;
    list_append(&s->events, &v->link);
    c->count++;
    return v;
}

void event_correlator_forget(struct event_correlator *c, struct correlated_event *v)
{
    struct event_subject *s = v->subject;
    free_event(c, v);
    if (list_empty(&s->events)) {
        forget_subject(c, s);
    }
}

struct correlated_event *event_correlator_any(const struct event_correlator *c)
{
    if (list_empty(&c->subjects)) {
        return NULL;
    }
    const struct event_subject *s = LIST_ITEM(c->subjects.next, struct event_subject, link);
    return LIST_ITEM(s->events.next, struct correlated_event, link);
}

/* ---- which Event it is ---- */

struct match {
    struct correlated_event *same;     /* with that message */
    struct correlated_event *combined; /* of several messages */
    unsigned alike;                    /* of late, with other messages */
};

static struct match look_for(struct event_subject *s, enum event_type type, const char *reason,
                             const char *message, int64_t now)
{
    struct match m = {0};
    LIST_FOR_EACH(n, &s->events)
    {
        struct correlated_event *v = LIST_ITEM(n, struct correlated_event, link);
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
static struct correlated_event *combine(struct event_correlator *c, struct event_subject *s,
                                        struct correlated_event *v, enum event_type type,
                                        const char *reason, const char *message)
{
    char text[sizeof combined_mark + EVENT_MESSAGE_MAX];
    (void)snprintf(text, sizeof text, "%s%s", combined_mark, message);
    if (v == NULL) {
        v = event_new(c, s, type, reason, text);
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

static struct correlated_event *find_event(struct event_correlator *c, struct event_subject *s,
                                           enum event_type type, const char *reason,
                                           const char *message, int64_t now)
{
    struct match m = look_for(s, type, reason, message, now);
    if (m.same != NULL) {
        return m.same;
    }
    return m.alike >= ALIKE_MAX ? combine(c, s, m.combined, type, reason, message)
                                : event_new(c, s, type, reason, message);
}

struct correlated_event *event_correlator_count(struct event_correlator *c,
                                                const struct event_object *about,
                                                enum event_type type, const char *reason,
                                                const char *message, int64_t now)
{
    struct event_subject *s = obtain_subject(c, about);
    if (s == NULL) {
        return NULL;
    }
    struct correlated_event *v = find_event(c, s, type, reason, message, now);
    if (v != NULL) {
        v->first = v->count == 0 ? now : v->first;
        v->last = now;
        v->count++;
    } else if (list_empty(&s->events)) {
        forget_subject(c, s);
    }
    return v;
}

/* ---- rates ---- */

uint64_t event_correlator_admit(struct event_correlator *c, struct correlated_event *v, bool again,
                                uint64_t now_ms, bool *all)
{
    struct token_bucket before = v->subject->tokens;
    uint64_t wait = again ? 0 : token_bucket_take(&v->subject->tokens, now_ms);
    *all = false;
    if (wait > 0) {
        return wait;
    }
    wait = token_bucket_take(&c->tokens, now_ms);
    if (wait > 0) {
        *all = true;
        v->subject->tokens = before;
    }
    return wait;
}
