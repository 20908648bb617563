/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/watch_frame_write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/utf8.h"
#include "codec/protobuf_scan.h"
#include "kube/status.h"
#include "json/cursor.h"

enum { MESSAGE_MAX = 1024, EXPIRED = 410, VERSION_MAX = 24 };

static int write_expired_json(const char *message, struct buf *out)
{
    buf_append_str(out, "{\"type\":\"ERROR\",\"object\":");
    int rc = status_write(out, EXPIRED, NULL, 0, "%s", message);
    if (rc != 0) {
        return rc;
    }
    return buf_append_str(out, "}\n");
}

static size_t varint_size(uint64_t value)
{
    size_t n = 1;
    for (; value >= 0x80; value >>= 7) {
        n++;
    }
    return n;
}

/* Tag, length and content of a length-delimited field whose number is below 16. */
static size_t field_size(size_t len)
{
    return 1 + varint_size(len) + len;
}

static void put_varint(struct buf *out, uint64_t value)
{
    char bytes[PROTOBUF_VARINT_MAX];
    buf_append(out, bytes, protobuf_put_varint(bytes, value));
}

/* The head of a length-delimited field. */
static void put_head(struct buf *out, unsigned field, size_t len)
{
    buf_append_char(out, (char)(field << 3 | 2));
    put_varint(out, len);
}

static void put_field(struct buf *out, unsigned field, struct slice content)
{
    put_head(out, field, content.len);
    buf_append(out, content.ptr, content.len);
}

static void put_length(struct buf *out, size_t len)
{
    const uint8_t bytes[] = {(uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8),
                             (uint8_t)len};
    if (len > UINT32_MAX) {
        buf_fail(out, -ENOBUFS);
    }
    buf_append(out, bytes, sizeof bytes);
}

/* The ends of an envelope: no contentEncoding and no contentType. */
static const struct slice envelope_end = {"\x1a\x00\x22\x00", 4};

/* Everything of an event before the object's own bytes, of which `object_len` have to follow, and
 * then envelope_end. */
static void put_envelope(struct buf *out, struct slice type, const struct object_type *meta,
                         size_t object_len)
{
    size_t meta_len = field_size(meta->api_version.len) + field_size(meta->kind.len);
    const struct slice magic = PROTOBUF_MAGIC;
    size_t raw_len = magic.len + field_size(meta_len) + field_size(object_len) + envelope_end.len;
    size_t event_len = field_size(type.len) + field_size(field_size(raw_len));
    put_length(out, event_len);
    put_field(out, 1, type);
    put_head(out, 2, field_size(raw_len));
    put_head(out, 1, raw_len);
    buf_append(out, magic.ptr, magic.len);
    put_head(out, 1, meta_len);
    put_field(out, 1, meta->api_version);
    put_field(out, 2, meta->kind);
    put_head(out, 2, object_len);
}

static void put_status_fields(struct buf *out, struct slice message)
{
    put_field(out, 1, SLICE("")); /* metadata */
    put_field(out, 2, SLICE("Failure"));
    put_field(out, 3, message);
    put_field(out, 4, slice_str(status_reason(EXPIRED)));
    buf_append_char(out, 6 << 3); /* code */
    put_varint(out, EXPIRED);
}

static int write_expired_protobuf(const char *message, struct buf *out)
{
    static const struct object_type meta = {.kind = {"Status", 6}, .api_version = {"v1", 2}};
    struct buf text = BUF_INIT(4 * MESSAGE_MAX);
    struct buf status = BUF_INIT(5 * MESSAGE_MAX);
    buf_append_str(&text, "cmesh: ");
    utf8_append_valid(&text, slice_str(message));
    put_status_fields(&status, buf_slice(&text));
    put_envelope(out, SLICE("ERROR"), &meta, status.len);
    buf_append(out, buf_data(&status), status.len);
    buf_append(out, envelope_end.ptr, envelope_end.len);
    buf_fail(out, buf_error(&text));
    int rc = buf_fail(out, buf_error(&status));
    buf_reset(&status);
    buf_reset(&text);
    return rc;
}

/* Undoes what an event wrote before it failed. */
static int undo_on_error(struct buf *out, size_t before, int rc)
{
    if (rc != 0) {
        buf_truncate(out, before);
    }
    return rc;
}

int watch_frame_write_expired(enum encoding encoding, const char *message, struct buf *out)
{
    if (encoding == ENCODING_OTHER) {
        return -ENOTSUP;
    }
    char bounded[MESSAGE_MAX];
    (void)snprintf(bounded, sizeof bounded, "%s", message);
    size_t before = out->len;
    int rc = encoding == ENCODING_JSON ? write_expired_json(bounded, out)
                                       : write_expired_protobuf(bounded, out);
    return undo_on_error(out, before, rc);
}

/* ---- items ---- */

/* What of its type an item has to be told. */
struct missing {
    bool kind;
    bool api_version;
    bool all; /* it has no members whatever */
};

/* False when it is no object. */
static bool find_missing(struct slice item, struct missing *m)
{
    struct json_cursor c = json_cursor_of(item);
    struct slice key;
    *m = (struct missing){.kind = true, .api_version = true, .all = true};
    bool more = json_enter(&c, '{');
    if (!more) {
        return false;
    }
    for (; more && json_next_key(&c, &key) && (m->kind || m->api_version); more = json_skip(&c)) {
        m->all = false;
        m->kind = m->kind && !slice_eq(key, SLICE("kind"));
        m->api_version = m->api_version && !slice_eq(key, SLICE("apiVersion"));
    }
    return true;
}

static void put_member(struct buf *out, const char *key, struct slice value, bool last)
{
    buf_printf(out, "\"%s\":\"%.*s\"%s", key, (int)value.len, value.ptr, last ? "" : ",");
}

/* Where the server has them: first, kind before apiVersion. */
static void put_type(struct buf *out, const struct object_type *type, const struct missing *m)
{
    if (m->kind) {
        put_member(out, "kind", type->kind, m->all && !m->api_version);
    }
    if (m->api_version) {
        put_member(out, "apiVersion", type->api_version, m->all);
    }
}

/* White space between tokens is all that a line feed can be: an event has to stay one line. */
static void join_lines(struct buf *out, size_t from)
{
    uint8_t *p = buf_data(out) + from;
    uint8_t *end = buf_data(out) + out->len;
    while (p < end && (p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
        *p++ = ' ';
    }
}

static int write_item_json(enum watch_frame_type event, const struct object_type *type,
                           struct slice item, struct buf *out)
{
    struct missing m;
    if (!find_missing(item, &m) || (m.kind && type->kind.len == 0) ||
        (m.api_version && type->api_version.len == 0)) {
        return -EINVAL;
    }
    const char *open = memchr(item.ptr, '{', item.len);
    size_t taken = (size_t)(open - item.ptr) + 1;
    size_t before = out->len;
    buf_printf(out, "{\"type\":\"%s\",\"object\":{", watch_frame_type_name(event));
    put_type(out, type, &m);
    buf_append(out, item.ptr + taken, item.len - taken);
    if (buf_error(out) == 0) {
        join_lines(out, before);
    }
    return buf_append_str(out, "}\n");
}

static int write_object_protobuf(enum watch_frame_type event, const struct object_type *type,
                                 struct slice object, struct buf *out)
{
    if (type->kind.len == 0 || type->api_version.len == 0) {
        return -EINVAL;
    }
    put_envelope(out, slice_str(watch_frame_type_name(event)), type, object.len);
    buf_append(out, object.ptr, object.len);
    return buf_append(out, envelope_end.ptr, envelope_end.len);
}

int watch_frame_write_item(enum encoding encoding, enum watch_frame_type event,
                           const struct object_type *type, struct slice item, struct buf *out)
{
    size_t before = out->len;
    switch (encoding) {
    case ENCODING_JSON:
        return undo_on_error(out, before, write_item_json(event, type, item, out));
    case ENCODING_PROTOBUF:
        return undo_on_error(out, before, write_object_protobuf(event, type, item, out));
    default:
        return -ENOTSUP;
    }
}

/* ---- bookmarks ---- */

static int write_bookmark_json(const struct object_type *type, const char *version, struct buf *out)
{
    static const struct missing both = {.kind = true, .api_version = true};
    if (type->kind.len == 0 || type->api_version.len == 0) {
        return -EINVAL;
    }
    buf_append_str(out, "{\"type\":\"BOOKMARK\",\"object\":{");
    put_type(out, type, &both);
    return buf_printf(
        out, "\"metadata\":{\"resourceVersion\":\"%s\",\"creationTimestamp\":null}}}\n", version);
}

/* An object that has nothing but metadata with a version. */
static int write_bookmark_protobuf(const struct object_type *type, const char *version,
                                   struct buf *out)
{
    char object[8 + VERSION_MAX];
    size_t len = strlen(version);
    int n = snprintf(object, sizeof object, "\x0a%c\x32%c%s", (int)len + 2, (int)len, version);
    return write_object_protobuf(WATCH_FRAME_BOOKMARK, type, slice_of(object, (size_t)n), out);
}

int watch_frame_write_bookmark(enum encoding encoding, const struct object_type *type,
                               uint64_t resource_version, struct buf *out)
{
    char version[VERSION_MAX];
    (void)snprintf(version, sizeof version, "%" PRIu64, resource_version);
    size_t before = out->len;
    switch (encoding) {
    case ENCODING_JSON:
        return undo_on_error(out, before, write_bookmark_json(type, version, out));
    case ENCODING_PROTOBUF:
        return undo_on_error(out, before, write_bookmark_protobuf(type, version, out));
    default:
        return -ENOTSUP;
    }
}
