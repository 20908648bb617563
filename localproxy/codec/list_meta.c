/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/list_meta.h"

#include <stdlib.h>

#include "base/decimal.h"
#include "codec/encoding.h"
#include "codec/gunzip.h"
#include "codec/protobuf_scan.h"
#include "crypto/digest.h"
#include "json/cursor.h"

enum { HELD_MAX = 16 * 1024 };

/*
 *   AT_HEAD --metadata found--------------------------> DONE
 *      |  \---protobuf without it, broken gzip--------> DONE
 *      16 KiB of JSON without it
 *      v
 *   AT_END  --list_meta_end: found in the last 16 KiB-> DONE
 */
enum state {
    AT_HEAD, /* `held` is the body so far */
    AT_END,  /* `held` is a ring with the last HELD_MAX bytes of the body */
    DONE
};

struct list_meta {
    enum state state;
    enum encoding encoding;
    bool gzip;
    struct gunzip *zip; /* NULL: nothing was inflated yet, or it is not needed any more */
    char *held;
    size_t len;      /* of the body so far, inflated */
    size_t next_try; /* AT_HEAD: look again when the body is that long */
    struct list_meta_result found;
    struct list_objects *objects; /* NULL: they are not told, or not any more */
};

struct counting {
    struct list_meta meta; /* first: who frees it frees all */
    struct list_objects objects;
};

uint64_t list_meta_hash(struct slice token)
{
    char hex[SHA256_HEX_LEN + 1];
    sha256_hex(token.ptr, token.len, hex);
    hex[16] = '\0';
    uint64_t hash = strtoull(hex, NULL, 16);
    return hash == 0 ? 1 : hash;
}

static void stop_inflating(struct list_meta *m)
{
    gunzip_free(m->zip);
    m->zip = NULL;
}

static void finish_looking(struct list_meta *m)
{
    m->state = DONE;
    free(m->held);
    m->held = NULL;
    if (m->objects == NULL) {
        stop_inflating(m);
    }
}

/* ---- ListMeta ---- */

static uint64_t token_of(struct slice text)
{
    return text.len == 0 ? 0 : list_meta_hash(text);
}

/* False when it cannot be understood: no object, or a token that is written with escapes. */
static bool read_json(struct slice metadata, struct list_meta_result *r)
{
    struct json_cursor c = json_cursor_of(metadata);
    struct slice key;
    struct slice text;
    bool more = json_enter(&c, '{');
    bool entered = more;
    for (; more && json_next_key(&c, &key); more = json_skip(&c)) {
        struct json_cursor value = c;
        if (slice_eq(key, SLICE("resourceVersion")) && json_string(&value, &text)) {
            r->resource_version = decimal_or_zero(text);
        } else if (slice_eq(key, SLICE("continue")) && json_string(&value, &text)) {
            if (text.len > 0 && memchr(text.ptr, '\\', text.len) != NULL) {
                return false;
            }
            r->token = token_of(text);
        }
    }
    return entered;
}

enum { LIST_SELF_LINK = 1, LIST_VERSION = 2, LIST_CONTINUE = 3, LIST_REMAINING = 4 };

/* False when it is no ListMeta. Fields that came later than these (shardInfo, 5) are passed over.
 */
static bool read_protobuf(struct slice metadata, struct list_meta_result *r)
{
    struct protobuf_field f;
    enum protobuf_result rc;
    while ((rc = protobuf_next(&metadata, &f)) == PROTOBUF_FIELD) {
        if (f.number <= LIST_REMAINING &&
            f.wire != (f.number == LIST_REMAINING ? PROTOBUF_VARINT : PROTOBUF_BYTES)) {
            return false;
        }
        if (f.number == LIST_VERSION) {
            r->resource_version = decimal_or_zero(f.bytes);
        } else if (f.number == LIST_CONTINUE) {
            r->token = token_of(f.bytes);
        }
    }
    return rc == PROTOBUF_END;
}

/* ---- where it is ---- */

enum look { LOOK_FOUND, LOOK_MORE, LOOK_NEVER };

/* At the head: {"kind":...,"apiVersion":...,"metadata":{...},"items":[ */
static enum look look_json(struct slice head, struct list_meta_result *r)
{
    struct json_cursor c = json_cursor_of(head);
    struct slice key;
    struct slice value;
    for (bool more = json_enter(&c, '{'); more && json_next_key(&c, &key);) {
        more = json_value(&c, &value);
        if (more && slice_eq(key, SLICE("metadata"))) {
            return read_json(value, r) ? LOOK_FOUND : LOOK_NEVER;
        }
    }
    return LOOK_MORE;
}

/* The last key of that name. Nothing within a string looks like a key behind a comma or bracket, as
 * the quotes around it would be escaped. NULL when it is not certain. */
static const char *find_last_key(struct slice text, struct slice quoted)
{
    const char *last = NULL;
    struct slice rest = text;
    for (const char *p; (p = memmem(rest.ptr, rest.len, quoted.ptr, quoted.len)) != NULL;) {
        last = p;
        size_t taken = (size_t)(p - rest.ptr) + quoted.len;
        rest = slice_of(rest.ptr + taken, rest.len - taken);
    }
    const char *before = last;
    while (before != NULL && before > text.ptr && strchr(" \t\r\n", before[-1]) != NULL) {
        before--;
    }
    bool certain = before != NULL && before > text.ptr && (before[-1] == ',' || before[-1] == '{');
    return certain ? last : NULL;
}

/* At the end: ...],"kind":...,"metadata":{...}} and nothing more. The bracket that closes what the
 * metadata belongs to is the last of all, so that is the list itself and no item. */
static bool look_at_end(struct slice end, struct list_meta_result *r)
{
    struct json_cursor c = {.at = find_last_key(end, SLICE("\"metadata\"")),
                            .end = end.ptr + end.len};
    struct slice key;
    struct slice metadata;
    if (c.at == NULL || !json_next_key(&c, &key) || !json_value(&c, &metadata)) {
        return false;
    }
    while (!json_enter(&c, '}')) {
        if (!json_next_key(&c, &key) || !json_skip(&c)) {
            return false;
        }
    }
    return json_at_end(&c) && read_json(metadata, r);
}

static bool is_list(struct slice type_meta)
{
    const struct slice ending = SLICE("List");
    struct slice kind = protobuf_find(type_meta, TYPE_META_KIND);
    return kind.len >= ending.len &&
           memcmp(kind.ptr + kind.len - ending.len, ending.ptr, ending.len) == 0;
}

/* "k8s\0", Unknown{typeMeta, raw: XList{metadata, ... */
static enum look look_protobuf(struct slice head, struct list_meta_result *r)
{
    const struct slice magic = PROTOBUF_MAGIC;
    if (memcmp(head.ptr, magic.ptr, head.len < magic.len ? head.len : magic.len) != 0) {
        return LOOK_NEVER;
    }
    if (head.len <= magic.len) {
        return LOOK_MORE;
    }
    struct slice rest = slice_of(head.ptr + magic.len, head.len - magic.len);
    struct protobuf_field f;
    enum protobuf_result rc = protobuf_next(&rest, &f);
    if (rc == PROTOBUF_FIELD &&
        (f.number != UNKNOWN_TYPE_META || f.wire != PROTOBUF_BYTES || !is_list(f.bytes))) {
        return LOOK_NEVER;
    }
    /* The list is longer than what is here: only the head of its field is taken. */
    rc = rc == PROTOBUF_FIELD ? protobuf_head(&rest, &f) : rc;
    if (rc == PROTOBUF_FIELD &&
        (f.number != UNKNOWN_RAW || f.wire != PROTOBUF_BYTES || f.value == 0)) {
        return LOOK_NEVER;
    }
    uint64_t list_len = f.value;
    size_t before = rest.len;
    rc = rc == PROTOBUF_FIELD ? protobuf_next(&rest, &f) : rc;
    if (rc != PROTOBUF_FIELD) {
        return rc == PROTOBUF_MALFORMED ? LOOK_NEVER : LOOK_MORE;
    }
    bool found = f.number == OBJECT_METADATA && f.wire == PROTOBUF_BYTES &&
                 before - rest.len <= list_len && read_protobuf(f.bytes, r);
    return found ? LOOK_FOUND : LOOK_NEVER;
}

/* Whether all that can be learnt at the head has been. */
static bool look_at_head(struct list_meta *m, struct slice head)
{
    struct list_meta_result r = {0, 0};
    enum look look = m->encoding == ENCODING_JSON ? look_json(head, &r) : look_protobuf(head, &r);
    if (look == LOOK_FOUND) {
        m->found = r;
    }
    return look != LOOK_MORE;
}

/* No more is coming. */
static void look_at_rest(struct list_meta *m)
{
    if (m->state == AT_HEAD && m->len > 0) {
        (void)look_at_head(m, slice_of(m->held, m->len));
    }
    finish_looking(m);
}

/* ---- the body ---- */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Holds the first HELD_MAX bytes and looks at them now and then. What it did not take is left in
 * `data`. */
static void feed_head(struct list_meta *m, struct slice *data)
{
    size_t n = smaller(data->len, HELD_MAX - m->len);
    if (m->len == 0 && look_at_head(m, slice_of(data->ptr, n))) {
        finish_looking(m);
        return;
    }
    if (m->held == NULL) {
        m->held = malloc(HELD_MAX);
        m->next_try = 2 * n;
    }
    if (m->held == NULL) {
        finish_looking(m);
        return;
    }
    memcpy(m->held + m->len, data->ptr, n);
    m->len += n;
    *data = slice_of(data->ptr + n, data->len - n);
    if (m->len < m->next_try && m->len < HELD_MAX) {
        return;
    }
    m->next_try = 2 * m->len;
    bool full = m->len == HELD_MAX;
    if (look_at_head(m, slice_of(m->held, m->len)) || (full && m->encoding != ENCODING_JSON)) {
        finish_looking(m);
    } else if (full) {
        m->state = AT_END;
    }
}

static void feed_ring(struct list_meta *m, struct slice data)
{
    if (data.len > HELD_MAX) {
        m->len += data.len - HELD_MAX;
        data = slice_of(data.ptr + data.len - HELD_MAX, HELD_MAX);
    }
    while (data.len > 0) {
        size_t at = m->len % HELD_MAX;
        size_t n = smaller(data.len, HELD_MAX - at);
        memcpy(m->held + at, data.ptr, n);
        m->len += n;
        data = slice_of(data.ptr + n, data.len - n);
    }
}

static void feed_plain(struct list_meta *m, struct slice data)
{
    if (m->objects != NULL) {
        list_objects_feed(m->objects, data);
    }
    if (m->state == AT_HEAD && data.len > 0) {
        feed_head(m, &data);
    }
    if (m->state == AT_END) {
        feed_ring(m, data);
    }
}

/* Whether what comes is looked at. */
static bool is_wanted(const struct list_meta *m)
{
    return m->state != DONE || m->objects != NULL;
}

static bool on_inflated(void *data, struct slice inflated)
{
    struct list_meta *m = data;
    feed_plain(m, inflated);
    return is_wanted(m);
}

static void feed_gzip(struct list_meta *m, struct slice data)
{
    if (m->zip == NULL) {
        m->zip = gunzip_new();
    }
    if (m->zip == NULL || gunzip_feed(m->zip, data, on_inflated, m) != 0) {
        m->objects = NULL;
        look_at_rest(m);
    }
}

static void init(struct list_meta *m, struct slice content_type, struct slice content_encoding)
{
    m->encoding = encoding_of(content_type);
    m->gzip = slice_ieq(content_encoding, SLICE("gzip"));
    bool plain = content_encoding.len == 0 || slice_ieq(content_encoding, SLICE("identity"));
    m->state = m->encoding == ENCODING_OTHER || (!plain && !m->gzip) ? DONE : AT_HEAD;
}

struct list_meta *list_meta_new(struct slice content_type, struct slice content_encoding)
{
    struct list_meta *m = calloc(1, sizeof *m);
    if (m != NULL) {
        init(m, content_type, content_encoding);
    }
    return m;
}

struct list_meta *list_meta_new_counting(struct slice content_type, struct slice content_encoding,
                                         bool namespaces, list_objects_cb cb, void *data)
{
    struct counting *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    init(&c->meta, content_type, content_encoding);
    if (c->meta.state != DONE) {
        list_objects_init(&c->objects, c->meta.encoding, namespaces, cb, data);
        c->meta.objects = &c->objects;
    }
    return &c->meta;
}

bool list_meta_counts(const struct list_meta *m)
{
    return m->objects != NULL;
}

void list_meta_free(struct list_meta *m)
{
    if (m != NULL) {
        finish_looking(m);
        stop_inflating(m);
        free(m);
    }
}

void list_meta_feed(struct list_meta *m, struct slice data)
{
    if (!is_wanted(m) || data.len == 0) {
        return;
    }
    if (m->gzip) {
        feed_gzip(m, data);
    } else {
        feed_plain(m, data);
    }
}

static void reverse(char *from, char *to)
{
    while (from < to) {
        char c = *from;
        *from++ = *--to;
        *to = c;
    }
}

/* Makes the ring begin with its oldest byte. */
static void straighten(struct list_meta *m)
{
    size_t oldest = m->len % HELD_MAX;
    reverse(m->held, m->held + oldest);
    reverse(m->held + oldest, m->held + HELD_MAX);
    reverse(m->held, m->held + HELD_MAX);
}

void list_meta_end(struct list_meta *m, struct list_meta_result *result)
{
    if (m->state == AT_END) {
        struct list_meta_result r = {0, 0};
        straighten(m);
        if (look_at_end(slice_of(m->held, HELD_MAX), &r)) {
            m->found = r;
        }
    }
    look_at_rest(m);
    *result = m->found;
}
