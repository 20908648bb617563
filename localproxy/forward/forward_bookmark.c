/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that reads its own writes (controller-runtime's ReadYourOwnWrite) waits until its
 * informer has come to the version that it has written. What its watch does not select comes there
 * with the API server's next bookmark only, up to a minute later. So the answers of writes are
 * read, and watches of the same resource that have not come so far, and will not by an event of
 * their own, get a bookmark as soon as it is certain that they have everything up to there.
 *
 * Happy path: forward_open_written > forward_feed_written > forward_note_written > want > begin >
 * on_probe > forward_advance_bookmark > write_bookmark.
 *
 * Ways to fail: an answer that cannot be read counts for nothing; a probe that fails is repeated,
 * ever later; new rules stop a probe (forward_stop_bookmark), after which the version is looked at
 * anew. In all of them the API server's own bookmark is the end.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/log.h"
#include "base/state_machine.h"
#include "base/token_bucket.h"
#include "codec/object_reader.h"
#include "exchange/headers.h"
#include "forward/forward_internal.h"
#include "net/clock.h"
#include "watch/write_probe.h"

enum {
    LABELS_MAX = 64 * 1024,
    KIND_MAX = 256,
    PROBES_MAX = 16,       /* at a time, of all watches */
    PROBES_AT_ONCE = 10,   /* of one watch */
    PROBES_PER_SECOND = 5, /* from then on */
    PAUSE_MS = 50,         /* until a probe may begin (net/deadline.h: at the next tick) */
    UNLABELLED_MS = 50,    /* an object without a label may be about to get it */
    DELIVERY_MS = 5000,    /* how long events of a proof may be on their way */
    RETRY_MIN_MS = 1000,
    RETRY_MAX_MS = 60 * 1000,
    TRIES = 7, /* they take more than a minute, in which the API server sends a bookmark */
};

struct written {
    enum encoding encoding;
    bool gzip;
    uint64_t length;              /* of the whole answer; UINT64_MAX: not known */
    struct object_reader *reader; /* of an answer in pieces or gzip, once it has begun */
    bool read;                    /* nothing more is expected of it */
};

/*
 *     IDLE --- want ---> PROBING --- the answers ---> PROVEN --- all is delivered ---> IDLE
 *      |                  ^   |                         |
 *      +---> PAUSED ------+   +-- fails, new rules      +-- it does not come
 *              ^                        |               |
 *              +------------------------+---------------+
 */
enum bookmark_state { BOOKMARK_IDLE, BOOKMARK_PAUSED, BOOKMARK_PROBING, BOOKMARK_PROVEN };

struct bookmark {
    struct forward *forward;
    enum bookmark_state state;
    uint64_t wanted;   /* the highest that was written outside of the watch; 0: none */
    struct buf labels; /* of the object: keys and values, each with a NUL behind it */
    size_t label_count;
    char kind[KIND_MAX];       /* of such objects */
    struct list turn;          /* PAUSED: until fewer probes are open */
    struct write_probe *probe; /* PROBING */
    uint64_t proving;          /* PROBING, PROVEN: up to which version */
    uint64_t first;            /* PROVEN: the watch has all up to there once it has this */
    struct token_bucket pace;
    struct backoff backoff;
    unsigned failures;       /* since `backoff` was reset */
    struct net_deadline due; /* PAUSED: to begin; PROVEN: to give up */
};

static const struct state_machine machine = {
    .object = "bookmark",
    .states = {[BOOKMARK_IDLE] = {"Idle", STATE(BOOKMARK_PAUSED) | STATE(BOOKMARK_PROBING)},
               [BOOKMARK_PAUSED] = {"Paused", STATE(BOOKMARK_IDLE) | STATE(BOOKMARK_PAUSED) |
                                                  STATE(BOOKMARK_PROBING)},
               [BOOKMARK_PROBING] = {"Probing", STATE(BOOKMARK_PROVEN) | STATE(BOOKMARK_PAUSED) |
                                                    STATE(BOOKMARK_IDLE)},
               [BOOKMARK_PROVEN] = {"Proven", STATE(BOOKMARK_IDLE) | STATE(BOOKMARK_PAUSED)}},
};

static void set_state(struct bookmark *b, enum bookmark_state next)
{
    b->state = state_change(&machine, b->state, next, b->forward->attributes.resource);
}

/* ---- the proof ---- */

static void begin(struct bookmark *b);

static void end_probe(struct bookmark *b)
{
    if (b->probe != NULL) {
        write_probe_free(b->probe);
        b->probe = NULL;
        b->forward->ctx->write_probes--;
        net_task_queue(b->forward->ctx->loop, &b->forward->ctx->write_probe_ended);
    }
}

static void pause_for(struct bookmark *b, uint64_t ms)
{
    set_state(b, BOOKMARK_PAUSED);
    net_deadline_set(b->forward->ctx->loop, &b->due, ms);
}

/* Until a probe has ended. */
static void wait_turn(struct bookmark *b)
{
    set_state(b, BOOKMARK_PAUSED);
    net_deadline_clear(&b->due);
    list_append(&b->forward->ctx->write_probes_awaited, &b->turn);
}

static void count(struct bookmark *b, enum write_probed result)
{
    b->forward->ctx->metrics->write_probes[result]++;
}

/* Nothing is wanted any more. */
static void rest(struct bookmark *b)
{
    b->wanted = 0;
    b->failures = 0;
    backoff_reset(&b->backoff);
    net_deadline_clear(&b->due);
    if (b->state != BOOKMARK_IDLE) {
        set_state(b, BOOKMARK_IDLE);
    }
}

static void fail(struct bookmark *b, const struct err *e)
{
    struct slice resource = b->forward->attributes.resource;
    log_debug("a watch is not told of a write outside of it yet",
              log_strn("resource", resource.ptr, resource.len), log_str("error", e->msg));
    count(b, WRITE_PROBED_FAILED);
    if (e->code == -ENOTSUP || ++b->failures == TRIES) {
        rest(b);
    } else {
        pause_for(b, backoff_next(&b->backoff, net_clock_random(&net_clock_system)));
    }
}

/* What is wanted may have grown meanwhile. */
static void settle(struct bookmark *b, enum write_probed result)
{
    uint64_t wanted = b->wanted;
    count(b, result);
    rest(b);
    if (wanted > watch_version(b->forward->watch)) {
        b->wanted = wanted;
        begin(b);
    }
}

/* Whether the client still gets the events of the rules in force. */
static bool is_passing(const struct forward *f)
{
    return f->pump.down != NULL && f->pump.response == RESPONSE_PASSING &&
           migration_state(&f->migration) == MIGRATION_PASSING &&
           watch_state(f->watch) == WATCH_PASSING && !f->ctx->draining &&
           (!f->resource || rules_lease_valid(f->ctx->lease));
}

/* Aborts the watch when that fails. */
static bool write_bookmark(struct bookmark *b)
{
    struct forward *f = b->forward;
    const struct request_attributes *a = &f->attributes;
    char version[KIND_MAX];
    struct object_type type = {.kind = SLICE("PartialObjectMetadata"),
                               .api_version = SLICE("meta.k8s.io/v1")};
    if (!migration_is_partial(&f->migration)) {
        int n =
            snprintf(version, sizeof version, "%.*s%s%.*s", (int)a->group.len, a->group.ptr,
                     a->group.len > 0 ? "/" : "", (int)a->version_name.len, a->version_name.ptr);
        type.kind = slice_str(b->kind);
        type.api_version = slice_of(version, n < KIND_MAX ? (size_t)n : 0);
    }
    if (watch_bookmark(f->watch, &type, b->proving, f->pump.down) != 0) {
        forward_abort(f);
        return false;
    }
    return true;
}

void forward_advance_bookmark(struct forward *f)
{
    struct bookmark *b = f->bookmark;
    uint64_t now = watch_version(f->watch);
    if (b->state != BOOKMARK_PROVEN || !is_passing(f)) {
        return;
    }
    if (now >= b->proving) {
        settle(b, WRITE_PROBED_OVERTAKEN);
    } else if (now >= b->first && now != 0 && watch_at_boundary(f->watch) && write_bookmark(b)) {
        settle(b, WRITE_PROBED_WRITTEN);
    }
}

static void on_probe(void *data, uint64_t first, const struct err *e)
{
    struct bookmark *b = data;
    end_probe(b);
    if (e != NULL) {
        fail(b, e);
        return;
    }
    b->first = first;
    set_state(b, BOOKMARK_PROVEN);
    net_deadline_set(b->forward->ctx->loop, &b->due, DELIVERY_MS);
    forward_advance_bookmark(b->forward);
}

/* ---- its beginning ---- */

struct labels {
    struct selector_label of[OBJECT_META_LABELS];
    size_t count;
};

static void read_labels(const struct bookmark *b, struct labels *out)
{
    const char *at = (const char *)buf_data(&b->labels);
    for (out->count = 0; out->count < b->label_count; out->count++) {
        struct selector_label *l = &out->of[out->count];
        l->key = slice_str(at);
        at += l->key.len + 1;
        l->value = slice_str(at);
        at += l->value.len + 1;
    }
}

/* What our selector of the watch is; NULL: none, or it is about to be another one. */
static const struct rules_entry *entry_of(const struct forward *f)
{
    const struct rules_entry *entry =
        request_attributes_entry(&f->attributes, f->ctx->rules(f->ctx->data));
    return entry != NULL && entry->id == f->attributes.key.selector ? entry : NULL;
}

static int start_probe(struct bookmark *b, const struct rules_entry *entry,
                       const struct labels *labels, struct err *e)
{
    struct forward *f = b->forward;
    const struct write_probe_options o = {
        .client = f->upstream->client,
        .target = f->head->target,
        .selector = entry->compiled,
        .labels = labels->of,
        .label_count = labels->count,
        .from = watch_version(f->watch),
        .to = b->wanted,
        .budget = &f->upstream->memory,
    };
    b->proving = b->wanted;
    b->probe = write_probe_new(f->ctx->loop, &o, on_probe, b, e);
    return b->probe != NULL ? 0 : e->code;
}

/* Of IDLE or PAUSED. */
static void begin(struct bookmark *b)
{
    struct forward *f = b->forward;
    struct err e = ERR_INIT;
    struct labels labels;
    const struct rules_entry *entry = entry_of(f);
    uint64_t version = watch_version(f->watch);
    read_labels(b, &labels);
    if (!is_passing(f) || http_exchange_blocked(f->pump.down) ||
        (entry == NULL && f->attributes.key.selector != 0)) {
        pause_for(b, PAUSE_MS);
        return;
    }
    if (version >= b->wanted || version == 0 || entry == NULL ||
        selector_matches(entry->compiled, labels.of, labels.count)) {
        rest(b);
        return;
    }
    if (f->ctx->write_probes >= PROBES_MAX) {
        wait_turn(b);
        return;
    }
    if (token_bucket_take(&b->pace, net_loop_now(f->ctx->loop)) != 0) {
        pause_for(b, PAUSE_MS);
        return;
    }
    if (start_probe(b, entry, &labels, &e) != 0) {
        fail(b, &e);
        return;
    }
    f->ctx->write_probes++;
    set_state(b, BOOKMARK_PROBING);
}

static void on_due(struct net_deadline *d)
{
    struct bookmark *b = LIST_ITEM(d, struct bookmark, due);
    struct err e = ERR_INIT;
    if (b->state == BOOKMARK_PROVEN) {
        (void)err_set(&e, -ETIMEDOUT, "events of the watch have not come");
        fail(b, &e);
    } else if (b->state == BOOKMARK_PAUSED) {
        begin(b);
    }
}

void forward_on_write_probe_ended(struct net_task *t)
{
    struct forward_context *ctx = LIST_ITEM(t, struct forward_context, write_probe_ended);
    while (ctx->write_probes < PROBES_MAX && !list_empty(&ctx->write_probes_awaited)) {
        struct bookmark *b = LIST_ITEM(ctx->write_probes_awaited.next, struct bookmark, turn);
        list_remove(&b->turn);
        begin(b);
    }
}

void forward_stop_bookmark(struct forward *f)
{
    struct bookmark *b = f->bookmark;
    if (b != NULL && b->state != BOOKMARK_IDLE) {
        end_probe(b);
        list_remove(&b->turn);
        pause_for(b, PAUSE_MS);
    }
}

void forward_free_bookmark(struct forward *f)
{
    struct bookmark *b = f->bookmark;
    if (b != NULL) {
        end_probe(b);
        list_remove(&b->turn);
        net_deadline_clear(&b->due);
        buf_reset(&b->labels);
        free(b);
        f->bookmark = NULL;
    }
}

/* ---- what was written ---- */

static struct bookmark *bookmark_of(struct forward *f)
{
    struct bookmark *b = f->bookmark;
    if (b == NULL) {
        b = calloc(1, sizeof *b);
        if (b == NULL) {
            return NULL;
        }
        b->forward = f;
        buf_init(&b->labels, LABELS_MAX);
        token_bucket_init(&b->pace, PROBES_PER_SECOND, PROBES_AT_ONCE);
        backoff_init(&b->backoff, RETRY_MIN_MS, RETRY_MAX_MS);
        net_deadline_init(&b->due, on_due);
        list_init(&b->turn);
        f->bookmark = b;
    }
    return b;
}

/* Labels that there is no room for are left out, all of them: the probe looks at more then. */
static void keep_object(struct bookmark *b, const struct object_meta *m)
{
    struct slice kind = m->type.kind;
    buf_clear(&b->labels);
    for (size_t i = 0; i < m->label_count; i++) {
        buf_append(&b->labels, m->labels[i].key.ptr, m->labels[i].key.len);
        buf_append_char(&b->labels, '\0');
        buf_append(&b->labels, m->labels[i].value.ptr, m->labels[i].value.len);
        buf_append_char(&b->labels, '\0');
    }
    b->label_count = buf_error(&b->labels) == 0 ? m->label_count : 0;
    (void)snprintf(b->kind, sizeof b->kind, "%.*s", (int)kind.len, kind.ptr);
}

/* Whether the object has all labels that the selector asks a value of. */
static bool is_labelled(const struct selector *s, const struct object_meta *m)
{
    size_t required;
    const struct selector_requirement *r = selector_requirements(s, &required);
    for (size_t i = 0; i < required; i++) {
        size_t j = 0;
        while (j < m->label_count && !slice_eq(m->labels[j].key, slice_str(r[i].key))) {
            j++;
        }
        if (j == m->label_count && !selector_requirement_matches(&r[i], NULL)) {
            return false;
        }
    }
    return true;
}

/* The watch is to come to the version of an object that it does not select. */
static void want(struct forward *f, const struct rules_entry *entry, const struct object_meta *m)
{
    struct bookmark *b = bookmark_of(f);
    if (b == NULL || m->resource_version <= b->wanted) {
        return;
    }
    keep_object(b, m);
    b->wanted = m->resource_version;
    if (b->state != BOOKMARK_IDLE) {
        return;
    }
    if (is_labelled(entry->compiled, m)) {
        begin(b);
    } else {
        pause_for(b, UNLABELLED_MS);
    }
}

/* Whether the write `w` may be outside of what the watch `f` shows. */
static bool may_want(const struct forward *f, const struct forward *w)
{
    const struct request_attributes *a = &f->attributes;
    const struct request_attributes *b = &w->attributes;
    return f->watch != NULL && f->upstream == w->upstream && a->key.resource == b->key.resource &&
           a->key.selector != 0 && a->bookmarks && watch_version(f->watch) != 0 &&
           (a->namespace.len == 0 || slice_eq(a->namespace, b->namespace));
}

/* Whether the answer says of which kind a watch's objects are: those that Kubernetes has consist of
 * letters and digits, and need no escape. */
static bool is_kind(const struct object_type *type)
{
    const struct slice group = SLICE("meta.k8s.io/"); /* a form in which they may be asked for */
    bool plain = type->kind.len > 0 && type->kind.len < KIND_MAX;
    for (size_t i = 0; plain && i < type->kind.len; i++) {
        plain = isalnum((unsigned char)type->kind.ptr[i]);
    }
    return plain && (type->api_version.len < group.len ||
                     memcmp(type->api_version.ptr, group.ptr, group.len) != 0);
}

/* Whether bookmarks of its objects can be written into the watch. */
static bool can_be_told(const struct forward *f, const struct object_type *type)
{
    return migration_is_partial(&f->migration) ||
           (migration_has_form(&f->migration) && is_kind(type));
}

static void tell_watches(struct forward *w, const struct object_meta *m)
{
    LIST_FOR_EACH_SAFE(node, after, &w->ctx->running)
    {
        struct forward *f = LIST_ITEM(node, struct forward, link);
        if (!may_want(f, w) || watch_version(f->watch) >= m->resource_version) {
            continue;
        }
        const struct rules_entry *entry = entry_of(f);
        if (entry != NULL && !selector_matches(entry->compiled, m->labels, m->label_count) &&
            can_be_told(f, &m->type)) {
            want(f, entry, m);
        }
    }
}

/* ---- reading the answer ---- */

static bool is_wanted(const struct forward *w)
{
    LIST_FOR_EACH(node, &w->ctx->running)
    {
        if (may_want(LIST_ITEM(node, struct forward, link), w)) {
            return true;
        }
    }
    return false;
}

void forward_open_written(struct forward *f, const struct http_head *head)
{
    if (!f->ctx->write_bookmarks || f->attributes.key.selector == 0 || head->status / 100 != 2 ||
        !is_wanted(f)) {
        return;
    }
    enum encoding encoding = encoding_of(headers_value(head, SLICE("Content-Type")));
    struct slice coding = headers_value(head, SLICE("Content-Encoding"));
    bool gzip = slice_ieq(coding, SLICE("gzip"));
    bool plain = coding.len == 0 || slice_ieq(coding, SLICE("identity"));
    bool announced = head->framing == HTTP_BODY_LENGTH;
    if (!(plain || gzip) || encoding == ENCODING_OTHER) {
        return;
    }
    struct written *w = malloc(sizeof *w);
    if (w != NULL) {
        *w = (struct written){.encoding = encoding,
                              .gzip = gzip,
                              .length = announced ? head->content_length : UINT64_MAX};
        f->asking->written = w;
    }
}

void forward_free_written(struct written *w)
{
    if (w != NULL) {
        object_reader_free(w->reader);
        free(w);
    }
}

static void read_pieces(struct forward *f)
{
    struct written *w = f->asking->written;
    struct object_meta m;
    w->read = true;
    if (w->reader != NULL && object_reader_read(w->reader, &m)) {
        tell_watches(f, &m);
    }
    object_reader_free(w->reader);
    w->reader = NULL;
}

void forward_feed_written(struct forward *f, struct slice data)
{
    struct written *w = f->asking->written;
    struct object_meta m;
    if (w->read) {
        return;
    }
    if (data.len == w->length && !w->gzip) {
        w->read = true; /* as most of them come */
        if (object_meta_read(w->encoding, data, &m)) {
            tell_watches(f, &m);
        }
        return;
    }
    if (w->reader == NULL) {
        w->reader = object_reader_new(w->encoding, w->gzip, f->ctx->budget);
    }
    if (w->reader == NULL || !object_reader_feed(w->reader, data)) {
        read_pieces(f);
    }
}

void forward_note_written(struct forward *f)
{
    struct written *w = f->asking->written;
    if (w != NULL && !w->read) {
        read_pieces(f);
    }
}
