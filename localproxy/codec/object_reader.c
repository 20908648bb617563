/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/object_reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/buf.h"
#include "codec/gunzip.h"
#include "json/cursor.h"

/* What is awaited, in JSON. */
enum state {
    AT_START,  /* the object's bracket */
    AT_KEY,    /* a key, or the end of the object */
    IN_KEY,    /* its closing quote */
    AT_COLON,  /* ... */
    AT_VALUE,  /* the first byte of a value */
    IN_STRING, /* its closing quote */
    IN_NESTED, /* its closing bracket */
    IN_WORD,   /* what follows a number or literal */
};

/* Keys whose values are needed; the last two are those of the metadata. */
enum { KIND = 1, API_VERSION = 2, METADATA = 4, LABELS = 8, VERSION = 16 };

struct object_reader {
    enum encoding encoding;
    struct gunzip *zip; /* NULL: the body is not compressed, or no more of it is needed */
    struct buf held;
    struct byte_share share;
    bool over;   /* nothing more is needed */
    bool failed; /* and nothing can be read */

    enum state state;
    struct json_nesting nesting;
    bool escaped; /* in a string: the next byte is */
    bool keeps;   /* the value is held */
    bool inside;  /* of the metadata */
    size_t key;   /* where the last key begins in `held` */
    unsigned has; /* keys whose values have begun */
};

static void fail(struct object_reader *r)
{
    r->over = true;
    r->failed = true;
}

static bool may_take(struct object_reader *r, size_t size)
{
    return byte_share_try_within(&r->share, size, OBJECT_READER_MEMORY);
}

static void hold(struct object_reader *r, const char *ptr, size_t n)
{
    size_t size = (r->zip != NULL ? GUNZIP_MEMORY : 0) + buf_size_with(&r->held, n);
    if (!may_take(r, size) || buf_append(&r->held, ptr, n) != 0) {
        fail(r);
    }
}

static void take(struct slice *data, size_t n)
{
    *data = slice_of(data->ptr + n, data->len - n);
}

/* ---- JSON ---- */

/* 0: the value behind the key is not needed. */
static unsigned which_key(const struct object_reader *r)
{
    struct slice key = buf_slice(&r->held);
    take(&key, r->key);
    if (r->inside) {
        return slice_eq(key, SLICE("\"labels\":"))            ? LABELS
               : slice_eq(key, SLICE("\"resourceVersion\":")) ? VERSION
                                                              : 0;
    }
    return slice_eq(key, SLICE("\"kind\":"))         ? KIND
           : slice_eq(key, SLICE("\"apiVersion\":")) ? API_VERSION
           : slice_eq(key, SLICE("\"metadata\":"))   ? METADATA
                                                     : 0;
}

/* Of a value that is skipped a 0 is held. */
static void begin_value(struct object_reader *r, struct slice *data)
{
    char c = data->ptr[0];
    unsigned which = which_key(r);
    r->has |= which;
    if (which == METADATA && c == '{') {
        hold(r, "{", 1);
        take(data, 1);
        r->inside = true;
        r->state = AT_KEY;
        return;
    }
    r->keeps = which != 0;
    if (!r->keeps) {
        hold(r, "0", 1);
    }
    if (c == '{' || c == '[') {
        r->nesting = (struct json_nesting){.depth = 0};
        r->state = IN_NESTED;
    } else if (c != '"') {
        r->state = IN_WORD;
    } else {
        if (r->keeps) {
            hold(r, "\"", 1);
        }
        take(data, 1);
        r->state = IN_STRING;
    }
}

/* A byte between the values. */
static void step(struct object_reader *r, char c)
{
    if (r->state == AT_START && c == '{') {
        r->state = AT_KEY;
    } else if (r->state == AT_KEY && c == '"') {
        r->key = r->held.len;
        r->state = IN_KEY;
    } else if (r->state == AT_KEY && c == '}') {
        r->over = !r->inside;
        r->inside = false;
    } else if (r->state == AT_COLON && c == ':') {
        r->state = AT_VALUE;
    } else if (r->state != AT_KEY || c != ',') {
        fail(r);
        return;
    }
    hold(r, &c, 1);
}

static void take_between(struct object_reader *r, struct slice *data)
{
    char c = data->ptr[0];
    if (r->state == AT_VALUE && !ascii_is_space(c) && strchr(",:]}", c) == NULL) {
        begin_value(r, data);
        return;
    }
    if (!ascii_is_space(c)) {
        step(r, c);
    }
    take(data, 1);
}

static void take_string(struct object_reader *r, struct slice *data)
{
    const char *p = data->ptr;
    const char *end = p + data->len;
    bool closed = false;
    while (p < end && !closed) {
        p = r->escaped ? p : json_string_stop(p, end);
        if (p < end) {
            closed = !r->escaped && *p == '"';
            r->escaped = !r->escaped && *p == '\\';
            p++;
        }
    }
    size_t n = (size_t)(p - data->ptr);
    if (r->state == IN_KEY || r->keeps) {
        hold(r, data->ptr, n);
    }
    take(data, n);
    if (closed) {
        r->state = r->state == IN_KEY ? AT_COLON : AT_KEY;
    }
}

static void take_rest(struct object_reader *r, struct slice *data, size_t n, bool ends)
{
    if (r->keeps) {
        hold(r, data->ptr, n);
    }
    take(data, n);
    r->state = ends ? AT_KEY : r->state;
}

static void take_nested(struct object_reader *r, struct slice *data)
{
    const char *end = json_nesting_end(&r->nesting, data->ptr, data->ptr + data->len);
    take_rest(r, data, end == NULL ? data->len : (size_t)(end - data->ptr), end != NULL);
}

/* The byte behind it is left. */
static void take_word(struct object_reader *r, struct slice *data)
{
    size_t n = 0;
    while (n < data->len && strchr(",]}", data->ptr[n]) == NULL && !ascii_is_space(data->ptr[n])) {
        n++;
    }
    bool ends = n < data->len;
    take_rest(r, data, n, ends);
    if (ends && r->keeps) {
        hold(r, " ", 1); /* that it is whole shows in what follows */
    }
}

/* Whether all that object_meta_read looks for has come, between two values. */
static bool is_enough(const struct object_reader *r)
{
    unsigned all = KIND | API_VERSION | METADATA | (r->inside ? LABELS | VERSION : 0);
    return r->state == AT_KEY && (r->has & all) == all;
}

static void feed_json(struct object_reader *r, struct slice data)
{
    while (data.len > 0 && !r->over) {
        switch (r->state) {
        case IN_KEY:
        case IN_STRING:
            take_string(r, &data);
            break;
        case IN_NESTED:
            take_nested(r, &data);
            break;
        case IN_WORD:
            take_word(r, &data);
            break;
        case AT_START:
        case AT_KEY:
        case AT_COLON:
        case AT_VALUE:
            take_between(r, &data);
        }
        r->over = r->over || is_enough(r);
    }
}

/* ---- either ---- */

static void feed_protobuf(struct object_reader *r, struct slice data)
{
    size_t room = OBJECT_META_PROTOBUF_HEAD - r->held.len;
    hold(r, data.ptr, data.len < room ? data.len : room);
    r->over = r->over || data.len >= room;
}

static void feed_plain(struct object_reader *r, struct slice data)
{
    if (r->encoding == ENCODING_JSON) {
        feed_json(r, data);
    } else if (!r->over) {
        feed_protobuf(r, data);
    }
}

static bool on_inflated(void *data, struct slice inflated)
{
    struct object_reader *r = data;
    feed_plain(r, inflated);
    return !r->over;
}

bool object_reader_feed(struct object_reader *r, struct slice bytes)
{
    if (r->over) {
        return false;
    }
    if (r->zip == NULL) {
        feed_plain(r, bytes);
    } else if (gunzip_feed(r->zip, bytes, on_inflated, r) != 0 && !r->over) {
        fail(r);
    }
    if (r->over) {
        gunzip_free(r->zip);
        r->zip = NULL;
    }
    return !r->over;
}

bool object_reader_read(const struct object_reader *r, struct object_meta *out)
{
    bool whole = r->over || r->encoding != ENCODING_JSON;
    return whole && !r->failed && object_meta_read(r->encoding, buf_slice(&r->held), out);
}

struct object_reader *object_reader_new(enum encoding encoding, bool gzip,
                                        struct byte_budget *budget)
{
    struct object_reader *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return NULL;
    }
    r->encoding = encoding;
    buf_init(&r->held, OBJECT_READER_HELD_MAX);
    byte_share_init(&r->share, budget);
    if (gzip && may_take(r, GUNZIP_MEMORY)) {
        r->zip = gunzip_new();
    }
    if (gzip && r->zip == NULL) {
        object_reader_free(r);
        return NULL;
    }
    return r;
}

void object_reader_free(struct object_reader *r)
{
    if (r != NULL) {
        gunzip_free(r->zip);
        buf_reset(&r->held);
        byte_share_give_back(&r->share);
        free(r);
    }
}
