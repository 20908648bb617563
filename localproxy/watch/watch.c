/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/watch.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/state_machine.h"
#include "codec/frames.h"
#include "codec/watch_frame.h"
#include "codec/watch_frame_write.h"
#include "upstream/watch_memory.h"

enum { CUT_MAX = 4096, BOOKMARK_MAX = 4096 };

struct watch {
    struct delivered_versions *points;
    struct delivered_account
        *account;             /* `mixed`: before the last watch_migrated, or in its course */
    struct bucket_load *load; /* NULL: events are not counted */
    uint64_t version;         /* all up to it was delivered; 0: not known */
    struct frames frames;
    struct buf held; /* the event that is not complete yet */
    struct byte_share held_share;
    enum watch_state state;
    enum encoding encoding;
    unsigned place;    /* in `load`, of all events; CONTROL_LOAD_OTHERS: each says its own */
    bool passing_long; /* an event too large to be held goes through */
    bool newest;       /* initial events are of the newest version that there is */
};

static const struct state_machine machine = {
    .object = "watch",
    .states = {[WATCH_PASSING] = {"Passing", STATE(WATCH_LAST) | STATE(WATCH_SILENT)},
               [WATCH_LAST] = {"Last", STATE(WATCH_SILENT)},
               [WATCH_SILENT] = {"Silent", STATE(WATCH_PASSING) | STATE(WATCH_CUT)},
               [WATCH_CUT] = {"Cut", 0}},
};

static void set_state(struct watch *w, enum watch_state next)
{
    w->state = state_change(&machine, w->state, next, (struct slice){0});
}

struct watch *watch_new(const struct watch_options *o)
{
    struct watch *w = calloc(1, sizeof *w);
    if (w == NULL) {
        return NULL;
    }
    w->points = o->points;
    w->account = o->account;
    w->load = o->load;
    w->encoding = o->encoding;
    w->newest = o->newest;
    w->account->unknown = o->encoding == ENCODING_OTHER;
    w->account->synced = !o->initial_events;
    w->place = bucket_load_place(o->namespace);
    if (o->load != NULL && o->encoding == ENCODING_OTHER) {
        o->load->counts.unread++;
    }
    w->version = o->initial_events ? 0 : o->version;
    if (o->encoding != ENCODING_OTHER) {
        frames_init(&w->frames, o->encoding);
    }
    buf_init(&w->held, WATCH_HELD_MAX);
    byte_share_init(&w->held_share, o->budget);
    return w;
}

static void drop_held(struct watch *w)
{
    buf_reset(&w->held);
    byte_share_give_back(&w->held_share);
}

void watch_free(struct watch *w, uint64_t now_ms)
{
    if (w == NULL) {
        return;
    }
    delivered_account_close(w->points, w->account, w->state == WATCH_CUT ? now_ms : 0);
    drop_held(w);
    free(w);
}

enum watch_state watch_state(const struct watch *w)
{
    return w->state;
}

enum encoding watch_encoding(const struct watch *w)
{
    return w->encoding;
}

uint64_t watch_version(const struct watch *w)
{
    return w->version;
}

bool watch_at_boundary(const struct watch *w)
{
    return w->encoding != ENCODING_OTHER && !w->passing_long;
}

/* ---- what events say ---- */

static void note_version(struct watch *w, const struct watch_frame *ev)
{
    struct delivered_account *a = w->account;
    uint64_t version = ev->resource_version;
    if (version == 0) {
        a->unknown = a->unknown || ev->type != WATCH_FRAME_ERROR;
        w->version = 0;
        return;
    }
    if (w->version != 0 || ev->type == WATCH_FRAME_BOOKMARK) {
        w->version = version; /* events come in the order of their versions */
    }
    delivered_saw(w->points, &a->key, version);
    if (!a->synced) {
        a->synced = ev->initial_events_end;
        if (!a->synced) {
            return; /* the order of initial events says nothing */
        }
        if (w->newest) {
            delivered_newest(w->points, &a->key, version);
        }
    }
    a->delivered =
        delivered_join(a->delivered, (struct delivered_range){.from = version, .to = version});
}

static void count_event(const struct watch *w, const struct watch_frame *ev)
{
    if (ev->type == WATCH_FRAME_ADDED || ev->type == WATCH_FRAME_MODIFIED ||
        ev->type == WATCH_FRAME_DELETED) {
        unsigned place =
            w->place != CONTROL_LOAD_OTHERS ? w->place : bucket_load_place(ev->namespace);
        w->load->counts.of[place].events++;
    }
}

/* False: it is a bookmark that says less than watch_bookmark has said, and is left out. */
static bool read_event(struct watch *w, struct slice frame)
{
    struct watch_frame ev;
    if (w->encoding == ENCODING_PROTOBUF) {
        frame = frame.len < FRAMES_HEADER
                    ? (struct slice){0}
                    : slice_of(frame.ptr + FRAMES_HEADER, frame.len - FRAMES_HEADER);
    }
    if (w->load == NULL) {
        watch_frame_scan(w->encoding, frame, &ev);
    } else {
        watch_frame_scan_namespace(w->encoding, frame, &ev);
        count_event(w, &ev);
    }
    if (ev.type == WATCH_FRAME_BOOKMARK && ev.resource_version != 0 &&
        ev.resource_version < w->version) {
        return false;
    }
    note_version(w, &ev);
    return true;
}

/* ---- passing ---- */

static int send_nonempty(struct http_exchange *down, struct slice data)
{
    return data.len == 0 ? 0 : http_exchange_send_body(down, data);
}

static int send_held(struct watch *w, struct http_exchange *down)
{
    int rc = send_nonempty(down, buf_slice(&w->held));
    drop_held(w);
    return rc;
}

/* False: there is no room for it. */
static bool hold(struct watch *w, struct slice data)
{
    return byte_share_set_within(&w->held_share, buf_size_with(&w->held, data.len),
                                 WATCH_MEMORY_EVENTS) &&
           buf_append(&w->held, data.ptr, data.len) == 0;
}

/* Part of an event. */
static int hold_part(struct watch *w, struct slice data, struct http_exchange *down)
{
    if (w->passing_long) {
        return send_nonempty(down, data);
    }
    if (data.len == 0 || hold(w, data)) {
        return 0;
    }
    read_event(w, w->held.len > 0 ? buf_slice(&w->held) : data);
    w->passing_long = true;
    int rc = send_held(w, down);
    if (rc != 0) {
        return rc;
    }
    return send_nonempty(down, data);
}

/* The end of an event whose beginning came before. */
static int complete_event(struct watch *w, struct slice data, struct http_exchange *down)
{
    bool whole = !w->passing_long && hold(w, data);
    if (!w->passing_long && !read_event(w, buf_slice(&w->held)) && whole) {
        drop_held(w);
        return 0;
    }
    w->passing_long = false;
    int rc = send_held(w, down);
    if (rc != 0 || whole) {
        return rc;
    }
    return send_nonempty(down, data);
}

static struct slice slice_after(struct slice data, size_t n)
{
    return slice_of(data.ptr + n, data.len - n);
}

/* From a boundary on. */
static int pass_events(struct watch *w, struct slice data, struct http_exchange *down)
{
    struct slice rest = data;
    int rc = 0;
    for (size_t n; rc == 0 && rest.len > 0 && (n = frames_next(&w->frames, rest)) > 0;) {
        bool passes = read_event(w, slice_of(rest.ptr, n));
        if (!passes) {
            rc = send_nonempty(down, slice_of(data.ptr, data.len - rest.len));
            data = slice_after(rest, n);
        }
        rest = slice_after(rest, n);
    }
    if (rc != 0) {
        return rc;
    }
    rc = send_nonempty(down, slice_of(data.ptr, data.len - rest.len));
    if (rc != 0) {
        return rc;
    }
    return hold_part(w, rest, down);
}

int watch_feed(struct watch *w, struct slice data, struct http_exchange *down)
{
    if (w->state == WATCH_SILENT) {
        return 0;
    }
    if (w->encoding == ENCODING_OTHER) {
        return send_nonempty(down, data);
    }
    if (!frames_at_boundary(&w->frames)) {
        size_t n = frames_next(&w->frames, data);
        if (n == 0) {
            return hold_part(w, data, down);
        }
        int rc = complete_event(w, slice_of(data.ptr, n), down);
        if (rc != 0) {
            return rc;
        }
        data = slice_after(data, n);
    }
    if (w->state == WATCH_LAST) {
        set_state(w, WATCH_SILENT);
        return 0;
    }
    return pass_events(w, data, down);
}

/* ---- the end ---- */

int watch_end(struct watch *w, struct http_exchange *down)
{
    if (w->held.len == 0) {
        return 0;
    }
    if (!read_event(w, buf_slice(&w->held))) {
        drop_held(w);
        return 0;
    }
    return send_held(w, down);
}

int watch_bookmark(struct watch *w, const struct object_type *type, uint64_t version,
                   struct http_exchange *down)
{
    const struct watch_frame ev = {.type = WATCH_FRAME_BOOKMARK, .resource_version = version};
    struct buf event = BUF_INIT(BOOKMARK_MAX);
    int rc = watch_frame_write_bookmark(w->encoding, type, version, &event);
    if (rc == 0) {
        note_version(w, &ev);
        rc = send_nonempty(down, buf_slice(&event));
    }
    buf_reset(&event);
    return rc;
}

void watch_silence(struct watch *w)
{
    if (w->state == WATCH_PASSING) {
        set_state(w, w->passing_long ? WATCH_LAST : WATCH_SILENT);
        w->account->changing = 1;
        drop_held(w);
    }
}

void watch_stands(struct watch *w, uint64_t version)
{
    w->version = version;
}

void watch_mix(struct watch *w, uint64_t lowest)
{
    struct delivered_account *a = w->account;
    uint64_t from = lowest != 0 && lowest < w->version ? lowest : w->version;
    a->mixed = delivered_join(a->mixed, a->delivered);
    a->mixed = delivered_join(a->mixed, (struct delivered_range){.from = from, .to = w->version});
    a->delivered = DELIVERED_NOTHING;
}

void watch_migrated(struct watch *w, const struct delivered_key *key, uint64_t lowest)
{
    watch_mix(w, lowest);
    w->account->unknown = false;
    w->account->key = *key;
    w->account->changing = 0;
    delivered_saw(w->points, key, w->version);
    set_state(w, WATCH_PASSING);
    frames_init(&w->frames, w->encoding);
}

int watch_cut(struct watch *w, const char *message, struct http_exchange *down)
{
    struct buf event = BUF_INIT(CUT_MAX);
    if (w->encoding == ENCODING_OTHER) {
        return -ENOTSUP;
    }
    int rc = watch_frame_write_expired(w->encoding, message, &event);
    if (rc == 0) {
        rc = send_nonempty(down, buf_slice(&event));
    }
    buf_reset(&event);
    if (rc == 0) {
        rc = http_exchange_send_end(down);
    }
    if (rc == 0) {
        set_state(w, WATCH_CUT);
    }
    return rc;
}
