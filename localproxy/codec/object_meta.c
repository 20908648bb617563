/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/object_meta.h"

#include <string.h>

#include "base/decimal.h"
#include "codec/protobuf_scan.h"
#include "json/cursor.h"

enum {
    METADATA_VERSION = 6,
    METADATA_LABELS = 11,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
};

static bool add_label(struct object_meta *m, struct slice key, struct slice value)
{
    if (m->label_count == OBJECT_META_LABELS) {
        return false;
    }
    m->labels[m->label_count++] = (struct selector_label){.key = key, .value = value};
    return true;
}

/* ---- JSON ---- */

/* Takes a string; an escape has no place in labels, versions and types. */
static bool take_plain(struct json_cursor *c, struct slice *text)
{
    return json_string(c, text) && (text->len == 0 || memchr(text->ptr, '\\', text->len) == NULL);
}

/* Those of null are none. */
static bool read_json_labels(struct json_cursor c, struct object_meta *m)
{
    struct slice key;
    struct slice value;
    if (!json_enter(&c, '{')) {
        return json_value(&c, &value) && slice_eq(value, SLICE("null"));
    }
    while (json_next_key(&c, &key)) {
        if (memchr(key.ptr, '\\', key.len) != NULL || !take_plain(&c, &value) ||
            !add_label(m, key, value)) {
            return false;
        }
    }
    return true;
}

static bool read_json_metadata(struct json_cursor c, struct object_meta *m)
{
    struct slice key;
    struct slice text;
    bool version = false;
    bool labels = false;
    for (bool more = json_enter(&c, '{'); more && json_next_key(&c, &key); more = json_skip(&c)) {
        struct json_cursor value = c;
        if (slice_eq(key, SLICE("resourceVersion"))) {
            m->resource_version = take_plain(&value, &text) ? decimal_or_zero(text) : 0;
            version = true;
        } else if (slice_eq(key, SLICE("labels"))) {
            if (!read_json_labels(c, m)) {
                return false;
            }
            labels = true;
        }
        if (version && labels) {
            break; /* managedFields are long */
        }
    }
    return true;
}

static bool read_json(struct json_cursor c, struct object_meta *m)
{
    struct slice key;
    bool found = false;
    struct object_type *t = &m->type;
    for (bool more = json_enter(&c, '{'); more && json_next_key(&c, &key); more = json_skip(&c)) {
        struct json_cursor value = c;
        if (slice_eq(key, SLICE("metadata"))) {
            found = read_json_metadata(c, m);
        } else if ((slice_eq(key, SLICE("kind")) && !take_plain(&value, &t->kind)) ||
                   (slice_eq(key, SLICE("apiVersion")) && !take_plain(&value, &t->api_version))) {
            return false;
        }
        if (found && t->kind.len > 0 && t->api_version.len > 0) {
            break;
        }
    }
    return found;
}

/* ---- protobuf ---- */

/* The message in field `number`; `whole`: its end is there. */
static struct slice enter_field(struct slice message, uint32_t number, bool *whole)
{
    struct protobuf_field f;
    do {
        struct slice value = message;
        if (protobuf_head(&value, &f) != PROTOBUF_FIELD) {
            break;
        }
        if (f.number == number && f.wire == PROTOBUF_BYTES) {
            *whole = f.value <= value.len;
            return slice_of(value.ptr, *whole ? (size_t)f.value : value.len);
        }
    } while (protobuf_next(&message, &f) == PROTOBUF_FIELD);
    return slice_of(NULL, 0);
}

static bool read_protobuf(struct slice envelope, struct object_meta *m)
{
    const struct slice magic = PROTOBUF_MAGIC;
    if (envelope.len < magic.len || memcmp(envelope.ptr, magic.ptr, magic.len) != 0) {
        return false;
    }
    struct slice unknown = slice_of(envelope.ptr + magic.len, envelope.len - magic.len);
    struct slice type = protobuf_find(unknown, UNKNOWN_TYPE_META);
    m->type = (struct object_type){.kind = protobuf_find(type, TYPE_META_KIND),
                                   .api_version = protobuf_find(type, TYPE_META_API_VERSION)};
    bool whole = true;
    struct slice object = enter_field(unknown, UNKNOWN_RAW, &whole);
    struct slice metadata = enter_field(object, OBJECT_METADATA, &whole);
    struct protobuf_field f = {.number = 0};
    enum protobuf_result rc;
    while ((rc = protobuf_next(&metadata, &f)) == PROTOBUF_FIELD) {
        if (f.wire == PROTOBUF_BYTES && f.number == METADATA_VERSION) {
            m->resource_version = decimal_or_zero(f.bytes);
        } else if (f.wire == PROTOBUF_BYTES && f.number == METADATA_LABELS &&
                   !add_label(m, protobuf_find(f.bytes, ENTRY_KEY),
                              protobuf_find(f.bytes, ENTRY_VALUE))) {
            return false;
        }
    }
    return whole ? rc == PROTOBUF_END : rc != PROTOBUF_MALFORMED && f.number > METADATA_LABELS;
}

bool object_meta_read(enum encoding encoding, struct slice object, struct object_meta *out)
{
    out->type = (struct object_type){{NULL, 0}, {NULL, 0}};
    out->resource_version = 0;
    out->label_count = 0;
    bool read = encoding == ENCODING_JSON       ? read_json(json_cursor_of(object), out)
                : encoding == ENCODING_PROTOBUF ? read_protobuf(object, out)
                                                : false;
    return read && out->resource_version != 0;
}
